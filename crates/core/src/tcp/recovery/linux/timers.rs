//! A connection's timers (`tcp_set_xmit_timer`, `tcp_rearm_rto`, `tcp_schedule_loss_probe`): Linux has one for the retransmission timeout,
//! the tail-loss probe and the reordering window, so that it waits for one of them at a time.
//!
//! As long as it waits for the reordering window (RFC 8985 section 6.2 step 5) or for a probe (section 7.2) there is no timeout.
//! Where the timeout takes the place of either, it counts from when the oldest segment left last, else from now.

use super::super::{Connection, Since, Timers};
use super::{Expired, Linux};
use crate::tcp::Phase;
use penstock_units::{Dur, Time};

impl Linux {
    /// Sets timers and sends after an ACK or a timer, in the order of `tcp_ack`: the reordering window, the timeout or
    /// a probe, retransmissions, new data.
    #[inline]
    pub(super) fn set_timers(&mut self, c: &Connection<'_>, rto: Dur, since: &Since) -> Timers {
        let v = c.view;
        if v.una >= v.max_sent {
            self.wait_for_timeout();
            return Timers { deadline: Time::NEVER, rto_at: Time::NEVER };
        }
        let expired = self.expired.take();
        if since.held {
            self.wait_for_timeout();
            return Timers { deadline: Time::NEVER, rto_at: c.rto_at };
        }
        let from_now = || c.timer(rto);
        // tcp_rto_delta_us
        let left = || {
            let sent = c.segments.and_then(|log| log.iter().next()).map_or(c.now, |oldest| oldest.sent_at);
            (sent + rto).since(c.now)
        };
        let from_head = || c.timer(left().max(Dur::micros(1)));
        let mut rto_at = c.rto_at;
        if let Some(expired) = expired {
            self.wait_for_timeout();
            rto_at = if expired == Expired::Probed { from_now() } else { from_head() };
        } else {
            // CA_Open or CA_CWR: a probe instead of the timeout.
            let probes = c.phase == Phase::Open && c.sacked.is_empty();
            // Something new has left, and a probe may be sent for it: whatever else has happened, that is what the timer waits for.
            if probes && since.new && !self.rack.waits_anew && self.schedule_probe(c, left()) {
                let deadline = self.probe.as_ref().map_or(Time::NEVER, |p| p.deadline());
                return Timers { deadline, rto_at: Time::NEVER };
            }
            if core::mem::take(&mut self.rack.waits_anew) {
                self.wait_for_window();
                rto_at = Time::NEVER;
            } else if since.advanced {
                if probes && self.schedule_probe(c, rto) {
                    rto_at = Time::NEVER;
                } else {
                    rto_at = if self.waits_for_timeout() { from_now() } else { from_head() };
                    self.wait_for_timeout();
                }
            }
            if since.head_again && self.rack.at == Time::NEVER {
                self.wait_for_timeout();
                rto_at = from_now();
            }
            if since.new {
                // tcp_event_new_data_sent
                if since.alone || self.waits_for_probe() {
                    rto_at = from_head();
                    self.wait_for_timeout();
                }
                if probes && self.schedule_probe(c, left()) {
                    rto_at = Time::NEVER;
                }
            }
        }
        let probe_at = self.probe.as_ref().map_or(Time::NEVER, |p| p.deadline());
        Timers { deadline: probe_at.min(self.rack.at), rto_at }
    }
    /// The timer waits for a probe, or for the timeout where that comes first; false where no probe is sent.
    fn schedule_probe(&mut self, c: &Connection<'_>, rto: Dur) -> bool {
        let Some(probe) = &mut self.probe else { return false };
        self.rack.at = Time::NEVER;
        probe.schedule(c, rto);
        true
    }
    fn waits_for_probe(&self) -> bool {
        self.probe.as_ref().is_some_and(|p| p.deadline() != Time::NEVER)
    }
    fn waits_for_timeout(&self) -> bool {
        self.rack.at == Time::NEVER && !self.waits_for_probe()
    }
    fn wait_for_timeout(&mut self) {
        self.rack.at = Time::NEVER;
        self.wait_for_window();
    }
    fn wait_for_window(&mut self) {
        if let Some(probe) = &mut self.probe {
            probe.put_off();
        }
    }
}
