//! The buffer that the ports of a node share: who holds how much, who may have more, who has to be stopped.
//!
//! Every packet is charged to the lane it came in by (ingress link and priority) and to the queue it leaves by (port and
//! priority). A lane has a reserve of its own, then draws on the shared pool, then, where its priority is lossless, on its
//! headroom:
//!
//! - **lossy** priorities are limited by queue: a packet is accepted while its queue is below a fixed limit or below
//!   alpha x free pool (Choudhury, Hahne, ToN 1998, equation 1);
//! - **lossless** priorities are limited by lane: at a fixed threshold, or alpha x free pool, the lane is paused (XOFF), and what
//!   was under way goes into the headroom. It is released (XON) at a departure that finds it far enough below.
//!
//! Thresholds compare with what a packet finds, itself not counted.

use crate::cell::{Cell, PRIORITIES};
use crate::link::format_f64;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use penstock_core::{DropCause, ParamError, Stream};

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
        let lanes = self.headroom.iter().sum::<u64>() + self.reserve * u64::from(self.ingresses);
        let promised = u64::from(self.lossless.count_ones()) * lanes;
        self.bytes.checked_sub(promised).ok_or_else(|| {
            let rule = format!("must hold reserves and headroom, {promised} bytes");
            ParamError::new("buffer", format!("{} bytes", self.bytes), rule)
        })
    }
}

/// What a lane holds.
#[derive(Clone, Copy, Default, Debug)]
struct Lane {
    /// Of its reserve and the pool.
    bytes: u64,
    /// Of its headroom.
    headroom: u64,
    paused: bool,
}

/// A lane that has to be paused or released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// Link it came in by.
    pub ingress: u16,
    /// Priority.
    pub priority: u8,
    /// Pause it (XOFF) or release it (XON).
    pub on: bool,
}

/// Where a packet is charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Reserve, then pool.
    Pool,
    Headroom,
}

/// What the ports of a node hold, and the rules about it.
pub struct Buffer {
    config: BufferConfig,
    pool: u64,
    pool_used: u64,
    /// Alpha of the pause threshold times 2^32, rounded down.
    pause_alpha: u64,
    lanes: Vec<Lane>,
    queues: Vec<u64>,
    used: u64,
    packets: u32,
    /// Packets by traffic class, where a rule asks.
    classes: Option<Box<[u32; 64]>>,
    paused_lanes: u32,
    xoffs: u64,
    xons: u64,
}

