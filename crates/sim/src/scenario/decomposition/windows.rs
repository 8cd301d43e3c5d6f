//! What of which cables is simulated: windows of time, the crowded ones rather than others, each with the number of those that it stands for.

use super::fluid::{Crowds, Grid, Worth};
use super::kinds::{Cable, Kind, Kinds};
use super::traffic::{Traffic, LENGTH};
use crate::setup::Setup;
use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_units::{Rate, Time};

/// So many are simulated before it, as flows that are there already begin anew, and after it: chosen.
pub(super) const BESIDE: u64 = 16;
/// Fewer windows of a kind of cables are not simulated: chosen.
const LEAST: f64 = 8.0;

/// A part of a cable's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) cable: Cable,
    /// Flows that begin from the first time until before the second are samples.
    pub(super) samples: (Time, Time),
    /// What is simulated.
    pub(super) span: (Time, Time),
    /// So many windows like this are there for each that is simulated.
    pub(super) weight: f64,
}

impl Window {
    /// All that a cable has to do.
    pub(super) fn whole(cable: Cable) -> Window {
        let all = (Time::ZERO, Time::NEVER);
        Window { cable, samples: all, span: all, weight: 1.0 }
    }
    /// It is [`Self::whole`].
    pub(super) fn is_whole(&self) -> bool {
        self.span.1 == Time::NEVER
    }
}

/// Where windows begin and end.
pub(super) fn grid(setup: &Setup, traffic: &Traffic) -> Grid {
    let (first, last) = (Time::ZERO + setup.warmup, Time::ZERO + setup.duration);
    let length = traffic.round() * LENGTH;
    Grid { first, length, count: (last.since(first).0 / length.0.max(1)).min(u64::from(u32::MAX) - 1) }
}

/// The windows of every kind, for about `flows` samples on each; cables as a whole where that is no more, and for `None`.
pub(super) fn choose(
    setup: &Setup,
    traffic: &Traffic,
    kinds: &Kinds,
    (crowds, grid): (&Crowds, Grid),
    flows: Option<u64>,
) -> Vec<Vec<Window>> {
    let every = |kind: &Kind| kind.cables.iter().copied().map(Window::whole).collect();
    let Some(flows) = flows else { return kinds.all.iter().map(every).collect() };
    let beside = traffic.round() * BESIDE;
    let scored: Vec<Scored> = kinds.all.iter().map(|kind| Scored::of(traffic, crowds, kind)).collect();
    // A sum over flows is known best for its cost when each kind has windows in proportion to how much its terms differ, and to one over the root of
    // what a window costs.
    let most = scored.iter().map(|s| s.spread).fold(0.0, f64::max);
    let seed = |number| Stream::new(setup.seed, setup.run, Entity::Approximation, u64::MAX / 2 - number);
    let chosen = (0..).zip(kinds.all.iter().zip(&scored)).map(|(number, (kind, scored))| {
        let share = if most > 0.0 { scored.spread / most } else { 1.0 };
        let windows = (flows as f64 / scored.each * share).max(LEAST).ceil();
        // Beside it there is half as much again.
        if windows * 1.5 >= kind.cables.len() as f64 * grid.count as f64 {
            return every(kind);
        }
        // As many as are wanted at equal steps of the sum of their scores: cables that carry about as much, and one time and the next, are neighbours.
        let step = scored.total / windows;
        let (mut next, mut sum) = (step * seed(number).uniform(), 0.0);
        let mut found = Vec::new();
        each_window(crowds, kind, |cable, w| {
            sum += f64::from(w.score);
            if sum <= next {
                return;
            }
            next += (((sum - next) / step).floor() + 1.0) * step;
            let begin = grid.first + grid.length * u64::from(w.window);
            let end = begin + grid.length;
            found.push(Window {
                cable,
                samples: (begin, end),
                span: (begin - beside, end + beside),
                weight: (step / f64::from(w.score)).max(1.0),
            });
        });
        found
    });
    chosen.collect()
}

