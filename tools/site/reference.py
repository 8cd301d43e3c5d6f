"""The reference pages: scenarios, protocols, queues, tables, keys, the command line and the Python API,
from what the code declares."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import penstock
from penstock import catalogue, models

ROOT = Path(__file__).resolve().parents[2]
#: Where docs/reference/index.md has the lists of what is generated.
MARK = "<!-- generated -->"
#: Group of the catalogue -> title of its list, folder of its pages ("" = all on the list's page).
GROUPS = {
    "scenarios": ("Scenarios", "scenarios"),
    "protocols": ("Protocols", "protocols"),
    "receive_controls": ("Receiver-side controls", "protocols"),
    "host_controllers": ("Controls of a host", "protocols"),
    "queues": ("Queue disciplines", "queues"),
    "topologies": ("Networks by name", ""),
}
#: Protocols whose file of Rust is not called as they are.
FILES = {"newreno": "reno", "sack": "reno", "linux-reno": "linux", "nscc-rccc": "nscc"}
#: Folders of the reference, as its list of pages has them; what lies in none comes first.
ORDER = ("scenarios", "protocols", "queues", "python", "models")
CRATES = ("units", "core", "fabric", "host", "models", "sim", "live")
SOURCES = ROOT / "crates/models/src/protocols"
#: What has no page of its own in the reference of Python: it is in the reference of models.
MODULES = ("plot", "figures", "results", "stats", "live", "ledger", "report")


def md(text: Any) -> str:
    """Plain text as markdown that shows it as it is, in a table too."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~])", r"\\\1", str(text)).replace("\n", " ")


def code(text: Any) -> str:
    """Text as code, in a table too."""
    return f"`{text}`".replace("|", "\\|") if str(text) else ""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table of cells that are markdown."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def module_of(protocol: str) -> Path | None:
    """The file of Rust that a built-in protocol is in."""
    path = SOURCES / f"{FILES.get(protocol, protocol).replace('-', '_')}.rs"
    return path if path.exists() else None


def module_text(path: Path) -> str:
    """The documentation at the head of a file of Rust, as markdown; links to other items are code."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line[3:].removeprefix(" "))
    text = re.sub(r"\[(`[^`]+`)\](?!\()", r"\1", "\n".join(lines))
    # Outside code, what markdown would take for markup is a symbol of an equation.
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if i % 2 else re.sub(r"([<>\[\]$]|(?<=\S)[*_])", r"\\\1", part) for i, part in enumerate(parts)
    )


_CITED = re.compile(r"\b(?:[Ee]qs?\.|[Ee]quations? \d|[Aa]lgorithm \d|[Ss]ections? [\dIVX]|RFC \d)")


def equations(path: Path) -> list[tuple[int, str]]:
    """Comments of a file of Rust that cite an equation, algorithm or section, with their lines; not of
    its tests, nor of parameters.
    """
    found: list[tuple[int, str]] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines) and not lines[at].startswith("#[cfg(test)]"):
        begin, text = at, []
        while (
            at < len(lines)
            and (comment := re.match(r"\s*///? ?(.*)", lines[at]))
            and not lines[at].lstrip().startswith("//!")
        ):
            text.append(comment[1])
            at += 1
        joined = re.sub(r"\[(`[^`]+`)\]", r"\1", " ".join(text)).strip()
        if joined and _CITED.search(joined):
            found.append((begin + 1, joined))
        at = max(at, begin + 1)
    return found


def families() -> dict[str, tuple[str, str]]:
    """By protocol or queue: file name and title of the background's page that tells of it."""
    found: dict[str, tuple[str, str]] = {}
    for page in sorted((ROOT / "docs/background").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for names in re.findall(r"^<!-- protocols: (.+?) -->$", text, re.MULTILINE):
            title = text.partition("\n")[0].removeprefix("# ")
            found |= dict.fromkeys(names.split(), (page.name, title))
    return found


def rust(path: Path, words: str) -> str:
    """A link to the rustdoc of a module of `penstock_models`."""
    return f"[{words}](site:rust/penstock_models/protocols/{path.stem}/index.html)"


def _parameters(params: Sequence[dict[str, Any]]) -> str:
    if not params:
        return "No parameters.\n"
    rows = []
    for p in params:
        what = md(p["text"]) + (f" *({md(p['origin'])})*" if p["origin"] else "")
        rows.append((code(p["name"]), code(p["default"]) or "none", md(catalogue.span(p)), what))
    return table(("key", "default", "range, unit", "what (source of the default)"), rows)


def entry_page(group: str, entry: dict[str, Any]) -> str:
    """The page of a scenario, protocol or queue."""
    singular = catalogue._GROUPS[group]
    lines = [f"# {md(entry['name'])}", "", f"{singular.capitalize()}. {md(entry['text'])}.", ""]
    if entry.get("source"):
        lines += [f"Source: {md(entry['source'])}.", ""]
    path = module_of(entry["name"]) if GROUPS[group][1] == "protocols" else None
    if path:
        lines += [f"In Rust: {rust(path, path.name)}, with the equations where they are computed.", ""]
    if family := families().get(entry["name"]) if GROUPS[group][1] in ("protocols", "queues") else None:
        name, title = family
        lines += [
            f"The idea, how it was read and what was judged: [{md(title)}](../../background/{name}).",
            "",
        ]
    lines += ["## Parameters", "", _parameters(entry["params"]), ""]
    if entry.get("reports"):
        lines += ["Sampled with `series=True`: " + ", ".join(map(code, entry["reports"])) + ".", ""]
    for part in entry.get("tables", []):
        head = "`[[link]]`" if part["name"] == "link" else f"`[[workload]]` of kind `{part['name']}`"
        lines += [f"## {head}", "", md(part["text"]) + ".", ""]
        if part["nodes"]:
            lines += ["Names of nodes: " + ", ".join(map(code, part["nodes"])) + ".", ""]
        lines += [_parameters(part["params"]), ""]
    for profile in entry.get("profiles", []):
        values = [(code(v["key"]), code(v["value"]), md(v["origin"])) for v in profile["values"]]
        lines += [
            f"## Profile {md(profile['name'])}",
            "",
            md(profile["text"]) + ".",
            "",
            table(("key", "value", "origin"), values),
            "",
        ]
    if path and (cited := equations(path)):
        lines += ["## Equations", "", "Where they are computed, and what stands there:", ""]
        lines += [f"- line {line}: {_prose(text)}" for line, text in cited] + [""]
    if path and (text := module_text(path)):
        lines += [
            "## As implemented",
            "",
            "The head of the file:",
            "",
            *(f"> {line}".rstrip() for line in text.splitlines()),
            "",
        ]
    return "\n".join(lines)


def _quantities(title: str, lead: str, entries: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            code(e["name"]),
            md(e["unit"]),
            md(e["text"]),
            ", ".join(map(md, e["of"])) if isinstance(e.get("of"), list) else "",
        )
        for e in entries
    ]
    sampled = any(row[3] for row in rows)
    heads = ("name", "unit", "what", *(["sampled of"] if sampled else []))
    return f"# {title}\n\n{lead}\n\n" + table(heads, [row[: len(heads)] for row in rows])


