//! What ports and shared buffers are made of.

use crate::cell::PRIORITIES;
use crate::link::{format_f64, Reordering};
use crate::rule::Rule;
use crate::schedule::Scheduler;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use penstock_core::{bail_if, DropCause, LinkController, ParamError, Stream};
use penstock_units::{Dur, Rate};

/// Bytes of a pause frame: the minimum Ethernet frame.
pub const PAUSE_FRAME: u32 = 64;

/// Limit and rule of one priority of a port that schedules.
pub struct ClassConfig {
    /// Most packets of the priority in the port.
    pub limit_packets: u32,
    /// Most bytes of the priority in the port.
    pub limit_bytes: u64,
    /// A rule that sees what the port holds of this priority only, beside the port's own.
    pub rule: Rule,
}

impl Default for ClassConfig {
    fn default() -> Self {
        ClassConfig { limit_packets: u32::MAX, limit_bytes: u64::MAX, rule: Rule::DropTail }
    }
}

/// Cutting payload instead of packets (Cut Payload, Cheng et al., NSDI 2014; NDP, SIGCOMM 2017, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trim {
    /// Bytes on the wire that remain.
    pub bytes: u32,
    /// Priority of what remains; its limits apply to it.
    pub priority: u8,
    /// Probability that the last waiting packet is cut and the arriving one takes its place, instead of the arriving one
    /// (NDP: 0.5, against phase effects).
    pub tail: f64,
}

/// What makes a port choose among waiting packets, instead of knowing every departure at arrival.
#[derive(Default)]
pub struct Service {
    /// Order of service.
    pub scheduler: Scheduler,
    /// By priority.
    pub classes: [ClassConfig; PRIORITIES],
    /// Cut payload where a packet with payload finds no room.
    pub trim: Option<Trim>,
    /// The link leads to a host: what is cut here says so.
    pub last_hop: bool,
}

/// Limits and behaviour of a port and its link.
pub struct PortConfig {
    /// Link rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Dur,
    /// Most packets in the port (waiting plus in service).
    pub limit_packets: u32,
    /// Most bytes in the port.
    pub limit_bytes: u64,
    /// Bytes of framing per packet on the wire (38 for Ethernet: preamble, header, FCS, gap).
    pub framing: u32,
    /// Queue discipline.
    pub rule: Rule,
    /// Stream of the discipline.
    pub rng: Stream,
    /// Router's controller.
    pub controller: Option<Box<dyn LinkController>>,
    /// Probability that a packet is lost at random, and the stream that draws it.
    pub loss: Option<(f64, Stream)>,
    /// Timing noise of a host: packets of its senders leave up to so much later than exact.
    pub noise: Option<(Dur, Stream)>,
    /// Some packets take longer on the wire.
    pub reorder: Option<(Reordering, Stream)>,
    /// Tell [`crate::Segments::on_hop`] about every packet as its transmission begins.
    pub telemetry: bool,
    /// Scheduler, classes, trimming; `None` is a plain FIFO. A plain port that is paused, fails or changes its rate becomes
    /// one that schedules, in FIFO order.
    pub service: Option<Box<Service>>,
    /// Transmissions take whole nanoseconds, cut off, and end half a nanosecond after a whole one: with a link that is as much shorter,
    /// packets arrive at whole nanoseconds, before what leaves in the same one.
    pub whole_ns: bool,
    /// Keep time integrals of the queue; counters and the sum of sojourn times are kept always.
    pub measured: bool,
}

