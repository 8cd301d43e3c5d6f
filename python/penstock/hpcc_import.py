"""Input of the HPCC group's public simulator: its config, topology and flow files as a scenario file.

`convert` writes a scenario "custom" and its flows. The protocol gets `rules=hpcc-ns3`, so that law, card and
thresholds behave as in that code (docs/validation/hpcc-ns3.md). Keys without a counterpart are refused or
reported, line by line.

Forms, as that code reads them: words apart by white space. Config: KEY and its values. Topology: numbers of
nodes, switches and links; the switches; then `node node rate delay error-rate` for each link. Flows: their
number; then `from to class port bytes start-in-seconds`, with the number of the flow in front in the fork
that made m3's data. What follows is not read.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import ScenarioError
from penstock.network import Network
from penstock.scenario import error
from penstock.workloads import Trace

_LAWS = {1: "dcqcn", 3: "hpcc", 7: "timely", 8: "dctcp-roce", 10: "hpcc"}
"""CC_MODE; 10 is HPCC-PINT, and everything else no control."""

_KINDS = """
flag: ENABLE_QCN USE_DYNAMIC_PFC_THRESHOLD L2_BACK_TO_ZERO CLAMP_TARGET_RATE HAS_WIN GLOBAL_T VAR_WIN
flag: FAST_REACT MULTI_RATE SAMPLE_FEEDBACK RATE_BOUND ACK_HIGH_PRIO
number: PACKET_PAYLOAD_SIZE L2_ACK_INTERVAL SIMULATOR_STOP_TIME CC_MODE ALPHA_RESUME_INTERVAL RP_TIMER
number: RATE_DECREASE_INTERVAL EWMA_GAIN FAST_RECOVERY_TIMES ERROR_RATE_PER_LINK U_TARGET MI_THRESH INT_MULTI
number: BUFFER_SIZE FIXED_WIN BASE_RTT PINT_LOG_BASE PINT_PROB
rate: RATE_AI RATE_HAI MIN_RATE MAX_RATE DCTCP_RATE_AI
file: TOPOLOGY_FILE FLOW_FILE
map: KMAX_MAP KMIN_MAP PMAX_MAP
down: LINK_DOWN
unused: TRACE_FILE TRACE_OUTPUT_FILE FCT_OUTPUT_FILE PFC_OUTPUT_FILE QLEN_MON_FILE QLEN_MON_START QLEN_MON_END
unused: ENABLE_TRACE PAUSE_TIME DATA_RATE LINK_DELAY L2_CHUNK_SIZE FLOW_ON_PATH_FILE FLOW_PATH_MAP_FILE
"""
_KEYS = {
    key: kind
    for kind, _, keys in (line.partition(":") for line in _KINDS.split("\n") if line)
    for key in keys.split()
}
"""Every key of a config, with what its value is. Unused: what only says where something is written, and what
that code reads and never uses.
"""
_MAPS = [key for key, kind in _KEYS.items() if kind == "map"]

_RATE = re.compile(r"([0-9.eE+]+)\s*([kKMGT]?)(?:b/s|bps)")
_TIME = re.compile(r"([0-9.eE+-]+)\s*(s|ms|us|ns|ps)")
_RATE_UNIT = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_TIME_UNIT = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}


@dataclass(frozen=True)
class _Word:
    """A word of a file and where it stands."""

    text: str
    file: str
    line: int

    def wrong(self, key: str, rule: str) -> ScenarioError:
        """The error that says so: file, line, key, value and rule."""
        return _at(self.file, self.line, error(key, self.text, rule))

    def number(self, key: str, least: float = 0.0) -> float:
        try:
            found = float(self.text)
        except ValueError:
            raise self.wrong(key, "must be a number") from None
        if not least <= found < float("inf"):
            raise self.wrong(key, f"must be at least {least:g}")
        return found

    def whole(self, key: str, least: int = 0) -> int:
        found = self.number(key, least)
        if found != int(found):
            raise self.wrong(key, "must be a whole number")
        return int(found)

    def rate(self, key: str) -> float:
        found = _RATE.fullmatch(self.text)
        if not found:
            raise self.wrong(key, "must be a rate such as 100Gbps or 20Mb/s")
        return float(found[1]) * _RATE_UNIT[found[2]]

    def seconds(self, key: str) -> float:
        found = _TIME.fullmatch(self.text)
        if not found:
            raise self.wrong(key, "must be a time such as 1000ns or 0.001ms")
        return float(found[1]) * _TIME_UNIT[found[2]]


def _at(file: str, line: int, problem: ScenarioError) -> ScenarioError:
    told = ScenarioError(f"{file}:{line}: {problem}")
    told.key, told.value, told.rule = problem.key, problem.value, problem.rule
    return told


class _Words:
    """The words of a file, one after the other."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as problem:
            raise error("--import", path, f"the file cannot be read ({problem})") from None
        self._words: Iterator[_Word] = iter(
            [_Word(text, path.name, i) for i, line in enumerate(lines, 1) for text in line.split()]
        )
        self._last = max(len(lines), 1)
        self.line = 1

    def next(self, key: str) -> _Word:
        """The next one, which says what `key` names. Raises ScenarioError at the end of the file."""
        word = next(self._words, None)
        if word is None:
            raise _Word("", self.name, self._last).wrong(key, "the file ends here, and more must follow")
        self.line = word.line
        return word

    def __iter__(self) -> Iterator[_Word]:
        return self._words


