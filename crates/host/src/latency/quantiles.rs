//! Distributions of delays, as the keys of a scenario give them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_core::params::quantity;
use penstock_core::{bail_if, ParamError, Stream};
use penstock_units::Dur;

/// Pauses from this length on may be the whole machine's; shorter ones are those of the network thread. A trace of 8 s of a live
/// run had 59 shorter pauses (250 us or more) and five longer ones. Timers of hosts went off during 56 and one of them.
/// [`TimerDelays`] has the share of longer pauses that are the machine's, as a live run counts it.
pub(super) const STANDSTILL: Dur = Dur::millis(1);

/// A distribution of delays by some of its quantiles. Between two of them the inverse is geometric (linear from zero), as
/// delays are spread over five powers of ten.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayQuantiles {
    /// Shares, ascending to 1, each with the delay in seconds that it does not exceed.
    quantiles: Arc<[(f64, f64)]>,
}

impl DelayQuantiles {
    /// Reads the value of `key`: `SHARE:TIME,SHARE:TIME,...`, or `none`.
    ///
    /// # Errors
    /// Anything else, shares or times that do not ascend, a last share other than 1, a time above a second.
    pub fn parse(key: &str, text: &str) -> Result<Option<DelayQuantiles>, ParamError> {
        if text.trim() == "none" {
            return Ok(None);
        }
        let wrong = |rule: &str| ParamError::new(key, text, rule);
        let form = "must be none, or SHARE:TIME,SHARE:TIME,... (0.5:3us,0.99:40us,1:2ms)";
        let mut quantiles: Vec<(f64, f64)> = Vec::new();
        for part in text.split(',') {
            let (share, time) = part.split_once(':').ok_or_else(|| wrong(form))?;
            let number = |text, unit| {
                quantity(text).filter(|found| found.1 == unit).map(|found| found.0).ok_or_else(|| wrong(form))
            };
            let (share, time) = (number(share, "")?, number(time, "s")?);
            let before = quantiles.last().copied().unwrap_or((0.0, 0.0));
            bail_if!(share <= before.0 || time < before.1, wrong("must ascend, from a share above 0"));
            bail_if!(time > 1.0, wrong("must have times of a second at most"));
            quantiles.push((share, time));
        }
        bail_if!(quantiles.last().is_none_or(|last| last.0 != 1.0), wrong("must end with the share 1"));
        Ok(Some(DelayQuantiles { quantiles: quantiles.into() }))
    }
    /// The delay that the share `u` of [0, 1) does not exceed.
    pub fn at(&self, u: f64) -> Dur {
        let i = self.quantiles.partition_point(|q| q.0 <= u).min(self.quantiles.len() - 1);
        let (from, to) = (if i == 0 { (0.0, 0.0) } else { self.quantiles[i - 1] }, self.quantiles[i]);
        let part = (u - from.0) / (to.0 - from.0);
        Dur::from_secs(if from.1 > 0.0 {
            from.1 * libm::pow(to.1 / from.1, part)
        } else {
            from.1 + (to.1 - from.1) * part
        })
    }
}

/// Lateness of hosts' timers, and the share of the shared machine's pauses in which timers wait.
#[derive(Clone, Debug, PartialEq)]
pub struct TimerDelays {
    pub(super) lags: DelayQuantiles,
    /// Lengths of pauses, each with the share of pauses from that length up to the next in which timers wait.
    pub(super) wait: Vec<(Dur, f64)>,
}

impl TimerDelays {
    /// Reads the value of `key`: `SHARE:TIME,SHARE:TIME,...`, with `;SHARE` or `;TIME:SHARE,TIME:SHARE,...` behind it
    /// or without, or `none`.
    ///
    /// # Errors
    /// Those of [`DelayQuantiles::parse`]; a share outside 0 to 1; times that do not ascend, or are above a second.
    pub fn parse(key: &str, text: &str) -> Result<Option<TimerDelays>, ParamError> {
        let (lags, waits) = text.split_once(';').map_or((text, "1"), |(lags, waits)| (lags, waits));
        let rule = "must have a share from 0 to 1 behind the semicolon, that of the pauses which timers wait out, or lengths of pauses that ascend, up to 1s, with their shares (1ms:0.1,2ms:0.8)";
        let wrong = || ParamError::new(key, text, rule);
        let number = |text: &str, unit| quantity(text).filter(|found| found.1 == unit).map(|found| found.0);
        let share = |text: &str| number(text, "").filter(|share| (0.0..=1.0).contains(share));
        let mut wait: Vec<(Dur, f64)> = Vec::new();
        if let Some(share) = share(waits) {
            wait.push((STANDSTILL, share));
        } else {
            for part in waits.split(',') {
                let (length, of) = part.split_once(':').ok_or_else(wrong)?;
                let length = number(length, "s").filter(|length| *length > 0.0 && *length <= 1.0);
                let (length, of) = (Dur::from_secs(length.ok_or_else(wrong)?), share(of).ok_or_else(wrong)?);
                bail_if!(wait.last().is_some_and(|before| length <= before.0), wrong());
                wait.push((length, of));
            }
        }
        match DelayQuantiles::parse(key, lags)? {
            Some(lags) => Ok(Some(TimerDelays { lags, wait })),
            None if text.contains(';') => Err(wrong()),
            None => Ok(None),
        }
    }
}

/// Time that a host takes for a packet, and the number of packets for which it persists.
///
/// A time has the place in its distribution that a standard normal deviate has in its own. The deviate is the sum of two:
/// one that the host keeps for a while, and one of the packet's own (a Gaussian copula). A time therefore moves a little
/// from packet to packet, as in live runs, and by much when the kept part changes; its distribution stays the same.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceTime {
    times: DelayQuantiles,
    /// Share of the kept part in the variance, and the mean number of packets for which it is kept. Without it each
    /// packet has a time of its own.
    lasts: Option<(f64, f64)>,
}

