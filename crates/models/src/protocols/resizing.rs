//! Dynamic segment resizing: starts with small segments and enlarges them as the window grows, so that a
//! sender that loses most of its window still gets its duplicate ACKs.
//!
//! It goes round any window law. The window in bytes never changes at a resize, so only the segment is kept
//! here; the law inside counts in segments of the size the connection has just then.

use crate::registry::BuildEndpoint;
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::packet::Packet;
use penstock_core::tcp::TcpConfig;
use penstock_core::{Ack, CcHeader, Congestion, Control, EndpointController, FlowView};
use penstock_units::{Bytes, Time};

/// Puts segment resizing round the controllers that `inner` builds: `segment` is MSS_dsr in bytes at the
/// start of a connection, `threshold` cwnd_dsr in segments, at least 2.
pub fn resizing(inner: BuildEndpoint, segment: u32, threshold: u32) -> BuildEndpoint {
    Arc::new(move |cfg, stream| {
        // The window law starts from segments of the size it will send.
        let small = TcpConfig { mss: segment.min(cfg.mss), ..cfg.clone() };
        Box::new(Resizing { inner: inner(&small, stream), segment: small.mss, mss: cfg.mss, threshold })
    })
}

struct Resizing {
    inner: Box<dyn EndpointController>,
    /// MSS_dsr in bytes.
    segment: u32,
    mss: u32,
    /// cwnd_dsr in segments.
    threshold: u32,
}

impl Resizing {
    fn resize(&mut self) {
        let Some(window) = self.inner.control().window else { return };
        // Kulkarni and Agrawal, algorithm 4: if MSS_dsr < MSS and cwnd >= cwnd_dsr then
        // MSS_temp = min(MSS, cwnd MSS_dsr / (cwnd_dsr / 2)), cwnd = MSS_dsr cwnd / MSS_temp, MSS_dsr = MSS_temp;
        // cwnd there is in segments, so that cwnd MSS_dsr, the window in bytes, stays what it is.
        if self.segment < self.mss && window.0 >= self.threshold as u64 * self.segment as u64 {
            let larger = 2 * window.0 / self.threshold as u64;
            self.segment = larger.min(self.mss as u64) as u32;
        }
    }
}

impl EndpointController for Resizing {
    fn on_ack(&mut self, ack: &Ack<'_>, flow: &FlowView) {
        self.inner.on_ack(ack, flow);
        self.resize();
    }
    fn on_duplicate(&mut self, ack: &Ack<'_>, flow: &FlowView) {
        self.inner.on_duplicate(ack, flow);
    }
    fn on_congestion(&mut self, now: Time, flow: &FlowView, event: Congestion) {
        self.inner.on_congestion(now, flow, event);
    }
    fn control(&self) -> Control {
        Control { segment: Some(Bytes(self.segment as u64)), ..self.inner.control() }
    }
    fn on_send(&mut self, now: Time, flow: &FlowView, packet: &mut Packet, header: &mut CcHeader) {
        self.inner.on_send(now, flow, packet, header);
    }
    fn header_len(&self) -> u32 {
        self.inner.header_len()
    }
    fn acks_in_recovery(&self) -> bool {
        self.inner.acks_in_recovery()
    }
    fn deadline(&self) -> Time {
        self.inner.deadline()
    }
    fn on_deadline(&mut self, now: Time, flow: &FlowView) {
        self.inner.on_deadline(now, flow);
    }
    fn observe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.inner.observe(report);
        report("segment_bytes", self.segment as f64);
    }
}
