"""Rows of the collective bandwidth control paper: plain TCP ("TCPv3") beside CBC ("TCPv4").

Both see the same requests (common random numbers), so they are compared run by run: "lower" means that the
95 %
Student-t interval of the paired difference lies below zero. The other words are given numbers once:

- *drastically*: less than half on average; *only initially*: at least 90 % in the first two seconds, or none;
- *nearly equal*: ratio at most 1.25; *about 2:1*: mean ratio within 2 +/- 0.3; *unaffected*: within 5 %.

Statements about the time of the file transfers leave out their first two seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.experiments.cbc import beyond, trace
from penstock.ledger import Finding, Lab, Row
from penstock.runs import RunSet
from penstock.stats import ci95, mean

TABLES = ("series", "events")

#: The paper's settings by name: offered files, classes, size of the queues.
SETTINGS: dict[str, dict[str, Any]] = {
    "8 Mb/s, AF31, full": {"ftp": "8Mbps"},
    "4 Mb/s, AF31, full": {"ftp": "4Mbps"},
    "2 Mb/s, AF31, full": {"ftp": "2Mbps"},
    "8 Mb/s, AF31, half": {"ftp": "8Mbps", "queues": "half"},
    "4 Mb/s, AF31, half": {"ftp": "4Mbps", "queues": "half"},
    "8 Mb/s, AF31, double": {"ftp": "8Mbps", "queues": "double"},
    "8 Mb/s, AF21, full": {"ftp": "8Mbps", "ftp_class": "af21"},
    "4 Mb/s, AF21, full": {"ftp": "4Mbps", "ftp_class": "af21"},
    "4 Mb/s, AF21, half": {"ftp": "4Mbps", "ftp_class": "af21", "queues": "half"},
    "2 Mb/s, AF21, half": {"ftp": "2Mbps", "ftp_class": "af21", "queues": "half"},
    "4 Mb/s, all AF31, full": {"ftp": "4Mbps", "db_class": "af31"},
}

#: Settings of the controller that separate the causes of a difference.
VARIANTS = {
    "fractions of segments carried over": "cbc:fraction=carry",
    "no delay trigger": "cbc:rtt_ratio=1000",
    "eta = 1": "cbc:eta=1",
}


@dataclass(frozen=True)
class Pair:
    """Plain TCP and CBC under one setting, run by run the same requests."""

    name: str
    plain: RunSet
    cbc: RunSet

    def difference(self, key: str) -> tuple[float, float]:
        """CBC minus plain TCP: mean and 95 % half-width of the paired difference."""
        d = self.cbc.values(key) - self.plain.values(key)
        return mean(d), ci95(d)

    def lower(self, key: str) -> bool:
        """Whether CBC's value is lower, the interval of the paired difference below zero."""
        d, half = self.difference(key)
        return d + half < 0


def runs_of(lab: Lab) -> int:
    """Replications of every point."""
    return 10 if lab.quick else 30


def simulate(lab: Lab, setting: str, control: str) -> RunSet:
    """One setting of the paper under one controller."""
    point = ("db-ftp", SETTINGS[setting] | {"control": control})
    return lab.sweep([point], runs=runs_of(lab), keep=TABLES, derive=trace.derive)[0]


def pair(lab: Lab, setting: str) -> Pair:
    """Plain TCP and CBC under a setting of the paper."""
    return Pair(setting, simulate(lab, setting, "none"), simulate(lab, setting, "cbc"))


# ---- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """One statement judged: whether it holds, the figures, and where a difference would come from."""

    holds: bool
    measured: str
    cause: Callable[[Lab], str] | None = None


def show(runs: RunSet, key: str, scale: float = 1.0, digits: int = 2) -> str:
    """`mean ± half` of a key."""
    half = runs.ci95(key) * scale
    text = f"{runs.mean(key) * scale:.{digits}f}"
    return f"{text} ± {half:.{digits}f}" if np.isfinite(half) else text


