//! Delayed acknowledgements as in Linux (`tcp_event_data_recv`, `__tcp_ack_snd_check`, `tcp_send_delayed_ack`, all from
//! memory). Quick ACKs are sent at the start, after a pause and after a gap; then an ACK for every second segment or
//! after the "ATO". The ATO is an estimate of the time between segments, at least 40 ms.
//!
//! Linux acknowledges when more than one full segment has come, whatever it measured that to be; here every segment with payload
//! counts as one, so that two short ones are acknowledged too. A segment that ends a write, or is short, is acknowledged as soon as
//! the application has read it (`tcp_measure_rcv_mss`, `tcp_cleanup_rbuf`): at once, where it reads at once. Where applications take their time
//! ([`Echo::follow_reads`]), what of this is left to them is in `buffer.rs`.
//!
//! Compressed ACKs (`tcp_comp_sack_*`; scripts show them): while a gap stays open, the first three segments out of
//! order are acknowledged each. Later ones share an ACK after a twentieth of the round trip, [`TcpConfig::comp_sack`]
//! at most. A timer of Linux has a slack; it goes off at its end. A kernel knows the round trip from the handshake and
//! from the time stamps that are echoed to it; here it is twice the shortest time that a segment took.

use super::buffer::Buffer;
use super::{Echo, Heard};
use crate::packet::{flag, Ecn, Packet};
use crate::tcp::{ticks, EcnMode, MissedTicks, TcpConfig};
use penstock_units::{Dur, Time};

/// TCP_ATO_MIN and TCP_DELACK_MIN: HZ / 25.
const ATO_MIN: Dur = Dur::millis(40);
/// TCP_DELACK_MAX, HZ / 5.
const DELAY_MAX: Dur = Dur::millis(200);
/// TCP_MAX_QUICKACKS.
const QUICK_MAX: u32 = 16;
/// What a mark asks for (`__tcp_ecn_check_ce`).
const QUICK_FOR_MARK: u32 = 2;
/// TCP_FASTRETRANS_THRESH: duplicates that are not held back.
const PLAIN_DUPLICATES: u32 = 3;
/// tcp_comp_sack_nr: most segments that are acknowledged together.
const HELD_MAX: u32 = 44;
/// tcp_comp_sack_slack_ns.
const SLACK: Dur = Dur::micros(100);
/// TCP_SACK_BLOCKS_EXPECTED: with more pieces than these, a new one sends what is held back.
const PIECES_MAX: u32 = 2;

/// Linux's delayed ACKs, with the echo of marks that the connection has.
#[derive(Clone, Debug)]
pub struct Linux {
    ecn: EcnMode,
    /// ATO; zero before the first segment.
    ato: Dur,
    last: Time,
    /// ACKs left that are not delayed.
    quick: u32,
    /// What quick-ack mode begins with: half of the receive window in segments, 16 at most.
    quick_acks: u32,
    /// A tick of the timers, and those that are missed.
    tick: Dur,
    missed: MissedTicks,
    /// The longest delay.
    longest: Dur,
    /// A gap longer than this is a pause: the retransmission timeout that this end would have, which sends no data.
    pause: Dur,
    rto_min: Dur,
    until: Time,
    /// Payload of a full segment; none where the application takes its time.
    full: u32,
    ece: bool,
    /// DCTCP.CE has changed with this segment.
    changed: bool,
    /// TCP_ECN_SEEN: something ECN-capable has come.
    capable: bool,
    held: Held,
    /// Where the application comes to read by itself, what hangs on that.
    buffer: Option<Buffer>,
    /// The window before the buffer has grown, in bytes; `mss` is the payload of a full segment.
    rwnd: u64,
    mss: u32,
}

/// ACKs that are held back.
#[derive(Clone, Debug)]
struct Held {
    /// The longest time, zero = they are not.
    longest: Dur,
    /// The shortest time a segment took to arrive.
    trip: Dur,
    /// compressed_ack.
    count: u32,
    until: Time,
    /// compressed_ack_rcv_nxt, and dup_ack_counter since it moved.
    next: u64,
    duplicates: u32,
    /// rcv_nxt: the next byte expected.
    expected: u64,
    /// rcv_wup: what the latest ACK has acknowledged.
    acknowledged: u64,
    /// Payload of a full segment.
    full: u64,
}

