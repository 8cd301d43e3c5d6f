//! A receiver between two transfers: what has to be kept of it.

use super::Receiver;
use crate::header::CcHeader;
use crate::packet::{Packet, MAX_SACK};
use crate::tcp::echo::{AnyEcho, Echo};
use crate::tcp::{HeaderCompressor, Ranges, TcpConfig};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use penstock_units::Time;

/// What is left of a [`Receiver`] for which nothing is under way.
pub struct IdleReceiver {
    cfg: Arc<TcpConfig>,
    /// Where it is not as a new one that says `ece`.
    echo: Option<Box<AnyEcho>>,
    next: u64,
    stamp: u64,
    duplicate_bytes: u64,
    header_len: u32,
    ece: bool,
}

impl Receiver {
    /// True when [`Self::rest`] loses nothing: all data have arrived in order and been acknowledged, and no timer runs.
    /// The application also reads at once, no controller caps its window, segments are not merged, and packets have no
    /// congestion header.
    pub fn may_rest(&self) -> bool {
        !self.may_send()
            && !self.no_ecn
            && self.out_of_order.is_empty()
            && (self.fin_at, self.twice, self.unacknowledged) == (None, None, 0)
            && self.syn.is_none()
            && self.gro.is_none()
            && self.header.is_none()
            && self.deadline() == Time::NEVER
            && self.window_cap == u64::MAX
            && self.cfg.read_rate.is_none()
            && !self.cfg.header_compression
            && self.echo.is_plain()
    }
    /// What has to be kept of it. To be called where [`Self::may_rest`] only.
    pub fn rest(self) -> IdleReceiver {
        let ece = self.echo.ece();
        let usual = self.echo.is_new(&self.cfg);
        IdleReceiver {
            cfg: self.cfg,
            echo: (!usual).then(|| Box::new(self.echo)),
            ece,
            next: self.next,
            stamp: self.stamp,
            duplicate_bytes: self.duplicate_bytes,
            header_len: self.header_len,
        }
    }
}

impl IdleReceiver {
    /// As [`Receiver::dupack`].
    pub fn dupack(&self, p: &Packet) -> bool {
        super::dupack(self.next, p)
    }
    /// The receiver of connection `flow` that it was.
    pub fn wake(self, flow: u32) -> Receiver {
        Receiver {
            echo: self.echo.map_or_else(|| AnyEcho::plain(&self.cfg, self.ece), |echo| *echo),
            next: self.next,
            fin_at: None,
            out_of_order: Ranges::default(),
            // What lies below `next` is in no range, like these.
            recent: [0; MAX_SACK],
            twice: None,
            unacknowledged: 0,
            acks_due: 0,
            flush: None,
            syn_due: false,
            no_ecn: false,
            syn: None,
            gro: None,
            attends: false,
            answers: VecDeque::new(),
            stamp: self.stamp,
            header: CcHeader::NONE,
            header_len: self.header_len,
            unread: 0,
            read_until: Time::ZERO,
            promised: self.cfg.rwnd,
            window_due: Time::NEVER,
            due: Time::NEVER,
            window_cap: u64::MAX,
            compressor: HeaderCompressor::default(),
            flow,
            duplicate_bytes: self.duplicate_bytes,
            cfg: self.cfg,
        }
    }
    /// Bytes delivered to the application in order.
    pub fn delivered(&self) -> u64 {
        self.next
    }
    /// Payload bytes that arrived more than once.
    pub fn duplicate_bytes(&self) -> u64 {
        self.duplicate_bytes
    }
}
