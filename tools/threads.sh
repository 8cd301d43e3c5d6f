#!/bin/sh
# Wall time of one run on one thread and on two, in turn: the least of several runs, for docs/performance.md. Needs an idle machine of two cores.
# tools/threads.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5}
cargo build --release -q -p penstock-sim --example run --locked
run=target/release/examples/run
for job in "topology=fat-tree:8 duration=5ms" "topology=fat-tree:16 duration=1ms" "topology=fat-tree:32 duration=200us"; do
    for round in $(seq "$rounds"); do
        for threads in 1 2; do
            # shellcheck disable=SC2086
            FINGERPRINT=1 $run permutation $job threads=$threads | awk -v t=$threads '
                $1 == "wall_s" { wall = $2 } $1 == "fingerprint" { print_of = $2 } $1 == "threads" { on = $2 }
                END { print t, on, wall, print_of }'
        done
    done | awk -v job="$job" '
        { if (!($1 in least) || $3 < least[$1]) least[$1] = $3; on[$1] = $2; if (!first) first = $4; if ($4 != first) moved = 1 }
        END {
            printf "permutation %s: one thread %.3f s, %d threads %.3f s, gain %.2f%s\n",
                job, least[1], on[2], least[2], least[1] / least[2], moved ? "; THE BYTES DIFFER" : ", the same bytes"
        }'
done
