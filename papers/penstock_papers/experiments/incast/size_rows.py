"""Section 3.2: the buffer of the switch and the size of a request (Fig 3.13 to 3.20).

Each figure has the simulation at one size; what is said of them compares sizes. A figure's claims compare its
size with the next smaller one; those of the smallest are those of the second, shown once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from penstock_papers.experiments.common import Floats, later, ratio_of_means
from penstock_papers.experiments.incast import setup
from penstock_papers.experiments.incast.beside import FULL, SLOWEST, SPLIT, Beside
from penstock_papers.experiments.incast.model_rows import WINDOW
from penstock_papers.experiments.incast.model_rows import draw as draw_models
from penstock_papers.ledger import CONFIRMED, Cause, Estimate, Lab, Measurement, Row
from penstock_papers.ledger.effects import effect

VISIBLY = effect("different").criterion("lower")

BUFFERS = (16, 32, 64, 128)
REQUESTS = (64, 128, 256, 512)
# Numbers of servers of the search.
SIZED = (2, 4, 6, 8, 16, 32)

Settings = Callable[[int, Mapping[str, Any] | None], dict[str, Any]]


def buffer_settings(size: int, point: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Table 3.1 with a switch buffer of so many KB."""
    return setup.chosen(point) | setup.buffer(size, point)


