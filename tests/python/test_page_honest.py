"""The page shows what it knows and nothing else: what is not recorded, where values end, which settings."""

import csv
import io
import itertools
import json
import re

import pytest
from conftest import INCAST, Tab, needs_chromium, needs_page

import penstock
from penstock import _engine, gallery, lessons, scenario

BY_NAME = {lesson.name: lesson for lesson in lessons.LESSONS}
pytestmark = [needs_page, needs_chromium]


@pytest.fixture(scope="module")
def incast(tmp_path_factory):
    return penstock.view("incast", settings=INCAST).save(tmp_path_factory.mktemp("page") / "incast.html")


def chart(page, kind, side="A"):
    return page.evaluate(f"penstock.charts('{side}')['{kind}']")


def rows(chart):
    return list(csv.DictReader(io.StringIO(chart["csv"])))


def test_packets_that_are_not_recorded_are_not_zero(browser, incast):
    page = Tab(browser, incast)
    whole = chart(page, "rate")
    assert whole["unknown"] == [] and "NaN" not in whole["csv"]
    page.fill("#record-from", "2")
    page.press("#record-from", "Enter")
    page.settle()
    page.evaluate("penstock.zoom(0, 0.004)")
    page.drawn()
    for kind in ("queue", "rate"):
        found = chart(page, kind)
        ((first, last),) = found["unknown"]
        assert (first, last) == pytest.approx((0, 0.002))
        times, values = found["data"][0], found["data"][1]
        known = [t for t, v in zip(times, values, strict=True) if v is not None]
        assert min(known) >= 0.002 - 1e-9 and len(known) > 20
        early = [
            row["y"]
            for row in rows(found)
            if float(row["x"]) < 0.0019 and row["series"] in ("queue", "all flows")
        ]
        assert early and set(early) == {"NaN"}
    # Values of flows are of the whole run.
    value = page.input_value("#value")
    assert chart(page, f"value:{value}")["unknown"] == []
    page.evaluate("penstock.seek(0.001)")
    page.drawn()
    assert "not recorded" in page.text_content("#detail")
    assert "not recorded" in page.get_attribute("#side-a canvas", "aria-label")
    page.click("#record-here")
    page.settle()
    assert chart(page, "queue")["unknown"] == [] and page.is_hidden("#record-here")
    assert page.errors == []


def test_it_opens_where_the_record_is(browser, tmp_path):
    """A record that was full after a tenth of the run: the moment and the window are within it."""
    document = json.loads(scenario.spec("incast", INCAST | {"duration": "400ms"}, 1))
    document["record"] = {"most_bytes": 400_000}
    path = tmp_path / "run.record"
    assert _engine.record(json.dumps(document), 0, str(path), _engine.Progress())
    page = Tab(browser, penstock.view(path).save(tmp_path / "page.html"))
    until = page.evaluate("penstock.logs()[0].packetsUntil")
    clock = page.evaluate("penstock.clock")
    assert until < 0.3
    assert clock["from"] <= clock["t"] <= clock["to"] <= until * 1.001
    page.click("#zoom-all")
    page.drawn()
    ((first, last),) = chart(page, "queue")["unknown"]
    assert (first, last) == pytest.approx((until, 0.4))
    assert "packets are recorded from" in page.text_content("#notes")
    assert "MB of memory" in page.text_content("#notes") or "kB of memory" in page.text_content("#notes")
    assert page.errors == []


def test_a_value_holds_until_its_flow_ends(browser, tmp_path):
    given = {"topology": "leaf-spine:2x1x2", "protocol": "dctcp", "flow_size": "200KB", "duration": "1ms"}
    page = Tab(browser, penstock.view("permutation", settings=given).save(tmp_path / "page.html"))
    found = chart(page, "value:cwnd_bytes")
    flows = penstock.run("permutation", settings=given).flows
    assert found["ends"] == len(flows) == 4
    times = found["data"][0]
    for number, label in enumerate(found["labels"]):
        opened, closed = flows["opened_s"][number], flows["closed_s"][number]
        known = [t for t, v in zip(times, found["data"][number + 1], strict=True) if v is not None]
        assert label == f"flow {number}"
        assert max(known) == pytest.approx(closed, abs=1e-12) and min(known) >= opened
        # Nothing is left out in between: it holds.
        inside = [
            v for t, v in zip(times, found["data"][number + 1], strict=True) if min(known) <= t <= closed
        ]
        assert None not in inside
    assert "the flow is over" in page.text_content(".key >> nth=2")
    assert page.errors == []


