//! A network in which the four ways to find a control set give four answers.
//!
//! One server feeds five connections; two links may be congested, each by its own file transfers:
//!
//! ```text
//!  server, files ── core ═══ A ═══ edge1 ── host1 (connections 1, 2), host2 (connection 3)
//!                     │               └──── edge3 ── host3 (connection 4)
//!                     ╚═════ B ═══ edge2 ── host4 (connection 5)
//! ```
//!
//! Link A concerns connections 1 to 4: the destination rule misses 3 and 4, the destination-router rule misses 4.
//! Link B concerns connection 5 alone, which the performance rule throws together with the others.
use super::prelude::*;

use super::db_ftp::{active, check_requests, connection, sizes};
use crate::setup::Collective;
use crate::workloads::applications::{database, file_transfers, FileLoad};

/// Four ways to find a control set.
pub const CONTROL_SETS: Scenario = Scenario {
    name: "control-sets",
    text: "five database connections of one server and two congested links: which connections are controlled together?",
    source: "kant-cbc section 3.1; the network is this project's",
    params: &[
        param!("link_rate": Rate = "10Mbps" in [1e3, 1e12], "rate of links A and B; the others are ten times as fast", "kant-cbc section 4.1"),
        param!("link_delay": Duration = "2ms" in [0.0, 1.0],
            "propagation delay of every link", "chosen: RTT 16 to 20 ms, so that bursts alone are no congestion"),
        param!("buffer": Buffer = "60pkt" in [1.0, 1e12], "buffer of a switch port", "kant-cbc section 4.1: AF21, full"),
        param!("db": Rate = "1Mbps" in [1.0, 1e12], "response traffic of connections 2, 3 and 4; 1 and 5 have twice as much", "chosen"),
        param!("db_min": Size = "8KB" in [1.0, 1e12], "smallest response", "kant-cbc section 4.1"),
        param!("db_max": Size = "16KB" in [1.0, 1e12], "largest response", "kant-cbc section 4.1"),
        param!("db_start": Duration = "1s", "requests start", "chosen"),
        param!("db_stop": Duration = "1000000s", "requests stop", "always on"),
        param!("ftp": Rate = "8Mbps" in [1.0, 1e12], "files offered over each link", "kant-cbc section 4.1"),
        param!("ftp_streams": Count = "25" in [1.0, 1e5], "parallel streams", "kant-cbc section 4.1"),
        param!("ftp_min": Size = "5KB" in [1.0, 1e12], "smallest file", "kant-cbc section 4.1"),
        param!("ftp_max": Size = "35KB" in [1.0, 1e12], "largest file", "kant-cbc section 4.1"),
        param!("a_start": Duration = "20s", "files over link A start", "chosen"),
        param!("a_stop": Duration = "60s", "files over link A stop", "chosen"),
        param!("b_start": Duration = "40s", "files over link B start", "chosen: 20 s of A alone, of both, of B alone"),
        param!("b_stop": Duration = "80s", "files over link B stop", "chosen"),
        param!("control": Text = "cbc", "collective control of the server: none, or NAME:key=value,...", "kant-cbc section 3"),
    ],
    defaults: &[&[
        ("duration", "90s", "10 s after the last files"),
        ("framing", "ethernet", "kant-cbc section 4.1"),
        ("rwnd", "64KB", "kant-cbc section 4.1"),
        ("initial_window", "2", "RFC 2581, as in db-ftp"),
        ("rto_min", "50ms", "as in db-ftp"),
        ("rto_initial", "200ms", "as in db-ftp"),
        ("delayed_ack", "1", "chosen: every mark is echoed with its label"),
        ("sample", "100ms", "as in db-ftp"),
        ("series", "true", "as in db-ftp"),
    ]],
    profiles: &[
        paper("10 Mb/s, NewReno, as in db-ftp"),
        hosts_25g(&[LINUX, CUBIC, FRAMES_1500, SLOW]),
        hosts_100g(&[LINUX, CUBIC, FRAMES_9000, SLOW]),
    ],
    derive: |_| {},
    build,
};

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let narrow = c.link(p.rate("link_rate"), p.dur("link_delay"), Some((p, "buffer")))?;
    let wide = LinkSpec { rate: p.rate("link_rate") * 10, ..narrow.clone() };
    let mut t = Topology::default();
    let [core, edge1, edge2, edge3] = ["core", "edge1", "edge2", "edge3"].map(|name| t.switch(name));
    let [server, files] = ["server", "files"].map(|name| t.host(name));
    let [host1, host2, host3, host4] = ["host1", "host2", "host3", "host4"].map(|name| t.host(name));
    let [sink_a, sink_b] = ["sink-a", "sink-b"].map(|name| t.host(name));
    let (link_a, _) = t.connect(core, edge1, &narrow);
    let (link_b, _) = t.connect(core, edge2, &narrow);
    let outer = [
        (server, core),
        (files, core),
        (host1, edge1),
        (host2, edge1),
        (edge3, edge1),
        (host3, edge3),
        (host4, edge2),
        (sink_a, edge1),
        (sink_b, edge2),
    ];
    for (a, b) in outer {
        t.connect(a, b, &wide);
    }

    let stream = |i| Stream::new(id.seed, id.run, Entity::Workload, i);
    let db_sizes = sizes(p, "db_min", "db_max", 0.0)?;
    let db_active = active(p, "db_start", "db_stop")?;
    let mut workloads: Vec<Workload> = Vec::new();
    for (client, share) in [(host1, 2.0), (host1, 1.0), (host2, 1.0), (host3, 1.0), (host4, 2.0)] {
        let rng = stream(workloads.len() as u64);
        let template = connection(server, client, 0);
        let bps = share * p.float("db");
        workloads.push(database(template, db_sizes, bps, db_active, None, rng));
    }
    let load = FileLoad {
        travel: requests_travel(p),
        bps: p.float("ftp"),
        gets: 1.0,
        sizes: sizes(p, "ftp_min", "ftp_max", 0.0)?,
        streams: p.count("ftp_streams"),
    };
    check_requests(p, c, "db", 2.0 * p.float("db"), db_sizes)?;
    check_requests(p, c, "ftp", load.bps, load.sizes)?;
    for (sink, start, stop) in [(sink_a, "a_start", "a_stop"), (sink_b, "b_start", "b_stop")] {
        let rng = stream(workloads.len() as u64);
        let (get, put) = (connection(files, sink, 0), connection(sink, files, 0));
        workloads.push(file_transfers(get, put, load, active(p, start, stop)?, rng));
    }
    let mut setup = c.setup(t, workloads, link_a, p.dur("link_delay") * 6, id);
    if let Some(controller) = c.registry.host_controller("control", p.text("control"))? {
        setup.collectives.push(Collective { controller, workloads: (0..5).collect() });
    }
    setup.recorder.sampled_ports = vec![link_a, link_b];
    setup.recorder.keep_first(5);
    setup.recorder.by_destination = true;
    Ok(setup)
}
