//! An aggregator behind a marking switch queries workers behind three drop-tail switches.
use super::prelude::*;

use crate::defaults::{bytes as bytes_of, request_jitter};
use crate::notes::Requests;
use crate::topology::drop_tail;
use crate::workloads::query::{queries, Connections, JitterMode, Plan};

/// Testbed.
pub const TESTBED: Scenario = Scenario {
    name: "testbed",
    text: "an aggregator behind a marking switch queries workers behind drop-tail switches, one query after the other",
    source: "dt-dctcp section VI.B, Fig 13",
    params: &[
        param!("servers": Count = "32" in [1.0, 100_000.0], "number of workers, spread over the hosts in turn", "Fig 14"),
        param!("response": Size = "64KB" in [1.0, 1e12], "bytes each worker answers with", "section VI.B.1"),
        param!("total": Size = "" in [1.0, 1e12], "bytes of all answers together, instead of response", "section VI.B.2: 1 MB"),
        param!("repetitions": Count = "100" in [1.0, 1e9], "queries", "section VI.B"),
        param!("connections": Choice(&["persistent", "fresh"]) = "persistent",
            "one per worker for all queries, or a new one per worker and query", "chosen"),
        param!("jitter": Duration = "" in [0.0, 10.0],
            "a worker answers after U(0, this); unset = the time of 2500 B on a link", "chosen: hosts are not synchronised; 20 us at 1 Gb/s"),
        param!("switches": Count = "3" in [1.0, 1000.0], "drop-tail switches around the marking one", "Fig 13"),
        param!("hosts": Count = "3" in [1.0, 1000.0], "hosts of workers at each drop-tail switch", "Fig 13"),
        param!("link_rate": Rate = "1Gbps" in [1e3, 1e13], "rate of every link", "section VI.B"),
        param!("link_delay": Duration = "25us" in [0.0, 1.0],
            "propagation delay of every link", "section VI.B: 100 us between two hosts of one switch"),
        param!("root_buffer": Amount = "128KB" in [1.0, 1e12], "buffer of a port of the marking switch", "section VI.B"),
        param!("leaf_buffer": Amount = "512KB" in [1.0, 1e12], "buffer of a port of the others", "section VI.B"),
    ],
    defaults: &[&[
        ("protocol", "dctcp", "section VI.B"),
        ("queue", "threshold:k=32KB", "section VI.B; only the marking switch has it"),
        ("duration", "1000s", "not limiting: the run ends with its last query"),
        ("initial_window", "3", "Linux 2.6.38: three segments of 1460 B (RFC 3390)"),
        ("ect_syn", "true", "connections are open before the first query"),
    ]],
    profiles: &[
        paper("the paper's setting: 1 Gb/s, RTT 100 us, DCTCP"),
        leaf_25g(&[LINUX, FRAMES_1500, RATE_25G, DELAY, MARKS_25G, BUFFERS_25G]),
        leaf_100g(&[LINUX, FRAMES_9000, RATE_100G, DELAY, MARKS_100G, BUFFERS_100G]),
    ],
    derive: request_jitter,
    build,
};

const BUFFERS_25G: &[Default] = &[
    ("root_buffer", "256KB", "chosen: as incast's port"),
    ("leaf_buffer", "1MB", "chosen: four times the root's, as in the paper"),
];
const BUFFERS_100G: &[Default] = &[
    ("root_buffer", "512KB", "chosen: as incast's port"),
    ("leaf_buffer", "2MB", "chosen: four times the root's, as in the paper"),
];

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let (rate, delay) = (p.rate("link_rate"), p.dur("link_delay"));
    let root_link = c.link(rate, delay, Some((p, "root_buffer")))?;
    let leaf_link = LinkSpec { queue: drop_tail(), ..c.link(rate, delay, Some((p, "leaf_buffer")))? };

    let mut t = Topology::default();
    let root = t.switch("S1");
    let aggregator = t.host("aggregator");
    let (bottleneck, _) = t.connect(root, aggregator, &root_link);
    let mut hosts = Vec::new();
    for s in 0..p.count("switches") {
        let leaf = t.switch(format!("S{}", s + 2));
        // The root's port towards a leaf marks, the leaf's port towards the root does not.
        let (down, up) = t.connect(root, leaf, &root_link);
        t.links[up as usize].buffer = leaf_link.buffer;
        t.links[up as usize].queue = drop_tail();
        debug_assert_eq!(t.links[down as usize].from, root);
        for _ in 0..p.count("hosts") {
            let host = t.host(format!("worker{}", hosts.len()));
            t.connect(host, leaf, &leaf_link);
            hosts.push(host);
        }
    }

    let servers = p.count("servers");
    let bytes = |i: u64| match p.is_set("total").then(|| p.bytes("total").0) {
        // What does not divide goes to the first workers, a byte each.
        Some(total) => total / servers + u64::from(i < total % servers),
        None => p.bytes("response").0,
    };
    if bytes(servers - 1) == 0 {
        return Err(p.error("total", format!("must be at least one byte for each of the {servers} workers")));
    }
    if p.is_set("total") && p.is_given("response") {
        return Err(p.error("total", "cannot be given together with response"));
    }
    // Neighbouring workers at different switches, so that the load is even for every count.
    let host = |i: u64| hosts[spread(i, p.count("switches"), p.count("hosts")) as usize];
    let requests = Requests {
        spread: p.dur("jitter").as_secs(),
        block: c.on_wire((0..servers).map(|i| bytes(i) as f64).sum()),
        rate: p.float("link_rate"),
        buffer: bytes_of(p, "root_buffer"),
        drop_tail: c.queue.discipline() == "droptail",
    };
    let responses = (0..servers).map(|i| FlowRequest::new(host(i), aggregator, bytes(i))).collect();
    let plan = Plan {
        start: Time::ZERO,
        repetitions: p.count("repetitions"),
        jitter: p.dur("jitter"),
        mode: JitterMode::Independent,
        gap: Dur::ZERO,
        deadline: None,
        connections: match p.text("connections") {
            "persistent" => Connections::Together,
            _ => Connections::Fresh,
        },
        travel: requests_travel(p),
    };
    let queries = queries(responses, plan, Stream::new(id.seed, id.run, Entity::Workload, 0));
    let mut setup = c.setup(t, vec![queries], bottleneck, delay * 6, id);
    setup.notes = requests.notes("jitter", "root_buffer");
    Ok(setup)
}

/// Host of worker `i`: switch by switch, then host by host, then from the start.
fn spread(i: u64, switches: u64, hosts: u64) -> u64 {
    let slot = i % (switches * hosts);
    (slot % switches) * hosts + slot / switches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_spread_over_switches_first() {
        let placed: Vec<u64> = (0..10).map(|i| spread(i, 3, 3)).collect();
        assert_eq!(placed, [0, 3, 6, 1, 4, 7, 2, 5, 8, 0]);
    }
}
