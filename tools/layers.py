"""The check of imports: exit code 1 with file and line where a module imports upwards or in a circle.

    tools/layers.py            # check every crate
    tools/layers.py --graph    # print what each module of each crate imports

A module is a file. It imports another where it names one of that module's items, by `use` or by a path. A
re-exported name counts as an import of the module that defines it. A re-export itself is an import only where
its file uses the name. Tests import what they like.

Modules of a crate form no circle. The modules of a crate in `LAYERS` import only from their own layer and
from layers below it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Layers of a crate, lowest first, with their modules. A submodule that is not named is where its parent is.
LAYERS: dict[str, dict[str, tuple[str, ...]]] = {
    "sim": {
        # Rows, samples and sums. They name nothing of the network: the engine writes them, tables read them.
        "record": ("metrics", "numbers", "quantiles"),
        # What a run consists of, as plain data: network, workloads, options.
        "plan": ("arrivals::keys", "plan", "workloads"),
        "engine": (
            "arrivals",
            "cores",
            "engine",
            "events",
            "flow",
            "measured",
            "network",
            "shuffle",
            "sync",
            "trace",
            "watch",
            "witness",
        ),
        "measure": ("measure",),
        # What a user names and writes: keys, scenarios, networks by name, files, documents.
        "scenario": ("scenario",),
    },
}
#: Imports that are allowed until the files are rewritten: (crate, importing module, imported module), each
#: with its submodules. The list only shrinks: an entry that allows nothing any more is a fault.
EXCEPTIONS: tuple[tuple[str, str, str], ...] = (
    # Options of a connection build its recovery, and a recovery sees the options.
    ("core", "tcp::config", "tcp::recovery::role"),
    ("fabric", "fabric", "node"),
    ("fabric", "fetch", "port"),
    ("fabric", "fetch", "rule"),
    ("fabric", "port", "served"),
    ("host", "tcp::idle", "tcp"),
    ("models", "protocols::uec", "protocols::nscc"),
    ("sim", "engine", "engine"),
    ("sim", "events", "network"),
    ("sim", "network", "network"),
    ("sim", "network::boundary", "engine"),
    ("sim", "shuffle", "engine"),
)

Path_ = tuple[str, ...]
#: Of each module the modules that it imports, with names and lines.
Graph = dict[Path_, dict[Path_, dict[str, int]]]
_NAME = r"[A-Za-z_]\w*"
_ITEM = re.compile(
    rf"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:(?:const|unsafe|async|default)\s+)*"
    rf"(?:fn|struct|enum|trait|type|const|static|union|mod)\s+({_NAME})|^\s*macro_rules!\s*({_NAME})",
    re.MULTILINE,
)
_PATH = re.compile(rf"(?<![\w:])({_NAME}(?:::{_NAME})+)")


def _use_of(name: str) -> str:
    """The pattern of a use of a name. In lower case it must not be a variable, a method or a definition."""
    return rf"\b{name}\b" if name[0].isupper() else rf"(?<![\w.])(?<!fn ){name}(?=\(|::|!)"


@dataclass
class Module:
    """A file of a crate: its path in the crate, its text without comments, and the names it brings in."""

    path: Path_
    file: Path
    text: str
    #: Names defined here.
    items: set[str] = field(default_factory=set)
    #: Name -> path as written, of each `use`; with the line, and whether others may follow it.
    uses: list[tuple[int, str, Path_, bool]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The path as in Rust, `lib` for the root."""
        return "::".join(self.path) or "lib"


