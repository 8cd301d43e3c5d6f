"""Install a wheel into an empty environment and use it like a user who has only Python.

    tools/check_dist.py dist/penstock-*.whl

The environment has no Rust tools on its PATH; where this process may (root on Linux), everything after the
installation runs in a network namespace without any device. The last step are the golden results (golden.py):
a wheel's engine may be built by a profile, which a checkout's is not. Prints what each step took; exit code 1
where a step fails or the demo takes more than a minute.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: What `penstock demo` may take, in seconds, on an idle machine of two cores.
DEMO_S = 60.0
CORES = os.cpu_count() or 1
GOLDEN = Path(__file__).with_name("golden.py")
#: What a user does first, and a file or text that must come of it.
STEPS = (
    (("--version",), "penstock "),
    (("describe", "incast"), "rto_min"),
    (("run", "incast", "--set", "servers=8", "--set", "duration=1s", "--out", "out/run"), "out/run/run.json"),
    (("view", "incast", "--set", "servers=8", "--out", "out/incast.html"), "out/incast.html"),
    (("reproduce", "D-7", "--quick"), "out/ledger/report.html"),
    (("doctor",), "for live runs"),
    (("demo",), "out/demo/report.html"),
)


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("wheel", type=Path)
    wheel: Path = parser.parse_args().wheel.resolve()
    with tempfile.TemporaryDirectory() as folder:
        return _check(wheel, Path(folder))


def _check(wheel: Path, folder: Path) -> int:
    keep = {key: os.environ[key] for key in os.environ if key.startswith(("PIP_", "SSL_", "LANG"))}
    environment = {**keep, "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    for tool in ("cargo", "rustc", "node"):
        if found := shutil.which(tool, path=environment["PATH"]):
            print(f"note: {found} is on the PATH of the empty environment too")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    began = time.monotonic()
    subprocess.run([folder / "venv/bin/pip", "install", "--quiet", wheel], env=environment, check=True)
    print(f"{time.monotonic() - began:6.1f} s  pip install {wheel.name}")
    alone_says = subprocess.run(
        [folder / "venv/bin/penstock", "reproduce", "D-7"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if alone_says.returncode != 2 or "pip install penstock-papers" not in alone_says.stderr:
        print(f"without the papers `reproduce` does not say how to install them: {alone_says.stderr[-500:]}")
        return 1
    for papers in wheel.parent.glob("penstock_papers-*.whl"):
        install = [folder / "venv/bin/pip", "install", "--quiet", "--no-deps", papers]
        subprocess.run(install, env=environment, check=True)
    alone = ["unshare", "--net"] if _may_unshare() else []
    print("without a network:" if alone else "note: not root on Linux, so the network stays reachable:")
    failed = False
    steps: list[tuple[str, list[str | Path], str]] = [
        (f"penstock {' '.join(words)}", [folder / "venv/bin/penstock", *words], wanted)
        for words, wanted in STEPS
    ]
    golden: list[str | Path] = [folder / "venv/bin/python", GOLDEN, "check"]
    steps.append(("golden.py check", golden, "all golden results are as recorded"))
    for step, command, wanted in steps:
        began, before = time.monotonic(), _cpu_s()
        done = subprocess.run(
            [*alone, *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        took, cpu = time.monotonic() - began, _cpu_s() - before
        there = wanted in done.stdout or (folder / wanted).exists()
        # On a machine that others keep busy the wall clock says nothing: there it is the CPU time per core.
        judged = cpu / CORES if os.getloadavg()[0] > 2 * CORES else took
        well = done.returncode == 0 and there and (step != "penstock demo" or judged <= DEMO_S)
        failed |= not well
        said = "" if well else "   FAILED"
        print(f"{took:6.1f} s ({cpu:5.1f} s of CPU)  {step}{said}")
        if done.returncode or not there:
            print(
                f"exit code {done.returncode}, {wanted!r} {'is' if there else 'is not'} there\n"
                f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
    return int(failed)


def _cpu_s() -> float:
    """What ended children of this process have taken, in seconds of CPU."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _may_unshare() -> bool:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
