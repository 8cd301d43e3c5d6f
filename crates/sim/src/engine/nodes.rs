//! The engine node by node: in a window each node handles all its packets and deadlines, in the order of `events.rs`.
//!
//! A window is no longer than the shortest link, so what a node does in it reaches no other node before its end (`network::inbox`). The handlers are those
//! of [`Engine::step`]. Only the events of one node have to be put in order, and the node stays in the processor's cache meanwhile.
//!
//! A node that works is ahead of the others. What it has to tell them, or to ask of them, is written down and read at the end of the window, as between the
//! parts of a divided run (`part`). The applications of a host are called in its turn. Applications that act for all hosts, samples, changes of links, looks
//! for deadlocks and the end of the warm-up come between windows. In a part of a divided run, packets that leave it are handed over at the end of a window.

use super::openings::Openings;
use super::{Engine, NOBODY};
use crate::events::Wake;
use crate::metrics::event_log::phase;
use crate::network::switches::LostAt;
use penstock_core::ParamError;
use penstock_fabric::prefetch;
use penstock_host::Part;
use penstock_units::{Dur, Time};

/// What the engine keeps to work node by node.
pub(super) struct Nodes {
    /// Windows so far, and pieces of such.
    pub count: u64,
    /// Up to here everything is done.
    done: Time,
    /// How long a window is.
    pub length: Dur,
}

impl Nodes {
    /// Windows of `length`.
    pub fn new(length: Dur) -> Nodes {
        Nodes { length, count: 0, done: Time::ZERO }
    }
}