@dataclass(frozen=True)
class Fault:
    """One forbidden import: file, line and what to do."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"


def code(text: str) -> str:
    """The text with comments, strings and test modules blanked; lines keep their numbers."""
    blank = lambda found: re.sub(r"[^\n]", " ", found[0])  # noqa: E731
    text = re.sub(
        r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|\'(?:\\.[^\']*|[^\'\\\n])\'',
        blank,
        text,
        flags=re.DOTALL,
    )
    for found in re.finditer(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+\w+\s*(\{|;)", text):
        end = _closing(text, found.end() - 1) if found[1] == "{" else found.end()
        text = text[: found.start()] + re.sub(r"[^\n]", " ", text[found.start() : end]) + text[end:]
    return text


def _closing(text: str, at: int) -> int:
    depth = 0
    for place in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


def names_of(tree: str) -> Iterator[tuple[str, Path_]]:
    """Each name that a tree of `use` brings in, with its path; `*` for all names of a module.

    >>> list(names_of("crate::a::{B, c::{self, D as E}}"))
    [('B', ('crate', 'a', 'B')), ('c', ('crate', 'a', 'c')), ('E', ('crate', 'a', 'c', 'D'))]
    """
    tree = re.sub(r"\s+", " ", tree).strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, alias = tree.partition(" as ")
        parts = tuple(path.strip().split("::"))
        parts = parts[:-1] if parts[-1] == "self" and len(parts) > 1 else parts
        yield alias.strip() or parts[-1], parts
        return
    before = head.strip().removesuffix("::")
    depth, begin = 0, 0
    inside = rest[: rest.rfind("}")] + ","
    for place, letter in enumerate(inside):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if part := inside[begin:place].strip():
                yield from names_of(f"{before}::{part}" if before else part)
            begin = place + 1


class Crate:
    """The modules of one crate and their imports."""

    def __init__(self, name: str, source: Path) -> None:
        self.name = name
        self.modules: dict[Path_, Module] = {}
        for file in sorted(source.rglob("*.rs")):
            path = file.relative_to(source).with_suffix("").parts
            path = path[:-1] if path[-1] in ("mod", "lib", "main") else path
            if path in self.modules or path[:1] == ("bin",) or path[-1:] == ("tests",):
                continue
            self.modules[path] = self._read(path, file)

    @staticmethod
    def _read(path: Path_, file: Path) -> Module:
        text = code(file.read_text(encoding="utf-8"))
        module = Module(path, file, text)
        uses = re.compile(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
        for found in uses.finditer(text):
            line = text.count("\n", 0, found.start(2)) + 1
            module.uses += [(line, name, to, bool(found[1])) for name, to in names_of(found[2])]
        module.text = uses.sub(lambda found: "\n" * found[0].count("\n"), text)
        module.items = {first or second for first, second in _ITEM.findall(module.text)}
        return module

    def defines(
        self, here: Path_, path: Path_, seen: frozenset[tuple[Path_, Path_]] = frozenset()
    ) -> Path_ | None:
        """The module that defines what `path`, written in `here`, names; None outside the crate."""
        if (here, path) in seen:
            return None
        seen |= {(here, path)}
        at, rest = here, path
        if path[0] == "crate":
            at, rest = (), path[1:]
        elif path[0] == "self":
            rest = path[1:]
        elif path[0] == "super":
            while rest and rest[0] == "super":
                at, rest = at[:-1], rest[1:]
        elif (*here, path[0]) not in self.modules:
            bound = [to for _, name, to, _ in self.modules[here].uses if name == path[0]]
            if not bound or bound[0][0] == path[0]:
                return None
            return self.defines(here, bound[0] + path[1:], seen)
        while rest and (*at, rest[0]) in self.modules:
            at, rest = (*at, rest[0]), rest[1:]
        if at not in self.modules:
            return None
        if not rest or rest[0] in self.modules[at].items or rest[0] == "*":
            return at
        for _, name, to, _ in self.modules[at].uses:
            if name == rest[0]:
                return self.defines(at, to + rest[1:], seen)
        for _, name, to, _ in self.modules[at].uses:
            if name == "*" and (found := self.defines(at, to[:-1] + rest, seen)):
                return found
        return at if path[0] in ("crate", "self", "super") else None

    def imports(self) -> Graph:
        """Of each module the modules that it imports, with the names and the lines that do."""
        graph: Graph = {}
        for here, module in self.modules.items():
            found: dict[Path_, dict[str, int]] = defaultdict(dict)
            for line, name, path, public in module.uses:
                used = name == "*" or re.search(_use_of(name), module.text)
                to = self.defines(here, path)
                if to is None or to == here or (public and not used):
                    continue
                # A module brought in by name is imported where a path goes through it.
                if name != "*" and self._is_module(here, path):
                    continue
                found[to].setdefault(name, line)
            for hit in _PATH.finditer(module.text):
                to = self.defines(here, tuple(hit[1].split("::")))
                if to is not None and to != here:
                    line = module.text.count("\n", 0, hit.start()) + 1
                    found[to].setdefault(hit[1], line)
            graph[here] = dict(found)
        return graph

    def _is_module(self, here: Path_, path: Path_) -> bool:
        to = self.defines(here, path)
        return (
            to is not None
            and (path[-1] == to[-1] if to else path == ("crate",))
            and path[-1] not in (self.modules[to[:-1]].items - {to[-1]} if to else ())
        )


def circles(graph: Graph) -> list[list[Path_]]:
    """The sets of modules that import each other, directly or not: Tarjan's strongly connected components."""
    index: dict[Path_, int] = {}
    low: dict[Path_, int] = {}
    stack: list[Path_] = []
    found: list[list[Path_]] = []

    def visit(node: Path_) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for to in graph.get(node, ()):
            if to not in index:
                visit(to)
                low[node] = min(low[node], low[to])
            elif to in stack:
                low[node] = min(low[node], index[to])
        if low[node] == index[node]:
            group = [stack.pop()]
            while group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def layer_of(layers: dict[str, tuple[str, ...]], module: Path_) -> int | None:
    """The number of the layer of a module, by its longest prefix that is named; None without one."""
    for length in range(len(module), 0, -1):
        for number, names in enumerate(layers.values()):
            if "::".join(module[:length]) in names:
                return number
    return None


