//! CBC: collective bandwidth control of a host's connections over unmodified TCP.
//!
//! Source: K. Kant, "Coordinated Bandwidth Control in Data Centers", section 3.
//!
//! A connection is *uncongested* and estimates its base RTT and required bandwidth until any member of its control set
//! sees congestion. Then all members are *controlling*: these two estimates are frozen and windows are capped by
//! equation (1). A member that has been normal for long enough, and is past the hump of its backlog, is *ready to
//! exit*; when all members are, the set is released.
//!
//! Readings, where the paper leaves room:
//! - one measurement per round trip: a round ends with the first acknowledgement, carrying an RTT sample, of
//!   data sent after the last round ended (one timed segment at a time);
//! - Cause::Normal begins when the current RTT is back at the base RTT and is ended by any sign of congestion;
//! - the hump is the time during which more than the required bandwidth is carried, and no member exits during it;
//! - a set of one is not controlled (footnote 2);
//! - a cap is never below two segments, or delayed acknowledgements would stall the connection.

use super::ecn_label::Label;
use crate::registry::HostProtocol;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use penstock_core::host::{HostController, Peer, Transition};
use penstock_core::{
    Ack, Congestion, FlowId, FlowView, Kind, ParamError, ParamSpec, Params, Quantity, Report, Unit,
};
use penstock_units::{Bytes, Dur, Time};

static REQUIRED: Quantity =
    Quantity::new("required_bps", Unit::BitsPerSecond, "rate that a connection requires");
static AVAILABLE: Quantity =
    Quantity::new("available_bps", Unit::BitsPerSecond, "rate that is available to a connection");
static BASE_RTT: Quantity =
    Quantity::new("base_rtt_s", Unit::Seconds, "round-trip time of a connection without queues");
static CURRENT_RTT: Quantity =
    Quantity::new("current_rtt_s", Unit::Seconds, "round-trip time of a connection now");
static SET: Quantity = Quantity::new("set", Unit::One, "control set of a connection; none = it is in no set");
static CAP: Quantity =
    Quantity::new("cap_bytes", Unit::Bytes, "cap of a connection's window; none = it has none");
static STATE: Quantity = Quantity::new(
    "state",
    Unit::One,
    "state of a connection: 0 uncongested, 1 controlling, 2 ready to leave its set",
);

/// Parameters of CBC.
pub const PARAMS: &[ParamSpec] = &[
    ParamSpec::new(
        "set",
        Kind::Choice(&["performance", "destination", "router", "ecn"]),
        "router",
        "how the control set is found",
        "section 3.1; chosen: the method that is exact in the paper's network",
    ),
    ParamSpec::new(
        "form",
        Kind::Choice(&["intended", "printed"]),
        "intended",
        "equation (1): proportional and bounded by the requirement, or as printed",
        "section 3.3",
    ),
    ParamSpec::new("eta", Kind::Float, "1.15", "gain of the cap over the available bandwidth", "section 3.3")
        .range(1e-3, 100.0),
    ParamSpec::new(
        "rtt_ratio",
        Kind::Float,
        "1.4",
        "current over base RTT that is congestion",
        "section 3.2.1",
    )
    .range(1.0, 1e6),
    ParamSpec::new(
        "n_rtt",
        Kind::Count,
        "4",
        "measurements averaged into the current values",
        "section 3.2.1",
    )
    .range(1.0, 1000.0),
    ParamSpec::new(
        "alpha_r",
        Kind::Float,
        "0.05",
        "smoothing of base RTT and required bandwidth",
        "section 3.2.1",
    )
    .range(1e-6, 1.0),
    ParamSpec::new("alpha_a", Kind::Float, "0.2", "smoothing of available bandwidth", "section 3.2.2")
        .range(1e-6, 1.0),
    ParamSpec::new(
        "min_period",
        Kind::Duration,
        "2s",
        "shortest time a connection must stay normal before it exits",
        "section 3.2.3 names it; chosen: recovery from a tenth takes 97 round trips of about 20 ms",
    ),
    ParamSpec::new(
        "cap_rtt",
        Kind::Choice(&["current", "base"]),
        "current",
        "the RTT that equation (1) averages over the set",
        "section 3.3 leaves it open; base starves (see docs)",
    ),
    ParamSpec::new(
        "fraction",
        Kind::Choice(&["drop", "carry"]),
        "drop",
        "fraction of a segment in a cap: unused, or carried to the next round trip",
        "a sender uses whole segments; this project",
    ),
    ParamSpec::new(
        "min_segments",
        Kind::Count,
        "2",
        "smallest cap in segments",
        "chosen: two, or delayed acknowledgements would stall the connection",
    )
    .range(1.0, 1e6),
    ParamSpec::new(
        "inherit",
        Kind::Bool,
        "true",
        "a new connection starts from the estimates of the last one to the same peer and class",
        "this project, for non-permanent connections",
    ),
];

