//! What a protocol is told about the links of a network, and what it needs of the ports that feed them.

use crate::queues::{Discipline, QueueSpec, DISCIPLINES};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_core::{Amount, ParamError};
use penstock_fabric::pint::PintConfig;
use penstock_fabric::{
    Accounting, BufferConfig, Cable, PauseAt, PortConfig, Rule, Scheduler, Trim, PRIORITIES,
};
use penstock_units::{Dur, Rate};

/// What an output port tells a router controller when it is built.
#[derive(Clone, Copy, Debug)]
pub struct LinkFacts {
    /// Number of the egress port that feeds the link; 0 where the question is about any link with these facts.
    pub port: u32,
    /// Link rate.
    pub capacity: Rate,
    /// Smallest round-trip time the scenario promises for flows through the link.
    pub base_rtt: Dur,
    /// Wire length of a full data packet in bytes, link framing not counted.
    pub packet: u32,
    /// Bytes of framing the link adds to every packet.
    pub framing: u32,
}

impl LinkFacts {
    /// Share of the capacity that full packets have, the rest being framing. Senders count their rates in bits of
    /// packets, as they cannot know the framing of every link, so a router hands out this share.
    pub fn packet_share(&self) -> f64 {
        f64::from(self.packet) / f64::from(self.packet + self.framing)
    }
    /// Bandwidth-delay product in bytes of packets, framing not counted.
    pub fn pipe_bytes(&self) -> f64 {
        self.capacity.as_bytes_per_sec() * self.base_rtt.as_secs() * self.packet_share()
    }
}

/// Which of several equal paths a packet takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Paths {
    /// One for all packets of a flow.
    #[default]
    PerFlow,
    /// What the sender has written into the packet decides ([`penstock_fabric::Cell::entropy`]).
    BySender,
}

/// Priorities that lose nothing: pause frames stop what feeds them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lossless {
    /// The priorities, a bit each.
    pub priorities: u8,
    /// When a lane is paused and released.
    pub pause: PauseAt,
    /// Bytes each lane has for itself.
    pub reserve: u64,
    /// Headroom of a lane as a multiple of rate x delay of its link; `None` = by [`Cable::headroom`].
    pub headroom: Option<f64>,
    /// How packets of these priorities are charged.
    pub accounting: Accounting,
    /// Alpha of a dynamic threshold grows with the rate of the link into the switch, as the HPCC group's code has it:
    /// [`alpha_times`].
    pub alpha_by_rate: bool,
    /// The protocol cannot do without: it never sends anything again.
    pub required: bool,
}

/// Returns the factor by which the HPCC group's switch multiplies a lane's alpha. It is the rate of the lane's link
/// over that of a host's, rounded up to a power of two, but to an alpha of at most 1. Source: that code's description,
/// where a shift is halved.
pub fn alpha_times(alpha: f64, rate: Rate, host: Rate) -> f64 {
    let mut times = 1.0;
    while rate.as_bps() > host.as_bps() * times && alpha * times < 1.0 {
        times *= 2.0;
    }
    times
}

/// What a protocol needs of a switch's port; a scenario that says nothing else gets a port like this.
#[derive(Clone, Debug, Default)]
pub struct LinkNeeds {
    /// Order of service.
    pub scheduler: Scheduler,
    /// Most that the port holds.
    pub limit: Option<Amount>,
    /// Most that it holds of a priority.
    pub classes: [Option<Amount>; PRIORITIES],
    /// Cut payload where there is no room.
    pub trim: Option<Trim>,
    /// Queue discipline of a priority, as written in a scenario (`threshold:k=40pkt`).
    pub queue: Option<(u8, String)>,
    /// Queue discipline over all priorities of the port, written the same way; a scenario's own goes before it.
    pub queue_of_port: Option<String>,
    /// Disciplines that `queue` may name beside the standard ones, for protocols that bring their own.
    pub disciplines: &'static [&'static Discipline],
    /// Priorities of its data packets, a bit each; 0 = those of the run's traffic classes.
    pub data: u8,
    /// Priorities with flow control.
    pub lossless: Option<Lossless>,
    /// Ports write telemetry into packets.
    pub telemetry: bool,
    /// It is a digest of one byte.
    pub pint: Option<PintConfig>,
    /// All ports count whole nanoseconds ([`PortConfig::whole_ns`]); those of a run that are no switch's too.
    pub whole_ns: bool,
    /// The choice among equal paths.
    pub paths: Paths,
}

/// What a protocol needs of the port of one link.
pub type BuildLink = Arc<dyn Fn(&LinkFacts) -> LinkNeeds + Send + Sync>;

/// Packets and bytes of a limit.
fn limits(amount: Amount) -> (u32, u64) {
    match amount {
        Amount::Packets(n) => (n, u64::MAX),
        Amount::Bytes(n) => (u32::MAX, n),
    }
}

