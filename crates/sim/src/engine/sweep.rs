//! The engine by stretches of time: all packets are moved on that arrive in one, then every host works through its own events.
//!
//! A stretch is no longer than the shortest link, so what a host does in it reaches nobody before its end: not the network
//! (`network::sweep`), and not another host. While one host is ahead, the others are out of step with it, and what it would tell of them, or look at there, is
//! written down and read when all are in step again: as between the parts of a divided run (`part`), of which each is worked through like this where it
//! can be. Workloads, samples and the end of warm-up come between stretches.
//!
//! What is gained is that nothing has to be put in order but the packets that meet at a port, and that a port, and a host, has all it has to do at
//! one time, while it is in the processor's cache.

use super::openings::Openings;
use super::{Engine, NOBODY};
use crate::events::Wake;
use crate::flow::AWAY;
use crate::metrics::journal::step;
use crate::network::Network;
use penstock_core::packet::flag;
use penstock_core::ParamError;
use penstock_fabric::prefetch;
use penstock_host::{Due, Exchanged, Part};
use penstock_units::Time;

/// What the engine keeps to work by stretches.
#[derive(Default)]
pub(super) struct Sweeps {
    /// Hosts with a deadline in this stretch.
    due: Vec<u32>,
    /// Hosts that get packets in it.
    reached: Vec<u32>,
    /// Stretches so far, and pieces of such.
    count: u64,
    /// Hosts in the middle of their work, for whose sake others catch up.
    waiting: Vec<u32>,
    /// Hosts that have caught up with one of these, and have more to do in this stretch.
    caught_up: Vec<u32>,
}