def request_settings(size: int, point: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Table 3.1 with requests of so many KB."""
    return setup.chosen(point) | setup.buffer(32, point) | {"sru": f"{size}KB"}


def _each(curve: setup.Curve, key: str) -> Floats:
    """A count of the models' inputs, mean over the numbers of servers, of each run."""
    return curve.per_run(key).mean(axis=0)


def _pair(small: setup.Curve, large: setup.Curve) -> dict[str, Any]:
    """What the larger size gains over the smaller one, run by run."""
    n = np.array(small.servers)
    less, more = small.per_run(), large.per_run()
    worse = [int(m) for m, a, b in zip(n, less, more, strict=True) if Estimate.of(b - a).high < 0]
    return {
        # The larger size's over the smaller one's.
        "over": {
            "goodput": Estimate.of(setup.overall(large) / setup.overall(small)),
            "after": Estimate.of(setup.overall(large, setup.MANY) / setup.overall(small, setup.MANY)),
            **{
                name: ratio_of_means(_each(large, key), _each(small, key))
                for name, key in (("p_c", "model_p_c"), ("p_r", "model_p_r"), ("at start", "model_delta"))
            },
        },
        "gain": Estimate.of((setup.overall(large) - setup.overall(small)) / 1e6),
        "gain after": Estimate.of(
            (setup.overall(large, setup.MANY) - setup.overall(small, setup.MANY)) / 1e6
        ),
        "later": later(small.onsets, large.onsets),
        "onsets": [Estimate.median(small.onsets), Estimate.median(large.onsets)],
        "means": [Estimate.of(setup.overall(small) / 1e6), Estimate.of(setup.overall(large) / 1e6)],
        "worse at": worse,
        # Numbers of servers at which one size's goodput is visibly below the other's.
        "visibly worse": _visibly_less(more, less),
        "visibly better": _visibly_less(less, more),
    }


def _visibly_less(one: Floats, other: Floats) -> int:
    """At how many numbers of servers the whole interval of one curve is visibly below the other."""
    return sum(VISIBLY.judge(Estimate.of(a / b)) == CONFIRMED for a, b in zip(one, other, strict=True))


def _measured(
    lab: Lab, sizes: tuple[int, ...], settings: Settings
) -> tuple[dict[int, setup.Curve], dict[str, Any]]:
    given = {str(size): settings(size, None) for size in sizes}
    found = setup.curves(lab, given, setup.grid(lab), length=setup.measuring(lab))
    by_size = {size: found[str(size)] for size in sizes}
    pairs = {str(b): _pair(by_size[a], by_size[b]) for a, b in pairwise(sizes)}
    numbers = {str(size): curve.numbers() for size, curve in by_size.items()}
    return by_size, {"curves": numbers, "pairs": pairs, "models": _models(by_size)}


def _models(by_size: Mapping[int, setup.Curve], sru: int = 256) -> dict[str, Any]:
    out = {}
    for size, curve in by_size.items():
        beside = Beside.of(curve.servers, curve.sets, sru=sru, window=WINDOW, chosen=setup.CHOSEN)
        out[str(size)] = {
            "servers": list(curve.servers),
            "simulated": beside.simulated,
            "models": {model: beside.model(model) for model in (FULL, SPLIT, SLOWEST)},
        }
    return out


def measure_buffers(lab: Lab) -> Measurement:
    """The four buffers."""
    return _measured(lab, BUFFERS, buffer_settings)[1]


def measure_requests(lab: Lab) -> Measurement:
    """The four sizes of a request, and where a larger one gets less, sizes between the two."""
    by_size, found = _measured(lab, REQUESTS, request_settings)
    found["models"] = {}
    for size, curve in by_size.items():
        found["models"] |= _models({size: curve}, sru=size)
    for small, large in pairwise(REQUESTS):
        pair = found["pairs"][str(large)]
        if pair["worse at"]:
            pair["between"] = _between(lab, small, large, pair["worse at"][-1])
    return found


def _between(lab: Lab, small: int, large: int, servers: int) -> dict[str, Any]:
    """Losses per sender and block, timeouts per loss and goodput for sizes between two, at one number."""
    sizes = [round(small + part * (large - small)) for part in (0, 0.125, 0.25, 0.5, 1)]
    given = {str(size): request_settings(size) for size in sizes}
    found = [
        curve.sets[0] for curve in setup.curves(lab, given, (servers,), length=setup.measuring(lab)).values()
    ]
    losses = [
        r.mean("model_p_r") * r.mean("model_packets") / (servers * r.mean("model_blocks")) for r in found
    ]
    timeouts = [r.mean("model_delta") + r.mean("model_iota") for r in found]
    return {
        "servers": servers,
        "sizes": sizes,
        "losses": losses,
        "timeouts per loss": [
            t / max(loss * servers, 1e-9) for t, loss in zip(timeouts, losses, strict=True)
        ],
        "goodput": [r.mean("goodput_bps") / 1e6 for r in found],
    }


def _in_step(found: Mapping[str, Any]) -> bool:
    """Whether timeouts begin where a second loss fits into a block: hardly any with one loss per sender, more
    than three times as many per loss with the larger request.
    """
    if "between" not in found:
        return False
    losses, rate = found["between"]["losses"], found["between"]["timeouts per loss"]
    return losses[0] < 1.5 < losses[-1] and rate[-1] > 3 * max(rate[0], 1e-6)


def _told_between(found: Mapping[str, Any]) -> str:
    at = found["between"]
    return (
        f"with {at['servers']} servers and {setup.listed(at['sizes'])} KB "
        f"{setup.listed([f'{x:.2f}' for x in at['losses']])} losses per sender and block, "
        f"{setup.listed([f'{x:.4f}' for x in at['timeouts per loss']])} timeouts per loss, "
        f"{setup.listed([f'{x:.0f}' for x in at['goodput']])} Mb/s"
    )


# ---- rows -------------------------------------------------------------------------------------------------


def _row(
    figure: str,
    title: str,
    key: str,
    measure: Callable[[Lab], Measurement],
    settings: Settings,
    pair: tuple[int, int],
    unit: str,
    causes: tuple[Cause, ...] = (),
) -> Row:
    def sketch(m: Measurement, lab: Lab) -> list[Path]:
        shown = {f"{size} {unit}": m["curves"][str(size)] for size in pair}
        models = draw_models(f"Models beside the simulation, {title}", m["models"][key])
        return [
            lab.save(models, f"I-{figure}-models"),
            lab.save(setup.draw(f"{title}, and its neighbour", shown), f"I-{figure}"),
        ]

    def probe(lab: Lab, point: Mapping[str, Any]) -> Measurement:
        given = {str(size): settings(size, point) for size in pair}
        length = setup.SEARCHED_LOSSES | {"duration": "3s"}
        small, large = setup.curves(lab, given, SIZED, length=length, runs=setup.PROBED).values()
        return {"pairs": {str(pair[1]): _pair(small, large)}}

    return Row(
        f"I-{figure}",
        f"{title} (Fig {figure})",
        measure=measure,
        draw=sketch,
        causes=causes,
        matters=setup.MATTERS,
        probe=probe,
    )


def _buffer_rows() -> list[Row]:
    found: list[Row] = []
    for i, size in enumerate(BUFFERS):
        index = max(1, i)
        pair = (BUFFERS[index - 1], BUFFERS[index])
        title = f"Goodput with a switch buffer of {size} KB"
        row = _row(f"3.{13 + i}", title, str(size), measure_buffers, buffer_settings, pair, "KB")
        found.append(row)
    return found


def _second_loss(large: str) -> Cause:
    """Requests that hold a second loss per sender bring timeouts."""
    return Cause(
        "as long as a block is over after one loss per sender, all senders lose and halve in step and "
        "hardly one times out; once a second loss fits into the block, timeouts begin",
        holds=lambda m: _in_step(m["pairs"][large]),
        evidence=lambda m: _told_between(m["pairs"][large]),
        of=("higher", "same-onset"),
    )


def _request_rows() -> list[Row]:
    found: list[Row] = []
    for i, size in enumerate(REQUESTS):
        index = max(1, i)
        pair = (REQUESTS[index - 1], REQUESTS[index])
        cause = _second_loss(str(pair[1]))
        title = f"Goodput with {size} KB per server and block"
        row = _row(f"3.{17 + i}", title, str(size), measure_requests, request_settings, pair, "KB", (cause,))
        found.append(row)
    return found


SIZE_ROWS = [*_buffer_rows(), *_request_rows()]
