//! Flow sizes: fixed, uniform, exponential, Pareto, or from a file of measured points.

use crate::folder::Folder;
use penstock_core::params::parse_size;
use penstock_core::{bail_if, param, ParamError, ParamSpec, Params, Stream};

/// Largest size that is drawn; only the far tail of a Pareto distribution reaches it.
const LARGEST: f64 = 1e15;

/// How the points of a CDF file are read. The mean of one published file differs by a factor of two or more
/// between these rules, so a load means nothing without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Between {
    /// Sizes between two points are equally likely.
    Linear,
    /// All flows of a step have the size of its lower point.
    Lower,
    /// All flows of a step have the size of its upper point.
    Upper,
}

/// A point of a CDF file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Size in bytes.
    pub size: f64,
    /// Share of flows that are not larger.
    pub cdf: f64,
}

/// A distribution of flow sizes in bytes. Sizes are whole and at least one byte.
#[derive(Clone, PartialEq, Debug)]
pub enum Sizes {
    /// Always the same.
    Fixed(u64),
    /// Every whole number from the first to the second, both included.
    Uniform(u64, u64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Pareto with this shape and mean.
    Pareto {
        /// Above 1.
        shape: f64,
        /// In bytes.
        mean: f64,
    },
    /// Points of a file, from (0, 0) or the first point up to cdf = 1.
    Points(Vec<Point>, Between),
}

/// The parameters beside `sizes` that say how a file is read.
pub const FILE_PARAMS: [ParamSpec; 2] = [
    param!("cdf_rule": Choice(&["linear", "lower", "upper"]) = "linear",
        "sizes between two points of a CDF file: spread evenly, or all at the lower or upper point",
        "linear: the traffic generators of HPCC and DCTCP's ns-2 scripts"),
    param!("cdf_unit": Size = "1B" in [1.0, 1e6], "bytes per unit of the size column of a CDF file", ""),
];

/// Flow sizes of the web-search cluster of DCTCP (Alizadeh et al., SIGCOMM 2010, Fig 4): bytes and share of flows that
/// are not larger. The figure has no table; these are the points that HPCC's and TrafficGenerator's generators publish.
const WEB_SEARCH: [(f64, f64); 12] = [
    (0.0, 0.0),
    (1e4, 0.15),
    (2e4, 0.20),
    (3e4, 0.30),
    (5e4, 0.40),
    (8e4, 0.53),
    (2e5, 0.60),
    (1e6, 0.70),
    (2e6, 0.80),
    (5e6, 0.90),
    (1e7, 0.97),
    (3e7, 1.0),
];

/// Flow sizes of Facebook's Hadoop cluster (Roy et al., SIGCOMM 2015), as HPCC uses them: bytes and share of flows that are not larger, the
/// points that its generator publishes.
const FB_HADOOP: [(f64, f64); 20] = [
    (0.0, 0.0),
    (100.0, 0.01),
    (200.0, 0.02),
    (300.0, 0.05),
    (350.0, 0.15),
    (400.0, 0.2),
    (500.0, 0.3),
    (600.0, 0.4),
    (700.0, 0.5),
    (1e3, 0.6),
    (2e3, 0.67),
    (7e3, 0.7),
    (3e4, 0.72),
    (5e4, 0.82),
    (8e4, 0.87),
    (1.2e5, 0.9),
    (3e5, 0.95),
    (1e6, 0.975),
    (2e6, 0.99),
    (1e7, 1.0),
];

impl Sizes {
    /// Reads parameter `key` of `p`: `fixed:SIZE`, `uniform:MIN:MAX`, `exponential:MEAN`, `pareto:SHAPE:MEAN`,
    /// `websearch` (DCTCP, SIGCOMM 2010, Fig 4), `fb-hadoop` (SIGCOMM 2015) or `cdf:FILE` (the last three with [`FILE_PARAMS`]; in `folder`).
    ///
    /// # Errors
    /// Any other form, a size below one byte, a shape not above 1, a file that is missing or no CDF.
    pub fn parse(p: &Params, key: &str, folder: &Folder) -> Result<Sizes, ParamError> {
        let text = p.text(key);
        let bad = |rule: String| Err(p.error(key, rule));
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let size = |text: &str| -> Result<f64, ParamError> {
            match parse_size(text) {
                Some(x) if (1.0..=LARGEST).contains(&x) && x.fract() == 0.0 => Ok(x),
                Some(x) if x < 1.0 => Err(p.error(key, format!("size {text:?} must be at least 1 byte"))),
                Some(_) => {
                    Err(p.error(key, format!("size {text:?} must be a whole number of bytes, at most 1e15")))
                }
                None => {
                    Err(p.error(key, format!("{text:?} must be a size (B, KB = 1000, KiB = 1024, MB, GB)")))
                }
            }
        };
        let parts: Vec<&str> =
            if rest.is_empty() { Vec::new() } else { rest.split(':').map(str::trim).collect() };
        let between = || match p.text("cdf_rule") {
            "lower" => Between::Lower,
            "upper" => Between::Upper,
            _ => Between::Linear,
        };
        Ok(match (name.trim(), parts.as_slice()) {
            ("websearch", []) => {
                Sizes::Points(WEB_SEARCH.map(|(size, cdf)| Point { size, cdf }).into(), between())
            }
            ("fb-hadoop", []) => {
                Sizes::Points(FB_HADOOP.map(|(size, cdf)| Point { size, cdf }).into(), between())
            }
            ("fixed", [x]) => Sizes::Fixed(size(x)? as u64),
            ("uniform", [a, b]) => {
                let (min, max) = (size(a)? as u64, size(b)? as u64);
                if min > max {
                    return bad(format!("uniform:MIN:MAX needs MIN at most MAX, not {a} and {b}"));
                }
                Sizes::Uniform(min, max)
            }
            ("exponential", [mean]) => Sizes::Exponential(size(mean)?),
            ("pareto", [shape, mean]) => match shape.parse::<f64>() {
                Ok(s) if s > 1.0 && s <= 100.0 => Sizes::Pareto { shape: s, mean: size(mean)? },
                Ok(_) => {
                    return bad(format!("shape {shape} must be above 1 (else there is no mean), at most 100"))
                }
                Err(_) => return bad(format!("shape {shape:?} must be a number")),
            },
            ("cdf", parts) if !parts.is_empty() => {
                let unit = p.bytes("cdf_unit").0 as f64;
                let text = folder.read(rest.trim()).map_err(|rule| p.error(key, rule))?;
                match read_cdf(&text, unit) {
                    Ok(points) => Sizes::Points(points, between()),
                    Err(rule) => return bad(rule),
                }
            }
            _ => {
                return bad(
                    "must be fixed:SIZE, uniform:MIN:MAX, exponential:MEAN, pareto:SHAPE:MEAN, websearch, fb-hadoop or cdf:FILE"
                        .into(),
                )
            }
        })
    }

