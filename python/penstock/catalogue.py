"""What can be run: scenarios, protocols, queues and their parameters, for people.

Everything shown here is declared in the engine, once; this module only lays it out.
"""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock import scenario

_GROUPS = (
    ("scenarios", "scenario"),
    ("protocols", "protocol"),
    ("host_controllers", "host controller"),
    ("queues", "queue"),
    ("views", "view"),
)


def find(name: str | None) -> dict[str, Any]:
    """The whole catalogue, or the part that bears `name`, as `describe --json` prints it.

    Raises ScenarioError for a name that is nothing here.
    """
    everything = scenario.describe()
    if name is None:
        return everything
    found = {
        group: [entry for entry in everything.get(group, []) if entry["name"] == name] for group, _ in _GROUPS
    }
    found = {group: entries for group, entries in found.items() if entries}
    if not found:
        known = [entry["name"] for group, _ in _GROUPS for entry in everything.get(group, [])]
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise scenario.error("NAME", name, f"no scenario, protocol or queue has this name{hint}")
    return found


def show(console: Console, name: str | None) -> None:
    """Print the catalogue: one line per entry, or every parameter of the entry that bears `name`."""
    found = find(name)
    for group, singular in _GROUPS:
        entries = found.get(group, [])
        if not entries:
            continue
        if name is None:
            console.print(Text(group.replace("_", " "), style="bold"))
            table = Table.grid(padding=(0, 2))
            table.add_column(no_wrap=True, style="cyan")
            table.add_column()
            for entry in entries:
                table.add_row(f"  {entry['name']}", entry["text"])
            console.print(table)
            console.print()
        for entry in entries if name is not None else []:
            _entry(console, singular, entry)
    if name is None:
        console.print("penstock describe NAME shows the parameters of one of them.", style="dim")


def _entry(console: Console, singular: str, entry: dict[str, Any]) -> None:
    console.print(Text.assemble((entry["name"], "bold"), f"  ({singular})  {entry['text']}"))
    if entry.get("source"):
        console.print(f"source: {entry['source']}", style="dim", highlight=False)
    if entry.get("params"):
        _parameters(console, entry["params"])
    else:
        console.print("no parameters\n", style="dim")
    for table in entry.get("tables", []):
        head = "[[link]]" if table["name"] == "link" else f'[[workload]]  kind = "{table["name"]}"'
        console.print(Text.assemble((head, "bold"), f"  {table['text']}"))
        if table["nodes"]:
            console.print(f"names of nodes: {', '.join(table['nodes'])}", style="dim", highlight=False)
        _parameters(console, table["params"])


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
