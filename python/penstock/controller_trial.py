"""A single sender with a controller, or a single port with a queue, driven by hand: for tests and for trying
out.

    law = MyLaw.sender(segment=1000, initial_window=10_000)
    law.ack(acked=1000)
    assert law.window == 11_000
    law.congestion("ECN")

    port = MyQueue.port(k=20)
    assert port.arrival(queue_packets=20) == Verdict.MARK

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
    from penstock.controllers import Controller, Named, Queue, Verdict


class Sender:
    """One sender. Its controller's fields are attributes; `window` (bytes) and `pacing` (bit/s, inf = not
    paced) are what `control` returned last. The connection's record begins as that of one whose window
    limits it.
    """

    def __init__(
        self, controller: Controller, segment: int, initial_window: int, parameters: Mapping[str, Any]
    ) -> None:
        self.fields = _begun(controller, parameters)
        self.flow: dict[str, Any] = {
            "segment": segment,
            "mss": segment,
            "limit": sources.RECORDS["Limit"][0][1],
            "rtt_min_s": math.inf,
            "due_s": math.inf,
            "rwnd": 2**30,
            "app_end": 2**62,
        }
        self._calls = code.interpreted(controller.source_code)
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
        record, view = _record(kind, about), _record("flow", self.flow)
        answer = self._calls[call](self.fields, record, view)
        self.window, self.pacing = answer if isinstance(answer, tuple) else (answer, math.inf)


class Port:
    """One port. Its queue's fields are attributes; `state` is the port's record, which begins as that of an
    idle one of 10 Gb/s whose full packets have 1500 bytes.
    """

    def __init__(self, queue: Queue, parameters: Mapping[str, Any]) -> None:
        self.fields = _begun(queue, parameters)
        self.state: dict[str, Any] = {"rate_bps": 10e9, "packet_bytes": 1500, "packet_s": 1.2e-6}
        self._calls = code.interpreted(queue.source_code)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fields, name)

    def arrival(self, packet: Mapping[str, Any] | None = None, **port: Any) -> Verdict:
        """What becomes of a packet: one of 1500 bytes that may be marked, changed by `packet`. `port`
        changes the port's record for good.
        """
        data = {"bytes": 1500, "payload": 1460, "ect": True, "forward": True}
        return self._call(0, "packet", {**data, **(packet or {})}, port)

    def departure(self, sojourn_s: float, uniform: float = 0.0, **port: Any) -> Verdict:
        """What becomes of a packet that has waited for so long; the port is as it leaves it."""
        return self._call(1, "waited", {"sojourn_s": sojourn_s, "uniform": uniform}, port)

    def _call(self, call: int, kind: str, about: Mapping[str, Any], port: Mapping[str, Any]) -> Verdict:
        from penstock.controllers import Verdict

        self.state.update(port)
        return Verdict(self._calls[call](self.fields, _record(kind, about), _record("port", self.state)))


def _begun(written: Named, parameters: Mapping[str, Any]) -> Any:
    """The fields as an object begins with them."""
    chosen = {name: _value(given.default) for name, given in written.parameters.items()}
    for name in parameters:
        written(**{name: parameters[name]})  # refuses a name that is no parameter
    chosen |= {name: _value(value) for name, value in parameters.items()}
    state = [
        code.word(chosen[name] if default is None else default, kind)
        for name, kind, default in written.fields
    ]
    return code.filled(written.shadow, state)


def _record(kind: str, values: Mapping[str, Any]) -> Any:
    """A record with these values. Raises AttributeError for a field that it has not."""
    known = [name.removeprefix("_") for name, *_ in sources.RECORDS[kind] if name != "_drawn"]
    for name in values:
        if name not in known:
            raise AttributeError(f"{kind} has no field {name}; there are {', '.join(known)}")
    return code.filled(code.record(kind), code.words(kind, values))


def _value(given: Any) -> float:
    """A parameter in base units."""
    if isinstance(given, str):
        found = _engine.quantity(given)
        if found is None:
            raise ValueError(f"{given!r} is no number")
        return found[0]
    return float(given)
