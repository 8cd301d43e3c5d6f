//! What workloads ask for: connections that open, writes, and what is left of a connection that is over.

use super::hosts::count;
use super::openings::ToOpen;
use super::Engine;
use crate::events::Ties;
use crate::flow::{Ends, Flow, AWAY};
use crate::ideal;
use crate::metrics::{FlowRecord, Leaving, Transfer};
use crate::network::Way;
use crate::workloads::{Acked, Action, FlowRequest};
use crate::writer::Deed;
use penstock_core::{FlowId, ParamError};
#[cfg(debug_assertions)]
use penstock_fabric::Cell;
use penstock_host::Opening;
use penstock_units::Time;

/// Of no more workloads than this all are looked at for the next that acts.
const FEW: usize = 8;

impl Engine {
    /// Tells workloads what their requests take in the idle network, by the lengths of the scenario's own protocol.
    pub(super) fn prepare(&mut self) {
        let Engine { workloads, wire, setup, path: [_, links], .. } = self;
        let mut delay = |src, dst| {
            wire.net.path(Way { src, dst, entropy: 0 }, links);
            ideal::request(&setup.topology, links, &setup.lengths[0])
        };
        workloads.iter_mut().for_each(|workload| workload.prepare(&mut delay));
    }

    /// Notes when a workload acts next.
    pub(super) fn plan(&mut self, workload: u32) {
        let next = self.workloads[workload as usize].next_event();
        let known = std::mem::replace(&mut self.workload_at[workload as usize], next);
        if known == next {
            return;
        }
        if self.workloads.len() > FEW {
            self.agenda.remove(&(known, workload));
            if next != Time::NEVER {
                self.agenda.insert((next, workload));
            }
        }
        self.look_ahead();
    }
    /// Finds out when a workload acts next, or something is done that one has asked for.
    fn look_ahead(&mut self) {
        self.next_workload = if self.workloads.len() <= FEW {
            self.workload_at.iter().copied().min().unwrap_or(Time::NEVER)
        } else {
            self.agenda.first().map_or(Time::NEVER, |first| first.0)
        };
        if let Some(writer) = &self.writer {
            self.next_workload = self.next_workload.min(writer.next());
        }
    }

    pub(super) fn on_workload(&mut self) -> Result<(), ParamError> {
        if self.writer.is_some() {
            self.on_writer()?;
        }
        let mut due = std::mem::take(&mut self.due);
        if self.workloads.len() <= FEW {
            let all = (0u32..).zip(&self.workload_at);
            due.extend(all.filter(|(_, at)| **at <= self.now).map(|(workload, _)| workload));
        } else {
            let first = self.agenda.iter().take_while(|(at, _)| *at <= self.now);
            due.extend(first.map(|(_, workload)| *workload));
            due.sort_unstable();
        }
        if self.setup.ties == Ties::Reversed {
            due.reverse();
        }
        for workload in due.drain(..) {
            if self.watched {
                self.begin_workload(workload);
            }
            self.workloads[workload as usize].on_event(self.now, &mut self.actions);
            self.carry_out(workload)?;
        }
        self.due = due;
        Ok(())
    }

    /// The thread of all applications has come to what they have asked for.
    #[cold]
    fn on_writer(&mut self) -> Result<(), ParamError> {
        while let Some((number, deed)) = self.writer.as_deref_mut().and_then(|writer| writer.take(self.now)) {
            match deed {
                Deed::Write(bytes, ideal, begun) => {
                    if self.ends(number).is_some() {
                        self.write_known(number, bytes, ideal, begun);
                        self.send(number)?;
                    }
                }
                Deed::Close => self.close_connection(number)?,
                Deed::Leave => self.leave_connection(number)?,
            }
        }
        self.look_ahead();
        Ok(())
    }
    /// Leaves a deed to that thread where it still has a write on that connection before it.
    fn follows(&mut self, number: u32, deed: Deed) -> bool {
        self.writer.as_deref_mut().is_some_and(|writer| writer.follow(number, deed))
    }
    fn close_connection(&mut self, number: u32) -> Result<(), ParamError> {
        let Some(o) = self.ends(number) else { return Ok(()) };
        self.hosts.at(o.src).nic.close(self.now, o.at_src, &mut self.wire);
        self.send(number)
    }
    fn leave_connection(&mut self, number: u32) -> Result<(), ParamError> {
        let Some(o) = self.ends(number) else { return Ok(()) };
        self.hosts.at(o.src).nic.leave(self.now, o.at_src, &mut self.wire);
        self.send(number)
    }