/// Collective bandwidth control, as the registry names it.
pub const CBC: HostProtocol = HostProtocol {
    name: "cbc",
    text: "collective bandwidth control: caps a host's connections in proportion to their requirements under congestion",
    cites: "kant-cbc section 3",
    params: PARAMS,
    reports: &[&REQUIRED, &AVAILABLE, &BASE_RTT, &CURRENT_RTT, &SET, &CAP, &STATE],
    build: |p| Ok(Box::new(Cbc::new(Config::new(p)?))),
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SetRule {
    Performance,
    Destination,
    Router,
    Ecn,
}

/// Checked parameters of CBC.
#[derive(Clone, Debug)]
pub struct Config {
    set: SetRule,
    printed: bool,
    eta: f64,
    rtt_ratio: f64,
    n_rtt: usize,
    alpha_r: f64,
    alpha_a: f64,
    min_period: Dur,
    cap_from_base: bool,
    carry: bool,
    min_segments: u64,
    inherit: bool,
}

impl Config {
    /// Reads the parameters declared in [`PARAMS`].
    ///
    /// # Errors
    /// `alpha_a` not above `alpha_r`: available bandwidth could not track a congestion episode.
    pub fn new(p: &Params) -> Result<Config, ParamError> {
        // Section 3.2.2: "alpha_a must necessarily be significantly larger than alpha_r".
        if p.float("alpha_a") <= p.float("alpha_r") {
            return Err(p.error("alpha_a", "must be larger than alpha_r"));
        }
        Ok(Config {
            set: match p.text("set") {
                "performance" => SetRule::Performance,
                "destination" => SetRule::Destination,
                "router" => SetRule::Router,
                _ => SetRule::Ecn,
            },
            printed: p.text("form") == "printed",
            eta: p.float("eta"),
            rtt_ratio: p.float("rtt_ratio"),
            n_rtt: p.count("n_rtt") as usize,
            alpha_r: p.float("alpha_r"),
            alpha_a: p.float("alpha_a"),
            min_period: p.dur("min_period"),
            cap_from_base: p.text("cap_rtt") == "base",
            carry: p.text("fraction") == "carry",
            min_segments: p.count("min_segments"),
            inherit: p.flag("inherit"),
        })
    }
}

/// Figure 1 of the paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Uncongested,
    /// Frozen estimates, capped window. `normal_since`: congestion effects have ended, not yet trusted.
    Controlling {
        normal_since: Option<Time>,
    },
    /// No congestion effects any more; capped until the whole set is ready.
    Ready,
}

/// What moves a connection from one state to another. The first five lead to control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Loss,
    Timeout,
    Mark,
    Delay,
    /// Another connection of the set saw congestion.
    Member,
    /// No congestion effects for long enough, and past the hump.
    Normal,
    /// The whole set is ready.
    Synch,
}

impl Cause {
    /// The state it leads to, and itself.
    fn name(self) -> &'static str {
        match self {
            Cause::Loss => "controlling: loss",
            Cause::Timeout => "controlling: timeout",
            Cause::Mark => "controlling: mark",
            Cause::Delay => "controlling: delay",
            Cause::Member => "controlling: member",
            Cause::Normal => "ready: normal",
            Cause::Synch => "uncongested: all ready",
        }
    }
}

/// The estimates of section 3.2, in seconds and bits per second.
#[derive(Clone, Copy, Debug, Default)]
struct Estimates {
    current_rtt: f64,
    base_rtt: f64,
    current_bw: f64,
    required: f64,
    available: f64,
    /// Measurements taken in all; the slow averages mean little before 1 / alpha_r of them.
    rounds: u32,
}

/// The end of one round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
    at: Time,
    acked: u64,
    rtt: Dur,
}

#[derive(Debug)]
struct Connection {
    peer: Peer,
    state: State,
    est: Estimates,
    /// The point the first round is counted from, then the ends of the last N_rtt rounds.
    history: VecDeque<Round>,
    /// A round ends with the acknowledgement of this byte.
    round_end: u64,
    last_ack: Time,
    segment: u64,
    /// Window granted for this round, and the fraction of a segment of equation (1) not granted so far, in bytes.
    granted: u64,
    credit: f64,
    /// Control set the connection is held in; `None` = uncongested.
    set: Option<SetId>,
}

/// Names a control set; what the number stands for depends on the rule.
type SetId = u32;

