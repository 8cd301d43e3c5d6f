//! What the switch knows of a connection at the edge of the network, and how a controller of the simulator
//! steers a socket from there.
//!
//! The switch sees every packet just before the kernel does. Congestion headers therefore travel beside the kernel's
//! packets, as in the simulator, and pay their bytes there. The controller gets an acknowledgement before the kernel
//! does, which then finds the new window when it handles it.

use crate::idle::{Repair, Timers};
use crate::wire::{self, Segment};
use penstock_core::packet::{flag, Packet};
use penstock_core::tcp::{EcnMode, RttEstimator, TcpConfig};
use penstock_core::{AckRecord, CcHeader, Congestion, FlowView, Limit, Report, WindowLaw};
use penstock_live_bpf::{Seen, Steer, Steered};
use penstock_sim::network::FlowRoute;
use penstock_units::{Dur, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// What the applications tell the switch of a connection before its SYN leaves.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Number of the connection.
    pub flow: u32,
    /// Its identity, which random streams are made from.
    pub key: u64,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Its protocol, by position.
    pub protocol: u16,
    /// Its workload, by position.
    pub workload: u32,
    /// Traffic class.
    pub class: u8,
    /// Bytes it was opened with, 0 = not known.
    pub size: u64,
    /// Deadline.
    pub due: Time,
}

/// What the switch counted of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct EdgeCounters {
    /// Its packets dropped.
    pub drops: u64,
    /// ACKs with ECN-Echo that reached the sender.
    pub ece_acks: u64,
    /// Tail-loss probes that sent the last segment again.
    pub probes: u64,
    /// Time from the last segment sent to each of them.
    pub probe_wait: Dur,
}

impl EdgeCounters {
    /// Adds those of another connection of the same number.
    pub fn add(&mut self, other: &EdgeCounters) {
        self.drops += other.drops;
        self.ece_acks += other.ece_acks;
        self.probes += other.probes;
        self.probe_wait += other.probe_wait;
    }
    /// What was counted since `before`.
    pub fn since(&self, before: &EdgeCounters) -> EdgeCounters {
        EdgeCounters {
            drops: self.drops - before.drops,
            ece_acks: self.ece_acks - before.ece_acks,
            probes: self.probes - before.probes,
            probe_wait: Dur(self.probe_wait.0 - before.probe_wait.0),
        }
    }
}

/// A connection as the switch sees it.
pub struct Edge {
    /// What the applications said.
    pub opened: Opened,
    /// Where its data goes.
    pub forth: FlowRoute,
    /// Where its acknowledgements go.
    pub back: FlowRoute,
    /// Counters.
    pub counters: EdgeCounters,
    /// Its sender has closed or reset it.
    pub closed: bool,
    /// Source port, which names it to the kernel's congestion control.
    port: u16,
    cfg: Arc<TcpConfig>,
    /// Sequence number of the SYN, once seen.
    first: Option<u32>,
    /// Window scale of the receiver.
    scale: u8,
    /// What the receiver has acknowledged last, zero before it has.
    acked: u32,
    /// Facts for controllers.
    pub view: FlowView,
    rtt: RttEstimator,
    times: Times,
    /// Congestion header of the last data packet delivered, for the ACKs to carry back.
    echo: CcHeader,
    controller: Option<Box<dyn WindowLaw>>,
    seen: Seen,
    /// The kernel has sent something again: a loss, as far as can be seen from outside.
    repaired: bool,
    timers: Timers,
    /// Recovery and reaction to marks last until this is acknowledged.
    recovery_end: u64,
    ecn_end: u64,
}

/// When the segments in flight were sent.
#[derive(Debug, Default)]
struct Times {
    /// End and time of every segment sent once; none of a range that was sent again (Karn).
    once: VecDeque<(u64, Time)>,
    /// The receiver has told of a gap that is not closed yet.
    gap: bool,
}

