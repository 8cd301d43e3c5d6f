#!/usr/bin/env bash
# The engine by a profile of what runs do: an instrumented build, the runs below, the build that uses what they counted. Needs rustup's component
# llvm-tools (the version of llvm-profdata must be that of rustc's LLVM).
#   pgo.sh               builds the engine of .venv so; any change on the Rust side makes the next `make` build without a profile again
#   pgo.sh wheel [FLAG]  builds a wheel into dist, with these flags of `maturin build`
#   pgo.sh possible      only answers whether it can
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

# A profile knows functions by names in which cargo puts all that a crate was built with but for these flags: the target, the packages that were asked
# for, the linker. So one profile serves one way of building, and both builds are made by the same command. With a target build scripts get no flags.
target=(--target "$(rustc -vV | sed -n 's/^host: //p')" --target-dir target/pgo)
profile=$PWD/target/pgo/profile
# build FLAG COMMAND...: with a flag of rustc beside those of the environment.
build() { RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }$1" "${@:2}" >&2; }
# What counts is linked by the machine's own linker: zig's does not know how the runtime for it is asked for.
counts="-Cprofile-generate=$profile -Clinker=cc"
counted="-Cprofile-use=$profile/merged.profdata"

# Runs of every kind of network and load that takes time, none of them a job of `make bench`: what is counted is which way branches go, and which
# functions are hot beside all others. So each has some hundred thousand packet-hops to a few million, some seconds of CPU for all together.
runs() {
    cat <<RUNS
permutation topology=fat-tree:6 duration=2ms
permutation topology=fat-tree:12 duration=400us
permutation topology=fat-tree:28 duration=30us
permutation topology=fat-tree:12 duration=300us threads=2
permutation topology=leaf-spine:16x16x32 duration=100us
permutation topology=fat-tree:4 duration=1ms protocol=ndp
permutation topology=fat-tree:4 duration=1ms protocol=swift
incast servers=24 duration=20s
incast servers=6 queue=red duration=5s
incast servers=12 sample=200us series=true duration=3s
long-flows duration=4s warmup=0.1s
staggered protocol=rcp duration=12s
staggered protocol=xcp duration=6s
rdma duration=2ms
poisson arrivals=600000 mean_packets=3 capacity=80Gbps rtt=16us protocol=newreno duration=150ms
poisson arrivals=2000 mean_packets=4 capacity=40Gbps rtt=30us protocol=newreno duration=8s
mix topology=leaf-spine:4x4x8 link_rate=10Gbps link_delay=1us sizes=websearch arrivals=load:0.6 long_flows=0 warmup=0s duration=0.1s short_flows=300 protocol=dctcp queue=threshold:k=65pkt rto_min=1ms rto_initial=1ms initial_window=10
mix topology=leaf-spine:6x8x12 link_rate=10Gbps link_delay=1us sizes=websearch arrivals=load:0.4 long_flows=0 warmup=0s duration=20ms short_flows=3000 protocol=dctcp queue=threshold:k=65pkt rto_min=1ms rto_initial=1ms initial_window=10
RUNS
}

# What an instrumented engine, that of .venv or of the packages in the folder $1, counts in all runs.
count() {
    echo "running $(runs | wc -l) scenarios for the profile" >&2
    local scenario settings given said=$profile/said
    while read -r scenario settings; do
        given=()
        for setting in $settings; do
            case $setting in
                threads=*) given+=(--threads "${setting#*=}") ;;
                *) given+=(--set "$setting") ;;
            esac
        done
        PYTHONPATH=${1:-} .venv/bin/penstock run "$scenario" "${given[@]}" >"$said" 2>&1 </dev/null || {
            tail -3 "$said" >&2
            echo "failed: a run for the profile (tools/pgo.sh): $scenario $settings" >&2
            exit 1
        }
    done < <(runs)
    rm "$said"
    "$profdata" merge -o "$profile/merged.profdata" "$profile"/*.profraw
    rm "$profile"/*.profraw
}

rm -rf "$profile"
mkdir -p "$profile"
if [ "${1:-}" = wheel ]; then
    wheel=(.venv/bin/maturin build --release --locked --quiet "${target[@]}" "${@:2}")
    echo "building the instrumented wheel" >&2
    unpacked=$PWD/target/pgo/instrumented
    rm -rf "$unpacked"
    build "$counts" "${wheel[@]}" --auditwheel skip --out "$unpacked"
    .venv/bin/python -m zipfile -e "$unpacked"/*.whl "$unpacked"
    count "$unpacked"
    rm -rf "$unpacked"
    echo "building the wheel with the profile" >&2
    build "$counted" "${wheel[@]}" --out dist
    exit
fi
built=.venv/penstock-engine
features=$(sed 's/ \?fast$//' "$built")
export PIP_CONSTRAINT="$PWD/constraints.txt" PIP_QUIET=1
# shellcheck disable=SC2206
develop=(.venv/bin/maturin develop --release --quiet --locked "${target[@]}" $features)
# What is interrupted on the way is no engine to keep: without this mark the next `make` builds it anew.
rm -f "$built"
echo "building the instrumented engine" >&2
build "$counts" "${develop[@]}"
count
echo "building the engine with the profile" >&2
started=$(mktemp)
build "$counted" "${develop[@]}"
# A release like any other for the next `make`, until a source changes.
echo "$features" >"$built"
touch -r "$started" "$built"
# As old as that file: what tells `make bench` which engine it measures.
touch -r "$built" .venv/penstock-profiled
rm -f "$started"
echo "done: .venv has the engine with a profile" >&2
