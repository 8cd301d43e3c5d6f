//! TCP incast: synchronized reads from many servers through one switch port.
use super::prelude::*;

use crate::defaults::{bytes, request_jitter};
use crate::notes::Requests;
use crate::sharing::{most, SHARING};
use crate::topology::star;
use crate::workloads::query::{queries, Connections, JitterMode, Plan};

/// Incast.
pub const INCAST: Scenario = Scenario {
    name: "incast",
    text: "a client reads blocks striped over servers behind one switch; the next block is requested when the last is complete",
    source: "kulkarni-agrawal-incast Fig 3.7, Table 3.1",
    params: &[
        param!("servers": Count = "32" in [1.0, 100_000.0], "number of servers", "chosen"),
        param!("sru": Size = "256KB" in [1.0, 1e12], "bytes each server sends per block", "Table 3.1"),
        param!("link_rate": Rate = "1Gbps" in [1e3, 1e13], "rate of every link", "Table 3.1"),
        param!("link_delay": Duration = "50us" in [0.0, 1.0], "propagation delay of every link", "Table 3.1"),
        param!("buffer": Buffer = "32pkt" in [1.0, 1e12], "buffer of a switch port", "Table 3.1: 32 KB of 1 KB segments"),
        SHARING,
        param!("jitter": Duration = "" in [0.0, 10.0],
            "scheduling delay of requests, U(0, this); unset = the time of 2500 B on a link", "section 3.2: 20 us at 1 Gb/s"),
        param!("jitter_mode": Choice(&["cumulative", "independent"]) = "cumulative",
            "delays between consecutive requests, or of each request", "section 3.2: between every consecutive data request"),
        param!("blocks": Count = "" in [1.0, 1e12], "number of blocks after which the run ends; unset = at duration", ""),
    ],
    defaults: &[&[
        ("duration", "40s", "section 3.2: 40 s per trial"),
        ("segment", "1000B", "Table 3.1: 1 KB"),
        ("rwnd", "", "Table 3.1: 1000 packets; twice what path and buffer hold where that is more"),
        ("initial_window", "2", "ns-2 default"),
        ("rto_initial", "3s", "ns-2 default; RFC 1122"),
        ("window_validation", "false", "ns-2"),
        ("ssthresh_from", "cwnd", "ns-2"),
    ]],
    profiles: &[
        paper("the book's setting: 1 Gb/s, RTT 200 us, segments of 1 KB, NewReno"),
        leaf_25g(&[LINUX, CUBIC, FRAMES_1500, RATE_25G, DELAY, BUFFER_25G, OWN]),
        leaf_100g(&[LINUX, CUBIC, FRAMES_9000, RATE_100G, DELAY, BUFFER_100G, OWN]),
    ],
    derive,
    build,
};

const OWN: &[Default] = &[
    ("ssthresh_from", "flight", "not ns-2's; Linux's sender has its own rule"),
    ("duration", "10s", "chosen: 50 times the floor of the timeout"),
];

fn derive(p: &mut Params) {
    request_jitter(p);
    let held = p.float("link_rate") / 8.0 * p.float("link_delay") * 4.0 + bytes(p, "buffer");
    let packets = 1000.0 * p.float("segment");
    p.derive(
        "rwnd",
        packets.max(2.0 * held),
        "1000 segments, or twice what path and buffer hold where that is more",
    );
}

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let link = c.link(p.rate("link_rate"), p.dur("link_delay"), Some((p, "buffer")))?;
    let (topology, servers, client) = star(p.count("servers") as u32, &link);
    let switch = topology.find("switch").expect("a star has a switch");
    let bottleneck = topology.link_between(switch, client).expect("the client is connected");
    let sru = p.bytes("sru").0;
    let responses = servers.iter().map(|server| FlowRequest::new(*server, client, sru)).collect();
    let mode = match p.text("jitter_mode") {
        "independent" => JitterMode::Independent,
        _ => JitterMode::Cumulative,
    };
    if p.dur("jitter") == Dur::ZERO {
        p.no_effect("jitter_mode");
    }
    let servers_count = p.count("servers") as f64;
    let requests = Requests {
        // A sum of delays, or the largest of as many.
        spread: p.dur("jitter").as_secs()
            * if mode == JitterMode::Cumulative { servers_count / 2.0 } else { 1.0 },
        block: servers_count * c.on_wire(p.float("sru")),
        rate: p.float("link_rate"),
        buffer: most(p, c.fabric.shared),
        drop_tail: c.queue.discipline() == "droptail",
    };
    let blocks = if p.is_set("blocks") { p.count("blocks") } else { u64::MAX };
    let rng = Stream::new(id.seed, id.run, Entity::Workload, 0);
    let plan = Plan {
        start: Time::ZERO,
        repetitions: blocks,
        jitter: p.dur("jitter"),
        mode,
        gap: Dur::ZERO,
        deadline: None,
        connections: Connections::OnDemand,
        travel: requests_travel(p),
    };
    let mut setup =
        c.setup(topology, vec![queries(responses, plan, rng)], bottleneck, p.dur("link_delay") * 4, id);
    setup.notes = requests.notes("jitter", "buffer");
    Ok(setup)
}