impl LinkNeeds {
    /// What the port of a link cannot be for this protocol and another one, in words. `paused`: the run has pause frames.
    pub fn contradicts(&self, other: &LinkNeeds, paused: bool) -> Option<String> {
        fn differ<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
            matches!((a, b), (Some(a), Some(b)) if a != b)
        }
        // First come, first served is no need.
        let order = |needs: &LinkNeeds| Some(needs.scheduler).filter(|s| *s != Scheduler::Fifo);
        if differ(&order(self), &order(other)) {
            return Some("their order of service".into());
        }
        if differ(&self.limit, &other.limit) {
            return Some("their limit".into());
        }
        if let Some(p) = (0..PRIORITIES).find(|p| differ(&self.classes[*p], &other.classes[*p])) {
            return Some(format!("the limit of priority {p}"));
        }
        if differ(&self.trim, &other.trim) {
            return Some("what they trim".into());
        }
        if let (Some((p, ours)), Some((q, theirs))) = (&self.queue, &other.queue) {
            if p == q && ours != theirs {
                return Some(format!("the discipline of priority {p} ({ours} and {theirs})"));
            }
        }
        if differ(&self.queue_of_port, &other.queue_of_port) {
            return Some("their discipline".into());
        }
        // What is lossless is limited by its lanes alone.
        let lost = |lossless: &LinkNeeds, limited: &LinkNeeds| {
            let lanes = lossless.lossless.filter(|_| paused).map_or(0, |l| l.priorities);
            let limits = (0..PRIORITIES).any(|p| lanes & 1 << p != 0 && limited.classes[p].is_some());
            lanes != 0 && (limits || limited.limit.is_some())
        };
        (lost(self, other) || lost(other, self))
            .then(|| "a limit, which drops packets of a priority without loss".into())
    }
    /// Gives a port what is needed, beside what another protocol needed of it that this one does not contradict.
    ///
    /// # Errors
    /// A queue discipline or a priority that does not exist.
    pub fn apply(&self, facts: &LinkFacts, port: &mut PortConfig) -> Result<(), ParamError> {
        if let Some(limit) = self.limit {
            (port.limit_packets, port.limit_bytes) = limits(limit);
        }
        let mut service = port.service.take().unwrap_or_default();
        let classes = &mut service.classes;
        for (class, limit) in classes.iter_mut().zip(&self.classes) {
            if let Some(limit) = limit {
                (class.limit_packets, class.limit_bytes) = limits(*limit);
            }
        }
        if let Some((priority, text)) = &self.queue {
            let known = [DISCIPLINES, self.disciplines].concat();
            let queue = QueueSpec::among(&known, "queue", text)?;
            let rule = || {
                let rule = format!("is of priority {priority}; a port has {PRIORITIES}, counted from 0");
                ParamError::new("queue", text, rule)
            };
            classes.get_mut(usize::from(*priority)).ok_or_else(rule)?.rule = queue.build(facts.packet);
        }
        if let (Some(text), Rule::DropTail) = (&self.queue_of_port, &port.rule) {
            port.rule = QueueSpec::among(DISCIPLINES, "queue", text)?.build(facts.packet);
        }
        if self.scheduler != Scheduler::Fifo {
            service.scheduler = self.scheduler;
        }
        service.trim = self.trim.or(service.trim);
        port.service = Some(service);
        port.telemetry |= self.telemetry;
        Ok(())
    }
    /// The shared buffer of a node with `ports` ports and a link into it for each of `cables`: what is lossless gets its
    /// headroom by [`Cable::headroom`]. `None` where nothing is lossless and nothing has to be shared.
    pub fn buffer(&self, bytes: u64, ports: u16, cables: &[Cable]) -> Option<BufferConfig> {
        let lossless = self.lossless?;
        let dynamic = matches!(lossless.pause, PauseAt::Dynamic { .. });
        let cables_long = |c: &Cable, n: f64| (n * c.rate.as_bytes_per_sec() * c.delay.as_secs()) as u64;
        let of = |c: &Cable| lossless.headroom.map_or(c.headroom(dynamic).0, |n| cables_long(c, n));
        let headroom: Vec<u64> = cables.iter().map(of).collect();
        Some(BufferConfig {
            lossless: lossless.priorities,
            reserve: lossless.reserve,
            headroom,
            pause: lossless.pause,
            accounting: lossless.accounting,
            ..BufferConfig::pool(bytes, ports, cables.len() as u16)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_grows_by_powers_of_two_up_to_one() {
        let times = |alpha, gbps: f64| alpha_times(alpha, Rate::from_bps(gbps * 1e9), Rate::from_bps(100e9));
        assert_eq!(
            [25.0, 100.0, 101.0, 200.0, 250.0, 400.0].map(|gbps| times(0.125, gbps)),
            [1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
        );
        assert_eq!([800.0, 1600.0].map(|gbps| times(0.125, gbps)), [8.0, 8.0]);
        assert_eq!(times(2.0, 400.0), 1.0);
    }
}
