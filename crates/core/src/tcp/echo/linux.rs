//! Delayed acknowledgements as in Linux (`tcp_event_data_recv`, `__tcp_ack_snd_check`, `tcp_send_delayed_ack`, all from memory):
//! quick acks at the start, after a pause and after trouble, then an ACK for every second segment or after the "ATO", an estimate
//! of the time between segments that is never below 40 ms.
//!
//! Linux acknowledges when more than one full segment has come, whatever it measured that to be; here every segment with payload
//! counts as one, so that two short ones are acknowledged too. A segment that ends a write, or is short, is acknowledged as soon as
//! the application has read it (`tcp_measure_rcv_mss`, `tcp_cleanup_rbuf`): at once, where it reads at once. Linux also delays ACKs of what comes out of order by up to 1 ms (ACK
//! compression, `tcp_comp_sack_*`); here each is acknowledged at once (RFC 5681 section 4.2).

use super::{Echo, Heard};
use crate::packet::{flag, Ecn, Packet};
use crate::tcp::{ticks, EcnMode, TcpConfig};
use penstock_units::{Dur, Time};

/// TCP_ATO_MIN and TCP_DELACK_MIN: HZ / 25.
const ATO_MIN: Dur = Dur::millis(40);
/// TCP_DELACK_MAX, HZ / 5.
const DELAY_MAX: Dur = Dur::millis(200);
/// TCP_MAX_QUICKACKS.
const QUICK_MAX: u32 = 16;
/// What a mark asks for (`__tcp_ecn_check_ce`).
const QUICK_FOR_MARK: u32 = 2;

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
    /// A tick of the timers.
    tick: Dur,
    /// The longest delay.
    longest: Dur,
    /// A gap longer than this is a pause: the timeout of the peer, as far as is known here.
    pause: Dur,
    until: Time,
    /// Payload of a full segment; none where the application takes its time.
    full: u32,
    ece: bool,
    /// DCTCP.CE has changed with this segment.
    changed: bool,
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
            longest: DELAY_MAX.min(cfg.rto_min.max(cfg.rto_granularity * 2) - cfg.rto_granularity),
            pause: cfg.rto_min,
            until: Time::NEVER,
            full: if cfg.read_rate.is_none() { cfg.mss } else { 0 },
            ece: false,
            changed: false,
        }
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
        } else if gap > self.pause {
            self.quick = self.quick_acks;
        }
    }
}

impl Echo for Linux {
    fn before_data(&mut self, p: &Packet) -> Option<bool> {
        let ce = p.ecn == Ecn::Ce;
        match self.ecn {
            EcnMode::Off => None,
            EcnMode::Classic => {
                // RFC 3168 section 6.1.3.
                if p.has(flag::CWR) {
                    self.ece = false;
                }
                if ce {
                    self.ece = true;
                    self.quick = self.quick.max(QUICK_FOR_MARK);
                }
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
        // ICSK_ACK_PUSHED
        let read = self.full > 0 && (p.payload < self.full || p.has(flag::PUSH));
        let at_once = self.changed
            || read
            || !heard.in_order
            || heard.unacknowledged >= 2
            || self.quick > 0
            || p.flags & (flag::PROBE | flag::FIN) != 0;
        if !at_once && self.until == Time::NEVER {
            self.until = ticks::expiry(now, self.ato.max(ATO_MIN).min(self.longest), self.tick);
        }
        u32::from(at_once)
    }
    fn on_ack_sent(&mut self) {
        self.until = Time::NEVER;
        self.quick = self.quick.saturating_sub(1);
    }
    fn ece(&self) -> bool {
        self.ece
    }
    fn deadline(&self) -> Time {
        self.until
    }
    fn on_deadline(&mut self, now: Time) -> u32 {
        let due = now >= self.until;
        if due {
            self.until = Time::NEVER;
            // tcp_delack_timer_handler: the delay has run out, so segments come further apart than the ATO says.
            self.ato = (self.ato * 2).min(self.pause);
        }
        u32::from(due)
    }
}
