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
//!   [`Accounting`] says when that is.
//!
//! Thresholds compare with what a packet finds, itself not counted.

use crate::cell::{Cell, PRIORITIES};
use crate::config::{Accounting, BufferConfig, Limit, PauseAt};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use penstock_core::{DropCause, ParamError, Stream};

/// What a lane of a lossless priority has beside its share of reserve and pool.
#[derive(Clone, Copy, Default, Debug)]
struct Lane {
    /// Bytes of its headroom.
    headroom: u64,
    paused: bool,
}

/// What is clear for packets of a priority, see [`Buffer::admit_below_thresholds`].
#[derive(Clone, Copy, Default)]
struct Clear {
    lossless: bool,
    /// Bytes that do not count as of the pool: a lane's reserve.
    floor: u64,
    /// Below this much, the packet included in a lane and not in a queue.
    below: u64,
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
    pool: u64,
    pool_used: u64,
    /// Most of the pool with which [`Clear::below`] holds; 0 while nothing is clear.
    threshold_pool: u64,
    clear: [Clear; PRIORITIES],
    /// Bytes, by link into the node or port of it, and priority. Of a lossless priority those of a lane, in reserve and pool; of
    /// another one those of a queue.
    held: Vec<u64>,
    packets: u32,
    paused_lanes: u32,
    /// No lane is paused, and no rule counts classes: what leaves is taken out of the counts, and that is all.
    quiet: bool,
    lanes: Vec<Lane>,
    /// Alpha of the pause threshold times 2^32, rounded down.
    pause_alpha: u64,
    /// Packets by traffic class, where a rule asks.
    classes: Option<Box<[u32; 64]>>,
    xoffs: u64,
    xons: u64,
    config: BufferConfig,
}

