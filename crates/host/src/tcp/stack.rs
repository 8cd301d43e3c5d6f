//! TCP as a [`Stack`]: the calls of a driver.

use super::ready::Ready;
use super::{
    answer, arm, kind, on_ack, on_data, send_all, End, HostShare, ReceiveEnd, Route, SendEnd, TcpStack,
};
use crate::stack::Net;
use crate::stack::{
    poll_all, ApplicationReads, Counters, Exchange, Exchanged, FastPath, Io, Opening, Part, Stack, StackEvent,
};
use crate::writes::WriteEnds;
use penstock_core::quantity::{ACKED, CWND, RTT, SRTT};
use penstock_core::rng::Entity;
use penstock_core::tcp::{Phase, Receiver, Sender};
use penstock_core::{FlowId, Packet, Peer, Report, Stream};
use penstock_fabric::{prefetch, prefetch_all, Cell};
use penstock_units::{Dur, Time};

impl Stack for TcpStack {
    fn open(&mut self, io: &mut Io<'_>, o: &Opening, bytes: u64, close: bool) {
        let protocol = &self.options.protocols[o.protocol as usize];
        let stream = |entity| Stream::new(self.seed, self.run, entity, o.key);
        let control = (protocol.control)(&protocol.config, &|| stream(Entity::Host));
        let route = Route {
            flow: o.flow.0,
            peer: o.at_dst,
            to: o.dst,
            entropy: o.forth,
            class: o.class,
            listed: false,
            armed: Time::NEVER,
        };
        let (group, ends, share) = (o.group, WriteEnds::default(), HostShare::default());
        // Built in place: it is not moved as a whole.
        let rng = || stream(Entity::Sender);
        let mut end = self.senders.put(SendEnd {
            sender: Sender::new(protocol.config.clone(), control, o.flow.0, o.class, rng),
            route,
            group,
            ends,
            share,
        });
        let sender = &mut end.sender;
        (sender.view.size, sender.view.due) = (o.bytes, o.due);
        sender.open(io.now);
        if o.group != Opening::ALONE {
            sender.keep_news();
            let host = &mut self.options.groups[o.group as usize];
            host.on_open(io.now, o.flow, Peer { host: o.dst, router: o.router, class: o.class });
            io.stack_events.extend(host.take_transitions().into_iter().map(StackEvent::Transition));
        }
        if bytes > 0 {
            sender.write(io.now, bytes);
            if bytes < u64::MAX / 4 {
                end.ends.push(end.sender.view.app_end);
            }
        }
        if close {
            end.sender.close();
        }
        end.route.listed = true;
        self.place(o.at_src, End::Sender(end));
        self.ready.push(o.flow.0, o.at_src);
    }
    fn accept(&mut self, _: &mut Io<'_>, o: &Opening) {
        let protocol = o.protocol as usize;
        let config = self.options.protocols[protocol].config.clone();
        let header_len = self.header_len[protocol];
        let route = Route {
            flow: o.flow.0,
            peer: o.at_src,
            to: o.src,
            entropy: o.back,
            class: o.class,
            listed: false,
            armed: Time::NEVER,
        };
        let mut end = self.receivers.put(ReceiveEnd {
            receiver: Receiver::new(config, o.flow.0, header_len),
            route,
            ends: WriteEnds::default(),
        });
        if self.options.applications {
            end.receiver.follow_reads();
        }
        self.place(o.at_dst, End::Receiver(end));
    }
    fn set_peer(&mut self, conn: u32, peer: u32) {
        match self.ends.get_mut(conn as usize) {
            Some(End::Sender(end)) => end.route.peer = peer,
            Some(End::IdleSender(end)) => end.route.peer = peer,
            _ => {}
        }
    }
    fn write(&mut self, io: &mut Io<'_>, conn: u32, bytes: u64) {
        self.wake(conn);
        let end = self.sender(conn);
        end.sender.write(io.now, bytes);
        if bytes < u64::MAX / 4 {
            end.ends.push(end.sender.view.app_end);
        }
        self.list(conn);
    }
    fn close(&mut self, _: &mut Io<'_>, conn: u32) {
        self.wake(conn);
        self.sender(conn).sender.close();
        self.list(conn);
    }
    fn abort(&mut self, _: &mut Io<'_>, conn: u32) {
        self.wake(conn);
        self.sender(conn).sender.leave();
        self.list(conn);
    }
    fn remove(&mut self, io: &mut Io<'_>, conn: u32) {
        let end = core::mem::replace(&mut self.ends[conn as usize], End::Free);
        self.timers.remove(conn);
        self.unread.retain(|other| *other != conn);
        self.owing.retain(|other| *other != conn);
        if let Some(route) = end.route() {
            self.ready.remove(route.flow, conn);
        }
        match end {
            End::Sender(end) => {
                if end.group != Opening::ALONE {
                    let host = &mut self.options.groups[end.group as usize];
                    host.on_close(io.now, FlowId(end.route.flow));
                    io.stack_events.extend(host.take_transitions().into_iter().map(StackEvent::Transition));
                }
                self.senders.take_back(end);
            }
            End::Receiver(end) => {
                if let Some(control) = &mut self.options.receive {
                    control.on_close(io.now, end.route.flow);
                }
                self.receivers.take_back(end);
            }
            End::Free | End::IdleSender(_) | End::IdleReceiver(_) => {}
        }
    }