/// A standard normal deviate.
fn normal(stream: &mut Stream) -> f64 {
    // Box and Muller, A note on the generation of random normal deviates (1958).
    libm::sqrt(-2.0 * libm::log(1.0 - stream.uniform()))
        * libm::cos(core::f64::consts::TAU * stream.uniform())
}

impl ServiceTime {
    /// Reads the value of `key`: `SHARE:TIME,SHARE:TIME,...`, with `;SHARE:PACKETS` behind it or without, or `none`.
    ///
    /// # Errors
    /// Those of [`DelayQuantiles::parse`]; a share outside 0 to 1, or less than one packet.
    pub fn parse(key: &str, text: &str) -> Result<Option<ServiceTime>, ParamError> {
        let (times, lasts) = text.split_once(';').map_or((text, None), |(times, lasts)| (times, Some(lasts)));
        let wrong = || {
            let rule = "must have a share above 0 and up to 1 behind the semicolon, and packets from 1 to 1e9 (0.9:120)";
            ParamError::new(key, text, rule)
        };
        let read = |lasts: &str| {
            let (share, packets) = lasts.split_once(':')?;
            let number = |text| quantity(text).filter(|found| found.1.is_empty()).map(|found| found.0);
            let (share, packets) = (number(share)?, number(packets)?);
            (share > 0.0 && share <= 1.0 && (1.0..=1e9).contains(&packets)).then_some((share, packets))
        };
        let lasts = lasts.map(|lasts| read(lasts).ok_or_else(wrong)).transpose()?;
        match DelayQuantiles::parse(key, times)? {
            Some(times) => Ok(Some(ServiceTime { times, lasts })),
            None if lasts.is_some() => Err(wrong()),
            None => Ok(None),
        }
    }
    /// The time for the next packet of a host that keeps the deviate `kept`, or none yet.
    pub(super) fn next(&self, kept: &mut Option<f64>, stream: &mut Stream) -> Dur {
        if self.lasts.is_none() {
            return self.times.at(stream.uniform());
        }
        let z = self.deviate(kept, stream);
        self.at(z)
    }
    /// The normal deviate of the next packet.
    pub(super) fn deviate(&self, kept: &mut Option<f64>, stream: &mut Stream) -> f64 {
        let Some((share, packets)) = self.lasts else { return normal(stream) };
        let anew = stream.uniform() * packets < 1.0;
        let long = match *kept {
            Some(long) if !anew => long,
            _ => *kept.insert(normal(stream)),
        };
        libm::sqrt(share) * long + libm::sqrt(1.0 - share) * normal(stream)
    }
    /// The time at the place of a normal deviate.
    pub(super) fn at(&self, z: f64) -> Dur {
        self.times.at(0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_inverse_goes_through_the_quantiles_and_is_geometric_between() {
        let l = DelayQuantiles::parse("receive_lag", "0.5:1us, 0.9:100us, 1:1ms").unwrap().unwrap();
        for (u, ns) in
            [(0.0, 0.0), (0.25, 500.0), (0.5, 1e3), (0.7, 1e4), (0.9, 1e5), (0.95, 316_227.766), (1.0, 1e6)]
        {
            assert!((l.at(u).as_secs() * 1e9 - ns).abs() < 1e-3 * ns + 1e-3, "{u}: {}", l.at(u));
        }
    }
    #[test]
    fn what_lasts_has_a_share_and_packets() {
        assert_eq!(ServiceTime::parse("sender_turn", "none").unwrap(), None);
        for text in [
            "1e-9:1us,1:1us;",
            "1e-9:1us,1:1us;0.9",
            "1e-9:1us,1:1us;0:10",
            "1e-9:1us,1:1us;1.1:10",
            "1e-9:1us,1:1us;0.9:0.5",
            "1e-9:1us,1:1us;0.9:10us",
            "1e-9:1us,1:1us;0.9:10;0.9:10",
            "none;0.9:10",
        ] {
            let error = ServiceTime::parse("sender_turn", text).unwrap_err().to_string();
            assert!(error.contains("must have a share above 0") && error.contains("sender_turn"), "{error}");
        }
        let error = ServiceTime::parse("sender_turn", "0.5:1us;0.9:10").unwrap_err().to_string();
        assert!(error.contains("must end with the share 1"), "{error}");
    }
    #[test]
    fn what_is_no_distribution_is_refused() {
        assert_eq!(DelayQuantiles::parse("receive_lag", " none ").unwrap(), None);
        for (text, rule) in [
            ("", "must be none, or SHARE:TIME"),
            ("5us", "must be none, or SHARE:TIME"),
            ("0.5:5", "must be none, or SHARE:TIME"),
            ("half:5us,1:6us", "must be none, or SHARE:TIME"),
            ("0.5:5us,0.5:6us,1:7us", "must ascend"),
            ("0:5us,1:7us", "must ascend"),
            ("0.5:5us,1:4us", "must ascend"),
            ("-0.5:5us,1:7us", "must ascend"),
            ("0.5:5us,0.9:6us", "must end with the share 1"),
            ("0.5:5us,1:6us,2:7us", "must end with the share 1"),
            ("1:1.5s", "must have times of a second"),
        ] {
            let error = DelayQuantiles::parse("receive_lag", text).unwrap_err().to_string();
            assert!(error.contains(rule) && error.contains("receive_lag"), "{error}");
        }
    }
}
