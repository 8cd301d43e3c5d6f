//! Ports and nodes together: what a driver calls.

use crate::arena::{Arrival, Effects, Offered, Pause, Segments};
use crate::buffer::{Buffer, BufferConfig, Signal};
use crate::calendar::Calendar;
use crate::cell::Cell;
use crate::pfc::PAUSE_FRAME;
use crate::port::{hook, Port, Room};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use penstock_core::{ParamError, Stream};
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
            if port.served.as_ref().and_then(|s| s.trim).is_some_and(|t| t.tail > 0.0) {
                return Err(refuse("must not share a buffer and trim packets that wait"));
            }
            port.node = number;
            port.local = i as u16;
            port.hooks |= hook::SHARED;
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
        let p = &mut self.ports[port as usize];
        if p.hooks & hook::SHARED == 0 {
            return p.offer(now, cell, seg, &mut self.fx);
        }
        self.offer_shared(now, port, cell, seg)
    }
    #[inline(never)]
    fn offer_shared<S: Segments>(&mut self, now: Time, port: u32, cell: Cell, seg: &mut S) -> Offered {
        let Fabric { ports, nodes, fx, .. } = self;
        let p = &mut ports[port as usize];
        let at = p.node;
        let node = &mut nodes[at as usize];
        // What may be trimmed is decided with exact counts of both priorities.
        let header = p.header_of(&cell);
        let clear = header.is_none() && node.buffer.is_clear(p.local, &cell);
        if !clear {
            node.look(now.0, ports, seg, fx);
        }
        let p = &mut ports[port as usize];
        let mut room = Room::FREE;
        if !clear {
            room.packet = node.buffer.refuse(p.local, &cell, &mut node.rng);
            room.header = header.and_then(|h| node.buffer.refuse(p.local, &h, &mut node.rng));
        }
        let offered = p.offer_with(now, cell, room, seg, fx);
        let local = p.local;
        node.list(p);
        if !fx.released.is_empty() {
            node.release(local, ports, fx);
        }
        let queued = match offered {
            Offered::Queued(_) => Some(cell),
            Offered::Trimmed(_) => header,
            Offered::Dropped(_) => None,
        };
        match queued {
            Some(cell) if clear => node.buffer.charge_clear(local, &cell),
            Some(cell) => {
                if let Some(signal) = node.buffer.charge(local, &cell) {
                    node.signal(now.0, signal, ports, fx);
                }
                node.ask_to_wake(at, fx);
            }
            None => {}
        }
        offered
    }
    /// The event of `port` at `now`: the packet that arrives at the other end, and when the next event of the port is.
    #[inline(always)]
    pub fn arrive<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) -> Arrival {
        let p = &mut self.ports[port as usize];
        if p.hooks & hook::SHARED == 0 {
            return p.arrive(now, seg, &mut self.fx);
        }
        self.arrive_shared(now, port, seg)
    }
    #[inline(never)]
    fn arrive_shared<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) -> Arrival {
        self.look_if_paused(now, port, seg);
        let Fabric { ports, nodes, fx, .. } = self;
        let p = &mut ports[port as usize];
        // First what may move the ring's indices: a start grows it.
        p.advance(now, seg, fx);
        let head = p.ring.head;
        let arrival = p.pop(now, fx);
        let (at, local) = (p.node, p.local);
        if p.ring.head != head && p.ring.unreleased == head {
            // No lane is paused: when exactly it left does not matter.
            p.ring.unreleased = head.wrapping_add(1);
            let signal = nodes[at as usize].buffer.release(local, p.ring.at(head));
            debug_assert_eq!(signal, None);
        }
        if !fx.released.is_empty() {
            nodes[at as usize].release(local, ports, fx);
        }
        arrival
    }
    /// While a lane of its node is paused, nothing may be replayed at a port before what happened earlier at others.
    fn look_if_paused<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) {
        let Fabric { ports, nodes, fx, .. } = self;
        let at = ports[port as usize].node;
        if at != NONE && nodes[at as usize].buffer.pausing() {
            let node = &mut nodes[at as usize];
            node.look(now.0, ports, seg, fx);
            node.ask_to_wake(at, fx);
        }
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
        node.list(p);
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
        for node in 0..self.nodes.len() as u32 {
            self.look(now, node, seg);
        }
        for port in &mut self.ports {
            port.settle(now, seg, &mut self.fx);
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
    /// Replays all that happened at the node up to `now`, in its order. The calendar's entry of a port is its next departure, or
    /// earlier where the port was looked at by itself meanwhile.
    fn look<S: Segments>(&mut self, now: u64, ports: &mut [Port], seg: &mut S, fx: &mut Effects) {
        while let Some((at, local)) = self.calendar.first() {
            if at > now {
                return;
            }
            let port = &mut ports[self.ports[usize::from(local)] as usize];
            if port.next_departure().0 == at {
                port.advance(Time(at), seg, fx);
            }
            let next = port.next_departure();
            port.listed = next != Time::NEVER;
            self.calendar.replace(port.listed.then_some((next.0, local)));
            // With a lane paused every departure is looked at by itself, so that there is one signal at most.
            let (buffer, mut found) = (&mut self.buffer, None);
            port.take_departed(|cell| {
                let signal = buffer.release(local, cell).map(|signal| (cell.time, signal));
                debug_assert!(found.is_none() || signal.is_none());
                found = signal.or(found);
            });
            if let Some((at, signal)) = found {
                self.signal(at, signal, ports, fx);
            }
            if !fx.released.is_empty() {
                self.release(local, ports, fx);
            }
        }
    }
    /// Sees to it that a busy port is in the calendar.
    #[inline]
    fn list(&mut self, port: &mut Port) {
        if !port.listed && port.ring.is_busy() {
            port.listed = true;
            self.calendar.push(port.next_departure().0, port.local);
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
        fx.any = true;
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
                fx.any = true;
                fx.wakes.push((Time(at), number));
            }
        }
    }
}
