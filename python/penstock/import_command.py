"""`penstock run --import FORM DIR`: the input of another simulator in the place of a scenario."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from penstock.console import note

FORMS = ("hpcc",)


def imported(form: str, source: str) -> str:
    """The scenario file that `source` becomes, which lasts as long as the program; what is to be known of it
    is told. Raises ScenarioError, one line with file, line and key.
    """
    if form not in FORMS:
        from penstock import scenario as scenarios

        raise scenarios.error("--import", form, f"must be one of {', '.join(FORMS)}")
    from penstock import hpcc_import

    folder = tempfile.TemporaryDirectory(prefix="penstock-")
    atexit.register(folder.cleanup)
    found = hpcc_import.convert(source, folder.name)
    for text in found.notes:
        note(f"note: {text}")
    return str(found.path)


def keep(scenario: str, out: Path) -> None:
    """The scenario file and its flows go to `imported` in the run directory, to be run again from there."""
    shutil.copytree(Path(scenario).parent, out / "imported", dirs_exist_ok=True)
