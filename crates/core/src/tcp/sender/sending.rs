//! What a sender sends next: new data, retransmissions, probes, and the packets themselves.

use super::{connection, Connection, Phase, Sender, NO_WINDOW};
use crate::control::Limit;
use crate::header::CcHeader;
use crate::packet::{flag, Ecn, Packet};
use crate::tcp::rate::Standing;
use crate::tcp::recovery::{Choice, Outgoing, Why};
use crate::tcp::{most_saved, ticks, EcnMode, Personality, Recovery};
use penstock_units::{Dur, Time};

/// Segments at the start of a connection that Linux does not pace.
const UNPACED: u64 = 10;

impl Sender {
    /// Writes the next packet into `out` and `header`; false when nothing may be sent now.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) -> bool {
        let sent = self.next_packet(now, out, header);
        if !sent {
            self.settle();
        }
        sent
    }
    #[inline(always)]
    fn next_packet(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) -> bool {
        if self.syn_due {
            self.send_syn(now, out, header);
            return true;
        }
        if matches!(self.phase, Phase::Closed | Phase::SynSent) {
            return false;
        }
        if self.wants.urgent && self.send_urgent(now, out, header) {
            return true;
        }
        if self.persist_due {
            self.persist_due = false;
            if self.view.nxt < self.seq_end() && self.view.nxt == self.view.una {
                self.send_window_probe(now, out, header);
                return true;
            }
        }
        if self.header_len > 0 && self.cc.wants_request(now, &self.view) {
            self.send_request(now, out, header);
            return true;
        }
        if self.phase == Phase::FastRecovery || self.wants.chooses {
            return self.send_in_recovery(now, out, header);
        }
        if self.view.limit == Limit::Pacing && self.waits_still(now) {
            debug_assert!(self.choose(now).is_some() && self.held_back(now) == Some(Limit::Pacing));
            return false;
        }
        let Some((seq, len)) = self.choose(now) else { return self.nothing() };
        if let Some(limit) = self.held_back(now) {
            self.view.limit = limit;
            return false;
        }
        self.emit(now, seq, len, out, header);
        true
    }
    /// Nothing can be sent, for the reason in `view.limit`.
    #[inline]
    fn nothing(&mut self) -> bool {
        if self.view.limit == Limit::Pacing {
            // There is nothing to send when the pacing time comes: it is no reason to wake up any more.
            self.view.limit = Limit::Application;
        }
        if self.log.is_some() && !self.steers && self.view.limit == Limit::Application {
            // The sender is out of data. This is earlier than the checks of the rate draft's section 3.4 (at the next
            // write, ACK or timer), with the same result, because data delivered until then leave the flight. (Linux
            // checks where the application writes.)
            let flight = self.flight();
            if let Some(log) = self.log.as_mut().filter(|_| flight < self.cwnd) {
                log.on_app_limited(flight);
            }
        }
        false
    }
    /// What the recovery sends whatever the windows say; false when there is no more.
    #[cold]
    fn send_urgent(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) -> bool {
        let Some(o) = self.recovery.urgent(&connection!(self, now)) else {
            self.sync(now);
            return false;
        };
        let sent = self.active_at;
        self.emit(now, o.seq, o.end - o.seq, out, header);
        match o.why {
            Why::Probe => {
                self.stats.probes += 1;
                self.stats.probe_wait += now.since(sent);
            }
            Why::Thread => {
                out.flags |= flag::MARKED;
                self.stats.thread_retransmits += 1;
            }
            Why::Next | Why::Lost | Why::Rescue => {}
        }
        self.sync(now);
        true
    }
    /// As the recovery chooses.
    fn send_in_recovery(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) -> bool {
        let o = match self.recovery.choose(&connection!(self, now)) {
            Choice::Usual => match self.choose(now) {
                Some((seq, len)) => Outgoing { seq, end: seq + len, why: Why::Next },
                None => return self.nothing(),
            },
            Choice::Send(o) => o,
            Choice::Wait(limit) => {
                self.view.limit = limit;
                return self.nothing();
            }
        };
        if let Err(limit) = self.joins(now, o.seq, o.why == Why::Next) {
            self.view.limit = limit;
            return false;
        }
        self.emit(now, o.seq, o.end - o.seq, out, header);
        self.joined(o.end, out);
        self.recovery.on_sent(&connection!(self, now), &o);
        self.sync(now);
        true
    }

    /// The host's queue, pacing, and the pause after a mark at one segment: may a packet leave now?
    #[inline]
    pub(super) fn held_back(&mut self, now: Time) -> Option<Limit> {
        if now < self.ecn_hold && (self.cfg.ecn_floor || self.cwnd < self.view.segment as u64) {
            return Some(Limit::Window);
        }
        if now < self.host_free_at {
            return Some(Limit::Host);
        }
        // Linux (tcp_update_skb_after_send, from memory; a script shows it) does not pace the first ten segments of a connection.
        if self.pacing.is_some() && now < self.pace_at && !(self.steers && self.stats.data_packets < UNPACED)
        {
            return Some(Limit::Pacing);
        }
        None
    }

    /// A sender that had a segment, waits for its pacing time, and has no window that could have closed since: what [`Self::choose`] and
    /// [`Self::held_back`] would say again.
    #[inline(always)]
    fn waits_still(&self, now: Time) -> bool {
        let v = &self.view;
        now < self.pace_at
            && self.pacing.is_some()
            && !self.steers
            && self.cwnd.min(self.cap) >= NO_WINDOW
            && v.nxt >= v.max_sent
            && v.nxt < self.seq_end()
            && v.nxt + u64::from(v.mss) <= v.una + v.rwnd
            && now >= self.host_free_at.max(self.ecn_hold)
    }

    /// The next segment the windows allow: its start and its length in sequence space.
    #[inline(always)]
    pub(super) fn choose(&mut self, now: Time) -> Option<(u64, u64)> {
        let mut seq = self.view.nxt;
        let mut limit = self.seq_end();
        if seq < self.view.max_sent {
            // After a timeout: skip what the receiver has reported, do not run over a boundary already sent.
            seq = self.sacked.first_gap(seq);
            self.view.nxt = seq;
            limit = limit.min(self.sacked.next_start(seq).unwrap_or(limit));
        }
        if seq >= limit {
            self.view.limit = Limit::Application;
            return None;
        }
        let span = self.segment_end(seq, limit) - seq;
        // Windows count payload; FIN takes a number but no place.
        let len = span.min(self.view.app_end.saturating_sub(seq));
        let in_flight = self.flight();
        let window = self.cwnd.min(self.cap).saturating_add_signed(self.wants.allowance);
        if len > 0 && in_flight + len > window && in_flight > 0 {
            self.view.limit = if self.cap < self.cwnd { Limit::Receiver } else { Limit::Window };
            return None;
        }
        let room = (self.view.una + self.view.rwnd).saturating_sub(seq);
        if room < len {
            self.view.limit = Limit::Receiver;
            if in_flight > 0 || room > 0 && room * 2 >= self.cfg.rwnd {
                // Wait for acknowledgements rather than send small segments (RFC 1122 section 4.2.3.4).
                return (room > 0 && in_flight == 0).then_some((seq, room));
            }
            if self.persist_at == Time::NEVER && !self.persist_due {
                let wait = self.rtt.rto(&self.cfg) * u64::from(self.persist_backoff);
                self.persist_at = now + wait.min(self.cfg.rto_max);
                self.persist_backoff = (self.persist_backoff * 2).min(self.cfg.backoff_max);
            }
            return None;
        }
        Some((seq, span))
    }

    pub(super) fn send_syn(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) {
        self.syn_due = false;
        let fallback = self.cfg.ecn_fallback && self.cfg.ecn != EcnMode::Off && self.syn_sent > 0;
        self.syn_sent += 1;
        *out = Packet {
            stamp: now.0,
            flow: self.flow,
            wire_len: self.cfg.header_len() + self.header_len,
            flags: flag::SYN | if fallback { flag::NO_ECN } else { 0 },
            ecn: self.cfg.handshake_ecn(),
            ..Packet::default()
        };
        out.set_class(self.class);
        self.stamp_header(now, out, header);
        if self.rto_at == Time::NEVER {
            self.rto_at = self.rto_after(now);
        }
    }

    #[inline]
    pub(super) fn emit(&mut self, now: Time, seq: u64, len: u64, out: &mut Packet, header: &mut CcHeader) {
        let v = &mut self.view;
        let end = seq + len;
        let fin = self.close && end > v.app_end;
        let payload = len - u64::from(fin);
        let again = seq < v.max_sent;
        let mut flags = 0;
        if fin {
            flags |= flag::FIN;
        }
        if again {
            flags |= flag::RETRANSMIT;
            self.stats.retransmits += 1;
            // Karn: a segment that overlaps a retransmission, or whose ACK may wait for it, is not timed.
            if self.timed.is_some_and(|(timed_end, _)| seq < timed_end) {
                self.timed = None;
            }
        } else {
            if self.timed.is_none() {
                self.timed = Some((end, now));
            }
            if self.cwr_due {
                // RFC 3168 section 6.1.2: CWR on the first new data after the reduction.
                flags |= flag::CWR;
                self.cwr_due = false;
            }
        }
        self.stats.data_packets += 1;
        let mut wire_len = payload as u32 + self.cfg.header_len() + self.header_len;
        if self.cfg.header_compression {
            let irregular = self.cfg.timestamps || flags & !flag::RETRANSMIT != 0;
            let saved = self.compressor.saved_on_data(seq, payload as u32, irregular);
            wire_len -= saved.min(most_saved(self.cfg.header_len()).0);
        }
        *out = Packet {
            seq,
            stamp: now.0,
            flow: self.flow,
            wire_len,
            payload: payload as u32,
            flags,
            // RFC 3168 section 6.1.5: retransmissions are not ECN-capable. RFC 8257 does not say; DCTCP's are, as in
            // Linux and Windows (RFC 8311 section 4.3 permits it).
            ecn: match self.cfg.ecn {
                EcnMode::Off => Ecn::NotEct,
                _ if self.no_ecn => Ecn::NotEct,
                EcnMode::Classic if again => Ecn::NotEct,
                _ => Ecn::Ect0,
            },
            ..Packet::default()
        };
        out.set_class(self.class);
        let idle = v.una == v.max_sent;
        if idle && now > self.active_at && v.max_sent > 0 {
            self.end_silence(now);
        }
        let v = &mut self.view;
        if seq <= v.nxt {
            v.nxt = v.nxt.max(end);
        }
        v.max_sent = v.max_sent.max(end);
        self.active_at = now;
        if self.keeps_timer {
            self.since.new |= !again;
            self.since.alone |= idle;
            self.since.head_again |= again && seq <= self.view.una;
        } else if self.rto_at == Time::NEVER {
            self.rto_at = self.rto_after(now);
        }
        if self.log.is_some() {
            self.note_sent(now, seq, seq + payload, idle);
        }
        if self.hears_all {
            if self.steers && end >= self.view.app_end {
                out.flags |= flag::PUSH;
            }
            if self.steers && now >= self.pace_at {
                // Linux (tcp_update_skb_after_send): what leaves late shortens the wait for the next, by half of it at most. The
                // segments of a burst leave with its first.
                self.late = if self.pace_at == Time::ZERO { Dur::ZERO } else { now.since(self.pace_at) };
            }
            self.rearm = now;
        }
        self.stamp_header(now, out, header);
        self.paced = (now, out.wire_len);
        self.pace();
    }

    /// Tells the law how long nothing has been out.
    #[cold]
    fn end_silence(&mut self, now: Time) {
        let idle = match self.cfg.personality {
            Personality::Rfc => now.since(self.active_at),
            Personality::Linux => ticks::between(self.active_at, now, self.cfg.rto_granularity),
        };
        self.cc.on_idle(now, idle, &self.view);
        self.refresh();
    }
    #[cold]
    fn note_sent(&mut self, now: Time, start: u64, end: u64, idle: bool) {
        let standing = self.wants_rate.then(|| Standing { idle, in_flight: self.flight(), lost: self.lost });
        let Some(log) = &mut self.log else { return };
        let alone = standing.is_some_and(|s| s.in_flight <= end - start);
        let restarts = alone && log.is_app_limited();
        log.on_sent(now, start, end, standing);
        if restarts {
            self.cc.on_restart(now, &self.view);
            self.refresh();
        }
    }

    /// Probes the receive window (RFC 9293 section 3.8.6.1). A window of less than a segment is used up, so that a
    /// receiver with only small windows is served (RFC 1122 section 4.2.3.4, override timeout). An empty one is probed
    /// without data, as Linux does, so that no outstanding data can look lost.
    #[cold]
    pub(super) fn send_window_probe(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) {
        let (seq, room) = (self.view.nxt, self.view.rwnd);
        if room > 0 {
            let end = self.segment_end(seq, self.seq_end().min(seq + room));
            self.emit(now, seq, end - seq, out, header);
            return;
        }
        *out = Packet {
            seq,
            stamp: now.0,
            flow: self.flow,
            wire_len: self.cfg.header_len(),
            flags: flag::PROBE,
            ecn: self.cfg.control_ecn(self.no_ecn),
            ..Packet::default()
        };
        out.set_class(self.class);
        *header = CcHeader::NONE;
    }

    /// A packet without payload that only carries a congestion header.
    pub(super) fn send_request(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) {
        *out = Packet {
            seq: self.view.nxt,
            stamp: now.0,
            flow: self.flow,
            wire_len: self.cfg.header_len() + self.header_len,
            flags: flag::PROBE,
            ecn: self.cfg.control_ecn(self.no_ecn),
            ..Packet::default()
        };
        out.set_class(self.class);
        self.stamp_header(now, out, header);
        // It is part of the pacing rate: the next data waits for it too.
        self.paced.1 += out.wire_len;
        self.pace();
    }

    /// Lets the controller write its header; a packet that gets none does not pay for it.
    #[inline]
    pub(super) fn stamp_header(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) {
        *header = CcHeader::NONE;
        if self.header_len > 0 {
            self.cc.on_send(now, &self.view, out, header);
            if header.is_none() {
                out.wire_len -= self.header_len;
            }
            self.refresh();
        }
    }
}
