"""Golden results: small scenarios with contention whose numbers and result bytes are committed.

`tests/golden/*.toml` are the scenarios, each with its purpose on the first line; `tests/golden/results.json`
holds what they gave. `check` compares; `renew --reason TEXT` writes anew what has changed, where TEXT must
be that of a fragment `changelog.d/*.results.md`, or an item of CHANGELOG.md under "Results changed".
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from penstock import _engine, scenario

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "golden"
RESULTS = FOLDER / "results.json"
#: The numbers a reader sees when a fingerprint moves; the fingerprint covers every table.
NUMBERS = (
    "goodput_bps",
    "utilisation",
    "queue_mean_packets",
    "queue_std_packets",
    "queue_max_packets",
    "drops",
    "ce_marks",
    "timeouts",
    "retransmits",
    "packets_sent",
    "flows",
    "flows_completed",
    "fct_mean_s",
    "fct_p99_s",
    "jain",
    "alpha_mean",
    "packet_hops",
)


def names() -> list[str]:
    """The golden scenarios, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def purpose(name: str) -> str:
    """What a scenario guards: its first line."""
    first = (FOLDER / f"{name}.toml").read_text(encoding="utf-8").splitlines()[0]
    return first.removeprefix("# Guards: ")


def measure(name: str) -> dict[str, Any]:
    """Run a scenario, seed 1, replication 0: its main numbers and the fingerprint of everything it left."""
    result = _engine.run(scenario.spec(FOLDER / f"{name}.toml", {}, 1), 0, _engine.Progress(), True)
    numbers = {key: result.summary[key] for key in NUMBERS if key in result.summary}
    return {"numbers": numbers, "fingerprint": result.fingerprint}


def measure_all(workers: int) -> dict[str, dict[str, Any]]:
    """All of them, on so many threads."""
    with ThreadPoolExecutor(workers) as pool:
        return dict(zip(names(), pool.map(measure, names()), strict=True))


def recorded() -> dict[str, Any]:
    """The committed results by name."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def results_changed(root: Path = ROOT) -> list[str]:
    """The texts of fragments of the type `results`, and the items of CHANGELOG.md under "Results changed",
    white space folded.
    """
    fragments = [
        path.read_text(encoding="utf-8") for path in sorted((root / "changelog.d").glob("*.results*.md"))
    ]
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.findall(r"^### Results changed\n(.*?)(?=^##|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    items = re.split(r"^- ", "\n".join(parts), flags=re.MULTILINE)[1:]
    return [" ".join(item.removeprefix("- ").split()) for item in [*fragments, *items]]


def difference(name: str, old: dict[str, Any] | None, new: dict[str, Any]) -> str:
    """Old and new numbers of a scenario side by side; empty when nothing has moved."""
    if old is not None and old["fingerprint"] == new["fingerprint"]:
        return ""
    before = old["numbers"] if old else {}
    lines = [f"{name}: {purpose(name)}"]
    for key in dict.fromkeys((*before, *new["numbers"])):
        a, b = before.get(key), new["numbers"].get(key)
        if a != b:
            lines.append(f"    {key:22} {a!s:>22} -> {b}")
    if len(lines) == 1:
        lines.append("    the main numbers are the same; some row of a table has changed")
    return "\n".join(lines)


def main() -> int:
    """Compare (exit 1 when something has moved), or renew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["check", "renew"], nargs="?", default="check")
    parser.add_argument("--reason", default="", help="the text of a fragment changelog.d/*.results.md")
    options = parser.parse_args()
    old, new = recorded(), measure_all(2)
    moved = [text for name in new if (text := difference(name, old.get(name), new[name]))]
    moved += [f"{name}: recorded, but there is no such scenario" for name in old if name not in new]
    print("\n".join(moved) or "all golden results are as recorded")
    if options.action == "check":
        return 1 if moved else 0
    reason = " ".join(options.reason.split())
    if moved and (not reason or reason not in results_changed()):
        print(
            "not renewed: give --reason, the whole text of a fragment changelog.d/*.results.md",
            file=sys.stderr,
        )
        return 2
    out = {}
    for name, found in new.items():
        same = name in old and old[name]["fingerprint"] == found["fingerprint"]
        out[name] = {
            "guards": purpose(name),
            "reason": old[name]["reason"] if same else reason,
            **found,
        }
    RESULTS.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
