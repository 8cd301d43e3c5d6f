#!/usr/bin/env bash
# Build wheel and sdist into dist/: an abi3 wheel for every Python from 3.11 on, with the page, without BPF, its engine by a profile of what runs
# do (pgo.sh) where that can be made.
# With zig (pip's `ziglang`) it is linked against glibc 2.17 (manylinux2014) whatever this machine has; without it against the machine's own
# glibc, which the tag in the wheel's name tells.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '%s\n' "$*" >&2; }
[ -x "$HOME/.cargo/bin/cargo" ] && PATH="$PATH:$HOME/.cargo/bin"
export PATH="$PWD/.venv/bin:$PATH" VIRTUAL_ENV="$PWD/.venv"

[ -f python/penstock/page/penstock.wasm.zst ] || { say "failed: a wheel has the page, which was not built (make setup says why)"; exit 1; }
zig=(--zig)
if ! .venv/bin/python -c 'import ziglang' 2>/dev/null &&
    ! .venv/bin/pip install --quiet --constraint constraints.txt ziglang; then
    say "without zig: the wheel needs the glibc of this machine ($(getconf GNU_LIBC_VERSION 2>/dev/null || echo unknown)) or newer"
    zig=()
fi
# What only a checkout knows goes with the files, and away again.
trap 'rm -f python/penstock/commit.txt python/penstock/LICENSES.txt' EXIT
commit=$(git rev-parse --short=10 HEAD 2>/dev/null || true)
[ -z "$commit" ] || [ -z "$(git status --porcelain --untracked-files=no)" ] || commit="$commit+"
echo "$commit" >python/penstock/commit.txt
.venv/bin/python tools/licences.py write
rm -rf dist
if tools/pgo.sh possible; then
    tools/pgo.sh wheel "${zig[@]}"
else
    say "without a profile: the wheel's engine takes 3 to 9 % more time (rustup component add llvm-tools)"
    .venv/bin/maturin build --release --locked --quiet "${zig[@]}" --out dist
fi
.venv/bin/maturin sdist --out dist >&2
.venv/bin/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist ./papers
for file in dist/*; do say "$file ($(du -k "$file" | cut -f1) KB)"; done