def both(p: Pair, key: str, what: str, scale: float = 1.0, digits: int = 2) -> str:
    """`what: plain -> CBC`."""
    return f"{what} {show(p.plain, key, scale, digits)} (TCP), {show(p.cbc, key, scale, digits)} (CBC)"


def drastically_fewer(p: Pair, key: str, what: str) -> Claim:
    """CBC has less than half."""
    return Claim(
        p.cbc.mean(key) < 0.5 * p.plain.mean(key), both(p, key, what, digits=1), partial(why_loss, p)
    )


def lower(p: Pair, key: str, what: str, scale: float = 1.0, digits: int = 2) -> Claim:
    """CBC's value is lower."""
    d, half = p.difference(key)
    text = (
        f"{both(p, key, what, scale, digits)}, difference {d * scale:+.{digits}f} ± {half * scale:.{digits}f}"
    )
    return Claim(p.lower(key), text, partial(why_variable, p, key))


def none_at_all(p: Pair, key: str, what: str) -> Claim:
    """CBC has none in any run, plain TCP some."""
    worst = float(p.cbc.values(key).max())
    text = f"{both(p, key, what, digits=1)}; most in a run with CBC {worst:.0f}"
    return Claim(worst == 0 and p.plain.mean(key) > 0, text, partial(why_loss, p))


def only_initially(p: Pair) -> Claim:
    """CBC's drops come in the first two seconds of the files."""
    onset, later = p.cbc.mean("drops_onset"), p.cbc.mean("drops_later")
    share = 1.0 if onset + later == 0 else onset / (onset + later)
    text = (
        f"with CBC {onset:.1f} drops in the first two seconds, {later:.1f} in the other 58 "
        f"({share:.0%} at first)"
    )
    return Claim(share >= 0.9, text, partial(why_later, p))


def closer_to_two(p: Pair) -> Claim:
    """CBC's ratio is closer to 2:1 than plain TCP's."""
    d = np.abs(p.cbc.values("ratio") - 2) - np.abs(p.plain.values("ratio") - 2)
    return Claim(mean(d) + ci95(d) < 0, both(p, "ratio", "DB1:DB2"), partial(why_ratio, p))


def about_two(p: Pair) -> Claim:
    """CBC keeps about 2:1."""
    return Claim(abs(p.cbc.mean("ratio") - 2) <= 0.3, both(p, "ratio", "DB1:DB2"), partial(why_ratio, p))


def unaffected(p: Pair, which: int) -> Claim:
    """A database under CBC carries what it carries undisturbed (plain TCP before the files)."""
    carried, before = p.cbc.mean(f"db{which}"), p.plain.mean(f"before{which}")
    text = (
        f"DB{which} {show(p.cbc, f'db{which}', 1e-6)} Mb/s with CBC, {show(p.plain, f'db{which}', 1e-6)} "
        f"with TCP, "
        f"{before * 1e-6:.2f} before the files"
    )
    return Claim(abs(carried / before - 1) <= 0.05, text, partial(why_held, p))


# ---- causes: each runs the experiment it names ---------------------------------------------------


def variant(lab: Lab, p: Pair, name: str) -> RunSet:
    """The setting of `p` under one of the VARIANTS."""
    return simulate(lab, p.name, VARIANTS[name])