def _tables(entries: Sequence[dict[str, Any]]) -> str:
    lines = [
        "# Tables of a result",
        "",
        "`result.flows`, `result.table(NAME)`, and one Parquet file each in a run directory.",
        "",
    ]
    for entry in entries:
        rows = [(code(c["name"]), code(c["type"]), md(c["unit"]), md(c["text"])) for c in entry["columns"]]
        lines += [
            f"## {entry['name']}",
            "",
            md(entry["text"]) + ".",
            "",
            table(("column", "type", "unit", "what"), rows),
            "",
        ]
    return "\n".join(lines)


def _command_line() -> str:
    import typer.main

    from penstock import cli

    group: Any = typer.main.get_command(cli.app)
    lines = [
        "# Command line",
        "",
        "Values take units; exit codes and `--json` are in [the guide](../how-to/shell.md).",
        "",
    ]
    for name, command in sorted(group.commands.items()):
        if command.hidden:
            continue
        lines += [f"## penstock {name}", "", md(" ".join((command.help or "").split())), ""]
        rows = []
        for p in command.params:
            opts = (
                " ".join(getattr(p, "opts", []))
                if p.param_type_name == "option"
                else (p.metavar or p.name.upper())
            )
            metavar = f" {p.metavar}" if p.param_type_name == "option" and p.metavar else ""
            default = "" if p.default in (None, False, ()) or callable(p.default) else str(p.default)
            rows.append(
                (code(opts + metavar), code(default), md(" ".join((getattr(p, "help", "") or "").split())))
            )
        lines += [table(("argument or option", "default", "what"), rows), ""]
    return "\n".join(lines)


def _documented(thing: Any, name: str, level: int, attribute: bool = False) -> list[str]:
    """One public thing of Python: signature and docstring, and of a class its public methods."""
    try:
        signature = str(inspect.signature(thing))
    except (TypeError, ValueError):
        signature = ""
    if inspect.isclass(thing) and issubclass(thing, Exception):
        signature = ""
    if attribute:
        signature = signature.replace("(self) ->", ":")
    signature = (
        re.sub(r"<(?:factory|object|class)[^>]*>", "...", signature).replace("'", "").replace("penstock.", "")
    )
    text = inspect.getdoc(thing) or ""
    lines = [
        "#" * level + f" {md(name)}",
        "",
        "```{code-block} python",
        "",
        f"{name.split(' ')[-1]}{signature}",
        "```",
        "",
        *_docstring(text),
        "",
    ]
    if inspect.isclass(thing):
        for key, member in vars(thing).items():
            if key.startswith("_") or not (
                inspect.isroutine(member) or isinstance(member, property | classmethod | staticmethod)
            ):
                continue
            inner = member.fget if isinstance(member, property) else getattr(thing, key)
            if inspect.getdoc(inner):
                lines += _documented(
                    inner, f"{thing.__name__}.{key}", level + 1, isinstance(member, property)
                )
    return lines


