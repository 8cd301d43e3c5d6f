//! Ends of connections between two transfers. A host may have thousands of connections of which few are active. The others
//! keep the state that they need later and free the rest of their memory.
//!
//! The path of a packet does not look for ends that may rest. The timer that its last acknowledgement has left behind finds
//! a sending end; a list of ends that have delivered all writes finds a receiving one.

use super::{End, HostShare, Route, TcpStack};
use crate::stack::{Counters, Io, Opening, Stack};
use crate::writes::WriteEnds;
use alloc::boxed::Box;
use alloc::vec::Vec;
use penstock_core::quantity::{ACKED, CWND, RTT, SRTT};
use penstock_core::tcp::{IdleReceiver, IdleSender};
use penstock_core::Report;
use penstock_fabric::Cell;
use penstock_units::Time;

/// Receiving ends that are looked at together, at least: chosen, so that an end is awake for a while after a transfer.
const SOME: usize = 64;

/// The part of a [`Route`] that an end at rest keeps.
pub(super) struct IdleRoute {
    pub(super) flow: u32,
    pub(super) peer: u32,
    to: u32,
    entropy: u32,
    class: u8,
}

impl IdleRoute {
    fn of(route: &Route) -> IdleRoute {
        let Route { flow, peer, to, entropy, class, .. } = *route;
        IdleRoute { flow, peer, to, entropy, class }
    }
    fn wake(&self, armed: Time) -> Route {
        let IdleRoute { flow, peer, to, entropy, class } = *self;
        Route { flow, peer, to, entropy, class, listed: false, armed }
    }
}

pub(super) struct SendEnd {
    pub(super) sender: IdleSender,
    pub(super) route: IdleRoute,
}

pub(super) struct ReceiveEnd {
    pub(super) receiver: IdleReceiver,
    pub(super) route: IdleRoute,
}

impl SendEnd {
    pub(super) fn counters(&self) -> Counters {
        let [data_packets, retransmits, timeouts, fast_retransmits, ece_acks, tail_loss_probes] =
            self.sender.counts();
        Counters {
            accepted_bytes: self.sender.acked(),
            acked_bytes: self.sender.acked(),
            data_packets,
            retransmits,
            timeouts,
            fast_retransmits,
            ece_acks,
            tail_loss_probes,
            probe_wait: self.sender.probe_wait(),
            established: true,
            srtt: self.sender.srtt(),
            rtt_mean: self.sender.rtt_mean(),
            ..Counters::default()
        }
    }
    pub(super) fn observe(&self, report: &mut Report<'_>) {
        report(&CWND, self.sender.cwnd() as f64);
        report(&ACKED, self.sender.acked() as f64);
        report(&SRTT, self.sender.srtt().as_secs());
        report(&RTT, self.sender.rtt_latest().as_secs());
        self.sender.observe(report);
    }
}

impl ReceiveEnd {
    pub(super) fn counters(&self) -> Counters {
        Counters {
            delivered_bytes: self.receiver.delivered(),
            arrived_bytes: self.receiver.delivered(),
            duplicate_bytes: self.receiver.duplicate_bytes(),
            ..Counters::default()
        }
    }
}

/// Receiving ends that have delivered all writes, with the bytes delivered by then.
#[derive(Default)]
pub(super) struct Quiet {
    ends: Vec<(u32, u64)>,
    /// Ends that were still active at the last look.
    kept: usize,
}

impl Quiet {
    pub(super) fn add(&mut self, conn: u32, delivered: u64) {
        self.ends.push((conn, delivered));
    }
    /// There are enough for a look.
    pub(super) fn many(&self) -> bool {
        self.ends.len() >= SOME + self.kept
    }
}

impl TcpStack {
    /// True for an end at rest.
    pub fn rests(&self, conn: u32) -> bool {
        matches!(self.ends.get(conn as usize), Some(End::IdleSender(_) | End::IdleReceiver(_)))
    }
    /// Makes an end active again. To be called before any change of an end that may rest.
    #[inline]
    pub(super) fn wake(&mut self, conn: u32) {
        if self.rests(conn) {
            self.wake_up(conn);
        }
    }
    #[cold]
    fn wake_up(&mut self, conn: u32) {
        let armed = self.timers.next_of(conn);
        let end = &mut self.ends[conn as usize];
        *end = match core::mem::replace(end, End::Free) {
            End::IdleSender(idle) => {
                let route = idle.route.wake(armed);
                let sender = idle.sender.wake(idle.route.flow, idle.route.class);
                let (group, ends, share) = (Opening::ALONE, WriteEnds::default(), HostShare::default());
                End::Sender(Box::new(super::SendEnd { sender, route, group, ends, share }))
            }
            End::IdleReceiver(idle) => {
                let route = idle.route.wake(armed);
                let receiver = idle.receiver.wake(route.flow);
                End::Receiver(Box::new(super::ReceiveEnd { receiver, route, ends: WriteEnds::default() }))
            }
            other => other,
        };
    }
    /// Lets an end rest.
    #[cold]
    pub(super) fn rest(&mut self, conn: u32) {
        let end = &mut self.ends[conn as usize];
        *end = match core::mem::replace(end, End::Free) {
            // Its packets have left the host's port, as they are acknowledged.
            End::Sender(end) => {
                let route = IdleRoute::of(&end.route);
                End::IdleSender(Box::new(SendEnd { sender: end.sender.rest(), route }))
            }
            End::Receiver(end) => {
                let route = IdleRoute::of(&end.route);
                End::IdleReceiver(Box::new(ReceiveEnd { receiver: end.receiver.rest(), route }))
            }
            other => other,
        };
    }
    /// Lets quiet ends rest that have nothing to do, and drops those from the list that have received something since.
    #[cold]
    pub(super) fn rest_quiet(&mut self) {
        let mut quiet = core::mem::take(&mut self.quiet);
        quiet.ends.retain(|(conn, delivered)| match &self.ends[*conn as usize] {
            End::Receiver(end) if end.receiver.delivered() == *delivered && end.ends.is_empty() => {
                let may = self.options.receive.is_none() && !end.route.listed && end.receiver.may_rest();
                if may {
                    self.rest(*conn);
                }
                !may
            }
            _ => false,
        });
        quiet.kept = quiet.ends.len();
        self.quiet = quiet;
    }
    /// A packet for an end that is not active. An end at rest wakes up for it; a packet of a connection that is over is dropped.
    /// True if there was an end.
    #[cold]
    pub(super) fn receive_beside(&mut self, io: &mut Io<'_>, cell: &Cell) -> bool {
        let packet = &io.arena.packets[cell.packet as usize];
        let forward = packet.is_forward();
        let conn = packet.conn();
        let there = match self.ends.get(conn as usize) {
            Some(End::IdleSender(end)) => end.route.flow == packet.flow && !forward,
            Some(End::IdleReceiver(end)) => end.route.flow == packet.flow && forward,
            _ => false,
        };
        if there {
            self.wake(conn);
            self.receive(io, cell);
        } else {
            // A late duplicate of a connection that is over.
            io.arena.release(cell.packet);
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::size_of;

    /// Both ends and their places, without the state of the window law (DCTCP's has less than 150 bytes).
    #[test]
    fn both_ends_of_an_idle_connection_take_less_than_300_bytes() {
        let ends = size_of::<SendEnd>() + size_of::<ReceiveEnd>() + 2 * size_of::<End>();
        assert!(ends < 300, "{ends} bytes");
        let awake = size_of::<super::super::SendEnd>() + size_of::<super::super::ReceiveEnd>();
        assert!(awake > 3 * ends, "{awake} bytes when at work");
    }
}
