"""The gallery: what its lessons say is so, by runs of the native engine; and its pages are there."""

import pytest

import penstock
from penstock import gallery, views

LESSONS = {lesson.name: lesson for lesson in gallery.LESSONS}


def pair(name):
    """Summaries of a lesson's run and of the one that its text asks to put beside it."""
    lesson = LESSONS[name]
    runs = [lesson.settings, {**lesson.settings, **lesson.other}]
    return [penstock.run(lesson.scenario, settings=given).runs[0].summary for given in runs]


CLAIMS = {
    "incast-timeout-floor": lambda a, b: b["goodput_bps"] > 4 * a["goodput_bps"] and b["drops"] > a["drops"],
    "drop-tail-lock-out": lambda a, b: a["jain"] < 0.5 and b["jain"] > 0.95,
    "dctcp-threshold": lambda a, b: b["utilisation"] < 0.97 < 0.99 < a["utilisation"],
    "two-thresholds": lambda a, b: (
        a["queue_std_packets"] < b["queue_std_packets"] and a["queue_max_packets"] < b["queue_max_packets"]
    ),
    "rcp-and-xcp": lambda a, b: a["queue_max_packets"] > 10 * b["queue_max_packets"],
    "size-classes": lambda a, b: (
        b["utilisation"] > a["utilisation"]
        and b["queue_mean_packets"] > 5 * a["queue_mean_packets"]
        and b["fct_mean_s"] > 2 * a["fct_mean_s"]
        and b["fct_p99_s"] > 2 * a["fct_p99_s"]
    ),
    "collective-control": lambda a, b: (
        a["drops"] < b["drops"] / 2 and a["timeouts"] < b["timeouts"] and a["fct_mean_s"] > b["fct_mean_s"]
    ),
    "trimming": lambda a, b: a["trims"] > 0 and b["queue_max_packets"] > 2 * a["queue_max_packets"],
    "pause-spreads": lambda a, b: a["drops"] == 0 < a["pauses"] and b["drops"] > 0,
}


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_is_so(name):
    a, b = pair(name)
    assert CLAIMS[name](a, b), (a, b)


def test_the_victim_is_stopped_and_free_without_pause():
    lesson = LESSONS["pause-spreads"]
    rates = []
    for given in (lesson.settings, lesson.other):
        flows = penstock.run(lesson.scenario, settings=given).flows
        rates.append(flows.row(8, named=True)["delivered_bytes"])
    assert rates[1] > 3 * rates[0]


@pytest.mark.skipif(bool(views.available()), reason=views.available() or "-")
def test_the_gallery_is_written_with_its_list(tmp_path):
    index = gallery.write(tmp_path).read_text()
    for lesson in gallery.LESSONS:
        page = tmp_path / f"{lesson.name}.html"
        assert lesson.text[0][:30] in page.read_text() and page.name in index
        assert page.stat().st_size < views.MOST_BYTES
