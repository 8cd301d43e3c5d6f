//! RED: random early detection on an averaged queue (Floyd, Jacobson 1993), with the gentle slope.

use super::discipline::{counting, Discipline, COUNT};
use alloc::boxed::Box;
use penstock_core::{Amount, Backlog, DropCause, Kind, Packet, ParamSpec, QueueDiscipline, Stream, Verdict};
use penstock_fabric::Rule;
use penstock_units::{Bytes, Time};

/// RED.
pub const DISCIPLINE: Discipline = Discipline {
    name: "red",
    text: "random early detection: drop or mark with a probability that grows with the averaged queue; with ecn=true, packets that are not \
        ECN-capable are dropped instead of marked (drops_nonect)",
    cites: "Floyd, Jacobson, ToN 1993; gentle: Floyd 2000",
    params: &[
        ParamSpec::new("min", Kind::Amount, "20pkt", "lower threshold min_th", "munir-sdc-racs baseline")
            .range(0.0, 1e12),
        ParamSpec::new("max", Kind::Amount, "60pkt", "upper threshold max_th", "three times min_th (Floyd)")
            .range(0.0, 1e12),
        ParamSpec::new("max_p", Kind::Float, "0.1", "probability at the upper threshold", "Floyd 1997")
            .range(0.0, 1.0),
        ParamSpec::new("wq", Kind::Float, "0.002", "weight of the average", "Floyd, Jacobson 1993")
            .range(1e-9, 1.0),
        ParamSpec::new("gentle", Kind::Bool, "true", "slope to 1 between max and twice max", "Floyd 2000"),
        ParamSpec::new(
            "ecn",
            Kind::Bool,
            "false",
            "mark instead of dropping, below the hard limit",
            "RFC 3168",
        ),
        ParamSpec::new(
            "mark_p",
            Kind::Float,
            "1",
            "with ecn: drop instead of marking from this probability on",
            "RFC 3168 section 7 asks for drops above max; ns-2 has 0.1 (mark_p_)",
        )
        .range(0.0, 1.0),
        ParamSpec::new(
            "wait",
            Kind::Bool,
            "true",
            "space drops by at least 1/p arrivals",
            "Floyd, Jacobson 1993",
        ),
        ParamSpec::new(
            "byte_mode",
            Kind::Bool,
            "false",
            "probability in proportion to the packet's length",
            "Floyd, Jacobson 1993",
        ),
        COUNT,
    ],
    marks: |p| p.flag("ecn"),
    build: |p, packet| {
        let (min, max) = match (p.amount("min"), p.amount("max")) {
            (Amount::Packets(a), Amount::Packets(b)) => (f64::from(a), f64::from(b)),
            (Amount::Bytes(a), Amount::Bytes(b)) => (a as f64, b as f64),
            _ => return Err(p.error("max", "must be in the same unit as min (both packets or both bytes)")),
        };
        if min >= max {
            return Err(p.error("max", "must be above min"));
        }
        let red = Red {
            in_bytes: matches!(p.amount("min"), Amount::Bytes(_)),
            min,
            max,
            max_p: p.float("max_p"),
            weight: p.float("wq"),
            gentle: p.flag("gentle"),
            ecn: p.flag("ecn"),
            mark_p: p.float("mark_p"),
            wait: p.flag("wait"),
            byte_mode: p.flag("byte_mode"),
            mean_packet: packet,
            average: 0.0,
            count: -1.0,
        };
        Ok(counting(p, Rule::Other(Box::new(red))))
    },
};

/// State of one RED queue.
struct Red {
    in_bytes: bool,
    min: f64,
    max: f64,
    max_p: f64,
    weight: f64,
    gentle: bool,
    ecn: bool,
    mark_p: f64,
    wait: bool,
    byte_mode: bool,
    mean_packet: u32,
    average: f64,
    /// Arrivals since the last early drop; -1 below min_th.
    count: f64,
}

impl Red {
    /// The averaged queue, with the idle correction of the paper's section IV: m = idle time / packet time.
    fn update_average(&mut self, now: Time, q: &Backlog) {
        let queue = if self.in_bytes { q.bytes as f64 } else { f64::from(q.packets) };
        if q.packets == 0 && q.idle_since < now {
            let packet_time = Bytes(self.mean_packet as u64) / q.rate;
            let m = now.since(q.idle_since).as_secs() / packet_time.as_secs();
            self.average *= libm::pow(1.0 - self.weight, m);
        }
        self.average += self.weight * (queue - self.average);
    }
    /// Initial probability p_b (Floyd, Jacobson 1993 section IV; gentle: slope max_p..1 on max..2 max).
    fn probability(&self) -> f64 {
        let a = self.average;
        if a < self.min {
            0.0
        } else if a < self.max {
            self.max_p * (a - self.min) / (self.max - self.min)
        } else if self.gentle && a < 2.0 * self.max {
            self.max_p + (1.0 - self.max_p) * (a - self.max) / self.max
        } else {
            1.0
        }
    }
}