/// What the members of a set have in common in equation (1): averages over the set.
#[derive(Clone, Copy, Debug)]
struct Shared {
    members: usize,
    required: f64,
    available: f64,
    rtt: f64,
}

/// Collective bandwidth control of the connections of one host.
pub struct Cbc {
    config: Config,
    connections: BTreeMap<FlowId, Connection>,
    sets: BTreeMap<SetId, Shared>,
    /// Estimates left behind by closed connections, by destination and class.
    legacy: BTreeMap<(u32, u8), Estimates>,
    transitions: Vec<Transition>,
    /// Routers name themselves when they mark.
    labelled: bool,
    /// Windows granted so far: the work of a set event.
    #[cfg(test)]
    grants: u64,
}

impl Cbc {
    /// Controls the connections it is told of.
    pub fn new(config: Config) -> Cbc {
        Cbc {
            config,
            connections: BTreeMap::new(),
            sets: BTreeMap::new(),
            legacy: BTreeMap::new(),
            transitions: Vec::new(),
            labelled: false,
            #[cfg(test)]
            grants: 0,
        }
    }

    /// True when the slow averages have seen their own time constant: only then are they worth freezing.
    fn warm(&self, est: &Estimates) -> bool {
        est.rounds as f64 * self.config.alpha_r >= 1.0
    }

    /// The set that congestion seen on the way to `peer` concerns (section 3.1).
    fn set_of(&self, peer: Peer, point: u32) -> SetId {
        match self.config.set {
            SetRule::Destination => peer.host,
            SetRule::Router => peer.router,
            SetRule::Performance => 0,
            SetRule::Ecn => point,
        }
    }

    /// True when congestion seen by `one` brings `other` under control at once.
    fn concerns(&self, one: Peer, other: Peer) -> bool {
        match self.config.set {
            SetRule::Performance => false,
            SetRule::Router => one.router == other.router,
            // Marks may reach one connection of a pair of hosts only; all of them share its path (section 3.1).
            SetRule::Destination | SetRule::Ecn => one.host == other.host,
        }
    }

    fn go(&mut self, now: Time, flow: FlowId, state: State, cause: Cause) {
        let Some(c) = self.connections.get_mut(&flow) else { return };
        let changes = core::mem::discriminant(&c.state) != core::mem::discriminant(&state);
        c.state = state;
        if changes {
            self.transitions.push(Transition { at: now, flow, what: cause.name() });
        }
    }

    /// The set event of section 3.2: `flow` sees congestion at `point`, and its control set is controlled.
    fn set_event(&mut self, now: Time, flow: FlowId, point: u32, cause: Cause) {
        let Some(c) = self.connections.get(&flow) else { return };
        let peer = c.peer;
        if c.set.is_some() {
            // Still congested, or again: whatever calm there was has ended.
            self.go(now, flow, State::Controlling { normal_since: None }, cause);
        }
        let set = self.set_of(peer, point);
        let joining: Vec<FlowId> = self
            .connections
            .iter()
            .filter(|(id, m)| {
                m.set.is_none() && self.warm(&m.est) && (**id == flow || self.concerns(peer, m.peer))
            })
            .map(|(id, _)| *id)
            .collect();
        self.join(now, &joining, set, |id| if id == flow { cause } else { Cause::Member });
    }

    /// Takes connections into a set: all of them first, then the averages and the windows once.
    fn join(&mut self, now: Time, joining: &[FlowId], set: SetId, cause: impl Fn(FlowId) -> Cause) {
        for id in joining {
            let Some(c) = self.connections.get_mut(id) else { continue };
            c.set = Some(set);
            c.credit = 0.0;
            self.go(now, *id, State::Controlling { normal_since: None }, cause(*id));
        }
        if joining.is_empty() {
            return;
        }
        self.share(set);
        let members: Vec<FlowId> = self.members(set).map(|(id, _)| id).collect();
        for id in members {
            self.grant(id);
        }
    }

    fn members(&self, set: SetId) -> impl Iterator<Item = (FlowId, &Connection)> {
        self.connections.iter().filter(move |(_, c)| c.set == Some(set)).map(|(id, c)| (*id, c))
    }

    /// Renews the averages of a set after a change of its members or their estimates.
    fn share(&mut self, set: SetId) {
        let mut sum = Shared { members: 0, required: 0.0, available: 0.0, rtt: 0.0 };
        for (_, c) in self.members(set) {
            sum.members += 1;
            sum.required += c.est.required;
            sum.available += c.est.available;
            sum.rtt += if self.config.cap_from_base { c.est.base_rtt } else { c.est.current_rtt };
        }
        if sum.members == 0 {
            self.sets.remove(&set);
            return;
        }
        let n = sum.members as f64;
        let mean = Shared {
            members: sum.members,
            required: sum.required / n,
            available: sum.available / n,
            rtt: sum.rtt / n,
        };
        self.sets.insert(set, mean);
    }

