#!/usr/bin/env bash
# Build the engine of .venv with a profile of what runs do: an instrumented build, the jobs below, the build that uses what they counted. About four times as
# long as `make setup`; any change on the Rust side makes the next `make` build without it again. Needs rustup's component llvm-tools (the version of
# llvm-profdata must be that of rustc's LLVM). `pgo.sh possible` only answers whether that is there.
set -euo pipefail
cd "$(dirname "$0")/.."

profdata=$(find "$(rustc --print sysroot)" -name llvm-profdata -type f -print -quit)
if [ "${1:-}" = possible ]; then
    [ -n "$profdata" ]
    exit
fi
if [ -z "$profdata" ]; then
    echo "missing: llvm-profdata of this Rust toolchain" >&2
    echo "         rustup component add llvm-tools" >&2
    exit 1
fi
built=.venv/penstock-engine
features=$(sed 's/ \?fast$//' "$built")
data=$PWD/target/pgo-profile
rm -rf "$data"

# A profile knows functions by names in which cargo puts whether a target was given: always, so that the wheel of dist.sh has the same ones. Build
# scripts get no flags then.
host=$(rustc -vV | sed -n 's/^host: //p')
build() { .venv/bin/maturin develop --release --quiet --locked --target "$host" $features "$@" >&2; }
export PIP_CONSTRAINT="$PWD/constraints.txt" PIP_QUIET=1
# What is interrupted on the way is no engine to keep: without this mark the next `make` builds it anew.
rm -f "$built"

echo "building the instrumented engine" >&2
RUSTFLAGS="-Cprofile-generate=$data" build --target-dir target/pgo

# Short ones of every kind: what is counted is which way branches go, not how often a job is run. None of them is a job of `make bench`.
echo "running" >&2
while read -r scenario settings; do
    given=()
    for setting in $settings; do given+=(--set "$setting"); done
    .venv/bin/penstock run "$scenario" "${given[@]}" >/dev/null 2>&1 </dev/null
done <<JOBS
permutation topology=fat-tree:6 duration=300us
permutation topology=leaf-spine:16x16x32 duration=60us
permutation topology=fat-tree:4 duration=300us protocol=ndp
permutation topology=fat-tree:4 duration=300us protocol=swift
incast servers=24 duration=1s
incast servers=6 queue=red duration=1s
incast servers=12 sample=200us series=true duration=1s
long-flows duration=2s warmup=0.1s
staggered protocol=rcp duration=4s
staggered protocol=xcp duration=3s
rdma duration=300us
poisson arrivals=300000 mean_packets=4 capacity=40Gbps rtt=30us protocol=newreno duration=50ms
mix topology=leaf-spine:4x4x8 link_rate=10Gbps link_delay=1us sizes=websearch arrivals=load:0.6 long_flows=0 warmup=0s duration=0.1s short_flows=300 protocol=dctcp queue=threshold:k=65pkt rto_min=1ms rto_initial=1ms initial_window=10
JOBS
"$profdata" merge -o "$data/merged.profdata" "$data"

echo "building the engine with their profile" >&2
started=$(mktemp)
RUSTFLAGS="-Cprofile-use=$data/merged.profdata" build --target-dir target/pgo-use
# A release like any other for the next `make`, until a source changes.
echo "$features" >"$built"
touch -r "$started" "$built"
# As old as that file: what tells `make bench` which engine it measures.
touch -r "$built" .venv/penstock-profiled
rm -f "$started"
echo "done: .venv has the engine with a profile" >&2