    /// What a workload has asked for, if it has.
    #[inline(always)]
    fn carry_out(&mut self, workload: u32) -> Result<(), ParamError> {
        if self.actions.is_empty() {
            self.plan(workload);
            return Ok(());
        }
        self.carry_out_all(workload)
    }
    #[inline(never)]
    fn carry_out_all(&mut self, workload: u32) -> Result<(), ParamError> {
        let mut actions = self.actions.take();
        for action in actions.drain(..) {
            match action {
                Action::Open(request) => self.open(workload, &request)?,
                Action::Write(FlowId(number), bytes) => self.write(number, bytes)?,
                Action::Close(FlowId(number)) => {
                    if !self.follows(number, Deed::Close) {
                        self.close_connection(number)?;
                    }
                }
                Action::Leave(FlowId(number)) => {
                    if !self.follows(number, Deed::Leave) {
                        self.leave_connection(number)?;
                    }
                }
                Action::Block { started, bytes } => {
                    let waited = self.waits.as_mut().map(|waits| std::mem::take(&mut waits.pending));
                    if self.measuring {
                        self.recorder.block(started, self.now, bytes);
                        // No longer than the block itself.
                        self.recorder.ack_waits += waited.unwrap_or_default().min(self.now.since(started));
                    }
                }
                Action::Collective { started, bytes, bus } => {
                    if self.measuring {
                        self.recorder.collective(started, self.now, bytes, bus);
                    }
                }
                Action::Over => self.on_over(workload),
                Action::Stop => {
                    self.on_over(workload);
                    self.complete.insert(workload);
                    self.stopped |= self.complete.len() == self.workloads.len();
                }
            }
        }
        self.actions.give_back(actions);
        self.plan(workload);
        Ok(())
    }

    /// The receivers of `workload` have everything. When that is true of all workloads, what is measured ends.
    fn on_over(&mut self, workload: u32) {
        if self.received.insert(workload) && self.received.len() == self.workloads.len() {
            self.over_at = self.now;
        }
    }

    /// Where the ends of an open flow are whose sender is here.
    fn ends(&self, number: u32) -> Option<Ends> {
        self.flows[number as usize].as_deref().map(|f| f.ends).filter(|o| self.is_here(o.src))
    }
    /// After an action on a flow: it is carried out before the next one. A host whose news are being acted on sends what else it has
    /// when that is done.
    pub(super) fn send(&mut self, number: u32) -> Result<(), ParamError> {
        let Some(o) = self.ends(number) else { return Ok(()) };
        self.hosts.at(o.src).nic.flush(self.now, o.at_src, &mut self.wire);
        self.touched(o.src)
    }
    /// One end of a connection at a host begins to listen, or is over: mostly nothing follows from it.
    fn glanced(&mut self, host: u32) -> Result<(), ParamError> {
        let told = !self.wire.told.is_empty();
        if told || !self.hosts.at(host).is_still() {
            return self.touched(host);
        }
        Ok(())
    }
    /// A host was called on behalf of an application.
    fn touched(&mut self, host: u32) -> Result<(), ParamError> {
        if host != self.busy {
            return self.settle(host);
        }
        self.take_lost();
        Ok(())
    }

    /// The sender knows that everything up to byte `end` was delivered.
    #[cold]
    pub(super) fn complete_writes(&mut self, number: u32, end: u64) -> Result<(), ParamError> {
        loop {
            let Some(flow) = self.flows[number as usize].as_deref_mut() else { return Ok(()) };
            let Some(write) = flow.writes.acked(end, &mut self.written) else { return Ok(()) };
            let (workload, tag) = (flow.workload, flow.tag);
            flow.transfers = flow.transfers.saturating_add(1);
            if self.measuring {
                self.record_transfer(number, &write);
            }
            let acked = Acked { flow: FlowId(number), tag, started: write.started, bytes: write.bytes };
            self.workloads[workload as usize].on_acked(self.now, &acked, &mut self.actions);
            self.carry_out(workload)?;
        }
    }

