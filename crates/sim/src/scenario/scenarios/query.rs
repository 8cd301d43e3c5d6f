//! Queries: one client asks many servers at once.
use super::prelude::*;

use crate::defaults::request_jitter;
use crate::notes::Requests;
use crate::sharing::{most, SHARING};
use crate::topology::star;
use crate::workloads::query::{queries, Connections, JitterMode, Plan};

/// Query.
pub const QUERY: Scenario = Scenario {
    name: "query",
    text:
        "a client asks every server for a response; the next query follows when the last response is complete",
    source: "munir-sdc-racs section 3.5.2, incast scenario",
    params: &[
        param!("servers": Count = "20" in [1.0, 100_000.0], "number of servers", "chosen"),
        param!("response": Size = "25KB" in [1.0, 1e12], "bytes each server answers with", "section 3.5.2"),
        param!("total": Size = "" in [1.0, 1e12], "bytes of all responses together, split evenly over the servers; instead of response", ""),
        param!("repetitions": Count = "500" in [1.0, 1e9], "number of queries", "section 3.5.2"),
        param!("connections": Choice(&["fresh", "persistent"]) = "fresh",
            "a connection per response, or one per server for all queries", "section 3.5.2 counts each response as a flow"),
        param!("gap": Duration = "0s" in [0.0, 1e4], "pause between two queries", "chosen"),
        param!("jitter": Duration = "" in [0.0, 10.0],
            "each server answers after U(0, this); unset = the time of 2500 B on a link", "kulkarni-agrawal-incast section 3.2: 20 us at 1 Gb/s"),
        param!("deadline": Duration = "" in [1e-6, 1e4], "deadline of a response, from its begin (fresh connections); unset = no deadline", ""),
        param!("link_rate": Rate = "1Gbps" in [1e3, 1e13], "rate of every link", "section 3.5"),
        param!("link_delay": Duration = "75us" in [0.0, 1.0],
            "propagation delay of every link; the round trip is four of them", "section 3.5: 300 us"),
        param!("buffer": Buffer = "100pkt" in [1.0, 1e12], "buffer of a switch port", "section 3.5"),
        SHARING,
    ],
    defaults: &[&[
        ("duration", "600s", "chosen: the run ends with the last query"),
        ("rto_min", "10ms", "munir-sdc-racs section 3.5.2"),
        ("initial_window", "2", "ns-2"),
    ]],
    profiles: &[
        paper("the thesis's setting: 1 Gb/s, RTT 300 us, NewReno"),
        leaf_25g(&[LINUX, CUBIC, FRAMES_1500, RATE_25G, DELAY, BUFFER_25G]),
        leaf_100g(&[LINUX, CUBIC, FRAMES_9000, RATE_100G, DELAY, BUFFER_100G]),
    ],
    derive: request_jitter,
    build,
};

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let link = c.link(p.rate("link_rate"), p.dur("link_delay"), Some((p, "buffer")))?;
    let (topology, servers, client) = star(p.count("servers") as u32, &link);
    let switch = topology.find("switch").expect("a star has a switch");
    let bottleneck = topology.link_between(switch, client).expect("the client is connected");
    let n = servers.len() as u64;
    let bytes: Box<dyn Fn(u64) -> u64> = if p.is_set("total") {
        bail_if!(p.is_given("response"), p.error("total", "cannot be given together with response"));
        let total = p.bytes("total").0;
        if total < n {
            return Err(p.error("total", format!("must be at least one byte for each of the {n} servers")));
        }
        // What does not divide goes to the first servers, a byte each.
        Box::new(move |i| total / n + u64::from(i < total % n))
    } else {
        let response = p.bytes("response").0;
        Box::new(move |_| response)
    };
    let persistent = p.text("connections") == "persistent";
    bail_if!(persistent && p.is_set("deadline"), p.error("deadline", "needs connections=fresh"));
    let requests = Requests {
        spread: p.dur("jitter").as_secs(),
        block: c.on_wire((0..n).map(|i| bytes(i) as f64).sum()),
        rate: p.float("link_rate"),
        buffer: most(p, c.fabric.shared),
        drop_tail: c.queue.discipline() == "droptail",
    };
    let responses = servers.iter().zip(0..).map(|(s, i)| FlowRequest::new(*s, client, bytes(i))).collect();
    let plan = Plan {
        start: Time::ZERO,
        repetitions: p.count("repetitions"),
        jitter: p.dur("jitter"),
        mode: JitterMode::Independent,
        gap: p.dur("gap"),
        deadline: p.is_set("deadline").then(|| p.dur("deadline")),
        connections: if persistent { Connections::Together } else { Connections::Fresh },
        travel: requests_travel(p),
    };
    let rng = Stream::new(id.seed, id.run, Entity::Workload, 0);
    let queries = queries(responses, plan, rng);
    let mut setup = c.setup(topology, vec![queries], bottleneck, p.dur("link_delay") * 4, id);
    setup.notes = requests.notes("jitter", "buffer");
    Ok(setup)
}
