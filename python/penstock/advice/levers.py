"""The levers of a fabric and the values worth trying: where a model applies, it proposes.

What a lever may be set to follows from the resolved scenario alone (rates, round trip, buffer, senders), so
that the same question gets the same candidates. Every value that is chosen, not computed, says so in its
`why`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penstock import _engine, stats
from penstock.models import design, incast
from penstock.runs import show

# What a change costs: a setting of hosts or switches, a change of the application, other hardware. Of two
# changes that bring the same, the cheaper one is advised.
SETTING, APPLICATION, HARDWARE = 0, 1, 2
COSTS = ("a setting", "a change of the application", "other hardware")

# Protocols that a host can be switched to without new routers: on the sender of the RFCs, and on Linux's.
_PROTOCOLS = ("cubic", "sack", "dctcp")
_LINUX_PROTOCOLS = ("linux-cubic", "linux-reno", "dctcp")
# Protocols that are Linux's own and always have its sender.
_LINUX_OWN = ("linux-cubic", "linux-reno", "bbr", "bbr3")
_ECN = ("dctcp", "d2tcp")
#: These are on Linux's sender whatever `tcp` says.
_LINUX = ("linux-reno", "linux-cubic", "bbr")
# RFC 8257 section 3.1 leaves K open; Alizadeh et al., SIGCOMM 2010, equation (13): K > C RTT / 7.
_K_SHARE = 1 / 7

_LINUX_DEFAULTS = {"delayed_ack": "2", "tail_loss_probe": "true"}

NOT_CONSIDERED = (
    "Protocols that need other routers (rcp, xcp, d3, racs, ...), deadlines, a protocol's own parameters.",
    "Another sender: a host with Linux's keeps it, whatever its congestion control, and one by the RFCs too.",
    "Other topologies, link rates and loads; traffic of others through the same switch.",
    "Values between those that were tried: `penstock sweep` draws the whole curve of a lever.",
    "What a change does to traffic that the scenario does not have: a low timeout floor repeats packets too "
    "early on long paths, deep buffers delay whoever shares them.",
)


@dataclass(frozen=True)
class Candidate:
    """One change: the lever it belongs to, the settings it makes, and where its value comes from.

    `forecast` is what a model says a summary key will be: (key, value), or None; `beware` what else the
    change does, which the scenario need not show.
    """

    lever: str
    settings: dict[str, str]
    why: str
    cost: int = SETTING
    forecast: tuple[str, float] | None = None
    beware: str = ""

    @property
    def text(self) -> str:
        """The change in words: `protocol=dctcp, queue=threshold:k=25pkt`."""
        return ", ".join(f"{key}={value}" for key, value in self.settings.items())


@dataclass(frozen=True)
class Facts:
    """What the levers need to know of a resolved scenario, in SI units; NaN for what it does not say."""

    values: Mapping[str, str]
    rate: float
    rtt: float
    packet: float
    buffer: float
    """Bytes that the busy port can hold."""
    senders: float
    burst: float
    """Bytes on the wire that all senders send at once: a block, the responses of a query."""

    @property
    def bdp(self) -> float:
        """Bytes that the path holds."""
        return self.rate * self.rtt / 8

    @property
    def protocol(self) -> str:
        """Name of the congestion control, without its parameters."""
        return self.values.get("protocol", "").partition(":")[0]

    @property
    def linux(self) -> bool:
        """Whether the hosts have Linux's sender."""
        return self.values.get("tcp") == "linux" or self.protocol in _LINUX_OWN

    @property
    def hears_marks(self) -> bool:
        """Whether the senders react to ECN marks."""
        given = self.values.get("protocol", "")
        return self.protocol in _ECN or "ecn=true" in given

    def number(self, key: str) -> float:
        """A value in its SI unit (bytes, s, bit/s); packets are counted in full ones. NaN when it is
        unset.
        """
        quantity = _engine.quantity(self.values.get(key) or "")
        if quantity is None:
            return math.nan
        value, unit = quantity
        return value * self.packet if unit == "packets" else value