# ---- config ----------------------------------------------------------------------------------------------


@dataclass
class _Config:
    """Values by key, each with where it stands; maps by rate in bit/s."""

    name: str
    values: dict[str, _Word] = field(default_factory=dict)
    maps: dict[str, dict[int, _Word]] = field(default_factory=dict)
    down: tuple[_Word, _Word, _Word] | None = None
    without_effect: list[str] = field(default_factory=list)

    def flag(self, key: str, default: bool) -> bool:
        return bool(self.values[key].whole(key)) if key in self.values else default

    def number(self, key: str, default: float) -> float:
        return self.values[key].number(key) if key in self.values else default

    def must(self, key: str, default: bool, wanted: bool, why: str) -> None:
        """Refuses a flag that has no counterpart."""
        if self.flag(key, default) != wanted:
            word = self.values.get(key) or _Word(str(int(default)), self.name, 1)
            raise word.wrong(key, f"must be {int(wanted)}: {why}")


def _config(path: Path) -> _Config:
    words = _Words(path)
    found = _Config(path.name)
    for word in words:
        key = word.text
        kind = _KEYS.get(key)
        if kind is None:
            near = difflib.get_close_matches(key.upper(), _KEYS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ScenarioError(f"{path.name}:{word.line}: {key}: unknown key{hint}")
        if kind == "map":
            count = words.next(key).whole(key)
            pairs = [(words.next(key).whole(key, 1), words.next(key)) for _ in range(count)]
            for _, value in pairs:
                value.number(key)
                if key == "PMAX_MAP" and value.number(key) > 1:
                    raise value.wrong(key, "must be at most 1")
            found.maps[key] = dict(pairs)
        elif kind == "down":
            found.down = (words.next(key), words.next(key), words.next(key))
        else:
            value = words.next(key)
            if value.line != word.line:
                raise word.wrong(key, "must have its value behind it")
            found.values[key] = value
            if kind in ("flag", "number"):
                value.number(key)
            elif kind == "rate":
                value.rate(key)
            elif kind == "unused":
                found.without_effect.append(key)
    return found


def _config_file(source: Path) -> Path:
    """The config in a directory, or the one that is given."""
    if source.is_file():
        return source
    if not source.is_dir():
        raise error("--import", source, "there is no such directory or config file")
    plain = source / "config.txt"
    found = [plain] if plain.is_file() else sorted(source.glob("config*.txt"))
    found = [path for path in found if path.name != "config_doc.txt"]
    if len(found) == 1:
        return found[0]
    names = ", ".join(path.name for path in found) or "none"
    raise error("--import", source, f"must have one config: config.txt or config*.txt (there is: {names})")


def _named(config: Path, key: str, found: _Config) -> Path:
    """A file that the config names: as it says, seen from its directory or the one above, or beside it."""
    word = found.values.get(key)
    if word is None:
        raise ScenarioError(f"{config.name}:1: {key}: must be given")
    here = config.resolve().parent
    places = (here / word.text, here.parent / word.text, here / Path(word.text).name)
    for path in places:
        if path.is_file():
            return path
    raise word.wrong(key, f"there is no such file in {here} or above it")


# ---- topology --------------------------------------------------------------------------------------------


@dataclass
class _Topology:
    switches: set[int]
    nodes: int
    links: list[tuple[int, int, float, float, float, int]]
    """Both nodes, rate in bit/s, delay in seconds, error rate, line."""

    def name(self, node: int) -> str:
        return f"{'s' if node in self.switches else 'h'}{node}"

    def hosts(self) -> list[int]:
        return [node for node in range(self.nodes) if node not in self.switches]


def read_topology(path: Path) -> _Topology:
    """A topology file. Raises ScenarioError, one line with file, line and key."""
    words = _Words(path)
    nodes = words.next("nodes").whole("nodes", 1)
    switch_count, link_count = words.next("switches").whole("switches"), words.next("links").whole("links", 1)

    def node(key: str) -> int:
        word = words.next(key)
        found = word.whole(key)
        if found >= nodes:
            raise word.wrong(key, f"must be a node, 0 to {nodes - 1}")
        return found

    switches = {node("switch") for _ in range(switch_count)}
    links = []
    for i in range(1, link_count + 1):
        key = f"link {i}"
        a, b = node(key), node(key)
        rate, delay = words.next(key).rate(key), words.next(key).seconds(key)
        links.append((a, b, rate, delay, words.next(key).number(key), words.line))
    return _Topology(switches, nodes, links)


def _largest(topology: _Topology, payload: int) -> tuple[float, float]:
    """Base RTT in seconds and bandwidth-delay product in bytes, the largest of all pairs of hosts.

    RTT: twice the delay of the way and the time of a payload on each link. Ways as that code finds them, by a
    search over switches from each host.
    """
    around: dict[int, list[tuple[int, float, float]]] = {}
    for a, b, rate, delay, _, _ in topology.links:
        around.setdefault(a, []).append((b, rate, delay))
        around.setdefault(b, []).append((a, rate, delay))
    rtt = bdp = 0.0
    for start in topology.hosts():
        reached = {start: (0.0, 0.0, float("inf"))}
        queue = [start]
        for at in queue:
            delay, sending, least = reached[at]
            for to, rate, more in around.get(at, []):
                if to in reached:
                    continue
                reached[to] = (delay + more, sending + payload * 8 / rate, min(least, rate))
                if to in topology.switches:
                    queue.append(to)
                else:
                    its_delay, its_sending, its_rate = reached[to]
                    own = 2 * its_delay + its_sending
                    rtt, bdp = max(rtt, own), max(bdp, own * its_rate / 8)
    return rtt, bdp


# ---- flows -----------------------------------------------------------------------------------------------


def _flows(path: Path, topology: _Topology) -> tuple[list[tuple[str, str, str, int]], int]:
    """Rows of a trace, and the class of all flows."""
    words = _Words(path)
    count = words.next("flows").whole("flows", 1)
    lines: dict[int, list[_Word]] = {}
    for word in words:
        lines.setdefault(word.line, []).append(word)
    rows: list[tuple[str, str, str, int]] = []
    found: int | None = None
    for number, line in zip(range(1, count + 1), lines.values(), strict=False):
        key = f"flow {number}"
        if len(line) not in (6, 7):
            raise line[0].wrong(
                key, f"must be from, to, class, port, bytes, start; there are {len(line)} columns"
            )
        src, dst, pg, _, size, start = line[-6:]
        ends = []
        for end in (src, dst):
            node = end.whole(key)
            if node >= topology.nodes or node in topology.switches:
                raise end.wrong(key, "must be a host")
            ends.append(topology.name(node))
        if ends[0] == ends[1]:
            raise dst.wrong(key, "must be another host than the sender")
        of = pg.whole(key)
        if not 1 <= of <= 7 or of != (found or of):
            raise pg.wrong(key, f"must be class {found or '1 to 7'}: all flows have one class here")
        found = of
        start.number(key)
        rows.append((start.text, ends[0], ends[1], size.whole(key, 1)))
    if len(rows) < count:
        raise ScenarioError(f"{path.name}:1: flows = {count}: the file has {len(rows)}")
    return rows, found or 3


# ---- together --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Converted:
    """What `convert` made."""

    path: Path
    """The scenario file; its flows are beside it."""
    notes: tuple[str, ...]
    """What is different here from what the files say, a line each."""


def _marks(config: _Config, topology: _Topology) -> list[str]:
    """Marking as parameters of the protocol; ports of all rates must be in proportion."""
    switch_links = [link for link in topology.links if {link[0], link[1]} & topology.switches]
    used = sorted({int(rate) for _, _, rate, *_ in switch_links})
    for key in _MAPS:
        lacking = [rate for rate in used if rate not in config.maps.get(key, {})]
        if lacking:
            raise ScenarioError(f"{config.name}:1: {key}: must have a value for links of {lacking[0]} bit/s")
    first = used[0]
    for key in _MAPS:
        of = config.maps[key]
        for rate in used:
            share = 1.0 if key == "PMAX_MAP" else rate / first
            expected = of[first].number(key) * share
            if abs(of[rate].number(key) - expected) > 0.01 * expected + 1e-9:
                raise of[rate].wrong(key, f"must be in proportion to the rate of the port, {expected:g} here")
    kmin, kmax = config.maps["KMIN_MAP"][first], config.maps["KMAX_MAP"][first]
    if kmin.number("KMIN_MAP") > kmax.number("KMAX_MAP"):
        raise kmin.wrong("KMIN_MAP", f"must not be above KMAX_MAP ({kmax.text})")
    pmax = config.maps["PMAX_MAP"][first].text
    return [f"kmin={kmin.text}KB", f"kmax={kmax.text}KB", f"k_rate={first}bps", f"pmax={pmax}"]


def _protocol(config: _Config, topology: _Topology, payload: int, data: int) -> str:
    mode = int(config.number("CC_MODE", 1))
    law = _LAWS.get(mode, "roce")
    rtt, bdp = _largest(topology, payload)
    rtt = config.number("BASE_RTT", rtt * 1e9) * 1e-9
    keys = ["rules=hpcc-ns3", f"base_rtt={rtt * 1e9:.0f}ns", f"priority={data}"]
    # A lane pauses at an eighth of what is free, and one of a link faster than the hosts' at more.
    keys += ["pfc_alpha=0.125", "pfc_alpha_by_rate=true"]
    high = config.flag("ACK_HIGH_PRIO", False)
    keys.append(f"control_priority={7 if high else data}")
    has_window = config.flag("HAS_WIN", True)
    window = config.number("FIXED_WIN", int(bdp))
    keys.append(f"window={window:.0f}B" if has_window else "window=off")
    if has_window:
        keys.append(f"window_by_rate={'true' if config.flag('VAR_WIN', False) else 'false'}")

    def take(key: str, name: str, unit: str = "", default: str | None = None) -> None:
        word = config.values.get(key)
        if word is not None:
            value = f"{word.rate(key):.0f}bps" if _KEYS[key] == "rate" else f"{word.text}{unit}"
            keys.append(f"{name}={value}")
        elif default is not None:
            keys.append(f"{name}={default}")

    # Defaults are those of that code where no key says otherwise.
    take("MIN_RATE", "rate_min", default="100Mbps")
    take("MAX_RATE", "rate_max")
    if law in ("dcqcn", "dctcp-roce"):
        take("EWMA_GAIN", "g")
        keys += _marks(config, topology)
    if law == "dcqcn":
        take("ALPHA_RESUME_INTERVAL", "alpha_timer", "us", "55us")
        take("RATE_DECREASE_INTERVAL", "cut_timer", "us")
        take("RP_TIMER", "timer", "us")
        take("FAST_RECOVERY_TIMES", "fast_recovery", default="5")
        keys.append(f"clamp_target={'true' if config.flag('CLAMP_TARGET_RATE', False) else 'false'}")
    if law in ("dcqcn", "timely", "hpcc"):
        take("RATE_AI", "rate_ai")
    if law in ("dcqcn", "timely"):
        take("RATE_HAI", "rate_hai")
    if law == "dctcp-roce":
        take("DCTCP_RATE_AI", "rate_ai", default="1Gbps")
    if law == "hpcc":
        config.must("HAS_WIN", True, True, "HPCC divides queues by the window")
        config.must("MULTI_RATE", True, False, "one rate for all hops is built, not one for each")
        config.must("SAMPLE_FEEDBACK", False, False, "feedback of empty queues is not left out here")
        take("U_TARGET", "eta")
        take("MI_THRESH", "max_stage", default="5")
        if mode == 10:
            keys.append("int=pint")
            take("PINT_LOG_BASE", "pint_base")
            take("PINT_PROB", "pint_share")
        else:
            take("INT_MULTI", "int_multi", default="1")
        keys.append(f"react={'both' if config.flag('FAST_REACT', True) else 'per-rtt'}")
    return f"{law}:{','.join(keys)}"


def _down(config: _Config, topology: _Topology) -> str | None:
    if config.down is None:
        return None
    time, a, b = config.down
    if time.number("LINK_DOWN") == 0:
        return None
    ends = [end.whole("LINK_DOWN") for end in (a, b)]
    if not any({link[0], link[1]} == set(ends) for link in topology.links):
        raise a.wrong("LINK_DOWN", f"there is no link between {ends[0]} and {ends[1]}")
    # That code counts from 2 s on, in microseconds.
    at = 2e6 + time.number("LINK_DOWN")
    return f"{topology.name(ends[0])}<->{topology.name(ends[1])}@{at:.3f}us"


def convert(source: str | Path, into: str | Path) -> Converted:
    """Read a directory with `config.txt` (or the only `config*.txt`), or a config file, and write
    `case.toml` and `flows.csv` into the directory `into`, which is made.

    Raises ScenarioError, one line with file, line and key, for what is unknown, malformed or not built.
    """
    path = _config_file(Path(source))
    config = _config(path)
    config.must("USE_DYNAMIC_PFC_THRESHOLD", True, True, "the public code has no other threshold")
    config.must("L2_BACK_TO_ZERO", False, False, "go-back-0 is not built")
    config.must("RATE_BOUND", True, True, "senders are bound by their rate")
    config.must("GLOBAL_T", True, True, "all pairs have one base RTT here")
    payload = int(config.number("PACKET_PAYLOAD_SIZE", 1000))
    if not 1 <= config.number("L2_ACK_INTERVAL", 0) <= payload:
        word = config.values.get("L2_ACK_INTERVAL") or _Word("0", config.name, 1)
        raise word.wrong("L2_ACK_INTERVAL", f"must be 1 to {payload}: every packet is acknowledged")
    topology = read_topology(_named(path, "TOPOLOGY_FILE", config))
    rows, data = _flows(_named(path, "FLOW_FILE", config), topology)
    settings: dict[str, Any] = {
        "segment": f"{payload}B",
        "duration": f"{config.number('SIMULATOR_STOP_TIME', 3.01):.9f}s",
        "protocol": _protocol(config, topology, payload, data),
        "buffer": f"shared:alpha=1,size={config.number('BUFFER_SIZE', 16):g}MiB",
        "send_jitter": "0s",
        "fail": _down(config, topology),
    }
    hosts, switches = topology.hosts(), sorted(topology.switches)
    net = Network([topology.name(n) for n in hosts], [topology.name(n) for n in switches], **settings)
    everywhere = config.number("ERROR_RATE_PER_LINK", 0.0)
    for a, b, rate, delay, errors, _ in topology.links:
        loss = {"loss": errors or everywhere} if errors or everywhere else {}
        net.link(topology.name(a), topology.name(b), f"{rate:.0f}bps", f"{delay * 1e12:.0f}ps", **loss)
    net.add(Trace("flows.csv"))
    folder = Path(into)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "flows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("start_s", "src", "dst", "bytes"), *rows])
    net.folder = folder
    return Converted(net.save(folder / "case.toml"), tuple(_notes(config, topology)))


def _notes(config: _Config, topology: _Topology) -> Iterator[str]:
    if config.without_effect:
        yield f"{config.name}: without effect here: {', '.join(config.without_effect)}"
    if "ENABLE_QCN" in config.values and not config.flag("ENABLE_QCN", True):
        yield f"{config.name}: ENABLE_QCN 0 changes nothing: marking is always on, as in that code"
    if config.flag("ACK_HIGH_PRIO", False):
        yield "ACKs go first at switches too (ACK_HIGH_PRIO); in the original code at hosts alone"
