//! The network card of a host: control packets first, then its queue pairs in turn.

use super::pair::{kind, Place, Receiving, Sending};
use super::scan::Scan;
use super::{BuildLaw, LawFacts, RdmaConfig, Turns};
use crate::ends::{Alarms, Incoming, Outgoing, Seats};
use crate::stack::{Counters, HostFacts, Io, Opening, Order, Part, Stack};
use alloc::collections::{BTreeSet, VecDeque};
use penstock_core::quantity::{CWND, RATE};
use penstock_core::Report;
use penstock_fabric::{prefetch_all, Cell};
use penstock_units::{Bytes, Dur, Rate, Time};

enum End {
    Sending(Sending),
    Receiving(Receiving),
}

/// All queue pairs of a host.
pub struct RdmaStack {
    facts: HostFacts,
    config: RdmaConfig,
    build: BuildLaw,
    ends: Seats<End>,
    alarms: Alarms,
    /// ACK, NACK and CNP to be sent.
    control: VecDeque<Cell>,
    /// Sending pairs that may send as far as limiter and window are concerned, the next one first.
    line: VecDeque<u32>,
    /// Those that wait for their limiter.
    asleep: BTreeSet<(Time, u32)>,
    /// In the place of both, with [`Turns::Scan`].
    scan: Option<Scan>,
    /// How long the packet in hand waited for this host's processor.
    waited: Dur,
}

impl RdmaStack {
    /// The stack of a host whose queue pairs get their laws from `build`.
    pub fn new(facts: &HostFacts, config: RdmaConfig, build: BuildLaw) -> RdmaStack {
        // Cut off to whole nanoseconds, one less where nothing is to be cut off.
        let ack = Bytes(u64::from(config.ack + facts.framing)) / facts.rate;
        let ack = Dur::nanos(ack.0.div_ceil(1000).saturating_sub(1));
        let last_hop = config.whole_links.then(|| ack + facts.delay);
        RdmaStack {
            scan: (config.turns == Turns::Scan).then(|| Scan::new(last_hop)),
            facts: *facts,
            config,
            build,
            ends: Seats::default(),
            alarms: Alarms::default(),
            control: VecDeque::new(),
            line: VecDeque::new(),
            asleep: BTreeSet::new(),
            waited: Dur::ZERO,
        }
    }
    /// Gives a sending pair its place after something has changed.
    fn settle(&mut self, conn: u32, now: Time) {
        let Some(End::Sending(pair)) = self.ends.get_mut(conn) else { return };
        // A timer that every ACK puts off is looked at again when its old time has come.
        let (deadline, set) = (pair.deadline(), self.alarms.at(conn));
        if deadline < set || deadline == Time::NEVER {
            self.alarms.set(conn, deadline);
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
            Place::InLine => self.line.push_back(conn),
            Place::Asleep(at) => {
                self.asleep.insert((at, conn));
            }
        }
    }
    fn leave_place(&mut self, conn: u32, place: Place) {
        match place {
            Place::Idle => {}
            Place::InLine => self.line.retain(|c| *c != conn),
            Place::Asleep(at) => {
                self.asleep.remove(&(at, conn));
            }
        }
    }
    /// The pair whose turn it is; where there is a line, out of it.
    fn next_pair(&mut self, now: Time) -> Option<u32> {
        if let Some(scan) = &mut self.scan {
            let ends = &self.ends;
            let may = |p: &Sending| p.next_packet(self.config.overshoot).is_some();
            return scan.next(now, may, |conn| match ends.get(conn) {
                Some(End::Sending(pair)) => Some(pair),
                _ => None,
            });
        }
        while let Some((at, conn)) = self.asleep.first().copied().filter(|(at, _)| *at <= now) {
            self.asleep.remove(&(at, conn));
            if let Some(End::Sending(pair)) = self.ends.get_mut(conn) {
                pair.place = Place::InLine;
                self.line.push_back(conn);
            }
        }
        if self.facts.order == Order::RoundRobin {
            return self.line.pop_front();
        }
        let opened = |conn: &u32| match self.ends.get(*conn) {
            Some(End::Sending(pair)) => pair.out.opening.flow.0,
            _ => u32::MAX,
        };
        let at = (0..self.line.len()).min_by_key(|i| opened(&self.line[*i]))?;
        self.line.remove(at)
    }
}

impl Stack for RdmaStack {
    fn open(&mut self, _: &mut Io<'_>, opening: &Opening) {
        let f = &self.facts;
        let law = (self.build)(&LawFacts {
            line: f.rate,
            base_rtt: f.base_rtt,
            payload: f.mss,
            wire: f.mss + self.config.header + f.framing,
        });
        self.ends.put(
            opening.at_src,
            End::Sending(Sending::new(Outgoing::new(opening), law, &self.config, f.mss)),
        );
    }
    fn listen(&mut self, _: &mut Io<'_>, opening: &Opening) {
        self.ends.put(opening.at_dst, End::Receiving(Receiving::new(Incoming::new(opening))));
    }
    fn set_peer(&mut self, conn: u32, peer: u32) {
        if let Some(End::Sending(pair)) = self.ends.get_mut(conn) {
            pair.out.opening.at_dst = peer;
        }
    }
    fn accept(&mut self, io: &mut Io<'_>, conn: u32, bytes: u64) {
        if let Some(End::Sending(pair)) = self.ends.get_mut(conn) {
            pair.out.accept(bytes);
        }
        if let Some(scan) = &mut self.scan {
            scan.add(conn, io.now);
        }
        self.settle(conn, io.now);
    }
    fn close(&mut self, io: &mut Io<'_>, conn: u32) {
        if let Some(End::Sending(pair)) = self.ends.get_mut(conn) {
            pair.out.close(io.news);
        }
    }
    fn leave(&mut self, io: &mut Io<'_>, conn: u32) {
        if let Some(End::Sending(pair)) = self.ends.get_mut(conn) {
            pair.out.leave(io.news);
        }
        self.settle(conn, io.now);
    }
    fn forget(&mut self, _: &mut Io<'_>, conn: u32) {
        if let Some(End::Sending(pair)) = self.ends.take(conn) {
            self.leave_place(conn, pair.place);
            if let Some(scan) = &mut self.scan {
                scan.forget(conn);
            }
        }
        self.alarms.set(conn, Time::NEVER);
    }