impl Held {
    /// A segment after which a gap is open, at the end of `__tcp_ack_snd_check`: whether its ACK leaves now.
    fn leaves(&mut self, now: Time, heard: &Heard) -> bool {
        if self.longest == Dur::ZERO || self.count >= HELD_MAX {
            return true;
        }
        if self.next != heard.next {
            (self.next, self.duplicates) = (heard.next, 0);
        }
        if self.duplicates < PLAIN_DUPLICATES {
            self.duplicates += 1;
            return true;
        }
        if heard.apart && heard.pieces > PIECES_MAX && self.count > 0 {
            return true;
        }
        self.count += 1;
        if self.until == Time::NEVER {
            self.until = now + (self.trip * 2 / 20).min(self.longest) + SLACK;
        }
        false
    }
}

impl Linux {
    /// As `cfg` says.
    pub fn new(cfg: &TcpConfig) -> Linux {
        let half = cfg.rwnd / (2 * u64::from(cfg.mss));
        Linux {
            ecn: cfg.ecn,
            ato: Dur::ZERO,
            last: Time::ZERO,
            quick: 0,
            quick_acks: half.clamp(2, u64::from(QUICK_MAX)) as u32,
            // tcp_delack_max: since Linux 6.8 a tick less than the floor of the timeout.
            tick: cfg.rto_granularity,
            missed: cfg.missed_ticks,
            longest: DELAY_MAX.min(cfg.floor().max(cfg.rto_granularity * 2) - cfg.rto_granularity),
            pause: cfg.floor(),
            rto_min: cfg.floor(),
            until: Time::NEVER,
            full: if cfg.read_rate.is_none() { cfg.mss } else { 0 },
            ece: false,
            changed: false,
            capable: false,
            held: Held {
                longest: cfg.comp_sack,
                trip: Dur::MAX,
                count: 0,
                until: Time::NEVER,
                next: 0,
                duplicates: 0,
                expected: 0,
                acknowledged: 0,
                full: u64::from(cfg.mss),
            },
            buffer: None,
            rwnd: cfg.rwnd,
            mss: cfg.mss,
        }
    }
    /// Time is read in ticks.
    fn ticks(&self, at: Time) -> u64 {
        at.0 / self.tick.0.max(1)
    }
    /// tcp_event_data_recv: the ATO follows the time between segments.
    fn measure(&mut self, now: Time) {
        let gap = now.since(self.last);
        self.last = now;
        if self.ato == Dur::ZERO {
            self.quick = self.quick_acks;
            self.ato = ATO_MIN;
        } else if gap <= ATO_MIN / 2 {
            self.ato = self.ato / 2 + ATO_MIN / 2;
        } else if gap < self.ato {
            self.ato = (self.ato / 2 + gap).min(self.pause);
        } else if self.ticks(now) - self.ticks(now - gap) > self.pause.0.div_ceil(self.tick.0.max(1)) {
            self.quick = self.quick_acks;
        }
    }
}

