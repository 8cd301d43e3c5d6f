"""Controllers in Python on kernel sockets: the same class steers what it controls in the simulator."""

from pathlib import Path

import pytest
from conftest import inline
from test_live import compared, needs_bpf, valid

import penstock
from penstock import live

DCTCP = Path(__file__).resolve().parents[2] / "examples" / "dctcp.py"
TAIL = (
    "    def on_congestion(self, event, flow):\n        pass\n\n"
    "    def control(self):\n        return self.cwnd\n"
)
ONE = {"flows": 1, "access_rate": "1Gbps", "duration": "3s", "warmup": "1s"}


def law(name, compile=None):
    @penstock.controller(name=name, compile=compile)
    class Halving:
        """Doubles its window each round trip, then adds a segment to it; halves it for a loss."""

        gain: float = penstock.param(1.0, "segments added per round trip", range=(0.01, 100))
        cwnd: float = 0.0
        ssthresh: float = 1e18

        def on_start(self, config):
            self.cwnd = config.initial_window

        def on_ack(self, ack, flow):
            if self.cwnd < self.ssthresh:
                self.cwnd += ack.acked
            else:
                self.cwnd += self.gain * flow.segment * ack.acked / self.cwnd

        def on_congestion(self, event, flow):
            if event.kind != penstock.Event.RECOVERED:
                self.ssthresh = max(self.cwnd / 2, 2.0 * flow.segment)
                self.cwnd = self.ssthresh

        def control(self):
            return self.cwnd

    return Halving


@needs_bpf
@pytest.mark.parametrize("compile", [None, False], ids=["compiled", "interpreted"])
def test_a_law_in_python_fills_the_link(compile):
    if compile is None:
        pytest.importorskip("numba", reason="Numba is not installed")
    chosen = law(f"halving_{'compiled' if compile is None else 'interpreted'}", compile)
    both = compared("long-flows", protocol=chosen(gain=2.0), **ONE)
    kernel, packet = both.kernel[0], both.packet[0]
    assert kernel.scenario["controllers"][0]["class"].endswith("Halving")
    # A packet counts where its transmission ends: one may have begun before the window. A host is late by its
    # longest turn at most, some milliseconds, so that it hardly clears in the window what came before it.
    window = packet.mean("measured_s")
    assert kernel.mean("utilisation") > 0.95 and packet.mean("utilisation") <= 1 + 1500 * 8 / 1e8 / window
    assert packet.mean("goodput_bps") <= 1e8 * 1460 / 1500 * (1 + 0.01 / window)
    assert kernel.mean("goodput_bps") == pytest.approx(packet.mean("goodput_bps"), rel=0.05)
    assert kernel.mean("queue_mean_packets") == pytest.approx(packet.mean("queue_mean_packets"), rel=0.35)
    assert kernel.mean("retransmits") > 0, "it finds the limit of the queue, again and again"


@needs_bpf
def test_dctcp_in_python_holds_the_queue_at_its_threshold():
    chosen = {"flows": 2, "protocol": f"{DCTCP}:Dctcp", "queue": "threshold:k=20pkt", "access_rate": "1Gbps"}
    found = valid(
        lambda: live.run("long-flows", duration="4s", warmup="2s", settings=chosen),
        lambda result: bool(result.summary["valid"]),
    )
    assert found.summary["drops"] == 0 and found.summary["ce_marks"] > 50
    assert 10 < found.summary["queue_mean_packets"] < 30
    assert found.summary["utilisation"] > 0.95


@needs_bpf
def test_a_mistake_ends_the_live_run_with_its_line_and_flow(tmp_path):
    (tmp_path / "late.py").write_text(
        "import penstock\n\n\n@penstock.controller\nclass Late:\n    cwnd: float = 0.0\n"
        "    acks: int = 0\n\n    def on_start(self, config):\n        self.cwnd = config.initial_window\n\n"
        "    def on_ack(self, ack, flow):\n        self.acks += 1\n"
        "        self.cwnd += flow.segment / (20 - self.acks)\n\n" + TAIL
    )
    with pytest.raises(penstock.RunFailed, match=r"late\.py:14: .*flow 0") as failure:
        live.run("long-flows", protocol=f"{tmp_path / 'late.py'}:Late", **ONE)
    assert "division by zero" in str(failure.value)


def test_what_nobody_knows_of_a_kernel_socket_is_refused(tmp_path):
    head = "import penstock\n\n\n@penstock.controller\nclass Rated:\n    cwnd: float = 10000.0\n\n"
    bodies = {
        "ack.rate_bps": "    def on_ack(self, ack, flow):\n        self.cwnd = max(ack.rate_bps, 3000.0)\n\n",
        "on_transfer": "    def on_ack(self, ack, flow):\n        pass\n\n"
        "    def on_transfer(self, event, flow):\n        pass\n\n",
    }
    for i, (what, body) in enumerate(bodies.items()):
        path = tmp_path / f"rated{i}.py"
        path.write_text(head.replace("Rated", f"Rated{i}") + body + TAIL)
        with pytest.raises(penstock.ScenarioError, match=f"{what}, which a kernel's socket does not report"):
            live.resolve("incast", {"protocol": f"{path}:Rated{i}"})
        done = inline("live", "incast", "--set", f"protocol={path}:Rated{i}")
        assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_a_scale_stretches_the_times_of_its_parameters(tmp_path):
    (tmp_path / "timed.py").write_text(
        "import penstock\n\n\n@penstock.controller\nclass Timed:\n"
        '    target: float = penstock.param("50us", "delay to keep to", unit="s", range=(1e-6, 10))\n'
        "    cwnd: float = 10000.0\n\n    def on_ack(self, ack, flow):\n        pass\n\n" + TAIL
    )
    found = live.resolve("incast", {"protocol": f"{tmp_path / 'timed.py'}:Timed"}, scale=10)
    assert found["set"]["protocol"] == "timed:target=500000ns"
    assert found["controllers"][0]["name"] == "timed"