    fn receive_late(&mut self, io: &mut Io<'_>, cell: &Cell, waited: Dur) {
        self.waited = waited;
        self.receive(io, cell);
        self.waited = Dur::ZERO;
    }
    fn fetch(&self, conn: u32, part: Part) {
        match (part, self.ends.get(conn)) {
            (Part::Place, _) => prefetch_all(self),
            (Part::End, Some(End::Sending(pair))) => prefetch_all(pair),
            (Part::End, Some(End::Receiving(end))) => prefetch_all(end),
            (Part::Inside, Some(End::Sending(pair))) => prefetch_all(&*pair.law),
            _ => {}
        }
    }
    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell) {
        if !cell.has_payload() {
            io.arena.prefetch_hops(cell.packet);
        }
        let packet = io.arena.packets[cell.packet as usize];
        let conn = packet.conn();
        if let Some(scan) = &mut self.scan {
            scan.touch();
        }
        match self.ends.get_mut(conn) {
            Some(End::Sending(pair))
                if pair.out.opening.flow.0 == packet.flow && packet.word(0) != kind::DATA =>
            {
                prefetch_all(&*pair.law);
                pair.waited = self.waited;
                let moved = pair.receive(io, &packet, cell.packet, &self.config, self.facts.rate);
                if let (true, Some(scan)) = (moved, &mut self.scan) {
                    scan.moved(io.now, pair.next_at);
                }
                self.settle(conn, io.now);
            }
            Some(End::Receiving(pair))
                if pair.incoming.opening.flow.0 == packet.flow && packet.word(0) == kind::DATA =>
            {
                pair.waited = self.waited;
                pair.receive(io, &packet, cell, &self.config, &mut self.control);
                self.alarms.set(conn, pair.deadline());
            }
            // Of a connection that is over.
            _ => {}
        }
        io.arena.release(cell.packet);
    }
    fn pull(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        let open = |priority: u8| io.paused & (1 << priority) == 0;
        if open(self.config.control_priority) {
            if let Some(cell) = self.control.pop_front() {
                return Some(cell);
            }
        }
        if !open(self.config.data_priority) {
            return None;
        }
        let conn = self.next_pair(io.now)?;
        let Some(End::Sending(pair)) = self.ends.get_mut(conn) else {
            unreachable!("only senders have turns")
        };
        pair.place = Place::Idle;
        let next = pair.next_packet(self.config.overshoot);
        let next = next.expect("it was given its place after the last change");
        let cell = pair.send(io, &self.config, next, self.facts.framing, self.facts.rate);
        self.settle(conn, io.now);
        Some(cell)
    }
    fn ready(&self, paused: u8) -> Time {
        let open = |priority: u8| paused & (1 << priority) == 0;
        if !self.control.is_empty() && open(self.config.control_priority) {
            return Time::ZERO;
        }
        if !open(self.config.data_priority) {
            return Time::NEVER;
        }
        if let Some(scan) = &self.scan {
            return scan.ready();
        }
        if !self.line.is_empty() {
            return Time::ZERO;
        }
        self.asleep.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    fn link_rate(&mut self, io: &mut Io<'_>, rate: Rate) {
        self.facts.rate = rate;
        for conn in self.ends.handles() {
            if let Some(End::Sending(pair)) = self.ends.get_mut(conn) {
                pair.on_line_rate(io.now, rate);
            }
            self.settle(conn, io.now);
        }
    }

    fn deadline(&self) -> Time {
        self.alarms.first()
    }
    fn on_deadline(&mut self, io: &mut Io<'_>) {
        while let Some(conn) = self.alarms.due(io.now) {
            match self.ends.get_mut(conn) {
                Some(End::Sending(pair)) if pair.deadline() > io.now => {
                    self.alarms.set(conn, pair.deadline());
                }
                Some(End::Sending(pair)) => {
                    pair.on_deadline(io, &self.config);
                    self.settle(conn, io.now);
                }
                Some(End::Receiving(pair)) => {
                    pair.on_deadline(io, &self.config, &mut self.control);
                    self.alarms.set(conn, pair.deadline());
                }
                None => {}
            }
        }
    }

    fn queued(&self) -> u64 {
        self.control.len() as u64
    }
    fn counters(&self, conn: u32) -> Counters {
        match self.ends.get(conn) {
            Some(End::Sending(pair)) => pair.out.counters,
            Some(End::Receiving(pair)) => pair.incoming.counters,
            None => Counters::default(),
        }
    }
    fn missing_below(&self, conn: u32, end: u64) -> u64 {
        match self.ends.get(conn) {
            Some(End::Receiving(pair)) => pair.incoming.missing_below(end),
            _ => 0,
        }
    }
    fn observe(&self, conn: u32, report: &mut Report<'_>) {
        let Some(End::Sending(pair)) = self.ends.get(conn) else { return };
        let control = pair.law.control();
        report(&RATE, control.rate.unwrap_or(self.facts.rate).as_bps());
        if let Some(window) = control.window {
            report(&CWND, window as f64);
        }
        pair.law.observe(report);
    }
}
