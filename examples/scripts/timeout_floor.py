"""How much a lower floor of the retransmission timeout brings, run by run under the same random numbers."""

import penstock

study = penstock.study(
    "incast",
    over={"rto_min": ["200ms", "10ms", "1ms", "200us"]},
    settings={"servers": 12, "sru": "64KB", "duration": "300ms"},
    runs=3,
)
for row in study.paired("goodput_bps", by="rto_min", baseline="200ms").iter_rows(named=True):
    print(
        f"{row['rto_min_s'] * 1e3:6.1f} ms: {row['low'] / 1e6:+7.0f} to {row['high'] / 1e6:+7.0f} Mb/s against 200 ms"
    )
