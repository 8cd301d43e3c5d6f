//! From the delays of links to those of flows.

use penstock_core::Stream;

/// Flows of about one size are compared together, sorted by how crowded the link was for them (Parsimon has buckets of at least 100, from memory).
/// Each flow is in two such windows, so that none is at an edge.
const WINDOW: usize = 200;
/// A flow is drawn from so many of its window, those for which the link was crowded most like it, and all for which it was exactly so: chosen.
const NEAREST: usize = 24;

/// What a simulated flow has met on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Met {
    /// How crowded the link was ([`super::fluid::crowds`]).
    pub(super) crowd: f32,
    /// What the link added, in units of the flow ([`super::traffic::Traffic::unit`]).
    pub(super) delay: f64,
    /// How many flows it stands for.
    pub(super) weight: f64,
}

/// Delays that a link adds, in units of the flow, by size of the flow and by how crowded the link is.
pub(super) struct Delays {
    /// Sizes in order.
    sizes: Vec<u64>,
    /// Window `i` begins at half a window times `i` among the sizes.
    windows: Vec<Window>,
}

/// In order of crowdedness.
struct Window {
    met: Vec<Met>,
    /// Sums of the weights of those before each, and of all.
    before: Vec<f64>,
}

impl Delays {
    /// Of samples (bytes, what was met).
    pub(super) fn of(mut samples: Vec<(u64, Met)>) -> Delays {
        // Sorting keeps the order of equal sizes, in which neighbours were simulated one after the other: a pace that has no common factor with any
        // number of samples takes them apart.
        let count = samples.len();
        let apart = |i: usize| (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_unstable_by_key(|i| (samples[*i].0, apart(*i)));
        samples = order.iter().map(|i| samples[*i]).collect();
        let starts = (0..count.saturating_sub(WINDOW / 2).max(count.min(1))).step_by(WINDOW / 2);
        let windows = starts.map(|start| {
            let mut met: Vec<Met> = samples[start..(start + WINDOW).min(count)].iter().map(|s| s.1).collect();
            met.sort_by(|a, b| a.crowd.total_cmp(&b.crowd));
            let mut sum = 0.0;
            let mut before = vec![0.0];
            before.extend(met.iter().map(|m| {
                sum += m.weight;
                sum
            }));
            Window { met, before }
        });
        Delays { windows: windows.collect(), sizes: samples.iter().map(|s| s.0).collect() }
    }
    /// Those that a flow for which the link is crowded like this is drawn from, in a window.
    fn nearest(met: &[Met], crowd: f32) -> std::ops::Range<usize> {
        let (first, end) =
            (met.partition_point(|m| m.crowd < crowd), met.partition_point(|m| m.crowd <= crowd));
        let lack = NEAREST.saturating_sub(end - first).div_ceil(2);
        first.saturating_sub(lack)..(end + lack).min(met.len())
    }
    /// Draws the delay of a flow of `bytes` in its units, each that was met as often as it stands for flows; 0 where the link has completed no flow.
    pub(super) fn draw(&self, bytes: u64, crowd: f32, rng: &mut Stream) -> f64 {
        let Some(last) = self.windows.len().checked_sub(1) else { return 0.0 };
        let (first, end) =
            (self.sizes.partition_point(|s| *s < bytes), self.sizes.partition_point(|s| *s <= bytes));
        // Any of its size is about the middle of the window; where there are many of it, one so far from their ends that all in the window are.
        let edge = if end - first > 2 * WINDOW { 3 * WINDOW / 4 } else { 0 };
        let at = first + edge + rng.below((end - first - 2 * edge).max(1) as u64) as usize;
        let window = &self.windows[(at.saturating_sub(WINDOW / 4) / (WINDOW / 2)).min(last)];
        let near = Delays::nearest(&window.met, crowd);
        let (least, most) = (window.before[near.start], window.before[near.end]);
        let drawn = least + rng.uniform() * (most - least);
        let at = window.before.partition_point(|b| *b <= drawn) - 1;
        window.met[at.clamp(near.start, near.end - 1)].delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::rng::Entity;

    fn of(n: usize, bytes: u64, crowd: f32, delay: f64) -> impl Iterator<Item = (u64, Met)> {
        std::iter::repeat_n((bytes, Met { crowd, delay, weight: 1.0 }), n)
    }
    fn drawn(d: &Delays, bytes: u64, crowd: f32) -> Vec<f64> {
        let mut rng = Stream::new(1, 0, Entity::Approximation, 0);
        let mut all: Vec<f64> = (0..2000).map(|_| d.draw(bytes, crowd, &mut rng)).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    #[test]
    fn a_flow_is_drawn_from_those_of_its_size_that_met_a_link_as_crowded() {
        // 600 flows of 1 kB, half of them on a link that was twice as crowded; 600 of 8 kB, 20 of 1 MB.
        let all = of(300, 1000, 1.0, 1.0)
            .chain(of(300, 1000, 2.0, 2.0))
            .chain(of(600, 8000, 1.0, 3.0))
            .chain(of(20, 1_000_000, 3.0, 4.0));
        let d = Delays::of(all.collect());
        assert_eq!(drawn(&d, 1000, 1.0), [1.0]);
        assert_eq!(drawn(&d, 1000, 2.0), [2.0]);
        assert_eq!(drawn(&d, 8000, 1.0), [3.0]);
        // Smaller than all: the smallest. As crowded as few of about its size: these and the next.
        assert_eq!(drawn(&d, 10, 1.0), [1.0]);
        assert_eq!(drawn(&d, 1_000_000, 3.0), [3.0, 4.0]);
        // Between two degrees of crowdedness: those on both sides.
        assert_eq!(drawn(&d, 1000, 1.5), [1.0, 2.0]);
        assert_eq!(
            Delays::of(Vec::new()).draw(5, 1.0, &mut Stream::new(1, 0, Entity::Approximation, 0)),
            0.0
        );
        assert_eq!(drawn(&Delays::of(of(3, 10, 1.0, 5.0).collect()), 99, 7.0), [5.0]);
    }
    #[test]
    fn each_is_drawn_as_often_as_it_stands_for_flows() {
        let met = |weight, delay| (1000, Met { crowd: 1.0, delay, weight });
        let d = Delays::of((0..20).map(|i| if i % 2 == 0 { met(9.0, 1.0) } else { met(1.0, 2.0) }).collect());
        let mut rng = Stream::new(1, 0, Entity::Approximation, 0);
        let often = (0..10_000).filter(|_| d.draw(1000, 1.0, &mut rng) == 1.0).count();
        // 9 of 10; a standard deviation is 30.
        assert!((8850..9150).contains(&often), "{often}");
    }
}
