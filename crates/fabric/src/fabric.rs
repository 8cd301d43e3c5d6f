//! Ports and nodes together: what a driver calls.

use crate::arena::{Arrival, Effects, Offered, Pause, Segments};
use crate::buffer::Buffer;
use crate::calendar::Calendar;
use crate::cell::Cell;
use crate::config::{Accounting, BufferConfig};
use crate::node::Node;
use crate::port::{flag, hook, offered, Mode, Port};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use penstock_core::{bail_if, DropCause, ParamError, Stream};
use penstock_units::{Dur, Rate, Time};

/// No node.
pub(crate) const NONE: u32 = u32::MAX;

/// A link into a node.
#[derive(Clone, Copy, Debug)]
pub struct Ingress {
    /// Port that feeds it: the one a pause frame stops.
    pub upstream: u32,
    /// Port of the node at the other core of the same cable: pause frames go out by it.
    pub back: Option<u32>,
}

/// A node whose ports share a buffer.
pub struct NodeConfig {
    /// Its ports; their position is their number at the node.
    pub ports: Vec<u32>,
    /// Links into it; their position is the cell's [`Cell::ingress`].
    pub ingresses: Vec<Ingress>,
    /// The buffer.
    pub buffer: BufferConfig,
    /// Time a port takes to obey a pause frame that has arrived.
    pub response: Dur,
    /// Stream of the buffer's rule.
    pub rng: Stream,
}

/// Ports, and the nodes whose ports share a buffer.
pub struct Fabric {
    pub(crate) ports: Vec<Port>,
    pub(crate) nodes: Vec<Node>,
    /// Node with a shared buffer that each port leads to.
    behind: Vec<u32>,
    pub(crate) fx: Effects,
}

impl Fabric {
    /// `ports` by number; none shares a buffer yet.
    pub fn new(ports: Vec<Port>) -> Fabric {
        let behind = vec![NONE; ports.len()];
        Fabric { ports, nodes: Vec::new(), behind, fx: Effects::default() }
    }
    /// Lets ports share a buffer; answers the number of the node.
    ///
    /// # Errors
    /// A buffer that cannot work, more ports or links into the node than have numbers, a port that has a node already, or one that trims
    /// waiting packets.
    pub fn add_node(&mut self, mut config: NodeConfig) -> Result<u32, ParamError> {
        let number = self.nodes.len() as u32;
        let links = config.ports.len().max(config.ingresses.len());
        if links > usize::from(u16::MAX) {
            let rule = format!("is shared by too many ports: at most {} are possible; without a buffer that they share a switch may have more", u16::MAX);
            return Err(ParamError::new("buffer", format!("{links} links"), rule));
        }
        config.buffer.ports = config.ports.len() as u16;
        config.buffer.ingresses = config.ingresses.len() as u16;
        let buffer = Buffer::new(config.buffer)?;
        for (i, p) in config.ports.iter().enumerate() {
            let port = &mut self.ports[*p as usize];
            let refuse = |rule| ParamError::new("buffer", format!("port {p}"), rule);
            bail_if!(port.node != NONE, refuse("shares another buffer already"));
            if port.served.as_ref().and_then(|s| s.trim).is_some_and(|t| t.tail > 0.0) {
                return Err(refuse("must not share a buffer and trim packets that wait"));
            }
            port.node = number;
            port.local = i as u16;
            port.hooks |= hook::SHARED;
            port.flags |= if buffer.accounting() == Accounting::UntilTaken { flag::TAKEN } else { 0 };
            port.find_mode();
        }
        for (i, ingress) in config.ingresses.iter().enumerate() {
            self.ports[ingress.upstream as usize].ingress = i as u16;
            self.behind[ingress.upstream as usize] = number;
        }
        self.nodes.push(Node {
            ports: config.ports,
            ingresses: config.ingresses.into_iter().map(|i| (i, 0)).collect(),
            buffer,
            calendar: Calendar::default(),
            response: config.response,
            rng: config.rng,
            wake_at: u64::MAX,
        });
        Ok(number)
    }
    /// Ports, by number.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }
    /// The ports alone, at the end of a run.
    pub fn into_ports(self) -> Vec<Port> {
        self.ports
    }
    /// The shared buffer of a node.
    pub fn buffer(&self, node: u32) -> &Buffer {
        &self.nodes[node as usize].buffer
    }
    /// Node with a shared buffer that `port` leads to.
    pub fn node_behind(&self, port: u32) -> Option<u32> {
        Some(self.behind[port as usize]).filter(|n| *n != NONE)
    }
    /// What happened beside the answers to calls; empty it after a call when [`Effects::any`].
    #[inline]
    pub fn effects(&mut self) -> &mut Effects {
        &mut self.fx
    }
    /// Packets in ports and on wires.
    pub fn packets_held(&self) -> u64 {
        self.ports.iter().map(Port::packets_held).sum()
    }