def why_ratio(p: Pair, lab: Lab) -> str:
    """The ratio kept is the ratio of the frozen requirements."""
    quiet, carry = variant(lab, p, "no delay trigger"), variant(lab, p, "fractions of segments carried over")
    sets = (p.cbc, quiet, carry)
    kept = np.concatenate([r.values("ratio") for r in sets])
    frozen = np.concatenate([r.values("latched") for r in sets])
    fine = np.isfinite(kept) & np.isfinite(frozen)
    r = float(np.corrcoef(kept[fine], frozen[fine])[0, 1])
    return (
        f"The set keeps about the ratio of the requirements it froze (correlation {r:.2f} over "
        f"{fine.sum()} runs with three "
        f"controllers), and that was {p.cbc.mean('latched'):.2f} ± "
        f"{p.cbc.values('latched').std(ddof=1):.2f} (standard deviation "
        f"over runs): requirements are averages of about 40 bursty round trips, taken while the databases' "
        f"own bursts set "
        f"control {p.cbc.mean('early'):.1f} times per second before any file. Without the delay trigger it "
        f"froze "
        f"{quiet.mean('latched'):.2f} and kept {quiet.mean('ratio'):.2f}; with fractions of segments "
        f"carried over "
        f"{carry.mean('latched'):.2f} and {carry.mean('ratio'):.2f}."
    )


def why_loss(p: Pair, lab: Lab) -> str:
    """Losses remain because the caps grow by eta until RED drops."""
    one = variant(lab, p, "eta = 1")
    return (
        f"With the measured RTT in equation (1) caps of eta = 1.15 times what was carried grow until RED "
        f"drops: with "
        f"eta = 1 there are {one.mean('drops'):.1f} drops and {one.mean('retransmits'):.1f} "
        f"retransmissions, at an RTT of "
        f"{one.mean('rtt_mean') * 1e3:.0f} ms instead of {p.cbc.mean('rtt_mean') * 1e3:.0f}."
    )


def why_later(p: Pair, lab: Lab) -> str:
    """Drops come later, not first."""
    return (
        "Control is on before the files come (the databases' own bursts trigger it), which spares the onset; "
        + why_loss(p, lab)
    )


def why_held(p: Pair, lab: Lab) -> str:
    """A database is held below its offer."""
    carry = variant(lab, p, "fractions of segments carried over")
    return (
        f"Capped at its mean requirement and with windows of two to four whole segments (RTT "
        f"{p.cbc.mean('rtt_mean') * 1e3:.0f} ms), DB1 cannot use all it required: with fractions of "
        f"segments carried over it "
        f"carries {carry.mean('db1') * 1e-6:.2f} Mb/s and DB2 {carry.mean('db2') * 1e-6:.2f}, at "
        f"{carry.mean('drops'):.1f} drops."
    )


def why_variable(p: Pair, key: str, lab: Lab) -> str:
    """The variability is the offered traffic's or the queue's own."""
    one = variant(lab, p, "eta = 1")
    names = {
        "cv1": "DB1",
        "cv2": "DB2",
        "cvf": "The files",
        "rtt_std": "The RTT",
        "rtt_mean": "The RTT",
    }
    if key == "cvf":
        return (
            f"Files are never held back by the databases for long: at {p.cbc.mean('ftp') * 1e-6:.2f} Mb/s "
            f"they carry what "
            f"they offer in both cases, and their variation is that of their own arrivals; with eta = 1, "
            f"where the queue "
            f"stays short, it is {one.mean('cvf'):.2f}."
        )
    if key == "rtt_std":
        late = [r.mean("rtt_std_late") * 1e3 for r in (p.plain, p.cbc)]
        return (
            "The caps let the queue climb to where plain TCP keeps it, only more slowly, and that climb is "
            "in the figure: from 20 s after the files' start on the standard deviation is "
            f"{late[0]:.1f} ms with TCP and {late[1]:.1f} ms with CBC. With eta = 1 the queue stays short "
            f"and it is {one.mean(key) * 1e3:.1f} ms."
        )
    return (
        f"{names.get(key, key)} carries what its bursty application offers, and its variation is the "
        f"offer's: with eta = 1 "
        f"it is {one.mean(key):.2f}."
    )


# ---- figures -------------------------------------------------------------------------------------