def _docstring(text: str) -> list[str]:
    """A docstring as markdown: paragraphs as they are, what is indented or laid out in columns as it
    stands.
    """
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        rows = paragraph.splitlines()
        laid_out = any(row.startswith(("    ", ">>>", "===", "---")) or "  " in row.strip() for row in rows)
        if laid_out:
            lines += ["```text", *rows, "```", ""]
        elif rows and re.match(r"[*-] ", rows[0].strip()):
            items = re.sub(r"\n\s+(?![*-] )", " ", paragraph).splitlines()
            lines += [f"- {_prose(item.strip()[2:])}" for item in items] + [""]
        else:
            lines += [_prose(paragraph), ""]
    return lines


def _prose(text: str) -> str:
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", text).replace("``", "`")
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if i % 2 else re.sub(r"([\\*_{}\[\]<>#|$~])", r"\\\1", part) for i, part in enumerate(parts)
    )


def _python() -> dict[str, str]:
    pages = {}
    lines = ["# Package penstock", "", "Everything here is an attribute of `penstock`.", ""]
    for name in sorted(penstock.__all__):
        thing = getattr(penstock, name)
        if name.startswith("_") or not callable(thing):
            continue
        lines += _documented(thing, name, 2)
    pages["python/penstock"] = "\n".join(lines)
    for name in MODULES:
        pages[f"python/{name}"] = _module(getattr(penstock, name), f"penstock.{name}")
    for name in sorted(name for name in dir(models) if name != "arguments"):
        pages[f"models/{name}"] = _module(getattr(models, name), f"penstock.models.{name}")
    return pages


def _module(module: Any, name: str) -> str:
    lines = [f"# {md(name)}", "", *_docstring(inspect.getdoc(module) or ""), ""]
    public = getattr(module, "__all__", None) or [
        key
        for key, thing in vars(module).items()
        if not key.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and getattr(thing, "__module__", "") == module.__name__
    ]
    for key in public:
        thing = getattr(module, key)
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and inspect.getdoc(thing):
            lines += _documented(thing, key, 2)
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Every page of the reference, by its path below `reference/` without the ending."""
    everything = catalogue.find(None)
    found: dict[str, str] = {}
    lists: list[str] = []
    for group, (title, folder) in GROUPS.items():
        rows = []
        for entry in everything.get(group, []):
            name = entry["name"]
            if folder:
                found[f"{folder}/{name}"] = entry_page(group, entry)
            rows.append(
                (
                    f"[{name}]({folder}/{name}.md)" if folder else code(name),
                    md(entry["text"]),
                    md(entry.get("source", "")),
                )
            )
        lists += [f"## {title}", "", table(("name", "what", "source"), rows), ""]
    found["tables"] = _tables(everything["tables"])
    found["summary"] = _quantities(
        "Keys of the summary",
        "`result.summary[KEY]`; the mean over the runs, `result.ci95(KEY)` its 95 % half-width.",
        everything["summary_keys"],
    )
    found["series"] = _quantities(
        "Metrics of the series", 'Sampled with `sample="100us"` and `series=True`.', everything["metrics"]
    )
    found["command-line"] = _command_line()
    python = _python()
    found |= python
    named = sorted(python)
    lists += [
        "## Python",
        "",
        *(f"- [{path.split('/')[-1]}]({path}.md)" for path in named if path.startswith("python/")),
        "",
    ]
    lists += [
        "## Models",
        "",
        "The equations, solved; [the models](../background/models.md) says what they are.",
        "",
    ]
    lists += [f"- [{path.split('/')[-1]}]({path}.md)" for path in named if path.startswith("models/")]
    lists += [
        "",
        "## What is measured, and the command line",
        "",
        "- [Tables of a result](tables.md)",
        "- [Keys of the summary](summary.md)",
        "- [Metrics of the series](series.md)",
        "- [Command line](command-line.md)",
        "",
        "## Rust",
        "",
        "The documentation of the crates: [penstock](site:rust/penstock/index.html), the facade, and behind"
        + " it "
        + ", ".join(f"[{name}](site:rust/penstock_{name}/index.html)" for name in CRATES)
        + ".",
        "",
    ]
    order = sorted(found, key=lambda path: (ORDER.index(path.split("/")[0]) if "/" in path else -1, path))
    tree = "\n".join(["```{toctree}", ":hidden:", "", *order, "```"])
    found["index"] = "\n".join(lists) + "\n" + tree + "\n"
    return found
