#!/usr/bin/env bash
# Build the page that `penstock view` writes and the plots of reports, into python/penstock/page: WebAssembly of the engine, bundled
# TypeScript, licences. Without Node 20 and npm nothing is built, without Rust's wasm32-unknown-unknown target no engine for the page;
# one line says what is missing. Where rustup is, it adds the target.
# Safe to repeat: nothing is done when no input has changed.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '%s\n' "$*" >&2; }
out=python/penstock/page
[ -x "$HOME/.cargo/bin/cargo" ] && PATH="$PATH:$HOME/.cargo/bin"

if [ -f "$out/penstock.wasm.zst" ] && [ -f "$out/page.js" ] && [ -f "$out/figures.js" ] &&
    [ -z "$(find Cargo.toml Cargo.lock page/src page/package-lock.json page/build.mjs tools/page.sh \
        crates/{units,core,fabric,host,models,sim,page} -newer "$out/page.js" -type f -print -quit)" ]; then
    exit 0
fi
without=""
version=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/')
[ "${version:-0}" -ge 20 ] || without="$without, Node 20 or newer"
command -v npm >/dev/null 2>&1 || without="$without, npm"
if [ -n "$without" ]; then
    say "without the page (penstock view) and the plots in reports: missing ${without#, }"
    exit 0
fi
say "building the page (about two minutes the first time)"
lock=$(cksum <page/package-lock.json)
if [ "$(cat page/node_modules/penstock-lock 2>/dev/null)" != "$lock" ]; then
    (cd page && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) >&2 || {
        say "without the page (penstock view) and the plots in reports: npm packages could not be installed (output above)"
        exit 0
    }
    echo "$lock" >page/node_modules/penstock-lock
fi
mkdir -p "$out"
# The target comes with a standard library (rustup), or that is built from its source (Debian: rust-web-src), for which a stable compiler has to
# be told that it may.
target=wasm32-unknown-unknown
has_target() { [ -d "$(rustc --print target-libdir --target "$target" 2>/dev/null || echo /nowhere)" ]; }
if ! has_target && command -v rustup >/dev/null 2>&1; then
    rustup target add "$target" >&2 || say "rustup could not add the target $target (output above)"
fi
std=()
has_target || std=(-Z build-std=std,panic_abort)
wasm=""
if [ ${#std[@]} = 0 ] || [ -f "$(rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ]; then
    ${std:+env RUSTC_BOOTSTRAP=1} cargo build --quiet --locked -p penstock-page "${std[@]}" \
        --target "$target" --profile page >&2
    wasm=${CARGO_TARGET_DIR:-target}/$target/page/penstock_page.wasm
    [ "${wasm#/}" != "$wasm" ] || wasm=$PWD/$wasm
else
    rm -f "$out/penstock.wasm.zst"
    say "without the page (penstock view): missing Rust's $target target (rustup target add" \
        "$target; Debian: apt install rustc-web cargo-web rust-web-src rust-web-llvm lld)"
fi
rm -f "$out/penstock.wasm.gz"
(cd page && node build.mjs "../$out" ${wasm:+"$wasm"})
