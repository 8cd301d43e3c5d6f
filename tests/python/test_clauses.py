"""Conformance: a clause that TCP's code cites has a script, or a test by its name, or says here why not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

CRATES = Path(__file__).parents[2] / "crates"
SCRIPTS = CRATES / "packetdrill" / "scripts"
CITED = re.compile(r"RFC (\d{4}),? sections? (\d+(?:\.\d+)*)")

TCP = "models/tests/tcp"
# Clauses without a script: why, and the test that shows them.
NO_SCRIPT = {
    "1144-3.2.2": (
        "bytes of a header on a link, which TCP does not see",
        "core/src/tcp/compress.rs",
        "bulk_data_travels_in_four_bytes",
    ),
    "1144-3.2.3": (
        "the same",
        "core/src/tcp/compress.rs",
        "acknowledgements_send_what_changed_and_duplicates_go_in_full",
    ),
    "3168-6.1.4": (
        "not followed where RFC 8257 says otherwise",
        f"{TCP}/rfc8257.rs",
        "section_3_6_every_packet_of_a_connection_is_ecn_capable",
    ),
    "8311-4.3": (
        "allows that, orders nothing",
        f"{TCP}/rfc8257.rs",
        "section_3_6_every_packet_of_a_connection_is_ecn_capable",
    ),
    "6937-4": (
        "its scripts have the number of its successor, RFC 9937",
        f"{TCP}/linux.rs",
        "rfc8985_6_2_three_sacked_segments_mean_loss_and_prr_halves_over_the_round",
    ),
    "9406-4.2": (
        "no kernel has HyStart++",
        "models/src/protocols/linux.rs",
        "rfc9406_4_2_a_rising_rtt_slows_down_and_then_ends_slow_start",
    ),
    "9406-4.3": (
        "the same",
        "models/src/protocols/linux.rs",
        "rfc9406_4_2_a_rising_rtt_slows_down_and_then_ends_slow_start",
    ),
    "9438-4.4": (
        "the window over many seconds",
        f"{TCP}/rfc9438.rs",
        "section_4_2_equations_1_and_2_concave_then_convex",
    ),
}


def sources() -> list[Path]:
    """Sender, receiver and recoveries of TCP, and the laws of Linux."""
    laws = CRATES / "models" / "src" / "protocols"
    return [*sorted((CRATES / "core/src/tcp").rglob("*.rs")), laws / "linux.rs", laws / "linux_cubic.rs"]


def clauses(texts: Iterable[str]) -> set[str]:
    """The clauses that texts cite, as in 8985-7.2. A citation may go on in the next line of a comment."""
    joined = (re.sub(r"\n\s*//[/!]? ?", " ", text) for text in texts)
    return {f"{rfc}-{section}" for text in joined for rfc, section in CITED.findall(text)}


def scripted() -> set[str]:
    """The clauses that scripts name, in their comments or file names."""
    found = set()
    for file in SCRIPTS.glob("*.pkt"):
        found |= clauses([file.read_text(encoding="utf-8")])
        if name := re.match(r"(?:own-)?rfc(\d{4})-(?:(\d+(?:\.\d+)*)-)?", file.stem):
            found.add(f"{name[1]}-{name[2]}" if name[2] else name[1])
    return found


def named() -> set[str]:
    """The clauses that names of Rust tests are about, as in `rfc1122_section_4_2_3_4_no_small_segments`; a
    file that has a number of its own gives it to those without.
    """
    found = set()
    for file in (CRATES / "models/tests/tcp").glob("*.rs"):
        of_file = re.match(r"rfc(\d{4})", file.stem)
        text = file.read_text(encoding="utf-8")
        for rfc, section, also in re.findall(
            r"fn (?:rfc(\d{4})_)?(?:section_)?((?:\d+_)+)(?:\w*?and_((?:\d+_)+))?", text
        ):
            number = rfc or (of_file[1] if of_file else "")
            found |= {f"{number}-{s.rstrip('_').replace('_', '.')}" for s in (section, also) if s and number}
    return found


def has(clause: str, among: set[str]) -> bool:
    """Whether a clause, a part of it, or the section that it is a part of, is among these."""
    rfc = clause.partition("-")[0]
    return rfc in among or any(
        c == clause or c.startswith(clause + ".") or clause.startswith(c + ".") for c in among
    )


def test_every_clause_that_is_cited_has_a_script_or_a_test_by_its_name() -> None:
    shown = scripted() | named()
    cited = clauses(file.read_text(encoding="utf-8") for file in sources())
    assert len(cited) > 50
    without = {c for c in cited if not has(c, shown)}
    assert without == set(NO_SCRIPT) & cited == set(NO_SCRIPT), without ^ set(NO_SCRIPT)
    for _, file, test in NO_SCRIPT.values():
        assert f"fn {test}(" in (CRATES / file).read_text(encoding="utf-8"), test


def test_every_clause_of_linux_recovery_has_a_script() -> None:
    inside = ("probe.rs", "undo.rs", "prr.rs", "frto.rs")
    # Only the path inside the repository counts: a checkout may have any name.
    linux = [f for f in sources() if "linux" in f.relative_to(CRATES).parts or f.name in inside]
    cited = clauses(file.read_text(encoding="utf-8") for file in linux)
    assert len(cited) > 10
    without = sorted(c for c in cited if not has(c, scripted()) and c not in NO_SCRIPT)
    assert not without, without