    /// Equation (1) for one connection, in bytes; `None` when it is not controlled.
    fn equation_1(&self, c: &Connection) -> Option<f64> {
        // Footnote 2: nothing interesting is done until the set has more than one member.
        let shared = self.sets.get(&c.set?).filter(|s| s.members > 1)?;
        let share = c.est.required / shared.required;
        let rate = if self.config.printed {
            // Eq. (1): W_i = min(eta * l_a, l_ri) * RTT_avg * l_ri / mean(l_r)
            (self.config.eta * shared.available).min(c.est.required) * share
        } else {
            // Eq. (1), stated intent: W_i = min(eta * l_a * l_ri / mean(l_r), l_ri) * RTT_avg
            (self.config.eta * shared.available * share).min(c.est.required)
        };
        Some(rate * shared.rtt / 8.0)
    }

    /// Grants a connection its window for the coming round trip, in whole segments. A sender uses whole segments only.
    /// With windows of a few segments, a cap rounded down would lose what eta adds. The fraction is therefore carried
    /// over, and the mean of the windows is equation (1).
    fn grant(&mut self, flow: FlowId) {
        #[cfg(test)]
        {
            self.grants += 1;
        }
        let (carry, min) = (self.config.carry, self.config.min_segments);
        let Some(window) = self.connections.get(&flow).and_then(|c| self.equation_1(c)) else { return };
        if let Some(c) = self.connections.get_mut(&flow) {
            let due = window + c.credit;
            let segments = (due / c.segment.max(1) as f64) as u64;
            c.granted = segments.max(min) * c.segment;
            if carry {
                c.credit = due - (segments * c.segment) as f64;
            }
        }
    }

    /// The unset event of section 3.2.3, and the synch event when the whole set is ready.
    fn try_exit(&mut self, now: Time, set: SetId) {
        let min_period = self.config.min_period;
        let ready: Vec<FlowId> = self
            .members(set)
            .filter(|(_, m)| match m.state {
                // Normal for long enough to be out of the trap, and not on the hump (carrying backlog).
                State::Controlling { normal_since: Some(since) } => {
                    now.since(since) >= min_period && m.est.available <= m.est.required
                }
                // A silent connection sees no congestion either, and must not hold the others.
                State::Controlling { normal_since: None } => now.since(m.last_ack) >= min_period,
                _ => false,
            })
            .map(|(id, _)| id)
            .collect();
        for id in ready {
            self.go(now, id, State::Ready, Cause::Normal);
        }
        if self.members(set).all(|(_, m)| m.state == State::Ready) {
            let all: Vec<FlowId> = self.members(set).map(|(id, _)| id).collect();
            for id in all {
                if let Some(m) = self.connections.get_mut(&id) {
                    m.set = None;
                }
                self.go(now, id, State::Uncongested, Cause::Synch);
            }
            self.sets.remove(&set);
        }
    }

    /// A round trip has ended: sections 3.2.1 and 3.2.2. True when the delay says "congestion".
    fn measure(config: &Config, c: &mut Connection, round: Round) -> bool {
        c.history.push_back(round);
        while c.history.len() > config.n_rtt + 1 {
            c.history.pop_front();
        }
        let (first, rounds) = (c.history[0], c.history.len() - 1);
        let est = &mut c.est;
        est.current_rtt = c.history.iter().skip(1).map(|r| r.rtt.as_secs()).sum::<f64>() / rounds as f64;
        let elapsed = round.at.since(first.at).as_secs();
        if elapsed > 0.0 {
            est.current_bw = (round.acked - first.acked) as f64 * 8.0 / elapsed;
        }
        est.rounds = est.rounds.saturating_add(1);
        if est.rounds == 1 {
            est.base_rtt = est.current_rtt;
            est.required = est.current_bw;
            est.available = est.current_bw;
            return false;
        }
        est.available += config.alpha_a * (est.current_bw - est.available);
        let congested = est.current_rtt > config.rtt_ratio * est.base_rtt;
        // Frozen while controlling; the round that reveals congestion must not enter either.
        if c.set.is_none() && !(congested && est.rounds as f64 * config.alpha_r >= 1.0) {
            est.base_rtt += config.alpha_r * (est.current_rtt - est.base_rtt);
            est.required += config.alpha_r * (est.current_bw - est.required);
        }
        congested
    }
}