    #[inline]
    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell) {
        let packet = &mut io.arena.packets[cell.packet as usize];
        packet.ecn = cell.ecn();
        let (conn, flow) = (packet.conn(), packet.flow);
        let forward = packet.is_forward();
        let route = match self.ends.get_mut(conn as usize) {
            Some(End::Receiver(end)) if end.route.flow == flow && forward => {
                if on_data(end, &mut self.options, io, cell.packet) {
                    self.quiet.add(conn, end.receiver.delivered());
                }
                if self.options.applications && end.receiver.unread() && !self.unread.contains(&conn) {
                    self.unread.push(conn);
                }
                io.arena.release(cell.packet);
                &mut end.route
            }
            Some(End::Sender(end)) if end.route.flow == flow && !forward => {
                if !on_ack(end, &mut self.options, &mut self.connection_events, io, cell.packet) {
                    return;
                }
                &mut end.route
            }
            _ => {
                self.receive_beside(io, cell);
                return;
            }
        };
        if !route.listed {
            route.listed = true;
            self.ready.push(flow, conn);
        }
        if self.quiet.many() {
            self.rest_quiet();
        }
    }
    #[inline(always)]
    fn prefetch(&self, conn: u32, part: Part) {
        let Some(place) = self.ends.get(conn as usize) else { return };
        match (part, place) {
            (Part::Place, _) => prefetch(place),
            (Part::End, End::Sender(end)) => prefetch_all(&**end),
            (Part::End, End::Receiver(end)) => prefetch_all(&**end),
            (Part::Inside, End::Sender(end)) => {
                prefetch_all(end.sender.law());
                end.share.prefetch();
            }
            _ => {}
        }
    }
    #[inline]
    fn poll_transmit(&mut self, io: &mut Io<'_>, conn: Option<u32>) -> Option<Cell> {
        if let Some(conn) = conn {
            return self.poll(io, conn);
        }
        if io.paused != 0 {
            return self.poll_beside_pauses(io);
        }
        while let Some(conn) = self.ready.first() {
            if let Some(cell) = self.poll(io, conn) {
                self.ready.sent();
                return Some(cell);
            }
            self.ready.drop_first();
        }
        None
    }
    #[inline]
    fn on_departure(&mut self, at: Time) {
        let (conn, bytes) = self.last;
        if self.options.host_queue.is_some() && bytes > 0 {
            self.sender(conn).share.take(at, bytes);
        }
    }
    #[inline]
    fn ready_at(&self, paused: u8) -> Time {
        let one = self.options.priority_of.is_none();
        if self.ready.is_empty() || paused == u8::MAX || one && paused & (1 << self.options.priority) != 0 {
            Time::NEVER
        } else {
            Time::ZERO
        }
    }

    #[inline]
    fn next_timer(&self) -> Time {
        self.timers.next()
    }
    fn on_timer(&mut self, io: &mut Io<'_>) {
        if let Some(conn) = self.fire(io) {
            self.list(conn);
        }
    }

    fn counters(&self, conn: u32) -> Counters {
        match self.ends.get(conn as usize).unwrap_or(&End::Free) {
            End::Sender(end) => {
                let (s, rtt) = (&end.sender.stats, end.sender.rtt());
                Counters {
                    accepted_bytes: end.sender.view.app_end,
                    acked_bytes: end.sender.acked(),
                    data_packets: s.data_packets,
                    retransmits: s.retransmits,
                    timeouts: s.timeouts,
                    fast_retransmits: s.fast_retransmits,
                    ece_acks: s.ece_acks,
                    tail_loss_probes: s.probes,
                    probe_wait: s.probe_wait,
                    established: !matches!(end.sender.phase(), Phase::Closed | Phase::SynSent),
                    srtt: rtt.smoothed,
                    rtt_mean: Dur(rtt.total.0 / rtt.samples.max(1)),
                    ..Counters::default()
                }
            }
            End::Receiver(end) => Counters {
                delivered_bytes: end.receiver.delivered(),
                arrived_bytes: end.receiver.arrived(),
                duplicate_bytes: end.receiver.duplicate_bytes,
                ..Counters::default()
            },
            End::IdleSender(end) => end.counters(),
            End::IdleReceiver(end) => end.counters(),
            End::Free => Counters::default(),
        }
    }
    fn missing_below(&self, conn: u32, end: u64) -> u64 {
        match &self.ends[conn as usize] {
            End::Receiver(e) => e.receiver.missing_below(end),
            End::IdleReceiver(e) => end.saturating_sub(e.receiver.delivered()),
            _ => 0,
        }
    }
    fn observe(&self, conn: u32, report: &mut Report<'_>) {
        if let End::Sender(end) = &self.ends[conn as usize] {
            report(&CWND, end.sender.cwnd() as f64);
            report(&ACKED, end.sender.acked() as f64);
            report(&SRTT, end.sender.rtt().smoothed.as_secs());
            report(&RTT, end.sender.view.rtt_latest.as_secs());
            end.sender.observe(report);
        } else if let End::IdleSender(end) = &self.ends[conn as usize] {
            end.observe(report);
        }
    }
}

