//! Any network and any workloads, from the tables of a scenario file.

mod network;
mod schedules;
mod tables;
mod workloads;

pub use tables::{TableSpec, TABLES};

use crate::file::plain;
use crate::scenario::profiles::{hosts_100g, hosts_25g, paper, CUBIC, FRAMES_1500, FRAMES_9000, LINUX};
use crate::scenario::{Common, RunId, Scenario};
use crate::setup::Setup;
use crate::topologies::{FABRIC_DELAY, FABRIC_RATE, OVERSUBSCRIPTION};
use network::{bottleneck, network};
use penstock_core::params::one_of;
use penstock_core::{param, ParamError, Params};
use penstock_units::Dur;
use tables::{list, Table};
use workloads::Builder;

/// Custom.
pub const CUSTOM: Scenario = Scenario {
    name: "custom",
    text: "any network and workloads, from a file with topology, or hosts, switches and [[link]], and with [[workload]]",
    source: "the scenario file",
    params: &[
        param!("bottleneck": Text = "", "port that is reported and sampled, FROM->TO; unset = the switch port with the longest mean queue", ""),
        param!("topology": Text = "",
            "a network by name instead of hosts, switches and [[link]]: fat-tree:K, leaf-spine:LEAVESxSPINESxHOSTS, rail:SERVERSxNICSxSPINES, \
             dragonfly:P,A,H; hosts are h0, h1, ...",
            ""),
        param!("link_rate": Rate = "" in [1e3, 1e13], "rate of the links to hosts of topology; must be given with it", ""),
        FABRIC_RATE,
        OVERSUBSCRIPTION,
        FABRIC_DELAY,
        param!("link_delay": Duration = "" in [0.0, 1.0], "propagation delay of every link of topology; must be given with it", ""),
        param!("buffer": Buffer = "100pkt" in [1.0, 1e12],
            "buffer of a switch port: of topology, or of a [[link]] that has none of its own", "chosen"),
    ],
    defaults: &[&[("host_queue", "2pkt", "about Linux's TCP small queues: hosts do not queue whole windows")]],
    profiles: &[
        paper("the defaults of the keys"),
        hosts_25g(&[LINUX, CUBIC, FRAMES_1500]),
        hosts_100g(&[LINUX, CUBIC, FRAMES_9000]),
    ],
    derive: |_| {},
    build,
};

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let mut unused = Vec::new();
    let topology = network(p, c, &mut unused)?;
    let mut builder = Builder {
        c,
        p,
        id,
        topology,
        routes: None,
        base_rtt: None,
        used: std::collections::BTreeSet::new(),
        protocols: Vec::new(),
        facts: Vec::new(),
        notes: Vec::new(),
        own: false,
    };
    let mut workloads = Vec::new();
    let items = list(c, "workload")?;
    if items.is_empty() {
        return Err(ParamError::new("workload", "", "the file must have at least one [[workload]]"));
    }
    for (i, item) in items.iter().enumerate() {
        let path = format!("workload[{}]", i + 1);
        let kind = item.get("kind").map_or("flows".into(), plain);
        let Some(spec) = TABLES[1..].iter().find(|s| s.name == kind) else {
            let known: Vec<&str> = TABLES[1..].iter().map(|s| s.name).collect();
            let rule = one_of(&kind, &known);
            return Err(ParamError::new(format!("{path}.kind"), kind, rule));
        };
        let table = Table::read(path, item, &format!("workload {kind}"), spec)?;
        table.params.text("kind");
        workloads.push(builder.workload(&table, &kind, i)?);
        unused.extend(table.params.without_effect().iter().map(|k| format!("{}.{k}", table.path)));
    }
    let Builder { topology, base_rtt, used, protocols, facts, notes, own, .. } = builder;
    let bottleneck = bottleneck(p, &topology, &used)?;
    let mut setup = c.setup(topology, workloads, bottleneck, base_rtt.unwrap_or(Dur::ZERO), id);
    setup.recorder.facts = facts;
    setup.notes = notes;
    if !own {
        setup.idle.push(0);
    }
    for (name, text) in protocols.iter() {
        c.add_protocol(p, name, text, &mut setup)?;
    }
    setup.unused = unused;
    Ok(setup)
}