impl Times {
    fn sent(&mut self, end: u64, now: Time) {
        self.once.push_back((end, now));
    }
    fn again(&mut self, start: u64, end: u64) {
        self.once.retain(|(e, _)| *e <= start || *e > end);
    }
    /// Returns when the segment was sent that an acknowledgement up to `una` answers. By RFC 7323 section 4.3, a
    /// delayed ACK answers the earliest segment it acknowledges, so that the delay is part of the sample, as in the
    /// simulator. An ACK that closes a gap answers the last one, for which the others waited.
    fn acknowledged(&mut self, una: u64) -> Option<Time> {
        let count = self.once.partition_point(|(end, _)| *end <= una);
        let mut answered = self.once.drain(..count).map(|(_, at)| at);
        if std::mem::take(&mut self.gap) {
            answered.next_back()
        } else {
            answered.next()
        }
    }
}

/// News of one acknowledgement, for a controller above connections.
pub struct StackEvent {
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// With ECN-Echo.
    pub ece: bool,
    /// A valid RTT sample.
    pub rtt: Option<Dur>,
    /// When the segment that it answers was sent ([`Times::acknowledged`]).
    pub sent_at: Time,
    /// A loss or timeout the kernel has reported since.
    pub congestion: Option<Congestion>,
}

impl Edge {
    /// A connection whose SYN is about to leave.
    pub fn new(
        opened: Opened,
        port: u16,
        cfg: Arc<TcpConfig>,
        ways: (FlowRoute, FlowRoute),
        controller: Option<Box<dyn WindowLaw>>,
        now: Time,
    ) -> Edge {
        let view = FlowView {
            flow: opened.flow,
            una: 0,
            nxt: 0,
            max_sent: 0,
            app_end: u64::MAX / 4,
            in_flight: 0,
            rwnd: cfg.rwnd,
            segment: cfg.mss,
            mss: cfg.mss,
            rtt_latest: Dur::ZERO,
            rtt_smoothed: Dur::ZERO,
            rtt_min: Dur::MAX,
            limit: Limit::Window,
            in_recovery: false,
            started: now,
            size: opened.size,
            due: opened.due,
        };
        Edge {
            opened,
            forth: ways.0,
            back: ways.1,
            counters: EdgeCounters::default(),
            closed: false,
            port,
            rtt: RttEstimator::default(),
            cfg,
            first: None,
            scale: 0,
            acked: 0,
            view,
            times: Times::default(),
            echo: CcHeader::NONE,
            controller,
            seen: Seen::default(),
            repaired: false,
            timers: Timers::default(),
            recovery_end: 0,
            ecn_end: 0,
        }
    }
    /// When the controller wants to act by itself.
    pub fn deadline(&self) -> Time {
        self.controller.as_ref().map_or(Time::NEVER, |c| c.deadline())
    }
    /// That time has come.
    pub fn on_deadline(&mut self, now: Time, steered: Option<&Steered>) {
        if let Some(c) = &mut self.controller {
            if c.deadline() <= now {
                c.on_deadline(now, &self.view);
            }
        }
        self.steer(steered);
    }
    /// Reports internal values of the controller by their declarations.
    pub fn observe(&self, report: &mut Report<'_>) {
        if let Some(c) = &self.controller {
            c.observe(report);
        }
    }
    /// Wire offset from the first byte of data, extended to 64 bits by what is known already.
    fn offset(&self, seq: u32) -> u64 {
        let first = self.first.unwrap_or(seq).wrapping_add(1);
        let near = self.view.max_sent;
        let low = seq.wrapping_sub(first);
        // The value nearest to what was sent last, with these lower 32 bits.
        let x = (near & !0xffff_ffff) | u64::from(low);
        [x.wrapping_sub(1 << 32), x, x + (1 << 32)]
            .into_iter()
            .filter(|c| *c < u64::MAX / 2)
            .min_by_key(|c| c.abs_diff(near))
            .unwrap_or(x)
    }
    /// A packet of the sender is about to enter the network. Returns how long the sender was silent before a
    /// retransmission that is no tail-loss probe.
    pub fn on_forward_out(
        &mut self,
        now: Time,
        s: &Segment,
        packet: &mut Packet,
        header: &mut CcHeader,
    ) -> Option<Dur> {
        let mut silent = None;
        *header = CcHeader::NONE;
        if s.flags & flag::SYN != 0 {
            self.first = Some(s.seq);
        } else if s.payload > 0 {
            let start = self.offset(s.seq);
            let end = start + u64::from(s.payload);
            if start < self.view.max_sent {
                packet.flags |= flag::RETRANSMIT;
                self.repaired |= self.view.una >= self.recovery_end;
                self.times.again(start, end);
                let last = end == self.view.max_sent && self.cfg.tail_loss_probe && !self.times.gap;
                match self.timers.again(now, last, self.view.una, self.view.max_sent) {
                    Repair::Probe(wait) => {
                        self.counters.probes += 1;
                        self.counters.probe_wait += wait;
                    }
                    Repair::Other(wait) => silent = Some(wait),
                }
            } else {
                self.times.sent(end, now);
            }
            self.timers.sent(now);
            self.view.max_sent = self.view.max_sent.max(end);
            self.view.nxt = self.view.max_sent;
            self.view.in_flight = self.view.nxt.saturating_sub(self.view.una);
        }
        if let Some(c) = &mut self.controller {
            // Pure ACKs of the sender's side carry nothing.
            if c.header_len() > 0 && (s.payload > 0 || s.flags & flag::SYN != 0) {
                c.on_send(now, &self.view, packet, header);
                if !header.is_none() {
                    packet.wire_len += c.header_len();
                }
            }
        }
        silent
    }
    /// A packet of the sender has reached the receiver.
    pub fn on_forward_in(&mut self, header: &CcHeader) {
        if !header.is_none() {
            self.echo = *header;
        }
    }
    /// Is an acknowledgement that is read from the receiver a duplicate, of what was acknowledged last?
    pub fn repeats(&mut self, s: &Segment) -> bool {
        s.flags & flag::SYN == 0 && std::mem::replace(&mut self.acked, s.ack) == s.ack
    }
    /// Data begins where the receiver has acknowledged everything before.
    pub fn is_next(&self, s: &Segment) -> bool {
        s.seq == self.acked
    }
    /// An acknowledgement is about to enter the network.
    pub fn on_back_out(&mut self, frame: &[u8], s: &Segment, packet: &mut Packet, header: &mut CcHeader) {
        *header = self.echo;
        if s.flags & flag::SYN != 0 {
            self.scale = wire::window_scale(frame, s);
        }
        if let Some(c) = self.controller.as_ref().filter(|_| !self.echo.is_none()) {
            packet.wire_len += c.header_len();
        }
    }
    /// Lowers the window an acknowledgement carries to `cap` bytes, never below one segment.
    pub fn cap(&self, frame: &mut [u8], s: &Segment, cap: u64) {
        if s.flags & flag::SYN != 0 {
            return;
        }
        let window = (cap.max(u64::from(self.cfg.mss)) >> self.scale).min(0xffff) as u16;
        if window < s.window {
            wire::set_window(frame, s, window.max(1));
        }
    }
    /// An acknowledgement is about to reach the sender.
    pub fn on_back_in(
        &mut self,
        now: Time,
        s: &Segment,
        header: &CcHeader,
        steered: Option<&Steered>,
    ) -> StackEvent {
        let mut stack_events = StackEvent { bytes: 0, ece: false, rtt: None, sent_at: now, congestion: None };
        if s.flags & flag::ACK == 0 || s.reset {
            return stack_events;
        }
        stack_events.ece = s.flags & flag::ECE != 0 && s.flags & flag::SYN == 0;
        if stack_events.ece {
            self.counters.ece_acks += 1;
        }
        let syn = s.flags & flag::SYN != 0;
        let una = if syn { 0 } else { self.offset(s.ack) };
        let duplicate = una == self.view.una;
        if !syn {
            self.view.rwnd = u64::from(s.window) << self.scale;
        }
        if una > self.view.una && una <= self.view.max_sent + 1 {
            stack_events.bytes = una - self.view.una;
            self.timers.answered();
            self.view.una = una;
            if let Some(at) = self.times.acknowledged(una) {
                stack_events.sent_at = at;
                stack_events.rtt = Some(now.since(at));
            }
            self.view.in_flight = self.view.nxt.saturating_sub(una);
        } else if syn {
            stack_events.rtt = Some(now.since(self.view.started));
            stack_events.sent_at = self.view.started;
        } else if duplicate {
            self.times.gap |= self.view.in_flight > 0;
        }
        if let Some(sample) = stack_events.rtt {
            self.rtt.sample(sample, &self.cfg);
            self.view.rtt_latest = sample;
            self.view.rtt_smoothed = self.rtt.smoothed;
            self.view.rtt_min = self.rtt.min;
        }
        if let Some(steered) = steered {
            let seen = steered.seen(self.port);
            if seen.timeouts != self.seen.timeouts {
                stack_events.congestion = Some(Congestion::Timeout { in_a_row: 1, kept: 0 });
                self.view.in_recovery = false;
            } else if seen.losses != self.seen.losses {
                stack_events.congestion = Some(Congestion::Loss);
                self.view.in_recovery = true;
            }
            self.seen = seen;
        } else if std::mem::take(&mut self.repaired) {
            stack_events.congestion = Some(Congestion::Loss);
        }
        if stack_events.congestion.is_some() {
            self.recovery_end = self.view.max_sent;
        }
        self.tell(now, &stack_events, header, duplicate);
        self.steer(steered);
        stack_events
    }
    /// Tells the controller, in the order of the simulator's sender.
    fn tell(&mut self, now: Time, stack_events: &StackEvent, header: &CcHeader, duplicate: bool) {
        let Some(c) = &mut self.controller else { return };
        // What the kernel's recovery has found is not seen from here but as a sign of congestion; nor is the delivery rate.
        let flight = self.view.in_flight;
        let ack = AckRecord {
            ece: stack_events.ece,
            sent_at: stack_events.sent_at,
            rtt: stack_events.rtt,
            limit: self.view.limit,
            flight_before: flight + stack_events.bytes,
            flight_after: flight,
            ..AckRecord::plain(now, stack_events.bytes, header)
        };
        if let Some(event) = stack_events.congestion {
            c.on_congestion(now, &self.view, event);
        }
        if self.view.in_recovery && self.view.una >= self.recovery_end {
            self.view.in_recovery = false;
            c.on_congestion(now, &self.view, Congestion::Recovered);
        }
        if stack_events.bytes > 0 || duplicate {
            c.on_ack(&ack, &self.view);
        }
        // RFC 3168 section 6.1.2: once per window of data.
        if stack_events.ece && self.cfg.ecn != EcnMode::Off && self.view.una > self.ecn_end {
            c.on_congestion(now, &self.view, Congestion::Ecn);
            self.ecn_end = self.view.max_sent;
        }
    }
    /// Passes the controller's answer to the kernel.
    pub fn steer(&self, steered: Option<&Steered>) {
        let (Some(c), Some(steered)) = (&self.controller, steered) else { return };
        let control = c.control();
        let segment = u64::from(self.view.segment);
        // A sender uses whole segments, and never less than one.
        let window = control.window.map_or(u64::from(u16::MAX), |w| (w.0 / segment).max(1));
        // The kernel paces payload, the simulator bytes on the wire. A controller that requests short segments wants
        // one per round trip, to learn of a higher rate. The kernel has only full ones, and does not shorten a pacing
        // delay that has begun when the rate rises. The number of packets per round trip is therefore kept.
        let asked = control.segment.map_or(segment, |s| s.0.clamp(1, segment));
        let wire = asked + u64::from(self.cfg.header_len() + c.header_len());
        let share = segment as f64 / wire as f64;
        let pacing = control.pacing.map_or(0, |rate| ((rate.as_bytes_per_sec() * share) as u64).max(1));
        steered.set(self.port, Steer { window: window.min(1 << 20) as u32, pacing });
    }
    /// True for packets that travel from the connection's sender to its receiver.
    pub fn is_forward(&self, s: &Segment) -> bool {
        s.src_port == self.port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Dur::micros(us)
    }

    #[test]
    fn a_delayed_ack_answers_the_earliest_segment_and_one_that_closes_a_gap_the_last() {
        let mut times = Times::default();
        for i in 1..=6 {
            times.sent(1000 * i, at(100 * i));
        }
        assert_eq!(times.acknowledged(2000), Some(at(100)));
        // The third is lost, the fourth and fifth arrive: two duplicates; the third is sent again and closes the gap.
        times.gap = true;
        times.again(2000, 3000);
        assert_eq!(times.acknowledged(5000), Some(at(500)));
        assert_eq!(times.acknowledged(6000), Some(at(600)));
        assert_eq!(times.acknowledged(6000), None);
    }

    #[test]
    fn what_was_sent_again_answers_nothing() {
        let mut times = Times::default();
        times.sent(1000, at(1));
        times.again(0, 1000);
        assert_eq!(times.acknowledged(1000), None);
    }
}