impl ApplicationReads for TcpStack {
    fn unread(&self) -> bool {
        !self.unread.is_empty()
    }
    fn read(&mut self) -> bool {
        for conn in core::mem::take(&mut self.unread) {
            let End::Receiver(end) = &mut self.ends[conn as usize] else { continue };
            if end.receiver.on_read() {
                self.owing.push(conn);
            }
        }
        !self.owing.is_empty()
    }
    fn reply(&mut self) {
        for conn in core::mem::take(&mut self.owing) {
            if let End::Receiver(end) = &mut self.ends[conn as usize] {
                end.receiver.reply();
                self.list(conn);
            }
        }
    }
    fn dupack(&self, conn: u32, packet: &Packet) -> bool {
        match self.ends.get(conn as usize) {
            Some(End::Receiver(e)) => e.receiver.dupack(packet),
            Some(End::IdleReceiver(e)) => e.receiver.dupack(packet),
            _ => false,
        }
    }
}

impl FastPath for TcpStack {
    #[inline(always)]
    fn receive_and_send<N: Net>(&mut self, x: &mut Exchange<'_, N>, cell: &Cell) -> Exchanged {
        let Exchange { now, port, paused, stack_events, net } = x;
        let (now, priority) = (*now, self.options.priority);
        let mut io = Io { now, arena: net.arena(), stack_events, paused: *paused, waited: Dur::ZERO };
        if !self.ready.is_empty() || *paused != 0 {
            self.receive(&mut io, cell);
            return Exchanged::Told;
        }
        let slot = cell.packet;
        let packet = &mut io.arena.packets[slot as usize];
        packet.ecn = cell.ecn();
        let (conn, flow, forward) = (packet.conn(), packet.flow, packet.is_forward());
        let done = |armed| if armed { Exchanged::Armed } else { Exchanged::Done };
        let told = match self.ends.get_mut(conn as usize) {
            Some(End::Receiver(end)) if end.route.flow == flow && forward => {
                let quiet = on_data(end, &mut self.options, &mut io, slot);
                if stack_events.is_empty() {
                    // The slot of the data carries its ACK.
                    net.arena().renew(slot);
                    answer(end, now, *port, priority, slot, *net);
                    return done(arm(
                        &mut self.timers,
                        end.receiver.deadline(),
                        kind::RECEIVER,
                        &mut end.route,
                        conn,
                    ));
                }
                net.arena().release(slot);
                if quiet {
                    self.quiet.add(conn, end.receiver.delivered());
                }
                &mut end.route
            }
            Some(End::Sender(end)) if end.route.flow == flow && !forward => {
                if !on_ack(end, &mut self.options, &mut self.connection_events, &mut io, slot) {
                    return Exchanged::Told;
                }
                if stack_events.is_empty() {
                    send_all(end, &self.options, now, *port, *net);
                    return done(arm(
                        &mut self.timers,
                        end.sender.deadline(),
                        kind::SENDER,
                        &mut end.route,
                        conn,
                    ));
                }
                &mut end.route
            }
            _ => {
                let told = self.receive_beside(&mut io, cell);
                return if told { Exchanged::Told } else { Exchanged::Done };
            }
        };
        // The driver acts on events first; then the connection sends.
        told.listed = true;
        self.ready.push(flow, conn);
        if self.quiet.many() {
            self.rest_quiet();
        }
        Exchanged::Told
    }
    #[inline(always)]
    fn on_timer_and_send<N: Net>(&mut self, x: &mut Exchange<'_, N>) -> Exchanged {
        let Exchange { now, port, paused, stack_events, net } = x;
        let (now, priority) = (*now, self.options.priority);
        let mut io = Io { now, arena: net.arena(), stack_events, paused: *paused, waited: Dur::ZERO };
        if !self.ready.is_empty() || *paused != 0 {
            self.on_timer(&mut io);
            return Exchanged::Told;
        }
        let Some(conn) = self.fire(&mut io) else { return Exchanged::Armed };
        if !stack_events.is_empty() {
            self.list(conn);
            return Exchanged::Told;
        }
        match &mut self.ends[conn as usize] {
            End::Sender(end) => {
                send_all(end, &self.options, now, *port, *net);
                arm(&mut self.timers, end.sender.deadline(), kind::SENDER, &mut end.route, conn);
            }
            End::Receiver(end) => {
                if end.receiver.may_send() {
                    let slot = net.arena().alloc();
                    answer(end, now, *port, priority, slot, *net);
                }
                arm(&mut self.timers, end.receiver.deadline(), kind::RECEIVER, &mut end.route, conn);
            }
            End::Free | End::IdleSender(_) | End::IdleReceiver(_) => {}
        }
        Exchanged::Armed
    }
    fn transmit_all<N: Net>(&mut self, x: &mut Exchange<'_, N>, conn: Option<u32>) {
        let in_turn = !matches!(self.ready, Ready::Drain(_));
        match conn {
            _ if in_turn => poll_all(self, x, conn),
            Some(conn) => self.send_all_of(x, conn),
            None if x.paused != 0 => poll_all(self, x, None),
            None => {
                while let Some(conn) = self.ready.first() {
                    self.send_all_of(x, conn);
                    self.ready.drop_first();
                }
            }
        }
    }
    #[inline]
    fn drop_stale_timers(&mut self) {
        self.timers.drop_stale();
    }
}
