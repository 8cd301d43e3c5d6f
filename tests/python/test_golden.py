"""Golden results: any change of a number or a byte is seen, named and given a reason.

The same scenarios run in a build with debug assertions in crates/sim/tests/golden.rs.
"""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
_spec = importlib.util.spec_from_file_location("golden", ROOT / "tools" / "golden.py")
golden = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(golden)

RENEW = (
    "If this is meant: a line with reason and size under 'Results changed' in CHANGELOG.md, then "
    ".venv/bin/python tools/golden.py renew --reason 'that line'."
)


@pytest.fixture(scope="module")
def measured():
    return golden.measure_all(1)


@pytest.mark.parametrize("name", golden.names())
def test_results_are_as_recorded(name, measured):
    moved = golden.difference(name, golden.recorded().get(name), measured[name])
    assert not moved, f"\n{moved}\n{RENEW}"


def test_two_workers_leave_the_same_bytes(measured):
    assert golden.measure_all(2) == measured


def test_every_record_has_a_scenario_a_purpose_and_a_reason_in_the_changelog():
    recorded, changed = golden.recorded(), golden.results_changed()
    assert sorted(recorded) == golden.names()
    for name, entry in recorded.items():
        assert entry["guards"] == golden.purpose(name)
        assert entry["reason"] and entry["reason"] in changed, (
            f"{name}: {entry['reason']!r} is not in CHANGELOG.md"
        )


def test_a_changed_number_is_shown_with_its_old_value():
    old = golden.recorded()["incast_newreno"]
    new = {"fingerprint": "other", "numbers": old["numbers"] | {"timeouts": -1}}
    text = golden.difference("incast_newreno", old, new)
    assert f"{old['numbers']['timeouts']} -> -1" in " ".join(text.split())
    assert golden.purpose("incast_newreno") in text
    assert golden.difference("incast_newreno", old, old) == ""


def test_the_golden_scenarios_cover_every_protocol_queue_scenario_and_workload():
    from penstock import scenario

    text = "\n".join((golden.FOLDER / f"{name}.toml").read_text() for name in golden.names())
    resolved = [scenario.resolve(golden.FOLDER / f"{name}.toml") for name in golden.names()]
    used = {word.split(":")[0] for r in resolved for key in ("protocol", "queue") for word in [r["set"][key]]}
    catalogue = scenario.describe()
    wanted = {p["name"] for p in catalogue["protocols"]} | {q["name"] for q in catalogue["queues"]}
    assert not wanted - used, f"no golden scenario for {sorted(wanted - used)}"
    assert {s["name"] for s in catalogue["scenarios"]} == {r["scenario"] for r in resolved}
    for kind in (
        "flows",
        "poisson",
        "closed",
        "query",
        "reads",
        "trace",
        "permutation",
        "incast",
        "all-to-all",
    ):
        assert f'kind = "{kind}"' in text
