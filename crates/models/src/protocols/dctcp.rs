//! DCTCP (RFC 8257): the window is cut in proportion to the fraction of marked bytes.

use super::reno::RenoWindow;
use crate::registry::{Protocol, Suite};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::tcp::{EcnMode, LossRecovery};
use penstock_core::{Ack, Congestion, Control, EndpointController, FlowView, Kind, Limit, ParamSpec};
use penstock_units::Time;

/// DCTCP.
pub const DCTCP: Protocol = Protocol {
    name: "dctcp",
    text: "Data Center TCP: marks as a measure of the extent of congestion",
    cites: "RFC 8257; Alizadeh et al., SIGCOMM 2010",
    params: &[
        ParamSpec::new(
            "g",
            Kind::Float,
            "0.0625",
            "gain of the marked-fraction average",
            "RFC 8257 section 4.2",
        )
        .range(1e-6, 1.0),
        ParamSpec::new(
            "alpha",
            Kind::Float,
            "1",
            "marked-fraction average at the start",
            "RFC 8257 section 3.3",
        )
        .range(0.0, 1.0),
        ParamSpec::new(
            "min_window",
            Kind::Float,
            "1",
            "smallest window after a mark, in segments",
            "RFC 3168 section 6.1.2",
        )
        .range(1.0, 1000.0),
        ParamSpec::new(
            "rules",
            Kind::Choice(&["rfc", "linux"]),
            "rfc",
            "linux: alpha's window ends one ACK earlier, no growth in the round of a cut, growth by whole segments",
            "RFC 8257 sections 3.3, 3.4; Linux tcp_dctcp.c and ns-3",
        ),
    ],
    build: |p| {
        let linux = p.text("rules") == "linux";
        let (g, alpha, min_window) = (p.float("g"), p.float("alpha"), p.float("min_window"));
        Ok(Suite {
            configure: |c| {
                c.recovery = LossRecovery::Sack;
                c.ecn = EcnMode::Dctcp;
            },
            endpoint: Arc::new(move |cfg, _| {
                Box::new(Dctcp {
                    window: RenoWindow::new(cfg),
                    estimate: MarkedFraction { at_end: linux, ..MarkedFraction::new(g, alpha) },
                    min_window,
                    linux: linux.then(Linux::default),
                })
            }),
            router: None,
        })
    },
};

/// The running estimate of the fraction of marked bytes, updated once per window of data.
#[derive(Clone, Debug)]
pub struct MarkedFraction {
    /// DCTCP.Alpha.
    pub alpha: f64,
    g: f64,
    acked: u64,
    marked: u64,
    window_end: u64,
    /// The ACK of exactly the window's end closes it (Linux), not the one behind it (RFC 8257 section 3.3 step 4).
    at_end: bool,
}

impl MarkedFraction {
    /// With gain `g`, starting at `alpha`.
    pub fn new(g: f64, alpha: f64) -> MarkedFraction {
        MarkedFraction { alpha, g, acked: 0, marked: 0, window_end: 0, at_end: false }
    }
    /// Counts an acknowledgement; true when an observation window ended and alpha was updated.
    #[inline]
    pub fn on_ack(&mut self, bytes: u64, marked: bool, flow: &FlowView) -> bool {
        // RFC 8257 section 3.3 steps 1-3.
        self.acked += bytes;
        if marked {
            self.marked += bytes;
        }
        if flow.una < self.window_end || flow.una == self.window_end && !self.at_end {
            return false;
        }
        // Steps 4-7: M = bytes marked / bytes acked; alpha = alpha (1 - g) + g M; restart the window.
        let m = self.marked as f64 / self.acked as f64;
        self.alpha = self.alpha * (1.0 - self.g) + self.g * m;
        self.window_end = flow.nxt;
        self.acked = 0;
        self.marked = 0;
        true
    }
}

struct Dctcp {
    window: RenoWindow,
    estimate: MarkedFraction,
    min_window: f64,
    linux: Option<Linux>,
}

/// What Linux and ns-3 do differently after a cut. It shows at windows of a few segments only.
#[derive(Clone, Debug, Default)]
struct Linux {
    /// State CWR: the window is held until this is acknowledged.
    hold: u64,
    /// Segments acknowledged towards the next whole segment.
    count: f64,
}

impl Linux {
    fn grow(&mut self, window: &mut RenoWindow, ack: &Ack<'_>, flow: &FlowView) {
        if flow.una <= self.hold {
            return;
        }
        if window.cwnd < window.ssthresh || flow.limit != Limit::Window {
            return window.grow(ack.bytes, flow);
        }
        // A segment more for every floor(cwnd) segments acknowledged.
        let segment = flow.segment as f64;
        let needed = libm::floor(window.cwnd / segment).max(1.0);
        self.count += ack.bytes as f64 / segment;
        let more = libm::floor(self.count / needed);
        self.count -= more * needed;
        window.cwnd += more * segment;
    }
}

impl EndpointController for Dctcp {
    fn on_ack(&mut self, ack: &Ack<'_>, flow: &FlowView) {
        self.estimate.on_ack(ack.bytes, ack.ece, flow);
        if !ack.ece && !flow.in_recovery {
            match &mut self.linux {
                None => self.window.grow(ack.bytes, flow),
                Some(linux) => linux.grow(&mut self.window, ack, flow),
            }
        }
    }
    fn on_congestion(&mut self, _now: Time, flow: &FlowView, event: Congestion) {
        match event {
            Congestion::Ecn => {
                // RFC 8257 section 3.3: cwnd = cwnd (1 - alpha / 2)
                let floor = self.min_window * flow.segment as f64;
                self.window.cwnd = (self.window.cwnd * (1.0 - self.estimate.alpha / 2.0)).max(floor);
                self.window.ssthresh = self.window.cwnd;
                if let Some(linux) = &mut self.linux {
                    linux.hold = flow.nxt;
                }
            }
            // RFC 8257 section 3.5: loss is answered as by any other TCP.
            other => self.window.reduce(flow, other, 0.5),
        }
    }
    fn control(&self) -> Control {
        self.window.control()
    }
    fn acks_in_recovery(&self) -> bool {
        true // alpha counts every acknowledged byte
    }
    fn observe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.window.observe(report);
        report("alpha", self.estimate.alpha);
    }
}
