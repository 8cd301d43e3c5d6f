//! Round-trip time estimation and the retransmission timeout (RFC 6298).

use super::{Personality, TcpConfig};
use crate::windowed::Windowed;
use alloc::boxed::Box;
use penstock_units::{Dur, Time};

/// Linux (`tcp_min_rtt_wlen`): for so long a sample counts as the smallest of its path.
const PATH: Dur = Dur::millis(300_000);

/// Smoothed RTT, its variation, and the timeout with its back-off.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    /// SRTT; zero before the first sample.
    pub smoothed: Dur,
    /// RTTVAR.
    pub variation: Dur,
    /// Latest sample.
    pub latest: Dur,
    /// Smallest sample, [`Dur::MAX`] before the first.
    pub min: Dur,
    /// The smallest that still counts: of the last 300 s with Linux (`tcp_min_rtt_wlen`), of all by RFCs.
    pub recent: Dur,
    /// Sum of all samples.
    pub total: Dur,
    /// Number of samples.
    pub samples: u64,
    backoff: u32,
    syn_lost: bool,
    linux: Option<Box<LinuxVariation>>,
}

/// An estimator of a connection for which nothing is under way; what is beside the samples is there for few.
pub(super) struct IdleRtt {
    pub(super) smoothed: Dur,
    variation: Dur,
    pub(super) latest: Dur,
    min: Dur,
    pub(super) total: Dur,
    pub(super) samples: u64,
    rare: Option<Box<Rare>>,
}

struct Rare {
    backoff: u32,
    syn_lost: bool,
    linux: Option<Box<LinuxVariation>>,
    recent: Dur,
}

impl IdleRtt {
    /// The estimator that it was.
    pub(super) fn wake(self) -> RttEstimator {
        let IdleRtt { smoothed, variation, latest, min, total, samples, rare } = self;
        let usual = Rare { backoff: 1, syn_lost: false, linux: None, recent: min };
        let Rare { backoff, syn_lost, linux, recent } = rare.map_or(usual, |rare| *rare);
        RttEstimator { smoothed, variation, latest, min, recent, total, samples, backoff, syn_lost, linux }
    }
}

/// What Linux keeps beside (`tcp_rtt_estimator`, from memory).
#[derive(Clone, Debug)]
struct LinuxVariation {
    /// mdev: the variation as in RFC 6298, but slower to follow an RTT that falls.
    mean: Dur,
    /// mdev_max: its largest value in this round trip, the floor of the timeout at least.
    largest: Dur,
    /// rtt_seq: the round trip ends when this is acknowledged.
    end: u64,
    /// rtt_min: the smallest samples of the last 300 s, picoseconds.
    lowest: Option<Windowed<u64>>,
}

impl Default for RttEstimator {
    fn default() -> Self {
        RttEstimator {
            smoothed: Dur::ZERO,
            variation: Dur::ZERO,
            latest: Dur::ZERO,
            min: Dur::MAX,
            recent: Dur::MAX,
            total: Dur::ZERO,
            samples: 0,
            backoff: 1,
            syn_lost: false,
            linux: None,
        }
    }
}