def facts(resolved: Mapping[str, Any]) -> Facts:
    """The facts of a resolved scenario."""
    values = {str(key): str(value) for key, value in resolved["set"].items()}
    bare = Facts(values, math.nan, math.nan, 1.0, math.nan, math.nan, math.nan)
    if bare.linux:
        # What Linux's sender does where the keys are not given.
        given = resolved.get("given", ())
        values |= {key: value for key, value in _LINUX_DEFAULTS.items() if key in values and key not in given}
    segment = bare.number("segment")
    on_wire = segment + bare.number("header")
    on_wire += 12 if values.get("timestamps") == "true" else 0
    # Preamble and gap take time on the link, but no room in a buffer.
    on_wire += 18 if values.get("framing") == "ethernet" else 0
    known = Facts(values, math.nan, math.nan, on_wire, math.nan, math.nan, math.nan)
    senders = known.number("servers" if "servers" in values else "flows")
    share = known.number("sru") if "sru" in values else known.number("response")
    if math.isfinite(known.number("total")):
        share = known.number("total") / senders
    buffer = "buffer" if "buffer" in values else "root_buffer"
    rtt = known.number("rtt") if "rtt" in values else 4 * known.number("link_delay")
    burst = math.nan
    if math.isfinite(share):
        burst = senders * (share + math.ceil(share / segment) * (on_wire - segment))
    rate = known.number("link_rate")
    if resolved.get("scenario") == "custom":
        rate = rtt = math.nan  # every link has its own
    return Facts(values, rate, rtt, on_wire, alone(known.number(buffer), values), senders, burst)


def alone(buffer: float, values: Mapping[str, str]) -> float:
    """Bytes that one busy port can hold: its own buffer, or alpha B/(1 + alpha) of B bytes that all share.

    Source: Choudhury, Hahne, ToN 1998: the port grows while it holds less than alpha times what is free.
    """
    alpha = _alpha(values)
    return buffer if math.isnan(alpha) else buffer * alpha / (1 + alpha)


def _alpha(values: Mapping[str, str]) -> float:
    """alpha of a shared buffer; NaN where the ports do not share."""
    name, _, given = values.get("sharing", "none").partition(":")
    if name != "shared":
        return math.nan
    quantity = _engine.quantity(given.partition("=")[2])
    return quantity[0] if quantity else 1.0


def candidates(at: Facts, measured: Mapping[str, Any]) -> list[Candidate]:
    """Every change worth trying from here, lever by lever. `measured` is the mean summary of the baseline."""
    found: list[Candidate] = []
    for make in _LEVERS:
        found += make(at, measured)
    present = at.values
    known = [c for c in found if all(key in present for key in c.settings)]
    changes = [c for c in known if any(not _equal(at, key, value) for key, value in c.settings.items())]
    # A model may propose what is chosen anyway: the first has it.
    unlike: dict[str, Candidate] = {}
    for c in changes:
        unlike.setdefault(c.text, c)
    return list(unlike.values())


def threshold(at: Facts) -> tuple[float, str]:
    """K of the fluid model in packets, NaN when none satisfies, and its sentence; "" where it does not
    apply.
    """
    if not all(math.isfinite(x) for x in (at.rate, at.rtt, at.senders)) or at.rtt <= 0 or at.senders > 2000:
        return math.nan, ""
    room = at.buffer / at.packet if math.isfinite(at.buffer) and at.buffer > 2 * at.packet else None
    return _threshold(at.rate, at.rtt, at.senders, at.packet, room, _burst(at))


def _burst(at: Facts) -> float:
    """Packets that leave a sender of Linux together: its `gso`, or fewer on long paths. 1 elsewhere."""
    most = at.number("gso")
    linux = at.values.get("tcp") == "linux" or at.protocol in _LINUX
    if not (linux and math.isfinite(most) and most > 1):
        return 1.0
    return design.tso_burst(at.rate / at.senders, at.rtt, segment_bytes=at.packet, most=most)