    /// Mean in bytes, before sizes are rounded to whole bytes.
    pub fn mean(&self) -> f64 {
        match self {
            Sizes::Fixed(x) => *x as f64,
            Sizes::Uniform(a, b) => (*a as f64 + *b as f64) / 2.0,
            Sizes::Exponential(mean) | Sizes::Pareto { mean, .. } => *mean,
            Sizes::Points(points, between) => points
                .windows(2)
                .map(|w| {
                    let size = match between {
                        Between::Linear => (w[0].size + w[1].size) / 2.0,
                        Between::Lower => w[0].size,
                        Between::Upper => w[1].size,
                    };
                    (w[1].cdf - w[0].cdf) * size
                })
                .sum(),
        }
    }

    /// Mean number of segments of at most `mss` bytes. Above `mean() / mss`, because the last one of a flow is not full.
    pub fn mean_segments(&self, mss: f64) -> f64 {
        let one = |size: f64| (size.max(1.0) / mss).ceil();
        match self {
            Sizes::Fixed(x) => one(*x as f64),
            Sizes::Uniform(a, b) => ceilings(*a as f64 - 1.0, *b as f64, mss),
            // The whole part of an exponential variable is geometric.
            Sizes::Exponential(mean) => 1.0 / (1.0 - (-mss / mean).exp()),
            Sizes::Pareto { shape, mean } => {
                let least = mean * (shape - 1.0) / shape;
                // The mean of a whole number is the sum of P(it is above k): 1 below the smallest size, then (least / k mss)^shape.
                let first = (least / mss).ceil().max(1.0);
                first + (least / mss).powf(*shape) * hurwitz_zeta(*shape, first)
            }
            Sizes::Points(points, between) => points
                .windows(2)
                .map(|w| {
                    let (a, b) = (w[0].size, w[1].size);
                    let segments = match between {
                        Between::Linear if b > a => ceilings(a, b, mss),
                        Between::Linear | Between::Lower => one(a),
                        Between::Upper => one(b),
                    };
                    (w[1].cdf - w[0].cdf) * segments
                })
                .sum(),
        }
    }