def test_two_runs_have_the_same_axes_on_one_grid(browser, incast):
    page = Tab(browser, incast)
    page.fill("#set-queue", "droptail")
    page.click("#compare")
    page.settle()
    for kind in ("queue", "rate", "value:cwnd_bytes"):
        a, b = chart(page, kind, "A"), chart(page, kind, "B")
        assert a["scale"] == b["scale"]
        highest = max(v for c in (a, b) for column in c["data"][1:] for v in column if v is not None)
        assert a["scale"][1] >= highest
    tops = page.evaluate(
        """['#side-a', '#side-b'].map((side) => [...document.querySelectorAll(
          `${side} canvas.network, ${side} figure`)].map((e) => Math.round(e.getBoundingClientRect().top)))"""
    )
    assert tops[0] == tops[1] and len(tops[0]) == 4


def test_results_of_other_settings_are_marked(browser, incast):
    page = Tab(browser, incast)
    assert page.is_hidden("#stale") and page.is_disabled("#reset")
    page.fill("#set-servers", "3")
    assert "of other settings" in page.text_content("#stale")
    assert page.get_attribute("#slide-servers", "aria-valuetext") == "3"
    assert page.locator("#side-a.stale").count() == 1 and page.locator("#figures dd.stale").count() > 0
    page.click("#reset")
    assert page.is_hidden("#stale") and page.input_value("#set-servers") == "8"
    page.fill("#set-servers", "3")
    page.press("#set-servers", "Enter")
    page.settle()
    assert page.is_hidden("#stale") and page.evaluate("penstock.logs()[0].flows.size") == 3
    # Reset brings the run back, not only the form.
    page.click("#reset")
    page.settle()
    assert page.evaluate("penstock.logs()[0].flows.size") == 8 and page.is_hidden("#stale")
    assert page.errors == []


def test_units_are_those_of_the_declaration(browser, tmp_path):
    path = penstock.view("rdma", settings={"duration": "200us"}).save(tmp_path / "page.html")
    page = Tab(browser, path)
    page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    cells = dict(
        page.evaluate(
            "[...document.querySelectorAll('#summary tr')].map((r) => [...r.cells].map((c) => c.textContent))"
        )
    )
    ends = {
        "bit/s": ("b/s",),
        "s": (" s", "ms", "µs"),
        "packets": ("packets", "packet"),
        "1/s": ("per second",),
    }
    checked = 0
    for key in scenario.describe()["summary_keys"]:
        cell = cells.get(key["name"], "–")
        if cell not in ("–", "no limit") and key["unit"] in ends:
            assert cell.endswith(ends[key["unit"]]), (key, cell)
            checked += 1
    assert checked > 5
    assert cells["arrivals_per_s"].endswith("per second")


def test_words_say_what_the_port_does(browser, tmp_path):
    page = Tab(browser, gallery.page(BY_NAME["trimming"]).save(tmp_path / "page.html"))
    detail = page.text_content("#detail")
    assert "cuts packets that find no room to 64 B" in detail and "headers more often" in detail
    assert "senders choose the path of every packet" in page.text_content("#what")
    for word in ("droptail", "drawn"):
        assert word not in detail + page.text_content("#what")
    assert "header of a trimmed packet" in page.text_content("#legend")
    assert "link paused" not in page.text_content("#legend")


def test_the_reader_chooses_which_flows_are_charted(browser, tmp_path):
    settings = INCAST | {"servers": 12}
    page = Tab(browser, penstock.view("incast", settings=settings).save(tmp_path / "page.html"))
    name = "value:cwnd_bytes"
    assert "flows 0 to 7 of 12" in chart(page, name)["title"]
    assert page.text_content("#charted") == "Flows with curves: 0 to 7 of 12"
    page.click("#charted")
    page.click("#flows-none")
    for number in (2, 11):
        page.check(f"#chips input[value='{number}']")
    page.drawn()
    assert chart(page, name)["labels"] == ["flow 2", "flow 11"]
    assert "flows 2, 11 of 12" in chart(page, name)["title"]
    assert chart(page, "rate")["labels"] == ["all flows", "flow 2", "flow 11"]
    again = Tab(browser, tmp_path / "page.html", link=page.evaluate("location.hash"))
    assert chart(again, name)["labels"] == ["flow 2", "flow 11"]
    page.click("#flows-slow")
    page.drawn()
    assert len(chart(page, name)["labels"]) == 8
    assert page.errors == []


