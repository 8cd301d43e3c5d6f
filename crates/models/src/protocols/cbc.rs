//! CBC: collective bandwidth control of a host's connections over unmodified TCP.
//!
//! Source: K. Kant, "Coordinated Bandwidth Control in Data Centers", section 3.
//!
//! A connection is *uncongested* and estimates its base RTT and required bandwidth, until any member of its
//! control set sees congestion; then all members are *controlling*: these two estimates are frozen and windows
//! are capped by equation (1). A member that has been normal for long enough, and is past the hump of its
//! backlog, is *ready to exit*; when all members are, the set is released.
//!
//! Readings, where the paper leaves room:
//! - one measurement per round trip: a round ends with the first acknowledgement, carrying an RTT sample, of
//!   data sent after the last round ended (one timed segment at a time);
//! - Cause::Normal begins when the current RTT is back at the base RTT and is ended by any sign of congestion;
//! - the hump is the time during which more than the required bandwidth is carried: nobody exits on it;
//! - a set of one is not controlled (footnote 2);
//! - a cap is never below two segments, or delayed acknowledgements would stall the connection.

use super::reno::RenoWindow;
use crate::registry::{BuildEndpoint, BuildRouter, HostProtocol, Protocol, Suite};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use penstock_core::header::wire::{get_u32, put_u32};
use penstock_core::host::{HostController, Peer, Transition};
use penstock_core::tcp::{EcnMode, LossRecovery, TcpConfig};
use penstock_core::{
    Ack, AckRecord, CcHeader, Congestion, Control, Ecn, FlowId, FlowView, Header, Kind, LinkController,
    LinkView, Packet, ParamError, ParamSpec, Params, WindowLaw,
};
use penstock_units::{Bytes, Dur, Time};

/// Parameters of CBC.
pub const PARAMS: &[ParamSpec] = &[
    ParamSpec::new("set", Kind::Choice(&["performance", "destination", "router", "ecn"]), "router",
        "how the control set is found", "section 3.1; chosen: the method that is exact in the paper's network"),
    ParamSpec::new("form", Kind::Choice(&["intended", "printed"]), "intended",
        "equation (1): proportional and bounded by the requirement, or as printed", "section 3.3"),
    ParamSpec::new("eta", Kind::Float, "1.15", "gain of the cap over the available bandwidth", "section 3.3")
        .range(1e-3, 100.0),
    ParamSpec::new("rtt_ratio", Kind::Float, "1.4", "current over base RTT that is congestion", "section 3.2.1")
        .range(1.0, 1e6),
    ParamSpec::new("n_rtt", Kind::Count, "4", "measurements averaged into the current values", "section 3.2.1")
        .range(1.0, 1000.0),
    ParamSpec::new("alpha_r", Kind::Float, "0.05", "smoothing of base RTT and required bandwidth", "section 3.2.1")
        .range(1e-6, 1.0),
    ParamSpec::new("alpha_a", Kind::Float, "0.2", "smoothing of available bandwidth", "section 3.2.2")
        .range(1e-6, 1.0),
    ParamSpec::new("min_period", Kind::Duration, "2s", "shortest time a connection must stay normal before it exits",
        "section 3.2.3 names it; chosen: recovery from a tenth takes 97 round trips of about 20 ms"),
    ParamSpec::new("cap_rtt", Kind::Choice(&["current", "base"]), "current",
        "the RTT that equation (1) averages over the set", "section 3.3 leaves it open; base starves (see docs)"),
    ParamSpec::new("fraction", Kind::Choice(&["drop", "carry"]), "drop",
        "what becomes of the part of a cap that is no whole segment: unused, or carried to the next round trip",
        "a sender uses whole segments; this project"),
    ParamSpec::new("min_segments", Kind::Count, "2", "smallest cap in segments",
        "chosen: two, or delayed acknowledgements would stall the connection").range(1.0, 1e6),
    ParamSpec::new("inherit", Kind::Bool, "true",
        "a new connection starts from the estimates of the last one to the same peer and class",
        "this project, for non-permanent connections"),
];

