#!/usr/bin/env bash
# Runs the tests of the unsafe code in fabric and host in Miri, which finds undefined behaviour: invalid pointers, data
# races, memory that leaks. Installs the nightly toolchain with Miri if rustup can, and otherwise says why it does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    if ! rustup toolchain install nightly --profile minimal --component miri --component rust-src >/dev/null 2>&1; then
        echo "miri: skipped, because rustup could not install the nightly toolchain with the components miri and rust-src"
        exit 0
    fi
fi
if ! cargo +nightly miri setup >/dev/null 2>&1; then
    echo "miri: skipped, because this nightly toolchain could not build its standard library for Miri"
    exit 0
fi
# Pointers keep their provenance: none is made of a number.
export MIRIFLAGS="-Zmiri-strict-provenance ${MIRIFLAGS:-}"
cargo +nightly miri test --quiet -p penstock-fabric -p penstock-host --lib -- ring:: stock::
