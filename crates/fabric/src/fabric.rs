//! Ports and nodes together: what a driver calls.

use crate::arena::{Effects, Offered, Pause, Segments};
use crate::buffer::{Buffer, BufferConfig, Signal};
use crate::calendar::Calendar;
use crate::cell::Cell;
use crate::pfc::PAUSE_FRAME;
use crate::port::{Mode, Port, Room};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use penstock_core::{ParamError, Stream, Verdict};
use penstock_units::{Bytes, Dur, Rate, Time};

/// No node.
const NONE: u32 = u32::MAX;

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

/// A node whose ports share a buffer.
struct Node {
    ports: Vec<u32>,
    /// Each with the time at which its last pause frame is on the wire.
    ingresses: Vec<(Ingress, u64)>,
    buffer: Buffer,
    calendar: Calendar,
    response: Dur,
    rng: Stream,
    /// The wake-up that has been asked for.
    wake_at: u64,
}

/// Ports, and the nodes whose ports share a buffer.
pub struct Fabric {
    ports: Vec<Port>,
    nodes: Vec<Node>,
    /// Node with a shared buffer that each port leads to.
    behind: Vec<u32>,
    fx: Effects,
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
    /// A buffer that cannot work, a port that has a node already, or one that trims waiting packets.
    pub fn add_node(&mut self, mut config: NodeConfig) -> Result<u32, ParamError> {
        let number = self.nodes.len() as u32;
        config.buffer.ports = config.ports.len() as u16;
        config.buffer.ingresses = config.ingresses.len() as u16;
        let buffer = Buffer::new(config.buffer)?;
        for (i, p) in config.ports.iter().enumerate() {
            let port = &mut self.ports[*p as usize];
            let refuse = |rule| ParamError::new("buffer", format!("port {p}"), rule);
            if port.node != NONE {
                return Err(refuse("shares another buffer already"));
            }
            if port.extra.served.as_ref().and_then(|s| s.trim).is_some_and(|t| t.tail > 0.0) {
                return Err(refuse("must not share a buffer and trim packets that wait"));
            }
            port.node = number;
            port.local = i as u16;
            port.extra.managed = true;
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
    #[inline]
    pub fn offer<S: Segments>(&mut self, now: Time, port: u32, cell: Cell, seg: &mut S) -> Offered {
        let p = &mut self.ports[port as usize];
        if p.mode == Mode::Plain || p.node == NONE {
            return p.offer(now, cell, seg, &mut self.fx);
        }
        self.offer_shared(now, port, cell, seg)
    }
    fn offer_shared<S: Segments>(&mut self, now: Time, port: u32, cell: Cell, seg: &mut S) -> Offered {
        let Fabric { ports, nodes, fx, .. } = self;
        let at = ports[port as usize].node;
        let node = &mut nodes[at as usize];
        node.advance(now.0, ports, seg, fx);
        let p = &mut ports[port as usize];
        let header = p.header_of(&cell);
        let room = Room {
            packet: node.buffer.admit(p.local, &cell, &mut node.rng),
            header: header.map_or(Verdict::Accept, |h| node.buffer.admit(p.local, &h, &mut node.rng)),
        };
        let idle = p.next_departure() == Time::NEVER;
        let offered = p.offer_with(now, cell, room, seg, fx);
        let queued = match offered {
            Offered::Queued(_) => Some(cell),
            Offered::Trimmed(_) => header,
            Offered::Dropped(_) => None,
        };
        let (local, next) = (p.local, p.next_departure());
        if idle && next != Time::NEVER {
            node.calendar.push(next.0, local);
        }
        if !fx.released.is_empty() {
            node.release(local, ports, fx);
        }
        if let Some(signal) = queued.and_then(|c| node.buffer.charge(local, &c)) {
            node.signal(now.0, signal, ports, fx);
        }
        node.ask_to_wake(at, fx);
        offered
    }
    /// The event of `port` at `now`: the packet that arrives at the other end, and when the next event of the port is. There
    /// is no packet when it is held up on the wire or was lost with its link.
    #[inline]
    pub fn arrive<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) -> (Option<Cell>, Option<Time>) {
        let p = &mut self.ports[port as usize];
        if p.mode != Mode::Plain && p.node != NONE {
            self.advance_node(now, port, seg);
        }
        self.ports[port as usize].arrive(now, seg, &mut self.fx)
    }
    fn advance_node<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) {
        let Fabric { ports, nodes, fx, .. } = self;
        let at = ports[port as usize].node;
        if at != NONE {
            let node = &mut nodes[at as usize];
            if node.calendar.first().is_some_and(|(t, _)| t <= now.0) {
                node.advance(now.0, ports, seg, fx);
                node.ask_to_wake(at, fx);
            }
        }
    }
    /// Replays what happened at a port up to `now`, so that its queue can be read.
    pub fn advance<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) {
        self.advance_node(now, port, seg);
        self.ports[port as usize].advance(now, seg, &mut self.fx);
    }
    /// A node wanted a look at this time ([`Effects::wakes`]).
    pub fn wake<S: Segments>(&mut self, now: Time, node: u32, seg: &mut S) {
        let Fabric { ports, nodes, fx, .. } = self;
        let n = &mut nodes[node as usize];
        if n.wake_at != now.0 {
            return;
        }
        n.wake_at = u64::MAX;
        n.advance(now.0, ports, seg, fx);
        n.ask_to_wake(node, fx);
    }

    // ---- pause, failures, controllers ----------------------------------------------------------------------

    /// Something is done to a port, between a look at its node before and after.
    fn touch<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S, act: impl FnOnce(&mut Port, &mut S, &mut Effects)) {
        self.advance_node(now, port, seg);
        let Fabric { ports, nodes, fx, .. } = self;
        let p = &mut ports[port as usize];
        let before = p.next_departure();
        act(p, seg, fx);
        let (at, local, next) = (p.node, p.local, p.next_departure());
        if at == NONE {
            return;
        }
        let node = &mut nodes[at as usize];
        if next != before && next != Time::NEVER {
            node.calendar.push(next.0, local);
        }
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
    /// The deadline of a port's controller has come ([`Port::deadline`]).
    pub fn on_deadline<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) {
        self.touch(now, port, seg, |p, seg, fx| p.on_deadline(now, seg, fx));
    }

    // ---- measuring -----------------------------------------------------------------------------------------

    /// Brings all counters and integrals up to `now`.
    pub fn settle<S: Segments>(&mut self, now: Time, seg: &mut S) {
        for port in 0..self.ports.len() as u32 {
            self.advance_node(now, port, seg);
            self.ports[port as usize].settle(now, seg, &mut self.fx);
        }
    }
    /// Starts counting anew: everything before `now` is warm-up.
    pub fn reset_stats<S: Segments>(&mut self, now: Time, seg: &mut S) {
        self.settle(now, seg);
        for port in &mut self.ports {
            port.reset_stats(now, seg, &mut self.fx);
        }
        for node in &mut self.nodes {
            node.buffer.reset_stats();
        }
    }
}

