"""One block of an incast over time: the queue of the client's port and a bar per server."""

from matplotlib.figure import Figure

import penstock
from penstock import figures

SERVERS, BUFFER = 8, 32
SETTINGS = {"servers": SERVERS, "duration": "400ms", "rto_min": "50ms", "sample": "100us", "series": True}


def draw() -> Figure:
    """The first block that a timeout delays; times in ms from its first request."""
    found = penstock.run("incast", settings=SETTINGS)
    timeouts = found.events.filter(found.events["what"].str.starts_with("timeout"))
    ends = found.events.filter(found.events["what"] == "block")["time_s"].to_list()
    end = next(end for end in ends if end > timeouts["time_s"][0])
    own = found.transfers.filter((found.transfers["start_s"] + found.transfers["fct_s"] - end).abs() < 0.06)
    own = own.filter(own["start_s"] < timeouts["time_s"][0]).sort("start_s").tail(SERVERS)
    begin = own["start_s"].min()
    late = timeouts.filter((timeouts["time_s"] > begin) & (timeouts["time_s"] < end))
    queue = found.table("series").filter(found.table("series")["metric"] == "queue_packets")
    queue = queue.filter((queue["time_s"] >= begin - 0.001) & (queue["time_s"] <= end + 0.002))
    with figures.style():
        figure, (above, below) = figures.new(2, 1, width=7.4, height=4.4, sharex=True)
        above.fill_between(
            (queue["time_s"] - begin) * 1e3, queue["value"], color=figures.PALETTE[6], linewidth=0, step="pre"
        )
        above.axhline(BUFFER, color=figures.INK, linewidth=0.9, linestyle=":")
        above.text(30, BUFFER - 1, "buffer", fontsize=8, va="top")
        above.set(ylabel="queue (packets)", ylim=(0, BUFFER + 4))
        for row in own.iter_rows(named=True):
            left, width = (row["start_s"] - begin) * 1e3, row["fct_s"] * 1e3
            waits = late.filter(late["flow"] == row["flow"]).height > 0
            colour = figures.PALETTE[1] if waits else figures.PALETTE[0]
            below.barh(row["flow"], width, left=left, height=0.62, color=colour, hatch="///" if waits else "")
        below.plot(
            (late["time_s"] - begin) * 1e3,
            late["flow"],
            "X",
            color=figures.INK,
            markersize=8,
            label="timeout",
        )
        below.set(xlabel="time since the first request (ms)", ylabel="server", yticks=range(SERVERS))
        below.legend(loc="center right", fontsize=8)
        below.grid(visible=False, axis="y")
    return figure
