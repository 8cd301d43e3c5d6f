"""Which marking threshold does a link need? The fluid model proposes, packets measure. Takes some seconds."""

import penstock
from penstock.models.design import threshold_for

advice = threshold_for(1e9, 120e-6, [2, 8])
print("model:", advice)
study = penstock.study(
    "long-flows",
    over={"queue": "threshold:k=2pkt..32pkt:5:log"},
    settings={"flows": 2, "protocol": "dctcp", "duration": "60ms", "warmup": "20ms"},
    runs=2,
)
for row in study.mean().iter_rows(named=True):
    print(
        f"{row['queue']:18} utilisation {row['utilisation']:.3f}, mean queue {row['queue_mean_packets']:5.1f} packets"
    )