/// What the windows of a kind of cables are worth.
struct Scored {
    total: f64,
    /// Samples of a window that is chosen, on average.
    each: f64,
    /// Root of the sum of squares over flows of what they are slowed down by, for the root of what it costs to simulate a cable.
    spread: f64,
}

/// Links on which a packet is simulated, in both simulations, where senders are not apart: four instead of two, twice.
const COSTS: f64 = 4.0;

impl Scored {
    fn of(traffic: &Traffic, crowds: &Crowds, kind: &Kind) -> Scored {
        let (mut total, mut samples, mut squares) = (0.0, 0.0, 0.0);
        each_window(crowds, kind, |_, w| {
            let score = f64::from(w.score);
            total += score;
            samples += score * f64::from(w.flows);
            squares += f64::from(w.squares);
        });
        let bytes: u64 = kind.cables.iter().flat_map(|c| c.links()).map(|l| traffic.data[l as usize]).sum();
        let cost = bytes as f64 / kind.cables.len() as f64 * if kind.apart { 1.0 } else { COSTS };
        Scored { total, each: (samples / total).max(1.0), spread: (squares / cost).sqrt() }
    }
}

/// Calls `each` for every window in which flows begin, cable by cable.
fn each_window(crowds: &Crowds, kind: &Kind, mut each: impl FnMut(Cable, Worth)) {
    for cable in &kind.cables {
        let of = |link: Option<u32>| link.map_or(&[][..], |l| &crowds.windows[l as usize]);
        let (mut one, mut other) = (of(Some(cable.link)), of(cable.back));
        loop {
            let number = match (one.first(), other.first()) {
                (Some(a), Some(b)) => a.window.min(b.window),
                (Some(w), None) | (None, Some(w)) => w.window,
                (None, None) => break,
            };
            let mut both = Worth { window: number, ..Worth::default() };
            for way in [&mut one, &mut other] {
                if let Some((w, rest)) = way.split_first().filter(|(w, _)| w.window == number) {
                    both.flows += w.flows;
                    both.score += w.score;
                    both.squares += w.squares;
                    *way = rest;
                }
            }
            each(*cable, both);
        }
    }
}

/// A flow in a window.
pub(super) struct There {
    pub(super) flow: u32,
    pub(super) link: u32,
    /// Place of the link among those of all flows.
    pub(super) place: u32,
    pub(super) start: Time,
    /// When it would be over as a fluid.
    pub(super) end: f64,
    /// What it sends meanwhile.
    pub(super) bytes: u64,
    /// What becomes of it is told.
    pub(super) sample: bool,
    /// How crowded the most crowded link before this one is for the flow, and the one behind, in half powers of two; 0 where neither is more crowded than
    /// this link. The flow is held back there, and is no faster here than there.
    pub(super) held: [u8; 2],
}

/// [`There::held`] of a flow on a link at this place of its path.
fn held(traffic: &Traffic, crowds: &Crowds, (flow, place): (u32, u32)) -> [u8; 2] {
    let (places, place) = (traffic.places(flow as usize), place as usize);
    let own = crowds.of[place];
    let most = |range: std::ops::Range<usize>| crowds.of[range].iter().copied().fold(1.0, f32::max);
    [places.start..place, place + 1..places.end].map(|range| match most(range) {
        crowd if crowd > own => halves(f64::from(crowd)),
        _ => 0,
    })
}

/// The nearest half power of two.
fn halves(x: f64) -> u8 {
    let (mut halves, mut next) = (0, std::f64::consts::SQRT_2.sqrt());
    while x >= next && halves < 60 {
        (halves, next) = (halves + 1, next * std::f64::consts::SQRT_2);
    }
    halves
}

/// A rate so many half powers of two lower.
pub(super) fn slower(rate: Rate, halves: u8) -> Rate {
    if halves == 0 {
        return rate;
    }
    Rate::from_bps(rate.as_bps() / (0..halves).fold(1.0, |by, _| by * std::f64::consts::SQRT_2))
}