impl Node {
    /// Replays the departures of all ports up to `now`, in their order.
    #[inline]
    fn advance<S: Segments>(&mut self, now: u64, ports: &mut [Port], seg: &mut S, fx: &mut Effects) {
        while let Some((at, local)) = self.calendar.first() {
            if at > now {
                return;
            }
            let port = &mut ports[self.ports[usize::from(local)] as usize];
            if port.next_departure().0 != at {
                // The link failed while the packet was in service.
                self.calendar.replace(None);
                continue;
            }
            port.advance(Time(at), seg, fx);
            let next = port.next_departure();
            self.calendar.replace((next != Time::NEVER).then_some((next.0, local)));
            self.release(local, ports, fx);
        }
    }
    /// Gives back the room of packets that have left `local`.
    #[inline]
    fn release(&mut self, local: u16, ports: &[Port], fx: &mut Effects) {
        for i in 0..fx.released.len() {
            let (at, cell) = fx.released[i];
            if let Some(signal) = self.buffer.release(local, &cell) {
                self.signal(at, signal, ports, fx);
            }
        }
        fx.released.clear();
    }
    /// A pause frame goes out. It waits for the packet in service on its way and for its predecessors, overtakes what waits,
    /// and takes its time on the wire, but no capacity from others.
    #[cold]
    fn signal(&mut self, at: u64, signal: Signal, ports: &[Port], fx: &mut Effects) {
        let (ingress, last) = &mut self.ingresses[usize::from(signal.ingress)];
        let way = &ports[ingress.back.unwrap_or(ingress.upstream) as usize];
        let in_service = ingress.back.map(|_| way.next_departure()).filter(|t| *t != Time::NEVER);
        let start = at.max(*last).max(in_service.map_or(0, |t| t.0));
        *last = start + (Bytes(u64::from(PAUSE_FRAME + way.framing)) / way.rate()).0;
        let at = Time(*last) + way.delay() + self.response;
        fx.pauses.push(Pause { at, port: ingress.upstream, priority: signal.priority, on: signal.on });
    }
    /// While a lane is paused, the departure that releases it must be seen when it happens.
    #[inline]
    fn ask_to_wake(&mut self, number: u32, fx: &mut Effects) {
        if !self.buffer.pausing() {
            return;
        }
        if let Some((at, _)) = self.calendar.first() {
            if at < self.wake_at {
                self.wake_at = at;
                fx.wakes.push((Time(at), number));
            }
        }
    }
}