impl PortConfig {
    /// A plain FIFO port without limit; `rng` feeds its discipline.
    pub fn plain(rate: Rate, delay: Dur, rng: Stream) -> PortConfig {
        PortConfig {
            rate,
            delay,
            limit_packets: u32::MAX,
            limit_bytes: u64::MAX,
            framing: 0,
            rule: Rule::DropTail,
            rng,
            controller: None,
            loss: None,
            noise: None,
            reorder: None,
            telemetry: false,
            whole_ns: false,
            service: None,
            measured: false,
        }
    }
    /// Refuses what cannot work.
    ///
    /// # Errors
    /// The first bad value, by the name of its key.
    pub fn check(&self) -> Result<(), ParamError> {
        let share = |key: &str, p: f64| match (0.0..=1.0).contains(&p) {
            true => Ok(()),
            false => Err(ParamError::new(key, format_f64(p), "must be a probability of 0 to 1")),
        };
        bail_if!(self.rate.0 == 0, ParamError::new("rate", "0bps", "must be above 0"));
        if let Some((p, _)) = &self.loss {
            share("loss", *p)?;
        }
        if let Some((reorder, _)) = &self.reorder {
            reorder.check()?;
        }
        if let Some(service) = &self.service {
            service.scheduler.check()?;
            if let Some(trim) = &service.trim {
                share("trim_tail", trim.tail)?;
                if usize::from(trim.priority) >= PRIORITIES {
                    let rule = format!("must be a priority of 0 to {}", PRIORITIES - 1);
                    return Err(ParamError::new("trim_priority", format!("{}", trim.priority), rule));
                }
            }
        }
        Ok(())
    }
}

/// Most bytes of a queue in a shared buffer.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Limit {
    /// What the pool has.
    #[default]
    Pool,
    /// A fixed number of bytes.
    Static(u64),
    /// Alpha times the free part of the pool.
    Dynamic(f64),
}

/// When a lane of a lossless priority is paused and released.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PauseAt {
    /// At `xoff` bytes of the shared pool; released at `xon` or below.
    Static {
        /// Bytes at which the lane is paused.
        xoff: u64,
        /// Bytes at which it is released.
        xon: u64,
    },
    /// At alpha times the free part of the pool; released `gap` bytes below that, or when the lane uses none of it.
    Dynamic {
        /// Share of the free pool a lane may use.
        alpha: f64,
        /// Bytes below the threshold.
        gap: u64,
    },
}

/// How packets of lossless priorities are charged. Both lose nothing with enough headroom; they differ in when lanes are paused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Accounting {
    /// A packet takes room until its last bit has left, and the one that reaches the threshold goes to the pool.
    #[default]
    UntilSent,
    /// As the HPCC group's ns-3 does it. A packet takes room until it is taken for service, and one that would reach beyond the threshold goes to the
    /// headroom. Pause frames are shorter than Ethernet's shortest. Source: its description and runs, docs/validation/hpcc-ns3.md.
    UntilTaken,
}

impl Accounting {
    /// Bytes of a pause frame.
    pub fn pause_frame(self) -> u32 {
        match self {
            Accounting::UntilSent => PAUSE_FRAME,
            Accounting::UntilTaken => 43,
        }
    }
}

/// A rule about packets by traffic class, over all ports of the node.
pub trait PoolRule: Send {
    /// Why a packet of `class` is dropped, if it is; the buffer holds `of_class` packets of its class, `all` in total.
    fn refuse(&self, class: u8, of_class: u32, all: u32, rng: &mut Stream) -> Option<DropCause>;
}

/// A shared buffer.
pub struct BufferConfig {
    /// Bytes in all.
    pub bytes: u64,
    /// Links into the node.
    pub ingresses: u16,
    /// Ports of the node.
    pub ports: u16,
    /// Limit of a queue, by priority; not for lossless ones.
    pub limits: [Limit; PRIORITIES],
    /// Lossless priorities, a bit each.
    pub lossless: u8,
    /// Bytes each lane of a lossless priority has for itself.
    pub reserve: u64,
    /// Bytes of headroom of each lane of a lossless priority, by ingress.
    pub headroom: Vec<u64>,
    /// When such a lane is paused.
    pub pause: PauseAt,
    /// How packets of lossless priorities are charged.
    pub accounting: Accounting,
    /// By ingress, what a dynamic threshold's alpha is multiplied by, at least 1; empty = 1 for all.
    pub alpha_times: Vec<f64>,
    /// Lanes of lossless priorities are limited, but no pause frames are sent: what finds neither room in its lane nor headroom is lost.
    pub without_frames: bool,
    /// A rule by traffic class, beside the limits.
    pub rule: Option<Box<dyn PoolRule>>,
}

