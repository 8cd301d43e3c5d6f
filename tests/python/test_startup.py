"""How long the program takes before it does anything: as a ratio to an interpreter that loads NumPy."""

import resource
import subprocess
import sys


def cpu(*command: str) -> float:
    """CPU seconds of a program, the least of three."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def loaded(code: str, *modules: str) -> list[str]:
    """Those of `modules` that a program has loaded at its end."""
    ask = f"{code}\nimport sys; print(*({modules!r} & sys.modules.keys()), sep=' ')"
    ask = ask.replace(repr(modules), repr(set(modules)))
    return subprocess.run(
        [sys.executable, "-c", ask], check=True, capture_output=True, text=True
    ).stdout.split()


HEAVY = ("numpy", "polars", "scipy", "matplotlib", "penstock._engine")


def test_help_and_import_wait_for_no_library() -> None:
    shown = (
        "import contextlib, penstock.cli\nwith contextlib.suppress(SystemExit): penstock.cli.main(['--help'])"
    )
    help_only = f"import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()):\n exec({shown!r})"
    assert loaded(help_only, *HEAVY) == []
    assert loaded("import penstock", *HEAVY, "rich", "typer") == []
    # The check finds a module that is loaded.
    assert loaded("import penstock.sweeps", *HEAVY, "rich") != []


def test_a_single_run_does_without_scipy_and_matplotlib() -> None:
    run = "import penstock; penstock.run('incast', servers=2, duration='20ms').summary"
    assert loaded(run, "scipy", "matplotlib") == []


def test_help_costs_little_more_than_loading_numpy() -> None:
    numpy = cpu("-c", "import numpy")
    # Measured: 1.4 and 0.1 times; without these precautions 5 and 4 times.
    assert cpu("-m", "penstock", "--help") < 2.5 * numpy
    assert cpu("-c", "import penstock") < 0.5 * numpy
