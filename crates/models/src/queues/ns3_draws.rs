//! Draws as ns-3 has them: the combined multiple recursive generator MRG32k3a, in numbered streams (L'Ecuyer, Simard,
//! Chen and Kelton, Operations Research 2002; the constants from memory). The HPCC group's switch takes the first
//! number of a new stream for every packet that it may mark. With the number of the first stream, one port can repeat
//! its marks packet by packet.

/// The moduli of the two components.
const MODULI: [u64; 2] = [4_294_967_087, 4_294_944_443];
/// Both components: x_n = 1403580 x_(n-2) - 810728 x_(n-3), y_n = 527612 y_(n-1) - 1370589 y_(n-3).
const STEP: [Matrix; 2] = [
    [[0, 1, 0], [0, 0, 1], [MODULI[0] - 810_728, 1_403_580, 0]],
    [[0, 1, 0], [0, 0, 1], [MODULI[1] - 1_370_589, 0, 527_612]],
];
/// 1 / (m_1 + 1), with the digits of the authors' package.
const NORM: f64 = 2.328_306_549_295_728e-10;
/// Steps from one stream to the next, and from one run (a substream) to the next, as powers of two.
const STREAM: u32 = 127;
const RUN: u32 = 76;
/// ns-3's state is its seed, 1 by default.
const SEED: u64 = 1;

type Matrix = [[u64; 3]; 3];
type State = [[u64; 3]; 2];

fn times(a: &Matrix, b: &Matrix, m: u64) -> Matrix {
    core::array::from_fn(|i| {
        core::array::from_fn(|j| {
            let sum: u128 = (0..3).map(|k| u128::from(a[i][k]) * u128::from(b[k][j])).sum();
            (sum % u128::from(m)) as u64
        })
    })
}
fn applied(a: &[Matrix; 2], to: &State) -> State {
    core::array::from_fn(|c| {
        core::array::from_fn(|i| {
            let sum: u128 = (0..3).map(|k| u128::from(a[c][i][k]) * u128::from(to[c][k])).sum();
            (sum % u128::from(MODULI[c])) as u64
        })
    })
}
/// 2^`n` steps at once.
fn jump(n: u32) -> [Matrix; 2] {
    core::array::from_fn(|c| (0..n).fold(STEP[c], |a, _| times(&a, &a, MODULI[c])))
}
/// The number that comes next: in `[0, 1)`.
fn first(state: &State) -> f64 {
    let [x, y] = applied(&STEP, state).map(|component| component[2]);
    let difference = if x > y { x - y } else { x + MODULI[0] - y };
    difference as f64 * NORM
}

/// The first numbers of one stream after the other.
pub(super) struct Draws {
    state: State,
    to_next: [Matrix; 2],
    to_run: [Matrix; 2],
}

impl Draws {
    /// From `stream` on, in run `run` of ns-3 (its `RngRun`).
    pub fn new(stream: u64, run: u64) -> Draws {
        let (to_next, once) = (jump(STREAM), jump(RUN));
        let power = |c: usize| (1..run).fold(once[c], |a, _| times(&a, &once[c], MODULI[c]));
        let mut state = [[SEED; 3]; 2];
        for _ in 0..stream {
            state = applied(&to_next, &state);
        }
        Draws { state, to_next, to_run: [power(0), power(1)] }
    }
    /// The next one.
    pub fn uniform(&mut self) -> f64 {
        let u = first(&applied(&self.to_run, &self.state));
        self.state = applied(&self.to_next, &self.state);
        u
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_and_its_jumps_are_the_published_ones() {
        // The first number of the authors' package, whose seeds are all 12345.
        assert!((first(&[[12_345; 3]; 2]) - 0.127_011_122_046_577_14).abs() < 1e-15);
        // The first rows of its A1p76, A2p76, A1p127 and A2p127.
        let [one, two] = jump(RUN);
        assert_eq!(one[0], [82_758_667, 1_871_391_091, 4_127_413_238]);
        assert_eq!(two[0], [1_511_326_704, 3_759_209_742, 1_610_795_712]);
        let [one, two] = jump(STREAM);
        assert_eq!(one[0], [2_427_906_178, 3_580_155_704, 949_770_784]);
        assert_eq!(two[0], [1_464_411_153, 277_697_599, 1_610_723_613]);
    }
    #[test]
    fn a_stream_follows_the_one_before_it() {
        let mut draws = Draws::new(0, 1);
        let four: [f64; 4] = core::array::from_fn(|_| draws.uniform());
        let mut later = Draws::new(2, 1);
        assert_eq!([later.uniform(), later.uniform()], four[2..]);
        assert_ne!(Draws::new(0, 2).uniform(), four[0]);
        let mean = (0..10_000).map(|_| draws.uniform()).sum::<f64>() / 1e4;
        // Uniform: a standard deviation of 0.003.
        assert!((mean - 0.5).abs() < 0.012, "{mean}");
    }
}