impl HostController for Cbc {
    fn on_open(&mut self, now: Time, flow: FlowId, peer: Peer) {
        let inherited = self.legacy.get(&(peer.host, peer.class)).filter(|_| self.config.inherit);
        let est = inherited.copied().unwrap_or_default();
        let connection = Connection {
            peer,
            state: State::Uncongested,
            est,
            history: VecDeque::with_capacity(self.config.n_rtt + 2),
            round_end: 0,
            last_ack: now,
            segment: 0,
            granted: u64::MAX,
            credit: 0.0,
            set: None,
        };
        self.connections.insert(flow, connection);
        // A connection that opens amid congestion joins the set that controls its path, if its requirement is known.
        if self.warm(&est) {
            let other = self.connections.values().find(|m| m.set.is_some() && self.concerns(m.peer, peer));
            if let Some(set) = other.and_then(|m| m.set) {
                self.join(now, &[flow], set, |_| Cause::Member);
            }
        }
    }

    fn on_close(&mut self, now: Time, flow: FlowId) {
        let Some(c) = self.connections.remove(&flow) else { return };
        self.legacy.insert((c.peer.host, c.peer.class), c.est);
        if let Some(set) = c.set {
            self.share(set);
            self.try_exit(now, set);
        }
    }

    fn on_ack(&mut self, flow: FlowId, ack: &Ack<'_>, view: &FlowView) {
        let Some(c) = self.connections.get_mut(&flow) else { return };
        c.last_ack = ack.now;
        c.segment = view.segment as u64;
        let round = Round { at: ack.now, acked: view.una, rtt: ack.rtt.unwrap_or(Dur::ZERO) };
        if c.history.is_empty() {
            c.history.push_back(round);
            c.round_end = view.max_sent;
        } else if view.una >= c.round_end && ack.rtt.is_some() {
            c.round_end = view.max_sent;
            let congested = Cbc::measure(&self.config, c, round);
            let normal = c.est.current_rtt <= c.est.base_rtt;
            let set = c.set;
            if let State::Controlling { normal_since: since @ None } = &mut c.state {
                if normal {
                    *since = Some(ack.now);
                }
            }
            if congested && (self.config.set != SetRule::Ecn || set.is_some()) {
                self.set_event(ack.now, flow, 0, Cause::Delay);
            }
            if let Some(set) = set {
                self.share(set);
                self.grant(flow);
                self.try_exit(ack.now, set);
            }
        }
        if let Some(label) = ack.header.get::<Label>() {
            self.labelled = true;
            if label.point != 0 && self.config.set == SetRule::Ecn {
                self.set_event(ack.now, flow, label.point, Cause::Mark);
            }
        }
    }

    fn on_congestion(&mut self, now: Time, flow: FlowId, _view: &FlowView, event: Congestion) {
        // Section 3.2.1: "CBC takes effect whenever TCP slashes window".
        let cause = match event {
            Congestion::Loss => Cause::Loss,
            Congestion::Timeout { .. } => Cause::Timeout,
            Congestion::Ecn => Cause::Mark,
            Congestion::Recovered | Congestion::Idle | Congestion::SynLost | Congestion::Spurious => return,
        };
        let controlled = self.connections.get(&flow).is_some_and(|c| c.set.is_some());
        // With ECN only marks find the set; where routers name themselves, the name does.
        let finds = self.config.set != SetRule::Ecn || (cause == Cause::Mark && !self.labelled);
        if finds || controlled {
            self.set_event(now, flow, 0, cause);
        }
    }

    fn cap(&self, flow: FlowId) -> Option<Bytes> {
        let c = self.connections.get(&flow)?;
        self.equation_1(c).map(|_| Bytes(c.granted))
    }

    fn take_transitions(&mut self) -> Vec<Transition> {
        core::mem::take(&mut self.transitions)
    }

    fn observe(&self, flow: FlowId, report: &mut Report<'_>) {
        let Some(c) = self.connections.get(&flow) else { return };
        report(&REQUIRED, c.est.required);
        report(&AVAILABLE, c.est.available);
        report(&BASE_RTT, c.est.base_rtt);
        report(&CURRENT_RTT, c.est.current_rtt);
        report(&SET, c.set.map_or(f64::NAN, f64::from));
        report(&CAP, self.cap(flow).map_or(f64::NAN, |b| b.0 as f64));
        report(
            &STATE,
            match c.state {
                State::Uncongested => 0.0,
                State::Controlling { .. } => 1.0,
                State::Ready => 2.0,
            },
        );
    }
}

#[cfg(test)]
mod tests;
