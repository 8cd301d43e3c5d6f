//! DCTCP (RFC 8257): the window is cut in proportion to the fraction of marked bytes.

use super::linux::LinuxWindow;
use super::reno::RenoWindow;
use crate::registry::{Protocol, Suite};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::quantity::{ALPHA, SSTHRESH};
use penstock_core::tcp::{EcnMode, LossRecovery, Personality};
use penstock_core::{
    AckRecord, Congestion, Control, FlowView, Kind, Limit, ParamError, ParamSpec, Report, WindowLaw,
};
use penstock_units::{Bytes, Time};

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
            "",
            "smallest window after a mark, in segments; unset = 1, or 2 on Linux's sender; 0 (with rules=linux only) = none, as in ns-3",
            "RFC 3168 section 6.1.2; Linux tcp_dctcp.c",
        )
        .range(0.0, 1000.0),
        ParamSpec::new(
            "rules",
            Kind::Choice(&["rfc", "linux"]),
            "rfc",
            "linux: alpha's window ends one ACK earlier, cuts are spread over a round (PRR), growth is by whole segments; with tcp=linux, cuts are \
            rounded down to whole segments",
            "RFC 8257 sections 3.3, 3.4; RFC 6937; Linux tcp_dctcp.c, tcp_input.c and ns-3",
        ),
    ],
    reports: &[&SSTHRESH, &ALPHA],
    build: |p| {
        let linux = p.text("rules") == "linux";
        let (g, alpha) = (p.float("g"), p.float("alpha"));
        let given = p.is_set("min_window").then(|| p.float("min_window"));
        let min_window = given.unwrap_or(1.0);
        if min_window < 1.0 && !linux {
            // Growth by SMSS * SMSS / cwnd has no meaning there.
            return Err(ParamError::new("min_window", min_window, "must be at least 1 without rules=linux"));
        }
        Ok(Suite {
            configure: |c| {
                c.recovery = LossRecovery::Sack;
                c.ecn = EcnMode::Dctcp;
            },
            endpoint: Arc::new(move |cfg, _| {
                let estimate = MarkedFraction { at_end: linux, ..MarkedFraction::new(g, alpha) };
                if cfg.personality == Personality::Linux {
                    let window = LinuxWindow::standard(cfg);
                    let min_window = (given.unwrap_or(LINUX_FLOOR) as u64).max(1);
                    return Box::new(OnLinux { window, estimate, min_window, whole: linux });
                }
                Box::new(Dctcp {
                    window: RenoWindow::new(cfg),
                    estimate,
                    min_window,
                    linux: linux.then(Box::default),
                })
            }),
            ..Suite::tcp()
        })
    },
};

/// Segments that Linux leaves of a window after a mark (dctcp_ssthresh).
pub const LINUX_FLOOR: f64 = 2.0;

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
    linux: Option<Box<Linux>>,
}

/// What Linux and ns-3 do differently after a cut, on a sender that is not Linux's. It shows at windows of a few segments only.
#[derive(Clone, Debug, Default)]
struct Linux {
    /// State CWR lasts until more than this is acknowledged.
    end: u64,
    /// The window in state CWR, in bytes.
    window: Option<f64>,
    /// RFC 6937: RecoverFS and prr_delivered.
    flight: f64,
    delivered: u64,
    /// Bytes the latest ACK acknowledged: those of the ACK that causes a cut count.
    acked: u64,
    /// Segments acknowledged towards the next whole segment.
    count: f64,
}

