//! The network at work, as both of its drivers have it: fabric, forwarding, segments, and the events of the ports.
//!
//! The engine drives it by virtual time, the kernel view by the wall clock. What only one of them knows (connections, devices) is
//! not here: a packet goes in by [`Network::send`] and comes out by [`Network::arrive`], or is lost ([`Network::next_lost`]).
//!
//! Above 600 lines: building and driving the network share its private state; what could be told apart, gates and hops, is.

pub(crate) mod boundary;
mod hops;
mod inbox;
pub(crate) mod switches;

use crate::events::{Arrivals, Deadlines, Pending, Ties, Wake};
use crate::fabric_options::{Change, LinkChange};
use crate::ideal::Layer;
use crate::measured::Possible;
use crate::setup::Setup;
use crate::topology::{Link, Topology};
use crate::trace::NOWHERE;
use crate::watch::Watch;
use penstock_core::packet::flag;
use penstock_core::rng::Entity;
use penstock_core::{DropCause, Packet, ParamError, Stream};
use penstock_fabric::{
    Arena, Cell, Fabric, Forwarding, Graph, Known, Loss, Offered, Pause, Port, RouteError, Spread, Stuck,
};
use penstock_host::Part;
use penstock_units::{Bytes, Dur, Rate, Time};

/// Packets accounted for. At any time `sent = delivered + dropped + held`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conservation {
    /// Packets handed to a host's own port.
    pub sent: u64,
    /// Packets that reached the host they were for.
    pub delivered: u64,
    /// Packets dropped, whatever the cause.
    pub dropped: u64,
}

/// How often deadlocks are looked for in a run with pause frames, at most and at least.
const LOOKS: (u64, u64) = (1000, 20);
/// Between two looks there are so many delays of the longest link at least: all logical processes meet at a look. A deadlock does not go away, so a
/// later look finds it too.
const DELAYS_PER_LOOK: u64 = 8;

/// Where a packet goes: the end that a driver keeps of a connection's way. Which ports that means, forwarding knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowRoute {
    /// Host it leaves.
    pub src: u32,
    /// Host it is for.
    pub dst: u32,
    /// What [`Forwarding::draw`] has answered for the two.
    pub entropy: u32,
}

/// A node with a choice of its first port.
const SEVERAL: u32 = u32::MAX;

/// A packet that has reached the host it is for.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// The packet; its segment has its marks, and its length where it was trimmed.
    pub cell: Cell,
    /// The link it came by.
    pub port: u32,
}

/// What paths a network offers while all links are up.
struct Whole {
    forwarding: Known,
    /// The highest rate that each link ever has.
    rates: Vec<Rate>,
}

/// Fabric, forwarding, segments and events.
pub struct Network {
    fabric: Fabric,
    /// The segments; whoever takes a packet out releases its slot or reuses it.
    pub arena: Arena,
    forwarding: Forwarding,
    /// The network without failures, where packets may take several paths or a link may fail.
    whole: Option<Box<Whole>>,
    /// Node that each link leads to.
    to: Vec<u32>,
    /// The only port of each node, where it has one: no look-up on the way out of a host.
    only: Vec<u32>,
    /// Node that each link comes from.
    from: Vec<u32>,
    /// Whether that is a host.
    of_host: Vec<bool>,
    /// Whether a node is one.
    is_host: Vec<bool>,
    /// A packet that leaves a host needs a look at several ports.
    asks_at_hosts: bool,
    /// The network is so large that every port has to be fetched from memory; the one that the packet after the next goes to.
    looks_far: bool,
    /// The network is so large that the next port has to be fetched.
    fetches: bool,
    beyond: hops::Beyond,
    arrivals: Arrivals,
    /// Everything but packet arrivals, the hosts' own deadlines included.
    pub deadlines: Deadlines,
    link_wake: Vec<Pending>,
    /// When and which.
    lost: Vec<(Time, u32)>,
    /// Priority of every traffic class; `None` = all have the lowest.
    priority_of: Option<Box<[u8; 64]>>,
    changes: Vec<LinkChange>,
    /// How often deadlocks are looked for; zero = never.
    watch: Dur,
    deadlock: Option<Vec<Stuck>>,
    /// Ports with priorities that are paused, as often as they have some.
    paused: u32,
    /// Who looks at every packet, when somebody has asked for it.
    pub trace: Option<Box<Watch>>,
    /// Where it is a part of a network: the links that lead out of it.
    boundaries: Option<Box<boundary::Boundaries>>,
    /// Where it is worked through node by node.
    pub(crate) inboxes: Option<Box<inbox::Inboxes>>,
    /// The link of the last packet that came by itself or was lost on its way.
    pub(crate) last: u32,
    /// What can happen to packets.
    pub possible: Possible,
    /// Packets delivered over one link.
    pub packet_hops: u64,
    /// Packets accounted for.
    pub conservation: Conservation,
    /// Packets for which a switch knew no way on; among the dropped ones.
    pub no_way: u64,
    /// Headers that switches have sent back; ports count them as dropped.
    pub returned: u64,
}