impl BufferConfig {
    /// A pool of `bytes` for `ports` ports and `ingresses` links into the node, without any other rule.
    pub fn pool(bytes: u64, ports: u16, ingresses: u16) -> BufferConfig {
        BufferConfig {
            bytes,
            ingresses,
            ports,
            limits: [Limit::Pool; PRIORITIES],
            lossless: 0,
            reserve: 0,
            headroom: Vec::new(),
            pause: PauseAt::Static { xoff: u64::MAX, xon: 0 },
            accounting: Accounting::default(),
            alpha_times: Vec::new(),
            without_frames: false,
            rule: None,
        }
    }
    /// What is left for all after reserves and headroom.
    ///
    /// # Errors
    /// Limits that cannot work, and a buffer too small for what it promises.
    pub fn shared(&self) -> Result<u64, ParamError> {
        let alpha = |key: &str, a: f64| match a > 0.0 && a.is_finite() {
            true => Ok(()),
            false => Err(ParamError::new(key, format_f64(a), "must be above 0")),
        };
        for limit in &self.limits {
            if let Limit::Dynamic(a) = limit {
                alpha("alpha", *a)?;
            }
        }
        if self.lossless == 0 {
            return Ok(self.bytes);
        }
        match self.pause {
            PauseAt::Static { xoff, xon } if xon > xoff => {
                return Err(ParamError::new(
                    "xon",
                    format!("{xon}"),
                    format!("must not be above xoff ({xoff})"),
                ));
            }
            PauseAt::Dynamic { alpha: a, .. } => alpha("pause_alpha", a)?,
            PauseAt::Static { .. } => {}
        }
        if self.headroom.len() != usize::from(self.ingresses) {
            let rule = format!("must be given for each of the {} links into the node", self.ingresses);
            return Err(ParamError::new("headroom", format!("{} values", self.headroom.len()), rule));
        }
        if self.alpha_times.iter().any(|times| !(1.0..=1e9).contains(times)) {
            let rule = "must be at least 1 for every link into the node";
            return Err(ParamError::new("alpha_times", format!("{:?}", self.alpha_times), rule));
        }
        let lanes = self.headroom.iter().sum::<u64>() + self.reserve * u64::from(self.ingresses);
        let promised = u64::from(self.lossless.count_ones()) * lanes;
        self.bytes.checked_sub(promised).ok_or_else(|| {
            let rule = format!("must hold reserves and headroom, {promised} bytes");
            ParamError::new("buffer", format!("{} bytes", self.bytes), rule)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Port;
    use alloc::string::{String, ToString};
    use penstock_core::rng::Entity;

    #[test]
    fn bad_ports_are_refused_by_name() {
        let stream = || Stream::new(1, 0, Entity::Port, 0);
        let plain = || PortConfig::plain(Rate(1_000_000), Dur::ZERO, stream());
        let message = |c: PortConfig| -> String { Port::new(0, c).err().expect("refused").to_string() };
        let service = |scheduler, trim| Some(Box::new(Service { scheduler, trim, ..Service::default() }));
        assert_eq!(message(PortConfig { rate: Rate(0), ..plain() }), "rate = \"0bps\": must be above 0");
        let loss = Some((1.5, stream()));
        assert_eq!(
            message(PortConfig { loss, ..plain() }),
            "loss = \"1.5\": must be a probability of 0 to 1"
        );
        let drr = service(Scheduler::Drr([0; PRIORITIES]), None);
        assert!(message(PortConfig { service: drr, ..plain() }).starts_with("quantum = \"0\": must be"));
        let trim = service(Scheduler::Strict, Some(Trim { bytes: 64, priority: 9, tail: 0.0 }));
        assert_eq!(
            message(PortConfig { service: trim, ..plain() }),
            "trim_priority = \"9\": must be a priority of 0 to 7"
        );
        let reorder = Some((Reordering { share: 0.1, extra: Dur::ZERO }, stream()));
        assert!(message(PortConfig { reorder, ..plain() }).starts_with("reorder_delay = \"0s\""));
    }
}
