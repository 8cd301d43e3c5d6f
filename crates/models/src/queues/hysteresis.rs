//! DT-DCTCP's double threshold: marking starts when the queue rises through K1 and stops when it falls through K2.

use super::discipline::{counting, Discipline, COUNT};
use alloc::boxed::Box;
use penstock_core::{Amount, Backlog, Kind, Packet, ParamSpec, QueueDiscipline, Stream, Verdict};
use penstock_fabric::Rule;
use penstock_units::Time;

/// Double-threshold marking.
pub const DISCIPLINE: Discipline = Discipline {
    name: "hysteresis",
    text: "mark from the time the queue rises through k1 until it falls through k2; packets that are not ECN-capable are dropped instead \
        (drops_nonect)",
    cites: "Chen et al., Ease the Queue Oscillation: Analysis and Enhancement of DCTCP, section III",
    params: &[
        ParamSpec::new(
            "k1",
            Kind::Amount,
            "30pkt",
            "threshold K1 at which marking starts",
            "DT-DCTCP section VI.A",
        )
        .range(0.0, 1e12),
        ParamSpec::new(
            "k2",
            Kind::Amount,
            "50pkt",
            "threshold K2 at which marking stops",
            "DT-DCTCP section VI.A",
        )
        .range(0.0, 1e12),
        ParamSpec::new(
            "turn",
            Kind::Choice(&["hold", "direction"]),
            "hold",
            "if the queue turns between k1 < k2: keep the last decision, or mark while it rises",
            "open in the paper; see docs of the discipline",
        ),
        COUNT,
    ],
    marks: |_| true,
    build: |p, _| {
        let (k1, k2, in_bytes) = match (p.amount("k1"), p.amount("k2")) {
            (Amount::Packets(a), Amount::Packets(b)) => (u64::from(a), u64::from(b), false),
            (Amount::Bytes(a), Amount::Bytes(b)) => (a, b, true),
            _ => return Err(p.error("k2", "must be in the same unit as k1 (both packets or both bytes)")),
        };
        let queue = Hysteresis::new(k1, k2, in_bytes, p.text("turn") == "direction");
        Ok(counting(p, Rule::Other(Box::new(queue))))
    },
};

/// Marks between rising through K1 and falling through K2.
///
/// The queue is what arriving packets find, one after the other. The paper says where marking starts and stops; it
/// leaves open what happens to a queue that turns round between the two. The rule here, for both orders:
///
/// - at or above both thresholds every packet is marked, below both none;
/// - `turn=hold`: between them the last decision stands until a threshold is crossed in its own sense. With K1 < K2
///   (the paper's simulation) a queue that entered the band from below is marked, one from above is not. With K1 > K2
///   (its testbed) it is the other way round, a Schmitt trigger;
/// - `turn=direction`: with K1 < K2, between them a packet is marked when it finds more than the packet before it,
///   not marked when it finds less, and treated like it when it finds as much. K1 > K2: as `hold`.
///
/// K1 = K2 = K leaves no room between them: exactly the single threshold K.
#[derive(Clone, Debug)]
pub struct Hysteresis {
    low: u64,
    high: u64,
    /// K1 < K2: the band is entered marking from below, and not marking from above.
    leading: bool,
    in_bytes: bool,
    by_direction: bool,
    marking: bool,
    /// What the packet before found.
    last: u64,
}

impl Hysteresis {
    fn new(k1: u64, k2: u64, in_bytes: bool, by_direction: bool) -> Hysteresis {
        Hysteresis {
            low: k1.min(k2),
            high: k1.max(k2),
            leading: k1 < k2,
            in_bytes,
            by_direction,
            marking: false,
            last: 0,
        }
    }
    fn step(&mut self, queue: u64) -> bool {
        let last = core::mem::replace(&mut self.last, queue);
        if queue >= self.high {
            self.marking = true;
        } else if queue < self.low {
            self.marking = false;
        } else if self.leading {
            if last < self.low || (self.by_direction && queue > last) {
                self.marking = true; // rose through K1
            } else if last >= self.high || (self.by_direction && queue < last) {
                self.marking = false; // fell through K2
            }
        }
        self.marking
    }
}