    // ---- packets -----------------------------------------------------------------------------------------

    /// Offers a packet to a port. A time in the answer is that of an event for [`Self::arrive`].
    #[inline(always)]
    pub fn offer<S: Segments>(&mut self, now: Time, port: u32, cell: Cell, seg: &mut S) -> Offered {
        match self.offer_below_thresholds(now, port, &cell, seg) {
            Some(head) => offered(Ok(head)),
            None => self.offer_slow_path(now, port, &cell, seg),
        }
    }
    /// The same for a packet that [`Self::offer_below_thresholds`] did not take. The cell stays where it is: a copy on its way would have to wait for what
    /// was written into it last.
    #[inline(always)]
    pub fn offer_slow_path<S: Segments>(
        &mut self,
        now: Time,
        port: u32,
        cell: &Cell,
        seg: &mut S,
    ) -> Offered {
        let p = &mut self.ports[port as usize];
        if p.hooks & hook::SHARED == 0 {
            return p.offer(now, *cell, seg, &mut self.fx);
        }
        self.offer_shared(now, port, cell, seg)
    }
    /// The same at a FIFO that shares no buffer; `None` elsewhere. Queued: the time of the event, [`Time::NEVER`] where there is none.
    #[inline(always)]
    pub fn offer_fast<S: Segments>(
        &mut self,
        now: Time,
        port: u32,
        cell: Cell,
        seg: &mut S,
    ) -> Option<Result<Time, DropCause>> {
        self.ports[port as usize].offer_fast(now, cell, seg)
    }
    /// The same at a port that schedules, for a packet that only limits and a threshold decide about; else `None`, and nothing has been done but a replay.
    #[inline(always)]
    pub fn offer_below_thresholds<S: Segments>(
        &mut self,
        now: Time,
        port: u32,
        cell: &Cell,
        seg: &mut S,
    ) -> Option<Time> {
        let p = &mut self.ports[port as usize];
        if p.serves_alone() {
            return p.offer_below_thresholds(now, cell, seg, &mut self.fx);
        }
        if p.mode != Mode::Served || p.hooks & hook::SHARED == 0 {
            return None;
        }
        self.offer_scheduled_below_thresholds(now, port, cell, seg)
    }
    /// The same with the code for noise in line, and when the port can take the next packet.
    #[inline(always)]
    pub fn offer_of_host<S: Segments>(
        &mut self,
        now: Time,
        port: u32,
        cell: &Cell,
        seg: &mut S,
    ) -> (Option<Result<Time, DropCause>>, Time) {
        let port = &mut self.ports[port as usize];
        let offered = port.offer_of_host(now, cell, seg);
        (offered, port.free_at())
    }
    /// The event of `port` at `now`: the packet that arrives at the other end, and when the next event of the port is.
    #[inline(always)]
    pub fn arrive<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) -> Arrival {
        let mut cell = Cell::default();
        match self.arrive_into(now, port, seg, &mut cell) {
            (true, next) => Arrival::of(cell, next),
            (false, next) => Arrival::none(next),
        }
    }
    /// The same: whether a packet arrives, which is then put into `into`, and when the next event of the port is.
    #[inline(always)]
    pub fn arrive_into<S: Segments>(
        &mut self,
        now: Time,
        port: u32,
        seg: &mut S,
        into: &mut Cell,
    ) -> (bool, Time) {
        let p = &mut self.ports[port as usize];
        if p.serves_alone() {
            let Some((cell, next)) = p.arrive_served_fast(now, seg, &mut self.fx) else {
                return (false, Time::NEVER);
            };
            *into = cell;
            return (true, next);
        }
        if p.hooks & hook::SHARED == 0 {
            return p.arrive(now, seg, &mut self.fx).put(into);
        }
        self.arrive_shared(now, port, seg, into)
    }
    /// The same at a FIFO that shares no buffer and keeps the order; `None` elsewhere. The packet, and when the next event is.
    #[inline(always)]
    pub fn arrive_fast<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) -> Option<(Cell, Time)> {
        self.ports[port as usize].arrive_fast(now, seg)
    }
    /// The same at a port that schedules, and `None` also when the packet has been lost.
    #[inline(always)]
    pub fn arrive_served<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) -> Option<(Cell, Time)> {
        self.ports[port as usize].arrive_served_fast(now, seg, &mut self.fx)
    }
    /// Takes the packets that arrive at the other end of `port` up to and including `until`: `take` gets each, with the time of its arrival. Everything has
    /// been done at the port's node that happens there up to the link's delay before that. Answers when the next event of the port is. It holds nothing up
    /// on its wire.
    #[inline]
    pub fn take_arrived<S: Segments>(
        &mut self,
        until: Time,
        port: u32,
        seg: &mut S,
        mut take: impl FnMut(Cell),
    ) -> Time {
        let delay = self.ports[port as usize].delay;
        let Some(left) = until.0.checked_sub(delay) else { return self.ports[port as usize].next_arrival() };
        let shared = self.ports[port as usize].hooks & hook::SHARED != 0;
        if shared {
            self.look_if_paused(Time(left), port, seg);
        }
        let Fabric { ports, nodes, fx, .. } = self;
        let p = &mut ports[port as usize];
        debug_assert!(p.hooks & hook::HELD_UP == 0);
        let announced = fx.heads.len();
        p.advance(Time(left), seg, fx);
        // Of its next arrival the driver is told at the end.
        fx.heads.truncate(announced);
        let local = p.local;
        while p.ring.head != p.ring.departing {
            let head = p.ring.head;
            let at = p.ring.at(head).time + delay;
            if at > until.0 {
                break;
            }
            if shared && p.ring.unreleased == head {
                p.ring.unreleased = head.wrapping_add(1);
                let signal = nodes[p.node as usize].buffer.release(local, p.ring.at(head));
                debug_assert_eq!(signal, None, "while a lane is paused every departure is looked at");
            }
            let mut cell = *p.ring.at(head);
            (cell.time, cell.ingress) = (at, p.ingress);
            take(cell);
            p.ring.head = head.wrapping_add(1);
        }
        let next = p.next_arrival();
        if !fx.released.is_empty() {
            let node = &mut nodes[p.node as usize];
            node.release(local, ports, fx);
        }
        next
    }
    /// Replays what happened at a port up to `now`, so that its queue can be read.
    pub fn advance<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) {
        self.touch(now, port, seg, |p, seg, fx| p.advance(now, seg, fx));
    }
    /// Replays what happened at a node up to `now`, so that its buffer can be read.
    pub fn look<S: Segments>(&mut self, now: Time, node: u32, seg: &mut S) {
        let Fabric { ports, nodes, fx, .. } = self;
        let n = &mut nodes[node as usize];
        n.look(now.0, ports, seg, fx);
        n.ask_to_wake(node, fx);
    }
    /// A node wanted a look at this time ([`Effects::wakes`]).
    pub fn wake<S: Segments>(&mut self, now: Time, node: u32, seg: &mut S) {
        let Fabric { ports, nodes, fx, .. } = self;
        let n = &mut nodes[node as usize];
        if n.wake_at != now.0 {
            return;
        }
        n.wake_at = u64::MAX;
        n.look(now.0, ports, seg, fx);
        n.ask_to_wake(node, fx);
    }

    // ---- pause, failures, controllers ----------------------------------------------------------------------

    /// Something is done to a port, between a look at its node before and after.
    fn touch<S: Segments>(
        &mut self,
        now: Time,
        port: u32,
        seg: &mut S,
        act: impl FnOnce(&mut Port, &mut S, &mut Effects),
    ) {
        self.look_if_paused(now, port, seg);
        let Fabric { ports, nodes, fx, .. } = self;
        let p = &mut ports[port as usize];
        act(p, seg, fx);
        let (at, local) = (p.node, p.local);
        if at == NONE {
            return;
        }
        let node = &mut nodes[at as usize];
        node.list(now.0, p);
        if !fx.released.is_empty() {
            node.release(local, ports, fx);
        }
        node.ask_to_wake(at, fx);
    }
    /// A pause frame takes effect ([`Effects::pauses`]).
    pub fn pause<S: Segments>(&mut self, now: Time, pause: &Pause, seg: &mut S) {
        self.touch(now, pause.port, seg, |p, seg, fx| p.pause(now, pause.priority, pause.on, seg, fx));
    }
    /// A link fails; see [`Port::fail`].
    pub fn fail<S: Segments>(&mut self, now: Time, port: u32, lose_waiting: bool, seg: &mut S) {
        self.touch(now, port, seg, |p, seg, fx| p.fail(now, lose_waiting, seg, fx));
    }
    /// A link works again; see [`Port::recover`].
    pub fn recover<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) {
        self.touch(now, port, seg, |p, seg, fx| p.recover(now, seg, fx));
    }
    /// A link has another rate from the next packet on; see [`Port::set_rate`].
    pub fn set_rate<S: Segments>(&mut self, now: Time, port: u32, rate: Rate, seg: &mut S) {
        self.touch(now, port, seg, |p, seg, fx| p.set_rate(now, rate, seg, fx));
    }
    /// [`Port::run_ahead`].
    pub fn run_ahead(&mut self, port: u32, at: Time) {
        self.ports[port as usize].run_ahead(at);
    }
    /// [`Port::count_pauses`].
    pub fn count_pauses(&mut self, port: u32, priority: u8, pauses: u64, paused: Dur) {
        self.ports[port as usize].count_pauses(priority, pauses, paused);
    }
    /// The deadline of a port's controller has come ([`Port::deadline`]).
    pub fn on_deadline<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) {
        self.touch(now, port, seg, |p, seg, fx| p.on_deadline(now, seg, fx));
    }

    // ---- measuring -----------------------------------------------------------------------------------------

    /// Brings all counters and integrals up to `now`.
    pub fn settle<S: Segments>(&mut self, now: Time, seg: &mut S) {
        self.settle_own(now, |_| true, seg);
    }
    /// The same of those ports only that are `own`.
    pub fn settle_own<S: Segments>(&mut self, now: Time, own: impl Fn(u32) -> bool, seg: &mut S) {
        for node in 0..self.nodes.len() as u32 {
            self.look(now, node, seg);
        }
        for (_, port) in (0u32..).zip(&mut self.ports).filter(|(number, _)| own(*number)) {
            port.settle(now, seg, &mut self.fx);
        }
    }
    /// Starts counting anew: everything before `now` is warm-up.
    pub fn reset_stats<S: Segments>(&mut self, now: Time, seg: &mut S) {
        for node in 0..self.nodes.len() as u32 {
            self.look(now, node, seg);
        }
        for port in &mut self.ports {
            port.reset_stats(now, seg, &mut self.fx);
        }
        for node in &mut self.nodes {
            node.buffer.reset_stats();
        }
    }
}
