//! From the delays of links to those of flows.

use penstock_core::Stream;

/// Fewest flows of a bucket of sizes, and how many times its smallest its largest is (Parsimon, from memory: B and x).
const BUCKET: (usize, u64) = (100, 2);

/// Delays that a link adds per packet, by size of the flow.
pub(super) struct Delays {
    /// Largest size of each bucket in bytes, and where its samples end.
    buckets: Vec<(u64, usize)>,
    samples: Vec<f64>,
}

impl Delays {
    /// Of samples (bytes, seconds per packet): flows in order of size are cut into buckets.
    pub(super) fn of(mut samples: Vec<(u64, f64)>) -> Delays {
        samples.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut buckets: Vec<(u64, usize)> = Vec::new();
        let mut first = 0;
        for i in 0..samples.len() {
            let (size, next) = (samples[i].0, samples.get(i + 1).map(|s| s.0));
            let full = i + 1 - first >= BUCKET.0 && size >= BUCKET.1 * samples[first].0;
            if full && next != Some(size) {
                buckets.push((size, i + 1));
                first = i + 1;
            }
        }
        if first < samples.len() {
            // What is left belongs to the largest.
            if samples.len() - first < BUCKET.0 {
                buckets.pop();
            }
            buckets.push((u64::MAX, samples.len()));
        }
        Delays { buckets, samples: samples.into_iter().map(|s| s.1).collect() }
    }
    /// Draws the seconds per packet of a flow of `bytes`; 0 where the link has completed no flow.
    pub(super) fn draw(&self, bytes: u64, rng: &mut Stream) -> f64 {
        if self.buckets.is_empty() {
            return 0.0;
        }
        let at = self.buckets.partition_point(|b| b.0 < bytes).min(self.buckets.len() - 1);
        let first = if at == 0 { 0 } else { self.buckets[at - 1].1 };
        let end = self.buckets[at].1;
        self.samples[first + rng.below((end - first) as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::rng::Entity;

    #[test]
    fn buckets_have_a_hundred_flows_and_twice_the_size() {
        // 150 flows of 1 kB with delay 1, 150 of 1.5 kB with 2, 150 of 8 kB with 3, 20 of 1 MB with 4.
        let of = |n, bytes, delay| std::iter::repeat_n((bytes, delay), n);
        let all = of(150, 1000, 1.0)
            .chain(of(150, 1500, 2.0))
            .chain(of(150, 8000, 3.0))
            .chain(of(20, 1_000_000, 4.0));
        let d = Delays::of(all.collect());
        // 1.5 kB is less than twice 1 kB, so 8 kB closes the first; 20 flows are too few for one of their own.
        assert_eq!(d.buckets, [(u64::MAX, 470)]);
        let d = Delays::of(of(150, 1000, 1.0).chain(of(150, 2000, 2.0)).chain(of(150, 8000, 3.0)).collect());
        assert_eq!(d.buckets, [(2000, 300), (u64::MAX, 450)]);
        let mut rng = Stream::new(1, 0, Entity::Approximation, 0);
        let mut small: Vec<f64> = (0..1000).map(|_| d.draw(900, &mut rng)).collect();
        small.sort_by(f64::total_cmp);
        small.dedup();
        assert_eq!(small, [1.0, 2.0]);
        assert_eq!(d.draw(5000, &mut rng), 3.0);
        assert_eq!(Delays::of(Vec::new()).draw(5, &mut rng), 0.0);
    }
}