CURVES = {
    "ftp": ("ftp_bps", "files carried (Mb/s)", 1e-6),
    "drops": ("drops", "drops at router 2 (packets/s)", 1.0),
    "retransmits": ("retransmits", "retransmissions to DB1 (packets/s)", 1.0),
    "db1": ("db1_bps", "DB1 carried (Mb/s)", 1e-6),
    "db2": ("db2_bps", "DB2 carried (Mb/s)", 1e-6),
    "rtt": ("rtt_s", "RTT of DB1 (ms)", 1e3),
}


def draw(lab: Lab, p: Pair, quantity: str, name: str, title: str) -> Path:
    """Plain TCP and CBC overlaid over time: mean over the runs with its 95 % band, and one run each, thin."""
    key, label, scale = CURVES[quantity]
    with figures.style():
        figure, (ax,) = figures.new()
        for i, (runs, who) in enumerate(((p.plain, "plain TCP"), (p.cbc, "CBC"))):
            values = trace.curve(runs, key)[:, 15:125] * scale
            at = np.arange(15, 15 + values.shape[1]) + 0.5
            centre = np.nanmean(values, axis=0)
            half = np.array([ci95(column) for column in values.T])
            look = figures.line(i)
            ax.plot(at, centre, label=f"{who}, mean of {len(values)} runs", **look)
            ax.fill_between(
                at, centre - half, centre + half, color=str(look["color"]), alpha=0.2, linewidth=0
            )
            ax.plot(at, values[0], color=str(look["color"]), alpha=0.45, linewidth=0.6)
        ax.axvspan(trace.FTP_START, trace.FTP_STOP, color="0.5", alpha=0.08, linewidth=0)
        ax.set(xlabel="time (s); shaded: file transfers", ylabel=label, title=title, ylim=(0, None))
        ax.legend(loc="best")
        return lab.save(figure, name)


# ---- rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """A figure of the paper: its setting, the quantity drawn, what is stated, and the claims made of it."""

    number: int
    setting: str
    quantity: str
    stated: str
    claims: Callable[[Lab, Pair], list[Claim]]


def judge(lab: Lab, claims: list[Claim], paths: tuple[Path, ...]) -> Finding:
    """The finding: confirmed when every claim holds, otherwise the causes of those that do not."""
    failed = [claim for claim in claims if not claim.holds]
    reasons = dict.fromkeys(c.cause(lab) for c in failed if c.cause)
    measured = "; ".join(("" if c.holds else "NOT: ") + c.measured for c in claims)
    return Finding(not failed, measured, " ".join(reasons), paths)


def figure_row(lab: Lab, spec: Spec) -> Finding:
    """Runs the setting, draws the figure, judges its claims."""
    p = pair(lab, spec.setting)
    title = f"Fig {spec.number}: {CURVES[spec.quantity][1].split(' (')[0]}, {spec.setting}"
    path = draw(lab, p, spec.quantity, f"K-{spec.number}", title)
    return judge(lab, spec.claims(lab, p), (path,))


def nearly_equal(p: Pair) -> Claim:
    """Plain TCP divides nearly equally."""
    return Claim(
        p.plain.mean("ratio") <= 1.25, f"plain TCP's DB1:DB2 {show(p.plain, 'ratio')}", partial(why_ratio, p)
    )


def stays(p: Pair) -> Claim:
    """With plain TCP the second database almost keeps its level, with CBC it suffers too."""
    kept = p.plain.mean("db2") / p.plain.mean("before2")
    text = f"DB2 keeps {kept:.0%} of its traffic with TCP; {both(p, 'db2', 'Mb/s', 1e-6)}"
    return Claim(kept >= 0.9 and p.lower("db2"), text, partial(why_ratio, p))