/// The flows that cross the cable of a window, in order of their beginning there. A flow that is there before or after the window sends in it what it
/// would send as a fluid.
///
/// With `apart` each sender can have a rate of its own. A flow longer than a round trip is then held back as it is elsewhere. It is
/// there for the others, and gives no sample.
pub(super) fn flows(traffic: &Traffic, crowds: &Crowds, window: &Window, apart: bool) -> Vec<There> {
    let round = traffic.round().as_secs();
    let (begin, end) = window.span;
    let mut found = Vec::new();
    for link in window.cable.links() {
        let first = found.len();
        // Beginnings and ends there, to know how many there are at any time.
        let mut cut = false;
        for (flow, place) in traffic.crossing(link).iter().copied() {
            let f = &traffic.flows[flow as usize];
            if f.start >= end {
                break;
            }
            let over = f.start.as_secs() + crowds.seconds(traffic, f, (link, place));
            if f.start < begin && over <= begin.as_secs() {
                continue;
            }
            let sample = window.is_whole()
                || (f.start >= window.samples.0 && f.start < window.samples.1 && over <= end.as_secs());
            cut |= f.start < begin || over > end.as_secs();
            let start = f.start.max(begin);
            let paced = apart && !window.is_whole() && f.serial > round;
            let held = if paced { held(traffic, crowds, (flow, place)) } else { [0; 2] };
            let sample = sample && held == [0, 0];
            found.push(There { flow, link, place, start, end: over, bytes: f.bytes, sample, held });
        }
        if cut && !window.is_whole() {
            cut_to(traffic, crowds, (begin.as_secs(), end.as_secs()), (link, &mut found[first..]));
        }
    }
    found.sort_by_key(|f| (f.start, f.flow));
    found
}

/// Bytes of flows that are there before or after a window.
fn cut_to(traffic: &Traffic, crowds: &Crowds, (begin, end): (f64, f64), (link, there): (u32, &mut [There])) {
    let clamp = |t: f64| t.clamp(begin, end);
    let mut turns: Vec<(f64, i32)> = there
        .iter()
        .flat_map(|f| [(clamp(traffic.flows[f.flow as usize].start.as_secs()), 1), (clamp(f.end), -1)])
        .collect();
    turns.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let (own, capacity) = (crowds.alone[link as usize], traffic.capacity[link as usize]);
    // What every flow that is there has got at each turn.
    let (mut got, mut active, mut now) = (0.0, 0, begin);
    let mut at: Vec<(f64, f64)> = Vec::with_capacity(turns.len());
    for (time, change) in turns {
        if active > 0 {
            got += own.min(capacity / f64::from(active)) * (time - now);
        }
        (now, active) = (time, active + change);
        at.push((time, got));
    }
    let until = |time: f64| at[at.partition_point(|a| a.0 < time)].1;
    for f in there {
        let flow = &traffic.flows[f.flow as usize];
        let start = flow.start.as_secs();
        if start < begin || f.end > end {
            let share = (until(clamp(f.end)) - until(clamp(start))) / traffic.on_wire(flow) as f64;
            f.bytes = ((share * flow.bytes as f64) as u64).clamp(1, flow.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_cut_by_half_powers_of_two() {
        // 2^(1/4) = 1.19 lies between 1 and 2^(1/2).
        let found: Vec<u8> = [1.0, 1.18, 1.2, 1.4, 2.0, 2.3, 2.4, 4.0].map(halves).into();
        assert_eq!(found, [0, 0, 1, 1, 2, 2, 3, 4]);
        let rate = Rate(10_000_000_000);
        assert_eq!(slower(rate, 0), rate);
        // By the square root of two twice.
        assert!(slower(rate, 2).0.abs_diff(rate.0 / 2) < 10);
    }
}