    /// The receiver has handed everything up to byte `end` to the application.
    pub(super) fn complete_deliveries(&mut self, number: u32, at: Time, end: u64) -> Result<(), ParamError> {
        loop {
            let Some(flow) = self.flows[number as usize].as_deref_mut() else { return Ok(()) };
            let Some(write) = flow.writes.note_delivered(at, end) else { return Ok(()) };
            let (workload, tag) = (flow.workload, flow.tag);
            if self.workloads[workload as usize].hears_deliveries() {
                let told = Acked { flow: FlowId(number), tag, started: write.started, bytes: write.bytes };
                let (o, protocol) = (flow.ends, usize::from(flow.protocol));
                let Engine { wire, setup, path: [_, links], .. } = self;
                let mut back = || {
                    wire.net.path(Way { src: o.dst, dst: o.src, entropy: o.back }, links);
                    ideal::request(&setup.topology, links, &setup.lengths[protocol])
                };
                let hears = &mut self.workloads[workload as usize];
                hears.on_delivered(self.now, &told, &mut back, &mut self.actions);
                self.carry_out(workload)?;
            }
        }
    }

    /// An application writes, at once or when the thread that they share comes to it.
    fn write(&mut self, number: u32, bytes: u64) -> Result<(), ParamError> {
        let Some(ideal) = self.ideal(number, bytes) else { return Ok(()) };
        if let Some(flow) = self.flows[number as usize].as_deref_mut() {
            flow.grow(bytes);
        }
        if let Some(writer) = self.writer.as_deref_mut() {
            writer.write(self.now, number, bytes, ideal);
            self.look_ahead();
            return Ok(());
        }
        self.write_known(number, bytes, ideal, self.now);
        self.send(number)
    }
    /// What a write made now takes in the idle network, in seconds.
    fn ideal(&mut self, number: u32, bytes: u64) -> Option<f64> {
        let flow = self.flows[number as usize].as_deref()?;
        let o = flow.ends;
        let lengths = &self.setup.lengths[usize::from(flow.protocol)];
        // A write made as the connection is opened waits for the handshake.
        let waits = lengths.handshake && flow.opened == self.now;
        let handshake = if waits { flow.idle_rtt } else { 0.0 };
        let (t, net) = (&self.setup.topology, &self.wire.net);
        if let Some((forward, back)) = net.layers(t, o.src, o.dst).zip(net.layers(t, o.dst, o.src)) {
            return Some(handshake + ideal::transfer_through(&forward, &back, lengths, bytes));
        }
        let [forward, back] = &mut self.path;
        net.path(Way { src: o.src, dst: o.dst, entropy: o.forth }, forward);
        net.path(Way { src: o.dst, dst: o.src, entropy: o.back }, back);
        Some(handshake + ideal::transfer(t, forward, back, lengths, bytes))
    }
    /// A write on an open connection, which began at `started` and takes `ideal` seconds in the idle network.
    fn write_known(&mut self, number: u32, bytes: u64, ideal: f64, started: Time) {
        let Some(o) = self.flows[number as usize].as_deref().map(|flow| flow.ends) else { return };
        let nic = &mut self.hosts.at(o.src).nic;
        nic.accept(self.now, o.at_src, bytes, &mut self.wire);
        let end = nic.accepted(o.at_src);
        self.note_write(number, (bytes, end), ideal, started);
    }
    /// The sender has taken on a write that ends with byte `end`.
    fn note_write(&mut self, number: u32, (bytes, end): (u64, u64), ideal: f64, started: Time) {
        let Some(flow) = self.flows[number as usize].as_deref_mut() else { return };
        let o = flow.ends;
        if o.at_dst != AWAY {
            self.hosts.at(o.dst).nic.expect(o.at_dst, end);
        }
        let due = flow.due();
        let write = Transfer { end, started, bytes, delivered: Time::NEVER, due, ideal };
        flow.writes.push(write, &mut self.written);
        if self.workloads[flow.workload as usize].open_loop() {
            self.recorder.offer(o.src, o.dst, bytes);
        }
    }

