"""The gallery: pages that each teach one thing, with the parameters to play with. Nothing here is drawn by
hand; every page runs its scenario.

A lesson says what to look at and what to change. What it claims is tested (`tests/python/test_gallery.py`).
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import results
from penstock.views import view


@dataclass(frozen=True)
class Lesson:
    """One page: `scenario` with `settings`, paragraphs of `text`, parameters to show at once; `other`: what
    the text asks to set in the run beside it.
    """

    name: str
    title: str
    scenario: Any
    settings: dict[str, Any]
    text: tuple[str, ...]
    controls: tuple[str, ...]
    other: dict[str, Any]


def _cable(a: str, b: str, rate: str) -> dict[str, Any]:
    return {"between": [a, b], "rate": rate, "delay": "1us", "buffer": "200pkt"}


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
    "pfc": "on:xoff=100KB",
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
_LONG = {"protocol": "dctcp", "duration": "100ms", "warmup": "20ms"}

LESSONS = (
    Lesson(
        "incast-timeout-floor",
        "Incast and the timeout floor",
        "incast",
        {"servers": 32, "protocol": "newreno", "duration": "2s"},
        (
            "One client reads a block striped over 32 servers. All answer at once, and the queue that they "
            "share, of 32 packets, overflows.",
            "A server whose last packets are lost gets no duplicate ACKs: nothing tells it of the loss but "
            "its retransmission timer, which waits 200 ms at least. The block is as late as its slowest "
            "server, and the link stands idle meanwhile: see the long gaps in the queue.",
            "Set rto_min to 1ms and press “Run as B, beside A”: the gaps close, and goodput_bps is many "
            "times higher, although more packets are dropped. Then try a buffer of 64pkt with the old floor.",
        ),
        ("servers", "rto_min", "buffer", "protocol", "sru", "duration"),
        {"rto_min": "1ms"},
    ),
    Lesson(
        "drop-tail-lock-out",
        "Drop tail locks flows out",
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
            "Four long flows share a queue that drops what does not fit. With exact hosts (send_jitter=0s) "
            "packets keep in step: each that leaves the full queue lets one of the same flow in, and whoever "
            "comes a moment later finds no room, again and again.",
            "Choose a flow and look at its sequence numbers: one flow has the link, the others time out. "
            "That is an artefact of exact clocks, and real enough between machines of one rack.",
            "Run queue=red beside it: who is dropped is drawn by chance, and jain is near 1. Then go back to "
            "droptail with a send_jitter of 10us.",
        ),
        ("queue", "send_jitter", "flows", "buffer", "protocol"),
        {"queue": "red"},
    ),
    Lesson(
        "dctcp-threshold",
        "DCTCP and its threshold K",
        "long-flows",
        {"flows": 2, "queue": "threshold:k=20pkt", **_LONG},
        (
            "The port marks every packet that finds K or more waiting (dashed line). The receiver echoes "
            "marks, and the sender cuts its window by half of alpha, the marked share that it averages "
            "(RFC 8257). So the queue stays near K instead of filling the buffer.",
            "Choose “alpha” as value of flows to see the average at work.",
            "Set queue to threshold:k=2pkt and run it beside: the queue is empty at times, and utilisation "
            "falls. With k=60pkt nothing is gained but delay.",
        ),
        ("queue", "flows", "protocol", "buffer", "link_delay"),
        {"queue": "threshold:k=2pkt"},
    ),
    Lesson(
        "two-thresholds",
        "Two thresholds: mark early, stop early",
        "long-flows",
        {"flows": 40, "queue": "hysteresis:k1=15pkt,k2=25pkt", **_LONG},
        (
            "DT-DCTCP begins to mark at K1 while the queue grows, and goes on until it has fallen below K2: "
            "both signals come earlier than from one threshold between them.",
            "With 40 flows the queue swings. Run queue=threshold:k=20pkt beside it and compare "
            "queue_std_packets and queue_max_packets; then the same with 2 and with 8 flows.",
        ),
        ("queue", "flows", "protocol", "link_delay"),
        {"queue": "threshold:k=20pkt"},
    ),
    Lesson(
        "rcp-and-xcp",
        "Four flows join: RCP against XCP",
        "join",
        {"flows": 4, "join_at": "3s", "duration": "6s", "warmup": "1s", "protocol": "rcp"},
        (
            "One flow has the link; after 3 s four others join it. Routers tell senders what to do: RCP a "
            "rate for all, XCP a change of window for each.",
            "RCP gives a newcomer the rate of those that are there, at once, and the queue pays for it until "
            "all have heard of less. See the queue after 3 s.",
            "Run protocol=xcp beside it: shares move little by little, the queue stays short, and newcomers "
            "wait for their share.",
        ),
        ("protocol", "flows", "join_at", "rtt", "capacity", "duration"),
        {"protocol": "xcp"},
    ),
    Lesson(
        "size-classes",
        "SDC: routers that know sizes",
        "mix",
        {"protocol": "sdc", "duration": "1s", "warmup": "200ms"},
        (
            "Short and long flows come at random. SDC sorts flows into classes by size; its routers split "
            "the rate among these, and senders obey.",
            "Run protocol=newreno beside it: the link is fuller and so is the queue, and completion times "
            "(fct_mean_s, fct_p99_s) are several times longer.",
        ),
        ("protocol", "load", "sizes", "duration"),
        {"protocol": "newreno"},
    ),
    Lesson(
        "collective-control",
        "CBC: connections that agree",
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
            "A database and file transfers share a router's buffer, split into classes. From 3 s on files "
            "come. Collective control finds connections that suffer together and caps their windows "
            "together.",
            "Run control=none beside it and compare drops and timeouts: the caps prevent most of them, and "
            "cost some completion time.",
        ),
        ("control", "protocol", "limits", "ftp", "duration"),
        {"control": "none"},
    ),
    Lesson(
        "trimming",
        "NDP: cut the payload, keep the header",
        "permutation",
        {"topology": "leaf-spine:2x2x8", "link_rate": "10Gbps", "protocol": "ndp", "duration": "1ms"},
        (
            "A full port cuts the payload off instead of dropping the packet. The header (a thin bar) goes "
            "ahead of all data, and the receiver knows at once what is missing and asks for it again.",
            "Packets of one flow take all paths: choose a flow and watch both spines.",
            "Run protocol=dctcp beside it: one path per flow. Some links carry several flows, others none, "
            "and the longest queue is several times longer.",
        ),
        ("protocol", "topology", "spread", "link_rate", "duration"),
        {"protocol": "dctcp"},
    ),
    Lesson(
        "pause-spreads",
        "Pause spreads to those who did nothing",
        _VICTIM,
        {},
        (
            "Eight senders overload the port to “sink”. With pfc=on nothing is lost there: the switch stops "
            "the link that feeds it (a barrier), and with that link everybody on it.",
            "The victim sends to “free”, where there is room, and is stopped all the same: choose flow 8.",
            "Run pfc=off beside it: packets are dropped, and the victim has its link for itself.",
        ),
        ("pfc", "protocol", "buffer", "duration"),
        {"pfc": "off"},
    ),
)

_INDEX = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>penstock: gallery</title><style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
main {{ max-width: 70ch; margin: 0 auto; padding: 0 16px; }} li {{ margin: 10px 0; }}
</style></head><body><main><h1>Nine lessons that run</h1>
<p>Each page simulates in your browser, packet by packet, and runs again with what you change.
No network needed.</p>
<ol>{rows}</ol></main></body></html>
"""


def write(folder: Path, on_page: Callable[[str], None] = lambda name: None) -> Path:
    """Write all pages and their list into `folder`; the path of the list. Raises `views.NotBuilt`,
    OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for lesson in LESSONS:
        page = view(
            lesson.scenario,
            settings=lesson.settings,
            title=lesson.title,
            lesson=lesson.text,
            controls=lesson.controls,
        )
        page.save(folder / f"{lesson.name}.html")
        title, text = html.escape(lesson.title), html.escape(lesson.text[0])
        rows.append(f'<li><a href="{lesson.name}.html">{title}</a><br>{text}</li>')
        on_page(lesson.name)
    results.put(folder / "index.html", _INDEX.format(rows="\n".join(rows)))
    return folder / "index.html"