@pytest.mark.parametrize("name", ["incast-timeout-floor", "spray-or-hash", "pause-spreads"])
def test_names_do_not_overlap(browser, tmp_path, name):
    path = gallery.page(BY_NAME[name]).save(tmp_path / "page.html")
    for width in (1280, 390):
        page = Tab(browser, path, width=width)
        labels = page.evaluate("penstock.shown().labels")
        assert len(labels) > 5
        for a, b in itertools.combinations(labels, 2):
            apart = (
                a["x"] + a["w"] <= b["x"]
                or b["x"] + b["w"] <= a["x"]
                or a["y"] + a["h"] <= b["y"]
                or b["y"] + b["h"] <= a["y"]
            )
            assert apart, (width, a, b)


def test_the_queue_shown_is_that_of_the_results(browser, tmp_path):
    """Until the reader chooses a port: the results may be of different ports in A and B."""
    given = {"topology": "leaf-spine:2x2x8", "protocol": "ndp", "link_rate": "10Gbps", "duration": "1ms"}
    page = Tab(browser, penstock.view("permutation", settings=given).save(tmp_path / "page.html"))
    page.fill("#set-protocol", "dctcp")
    page.click("#compare")
    page.settle()
    page.evaluate("penstock.zoom(0, 0.001)")
    ports = []
    for i, side in enumerate("AB"):
        found = page.evaluate(f"penstock.logs()[{i}].result")
        title = chart(page, "queue", side)["title"]
        ports.append(found["bottleneck"])
        assert title.startswith(f"Queue of {found['bottleneck'].replace('->', '→')}")
        top = max(v for v in chart(page, "queue", side)["data"][1] if v is not None)
        assert top == pytest.approx(found["summary"]["queue_max_packets"], abs=1)
    assert ports[0] != ports[1]
    # A port that trims holds headers beyond its limit of data packets.
    assert "limit of data packets" in page.text_content("#side-a .key")
    assert "limit of data packets" not in page.text_content("#side-b .key")
    page.select_option("#port", label="leaf0→h0")
    assert chart(page, "queue", "A")["title"].startswith("Queue of leaf0→h0")
    assert chart(page, "queue", "B")["title"].startswith("Queue of leaf0→h0")


def test_no_limit_is_said_and_not_a_number(browser, tmp_path):
    given = {"protocol": "rcp", "duration": "4s", "warmup": "1s"}
    page = Tab(browser, penstock.view("join", settings=given).save(tmp_path / "page.html"))
    page.fill("#set-protocol", "xcp")
    page.click("#compare")
    page.settle()
    page.select_option("#value", "cwnd_bytes")
    page.drawn()
    keys = page.text_content("#side-a .plots")
    assert "no limit" in keys and "TB" not in keys


def test_drops_of_the_past_are_not_shown_beside_an_idle_queue(browser, tmp_path):
    """A drop falls for a moment after it happened, paused or playing; a queue that is idle has none."""
    lesson = BY_NAME["incast-timeout-floor"]
    page = Tab(browser, gallery.page(lesson).save(tmp_path / "page.html"))
    # The first second has a burst of drops, then silence.
    found = page.evaluate(
        """() => {
          const { a, ink } = penstock, { log, picture } = a, port = log.reported;
          const show = (t, speed, playing) => {
            picture.draw(t, ink, { port, flow: -1 }, speed, playing);
            return [picture.shown.drops, picture.shown.queues[port]];
          };
          const times = Array.from({ length: 400 }, (_, i) => (i + 0.5) * 2.5e-3);
          const last = log.drops.map((h) => log.arrived.data[h]).filter((t) => t < 0.19).at(-1);
          return {
            looks: [1e-4, 3e-3, 0.1].flatMap((v) =>
              [false, true].flatMap((playing) => times.map((t) => show(t, v, playing)))),
            early: show(0.001, 1e-4, false), last, after: show(last + 1e-3, 0.1, false),
            at: show(last + 1e-5, 0.1, false), skipped: show(last + 2e-3, 0.1, true),
          };
        }"""
    )
    assert found["early"][0] > 0 and found["at"][0] > 0 and found["after"][0] == 0
    seen = [look for look in found["looks"] if look[0] > 0]
    assert seen and all(queue > 0 for _, queue in seen)
    assert any(drops == 0 and queue == 0 for drops, queue in found["looks"])
    assert found["skipped"][0] == 0 or found["skipped"][1] > 0


