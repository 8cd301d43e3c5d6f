"""Max-min rates: textbook cases by hand, and the defining property on random networks."""

import numpy as np
import pytest

from penstock.models.maxmin import max_min


def test_parking_lot_of_section_v():
    # 970 and 800 Mb/s, x1 over both, x2 the first, x3 the second: 400, 570, 400
    got = max_min([970, 800], [[0, 1], [0], [1]])
    assert got.rates.tolist() == [400, 570, 400]
    assert got.bottleneck.tolist() == [1, 0, 1]
    assert max_min([970, 800], [[0, 1], [0]]).rates.tolist() == [485, 485]


def test_demand_leaves_room_to_others():
    assert max_min([10], [[0], [0], [0]], [1, np.inf, 4]).rates.tolist() == [1, 5, 4]
    assert max_min([10], [[0], [0]], [1, 2]).bottleneck.tolist() == [-1, -1]


def test_three_levels_by_hand():
    # Link 0 (6) holds flows 0, 1, 2: 2 each. Link 1 (10) holds 0, 3, 4: (10 - 2) / 2 = 4. Link 2 (12): 4 and
    # 5: 8.
    got = max_min([6, 10, 12], [[0, 1], [0], [0], [1], [1, 2], [2]])
    assert got.rates.tolist() == [2, 2, 2, 4, 4, 8]


@pytest.mark.parametrize("seed", range(40))
def test_every_flow_has_a_bottleneck_where_it_is_among_the_fastest(seed):
    rng = np.random.default_rng(seed)
    links, flows = rng.integers(1, 8), rng.integers(1, 15)
    capacity = rng.integers(1, 100, links)
    paths = [rng.choice(links, rng.integers(1, links + 1), replace=False).tolist() for _ in range(flows)]
    got = max_min(capacity, paths)
    use = np.zeros(links)
    for path, rate in zip(paths, got.rates, strict=True):
        use[path] += rate
    assert np.all(use <= capacity * (1 + 1e-12))
    for flow, link in enumerate(got.bottleneck):
        assert link in paths[flow]
        assert use[link] == pytest.approx(capacity[link])
        sharing = [got.rates[f] for f in range(flows) if link in paths[f]]
        assert got.rates[flow] == pytest.approx(max(sharing))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([1, -1], [[0]]), "capacities"),
        (([1], [[1]]), "paths"),
        (([1], [[0, 0]]), "paths"),
        (([1], [[]]), "paths"),
        (([1], [[0]], [-1]), "demands"),
        (([1], [[0]], []), "demands"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=f"^{name}:"):
        max_min(*arguments)
