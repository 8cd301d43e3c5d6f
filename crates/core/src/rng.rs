//! Random streams: one per entity, derived from (seed, run, entity), so that adding an entity does not
//! shift another's draws. The generator is pinned here: results never change with a library version.

use penstock_units::Dur;

/// What a stream belongs to; part of its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Entity {
    /// A sender (protocol draws, retransmit thread), by the key of its connection.
    Sender = 1,
    /// An output port's queue discipline, by port number.
    Port = 3,
    /// A workload, by position in the scenario.
    Workload = 4,
    /// Equal-cost path choice, by the key of the connection.
    Route = 5,
    /// Random loss on a link, by port number.
    Loss = 6,
    /// A host controller, by host number.
    Host = 7,
    /// A router's shared buffer, by position in the scenario.
    Pool = 8,
    /// Timing noise of a host's output port, by port number.
    Jitter = 9,
    /// Switches that choose a port per packet or by hash: one stream for each switch is split from it.
    Forward = 10,
    /// What an approximation draws, by flow number; from the other end of the numbers the seeds of its links, by port number.
    Approximation = 11,
    /// Timing noise of what a host receives, by host number; from the other end that of a machine that all share.
    Reception = 12,
    /// A clock that misses ticks, by tick.
    Ticks = 13,
}

/// SplitMix64 (Steele, Lea, Flood 2014): one step, used to spread a key over the state.
fn splitmix(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *x;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A stream of random numbers: xoshiro256++ (Blackman, Vigna 2019).
#[derive(Clone, Debug)]
pub struct Stream {
    s: [u64; 4],
}

impl Stream {
    /// The stream of entity `kind` number `index` in run `run` of base seed `seed`. Written out wherever one is made it would be some hundred bytes of
    /// instructions each time.
    #[inline(never)]
    pub fn new(seed: u64, run: u64, kind: Entity, index: u64) -> Stream {
        let mut key = seed;
        for part in [run, kind as u64, index] {
            key = splitmix(&mut key) ^ part.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        }
        let s = [splitmix(&mut key), splitmix(&mut key), splitmix(&mut key), splitmix(&mut key)];
        Stream { s }
    }

    /// Another stream that depends on this one's state and on `tag`; this one is not advanced.
    pub fn split(&self, tag: u64) -> Stream {
        let mut key = self.s[0] ^ tag.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let s = [splitmix(&mut key), splitmix(&mut key), splitmix(&mut key), splitmix(&mut key)];
        Stream { s }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.s;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }
    /// Uniform on [0, 1).
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Uniform integer on [0, n); 0 when `n` is 0. The bias is below 2^-32 for n below 2^32.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.next_u64() as u128 * n as u128) >> 64) as u64
    }
    /// Uniform on [0, max).
    #[inline]
    pub fn dur_below(&mut self, max: Dur) -> Dur {
        Dur(self.below(max.0))
    }
    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.uniform())
    }
    /// Pareto with the given shape (above 1) and mean: scale = mean (shape - 1) / shape.
    pub fn pareto(&mut self, shape: f64, mean: f64) -> f64 {
        let scale = mean * (shape - 1.0) / shape;
        scale / libm::pow(1.0 - self.uniform(), 1.0 / shape)
    }
    /// Fisher-Yates shuffle.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_every_part_of_the_key() {
        let first = |seed, run, kind, index| Stream::new(seed, run, kind, index).next_u64();
        let base = first(1, 0, Entity::Sender, 0);
        assert_eq!(base, first(1, 0, Entity::Sender, 0));
        for other in [
            first(2, 0, Entity::Sender, 0),
            first(1, 1, Entity::Sender, 0),
            first(1, 0, Entity::Port, 0),
            first(1, 0, Entity::Sender, 1),
        ] {
            assert_ne!(base, other);
        }
    }
    #[test]
    fn a_split_leaves_its_parent_alone() {
        let mut parent = Stream::new(1, 0, Entity::Sender, 0);
        let mut other = parent.clone();
        let (mut a, mut b, mut again) = (parent.split(1), parent.split(2), parent.split(1));
        assert_eq!(parent.next_u64(), other.next_u64());
        let first = a.next_u64();
        assert_eq!(first, again.next_u64());
        assert_ne!(first, b.next_u64());
    }
    #[test]
    fn xoshiro_matches_the_published_sequence() {
        // First outputs of xoshiro256++ from state 1, 2, 3, 4 (reference C program by its authors).
        let mut s = Stream { s: [1, 2, 3, 4] };
        assert_eq!([s.next_u64(), s.next_u64(), s.next_u64()], [41943041, 58720359, 3588806011781223]);
    }
    #[test]
    fn distributions_have_their_means() {
        let mut s = Stream::new(7, 0, Entity::Workload, 0);
        let n = 200_000;
        let mean = |f: &mut dyn FnMut() -> f64| (0..n).map(|_| f()).sum::<f64>() / n as f64;
        assert!((mean(&mut || s.uniform()) - 0.5).abs() < 0.005);
        assert!((mean(&mut || s.exponential(3.0)) - 3.0).abs() < 0.05);
        assert!((mean(&mut || s.pareto(3.0, 3.0)) - 3.0).abs() < 0.05);
    }
}