/// Collective bandwidth control, as the registry names it.
pub const CBC: HostProtocol = HostProtocol {
    name: "cbc",
    text: "collective bandwidth control: caps a host's connections in proportion to their requirements under congestion",
    cites: "kant-cbc section 3",
    params: PARAMS,
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

    /// Grants a connection its window for the coming round trip, in whole segments. A sender uses whole segments
    /// only, and with windows of a few of them a cap rounded down would lose what eta adds; so the fraction is
    /// carried over, and the mean of the windows is equation (1).
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
            Congestion::Recovered | Congestion::Idle | Congestion::SynLost => return,
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

    fn observe(&self, flow: FlowId, report: &mut dyn FnMut(&'static str, f64)) {
        let Some(c) = self.connections.get(&flow) else { return };
        report("required_bps", c.est.required);
        report("available_bps", c.est.available);
        report("base_rtt_s", c.est.base_rtt);
        report("current_rtt_s", c.est.current_rtt);
        report("set", c.set.map_or(f64::NAN, f64::from));
        report("cap_bytes", self.cap(flow).map_or(f64::NAN, |b| b.0 as f64));
        report(
            "state",
            match c.state {
                State::Uncongested => 0.0,
                State::Controlling { .. } => 1.0,
                State::Ready => 2.0,
            },
        );
    }
}

// ---- ECN that names the congested port (section 3.1, method 4) -------------------------------------------------

/// The port that marked a packet; 0 = none did.
#[derive(Clone, Copy, Debug)]
struct Label {
    point: u32,
}

impl Header for Label {
    const KIND: u8 = 0xCB;
    const WIRE_LEN: u32 = 4;
    fn emit(&self, out: &mut [u8; CcHeader::ROOM]) {
        put_u32(out, 0, self.point);
    }
    fn parse(raw: &[u8; CcHeader::ROOM]) -> Self {
        Label { point: get_u32(raw, 0) }
    }
}

/// NewReno with ECN whose routers write the name of the congested port beside the mark.
pub const ECN_LABEL: Protocol = Protocol {
    name: "ecn-label",
    text: "TCP NewReno with ECN; a congested port marks every packet, or one per connection and interval, and names itself",
    cites: "kant-cbc section 3.1, RFC 3168",
    params: &[
        ParamSpec::new("way", Kind::Choice(&["all", "pairs"]), "all",
            "mark all packets, or one per source-destination pair and interval", "section 3.1: 100 % or intelligent marking"),
        ParamSpec::new("k", Kind::Count, "20", "packets in the port from which it marks", "chosen: below L_min of AF21 (30)")
            .range(1.0, 1e9),
        ParamSpec::new("interval", Kind::Duration, "100ms", "with way=pairs: time between marks of one pair", "chosen: a few congested RTTs"),
    ],
    build: |p| {
        let every = match p.text("way") {
            "pairs" => Some(p.dur("interval")),
            _ => {
                if p.is_given("interval") {
                    return Err(p.error("interval", "needs way=pairs"));
                }
                None
            }
        };
        let k = p.count("k") as u32;
        let points = AtomicU32::new(0);
        let router: BuildRouter = Arc::new(move |_| {
            // Ports are built in the order of their numbers: the name of a port never depends on the run.
            let point = points.fetch_add(1, Ordering::Relaxed) + 1;
            Box::new(LabelRouter { point, k, every, marked: BTreeMap::new(), next_search: Time::ZERO })
        });
        let configure = |c: &mut TcpConfig| {
            c.recovery = LossRecovery::NewReno;
            c.ecn = EcnMode::Classic;
        };
        let endpoint: BuildEndpoint = Arc::new(|cfg, _| Box::new(LabelSender { window: RenoWindow::new(cfg) }));
        Ok(Suite { configure, endpoint, router: Some(router), ..Suite::tcp() })
    },
};

/// NewReno's window law with room for a label on every packet.
struct LabelSender {
    window: RenoWindow,
}

impl WindowLaw for LabelSender {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        // RFC 3168 section 6.1.2: an ACK with ECN-Echo does not grow the window.
        if ack.may_grow(flow) && !ack.ece {
            self.window.grow(ack.acked, flow);
        }
    }
    fn on_congestion(&mut self, _now: Time, flow: &FlowView, event: Congestion) {
        self.window.reduce(flow, event, 0.5);
    }
    fn control(&self) -> Control {
        self.window.control()
    }
    fn on_send(&mut self, _now: Time, _flow: &FlowView, _packet: &mut Packet, header: &mut CcHeader) {
        header.set(&Label { point: 0 });
    }
    fn header_len(&self) -> u32 {
        Label::WIRE_LEN
    }
    fn observe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.window.observe(report);
    }
}

