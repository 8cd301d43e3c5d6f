//! TCP incast: synchronized reads from many servers through one switch port.

use crate::defaults::{bytes, request_jitter};
use crate::notes::Requests;
use crate::scenario::{Common, Profile, RunId, Scenario};
use crate::setup::Setup;
use crate::sharing::{most, SHARING};
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
        ParamSpec::new("profile", Kind::Choice(&["paper", "25g", "100g"]), "paper", "named set of defaults; a key that is given beats it", "Table 3.1"),
        ParamSpec::new("servers", Kind::Count, "32", "number of servers", "chosen").range(1.0, 100_000.0),
        ParamSpec::new("sru", Kind::Size, "256KB", "bytes each server sends per block", "Table 3.1").range(1.0, 1e12),
        ParamSpec::new("link_rate", Kind::Rate, "1Gbps", "rate of every link", "Table 3.1").range(1e3, 1e13),
        ParamSpec::new("link_delay", Kind::Duration, "50us", "propagation delay of every link", "Table 3.1").range(0.0, 1.0),
        ParamSpec::new("buffer", Kind::Buffer, "32pkt", "buffer of a switch port", "Table 3.1: 32 KB of 1 KB segments").range(1.0, 1e12),
        SHARING,
        ParamSpec::new("jitter", Kind::Duration, "", "scheduling delay of requests, U(0, this); unset = the time of 2500 B on a link", "section 3.2: 20 us at 1 Gb/s").range(0.0, 10.0),
        ParamSpec::new("jitter_mode", Kind::Choice(&["cumulative", "independent"]), "cumulative", "delays between consecutive requests, or of each request", "section 3.2: between every consecutive data request"),
        ParamSpec::new("blocks", Kind::Count, "", "stop after so many blocks; unset = at duration", "").range(1.0, 1e12),
    ],
    defaults: &[
        ("duration", "40s", "section 3.2: 40 s per trial"),
        ("segment", "1000B", "Table 3.1: 1 KB"),
        ("rwnd", "", "Table 3.1: 1000 packets; twice what path and buffer hold where that is more"),
        ("initial_window", "2", "ns-2 default"),
        ("rto_initial", "3s", "ns-2 default; RFC 1122"),
        ("window_validation", "false", "ns-2"),
        ("ssthresh_from", "cwnd", "ns-2"),
    ],
    profiles: &[
        Profile { name: "paper", text: "the book's setting: 1 Gb/s, RTT 200 us, segments of 1 KB, NewReno", values: &[] },
        Profile {
            name: "25g",
            text: "hosts of today under a 25 Gb/s leaf switch: MTU 1500, RTT 12 us, Linux's TCP",
            values: LEAF_25G,
        },
        Profile {
            name: "100g",
            text: "hosts of today under a 100 Gb/s leaf switch: MTU 9000, RTT 12 us, Linux's TCP",
            values: LEAF_100G,
        },
    ],
    derive,
    build,
};

const LINK_DELAY: (&str, &str, &str) = (
    "link_delay",
    "3us",
    "chosen: RTT 12 us, most of it in the hosts' stacks and adapters; 10 to 20 us are common",
);

const LEAF_25G: &[(&str, &str, &str)] = &[
    ("link_rate", "25Gbps", "IEEE 802.3by, the usual port of a host"),
    LINK_DELAY,
    ("buffer", "256KB", "chosen: an equal share, 10 KB per Gb/s (32 MB for 3.2 Tb/s, from memory); sharing may give a port more"),
    ("segment", "1448B", "MTU 1500 less 40 B of headers and 12 B of timestamps"),
    LINUX[0], LINUX[1], LINUX[2], LINUX[3], LINUX[4], LINUX[5], LINUX[6], LINUX[7], LINUX[8], LINUX[9], LINUX[10], LINUX[11],
];

const LEAF_100G: &[(&str, &str, &str)] = &[
    ("link_rate", "100Gbps", "IEEE 802.3bj"),
    LINK_DELAY,
    ("buffer", "512KB", "chosen: an equal share, 5 KB per Gb/s (64 MB for 12.8 Tb/s, from memory); sharing may give a port more"),
    ("segment", "8948B", "MTU 9000 less 40 B of headers and 12 B of timestamps"),
    LINUX[0], LINUX[1], LINUX[2], LINUX[3], LINUX[4], LINUX[5], LINUX[6], LINUX[7], LINUX[8], LINUX[9], LINUX[10], LINUX[11],
];

/// What Linux does, where the book's ns-2 does otherwise or says nothing.
const LINUX: [(&str, &str, &str); 12] = [
    ("protocol", "cubic", "Linux's default"),
    ("timestamps", "true", "Linux's default (RFC 7323)"),
    ("framing", "ethernet", "IEEE 802.3"),
    ("initial_window", "10", "RFC 6928, Linux"),
    ("rto_min", "200ms", "Linux TCP_RTO_MIN"),
    ("rto_initial", "1s", "Linux TCP_TIMEOUT_INIT, RFC 6298"),
    ("delayed_ack", "2", "RFC 5681 section 4.2, Linux"),
    ("quick_acks", "16", "Linux TCP_MAX_QUICKACKS"),
    ("byte_counting", "true", "Linux"),
    ("window_validation", "true", "Linux tcp_is_cwnd_limited"),
    ("tail_loss_probe", "true", "RFC 8985, Linux's default"),
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
    let reads = SynchronizedReads::new(connections, p.bytes("sru").0, p.dur("jitter"), mode, blocks, rng);
    let mut setup = c.setup(topology, vec![Box::new(reads)], bottleneck, p.dur("link_delay") * 4, id);
    setup.notes = requests.notes("jitter", "buffer");
    Ok(setup)
}
