//! Long flows through one bottleneck.
use super::prelude::*;

use crate::defaults::start_spread;
use crate::topology::star;
use crate::workloads::flows::flow_list;

/// Long flows.
pub const LONG_FLOWS: Scenario = Scenario {
    name: "long-flows",
    text: "endless flows from as many hosts share one switch port",
    source: "munir-sdc-racs section 3.5.1; dt-dctcp section VI",
    params: &[
        param!("flows": Count = "2" in [1.0, 100_000.0], "number of flows", "chosen"),
        param!("link_rate": Rate = "1Gbps" in [1e3, 1e13], "rate of the bottleneck", "munir-sdc-racs section 3.5"),
        param!("access_rate": Rate = "" in [1e3, 1e13], "rate of the senders' links; unset = the bottleneck's", ""),
        param!("rtt": Duration = "300us" in [0.0, 4.0], "round-trip propagation time", "munir-sdc-racs section 3.5"),
        param!("buffer": Buffer = "100pkt" in [1.0, 1e12], "buffer of a switch port", "munir-sdc-racs section 3.5"),
        param!("start_spread": Duration = "" in [0.0, 1e3],
            "flows start at U(0, this); unset = 10/3 of rtt", "chosen: no two start together; 1 ms at 300 us"),
    ],
    defaults: &[&[
        ("warmup", "2s", "chosen: slow start is over"),
        ("rto_min", "10ms", "munir-sdc-racs section 3.5.1"),
    ]],
    profiles: &[
        paper("the thesis's setting: 1 Gb/s, RTT 300 us, NewReno"),
        leaf_25g(&[LINUX, CUBIC, FRAMES_1500, RATE_25G, RTT, BUFFER_25G, OWN]),
        leaf_100g(&[LINUX, CUBIC, FRAMES_9000, RATE_100G, RTT, BUFFER_100G, OWN]),
    ],
    derive: |p| start_spread(p, p.float("rtt")),
    build,
};

const OWN: &[Default] = &[
    ("warmup", "500ms", "chosen: slow start and the timeouts in it are over"),
    ("duration", "2500ms", "chosen: 10 timeouts after the warm-up"),
];

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let (rate, delay) = (p.rate("link_rate"), p.dur("rtt") / 4);
    let link = c.link(rate, delay, Some((p, "buffer")))?;
    let (mut topology, senders, client) = star(p.count("flows") as u32, &link);
    if p.is_set("access_rate") {
        let access: Rate = p.rate("access_rate");
        for l in topology.links.iter_mut().filter(|l| l.from != client && l.to != client) {
            l.rate = access;
        }
    }
    let switch = topology.find("switch").expect("a star has a switch");
    let bottleneck = topology.link_between(switch, client).expect("the client is connected");
    let mut rng = Stream::new(id.seed, id.run, Entity::Workload, 0);
    let flows = senders
        .iter()
        .map(|s| {
            let start = Time::ZERO + rng.dur_below(p.dur("start_spread"));
            let request = FlowRequest {
                src: *s,
                dst: client,
                protocol: 0,
                class: 0,
                bytes: u64::MAX,
                close: false,
                due: Time::NEVER,
                tag: 0,
            };
            (start, request)
        })
        .collect();
    Ok(c.setup(topology, vec![flow_list(flows)], bottleneck, p.dur("rtt"), id))
}
