"""Networks and workloads as objects: the same bytes as a file, and errors in words of the objects."""

import inspect
import json
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import penstock
from penstock import (
    AllToAll,
    Closed,
    Collective,
    Flows,
    Goal,
    Incast,
    Link,
    Matrix,
    Network,
    Permutation,
    Poisson,
    Query,
    Reads,
    Trace,
    _engine,
    scenario,
    workloads,
)

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
QUICK = {"duration": "2ms", "warmup": "0s", "rto_min": "1ms", "rto_initial": "1ms"}

# The golden files of `custom`, written as a user of Python would.
ALL_WORKLOADS = (
    Network(["a[0-5]", "b[0-3]"], ["s1", "s2"])
    .link("a[0-5]", "s1", "1Gbps", "10us")
    .link("b[0-3]", "s2", "1Gbps", "20us", buffer="64KB")
    .link("s1", "s2", rate="1Gbps", delay="50us", queue="threshold:k=30pkt", loss=0.0005)
    .add(
        Flows("a0", "b0", protocol="dctcp"),
        Poisson(["a[1-3]"], ["b[0-3]"], rate=400, sizes="pareto:1.3:30KB"),
        Closed(["a4", "a5"], "b[1-3]", sizes="exponential:20KB", think="1ms"),
        Query("a[0-5]", "b1", response=20_000, gap="5ms", jitter="20us"),
        Reads("a[0-3]", "b2", sru="16KB"),
    ),
    {"duration": "400ms", "warmup": "50ms", "protocol": "sack", "rto_min": "10ms"},
)
ONE_WAY_TRACE = (
    Network(folder=GOLDEN)
    .host("h[0-3]")
    .switch("s")
    .link("h[0-2]", "s", "100Mbps", "100us")
    .link("s", "h3", "20Mbps", "1ms", buffer="15pkt", one_way=True)
    .link("h3", "s", "100Mbps", "1ms", one_way=True)
    .add(Trace("flows.csv")),
    {"duration": "200ms", "protocol": "newreno"},
)
RAIL = (
    Network.rail(
        4,
        4,
        2,
        2,
        link_rate="10Gbps",
        fabric_rate="20Gbps",
        link_delay="1us",
        buffer="100pkt",
        protocol="dctcp",
    ),
    {
        "duration": "4ms",
        "warmup": "0.5ms",
        "queue": "threshold:k=20pkt",
        "rto_min": "1ms",
        "rto_initial": "1ms",
        "workloads": [
            AllToAll("h[0-15]", size="20KB", window=3, order="random", spread="20us", repetitions=2),
            {
                "kind": "incast",
                "from": "all",
                "to": "h5",
                "servers": 8,
                "response": "15KB",
                "every": "600us",
                "start": "100us",
                "jitter": "5us",
            },
            Incast("h[0-15]", "h20", response="5KB", rate=1500, protocol="cubic:ecn=true"),
            Permutation("h[16-31]", size="200KB", spread="50us"),
        ],
    },
)
SCHEDULES = (
    Network.leaf_spine(
        4,
        2,
        4,
        link_rate="10Gbps",
        oversubscription=2,
        link_delay="1us",
        buffer="100pkt",
        protocol="dctcp",
        folder=GOLDEN,
    ).add(
        Collective(size="160KB", repetitions=2, spread="10us"),
        Collective(
            "h[0-7]",
            size="50KB",
            algorithm="halving-doubling",
            advance="acknowledged",
            connections="persistent",
            repetitions=3,
        ),
        Collective("h[3-9]", size="30KB", algorithm="tree"),
        Collective("h[1-12]", size="60KB", operation="all-to-all", window=3),
        Goal("schedule.goal", "h[4-6]", overhead="500ns", repetitions=4),
        Matrix("matrix.cm", unit="1us"),
    ),
    {"duration": "5ms", "queue": "threshold:k=20pkt", "rto_min": "1ms", "rto_initial": "1ms"},
)
BY_OBJECTS = {
    "custom_all_workloads": ALL_WORKLOADS,
    "custom_one_way_trace": ONE_WAY_TRACE,
    "custom_rail_collectives": RAIL,
    "custom_schedules": SCHEDULES,
}


def small(**settings):
    """A star of four hosts with some traffic."""
    net = Network.star(4, link_rate="1Gbps", link_delay="5us", buffer="50pkt", **{**QUICK, **settings})
    return net.add(Poisson("all", "all", load=0.5, sizes=5000))


def fingerprint(net, settings=None):
    spec = scenario.spec(net, settings or {}, 1)
    return _engine.run(spec, 0, _engine.Progress(), True).fingerprint


