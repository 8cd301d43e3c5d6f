#!/usr/bin/env bash
# Runs every golden scenario on four threads under ThreadSanitizer, which finds data races: tools/tsan.sh [NAME...]
# Needs the nightly toolchain with rust-src, because the standard library is built with the sanitizer too. Scenarios that
# cannot be divided run on one thread; their line says so.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! rustup component add rust-src --toolchain nightly >/dev/null 2>&1; then
    echo "tsan: skipped, because rustup could not install the nightly toolchain with the component rust-src"
    exit 0
fi
target=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=target/tsan
RUSTFLAGS="-Zsanitizer=thread" CARGO_PROFILE_FAST_INCREMENTAL=false \
    cargo +nightly build --quiet --locked --profile fast -Zbuild-std --target "$target" \
    -p penstock-sim --example run
run=target/tsan/$target/fast/examples/run
[ $# -gt 0 ] || set -- $(cd tests/golden && ls -- *.toml | sed 's/\.toml$//')
for name in "$@"; do
    # A race ends the run with 66. Windows are shared out however little there is to do.
    if ! out=$(TSAN_OPTIONS="halt_on_error=1 exitcode=66" ALWAYS=1 "$run" "tests/golden/$name.toml" threads=4 2>&1); then
        printf '%s\n' "$out"
        echo "tsan: $name failed"
        exit 1
    fi
    echo "tsan: $name on $(printf '%s\n' "$out" | awk '$1 == "threads" { print $2 }') threads"
done
