"""What can be run and what is measured: scenarios, protocols, queues, their parameters, summary keys and
table columns, for people.

Everything shown here is declared in the engine, once; this module only lays it out.

>>> penstock.describe("incast")        # a scenario, with every parameter
>>> penstock.describe("rto_min")       # a parameter, wherever there is one of that name
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock import controllers, scenario

# Group of the catalogue -> what one of its entries is.
_GROUPS = {
    "scenarios": "scenario",
    "protocols": "protocol",
    "receive_controls": "receiver-side control",
    "host_controllers": "host controller",
    "queues": "queue",
    "topologies": "topology",
    "views": "view",
    "summary_keys": "summary key",
    "tables": "table of a result",
    "metrics": "metric of the series",
}


class Catalogue(dict[str, Any]):
    """The catalogue or a part of it: plain data, readable where it is printed."""

    def __init__(self, found: dict[str, Any], name: str | None) -> None:
        super().__init__(found)
        self._name = name

    def __str__(self) -> str:
        return self._console(io.StringIO()).export_text(styles=False)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        pre = '<pre style="line-height:1.35;font-family:monospace">{code}</pre>'
        return self._console(io.StringIO()).export_html(inline_styles=True, code_format=pre)

    def _console(self, nowhere: io.StringIO) -> Console:
        console = Console(file=nowhere, record=True, width=120, highlight=False, markup=False)
        _lay_out(console, self, self._name)
        return console


def describe(name: str | controllers.Named | None = None) -> Catalogue:
    """Everything the engine offers, or what bears `name`: a scenario, protocol or queue, a parameter, a
    summary key, a column of a table. Plain data that prints readably. A controller in Python goes by
    itself, by `FILE.py:CLASS`, or by its name once it is loaded.

    Raises ScenarioError for a name that is nothing here.
    """
    known = None if name is None else controllers.name_of(name)
    return Catalogue(find(known), known)


def find(name: str | None) -> dict[str, Any]:
    """The whole catalogue, or the part that bears `name`, as `describe --json` prints it.

    Beside the groups of the catalogue the part may have `parameters` and `columns`, each with `of`: whose it
    is. Raises ScenarioError for a name that is nothing here.
    """
    everything = scenario.describe()
    name = None if name is None else controllers.name_of(name)
    everything["protocols"] = everything.get("protocols", []) + controllers.descriptions()
    everything["queues"] = everything.get("queues", []) + controllers.descriptions("queue")
    if name is None:
        return everything
    found: dict[str, Any] = {
        group: [entry for entry in everything.get(group, []) if entry["name"] == name] for group in _GROUPS
    }
    found["parameters"] = [{"of": of, **p} for of, p in _parameters_of(everything) if p["name"] == name]
    found["columns"] = [{"of": of, **c} for of, c in _columns_of(everything) if c["name"] == name]
    found = {group: entries for group, entries in found.items() if entries}
    if not found:
        near = get_close_matches(name, index(everything), n=3, cutoff=0.5)
        hint = f"; near it: {', '.join(near)}" if near else ""
        what = "scenario, protocol, queue, parameter, summary key or column"
        raise scenario.error("NAME", name, f"no {what} has this name{hint}")
    return found


def index(everything: dict[str, Any] | None = None) -> dict[str, str]:
    """Every name that `find` knows, with the text of the first thing that bears it."""
    everything = everything or scenario.describe()
    entries = [entry for group in _GROUPS for entry in everything.get(group, [])]
    entries += [parameter for _, parameter in _parameters_of(everything)]
    entries += [column for _, column in _columns_of(everything)]
    found: dict[str, str] = {}
    for entry in entries:
        found.setdefault(entry["name"], entry["text"])
    return found


def _parameters_of(everything: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every parameter there is, with whose it is: "scenario incast", "queue red"."""
    for group, singular in _GROUPS.items():
        for entry in everything.get(group, []):
            for parameter in entry.get("params", []):
                yield f"{singular} {entry['name']}", parameter
            for table in entry.get("tables", []):
                for parameter in table["params"]:
                    yield f"{singular} {entry['name']}, table {table['name']}", parameter


def _columns_of(everything: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for table in everything.get("tables", []):
        for column in table["columns"]:
            yield table["name"], column


def show(console: Console, name: str | None) -> None:
    """Print the catalogue: one line per entry, or all there is to say of the things that bear `name`."""
    _lay_out(console, find(name), None if name is None else controllers.name_of(name))


def _lay_out(console: Console, found: dict[str, Any], name: str | None) -> None:
    if name is None:
        for group in _GROUPS:
            entries = found.get(group, [])
            if entries:
                console.print(Text(group.replace("_", " "), style="bold"))
                console.print(_lines((f"  {entry['name']}", entry["text"]) for entry in entries))
                console.print()
        console.print("penstock describe NAME says more of one of them, or of a parameter.", style="dim")
        return
    for group, singular in _GROUPS.items():
        for entry in found.get(group, []):
            if "params" in entry:
                _entry(console, singular, entry)
            else:
                _quantity(console, singular, entry)
    if "parameters" in found:
        _same_parameter(console, name, found["parameters"])
    for column in found.get("columns", []):
        _quantity(console, f"column of table {column['of']}", column)


def _quantity(console: Console, what: str, entry: dict[str, Any]) -> None:
    """A summary key, a column, or a table with its columns."""
    kind = f"{what}, in {entry['unit']}" if entry.get("unit") else what
    console.print(Text.assemble((entry["name"], "bold"), f"  ({kind})  {entry['text']}\n"))
    if entry.get("columns"):
        console.print(_lines((c["name"], _with_unit(c)) for c in entry["columns"]))
    if entry.get("of") and isinstance(entry["of"], list):
        console.print(f"sampled of {', '.join(entry['of'])}\n", style="dim", highlight=False)


def _with_unit(column: dict[str, Any]) -> str:
    unit = column.get("unit") or ("true/false" if column.get("type") == "bool" else "")
    return f"{column['text']} ({unit})" if unit else column["text"]


def _lines(pairs: Any) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="cyan")
    table.add_column()
    for pair in pairs:
        table.add_row(*pair)
    return table