def recorded(name):
    return json.loads((GOLDEN / "results.json").read_text())[name]["fingerprint"]


def custom_files():
    found = [path.stem for path in GOLDEN.glob("*.toml") if 'scenario = "custom"' in path.read_text()]
    return sorted(found)


# ---- the same bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", custom_files())
def test_a_file_read_as_a_network_gives_the_golden_bytes(name):
    net = Network.from_toml(GOLDEN / f"{name}.toml")
    assert fingerprint(net) == recorded(name)
    # The network also survives a second pass through its own text.
    again = Network.from_toml(net.to_toml())
    assert again == net and again.to_toml() == net.to_toml()
    assert str(net).endswith(f"{name}.toml")


@pytest.mark.parametrize("name", sorted(BY_OBJECTS))
def test_objects_give_the_golden_bytes_of_the_file(name):
    net, settings = BY_OBJECTS[name]
    assert fingerprint(net, settings) == recorded(name)


def test_every_golden_custom_file_is_written_by_objects_too():
    assert set(BY_OBJECTS) <= set(custom_files())
    kinds = {type(one) for net, _ in BY_OBJECTS.values() for one in net.workloads}
    kinds |= {type(one) for one in RAIL[1]["workloads"]}
    assert kinds >= set(workloads.KINDS.values())


def test_ready_made_networks_by_name_are_those_of_the_scenario_key():
    for net, name in (
        (Network.leaf_spine(2, 2, 2, link_rate="1Gbps", link_delay="1us"), "leaf-spine:2x2x2"),
        (Network.fat_tree(4, link_rate="1Gbps", link_delay="1us"), "fat-tree:4"),
        (Network.rail(2, 2, 2, link_rate="1Gbps", link_delay="1us"), "rail:2x2x2"),
        (Network.dragonfly(1, 2, 1, link_rate="1Gbps", link_delay="1us"), "dragonfly:1,2,1"),
        (Network.dragonfly(1, 2, 1, 2, link_rate="1Gbps", link_delay="1us"), "dragonfly:1,2,1,2"),
    ):
        traffic = {"workloads": [Permutation(size=20_000)]}
        plain = {"topology": name, "link_rate": "1Gbps", "link_delay": "1us"}
        assert str(net) == name
        assert fingerprint(net, QUICK | traffic) == fingerprint("custom", plain | QUICK | traffic)


def test_ready_made_networks_with_links_of_their_own_are_what_they_say():
    star = Network.star(3, link_rate="1Gbps", link_delay="1us", buffer="9pkt")
    assert (star.hosts, star.switches) == (("h0", "h1", "h2"), ("switch",))
    assert star.links == [Link("h[0-2]", "switch", "1Gbps", "1us", buffer="9pkt")]
    bell = Network.dumbbell(2, link_rate="1Gbps", link_delay="1us", fabric_rate="5Gbps", fabric_delay="9us")
    assert bell.hosts == ("sender0", "sender1", "receiver0", "receiver1")
    assert bell.links[2] == Link("left", "right", "5Gbps", "9us")
    chain = Network.chain(3, 2, link_rate="1Gbps", link_delay="1us", duration="1ms")
    assert (len(chain.hosts), chain.switches) == (6, ("s0", "s1", "s2"))
    assert repr(chain) == "<Network network: 6 hosts, 3 switches, 8 links; 0 workloads>"
    # h0 is three links and more from h5: the ideal time of a flow counts them.
    near, far = (
        penstock.run(chain, workloads=[Flows("h0", to, size=1000)], rto_min="1ms").flows
        for to in ("h1", "h5")
    )
    assert far["ideal_fct_s"][0] > near["ideal_fct_s"][0]


# ---- every function that takes a scenario ------------------------------------------------------------------


def test_workloads_and_settings_of_a_call_hold_over_those_of_the_network():
    net = small(protocol="cubic")
    before = net.to_toml()
    one = penstock.run(net, workloads=Flows("h0", "h1", size=1000), protocol="dctcp")
    assert one.flows.height == 1 and one.scenario["set"]["protocol"] == "dctcp"
    assert penstock.run(net).flows.height > 1
    assert net.to_toml() == before
    assert one.name == "network"


def test_a_dict_of_the_whole_file_and_the_name_custom_are_networks():
    text = (GOLDEN / "custom_one_way_trace.toml").read_text()
    document = Network.from_toml(text).document()
    plural = {**document, "links": document["link"], "workloads": [Flows("h0", "h3", size=1000)]}
    del plural["link"], plural["workload"]
    assert penstock.run(plural).flows.height == 1
    found = penstock.run("custom", topology="fat-tree:4", link_rate="1Gbps", link_delay="1us",
                         workloads=[Permutation(size=1000)], **QUICK)  # fmt: skip
    assert found.name == "custom" and found.flows.height == 16


