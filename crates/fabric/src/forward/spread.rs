//! Spread rules: how packets and flows are spread over ports of equal cost. One line per rule in the table [`RULES`].

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use penstock_core::params::{parse_spec, unknown};
use penstock_core::{bail_if, Kind, ParamError, ParamSpec, Params};
use penstock_units::Dur;

/// A rule with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Per flow: every choice of its path is drawn uniformly when it opens.
    Drawn,
    /// Per flow: at its opening, the port with the fewest flows so far; ties are drawn.
    Ideal,
    /// Per flow, or per value of the entropy field: hash at every switch.
    Hash {
        /// Seed of the switches' hash functions; `None` = the run's stream.
        seed: Option<u64>,
        /// Every switch hashes alike.
        alike: bool,
        /// Senders may choose the value.
        by_sender: bool,
    },
    /// Per packet, uniformly.
    Packet,
    /// Per packet, in turn.
    RoundRobin,
    /// Per flowlet.
    Flowlet {
        /// A pause longer than this begins a new flowlet.
        gap: Dur,
        /// Entries of a switch's table.
        table: u32,
    },
    /// Per flow: hash, in proportion to the ports' weights.
    Weighted {
        /// Seed of the switches' hash functions; `None` = the run's stream.
        seed: Option<u64>,
    },
    /// Per packet: the port with the least backlog; ties in turn.
    Adaptive,
}

/// A registered spread rule.
pub struct SpreadRule {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub text: &'static str,
    /// Source.
    pub cites: &'static str,
    /// Parameters.
    pub params: &'static [ParamSpec],
    build: fn(&Params) -> Result<Spread, ParamError>,
}

const SEED: ParamSpec = ParamSpec::new(
    "seed",
    Kind::Count,
    "",
    "seed of the switches' hash functions; unset = another one in every run",
    "",
);
const SEEDS: ParamSpec = ParamSpec::new(
    "seeds",
    Kind::Choice(&["per-switch", "same"]),
    "per-switch",
    "same: all switches hash alike, so that tiers choose alike and a part of the paths is never used (polarisation)",
    "chosen: what operators configure",
);
const GAP: ParamSpec = ParamSpec::new(
    "gap",
    Kind::Duration,
    "",
    "a pause of a flow longer than this begins a new flowlet; order is kept where it exceeds the paths' difference in delay",
    "",
)
.range(1e-12, 1e3);
const TABLE: ParamSpec = ParamSpec::new(
    "table",
    Kind::Count,
    "4096",
    "entries of a switch's flowlet table; flows that share one share their flowlets",
    "chosen: 64 KiB per switch; Alizadeh et al., CONGA, SIGCOMM 2014, section 3.4, have 64K entries",
)
.range(1.0, 1_048_576.0);

fn seed(p: &Params) -> Option<u64> {
    p.is_set(SEED.name).then(|| p.count(SEED.name))
}

