"""The page: a run as one HTML file that opens offline, shows every packet and runs again with other values.

The page holds the engine as WebAssembly and asks it for the run with the document that the command line would
use: same scenario, same seed, same numbers. A page of a recording (`penstock run --record`) holds the record
instead.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import re
import sys
import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import _engine, controllers, interrupts, record_window, results, scenario, store
from penstock.errors import NotBuiltError

if TYPE_CHECKING:
    from penstock.runs import RunSet
    from penstock.scenario import Scenario

#: Where `make setup` puts what pages are made of.
PARTS = Path(__file__).parent / "page"
#: A page may be so large, in bytes.
MOST_BYTES = 5_000_000
#: Without a record a page has at most so many bytes: it is sent by mail and opened on phones.
MOST_BYTES_OF_ENGINE = 1_200_000
# Bytes of a record that fit a page once they are compressed to a third.
_MOST_RECORDED = 7_000_000
#: The record of a run, by this name in its directory.
RECORD = "record.bin"

# Parameters that a page shows at once when nothing else is asked for, of those the scenario has.
_FIRST = (
    "profile",
    "servers",
    "flows",
    "senders",
    "protocol",
    "queue",
    "buffer",
    "sru",
    "load",
    "link_rate",
    "link_delay",
    "rto_min",
    "duration",
)


# Of a page without a story: more would push the rest off the screen.
_MOST_SLIDERS = 4


@dataclass(frozen=True)
class Slider:
    """A parameter to drag: `key` with `values` as the command line takes them, shown as `say` (None: as they
    are); `choice`: side by side instead.
    """

    key: str
    label: str
    values: tuple[str, ...]
    say: tuple[str, ...] | None = None
    choice: bool = False

    def data(self) -> dict[str, Any]:
        """What the page is given."""
        kind = "choice" if self.choice else "range"
        say = list(self.say or map(_spoken, self.values))
        return {
            "key": self.key,
            "label": self.label,
            "kind": kind,
            "values": list(self.values),
            "say": say,
        }


def _spoken(value: str) -> str:
    """A value as it is read: "200 ms" for "200ms"."""
    found = re.fullmatch(r"([\d.]+)([A-Za-z]+)", value)
    if not found:
        return value
    unit = {"pkt": "packets", "us": "µs"}.get(found[2], found[2].replace("bps", "b/s"))
    return f"{found[1]} {unit}"


# Its former name.
NotBuilt = NotBuiltError


def available() -> str:
    """Why no page can be made here; empty when one can."""
    missing = [
        name
        for name in ("penstock.wasm.zst", "page.js", "page.css", "load.js", "cards.js")
        if not (PARTS / name).exists()
    ]
    if not missing:
        return ""
    return "the page is not built here: make setup builds it where Node 20 and Rust's wasm32 target are"


def place(title: str) -> Path:
    """Where a page of this title goes that is only looked at: in the folder for temporary files."""
    name = "".join(c if c.isalnum() else "-" for c in title) or "run"
    return Path(tempfile.mkdtemp(prefix="penstock-")) / f"{name}.html"


def open_page(path: Path) -> None:
    """Open a page in the browser where there is a display."""
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(path.as_uri())


@dataclass(frozen=True)
class Page:
    """A page: `text` is the HTML document, `note` what to know of it. A notebook shows it in a frame."""

    title: str
    text: str
    note: str = ""

    def save(self, path: str | Path) -> Path:
        """Write the page; its path. Raises OSError."""
        results.put(Path(path), self.text)
        return Path(path)

    def show(self) -> Path:
        """Write the page to the folder for temporary files and open it in the browser where there is one."""
        path = self.save(place(self.title))
        open_page(path)
        return path

    def _repr_html_(self) -> str:
        frame = 'style="width:100%;height:900px;border:0" sandbox="allow-scripts"'
        return f'<iframe srcdoc="{html.escape(self.text)}" {frame}></iframe>'


def view(
    what: Scenario | RunSet,
    *,
    seed: int = 1,
    title: str = "",
    lesson: Sequence[str] = (),
    controls: Sequence[str] = (),
    sliders: Sequence[Slider] | None = None,
    story: Mapping[str, Any] | None = None,
    figures: Sequence[str] = (),
    navigation: str = "",
    background: str = "",
    settings: Mapping[str, Any] | None = None,
    packets_from: str | float = 0,
    **more: Any,
) -> Page:
    """The page of a scenario (a name, a file, a network, a dict), of a run directory, of a record, or of a
    `RunSet`.

    Settings are given as for `penstock.run`. `lesson`: paragraphs above the picture. `controls`: parameters
    to show at once. `sliders`: those to drag; None makes sliders of the numbers among the controls. `story`:
    steps that lead through the page, as `gallery` writes them. `figures`: keys of the summary to show first.
    `navigation` and `background`: HTML above the title and below the story. `packets_from`: the time (s, or
    text with a unit) from which the page has packets; of a record that is larger than a page may be, a window
    that begins there. A scenario with a protocol or queue in Python runs here, and the page shows its record.
    Raises ScenarioError for a bad value, NotBuiltError if the page's parts are missing.
    """
    from penstock.runs import RunSet

    if why := available():
        raise NotBuiltError(why)
    given = scenario.merged(settings, more)
    start = seconds("packets_from", packets_from)
    window: record_window.Window | None = None
    file, note = "", ""
    if isinstance(what, str | Path) and Path(what).is_dir():
        if given:
            raise scenario.error(next(iter(given)), next(iter(given.values())), "is fixed: the run is over")
        folder = Path(what)
        found = results.load(folder)
        title = title or folder.resolve().name
        if (folder / RECORD).exists():
            file = str(folder)
            window = record_window.read(folder / RECORD, start, _MOST_RECORDED)
        what = found
    elif isinstance(what, str | Path) and _is_record(Path(what)):
        window = record_window.read(Path(what), start, _MOST_RECORDED)
        return _of_window(window, str(what), title or Path(what).stem, {}, lesson)
    if isinstance(what, RunSet):
        title = title or what.name
        try:
            with controllers.data_only():
                document, resolved = _of_result(what, window is not None)
        except (KeyError, TypeError, AttributeError) as problem:
            said = f"is damaged ({type(problem).__name__}: {problem})"
            raise scenario.error("scenario", what.name, said) from None
    else:
        name = scenario.file_name(what if isinstance(what, str | Path) else str(what))
        title = title or name.removesuffix(".toml")
        document = json.loads(scenario.spec(what, given, seed))
        resolved = json.loads(scenario.check(json.dumps(document)))
        base = Path(document.pop("base_dir", None) or ".")
        if start and start >= (length := seconds("duration", resolved["set"]["duration"])):
            raise scenario.error(
                "packets_from", f"{start:g}s", f"must be before the end of the run, {length:g} s"
            )
        if "controllers" in document:
            window, note = _recorded({**document, "base_dir": str(base)}, start)
            del document["controllers"]
        elif files := _files(resolved, base, None):
            document["files"] = files
    specs: dict[str, Any] = next(
        (s for s in scenario.describe()["scenarios"] if s["name"] == resolved["scenario"]), {}
    )
    known = [spec["name"] for spec in specs.get("params", ())]
    first = [name for name in controls or _FIRST if name in known]
    if sliders is None:
        by_name = {spec["name"]: spec for spec in specs.get("params", ())}
        made = [_slider(by_name[name], resolved["set"].get(name, "")) for name in first]
        sliders = [slider for slider in made if slider is not None][:_MOST_SLIDERS]
    about = {
        "document": document,
        "specs": specs.get("params", []),
        "values": resolved["set"],
        "controls": first if story is None else [],
        "sliders": [slider.data() for slider in sliders],
        "story": story,
        "figures": list(figures),
        "from_s": start,
    }
    if window is not None:
        page = _of_window(window, file, title, about, lesson)
        return replace(page, note=note) if note else page
    return _page(title, about, lesson, b"", navigation, background)


def _of_window(
    window: record_window.Window, file: str, title: str, about: Mapping[str, Any], lesson: Sequence[str]
) -> Page:
    """The page of a record, or of a window of it: what is left out is said, and how to see it."""
    size = {"bytes": len(window.record), "of": window.size, "whole": window.whole, "file": file}
    page = _page(title, {**about, "recorded": size}, lesson, window.record)
    if window.whole:
        return page
    note = (
        f"the page has the packets from {window.start:.6g} s to {window.end:.6g} s, "
        f"{len(window.record) / 1e6:.1f} of {window.size / 1e6:.1f} MB; --from TIME shows another part"
    )
    return replace(page, note=note)


def seconds(key: str, value: str | float) -> float:
    """A time in seconds, or as text with a unit."""
    found = (float(value), "s") if isinstance(value, int | float) else _engine.quantity(value)
    if found is None or found[1] not in ("s", "") or not 0 <= found[0] < float("inf"):
        raise scenario.error(key, value, "must be a time, like 20ms, and not negative")
    return found[0]


def _slider(spec: Mapping[str, Any], value: str) -> Slider | None:
    """A slider over a decade or so on both sides of a number with a unit; None for what is no such number."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*)", value or spec["default"])
    if spec["kind"] not in ("count", "size", "rate", "duration", "amount", "float") or not found:
        return None
    number, unit = float(found[1]), found[2]
    if number <= 0:
        return None
    steps = [m * 10.0**e for e in range(-12, 13) for m in (1, 2, 5)]
    near = sorted({s for s in steps if number / 10.5 <= s <= number * 10.5} | {number})
    # A count is whole, and its range that of the key.
    if spec["kind"] == "count" or unit in ("pkt", "B"):
        near = [n for n in near if n == int(n) and n >= max(1, spec["min"] or 0)]
    if spec["kind"] in ("count", "float"):
        near = [n for n in near if (spec["min"] or 0) <= n <= (spec["max"] or n)]
    given = value or spec["default"]
    values = [given if n == number else f"{n:.10g}{unit}" for n in near]
    return Slider(spec["name"], spec["name"].replace("_", " "), tuple(values)) if len(values) > 2 else None