@lru_cache(maxsize=32)
def _threshold(
    rate: float, rtt: float, flows: float, packet: float, room: float | None, burst: float
) -> tuple[float, str]:
    found = design.threshold_for(
        rate, rtt, [flows], packet_bytes=packet, buffer_packets=room, burst_packets=burst
    )
    return (math.nan if found.marking is None else float(found.marking.k1)), found.text


def _thresholds(at: Facts) -> dict[int, str]:
    """Marking thresholds in packets, with their reasons."""
    found: dict[int, str] = {}
    room = at.buffer / at.packet if math.isfinite(at.buffer) else math.inf

    def add(k: float, why: str) -> None:
        if math.isfinite(k) and max(1, round(k)) < room:
            found.setdefault(max(1, round(k)), why)

    model, text = threshold(at)
    add(model, f"models.design.threshold_for at {at.senders:.0f} long flows: {text}")
    add(_K_SHARE * at.bdp / at.packet, "C RTT / 7 (Alizadeh et al., SIGCOMM 2010, equation 13)")
    add(at.bdp / at.packet, "C RTT, one bandwidth-delay product (chosen)")
    add(0.25 * room, "a quarter of the buffer (chosen)")
    return found


def _protocol(at: Facts, measured: Mapping[str, Any]) -> Iterator[Candidate]:
    own = at.protocol in _LINUX_OWN
    for name in _LINUX_PROTOCOLS if own else _PROTOCOLS:
        if name == at.protocol:
            continue
        # A protocol that is not Linux's own has its sender only where that is said.
        stays = {"tcp": "linux"} if own and name not in _LINUX_OWN and at.values.get("tcp") != "linux" else {}
        if name not in _ECN:
            if at.hears_marks:  # marks would drop what cannot be marked
                yield Candidate(
                    "protocol", {"protocol": name, "queue": "droptail"}, "another congestion control"
                )
            else:
                yield Candidate("protocol", {"protocol": name}, "another congestion control")
            continue
        for k, why in _thresholds(at).items():
            beware = "all hosts and the switch have to speak ECN: above K what is not ECN-capable is dropped"
            change = {"protocol": name, "queue": f"threshold:k={k}pkt"} | stays
            yield Candidate("protocol", change, why, SETTING, None, beware)


def _marking(at: Facts, measured: Mapping[str, Any]) -> Iterator[Candidate]:
    if not at.hears_marks:
        return
    found = _thresholds(at)
    name, _, given = at.values.get("queue", "").partition(":k=")
    now = _engine.quantity(given)
    if name == "threshold" and now is not None:
        k = now[0] if now[1] == "packets" else now[0] / at.packet
        for factor, word in ((0.5, "half"), (2.0, "twice")):
            found.setdefault(max(1, round(factor * k)), f"{word} the present threshold (chosen)")
    for k, why in sorted(found.items()):
        yield Candidate("marking threshold", {"queue": f"threshold:k={k}pkt"}, why)


def _buffer(at: Facts, measured: Mapping[str, Any]) -> Iterator[Candidate]:
    key = "buffer" if "buffer" in at.values else "root_buffer"
    now = _engine.quantity(at.values.get(key) or "")
    if now is None or now[1] not in ("packets", "bytes", ""):
        return

    def to(held: float) -> dict[str, str]:
        return {key: f"{_round_up(held / at.packet)}pkt" if now[1] == "packets" else _bytes(_round_up(held))}

    # Of a shared buffer so many bytes for each that the busy port gets.
    held = at.number(key)
    whole = held / at.buffer
    if math.isfinite(at.burst) and at.buffer < at.burst < 1000 * at.buffer:
        why = (
            f"holds all that {at.senders:.0f} senders send at once ({at.burst / 1e6:.3g} MB on the wire): "
            "nothing is lost"
        )
        yield Candidate("buffer", to(whole * at.burst), why, HARDWARE)
    for factor in (0.5, 2.0, 4.0):
        cost = HARDWARE if factor > 1 else SETTING
        yield Candidate("buffer", to(factor * held), f"{factor:g} times the present one (chosen)", cost)


