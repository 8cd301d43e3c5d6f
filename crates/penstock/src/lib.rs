//! A laboratory for congestion control in data-centre networks: packet simulations from Rust, with the protocols that come with
//! penstock and with your own.
//!
//! A [`Simulation`] is flows on a network, or a scenario by name. It answers with [`Results`]: flow table, summary,
//! ports. An error is one [`ParamError`] with key, value and rule.
//!
//! ```
//! use penstock::Simulation;
//!
//! let results = Simulation::on("star:3")
//!     .link("10Gbps", "5us")
//!     .queue("threshold:k=65pkt")
//!     .transport("dctcp:g=0.0625")
//!     .flow("h0", "h2", "10MB", "0s")
//!     .flow("h1", "h2", "10MB", "1ms")
//!     .duration("50ms")
//!     .seed(7)
//!     .run()?;
//!
//! let flows = results.flows();
//! assert!(flows.iter().all(|f| f.complete));
//! // 20 MB and their headers take at least 16.4 ms of a link of 10 Gb/s.
//! assert!(flows[1].closed.as_secs() > 16.4e-3 && flows[1].closed.as_secs() < 18e-3);
//! assert_eq!(results.bottleneck(), "switch->h2");
//! assert!(results["ce_marks"] > 0.0);
//! # Ok::<(), penstock::ParamError>(())
//! ```
//!
//! # A network of one's own
//!
//! [`Topology`] and [`Link`]: any nodes and links, routed by shortest paths and equal-cost choices.
//!
//! ```
//! use penstock::{Link, Simulation, Topology};
//!
//! let trunk = Link::new("1Gbps", "20us")?.buffer("64pkt")?;
//! let access = Link::new("10Gbps", "1us")?;
//! let mut network = Topology::default();
//! let (left, right) = (network.switch("left"), network.switch("right"));
//! network.connect(left, right, &trunk);
//! for i in 0..2 {
//!     let (from, to) = (network.host(format!("from{i}")), network.host(format!("to{i}")));
//!     network.connect(from, left, &access);
//!     network.connect(right, to, &access);
//! }
//! // Each flow with another transport, over the same link.
//! let results = Simulation::on(network)
//!     .transport("cubic")
//!     .endless_flow("from0", "to0", "0s")
//!     .transport("sack")
//!     .endless_flow("from1", "to1", "0s")
//!     .duration("200ms")
//!     .warmup("50ms")
//!     .run()?;
//! assert_eq!(results.bottleneck(), "left->right");
//! assert!(results["utilisation"] > 0.95);
//! # Ok::<(), penstock::ParamError>(())
//! ```
//!
//! # A protocol of one's own
//!
//! A [`Protocol`] has a name, parameters ([`ParamSpec`]) and a function that builds its [`Suite`]. For TCP that is a
//! window law ([`WindowLaw`], which gets an [`AckRecord`] per ACK and answers with a [`Control`]), and recovery and
//! echo unless they are the standard ones ([`Roles`]). For other transports it is a [`Stack`], and what it needs of
//! switches ([`LinkNeeds`]). A router's part is a [`LinkController`]. Queue disciplines ([`Discipline`]), receiver-side
//! ([`ReceiveProtocol`]) and host controllers ([`HostProtocol`]) are added in the same way,
//! `Registry::standard().with(&MINE)`, without touching penstock. `examples/own_protocol` is a protocol in a crate of
//! its own; this is the smallest one there is, a constant window:
//!
//! ```
//! use penstock::{
//!     AckRecord, Bytes, Congestion, Control, FlowView, Kind, ParamSpec, Protocol, Simulation, Suite, Time, WindowLaw,
//! };
//! use std::sync::Arc;
//!
//! struct Constant(Bytes);
//!
//! impl WindowLaw for Constant {
//!     fn on_ack(&mut self, _: &AckRecord<'_>, _: &FlowView) {}
//!     fn on_congestion(&mut self, _: Time, _: &FlowView, _: Congestion) {}
//!     fn control(&self) -> Control {
//!         Control { window: Some(self.0), ..Control::default() }
//!     }
//! }
//!
//! const CONSTANT: Protocol = Protocol {
//!     name: "constant",
//!     text: "a window that never changes",
//!     cites: "",
//!     params: &[ParamSpec::new("window", Kind::Size, "14600B", "the window", "chosen").range(1.0, 1e9)],
//!     reports: &[],
//!     build: |p| {
//!         let window = p.bytes("window");
//!         Ok(Suite { endpoint: Arc::new(move |_, _| Box::new(Constant(window))), ..Suite::tcp() })
//!     },
//! };
//!
//! let run = |window: &str| {
//!     let results = Simulation::on("star:2")
//!         .link("10Gbps", "50us")
//!         .transport((&CONSTANT, window))
//!         .endless_flow("h0", "h1", "0s")
//!         .duration("20ms")
//!         .warmup("10ms")
//!         .set("send_jitter", "0s")
//!         .run();
//!     results.map(|r| r["goodput_bps"])
//! };
//! // A window per round trip: 200 us of propagation, and a packet and its ACK on two links each.
//! let round_trip = 200e-6 + 2.0 * (1500.0 + 40.0) * 8.0 / 10e9;
//! let goodput = run("window=14600B")?;
//! assert!((goodput / (14600.0 * 8.0 / round_trip) - 1.0).abs() < 0.02, "{goodput}");
//! // A bad value is one line.
//! let error = run("window=0B").unwrap_err().to_string();
//! assert_eq!(error, "protocol:window = \"0B\": must be at least 1 bytes");
//! # Ok::<(), penstock::ParamError>(())
//! ```
//!
//! A scenario by name takes what is in a registry too: `Simulation::scenario("incast").with(&MINE).set("protocol", "mine")`.
//!
//! # Where things are
//!
//! The crates behind this one, in the order of their dependence: [`units`], [`core`] (what a protocol may see), [`fabric`] (ports,
//! buffers, links), [`host`] (stacks and network cards), [`models`] (protocols, queues, registry), [`sim`] (scenarios, engine, results).
#![forbid(unsafe_code)]