/// Every rule, in the order shown to a user.
pub const RULES: &[SpreadRule] = &[
    SpreadRule {
        name: "drawn",
        text: "per flow: its path is drawn uniformly, choice by choice, when it opens",
        cites: "ECMP with an ideal hash: Hopps, RFC 2992",
        params: &[],
        build: |_| Ok(Spread::Drawn),
    },
    SpreadRule {
        name: "ideal",
        text: "per flow: at every choice of its path the port that the fewest flows so far were given; ties are drawn",
        cites: "the bound that hashing is compared with",
        params: &[],
        build: |_| Ok(Spread::Ideal),
    },
    SpreadRule {
        name: "flow",
        text: "per flow: every switch hashes the flow",
        cites: "ECMP: Thaler and Hopps, RFC 2991; Hopps, RFC 2992",
        params: &[SEED, SEEDS],
        build: |p| {
            Ok(Spread::Hash { seed: seed(p), alike: p.text(SEEDS.name) == "same", by_sender: false })
        },
    },
    SpreadRule {
        name: "packet",
        text: "per packet: a port is drawn uniformly",
        cites: "Dixit, Prakash, Hu and Kompella, INFOCOM 2013",
        params: &[],
        build: |_| Ok(Spread::Packet),
    },
    SpreadRule {
        name: "round-robin",
        text: "per packet: ports take turns, per group of equal cost",
        cites: "Dixit, Prakash, Hu and Kompella, INFOCOM 2013",
        params: &[],
        build: |_| Ok(Spread::RoundRobin),
    },
    SpreadRule {
        name: "flowlet",
        text: "per flowlet: a port is drawn uniformly after every longer pause of a flow",
        cites: "Sinha, Kandula and Katabi, HotNets 2004; Vanini et al., LetFlow, NSDI 2017",
        params: &[GAP, TABLE],
        build: |p| {
            bail_if!(!p.is_set(GAP.name), ParamError::new(GAP.name, "", "must be given: flowlet:gap=TIME"));
            Ok(Spread::Flowlet { gap: p.dur(GAP.name), table: p.count(TABLE.name) as u32 })
        },
    },
    SpreadRule {
        name: "weighted",
        text: "per flow: every switch hashes the flow, ports in proportion to their links' weights (rates unless given)",
        cites: "WCMP: Zhou et al., EuroSys 2014",
        params: &[SEED],
        build: |p| Ok(Spread::Weighted { seed: seed(p) }),
    },
    SpreadRule {
        name: "adaptive",
        text: "per packet: the port whose queue is shortest at that switch; ties in turn",
        cites: "join the shortest queue; Ghorbani et al., DRILL, SIGCOMM 2017, sample it",
        params: &[],
        build: |_| Ok(Spread::Adaptive),
    },
    SpreadRule {
        name: "entropy",
        text: "by sender: every switch hashes a value that the sender puts into the packet, who changes the path by changing it",
        cites: "Carpenter and Amante, RFC 6438; Bonato et al., REPS, 2024",
        params: &[SEED],
        build: |p| Ok(Spread::Hash { seed: seed(p), alike: false, by_sender: true }),
    },
];

impl Spread {
    /// A rule as written in a scenario (`flowlet:gap=50us`).
    ///
    /// # Errors
    /// An unknown rule or a bad parameter, naming `key`.
    pub fn parse(key: &str, text: &str) -> Result<Spread, ParamError> {
        let (name, given) = parse_spec(key, text)?;
        let Some(rule) = RULES.iter().find(|r| r.name == name) else {
            let names: Vec<&str> = RULES.iter().map(|r| r.name).collect();
            return Err(ParamError::new(key, text, unknown("spread rule", &name, &names)));
        };
        let inner = |e: ParamError| ParamError::new(format!("{key}:{}", e.key), e.value, e.rule);
        let owner: String = format!("spread rule {name}");
        Params::parse(&owner, rule.params, &given).and_then(|p| (rule.build)(&p)).map_err(inner)
    }
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Spread::Drawn => "drawn",
            Spread::Ideal => "ideal",
            Spread::Hash { by_sender: false, .. } => "flow",
            Spread::Hash { by_sender: true, .. } => "entropy",
            Spread::Packet => "packet",
            Spread::RoundRobin => "round-robin",
            Spread::Flowlet { .. } => "flowlet",
            Spread::Weighted { .. } => "weighted",
            Spread::Adaptive => "adaptive",
        }
    }
    /// The path is chosen when a flow opens and written into its cells, a digit per choice; switches use the digits up.
    pub fn is_digits(&self) -> bool {
        matches!(self, Spread::Drawn | Spread::Ideal)
    }
    /// The rule that a network without any choice breaks, with this rule under `key`.
    pub(super) fn no_choice(&self, key: &str, place: &str) -> ParamError {
        let rule = format!("{place} has ports of equal cost: every destination is reached by one port only");
        ParamError::new(key, self.name().to_string(), rule)
    }
}
