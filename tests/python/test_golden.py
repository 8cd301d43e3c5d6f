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
    "If this is meant: a fragment changelog.d/SLUG.results.md (scenario, quantity, old -> new, reason), then "
    ".venv/bin/python tools/golden.py renew --reason 'its text'."
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


def test_every_record_has_a_scenario_a_purpose_and_a_reason():
    recorded = golden.recorded()
    assert sorted(recorded) == golden.names()
    for name, entry in recorded.items():
        assert entry["guards"] == golden.purpose(name)
        assert len(entry["reason"].split()) > 3, name


def test_a_reason_is_a_fragment_or_an_item_of_the_changelog(tmp_path):
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d/pacing.results.md").write_text(
        "`incast`: goodput 1 -> 2 Mb/s,\nas senders pace.\n"
    )
    (tmp_path / "changelog.d/pacing.fixed.md").write_text("Senders pace.\n")
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 1\n\n### Results changed\n\n- One\n  item.\n- Another.\n\n### Fixed\n\n- No.\n"
    )
    assert golden.results_changed(tmp_path) == [
        "`incast`: goodput 1 -> 2 Mb/s, as senders pace.",
        "One item.",
        "Another.",
    ]


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