mod choice;
mod network;
mod results;
mod simulation;

pub use choice::{At, Choice, Host, Registered, Size};
pub use network::{Link, Network};
pub use results::{FlowRow, PortRow, Results};
pub use simulation::{BuildWorkload, ByName, OnNetwork, Simulation, Wanted};

pub use penstock_core as core;
pub use penstock_fabric as fabric;
pub use penstock_host as host;
pub use penstock_models as models;
pub use penstock_sim as sim;
pub use penstock_units as units;

pub use penstock_core::receive::ReceiveController;
pub use penstock_core::tcp::{Echo, EcnMode, LossRecovery, RateSample, Recovery, Roles, TcpConfig};
pub use penstock_core::{
    AckRecord, Amount, Backlog, CcHeader, Congestion, Control, DropCause, FlowView, Header, HostController,
    Kind, Limit, LinkController, LinkView, Looks, Packet, ParamError, ParamSpec, Params, Quantity,
    QueueDiscipline, Report, Stream, Unit, Verdict, WindowLaw,
};
pub use penstock_fabric::{Rule, Scheduler};
pub use penstock_host::{HostFacts, Stack};
pub use penstock_models::queues::Discipline;
pub use penstock_models::registry::{
    Entry, HostProtocol, LinkFacts, LinkNeeds, Lossless, Paths, Protocol, ReceiveProtocol, Registry, Suite,
    Wire,
};
pub use penstock_sim::results::Summary;
pub use penstock_sim::topology::{LinkSpec, Topology};
pub use penstock_sim::workloads::{
    Action, Actions, App, Block, FlowRequest, Message, Tally, Workload, Written,
};
pub use penstock_units::{Bytes, Dur, Rate, Time};
