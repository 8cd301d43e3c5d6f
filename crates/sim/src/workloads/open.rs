//! Open loop: flows begin at random times, whatever became of the earlier ones.

use super::sizes::Sizes;
use super::{Actions, App, FlowRequest, Pairs, Timetable, Workload};
use penstock_core::Stream;
use penstock_units::{Dur, Time};

/// Poisson arrivals of flows, each on its own connection.
struct Poisson {
    /// Protocol, class and tag of every flow.
    template: FlowRequest,
    pairs: Pairs,
    sizes: Sizes,
    mean_gap: f64,
    deadline: Option<Dur>,
    left: u64,
    rng: Stream,
    next: Time,
    /// Flows that have been drawn, the next one last.
    drawn: Vec<Drawn>,
    /// So many were drawn last.
    batch: usize,
}

/// A flow, and how long after it the next one begins.
struct Drawn {
    src: u32,
    dst: u32,
    bytes: u64,
    gap: Dur,
}

/// So many flows are drawn at a time at most. Between two of them a run does so much else that what draws them has left the processor's cache.
const BATCH: usize = 64;

/// When flows begin.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Flows per second in all.
    pub per_second: f64,
    /// Nothing begins before.
    pub start: Time,
    /// Flows should be complete so long after they begin.
    pub deadline: Option<Dur>,
    /// Flows in all.
    pub count: u64,
}

/// Most times anything periodic may happen in a run, and most flows an open loop may begin: hours of work, and with
/// a row for each as much as a machine has memory.
pub const MOST_REPEATS: f64 = 1e8;

/// An open loop of `per_second` from `start` to `end` of the run must not begin more than [`MOST_REPEATS`] flows.
///
/// # Errors
/// The rule, when it would.
pub fn check_arrivals(per_second: f64, end: Dur, start: Dur, count: u64) -> Result<(), String> {
    let expected = (per_second * (end - start).as_secs()).min(count as f64);
    if expected <= MOST_REPEATS {
        return Ok(());
    }
    Err(format!(
        "means about {expected:.3e} arrivals ({per_second:.3e} per second until {end}); at most {MOST_REPEATS:e} are possible"
    ))
}

/// Flows like `template` between `pairs`.
pub fn poisson(template: FlowRequest, pairs: Pairs, sizes: Sizes, rate: Rate, mut rng: Stream) -> Workload {
    let mean_gap = 1.0 / rate.per_second;
    let next = rate.start + Dur::from_secs(rng.exponential(mean_gap));
    let (deadline, left) = (rate.deadline, rate.count);
    let app =
        Poisson { template, pairs, sizes, mean_gap, deadline, left, rng, next, drawn: Vec::new(), batch: 0 };
    Workload::open_loop(app, Timetable::Fixed, true).that_overloads()
}

impl Poisson {
    /// Draws some flows more. The stream has no other user, so it does not matter when. The first ones are drawn one by one: there may be no more.
    #[cold]
    #[inline(never)]
    fn draw(&mut self) {
        let Poisson { pairs, sizes, mean_gap, rng, .. } = self;
        self.batch = (2 * self.batch).clamp(1, BATCH);
        self.drawn.extend((0..self.batch).map(|_| {
            let (src, dst) = pairs.draw(rng);
            let bytes = sizes.draw(rng);
            Drawn { src, dst, bytes, gap: Dur::from_secs(rng.exponential(*mean_gap)) }
        }));
        self.drawn.reverse();
    }
}

impl App for Poisson {
    fn next_event(&self) -> Time {
        if self.left == 0 {
            return Time::NEVER;
        }
        self.next
    }
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
        while self.next_event() <= now {
            let Some(Drawn { src, dst, bytes, gap }) = self.drawn.pop() else {
                self.draw();
                continue;
            };
            let due = self.deadline.map_or(Time::NEVER, |d| self.next + d);
            actions.open(FlowRequest { src, dst, bytes, due, close: true, ..self.template.clone() });
            self.next = self.next + gap;
            self.left -= 1;
        }
    }
}
