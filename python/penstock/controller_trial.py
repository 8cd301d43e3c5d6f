"""A single sender with a controller, driven by hand: for tests and for trying out.

    law = MyLaw.sender(segment=1000, initial_window=10_000)
    law.ack(acked=1000)
    assert law.window == 11_000
    law.congestion("ECN")

It is interpreted, so that a debugger steps through it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock import _engine
from penstock import controller_code as code
from penstock import controller_source as sources

if TYPE_CHECKING:
    from penstock.controllers import Controller


class Sender:
    """One sender. Its controller's fields are attributes; `window` (bytes) and `pacing` (bit/s, inf = not paced)
    are what `control` returned last. The connection's record begins as that of one whose window limits it.
    """

    def __init__(
        self, controller: Controller, segment: int, initial_window: int, parameters: Mapping[str, Any]
    ) -> None:
        chosen = {name: _value(given.default) for name, given in controller.parameters.items()}
        for name in parameters:
            controller(**{name: parameters[name]})  # refuses a name that is no parameter
        chosen |= {name: _value(value) for name, value in parameters.items()}
        state = [
            code.word(chosen[name] if default is None else default, kind)
            for name, kind, default in controller.fields
        ]
        self.fields = code.filled(controller.shadow, state)
        self.flow: dict[str, Any] = {
            "segment": segment,
            "mss": segment,
            "limit": sources.RECORDS["Limit"][0][1],
            "rtt_min_s": math.inf,
            "due_s": math.inf,
            "rwnd": 2**30,
            "app_end": 2**62,
        }
        self._calls = code.interpreted()
        self.window, self.pacing = 0.0, math.inf
        self._call(0, "config", {"segment": segment, "initial_window": initial_window, "ecn_floor": True}, {})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fields, name)

    def ack(self, flow: Mapping[str, Any] | None = None, **about: Any) -> None:
        """An ACK with the given fields; `flow` changes the connection's record for good."""
        self._call(1, "ack", about, flow)

    def congestion(
        self, kind: str | int, flow: Mapping[str, Any] | None = None, *, now_s: float = 0.0, in_a_row: int = 0
    ) -> None:
        """A sign of congestion: an `Event` or its name."""
        number = dict(sources.RECORDS["Event"])[kind] if isinstance(kind, str) else int(kind)
        self._call(2, "event", {"kind": number, "now_s": now_s, "in_a_row": in_a_row}, flow)

    def timer(self, now_s: float, flow: Mapping[str, Any] | None = None) -> None:
        """The timer has run out."""
        self.fields.timer_s = math.inf
        self._call(3, "event", {"now_s": now_s}, flow)

    def _call(self, call: int, kind: str, about: Mapping[str, Any], flow: Mapping[str, Any] | None) -> None:
        self.flow.update(flow or {})
        for given, of in ((about, kind), (self.flow, "flow")):
            known = [name for name, _, _ in sources.RECORDS[of]]
            for name in given:
                if name not in known:
                    raise AttributeError(f"{of} has no field {name}; there are {', '.join(known)}")
        record = code.filled(code.record(kind), code.words(kind, about))
        view = code.filled(code.record("flow"), code.words("flow", self.flow))
        answer = self._calls[call](self.fields, record, view)
        self.window, self.pacing = answer if isinstance(answer, tuple) else (answer, math.inf)


def _value(given: Any) -> float:
    """A parameter in base units."""
    if isinstance(given, str):
        found = _engine.quantity(given)
        if found is None:
            raise ValueError(f"{given!r} is no number")
        return found[0]
    return float(given)