impl Buffer {
    /// An empty buffer.
    ///
    /// # Errors
    /// As [`BufferConfig::shared`].
    pub fn new(config: BufferConfig) -> Result<Buffer, ParamError> {
        let pool = config.shared()?;
        Ok(Buffer {
            pool,
            pool_used: 0,
            pause_alpha: match config.pause {
                PauseAt::Dynamic { alpha, .. } => (alpha * (1u64 << 32) as f64) as u64,
                PauseAt::Static { .. } => 0,
            },
            lanes: vec![Lane::default(); usize::from(config.ingresses) * PRIORITIES],
            queues: vec![0; usize::from(config.ports) * PRIORITIES],
            used: 0,
            packets: 0,
            classes: config.rule.is_some().then(|| Box::new([0; 64])),
            paused_lanes: 0,
            xoffs: 0,
            xons: 0,
            config,
        })
    }
    /// Bytes held; as all that follows after [`crate::Fabric::look`].
    pub fn used(&self) -> u64 {
        self.used
    }
    /// Bytes of the shared pool, and how many of them are in use.
    pub fn pool(&self) -> (u64, u64) {
        (self.pool, self.pool_used)
    }
    /// Bytes in a lane, and how many of them are in its headroom.
    pub fn lane(&self, ingress: u16, priority: u8) -> (u64, u64) {
        let lane = &self.lanes[lane_of(ingress, priority)];
        (lane.bytes + lane.headroom, lane.headroom)
    }
    /// Packets held by all ports.
    pub fn packets(&self) -> u32 {
        self.packets
    }
    /// True while some lane is paused.
    #[inline]
    pub fn pausing(&self) -> bool {
        self.paused_lanes > 0
    }
    /// True while this lane is paused.
    pub fn is_paused(&self, ingress: u16, priority: u8) -> bool {
        self.lanes[lane_of(ingress, priority)].paused
    }
    /// Lanes paused and released so far.
    pub fn signals(&self) -> (u64, u64) {
        (self.xoffs, self.xons)
    }
    #[inline]
    fn free(&self) -> u64 {
        self.pool - self.pool_used
    }
    #[inline]
    fn is_lossless(&self, priority: u8) -> bool {
        self.config.lossless & (1 << priority) != 0
    }
    /// What a lane of a lossless priority uses of the pool.
    #[inline]
    fn shared_part(&self, lane: &Lane) -> u64 {
        lane.bytes.saturating_sub(self.config.reserve)
    }
    /// Bytes of the pool at which a lane is paused.
    #[inline]
    pub fn xoff(&self) -> u64 {
        match self.config.pause {
            PauseAt::Static { xoff, .. } => xoff,
            PauseAt::Dynamic { alpha, .. } => scaled(alpha, self.free()),
        }
    }
    /// Bytes of the pool at which a paused lane is released.
    #[inline]
    pub fn xon(&self) -> u64 {
        match self.config.pause {
            PauseAt::Static { xon, .. } => xon,
            PauseAt::Dynamic { alpha, gap } => scaled(alpha, self.free()).saturating_sub(gap),
        }
    }
    /// Bytes below which a queue of `priority` may take one more packet.
    #[inline]
    pub fn limit(&self, priority: u8) -> u64 {
        match self.config.limits[usize::from(priority)] {
            Limit::Pool => u64::MAX,
            Limit::Static(bytes) => bytes,
            Limit::Dynamic(alpha) => scaled(alpha, self.free()),
        }
    }
    /// Where a packet of `bytes` would go; `None` = nowhere.
    #[inline]
    fn place(&self, port: u16, ingress: u16, priority: u8, bytes: u64) -> Option<Place> {
        if self.is_lossless(priority) {
            let i = lane_of(ingress, priority);
            let lane = &self.lanes[i];
            let shared = self.shared_part(lane);
            let more = self.shared_part(&Lane { bytes: lane.bytes + bytes, ..*lane }) - shared;
            if more == 0 || (shared < self.xoff() && more <= self.free()) {
                return Some(Place::Pool);
            }
            let room = lane.headroom + bytes <= self.config.headroom[usize::from(ingress)];
            return room.then_some(Place::Headroom);
        }
        let queue = self.queues[lane_of(port, priority)];
        (queue < self.limit(priority) && bytes <= self.free()).then_some(Place::Pool)
    }
    /// True when a packet is admitted and pauses nothing even if nothing had left since the departures of some ports were last
    /// looked at: all counts are then upper bounds, thresholds lower bounds, and the answer is the exact one.
    #[inline]
    pub(crate) fn is_clear(&self, port: u16, cell: &Cell) -> bool {
        let (bytes, p) = (u64::from(cell.bytes), cell.priority());
        if self.paused_lanes > 0 || self.classes.is_some() || bytes > self.free() {
            return false;
        }
        if self.is_lossless(p) {
            let lane = &self.lanes[lane_of(cell.ingress, p)];
            // After the packet, and with the threshold that the packet leaves.
            let xoff = match self.config.pause {
                PauseAt::Static { xoff, .. } => xoff,
                PauseAt::Dynamic { .. } => self.least_xoff(self.free() - bytes),
            };
            lane.headroom == 0 && (lane.bytes + bytes).saturating_sub(self.config.reserve) < xoff
        } else {
            self.queues[lane_of(port, p)] < self.limit(p)
        }
    }
    /// A lower bound of the dynamic threshold, in whole numbers: this is asked for every packet.
    #[inline]
    fn least_xoff(&self, free: u64) -> u64 {
        ((u128::from(self.pause_alpha) * u128::from(free)) >> 32).saturating_sub(1) as u64
    }
    /// Why a packet that arrives for `port` is dropped, if it is, for all the buffer knows; draws from `rng` where a rule does.
    #[inline]
    pub fn refuse(&self, port: u16, cell: &Cell, rng: &mut Stream) -> Option<DropCause> {
        let by_rule = match (&self.config.rule, &self.classes) {
            (Some(rule), Some(classes)) => {
                rule.refuse(cell.class(), classes[usize::from(cell.class())], self.packets, rng)
            }
            _ => None,
        };
        let place = self.place(port, cell.ingress, cell.priority(), u64::from(cell.bytes));
        by_rule.or(place.is_none().then_some(DropCause::Overflow))
    }
    /// Takes in a packet that is clear.
    #[inline]
    pub(crate) fn charge_clear(&mut self, port: u16, cell: &Cell) {
        let (bytes, p) = (u64::from(cell.bytes), cell.priority());
        self.used += bytes;
        self.packets += 1;
        self.queues[lane_of(port, p)] += bytes;
        if !self.is_lossless(p) {
            self.pool_used += bytes;
            return;
        }
        let reserve = self.config.reserve;
        let lane = &mut self.lanes[lane_of(cell.ingress, p)];
        let before = lane.bytes.saturating_sub(reserve);
        lane.bytes += bytes;
        self.pool_used += lane.bytes.saturating_sub(reserve) - before;
    }
    /// Takes in a packet that was admitted; answers a lane that has to be paused.
    #[inline]
    pub fn charge(&mut self, port: u16, cell: &Cell) -> Option<Signal> {
        let (bytes, p) = (u64::from(cell.bytes), cell.priority());
        self.used += bytes;
        self.packets += 1;
        self.queues[lane_of(port, p)] += bytes;
        if let Some(classes) = &mut self.classes {
            classes[usize::from(cell.class())] += 1;
        }
        if !self.is_lossless(p) {
            self.pool_used += bytes;
            return None;
        }
        let i = lane_of(cell.ingress, p);
        let place = self.place(port, cell.ingress, p, bytes);
        let mut lane = self.lanes[i];
        if place == Some(Place::Headroom) {
            lane.headroom += bytes;
        } else {
            let before = self.shared_part(&lane);
            lane.bytes += bytes;
            self.pool_used += self.shared_part(&lane) - before;
        }
        let mut signal = None;
        if !lane.paused && (lane.headroom > 0 || self.shared_part(&lane) >= self.xoff()) {
            lane.paused = true;
            self.paused_lanes += 1;
            self.xoffs += 1;
            signal = Some(Signal { ingress: cell.ingress, priority: p, on: true });
        }
        self.lanes[i] = lane;
        signal
    }
    /// A packet has left `port`; answers a lane that may go on. Headroom empties first.
    #[inline]
    pub fn release(&mut self, port: u16, cell: &Cell) -> Option<Signal> {
        let (bytes, p) = (u64::from(cell.bytes), cell.priority());
        self.used -= bytes;
        self.packets -= 1;
        self.queues[lane_of(port, p)] -= bytes;
        if let Some(classes) = &mut self.classes {
            classes[usize::from(cell.class())] -= 1;
        }
        if !self.is_lossless(p) {
            self.pool_used -= bytes;
            return None;
        }
        let i = lane_of(cell.ingress, p);
        let mut lane = self.lanes[i];
        let from_headroom = lane.headroom.min(bytes);
        lane.headroom -= from_headroom;
        let before = self.shared_part(&lane);
        lane.bytes -= bytes - from_headroom;
        self.pool_used -= before - self.shared_part(&lane);
        let mut signal = None;
        if lane.paused && lane.headroom == 0 {
            let shared = self.shared_part(&lane);
            if shared == 0 || shared <= self.xon() {
                lane.paused = false;
                self.paused_lanes -= 1;
                self.xons += 1;
                signal = Some(Signal { ingress: cell.ingress, priority: p, on: false });
            }
        }
        self.lanes[i] = lane;
        signal
    }
    /// True when a paused lane would be released once it holds no more than `bytes` and all lanes together use no less than
    /// `pool_used` of the pool.
    pub(crate) fn would_release(&self, bytes: u64, pool_used: u64) -> bool {
        let shared = bytes.saturating_sub(self.config.reserve);
        let xon = match self.config.pause {
            PauseAt::Static { xon, .. } => xon,
            PauseAt::Dynamic { alpha, gap } => {
                scaled(alpha, self.pool.saturating_sub(pool_used)).saturating_sub(gap)
            }
        };
        shared == 0 || shared <= xon
    }
    /// What `bytes` in a lane use of the pool at least, wherever they are charged.
    pub(crate) fn least_pool(&self, ingress: u16, bytes: u64) -> u64 {
        let headroom = self.config.headroom.get(usize::from(ingress)).copied().unwrap_or(0);
        bytes.saturating_sub(self.config.reserve + headroom)
    }
    /// Counters start anew.
    pub fn reset_stats(&mut self) {
        (self.xoffs, self.xons) = (0, 0);
    }
}