impl QueueDiscipline for Red {
    fn admit(&mut self, now: Time, q: &Backlog, packet: &Packet, full: bool, rng: &mut Stream) -> Verdict {
        self.update_average(now, q);
        if self.average < self.min {
            self.count = -1.0;
            return Verdict::Accept;
        }
        self.count += 1.0;
        let scale =
            if self.byte_mode { f64::from(packet.wire_len) / f64::from(self.mean_packet) } else { 1.0 };
        let p_b = self.probability() * scale;
        // p_a = p_b / (1 - count p_b); with wait the first 1/p_b arrivals are spared: p_b / (2 - count p_b).
        let used = self.count * p_b;
        let p_a = if p_b >= 1.0 {
            1.0
        } else if self.wait {
            if used < 1.0 {
                0.0
            } else if used < 2.0 {
                p_b / (2.0 - used)
            } else {
                1.0
            }
        } else if used < 1.0 {
            p_b / (1.0 - used)
        } else {
            1.0
        };
        if p_a <= 0.0 || full || rng.uniform() >= p_a {
            return Verdict::Accept;
        }
        self.count = 0.0;
        // Above the marking region congestion is too strong for marks to be trusted.
        if self.ecn && p_b < self.mark_p {
            Verdict::Mark
        } else {
            Verdict::Drop(DropCause::Early)
        }
    }
}

/// Checks used by the documentation of the averaged queue.
#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec;
    use penstock_core::rng::Entity;
    use penstock_units::{Dur, Rate};

    fn backlog(packets: u32, idle_since: Time) -> Backlog {
        Backlog {
            packets,
            bytes: packets as u64 * 1000,
            serving: 1000 * packets.min(1),
            idle_since,
            rate: Rate(8_000_000),
        }
    }
    fn red(args: &[(&str, &str)]) -> Rule {
        let given: vec::Vec<(String, String)> =
            args.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        let params = penstock_core::Params::parse("red", DISCIPLINE.params, &given).unwrap();
        (DISCIPLINE.build)(&params, 1000).unwrap()
    }

    #[test]
    fn marks_at_the_stated_rate_between_the_thresholds() {
        // Average held at the middle of 20..60: p_b = 0.05. The paper's pseudocode counts the arrival before it
        // computes p_a = p_b / (1 - count p_b), so the spacings 1..19 are equally likely: 10 on average.
        let mut q = red(&[("ecn", "true"), ("wq", "1"), ("wait", "false")]);
        let mut rng = Stream::new(1, 0, Entity::Port, 0);
        let b = backlog(40, Time::NEVER);
        let p = Packet::default();
        let n = 100_000;
        let marks = (0..n).filter(|_| q.admit(Time(1), &b, &p, false, &mut rng) == Verdict::Mark).count();
        let spacing = n as f64 / marks as f64;
        assert!((spacing - 10.0).abs() < 0.2, "one mark per {spacing} arrivals");
    }
    #[test]
    fn the_average_decays_while_idle() {
        let mut red = Red {
            in_bytes: false,
            min: 5.0,
            max: 15.0,
            max_p: 0.1,
            weight: 0.002,
            gentle: true,
            ecn: true,
            mark_p: 1.0,
            wait: true,
            byte_mode: false,
            mean_packet: 1000,
            average: 10.0,
            count: -1.0,
        };
        // 1000 B at 8 Mb/s take 1 ms: 500 ms idle = 500 packet times.
        let now = Time::ZERO + Dur::millis(600);
        red.update_average(now, &backlog(0, Time::ZERO + Dur::millis(100)));
        let expected = 10.0 * libm::pow(0.998, 500.0) * 0.998;
        assert!((red.average - expected).abs() < 1e-9);
    }
    #[test]
    fn thresholds_must_be_ordered_and_of_one_unit() {
        let parse = |t: &str| super::super::QueueSpec::parse("queue", t).unwrap_err();
        assert_eq!(parse("red:min=60pkt,max=20pkt").rule, "must be above min");
        assert!(parse("red:min=60pkt,max=20KB").rule.contains("same unit"));
    }
}