def offered_not_carried(p: Pair) -> Claim:
    """Files are carried at less than they are offered: half of 8 Mb/s and 4 % go to the clients."""
    offered = 8e6 * 1.04 / 2
    text = f"{both(p, 'ftp', 'files carried', 1e-6)} of {offered * 1e-6:.2f} Mb/s offered"

    def cause(lab: Lab) -> str:
        one_way = [
            lab.sweep(
                [("db-ftp", SETTINGS[p.name] | {"control": control, "ftp_gets": 1.0})],
                runs=runs_of(lab),
                keep=TABLES,
                derive=trace.derive,
            )[0]
            for control in ("none", "cbc")
        ]
        return (
            "With gets and puts half and half the files get all they offer. With all of them gets (the "
            "paper's 16.7 Mb/s) "
            f"{one_way[0].mean('ftp') * 1e-6:.2f} of 8.32 Mb/s are carried with TCP and "
            f"{one_way[1].mean('ftp') * 1e-6:.2f} with "
            f"CBC, DB1:DB2 {one_way[0].mean('ratio'):.2f} and {one_way[1].mean('ratio'):.2f}, drops "
            f"{one_way[0].mean('drops'):.0f} and {one_way[1].mean('drops'):.0f}: those are then the files' "
            f"own."
        )

    return Claim(max(p.plain.mean("ftp"), p.cbc.mean("ftp")) < 0.98 * offered, text, cause)


def alike(p: Pair) -> Claim:
    """The files carry the same with both."""
    d = p.cbc.mean("ftp") / p.plain.mean("ftp") - 1
    return Claim(abs(d) <= 0.05, f"{both(p, 'ftp', 'files carried', 1e-6)} Mb/s, {d:+.1%}")


def slower_back(p: Pair) -> Claim:
    """After the files DB1 returns to its offer later with CBC."""

    def late(runs: RunSet) -> float:
        curve = trace.curve(runs, "db1_bps")[:, 90:96].mean()
        return float(curve)

    plain, cbc = late(p.plain), late(p.cbc)
    text = f"DB1 in the 6 s after the files {plain * 1e-6:.2f} (TCP), {cbc * 1e-6:.2f} Mb/s (CBC)"

    def cause(lab: Lab) -> str:
        return why_held(p, lab)

    return Claim(cbc < plain, text, cause)


def trap(p: Pair) -> Claim:
    """With CBC the RTT falls to normal after the files and then climbs again."""
    rtt = np.nanmean(trace.curve(p.cbc, "rtt_s"), axis=0)
    normal = float(np.nanmean(trace.curve(p.plain, "rtt_s")[:, 15:30]))
    after = rtt[90:125]
    low = int(np.argmin(after[:15]))
    climb = float(np.max(after[low:]))
    text = (
        f"mean RTT with CBC falls to {after[low] * 1e3:.1f} ms at t = {90 + low} s (plain TCP undisturbed: "
        f"{normal * 1e3:.1f} ms) and then rises to {climb * 1e3:.1f} ms"
    )

    def cause(lab: Lab) -> str:
        return (
            "The backlog is small at this load and is worked off under the caps, so no wave of it follows "
            "the release; " + why_held(p, lab)
        )

    return Claim(after[low] <= 1.25 * normal and climb >= 1.5 * after[low], text, cause)


def more_than_af31(lab: Lab, p: Pair, key: str, what: str, other: str) -> Claim:
    """More losses than with the files in AF31."""
    af31 = pair(lab, other)
    text = (
        f"{what}: TCP {show(p.plain, key, digits=1)} against {show(af31.plain, key, digits=1)} with AF31, "
        f"CBC "
        f"{show(p.cbc, key, digits=1)} against {show(af31.cbc, key, digits=1)}"
    )

    def cause(_: Lab) -> str:
        return (
            "Plain TCP loses more in the smaller buffer, as stated, but CBC keeps the queue shorter the "
            "earlier RED drops: "
            f"RTT {p.cbc.mean('rtt_mean') * 1e3:.0f} ms against {af31.cbc.mean('rtt_mean') * 1e3:.0f} ms "
            f"with AF31."
        )

    return Claim(
        p.plain.mean(key) > af31.plain.mean(key) and p.cbc.mean(key) > af31.cbc.mean(key), text, cause
    )


