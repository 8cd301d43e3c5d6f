//! Priority flow control (IEEE 802.1Qbb): headroom, and cycles of ports that wait for each other.

use crate::cell::PRIORITIES;
use crate::config::PAUSE_FRAME;
use crate::fabric::{Fabric, NONE};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use penstock_units::{Bytes, Dur, Rate, Time};

/// What decides how much still arrives after a lane is told to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cable {
    /// Rate, the same both ways.
    pub rate: Rate,
    /// Propagation delay one way.
    pub delay: Dur,
    /// Largest packet in bytes, framing included, of any priority and both ways.
    pub mtu: u32,
    /// Framing of a packet, the pause frame's too.
    pub framing: u32,
    /// Time the other end takes to obey a pause frame that has arrived.
    pub response: Dur,
}

impl Cable {
    /// Headroom of one lane: what may still arrive behind the packet that made its pause necessary.
    ///
    /// The sum is rate x (2 delay + response) + pause frame + 2 MTU. The first MTU is a packet that the pause frame finds in
    /// service at its own port, the second one a packet that the other end has just begun. Dynamic thresholds need one more
    /// MTU. Other lanes may have used up the pool, and the packet that makes the pause necessary is then the first to need
    /// headroom. With a static threshold it finds its lane below XOFF and is charged to the pool, which has to hold XOFF of
    /// every lane for that.
    ///
    /// Source: from memory of IEEE 802.1Qbb-2011 annex O (its interface and higher-layer delays are `response` here).
    pub fn headroom(&self, dynamic: bool) -> Bytes {
        let in_flight = |d: Dur| {
            let bit_ps = u128::from(self.rate.0) * u128::from(d.0);
            bit_ps.div_ceil(8 * u128::from(penstock_units::PS_PER_S)) as u64
        };
        let packets = if dynamic { 3 } else { 2 };
        Bytes(
            in_flight(self.delay * 2 + self.response)
                + u64::from(PAUSE_FRAME + self.framing)
                + packets * u64::from(self.mtu),
        )
    }
}

/// A port and a priority of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stuck {
    /// The port.
    pub port: u32,
    /// Its paused priority.
    pub priority: u8,
}

/// What the search for deadlocks has to know of some nodes: where packets wait in paused ports, and which lanes are paused. That of a whole
/// network is that of its parts together.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Standing {
    /// By paused port in which packets wait: the node whose buffer it draws on, and the bytes that wait by the link they came by.
    waiting: BTreeMap<Stuck, (u32, BTreeMap<u16, u64>)>,
    /// Paused lanes, by the port that feeds each.
    lanes: BTreeSet<Stuck>,
}

impl Standing {
    /// Nothing stands still.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.waiting.is_empty()
    }
    /// Adds what is known of other nodes.
    pub fn add(&mut self, other: &Standing) {
        self.waiting.extend(other.waiting.iter().map(|(at, waiting)| (*at, waiting.clone())));
        self.lanes.extend(&other.lanes);
    }
}