    /// Draws a size.
    pub fn draw(&self, rng: &mut Stream) -> u64 {
        let x = match self {
            Sizes::Fixed(x) => return *x,
            Sizes::Uniform(a, b) => return a + rng.below(b - a + 1),
            Sizes::Exponential(mean) => rng.exponential(*mean),
            Sizes::Pareto { shape, mean } => rng.pareto(*shape, *mean),
            Sizes::Points(points, between) => {
                let u = rng.uniform();
                // The first point above u ends the step; the last cdf is 1 and u is below it.
                let i = points.partition_point(|p| p.cdf <= u);
                let (a, b) = (points[i - 1], points[i]);
                match between {
                    Between::Linear => a.size + (b.size - a.size) * (u - a.cdf) / (b.cdf - a.cdf),
                    Between::Lower => a.size,
                    Between::Upper => b.size,
                }
            }
        };
        x.round().clamp(1.0, LARGEST) as u64
    }
}

/// Mean of `(x / mss).ceil()` for x spread evenly from `a` to `b`.
fn ceilings(a: f64, b: f64, mss: f64) -> f64 {
    let below = |x: f64| {
        let whole = (x / mss).floor();
        mss * whole * (whole + 1.0) / 2.0 + (whole + 1.0) * (x - whole * mss)
    };
    (below(b) - below(a)) / (b - a)
}

/// The sum of `(q + k)^-s` over k = 0, 1, ..., for s above 1 and q of at least 1: twenty terms, the rest by Euler and Maclaurin.
fn hurwitz_zeta(s: f64, q: f64) -> f64 {
    let head: f64 = (0..20).map(|k| (q + f64::from(k)).powf(-s)).sum();
    let x = q + 20.0;
    head + x.powf(1.0 - s) / (s - 1.0) + x.powf(-s) / 2.0 + s * x.powf(-s - 1.0) / 12.0
}

/// Reads a table of sizes and their cumulative shares. Two forms: `size,cdf` with that header, shares up to 1; or
/// two columns apart by blanks without a header, as HPCC's generator has them, in percent up to 100 (up to 1 is
/// understood too). `#` starts a comment. A table that does not begin at 0 gets the origin (0, 0) in front.
///
/// # Errors
/// A line that is no point, columns that decrease, an end other than 1 (or 100).
pub fn read_cdf(text: &str, unit: f64) -> Result<Vec<Point>, String> {
    let mut points: Vec<Point> = Vec::new();
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(i, l)| (i + 1, l.split('#').next().unwrap_or("").trim()))
        .filter(|(_, l)| !l.is_empty())
        .peekable();
    let is_header = |l: &str| l.split(',').map(|c| c.trim().to_ascii_lowercase()).eq(["size", "cdf"]);
    let csv = lines.peek().is_some_and(|(_, l)| is_header(l));
    if csv {
        lines.next();
    }
    for (number, line) in lines {
        let columns: Vec<&str> =
            if csv { line.split(',').collect() } else { line.split_whitespace().collect() };
        let parsed = match columns.as_slice() {
            [size, cdf] => size.trim().parse::<f64>().ok().zip(cdf.trim().parse::<f64>().ok()),
            _ => None,
        };
        let Some((size, cdf)) = parsed.filter(|(s, c)| s.is_finite() && c.is_finite()) else {
            let form = if csv {
                "two numbers: size,cdf"
            } else {
                "two numbers apart by blanks: size percent (or begin the file with the header size,cdf)"
            };
            return Err(format!("line {number} of the file, {line:?}, must be {form}"));
        };
        if size < 0.0 || cdf < 0.0 {
            return Err(format!("line {number} of the file, {line:?}, must not be negative"));
        }
        if let Some(last) = points.last() {
            if size * unit < last.size || cdf < last.cdf {
                return Err(format!(
                    "line {number} of the file, {line:?}, must not fall below the line before it"
                ));
            }
        }
        points.push(Point { size: size * unit, cdf });
    }
    let Some(last) = points.last().copied() else { return Err("the file has no points".into()) };
    let whole = if !csv && (last.cdf - 100.0).abs() < 1e-9 { 100.0 } else { 1.0 };
    if (last.cdf - whole).abs() > 1e-9 {
        let end = if csv { "1" } else { "100 (percent)" };
        return Err(format!("the last cdf of the file must be {end}, not {}", last.cdf));
    }
    bail_if!(last.size < 1.0, "the largest size of the file must be at least 1 byte");
    for p in &mut points {
        p.cdf /= whole;
    }
    points.last_mut().expect("checked above").cdf = 1.0;
    if points[0].cdf > 0.0 {
        points.insert(0, Point { size: 0.0, cdf: 0.0 });
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::rng::Entity;

    #[test]
    fn the_mean_number_of_segments_is_that_of_drawn_sizes() {
        let points = read_cdf("size,cdf\n40,0.5\n700,0.9\n1e4,1\n", 1.0).unwrap();
        for (sizes, about) in [
            (Sizes::Fixed(1461), 2.0),
            (Sizes::Uniform(1, 2920), 1.5),
            (Sizes::Exponential(300.0), 1.0078),
            (Sizes::Exponential(1e6), 685.4),
            (Sizes::Pareto { shape: 1.4, mean: 43_800.0 }, 30.5),
            (Sizes::Pareto { shape: 2.0, mean: 300.0 }, 1.02),
            (Sizes::Points(points.clone(), Between::Linear), 1.32),
            (Sizes::Points(points.clone(), Between::Lower), 1.0),
            (Sizes::Points(points, Between::Upper), 1.6),
        ] {
            let mean = sizes.mean_segments(1460.0);
            assert!((mean / about - 1.0).abs() < 0.01, "{sizes:?}: {mean}, not {about}");
            let mut rng = Stream::new(7, 0, Entity::Workload, 0);
            let drawn: u64 = (0..400_000).map(|_| sizes.draw(&mut rng).div_ceil(1460)).sum();
            let drawn = drawn as f64 / 400_000.0;
            // A Pareto variable of shape 1.4 has no variance: its mean is only about that of many draws.
            assert!((drawn / mean - 1.0).abs() < 0.05, "{sizes:?}: {drawn} drawn, {mean} computed");
        }
    }

    const SPECS: [ParamSpec; 3] = [param!("sizes": Text = "", "", ""), FILE_PARAMS[0], FILE_PARAMS[1]];

    fn sizes(text: &str) -> Result<Sizes, String> {
        let p = Params::parse("test", &SPECS, &[("sizes".into(), text.into())]).unwrap();
        Sizes::parse(&p, "sizes", &Folder::default()).map_err(|e| e.to_string())
    }
    fn sample_mean(s: &Sizes) -> f64 {
        let mut rng = Stream::new(3, 0, Entity::Workload, 0);
        (0..200_000).map(|_| s.draw(&mut rng) as f64).sum::<f64>() / 200_000.0
    }

    #[test]
    fn samples_have_the_mean_that_is_printed() {
        for text in ["fixed:25KB", "uniform:2KB:50KB", "exponential:30KB", "pareto:3:25KB"] {
            let s = sizes(text).unwrap();
            assert!(
                (sample_mean(&s) / s.mean() - 1.0).abs() < 0.01,
                "{text}: {} {}",
                sample_mean(&s),
                s.mean()
            );
        }
    }
    #[test]
    fn a_file_has_one_mean_per_rule_and_samples_follow_it() {
        let points = read_cdf("# test\nsize,cdf\n0,0\n1000,0.5 # half\n1000,0.6\n11000,1\n", 1.0).unwrap();
        for (between, mean) in [
            (Between::Linear, 0.5 * 500.0 + 0.1 * 1000.0 + 0.4 * 6000.0),
            (Between::Lower, 0.1 * 1000.0 + 0.4 * 1000.0),
            (Between::Upper, 0.6 * 1000.0 + 0.4 * 11000.0),
        ] {
            let s = Sizes::Points(points.clone(), between);
            assert!((s.mean() - mean).abs() < 1e-9, "{between:?}");
            // The lower rule draws sizes of 0, which become 1 byte.
            assert!((sample_mean(&s) / mean - 1.0).abs() < 0.01, "{between:?}");
        }
    }
    /// The means that the published points have by reading rule.
    #[test]
    fn built_in_sizes_are_the_published_distributions() {
        let mean = |name: &str, rule: &str| {
            let given = [("sizes".into(), name.to_owned()), ("cdf_rule".into(), rule.to_owned())];
            let p = Params::parse("test", &SPECS, &given).unwrap();
            Sizes::parse(&p, "sizes", &Folder::default()).unwrap().mean()
        };
        let means = |name| ["lower", "linear", "upper"].map(|rule| mean(name, rule).round());
        assert_eq!(means("websearch"), [987_600.0, 1_711_250.0, 2_434_900.0]);
        assert_eq!(means("fb-hadoop"), [56_945.0, 120_421.0, 183_897.0]);
    }
    #[test]
    fn percent_files_and_files_in_packets_are_read() {
        let points = read_cdf("6 15\n13 20\n19 100\n", 1460.0).unwrap();
        assert_eq!(points[0], Point { size: 0.0, cdf: 0.0 });
        assert_eq!((points[1], points[3].size), (Point { size: 8760.0, cdf: 0.15 }, 27740.0));
    }
    #[test]
    fn bad_files_are_told_by_line() {
        let error = |text: &str| read_cdf(text, 1.0).unwrap_err();
        assert_eq!(error("size,cdf\n0,0\n100,0.97\n"), "the last cdf of the file must be 1, not 0.97");
        assert_eq!(error("size,cdf\n0,0\n100,100\n"), "the last cdf of the file must be 1, not 100");
        assert_eq!(error("0 0\n100 97\n"), "the last cdf of the file must be 100 (percent), not 97");
        assert_eq!(
            error("size,cdf\n0,0\n100,0.9\n50,1\n"),
            "line 4 of the file, \"50,1\", must not fall below the line before it"
        );
        assert!(error("size,cdf\n0;0\n").contains("line 2 of the file, \"0;0\", must be two numbers"));
        assert_eq!(error("# nothing\n"), "the file has no points");
    }
    #[test]
    fn bad_distributions_are_told() {
        let rule = |text: &str| sizes(text).unwrap_err();
        assert_eq!(
            rule("pareto:0.9:25KB"),
            "sizes = \"pareto:0.9:25KB\": shape 0.9 must be above 1 (else there is no mean), at most 100"
        );
        assert_eq!(
            rule("uniform:50KB:2KB"),
            "sizes = \"uniform:50KB:2KB\": uniform:MIN:MAX needs MIN at most MAX, not 50KB and 2KB"
        );
        assert_eq!(rule("fixed:-1KB"), "sizes = \"fixed:-1KB\": size \"-1KB\" must be at least 1 byte");
        assert!(rule("cdf:no/such/file.csv").contains("cannot be read"));
        assert!(rule("normal:3").contains("must be fixed:SIZE"));
    }
}