FIGURES: list[Spec] = []


def figure(number: int, setting: str, quantity: str, stated: str) -> Callable[..., Any]:
    """Registers the claims of one figure."""

    def register(claims: Callable[[Lab, Pair], list[Claim]]) -> Callable[[Lab, Pair], list[Claim]]:
        FIGURES.append(Spec(number, setting, quantity, stated, claims))
        return claims

    return register


S8, S4, S2 = "8 Mb/s, AF31, full", "4 Mb/s, AF31, full", "2 Mb/s, AF31, full"
H8, H4 = "8 Mb/s, AF31, half", "4 Mb/s, AF31, half"
E8, E4, EH4, EH2 = "8 Mb/s, AF21, full", "4 Mb/s, AF21, full", "4 Mb/s, AF21, half", "2 Mb/s, AF21, half"

figure(4, S8, "ftp", "files carry less than offered; even they are smoother with CBC")(
    lambda lab, p: [offered_not_carried(p), lower(p, "cvf", "variation of the files")]
)
figure(5, S8, "drops", "CBC cuts drops drastically; they happen only initially")(
    lambda lab, p: [drastically_fewer(p, "drops", "drops"), only_initially(p)]
)
figure(6, S8, "retransmits", "CBC cuts retransmissions drastically")(
    lambda lab, p: [drastically_fewer(p, "retransmits", "retransmissions")]
)
figure(7, S8, "db1", "plain TCP nearly equalises DB1 and DB2; with CBC closer to 2:1 and less variable")(
    lambda lab, p: [nearly_equal(p), closer_to_two(p), lower(p, "cv1", "variation of DB1")]
)
figure(8, S8, "db2", "with plain TCP DB2 almost stays at its level, with CBC it suffers too, less variable")(
    lambda lab, p: [stays(p), closer_to_two(p), lower(p, "cv2", "variation of DB2")]
)
figure(9, S8, "rtt", "the RTT fluctuates much less with CBC")(
    lambda lab, p: [lower(p, "rtt_std", "standard deviation of the RTT (ms)", 1e3, 1)]
)
figure(10, S4, "ftp", "little difference: files are plain TCP in both cases")(lambda lab, p: [alike(p)])
figure(11, S4, "drops", "CBC avoids all drops, plain TCP does not")(
    lambda lab, p: [none_at_all(p, "drops", "drops")]
)
figure(12, S4, "retransmits", "CBC avoids all retransmissions, plain TCP does not")(
    lambda lab, p: [none_at_all(p, "retransmits", "retransmissions")]
)
figure(13, S4, "db1", "DB1 is unaffected with CBC, irregular with plain TCP")(
    lambda lab, p: [unaffected(p, 1), lower(p, "cv1", "variation of DB1")]
)
figure(14, S4, "db2", "DB2 is unaffected with CBC; the databases keep 2:1")(
    lambda lab, p: [unaffected(p, 2), about_two(p)]
)
figure(15, S4, "rtt", "the RTT fluctuates less with CBC")(
    lambda lab, p: [lower(p, "rtt_std", "standard deviation of the RTT (ms)", 1e3, 1)]
)
figure(16, H8, "db1", "half queues: CBC keeps about 2:1 and is smoother")(
    lambda lab, p: [about_two(p), lower(p, "cv1", "variation of DB1")]
)
figure(17, H8, "db2", "half queues: CBC keeps about 2:1 and is smoother")(
    lambda lab, p: [about_two(p), lower(p, "cv2", "variation of DB2")]
)
figure(
    18,
    H8,
    "drops",
    "more losses than with full queues; CBC's concentrate at the start, then far fewer than TCP's",
)(
    lambda lab, p: [
        Claim(
            p.plain.mean("drops") > pair(lab, S8).plain.mean("drops"),
            f"TCP's drops {show(p.plain, 'drops', digits=0)}, with full queues "
            f"{show(pair(lab, S8).plain, 'drops', digits=0)}",
        ),
        drastically_fewer(p, "drops_later", "drops after the first two seconds"),
        only_initially(p),
    ]
)
figure(19, H4, "db1", "half queues, 4 Mb/s: about 2:1, smoother; CBC recovers more slowly after t = 90 s")(
    lambda lab, p: [about_two(p), lower(p, "cv1", "variation of DB1"), slower_back(p)]
)
figure(20, H4, "db2", "half queues, 4 Mb/s: about 2:1, smoother")(
    lambda lab, p: [about_two(p), lower(p, "cv2", "variation of DB2")]
)
figure(21, H4, "rtt", "after t = 90 s the RTT falls to normal before climbing again: the trap")(
    lambda lab, p: [trap(p)]
)
figure(22, E8, "db1", "all AF21: less stable than with AF31, otherwise similar; CBC better")(
    lambda lab, p: [closer_to_two(p), lower(p, "cv1", "variation of DB1")]
)
figure(23, E8, "db2", "all AF21: less stable than with AF31, otherwise similar; CBC better")(
    lambda lab, p: [closer_to_two(p), lower(p, "cv2", "variation of DB2")]
)
figure(24, E8, "retransmits", "all AF21: more losses and retransmissions than with AF31; CBC still better")(
    lambda lab, p: [
        more_than_af31(lab, p, "retransmits", "retransmissions", S8),
        drastically_fewer(p, "retransmits", "retransmissions"),
    ]
)
figure(25, E4, "db1", "all AF21, 4 Mb/s: CBC significantly better than plain TCP")(
    lambda lab, p: [lower(p, "cv1", "variation of DB1"), unaffected(p, 1)]
)
figure(26, E4, "db2", "all AF21, 4 Mb/s: CBC significantly better than plain TCP")(
    lambda lab, p: [lower(p, "cv2", "variation of DB2"), unaffected(p, 2)]
)
figure(27, E4, "retransmits", "all AF21, 4 Mb/s: CBC retransmits far less than plain TCP")(
    lambda lab, p: [drastically_fewer(p, "retransmits", "retransmissions")]
)
figure(28, EH4, "db1", "all AF21, half queues, 4 Mb/s: about 2:1 with CBC, less erratic")(
    lambda lab, p: [about_two(p), lower(p, "cv1", "variation of DB1")]
)
figure(29, EH4, "db2", "all AF21, half queues, 4 Mb/s: about 2:1 with CBC, less erratic")(
    lambda lab, p: [about_two(p), lower(p, "cv2", "variation of DB2")]
)
figure(
    30,
    EH4,
    "retransmits",
    "all AF21, half queues, 4 Mb/s: retransmissions increase further; CBC much less erratic",
)(
    lambda lab, p: [
        more_than_af31(lab, p, "retransmits", "retransmissions", S4),
        drastically_fewer(p, "retransmits", "retransmissions"),
    ]
)
figure(31, EH2, "db1", "all AF21, half queues, 2 Mb/s: about 2:1 with CBC, less erratic")(
    lambda lab, p: [about_two(p), lower(p, "cv1", "variation of DB1")]
)
figure(32, EH2, "db2", "all AF21, half queues, 2 Mb/s: about 2:1 with CBC, less erratic")(
    lambda lab, p: [about_two(p), lower(p, "cv2", "variation of DB2")]
)
figure(33, EH2, "retransmits", "even at 2 Mb/s no longer free of losses; CBC much less erratic")(
    lambda lab, p: [
        Claim(p.cbc.mean("drops") > 0, f"{both(p, 'drops', 'drops', digits=1)}"),
        drastically_fewer(p, "retransmits", "retransmissions"),
    ]
)


