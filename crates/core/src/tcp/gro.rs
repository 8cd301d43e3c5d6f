//! Segments that follow each other reach TCP as one (generic receive offload): the interrupt of a network card that waits a while, and
//! Linux's `tcp_gro_receive` and `tcp_gro_complete`, from memory.
//!
//! What is merged: payload that continues what is held, with the same ECN field and no flag but those that end a merge (PSH, FIN, a short
//! segment). A time stamp of another millisecond begins anew, as it does in a kernel, which compares the options.

use super::TcpConfig;
use crate::header::CcHeader;
use crate::packet::{flag, Packet};
use penstock_units::{Dur, Time};

/// Most payload that is merged: a length of 16 bits, less the headers.
const MOST: u32 = 65_535 - 60;
/// Flags with which a segment may be merged.
const PLAIN: u16 = flag::RETRANSMIT | flag::MARKED | flag::PUSH | flag::FIN;

/// What a receiver holds back.
#[derive(Clone, Debug)]
pub(super) struct Gro {
    wait: Dur,
    full: u32,
    stamped: bool,
    /// What is merged so far, and how many segments it is.
    held: Option<(Packet, CcHeader, u32)>,
    /// The end of the poll.
    pub(super) until: Time,
}

impl Gro {
    pub(super) fn new(cfg: &TcpConfig) -> Gro {
        Gro { wait: cfg.gro, full: cfg.mss, stamped: cfg.timestamps, held: None, until: Time::NEVER }
    }
    /// What is held, with the number of its segments; nothing is held then.
    pub(super) fn take(&mut self) -> Option<(Packet, CcHeader, u32)> {
        self.until = Time::NEVER;
        self.held.take()
    }
    /// True when `p` continues what is held and is part of it now.
    pub(super) fn merge(&mut self, p: &Packet, header: &CcHeader) -> bool {
        let tick = |stamp: u64| stamp / 1_000_000_000;
        let Some((held, last, count)) = &mut self.held else { return false };
        let follows = p.seq == held.seq + u64::from(held.payload) && p.payload > 0;
        let alike = p.ecn == held.ecn && (!self.stamped || tick(p.stamp) == tick(held.stamp));
        if !follows || !alike || p.flags & !PLAIN != 0 || held.payload + p.payload > MOST {
            return false;
        }
        held.payload += p.payload;
        held.wire_len += p.wire_len;
        held.flags |= p.flags;
        (*last, *count) = (*header, *count + 1);
        true
    }
    /// Holds `p`, the first of a merge.
    pub(super) fn hold(&mut self, now: Time, p: &Packet, header: &CcHeader) {
        self.held = Some((*p, *header, 1));
        if self.until == Time::NEVER {
            self.until = now + self.wait;
        }
    }
    /// What is held ends with `p`: nothing can follow it.
    pub(super) fn ends_with(&self, p: &Packet) -> bool {
        p.payload < self.full || p.flags & (flag::PUSH | flag::FIN) != 0
    }
}