impl Linux {
    fn cut(&mut self, ssthresh: f64, flow: &FlowView) {
        self.end = flow.nxt;
        self.delivered = 0;
        let pipe = flow.nxt - flow.una;
        self.flight = (pipe + self.acked) as f64;
        self.reduce(ssthresh, pipe, self.acked, flow);
    }
    /// RFC 6937 section 3.1: what an ACK in the round of a cut lets out, with the slow-start reduction bound.
    fn reduce(&mut self, ssthresh: f64, pipe: u64, bytes: u64, flow: &FlowView) {
        self.delivered += bytes;
        let (pipe, segment) = (pipe as f64, flow.segment as f64);
        let out = (flow.nxt - self.end) as f64;
        let send = if pipe > ssthresh {
            libm::ceil(self.delivered as f64 * ssthresh / self.flight) - out
        } else {
            let limit = (self.delivered as f64 - out).max(bytes as f64) + segment;
            limit.min(ssthresh - pipe)
        };
        // A segment leaves in any case: the fast retransmit of RFC 6937. Linux and ns-3 do it after a mark too.
        let least = if out > 0.0 { 0.0 } else { segment };
        self.window = Some(pipe + send.max(least));
    }
    fn grow(&mut self, window: &mut RenoWindow, ack: &AckRecord<'_>, flow: &FlowView) {
        if window.cwnd < window.ssthresh || flow.limit != Limit::Window {
            return window.grow(ack.acked, flow);
        }
        // A segment more for every floor(cwnd) segments acknowledged.
        let segment = flow.segment as f64;
        let needed = libm::floor(window.cwnd / segment).max(1.0);
        if self.count >= needed {
            self.count = 0.0;
            window.cwnd += segment;
        }
        self.count += ack.acked as f64 / segment;
        let more = libm::floor(self.count / needed);
        self.count -= more * needed;
        window.cwnd += more * segment;
    }
}

impl WindowLaw for Dctcp {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        if ack.acked == 0 {
            return;
        }
        // Every acknowledged byte counts for alpha, in recovery too.
        self.estimate.on_ack(ack.acked, ack.ece, flow);
        let Some(linux) = &mut self.linux else {
            if !ack.ece && !flow.in_recovery {
                self.window.grow(ack.acked, flow);
            }
            return;
        };
        linux.acked = ack.acked;
        if linux.window.is_some() && flow.una <= linux.end {
            linux.reduce(self.window.cwnd, flow.in_flight, ack.acked, flow);
            return;
        }
        linux.window = None;
        if !ack.ece && !flow.in_recovery {
            linux.grow(&mut self.window, ack, flow);
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
                    linux.cut(self.window.cwnd, flow);
                }
            }
            // RFC 8257 section 3.5: loss is answered as by any other TCP.
            other => {
                self.window.reduce(flow, other, 0.5);
                if let Some(linux) = &mut self.linux {
                    linux.window = None;
                }
            }
        }
    }
    fn control(&self) -> Control {
        let mut control = self.window.control();
        if let Some(window) = self.linux.as_ref().and_then(|l| l.window) {
            control.window = Some(Bytes(window as u64));
        }
        control
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.window.observe(report);
        report(&ALPHA, self.estimate.alpha);
    }
}

/// On Linux's sender (`tcp=linux`): its window of whole segments, its validation and its spread of a cut.
struct OnLinux {
    window: LinuxWindow,
    estimate: MarkedFraction,
    min_window: u64,
    /// A cut takes whole segments (`rules=linux`).
    whole: bool,
}

impl OnLinux {
    /// RFC 8257 section 3.3: cwnd = cwnd (1 - alpha / 2). A part of a segment that is left counts as acknowledged towards the next, as in the congestion
    /// control of live runs; Linux's (dctcp_ssthresh, from memory) takes whole segments.
    fn cut(&mut self) {
        let (cwnd, alpha) = (self.window.cwnd as f64, self.estimate.alpha);
        let (left, count) = if self.whole {
            (cwnd - libm::floor(cwnd * alpha / 2.0), 0.0)
        } else {
            let left = (cwnd + self.window.count() as f64 / cwnd) * (1.0 - alpha / 2.0);
            let segments = libm::floor(left);
            (segments, libm::round((left - segments) * segments))
        };
        if (left as u64) < self.min_window {
            self.window.cut_to(self.min_window, 0);
        } else {
            self.window.cut_to(left as u64, count as u64);
        }
    }
}

impl WindowLaw for OnLinux {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        // Every acknowledged byte counts for alpha, in recovery too.
        if ack.acked > 0 {
            self.estimate.on_ack(ack.acked, ack.ece, flow);
        }
        self.window.reno(ack, flow);
    }
    fn on_congestion(&mut self, _: Time, _: &FlowView, event: Congestion) {
        match event {
            Congestion::Ecn => self.cut(),
            // RFC 8257 section 3.5: loss is answered as by any other TCP.
            other => self.window.reduce(other, self.window.cwnd / 2),
        }
    }
    fn control(&self) -> Control {
        self.window.control()
    }
    fn pacing_percent(&self) -> u64 {
        self.window.pacing_percent()
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.window.observe(report);
        report(&ALPHA, self.estimate.alpha);
    }
}