def light_load(lab: Lab) -> Finding:
    """K-2M: control sets in, stays on while files come, and is released once and for good."""
    p = pair(lab, S2)
    loud = simulate(lab, S2, VARIANTS["no delay trigger"])
    relapses = p.cbc.mean("relapses")
    claims = [
        none_at_all(p, "drops", "drops"),
        Claim(
            p.cbc.mean("controlled") >= 0.95,
            f"control is on {show(p.cbc, 'controlled', 100, 0)} % of the files' time",
            lambda _: (
                f"Control is on {p.cbc.mean('controlled'):.0%} of the time: at this load congestion is not "
                f"continuous."
            ),
        ),
        Claim(
            relapses < 0.5 and p.cbc.mean("release") < 5,
            f"released {show(p.cbc, 'release', digits=1)} s after the files, connections controlled again "
            f"{show(p.cbc, 'relapses', digits=1)} times in the 40 s that follow",
            lambda _: (
                "The databases' own bursts trigger control without any files: server 1's link is 79 % "
                "loaded and its "
                f"queue alone varies the RTT by more than 1.4 ({p.cbc.mean('early'):.2f} times per second "
                f"before the files, "
                f"{relapses:.0f} times after). Without the delay trigger it is released "
                f"{loud.mean('release'):.1f} s after the files and set again {loud.mean('relapses'):.1f} "
                f"times: then by timeouts ({loud.mean('by_timeout'):.1f} per run, {loud.mean('drops'):.1f} "
                "drops) when the released backlog fills server 1's own link faster than the RTO follows."
            ),
        ),
    ]
    return judge(lab, claims, (beyond.draw_states(lab, p.cbc, SETTINGS[S2] | {"control": "cbc"}),))


