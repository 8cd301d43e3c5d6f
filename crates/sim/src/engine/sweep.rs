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
use crate::metrics::event_log::phase;
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
}

impl Engine {
    /// True when the run is worked through by stretches.
    pub(crate) fn sweeps(&self) -> bool {
        self.sweeps.is_some()
    }
    /// True when it is worked through by windows, in one order or the other.
    pub(crate) fn works_by_windows(&self) -> bool {
        self.sweeps.is_some() || self.nodes.is_some()
    }
    /// Packet-hops of a stretch on average, of one that was cut for each of its pieces.
    pub(crate) fn hops_per_window(&self) -> f64 {
        let stretches = self.sweeps.as_deref().map_or(0, |sweeps| sweeps.count);
        let stretches = stretches.max(self.nodes.as_deref().map_or(0, |nodes| nodes.count));
        self.wire.net.packet_hops as f64 / stretches.max(1) as f64
    }
    /// From now on the run, which is whole, is worked through event by event.
    pub(crate) fn end_sweeps(&mut self) {
        debug_assert!(self.own_part().is_whole());
        self.wire.net.end_sweeps(self.setup.ties);
        (self.sweeps, self.nodes, self.part, self.watched) = (None, None, None, false);
        self.openings = Openings::default();
    }
    /// The last stretch that ends no later than `until`, if there is one from `from` on: its end.
    pub(crate) fn last_window(&self, from: Time, until: Time) -> Time {
        let end = self.wire.net.end_of_window(from);
        if end >= until {
            return until;
        }
        let length = self.wire.net.end_of_window(Time(end.0 + 1)).0 - end.0;
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
            let mut end = self.wire.net.end_of_window(next).min(until).min(other);
            if !self.measuring {
                end = end.min(Time(warmup.0 - 1));
            }
            if ahead {
                self.ask_workloads(end)?;
            }
            self.sweep_window(end, |engine| between(engine, end == until))?;
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
    fn sweep_window<E: From<ParamError>>(
        &mut self,
        end: Time,
        between: impl FnOnce(&mut Engine) -> Result<(), E>,
    ) -> Result<(), E> {
        let begin = self.now;
        let Some(sweeps) = self.sweeps.as_deref_mut() else { return Ok(()) };
        sweeps.count += 1;
        let mut due = std::mem::take(&mut sweeps.due);
        let mut reached = std::mem::take(&mut sweeps.reached);
        let mut removals = Vec::new();
        while self.wire.net.deadlines.peek() <= end {
            match self.wire.net.deadlines.pop() {
                Some((_, Wake::Link, port)) => self.wire.net.tick_in_sweep(port),
                Some((at, Wake::Remove, flow)) => removals.push((at, flow)),
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
        self.take_removals(removals, end, &mut due);
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
        self.ahead = NOBODY;
        self.own_part().go_back();
        reached.clear();
        if let Some(sweeps) = self.sweeps.as_deref_mut() {
            (sweeps.due, sweeps.reached) = (due, reached);
        }
        self.now = end;
        self.read_own_control();
        Ok(())
    }
    /// Gives every host the removals of its receiving ends up to and including `end`: those that are known, and those that other parts have told of.
    fn take_removals(&mut self, known: Vec<(Time, u32)>, end: Time, due: &mut Vec<u32>) {
        for (at, flow) in known {
            self.take_removal(at, flow, due);
        }
        while self.wire.net.deadlines.peek() <= end {
            match self.wire.net.deadlines.pop() {
                Some((at, Wake::Remove, flow)) => self.take_removal(at, flow, due),
                other => unreachable!("{other:?} was set in the stretch in which it is due"),
            }
        }
    }
    fn take_removal(&mut self, at: Time, flow: u32, due: &mut Vec<u32>) {
        let Some(host) = self.flows.at(flow).map(|flow| flow.ends.dst) else { return };
        let removals = &mut self.hosts.at(host).removals;
        // One that another part has told of may come before those that were known.
        removals.insert(removals.partition_point(|known| *known <= (at, flow)), (at, flow));
        due.push(host);
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
        let listens = part.listens;
        let reversed = part.place().1 != 0;
        let mut armed = wakes;
        // When a connection opens here.
        let mut opens = self.openings.next(host);
        // Also where it is not woken up: one that has caught up with another in this stretch may have set a deadline within it.
        let mut due = self.hosts.at(host).nic.next_timer();
        let mut removal = self.hosts.at(host).next_removal();
        loop {
            if number != last {
                let cell = self.wire.net.packet_for_host(number);
                if cell.time <= due.min(opens).min(removal).0 {
                    number += 1;
                    let at = Time(cell.time);
                    self.now = at;
                    self.find_end(&cell);
                    let packet = &self.wire.net.arena.packets[cell.packet as usize];
                    let heard = (listens && packet.is_forward()).then(|| (packet.flow, packet.conn()));
                    self.own_part().begin(at, phase::ARRIVALS, order);
                    if let Some((flow, conn)) = heard {
                        self.heard_here(flow, conn);
                    }
                    #[cfg(debug_assertions)]
                    let seen = self.witness_arrival(&cell);
                    let done = self.hosts.at(host).nic.receive_and_send(self.now, &cell, &mut self.wire);
                    #[cfg(debug_assertions)]
                    self.witness_delivery(seen);
                    match done {
                        Exchanged::Told => self.settle(host)?,
                        Exchanged::Done | Exchanged::Armed => self.take_lost(),
                    }
                    if done != Exchanged::Done {
                        due = self.hosts.at(host).nic.next_timer();
                        armed = true;
                    }
                    continue;
                }
            }
            if due.min(opens).min(removal) > end {
                break;
            }
            // Ties are resolved as the order of deadlines says, and workloads come after all of them.
            if removal <= opens && (removal < due || removal == due && reversed) {
                self.remove_here(host)?;
                removal = self.hosts.at(host).next_removal();
                due = self.hosts.at(host).nic.next_timer();
                armed = true;
                continue;
            }
            if opens < due {
                self.open_here(host)?;
                opens = self.openings.next(host);
                due = self.hosts.at(host).nic.next_timer();
                armed = true;
                continue;
            }
            // One that was set when its time was over comes at once.
            self.now = due.max(self.now);
            self.on_host_deadline(host, due)?;
            due = self.hosts.at(host).nic.next_timer();
        }
        Ok(armed)
    }
    /// The next connection opens whose sender is at a host.
    #[inline(never)]
    fn open_here(&mut self, host: u32) -> Result<(), ParamError> {
        let Some(opening) = self.openings.take(host) else { return Ok(()) };
        self.now = opening.at;
        self.own_part().begin(opening.at, phase::WORKLOADS, opening.order);
        self.begin(&opening)?;
        self.send(opening.ends.flow.0)
    }
    /// The next receiving end of a host is removed whose sender is done.
    #[inline(never)]
    fn remove_here(&mut self, host: u32) -> Result<(), ParamError> {
        let Some((at, flow)) = self.hosts.at(host).removals.pop_front() else { return Ok(()) };
        self.now = at;
        let order = self.wire.net.deadlines.order_of_removal(flow);
        self.own_part().begin(at, phase::DEADLINES, order);
        self.remove_receiver(flow)
    }
    fn on_host_deadline(&mut self, host: u32, due: Time) -> Result<(), ParamError> {
        let h = self.hosts.at(host);
        let order = h.first_of_deadlines(due);
        let order = self.wire.net.deadlines.order_of(order, host);
        let now = self.now;
        self.own_part().begin(now, phase::DEADLINES, order);
        self.heard_inside(host);
        if self.hosts.at(host).nic.on_timer_and_send(self.now, &mut self.wire) == Exchanged::Told {
            return self.settle(host);
        }
        self.take_lost();
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
            port.prefetch_jitter();
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
            port.prefetch_jitter();
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
        let tie_mask = self.own_part().place().1;
        for (slot, at, link) in self.wire.net.swept_away() {
            let packet = &self.wire.net.arena.packets[slot as usize];
            if self.measuring && packet.has(flag::SYN) {
                self.recorder.syn_drops += 1;
            }
            let flow = packet.flow;
            let row = self.row_of(flow);
            let part = self.own_part();
            part.go_back();
            part.begin(at, phase::ARRIVALS, u64::from(link) ^ tie_mask);
            part.lose(flow, row);
            self.wire.net.arena.release(slot);
        }
    }
    /// All hosts are in step: what was written down for this is carried out.
    pub(super) fn read_own_control(&mut self) {
        loop {
            let part = self.own_part();
            if part.own_control().is_empty() {
                break;
            }
            let me = part.place().0;
            let mut notes = std::mem::take(part.own_control());
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
        let event_log = &mut self.own_part().event_log;
        if event_log.entries.is_empty() && event_log.drops.is_empty() {
            return;
        }
        let event_log = std::mem::take(event_log);
        let lost: Vec<u32> = event_log.drops.iter().map(|drop| drop.flow).collect();
        self.recorder.replay(vec![event_log], None);
        for flow in lost {
            if let Some(flow) = self.flows.at_mut(flow) {
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