def test_a_sweep_takes_networks_beside_files(tmp_path):
    net = small()
    a, b = penstock.sweep(
        [(net, {}), (net.save(tmp_path / "x.toml"), {})], settings={"protocol": "dctcp"}, keep=["flows"]
    )
    assert a.summary == b.summary and a.flows.equals(b.flows)
    with ProcessPoolExecutor(1) as pool:
        there = penstock.run(net, protocol="dctcp", executor=pool)
    assert there.flows.equals(a.flows)


def test_a_study_of_a_network_shares_its_store_with_the_file(tmp_path):
    net = small()
    over = {"protocol": ["cubic", "dctcp"]}
    file = penstock.study(net.save(tmp_path / "x.toml"), over=over, store=tmp_path / "store")
    mine = penstock.study(net, over=over, store=tmp_path / "store")
    assert (file.ran, mine.ran, mine.stored) == (2, 0, 2)
    assert mine.frame.equals(file.frame)


def test_single_values_of_links_and_workloads_are_swept(tmp_path):
    net, key = small(), "workload[1].load"
    study = penstock.study(net, over={key: "0.2..0.6:2", "link[1].buffer": ["5pkt"]}, runs=2)
    table = study.mean()
    assert table[key].to_list() == [0.2, 0.6]
    loads = [found.scenario["file"]["tables"]["workload"][0]["load"] for found in study.sets]
    assert loads == [0.2, 0.6]
    assert table["offered_load"].to_list() == [0.2, 0.6]
    # The file takes the same key.
    path = net.save(tmp_path / "x.toml")
    settings = {key: 0.6, "link[1].buffer": "5pkt"}
    assert fingerprint(path, settings) == fingerprint(net, settings)
    assert fingerprint(path, settings) != fingerprint(path)


def test_advice_about_a_network_names_the_file_to_save():
    net = Network.star(
        9, link_rate="1Gbps", link_delay="20us", buffer="32KB", protocol="newreno", name="rack"
    )
    net.add(Reads("h[1-8]", "h0", sru="64KB", blocks=3))
    advice = penstock.advise(
        net,
        goal="goodput_bps",
        fix=["protocol", "queue"],
        runs=2,
        most=2,
        fresh=2,
        duration="1s",
        rto_min="20ms",
    )
    assert advice.name == "rack.toml"
    assert "penstock run rack.toml" in advice.commands()[1][1]
    assert advice.baseline.sets.summary["goodput_bps"] > 0


# ---- files -------------------------------------------------------------------------------------------------


def test_a_saved_network_finds_its_files_from_its_new_place(tmp_path):
    net = Network.from_toml(GOLDEN / "custom_one_way_trace.toml")
    path = net.save(tmp_path / "moved.toml")
    assert fingerprint(path) == recorded("custom_one_way_trace")
    sizes = Network(
        ["a", "b"], folder=tmp_path / "x", workloads=[Poisson("a", "b", sizes="cdf:s.csv", load=1)]
    )
    (tmp_path / "y").mkdir()
    saved = sizes.save(tmp_path / "y" / "z.toml").read_text()
    assert 'sizes = "cdf:../x/s.csv"' in saved


def test_what_toml_must_escape_comes_back():
    odd = 'a "quoted"\\ \n\x7f\u20ac\U0001f600 text'
    net = Network(["a", "b"], protocol=odd, loss=1e-300, seed=2**62, flag=True)
    assert Network.from_toml(net.to_toml()).settings == net.settings


# ---- what it looks like ------------------------------------------------------------------------------------


def test_a_network_is_drawn_and_shown_in_a_notebook():
    net = Network.leaf_spine(2, 2, 3, link_rate="10Gbps", link_delay="1us", oversubscription=3)
    figure = net.plot()
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    # Three hosts of 10 Gb/s over two uplinks at 3 to 1: 5 Gb/s each.
    assert [text.split(",")[0] for text in texts] == ["10 Gb/s", "5 Gb/s"]
    assert net.hosts == ("h0", "h1", "h2", "h3", "h4", "h5")
    assert net.switches == ("leaf0", "leaf1", "spine0", "spine1")
    page = net.add(Permutation(size="1KB"))._repr_html_()
    assert "data:image/png;base64," in page and "Permutation(size=&#x27;1KB&#x27;)" in page
    assert "there are none" in Network()._repr_html_()


