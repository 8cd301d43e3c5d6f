"""What a run of `db-ftp` shows: curves of one second per point, and the numbers behind the statements.

Times of the scenario (section 4.1): databases from 5 s on, files from 30 s to 90 s.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.runs import Run, RunSet

FTP_START, FTP_STOP = 30.0, 90.0
#: The first two seconds of the files are the onset; after it control has set in.
STEADY = (FTP_START + 2.0, FTP_STOP)
#: Undisturbed, after the first estimates.
BEFORE = (12.0, FTP_START)

#: Nodes of the scenario in declared order: destination of each kind of traffic.
CLIENT1, CLIENT2, CLIENT3 = 2, 3, 4

Array = NDArray[np.float64]


def derive(run: Run) -> Mapping[str, float]:
    """Curves (`name@second`) and numbers of one run, from its series and events.

    Curves are `db1_bps`, `db2_bps`, `ftp_bps` (delivered payload), `drops` (router 2, per second),
    `retransmits` (towards client 1, per second) and `rtt_s` (database 1, mean of the samples). With control
    there are also `available_bps`, `required_bps` and `state`, the highest of database 1 (0 uncongested, 1
    controlling, 2 ready). Numbers: see `numbers`.
    """
    view = _View(run)
    curves = {
        "db1_bps": view.rate(CLIENT1),
        "db2_bps": view.rate(CLIENT2),
        "ftp_bps": view.rate(CLIENT3),
        "drops": view.per_second(view.drops),
        "retransmits": view.per_second(view.counter("host", CLIENT1, "retransmits")),
        "rtt_s": view.mean("flow", 0, "rtt_s"),
    }
    for name in ("required_bps", "available_bps", "state"):
        if view.has(name):
            curves[name] = view.mean("flow", 0, name) if name != "state" else view.mode("flow", 0, name)
    out = {f"{name}@{second}": float(v) for name, values in curves.items() for second, v in enumerate(values)}
    return out | numbers(view, curves)


def numbers(view: _View, curves: Mapping[str, Array]) -> dict[str, float]:
    """The numbers behind the statements.

    - `ratio`: DB1 over DB2 during the files, without the onset; `ratio_after`: `after1` over `after2`.
    - `cv1`, `cv2`, `cvf`: standard deviation over mean of the traffic per second, during the files.
    - `db1`, `db2`, `ftp`: mean traffic during the files, bit/s.
    - `before1`, `before2`, `cv1_before`, `cv2_before`, `rtt_before`: these quantities before the files.
    - `after1`, `after2`: traffic in the six seconds after the files, bit/s.
    - `drops`, `drops_onset`, `drops_later`: at router 2, from the files' start, in their first two seconds,
      and after these.
    - `retransmits`: towards client 1, from the files' start; `retransmits_std`: the standard deviation of
      those per second, during the files.
    - `rtt_mean`, `rtt_std`: of the samples, s; `rtt_std_late`: from 20 s after the files' start.
    - `latched`: frozen requirement of DB1 over that of DB2, mean during the files.
    - `controlled`: share of the time of the files in which DB1 is under control.
    - `by_timeout`: connections put under control by a timeout; `early`: those per second before the files.
    - `backlog_kept`, `before_kept`: share of the backlog, and of the time before the files, in which DB1 is
      under control. The backlog lasts from the files' end until DB1 has carried what it offered.
    - `release`: seconds from the files' end to the first release; `relapses`: connections put under control
      after it.
    - `below`: share of the seconds in which the link between the routers carries less than 95 % of its rate.
    - `back1`: seconds until DB1 carries its offered rate or more over 3 s; `hump1`: the most that it carries
      over 3 s after the files, over its offered rate.
    - `excursions`, `excursion_s`: how often, and for how many seconds in all, the link is not full.
    - `dip1`, `dip2`: the lowest second of a database during the files over its mean then.
    - `retransmits2`: towards client 2, from the files' start; `rtt2_mean`, `rtt2_std`: of database 2.
    - `ready_for_loss`: 1 where a database is under control when the first packet is lost after the files'
      start (and where none is), else 0; `by_delay`: connections put under control by their delay.
    - `lost_share`: drops at router 2 over these and the packets delivered, and `repeated_share`: repetitions
      towards client 1 over its packets, from the files' start to their end.
    - `other_drops`: at every port but that from router 2 to router 1; `busiest`: 1 where that port is busier
      than every other, else 0.
    """
    during = _window(*STEADY)
    result = {
        name: float(curves[curve][during].mean())
        for name, curve in (("db1", "db1_bps"), ("db2", "db2_bps"), ("ftp", "ftp_bps"))
    }
    result |= {
        name: float(curves[curve][during].std() / curves[curve][during].mean())
        for name, curve in (("cv1", "db1_bps"), ("cv2", "db2_bps"), ("cvf", "ftp_bps"))
    }
    result["ratio"] = result["db1"] / result["db2"]
    before = _window(*BEFORE)
    result |= {
        "before1": float(curves["db1_bps"][before].mean()),
        "before2": float(curves["db2_bps"][before].mean()),
    }
    drops, retransmits = curves["drops"], curves["retransmits"]
    result["drops"] = float(drops[int(FTP_START) :].sum())
    result["drops_onset"] = float(drops[_window(FTP_START, STEADY[0])].sum())
    result["drops_later"] = float(drops[during].sum())
    result["retransmits"] = float(retransmits[int(FTP_START) :].sum())
    result["retransmits_std"] = float(retransmits[during].std())
    total = curves["db1_bps"] + curves["db2_bps"] + curves["ftp_bps"]
    result["below"] = float(np.mean(total[during] < BELOW * PAYLOAD_BPS))
    for name, curve in (("1", "db1_bps"), ("2", "db2_bps")):
        result[f"cv{name}_before"] = float(curves[curve][before].std() / curves[curve][before].mean())
        result[f"after{name}"] = float(curves[curve][_window(FTP_STOP, FTP_STOP + 6.0)].mean())
    result["ratio_after"] = result["after1"] / result["after2"]
    result["rtt_before"] = float(view.between("flow", 0, "rtt_s", *BEFORE).mean())
    rtt = view.between("flow", 0, "rtt_s", *STEADY)
    result |= {"rtt_mean": float(rtt.mean()), "rtt_std": float(rtt.std())}
    late = view.between("flow", 0, "rtt_s", FTP_START + 20.0, FTP_STOP)
    result["rtt_std_late"] = float(late.std())
    after = curves["db1_bps"][int(FTP_STOP) :]
    smooth = np.convolve(after, np.ones(3) / 3, mode="valid")
    reached = np.flatnonzero(smooth >= OFFERED1)
    result["back1"] = float(reached[0]) if reached.size else float("nan")
    result["hump1"] = float(smooth.max()) / OFFERED1
    low = np.concatenate([[False], total[during] < BELOW * PAYLOAD_BPS])
    result["excursions"] = float(np.sum(np.diff(low.astype(int)) > 0))
    result["excursion_s"] = float(low.sum())
    for name, curve in (("1", "db1_bps"), ("2", "db2_bps")):
        result[f"dip{name}"] = float(curves[curve][during].min() / curves[curve][during].mean())
    again = view.per_second(view.counter("host", CLIENT2, "retransmits"))
    result["retransmits2"] = float(again[int(FTP_START) :].sum())
    second = view.between("flow", 1, "rtt_s", *STEADY)
    result |= {"rtt2_mean": float(second.mean()), "rtt2_std": float(second.std())}
    packets = float(total[int(FTP_START) : int(FTP_STOP)].sum()) / PACKET_BITS
    lost = float(drops[int(FTP_START) : int(FTP_STOP)].sum())
    result["lost_share"] = lost / (lost + packets)
    one = float(curves["db1_bps"][int(FTP_START) : int(FTP_STOP)].sum()) / PACKET_BITS
    result["repeated_share"] = float(retransmits[int(FTP_START) : int(FTP_STOP)].sum()) / max(one, 1.0)
    result |= view.ports()
    if view.has("required_bps"):
        required = [view.between("flow", i, "required_bps", *STEADY).mean() for i in (0, 1)]
        result["latched"] = float(required[0] / required[1])
        result["controlled"] = float(np.mean(view.between("flow", 0, "state", *STEADY) > 0))
        caught_up = FTP_STOP + view.backlog(curves["db1_bps"])
        result["backlog_kept"] = float(np.mean(view.between("flow", 0, "state", FTP_STOP, caught_up) > 0))
        result["before_kept"] = float(np.mean(view.between("flow", 0, "state", *BEFORE) > 0))
        set_at = view.events("controlling")
        released = view.events("uncongested")
        result["early"] = float(np.sum(set_at < FTP_START)) / (FTP_START - 5.0)
        later = released[released > FTP_STOP]
        result["release"] = float(later.min() - FTP_STOP) if later.size else float("nan")
        result["by_timeout"] = float(view.events("controlling: timeout").size)
        result["by_delay"] = float(view.events("controlling: delay").size)
        result["ready_for_loss"] = float(view.controlled_at(view.first_drop(FTP_START)))
        result["relapses"] = float(np.sum(set_at > later.min())) if later.size else float("nan")
    return result


def outside(run: Run) -> Mapping[str, float]:
    """`ratio`, `cv1`, `cv2`, `drops`, `early` as in `numbers`: what needs no permanent connection."""
    view = _View(run)
    during = _window(*STEADY)
    one, two = view.rate(CLIENT1)[during], view.rate(CLIENT2)[during]
    return {
        "ratio": float(one.mean() / two.mean()),
        "cv1": float(one.std() / one.mean()),
        "cv2": float(two.std() / two.mean()),
        "drops": float(view.per_second(view.drops)[int(FTP_START) :].sum()),
        "early": float(np.sum(view.events("controlling") < FTP_START)) / (FTP_START - 5.0),
    }


#: What a full link of 10 Mb/s carries of payload, bit/s (78 B of headers and framing per 1460 B), and the
#: share of it below which the link counts as not full.
PAYLOAD_BPS = 10e6 * 1460 / 1538
PACKET_BITS = 8 * 1460
BELOW = 0.95
#: Offered by database 1 with its 4 % of application bytes, bit/s.
OFFERED1 = 4.8e6 * 1.04


def curve(runs: RunSet, name: str) -> Array:
    """A derived curve of every run, shape (runs, seconds); point i covers [i, i+1) s."""
    summary = runs.summaries[0]
    seconds = 0
    while f"{name}@{seconds}" in summary:
        seconds += 1
    return np.array([[s[f"{name}@{i}"] for i in range(seconds)] for s in runs.summaries], dtype=float)


def _window(start: float, stop: float) -> slice:
    return slice(int(start), int(stop))


class _View:
    """The tables of one run, by (entity, number, metric)."""

    def __init__(self, run: Run) -> None:
        self._parts = {
            key: (part["time_s"].to_numpy(), part["value"].to_numpy())
            for key, part in run.tables["series"]
            .partition_by(["entity", "number", "metric"], as_dict=True, maintain_order=True)
            .items()
        }
        self._events = run.tables["events"]
        self._ports = run.tables.get("ports")
        self._seconds = int(round(max(float(t[-1]) for t, _ in self._parts.values())))
        ports = [key for key in self._parts if key[0] == "port" and key[2] == "drops"]
        times = self._parts[ports[0]][0]
        self.drops: tuple[Array, Array] = (times, np.sum([self._parts[key][1] for key in ports], axis=0))

    def has(self, metric: str) -> bool:
        return any(key[2] == metric for key in self._parts)

    def counter(self, entity: str, number: int, metric: str) -> tuple[Array, Array]:
        return self._parts.get((entity, number, metric), (np.zeros(1), np.zeros(1)))

    def per_second(self, counter: tuple[Array, Array]) -> Array:
        """Growth of a counter in each second; a counter starts at zero."""
        times, values = counter
        edges = np.arange(self._seconds + 1)
        at = np.searchsorted(times, edges + 1e-9, side="right")
        return np.diff(np.concatenate([[0.0], values])[at])

    def rate(self, host: int) -> Array:
        return self.per_second(self.counter("host", host, "delivered_bytes")) * 8.0

    def between(self, entity: str, number: int, metric: str, start: float, stop: float) -> Array:
        times, values = self.counter(entity, number, metric)
        chosen: Array = values[(times > start) & (times <= stop)]
        return chosen if chosen.size else np.full(1, np.nan)

    def mean(self, entity: str, number: int, metric: str) -> Array:
        return np.array(
            [np.mean(self.between(entity, number, metric, s, s + 1)) for s in range(self._seconds)]
        )

    def mode(self, entity: str, number: int, metric: str) -> Array:
        """The value seen most often in each second."""
        out = np.zeros(self._seconds)
        for s in range(self._seconds):
            seen, times = np.unique(self.between(entity, number, metric, s, s + 1), return_counts=True)
            out[s] = seen[np.argmax(times)]
        return out

    @staticmethod
    def backlog(carried: Array) -> float:
        """Seconds from the files' end until DB1 has carried what it has offered since their start; to the end
        of the run where it has not by then, and one at least.
        """
        since = np.cumsum(carried[int(FTP_START) :] - OFFERED1)[int(FTP_STOP - FTP_START) :]
        reached = np.flatnonzero(since >= 0)
        return float(max(1, reached[0] + 1 if reached.size else since.size))

    def first_drop(self, since: float) -> float:
        """When router 2 loses the first packet after a time; inf where it loses none."""
        times, lost = self.drops
        before = float(lost[times <= since].max(initial=0.0))
        later = times[(times > since) & (lost > before)]
        return float(later[0]) if later.size else float("inf")

    def controlled_at(self, when: float) -> bool:
        """Whether a database is under control at the last sample before a time; so it is before what never
        comes.
        """
        states = (self.counter("flow", i, "state") for i in (0, 1))
        before = [values[times < when] for times, values in states]
        return bool(np.isinf(when)) or any(v.size and v[-1] > 0 for v in before)

    def ports(self) -> dict[str, float]:
        """What the ports' table says of the link between the routers and of all others."""
        if self._ports is None:
            return {}
        here = self._ports["bottleneck"]
        lost = sum(self._ports[key].cast(float) for key in ("drops_overflow", "drops_early", "drops_random"))
        use = self._ports["utilisation"]
        busiest = float(use.filter(here).max()) > float(use.filter(~here).max())  # type: ignore[arg-type]
        return {"other_drops": float(lost.filter(~here).sum()), "busiest": float(busiest)}  # type: ignore[union-attr]

    def events(self, prefix: str) -> Array:
        what = pl.col("what").str.starts_with(prefix)
        return self._events.filter(what)["time_s"].to_numpy()
