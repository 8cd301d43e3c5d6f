//! Segmentation offload as in Linux: several segments leave as one, back to back and without pacing between them. How many, and when it
//! is better to wait for more, is from memory of `tcp_output.c` (`tcp_tso_autosize`, `tcp_cwnd_test`, `tcp_tso_should_defer`); what leaves
//! is asked of recovery and windows segment by segment, as without it. The write queue is kept in pieces as long as bursts can be, and
//! what is left of one is not held back.

use crate::tcp::TcpConfig;
use alloc::boxed::Box;
use penstock_units::Time;

/// GSO_LEGACY_MAX_SIZE less the headers' room (MAX_TCP_HEADER, 320 bytes): gso_max_size.
pub(super) const MOST_BYTES: u64 = 65_535 - 320;

/// The burst at hand.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    /// sk_gso_max_segs.
    pub(super) most: u64,
    /// When it left, where it goes on, how many segments may follow, and whether it is of more than one.
    pub(super) at: Time,
    pub(super) next: u64,
    pub(super) left: u64,
    pub(super) several: bool,
    /// It is of new data.
    pub(super) fresh: bool,
    pub(super) pieces: Pieces,
    /// Bytes of it on the wire so far: pacing counts from its start.
    pub(super) bytes: u32,
}

/// The pieces of the write queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pieces {
    /// All that was written has been sent.
    Sent,
    /// Something has been written, and the first of it left at this time. What leaves while the application writes is no whole piece: the next is filled up
    /// by what is written then (tcp_sendmsg_locked, tcp_push_one; a script shows it).
    Written(Time),
    /// They are as long as a burst can be from here on.
    From(u64),
}

impl Bursts {
    /// As `cfg` says; `None` where every segment leaves by itself.
    pub(super) fn new(cfg: &TcpConfig) -> Option<Box<Bursts>> {
        let most = u64::from(cfg.gso);
        (most > 1).then(|| {
            Box::new(Bursts {
                most,
                at: Time::ZERO,
                next: 0,
                left: 0,
                several: false,
                fresh: true,
                pieces: Pieces::Sent,
                bytes: 0,
            })
        })
    }
    /// New data at `seq` wants to leave.
    pub(super) fn note(&mut self, now: Time, seq: u64) {
        match self.pieces {
            Pieces::Sent => self.pieces = Pieces::Written(now),
            Pieces::Written(at) if at < now => self.pieces = Pieces::From(seq),
            _ => {}
        }
    }
    /// Where the piece of the write queue ends that has the byte at `seq`, if anything is known of it (tcp_xmit_size_goal).
    pub(super) fn piece_end(&self, seq: u64, segment: u64) -> Option<u64> {
        let Pieces::From(start) = self.pieces else { return None };
        let size = self.most.min(MOST_BYTES / segment).max(1) * segment;
        Some(seq + size - (seq - start.min(seq)) % size)
    }
    pub(super) fn goes_on(&self, now: Time, seq: u64, fresh: bool) -> bool {
        self.left > 0 && self.at == now && self.next == seq && self.fresh == fresh
    }
}