    fn open(&mut self, workload: u32, request: &FlowRequest) -> Result<(), ParamError> {
        let number = self.flows.len() as u32;
        let (from_here, to_here) = (self.is_here(request.src), self.is_here(request.dst));
        if !from_here && !to_here {
            // Of other parts; it has a number and perhaps a place here, too.
            self.flows.push(None);
            self.recorder.take_place();
            return Ok(());
        }
        let of_both = (request.src, request.dst, request.protocol);
        let (way, forth, back) = self.ways.draw(of_both, &mut self.wire.net, &self.setup, number)?;
        let endless = request.bytes == u64::MAX;
        let size = if endless { 0 } else { request.bytes };
        let (seat, protocol) = self.hosts.seats.of(request.protocol);
        let (bytes, close) = (request.bytes, request.close);
        let lengths = &self.setup.lengths[usize::from(request.protocol)];
        let idle_rtt = way.idle_rtt;
        let handshake = if lengths.handshake { idle_rtt } else { 0.0 };
        let ideal = handshake + way.transfer(&self.setup.topology, lengths, bytes);
        let ends = Opening {
            flow: FlowId(number),
            src: request.src,
            dst: request.dst,
            at_src: if from_here { self.hosts.at(request.src).handle() } else { AWAY },
            at_dst: if to_here { self.hosts.at(request.dst).handle() } else { AWAY },
            bytes: size,
            class: request.class,
            due: request.due,
            forth,
            back,
            protocol,
            group: self
                .groups
                .iter()
                .position(|g| g.contains(&workload))
                .map_or(Opening::ALONE, |g| g as u32),
            router: way
                .forward
                .last()
                .map_or(request.dst, |link| self.setup.topology.links[*link as usize].from),
        };
        let opening = ToOpen { at: self.now, workload, seat, ends, bytes, close, ideal };
        let o = &opening.ends;
        let mut flow = self.over.put(Flow::new(o));
        (flow.workload, flow.protocol, flow.tag) = (workload, request.protocol, request.tag);
        (flow.opened, flow.ideal, flow.idle_rtt) = (self.now, ideal, idle_rtt);
        flow.has_place = self.recorder.take_place();
        self.flows.push(Some(flow));
        self.open.push(number);
        self.trace_opened(number);
        if self.hosts.own {
            self.wire.own.push((o.dst, o.forth, o.back));
        }
        // Before its time, if it is asked for ahead: nothing of it comes before then.
        let asked = self.openings.asked_at(self.now);
        if to_here {
            self.hosts.at(o.dst).nic.listen(asked, seat, o, &mut self.wire);
        }
        if !from_here {
            if size > 0 {
                self.hosts.at(o.dst).nic.expect(o.at_dst, size);
            }
            return if asked < self.now { Ok(()) } else { self.touched(o.dst) };
        }
        if asked < self.now {
            self.openings.put(opening);
            return Ok(());
        }
        self.begin(&opening)?;
        if to_here {
            self.glanced(opening.ends.dst)?;
        }
        self.send(number)
    }
    /// The sending end of a connection opens, and is given what it carries.
    pub(super) fn begin(&mut self, opening: &ToOpen) -> Result<(), ParamError> {
        let ToOpen { seat, ends: ref o, bytes, close, ideal, .. } = *opening;
        let host = self.hosts.at(o.src);
        if o.group == Opening::ALONE && host.opens_silently(seat) && self.wire.told.is_empty() {
            let given = if bytes == u64::MAX { u64::MAX / 4 } else { bytes };
            host.nic.begin(self.now, seat, o, (given, close), &mut self.wire);
            if bytes > 0 && bytes < u64::MAX {
                self.note_write(o.flow.0, (bytes, bytes), ideal, self.now);
            }
            return Ok(());
        }
        self.hosts.at(o.src).nic.open(self.now, seat, o, &mut self.wire);
        self.hear()?;
        if bytes == u64::MAX {
            self.hosts.at(o.src).nic.accept(self.now, o.at_src, u64::MAX / 4, &mut self.wire);
        } else if bytes > 0 {
            // Its first write takes what it takes: the path is the one it was opened with, and both wait for the handshake.
            self.write_known(o.flow.0, bytes, ideal, self.now);
        }
        if close {
            self.hosts.at(o.src).nic.close(self.now, o.at_src, &mut self.wire);
        }
        Ok(())
    }

