"""`penstock convert`: a network from one file into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.console import note, out_console
from penstock.options import DONE, Settings, chosen_settings


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|TOPOLOGY",
            help="A .toml, .graphml or .txt file, or a topology by name, as fat-tree:4.",
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The file to write; its suffix sets the format (.txt: HPCC's)."),
    ],
    settings: Settings = None,
) -> int:
    """Convert a network: scenario file, GraphML, topology of the HPCC group's simulator."""
    from penstock import scenario, topology_files
    from penstock.network import Network

    by_name = ":" in source and not Path(source).exists()
    chosen = chosen_settings(settings or [], None)
    if by_name:
        net = Network.by_name(source, **chosen)
    else:
        known = ("link_rate", "link_delay", "hosts_per_switch")
        for key, value in chosen.items():
            if key not in known:
                rule = f"is no key of a file that is converted; there are, for GraphML: {', '.join(known)}"
                raise scenario.error(key, value, rule)
        net = topology_files.read(source, **chosen)
    try:
        lost = topology_files.write(net, target)
    except OSError as problem:
        raise scenario.error("FILE", target, f"cannot be written ({problem.strerror})") from None
    if lost:
        note(f"note: {topology_files.ENDS[target.suffix]} has no place for: {', '.join(lost)}")
    if target.suffix == ".toml" and not net.workloads:
        note("note: there are no flows yet: add a [[workload]] (docs/reference/scenario-files.md)")
    out_console.print(str(target), soft_wrap=True, highlight=False)
    return DONE