impl Fabric {
    /// A cycle of ports that are paused for each other with packets waiting, so that none of them will ever go on. The time taken is that of a
    /// walk over all waiting packets; a driver asks when nothing moves, or now and then.
    pub fn deadlock(&self) -> Option<Vec<Stuck>> {
        self.deadlock_in(&self.standing())
    }
    /// What stands still here.
    pub fn standing(&self) -> Standing {
        let mut found = Standing::default();
        for node in self.nodes.iter().filter(|node| node.buffer.pausing()) {
            for (i, (ingress, _)) in (0u16..).zip(&node.ingresses) {
                let paused = (0..PRIORITIES as u8).filter(|p| node.buffer.is_paused(i, *p));
                found.lanes.extend(paused.map(|priority| Stuck { port: ingress.upstream, priority }));
            }
        }
        for (number, port) in (0u32..).zip(self.ports()).filter(|(_, port)| port.paused() != 0) {
            for cell in port.waiting().filter(|c| port.paused() & (1 << c.priority()) != 0) {
                let at = Stuck { port: number, priority: cell.priority() };
                let (_, bytes) = found.waiting.entry(at).or_insert_with(|| (port.node, BTreeMap::new()));
                *bytes.entry(cell.ingress).or_default() += u64::from(cell.bytes);
            }
        }
        found
    }
    /// A deadlock among what stands still.
    ///
    /// A paused port is stuck when the lane that paused it would stay above XON even if everything left that is not itself
    /// waiting in a stuck port. The largest set of ports for which that holds is deadlocked. With dynamic thresholds it must
    /// also hold if all the pool that the others use were free.
    pub fn deadlock_in(&self, found: &Standing) -> Option<Vec<Stuck>> {
        let mut stuck: BTreeSet<Stuck> =
            found.waiting.keys().filter(|at| found.lanes.contains(at)).copied().collect();
        loop {
            let mut lanes: BTreeMap<(u32, u16, u8), u64> = BTreeMap::new();
            let mut pool_used: BTreeMap<u32, u64> = BTreeMap::new();
            for (at, (node, waiting)) in found.waiting.iter().filter(|(at, _)| stuck.contains(at)) {
                // What waits at a host takes no room in a buffer.
                for (ingress, bytes) in waiting.iter().filter(|_| *node != NONE) {
                    *lanes.entry((*node, *ingress, at.priority)).or_default() += bytes;
                }
            }
            for ((node, ingress, _), bytes) in &lanes {
                *pool_used.entry(*node).or_default() += self.buffer(*node).least_pool(*ingress, *bytes);
            }
            let before = stuck.len();
            stuck.retain(|s| {
                let Some(node) = self.node_behind(s.port) else { return false };
                let lane = (node, self.ports()[s.port as usize].ingress, s.priority);
                let bytes = lanes.get(&lane).copied().unwrap_or(0);
                !self.buffer(node).would_release(lane.1, bytes, pool_used.get(&node).copied().unwrap_or(0))
            });
            if stuck.len() == before {
                break;
            }
        }
        // From any stuck port a stuck one behind it can be reached, so this walk comes round.
        let mut walk = vec![*stuck.first()?];
        loop {
            let last = *walk.last().expect("it has a first step");
            let next = self.waits_for(last, &stuck, found)?;
            if let Some(first) = walk.iter().position(|s| *s == next) {
                return Some(walk.split_off(first));
            }
            walk.push(next);
        }
    }
    /// Checks that every port obeys what the lane behind it was last told, as far as no pause frame is under way, and that a paused lane
    /// holds packets: their departures are what releases it. `obeyed`: the paused priorities of a port, a bit each.
    ///
    /// # Panics
    /// When a port stands still for a lane that is not paused, goes on for one that is, or waits for a lane that nothing will release.
    pub fn check_pauses(&self, now: Time, obeyed: impl Fn(u32) -> u8) {
        for node in self.nodes.iter().filter(|node| node.buffer.sends_frames()) {
            for (i, (ingress, on_wire)) in (0u16..).zip(&node.ingresses) {
                let way = &self.ports[ingress.back.unwrap_or(ingress.upstream) as usize];
                let settled = *on_wire + way.delay().0 + node.response.0 < now.0;
                for priority in 0..PRIORITIES as u8 {
                    let paused = node.buffer.is_paused(i, priority);
                    let (held, _) = node.buffer.lane(i, priority);
                    assert!(!paused || held > 0, "lane {i}, priority {priority}: paused and empty");
                    let obeys = obeyed(ingress.upstream) & (1 << priority) != 0;
                    assert!(
                        !settled || obeys == paused,
                        "port {} has priority {priority} paused: {obeys}; the lane that it feeds: {paused}, with {held} bytes",
                        ingress.upstream,
                    );
                }
            }
        }
    }
    /// A stuck port in which packets wait that came by way of `from`.
    fn waits_for(&self, from: Stuck, stuck: &BTreeSet<Stuck>, found: &Standing) -> Option<Stuck> {
        let (node, ingress) = (self.node_behind(from.port)?, self.ports()[from.port as usize].ingress);
        let holds = |s: &&Stuck| {
            let (at, waiting) = &found.waiting[*s];
            s.priority == from.priority && *at == node && waiting.contains_key(&ingress)
        };
        stuck.iter().find(holds).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_by_hand() {
        // 100 Gb/s, 1 us: 2 x 12 500 bytes of cable; 1 us of response 12 500; frame 64 + 38; two packets of 1538.
        let mut cable = Cable {
            rate: Rate(100_000_000_000),
            delay: Dur::micros(1),
            mtu: 1538,
            framing: 38,
            response: Dur::ZERO,
        };
        assert_eq!(cable.headroom(false), Bytes(25_000 + 102 + 3076));
        cable.response = Dur::micros(1);
        assert_eq!(cable.headroom(false), Bytes(37_500 + 102 + 3076));
        assert_eq!(cable.headroom(true), Bytes(37_500 + 102 + 4614));
    }
}