    /// A flow is over: keep its record, free the rest.
    pub(super) fn retire(&mut self, number: u32) -> Result<(), ParamError> {
        let Some(mut flow) = self.flows[number as usize].take() else { return Ok(()) };
        if flow.has_place {
            self.recorder.give_back();
        }
        self.keep(&flow, false);
        let o = flow.ends;
        let in_step = o.at_dst != AWAY && self.is_in_step(o.dst);
        if o.at_dst != AWAY && !in_step {
            // Its receiver is forgotten when the other hosts have come as far.
            flow.leave_receiver();
            self.flows[number as usize] = Some(flow);
        } else {
            self.over.take_back(flow);
            self.open.is_over(&self.flows);
        }
        for (host, handle) in [(o.dst, o.at_dst), (o.src, o.at_src)] {
            if handle == AWAY || !self.is_in_step(host) {
                self.tell_closed(number, host);
                continue;
            }
            let h = self.hosts.at(host);
            h.nic.forget(self.now, handle, &mut self.wire);
            h.give_back(handle);
        }
        if !self.wire.told.is_empty() {
            self.hear()?;
        }
        if in_step {
            self.glanced(o.dst)?;
        }
        self.touched(o.src)
    }
    /// Records a flow that is over, or was when the run ended.
    pub(super) fn keep(&mut self, flow: &Flow, open_at_end: bool) {
        let mut ends = flow.ends;
        if !self.is_in_step(ends.dst) {
            // What its receiver has counted is added later.
            ends.at_dst = AWAY;
        }
        let (sender, receiver) = self.hosts.ends(&ends);
        let totals = count(&sender, &receiver, flow.drops());
        let record = FlowRecord {
            closed: self.now,
            open_at_end,
            complete: !open_at_end && totals.acked_bytes >= flow.size,
            // A transport without a handshake is there as soon as something is acknowledged.
            established: sender.established || sender.acked_bytes > 0,
            srtt: sender.srtt,
            rtt_mean: sender.rtt_mean,
            ..flow.record()
        };
        let left = Leaving {
            totals,
            idle_rtt: flow.idle_rtt,
            owes: sender.acked_bytes < sender.accepted_bytes,
            unfinished: flow.writes.len() as u64,
            unfinished_bytes: flow.writes.bytes(),
            since: flow.writes.first().map_or(flow.opened, |w| w.started),
        };
        self.record_over(record, flow.baseline(), left);
    }

    // ---- account of every byte, in builds with debug assertions ----------------------------------------

    /// A packet reaches its host; answers the flow whose account is to be compared afterwards.
    #[cfg(debug_assertions)]
    pub(super) fn witness_arrival(&mut self, cell: &Cell) -> Option<u32> {
        let packet = &self.wire.net.arena.packets[cell.packet as usize];
        let number = packet.flow;
        let flow = self.flows[number as usize].as_deref_mut()?;
        let o = &flow.ends;
        if o.at_src == AWAY || cell.to != o.dst || packet.conn() != o.at_dst || !self.hosts.at_once {
            return None;
        }
        let written = self.hosts.ends(o).0.accepted_bytes;
        if self.setup.protocols[usize::from(flow.protocol)].0.stack.is_none() {
            flow.witness.arrive(packet, written);
        } else if packet.payload > 0 {
            flow.loose.arrive(packet.seq, packet.seq + u64::from(packet.payload), written);
        }
        Some(number)
    }
    /// The receiver has seen the packet.
    #[cfg(debug_assertions)]
    pub(super) fn witness_delivery(&mut self, number: Option<u32>) {
        let Some(flow) = number.and_then(|n| self.flows[n as usize].as_deref_mut()) else { return };
        let delivered = self.hosts.ends(&flow.ends).1.delivered_bytes;
        let (suite, config) = &self.setup.protocols[usize::from(flow.protocol)];
        if suite.stack.is_none() {
            flow.witness.check(flow.number, delivered, config.gro != penstock_units::Dur::ZERO);
        } else {
            flow.loose.check(flow.number, delivered, false);
        }
    }
}
