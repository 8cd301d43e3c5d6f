//! TCP incast: synchronized reads from many servers through one switch port.

use crate::engine::Setup;
use crate::scenario::{Common, RunId, Scenario};
use crate::topology::star;
use crate::workloads::block::{JitterMode, SynchronizedReads};
use crate::workloads::FlowRequest;
use penstock_core::rng::Entity;
use penstock_core::{Kind, ParamError, ParamSpec, Params, Stream};
use penstock_units::{Dur, Time};

/// Incast.
pub const INCAST: Scenario = Scenario {
    name: "incast",
    text: "a client reads blocks striped over servers behind one switch; the next block is requested when the last is complete",
    source: "kulkarni-agrawal-incast Fig 3.7, Table 3.1",
    params: &[
        ParamSpec::new("servers", Kind::Count, "32", "number of servers", "chosen").range(1.0, 100_000.0),
        ParamSpec::new("sru", Kind::Size, "256KB", "bytes each server sends per block", "Table 3.1").range(1.0, 1e12),
        ParamSpec::new("link_rate", Kind::Rate, "1Gbps", "rate of every link", "Table 3.1").range(1e3, 1e13),
        ParamSpec::new("link_delay", Kind::Duration, "50us", "propagation delay of every link", "Table 3.1").range(0.0, 1.0),
        ParamSpec::new("buffer", Kind::Amount, "32pkt", "buffer of a switch port", "Table 3.1: 32 KB of 1 KB segments").range(1.0, 1e12),
        ParamSpec::new("jitter", Kind::Duration, "20us", "scheduling delay of requests, U(0, this)", "section 3.2").range(0.0, 10.0),
        ParamSpec::new("jitter_mode", Kind::Choice(&["cumulative", "independent"]), "cumulative", "delays between consecutive requests, or of each request", "section 3.2: between every consecutive data request"),
        ParamSpec::new("blocks", Kind::Count, "", "stop after so many blocks; unset = at duration", "").range(1.0, 1e12),
    ],
    defaults: &[
        ("duration", "40s", "section 3.2: 40 s per trial"),
        ("segment", "1000B", "Table 3.1: 1 KB"),
        ("rwnd", "1000pkt", "Table 3.1"),
        ("initial_window", "2", "ns-2 default"),
        ("rto_initial", "3s", "ns-2 default; RFC 1122"),
        ("window_validation", "false", "ns-2"),
        ("ssthresh_from", "cwnd", "ns-2"),
    ],
    build,
};

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let link = c.link(p.rate("link_rate"), p.dur("link_delay"), Some((p, "buffer")))?;
    let (topology, servers, client) = star(p.count("servers") as u32, &link);
    let switch = topology.find("switch").expect("a star has a switch");
    let bottleneck = topology.link_between(switch, client).expect("the client is connected");
    let connections = servers
        .iter()
        .map(|s| FlowRequest {
            src: *s,
            dst: client,
            protocol: 0,
            class: 0,
            bytes: 0,
            close: false,
            due: Time::NEVER,
            tag: 0,
        })
        .collect();
    let mode = match p.text("jitter_mode") {
        "independent" => JitterMode::Independent,
        _ => JitterMode::Cumulative,
    };
    if p.dur("jitter") == Dur::ZERO {
        p.no_effect("jitter_mode");
    }
    let blocks = if p.is_set("blocks") { p.count("blocks") } else { u64::MAX };
    let rng = Stream::new(id.seed, id.run, Entity::Workload, 0);
    let reads = SynchronizedReads::new(connections, p.bytes("sru").0, p.dur("jitter"), mode, blocks, rng);
    Ok(c.setup(topology, vec![Box::new(reads)], bottleneck, p.dur("link_delay") * 4, id))
}
