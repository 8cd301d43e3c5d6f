//! The standard window law (RFC 5681) with three ways of loss recovery: Reno, NewReno (RFC 6582) and
//! SACK (RFC 6675). Loss recovery itself is the connection's; this file is what the window does.

use crate::registry::{Protocol, Suite};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::quantity::SSTHRESH;
use penstock_core::tcp::{LossRecovery, TcpConfig};
use penstock_core::{
    AckRecord, Congestion, Control, FlowView, Kind, Limit, ParamError, ParamSpec, Params, Report, WindowLaw,
};
use penstock_units::Bytes;

const PARAMS: &[ParamSpec] = &[ParamSpec::new(
    "ecn",
    Kind::Bool,
    "false",
    "react to congestion marks as to a loss",
    "RFC 3168 section 6.1",
)];

/// Reno: fast recovery ends at the first new acknowledgement.
pub const RENO: Protocol = Protocol {
    name: "reno",
    text: "TCP Reno: slow start, congestion avoidance, fast retransmit and recovery",
    cites: "RFC 5681",
    params: PARAMS,
    reports: &[&SSTHRESH],
    build: |p| build(p, |c| c.recovery = LossRecovery::Reno, |c| with_ecn(c, LossRecovery::Reno)),
};
/// NewReno: partial acknowledgements stay in recovery.
pub const NEWRENO: Protocol = Protocol {
    name: "newreno",
    text: "TCP NewReno: Reno that repairs several losses of a window without a timeout",
    cites: "RFC 6582",
    params: PARAMS,
    reports: &[&SSTHRESH],
    build: |p| build(p, |c| c.recovery = LossRecovery::NewReno, |c| with_ecn(c, LossRecovery::NewReno)),
};
/// SACK: selective acknowledgements.
pub const SACK: Protocol = Protocol {
    name: "sack",
    text: "TCP SACK: Reno's window law with selective acknowledgements",
    cites: "RFC 2018, RFC 6675",
    params: PARAMS,
    reports: &[&SSTHRESH],
    build: |p| build(p, |c| c.recovery = LossRecovery::Sack, |c| with_ecn(c, LossRecovery::Sack)),
};

fn with_ecn(c: &mut TcpConfig, recovery: LossRecovery) {
    c.recovery = recovery;
    c.ecn = penstock_core::tcp::EcnMode::Classic;
}

fn build(p: &Params, plain: fn(&mut TcpConfig), ecn: fn(&mut TcpConfig)) -> Result<Suite, ParamError> {
    Ok(Suite {
        configure: if p.flag("ecn") { ecn } else { plain },
        endpoint: Arc::new(|cfg, _| Box::new(Reno { window: RenoWindow::new(cfg) })),
        router: None,
        ..Suite::tcp()
    })
}

/// cwnd and ssthresh with the rules of RFC 5681, shared by every protocol that grows like Reno.
#[derive(Clone, Debug)]
pub struct RenoWindow {
    /// Congestion window in bytes; fractions accumulate.
    pub cwnd: f64,
    /// Slow-start threshold in bytes.
    pub ssthresh: f64,
    /// cwnd and ssthresh before the latest reduction, to be taken back to.
    prior: (f64, f64),
    initial: f64,
    ecn_floor: bool,
    byte_counting: bool,
}