def _sharing(at: Facts, measured: Mapping[str, Any]) -> Iterator[Candidate]:
    if "sharing" not in at.values:
        return
    now = _alpha(at.values)
    beware = "what one busy port takes, the others lack"
    if math.isnan(now):
        ports = at.senders + 1
        total = at.number("buffer")
        for alpha in (1, 8):
            change = {"sharing": f"shared:alpha={alpha}", "buffer": _bytes(round(ports * total))}
            why = f"what {ports:.0f} ports have for themselves, in one buffer (dynamic threshold)"
            yield Candidate("shared buffer", change, why, SETTING, None, beware)
        return
    total = at.number("buffer")
    found = {0.25 * now: "a quarter of the present alpha (chosen)", 4 * now: "four times (chosen)"}
    if at.burst < total:
        # alpha B/(1 + alpha) = what they send.
        fits = at.burst / (total - at.burst)
        found[_nice(1.05 * fits)] = "the least alpha at which a port holds all that is sent at once, and 5 %"
    for value, why in sorted(found.items()):
        if 1 / 1024 <= value <= 1024:
            lent = value > now
            change = {"sharing": f"shared:alpha={value:.6g}"}
            yield Candidate("shared-buffer alpha", change, why, SETTING, None, beware if lent else "")


def _timeout(at: Facts, measured: Mapping[str, Any]) -> Iterator[Candidate]:
    floor = at.number("rto_min")
    if not math.isfinite(floor) or floor <= 0:
        return
    found: dict[float, str] = {}
    # Exact for one queue; what else delays a packet adds to it.
    full = at.rtt + (at.buffer * 8 / at.rate if math.isfinite(at.buffer) else 0.0)
    if math.isfinite(full) and full > 0:
        least = _nice(2 * full)
        found[least] = (
            f"twice the round trip with a full buffer ({full * 1e6:.3g} us): lower, timeouts are needless"
        )
    for value in (1e-3, 10e-3):
        if value > min(found, default=0.0):
            found.setdefault(value, "chosen")
    for value, why in sorted(found.items()):
        if value < floor:
            said = _goodput(at, measured, value)
            fine = "hosts need timers finer than a kernel's usual tick of 1 to 4 ms" if value < 4e-3 else ""
            yield Candidate("timeout floor", {"rto_min": seconds(value)}, why, SETTING, said, fine)


def _goodput(at: Facts, measured: Mapping[str, Any], floor: float) -> tuple[str, float] | None:
    """What `models.incast.slowest_sender` makes of the baseline's losses at another timeout floor."""
    blocks, sent = stats.number(measured.get("blocks")), stats.number(measured.get("packets_sent"))
    losses = stats.number(measured.get("timeouts")) + stats.number(measured.get("fast_retransmits"))
    segment = at.number("segment")
    if not (blocks > 0 and sent > 0 and losses > 0 and math.isfinite(at.burst) and at.rtt > 0):
        return None
    per_packet = min(1.0, losses / sent)
    found = incast.slowest_sender(
        at.senders,
        at.burst / at.senders / at.packet,
        per_packet / at.senders,
        per_packet,
        0.0,
        stats.number(measured.get("timeouts")) / blocks,
        at.rtt,
        floor,
        capacity=at.rate / (8 * at.packet),
        window_max=max(1.0, at.number("rwnd") / segment),
    )
    return "goodput_bps", float(found) * segment * 8


def _window(at: Facts, measured: Mapping[str, Any]) -> Iterator[Candidate]:
    now = at.number("initial_window")
    fits = (at.buffer + at.bdp) / (at.senders * at.packet)
    found = {}
    if math.isfinite(fits) and 1 <= fits < 64:
        found[math.floor(fits)] = f"{at.senders:.0f} such windows fit into path and buffer"
    for value in (2, 10, 20):
        found.setdefault(value, "chosen: RFC 5681's is 2 to 4, RFC 6928's 10")
    for value, why in sorted(found.items()):
        if value != now:
            yield Candidate("initial window", {"initial_window": str(value)}, why)


