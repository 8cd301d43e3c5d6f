"""The collapse of an incast, and where it begins: goodput against the number of servers, mean of three
runs."""

import penstock

points = [("incast", {"servers": n}) for n in (1, 2, 4, 8, 16)]
for (_, given), result in zip(
    points, penstock.sweep(points, settings={"duration": "400ms"}, runs=3), strict=True
):
    goodput, half = result.mean("goodput_bps") / 1e6, result.ci95("goodput_bps") / 1e6
    print(
        f"{given['servers']:3} servers  {goodput:6.0f} +- {half:4.0f} Mb/s  {result.mean('timeouts'):5.1f} timeouts"
    )