def faults(
    crate: Crate,
    layers: dict[str, tuple[str, ...]],
    exceptions: tuple[tuple[str, str, str], ...] = EXCEPTIONS,
    root: Path = ROOT,
) -> list[Fault]:
    """What a crate breaks, apart from `exceptions`."""
    graph = crate.imports()
    label = {path: module.name for path, module in crate.modules.items()}
    where = {path: module.file.relative_to(root).as_posix() for path, module in crate.modules.items()}

    def within(module: Path_, prefix: str) -> bool:
        return f"{label[module]}::".startswith(f"{prefix}::")

    allowed = [(here, to) for name, here, to in exceptions if name == crate.name]
    unused = set(allowed)
    kept: Graph = {}
    for here, found in graph.items():
        kept[here] = {}
        for to, names in found.items():
            by = [pair for pair in allowed if within(here, pair[0]) and within(to, pair[1])]
            unused -= set(by)
            if not by:
                kept[here][to] = names
    said = [
        Fault("tools/layers.py", 0, f"{crate.name}: {here} imports {to} no more: take it out of EXCEPTIONS")
        for here, to in sorted(unused)
    ]
    for group in circles(kept):
        for here in group:
            for to in sorted(set(group) & set(kept[here])):
                name, line = next(iter(kept[here][to].items()))
                text = f"{label[here]} imports {name} of {label[to]}, which imports {label[here]}"
                said.append(Fault(where[here], line, text))
    order = list(layers)
    for here, found in kept.items():
        mine = layer_of(layers, here)
        if layers and mine is None and here:
            said.append(Fault(where[here], 1, f"{label[here]} is in no layer: name it in LAYERS"))
        for to, names in found.items():
            other = layer_of(layers, to)
            if mine is not None and other is not None and other > mine:
                name, line = next(iter(names.items()))
                above = f"{label[to]}, a layer above ({order[other]})"
                text = f"{label[here]} ({order[mine]}) imports {name} of {above}"
                said.append(Fault(where[here], line, text))
    return said


def crates(root: Path = ROOT) -> list[Crate]:
    """Every crate of the workspace."""
    return [Crate(path.parent.name, path) for path in sorted((root / "crates").glob("*/src"))]


def main() -> int:
    """Check, or print the graph."""
    parser = argparse.ArgumentParser(description="The check of imports")
    parser.add_argument("--graph", action="store_true", help="print what each module imports")
    given = parser.parse_args()
    if given.graph:
        for crate in crates():
            for here, imported in crate.imports().items():
                for to, names in imported.items():
                    print(crate.name, crate.modules[here].name, crate.modules[to].name, *names)
        return 0
    found = [fault for crate in crates() for fault in faults(crate, LAYERS.get(crate.name, {}))]
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
