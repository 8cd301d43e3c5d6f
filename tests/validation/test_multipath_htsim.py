"""Sprayed and receiver-driven transports against htsim (`htsim`): permutation, incast, a slow link, a ring.
Figures and what differs are in docs/validation/htsim.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import htsim
import numpy as np
import pytest

import penstock
from penstock import Collective, Network

# Permutation: mean and largest completion in us, trims; of the reference's seed 1.
PERMUTATION = {
    ("nscc", "oblivious"): (193.186, 208.055, 54),
    ("nscc", "bitmap"): (188.972, 199.107, 0),
    ("nscc", "reps"): (191.279, 201.26, 6),
    ("nscc", "mixed"): (188.558, 199.919, 0),
    ("rccc", "oblivious"): (192.741, 204.046, 538),
    ("rccc", "bitmap"): (189.06, 198.04, 11),
    ("rccc", "reps"): (192.99, 205.408, 296),
    ("rccc", "mixed"): (189.53, 196.659, 27),
    ("nscc-rccc", "mixed"): (189.573, 197.656, 0),
    ("ndp", "oblivious"): (207.582, 222.456, 2244),
    ("eqds", "oblivious"): (199.602, 212.945, 4276),
}
# One path per flow: which paths collide is the seed's.
ECMP = {
    "nscc": (359.102, 737.007, 2693),
    "rccc": (421.206, 801.135, 77434),
    "ndp": (403.879, 749.412, 69746),
    "eqds": (441.552, 775.995, 88322),
}
# Incast: last completion in us, trims.
INCAST = {
    ("nscc", 8): (670.677, 403),
    ("nscc", 32): (2634.93, 2007),
    ("rccc", 8): (662.57, 294),
    ("rccc", 32): (2635.54, 1418),
    ("nscc-rccc", 8): (662.57, 294),
    ("nscc-rccc", 32): (2637.12, 1418),
    ("ndp", 8): (679.223, 319),
    ("ndp", 32): (2658.23, 1420),
    ("eqds", 8): (670.07, 303),
    ("eqds", 32): (2647.99, 1247),
}
# The permutation with one link at a tenth.
SLOW = {
    ("nscc", "oblivious"): (195.276, 232.579),
    ("nscc", "reps"): (193.069, 234.674),
    ("rccc", "oblivious"): (194.507, 216.933),
    ("rccc", "reps"): (194.079, 213.169),
}

# Swift without loss: last completion in us.
SWIFT = {8: 669.667, 32: 2636.51}

# Cases that miss the goals, and by how much. Each depends on the seed by more than the goal.
LAST_DIFFERS = {("nscc", 8): "+1.7 %"}
LARGEST_DIFFERS = {("nscc", "oblivious"): "+3.5 %"}
TRIMS_DIFFER = {("rccc", "reps"): "+42 %", ("nscc", "oblivious"): "103 for 54"}


def judge(known: Mapping[Any, str], case: tuple[str, str | int], holds: bool, text: str) -> None:
    """A case that is not listed holds; one that is listed does not, or the list is out of date."""
    assert holds == (case not in known), text


@pytest.mark.parametrize("case", PERMUTATION, ids="-".join)
def test_permutation(case: tuple[str, str], tmp_path: Path) -> None:
    """Mean and largest completion within 3 %, trims within 25 % where there are a hundred or more."""
    mean, largest, trims = PERMUTATION[case]
    found = htsim.five(tmp_path, htsim.permutation(), htsim.protocol(*case))
    assert found.mean == pytest.approx(mean, rel=0.03)
    judge(LARGEST_DIFFERS, case, found.max == pytest.approx(largest, rel=0.03), f"{found}")
    if trims >= 100:
        judge(TRIMS_DIFFER, case, found.trims == pytest.approx(trims, rel=0.25), f"{found}")
    else:
        judge(TRIMS_DIFFER, case, found.trims < 100, f"{found}")


@pytest.mark.full
@pytest.mark.parametrize("name", ECMP)
def test_permutation_by_one_path_each(name: str, tmp_path: Path) -> None:
    """The largest completion lies among those of our seeds; the mean and the trims are near."""
    mean, largest, trims = ECMP[name]
    found = htsim.five(tmp_path, htsim.permutation(), htsim.protocol(name, "ecmp"))
    assert min(found.largest) <= largest <= max(found.largest) * 1.01
    assert found.mean == pytest.approx(mean, rel=0.06)
    assert found.trims == pytest.approx(trims, rel=0.25)


@pytest.mark.parametrize("case", INCAST, ids=lambda case: f"{case[0]}-{case[1]}")
def test_incast(case: tuple[str, int], tmp_path: Path) -> None:
    """Last completion within 1 %, trims within 25 %."""
    last, trims = INCAST[case]
    which = htsim.EIGHT if case[1] == 8 else htsim.THIRTY_TWO
    found = htsim.five(tmp_path, htsim.incast(which), htsim.protocol(case[0], "oblivious"))
    judge(LAST_DIFFERS, case, found.max == pytest.approx(last, rel=0.01), f"{found}")
    assert found.trims == pytest.approx(trims, rel=0.25)


def among(ours: list[float], reference: float, goal: float) -> None:
    """The reference's one run is among the middle nine tenths of ours, which differ by more than the goal."""
    low, high = np.quantile(ours, [0.05, 0.95])
    assert low < reference < high, (low, reference, high)
    assert np.std(ours, ddof=1) > goal * float(np.mean(ours))


