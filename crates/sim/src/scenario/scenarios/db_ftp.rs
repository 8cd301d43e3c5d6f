//! Two databases and file transfers over one link between two routers with shared buffers.
use super::prelude::*;

use crate::setup::{Collective, Pool};
use crate::workloads::applications::{database, file_transfers, Active, FileLoad, Uniform};
use crate::workloads::open::check_arrivals;
use penstock_models::queues::shared_buffer::{dscp, SharedBuffer};

/// The databases and the interfering file transfers.
pub const DB_FTP: Scenario = Scenario {
    name: "db-ftp",
    text:
        "two databases on permanent connections, disturbed by file transfers on the link between two routers",
    source: "kant-cbc Fig 2, section 4.1",
    params: &[
        param!("link_rate": Rate = "10Mbps" in [1e3, 1e13], "rate of every link", "section 4.1"),
        param!("link_delay": Duration = "10us" in [0.0, 1.0], "propagation delay of every link", "chosen: 2 km; OPNET's default is not given"),
        param!("db1": Rate = "4.8Mbps" in [1.0, 1e13], "response traffic of database 1", "section 4.1"),
        param!("db2": Rate = "2.4Mbps" in [1.0, 1e13], "response traffic of database 2", "section 4.1"),
        param!("db_min": Size = "8KB" in [1.0, 1e12], "smallest response", "section 4.1"),
        param!("db_max": Size = "16KB" in [1.0, 1e12], "largest response", "section 4.1"),
        param!("db_start": Duration = "5s", "requests start", "section 4.1"),
        param!("db_stop": Duration = "1000000s", "requests stop", "section 4.1: always on"),
        param!("db_per_connection": Count = "" in [1.0, 1e12], "responses per connection; unset = permanent", "section 4.1: permanent"),
        param!("db_class": Text = "af21", "DSCP of the databases", "section 4.1"),
        param!("ftp": Rate = "8Mbps" in [1.0, 1e13], "offered file traffic, gets and puts together", "section 4.1: 2, 4 or 8 Mb/s"),
        param!("ftp_gets": Float = "0.5" in [0.0, 1.0],
            "fraction of the files that are gets (through the congested direction)", "section 4.1: 50-50"),
        param!("ftp_streams": Count = "25" in [1.0, 1e5], "parallel streams", "section 4.1"),
        param!("ftp_min": Size = "5KB" in [1.0, 1e12], "smallest file", "section 4.1"),
        param!("ftp_max": Size = "35KB" in [1.0, 1e12], "largest file", "section 4.1"),
        param!("ftp_start": Duration = "30s", "file requests start", "section 4.1"),
        param!("ftp_stop": Duration = "90s", "file requests stop", "section 4.1: 60 s later"),
        param!("ftp_class": Text = "af31", "DSCP of the file transfers", "section 4.1"),
        param!("overhead": Float = "0.04" in [0.0, 10.0],
            "application bytes per payload byte on top", "chosen: with headers and framing about 10 % (section 4.1)"),
        param!("limits": Text = "af31=120,af21=60", "packets per class in a router's shared buffer (L_max), full size", "section 4.1"),
        param!("queues": Choice(&["half", "full", "double"]) = "full", "size of the limits", "section 4.1; double: section 4.3"),
        param!("red_min": Float = "0.5" in [0.0, 1.0], "L_min as a fraction of L_max", "section 4.1"),
        param!("red_drop": Float = "0.1" in [0.0, 1.0], "drop probability above L_min (P_D)", "section 4.1"),
        param!("control": Text = "none",
            "collective control of the databases: none, or NAME:key=value,...", "section 4.1: TCPv3 is none, TCPv4 is cbc"),
    ],
    defaults: &[&[
        ("duration", "130s", "40 s after the file transfers stop"),
        ("warmup", "10s", "chosen: estimates have settled"),
        ("framing", "ethernet", "section 4.1: Ethernet"),
        ("rwnd", "64KB", "section 4.1"),
        ("initial_window", "2", "RFC 2581, the standard of the paper's time"),
        ("rto_min", "50ms", "chosen: \"timers were reduced to correspond to data center environment\""),
        ("rto_initial", "200ms", "chosen: as rto_min"),
        ("delayed_ack", "2", "RFC 1122"),
        (
            "delayed_ack_timeout",
            "2ms",
            "chosen: longer than a segment takes (1.23 ms), short beside the base RTT of about 5 ms",
        ),
        ("limited_transmit", "false", "not in the paper's simulator"),
        ("sample", "100ms", "chosen"),
        ("series", "true", "the figures are time series"),
    ]],
    profiles: &[
        paper("the paper's setting: 10 Mb/s, NewReno"),
        hosts_25g(&[LINUX, CUBIC, FRAMES_1500, SLOW]),
        hosts_100g(&[LINUX, CUBIC, FRAMES_9000, SLOW]),
    ],
    derive: |_| {},
    build,
};