def _receive_window(at: Facts, measured: Mapping[str, Any]) -> Iterator[Candidate]:
    fits = (at.buffer + at.bdp) / (at.senders * at.packet)
    if math.isfinite(fits):
        for factor in (1, 2):
            window = max(2, math.floor(factor * fits))
            if window * at.packet < at.number("rwnd"):
                why = (
                    f"{factor:g} times what lets {at.senders:.0f} windows fit into path and buffer, "
                    "two segments at least"
                )
                alone = window * at.number("segment") * 8 / at.rtt if at.rtt > 0 else math.inf
                beware = (
                    f"a transfer that is alone gets {show('_bps', alone)} at most" if alone < at.rate else ""
                )
                yield Candidate("receive window", {"rwnd": f"{window}pkt"}, why, SETTING, None, beware)
    if at.values.get("receive_control") == "none":
        yield Candidate(
            "receive window", {"receive_control": "ictcp"}, "set by the receiver (ICTCP, CoNEXT 2010)"
        )


def _spread(at: Facts, measured: Mapping[str, Any]) -> Iterator[Candidate]:
    now = at.number("jitter")
    if not all(math.isfinite(x) for x in (now, at.burst, at.rate, at.senders)):
        return
    block = at.burst * 8 / at.rate
    # Delays that add up from server to server reach n/2 times the largest one on average.
    each = 2 / at.senders if at.values.get("jitter_mode") == "cumulative" else 1.0
    for factor in (0.5, 1.0, 2.0):
        value = _nice(factor * block * each)
        if value > now:
            needs = seconds(_nice(block))
            why = f"requests spread over {factor:g} times the {needs} that the link needs for all of it"
            beware = (
                f"the last request leaves some {seconds(_nice(factor * block))} late, which no fct counts"
            )
            yield Candidate("request spread", {"jitter": seconds(value)}, why, APPLICATION, None, beware)


def _recovery(at: Facts, measured: Mapping[str, Any]) -> Iterator[Candidate]:
    if at.number("delayed_ack") > 1:
        why = "an ACK for every segment: no tail waits for the ACK timer"
        yield Candidate("delayed ACKs", {"delayed_ack": "1"}, why)
    probe = {"true": "false", "false": "true"}.get(at.values.get("tail_loss_probe", ""))
    if probe and at.protocol not in ("reno", "newreno"):
        # From memory: tcp_schedule_loss_probe adds TCP_TIMEOUT_MIN, two clock ticks.
        linux = "penstock probes after 2 SRTT, as RFC 8985 says; Linux waits some 2 ms longer"
        beware = "" if at.linux else linux
        why = "RFC 8985 section 7"
        yield Candidate("tail-loss probe", {"tail_loss_probe": probe}, why, SETTING, None, beware)


def seconds(value: float) -> str:
    """A time as a setting: `200us`, `1.5ms`."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= scale:
            return f"{value / scale:.6g}{unit}"
    return f"{value / 1e-9:.6g}ns"


def _bytes(value: int) -> str:
    """A size as a setting: `200KB`, `1.1MB`."""
    for scale, unit in ((1e6, "MB"), (1e3, "KB")):
        if value >= scale:
            return f"{value / scale:.6g}{unit}"
    return f"{value}B"


def _nice(value: float) -> float:
    """`value` rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(round(value / unit, 9)) * unit


def _round_up(value: float) -> int:
    """A whole number of at most two digits that is not below `value`, or the nearest where that is small."""
    return max(1, round(_nice(value))) if value > 0 else 1


def _equal(at: Facts, key: str, value: str) -> bool:
    now, then = _engine.quantity(at.values.get(key, "")), _engine.quantity(value)
    return at.values.get(key) == value or (now is not None and now == then)


_LEVERS = (
    _protocol,
    _marking,
    _buffer,
    _sharing,
    _timeout,
    _window,
    _receive_window,
    _spread,
    _recovery,
)