def test_one_run_of_the_reference_is_one_of_ours(tmp_path: Path) -> None:
    """What differs from seed to seed by more than its goal, over twenty seeds.

    The last completion of NSCC's incast of eight, largest time and trims of its oblivious permutation,
    and RCCC's trims with REPS.
    """

    def runs(flows: list[tuple[int, int, int]], case: tuple[str, str]) -> list[penstock.RunSet]:
        return [htsim.run(tmp_path, flows, htsim.protocol(*case), seed=seed) for seed in range(1, 21)]

    def largest(result: penstock.RunSet) -> float:
        return 1e6 * float(result.transfers["fct_s"].to_numpy().max())

    eight = runs(htsim.incast(htsim.EIGHT), ("nscc", "oblivious"))
    among([largest(one) for one in eight], INCAST["nscc", 8][0], 0.01)
    oblivious = runs(htsim.permutation(), ("nscc", "oblivious"))
    among([largest(one) for one in oblivious], PERMUTATION["nscc", "oblivious"][1], 0.03)
    among([one.runs[0].summary["trims"] for one in oblivious], PERMUTATION["nscc", "oblivious"][2], 0.25)
    reps = runs(htsim.permutation(), ("rccc", "reps"))
    among([one.runs[0].summary["trims"] for one in reps], PERMUTATION["rccc", "reps"][2], 0.25)


@pytest.mark.parametrize("senders", SWIFT)
def test_swift_in_a_deep_queue(senders: int, tmp_path: Path) -> None:
    """Last completion of an incast within 3 %; nothing is lost."""
    which = htsim.EIGHT if senders == 8 else htsim.THIRTY_TWO
    flows = [(src, dst, 245 * 4096) for src, dst, _ in htsim.incast(which)]
    result = htsim.run(tmp_path, flows, htsim.SWIFT, seed=1, buffer="20000pkt")
    times = 1e6 * result.transfers["fct_s"].to_numpy()
    assert len(times) == senders and result.mean("drops") == 0
    assert times.max() == pytest.approx(SWIFT[senders], rel=0.03)


@pytest.mark.full
@pytest.mark.parametrize("case", SLOW, ids="-".join)
def test_one_link_at_a_tenth(case: tuple[str, str], tmp_path: Path) -> None:
    """Mean and largest completion within 5 %; queue and marks of the slow link are a tenth, too."""
    mean, largest = SLOW[case]
    found = htsim.five(tmp_path, htsim.permutation(), htsim.protocol(*case), slow=True)
    assert found.mean == pytest.approx(mean, rel=0.05)
    assert found.max == pytest.approx(largest, rel=0.05)


@pytest.mark.full
def test_ndp_leaves_a_slow_path_out(tmp_path: Path) -> None:
    """A slow link, unknown to the senders, costs the largest completion less than half of its cost without
    the scoreboard, where each sender has a thirty-second of its packets on every path.
    """
    with_ = htsim.PROTOCOLS["ndp"].replace("PATHS", "32")
    flows, without = htsim.permutation(), f"{with_},scoreboard=false"
    whole = htsim.run(tmp_path, flows, with_, seed=1)
    slow = [htsim.run(tmp_path, flows, text, seed=1, slow=True) for text in (with_, without)]
    last, on, off = (1e6 * one.transfers["fct_s"].to_numpy().max() for one in (whole, *slow))
    assert on - last < (off - last) / 2 and off > 1.15 * last, (last, on, off)


def ring(advance: str) -> float:
    """Microseconds of a ring all-reduce of 8 MiB over the first 64 hosts."""
    net = Network.fat_tree(
        8,
        link_rate="100Gbps",
        link_delay="1us",
        buffer="4000pkt",
        protocol=htsim.protocol("nscc", "oblivious"),
    )
    net = net.add(Collective("h[0-63]", size=64 * 131_072, advance=advance))
    # Word of an acknowledgement takes no time in the reference.
    settings = {"segment": "4096B", "send_jitter": "0s", "duration": "20ms", "requests": "instant"}
    result = penstock.run(net, settings=settings)
    assert len(result.transfers) == 8064
    return 1e6 * result.mean("block_mean_s")


def test_ring_all_reduce() -> None:
    """Within 3 % where a rank waits for the sender's last acknowledgement, as in the reference. It takes
    about a sixth less where a rank goes on with what it has received: 126 times the way back.
    """
    acknowledged = ring("acknowledged")
    assert acknowledged == pytest.approx(2105.03, rel=0.03)
    assert 0.80 * acknowledged < ring("received") < 0.86 * acknowledged
