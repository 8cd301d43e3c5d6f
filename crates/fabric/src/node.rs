//! Nodes: ports that share a buffer, pause frames, and the order in which things happened at several ports.

use crate::arena::{Arrival, Effects, Offered, Pause, Segments};
use crate::buffer::{Buffer, Signal};
use crate::calendar::Calendar;
use crate::cell::Cell;
use crate::fabric::{Fabric, Ingress, NONE};
use crate::port::{flag, hook, kind, offered, Mode, Port, Room};
use alloc::vec::Vec;
use penstock_core::{DropCause, Stream};
use penstock_units::{Dur, Time};

/// A node whose ports share a buffer.
pub(crate) struct Node {
    pub ports: Vec<u32>,
    /// Each with the time at which its last pause frame is on the wire.
    pub ingresses: Vec<(Ingress, u64)>,
    pub buffer: Buffer,
    pub calendar: Calendar,
    pub response: Dur,
    pub rng: Stream,
    /// The wake-up that has been asked for.
    pub wake_at: u64,
}

impl Fabric {
    /// A packet is offered to a port that shares a buffer, and that [`Self::offer_scheduled_below_thresholds`] did not take. What is clear at a FIFO costs
    /// the buffer's counts and nothing else.
    #[inline(always)]
    pub(crate) fn offer_shared<S: Segments>(
        &mut self,
        now: Time,
        port: u32,
        cell: &Cell,
        seg: &mut S,
    ) -> Offered {
        match self.offer_fifo_below_thresholds(now, port, cell, seg) {
            Some(answer) => offered(answer),
            None => self.offer_with_care(now, port, cell, seg),
        }
    }
    /// `None`: nothing has been done: a rule or a controller may decide, or the port schedules.
    #[inline(never)]
    fn offer_fifo_below_thresholds<S: Segments>(
        &mut self,
        now: Time,
        port: u32,
        cell: &Cell,
        seg: &mut S,
    ) -> Option<Result<Time, DropCause>> {
        let Fabric { ports, nodes, .. } = self;
        let p = &mut ports[port as usize];
        let node = &mut nodes[p.node as usize];
        if p.mode == Mode::Served || !node.buffer.admit_below_thresholds(p.local, cell) {
            return None;
        }
        let answer = if p.is_plain_in_buffer() {
            p.offer_fifo::<{ kind::PLAIN }, S>(now, cell, Room::FREE, seg)
        } else {
            p.offer_special(now, *cell, Room::FREE, seg)
        };
        if answer.is_err() {
            node.undo(p.local, cell);
        } else if !p.listed {
            node.list(now.0, p);
        }
        Some(answer)
    }
    /// The same at a port that schedules; `None`: nothing has been done but a replay. As the answer of [`Port::offer_below_thresholds`] it comes in
    /// registers.
    #[inline(always)]
    pub(crate) fn offer_scheduled_below_thresholds<S: Segments>(
        &mut self,
        now: Time,
        port: u32,
        cell: &Cell,
        seg: &mut S,
    ) -> Option<Time> {
        let Fabric { ports, nodes, fx, .. } = self;
        let p = &mut ports[port as usize];
        let node = &mut nodes[p.node as usize];
        if p.trims(cell) || !node.buffer.admit_below_thresholds(p.local, cell) {
            return None;
        }
        let head = p.offer_below_thresholds(now, cell, seg, fx);
        if head.is_none() {
            node.undo(p.local, cell);
        } else if !p.listed {
            node.list(now.0, p);
        }
        head
    }
    /// The same where the buffer may refuse the packet, or has to pause its lane, or others have a say.
    #[inline(never)]
    fn offer_with_care<S: Segments>(&mut self, now: Time, port: u32, cell: &Cell, seg: &mut S) -> Offered {
        let Fabric { ports, nodes, fx, .. } = self;
        let p = &mut ports[port as usize];
        let (at, local) = (p.node, p.local);
        let node = &mut nodes[at as usize];
        // What may be trimmed is decided with exact counts of both priorities.
        let header = p.header_of(cell);
        let clear = header.is_none() && node.buffer.admit_below_thresholds(local, cell);
        let mut room = Room::FREE;
        if !clear {
            node.look(now.0, ports, seg, fx);
            room.packet = node.buffer.refuse(local, cell, &mut node.rng);
            room.header = header.and_then(|h| node.buffer.refuse(local, &h, &mut node.rng));
        }
        let p = &mut ports[port as usize];
        let offered = p.offer_with(now, *cell, room, seg, fx);
        node.list(now.0, p);
        if !fx.released.is_empty() {
            node.release(local, ports, fx);
        }
        let queued = match offered {
            Offered::Queued(_) => Some(*cell),
            Offered::Trimmed(_) => header,
            Offered::Dropped(_) => None,
        };
        match queued {
            None if clear => node.undo(local, cell),
            Some(cell) if !clear => {
                if let Some(signal) = node.buffer.charge(local, &cell) {
                    node.signal(now.0, signal, ports, fx);
                }
                node.ask_to_wake(at, fx);
            }
            _ => {}
        }
        offered
    }
    /// The event of a port that shares a buffer, as [`Fabric::arrive_into`].
    #[inline(always)]
    pub(crate) fn arrive_shared<S: Segments>(
        &mut self,
        now: Time,
        port: u32,
        seg: &mut S,
        into: &mut Cell,
    ) -> (bool, Time) {
        let Fabric { ports, nodes, fx, .. } = self;
        let p = &mut ports[port as usize];
        let node = &mut nodes[p.node as usize];
        if !node.buffer.is_quiet() || p.hooks & (hook::HELD_UP | hook::DEQUEUE) != 0 {
            return self.arrive_with_care(now, port, seg).put(into);
        }
        // Nothing is paused: when exactly it left does not matter.
        if p.mode == Mode::Served {
            return p.arrive_served(now, Some(&mut node.buffer), seg, fx, into);
        }
        if p.ring.departing == p.ring.head {
            if p.is_plain_in_buffer() {
                p.advance_fifo::<false, S>(now.0, seg);
            } else {
                p.advance(now, seg, fx);
            }
        }
        let head = p.ring.head;
        if p.ring.unreleased == head {
            p.ring.unreleased = head.wrapping_add(1);
            node.buffer.release_quiet(p.local, p.ring.at(head));
        }
        let next;
        (*into, next) = p.pop_fifo();
        (true, next)
    }
    #[inline(never)]
    fn arrive_with_care<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) -> Arrival {
        self.look_if_paused(now, port, seg);
        let Fabric { ports, nodes, fx, .. } = self;
        let p = &mut ports[port as usize];
        let node = &mut nodes[p.node as usize];
        // First what may move the ring's indices: a start grows it.
        p.advance(now, seg, fx);
        let head = p.ring.head;
        let arrival = p.pop(now, fx);
        let local = p.local;
        if p.ring.head != head && p.ring.unreleased == head {
            // No lane is paused.
            p.ring.unreleased = head.wrapping_add(1);
            let signal = node.buffer.release(local, p.ring.at(head));
            debug_assert_eq!(signal, None);
        }
        if !fx.released.is_empty() {
            node.release(local, ports, fx);
        }
        arrival
    }
    /// While a lane of its node is paused, nothing may be replayed at a port before what happened earlier at others.
    pub(crate) fn look_if_paused<S: Segments>(&mut self, now: Time, port: u32, seg: &mut S) {
        let Fabric { ports, nodes, fx, .. } = self;
        let at = ports[port as usize].node;
        if at != NONE && nodes[at as usize].buffer.pausing() {
            let node = &mut nodes[at as usize];
            node.look(now.0, ports, seg, fx);
            node.ask_to_wake(at, fx);
        }
    }
}

