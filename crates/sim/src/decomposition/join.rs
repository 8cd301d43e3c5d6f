//! From the delays of links to those of flows.

use penstock_core::Stream;

/// What a flow is drawn from: so many flows nearest to it in size, and all of the same size as one of these (Parsimon has buckets of at least 100,
/// from memory; a flow at the edge of one would be drawn from sizes on one side only).
const NEAREST: usize = 100;

/// Delays that a link adds per packet, by size of the flow.
pub(super) struct Delays {
    /// Bytes and seconds per packet, in order.
    samples: Vec<(u64, f64)>,
}

impl Delays {
    /// Of samples (bytes, seconds per packet).
    pub(super) fn of(mut samples: Vec<(u64, f64)>) -> Delays {
        samples.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Delays { samples }
    }
    /// Where those nearest in size are: half of them above and half below where there are as many.
    fn nearest(&self, bytes: u64) -> std::ops::Range<usize> {
        let count = self.samples.len();
        let (mut first, mut end) =
            (self.samples.partition_point(|s| s.0 < bytes), self.samples.partition_point(|s| s.0 <= bytes));
        let lack = NEAREST.saturating_sub(end - first);
        first = first.saturating_sub(lack.div_ceil(2));
        end = (end + lack.div_ceil(2)).min(count);
        if first < end {
            let (least, most) = (self.samples[first].0, self.samples[end - 1].0);
            first = self.samples.partition_point(|s| s.0 < least);
            end = self.samples.partition_point(|s| s.0 <= most);
        }
        first..end
    }
    /// Draws the seconds per packet of a flow of `bytes`; 0 where the link has completed no flow.
    pub(super) fn draw(&self, bytes: u64, rng: &mut Stream) -> f64 {
        let near = self.nearest(bytes);
        if near.is_empty() {
            return 0.0;
        }
        self.samples[near.start + rng.below(near.len() as u64) as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::rng::Entity;

    #[test]
    fn a_flow_is_drawn_from_the_hundred_nearest_in_size() {
        // 150 flows of 1 kB with delay 1, 30 of 2 kB with 2, 150 of 8 kB with 3, 20 of 1 MB with 4.
        let of = |n, bytes, delay| std::iter::repeat_n((bytes, delay), n);
        let all = of(150, 1000, 1.0)
            .chain(of(30, 2000, 2.0))
            .chain(of(150, 8000, 3.0))
            .chain(of(20, 1_000_000, 4.0));
        let d = Delays::of(all.collect());
        // As many of its own size as are wanted; 70 are lacking, and 35 on each side bring all of their size; none on one side.
        assert_eq!(d.nearest(1000), 0..150);
        assert_eq!(d.nearest(2000), 0..330);
        assert_eq!(d.nearest(1_000_000), 180..350);
        assert_eq!(d.nearest(10), 0..150);
        let mut rng = Stream::new(1, 0, Entity::Approximation, 0);
        assert_eq!(d.draw(8000, &mut rng), 3.0);
        let mut large: Vec<f64> = (0..1000).map(|_| d.draw(900_000, &mut rng)).collect();
        large.sort_by(f64::total_cmp);
        large.dedup();
        assert_eq!(large, [3.0, 4.0]);
        assert_eq!(Delays::of(Vec::new()).draw(5, &mut rng), 0.0);
    }
}