#[inline]
fn lane_of(port: u16, priority: u8) -> usize {
    usize::from(port) * PRIORITIES + usize::from(priority)
}

/// `alpha * bytes` in whole bytes.
#[inline]
fn scaled(alpha: f64, bytes: u64) -> u64 {
    (alpha * bytes as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::rng::Entity;

    fn stream() -> Stream {
        Stream::new(1, 0, Entity::Pool, 0)
    }
    fn lossless(pause: PauseAt, bytes: u64, headroom: u64) -> BufferConfig {
        BufferConfig {
            lossless: 1 << 3,
            headroom: vec![headroom; 2],
            pause,
            ..BufferConfig::pool(bytes, 2, 2)
        }
    }
    fn from(ingress: u16, bytes: u32) -> Cell {
        Cell::new(0, bytes).with_priority(3).with_ingress(ingress)
    }

    #[test]
    fn greedy_queues_settle_at_the_dynamic_threshold() {
        // Choudhury, Hahne: S greedy queues hold alpha B / (1 + alpha S) each.
        for (alpha, queues) in [(1.0, 1u16), (1.0, 4), (0.5, 3), (2.0, 2)] {
            let (total, size) = (1_000_000u64, 100u32);
            let config = BufferConfig {
                limits: [Limit::Dynamic(alpha); PRIORITIES],
                ..BufferConfig::pool(total, queues, 1)
            };
            let mut buffer = Buffer::new(config).unwrap();
            let mut rng = stream();
            let cell = Cell::new(0, size);
            let mut refused = 0;
            while refused < queues {
                refused = 0;
                for q in 0..queues {
                    match buffer.refuse(q, &cell, &mut rng) {
                        None => assert_eq!(buffer.charge(q, &cell), None),
                        _ => refused += 1,
                    }
                }
            }
            let expected = alpha * total as f64 / (1.0 + alpha * f64::from(queues));
            for q in 0..queues {
                let held = buffer.queues[lane_of(q, 0)] as f64;
                assert!(
                    (held - expected).abs() <= f64::from(size) * (1.0 + alpha),
                    "{held} against {expected}"
                );
            }
        }
    }
    #[test]
    fn a_lane_is_paused_at_xoff_and_released_at_xon() {
        let pause = PauseAt::Static { xoff: 3000, xon: 1000 };
        let mut b = Buffer::new(lossless(pause, 20_000, 2000)).unwrap();
        let signal = |on| Some(Signal { ingress: 1, priority: 3, on });
        let cell = from(1, 1000);
        assert_eq!([b.charge(0, &cell), b.charge(0, &cell)], [None, None]);
        assert_eq!(b.charge(1, &cell), signal(true), "3000 bytes reach XOFF");
        // Two packets of headroom, then loss; the other lane is not concerned.
        assert_eq!(b.refuse(0, &cell, &mut stream()), None);
        assert_eq!([b.charge(0, &cell), b.charge(0, &cell)], [None, None]);
        assert_eq!(b.lane(1, 3), (5000, 2000));
        assert_eq!(b.refuse(0, &cell, &mut stream()), Some(DropCause::Overflow));
        assert_eq!(b.refuse(0, &from(0, 1000), &mut stream()), None);
        assert_eq!([b.release(0, &cell), b.release(0, &cell), b.release(0, &cell)], [None, None, None]);
        assert_eq!(b.release(0, &cell), signal(false), "1000 bytes are XON");
        assert_eq!((b.release(1, &cell), b.used(), b.pool()), (None, 0, (16_000, 0)));
    }
    #[test]
    fn the_rdma_references_threshold() {
        // ns-3 HPCC, 2 MiB with 17 ports: (2 097 152 - 637 500 - 69 632 - 16 x) / 4 = x: 69 501 shared bytes, 73 597 by
        // ingress; of 16 senders' packets of 1048 bytes the 71st of a lane crosses it (their check by hand).
        let config = BufferConfig {
            lossless: 1,
            reserve: 4096,
            headroom: vec![37_500; 17],
            pause: PauseAt::Dynamic { alpha: 0.25, gap: 3072 },
            ..BufferConfig::pool(2 << 20, 17, 17)
        };
        let mut b = Buffer::new(config).unwrap();
        let mut paused_at = 0;
        'all: for n in 1..100 {
            for ingress in 0..16 {
                if b.charge(16, &Cell::new(0, 1048).with_ingress(ingress)).is_some() {
                    paused_at = n;
                    break 'all;
                }
            }
        }
        assert_eq!(paused_at, 71);
    }
    #[test]
    fn bad_buffers_are_refused_by_name() {
        let message = |c: BufferConfig| Buffer::new(c).err().unwrap().to_string();
        use alloc::string::ToString;
        let pause = PauseAt::Static { xoff: 1000, xon: 2000 };
        assert_eq!(message(lossless(pause, 9000, 10)), "xon = \"2000\": must not be above xoff (1000)");
        let pause = PauseAt::Dynamic { alpha: 0.0, gap: 0 };
        assert_eq!(message(lossless(pause, 9000, 10)), "pause_alpha = \"0\": must be above 0");
        let pause = PauseAt::Static { xoff: 1000, xon: 0 };
        assert!(message(lossless(pause, 9000, 5000)).contains("must hold reserves and headroom, 10000 bytes"));
        let config = BufferConfig { limits: [Limit::Dynamic(-1.0); 8], ..BufferConfig::pool(1, 1, 1) };
        assert_eq!(message(config), "alpha = \"-1\": must be above 0");
    }
}