impl Node {
    /// A packet that was clear has not been queued.
    #[cold]
    fn undo(&mut self, local: u16, cell: &Cell) {
        let signal = self.buffer.release(local, cell);
        debug_assert_eq!(signal, None);
    }
    /// Replays all that happened at the node up to `now`, in its order. The calendar's entry of a port is its next departure, or
    /// earlier where the port was looked at by itself meanwhile.
    pub fn look<S: Segments>(&mut self, now: u64, ports: &mut [Port], seg: &mut S, fx: &mut Effects) {
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
            let taken = port.flags & flag::TAKEN != 0;
            port.take_departed(|cell| {
                let when = if taken { at } else { cell.time };
                let signal = buffer.release(local, cell).map(|signal| (when, signal));
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
    /// Puts a port that has begun to send at `now` into the calendar: with its departure, or with `now` where the packet gives its room back when it is taken
    /// for service.
    #[inline]
    pub fn list(&mut self, now: u64, port: &mut Port) {
        if !port.listed && port.ring.is_busy() {
            port.listed = true;
            let at = if port.flags & flag::TAKEN != 0 { now } else { port.next_departure().0 };
            self.calendar.push(at, port.local);
        }
    }
    /// Gives back the room of packets that have left `local`.
    #[inline]
    pub fn release(&mut self, local: u16, ports: &mut [Port], fx: &mut Effects) {
        for i in 0..fx.released.len() {
            let (at, cell) = fx.released[i];
            if let Some(signal) = self.buffer.release(local, &cell) {
                self.signal(at, signal, ports, fx);
            }
        }
        fx.released.clear();
    }
    /// A pause frame goes out. It waits for the packet in service on its way and for its predecessors, overtakes what waits,
    /// and takes its time on the wire, but no capacity from others. Two frames of one wire never arrive at the same
    /// instant, so a pause and its resume take effect in the order in which they were sent. This also holds where a frame takes
    /// less than one tick of the clock (43 bytes at 400 Gb/s, with a clock of whole nanoseconds).
    #[cold]
    fn signal(&mut self, at: u64, signal: Signal, ports: &mut [Port], fx: &mut Effects) {
        if !self.buffer.sends_frames() {
            return;
        }
        self.ports.iter().for_each(|p| ports[*p as usize].note_pause_frame());
        let (ingress, last) = &mut self.ingresses[usize::from(signal.ingress)];
        if let (Some(back), true) = (ingress.back, signal.on) {
            ports[back as usize].pauses_of(signal.priority).sent += 1;
        }
        let way = &ports[ingress.back.unwrap_or(ingress.upstream) as usize];
        let in_service = ingress.back.map(|_| way.next_departure()).filter(|t| *t != Time::NEVER);
        let start = at.max(*last).max(in_service.map_or(0, |t| t.0));
        *last = way.frame_sent(start, self.buffer.accounting().pause_frame()).max(*last + 1);
        let at = Time(*last) + way.delay() + self.response;
        fx.any = true;
        fx.pauses.push(Pause { at, port: ingress.upstream, priority: signal.priority, on: signal.on });
    }
    /// While a lane is paused, the departure that releases it must be seen when it happens.
    #[inline]
    pub fn ask_to_wake(&mut self, number: u32, fx: &mut Effects) {
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