impl QueueDiscipline for Hysteresis {
    fn admit(&mut self, _: Time, q: &Backlog, _: &Packet, _full: bool, _: &mut Stream) -> Verdict {
        let queue = if self.in_bytes { q.bytes } else { u64::from(q.packets) };
        if self.step(queue) {
            Verdict::Mark
        } else {
            Verdict::Accept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{threshold, QueueSpec};
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;
    use penstock_core::rng::Entity;
    use penstock_core::Params;
    use penstock_units::Rate;

    fn walk(k1: u64, k2: u64, by_direction: bool, path: &[u64]) -> Vec<bool> {
        let mut h = Hysteresis::new(k1, k2, false, by_direction);
        path.iter().map(|q| h.step(*q)).collect()
    }
    fn flags(text: &str) -> Vec<bool> {
        text.chars().map(|c| c == 'x').collect()
    }

    #[test]
    fn a_full_swing_starts_at_k1_and_stops_at_k2_in_both_orders() {
        for by_direction in [false, true] {
            assert_eq!(walk(30, 50, by_direction, &[0, 29, 30, 55, 50, 49, 0]), flags("..xxx.."));
            assert_eq!(walk(50, 30, by_direction, &[0, 30, 49, 50, 55, 49, 30, 29, 0]), flags("...xxxx.."));
        }
    }
    #[test]
    fn a_leading_band_holds_the_decision_it_was_entered_with() {
        assert_eq!(walk(30, 50, false, &[20, 40, 35, 45, 30, 29, 40]), flags(".xxxx.x"));
        assert_eq!(walk(30, 50, false, &[60, 40, 45, 30, 49, 50, 49]), flags("x....x."));
    }
    #[test]
    fn a_leading_band_by_direction_follows_the_queue() {
        assert_eq!(walk(30, 50, true, &[20, 40, 35, 35, 45, 45, 44]), flags(".x..xx."));
        // A fall through the whole band and a turn inside it.
        assert_eq!(walk(30, 50, true, &[60, 40, 41, 25, 29]), flags("x.x.."));
    }
    #[test]
    fn a_lagging_band_is_a_schmitt_trigger_whatever_the_turn_rule() {
        for by_direction in [false, true] {
            let path = [20, 40, 35, 49, 50, 40, 45, 30, 29, 40];
            assert_eq!(walk(50, 30, by_direction, &path), flags("....xxxx.."));
        }
    }
    #[test]
    fn equal_thresholds_decide_as_the_single_threshold_in_packets_and_bytes() {
        let mut rng = Stream::new(5, 0, Entity::Port, 0);
        for (k, both) in [("40pkt", "k1=40pkt,k2=40pkt"), ("60KB", "k1=60KB,k2=60KB")] {
            for turn in ["hold", "direction"] {
                let parse = |t: String| QueueSpec::parse("queue", &t).unwrap().build(1500);
                let mut single = parse(alloc::format!("threshold:k={k}"));
                let mut double = parse(alloc::format!("hysteresis:{both},turn={turn}"));
                let mut q = 0i64;
                let mut marks = 0;
                for _ in 0..50_000 {
                    q = (q + (rng.uniform() * 21.0) as i64 - 10).clamp(0, 90);
                    let b = Backlog {
                        packets: q as u32,
                        bytes: q as u64 * 1500,
                        serving: if q > 0 { 1500 } else { 0 },
                        idle_since: Time::ZERO,
                        rate: Rate(1_000_000_000),
                    };
                    let p = Packet::default();
                    let one = single.admit(Time::ZERO, &b, &p, false, &mut rng);
                    assert_eq!(one, double.admit(Time::ZERO, &b, &p, false, &mut rng));
                    marks += u32::from(one == Verdict::Mark);
                }
                assert!((5_000..45_000).contains(&marks), "both decisions were tried: {marks}");
            }
        }
        assert_eq!(threshold::DISCIPLINE.name, "threshold");
    }
    #[test]
    fn thresholds_must_be_of_one_unit() {
        let given: Vec<(String, String)> =
            alloc::vec![("k1".into(), "30KB".into()), ("k2".into(), "50pkt".into())];
        let params = Params::parse("queue hysteresis", DISCIPLINE.params, &given).unwrap();
        let error = (DISCIPLINE.build)(&params, 1500).err().unwrap();
        assert_eq!(error.key, "k2");
        assert!(error.rule.contains("same unit"));
    }
}
