//! Marking on a ramp: the switch of DCQCN, HPCC and other transports for RDMA. RED's line, but on the queue as it is.

use super::discipline::Discipline;
use super::ns3_draws::Draws;
use alloc::boxed::Box;
use penstock_core::{Backlog, Kind, Packet, ParamSpec, QueueDiscipline, Stream, Verdict};
use penstock_fabric::Rule;
use penstock_units::{Dur, Time};

/// Marking on a ramp.
pub const DISCIPLINE: Discipline = Discipline {
    name: "ramp",
    text: "mark with a probability that grows from 0 at kmin to pmax at kmax and is 1 above, by the instantaneous queue in bytes; packets that are \
        not ECN-capable are dropped (drops_nonect)",
    cites: "Zhu et al., SIGCOMM 2015, section 3.1, figure 5",
    params: &[
        ParamSpec::new(
            "kmin",
            Kind::Size,
            "5KB",
            "queue from which packets are marked",
            "DCQCN section 5.2, at 40 Gb/s",
        )
        .range(0.0, 1e12),
        ParamSpec::new(
            "kmax",
            Kind::Size,
            "200KB",
            "queue from which every packet is marked",
            "DCQCN section 5.2, at 40 Gb/s",
        )
        .range(1.0, 1e12),
        ParamSpec::new("pmax", Kind::Float, "0.01", "probability just below kmax", "DCQCN section 5.2")
            .range(0.0, 1.0),
        ParamSpec::new(
            "at",
            Kind::Choice(&["arrival", "dequeue"]),
            "arrival",
            "when the queue is compared: at arrival, or at departure",
            "chosen; ns-3's HPCC code marks at dequeue",
        ),
        ParamSpec::new(
            "ns3_stream",
            Kind::Count,
            "",
            "number of the first random stream of ns-3's generator, for marks as in ns-3's HPCC code (one stream per packet); unset = own random \
            numbers",
            "docs/validation/hpcc-ns3.md",
        )
        .range(0.0, 1e6),
        ParamSpec::new("ns3_run", Kind::Count, "1", "with ns3_stream: ns-3's number of the run", "its RngRun")
            .range(1.0, 1e4),
    ],
    marks: |_| true,
    build: |p, _| {
        let (min, max) = (p.bytes("kmin").0, p.bytes("kmax").0);
        if min > max {
            return Err(p.error("kmax", "must not be below kmin"));
        }
        let dequeue = p.text("at") == "dequeue";
        Ok(if dequeue { Rule::AtDequeue } else { Rule::Other }(Box::new(Ramp {
            min,
            max,
            pmax: p.float("pmax"),
            dequeue,
            draws: p.is_set("ns3_stream").then(|| Draws::new(p.count("ns3_stream"), p.count("ns3_run"))),
        })))
    },
};

struct Ramp {
    min: u64,
    max: u64,
    pmax: f64,
    dequeue: bool,
    /// In the place of the port's own.
    draws: Option<Draws>,
}

impl Ramp {
    fn judge(&mut self, bytes: u64, rng: &mut Stream) -> Verdict {
        // What a packet leaves behind does not count the packet itself: beyond the threshold, not at it.
        let mark = if bytes >= self.max + u64::from(self.dequeue) {
            true
        } else if bytes <= self.min || self.min == self.max {
            false
        } else {
            let draw = self.draws.as_mut().map_or_else(|| rng.uniform(), Draws::uniform);
            draw < self.pmax * (bytes - self.min) as f64 / (self.max - self.min) as f64
        };
        if mark {
            Verdict::Mark
        } else {
            Verdict::Accept
        }
    }
}

impl QueueDiscipline for Ramp {
    fn admit(&mut self, _: Time, q: &Backlog, _: &Packet, full: bool, rng: &mut Stream) -> Verdict {
        if self.dequeue || full {
            return Verdict::Accept;
        }
        self.judge(q.bytes, rng)
    }
    fn on_dequeue(&mut self, _: Time, _: Dur, left: &Backlog, rng: &mut Stream) -> Verdict {
        if !self.dequeue {
            return Verdict::Accept;
        }
        self.judge(left.bytes, rng)
    }
    fn silent_bytes(&self) -> u64 {
        // On arrival, without the packet, a queue of `max` is marked, also where that is `min`.
        if self.dequeue {
            self.min
        } else {
            self.min.min(self.max.saturating_sub(1))
        }
    }
    fn on_pause_frame(&mut self) {
        // There a frame takes the number of a stream, too.
        if let Some(draws) = &mut self.draws {
            draws.uniform();
        }
    }
    fn wants_dequeue(&self) -> bool {
        self.dequeue
    }
}

#[cfg(test)]
mod tests {
    use super::super::QueueSpec;
    use super::*;
    use alloc::string::ToString;
    use penstock_core::rng::Entity;
    use penstock_units::Rate;

    #[test]
    fn the_ramp_by_its_corners_and_its_middle() {
        let mut rng = Stream::new(1, 0, Entity::Port, 0);
        let mut queue = QueueSpec::parse("queue", "ramp:kmin=10KB,kmax=30KB,pmax=0.2").unwrap().build(1500);
        let mut share = |bytes: u64| {
            let q = Backlog { packets: 1, bytes, serving: 0, idle_since: Time::NEVER, rate: Rate(1) };
            let mark =
                |_: &i32| queue.admit(Time(1), &q, &Packet::default(), false, &mut rng) == Verdict::Mark;
            (0..10_000).filter(mark).count() as f64 / 1e4
        };
        assert_eq!((share(0), share(10_000), share(30_000), share(90_000)), (0.0, 0.0, 1.0, 1.0));
        // Half way: 0.1, with a standard deviation of 0.003.
        assert!((share(20_000) - 0.1).abs() < 0.012);
        assert_eq!(queue.silent_bytes(), 10_000);
        let step = QueueSpec::parse("queue", "ramp:kmin=9KB,kmax=9KB").unwrap().build(1500);
        assert_eq!(step.silent_bytes(), 8_999, "what finds 9 KB is marked");
        let message = QueueSpec::parse("queue", "ramp:kmin=9KB,kmax=8KB").unwrap_err().to_string();
        assert_eq!(message, "queue:kmax = \"8KB\": must not be below kmin");
    }
    #[test]
    fn a_pause_frame_takes_the_number_of_a_stream() {
        let spec =
            QueueSpec::parse("queue", "ramp:kmin=10KB,kmax=30KB,pmax=1,at=dequeue,ns3_stream=5").unwrap();
        let mut rng = Stream::new(1, 0, Entity::Port, 0);
        let mut marks = |frames: usize| -> alloc::vec::Vec<bool> {
            let mut queue = spec.build(1500);
            (0..frames).for_each(|_| queue.on_pause_frame());
            let q = Backlog { packets: 1, bytes: 20_000, serving: 0, idle_since: Time::NEVER, rate: Rate(1) };
            let mark = |_| queue.on_dequeue(Time(1), Dur(1), &q, &mut rng) == Verdict::Mark;
            (0..64).map(mark).collect()
        };
        let (none, two) = (marks(0), marks(2));
        assert_eq!(none[2..], two[..62]);
        assert_ne!(none, two);
    }
}