def double_queue(lab: Lab) -> Finding:
    """K-dbl: with double queues mainly DB1 is cut."""
    p, half = pair(lab, "8 Mb/s, AF31, double"), pair(lab, H8)
    cut = [1 - p.cbc.mean(f"db{i}") / p.plain.mean(f"before{i}") for i in (1, 2)]
    text = (
        f"CBC cuts DB1 by {cut[0]:.0%} and DB2 by {cut[1]:.0%}; DB1:DB2 {show(p.cbc, 'ratio')} with double, "
        f"{show(half.cbc, 'ratio')} with half queues"
    )

    def cause(lab: Lab) -> str:
        return "Both are cut in proportion to their frozen requirements, whatever the queue. " + why_ratio(
            p, lab
        )

    path = draw(lab, p, "db1", "K-dbl", "Double queues: DB1 carried, 8 Mb/s, AF31")
    return judge(lab, [Claim(cut[0] > 2 * cut[1], text, cause)], (path,))


def all_af31(lab: Lab) -> Finding:
    """K-AF31: with everything in AF31 CBC avoids all loss, plain TCP has a few."""
    p = pair(lab, "4 Mb/s, all AF31, full")
    path = draw(lab, p, "drops", "K-AF31", "All AF31: drops at router 2, 4 Mb/s, full queues")
    return judge(lab, [none_at_all(p, "drops", "drops")], (path,))


ROWS: list[Row] = [
    *(
        Row(
            f"K-{s.number}",
            "cbc",
            f"Fig {s.number}: {CURVES[s.quantity][1].split(' (')[0]}, {s.setting}",
            s.stated,
            partial(figure_row, spec=s),
        )
        for s in sorted(FIGURES, key=lambda s: s.number)
    ),
    Row(
        "K-2M",
        "cbc",
        "Section 4.2: 2 Mb/s, AF31, full",
        "control sets in, stays on, is released once and for good; no losses",
        light_load,
    ),
    Row("K-dbl", "cbc", "Section 4.3: double queues", "mainly DB1 is cut", double_queue),
    Row(
        "K-AF31",
        "cbc",
        "Section 4.4: all flows in AF31",
        "CBC avoids all loss; plain TCP has a few",
        all_af31,
    ),
    *beyond.ROWS,
]