def _same_parameter(console: Console, name: str, parameters: list[dict[str, Any]]) -> None:
    """A parameter that several things have: one line for those that declare it alike."""
    console.print(Text.assemble((name, "bold"), "  (parameter)"))
    alike: dict[tuple[str, ...], list[str]] = {}
    for p in parameters:
        facts = (p["text"], str(p["default"]) or "-", p["unit"], span(p), p["origin"])
        alike.setdefault(facts, []).append(p["of"])
    for text, owners in _grouped(alike).items():
        console.print(f"  {text}", soft_wrap=True)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=True)
        table.add_column("default", no_wrap=True)
        table.add_column("range", max_width=24)
        table.add_column("of  (source of the default)", ratio=1)
        for (_, default, unit, limits, origin), names in owners:
            where = Text(_owners(names))
            if origin:
                where.append(f"  ({origin})", style="dim")
            table.add_row(default, limits or unit, where)
        console.print(table)


def _grouped(
    alike: dict[tuple[str, ...], list[str]],
) -> dict[str, list[tuple[tuple[str, ...], list[str]]]]:
    """Facts and owners by the text of the facts."""
    found: dict[str, list[tuple[tuple[str, ...], list[str]]]] = {}
    for facts, owners in alike.items():
        found.setdefault(facts[0], []).append((facts, owners))
    return found


def _owners(owners: list[str]) -> str:
    """ "scenario a", "scenario b", "queue c" as "scenarios a, b; queue c"."""
    kinds: dict[str, list[str]] = {}
    for owner in owners:
        kind = max((k for k in _GROUPS.values() if owner.startswith(f"{k} ")), key=len)
        kinds.setdefault(kind, []).append(owner.removeprefix(f"{kind} "))
    return "; ".join(f"{k}{'s' if len(names) > 1 else ''} {', '.join(names)}" for k, names in kinds.items())


def _entry(console: Console, singular: str, entry: dict[str, Any]) -> None:
    console.print(Text.assemble((entry["name"], "bold"), f"  ({singular})  {entry['text']}"))
    if entry.get("source"):
        console.print(f"source: {entry['source']}", style="dim", highlight=False)
    if entry.get("params"):
        _parameters(console, entry["params"])
    else:
        console.print("no parameters\n", style="dim")
    if entry.get("reports"):
        console.print(f"sampled: {', '.join(entry['reports'])}\n", style="dim", highlight=False)
    for table in entry.get("tables", []):
        head = "[[link]]" if table["name"] == "link" else f'[[workload]]  kind = "{table["name"]}"'
        console.print(Text.assemble((head, "bold"), f"  {table['text']}"))
        if table["nodes"]:
            console.print(f"names of nodes: {', '.join(table['nodes'])}", style="dim", highlight=False)
        _parameters(console, table["params"])
    for profile in entry.get("profiles", []):
        console.print(Text.assemble((f"--profile {profile['name']}", "bold"), f"  {profile['text']}"))
        values = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        values.add_column("key", style="cyan", no_wrap=True)
        values.add_column("value", no_wrap=True)
        values.add_column("origin", ratio=1, style="dim")
        for value in profile["values"]:
            values.add_row(value["key"], str(value["value"]), value["origin"])
        console.print(values)


def _parameters(console: Console, parameters: list[dict[str, Any]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("key", style="cyan", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("range", min_width=14, max_width=22)
    table.add_column("what  (source of the default)", ratio=1)
    for p in parameters:
        what = Text(p["text"])
        if p["origin"]:
            what.append(f"  ({p['origin']})", style="dim")
        table.add_row(p["name"], str(p["default"]) or "-", span(p), what)
    console.print(table)


def span(parameter: dict[str, Any]) -> str:
    """The legal values of a parameter: its words, or its range with the unit."""
    if parameter.get("choices"):
        return " | ".join(parameter["choices"])
    kind, unit = parameter.get("kind"), parameter["unit"]
    low, high = _bound(parameter.get("min"), -math.inf), _bound(parameter.get("max"), math.inf)
    if kind in ("text", "bool") or (low == -math.inf and high == math.inf):
        return unit
    limits = f"{_short(low)} .. {_short(high)}" if high < math.inf else f"from {_short(low)}"
    return f"{limits} {unit}".rstrip()


def _short(value: float) -> str:
    return f"{value:g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def _bound(value: Any, missing: float) -> float:
    return missing if value is None else float(value)
