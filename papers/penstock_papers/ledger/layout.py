"""How pinned.json and holds.json are laid out: they are written by programs, and read by people in diffs.

They stay JSON because their numbers have no bound (`inf` as text) and the standard library writes it; TOML is
only read by it, and their keys are any text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

WIDTH = 110


def text(document: Any, indent: int = 0) -> str:
    """JSON with a mapping on one line where it fits, otherwise with a line for each key; lists stay whole."""
    flat = json.dumps(document, default=str)
    if not isinstance(document, Mapping) or len(flat) + indent <= WIDTH:
        return flat
    inner = " " * (indent + 1)
    rows = (f"{inner}{json.dumps(key)}: {text(value, indent + 1)}" for key, value in document.items())
    return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