def _of_result(runs: RunSet, recorded: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The document that asks for the same run once more, and the resolved scenario. A result is data:
    whatever it says, no Python file is run, and no other file is read than those that the run read.
    """
    resolved = runs.scenario
    if recorded:
        # The record is all that is shown.
        return {"set": {}, "seed": runs.seed}, resolved
    if resolved.get("controllers"):
        raise _in_python(resolved["controllers"])
    file = dict(resolved.get("file") or {})
    what: Any = resolved["scenario"]
    if file.get("tables"):
        what = {"scenario": what, **file["tables"]}
    given = {key: resolved["set"][key] for key in resolved["given"]}
    document: dict[str, Any] = json.loads(scenario.spec(what, given, runs.seed))
    if "controllers" in document:
        raise _in_python(document["controllers"])
    if files := _files(resolved, Path(file.get("base_dir") or "."), file.get("inputs")):
        document["files"] = files
    return document, json.loads(scenario.check(json.dumps(document)))


def _in_python(own: Sequence[Mapping[str, Any]]) -> scenario.ScenarioError:
    names = ", ".join(str(entry.get("name")) for entry in own)
    rule = "is written in Python, and a page runs no Python: record the run (--record FILE), view the record"
    return scenario.error("protocol", names, rule)


def _files(resolved: Mapping[str, Any], base: Path, inputs: Mapping[str, str] | None) -> dict[str, str]:
    """The texts of the files that a scenario names, for the page. Raises ScenarioError for one that is not
    below the scenario's folder, or that has not the checksum of `inputs`, where there are some.
    """
    found = {}
    for name in store.files(resolved):
        path = base / name
        if not path.resolve().is_relative_to(base.resolve()):
            raise scenario.error(
                "file", name, "is not below the scenario's folder: a page takes no other file"
            )
        if inputs is not None and inputs.get(name) != store.file_hash(path):
            rule = "is not there any more as the run read it: view the scenario file instead"
            raise scenario.error("file", name, rule)
        try:
            found[name] = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise scenario.error("file", name, f"the file cannot be read ({problem})") from None
    return found


def _recorded(document: Mapping[str, Any], start: float) -> tuple[record_window.Window, str]:
    """The record of run 0 from `start` on, and what to know of it: a page has no interpreter for protocols
    and queues in Python, but shows what they did. The record ends with the packets that have room in a page.
    """
    record = {"from_s": start, "most_bytes": _MOST_RECORDED}
    spec, progress = json.dumps({**document, "record": record}), _engine.Progress()
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        path = Path(folder) / RECORD
        interrupts.watched(lambda: _engine.record(spec, 0, str(path), progress), progress.cancel)
        note = "the page shows a record of run 0, because it has no Python to run it again"
        if path.stat().st_size >= _MOST_RECORDED:
            note += f"; it has room for the first {_MOST_RECORDED // 1_000_000} MB of packets"
        # What is under way when the record is full is followed to its end.
        return record_window.read(path, start, 2 * _MOST_RECORDED), note


def _is_record(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(record_window.MAGIC)) == record_window.MAGIC
    except OSError:
        return False


def text(data: bytes) -> str:
    """Base85, a quarter longer than `data`; a comma stands for "<", which ends a script element's text."""
    return base64.b85encode(data).decode().replace("<", ",")


def _units() -> dict[str, Any]:
    """Unit and meaning of every key of a summary and of every value that flows report, by declaration."""
    told = scenario.describe()
    flows = {report for protocol in told["protocols"] for report in protocol["reports"]}
    values = {
        m["name"]: [m["unit"], m["text"]]
        for m in told["metrics"]
        if m["name"] in flows or any(of.startswith("flows") for of in m["of"])
    }
    return {"summary": {k["name"]: [k["unit"], k["text"]] for k in told["summary_keys"]}, "values": values}


def _page(
    title: str,
    about: Mapping[str, Any],
    lesson: Sequence[str],
    record: bytes,
    navigation: str = "",
    background: str = "",
) -> Page:
    given = {
        "title": title,
        "document": {"set": {}, "seed": 1},
        "specs": [],
        "values": {},
        "controls": [],
        "sliders": [],
        "story": None,
        "figures": [],
        "units": _units(),
        **about,
    }
    paragraphs = "".join(f"<p>{html.escape(line)}</p>" for line in lesson)
    engine = b"" if record else (PARTS / "penstock.wasm.zst").read_bytes()
    parts = {
        "TITLE": html.escape(title),
        "STYLE": (PARTS / "page.css").read_text("utf-8"),
        "LESSON": paragraphs,
        "NAV": navigation,
        "BACKGROUND": f"<p>Background: {background}</p>" if background else "",
        "VERSION": _engine.__version__,
        "LICENSES": html.escape((PARTS / "LICENSES.txt").read_text("utf-8")),
        "GIVEN": text(gzip.compress(json.dumps(given).encode(), mtime=0)),
        "ENGINE": text(engine),
        "RECORD": text(gzip.compress(record, mtime=0)) if record else "",
        "PROGRAM": text(gzip.compress((PARTS / "page.js").read_bytes(), mtime=0)),
        "SCRIPT": (PARTS / "load.js").read_text("utf-8").replace("</script", "<\\/script"),
    }
    template = (Path(__file__).parent / "templates" / "page.html").read_text("utf-8")
    pieces = template.split("__")
    made = "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))
    if len(made) > MOST_BYTES:
        size = f"{len(made) / 1e6:.1f} MB"
        raise scenario.error(
            "record", size, f"a page has at most {MOST_BYTES / 1e6:.0f} MB; record a shorter run"
        )
    return Page(title, made)
