//! Connections that open, writes, and what is left of a connection that is over.

use super::hosts::count;
use super::openings::ToOpen;
use super::part::{Coming, ControlMessage};
use super::Engine;
use crate::flow::{Closed, Ends, Flow, AWAY};
use crate::ideal;
use crate::metrics::{FlowCounters, FlowRecord, Leaving, Transfer};
use crate::network::FlowRoute;
use crate::numbers::NONE;
use crate::workloads::dispatch::AppId;
use crate::workloads::{FlowRequest, Written};
use penstock_core::{FlowId, ParamError};
use penstock_fabric::Cell;
use penstock_host::latency::Deed;
use penstock_host::Opening;
use penstock_units::{Dur, Time};

impl Engine {
    /// The thread of all applications has come to what they have asked for.
    #[cold]
    pub(super) fn on_writer(&mut self) -> Result<(), ParamError> {
        while let Some((number, deed)) = self.writer.as_deref_mut().and_then(|writer| writer.take(self.now)) {
            match deed {
                Deed::Write(bytes, tag, ideal, begun) => {
                    if self.ends(number).is_some() {
                        self.write_known(number, bytes, tag, ideal, begun);
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
    pub(super) fn close_connection(&mut self, number: u32) -> Result<(), ParamError> {
        if self.follows(number, Deed::Close) {
            return Ok(());
        }
        let Some(o) = self.ends(number) else { return Ok(()) };
        self.hosts.at(o.src).nic.close(self.now, o.at_src, &mut self.wire);
        self.send(number)
    }
    pub(super) fn leave_connection(&mut self, number: u32) -> Result<(), ParamError> {
        if self.follows(number, Deed::Leave) {
            return Ok(());
        }
        let Some(o) = self.ends(number) else { return Ok(()) };
        self.hosts.at(o.src).nic.abort(self.now, o.at_src, &mut self.wire);
        self.send(number)
    }

    /// Where the ends of an open flow are whose sender is here.
    fn ends(&self, number: u32) -> Option<Ends> {
        self.flows.at(number).map(|f| f.ends).filter(|o| o.at_src != AWAY)
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
            let Some(flow) = self.flows.at_mut(number) else { return Ok(()) };
            let Some(write) = flow.writes.acked(end, &mut self.written) else { return Ok(()) };
            let (workload, o) = (flow.workload, flow.ends);
            flow.transfers = flow.transfers.saturating_add(1);
            if self.measuring {
                self.record_transfer(number, &write);
            }
            let Transfer { tag, bytes, .. } = write;
            let acked = Written { flow: FlowId(number), src: o.src, dst: o.dst, tag, bytes };
            self.tell_acked(workload, acked)?;
        }
    }

    /// The receiver has handed everything up to byte `end` to the application.
    pub(super) fn complete_deliveries(&mut self, number: u32, at: Time, end: u64) -> Result<(), ParamError> {
        loop {
            let Some(flow) = self.flows.at_mut(number) else { return Ok(()) };
            // Of one of several logical processes it knows just what applications of the receiver are to hear.
            let write = match flow.ends.at_src == AWAY && flow.closed.is_none() {
                true => flow.writes.acked(end, &mut self.written),
                false => flow.writes.note_delivered(at, end),
            };
            let Some(write) = write else { return Ok(()) };
            let (workload, o) = (flow.workload, flow.ends);
            let Transfer { tag, bytes, .. } = write;
            let delivered = Written { flow: FlowId(number), src: o.src, dst: o.dst, tag, bytes };
            self.tell_delivered(workload, delivered)?;
        }
    }

    /// An application writes, at once or when the thread that they share comes to it.
    pub(super) fn write(&mut self, number: u32, bytes: u64, tag: u64) -> Result<(), ParamError> {
        let over = |flow: &Flow| flow.closed.is_some();
        if self.flows.at(number).is_none_or(over) {
            return Ok(());
        }
        let Some(ideal) = self.ideal(number, bytes) else { return Ok(()) };
        if let Some(flow) = self.flows.at_mut(number) {
            flow.grow(bytes);
        }
        if let Some(writer) = self.writer.as_deref_mut() {
            writer.write(self.now, number, (bytes, tag), ideal);
            self.look_ahead();
            return Ok(());
        }
        self.write_known(number, bytes, tag, ideal, self.now);
        self.send(number)
    }
    /// What a write made now takes in the idle network, in seconds.
    fn ideal(&mut self, number: u32, bytes: u64) -> Option<f64> {
        let flow = self.flows.at(number)?;
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
        net.path(FlowRoute { src: o.src, dst: o.dst, entropy: o.forth }, forward);
        net.path(FlowRoute { src: o.dst, dst: o.src, entropy: o.back }, back);
        Some(handshake + ideal::transfer(t, forward, back, lengths, bytes))
    }
    /// A write on an open connection, which began at `started` and takes `ideal` seconds in the idle network.
    fn write_known(&mut self, number: u32, bytes: u64, tag: u64, ideal: f64, started: Time) {
        let Some(o) = self.flows.at(number).map(|flow| flow.ends) else { return };
        let nic = &mut self.hosts.at(o.src).nic;
        nic.write(self.now, o.at_src, bytes, &mut self.wire);
        let end = nic.accepted(o.at_src);
        self.note_write(number, (bytes, end, tag), ideal, started);
    }
    /// The sender has taken on a write that ends with byte `end`.
    fn note_write(&mut self, number: u32, (bytes, end, tag): (u64, u64, u64), ideal: f64, started: Time) {
        let Some(flow) = self.flows.at_mut(number) else { return };
        let o = flow.ends;
        let due = flow.due();
        let write = Transfer { end, started, bytes, tag, delivered: Time::NEVER, due, ideal };
        flow.writes.push(write, &mut self.written);
        let workload = flow.workload;
        if self.apps.workloads()[workload as usize].overloads() {
            self.recorder.offer(o.src, o.dst, bytes);
        }
        if !self.is_here(o.dst) && self.apps.at(workload, o.dst).is_some() {
            self.own_part().tell(o.dst, ControlMessage::Wrote { flow: number, end, bytes, tag });
        }
    }

    /// An application opens a connection; `place` is that among the actions of its call.
    pub(super) fn open(&mut self, id: AppId, place: u64, request: &FlowRequest) -> Result<(), ParamError> {
        let workload = id.workload;
        if !self.is_here(request.src) {
            // The logical process of its host opens it.
            return Ok(());
        }
        let FlowId(number) = self.numbers.next(request.src);
        if number == NONE {
            let (most, hosts) = (self.numbers.most(), self.setup.topology.hosts().len());
            let rule = format!("a host of a network of {hosts} hosts can open {most} connections in a run");
            return Err(ParamError::new("connections", most, rule));
        }
        let key = self.keys.next(request.src, workload);
        let to_here = self.is_here(request.dst);
        let of_both = (request.src, request.dst, request.protocol);
        let (route, forth, back) = self.routes.draw(of_both, &mut self.wire.net, &self.setup, key)?;
        let endless = request.bytes == u64::MAX;
        let size = if endless { 0 } else { request.bytes };
        let (stack_slot, protocol) = self.hosts.stack_slots.of(request.protocol);
        let (bytes, close) = (request.bytes, request.close);
        let lengths = &self.setup.lengths[usize::from(request.protocol)];
        let idle_rtt = route.idle_rtt;
        let handshake = if lengths.handshake { idle_rtt } else { 0.0 };
        let ideal = handshake + route.transfer(&self.setup.topology, lengths, bytes);
        let ends = Opening {
            flow: FlowId(number),
            key,
            src: request.src,
            dst: request.dst,
            at_src: self.hosts.at(request.src).handle(),
            at_dst: AWAY,
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
            router: route
                .forward
                .last()
                .map_or(request.dst, |link| self.setup.topology.links[*link as usize].from),
        };
        let order = self.part.as_deref().map_or(0, |part| part.order());
        let opening = ToOpen { at: self.now, order, stack_slot, ends, bytes, tag: request.tag, close, ideal };
        let o = &opening.ends;
        let mut flow = self.over.put(Flow::new(o));
        (flow.workload, flow.protocol) = (workload, request.protocol);
        (flow.opened, flow.ideal, flow.idle_rtt) = (self.now, ideal, idle_rtt);
        if !self.joins_later() {
            (flow.row, flow.has_place) = (self.opened, self.recorder.take_place());
            self.opened += 1;
        }
        self.flows.put(number, flow);
        self.open.push(number);
        self.trace_opened(number);
        if self.hosts.own {
            *self.wire.own.entry(number) = (o.dst, o.forth, o.back);
        }
        self.note_opened(number, (id, place), o.dst);
        if to_here {
            self.coming.insert(number, (stack_slot, *o));
        } else {
            let (ends, protocol, at) = (Opening { at_src: AWAY, ..*o }, request.protocol, self.now);
            let coming = Box::new(Coming { ends, stack_slot, workload, protocol, at });
            self.own_part().tell(o.dst, ControlMessage::Opened(coming));
        }
        if self.openings.asked_at(self.now) < self.now {
            self.openings.put(opening);
            return Ok(());
        }
        self.begin(&opening)?;
        self.send(number)
    }
    /// A connection opens in another logical process that leads to a host here.
    pub(super) fn take_opening(&mut self, coming: Coming) {
        let Coming { ends: o, stack_slot, workload, protocol, at } = coming;
        let FlowId(number) = o.flow;
        let mut flow = self.over.put(Flow::new(&o));
        (flow.workload, flow.protocol, flow.opened) = (workload, protocol, at);
        self.look_at_coming(number, o.dst, protocol);
        self.flows.put(number, flow);
        self.open.push(number);
        if self.hosts.own {
            *self.wire.own.entry(number) = (o.dst, o.forth, o.back);
        }
        self.coming.insert(number, (stack_slot, o));
    }
    /// A packet is about to reach its host. One that names no end is among the first of its connection: the first of all makes the receiving end.
    #[inline(always)]
    pub(super) fn find_end(&mut self, cell: &Cell) {
        if self.wire.net.arena.packets[cell.packet as usize].conn() == AWAY {
            self.find_end_of(cell);
        }
    }
    #[cold]
    #[inline(never)]
    fn find_end_of(&mut self, cell: &Cell) {
        let number = self.wire.net.arena.packets[cell.packet as usize].flow;
        let Some(flow) = self.flows.at_mut(number) else { return };
        let o = &mut flow.ends;
        if o.dst != cell.to {
            return;
        }
        if let Some((stack_slot, mut opening)) = self.coming.remove(&number) {
            let host = self.hosts.at(o.dst);
            o.at_dst = host.handle();
            opening.at_dst = o.at_dst;
            host.nic.accept(self.now, stack_slot, &opening, &mut self.wire);
            if o.at_src != AWAY {
                self.hosts.at(o.src).nic.set_peer(o.at_src, o.at_dst);
            }
        }
        self.wire.net.arena.packets[cell.packet as usize].set_conn(o.at_dst);
    }
    /// The sending end of a connection opens, and is given what it carries.
    pub(super) fn begin(&mut self, opening: &ToOpen) -> Result<(), ParamError> {
        let ToOpen { stack_slot, ends: ref o, bytes, tag, close, ideal, .. } = *opening;
        let host = self.hosts.at(o.src);
        if o.group == Opening::ALONE && host.opens_silently(stack_slot) && self.wire.told.is_empty() {
            let given = if bytes == u64::MAX { u64::MAX / 4 } else { bytes };
            host.nic.begin(self.now, stack_slot, o, (given, close), &mut self.wire);
            if bytes > 0 && bytes < u64::MAX {
                self.note_write(o.flow.0, (bytes, bytes, tag), ideal, self.now);
            }
            return Ok(());
        }
        self.hosts.at(o.src).nic.open(self.now, stack_slot, o, &mut self.wire);
        self.hear()?;
        if bytes == u64::MAX {
            self.hosts.at(o.src).nic.write(self.now, o.at_src, u64::MAX / 4, &mut self.wire);
        } else if bytes > 0 {
            // Its first write takes what it takes: the path is the one it was opened with, and both wait for the handshake.
            self.write_known(o.flow.0, bytes, tag, ideal, self.now);
        }
        if close {
            self.hosts.at(o.src).nic.close(self.now, o.at_src, &mut self.wire);
        }
        Ok(())
    }

    /// Removes the sender of a flow, which is done. The receiving end is removed one idle delay of the path later
    /// ([`Self::remove_receiver`]). Until then it acknowledges packets that are still under way.
    pub(super) fn retire(&mut self, number: u32) -> Result<(), ParamError> {
        let Some(mut flow) = self.flows.take(number) else { return Ok(()) };
        let o = flow.ends;
        if o.at_src == AWAY {
            self.flows.put(number, flow);
            return Ok(());
        }
        if flow.has_place {
            self.recorder.give_back();
        }
        self.note_closing(number);
        let closed = self.sending_half(&flow, false);
        let at = self.now + self.delay_to(&o);
        if !self.is_here(o.dst) {
            self.tell_closed(&flow, closed, at);
            self.over.take_back(flow);
            self.open.is_over(&self.flows);
        } else {
            flow.close(closed);
            self.flows.put(number, flow);
            self.wire.net.deadlines.push_removal(at, number);
        }
        let host = self.hosts.at(o.src);
        host.nic.remove(self.now, o.at_src, &mut self.wire);
        host.give_back(o.at_src);
        if !self.wire.told.is_empty() {
            self.hear()?;
        }
        self.touched(o.src)
    }
    /// Propagation delay from the sender of a flow to its receiver, which no message can be faster than. Where a failure has left no path it is that of
    /// the longest link: no lookahead window is longer.
    fn delay_to(&mut self, o: &Ends) -> Dur {
        let Engine { wire, setup, path: [links, _], .. } = self;
        wire.net.path(FlowRoute { src: o.src, dst: o.dst, entropy: o.forth }, links);
        let all = &setup.topology.links;
        let delay = links.iter().fold(Dur::ZERO, |sum, link| sum + all[*link as usize].delay);
        if links.is_empty() {
            return all.iter().map(|link| link.delay).max().unwrap_or(Dur::ZERO);
        }
        delay
    }
    /// The sender of a flow is done, and its receiver has heard of it: it is removed, and the flow is recorded.
    pub(super) fn remove_receiver(&mut self, number: u32) -> Result<(), ParamError> {
        let receiver = self.flows.at(number).map(|flow| flow.ends).filter(|o| o.at_dst != AWAY);
        if let (true, Some(o)) = (self.hosts.pull, receiver) {
            // What its card has lost until now counts.
            self.hosts.at(o.dst).nic.advance(self.now, &mut self.wire);
            self.take_replayed();
        }
        let Some(flow) = self.flows.take(number) else { return Ok(()) };
        if let Some(part) = self.part.as_deref_mut() {
            part.note_over(number, flow.row);
        }
        self.open.is_over(&self.flows);
        let o = flow.ends;
        self.keep(flow);
        if o.at_dst == AWAY {
            // Nothing of it has arrived.
            self.coming.remove(&number);
            return Ok(());
        }
        let host = self.hosts.at(o.dst);
        host.nic.remove(self.now, o.at_dst, &mut self.wire);
        host.give_back(o.at_dst);
        if !self.wire.told.is_empty() {
            self.hear()?;
        }
        self.glanced(o.dst)
    }
    /// What the sender of a flow knows of it when it is done, or at the end of the run.
    fn sending_half(&self, flow: &Flow, open_at_end: bool) -> Closed {
        let (sender, _) = self.hosts.ends(&flow.ends);
        let record = FlowRecord {
            closed: self.now,
            open_at_end,
            complete: !open_at_end && sender.acked_bytes >= flow.size,
            // A transport without a handshake is there as soon as something is acknowledged.
            established: sender.established || sender.acked_bytes > 0,
            srtt: sender.srtt,
            rtt_mean: sender.rtt_mean,
            ..flow.record()
        };
        let left = Leaving {
            totals: FlowCounters::ZERO,
            idle_rtt: flow.idle_rtt,
            owes: sender.acked_bytes < sender.accepted_bytes,
            unfinished: flow.writes.len() as u64,
            unfinished_bytes: flow.writes.bytes(),
            since: flow.writes.first().map_or(flow.opened, |w| w.started),
        };
        Closed { record, sender, left }
    }
    /// Records a flow whose receiver is removed, or that was there when the run ended.
    pub(super) fn keep(&mut self, mut flow: Box<Flow>) {
        let closed = flow.closed.take();
        if closed.is_some() || flow.ends.at_src != AWAY {
            let closed = closed.map_or_else(|| self.sending_half(&flow, true), |closed| *closed);
            let (_, receiver) = self.hosts.ends(&flow.ends);
            let totals = count(&closed.sender, &receiver, flow.drops());
            self.record_over(closed.record, flow.baseline(), Leaving { totals, ..closed.left });
        } else {
            self.keep_half(&flow);
        }
        self.over.take_back(flow);
    }

    // ---- account of every byte, in builds with debug assertions ----------------------------------------

    /// A packet reaches its host; answers the flow whose account is to be compared afterwards.
    #[cfg(debug_assertions)]
    pub(super) fn witness_arrival(&mut self, cell: &Cell) -> Option<u32> {
        let packet = &self.wire.net.arena.packets[cell.packet as usize];
        let number = packet.flow;
        let flow = self.flows.at_mut(number)?;
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
        let Some(flow) = number.and_then(|n| self.flows.at_mut(n)) else { return };
        let delivered = self.hosts.ends(&flow.ends).1.delivered_bytes;
        let (suite, config) = &self.setup.protocols[usize::from(flow.protocol)];
        if suite.stack.is_none() {
            flow.witness.check(flow.number, delivered, config.gro != penstock_units::Dur::ZERO);
        } else {
            flow.loose.check(flow.number, delivered, false);
        }
    }
}
