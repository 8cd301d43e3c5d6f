"""Save a run, read it back, and ask its tables: the slowest transfers, and the port that dropped."""

import polars as pl

import penstock

penstock.run("incast", servers=8, duration="300ms", rto_min="10ms", runs=2).save("out/eight", force=True)
result = penstock.load("out/eight")
print(result.transfers.sort("fct_s", descending=True).select("run", "flow", "fct_s", "slowdown").head(3))
print(result.ports.filter(pl.col("drops_overflow") > 0).select("run", "port", "drops_overflow"))
print(result.events.group_by("what").len())