def test_every_port_of_a_one_way_link_is_drawn_as_it_is():
    figure = ONE_WAY_TRACE[0].plot()
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(texts) == ["100Mbps, 100us", "100Mbps, 1ms", "20Mbps, 1ms, buffer 15pkt"]


# ---- the engine's keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(workloads.KINDS))
def test_a_class_has_the_arguments_that_the_engine_has_keys(kind):
    named, plain = workloads.keys(kind)
    arguments = set(inspect.signature(workloads.KINDS[kind]).parameters) - {"more"}
    assert {name.rstrip("_") for name in arguments} == {*named, *plain}


def test_the_kinds_are_those_of_the_engine():
    custom = next(entry for entry in scenario.describe()["scenarios"] if entry["name"] == "custom")
    assert {table["name"] for table in custom["tables"]} == {"link", *workloads.KINDS}
    arguments = set(inspect.signature(Link).parameters) - {"a", "b", "one_way", "more"}
    assert arguments == set(workloads.keys("link")[1])


def test_a_workload_is_shown_as_it_is_written_and_can_be_changed():
    one = Poisson("all", ["h0", "h1"], load=0.5, sizes=5000, class_=3)
    assert eval(repr(one)) == one
    assert one.document()["sizes"] == "fixed:5000"
    assert one.but(load=0.7, class_=None).values == {
        "from": "all",
        "to": ["h0", "h1"],
        "load": 0.7,
        "sizes": "fixed:5000",
    }
    link = Link("a", "b", "1Gbps", "1us", one_way=True)
    assert eval(repr(link)) == link and link.but(rate="2Gbps") != link


# ---- mistakes ----------------------------------------------------------------------------------------------

STAR = Network.star(4, link_rate="1Gbps", link_delay="1us")


def add_link(*arguments, **more):
    """The star with a host x and one more link."""
    return STAR.copy().host("x").link(*arguments, **more)