impl Network {
    /// The network of a run, with the deadlines of its routers armed.
    ///
    /// # Errors
    /// A port, a buffer or a spread rule that cannot work.
    pub fn new(setup: &Setup) -> Result<Network, ParamError> {
        let (graph, forwarding) = (setup.topology.graph(), setup.forwarding()?);
        let mut network = Network::of(setup.fabric()?, setup.ties, setup.uses_headers(), &graph, forwarding);
        let options = &setup.fabric;
        if options.telemetry {
            network.arena = match options.pint {
                Some(pint) => {
                    let rng = Stream::new(setup.seed, setup.run, Entity::Port, u64::MAX);
                    network.arena.with_digest(pint, rng)
                }
                None => network.arena.with_telemetry(),
            };
        }
        network.priority_of = (options.priorities > 1).then(|| Box::new(options.priority_of));
        network.asks_at_hosts = network.find_asks_at_hosts(&graph.hosts);
        network.changes = setup.changes.clone();
        let trims = |l: &Link| l.options.trim.is_some_and(|t| t.is_some());
        network.possible = Possible {
            fails: !setup.changes.is_empty(),
            sprays: !matches!(
                setup.fabric.spread,
                Spread::Drawn
                    | Spread::Ideal
                    | Spread::Weighted { .. }
                    | Spread::Hash { by_sender: false, .. }
            ),
            detours: Self::may_detour(setup),
            raises: false,
            trims: options.trim.is_some() || setup.topology.links.iter().any(trims),
            pauses: options.pfc.is_some_and(|pfc| pfc.frames),
            lossless: options.pfc.filter(|pfc| pfc.frames).map_or(0, |pfc| pfc.lossless),
        };
        if network.possible.fails || network.possible.sprays {
            let mut rates: Vec<Rate> = setup.topology.links.iter().map(|l| l.rate).collect();
            for change in &setup.changes {
                if let Change::Rate(rate) = change.change {
                    change.links.iter().for_each(|l| rates[*l as usize] = rates[*l as usize].max(rate));
                }
            }
            network.possible.raises = rates.iter().zip(&setup.topology.links).any(|(rate, l)| *rate > l.rate);
            network.whole = Some(Box::new(Whole { forwarding: network.forwarding.known(), rates }));
        }
        if options.pfc.is_some_and(|pfc| pfc.frames) {
            let longest = setup.topology.links.iter().map(|link| link.delay.0).max().unwrap_or(0);
            let often = (setup.duration.0 / LOOKS.0).max(longest.saturating_mul(DELAYS_PER_LOOK));
            network.watch = Dur(often.min(setup.duration.0 / LOOKS.1).max(1));
        }
        network.plan();
        Ok(network)
    }
    /// Sets the deadlines that are known before the run.
    fn plan(&mut self) {
        for (number, change) in (0u32..).zip(&self.changes) {
            self.deadlines.push(change.at, Wake::Change, number);
        }
        if self.watch > Dur::ZERO {
            self.deadlines.push(Time::ZERO + self.watch, Wake::Watch, 0);
        }
    }
    /// Whether a link fails in a network whose links between switches differ in rate or delay.
    fn may_detour(setup: &Setup) -> bool {
        let t = &setup.topology;
        let hosts = t.graph().hosts;
        let fails = setup.changes.iter().any(|c| matches!(c.change, Change::Fail { .. }));
        let mut between = t
            .links
            .iter()
            .filter(|l| !hosts[l.from as usize] && !hosts[l.to as usize])
            .map(|l| (l.rate, l.delay));
        let first = between.next();
        fails && between.any(|one| Some(one) != first)
    }
    fn of(fabric: Fabric, ties: Ties, with_headers: bool, graph: &Graph, forwarding: Forwarding) -> Network {
        let ports = fabric.ports().len();
        let arrivals = arrivals_at(&fabric, ties);
        let mut only = vec![SEVERAL; graph.hosts.len()];
        let mut degree = vec![0u32; graph.hosts.len()];
        for (port, l) in graph.links.iter().enumerate() {
            degree[l.from as usize] += 1;
            only[l.from as usize] = if degree[l.from as usize] == 1 { port as u32 } else { SEVERAL };
        }
        let mut network = Network {
            fabric,
            arena: Arena::new(with_headers),
            forwarding,
            whole: None,
            to: graph.links.iter().map(|l| l.to).collect(),
            from: graph.links.iter().map(|l| l.from).collect(),
            of_host: graph.links.iter().map(|l| graph.hosts[l.from as usize]).collect(),
            is_host: graph.hosts.clone(),
            only,
            asks_at_hosts: false,
            looks_far: ports >= hops::LARGE,
            fetches: ports >= hops::MIDDLING,
            beyond: hops::Beyond::default(),
            arrivals,
            deadlines: Deadlines::new(ties),
            link_wake: vec![Pending::default(); ports],
            lost: Vec::new(),
            priority_of: None,
            changes: Vec::new(),
            watch: Dur::ZERO,
            deadlock: None,
            paused: 0,
            trace: None,
            boundaries: None,
            inboxes: None,
            last: 0,
            possible: Possible::default(),
            packet_hops: 0,
            conservation: Conservation::default(),
            no_way: 0,
            returned: 0,
        };
        network.asks_at_hosts = network.find_asks_at_hosts(&graph.hosts);
        (0..ports as u32).for_each(|port| network.arm_link(port));
        network
    }