impl RenoWindow {
    /// The initial window of `cfg`, ssthresh unlimited.
    pub fn new(cfg: &TcpConfig) -> RenoWindow {
        let initial = (cfg.initial_window * cfg.mss) as f64;
        RenoWindow {
            cwnd: initial,
            ssthresh: f64::INFINITY,
            prior: (0.0, 0.0),
            initial,
            ecn_floor: cfg.ecn_floor,
            byte_counting: cfg.byte_counting,
        }
    }
    /// Growth on `bytes` newly acknowledged.
    #[inline]
    pub fn grow(&mut self, bytes: u64, flow: &FlowView) {
        // Linux (tcp_is_cwnd_limited, from memory): in slow start a sender that its own host holds back may open the window
        // to twice what was out, so that it is there when the host lets go.
        let opens = flow.limit == Limit::Host
            && self.cwnd < self.ssthresh
            && self.cwnd < 2.0 * (flow.in_flight + bytes) as f64;
        if flow.limit.leaves_window_unused() && !opens {
            return; // RFC 7661: the window is not what limits the sender, so nothing was learnt about it.
        }
        let segment = flow.segment as f64;
        if self.byte_counting {
            if self.cwnd < self.ssthresh {
                // RFC 3465 section 2.2 with L = 2: cwnd += min(N, 2 SMSS)
                self.cwnd += (bytes as f64).min(2.0 * segment);
            } else {
                // RFC 3465 section 2.1: one segment per window of bytes acknowledged
                self.cwnd += segment * bytes as f64 / self.cwnd;
            }
        } else if self.cwnd < self.ssthresh {
            // RFC 5681 eq. (2): cwnd += min(N, SMSS)
            self.cwnd += (bytes as f64).min(segment);
        } else {
            // RFC 5681 eq. (3): cwnd += SMSS * SMSS / cwnd
            self.cwnd += segment * segment / self.cwnd;
        }
    }
    /// The window after `event`; `fraction` is what a loss or mark leaves of the flight.
    pub fn reduce(&mut self, flow: &FlowView, event: Congestion, fraction: f64) {
        let segment = flow.segment as f64;
        if matches!(event, Congestion::Loss | Congestion::Ecn | Congestion::Timeout { in_a_row: 1, .. }) {
            self.prior = (self.cwnd, self.ssthresh);
        }
        match event {
            Congestion::Loss => {
                // RFC 5681 eq. (4): ssthresh = max(FlightSize / 2, 2 SMSS)
                self.ssthresh = (flow.in_flight as f64 * fraction).max(2.0 * segment);
                self.cwnd = self.ssthresh;
            }
            Congestion::Ecn => {
                // RFC 3168 section 6.1.2: halved like after a loss, but down to one segment (RFC 9438 section 4.6).
                let left = flow.in_flight as f64 * fraction;
                self.ssthresh = left.max(2.0 * segment);
                self.cwnd = if self.ecn_floor { left.max(segment) } else { left };
            }
            Congestion::Timeout { in_a_row, kept } => {
                if in_a_row == 1 {
                    // RFC 5681 section 3.1: ssthresh stays when the same data times out again.
                    self.ssthresh = (flow.in_flight as f64 * fraction).max(2.0 * segment);
                }
                self.cwnd = segment + kept as f64;
            }
            // RFC 6582 section 3.2 step 3 (option 2), RFC 5681 section 3.2 step 6: deflate to ssthresh.
            Congestion::Recovered => self.cwnd = self.ssthresh.max(segment),
            // RFC 5681 section 3.1: an initial window of one segment; ssthresh stays arbitrarily high.
            Congestion::SynLost => self.cwnd = segment,
            // RFC 5681 section 4.1: restart window.
            Congestion::Idle => self.cwnd = self.cwnd.min(self.initial),
            // RFC 4015 section 3.2, RFC 5682 section 3.1: back to what it was; Linux never takes a window away by it.
            Congestion::Spurious => {
                self.cwnd = self.cwnd.max(self.prior.0);
                self.ssthresh = self.ssthresh.max(self.prior.1);
            }
        }
    }
    /// As the connection wants it.
    #[inline]
    pub fn control(&self) -> Control {
        Control { window: Some(Bytes(self.cwnd as u64)), pacing: None, segment: None }
    }
    /// Reports ssthresh.
    pub fn observe(&self, report: &mut Report<'_>) {
        report(&SSTHRESH, self.ssthresh);
    }
}

struct Reno {
    window: RenoWindow,
}

impl WindowLaw for Reno {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        // RFC 3168 section 6.1.2: an ACK with ECN-Echo does not grow the window.
        if ack.may_grow(flow) && !ack.ece {
            self.window.grow(ack.acked, flow);
        }
    }
    fn on_congestion(&mut self, _now: penstock_units::Time, flow: &FlowView, event: Congestion) {
        self.window.reduce(flow, event, 0.5);
    }
    fn control(&self) -> Control {
        self.window.control()
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.window.observe(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> FlowView {
        FlowView::plain(1000)
    }

    /// RFC 3465: with an ACK for every second segment, the window still doubles per round trip in slow start and grows
    /// by a segment per window in congestion avoidance. Counting ACKs (RFC 5681), it grows half as fast.
    #[test]
    fn rfc3465_2_bytes_not_acks_are_counted() {
        for (byte_counting, slow_start, avoidance) in
            [(false, 15_000.0, 10_490.4), (true, 20_000.0, 10_962.9)]
        {
            let cfg = TcpConfig { mss: 1000, initial_window: 10, byte_counting, ..TcpConfig::default() };
            let mut w = RenoWindow::new(&cfg);
            (0..5).for_each(|_| w.grow(2000, &flow()));
            assert_eq!(w.cwnd, slow_start);
            let mut w = RenoWindow { ssthresh: 1.0, ..RenoWindow::new(&cfg) };
            (0..5).for_each(|_| w.grow(2000, &flow()));
            assert!((w.cwnd - avoidance).abs() < 0.1, "{}", w.cwnd);
        }
    }
}
