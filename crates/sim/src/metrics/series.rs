//! What a sample is of, and the rows it makes.

use super::FlowCounters;
use penstock_core::{Quantity, Report, Unit};
use penstock_fabric::{Losses, Port};
use penstock_units::Time;

/// What is sampled of a port, beside what the controller of its link reports.
pub static PORT: [&Quantity; 3] = [&QUEUE_PACKETS, &QUEUE_BYTES, &DROPS];
static QUEUE_PACKETS: Quantity =
    Quantity::new("queue_packets", Unit::Packets, "queue of a port, the packet in service included");
static QUEUE_BYTES: Quantity = Quantity::new("queue_bytes", Unit::Bytes, "queue of the port in bytes");
pub(super) static DROPS: Quantity =
    Quantity::new("drops", Unit::Packets, "total packets dropped at a port, or of the flows to a host");

/// What is sampled of all flows that lead to one host, together.
pub static HOST: [&Quantity; 4] = [&DELIVERED, &RETRANSMITS, &TIMEOUTS, &DROPS];
static DELIVERED: Quantity =
    Quantity::new("delivered_bytes", Unit::Bytes, "total payload delivered in order");
static RETRANSMITS: Quantity =
    Quantity::new("retransmits", Unit::Packets, "total retransmitted data packets");
static TIMEOUTS: Quantity = Quantity::new("timeouts", Unit::One, "retransmission timeouts so far");

/// What a sample is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Entity {
    /// A port.
    Port,
    /// A flow.
    Flow,
    /// A host: all flows that lead there.
    Host,
}

impl Entity {
    /// All of them, in the order of their numbers.
    pub const ALL: [Entity; 3] = [Entity::Port, Entity::Flow, Entity::Host];
    /// As it is written in the table.
    pub fn name(self) -> &'static str {
        match self {
            Entity::Port => "port",
            Entity::Flow => "flow",
            Entity::Host => "host",
        }
    }
}

/// A row of the series table.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// What it is of.
    pub entity: Entity,
    /// Number of the port, flow or host.
    pub number: u32,
    /// What was sampled.
    pub metric: &'static Quantity,
    /// Value.
    pub value: f64,
}

/// An open connection, as samples are taken of it.
pub trait Sampled {
    /// The number of its row.
    fn row(&self) -> u32;
    /// Host it leads to.
    fn destination(&self) -> u32;
    /// Its samples are kept.
    fn has_place(&self) -> bool;
    /// What it reports may be other than at the last sample.
    fn changed(&self) -> bool;
    /// What it has done so far.
    fn counters(&self) -> FlowCounters;
    /// Reports internal values of its sender.
    fn observe(&self, report: &mut Report<'_>);
    /// Reports what a controller above connections knows of it.
    fn observe_group(&self, report: &mut Report<'_>);
}

/// A congestion window from here on says that there is none.
pub(super) const UNLIMITED: f64 = (u64::MAX / 4) as f64;

/// Reports what is sampled of a port.
pub fn look(port: &Port, report: &mut Report<'_>) {
    report(&QUEUE_PACKETS, f64::from(port.queue_packets()));
    report(&QUEUE_BYTES, port.queue_bytes() as f64);
    let mut losses = Losses::default();
    port.add_losses(&mut losses);
    report(&DROPS, losses.drops.iter().sum::<u64>() as f64);
    if let Some(c) = port.controller() {
        c.observe(report);
    }
}