/// Marks and names itself while its queue is long.
struct LabelRouter {
    point: u32,
    k: u32,
    /// Time between marks of one pair; `None` = mark every packet.
    every: Option<Dur>,
    /// When each connection was last marked; forgotten when it may be marked again.
    marked: BTreeMap<u32, Time>,
    /// When old entries are next looked for.
    next_search: Time,
}

impl LinkController for LabelRouter {
    fn on_arrival(&mut self, now: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        if link.queue_packets < self.k || packet.ecn == Ecn::NotEct {
            return;
        }
        if let Some(every) = self.every {
            if self.marked.get(&packet.flow).is_some_and(|last| now.since(*last) < every) {
                return;
            }
            if now >= self.next_search {
                // Once per interval, so that the work per mark does not grow with connections that are over.
                self.next_search = now + every;
                self.marked.retain(|_, last| now.since(*last) < every);
            }
            self.marked.insert(packet.flow, now);
        }
        packet.ecn = Ecn::Ce;
        header.set(&Label { point: self.point });
    }
    fn observe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("marked_connections", self.marked.len() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn cbc(given: &[(&str, &str)]) -> Cbc {
        let given: Vec<_> = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Cbc::new(Config::new(&Params::parse("cbc", PARAMS, &given).unwrap()).unwrap())
    }

    fn view(una: u64) -> FlowView {
        FlowView {
            una,
            nxt: una,
            max_sent: una,
            app_end: una,
            in_flight: 0,
            rwnd: 64_000,
            segment: 1000,
            mss: 1000,
            rtt_latest: Dur::ZERO,
            rtt_smoothed: Dur::ZERO,
            rtt_min: Dur::MAX,
            limit: Default::default(),
            in_recovery: false,
            started: Time::ZERO,
            flow: 0,
            size: 0,
            due: Time::NEVER,
        }
    }

    /// Connections that acknowledge a fixed number of bytes per round trip.
    struct Rig {
        cbc: Cbc,
        now: Time,
        acked: BTreeMap<FlowId, u64>,
    }

    impl Rig {
        /// Flow i leads to host `hosts[i]`, attached to router `hosts[i] / 10`.
        fn new(given: &[(&str, &str)], hosts: &[u32]) -> Rig {
            let mut cbc = cbc(given);
            for (i, host) in hosts.iter().enumerate() {
                cbc.on_open(Time::ZERO, FlowId(i as u32), Peer { host: *host, router: host / 10, class: 0 });
            }
            Rig { cbc, now: Time::ZERO, acked: BTreeMap::new() }
        }
        fn ack(&mut self, flow: u32, bytes: u64, rtt: Dur) {
            let una = self.acked.entry(FlowId(flow)).or_insert(0);
            *una += bytes;
            let header = CcHeader::default();
            let ack = Ack {
                now: self.now,
                bytes,
                ece: false,
                sent_at: self.now - rtt,
                rtt: Some(rtt),
                header: &header,
            };
            self.cbc.on_ack(FlowId(flow), &ack, &view(*una));
        }
        /// `n` round trips of 10 ms in which flow i acknowledges `bytes[i]`, all with a measured RTT of `rtt`.
        fn rounds(&mut self, n: u32, bytes: &[u64], rtt: Dur) {
            for _ in 0..n {
                self.now = self.now + Dur::millis(10);
                for (i, b) in bytes.iter().enumerate() {
                    self.ack(i as u32, *b, rtt);
                }
            }
        }
        fn loss(&mut self, flow: u32) {
            self.cbc.on_congestion(self.now, FlowId(flow), &view(0), Congestion::Loss);
        }
        fn states(&self) -> Vec<&'static str> {
            self.cbc.connections.values().map(|c| state_name(c.state)).collect()
        }
        fn cap(&self, flow: u32) -> Option<u64> {
            self.cbc.cap(FlowId(flow)).map(|b| b.0)
        }
    }