impl Buffer {
    /// An empty buffer.
    ///
    /// # Errors
    /// As [`BufferConfig::shared`].
    pub fn new(config: BufferConfig) -> Result<Buffer, ParamError> {
        let pool = config.shared()?;
        let lossless = |p: usize| config.lossless & (1 << p) != 0;
        Ok(Buffer {
            pool,
            pool_used: 0,
            threshold_pool: 0,
            clear: core::array::from_fn(|p| Clear {
                lossless: lossless(p),
                floor: if lossless(p) { config.reserve } else { 0 },
                below: 0,
            }),
            held: vec![0; usize::from(config.ingresses.max(config.ports)) * PRIORITIES],
            packets: 0,
            paused_lanes: 0,
            quiet: config.rule.is_none(),
            lanes: vec![Lane::default(); usize::from(config.ingresses) * PRIORITIES],
            pause_alpha: match config.pause {
                PauseAt::Dynamic { alpha, .. } => (alpha * (1u64 << 32) as f64) as u64,
                PauseAt::Static { .. } => 0,
            },
            classes: config.rule.is_some().then(|| Box::new([0; 64])),
            xoffs: 0,
            xons: 0,
            config,
        })
    }
    /// Bytes held; as all that follows after [`crate::Fabric::look`].
    pub fn used(&self) -> u64 {
        self.held.iter().sum::<u64>() + self.lanes.iter().map(|l| l.headroom).sum::<u64>()
    }
    /// Bytes of the shared pool, and how many of them are in use.
    pub fn pool(&self) -> (u64, u64) {
        (self.pool, self.pool_used)
    }
    /// Bytes in a lane, and how many of them are in its headroom.
    pub fn lane(&self, ingress: u16, priority: u8) -> (u64, u64) {
        if !self.is_lossless(priority) {
            return (0, 0);
        }
        let i = lane_of(ingress, priority);
        (self.held[i] + self.lanes[i].headroom, self.lanes[i].headroom)
    }
    /// Packets held by all ports.
    pub fn packets(&self) -> u32 {
        self.packets
    }
    /// How packets are charged.
    pub fn accounting(&self) -> Accounting {
        self.config.accounting
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
    /// What a lane of a lossless priority with so many bytes uses of the pool.
    #[inline]
    fn shared_part(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.config.reserve)
    }
    /// Where a packet is counted: its lane, or its queue.
    #[inline(always)]
    fn place_of(&self, port: u16, cell: &Cell) -> usize {
        let p = cell.priority();
        let lossless = self.clear[usize::from(p)].lossless;
        lane_of(if lossless { cell.ingress } else { port }, p)
    }
    /// Alpha of a dynamic threshold for a lane of this ingress.
    #[inline]
    fn alpha_of(&self, alpha: f64, ingress: u16) -> f64 {
        self.config.alpha_times.get(usize::from(ingress)).map_or(alpha, |times| alpha * times)
    }
    /// Bytes of the pool at which a lane of this ingress is paused.
    #[inline]
    pub fn xoff(&self, ingress: u16) -> u64 {
        match self.config.pause {
            PauseAt::Static { xoff, .. } => xoff,
            PauseAt::Dynamic { alpha, .. } => scaled(self.alpha_of(alpha, ingress), self.free()),
        }
    }
    /// Bytes of the pool at which a paused lane of this ingress is released.
    #[inline]
    pub fn xon(&self, ingress: u16) -> u64 {
        self.xon_with(ingress, self.free())
    }
    fn xon_with(&self, ingress: u16, free: u64) -> u64 {
        match self.config.pause {
            PauseAt::Static { xon, .. } => xon,
            PauseAt::Dynamic { alpha, gap } => {
                scaled(self.alpha_of(alpha, ingress), free).saturating_sub(gap)
            }
        }
    }
    /// True when lanes that fill up have pause frames sent.
    pub(crate) fn sends_frames(&self) -> bool {
        !self.config.without_frames
    }
    /// Bytes below which a queue of `priority` may take one more packet.
    #[inline]
    pub fn limit(&self, priority: u8) -> u64 {
        self.limit_with(priority, self.free())
    }
    fn limit_with(&self, priority: u8, free: u64) -> u64 {
        match self.config.limits[usize::from(priority)] {
            Limit::Pool => u64::MAX,
            Limit::Static(bytes) => bytes,
            Limit::Dynamic(alpha) => scaled(alpha, free),
        }
    }
    /// Where a packet of `bytes` would go; `None` = nowhere.
    #[inline]
    fn place(&self, port: u16, ingress: u16, priority: u8, bytes: u64) -> Option<Place> {
        if self.is_lossless(priority) {
            let i = lane_of(ingress, priority);
            let shared = self.shared_part(self.held[i]);
            let more = self.shared_part(self.held[i] + bytes) - shared;
            let below = match self.config.accounting {
                Accounting::UntilSent => shared < self.xoff(ingress),
                Accounting::UntilTaken => shared + more <= self.xoff(ingress),
            };
            if more == 0 || (below && more <= self.free()) {
                return Some(Place::Pool);
            }
            let room = self.lanes[i].headroom + bytes <= self.config.headroom[usize::from(ingress)];
            return room.then_some(Place::Headroom);
        }
        let queue = self.held[lane_of(port, priority)];
        (queue < self.limit(priority) && bytes <= self.free()).then_some(Place::Pool)
    }
    /// Takes a packet in if it is admitted, and pauses nothing, even under the assumption that no packet has left since the last look at the ports. All
    /// counts are then upper bounds and thresholds lower bounds, so the answer is exact. Otherwise it does nothing.
    ///
    /// Thresholds fall as the pool fills. They are kept for a pool that is a little fuller than it is, which makes them lower still. Only a packet
    /// that is not below these needs the thresholds of its own instant.
    #[inline(always)]
    pub(crate) fn admit_below_thresholds(&mut self, port: u16, cell: &Cell) -> bool {
        let i = self.place_of(port, cell);
        let clear = self.clear[usize::from(cell.priority())];
        let bytes = u64::from(cell.bytes);
        let before = self.held[i];
        let most = if clear.lossless { before + bytes } else { before };
        if (most >= clear.below || self.pool_used + bytes > self.threshold_pool)
            && !self.is_below_thresholds(port, cell)
        {
            return false;
        }
        self.held[i] = before + bytes;
        self.pool_used += (before + bytes).max(clear.floor) - before.max(clear.floor);
        self.packets += 1;
        true
    }
    /// Whether a packet is clear by the thresholds that it would leave itself.
    #[cold]
    #[inline(never)]
    fn is_below_thresholds(&mut self, port: u16, cell: &Cell) -> bool {
        let (bytes, p) = (u64::from(cell.bytes), cell.priority());
        if !self.quiet || bytes > self.free() {
            return false;
        }
        let held = self.held[self.place_of(port, cell)];
        let clear = if self.is_lossless(p) {
            let xoff = self.least_xoff(self.free() - bytes);
            self.shared_part(held + bytes) < xoff
        } else {
            held < self.limit(p)
        };
        // What is kept is for a pool that is too full, or was so long ago.
        let (used, step) = (self.pool_used + bytes, (self.free() - bytes) / 16);
        if used > self.threshold_pool || self.threshold_pool - used > 2 * step {
            self.threshold_pool = used + step;
            let free = self.pool - self.threshold_pool;
            for p in 0..PRIORITIES as u8 {
                self.clear[usize::from(p)].below = if self.is_lossless(p) {
                    self.config.reserve.saturating_add(self.least_xoff(free))
                } else {
                    self.limit_with(p, free)
                };
            }
        }
        clear
    }
    /// A lower bound of XOFF of every lane when so much of the pool is free.
    fn least_xoff(&self, free: u64) -> u64 {
        match self.config.pause {
            PauseAt::Static { xoff, .. } => xoff,
            PauseAt::Dynamic { .. } => {
                ((u128::from(self.pause_alpha) * u128::from(free)) >> 32).saturating_sub(1) as u64
            }
        }
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
    /// Takes in a packet that was admitted; answers a lane that has to be paused.
    pub fn charge(&mut self, port: u16, cell: &Cell) -> Option<Signal> {
        let (bytes, p) = (u64::from(cell.bytes), cell.priority());
        self.packets += 1;
        if let Some(classes) = &mut self.classes {
            classes[usize::from(cell.class())] += 1;
        }
        if !self.is_lossless(p) {
            self.held[lane_of(port, p)] += bytes;
            self.pool_used += bytes;
            return None;
        }
        let i = lane_of(cell.ingress, p);
        if self.place(port, cell.ingress, p, bytes) == Some(Place::Headroom) {
            self.lanes[i].headroom += bytes;
        } else {
            let before = self.shared_part(self.held[i]);
            self.held[i] += bytes;
            self.pool_used += self.shared_part(self.held[i]) - before;
        }
        let lane = self.lanes[i];
        if lane.paused || (lane.headroom == 0 && self.shared_part(self.held[i]) < self.xoff(cell.ingress)) {
            return None;
        }
        self.lanes[i].paused = true;
        self.paused_lanes += 1;
        (self.quiet, self.threshold_pool) = (false, 0);
        self.xoffs += 1;
        Some(Signal { ingress: cell.ingress, priority: p, on: true })
    }
    /// No lane is paused, and no rule counts classes.
    #[inline(always)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }
    /// A packet has left `port` while the buffer is quiet.
    #[inline(always)]
    pub(crate) fn release_quiet(&mut self, port: u16, cell: &Cell) {
        let i = self.place_of(port, cell);
        let floor = self.clear[usize::from(cell.priority())].floor;
        let before = self.held[i];
        let after = before - u64::from(cell.bytes);
        self.held[i] = after;
        self.pool_used -= before.max(floor) - after.max(floor);
        self.packets -= 1;
    }
    /// A packet has left `port`; answers a lane that may go on. Headroom empties first.
    #[inline]
    pub fn release(&mut self, port: u16, cell: &Cell) -> Option<Signal> {
        if !self.quiet {
            return self.release_with_care(port, cell);
        }
        self.release_quiet(port, cell);
        None
    }
    #[inline(never)]
    fn release_with_care(&mut self, port: u16, cell: &Cell) -> Option<Signal> {
        let (bytes, p) = (u64::from(cell.bytes), cell.priority());
        self.packets -= 1;
        if let Some(classes) = &mut self.classes {
            classes[usize::from(cell.class())] -= 1;
        }
        if !self.is_lossless(p) {
            self.held[lane_of(port, p)] -= bytes;
            self.pool_used -= bytes;
            return None;
        }
        let i = lane_of(cell.ingress, p);
        let from_headroom = self.lanes[i].headroom.min(bytes);
        self.lanes[i].headroom -= from_headroom;
        let before = self.shared_part(self.held[i]);
        self.held[i] -= bytes - from_headroom;
        let shared = self.shared_part(self.held[i]);
        self.pool_used -= before - shared;
        let lane = self.lanes[i];
        if !lane.paused || lane.headroom > 0 || (shared > 0 && shared > self.xon(cell.ingress)) {
            return None;
        }
        self.lanes[i].paused = false;
        self.paused_lanes -= 1;
        self.quiet = self.paused_lanes == 0 && self.classes.is_none();
        self.xons += 1;
        Some(Signal { ingress: cell.ingress, priority: p, on: false })
    }
    /// True when a paused lane of this ingress would be released once it holds no more than `bytes` and all lanes together use no less
    /// than `pool_used` of the pool.
    pub(crate) fn would_release(&self, ingress: u16, bytes: u64, pool_used: u64) -> bool {
        let shared = bytes.saturating_sub(self.config.reserve);
        shared == 0 || shared <= self.xon_with(ingress, self.pool.saturating_sub(pool_used))
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
                let held = buffer.held[lane_of(q, 0)] as f64;
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
    fn until_taken_the_packet_that_would_cross_goes_to_the_headroom() {
        let pause = PauseAt::Static { xoff: 2500, xon: 1000 };
        let charged = |accounting| {
            let mut b = Buffer::new(BufferConfig { accounting, ..lossless(pause, 20_000, 2000) }).unwrap();
            let signals = [(); 3].map(|()| b.charge(0, &from(1, 1000)).is_some());
            (signals, b.lane(1, 3))
        };
        // 2000 bytes are below XOFF, 3000 beyond it.
        assert_eq!(charged(Accounting::UntilSent), ([false, false, true], (3000, 0)));
        assert_eq!(charged(Accounting::UntilTaken), ([false, false, true], (3000, 1000)));
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
    fn a_lane_of_a_faster_link_is_paused_at_more() {
        // Alpha 1/8 and 1/2 of 80,000 bytes: x = a (80,000 - x), 8,889 and 26,667.
        let pause = PauseAt::Dynamic { alpha: 0.125, gap: 0 };
        let paused_at = |ingress: u16| {
            let config = BufferConfig { alpha_times: vec![1.0, 4.0], ..lossless(pause, 80_000, 0) };
            let mut b = Buffer::new(config).unwrap();
            (1..).find(|_| b.charge(0, &from(ingress, 100)).is_some()).unwrap()
        };
        assert_eq!([paused_at(0), paused_at(1)], [89, 267]);
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