    /// Draws what must not be observable (`shuffle.rs`); called before the first event.
    #[cfg(debug_assertions)]
    pub(crate) fn shuffle(&mut self, ties: Ties, seed: u64) {
        let ranks = crate::shuffle::Ranks::new(&self.from, &self.to, self.is_host.len(), ties, seed);
        self.arrivals.rank(ranks.arrivals);
        self.deadlines.rank(ranks.ports, ranks.nodes);
        self.arena.shuffle(crate::shuffle::stream(seed, 1));
    }

    // ---- ways ----------------------------------------------------------------------------------------

    /// The way of a new flow from `src` to `dst`; equal-cost choices that a flow makes are drawn from `rng`.
    ///
    /// # Errors
    /// There is none.
    pub fn draw(
        &mut self,
        t: &Topology,
        src: u32,
        dst: u32,
        rng: &mut Stream,
    ) -> Result<FlowRoute, ParamError> {
        self.draw_path(t, (src, dst), rng, &mut Vec::new())
    }
    /// The same, with its ports, as [`Self::path`] has them.
    ///
    /// # Errors
    /// As [`Self::draw`].
    pub fn draw_path(
        &mut self,
        t: &Topology,
        (src, dst): (u32, u32),
        rng: &mut Stream,
        ports: &mut Vec<u32>,
    ) -> Result<FlowRoute, ParamError> {
        ports.clear();
        let drawn = match self.forwarding.draw_path(src, dst, rng, ports) {
            // A failure has cut it off: what it sends is lost until a link is back.
            Err(RouteError::NoPath(..)) if (0..self.from.len()).any(|l| !self.is_up(l as u32)) => {
                ports.clear();
                Ok((rng.next_u64() >> 32) as u32)
            }
            drawn => drawn,
        };
        let entropy = drawn.map_err(|e| e.named(|n| t.nodes[n as usize].name.clone()))?;
        Ok(FlowRoute { src, dst, entropy })
    }
    /// True when a flow to `dst` has no other path than these ports, at any time.
    pub(crate) fn is_only_path(&self, dst: u32, ports: &[u32]) -> bool {
        self.changes.is_empty() && self.forwarding.is_only_path(dst, ports)
    }
    /// What is drawn for the two ways of a connection where each is the only one.
    #[inline]
    pub(crate) fn draw_only(&self, mut rng: impl FnMut() -> u64) -> (u32, u32) {
        (self.forwarding.draw_only(&mut rng), self.forwarding.draw_only(&mut rng))
    }
    /// The links of all shortest paths from `src` to `dst` while all links are up, by their distance. `None` where a flow keeps
    /// one path that never fails, which [`Self::path`] has.
    pub(crate) fn layers(&self, t: &Topology, src: u32, dst: u32) -> Option<Vec<Layer>> {
        let whole = self.whole.as_deref()?;
        let (mut layers, mut nodes) = (Vec::new(), vec![src]);
        while nodes != [dst] {
            let mut layer = Layer { links: 0, total: Rate(0), fastest: Rate(0), delay: f64::INFINITY };
            let mut next = Vec::new();
            for port in nodes.iter().flat_map(|node| whole.forwarding.ports(*node, dst)) {
                let (rate, link) = (whole.rates[*port as usize], &t.links[*port as usize]);
                layer.links += 1;
                layer.total += rate;
                layer.fastest = layer.fastest.max(rate);
                layer.delay = layer.delay.min(link.delay.as_secs());
                next.push(link.to);
            }
            if next.is_empty() {
                return Some(Vec::new());
            }
            layers.push(layer);
            next.sort_unstable();
            next.dedup();
            nodes = next;
        }
        Some(layers)
    }
    /// The ports of a way into `ports`, in order; none when a failure has left it without any.
    pub fn path(&self, route: FlowRoute, ports: &mut Vec<u32>) {
        ports.clear();
        if self.forwarding.path(route.src, route.dst, route.entropy, ports).is_err() {
            ports.clear();
        }
    }