impl Echo for Linux {
    /// tcp_synack_rtt_meas: an end that only receives keeps the timeout of its handshake (scripts show it). One in which a packet was lost
    /// makes it long, and what comes after a pause is acknowledged late.
    fn on_handshake(&mut self, rtt: Option<Dur>) {
        // tcp_rtt_estimator's first sample; TCP_TIMEOUT_FALLBACK without one.
        self.pause = rtt.map_or(Dur::millis(3000), |rtt| rtt + (rtt * 2).max(self.rto_min));
        // tcp_send_delayed_ack: the round trip, where it is known, limits the delay.
        self.longest = self.longest.min(rtt.map_or(Dur::MAX, |rtt| rtt.max(ATO_MIN)));
    }
    fn before_data(&mut self, p: &Packet) -> Option<bool> {
        let ce = p.ecn == Ecn::Ce;
        match self.ecn {
            EcnMode::Off => None,
            EcnMode::Classic => {
                // RFC 3168 section 6.1.3.
                if p.has(flag::CWR) {
                    self.ece = false;
                }
                // __tcp_ecn_check_ce (a script shows it): the first mark brings quick ACKs, and what has been sent again, by its codepoint.
                let again = p.ecn == Ecn::NotEct && self.capable;
                if p.payload > 0 && (ce && !self.ece || again) {
                    self.quick = self.quick.max(QUICK_FOR_MARK);
                }
                self.ece |= ce;
                self.capable |= p.ecn != Ecn::NotEct;
                None
            }
            EcnMode::Dctcp => {
                // RFC 8257 section 3.2: what came before a change is acknowledged first.
                self.changed = ce != self.ece;
                self.ece = ce;
                self.changed.then_some(!ce)
            }
        }
    }
    fn on_data(&mut self, now: Time, p: &Packet, heard: &Heard) -> u32 {
        self.measure(now);
        if heard.duplicate || p.seq_len() == 0 {
            self.quick = self.quick_acks;
        }
        let grows = self.buffer.as_mut().is_some_and(|b| b.take(u64::from(p.payload), heard));
        self.quick |= u32::from(grows);
        let held = &mut self.held;
        held.trip = held.trip.min(now.since(p.sent_at()));
        let (next, gap) = (heard.next, heard.pieces > 0);
        // ICSK_ACK_PUSHED; what lies behind a gap is not read.
        let mut read = self.full > 0 && !gap && (p.payload < self.full || p.has(flag::PUSH));
        let mut more = heard.unacknowledged >= 2 || gap && next > held.acknowledged + held.full;
        if let Some(buffer) = &mut self.buffer {
            more = more && buffer.opens();
            if core::mem::take(&mut read) {
                buffer.leave();
            }
        }
        // tcp_ecn_accept_cwr: the sender's window may be one segment.
        let reduced = p.has(flag::CWR) && self.ecn != EcnMode::Off && p.payload > 0;
        let at_once = self.changed
            || reduced
            || read
            || !heard.in_order && !gap
            || more
            || self.quick > 0
            || p.flags & (flag::PROBE | flag::FIN) != 0
            || gap && held.leaves(now, heard);
        held.expected = next;
        if !at_once && !gap && self.until == Time::NEVER {
            self.until =
                ticks::expiry(now, self.ato.max(ATO_MIN).min(self.longest), self.tick, &self.missed, false);
        }
        u32::from(at_once)
    }
    fn on_ack_sent(&mut self) {
        self.until = Time::NEVER;
        self.quick = self.quick.saturating_sub(1);
        let held = &mut self.held;
        (held.until, held.count, held.acknowledged) = (Time::NEVER, 0, held.expected);
        if let Some(buffer) = &mut self.buffer {
            buffer.acknowledged();
        }
    }
    fn follow_reads(&mut self) -> bool {
        // An application that reads at a rate has a window of its own (`read_rate`).
        if self.full > 0 {
            self.buffer = Some(Buffer::new(self.rwnd, self.mss));
        }
        self.full > 0
    }
    fn unread(&self) -> bool {
        self.buffer.as_ref().is_some_and(Buffer::unread)
    }
    fn on_read(&mut self) -> bool {
        self.buffer.as_mut().is_some_and(Buffer::read)
    }
    fn owes(&self) -> bool {
        self.buffer.as_ref().is_some_and(Buffer::owes)
    }
    fn ece(&self) -> bool {
        self.ece
    }
    fn deadline(&self) -> Time {
        self.until.min(self.held.until)
    }
    fn on_deadline(&mut self, now: Time) -> u32 {
        let due = now >= self.until;
        if due {
            self.until = Time::NEVER;
            // tcp_delack_timer_handler: the delay has run out, so segments come further apart than the ATO says.
            self.ato = (self.ato * 2).min(self.pause);
        }
        // tcp_compressed_ack_kick
        let release = now >= self.held.until;
        if release {
            self.held.until = Time::NEVER;
        }
        u32::from(due || release)
    }
}