impl RttEstimator {
    /// What has to be kept of it between two transfers.
    pub(super) fn rest(self) -> IdleRtt {
        let RttEstimator {
            smoothed,
            variation,
            latest,
            min,
            recent,
            total,
            samples,
            backoff,
            syn_lost,
            linux,
        } = self;
        let usual = backoff == 1 && !syn_lost && linux.is_none() && recent == min;
        let rare = (!usual).then(|| Box::new(Rare { backoff, syn_lost, linux, recent }));
        IdleRtt { smoothed, variation, latest, min, total, samples, rare }
    }
    /// Takes a sample of a segment that was sent once (Karn), and ends any back-off.
    pub fn sample(&mut self, rtt: Dur, cfg: &TcpConfig) {
        let g = cfg.rto_granularity.0.max(1);
        let r = Dur(rtt.0.div_ceil(g) * g);
        self.latest = rtt;
        self.min = self.min.min(rtt);
        self.recent = self.min;
        self.total += rtt;
        self.samples += 1;
        if self.smoothed == Dur::ZERO {
            // RFC 6298 (2.2): SRTT <- R, RTTVAR <- R/2
            self.smoothed = r;
            self.variation = r / 2;
        } else {
            // RFC 6298 (2.3): RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R|; SRTT <- 7/8 SRTT + 1/8 R
            let deviation = self.smoothed.0.abs_diff(r.0);
            self.variation = Dur((3 * self.variation.0 + deviation) / 4);
            self.smoothed = Dur((7 * self.smoothed.0 + r.0) / 8);
        }
        self.backoff = 1;
    }
    /// Takes a sample by Linux's rule (`tcp_rtt_estimator`, from memory). RTTVAR is the largest variation of a round
    /// trip and falls by a quarter of the difference after each. It is never below the floor, which bounds the time
    /// beyond SRTT, not the timeout. `una` and `nxt` tell the round trips apart. [`Self::note_least`] has the smallest sample.
    pub fn sample_linux(&mut self, rtt: Dur, cfg: &TcpConfig, una: u64, nxt: u64) {
        self.latest = rtt;
        self.total += rtt;
        self.samples += 1;
        self.backoff = 1;
        // Linux keeps four times the variation: mdev = 2 R, rttvar = max(mdev, floor) here are a quarter of that.
        let floor = cfg.floor() / 4;
        let Some(kept) = &mut self.linux else {
            self.smoothed = rtt;
            self.variation = (rtt / 2).max(floor);
            let (mean, largest) = (rtt / 2, self.variation);
            self.linux = Some(Box::new(LinuxVariation { mean, largest, end: nxt, lowest: None }));
            return;
        };
        let deviation = self.smoothed.0.abs_diff(rtt.0);
        let mut change = deviation as i64 - kept.mean.0 as i64;
        if rtt < self.smoothed && change > 0 {
            // An RTT that falls must not raise the timeout as fast as one that rises.
            change /= 8;
        }
        kept.mean = Dur(kept.mean.0.saturating_add_signed(change / 4));
        self.smoothed = Dur((7 * self.smoothed.0 + rtt.0) / 8);
        if kept.mean > kept.largest {
            kept.largest = kept.mean;
            self.variation = self.variation.max(kept.largest);
        }
        if una > kept.end {
            if kept.largest < self.variation {
                self.variation = Dur(self.variation.0 - (self.variation.0 - kept.largest.0) / 4);
            }
            kept.end = nxt;
            kept.largest = floor;
        }
    }
    /// The smallest sample of an ACK with Linux's sender (`tcp_update_rtt_min`), which counts for 300 s as the path's.
    pub fn note_least(&mut self, now: Time, rtt: Dur) {
        self.min = self.min.min(rtt);
        self.recent = self.min;
        if let Some(kept) = &mut self.linux {
            let lowest = kept.lowest.get_or_insert(Windowed::new(now.0, rtt.0));
            self.recent = Dur(lowest.take(now.0, rtt.0, PATH.0, |a, b| a <= b));
        }
    }
    /// The timeout now, back-off included.
    pub fn rto(&self, cfg: &TcpConfig) -> Dur {
        let base = if self.smoothed == Dur::ZERO {
            // RFC 6298 (2.1): 1 s; (5.7): 3 s when data transmission begins after a SYN was lost.
            if self.syn_lost {
                (cfg.rto_initial * 3).min(Dur::millis(3000)).max(cfg.rto_initial)
            } else {
                cfg.rto_initial
            }
        } else {
            // RFC 6298 (2.3): RTO <- SRTT + max(G, 4 RTTVAR); (2.4) at least the floor
            let g = cfg.rto_granularity.0.max(1);
            let raw = self.smoothed.0 + (4 * self.variation.0).max(cfg.rto_granularity.0);
            let rto = Dur(raw.div_ceil(g) * g);
            match cfg.personality {
                Personality::Rfc => rto.max(cfg.rto_min),
                // The floor is in the variation.
                Personality::Linux => rto,
            }
        };
        (base * u64::from(self.backoff)).min(cfg.rto_max)
    }
    /// The handshake took more than one SYN: no sample (Karn), and the back-off of the SYN ends with it. The
    /// timeout is three times the initial one, 3 s with the standard's 1 s (RFC 6298 (5.7)).
    pub fn syn_was_lost(&mut self) {
        self.syn_lost = true;
        self.backoff = 1;
    }
    /// Doubles the timeout after it fired (RFC 6298 (5.5)), up to the largest factor.
    pub fn back_off(&mut self, cfg: &TcpConfig) {
        self.backoff = (self.backoff * 2).min(cfg.backoff_max.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A round trip of 1 ms and a floor of 10 ms: on a clock of 4 ms 1 + 12 are rounded up to 16, without ticks they are 11. By RFC 6298 the floor is 10 ms, and the
    /// clock makes 12 of it. 200 ms are whole ticks.
    #[test]
    fn the_floor_of_linux_is_whole_ticks() {
        let rto = |personality, floor, tick| {
            let cfg = TcpConfig {
                personality,
                rto_min: Dur::millis(floor),
                rto_granularity: Dur::millis(tick),
                ..TcpConfig::default()
            };
            let mut rtt = RttEstimator::default();
            match personality {
                Personality::Linux => rtt.sample_linux(Dur::millis(1), &cfg, 1, 1001),
                Personality::Rfc => rtt.sample(Dur::micros(1), &cfg),
            }
            rtt.rto(&cfg)
        };
        assert_eq!(rto(Personality::Linux, 10, 4), Dur::millis(16));
        assert_eq!(rto(Personality::Linux, 10, 0), Dur::millis(11));
        assert_eq!(rto(Personality::Linux, 200, 4), Dur::millis(204));
        assert_eq!(rto(Personality::Rfc, 10, 4), Dur::millis(12));
    }

    /// A path of 10 ms that becomes one of 40 ms: after 300 s Linux takes 40 ms for its smallest round trip, an RFC sender keeps 10 ms.
    #[test]
    fn the_smallest_round_trip_of_linux_counts_for_300_s() {
        let cfg = |personality| TcpConfig { personality, ..TcpConfig::default() };
        let (linux, rfc) = (cfg(Personality::Linux), cfg(Personality::Rfc));
        let (mut a, mut b) = (RttEstimator::default(), RttEstimator::default());
        let mut found = Vec::new();
        for second in 0..=302u64 {
            let rtt = Dur::millis(if second == 0 { 10 } else { 40 });
            a.sample_linux(rtt, &linux, second, second + 1);
            a.note_least(Time(second * 1_000_000_000_000), rtt);
            b.sample(rtt, &rfc);
            if second >= 300 {
                found.push(a.recent);
            }
        }
        assert_eq!(found, [10, 40, 40].map(Dur::millis));
        assert_eq!((a.min, b.recent), (Dur::millis(10), Dur::millis(10)));
        // What a connection without data keeps of it.
        let woken = a.rest().wake();
        assert_eq!((woken.recent, woken.min), (Dur::millis(40), Dur::millis(10)));
    }
}
