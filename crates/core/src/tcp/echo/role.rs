//! What an echo sees of an arriving segment, and when it is asked.

use crate::packet::Packet;
use penstock_units::{Dur, Time};

/// Where an arriving segment lay, and what waits for its ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// It was the next one expected, and nothing is missing.
    pub in_order: bool,
    /// None of its payload was new.
    pub duplicate: bool,
    /// Segments in order that no ACK has covered yet, this one included when it was in order.
    pub unacknowledged: u32,
    /// The next byte expected, with this segment.
    pub next: u64,
    /// Separate pieces that wait for what is missing before them, with this segment.
    pub pieces: u32,
    /// It is a piece of its own.
    pub apart: bool,
}

/// When a receiver acknowledges, and what it says of marks. Fed by the receiver; all calls come in time order.
pub trait Echo: Send {
    /// The connection is established: how long its handshake has taken by this end's clock, `None` where SYN + ACK was sent more than once.
    fn on_handshake(&mut self, rtt: Option<Dur>) {
        let _ = rtt;
    }
    /// A segment has arrived, and is not counted yet. `Some(ece)`: what waits for its ACK must get it now, with this ECE, as
    /// if the segment had not come (nothing leaves when nothing waits).
    fn before_data(&mut self, p: &Packet) -> Option<bool> {
        let _ = p;
        None
    }
    /// The segment is in its place: the number of ACKs that leave now, 0 to wait. Several are copies of one.
    fn on_data(&mut self, now: Time, p: &Packet, heard: &Heard) -> u32;
    /// An ACK that covers all that has arrived leaves now.
    fn on_ack_sent(&mut self);
    /// Whether an ACK that leaves now carries ECN-Echo.
    fn ece(&self) -> bool {
        false
    }
    /// When an ACK leaves by itself.
    fn deadline(&self) -> Time;
    /// The deadline has come: the number of ACKs that leave now.
    fn on_deadline(&mut self, now: Time) -> u32;
    /// The application reads when [`Echo::on_read`] is called and not at once. An echo to which that makes a difference says so, and is told from the
    /// first segment on.
    fn follow_reads(&mut self) -> bool {
        false
    }
    /// There is something that the application has not read.
    fn unread(&self) -> bool {
        false
    }
    /// The application reads all there is: does an ACK leave by that, as soon as the host gets to it ([`Echo::owes`])?
    fn on_read(&mut self) -> bool {
        false
    }
    /// The ACK that a read has made due has not left, nor one that covers as much.
    fn owes(&self) -> bool {
        false
    }
    /// What the receive window may be at most, in bytes; beside the cap that a [`crate::receive::ReceiveController`] of the
    /// host sets, which sees all its connections. Read whenever an ACK leaves.
    fn window_cap(&self) -> u64 {
        u64::MAX
    }
}
