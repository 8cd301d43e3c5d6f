//! Ends of connections between two transfers. A host may have thousands of connections of which few are at work: the others keep what they have to
//! remember and give the rest of their memory back. Nothing on the way of a packet looks for ends that may rest: a sending end is seen by the timer
//! that its last acknowledgement has left behind, a receiving one in a list of those that got all they were to hear of.

use super::{End, HostShare, TcpStack, Way};
use crate::stack::{Counters, Io, Opening, Stack};
use crate::writes::WriteEnds;
use alloc::boxed::Box;
use alloc::vec::Vec;
use penstock_core::quantity::{ACKED, CWND, RTT, SRTT};
use penstock_core::tcp::{IdleReceiver, IdleSender};
use penstock_core::Report;
use penstock_fabric::Cell;
use penstock_units::Time;

/// So many receiving ends at least are looked at together: chosen, so that one is awake for a while after a transfer.
const SOME: usize = 64;

/// What is left of a [`Way`]: the timers know what is armed.
pub(super) struct IdleWay {
    pub(super) flow: u32,
    pub(super) peer: u32,
    to: u32,
    entropy: u32,
    class: u8,
}

impl IdleWay {
    fn of(way: &Way) -> IdleWay {
        let Way { flow, peer, to, entropy, class, .. } = *way;
        IdleWay { flow, peer, to, entropy, class }
    }
    fn wake(&self, armed: Time) -> Way {
        let IdleWay { flow, peer, to, entropy, class } = *self;
        Way { flow, peer, to, entropy, class, listed: false, armed }
    }
}

pub(super) struct SendEnd {
    pub(super) sender: IdleSender,
    pub(super) way: IdleWay,
}

pub(super) struct ReceiveEnd {
    pub(super) receiver: IdleReceiver,
    pub(super) way: IdleWay,
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

/// Receiving ends that have got all they were to hear of, with what had arrived then.
#[derive(Default)]
pub(super) struct Quiet {
    ends: Vec<(u32, u64)>,
    /// So many were still at work when they were looked at last.
    kept: usize,
}

impl Quiet {
    pub(super) fn add(&mut self, conn: u32, delivered: u64) {
        self.ends.push((conn, delivered));
    }
    /// There are enough to be worth a look.
    pub(super) fn many(&self) -> bool {
        self.ends.len() >= SOME + self.kept
    }
}

impl TcpStack {
    /// True for an end of which only what it has to remember is kept.
    pub fn rests(&self, conn: u32) -> bool {
        matches!(self.ends.get(conn as usize), Some(End::IdleSender(_) | End::IdleReceiver(_)))
    }
    /// The end is at work again. To be called before anything is done to an end that may rest.
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
                let way = idle.way.wake(armed);
                let sender = idle.sender.wake(idle.way.flow, idle.way.class);
                let (group, ends, share) = (Opening::ALONE, WriteEnds::default(), HostShare::default());
                End::Sender(Box::new(super::SendEnd { sender, way, group, ends, share }))
            }
            End::IdleReceiver(idle) => {
                let way = idle.way.wake(armed);
                let receiver = idle.receiver.wake(way.flow);
                End::Receiver(Box::new(super::ReceiveEnd { receiver, way, ends: WriteEnds::default() }))
            }
            other => other,
        };
    }
    /// Keeps of an end that may rest what it has to remember.
    #[cold]
    pub(super) fn rest(&mut self, conn: u32) {
        let end = &mut self.ends[conn as usize];
        *end = match core::mem::replace(end, End::Free) {
            // What stood in the host's port has left: it has been acknowledged.
            End::Sender(end) => {
                let way = IdleWay::of(&end.way);
                End::IdleSender(Box::new(SendEnd { sender: end.sender.rest(), way }))
            }
            End::Receiver(end) => {
                let way = IdleWay::of(&end.way);
                End::IdleReceiver(Box::new(ReceiveEnd { receiver: end.receiver.rest(), way }))
            }
            other => other,
        };
    }
    /// Lets those rest of the quiet ones that have nothing to do, and forgets those to which something has arrived since.
    #[cold]
    pub(super) fn rest_quiet(&mut self) {
        let mut quiet = core::mem::take(&mut self.quiet);
        quiet.ends.retain(|(conn, delivered)| match &self.ends[*conn as usize] {
            End::Receiver(end) if end.receiver.delivered() == *delivered && end.ends.is_empty() => {
                let may = self.options.receive.is_none() && !end.way.listed && end.receiver.may_rest();
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
    /// A packet for no end that is at work: one that rests wakes up for it, one that is over does not; whether it was for somebody.
    #[cold]
    pub(super) fn receive_beside(&mut self, io: &mut Io<'_>, cell: &Cell) -> bool {
        let packet = &io.arena.packets[cell.packet as usize];
        let forward = packet.is_forward();
        let conn = packet.conn();
        let there = match self.ends.get(conn as usize) {
            Some(End::IdleSender(end)) => end.way.flow == packet.flow && !forward,
            Some(End::IdleReceiver(end)) => end.way.flow == packet.flow && forward,
            _ => false,
        };
        if there {
            self.wake(conn);
            self.receive(io, cell);
        } else {
            // Of a connection that is over: a duplicate that was still on its way.
            io.arena.release(cell.packet);
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::size_of;

    /// Both ends and their places, without the law, which is the protocol's (DCTCP's has less than 150 bytes).
    #[test]
    fn both_ends_of_an_idle_connection_take_less_than_300_bytes() {
        let ends = size_of::<SendEnd>() + size_of::<ReceiveEnd>() + 2 * size_of::<End>();
        assert!(ends < 300, "{ends} bytes");
        let awake = size_of::<super::super::SendEnd>() + size_of::<super::super::ReceiveEnd>();
        assert!(awake > 3 * ends, "{awake} bytes when at work");
    }
}
