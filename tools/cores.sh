#!/bin/sh
# Wall time of eight jobs on 1, 4, 8 and 16 threads, and whether the bytes are the same: the least of several rounds. Needs an idle machine of 16
# cores, and at most five minutes with two rounds. It builds nothing: RUN is a program that is built already.
# RUN=target/release/examples/run tools/cores.sh [ROUNDS [THREADS...]]
set -eu
cd "$(dirname "$0")/.."
run=${RUN:-target/release/examples/run}
rounds=${1:-2}
[ $# -eq 0 ] || shift
counts=${*:-1 4 8 16}

# Name, then what the program is given.
jobs='DCTCP 1,024 hosts: permutation topology=fat-tree:16 duration=2ms
DCTCP 8,192 hosts: permutation topology=fat-tree:32 duration=300us
DCTCP 65,536 hosts: permutation topology=fat-tree:64 duration=60us
Reno with losses, 8,192 hosts: permutation topology=fat-tree:32 flow_size=1048576B protocol=reno queue=droptail buffer=200pkt mtu=1500B duration=30ms send_jitter=0s
web search, 1,024 hosts: mix topology=fat-tree:16 link_rate=100Gbps link_delay=1us sizes=websearch arrivals=load:0.5 long_flows=0 short_flows=20000 protocol=dctcp queue=threshold:k=65pkt initial_window=10 rto_min=1ms rto_initial=1ms warmup=0s duration=4ms
HPCC, 320 hosts: rdma topology=clos:5x4x4x4x16 protocol=hpcc duration=1ms
NSCC, 1,024 hosts: permutation topology=fat-tree:16 protocol=nscc duration=300us
DCQCN with PFC, 8,192 hosts: permutation topology=fat-tree:32 protocol=dcqcn duration=100us'

echo "$jobs" | while IFS= read -r job; do
    name=${job%%: *}
    for round in $(seq "$rounds"); do
        for threads in $counts; do
            # shellcheck disable=SC2086
            FINGERPRINT=1 $run ${job#*: } "threads=$threads" | awk -v asked="$threads" '
                $1 == "wall_s" { wall = $2 } $1 == "fingerprint" { print_of = $2 } $1 == "threads" { on = $2 }
                END { print asked, on, wall, print_of }'
        done
    done | awk -v name="$name" '
        { if (!($1 in least)) { order[++n] = $1; least[$1] = $3 } if ($3 < least[$1]) least[$1] = $3; on[$1] = $2 }
        { if (!first) first = $4; if ($4 != first) moved = 1 }
        END {
            printf "%s:", name
            for (i = 1; i <= n; i++) {
                t = order[i]
                printf " %d threads %.3f s", t, least[t]
                if (on[t] != t) printf " (made on %d)", on[t]
                if (i > 1) printf ", %.1f times", least[order[1]] / least[t]
                printf i < n ? ";" : ""
            }
            print moved ? "; THE BYTES DIFFER" : "; the same bytes"
        }'
done
