//! The largest delivery rate of the last round trips, by the kernel's filter.

use penstock_core::windowed::Windowed;

/// bbr_bw_rtts: a sample counts in the round it was taken in and the ten that follow.
const WINDOW: u64 = 10;

/// By rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Largest(Windowed<f64>);

impl Largest {
    /// A sample taken in round `round`; what counts then.
    pub(super) fn take(&mut self, round: u64, rate: f64) -> f64 {
        self.0.take(round, rate, WINDOW, |a, b| a >= b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn answers(samples: &[(u64, f64)]) -> Vec<f64> {
        let mut largest = Largest::default();
        samples.iter().map(|&(round, rate)| largest.take(round, rate)).collect()
    }

    /// A peak counts in its own round and ten more; the larger of what has come since takes its place.
    #[test]
    fn a_peak_counts_for_ten_rounds_more() {
        let samples: Vec<_> = (0..14).map(|n| (n, if n == 0 { 9.0 } else { n as f64 / 10.0 })).collect();
        let found = answers(&samples);
        assert_eq!(found[..11], [9.0; 11]);
        assert_eq!(found[11..], [1.1, 1.2, 1.3]);
    }
    /// What comes in the first quarter of the window after a peak is forgotten with it, though the window still has it: the exact
    /// largest of rounds 1 to 11 is 8.
    #[test]
    fn what_follows_a_peak_closely_is_forgotten_with_it() {
        let samples: Vec<_> =
            (0..12).map(|n| (n, [9.0, 8.0, 8.0].get(n as usize).copied().unwrap_or(5.0))).collect();
        assert_eq!(answers(&samples)[10..], [9.0, 5.0]);
    }
    /// Falling samples, one in each round: never above the exact largest, never below the present one.
    #[test]
    fn the_answer_lies_between_the_sample_and_the_exact_largest() {
        let samples: Vec<_> =
            (0..100_u64).map(|n| (n, 200.0 - n as f64 + ((n * 7919) % 13) as f64)).collect();
        for (n, found) in answers(&samples).into_iter().enumerate() {
            let exact = samples[n.saturating_sub(10)..=n].iter().fold(0.0, |most: f64, s| most.max(s.1));
            assert!(samples[n].1 <= found && found <= exact, "{n}: {found}, at most {exact}");
        }
    }
    /// After a silence of more than the window nothing of before counts.
    #[test]
    fn nothing_counts_after_a_silence() {
        assert_eq!(answers(&[(1, 9.0), (2, 4.0), (20, 3.0)]), [9.0, 9.0, 3.0]);
    }
}
