//! The network card of a host: control packets first, then its queue pairs in turn.

use super::pair::{Place, Receiving, Sending};
use super::scan::Scan;
use super::{BuildLaw, LawFacts, RdmaConfig, Turns};
use crate::ends::{Incoming, Outgoing};
use crate::messages::{End, MessageLaw, MessageStack, Messages, Write};
use crate::stack::{HostFacts, Io, Opening, Stack};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use penstock_core::quantity::{CWND, RATE};
use penstock_core::{Packet, Report};
use penstock_fabric::{prefetch_all, Cell};
use penstock_units::{Bytes, Dur, Time};

/// All queue pairs of a host. Those that may send as far as limiter and window are concerned stand in the line of
/// [`Messages`].
struct QueuePairs {
    m: Messages<Sending, Receiving>,
    config: RdmaConfig,
    build: BuildLaw,
    /// Sending pairs that wait for their limiter.
    asleep: BTreeSet<(Time, u32)>,
    /// Finds the next pair in the place of both, with [`Turns::Scan`].
    scan: Option<Scan>,
}

/// RDMA at one host, whose queue pairs get their laws from `build`.
pub fn stack(facts: &HostFacts, config: RdmaConfig, build: BuildLaw) -> Box<dyn Stack> {
    // Cut off to whole nanoseconds, one less where nothing is to be cut off.
    let ack = Bytes(u64::from(config.ack + facts.framing)) / facts.rate;
    let ack = Dur::nanos(ack.0.div_ceil(1000).saturating_sub(1));
    let last_hop = config.whole_links.then(|| ack + facts.delay);
    Box::new(MessageStack(QueuePairs {
        scan: (config.turns == Turns::Scan).then(|| Scan::new(last_hop)),
        m: Messages::new(facts),
        config,
        build,
        asleep: BTreeSet::new(),
    }))
}

impl QueuePairs {
    fn leave_place(&mut self, conn: u32, place: Place) {
        match place {
            Place::Idle => {}
            Place::InLine => self.m.line.retain(|c| *c != conn),
            Place::Asleep(at) => {
                self.asleep.remove(&(at, conn));
            }
        }
    }
    /// The pair whose turn it is; where there is a line, out of it.
    fn next_pair(&mut self, now: Time) -> Option<u32> {
        if let Some(scan) = &mut self.scan {
            let may = |p: &Sending| p.next_packet(self.config.overshoot).is_some();
            return scan.next(now, may, |conn| self.m.ends.peek_sender(conn));
        }
        while let Some((at, conn)) = self.asleep.first().copied().filter(|(at, _)| *at <= now) {
            self.asleep.remove(&(at, conn));
            if let Some(pair) = self.m.ends.sender(conn) {
                pair.place = Place::InLine;
                self.m.line.push_back(conn);
            }
        }
        self.m.next_in_line()
    }
}

impl MessageLaw for QueuePairs {
    type Sender = Sending;
    type Receiver = Receiving;

    fn messages(&self) -> &Messages<Sending, Receiving> {
        &self.m
    }
    fn messages_mut(&mut self) -> &mut Messages<Sending, Receiving> {
        &mut self.m
    }
    fn priorities(&self) -> (u8, u8) {
        (1 << self.config.control_priority, 1 << self.config.data_priority)
    }

