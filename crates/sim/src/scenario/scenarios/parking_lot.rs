//! A chain of bottlenecks with flows over any stretch of it.
use super::prelude::*;

use super::bottleneck::{endless, outer, with_interval, BUFFER, DEFAULTS, INTERVAL, SAMPLED};
use crate::workloads::flows::flow_list;

/// Parking lot.
pub const PARKING_LOT: Scenario = Scenario {
    name: "parking-lot",
    text: "a chain of links and flows over stretches of it: several bottlenecks, max-min shares",
    source: "PIQI-RCP Fig 14, 15",
    params: &[
        param!("hops": Text = "970Mbps,800Mbps", "rates of the links of the chain, comma-separated", "PIQI-RCP section V"),
        param!("flows": Text = "1-2@0s,1-1@15s,2-2@30s",
            "flows, comma-separated: first and last link (counted from 1) and start, FIRST-LAST@START", "PIQI-RCP section V"),
        param!("delay": Duration = "50ms" in [0.0, 1.0], "one-way delay of each link of the chain", "PIQI-RCP section V"),
        param!("access_delay": Duration = "1ms" in [0.0, 1.0], "one-way delay of a host's link", "chosen"),
        BUFFER,
        INTERVAL,
    ],
    defaults: &[
        DEFAULTS,
        SAMPLED,
        &[("duration", "60s", "chosen"), ("warmup", "50s", "chosen: the last join is over")],
    ],
    profiles: &[
        paper("the paper's setting: 970 and 800 Mb/s, 50 ms a link, RCP"),
        leaf_25g(&[LINUX, CUBIC, FRAMES_1500, BUFFER_25G, OWN, CHAIN_25G]),
        leaf_100g(&[LINUX, CUBIC, FRAMES_9000, BUFFER_100G, OWN, CHAIN_100G]),
    ],
    derive: |_| {},
    build,
};

const OWN: &[Default] = &[
    ("flows", "1-2@0s,1-1@500ms,2-2@1s", "chosen: each has filled its links when the next comes"),
    ("delay", "2us", "chosen: RTT 12 us over the whole chain"),
    ("access_delay", "1us", "chosen: RTT 12 us over the whole chain"),
    ("warmup", "2s", "chosen: the last join is over"),
    ("duration", "4s", "chosen: 10 timeouts after the warm-up"),
    ("sample", "5ms", "chosen"),
];
const CHAIN_25G: &[Default] = &[("hops", "25Gbps,20Gbps", "the ratio of the paper's links")];
const CHAIN_100G: &[Default] = &[("hops", "100Gbps,80Gbps", "the ratio of the paper's links")];

const ITEM: &[ParamSpec] = &[
    param!("rate": Rate = "1bps" in [1e3, 1e13], "rate of a link", ""),
    param!("first": Count = "1" in [1.0, 1000.0], "first link of a flow", ""),
    param!("last": Count = "1" in [1.0, 1000.0], "last link of a flow", ""),
    param!("start": Duration = "0s" in [0.0, 1e6], "start of a flow", ""),
];

/// One item of a list, by the rules of a parameter.
fn item(key: &str, text: &str, fields: &[(&str, &str)]) -> Result<Params, ParamError> {
    let given: Vec<(String, String)> =
        fields.iter().map(|(k, v)| ((*k).to_owned(), v.trim().to_owned())).collect();
    let specs: Vec<ParamSpec> =
        ITEM.iter().copied().filter(|s| fields.iter().any(|f| f.0 == s.name)).collect();
    let specs: Vec<ParamSpec> = specs.into_iter().map(|s| ParamSpec { default: "", ..s }).collect();
    Params::parse("list", &specs, &given).map_err(|e| ParamError::new(key, text, e.rule))
}

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let c = with_interval(p, c)?;
    let buffer = p.is_set("buffer").then_some((p, "buffer"));
    let rates: Vec<Rate> = p
        .text("hops")
        .split(',')
        .map(|t| Ok(item("hops", t, &[("rate", t)])?.rate("rate")))
        .collect::<Result<_, ParamError>>()?;
    let mut t = Topology::default();
    let switches: Vec<u32> = (0..=rates.len()).map(|i| t.switch(format!("s{i}"))).collect();
    let mut ports = Vec::new();
    for (i, rate) in rates.iter().enumerate() {
        ports.push(t.connect(switches[i], switches[i + 1], &c.link(*rate, p.dur("delay"), buffer)?).0);
    }
    // Outer links are never the bottleneck.
    let access = outer(Rate(rates.iter().map(|r| r.0).max().unwrap_or(1) * 10), p.dur("access_delay"));
    let mut flows = Vec::new();
    let mut longest = Dur::ZERO;
    let mut shortest = Dur::MAX;
    for (i, text) in p.text("flows").split(',').enumerate() {
        let bad = || ParamError::new("flows", text, "must be FIRST-LAST@START, for example 1-2@15s");
        let (stretch, start) = text.split_once('@').ok_or_else(bad)?;
        let (first, last) = stretch.split_once('-').ok_or_else(bad)?;
        let f = item("flows", text, &[("first", first), ("last", last), ("start", start)])?;
        let (first, last) = (f.count("first") as usize, f.count("last") as usize);
        if first > last || last > rates.len() {
            let rule = format!("the chain has links 1 to {}, first before last", rates.len());
            return Err(ParamError::new("flows", text, rule));
        }
        let (src, dst) = (t.host(format!("x{}-from", i + 1)), t.host(format!("x{}-to", i + 1)));
        t.connect(src, switches[first - 1], &access);
        t.connect(switches[last], dst, &access);
        flows.push((Time::ZERO + f.dur("start"), endless(src, dst)));
        let rtt = (p.dur("delay") * (last - first + 1) as u64 + p.dur("access_delay") * 2) * 2;
        (longest, shortest) = (longest.max(rtt), shortest.min(rtt));
    }
    if longest >= c.duration {
        return Err(p.error("duration", format!("must be longer than the longest round trip ({longest})")));
    }
    let mut setup = c.setup(t, vec![flow_list(flows)], ports[0], shortest, id);
    setup.recorder.sampled_ports = ports;
    Ok(setup)
}