/// A template of connections from `src` to `dst`.
pub(super) fn connection(src: u32, dst: u32, class: u8) -> FlowRequest {
    FlowRequest { src, dst, protocol: 0, class, bytes: 0, close: false, due: Time::NEVER, tag: 0 }
}

/// Sizes from two keys.
pub(super) fn sizes(p: &Params, min: &str, max: &str, overhead: f64) -> Result<Uniform, ParamError> {
    bail_if!(p.bytes(max) < p.bytes(min), p.error(max, format!("must not be below {min}")));
    let with = |key: &str| (p.bytes(key).0 as f64 * (1.0 + overhead)) as u64;
    Ok(Uniform { min: with(min), max: with(max) })
}

/// Requests of `bps` bit/s in all until the end of the run must not be too many.
pub(super) fn check_requests(
    p: &Params,
    c: &Common,
    key: &str,
    bps: f64,
    sizes: Uniform,
) -> Result<(), ParamError> {
    check_arrivals(bps / 8.0 / sizes.mean(), c.duration, Dur::ZERO, u64::MAX)
        .map_err(|rule| p.error(key, rule))
}

pub(super) fn active(p: &Params, start: &str, stop: &str) -> Result<Active, ParamError> {
    bail_if!(p.dur(stop) <= p.dur(start), p.error(stop, format!("must be after {start}")));
    Ok(Active { start: Time::ZERO + p.dur(start), stop: Time::ZERO + p.dur(stop) })
}

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let link = c.link(p.rate("link_rate"), p.dur("link_delay"), None)?;
    let mut t = Topology::default();
    let [router1, router2] = ["router1", "router2"].map(|name| t.switch(name));
    let [client1, client2, client3] = ["client1", "client2", "client3"].map(|name| t.host(name));
    let [server1, server2] = ["server1", "server2"].map(|name| t.host(name));
    for client in [client1, client2, client3] {
        t.connect(client, router1, &link);
    }
    for server in [server1, server2] {
        t.connect(server, router2, &link);
    }
    let (bottleneck, _) = t.connect(router2, router1, &link);

    let overhead = p.float("overhead");
    let (db_class, ftp_class) =
        (dscp("db_class", p.text("db_class"))?, dscp("ftp_class", p.text("ftp_class"))?);
    let db_sizes = sizes(p, "db_min", "db_max", overhead)?;
    let db_active = active(p, "db_start", "db_stop")?;
    let per_connection = p.is_set("db_per_connection").then(|| p.count("db_per_connection"));
    let stream = |i| Stream::new(id.seed, id.run, Entity::Workload, i);
    let database = |i: u64, client: u32, key: &str| {
        let bps = p.float(key) * (1.0 + overhead);
        let template = connection(server1, client, db_class);
        database(template, db_sizes, bps, db_active, per_connection, stream(i))
    };
    let load = FileLoad {
        travel: requests_travel(p),
        bps: p.float("ftp") * (1.0 + overhead),
        gets: p.float("ftp_gets"),
        sizes: sizes(p, "ftp_min", "ftp_max", overhead)?,
        streams: p.count("ftp_streams"),
    };
    for key in ["db1", "db2"] {
        check_requests(p, c, key, p.float(key), db_sizes)?;
    }
    check_requests(p, c, "ftp", load.bps, load.sizes)?;
    let files = file_transfers(
        connection(server2, client3, ftp_class),
        connection(client3, server2, ftp_class),
        load,
        active(p, "ftp_start", "ftp_stop")?,
        stream(2),
    );
    let workloads = vec![database(0, client1, "db1"), database(1, client2, "db2"), files];

    let scale = match p.text("queues") {
        "half" => 0.5,
        "double" => 2.0,
        _ => 1.0,
    };
    let rule =
        SharedBuffer::parse("limits", p.text("limits"), scale, p.float("red_min"), p.float("red_drop"))?;
    let router2_ports = t.ports_of(router2);
    let mut setup = c.setup(t, workloads, bottleneck, p.dur("link_delay") * 6, id);
    setup.pools = [router1, router2].map(|node| Pool { node, rule: rule.clone() }).into();
    if let Some(controller) = c.registry.host_controller("control", p.text("control"))? {
        setup.collectives.push(Collective { controller, workloads: vec![0, 1] });
    }
    setup.recorder.sampled_ports = router2_ports;
    setup.recorder.keep_first(2);
    setup.recorder.by_destination = true;
    Ok(setup)
}
