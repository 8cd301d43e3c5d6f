"""Traffic as objects: `Poisson("all", "all", load=0.6, sizes="websearch")`, for `penstock.Network`.

Each class is one kind of `[[workload]]` of a scenario file and takes its keys; `from_` and `class_` are
`from` and `class`. Values are texts with units ("1ms", "20KB") or numbers of what needs none (bytes, shares,
counts); `penstock describe custom` has every range and default. A number given as `sizes` is one size for all
flows. Names of hosts are a text or a list of texts: "h0", "h[0-3]", ["a", "b"], or "all". A key that a class
does not have raises ScenarioError at once; what a value must be is judged when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from penstock import controllers, scenario

Hosts = str | Sequence[str] | None
"""A host, a range of hosts, a list of either, or "all"."""

Value = str | float | None
"""A text with a unit, a number of what has none (bytes, shares, counts), or None for the default."""


OWN = ("protocol", "queue")
"""Keys whose values may be classes in Python: objects, or FILE.py:CLASS."""


class Table:
    """One table of a scenario file: its keys and what they are set to."""

    table: ClassVar[str]
    """Its name in the engine's catalogue: `link`, or the kind of workload."""

    def __init__(self, **given: Any) -> None:
        more = given.pop("more", {})
        for key in sorted(more.keys() & given.keys()):
            raise scenario.error(f"{self}.{key}", more[key], "is given twice")
        self.values: dict[str, Any] = {}
        for key, value in {**given, **more}.items():
            if value is not None:
                self._set(key.rstrip("_"), value)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Any:
        """The table from a dict with the keys of a scenario file. Raises ScenarioError for an unknown key."""
        made = cls.__new__(cls)
        Table.__init__(made, **{str(key): value for key, value in given.items()})
        return made

    def but(self, **changed: Any) -> Any:
        """A copy with other values; None takes a key back to its default. Raises ScenarioError."""
        kept = {key: value for key, value in self.values.items() if f"{key}_" not in changed}
        return self.of({**kept, **changed})

    def document(self) -> dict[str, Any]:
        """Its keys and values as a scenario file has them: a class in Python goes by its name."""
        return {key: str(value) if controllers.is_own(value) else value for key, value in self.values.items()}

    def __str__(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        shown = [
            f"{key}_={value!r}" if key in _WORDS else f"{key}={value!r}" for key, value in self.values.items()
        ]
        return f"{self}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]

    def _set(self, key: str, value: Any) -> None:
        naming, plain = keys(self.table)
        name = f"{self}.{key}_" if key in _WORDS else f"{self}.{key}"
        if key in naming:
            self.values[key] = nodes(name, value)
        elif key in plain:
            self.values[key] = value.item() if isinstance(value, np.generic) else value
            if not (key in OWN and controllers.is_own(value)):
                scenario.plain(name, self.values[key])
        else:
            raise scenario.error(name, value, unknown(key, [*naming, *plain]))


class Workload(Table):
    """A source of flows. `Workload.of({"kind": "poisson", ...})` makes any kind from a dict."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Any:
        """The workload that a dict with the keys of a scenario file describes, by its `kind` (flows).

        Raises ScenarioError for an unknown kind or key.
        """
        values = dict(given)
        kind = values.pop("kind", getattr(cls, "table", "flows"))
        if kind not in KINDS:
            raise scenario.error("Workload.kind", kind, unknown(str(kind), list(KINDS), "kind"))
        made = KINDS[kind].__new__(KINDS[kind])
        Table.__init__(made, **{str(key): value for key, value in values.items()})
        return made

    def document(self) -> dict[str, Any]:
        """Its keys and values as a scenario file has them, the kind first."""
        return {"kind": self.table, **super().document()}

    def _set(self, key: str, value: Any) -> None:
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        super()._set(key, f"fixed:{value}" if key == "sizes" and number else value)


class Flows(Workload):
    """One flow from every host of `from_` to its partner in `to` (lists of equal length, or one host),
    `count` per pair, of `size` bytes or without end. Each begins U(0, `spread`) after `start`. The
    application leaves at `end`, and `deadline` counts from a flow's begin.
    """

    table = "flows"

    def __init__(
        self,
        from_: Hosts = None,
        to: Hosts = None,
        *,
        size: Value = None,
        count: Value = None,
        start: Value = None,
        spread: Value = None,
        end: Value = None,
        deadline: Value = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


class Poisson(Workload):
    """Flows between random hosts of `from_` and `to` at random times: `rate` of them per second in all, or
    `load`. `load` is the offered share of the links into the hosts of `to`, headers included (1 = all of it).

    `sizes` is a number of bytes, "fixed:SIZE", "uniform:MIN:MAX", "exponential:MEAN", "pareto:SHAPE:MEAN",
    "websearch", "fb-hadoop" or "cdf:FILE" (the last three read by `cdf_rule`, the file in `cdf_unit`). At
    most `count` flows.
    """

    table = "poisson"

    def __init__(
        self,
        from_: Hosts = None,
        to: Hosts = None,
        *,
        load: Value = None,
        rate: Value = None,
        sizes: Value = None,
        cdf_rule: str | None = None,
        cdf_unit: Value = None,
        count: Value = None,
        start: Value = None,
        deadline: Value = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


class Closed(Workload):
    """Every host of `from_` has one flow at a time to a random host of `to` and pauses for `think` before the
    next; `sizes` as with Poisson. At most `count` flows in all.
    """

    table = "closed"

    def __init__(
        self,
        from_: Hosts = None,
        to: Hosts = None,
        *,
        sizes: Value = None,
        think: Value = None,
        cdf_rule: str | None = None,
        cdf_unit: Value = None,
        count: Value = None,
        start: Value = None,
        spread: Value = None,
        deadline: Value = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


class Query(Workload):
    """The client `to` asks all servers `from_` at once and again, `gap` later, when all have answered:
    `response` bytes each, or `total` split evenly, after U(0, `jitter`), on `connections` "fresh" or
    "persistent". Alone, its last repetition ends the run.
    """

    table = "query"

    def __init__(
        self,
        from_: Hosts = None,
        to: Hosts = None,
        *,
        response: Value = None,
        total: Value = None,
        repetitions: Value = None,
        connections: str | None = None,
        gap: Value = None,
        jitter: Value = None,
        start: Value = None,
        deadline: Value = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


class Reads(Workload):
    """The client `to` reads blocks striped over the servers `from_`, `sru` bytes from each, on persistent
    connections (the incast of storage). Alone, its last block ends the run.
    """

    table = "reads"

    def __init__(
        self,
        from_: Hosts = None,
        to: Hosts = None,
        *,
        sru: Value = None,
        blocks: Value = None,
        jitter: Value = None,
        jitter_mode: str | None = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


class Trace(Workload):
    """The flows of a CSV `file`: start_s,src,dst,bytes and, if wanted, class,deadline_s, from `start` on. A
    relative name starts at the network's `folder`.
    """

    table = "trace"

    def __init__(
        self,
        file: str | None = None,
        *,
        start: Value = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


class Permutation(Workload):
    """Every one of `hosts` (None = all) sends to one other and receives from one, in a random cyclic order:
    `size` bytes or without end.
    """

    table = "permutation"

    def __init__(
        self,
        hosts: Hosts = None,
        *,
        size: Value = None,
        start: Value = None,
        spread: Value = None,
        deadline: Value = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


class Incast(Workload):
    """`servers` hosts of `from_` (None = all, others each time) send `response` bytes to the host `to` at
    once: `every` so often, or at random times with `rate` per second, whatever became of the earlier.
    """

    table = "incast"

    def __init__(
        self,
        from_: Hosts = None,
        to: Hosts = None,
        *,
        response: Value = None,
        every: Value = None,
        rate: Value = None,
        servers: Value = None,
        count: Value = None,
        jitter: Value = None,
        start: Value = None,
        deadline: Value = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


class AllToAll(Workload):
    """Every one of `hosts` (None = all) sends `size` bytes to every other, `window` flows at a time, in
    `order` "shift" or "random", `repetitions` times. Alone, its end ends the run.
    """

    table = "all-to-all"

    def __init__(
        self,
        hosts: Hosts = None,
        *,
        size: Value = None,
        window: Value = None,
        order: str | None = None,
        repetitions: Value = None,
        start: Value = None,
        spread: Value = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


class Collective(Workload):
    """`hosts` (None = all) are the ranks of a collective `operation`: "all-reduce", "all-gather",
    "reduce-scatter" or "all-to-all" of `size` bytes per rank, by `algorithm` "ring", "tree",
    "halving-doubling" or "pairwise" (with `window`). A rank goes on when a message is "received" or
    "acknowledged" (`advance`). Alone, its end ends the run.
    """

    table = "collective"

    def __init__(
        self,
        hosts: Hosts = None,
        *,
        operation: str | None = None,
        algorithm: str | None = None,
        size: Value = None,
        window: Value = None,
        advance: str | None = None,
        connections: str | None = None,
        repetitions: Value = None,
        start: Value = None,
        spread: Value = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


class Goal(Workload):
    """The GOAL schedule `file`, rank i at the i-th of `hosts` (None = all): `calc` in `unit`, `overhead` of a
    processor per send and receive. Alone, its end ends the run.
    """

    table = "goal"

    def __init__(
        self,
        file: str | None = None,
        hosts: Hosts = None,
        *,
        unit: Value = None,
        overhead: Value = None,
        connections: str | None = None,
        repetitions: Value = None,
        start: Value = None,
        spread: Value = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


class Matrix(Workload):
    """The connection matrix `file` of htsim with its triggers, host i being the i-th of `hosts` (None = all):
    start times in `unit`. What a trigger lets go at another host begins a message later; with the scenario's
    key `requests` = "instant" triggers take no time, as in htsim. Alone, its end ends the run.
    """

    table = "matrix"

    def __init__(
        self,
        file: str | None = None,
        hosts: Hosts = None,
        *,
        unit: Value = None,
        connections: str | None = None,
        repetitions: Value = None,
        start: Value = None,
        spread: Value = None,
        protocol: str | None = None,
        class_: Value = None,
        **more: Any,
    ) -> None:
        super().__init__(**_given(locals()))


_ALL = (
    Flows,
    Poisson,
    Closed,
    Query,
    Reads,
    Trace,
    Permutation,
    Incast,
    AllToAll,
    Collective,
    Goal,
    Matrix,
)
KINDS: dict[str, type[Workload]] = {kind.table: kind for kind in _ALL}
"""The classes by the `kind` that a scenario file calls them."""

# Keys of a scenario file that are words of Python.
_WORDS = ("from", "class")


@lru_cache(maxsize=1)
def _catalogue() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    custom = next(entry for entry in scenario.describe()["scenarios"] if entry["name"] == "custom")
    return {
        table["name"]: (
            tuple(table["nodes"]),
            tuple(entry["name"] for entry in table["params"] if entry["name"] != "kind"),
        )
        for table in custom["tables"]
    }


def keys(table: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys of a table of a scenario file that name nodes, and the others, as the engine declares them."""
    return _catalogue()[table]


def nodes(key: str, value: Any) -> str | list[Any]:
    """Names of nodes as a scenario file has them: a text, or a list of them. Raises ScenarioError."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(item, str | Sequence) for item in value):
        return [item if isinstance(item, str) else nodes(key, item) for item in value]
    raise scenario.error(key, repr(value), "must be the name of a node or a list of names")


def unknown(key: str, known: Sequence[str], what: str = "key") -> str:
    """The rule that a key broke which there is not."""
    near = get_close_matches(key, known, 1)
    return (
        f"unknown {what}; did you mean {near[0]}?"
        if near
        else f"unknown {what}; known are {', '.join(known)}"
    )


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor, from its `locals()`."""
    return {key: value for key, value in arguments.items() if key not in ("self", "__class__")}