impl Engine {
    /// True when the run is worked through by windows, node by node.
    pub(crate) fn works_by_windows(&self) -> bool {
        self.nodes.is_some()
    }
    /// Packet-hops of a window on average, of one that was cut for each of its pieces.
    pub(crate) fn hops_per_window(&self) -> f64 {
        let windows = self.nodes.as_deref().map_or(0, |nodes| nodes.count);
        self.wire.net.packet_hops as f64 / windows.max(1) as f64
    }
    /// How long a window of the network's own is, where it works by windows.
    pub(crate) fn length_of_windows(&self) -> Option<Dur> {
        self.nodes.as_deref().map(|nodes| nodes.length)
    }
    /// All ports are FIFOs that a window's packets are offered to port by port.
    pub(crate) fn has_fifos_alone(&self) -> bool {
        self.wire.net.is_fifo()
    }
    /// From now on the run, which is whole, is worked through event by event.
    pub(crate) fn end_windows(&mut self) {
        debug_assert!(self.own_part().is_whole());
        self.tell_recorder();
        self.end_joining();
        self.wire.net.end_nodes(self.setup.ties);
        (self.nodes, self.part, self.watched) = (None, None, false);
        self.openings = Openings::default();
    }
    /// Handles what happens up to and including `until`, as [`Engine::step`].
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub(crate) fn step_by_node(&mut self, until: Time) -> Result<(), ParamError> {
        let until = until.min(self.setup.end);
        loop {
            let next = self.next_event();
            let warmup = self.setup.warmup;
            if !self.measuring && next >= warmup && until >= warmup {
                self.end_warmup(warmup)?;
                self.done(warmup);
                // Hosts that were behind may have asked for something before that.
                continue;
            }
            if next > until || self.stopped {
                return Ok(());
            }
            // Nothing happens before that.
            self.done(Time(next.0.saturating_sub(1)));
            let ahead = self.openings.are_ahead();
            let app = if ahead { Time::NEVER } else { self.next_for_all() };
            let other = app.min(self.recorder.next_sample());
            let mut end = self.wire.net.end_of_window(next).min(until).min(other);
            if !self.measuring {
                end = end.min(Time(warmup.0 - 1));
            }
            let whole = self.own_part().is_whole();
            if whole {
                self.wire.net.put_looks_off(end);
            }
            let limit = self.wire.net.deadlines.limit(end);
            let for_all = (limit >> 64) as u64 <= end.0;
            if for_all {
                end = end.min(Time((limit >> 64) as u64));
            }
            if ahead {
                self.ask_workloads(end)?;
            }
            // Applications come after all deadlines of an instant, and those of one instant in their order.
            let apps = if for_all || app == end { end } else { Time(end.0 + 1) };
            self.work_through_window(end, limit, apps)?;
            self.before = self.now;
            if for_all {
                self.now = end;
                self.on_deadline()?;
                self.own_part().keep_step();
                if std::mem::take(&mut self.looked) && !whole {
                    // All parts have to hear of a look for deadlocks before this one goes on.
                    return Ok(());
                }
            } else if app == end {
                self.now = end;
                self.on_apps()?;
                self.own_part().keep_step();
            } else if self.recorder.next_sample() == end {
                self.now = end;
                self.on_sample()?;
                if whole {
                    self.record_batches();
                }
            }
        }
    }
    /// Workloads are asked which connections open up to and including `end`: the hosts open them in their turns.
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
    /// The next connection opens whose sender is at a host.
    #[inline(never)]
    fn open_here(&mut self, host: u32) -> Result<(), ParamError> {
        let Some(opening) = self.openings.take(host) else { return Ok(()) };
        self.now = opening.at;
        self.begin_at(opening.at, phase::WORKLOADS, opening.order);
        self.begin(&opening)?;
        self.send(opening.ends.flow.0)
    }
    /// A deadlock has ended the run.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }
    /// Everything up to and including `at` is done.
    fn done(&mut self, at: Time) {
        if let Some(nodes) = self.nodes.as_deref_mut() {
            nodes.done = nodes.done.max(at);
        }
    }
    /// All arrivals up to and including `end`, all wake-ups before `limit`, and what is due at hosts before `apps`.
    fn work_through_window(&mut self, end: Time, limit: u128, apps: Time) -> Result<(), ParamError> {
        let Some(nodes) = self.nodes.as_deref_mut() else { return Ok(()) };
        nodes.count += 1;
        let done = std::mem::replace(&mut nodes.done, end);
        debug_assert!(done <= end);
        let mut last = self.now;
        self.own_part().listens = true;
        let links = self.wire.net.take_links(end);
        if self.hosts.pull || !self.wire.net.is_fifo() {
            let fetches = self.wire.net.fetches();
            for (i, link) in links.iter().enumerate() {
                if fetches {
                    self.wire.net.fetch_link(&links, i);
                }
                self.empty_link(*link, end, done)?;
            }
        } else {
            self.wire.net.empty_fifos(&links, end);
        }
        self.wire.net.give_links_back(links);
        let apart = self.hosts.pull && self.own_part().is_apart();
        if apart {
            self.note_departures(end);
        }
        while let Some((key, kind, number)) = self.wire.net.deadlines.pop_below(limit) {
            let node = match kind {
                Wake::Link if self.wire.net.ticks_apart(number) => None,
                Wake::Remove => self.flows.at(number).map(|flow| flow.ends.dst),
                _ => Some(self.wire.net.node_of(kind, number)),
            };
            if let Some(node) = node {
                self.wire.net.note_due(node, key);
            }
        }
        let Engine { apps: all, openings, wire, .. } = self;
        all.begin_window(apps).for_each(|host| wire.net.note_call(host));
        openings.hosts().iter().for_each(|host| wire.net.note_call(*host));
        let (mut nodes, woken) = self.wire.net.take_nodes();
        self.wire.net.put_in_order(&mut nodes, end);
        let lost = self.wire.net.offer_shares(end);
        self.lose_at_switches(lost);
        // Timeouts come from wake-ups. So nodes that have one come first: what is asked for their sake of receivers that have not been ahead needs no record
        // of all that these hear, and others are not asked.
        let always = !self.own_part().is_whole() || self.recorder.keep_losses;
        let part = self.own_part();
        part.listens = always || part.asked || woken > 0;
        let fetches = self.wire.net.fetches() && self.wire.net.is_fifo();
        for (i, node) in nodes.iter().enumerate() {
            if fetches {
                self.fetch_hosts(&nodes, i);
            }
            if i == woken {
                let part = self.own_part();
                part.listens = always || part.asked;
            }
            if apart && self.wire.net.leads_away(*node) {
                self.wire.net.note_own(*node, end);
            }
            self.work_at(*node, limit)?;
            last = last.max(self.now);
        }
        self.own_part().asked = false;
        self.wire.net.give_nodes_back(nodes);
        self.wire.net.deadlines.end_nodes();
        self.apps.end_window();
        self.openings.clear();
        self.look_ahead();
        self.ahead = NOBODY;
        self.own_part().go_back();
        self.wire.net.send_away(end);
        if self.wire.net.has_lost() {
            self.now = end;
            self.begin_at(end, phase::ARRIVALS, 0);
            self.take_lost();
            self.own_part().go_back();
        }
        self.now = last;
        self.read_own_control();
        Ok(())
    }
    /// What a link brings up to and including `end` is in the inbox of its node. Of a host whose card pulls all has left by now that was to leave by `done`.
    #[inline]
    fn empty_link(&mut self, link: u32, end: Time, done: Time) -> Result<(), ParamError> {
        let host = self.wire.net.from(link);
        let pulls = self.hosts.pull && self.hosts.is_host(host);
        if pulls {
            (self.ahead, self.now) = (host, done);
            self.hosts.at(host).nic.advance(done, &mut self.wire);
            self.take_replayed();
            if !self.wire.told.is_empty() {
                self.own_part().go_back();
                self.settle(host)?;
            }
        }
        let last = self.wire.net.empty_link(link, end);
        if let (true, Some(last)) = (pulls, last) {
            self.wire.net.note_own(host, last);
        }
        if self.wire.net.has_lost() {
            self.now = done;
            self.own_part().go_back();
            self.begin_at(done, phase::ARRIVALS, u64::from(link));
            self.take_lost();
        }
        Ok(())
    }
    /// Hosts that come next are fetched from memory, and what their first packets touch there. For a network of FIFOs, whose switches have had their turn.
    #[inline(never)]
    fn fetch_hosts(&self, hosts: &[u32], i: usize) {
        // In a network that is not that large hosts and packets are at hand.
        let far = self.wire.net.looks_far();
        if let (true, Some(host)) = (far, hosts.get(i + 8)) {
            self.wire.net.segments_at(*host).for_each(prefetch);
            self.hosts.fetch(*host, None);
        }
        let (ports, parts) = match far {
            true => ([5, 3], [(6, Part::Place), (4, Part::End), (2, Part::Inside)].as_slice()),
            false => ([3, 1], [(3, Part::Place), (1, Part::End)].as_slice()),
        };
        // The port by which it answers.
        let port = |ahead: usize| {
            let host = hosts.get(i + ahead).and_then(|host| self.hosts.get(*host))?;
            Some(&self.wire.net.ports()[host.nic.config().port as usize])
        };
        if let Some(port) = port(ports[0]) {
            port.prefetch_noisy();
        }
        if let Some(port) = port(ports[1]) {
            port.prefetch_tail();
            port.prefetch_jitter();
        }
        for (ahead, part) in parts {
            let Some(host) = hosts.get(i + ahead) else { continue };
            let mut last = None;
            for packet in self.wire.net.segments_at(*host).take(if far { 4 } else { 1 }) {
                // Most are of one connection, or of two in turn.
                if last != Some(packet.conn()) {
                    self.hosts.fetch(*host, Some((packet, *part)));
                }
                last = Some(packet.conn());
            }
        }
    }
    /// Packets that switches have lost are counted, each at its place in the order of events.
    fn lose_at_switches(&mut self, lost: Vec<LostAt>) {
        for LostAt { at, link, slot } in lost {
            self.now = at;
            let part = self.own_part();
            part.go_back();
            part.begin(at, phase::ARRIVALS, u64::from(link) ^ part.place().1);
            self.wire.net.lose(at, slot);
            self.take_lost();
        }
    }
    /// Hosts whose own links lead out of this part: their cards pull up to the end of the window, as what they pull in it may leave in it.
    fn note_departures(&mut self, end: Time) {
        for i in 0..self.wire.net.links_away().len() {
            let host = self.wire.net.from(self.wire.net.links_away()[i]);
            if self.hosts.is_host(host) {
                self.wire.net.note_own(host, end);
            }
        }
    }
    /// An event begins that has this place among simultaneous ones.
    #[inline(always)]
    fn begin_at(&mut self, at: Time, step: u8, order: u64) {
        self.own_part().begin(at, step, order);
    }
    /// A node works through all that it has to do.
    #[inline(never)]
    fn work_at(&mut self, node: u32, limit: u128) -> Result<(), ParamError> {
        let (mut number, mut own) = self.wire.net.begin_node(node, limit);
        let fetches = self.wire.net.fetches() && !self.wire.net.is_fifo();
        let is_host = self.hosts.is_host(node);
        if is_host {
            self.apps.begin_host(node);
        }
        self.ahead = node;
        let part = self.own_part();
        part.go_back();
        let (tie_mask, listens) = (part.place().1, part.listens);
        loop {
            let due = self.wire.net.deadlines.peek_of_node();
            let coming = self.wire.net.coming(number.start).filter(|_| !number.is_empty()).copied();
            let next = coming.map_or(Time::NEVER, |coming| coming.at).min(due);
            let app = self.apps.next_of_host();
            let opens = self.openings.next(node);
            if opens < app.min(own).min(next) {
                self.open_here(node)?;
                continue;
            }
            if app < own.min(next) {
                self.now = app;
                self.on_apps_of_host()?;
                continue;
            }
            if own <= next {
                if own == Time::NEVER {
                    return Ok(());
                }
                // An event of the host's own port.
                self.now = std::mem::replace(&mut own, Time::NEVER);
                self.begin_at(self.now, phase::ARRIVALS, 0);
                self.hosts.at(node).nic.advance(self.now, &mut self.wire);
                self.take_replayed();
                self.settle(node)?;
                continue;
            }
            self.now = next;
            match coming.filter(|coming| coming.at == next) {
                Some(coming) => {
                    if fetches {
                        let Engine { hosts, wire, .. } = self;
                        wire.net.fetch_coming(number.start, |host, packet| hosts.fetch(host, packet));
                    }
                    number.start += 1;
                    let cell = self.wire.net.cell_of(&coming);
                    let order = u64::from(coming.link) ^ tie_mask;
                    if is_host && cell.to == node {
                        self.wire.net.note_delivered();
                        self.begin_at(next, phase::ARRIVALS, order);
                        self.heard_at = next;
                        if listens {
                            self.find_end(&cell);
                        }
                        let packet = &self.wire.net.arena.packets[cell.packet as usize];
                        if listens && packet.is_forward() {
                            let (flow, conn) = (packet.flow, packet.conn());
                            self.heard_here(flow, conn);
                        }
                        self.hand_over(&cell)?;
                        continue;
                    }
                    self.wire.net.pass_on(&coming, node, cell);
                    if self.wire.net.has_lost() {
                        self.begin_at(next, phase::ARRIVALS, order);
                        self.take_lost();
                    }
                }
                None => {
                    let Some((_, order, kind, number)) = self.wire.net.deadlines.pop_of_node() else {
                        return Ok(());
                    };
                    self.begin_at(next, phase::DEADLINES, order);
                    self.on_wake(kind, order, number)?;
                }
            }
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
    /// All hosts are in step and have been advanced: flows have counted what was lost until now, where the run is whole.
    pub(super) fn keep_up(&mut self) {
        if self.part.as_deref().is_some_and(|part| part.is_whole()) {
            self.read_own_control();
        }
    }
    /// Hands the event log to the recorder. In a run of one part it is complete.
    fn tell_recorder(&mut self) {
        let Engine { part, recorder, .. } = self;
        let part = part.as_deref_mut().expect("the run is whole");
        if part.event_log.is_empty() {
            return;
        }
        let event_log = std::mem::take(&mut part.event_log);
        let lost: Vec<u32> = event_log.drops.iter().map(|drop| drop.flow).collect();
        recorder.replay(vec![event_log], part.blocks.as_deref_mut());
        for flow in lost {
            if let Some(flow) = self.flows.at_mut(flow) {
                flow.drop_packet();
            }
        }
    }
}
