//! Dynamic segment resizing: starts with small segments and enlarges them as the window grows, so that a
//! sender that loses most of its window still gets its duplicate ACKs.
//!
//! It goes round any window law. The window in bytes never changes at a resize, so only the segment is kept
//! here; the law inside counts in segments of the size the connection has just then.
//!
//! Reading of the book (Kulkarni and Agrawal 2014, section 4.3). A sender "begins its synchronized transfer"
//! with small segments. Read as every transfer, each write on an idle connection starts again with the first
//! segment size and, as nothing is known of a window in segments of that size, with the initial window. Read as
//! the connection, only the first transfer does; algorithm 4 itself never makes segments smaller.

use crate::registry::BuildEndpoint;
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::packet::Packet;
use penstock_core::tcp::TcpConfig;
use penstock_core::{AckRecord, CcHeader, Congestion, Control, FlowView, Quantity, Report, Unit, WindowLaw};
use penstock_units::{Bytes, Time};

static SEGMENT: Quantity = Quantity::new("segment_bytes", Unit::Bytes, "payload of a sender's segments");

/// Options of segment resizing.
#[derive(Clone, Copy, Debug)]
pub struct ResizingOptions {
    /// MSS_dsr at the start, in bytes.
    pub segment: u32,
    /// cwnd_dsr in segments, at least 2.
    pub threshold: u32,
    /// Every transfer starts anew, not only the connection.
    pub every_transfer: bool,
}

/// Puts segment resizing round the controllers that `inner` builds.
pub fn resizing(inner: BuildEndpoint, options: ResizingOptions) -> BuildEndpoint {
    Arc::new(move |cfg, stream| {
        // The window law starts from segments of the size it will send.
        let small = TcpConfig { mss: options.segment.min(cfg.mss), ..cfg.clone() };
        Box::new(Resizing { inner: inner(&small, stream), segment: small.mss, mss: cfg.mss, options })
    })
}

struct Resizing {
    inner: Box<dyn WindowLaw>,
    /// MSS_dsr in bytes.
    segment: u32,
    mss: u32,
    options: ResizingOptions,
}

impl Resizing {
    fn resize(&mut self) {
        let Some(window) = self.inner.control().window else { return };
        // Kulkarni and Agrawal, algorithm 4: If MSS_dsr < MSS and cwnd >= cwnd_dsr then MSS_temp = min(MSS, cwnd
        // MSS_dsr / (cwnd_dsr / 2)), cwnd = MSS_dsr cwnd / MSS_temp, MSS_dsr = MSS_temp. There cwnd is in segments, so
        // that the window in bytes, cwnd MSS_dsr, does not change.
        let threshold = self.options.threshold as u64;
        if self.segment < self.mss && window.0 >= threshold * self.segment as u64 {
            let larger = 2 * window.0 / threshold;
            self.segment = larger.min(self.mss as u64) as u32;
        }
    }
}

impl WindowLaw for Resizing {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        self.inner.on_ack(ack, flow);
        if ack.acked > 0 {
            self.resize();
        }
    }
    fn on_congestion(&mut self, now: Time, flow: &FlowView, event: Congestion) {
        self.inner.on_congestion(now, flow, event);
    }
    fn on_restart(&mut self, now: Time, flow: &FlowView) {
        self.inner.on_restart(now, flow);
    }
    fn on_transfer(&mut self, now: Time, flow: &FlowView) {
        self.inner.on_transfer(now, flow);
        if self.options.every_transfer && self.options.segment < self.mss {
            self.segment = self.options.segment;
            self.inner.on_congestion(now, flow, Congestion::Idle);
        }
    }
    fn control(&self) -> Control {
        Control { segment: Some(Bytes(self.segment as u64)), ..self.inner.control() }
    }
    fn on_send(&mut self, now: Time, flow: &FlowView, packet: &mut Packet, header: &mut CcHeader) {
        self.inner.on_send(now, flow, packet, header);
    }
    fn data_header_len(&self) -> u32 {
        self.inner.data_header_len()
    }
    fn header_len(&self) -> u32 {
        self.inner.header_len()
    }
    fn wants_rate(&self) -> bool {
        self.inner.wants_rate()
    }
    fn wants_request(&self, now: Time, flow: &FlowView) -> bool {
        self.inner.wants_request(now, flow)
    }
    fn deadline(&self) -> Time {
        self.inner.deadline()
    }
    fn on_deadline(&mut self, now: Time, flow: &FlowView) {
        self.inner.on_deadline(now, flow);
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.inner.observe(report);
        report(&SEGMENT, self.segment as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::reno::NEWRENO;
    use penstock_core::params::Params;
    use penstock_core::rng::Entity;
    use penstock_core::Stream;

    fn newreno(cfg: &TcpConfig, options: ResizingOptions) -> Box<dyn WindowLaw> {
        let params = Params::parse("protocol", NEWRENO.params, &[]).expect("defaults are valid");
        let suite = (NEWRENO.build)(&params).expect("defaults are valid");
        resizing(suite.endpoint, options)(cfg, &|| Stream::new(1, 0, Entity::Host, 0))
    }
    fn flow(segment: u64) -> FlowView {
        FlowView { mss: 1000, ..FlowView::plain(segment as u32) }
    }
    fn ack(bytes: u64) -> AckRecord<'static> {
        AckRecord::plain(Time::ZERO, bytes, &CcHeader::NONE)
    }
    const OPTIONS: ResizingOptions = ResizingOptions { segment: 50, threshold: 50, every_transfer: true };

    /// Algorithm 4 by hand: 50 B and 50 segments. The window starts at 2 x 50 B and slow start adds one segment
    /// per ACK; at 50 segments (2500 B) the segment becomes 50 * 50 / 25 = 100 B and the window 25 of them.
    #[test]
    fn segments_double_whenever_the_window_reaches_the_threshold() {
        let cfg = TcpConfig { mss: 1000, initial_window: 2, ..TcpConfig::default() };
        let mut c = newreno(&cfg, OPTIONS);
        let mut sizes = alloc::vec![];
        for _ in 0..400 {
            let before = c.control();
            let segment = before.segment.expect("always set").0;
            c.on_ack(&ack(segment), &flow(segment));
            let after = c.control();
            if after.segment != before.segment {
                let window = after.window.expect("a window law").0;
                sizes.push((after.segment.expect("always set").0, window));
            }
        }
        // The last step is cut at the MSS: 2 * 40000 / 50 = 1600 B would be next after 800 B.
        assert_eq!(sizes, [(100, 2500), (200, 5000), (400, 10_000), (800, 20_000), (1000, 40_000)]);
    }

    #[test]
    fn a_new_transfer_starts_small_again_when_asked() {
        let cfg = TcpConfig { mss: 1000, initial_window: 2, ..TcpConfig::default() };
        for every_transfer in [true, false] {
            let mut c = newreno(&cfg, ResizingOptions { every_transfer, ..OPTIONS });
            for _ in 0..60 {
                let segment = c.control().segment.expect("always set").0;
                c.on_ack(&ack(segment), &flow(segment));
            }
            let grown = c.control();
            assert_eq!(grown.segment, Some(Bytes(100)));
            c.on_transfer(Time::ZERO, &flow(100));
            if every_transfer {
                assert_eq!((c.control().segment, c.control().window), (Some(Bytes(50)), Some(Bytes(100))));
            } else {
                assert_eq!(c.control(), grown);
            }
        }
    }
}
