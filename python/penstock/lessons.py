"""The lessons of the gallery: each a run, a story of a few steps, what to drag, and what the text claims.

Numbers in a text are not written down: `{A.goodput_bps}` is what the page's run A has measured. What the text
says beside them is in `holds` and `during` of its step, and the tests evaluate these with runs of the native
engine (`tests/python/test_gallery.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.views import Slider


@dataclass(frozen=True)
class Ask:
    """A prediction: the reader sets a value of the summary's `key` between `low` and `high` before the answer
    is run; `after` is said then.
    """

    question: str
    key: str
    low: float
    high: float
    after: str


@dataclass(frozen=True)
class Drag:
    """What a step asks the reader to drag: the slider of `key`, with `set` chosen before. The answer shows in
    `figure`, a figure of the lesson. `holds`: claims about the runs along the slider; `at(value)` is the
    summary of one, `every` are all of them in the slider's order, and `rises(key)` and `falls(key)` tell
    whether a figure does so along it.
    """

    key: str
    figure: str
    holds: tuple[str, ...]
    set: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One step of a story, and the view that goes with it.

    `at` and `window` are in seconds; `port` by its ends ("left→right"), `flow` by its number, `value` a value
    that flows report. `first`: the curve that stands first, "value" or "rate" (payload delivered); none: the
    queue. `set`: what run B has; none: run A alone. `idle`: the runs whose picture has no packet at `at`.
    `holds`: claims about the summaries A and B. `during`: (from, to, claim about A or B in this part of the
    run). `drags`: what the step says about its sliders.
    """

    title: str
    text: str
    at: float | None = None
    window: tuple[float, float] | None = None
    port: str = ""
    flow: int | None = None
    value: str = ""
    first: str = ""
    set: dict[str, str] | None = None
    ask: Ask | None = None
    holds: tuple[str, ...] = ()
    during: tuple[tuple[float, float, str], ...] = ()
    idle: str = ""
    drags: tuple[Drag, ...] = ()

    def data(self) -> dict[str, Any]:
        """What the page is given."""
        plain = {
            name: getattr(self, name)
            for name in ("title", "text", "at", "window", "port", "flow", "value", "first", "set")
        }
        if self.ask:
            plain["ask"] = dict(vars(self.ask))
        return {name: value for name, value in plain.items() if value not in (None, "")}


@dataclass(frozen=True)
class Lesson:
    """One page: `scenario` with `settings`, an introduction (`lead`), the `steps` of its story and its
    `sliders`. `figures` are summary keys to show first, or `goodput_bps_of_8` for the goodput of flow 8.
    `background` is the chapter (title, page of docs/background).
    """

    name: str
    title: str
    lead: str
    scenario: Any
    settings: dict[str, Any]
    steps: tuple[Step, ...]
    sliders: tuple[Slider, ...]
    figures: tuple[str, ...]
    background: tuple[str, str]
    #: What the second curve of the picture in the list has set.
    other: dict[str, Any] = field(default_factory=dict)


def _cable(a: str, b: str, rate: str, buffer: str = "200pkt") -> dict[str, Any]:
    return {"between": [a, b], "rate": rate, "delay": "1us", "buffer": buffer}


def _with(form: str, *numbers: object) -> tuple[str, ...]:
    """The values of a key that has a number inside."""
    return tuple(form.format(n) for n in numbers)


# docs/victim.toml, shorter.
_VICTIM = {
    "scenario": "custom",
    "protocol": "cubic",
    "duration": "20ms",
    "warmup": "5ms",
    "host_queue": "unlimited",
    "initial_window": 100,
    "rwnd": "1MB",
    "rto_min": "1ms",
    "rto_initial": "5ms",
    # 80 packets.
    "pfc": "on:xoff=120KB",
    "hosts": ["bully[0-7]", "victim", "sink", "free"],
    "switches": ["left", "right"],
    "bottleneck": "right->sink",
    "link": [
        _cable("bully[0-7]", "left", "10Gbps"),
        _cable("victim", "left", "10Gbps"),
        _cable("left", "right", "100Gbps"),
        _cable("sink", "right", "10Gbps"),
        _cable("free", "right", "10Gbps"),
    ],
    "workload": [{"from": "bully[0-7]", "to": "sink"}, {"from": "victim", "to": "free"}],
}
_RING = {
    "scenario": "custom",
    "protocol": "dctcp",
    "queue": "threshold:k=65pkt",
    "duration": "40ms",
    "host_queue": "unlimited",
    "initial_window": 100,
    "rwnd": "4MB",
    "rto_min": "1ms",
    "rto_initial": "5ms",
    "hosts": ["gpu[0-7]"],
    "switches": ["switch"],
    "bottleneck": "switch->gpu4",
    "link": [_cable("gpu[0-7]", "switch", "100Gbps", "500pkt")],
    "workload": [{"kind": "collective", "operation": "all-reduce", "algorithm": "ring", "size": "8MB"}],
}
_LONG = {"protocol": "dctcp", "duration": "100ms", "warmup": "20ms"}
_SLOW = "gpu3->switch@0s-1s,rate={}bps"

