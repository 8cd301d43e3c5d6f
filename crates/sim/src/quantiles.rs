//! Quantiles of what a table has, whether it is in memory or not.

use crate::metrics::{Row, Rows};

/// The q-quantile (0..1) of so many values by linear interpolation; NaN when there are none. `of_rank` knows which value has which
/// rank.
fn interpolated(count: usize, q: f64, mut of_rank: impl FnMut(usize) -> f64) -> f64 {
    if count == 0 {
        return f64::NAN;
    }
    let x = q * (count - 1) as f64;
    let i = x as usize;
    let j = (i + 1).min(count - 1);
    let (low, high) = (of_rank(i), of_rank(j));
    low + (high - low) * (x - i as f64)
}

/// The q-quantiles of each of some `values` over the rows that have it (NaN: has not); NaN when none has. The result does not depend on where the rows
/// are.
pub(crate) fn quantiles<T: Row, const M: usize, const N: usize>(
    rows: &Rows<T>,
    values: impl Fn(&T) -> [f64; M],
    q: [f64; N],
) -> [[f64; N]; M] {
    if rows.on_disk() {
        return std::array::from_fn(|i| {
            let each = |read: &mut dyn FnMut(f64)| {
                rows.each(|some| {
                    let own = some.iter().map(|row| values(row)[i]);
                    own.filter(|x| !x.is_nan()).for_each(&mut *read);
                });
            };
            selected(&each, q)
        });
    }
    // The rows are read once, as some have to be unpacked for it.
    let mut found: [Vec<f64>; M] = std::array::from_fn(|_| Vec::with_capacity(rows.len()));
    rows.each_as_it_comes(|some| {
        for (i, found) in found.iter_mut().enumerate() {
            found.extend(some.iter().map(|row| values(row)[i]).filter(|x| !x.is_nan()));
        }
    });
    found.map(|mut values| picked(&mut values, q))
}

/// Quantiles of values in memory: those that are asked for are picked, the rest is left as it comes.
fn picked<const N: usize>(values: &mut [f64], q: [f64; N]) -> [f64; N] {
    let count = values.len();
    let mut sorted = 0;
    for rank in ranks(count, q) {
        // What is in front of the last one picked is not greater than what is behind it.
        values[sorted..].select_nth_unstable_by(rank - sorted, f64::total_cmp);
        sorted = rank + 1;
    }
    q.map(|q| interpolated(count, q, |rank| values[rank]))
}

/// The ranks among so many values that quantiles ask for, each once, in order.
fn ranks<const N: usize>(count: usize, q: [f64; N]) -> Vec<usize> {
    let mut wanted = Vec::new();
    for q in q {
        interpolated(count, q, |rank| {
            wanted.push(rank);
            0.0
        });
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// Bits that a pass over the values tells apart.
const DIGIT: u32 = 16;

/// Hands over all values, as often as it is called.
type Passes<'a> = dyn Fn(&mut dyn FnMut(f64)) + 'a;

/// Quantiles of values that are read several times instead of kept: each pass counts the values by the next digit of their order, among those that
/// agree with the wanted one so far. Exact, in memory that does not grow with the number of values.
fn selected<const N: usize>(each: &Passes<'_>, q: [f64; N]) -> [f64; N] {
    let mut count = 0usize;
    each(&mut |_| count += 1);
    let wanted = ranks(count, q);
    // Of each rank: the digits known so far, and its rank among the values that begin with them.
    let mut found: Vec<(u64, usize)> = wanted.iter().map(|rank| (0, *rank)).collect();
    for shift in (0..u64::BITS).step_by(DIGIT as usize).rev().collect::<Vec<_>>() {
        let mut prefixes: Vec<u64> = found.iter().map(|(prefix, _)| *prefix).collect();
        prefixes.dedup();
        let mut counts = vec![0usize; prefixes.len() << DIGIT];
        let above = |key: u64| key.checked_shr(shift + DIGIT).unwrap_or(0);
        each(&mut |x| {
            let key = ordered(x);
            if let Ok(place) = prefixes.binary_search(&above(key)) {
                let digit = (key >> shift) & ((1 << DIGIT) - 1);
                counts[(place << DIGIT) + digit as usize] += 1;
            }
        });
        for (prefix, rank) in &mut found {
            let place = prefixes.binary_search(prefix).expect("it was taken from there");
            let mut digit = 0;
            while *rank >= counts[(place << DIGIT) + digit] {
                *rank -= counts[(place << DIGIT) + digit];
                digit += 1;
            }
            *prefix = *prefix << DIGIT | digit as u64;
        }
    }
    let of_rank = |rank| value_of(found[wanted.binary_search(&rank).expect("it was asked for")].0);
    q.map(|q| interpolated(count, q, of_rank))
}

/// A number in the order of `f64::total_cmp`.
fn ordered(x: f64) -> u64 {
    let bits = x.to_bits();
    bits ^ if bits >> 63 == 1 { u64::MAX } else { 1 << 63 }
}

fn value_of(key: u64) -> f64 {
    f64::from_bits(key ^ if key >> 63 == 1 { 1 << 63 } else { u64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Numbers of every sign and size, many of them equal.
        #[test]
        fn what_is_selected_is_what_sorting_gives(
            values in proptest::collection::vec(prop_oneof![
                (-3i8..3).prop_map(f64::from), any::<f64>(), 1e-6f64..1.1e-6
            ], 0..200),
            q in [0.0f64..=1.0, 0.0f64..=1.0],
        ) {
            let values: Vec<f64> = values.into_iter().filter(|x| !x.is_nan()).collect();
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            for found in [
                selected(&|read| values.iter().for_each(|x| read(*x)), q),
                picked(&mut values.clone(), q),
            ] {
                for (q, found) in q.into_iter().zip(found) {
                    let expected = interpolated(sorted.len(), q, |rank| sorted[rank]);
                    prop_assert!(found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan());
                }
            }
        }
    }
}