    /// The network is so large that what comes next has to be fetched from memory.
    pub(crate) fn looks_far(&self) -> bool {
        self.looks_far
    }
    /// What a cell carries as entropy where a transport may choose paths itself: [`Forwarding::stamp`].
    #[inline]
    pub fn stamp(&self, own: u32, wish: u32) -> u32 {
        self.forwarding.stamp(own, wish)
    }

    // ---- packets -------------------------------------------------------------------------------------

    /// The packet in `slot` begins its way; false when it is lost at once.
    #[inline]
    pub fn send(&mut self, now: Time, route: FlowRoute, slot: u32) -> bool {
        let mut cell = Cell::carrying(slot, &self.arena.packets[slot as usize]);
        (cell.to, cell.entropy) = (route.dst, route.entropy);
        self.leave(now, route.src, cell).is_some()
    }
    #[inline(never)]
    fn leave(&mut self, now: Time, src: u32, mut cell: Cell) -> Option<Time> {
        self.conservation.sent += 1;
        if let Some(map) = &self.priority_of {
            hops::map_priority(map, &mut cell);
        }
        if let Some(trace) = &mut self.trace {
            trace.sent(now, &cell, &self.arena);
        }
        let queued = match self.only[src as usize] {
            SEVERAL => self.forward(now, src, &mut cell),
            port if self.trace.is_none() => self.put(now, port, cell).then_some(port),
            port => self.offer(now, port, &cell).then_some(port),
        };
        self.take_effects();
        queued.map(|port| self.fabric.ports()[port as usize].free_at())
    }
    /// Node `at` sends a packet on; answers by which port, `None` when it is lost there.
    fn forward(&mut self, now: Time, at: u32, cell: &mut Cell) -> Option<u32> {
        let Network { forwarding, fabric, arena, .. } = self;
        let backlog = |port| {
            fabric.advance(now, port, arena);
            fabric.ports()[port as usize].queue_bytes()
        };
        match forwarding.next(at, cell, now, backlog) {
            Some(port) => self.offer(now, port, cell).then_some(port),
            None => {
                self.no_way(now, *cell);
                None
            }
        }
    }
    /// A switch knows no way on for a packet.
    #[cold]
    #[inline(never)]
    fn no_way(&mut self, now: Time, cell: Cell) {
        self.no_way += 1;
        if let Some(trace) = &mut self.trace {
            trace.dropped(now, NOWHERE, cell.packet, None, true, &self.arena);
        }
        self.lose(now, cell.packet);
    }
    /// When the next packet arrives at the other end of a link.
    #[inline]
    pub fn next_arrival(&mut self) -> Time {
        self.arrivals.peek()
    }
    /// The port of that arrival.
    #[inline]
    pub fn arriving(&self) -> u32 {
        self.arrivals.first()
    }
    /// Node that a link comes from.
    #[inline]
    pub fn from(&self, port: u32) -> u32 {
        self.from[port as usize]
    }
    /// Carries out that arrival: a packet at its destination comes out, any other goes on to its next port.
    #[inline]
    pub fn arrive(&mut self, now: Time) -> Option<Arrived> {
        let port = self.arrivals.take();
        self.last = port;
        if self.looks_far {
            self.fetch_far(&mut |_, _| {});
        }
        let arrived = self.arrive_by(now, port);
        self.take_effects();
        arrived
    }
    /// Carries out the arrivals by ports of switches up to and including `until`: up to the first packet that is at its destination, which is
    /// the answer, to an arrival by a host's own port, a deadline of the network's own, or a lost packet. `now` is the time of the last one.
    #[inline(never)]
    pub fn arrive_from_switches(
        &mut self,
        mut until: Time,
        now: &mut Time,
        mut soon: impl FnMut(u32, Option<(&Packet, Part)>),
    ) -> Option<Cell> {
        loop {
            let of_host = &self.of_host;
            let (next, port) = self.arrivals.take_if(until, |port| !of_host[port as usize])?;
            *now = next;
            self.last = port;
            if self.looks_far {
                self.fetch_scheduled(&mut soon);
            }
            let arrived = self.arrive_here(next, port);
            if self.beyond.host != u32::MAX {
                soon(self.beyond.host, None);
                self.beyond.host = u32::MAX;
            }
            if self.fabric.effects().any() {
                self.drain_effects();
                until = until.min(self.deadlines.peek());
            }
            if arrived.is_some() || !self.lost.is_empty() {
                return arrived.map(|arrived| arrived.cell);
            }
        }
    }
    #[inline(never)]
    fn arrive_by(&mut self, now: Time, port: u32) -> Option<Arrived> {
        self.arrive_here(now, port)
    }
    #[inline(always)]
    fn arrive_here(&mut self, now: Time, port: u32) -> Option<Arrived> {
        if self.fetches {
            self.fetch_onward();
        }
        let mut cell = Cell::default();
        let (is_packet, next) = self.fabric.arrive_into(now, port, &mut self.arena, &mut cell);
        if next != Time::NEVER {
            self.arrivals.push(next, port);
        }
        if self.fetches {
            self.fetch_near::<true>();
        }
        let mut arrived = None;
        if is_packet {
            if self.boundaries.is_some() && self.hand_over(port, &cell) {
                return None;
            }
            self.packet_hops += 1;
            if let Some(trace) = &mut self.trace {
                trace.arrived(now, port, &cell, self.fabric.ports()[port as usize].delay());
            }
            let at = self.to[port as usize];
            if at == cell.to {
                self.conservation.delivered += 1;
                self.arena.packets[cell.packet as usize].ecn = cell.ecn();
                if let Some(trace) = &mut self.trace {
                    trace.delivered(now, cell.packet, &self.arena);
                }
                arrived = Some(Arrived { cell, port });
            } else {
                match self.fetches.then(|| self.chosen(port, &mut cell)).flatten() {
                    Some(next) => self.offer(now, next, &cell),
                    None => self.forward(now, at, &mut cell).is_some(),
                };
            }
        }
        arrived
    }
    #[inline(always)]
    fn offer(&mut self, now: Time, port: u32, cell: &Cell) -> bool {
        if self.trace.is_none() {
            if let Some(head) = self.fabric.offer_below_thresholds(now, port, cell, &mut self.arena) {
                if head != Time::NEVER {
                    self.arrivals.push(head, port);
                }
                return true;
            }
        }
        self.offer_with_care(now, port, cell)
    }
    #[inline(never)]
    fn offer_with_care(&mut self, now: Time, port: u32, cell: &Cell) -> bool {
        // Of a run with a trace nothing has been asked yet.
        let offered = match self.trace {
            None => self.fabric.offer_slow_path(now, port, cell, &mut self.arena),
            Some(_) => self.fabric.offer(now, port, *cell, &mut self.arena),
        };
        if let Some(trace) = &mut self.trace {
            match offered {
                Offered::Dropped(loss) => {
                    trace.dropped(now, port, cell.packet, Some(loss), true, &self.arena);
                }
                _ => trace.queued(now, port, cell.packet),
            }
        }
        match offered {
            Offered::Queued(None) | Offered::Trimmed(None) => true,
            Offered::Queued(Some(at)) | Offered::Trimmed(Some(at)) => {
                self.arrivals.push(at, port);
                true
            }
            Offered::Dropped(loss) => self.refused(now, port, *cell, loss),
        }
    }
    /// A port has no room for a packet. A switch sends the header of one that asks for it back to its sender (NDP, section 3.2.4); any other
    /// is lost. Answers whether it is still on its way.
    #[cold]
    #[inline(never)]
    fn refused(&mut self, now: Time, port: u32, mut cell: Cell, loss: Loss) -> bool {
        let at = self.from[port as usize];
        let packet = &mut self.arena.packets[cell.packet as usize];
        let turned = match loss {
            Loss::Queue(DropCause::Overflow) if self.only[at as usize] == SEVERAL => packet.turn_round(),
            _ => None,
        };
        let Some((to, priority)) = turned else {
            self.lose(now, cell.packet);
            return false;
        };
        cell.trim(packet.wire_len, priority);
        cell.to = to;
        self.returned += 1;
        self.forward(now, at, &mut cell).is_some()
    }
    #[cold]
    #[inline(never)]
    pub(crate) fn lose(&mut self, at: Time, slot: u32) {
        self.conservation.dropped += 1;
        self.lost.push((at, slot));
    }
    /// Packets were lost that [`Self::next_lost`] has not told of.
    #[inline(always)]
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }
    /// A packet that was lost since the last call, and when that was: a port that is replayed tells of it later. Its slot still has the segment; the
    /// driver releases it.
    #[inline]
    pub fn next_lost(&mut self) -> Option<(Time, u32)> {
        self.lost.pop()
    }
    /// What happened in the fabric beside the answers to calls.
    #[inline]
    fn take_effects(&mut self) {
        if self.fabric.effects().any() {
            self.drain_effects();
        }
    }
    #[cold]
    fn drain_effects(&mut self) {
        let fx = self.fabric.effects();
        for (slot, bytes) in fx.trimmed.drain(..) {
            let packet = &mut self.arena.packets[slot as usize];
            (packet.wire_len, packet.payload) = (bytes, 0);
            packet.flags |= flag::TRIMMED;
            if let Some(trace) = &mut self.trace {
                trace.trimmed(slot, bytes, packet.flow);
            }
        }
        for lost in fx.lost.drain(..) {
            self.conservation.dropped += 1;
            self.lost.push((lost.at, lost.cell.packet));
            if let Some(trace) = &mut self.trace {
                trace.dropped(lost.at, lost.port, lost.cell.packet, Some(lost.loss), false, &self.arena);
            }
        }
        fx.heads.drain(..).for_each(|(at, port)| self.arrivals.push(at, port));
        for pause in fx.pauses.drain(..) {
            match self.boundaries.as_deref_mut().filter(|boundaries| !boundaries.owns(pause.port)) {
                Some(boundaries) => boundaries.post_pause(pause),
                None => self.deadlines.push(pause.at, Wake::Pause, number_of(&pause)),
            }
            if let Some(trace) = &mut self.trace {
                trace.paused(pause.at, pause.port, pause.priority, pause.on);
            }
        }
        fx.wakes.drain(..).for_each(|(at, node)| self.deadlines.push(at, Wake::Node, node));
        fx.clear();
    }

    // ---- deadlines -----------------------------------------------------------------------------------

    /// A deadline of the network's own that has come: one of a router's controller, a pause frame, a shared buffer, a change of a
    /// link, a look for deadlocks.
    ///
    /// # Panics
    /// When it is one of a host.
    pub fn on_deadline(&mut self, now: Time, kind: Wake, number: u32) {
        match kind {
            Wake::Link => {
                if self.link_wake[number as usize].fired(now) {
                    self.fabric.on_deadline(now, number, &mut self.arena);
                    self.arm_link(number);
                }
            }
            Wake::Pause => {
                let pause = pause_of(now, number);
                let paused = |net: &Network| net.fabric.ports()[pause.port as usize].paused().count_ones();
                let before = paused(self);
                self.fabric.pause(now, &pause, &mut self.arena);
                self.paused = self.paused + paused(self) - before;
            }
            Wake::Node => self.fabric.wake(now, number, &mut self.arena),
            Wake::Change => self.change(now, number),
            Wake::Watch => {
                match &mut self.boundaries {
                    Some(boundaries) => boundaries.standing = Some(self.fabric.standing()),
                    None => self.deadlock = self.fabric.deadlock(),
                }
                self.deadlines.push(now + self.watch, Wake::Watch, 0);
            }
            Wake::Host | Wake::Remove => unreachable!("hosts are the driver's"),
        }
        self.take_effects();
    }
    /// A cable fails, recovers, or has another rate.
    fn change(&mut self, now: Time, number: u32) {
        let LinkChange { links, change, .. } = self.changes[number as usize].clone();
        for link in &links {
            if !self.owns(*link) {
                match change {
                    Change::Fail { .. } => self.fail_wire(now, number, *link),
                    Change::Recover => {}
                    Change::Rate(rate) => self.set_wire_rate(*link, rate),
                }
                continue;
            }
            match change {
                Change::Fail { keep } => self.fabric.fail(now, *link, !keep, &mut self.arena),
                Change::Recover => self.fabric.recover(now, *link, &mut self.arena),
                Change::Rate(rate) => self.fabric.set_rate(now, *link, rate, &mut self.arena),
            }
        }
        if !matches!(change, Change::Rate(_)) {
            let up = change == Change::Recover;
            if let Some(trace) = &mut self.trace {
                trace.links(now, &links, up);
            }
            let all: Vec<_> = links.iter().map(|link| (*link, up)).collect();
            self.forwarding.set_links(&all).expect("the links are there");
            self.beyond = hops::Beyond::default();
        }
    }
    /// Counts pauses that a network card obeys in its port's place.
    pub fn count_pauses(&mut self, port: u32, priority: u8, pauses: u64, paused: Dur) {
        self.fabric.count_pauses(port, priority, pauses, paused);
    }
    /// The links of a change, by its number.
    pub fn changing(&self, number: u32) -> &[u32] {
        &self.changes[number as usize].links
    }
    /// True when a link is up.
    pub fn is_up(&self, link: u32) -> bool {
        self.forwarding.is_up(link)
    }
    /// When the next look for deadlocks in a part of a network comes: that is one of all parts at once.
    pub(crate) fn next_look(&self, after: Time) -> Time {
        match self.watch {
            Dur::ZERO => Time::NEVER,
            watch => Time((after.0 / watch.0 + 1) * watch.0),
        }
    }
    /// Looks for deadlocks up to and including `end` find none where nothing is paused and no frame is under way that pauses something: they are left out.
    pub(crate) fn put_looks_off(&mut self, end: Time) {
        if self.paused == 0 && self.watch > Dur::ZERO {
            self.deadlines.put_looks_off(end, self.watch);
        }
    }
    /// Ports that wait for each other for ever, where a look has found some.
    pub fn deadlock(&self) -> Option<&[Stuck]> {
        self.deadlock.as_deref()
    }
    fn arm_link(&mut self, port: u32) {
        let at = self.fabric.ports()[port as usize].deadline();
        if at != Time::NEVER && self.link_wake[port as usize].arm(at) {
            self.deadlines.push(at, Wake::Link, port);
        }
    }

    // ---- measuring -----------------------------------------------------------------------------------

    /// Ports, by number.
    pub fn ports(&self) -> &[Port] {
        self.fabric.ports()
    }
    /// Replays what happened at a port up to `now`, so that its queue can be read.
    pub fn look(&mut self, now: Time, port: u32) {
        self.fabric.advance(now, port, &mut self.arena);
        self.take_effects();
    }
    /// Ends the record of packets: where those are that are under way. After [`Self::settle`].
    pub fn end_trace(&mut self, now: Time) {
        if let Some(trace) = &mut self.trace {
            trace.end(now, self.fabric.ports());
        }
    }
    /// What `port` is handed now comes there at `at` only.
    pub fn run_ahead(&mut self, port: u32, at: Time) {
        self.fabric.run_ahead(port, at);
    }
    /// Starts counting anew: everything before `now` is warm-up.
    pub fn reset_stats(&mut self, now: Time) {
        (self.no_way, self.returned) = (0, 0);
        self.fabric.reset_stats(now, &mut self.arena);
        self.take_effects();
    }
    /// Brings all counters and integrals up to `now`.
    pub fn settle(&mut self, now: Time) {
        match self.boundaries.as_deref() {
            None => self.fabric.settle(now, &mut self.arena),
            Some(boundaries) => {
                self.fabric.settle_own(now, |port| boundaries.owns(port), &mut self.arena);
            }
        }
        self.take_effects();
    }
    /// sent = delivered + dropped + held, and the arena agrees; after the lost packets have been taken. `inside`: packets that were
    /// delivered and that their hosts still hold.
    ///
    /// # Panics
    /// When it is not so: a violation is a crash with the numbers.
    pub fn check(&self, inside: u64) {
        let (c, held, live) = (&self.conservation, self.fabric.packets_held(), self.arena.live());
        assert!(
            c.sent == c.delivered + c.dropped + held && held + inside == live,
            "packets are not conserved: sent {}, delivered {}, dropped {}, held {held}, in hosts {inside}, slots in use {live}",
            c.sent,
            c.delivered,
            c.dropped,
        );
    }
    /// [`Fabric::check_pauses`]; `card`: the priorities that the network card at a port obeys in its place.
    pub fn check_pauses(&self, now: Time, card: impl Fn(u32) -> Option<u8>) {
        let port = |number: u32| self.fabric.ports()[number as usize].paused();
        self.fabric.check_pauses(now, |number| card(number).unwrap_or_else(|| port(number)));
    }
    /// The ports alone, at the end of a run.
    pub fn into_ports(self) -> Vec<Port> {
        self.fabric.into_ports()
    }
}

/// For the arrivals at the ports of a network.
fn arrivals_at(fabric: &Fabric, ties: Ties) -> Arrivals {
    let ports = fabric.ports();
    let plain = !ports.iter().any(Port::is_served);
    Arrivals::within(ties, ports.len(), usual_flight(ports), plain)
}

/// Transmission and propagation of a packet of 1500 bytes on a link that nine in ten links are not slower and longer than.
fn usual_flight(ports: &[Port]) -> Dur {
    let mut flights: Vec<Dur> = ports.iter().map(|port| port.delay() + Bytes(1500) / port.rate()).collect();
    flights.sort_unstable();
    flights.get(flights.len() * 9 / 10).copied().unwrap_or(Dur::ZERO)
}

/// A pause frame as the number of a deadline: port, priority, stop or go on.
fn number_of(pause: &Pause) -> u32 {
    pause.port << 4 | u32::from(pause.priority) << 1 | u32::from(pause.on)
}
/// The pause frame whose deadline has this number.
pub(crate) fn pause_of(at: Time, number: u32) -> Pause {
    Pause { at, port: number >> 4, priority: (number >> 1) as u8 & 7, on: number & 1 == 1 }
}

#[cfg(test)]
mod tests;
