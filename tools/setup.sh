#!/usr/bin/env bash
# Set penstock up in .venv: check what the machine must have, install the pinned Python packages, build the engine.
# Safe to repeat: each step is skipped when its inputs have not changed. `setup.sh upgrade` re-resolves the pins, `setup.sh docs` adds what the
# site is built with, `setup.sh fast` builds the engine with the profile `fast` (seconds instead of a minute per change; runs are a little slower).
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
missing=0
lack() { say "missing: $1"; say "         $2"; missing=1; }

# --- what the machine must have -------------------------------------------------------------------------------
python=""
for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    found=$(python3 --version 2>/dev/null || echo "none on PATH")
    lack "Python 3.11 or newer (found: $found)" "install it, or name it: make setup PYTHON=/path/to/python3"
elif [ ! -x .venv/bin/python ] && ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    lack "the venv module of $("$python" --version)" "on Debian or Ubuntu: apt install python3-venv"
fi

[ -x "$HOME/.cargo/bin/cargo" ] && PATH="$PATH:$HOME/.cargo/bin"
need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null 2>&1; then
    lack "a Rust toolchain (cargo), $need or newer" "install it from https://rustup.rs"
else
    have=$(cargo --version | sed 's/^cargo \([0-9.]*\).*/\1/')
    if [ "$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -1)" != "$need" ]; then
        lack "Rust $need or newer (found: $have)" "update it: rustup update stable"
    fi
fi
if ! command -v cc >/dev/null 2>&1 && ! command -v gcc >/dev/null 2>&1 && ! command -v clang >/dev/null 2>&1; then
    lack "a C linker (cc), which Rust links with" "on Debian or Ubuntu: apt install gcc libc6-dev"
fi
[ "$missing" = 0 ] || { say "Nothing was changed. Install the above and run make again."; exit 1; }

# --- Python packages ----------------------------------------------------------------------------------------------
if [ ! -x .venv/bin/python ] || ! .venv/bin/python -c 'import pip' >/dev/null 2>&1; then
    say "creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi
# What the site is built with comes once it is asked for, and stays.
[ "${1:-}" != docs ] || touch .venv/penstock-docs
packages=$(.venv/bin/python - <<'PY'
import os, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = ["dev", "docs"] if os.path.exists(".venv/penstock-docs") else ["dev"]
print("\n".join(project["dependencies"] + [line for extra in extras for line in project["optional-dependencies"][extra]]))
PY
)
network() { say "failed: the Python packages could not be installed (output above). Is a package index reachable?"; exit 1; }
if [ "${1:-}" = upgrade ]; then
    .venv/bin/pip install --quiet --upgrade --requirement <(echo "$packages") || network
    { head -1 constraints.txt; .venv/bin/pip freeze --exclude penstock --exclude penstock-papers --exclude-editable; } >constraints.tmp
    mv constraints.tmp constraints.txt
fi
wanted=$({ cat constraints.txt; echo "$packages"; } | cksum)
if [ "$(cat .venv/penstock-packages 2>/dev/null)" != "$wanted" ]; then
    say "installing the Python packages"
    .venv/bin/pip install --quiet --constraint constraints.txt --requirement <(echo "$packages") || network
    echo "$wanted" >.venv/penstock-packages
fi

# --- the papers ---------------------------------------------------------------------------------------------------
# A distribution of its own, used in place. Without its dependencies: the engine is built below.
if [ ! -f .venv/penstock-papers ] || [ papers/pyproject.toml -nt .venv/penstock-papers ]; then
    .venv/bin/pip install --quiet --no-build-isolation --no-deps --editable ./papers || network
    touch .venv/penstock-papers
fi

# --- engine -------------------------------------------------------------------------------------------------------
# The Python sources are used in place; only a change on the Rust side needs a build.
built=.venv/penstock-engine
# Own congestion controls in the kernel (live runs only) are built where their tools are, and left out where not.
features=()
if [ "$(uname -s)" = Linux ]; then
    without=""
    command -v "${CLANG:-clang}" >/dev/null 2>&1 || without="$without clang"
    command -v pkg-config >/dev/null 2>&1 || without="$without pkg-config"
    for header in libelf.h zlib.h; do
        printf '#include <%s>\n' "$header" | cc -E - >/dev/null 2>&1 || without="$without $header"
    done
    # A build that failed with them is not tried again: `make clean` forgets it.
    [ ! -f .venv/penstock-no-bpf ] || without="$without libbpf"
    if [ -z "$without" ]; then
        features=(--features live-bpf)
    else
        [ -f "$built" ] || say "without DCTCP and steered sockets in the kernel (penstock live): missing$without"
        [ -f "$built" ] || say "         on Debian or Ubuntu: apt install clang libelf-dev zlib1g-dev pkg-config"
    fi
fi
# The engine in place is a release or a fast one; every target but `make dev` wants the release.
profile=(--release) kind=""
[ "${1:-}" != fast ] || profile=(--profile fast) kind=" fast"
if [ -f "$built" ] && [ "$(cat "$built")" = "${features[*]}$kind" ] && .venv/bin/python -c 'import penstock._engine' >/dev/null 2>&1 &&
    [ -z "$(find Cargo.toml Cargo.lock pyproject.toml constraints.txt crates -newer "$built" -type f -print -quit)" ]; then
    exit 0
fi
say "building the engine${kind:+,$kind} (about a minute the first time)"
started=$(mktemp)
export PIP_CONSTRAINT="$PWD/constraints.txt" PIP_QUIET=1
locked=()
[ -f Cargo.lock ] && locked=(--locked)
build() { .venv/bin/maturin develop "${profile[@]}" --quiet "${locked[@]}" "${features[@]}" >&2; }
built_well=true
build || built_well=false
if ! $built_well && [ "${#features[@]}" -gt 0 ]; then
    say "building once more, without DCTCP and steered sockets in the kernel (penstock live)"
    features=()
    if build; then
        built_well=true
        touch .venv/penstock-no-bpf
    fi
fi
if ! $built_well; then
    rm -f "$started"
    say "failed: the engine did not build (output above). Are the crates' registry and a C linker available?"
    exit 1
fi
echo "${features[*]}$kind" >"$built"
touch -r "$started" "$built"      # sources edited during the build count as newer
rm -f "$started"