    fn sender(&mut self, _: Time, opening: &Opening) -> Sending {
        let f = &self.m.facts;
        let law = (self.build)(&LawFacts {
            line: f.rate,
            base_rtt: f.base_rtt,
            payload: f.mss,
            wire: f.mss + self.config.header + f.framing,
        });
        Sending::new(Outgoing::new(opening), law, &self.config, f.mss)
    }
    fn receiver(&mut self, opening: &Opening) -> Receiving {
        Receiving::new(Incoming::new(opening))
    }
    fn on_write(&mut self, io: &mut Io<'_>, conn: u32, _: Write) {
        if let Some(scan) = &mut self.scan {
            scan.add(conn, io.now);
        }
    }
    fn on_remove(&mut self, conn: u32, end: End<Sending, Receiving>) {
        if let End::Sender(pair) = end {
            self.leave_place(conn, pair.place);
            if let Some(scan) = &mut self.scan {
                scan.remove(conn);
            }
        }
    }
    fn settle(&mut self, now: Time, conn: u32) {
        let Some(pair) = self.m.ends.sender(conn) else { return };
        // A timer that every ACK puts off is looked at again when its old time has come.
        let (timer, set) = (pair.timer(), self.m.timers.at(conn));
        if timer < set || timer == Time::NEVER {
            self.m.timers.set(conn, timer);
        }
        if self.scan.is_some() {
            return;
        }
        let place = match pair.next_packet(self.config.overshoot) {
            None => Place::Idle,
            Some(_) if pair.next_at > now => Place::Asleep(pair.next_at),
            Some(_) => Place::InLine,
        };
        let was = core::mem::replace(&mut pair.place, place);
        if was == place {
            return;
        }
        self.leave_place(conn, was);
        match place {
            Place::Idle => {}
            Place::InLine => self.m.line.push_back(conn),
            Place::Asleep(at) => {
                self.asleep.insert((at, conn));
            }
        }
    }

    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, cell: &Cell) {
        if let Some(scan) = &mut self.scan {
            scan.touch();
        }
        let Some(pair) = self.m.ends.receiver(conn) else { return };
        pair.receive(io, packet, cell, &self.config, &mut self.m.control);
        self.m.timers.set(conn, pair.timer());
    }
    fn on_answer(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, cell: &Cell) {
        io.arena.prefetch_hops(cell.packet);
        let Some(pair) = self.m.ends.sender(conn) else { return };
        prefetch_all(&*pair.law);
        let moved = pair.receive(io, packet, cell.packet, &self.config, self.m.facts.rate);
        if let Some(scan) = &mut self.scan {
            scan.touch();
            if moved {
                scan.moved(io.now, pair.next_at);
            }
        }
        self.settle(io.now, conn);
    }
    fn on_stray(&mut self, _: &mut Io<'_>, _: &Packet) {
        if let Some(scan) = &mut self.scan {
            scan.touch();
        }
    }
    fn send(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        let conn = self.next_pair(io.now)?;
        let f = &self.m.facts;
        let (framing, rate) = (f.framing, f.rate);
        let pair = self.m.ends.sender(conn)?;
        pair.place = Place::Idle;
        let next = pair.next_packet(self.config.overshoot);
        let next = next.expect("it was given its place after the last change");
        let cell = pair.send(io, &self.config, next, framing, rate);
        self.settle(io.now, conn);
        Some(cell)
    }
    fn may_send(&self) -> bool {
        self.scan.is_none() && !self.m.line.is_empty()
    }
    fn limited_until(&self) -> Time {
        match &self.scan {
            Some(scan) => scan.ready_at(),
            None => self.asleep.first().map_or(Time::NEVER, |(at, _)| *at),
        }
    }
    fn on_link_rate(&mut self, now: Time) {
        let rate = self.m.facts.rate;
        for conn in self.m.ends.handles() {
            if let Some(pair) = self.m.ends.sender(conn) {
                pair.on_line_rate(now, rate);
            }
            self.settle(now, conn);
        }
    }
    fn on_timer(&mut self, io: &mut Io<'_>, conn: u32) {
        if let Some(pair) = self.m.ends.sender(conn) {
            if pair.timer() > io.now {
                return self.m.timers.set(conn, pair.timer());
            }
            pair.on_timer(io, &self.config);
            self.settle(io.now, conn);
        } else if let Some(pair) = self.m.ends.receiver(conn) {
            pair.on_timer(io, &self.config, &mut self.m.control);
            self.m.timers.set(conn, pair.timer());
        }
    }
    fn prefetch(&self, pair: &Sending) {
        prefetch_all(&*pair.law);
    }
    fn observe(&self, end: &End<Sending, Receiving>, report: &mut Report<'_>) {
        let End::Sender(pair) = end else { return };
        let control = pair.law.control();
        report(&RATE, control.rate.unwrap_or(self.m.facts.rate).as_bps());
        if let Some(window) = control.window {
            report(&CWND, window as f64);
        }
        pair.law.observe(report);
    }
}
