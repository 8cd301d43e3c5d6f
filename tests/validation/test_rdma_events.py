"""The reference's own order of events (`rdma_events`) gives its results to the nanosecond, and with
penstock's order of simultaneous arrivals in its place those of penstock: what is left between the two is that
order.
"""

from __future__ import annotations

import numpy as np
import pytest
import rdma_events as events
import rdma_events_cards as cards
import rdma_ns3 as ns3
import rdma_reference as ref

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not ref.FOLDER.is_dir(), reason="PENSTOCK_RDMA_REFERENCE names no directory"),
]


@pytest.mark.parametrize("law", ["none", "dcqcn", "dcqcn_paper"])
def test_pause_frames_to_the_nanosecond(law: str) -> None:
    """All frames, their order, and all sixteen completions."""
    star = events.incast(law, "2M")
    assert star.frames == events.frames(law)
    assert star.ends == events.ends(f"b_buf2M_{law}")


@pytest.mark.parametrize("law", ["none", "dcqcn", "dcqcn_paper"])
@pytest.mark.parametrize("rule", ["planned", "taken", "crossing", "short", "counted"])
def test_every_rule_is_needed(law: str, rule: str) -> None:
    """One rule taken back, and frames are others; what is drawn does not matter where nothing is."""
    star = events.incast(law, "2M", events.Rules(**{rule: False}))
    same = len(set(star.frames) & set(events.frames(law)))
    assert (same == len(star.frames)) == (law == "none" and rule == "counted")


@pytest.mark.parametrize("law", ["hpcc", "dcqcn"])
def test_sixteen_to_one_without_pauses(law: str) -> None:
    """All sixteen completions to the nanosecond."""
    assert events.incast(law, "32M").ends == events.ends(f"b_buf32M_{law}")


@pytest.mark.parametrize("name", ["fine2_hpcc", "fine2_hpcc_mi5", "2join_hpcc", "2join_hpcc_mi5"])
def test_two_flows_of_hpcc(name: str) -> None:
    """Every rate at every sample as there; by penstock's order as far off as penstock."""
    assert events.joining(name)[1] < 1e-5
    reference, own, _ = ref.two(name)
    _, off = events.joining(name, events.Rules(planned=False))
    assert off == pytest.approx(ref.rate_difference(reference, own), abs=3e-4)


@pytest.mark.parametrize("law", ["none", "dcqcn", "dcqcn_paper"])
def test_what_is_left_is_the_order_of_simultaneous_arrivals(law: str) -> None:
    """penstock pauses as often as the reference with that one rule changed, and as the reference on the mean
    of ten runs."""
    star = events.incast(law, "2M", events.Rules(planned=False))
    stops = sum(stops for _, _, stops in star.frames)
    assert ref.incast(law, drawn=True).mean("pauses") == stops
    if law != "none":
        runs = range(1, 11)
        given = [sum(s for *_, s in events.incast(law, "2M", run=run).frames) for run in runs]
        own = [ref.incast(law, drawn=True, seed=run).mean("pauses") for run in runs]
        assert np.mean(own) == pytest.approx(np.mean(given), rel=0.1)
        # Each run equals the reference under that order; the reference's run 1 is one draw of ten.
        by_link = [events.incast(law, "2M", events.Rules(planned=False), run) for run in runs]
        assert own == pytest.approx([sum(s for *_, s in star.frames) for star in by_link], abs=1)
        last = [max(ns3.completion_ns(ref.incast(law, drawn=True, seed=run))) for run in runs]
        assert np.mean(last) / 1e3 == pytest.approx(ref.incast_summary(law)["last_fct_us"], rel=0.02)


@pytest.mark.parametrize("number", cards.shards() if ref.FOLDER.is_dir() else [])
def test_every_flow_of_every_shard_of_dcqcn(number: int) -> None:
    """As published, to the 2 ns by which the reference's own runs differ; whichever of two arrivals at the
    switch goes first."""
    for by_link in (False, True):
        shard = cards.Shard(number, arrivals_by_link=by_link).run()
        assert shard.as_published() == len(shard.flows)


@pytest.mark.parametrize(("number", "off", "tail"), [(6, 1, 0.0), (18, 12, 0.0377), (24, 113, 0.2474)])
def test_a_pair_goes_from_the_list_in_the_walk_of_its_last_ack(number: int, off: int, tail: float) -> None:
    """That was the last rule which penstock had otherwise: as many flows off, by as much, as penstock had."""
    shard = cards.Shard(number, goes_late=True).run()
    assert len(shard.flows) - shard.as_published() == off
    assert np.percentile(shard.errors(), 99) == pytest.approx(tail, abs=1e-4)
