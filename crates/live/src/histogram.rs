//! Times by count, and how successive times of one host go together.

use penstock_units::Dur;

/// Steps per doubling of the histogram: values are known to 1.6 %.
const STEPS: u64 = 64;
/// Lags by count.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Counts by step of [`STEPS`] per doubling, from one nanosecond.
    counts: Vec<u64>,
    total: u64,
    /// The largest, in descending order.
    largest: [u64; LARGEST],
}

/// How many of the largest values of a histogram are known.
pub const LARGEST: usize = 32;

/// How long one end takes, and for how many packets it goes on so.
#[derive(Clone, Debug)]
pub struct Turn {
    /// How long.
    pub times: Histogram,
    /// By node: the latest [`FAR`] times, by their place on the histogram's scale, and how many there were.
    latest: Vec<([u16; FAR], usize)>,
    /// Of each time and the one before at the same node, and of each and the one [`FAR`] before.
    near: Pairs,
    far: Pairs,
    /// Packets of the kind that it takes these times for, whether or not one of them told a time.
    pub(crate) handed: u64,
}

/// The second of the two distances, in times at the same node, by which times are compared.
pub const FAR: usize = 20;

/// Sums over pairs of whole numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pairs {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Histogram {
    /// No lags yet.
    pub(crate) fn new() -> Histogram {
        Histogram { counts: vec![0; (40 * STEPS) as usize], total: 0, largest: [0; LARGEST] }
    }
    pub(crate) fn bucket(ns: u64) -> usize {
        let x = ns.max(1);
        let doublings = u64::from(x.ilog2());
        let within = ((x - (1 << doublings)) * STEPS) >> doublings;
        (doublings * STEPS + within) as usize
    }
    fn value(bucket: usize) -> f64 {
        let (doublings, within) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
        (1u64 << doublings) as f64 * (1.0 + (within as f64 + 0.5) / STEPS as f64)
    }
    /// One more.
    pub(crate) fn record(&mut self, lag: Dur) {
        let ns = lag.0 / 1000;
        let i = Histogram::bucket(ns).min(self.counts.len() - 1);
        self.counts[i] += 1;
        self.total += 1;
        if ns > self.largest[LARGEST - 1] {
            let place = self.largest.partition_point(|more| *more >= ns);
            self.largest[place..].rotate_right(1);
            self.largest[place] = ns;
        }
    }
    /// The q-quantile in seconds; NaN when nothing was recorded.
    pub fn quantile(&self, q: f64) -> f64 {
        if self.total == 0 {
            return f64::NAN;
        }
        let rank = (q * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, n) in self.counts.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return (Histogram::value(i) * 1e-9).min(self.max());
            }
        }
        self.max()
    }
    /// The largest in seconds; NaN when nothing was recorded.
    pub fn max(&self) -> f64 {
        if self.total == 0 {
            return f64::NAN;
        }
        self.largest[0] as f64 * 1e-9
    }
    /// The one of that rank in seconds, 1 = the largest; NaN when fewer were recorded.
    pub fn ranked(&self, rank: usize) -> f64 {
        if rank as u64 > self.total {
            return f64::NAN;
        }
        self.largest[rank - 1] as f64 * 1e-9
    }
    /// Packets recorded.
    pub fn count(&self) -> u64 {
        self.total
    }
}

impl Pairs {
    pub(crate) fn add(&mut self, x: u16, y: u16) {
        let (x, y) = (f64::from(x), f64::from(y));
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.yy += y * y;
        self.xy += x * y;
    }
    /// Their correlation; NaN where there are none, or all have the same value.
    pub(crate) fn correlation(&self) -> f64 {
        let of = |ab: f64, a: f64, b: f64| self.n * ab - a * b;
        of(self.xy, self.x, self.y) / (of(self.xx, self.x, self.x) * of(self.yy, self.y, self.y)).sqrt()
    }
}

impl Turn {
    pub(crate) fn new(nodes: usize) -> Turn {
        let [near, far] = [Pairs::default(); 2];
        Turn { times: Histogram::new(), latest: vec![([0; FAR], 0); nodes], near, far, handed: 0 }
    }
    pub(crate) fn record(&mut self, node: u32, took: Dur) {
        self.times.record(took);
        // Times of a pause would outweigh all others; on the histogram's scale, that of their logarithm, they do not.
        let new = Histogram::bucket(took.0 / 1000) as u16;
        let (latest, n) = &mut self.latest[node as usize];
        if *n >= 1 {
            self.near.add(latest[(*n - 1) % FAR], new);
        }
        if *n >= FAR {
            self.far.add(latest[*n % FAR], new);
        }
        latest[*n % FAR] = new;
        *n += 1;
    }
    /// Correlation of the logarithms of a host's successive times.
    pub fn near(&self) -> f64 {
        self.near.correlation()
    }
    /// Of those that are [`FAR`] apart.
    pub fn far(&self) -> f64 {
        self.far.correlation()
    }
    /// Packets handed over for each time that was recorded; NaN where none was.
    pub fn packets(&self) -> f64 {
        if self.times.count() == 0 {
            return f64::NAN;
        }
        self.handed as f64 / self.times.count() as f64
    }
}