def test_counts_say_what_they_count(browser, tmp_path):
    """Results are without the warm-up, the port counts from the start: both say so, and they add up."""
    lesson = BY_NAME["drop-tail-lock-out"]
    page = Tab(browser, gallery.page(lesson).save(tmp_path / "page.html"))
    assert page.text_content("#measured") == "from 200 ms to 2 s, after the warm-up"
    page.evaluate("penstock.seek(2)")
    page.drawn()
    said = re.search(r"so far (\d+) dropped \((\d+) in the warm-up\)", page.text_content("#detail"))
    assert int(said[1]) - int(said[2]) == page.evaluate("penstock.logs()[0].result.summary.drops") > 0
    without = Tab(browser, gallery.page(BY_NAME["incast-timeout-floor"]).save(tmp_path / "other.html"))
    assert without.text_content("#measured") == "of the whole run, 2 s"
    assert "warm-up" not in without.text_content("#detail")


def test_the_queues_of_two_runs_have_one_scale(browser, tmp_path):
    """Bars at ports without a limit, and with two limits: as long as their packets on both sides."""
    page = Tab(browser, gallery.page(BY_NAME["rcp-and-xcp"]).save(tmp_path / "page.html"))
    full = "['a', 'b'].map((side) => penstock[side].picture.shown.full.get(penstock.a.log.reported))"
    alone = page.evaluate("penstock.a.picture.shown.full.get(penstock.a.log.reported)")
    assert alone == 7597, "the longest queue of the record, whatever has been drawn"
    # A is XCP, whose queue is short, and B PIQI-RCP.
    page.evaluate("penstock.slide('protocol', 'xcp')")
    page.settle()
    page.click("#compare")
    page.settle()
    page.evaluate("penstock.slide('protocol', 'piqi-rcp')")
    page.settle()
    a, b = page.evaluate(full)
    most = [
        run["summary"]["queue_max_packets"] for run in page.evaluate("penstock.logs().map((l) => l.result)")
    ]
    assert most[0] < 200 and a == b == pytest.approx(most[1], abs=1)
    other = Tab(browser, gallery.page(BY_NAME["incast-timeout-floor"]).save(tmp_path / "other.html"))
    other.click(".dots li:nth-child(5) button")
    other.settle()
    assert other.evaluate(full) == [128, 128]
    assert page.errors == other.errors == []


def test_a_selected_flow_has_its_ends_in_titles_and_keys_their_moment(browser, tmp_path):
    page = Tab(browser, gallery.page(BY_NAME["pause-spreads"]).save(tmp_path / "page.html"))
    page.click(".dots li:nth-child(3) button")
    page.settle()
    titles = [found["title"] for found in page.evaluate("penstock.charts()").values()]
    assert all("victim→free" in title or "Queue of right→sink" in title for title in titles), titles
    keys = page.locator("#side-a .key").all_text_contents()
    assert "flow 8, victim→free" in keys[0] and keys[0].startswith("at 10.000 ms")
    page.evaluate("penstock.seek(0.0123)")
    page.drawn()
    assert page.locator("#side-a .key").first.text_content().startswith("at 12.300 ms")
    assert page.errors == []


@pytest.mark.parametrize("pfc", ["on:xoff=120KB", "off"])
def test_the_goodput_of_one_flow_is_the_engines(browser, tmp_path, pfc):
    lesson = BY_NAME["pause-spreads"]
    page = Tab(browser, gallery.page(lesson).save(tmp_path / "page.html"))
    page.evaluate(f"penstock.slide('pfc', '{pfc}')")
    page.settle()
    native = penstock.run(lesson.scenario, settings={**lesson.settings, "pfc": pfc})
    measured = native.runs[0].summary["measured_s"]
    for flow, delivered in zip(native.flows["flow"], native.flows["delivered_bytes"], strict=True):
        there = page.evaluate(f"penstock.a.log.goodputOf({flow})")
        assert there == pytest.approx(delivered * 8 / measured, rel=1e-9), flow
    words = page.text_content("#figures")
    assert "Goodput of victim" in words and "Goodput of all flows" in words and "Jain" not in words
    assert "links of 10 Gb/s, 100 Gb/s" in page.text_content("#what")