MISTAKES = [
    (lambda: penstock.run(STAR), 'workloads = "": there are none'),
    (lambda: penstock.run(Network(), workloads=[Flows("a", "b")]), 'hosts = "": there are none'),
    (lambda: penstock.run(Network(["a", "b"]), workloads=[Flows("a", "b")]), 'links = "": there are none'),
    (lambda: Poisson("all", "all", lod=0.4), "Poisson.lod = 0.4: unknown key; did you mean load?"),
    (lambda: Flows("h0", 3), 'Flows.to = "3": must be the name of a node or a list of names'),
    (lambda: Flows("h0", "h1", size=[1]), 'Flows.size = "[1]": must be a string, a number or true/false'),
    (lambda: Link("a", "b", "1Gbps", "1us", los=0.1), "Link.los = 0.1: unknown key; did you mean loss?"),
    (lambda: Link("a", 3), 'Link.b = "3": must be the name of a node'),
    (lambda: Network(5), 'Network.host = "5": must be the name of a node'),
    (lambda: Network(["h[3-1]"]).hosts, 'hosts = "h[3-1]": must have a range of numbers in brackets'),
    (
        lambda: Network.star(1, link_rate="1Gbps", link_delay="1us"),
        "Network.star.hosts = 1: must be a whole number",
    ),
    (lambda: Network().plot(), 'links = "": there are none'),
    (
        lambda: penstock.run(STAR, workloads=[{"kind": "poison", "from": "all"}]),
        'Workload.kind = "poison": unknown kind; did you mean poisson?',
    ),
    (lambda: penstock.run(STAR, workloads=[{"kind": "incast", "evry": "1ms"}]), "Incast.evry"),
    (lambda: penstock.run(STAR, workloads=["poisson"]), "must be objects of penstock or dicts"),
    (lambda: penstock.run(STAR, workloads=5), 'workloads = "5": must be a list'),
    (
        lambda: penstock.run(
            STAR, workloads=[Flows("h0", "h1", size=1), Poisson("all", "all", load=20, sizes=1)]
        ),
        'workload[2] (Poisson): load = "20": must be at most 10',
    ),
    (lambda: penstock.run(STAR, workloads=Poisson("all", load=1, sizes=1)), "workload[1] (Poisson): to ="),
    (lambda: penstock.run(STAR, workloads=Flows("h[0-", "h1")), "workload[1] (Flows): from_ ="),
    (lambda: penstock.run(STAR, workloads=Flows("h0", "h9")), "is neither among hosts nor among switches"),
    (lambda: penstock.run(STAR, workloads=Flows("h0", "h1", class_=64)), "workload[1] (Flows): class_ ="),
    (lambda: penstock.run(STAR, workloads=Flows("h0", "h1", size=float("inf"))), 'size = "inf": must be'),
    (lambda: penstock.run(STAR, workloads=Flows("h0", "h1", size=2**70)), "must be at most"),
    (lambda: penstock.run(STAR, workloads=Flows("h0", "h0")), "workload[1] (Flows) ="),
    (
        lambda: penstock.run(add_link("switch", "x", "fast", "1us"), workloads=Flows("h0", "x")),
        'link[2] (switch - x): rate = "fast": must be a rate with a unit',
    ),
    (
        lambda: penstock.run(
            add_link("switch", "x", "1Gbps", "1us", loss=2, one_way=True), workloads=Flows("h0", "x")
        ),
        'link[2] (switch -> x): loss = "2": must be at most 1',
    ),
    (lambda: penstock.run(STAR, workloads=Flows("h0", "h1"), duratin="1s"), "duratin = "),
    (lambda: penstock.run(STAR, workloads=Flows("h0", "h1"), duration="-1s"), 'duration = "-1s": must be'),
    (lambda: penstock.run("incast", workloads=[Flows("a", "b")]), "a scenario by name has no such key"),
    (lambda: penstock.run(5), 'scenario = "5": must be a name'),
    (
        lambda: penstock.run(STAR, workloads=Flows("h0", "h1"), settings={"workload[2].size": 3}),
        "workload[2].size = 3: there are 1, counted from 1",
    ),
    (
        lambda: penstock.run(STAR, workloads=Flows("h0", "h1"), settings={"workload[1].sze": 3}),
        "did you mean size?",
    ),
    (lambda: penstock.study(STAR, over={"workloads": [[Flows("h0", "h1")]]}), "cannot be swept"),
    (lambda: penstock.sweep([(STAR, {"workloads": Flows("h0", "h9")})]), "workload[1] (Flows): to ="),
    (
        lambda: penstock.study(STAR, over={"protocol": ["dctcp"]}, settings={"workloads": Flows("h0", "h9")}),
        "workload[1]",
    ),
    (lambda: penstock.advise(STAR, workloads=Flows("h0", "h9")), "workload[1] (Flows): to ="),
    (lambda: penstock.live.resolve(STAR, {"workloads": Flows("h0", "h9")}), "workload[1] (Flows): to ="),
    (lambda: Network.fat_tree(5, link_rate="1Gbps", link_delay="1us").plot(), 'topology = "fat-tree:5"'),
    (lambda: Network.from_toml("no.toml"), 'scenario = "no.toml": the file does not exist'),
    (lambda: Network.from_toml("a =\n"), "is not TOML"),
    (
        lambda: Network.from_toml('scenario = "incast"\n'),
        'scenario = "incast": a network is a scenario "custom"',
    ),
    (lambda: Network.from_toml("[[links]]\nrate = 1\n"), "did you mean link?"),
    (lambda: Network.from_toml("link = 3\n"), "must be written [[link]]"),
    (lambda: Network.from_toml('[[workload]]\nkind = "flows"\nrte = 1\n'), "Flows.rte = 1: unknown key"),
]


@pytest.mark.parametrize(("mistake", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_one_line_that_names_the_object_and_the_argument(mistake, said):
    with pytest.raises(ValueError) as problem:
        mistake()
    text = str(problem.value)
    assert isinstance(problem.value, penstock.ScenarioError)
    assert said in text and "\n" not in text and not re.match(r"(line \d+|.*toml:\d+):", text)
    assert problem.value.key and problem.value.rule


# ---- the guide ---------------------------------------------------------------------------------------------


def test_the_examples_of_the_guide_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "reference" / "networks.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 4
    known = {}
    for block in blocks:
        exec(compile(block, "docs/reference/networks.md", "exec"), known)
    assert known["same"] == known["net"]
    assert len(known["result"].flows) > 100 and len(known["study"].sets) == 6
    # What the guide says of mistakes is said.
    said = [line.strip() for line in text.split("## Mistakes")[1].splitlines() if line.startswith("    ")]
    thirty_two = Network.leaf_spine(4, 2, 8, link_rate="10Gbps", link_delay="1us")
    for line, mistake in zip(
        said,
        (
            lambda: Poisson("all", "all", lod=0.4),
            lambda: penstock.run(
                thirty_two,
                workloads=[Permutation(), Incast("all", "h5", servers=50, response="20KB", every="1ms")],
            ),
            lambda: penstock.run(known["net"], settings={"link[3].rate": "fast"}),
        ),
        strict=True,
    ):
        with pytest.raises(penstock.ScenarioError) as problem:
            mistake()
        assert str(problem.value) == line