LESSONS = (
    Lesson(
        "incast-timeout-floor",
        "Incast and the timeout floor",
        "Many servers answer one client at the same time. The queue overflows, and then the link is idle for "
        "hundreds of milliseconds: why?",
        "incast",
        {"servers": 32, "protocol": "newreno", "duration": "2s"},
        (
            Step(
                "All answer at once",
                "One client reads a block from 32 servers. All send together, and their packets meet in the "
                "switch port to the client. Press Play.",
                at=0.0004,
                window=(0, 0.01),
                holds=("A.flows == 32",),
            ),
            Step(
                "The queue is full",
                "The port holds 32 packets. A packet that finds no room is dropped (red crosses): {A.drops} "
                "in the whole run.",
                at=0.00094,
                window=(0, 0.01),
                holds=("A.queue_max_packets == 32", "A.drops > 100"),
            ),
            Step(
                "Silence",
                "A server that has lost its last packets waits for its retransmission timer: at least "
                "200 ms, the timeout floor; 400 ms after another loss. The block waits for its slowest "
                "server, so the link is idle: goodput is {A.goodput_bps} of 1 Gb/s.",
                at=0.5,
                window=(0, 2),
                idle="A",
                holds=("A.goodput_bps < 0.2e9", "A.timeouts > 30", "A.utilisation < 0.2"),
                during=((0.05, 0.2, "A.utilisation < 0.01"), (0.43, 0.6, "A.utilisation < 0.01")),
            ),
            Step(
                "A shorter floor",
                "In run B the timer may fire after 1 ms.",
                at=0.5,
                window=(0, 2),
                idle="A",
                set={"rto_min": "1ms"},
                ask=Ask(
                    "What will the goodput be?",
                    "goodput_bps",
                    0,
                    1e9,
                    "The gaps close: while A waits, B sends. More packets are dropped ({B.drops}, not "
                    "{A.drops}), but each costs some milliseconds only.",
                ),
                holds=("B.goodput_bps > 4 * A.goodput_bps", "B.drops > A.drops"),
            ),
            Step(
                "A larger buffer?",
                "Four times the buffer with the old floor: goodput is {B.goodput_bps}. It helps less than "
                "the timer does, because 32 servers fill this buffer too.",
                at=0.88,
                window=(0, 2),
                idle="A",
                set={"buffer": "128pkt"},
                holds=("A.goodput_bps < B.goodput_bps < 0.6e9", "B.queue_max_packets == 128"),
            ),
            Step(
                "Your turn",
                "Drag the timeout floor: which is the largest with which the link is in use for more than "
                "half of the time?",
                at=0.5,
                window=(0, 2),
                idle="A",
                drags=(
                    Drag(
                        "rto_min",
                        "utilisation",
                        ("at('20ms').utilisation > 0.55 > 0.45 > at('50ms').utilisation",),
                    ),
                ),
            ),
        ),
        (
            Slider("servers", "Servers", tuple(map(str, (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)))),
            Slider(
                "rto_min",
                "Timeout floor",
                ("1ms", "2ms", "5ms", "10ms", "20ms", "50ms", "100ms", "200ms", "500ms", "1s"),
            ),
            Slider(
                "buffer",
                "Buffer of the port",
                _with("{}pkt", 16, 32, 64, 128, 256, 512),
                _with("{} packets", 16, 32, 64, 128, 256, 512),
            ),
        ),
        ("goodput_bps", "utilisation", "timeouts", "drops", "queue_max_packets"),
        ("Loss: Reno, NewReno, SACK, CUBIC, Linux", "loss"),
        {"rto_min": "1ms"},
    ),
    Lesson(
        "drop-tail-lock-out",
        "Drop tail locks flows out",
        "Four equal flows share a link. One gets all of it, three get nothing, and the network does exactly "
        "what it was told.",
        "long-flows",
        {
            "flows": 4,
            "protocol": "newreno",
            "queue": "droptail",
            "send_jitter": "0s",
            "duration": "2s",
            "warmup": "200ms",
        },
        (
            Step(
                "A full link",
                "The link carries {A.goodput_bps}, all that it can. Everything looks well.",
                at=0.5,
                window=(0, 2),
                holds=("A.utilisation > 0.99",),
            ),
            Step(
                "Whose packets are they?",
                "All packets on the wire have one colour. Jain’s index of fairness is {A.jain}: 1 would be "
                "equal shares, 0.25 means that one of four flows has everything.",
                at=1.2,
                window=(0, 2),
                first="rate",
                holds=("A.jain < 0.26",),
            ),
            Step(
                "Locked out",
                "The queue is always full. When a packet leaves, the next one of the winning flow takes its "
                "place at that very moment. Packets of the other flows come a moment later and are dropped; "
                "their senders time out and try again.",
                at=1.2,
                window=(1.2, 1.21),
                holds=("A.queue_mean_packets > 0.99 * A.queue_max_packets", "A.timeouts > 3"),
            ),
            Step(
                "A little noise",
                "Real hosts are not exact. Let each packet leave up to 10 µs later, by chance.",
                at=1.2,
                window=(0, 2),
                first="rate",
                set={"send_jitter": "10us"},
                ask=Ask(
                    "What will Jain’s index be?",
                    "jain",
                    0,
                    1,
                    "The lock-out was an artefact of exact clocks: noise of less than a packet’s time on the "
                    "wire dissolves it. Machines of one rack can be exact enough to show it.",
                ),
                holds=("B.jain > 0.95",),
            ),
            Step(
                "Drop by chance",
                "RED drops arriving packets at random as the mean queue grows, whoever sent them. Clocks "
                "stay exact, and fairness is {B.jain}; the queue is {B.queue_mean_packets} long instead of "
                "{A.queue_mean_packets}.",
                at=1.2,
                window=(0, 2),
                first="rate",
                set={"queue": "red"},
                holds=("B.jain > 0.95", "B.queue_mean_packets < 0.5 * A.queue_mean_packets"),
            ),
            Step(
                "Your turn",
                "Drag the noise: how little of it is enough to share the link fairly? Without noise, change "
                "the number of flows: how many get something?",
                at=1.2,
                window=(0, 2),
                first="rate",
                drags=(
                    Drag("send_jitter", "jain", ("at('0s').jain < 0.26", "at('10ns').jain > 0.95")),
                    Drag(
                        "flows",
                        "jain",
                        ("all(abs(at(str(n)).jain - 1 / n) < 0.01 for n in (1, 2, 3, 4, 6, 8, 12, 16))",),
                    ),
                ),
            ),
        ),
        (
            Slider("queue", "Queue discipline", ("droptail", "red"), ("drop tail", "RED"), choice=True),
            Slider(
                "send_jitter",
                "Noise of the senders",
                ("0s", "10ns", "100ns", "1us", "10us", "100us"),
                ("none", "10 ns", "100 ns", "1 µs", "10 µs", "100 µs"),
            ),
            Slider("flows", "Flows", tuple(map(str, (1, 2, 3, 4, 6, 8, 12, 16)))),
        ),
        ("goodput_bps", "jain", "queue_mean_packets", "drops", "timeouts"),
        ("Loss: Reno, NewReno, SACK, CUBIC, Linux", "loss"),
        {"queue": "red"},
    ),
    Lesson(
        "dctcp-threshold",
        "DCTCP and its threshold K",
        "How short can a queue be without wasting the link? One number at the switch decides.",
        "long-flows",
        {"flows": 2, "queue": "threshold:k=20pkt", **_LONG},
        (
            Step(
                "Mark, do not drop",
                "The port marks every packet that finds K = 20 or more packets in it (a ring around the "
                "packet). Nothing is dropped.",
                at=0.05,
                window=(0.048, 0.056),
                value="cwnd_bytes",
                holds=("A.ce_marks > 0", "A.drops == 0"),
            ),
            Step(
                "The sender listens",
                "The receiver echoes the marks. The sender averages the share of marked packets, alpha, and "
                "cuts its window by half of alpha (RFC 8257): a few marks, a small cut.",
                at=0.05,
                window=(0, 0.1),
                value="alpha",
                first="value",
            ),
            Step(
                "A queue that stays near K",
                "The queue is {A.queue_mean_packets} long on average and never longer than "
                "{A.queue_max_packets} after the start, and the link is full.",
                at=0.05,
                window=(0.02, 0.1),
                value="cwnd_bytes",
                holds=(
                    "0.8 * 20 < A.queue_mean_packets < 1.1 * 20",
                    "A.queue_max_packets < 30",
                    "A.utilisation > 0.99",
                ),
            ),
            Step(
                "How low can K go?",
                "Mark from 2 packets on instead of 20.",
                at=0.05,
                window=(0.02, 0.1),
                value="cwnd_bytes",
                set={"queue": "threshold:k=2pkt"},
                ask=Ask(
                    "What will the goodput be?",
                    "goodput_bps",
                    0.5e9,
                    1e9,
                    "K = 2 is a little too low: after a cut the queue runs empty, and the link waits for "
                    "the windows "
                    "to grow again. The link is in use {B.utilisation} of the time.",
                ),
                holds=("B.goodput_bps < 0.97 * A.goodput_bps", "B.utilisation < 0.97"),
            ),
            Step(
                "And high?",
                "With K = 60 the goodput is the same as with 20, and every packet waits three times as long.",
                at=0.05,
                window=(0.02, 0.1),
                value="cwnd_bytes",
                set={"queue": "threshold:k=60pkt"},
                holds=(
                    "abs(B.goodput_bps / A.goodput_bps - 1) < 0.005",
                    "2.5 < B.queue_mean_packets / A.queue_mean_packets < 3.5",
                ),
            ),
            Step(
                "Find the knee",
                "Drag K: below which value does the goodput fall? A longer round trip needs a larger K, "
                "because the windows are larger: with 1 ms, how large?",
                at=0.05,
                window=(0.02, 0.1),
                value="cwnd_bytes",
                drags=(
                    Drag(
                        "queue",
                        "utilisation",
                        (
                            "all(s.utilisation > 0.998 for s in every[3:])",
                            "at('threshold:k=3pkt').utilisation < 0.99",
                            "at('threshold:k=1pkt').utilisation < 0.6",
                        ),
                    ),
                    Drag(
                        "queue",
                        "utilisation",
                        (
                            "max(s.utilisation for s in every[:6]) < 0.998",
                            "min(s.utilisation for s in every[6:]) > 0.999",
                        ),
                        {"rtt": "1ms"},
                    ),
                ),
            ),
        ),
        (
            Slider(
                "queue",
                "Threshold K",
                _with("threshold:k={}pkt", 1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 60, 80),
                ("1 packet", *_with("{} packets", 2, 3, 5, 7, 10, 15, 20, 30, 40, 60, 80)),
            ),
            Slider("flows", "Flows", tuple(map(str, (1, 2, 3, 4, 8, 16, 32)))),
            Slider(
                "rtt",
                "Round-trip time",
                ("50us", "100us", "200us", "300us", "400us", "600us", "1ms"),
                ("50 µs", "100 µs", "200 µs", "300 µs", "400 µs", "600 µs", "1 ms"),
            ),
        ),
        ("goodput_bps", "utilisation", "queue_mean_packets", "queue_max_packets", "ce_marks"),
        ("Marks: DCTCP, DT-DCTCP, D2TCP", "marks"),
        {"queue": "threshold:k=2pkt"},
    ),
    Lesson(
        "two-thresholds",
        "Two thresholds: mark early, stop early",
        "With one threshold the signal comes late twice: when the queue grows, and when it shrinks. DT-DCTCP "
        "has two.",
        "long-flows",
        {"flows": 40, "queue": "hysteresis:k1=15pkt,k2=25pkt", **_LONG},
        (
            Step(
                "Forty flows, one queue",
                "Forty DCTCP flows share a port. Each learns of the queue a round trip late, so the queue "
                "swings.",
                at=0.05,
                window=(0.02, 0.1),
                holds=("A.flows == 40",),
            ),
            Step(
                "Two thresholds",
                "While the queue grows, marking begins at K1 = 15; while it shrinks, marking ends at K2 = "
                "25. Both signals come earlier than from one threshold of 20 between them.",
                at=0.045,
                window=(0.04, 0.05),
            ),
            Step(
                "One threshold",
                "Run B marks from 20 packets on, as plain DCTCP does.",
                at=0.05,
                window=(0.02, 0.1),
                set={"queue": "threshold:k=20pkt"},
                ask=Ask(
                    "How long will its longest queue be?",
                    "queue_max_packets",
                    0,
                    100,
                    "The queue swings more: its standard deviation is {B.queue_std_packets} against "
                    "{A.queue_std_packets}. Goodput is the same within a thousandth.",
                ),
                holds=(
                    "A.queue_std_packets < B.queue_std_packets",
                    "A.queue_max_packets < B.queue_max_packets",
                    "abs(B.goodput_bps / A.goodput_bps - 1) < 0.001",
                ),
            ),
            Step(
                "How many flows does it take?",
                "Drag the number of flows: the more flows, the larger the swing. With two, both queues are "
                "calm, and the second threshold changes nothing.",
                at=0.05,
                window=(0.02, 0.1),
                drags=(
                    Drag(
                        "flows",
                        "queue_std_packets",
                        (
                            "rises('queue_std_packets')",
                            "abs(at('2').queue_std_packets - 1.9) < 0.1",
                        ),
                    ),
                    Drag(
                        "flows",
                        "queue_std_packets",
                        ("abs(at('2').queue_std_packets - 1.9) < 0.1", "at('40').queue_std_packets > 9"),
                        {"queue": "threshold:k=20pkt"},
                    ),
                ),
            ),
        ),
        (
            Slider("flows", "Flows", tuple(map(str, (2, 4, 8, 16, 24, 32, 40, 60)))),
            Slider(
                "queue",
                "Marking",
                ("hysteresis:k1=15pkt,k2=25pkt", "threshold:k=20pkt"),
                ("15 rising, 25 falling", "20"),
                choice=True,
            ),
        ),
        ("queue_std_packets", "queue_max_packets", "queue_mean_packets", "goodput_bps", "ce_marks"),
        ("Marks: DCTCP, DT-DCTCP, D2TCP", "marks"),
        {"queue": "threshold:k=20pkt"},
    ),
    Lesson(
        "rcp-and-xcp",
        "Four flows join: RCP against XCP",
        "Routers that announce rates could make sharing instant. Why does the link then stand idle for three "
        "seconds?",
        "join",
        {"flows": 4, "join_at": "3s", "duration": "12s", "warmup": "1s", "protocol": "rcp"},
        (
            Step(
                "One flow fills the link",
                "An RCP router announces one rate to all. The flow that is alone starts low and has the "
                "whole link, 100 Mb/s, after two seconds.",
                at=2.5,
                window=(0, 3),
                value="rate_bps",
                first="value",
                during=((2, 3, "A.utilisation > 0.95"),),
            ),
            Step(
                "Four more at full rate",
                "At 3 s four flows join. The router tells them its rate: what one flow alone may send. Five "
                "times the link’s rate flows in, and the queue grows to {A.queue_max_packets}.",
                at=3.2,
                window=(2.8, 4.2),
                value="rate_bps",
                holds=("A.queue_max_packets > 5000",),
                during=((3, 4, "A.queue_max_packets > 5000"),),
            ),
            Step(
                "The router overreacts",
                "While this queue drains, RCP lowers the rate again and again, nearly to nothing. It grows "
                "back by a constant factor per round trip: from 4 s to 7 s the link is nearly idle.",
                at=5,
                window=(3, 12),
                value="rate_bps",
                first="value",
                idle="A",
                during=(
                    (3, 4, "A.utilisation > 0.9"),
                    (5, 6, "A.utilisation < 0.01"),
                    (6, 7, "A.utilisation < 0.05"),
                    (9, 10, "A.utilisation > 0.95"),
                    (9, 10, "A.jain > 0.99"),
                ),
            ),
            Step(
                "XCP: a change for each",
                "XCP routers write into each packet by how much its sender’s window may change.",
                at=3.5,
                window=(2, 12),
                value="cwnd_bytes",
                set={"protocol": "xcp"},
                ask=Ask(
                    "How long will XCP’s longest queue be?",
                    "queue_max_packets",
                    0,
                    8000,
                    "The link stays full, the queue short; newcomers wait for their share.",
                ),
                holds=("B.queue_max_packets < A.queue_max_packets / 10", "B.utilisation > 0.95"),
                during=((5, 6, "B.utilisation > 0.95"),),
            ),
            Step(
                "A remedy, and its price",
                "PIQI-RCP ignores the queue and corrects its rate gently. The link is in use {B.utilisation} "
                "of the time, not {A.utilisation}. But the queue drains slowly: {B.queue_mean_packets} on "
                "average, not {A.queue_mean_packets}.",
                at=5,
                window=(2, 12),
                idle="A",
                set={"protocol": "piqi-rcp"},
                holds=(
                    "B.utilisation > A.utilisation + 0.25",
                    "B.queue_mean_packets > 4 * A.queue_mean_packets",
                ),
                during=((5, 6, "B.queue_mean_packets > 3000"),),
            ),
            Step(
                "Your turn",
                "With RCP, drag the round-trip time: the longer it is, the longer the silence, and the less "
                "the link is in use. Why?",
                at=5,
                window=(2, 12),
                value="rate_bps",
                first="value",
                idle="A",
                drags=(
                    Drag(
                        "rtt",
                        "utilisation",
                        (
                            "falls('utilisation')",
                            "every[0].utilisation > 0.85 and every[-1].utilisation < 0.5",
                        ),
                    ),
                ),
            ),
        ),
        (
            Slider(
                "protocol",
                "Protocol",
                ("rcp", "piqi-rcp", "xcp"),
                ("RCP", "PIQI-RCP", "XCP"),
                choice=True,
            ),
            Slider("flows", "Flows that join", tuple(map(str, (1, 2, 3, 4, 6, 8)))),
            Slider("rtt", "Round-trip time", ("40ms", "60ms", "80ms", "100ms", "120ms", "140ms", "160ms")),
        ),
        ("utilisation", "goodput_bps", "queue_mean_packets", "queue_max_packets"),
        ("Explicit rates: RCP, QI-RCP, PIQI-RCP, XCP", "explicit-rates"),
        {"protocol": "xcp"},
    ),
    Lesson(
        "size-classes",
        "SDC: routers that know sizes",
        "Short transfers wait behind long ones. What if the routers knew how much everybody has left to "
        "send?",
        "mix",
        {"protocol": "sdc", "duration": "1s", "warmup": "200ms"},
        (
            Step(
                "Short among long",
                "Servers 0 and 1 send long flows all the time. Server 2 sends short ones of 2 to 50 KB, one "
                "after the other.",
                at=0.5,
                window=(0.45, 0.55),
                holds=("A.flows > 50",),
            ),
            Step(
                "Classes by what remains",
                "SDC sorts flows into classes by the bytes that they have left. Its routers announce how "
                "loaded they are, and senders with little left may send more. The queue is "
                "{A.queue_mean_packets} "
                "long on average.",
                at=0.5,
                window=(0.2, 1),
                holds=("A.queue_mean_packets < 3",),
            ),
            Step(
                "Without it",
                "Run B is TCP NewReno with the same flows and the same link.",
                at=0.5,
                window=(0.2, 1),
                set={"protocol": "newreno"},
                ask=Ask(
                    "How long will the slowest short flows take?",
                    "fct_p99_s",
                    0,
                    0.03,
                    "The long flows fill the buffer, and every short flow waits behind them. The link is "
                    "fuller ({B.utilisation} against {A.utilisation}): SDC pays for its short queue with "
                    "capacity.",
                ),
                holds=(
                    "B.utilisation > A.utilisation",
                    "B.queue_mean_packets > 5 * A.queue_mean_packets",
                    "B.fct_p99_s > 2 * A.fct_p99_s",
                    "B.fct_mean_s > 2 * A.fct_mean_s",
                ),
            ),
            Step(
                "More at once",
                "Drag the number of long flows, first to none: with which protocol do the short flows notice "
                "them? With SDC, do sixteen sources of short flows still finish sooner than one does with "
                "NewReno?",
                at=0.5,
                window=(0.2, 1),
                drags=(
                    Drag("long_flows", "fct_p99_s", ("max(s.fct_p99_s for s in every) < 0.005",)),
                    Drag(
                        "long_flows",
                        "fct_p99_s",
                        ("at('0').fct_p99_s < 0.0025", "min(s.fct_p99_s for s in every[1:]) > 0.015"),
                        {"protocol": "newreno"},
                    ),
                    Drag(
                        "sources",
                        "fct_p99_s",
                        (
                            "rises('fct_p99_s')",
                            # With NewReno one source takes 18 ms.
                            "at('16').fct_p99_s < 0.01",
                        ),
                    ),
                ),
            ),
        ),
        (
            Slider(
                "protocol", "Protocol", ("sdc", "newreno", "dctcp"), ("SDC", "NewReno", "DCTCP"), choice=True
            ),
            Slider("sources", "Sources of short flows", tuple(map(str, (1, 2, 4, 8, 16)))),
            Slider("long_flows", "Long flows", tuple(map(str, (0, 1, 2, 4, 8)))),
        ),
        ("fct_p99_s", "fct_mean_s", "queue_mean_packets", "utilisation", "drops"),
        ("Sizes and deadlines: SDC, RACS, D3, pFabric, Homa, pHost, PIAS", "size-aware"),
        {"protocol": "newreno"},
    ),
    Lesson(
        "collective-control",
        "CBC: connections that agree",
        "A database and file transfers share one link. Connections that suffer together could slow down "
        "together.",
        "db-ftp",
        {
            "control": "cbc",
            "db_start": "1s",
            "ftp_start": "3s",
            "ftp_stop": "12s",
            "duration": "15s",
            "warmup": "2s",
        },
        (
            Step(
                "A database alone",
                "From 1 s on, the database on server 1 answers queries of clients 1 and 2, over a link of "
                "10 Mb/s.",
                at=2.5,
                window=(1, 3),
                during=((2, 3, "A.drops == 0"),),
            ),
            Step(
                "Files come",
                "From 3 s to 12 s server 2 and client 3 exchange files, in both directions. They share the "
                "link and the router’s buffer, and the queue grows.",
                at=5,
                window=(2, 15),
            ),
            Step(
                "Who suffers together",
                "Collective control finds connections whose packets are lost at the same place, and caps "
                "their windows together. The run loses {A.drops} packets. Timeouts: {A.timeouts}.",
                at=8,
                window=(2, 15),
                value="cwnd_bytes",
                first="value",
                holds=("A.drops < 20", "A.timeouts < 3"),
            ),
            Step(
                "Each for itself",
                "Run B has no collective control.",
                at=8,
                window=(2, 15),
                set={"control": "none"},
                ask=Ask(
                    "How many packets will be dropped?",
                    "drops",
                    0,
                    100,
                    "More are lost, and {B.timeouts} timers expire. The caps have a price: a transfer, file "
                    "or answer of the database, takes {A.fct_mean_s} on average with them, {B.fct_mean_s} "
                    "without.",
                ),
                holds=(
                    "A.drops < B.drops / 2",
                    "A.timeouts < B.timeouts",
                    "A.fct_mean_s > B.fct_mean_s",
                    "A.fct_mean_s_of_workload_2 < B.fct_mean_s_of_workload_2",
                ),
            ),
            Step(
                "Your turn",
                "Drag the file transfers down to five, then turn collective control off: does it cost a "
                "transfer more or less time than with 25?",
                at=8,
                window=(2, 15),
                drags=(
                    Drag(
                        "ftp_streams", "fct_mean_s", ("at('5').fct_mean_s > 0.7", "at('40').fct_mean_s < 1.4")
                    ),
                    Drag(
                        "ftp_streams",
                        "fct_mean_s",
                        ("at('5').fct_mean_s < 0.36", "at('40').fct_mean_s > 1.1"),
                        {"control": "none"},
                    ),
                ),
            ),
        ),
        (
            Slider("control", "Collective control", ("cbc", "none"), ("on", "off"), choice=True),
            Slider("ftp_streams", "File transfers at once", tuple(map(str, (5, 10, 15, 20, 25, 30, 40)))),
        ),
        ("drops", "timeouts", "fct_mean_s", "queue_mean_packets", "utilisation"),
        ("Collective control: CBC", "collective"),
        {"control": "none"},
    ),
    Lesson(
        "trimming",
        "NDP: cut the payload, keep the header",
        "A dropped packet says nothing. A trimmed packet says at once what is missing.",
        "permutation",
        {"topology": "leaf-spine:2x2x8", "link_rate": "10Gbps", "protocol": "ndp", "duration": "1ms"},
        (
            Step(
                "All send at line rate",
                "NDP senders do not start slowly: each sends a full window at once. Two leaves with eight "
                "hosts "
                "each share two spines, so some ports get more than they can send.",
                at=0.00003,
                window=(0, 0.0002),
            ),
            Step(
                "Trimmed, not dropped",
                "A port that is full cuts the payload off. The header, a thin bar with a stroke across, "
                "overtakes the data that waits. {A.trims} packets are trimmed, {A.drops} are dropped.",
                at=0.00004,
                window=(0, 0.0002),
                holds=("A.trims > 0", "A.drops == 0"),
            ),
            Step(
                "The receiver pulls",
                "The receiver learns at once what is missing and asks for it again, at the rate of its own "
                "link. Queues stay short: {A.queue_max_packets} at most at the bottleneck.",
                at=0.0005,
                window=(0, 0.001),
                holds=("A.queue_max_packets < 25",),
            ),
            Step(
                "All paths",
                "Packets of one flow take all paths. Here flow 0 has its colour, all others are grey: it "
                "uses both spines at once.",
                at=0.00050975,
                window=(0.00045, 0.00055),
                flow=0,
            ),
            Step(
                "One path, and marks",
                "Run B is DCTCP with one path for each flow.",
                at=0.0005,
                window=(0, 0.001),
                set={"protocol": "dctcp"},
                ask=Ask(
                    "How long will the longest queue be?",
                    "queue_max_packets",
                    0,
                    100,
                    "Some links carry several flows, others none, and queues are where flows meet.",
                ),
                holds=("B.queue_max_packets > 2 * A.queue_max_packets",),
            ),
            Step(
                "Your turn",
                "Give the leaves more spines: what becomes of the queue, and with how many is nothing "
                "trimmed?",
                at=0.0005,
                window=(0, 0.001),
                drags=(
                    Drag(
                        "topology",
                        "queue_max_packets",
                        ("falls('queue_max_packets')",),
                    ),
                    Drag(
                        "topology",
                        "trims",
                        ("min(s.trims for s in every[:-1]) > 0", "every[-1].trims == 0"),
                    ),
                ),
            ),
        ),
        (
            Slider("protocol", "Protocol", ("ndp", "dctcp", "nscc"), ("NDP", "DCTCP", "NSCC"), choice=True),
            Slider(
                "topology",
                "Spines",
                _with("leaf-spine:2x{}x8", 1, 2, 4, 8),
                ("1", "2", "4", "8"),
            ),
        ),
        ("queue_max_packets", "trims", "retransmits", "goodput_bps", "utilisation"),
        ("Trimming and credit: NDP, EQDS, Ultra Ethernet", "trimming"),
        {"protocol": "dctcp"},
    ),
    Lesson(
        "pause-spreads",
        "Pause spreads to those who did nothing",
        "Ethernet can promise not to lose packets. The promise is kept by stopping whoever stands behind.",
        _VICTIM,
        {},
        (
            Step(
                "Nine senders, two receivers",
                "Eight bullies send to the sink, one victim to a host that is free. Every host has a link of "
                "10 Gb/s. The link between the switches has 100 Gb/s: room for all nine.",
                at=0.000016,
                window=(0, 0.0001),
                holds=("A.flows == 9",),
            ),
            Step(
                "No loss",
                "The sink’s port is overloaded. Before it is full, the right switch pauses the link from the "
                "left (a red barrier). Then the left switch fills, and pauses all hosts: {A.pauses} pauses, "
                "{A.drops} packets dropped.",
                at=0.0101265,
                window=(0.01006, 0.01014),
                holds=("A.drops == 0", "A.pauses > 100"),
            ),
            Step(
                "The victim",
                "A pause stops the whole link, and the victim’s packets with it. The victim has "
                "{A.goodput_bps_of_8}, no more than a bully, though its receiver could take 10 Gb/s.",
                at=0.01,
                window=(0.005, 0.02),
                flow=8,
                first="rate",
                holds=("abs(A.goodput_bps_of_8 / A.goodput_bps_of_0 - 1) < 0.01",),
            ),
            Step(
                "Without pause",
                "In run B switches drop packets instead.",
                at=0.01,
                window=(0.005, 0.02),
                flow=8,
                first="rate",
                set={"pfc": "off"},
                ask=Ask(
                    "What will the victim’s goodput be?",
                    "goodput_bps_of_8",
                    0,
                    1e10,
                    "The sink’s port drops {B.drops} packets, none of them the victim’s: it has its link for "
                    "itself.",
                ),
                holds=("B.drops > 0", "B.drops_of_8 == 0", "9.5e9 < B.goodput_bps_of_8 < 1e10"),
            ),
            Step(
                "Earlier or later",
                "Drag the threshold at which the switch pauses. Early or late, a pause leaves the victim "
                "less than 2 Gb/s of its 10. Only without pause is it free: what do the bullies pay then?",
                at=0.01,
                window=(0.005, 0.02),
                flow=8,
                first="rate",
                drags=(
                    Drag(
                        "pfc",
                        "goodput_bps_of_8",
                        (
                            "all(1e9 < s.goodput_bps_of_8 < 2e9 for s in every[:-1])",
                            "at('off').goodput_bps_of_8 > 9.5e9",
                            "all(s.drops == 0 for s in every[:-1]) and at('off').drops > 0",
                        ),
                    ),
                ),
            ),
        ),
        (
            Slider(
                "pfc",
                "Pause when a port holds",
                (*_with("on:xoff={}KB", 30, 60, 90, 120, 150, 180, 210, 240), "off"),
                (*_with("{} packets", 20, 40, 60, 80, 100, 120, 140, 160), "never"),
            ),
        ),
        ("goodput_bps_of_8", "goodput_bps", "pauses", "drops", "queue_max_packets"),
        ("RDMA: DCQCN, HPCC, TIMELY, Swift, PowerTCP, DCTCP", "rdma"),
        {"pfc": "off"},
    ),
    Lesson(
        "spray-or-hash",
        "Spray or hash: one path or all of them",
        "Five flows each way share four spines. Spread evenly, each would take a quarter longer than alone; "
        "yet some take three times as long.",
        "permutation",
        {
            "topology": "leaf-spine:2x4x8",
            "link_rate": "10Gbps",
            "protocol": "dctcp",
            "spread": "drawn",
            "flow_size": "2MB",
            "duration": "8ms",
        },
        (
            Step(
                "A path for each flow",
                "Sixteen hosts send 2 MB each, ten of them to the other leaf. A switch picks a spine for "
                "each flow, as a hash would (ECMP), so that packets stay in order.",
                at=0.0004,
                window=(0, 0.0055),
                holds=("A.flows_completed == 16", "A.retransmits == 0"),
            ),
            Step(
                "Collisions",
                "Some uplinks carry two or three flows, others none. The slowest flows take "
                "{A.slowdown_p99} times as long as alone.",
                at=0.001,
                window=(0, 0.0055),
                holds=("A.slowdown_p99 > 2.5",),
            ),
            Step(
                "Spray",
                "Run B sends every packet over a spine that is drawn at random.",
                at=0.001,
                window=(0, 0.0055),
                set={"spread": "packet"},
                ask=Ask(
                    "How many times as long as alone will its slowest flows take?",
                    "slowdown_p99",
                    1,
                    4,
                    "All uplinks carry the same, and the slowest flow is much sooner done.",
                ),
                holds=("B.slowdown_p99 < 0.75 * A.slowdown_p99", "B.flows_completed == 16"),
            ),
            Step(
                "Out of order",
                "No packet was lost in run B ({B.drops} drops), and yet {B.retransmits} were sent again: "
                "packets overtake each other, and TCP takes three duplicate ACKs for a loss.",
                at=0.001,
                window=(0, 0.0055),
                set={"spread": "packet"},
                holds=("B.drops == 0", "B.retransmits > 20", "A.retransmits == 0"),
            ),
            Step(
                "A transport made for it",
                "NDP expects packets in any order. A header without payload says what is missing: {B.trims} "
                "packets were trimmed, as many were sent again, and the slowest flow takes {B.slowdown_p99} "
                "times as long as alone.",
                at=0.001,
                window=(0, 0.0055),
                set={"spread": "packet", "protocol": "ndp"},
                holds=("B.retransmits <= B.trims", "B.slowdown_p99 < 0.6 * A.slowdown_p99"),
            ),
            Step(
                "Your turn",
                "With hashing, drag the number of spines: do sixteen make the slowest flow as fast as "
                "spraying does over four? Then try flowlets: packets change their path only after a pause.",
                at=0.001,
                window=(0, 0.0055),
                drags=(
                    Drag(
                        "topology",
                        "slowdown_p99",
                        ("min(s.slowdown_p99 for s in every) > 1.9", "every[0].slowdown_p99 > 3.5"),
                    ),
                    Drag(
                        "topology",
                        "slowdown_p99",
                        (
                            "at('leaf-spine:2x4x8').slowdown_p99 < 1.9",
                            "falls('slowdown_p99')",
                        ),
                        {"spread": "packet"},
                    ),
                    Drag(
                        "topology",
                        "slowdown_p99",
                        ("at('leaf-spine:2x4x8').slowdown_p99 < 2.2",),
                        {"spread": "flowlet:gap=50us"},
                    ),
                ),
            ),
        ),
        (
            Slider(
                "spread",
                "Paths",
                ("drawn", "ideal", "flowlet:gap=50us", "packet"),
                ("hash", "least used", "flowlets", "spray"),
                choice=True,
            ),
            Slider("protocol", "Protocol", ("dctcp", "ndp", "nscc"), ("DCTCP", "NDP", "NSCC"), choice=True),
            Slider("topology", "Spines", _with("leaf-spine:2x{}x8", 2, 4, 8, 16), ("2", "4", "8", "16")),
        ),
        ("slowdown_p99", "fct_mean_s", "retransmits", "trims", "queue_max_packets"),
        ("Trimming and credit: NDP, EQDS, Ultra Ethernet", "trimming"),
        {"spread": "packet"},
    ),
    Lesson(
        "ring-all-reduce",
        "All-reduce in a ring: the slowest link decides",
        "Eight GPUs add up their gradients by passing pieces around a ring. What does one slow cable cost?",
        _RING,
        {},
        (
            Step(
                "Fourteen steps",
                "Each GPU splits its 8 MB into eight pieces. Seven times it sends a piece to its neighbour, "
                "which adds its own; seven times more the finished pieces go round. A GPU sends its next "
                "piece when the one before has come.",
                at=0.0003,
                window=(0, 0.003),
                holds=("A.flows == 8 * 14", "A.flows_completed == 8 * 14"),
            ),
            Step(
                "Everybody is busy",
                "All eight links work at the same time, each with a piece of 1 MB. The bus bandwidth, which "
                "counts what each link must carry, is {A.busbw_bps} of 100 Gb/s: every piece starts slowly "
                "and waits for the one before.",
                at=0.00025,
                window=(0, 0.003),
                holds=("0.5e11 < A.busbw_bps < 1e11",),
            ),
            Step(
                "One slow cable",
                "The link of GPU 3 runs at 25 Gb/s instead of 100: one of eight.",
                at=0.001,
                window=(0, 0.006),
                set={"fail": _SLOW.format("25G")},
                ask=Ask(
                    "What will the bus bandwidth be?",
                    "busbw_bps",
                    0,
                    1e11,
                    "As slow as the slowest link. Every piece passes it on its way round, so all others "
                    "wait.",
                ),
                holds=("0.9 * 25e9 < B.busbw_bps < 25e9",),
            ),
            Step(
                "Seven wait for one",
                "The port to GPU 4, behind the slow cable, is in use for a quarter of the time in B: packets "
                "come with gaps. A GPU that has passed its piece on waits for the next one.",
                at=0.0015,
                window=(0, 0.006),
                port="switch→gpu4",
                first="rate",
                set={"fail": _SLOW.format("25G")},
                holds=("0.2 < B.utilisation < 0.3", "A.utilisation > 0.5"),
            ),
            Step(
                "Your turn",
                "Drag the rate of the slow cable: up to 50 Gb/s the bus bandwidth follows it, then DCTCP’s "
                "slow starts are the limit. With Swift, how far does it follow?",
                at=0.001,
                window=(0, 0.006),
                drags=(
                    Drag(
                        "fail",
                        "busbw_bps",
                        (
                            "all(0.88e9 < s.busbw_bps / r < 1e9 for s, r in zip(every, (5, 10, 25, 40, 50)))",
                            "every[5].busbw_bps < 0.8 * 75e9 and every[6].busbw_bps < 0.65 * 100e9",
                        ),
                    ),
                    Drag(
                        "fail",
                        "busbw_bps",
                        (
                            "all(s.busbw_bps / r > 0.93e9 for s, r in zip(every, (5, 10, 25, 40, 50, 75)))",
                            "every[6].busbw_bps > 0.9 * 100e9",
                        ),
                        {"protocol": "swift"},
                    ),
                ),
            ),
        ),
        (
            Slider(
                "fail",
                "Rate of GPU 3’s cable",
                (*_with(_SLOW, "5G", "10G", "25G", "40G", "50G", "75G"), ""),
                (*_with("{} Gb/s", 5, 10, 25, 40, 50, 75), "100 Gb/s"),
            ),
            Slider(
                "protocol", "Protocol", ("dctcp", "cubic", "swift"), ("DCTCP", "CUBIC", "Swift"), choice=True
            ),
        ),
        ("busbw_bps", "algbw_bps", "fct_p99_s", "utilisation", "queue_max_packets"),
        ("RDMA: DCQCN, HPCC, TIMELY, Swift, PowerTCP, DCTCP", "rdma"),
        {"fail": _SLOW.format("25G")},
    ),
)