    fn state_name(state: State) -> &'static str {
        match state {
            State::Uncongested => "uncongested",
            State::Controlling { .. } => "controlling",
            State::Ready => "ready",
        }
    }

    const CALM: Dur = Dur::millis(10);

    #[test]
    fn estimates_by_hand() {
        // 6000 B per 10 ms round = 4.8 Mb/s, steadily; then one round of 12,000 B and 14 ms.
        let mut rig = Rig::new(&[], &[1]);
        rig.rounds(40, &[6000], CALM);
        rig.rounds(1, &[12_000], Dur::millis(14));
        let est = rig.cbc.connections[&FlowId(0)].est;
        let close = |x: f64, y: f64| assert!((x - y).abs() < 1e-9 * y, "{x} is not {y}");
        // Last 4 rounds: 30,000 B in 40 ms = 6 Mb/s; (10+10+10+14)/4 = 11 ms.
        close(est.current_bw, 6.0e6);
        close(est.current_rtt, 0.011);
        // 0.95 * 4.8 + 0.05 * 6; 0.8 * 4.8 + 0.2 * 6; 0.95 * 10 + 0.05 * 11.
        close(est.required, 4.86e6);
        close(est.available, 5.04e6);
        close(est.base_rtt, 0.01005);
    }

    #[test]
    fn a_set_event_grants_each_window_once_however_many_join() {
        for n in [10usize, 400] {
            let mut rig = Rig::new(&[("set", "router")], &alloc::vec![11; n]);
            rig.rounds(60, &alloc::vec![6500; n], CALM);
            rig.cbc.grants = 0;
            rig.loss(0);
            assert_eq!(rig.cbc.grants, n as u64);
            assert_eq!(rig.states(), alloc::vec!["controlling"; n]);
            // All require 5.2 Mb/s and have it: the cap is that times 10 ms, 6500 B, in whole segments.
            assert!((0..n as u32).all(|flow| rig.cap(flow) == Some(6000)));
        }
    }

    #[test]
    fn a_labelling_port_forgets_connections_it_may_mark_again() {
        let every = Dur::millis(100);
        let mut port = LabelRouter {
            point: 1,
            k: 0,
            every: Some(every),
            marked: BTreeMap::new(),
            next_search: Time::ZERO,
        };
        let link = LinkView::idle(penstock_units::Rate(1_000_000));
        let mut marks = 0;
        for flow in 0..10_000u32 {
            // 1000 new connections per interval, of two packets each: the second is not marked.
            let now = Time::ZERO + Dur::micros(100) * u64::from(flow);
            for _ in 0..2 {
                let mut packet = Packet { flow, ecn: Ecn::Ect0, ..Packet::default() };
                port.on_arrival(now, &link, &mut packet, &mut CcHeader::NONE.clone());
                marks += u32::from(packet.ecn == Ecn::Ce);
            }
            assert!(port.marked.len() <= 2001, "{}", port.marked.len());
        }
        assert_eq!(marks, 10_000);
    }

    #[test]
    fn delay_alone_sets_control_of_the_whole_set_and_freezes_the_estimates() {
        let mut rig = Rig::new(&[("set", "router")], &[11, 12, 21]);
        rig.rounds(60, &[6000, 3000, 3000], CALM);
        assert_eq!(rig.states(), ["uncongested"; 3]);
        // Mean of 4 above 1.4 * 10 ms: needs two rounds of 20 ms (15 ms), one is not enough (12.5 ms).
        rig.now = rig.now + Dur::millis(10);
        rig.ack(0, 6000, Dur::millis(20));
        assert_eq!(rig.states(), ["uncongested"; 3]);
        let required = rig.cbc.connections[&FlowId(0)].est.required;
        rig.now = rig.now + Dur::millis(10);
        rig.ack(0, 2000, Dur::millis(20));
        assert_eq!(rig.states(), ["controlling", "controlling", "uncongested"]);
        assert_eq!(
            rig.cbc.connections[&FlowId(0)].est.required,
            required,
            "frozen from the revealing round on"
        );
        let transitions: Vec<_> = rig.cbc.take_transitions().iter().map(|t| t.what).collect();
        assert_eq!(transitions, ["controlling: delay", "controlling: member"]);
    }

    #[test]
    fn caps_follow_equation_1_in_both_readings() {
        for (form, expected) in [("intended", [8625, 4312]), ("printed", [8625, 3000])] {
            let mut rig = Rig::new(&[("form", form)], &[11, 12]);
            rig.rounds(60, &[9000, 4500], CALM); // requirements 7.2 and 3.6 Mb/s, mean 5.4
            rig.loss(1);
            for c in rig.cbc.connections.values_mut() {
                c.est.available = 4.5e6;
            }
            rig.cbc.share(1);
            // l_a = 4.5: intended min(1.15*4.5*4/3, 7.2) = 6.9 and 3.45 Mb/s; printed min(5.175, 7.2)*4/3 = 6.9
            // and min(5.175, 3.6)*2/3 = 2.4; times 10 ms / 8.
            let window = |i| rig.cbc.equation_1(&rig.cbc.connections[&FlowId(i)]).unwrap() as u64;
            assert_eq!([window(0), window(1)], expected, "{form}");
        }
    }

    #[test]
    fn windows_are_whole_segments_and_carried_fractions_make_their_mean_equation_1() {
        // Requirement 4.6 Mb/s in a set that carries its requirement: 4.6 * 10 ms / 8 = 5750 B = 5.75 segments.
        for (fraction, expected) in [("drop", [5, 5, 5, 5]), ("carry", [5, 6, 6, 6])] {
            let mut rig = Rig::new(&[("fraction", fraction), ("min_period", "100s")], &[11, 12]);
            rig.rounds(100, &[5750, 5750], CALM);
            rig.loss(0);
            let windows = [(); 4].map(|()| {
                let segments = rig.cap(0).unwrap() / 1000;
                rig.rounds(1, &[5750, 5750], CALM);
                segments
            });
            assert_eq!(windows, expected, "{fraction}");
        }
    }

    #[test]
    fn a_cap_is_never_below_two_segments_and_a_set_of_one_is_not_capped() {
        let mut rig = Rig::new(&[], &[11, 12, 21]);
        rig.rounds(60, &[600, 300, 300], CALM);
        rig.loss(0);
        rig.loss(2);
        assert_eq!((rig.cap(0), rig.cap(1), rig.cap(2)), (Some(2000), Some(2000), None));
        assert_eq!(rig.states()[2], "controlling");
    }

    #[test]
    fn control_is_released_only_when_all_members_are_ready_and_after_the_minimum_period() {
        let mut rig = Rig::new(&[("min_period", "1s")], &[11, 12]);
        rig.rounds(60, &[6000, 3000], CALM);
        rig.loss(0);
        // Flow 0 is normal at once, flow 1 carries more than its requirement: the hump.
        rig.rounds(99, &[6000, 4000], CALM);
        assert_eq!(rig.states(), ["controlling"; 2]);
        rig.rounds(10, &[6000, 4000], CALM);
        assert_eq!(rig.states(), ["ready", "controlling"]);
        assert!(rig.cap(0).is_some(), "a ready member stays capped");
        // Over the hump: the average needs some rounds to fall to the requirement.
        rig.rounds(60, &[6000, 2900], CALM);
        assert_eq!(rig.states(), ["uncongested"; 2]);
        assert_eq!((rig.cap(0), rig.cap(1)), (None, None));
    }

    #[test]
    fn congestion_sends_a_ready_member_back() {
        let mut rig = Rig::new(&[("min_period", "1s")], &[11, 12]);
        rig.rounds(60, &[6000, 3000], CALM);
        rig.loss(0);
        rig.rounds(110, &[6000, 4000], CALM);
        assert_eq!(rig.states(), ["ready", "controlling"]);
        rig.loss(0);
        assert_eq!(rig.states(), ["controlling"; 2]);
    }

    #[test]
    fn a_silent_member_does_not_hold_the_set() {
        let mut rig = Rig::new(&[("min_period", "1s")], &[11, 12]);
        rig.rounds(60, &[6000, 3000], CALM);
        rig.loss(1);
        rig.rounds(110, &[6000], CALM);
        assert_eq!(rig.states(), ["uncongested"; 2]);
    }

    #[test]
    fn each_rule_finds_its_set() {
        // Two connections to host 11, one to host 12 behind the same router, one to host 21.
        for (rule, controlled) in [
            ("performance", [true, false, false, false]),
            ("destination", [true, true, false, false]),
            ("router", [true, true, true, false]),
        ] {
            let mut rig = Rig::new(&[("set", rule)], &[11, 11, 12, 21]);
            rig.rounds(60, &[3000; 4], CALM);
            rig.loss(0);
            let is: Vec<bool> = rig.cbc.connections.values().map(|c| c.set.is_some()).collect();
            assert_eq!(is, controlled, "{rule}");
        }
        // ECN: a loss reveals no router; a mark does, to all connections of that pair of hosts.
        let mut rig = Rig::new(&[("set", "ecn")], &[11, 11, 12, 21]);
        rig.rounds(60, &[3000; 4], CALM);
        rig.loss(0);
        assert_eq!(rig.states(), ["uncongested"; 4]);
        rig.cbc.on_congestion(rig.now, FlowId(2), &view(0), Congestion::Ecn);
        rig.cbc.on_congestion(rig.now, FlowId(0), &view(0), Congestion::Ecn);
        assert_eq!(rig.states(), ["controlling", "controlling", "controlling", "uncongested"]);
    }

    #[test]
    fn a_new_connection_inherits_what_the_last_one_to_its_peer_learned() {
        for (inherit, expected) in [("true", "controlling"), ("false", "uncongested")] {
            let mut rig = Rig::new(&[("inherit", inherit)], &[11, 12]);
            rig.rounds(60, &[6000, 3000], CALM);
            rig.cbc.on_close(rig.now, FlowId(0));
            rig.loss(1);
            rig.cbc.on_open(rig.now, FlowId(7), Peer { host: 11, router: 1, class: 0 });
            assert_eq!(rig.states(), ["controlling", expected]);
            assert_eq!(rig.cap(1).is_some(), inherit == "true", "a set of one is not capped");
        }
    }

    #[test]
    fn nothing_is_controlled_before_the_estimates_are_worth_freezing() {
        let mut rig = Rig::new(&[], &[11, 12]);
        rig.rounds(10, &[6000, 3000], CALM);
        rig.loss(0);
        assert_eq!(rig.states(), ["uncongested"; 2]);
    }

    #[test]
    fn smoothing_that_could_not_track_is_refused() {
        let given = [("alpha_a".to_string(), "0.05".to_string())];
        let e = Config::new(&Params::parse("cbc", PARAMS, &given).unwrap()).unwrap_err();
        assert_eq!(e.to_string(), "alpha_a = \"0.05\": must be larger than alpha_r");
    }
}
