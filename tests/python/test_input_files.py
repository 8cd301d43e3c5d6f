"""Files of other programs that workloads name, as these programs write them."""

import penstock as lab

STAR = {"link_rate": "1Gbps", "link_delay": "10us", "duration": "5ms"}


def run(tmp_path, workload, name: str, content: bytes) -> lab.RunSet:
    (tmp_path / name).write_bytes(content)
    net = lab.Network.by_name("star:4", folder=tmp_path, **STAR)
    return lab.run(net, workloads=[workload])


def test_a_byte_order_mark_is_no_part_of_a_table_or_a_scenario(tmp_path):
    rows = b"\xef\xbb\xbfstart_s,src,dst,bytes\r\n0,h0,h1,1000\r\n"
    found = run(tmp_path, lab.Trace("flows.csv"), "flows.csv", rows)
    assert found.flows.select("src", "dst", "acked_bytes").rows() == [("h0", "h1", 1000)]
    (tmp_path / "s.toml").write_bytes(b'\xef\xbb\xbfscenario = "incast"\nservers = 2\nduration = "2ms"\n')
    assert lab.run(tmp_path / "s.toml").settings["servers"] == "2"


def test_a_matrix_has_decimal_starts_endless_sizes_and_messages(tmp_path):
    text = (
        b"Nodes 4\nConnections 3\n0->1 id 1 msg start 0.000000 size 40860\n"
        b"0->1 id 1 msg start 0.5 size 1000\n2->3 id 2 start 1000.25 size 0\n"
    )
    found = run(tmp_path, lab.Matrix("m.cm", unit="1ns"), "m.cm", text)
    sizes = {(src, dst): size for src, dst, size in found.flows.select("src", "dst", "acked_bytes").rows()}
    assert found.summary["flows_completed"] == 2
    # The one without end has sent most of the time.
    assert sizes["h2", "h3"] > 300_000


def test_a_message_of_no_bytes_lets_both_ranks_go_on(tmp_path):
    text = b"num_ranks 2\nrank 0 {\na: send 0b to 1 tag 1\n}\nrank 1 {\nb: recv 0b from 0 tag 1\n}\n"
    found = run(tmp_path, lab.Goal("z.goal"), "z.goal", text)
    assert (found.summary["blocks"], found.summary["flows_completed"]) == (1, 1)
