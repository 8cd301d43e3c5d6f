"""The licences of everything that a wheel is built from or needs: crates in it, packages beside it.

    tools/licences.py write [FILE]      # python/penstock/LICENSES.txt unless told
    tools/licences.py check             # exit code 1 where something has no licence that is allowed

Crates are those that `cargo metadata` resolves for the Python module (build scripts and macros left out, as
nothing of them is in the wheel);
packages are the declared dependencies and theirs, as they are installed. The bundle of the page has a list
of its own (page/LICENSES.txt).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "python/penstock/LICENSES.txt"
#: What may be in it, or needed by it: permissive, or weak copyleft of a library of its own.
ALLOWED = re.compile(
    r"MIT|Apache|BSD|ISC|Zlib|Unicode|Unlicense|0BSD|PSF|Python Software|HPND|CC0|MPL|BSL|NumPy|Boost",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Part:
    """A crate or package: kind, name, version, licence as declared, and the texts that came with it."""

    kind: str
    name: str
    version: str
    licence: str
    texts: tuple[str, ...]


def crates() -> list[Part]:
    """The crates that end in the Python module, without those of this workspace."""
    command = [
        "cargo",
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        "x86_64-unknown-linux-gnu",
    ]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    (root,) = (key for key, package in packages.items() if package["name"] == "penstock-py")
    seen, todo = {root}, [root]
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            macro = any("proc-macro" in target["kind"] for target in packages[dependency["pkg"]]["targets"])
            if linked and not macro and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    parts = []
    for key in seen:
        package = packages[key]
        if package["source"]:
            folder = Path(package["manifest_path"]).parent
            parts.append(
                Part("crate", package["name"], package["version"], package["license"] or "", _texts(folder))
            )
    return sorted(parts, key=lambda part: part.name)


def packages() -> list[Part]:
    """The Python packages that an installed penstock needs, with what these need."""
    seen: dict[str, Part] = {}
    todo = [_name(line) for line in _declared()]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        about = found.metadata
        classifiers = [
            c.rsplit(" :: ", 1)[-1] for c in about.get_all("Classifier") or [] if c.startswith("License ::")
        ]
        declared = (
            about.get("License-Expression")
            or "; ".join(classifiers)
            or (about.get("License") or "").split("\n")[0]
        )
        files = [
            Path(str(f.locate()))
            for f in found.files or []
            if re.search(r"(?i)(licen[cs]e|copying|notice)", f.name) and f.suffix != ".py"
        ]
        texts = tuple(
            f.read_text(encoding="utf-8", errors="replace") for f in sorted(files)[:3] if f.is_file()
        )
        seen[name] = Part("package", about["Name"], found.version, declared, texts)
        todo += [_name(line) for line in found.requires or [] if "extra ==" not in line]
    return sorted(seen.values(), key=lambda part: part.name.lower())


def _declared() -> list[str]:
    import tomllib

    return list(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    )


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match, requirement
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def _texts(folder: Path) -> tuple[str, ...]:
    files = sorted(
        f for f in folder.iterdir() if f.is_file() and re.match(r"(?i)(licen[cs]e|copying|notice)", f.name)
    )
    return tuple(f.read_text(encoding="utf-8", errors="replace") for f in files)


def document(parts: list[Part]) -> str:
    """All of them: a list, then each text once, with those it is of."""
    lines = [
        "penstock itself is under MIT or Apache-2.0, at your choice.",
        "Compiled into it (crate) or installed beside it (package):",
        "",
    ]
    lines += [f"{part.kind:8} {part.name} {part.version}: {part.licence}" for part in parts]
    of: dict[str, list[str]] = {}
    for part in parts:
        if part.kind == "crate":  # a package brings its own texts
            for text in part.texts:
                of.setdefault(text.strip(), []).append(f"{part.name} {part.version}")
    for text, names in of.items():
        lines += ["", "=" * 100, ", ".join(names), "=" * 100, "", text]
    return "\n".join(lines) + "\n"


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("what", choices=("write", "check"))
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    given = parser.parse_args()
    parts = [*crates(), *packages()]
    bad = [part for part in parts if not ALLOWED.search(part.licence)]
    for part in bad:
        print(
            f"{part.kind} {part.name} {part.version}: licence {part.licence!r} is not among the allowed ones",
            file=sys.stderr,
        )
    if given.what == "write":
        given.file.write_text(document(parts), encoding="utf-8")
        print(f"{len(parts)} licences: {given.file}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