impl Engine {
    /// True when the run is worked through by stretches.
    pub(crate) fn sweeps(&self) -> bool {
        self.sweeps.is_some()
    }
    /// Packet-hops of a stretch on average, of one that was cut for each of its pieces.
    pub(crate) fn hops_per_stretch(&self) -> f64 {
        let stretches = self.sweeps.as_deref().map_or(0, |sweeps| sweeps.count);
        self.wire.net.packet_hops as f64 / stretches.max(1) as f64
    }
    /// From now on the run, which is whole, is worked through event by event.
    pub(crate) fn end_sweeps(&mut self) {
        debug_assert!(self.own_part().is_whole());
        self.wire.net.end_sweeps(self.setup.ties);
        (self.sweeps, self.part, self.watched) = (None, None, false);
        self.openings = Openings::default();
    }
    /// The last stretch that ends no later than `until`, if there is one from `from` on: its end.
    pub(crate) fn last_stretch(&self, from: Time, until: Time) -> Time {
        let end = self.wire.net.end_of_stretch(from);
        if end >= until {
            return until;
        }
        let length = self.wire.net.end_of_stretch(Time(end.0 + 1)).0 - end.0;
        Time(end.0 + (until.0 - end.0) / length * length)
    }
    /// Handles what happens up to and including `until`, as [`Engine::step`]. In every stretch `between` is called before the hosts do anything, and told
    /// whether that is the last one: then all is known that leaves this part of the network up to `until`.
    ///
    /// # Errors
    /// As [`Engine::run`], and those of `between`.
    pub(crate) fn sweep<E: From<ParamError>>(
        &mut self,
        until: Time,
        mut between: impl FnMut(&mut Engine, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let until = until.min(self.setup.end);
        loop {
            let next = self.next_event();
            let warmup = self.setup.warmup;
            if !self.measuring && next >= warmup && until >= warmup {
                self.end_warmup(warmup)?;
            }
            if next > until || self.stopped {
                return Ok(());
            }
            let ahead = self.openings.are_ahead();
            let mut other = self.recorder.next_sample();
            if !ahead {
                other = other.min(self.next_app);
            }
            let mut end = self.wire.net.end_of_stretch(next).min(until).min(other);
            if !self.measuring {
                end = end.min(Time(warmup.0 - 1));
            }
            if ahead {
                self.ask_workloads(end)?;
            }
            self.sweep_stretch(end, |engine| between(engine, end == until))?;
            self.now = end;
            if self.next_app == end {
                // What this makes due at once comes before a sample.
                self.on_apps()?;
                self.own_part().keep_step();
            } else if self.recorder.next_sample() == end {
                self.on_sample()?;
            }
        }
    }
    /// Workloads are asked which connections open up to and including `end`: the hosts open them when they have come as far.
    fn ask_workloads(&mut self, end: Time) -> Result<(), ParamError> {
        if self.next_app > end {
            return Ok(());
        }
        let begin = self.now;
        self.openings.ask(begin);
        while self.next_app <= end {
            self.now = self.next_app;
            self.on_apps()?;
        }
        self.openings.close();
        self.now = begin;
        Ok(())
    }
    /// All arrivals and deadlines up to and including `end`, which is in the stretch of the first of them. When the network is through with its own
    /// `between` is called.
    fn sweep_stretch<E: From<ParamError>>(
        &mut self,
        end: Time,
        between: impl FnOnce(&mut Engine) -> Result<(), E>,
    ) -> Result<(), E> {
        let begin = self.now;
        let Some(sweeps) = self.sweeps.as_deref_mut() else { return Ok(()) };
        sweeps.count += 1;
        let mut due = std::mem::take(&mut sweeps.due);
        let mut reached = std::mem::take(&mut sweeps.reached);
        while self.wire.net.deadlines.peek() <= end {
            match self.wire.net.deadlines.pop() {
                Some((_, Wake::Link, port)) => self.wire.net.tick_in_sweep(port),
                Some((_, _, host)) => due.push(host),
                None => break,
            }
        }
        for (i, host) in due.iter().enumerate() {
            due.get(i + 12).into_iter().for_each(|ahead| self.hosts.fetch_first(*ahead));
            self.hosts.at(*host).wakes.fired();
        }
        self.wire.net.sweep(end, &mut reached);
        self.lose_swept();
        // No link from part to part comes from a host.
        self.wire.net.sweep_out(end);
        between(self)?;
        // Timeouts come from deadlines. So hosts that have one come first: what is asked for their sake of receivers that have not been ahead needs
        // no record of all that these hear, and others are not asked.
        let always = !self.own_part().is_whole() || self.recorder.keep_losses;
        self.own_part().listens = always || !due.is_empty();
        let far = self.wire.net.looks_far();
        for (i, host) in due.iter().enumerate() {
            if far {
                self.fetch_ahead(&due, i, true);
            } else {
                self.fetch_next(&due, i);
            }
            self.go_ahead(*host, true, begin, end)?;
        }
        due.clear();
        let part = self.own_part();
        part.listens = always || part.asked;
        part.asked = false;
        for (i, host) in reached.iter().enumerate() {
            if far {
                self.fetch_ahead(&reached, i, false);
            } else {
                self.fetch_next(&reached, i);
            }
            // Those that had a deadline have had their packets.
            if self.wire.net.has_for_host(*host) {
                self.go_ahead(*host, false, begin, end)?;
            }
        }
        self.open_the_rest(begin, end)?;
        while let Some(host) = self.sweeps.as_deref_mut().and_then(|sweeps| sweeps.caught_up.pop()) {
            self.go_ahead(host, true, begin, end)?;
        }
        self.ahead = NOBODY;
        self.own_part().go_back();
        reached.clear();
        if let Some(sweeps) = self.sweeps.as_deref_mut() {
            (sweeps.due, sweeps.reached) = (due, reached);
        }
        self.now = end;
        self.read_own_notes();
        Ok(())
    }
    /// Connections open at hosts that have had neither a deadline nor a packet.
    fn open_the_rest(&mut self, begin: Time, end: Time) -> Result<(), ParamError> {
        let hosts = self.openings.take_hosts();
        for host in &hosts {
            if self.openings.next(*host) != Time::NEVER {
                self.go_ahead(*host, true, begin, end)?;
            }
        }
        self.openings.clear(hosts);
        Ok(())
    }
    /// One host does all that it has to do from `begin` up to and including `end`. `wakes`: it has a deadline by then.
    #[inline(always)]
    fn go_ahead(&mut self, host: u32, wakes: bool, begin: Time, end: Time) -> Result<(), ParamError> {
        let packets = self.wire.net.take_for_host(host);
        if self.work_through(host, wakes, (begin, end), packets)? {
            self.hosts.at(host).arm(end, host, &mut self.wire.net.deadlines);
        }
        Ok(())
    }
    /// The same with these of its packets; true when it has to be asked when it wants to be woken up.
    #[inline(never)]
    fn work_through(
        &mut self,
        host: u32,
        wakes: bool,
        (begin, end): (Time, Time),
        (mut number, last): (u32, u32),
    ) -> Result<bool, ParamError> {
        (self.ahead, self.now) = (host, begin);
        let part = self.own_part();
        part.go_back();
        let order = part.order_at(host);
        let (attentive, closes) = (part.is_attentive(), part.closes);
        let mut armed = wakes;
        // When a connection opens here.
        let mut opens = self.openings.next(host);
        // Also where it is not woken up: one that has caught up with another in this stretch may have set a deadline within it.
        let mut due = self.hosts.at(host).nic.deadline();
        loop {
            if number != last {
                let cell = self.wire.net.packet_for_host(number);
                if cell.time <= due.min(opens).0 {
                    number += 1;
                    let at = Time(cell.time);
                    let packet = &self.wire.net.arena.packets[cell.packet as usize];
                    let forward = attentive && packet.is_forward();
                    let (flow, conn) = (packet.flow, packet.conn());
                    if forward && closes && self.has_all(host, conn, packet.seq + packet.seq_len()) {
                        self.let_sender_catch_up(flow, host, (at, step::ARRIVALS, order), begin)?;
                        due = self.hosts.at(host).nic.deadline();
                    }
                    self.now = at;
                    self.own_part().begin(at, step::ARRIVALS, order);
                    if forward && self.own_part().listens {
                        self.heard_here(flow, conn);
                    }
                    #[cfg(debug_assertions)]
                    let seen = self.witness_arrival(&cell);
                    let done = self.hosts.at(host).nic.exchange(self.now, &cell, &mut self.wire);
                    #[cfg(debug_assertions)]
                    self.witness_delivery(seen);
                    match done {
                        Exchanged::Told => self.settle(host)?,
                        Exchanged::Done | Exchanged::Armed => self.take_lost(),
                    }
                    if done != Exchanged::Done {
                        due = self.hosts.at(host).nic.deadline();
                        armed = true;
                    }
                    continue;
                }
            }
            if due.min(opens) > end {
                break;
            }
            if opens < due {
                self.open_here(host)?;
                opens = self.openings.next(host);
                due = self.hosts.at(host).nic.deadline();
                armed = true;
                continue;
            }
            // One that was set when its time was over comes at once.
            self.now = due.max(self.now);
            self.on_host_deadline(host, due, begin)?;
            due = self.hosts.at(host).nic.deadline();
        }
        Ok(armed)
    }
    /// The next connection opens whose sender is at a host.
    #[inline(never)]
    fn open_here(&mut self, host: u32) -> Result<(), ParamError> {
        let Some(opening) = self.openings.take(host) else { return Ok(()) };
        self.now = opening.at;
        self.own_part().begin(opening.at, step::WORKLOADS, u64::from(opening.workload));
        self.begin(&opening)?;
        self.send(opening.ends.flow.0)
    }
    fn on_host_deadline(&mut self, host: u32, due: Time, begin: Time) -> Result<(), ParamError> {
        let h = self.hosts.at(host);
        let (order, receiver) = h.first_of_deadlines(due);
        let order = self.wire.net.deadlines.order_of(order, host);
        let now = self.now;
        if let (Some(flow), true) = (receiver, self.own_part().closes) {
            self.let_sender_catch_up(flow, host, (now, step::DEADLINES, order), begin)?;
            if self.hosts.at(host).nic.deadline() != due {
                return Ok(());
            }
        }
        self.own_part().begin(now, step::DEADLINES, order);
        let sent = self.wire.net.conservation.sent;
        let done = self.hosts.at(host).nic.alarm(self.now, &mut self.wire);
        if let Some(flow) = receiver {
            self.end_deadline(flow, sent);
        }
        if done == Exchanged::Told {
            return self.settle(host);
        }
        self.take_lost();
        Ok(())
    }
    /// True when the receiver `conn` at a host has everything below `end`, or there is none. One that has nothing, not even a FIN, does not have all: whose
    /// first SYN comes has a sender that is not done.
    #[inline(always)]
    fn has_all(&self, host: u32, conn: u32, end: u64) -> bool {
        let host = self.hosts.get(host).filter(|_| conn != AWAY);
        host.is_some_and(|host| host.nic.missing_below(conn, end.max(1)) == 0)
    }
    /// The receiver of `flow` at `host` is about to act, at a place in the order of events, though it may have all that its sender ever sends. If that is done by
    /// then, nobody is there any more: in an engine whose hosts are all in step the receiver is forgotten at once. So the host of the sender works up to
    /// this time first; what it waits for there, of other hosts, is earlier.
    #[cold]
    #[inline(never)]
    fn let_sender_catch_up(
        &mut self,
        flow: u32,
        host: u32,
        place: (Time, u8, u64),
        begin: Time,
    ) -> Result<(), ParamError> {
        let Some(o) = self.flows[flow as usize].as_deref().map(|f| f.ends) else { return Ok(()) };
        let Some(sweeps) = self.sweeps.as_deref_mut() else { return Ok(()) };
        // One that waits has come as far.
        if o.at_src != AWAY && !sweeps.waiting.contains(&o.src) {
            sweeps.waiting.push(host);
            let packets = self.wire.net.take_for_host_until(o.src, place.0);
            let stamp = self.own_part().stamp();
            self.work_through(o.src, true, (begin, place.0), packets)?;
            self.own_part().resume(stamp);
            self.ahead = host;
            if let Some(sweeps) = self.sweeps.as_deref_mut() {
                sweeps.waiting.pop();
                sweeps.caught_up.push(o.src);
            }
        }
        self.now = place.0;
        if let Some(stamp) = self.own_part().take_closed(flow, place) {
            self.forget_receiver(flow, stamp);
        }
        Ok(())
    }
    /// Hosts that come next are fetched from memory, and what their first packets touch there; `all`: also those that get none.
    #[inline(never)]
    fn fetch_ahead(&self, hosts: &[u32], i: usize, all: bool) {
        if self.wire.net.is_vast() {
            self.fetch_far_ahead(hosts, i, all);
        }
        if let Some(host) = hosts.get(i + 8).filter(|host| all || self.wire.net.has_for_host(**host)) {
            self.wire.net.segments_for_host(*host).for_each(prefetch);
            self.hosts.fetch(*host, None);
        }
        // The port by which it answers.
        let ports = self.wire.net.ports();
        let port = |host: &u32| self.hosts.get(*host).map(|host| &ports[host.nic.config().port as usize]);
        if let Some(port) = hosts.get(i + 5).and_then(port) {
            port.prefetch_noisy();
        }
        if let Some(port) = hosts.get(i + 3).and_then(port) {
            port.prefetch_tail();
            port.prefetch_noise();
        }
        for (ahead, part) in [(6, Part::Place), (4, Part::End), (2, Part::Inside)] {
            if let Some(host) = hosts.get(i + ahead) {
                let mut last = None;
                for packet in self.wire.net.segments_for_host(*host).take(4) {
                    // Most are of one connection, or of two in turn.
                    if last != Some(packet.conn()) {
                        self.hosts.fetch(*host, Some((packet, part)));
                    }
                    last = Some(packet.conn());
                }
            }
        }
    }
    /// And what fits into a processor's own cache elsewhere: the packets, and the deadlines of a host.
    #[inline(always)]
    fn fetch_far_ahead(&self, hosts: &[u32], i: usize, all: bool) {
        if let Some(host) = hosts.get(i + 12) {
            self.wire.net.fetch_for_host(*host);
        }
        // When it wants to be called, and if that is why it is here, of which end.
        for (ahead, part) in [(5, Due::Time), (3, Due::Place), (2, Due::End)] {
            if let Some(host) = hosts.get(i + ahead).filter(|_| all || part == Due::Time) {
                self.hosts.fetch_due(*host, part);
            }
        }
    }
    /// The same in a network that is not that large: the ports by which they answer, and the ends of the connections of which a packet comes first.
    #[inline(always)]
    fn fetch_next(&self, hosts: &[u32], i: usize) {
        let ports = self.wire.net.ports();
        let port = |host: &u32| self.hosts.get(*host).map(|host| &ports[host.nic.config().port as usize]);
        if let Some(port) = hosts.get(i + 3).and_then(port) {
            port.prefetch_noisy();
        }
        if let Some(port) = hosts.get(i + 1).and_then(port) {
            port.prefetch_tail();
            port.prefetch_noise();
        }
        for (ahead, part) in [(3, Part::Place), (1, Part::End)] {
            if let Some(host) = hosts.get(i + ahead) {
                if let Some(packet) = self.wire.net.segments_for_host(*host).next() {
                    self.hosts.fetch(*host, Some((packet, part)));
                }
            }
        }
    }
    /// Packets lost at ports of switches are counted, each at its place in the order of events.
    fn lose_swept(&mut self) {
        if !self.wire.net.has_swept_away() {
            return;
        }
        let flip = self.own_part().place().1;
        for (slot, at, link) in self.wire.net.swept_away() {
            let packet = &self.wire.net.arena.packets[slot as usize];
            if self.measuring && packet.has(flag::SYN) {
                self.recorder.syn_drops += 1;
            }
            let flow = packet.flow;
            let part = self.own_part();
            part.go_back();
            part.begin(at, step::ARRIVALS, u64::from(link) ^ flip);
            part.lose(flow);
            self.wire.net.arena.release(slot);
        }
    }
    /// All hosts are in step: what was written down for this is carried out.
    fn read_own_notes(&mut self) {
        loop {
            let part = self.own_part();
            if part.own_notes().is_empty() {
                break;
            }
            let me = part.place().0;
            let mut notes = std::mem::take(part.own_notes());
            self.read(&mut notes, me);
        }
        let part = self.own_part();
        if part.is_whole() {
            part.end_window();
            self.tell_recorder();
        }
    }
    /// Of a run that is whole nothing is missing in the journal any more.
    fn tell_recorder(&mut self) {
        let journal = &mut self.own_part().journal;
        if journal.entries.is_empty() && journal.drops.is_empty() {
            return;
        }
        let journal = std::mem::take(journal);
        let lost: Vec<u32> = journal.drops.iter().map(|drop| drop.0).collect();
        self.recorder.replay(vec![journal]);
        for flow in lost {
            if let Some(flow) = self.flows[flow as usize].as_deref_mut() {
                flow.drop_packet();
            }
        }
    }
}

impl Network {
    fn has_swept_away(&self) -> bool {
        self.sweep.as_deref().is_some_and(|sweep| !sweep.lost.is_empty())
    }
    fn swept_away(&mut self) -> Vec<(u32, Time, u32)> {
        self.sweep.as_deref_mut().map(|sweep| std::mem::take(&mut sweep.lost)).unwrap_or_default()
    }
}
