//! The loop: take the next event, let the object concerned handle it, re-arm its one deadline.

mod connections;

use crate::events::{Ties, Wake};
use crate::flow::{Flow, ALONE};
use crate::metrics::Recorder;
use crate::network::{Conservation, Network, Way};
use crate::results::{Bottleneck, Measured};
use crate::setup::{Collective, Setup};
use crate::topology::Topology;
use crate::workloads::{Actions, Workload};
use penstock_core::packet::flag;
use penstock_core::receive::ReceiveController;
use penstock_core::tcp::{News, TcpConfig};
use penstock_core::{Ack, Amount, FlowId, ParamError};
use penstock_fabric::{Port, Segments};
use penstock_models::Suite;
use penstock_units::{Dur, Time};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Shared with whoever watches the run: progress out, cancellation in.
#[derive(Default)]
pub struct Progress {
    /// Simulated time so far, in picoseconds.
    pub now_ps: AtomicU64,
    /// Simulated time at the end, in picoseconds.
    pub end_ps: AtomicU64,
    /// Set to stop the run early; partial results are kept.
    pub cancelled: AtomicBool,
}

/// A run in progress.
pub struct Engine {
    now: Time,
    net: Network,
    flows: Vec<Option<Box<Flow>>>,
    /// Numbers of the open ones: nothing walks flows that are over.
    open: BTreeSet<u32>,
    /// Receiver-side controllers by host; empty when there is none.
    receive: Vec<Option<Box<dyn ReceiveController>>>,
    workloads: Vec<Box<dyn Workload>>,
    collectives: Vec<Collective>,
    news: Vec<News>,
    next_workload: Time,
    /// The ports of a way, while they are looked at.
    path: [Vec<u32>; 2],
    /// When each workload acts next, and the same in order of time.
    workload_at: Vec<Time>,
    agenda: BTreeSet<(Time, u32)>,
    actions: Actions,
    setup: SetupRest,
    measuring: bool,
    stopped: bool,
    /// What has been recorded.
    pub recorder: Recorder,
}

struct SetupRest {
    topology: Topology,
    protocols: Vec<(Suite, Arc<TcpConfig>)>,
    protocol_names: Vec<String>,
    end: Time,
    warmup: Time,
    seed: u64,
    run: u64,
    framing: u32,
    ties: Ties,
    bottleneck: Bottleneck,
    notes: Vec<String>,
    host_queue: Option<Amount>,
}

impl Engine {
    /// Builds the network and asks every workload for its first event.
    ///
    /// # Errors
    /// What [`Setup::check`] finds.
    pub fn new(setup: Setup) -> Result<Engine, ParamError> {
        setup.check()?;
        let net = Network::new(&setup)?;
        let receive = setup.receive_controllers();
        let Setup { topology, protocols, seed, run, .. } = setup;
        let mut engine = Engine {
            now: Time::ZERO,
            net,
            flows: Vec::new(),
            open: BTreeSet::new(),
            receive,
            workload_at: vec![Time::NEVER; setup.workloads.len()],
            agenda: BTreeSet::new(),
            workloads: setup.workloads,
            collectives: setup.collectives,
            news: Vec::new(),
            path: Default::default(),
            next_workload: Time::NEVER,
            actions: Actions::default(),
            setup: SetupRest {
                topology,
                protocols,
                protocol_names: setup.protocol_names,
                end: Time::ZERO + setup.duration,
                warmup: Time::ZERO + setup.warmup,
                seed,
                run,
                framing: setup.framing,
                ties: setup.ties,
                bottleneck: setup.bottleneck,
                notes: setup.notes,
                host_queue: setup.host_queue,
            },
            measuring: setup.warmup == Dur::ZERO,
            stopped: false,
            recorder: setup.recorder,
        };
        for workload in 0..engine.workloads.len() {
            engine.plan(workload as u32);
        }
        if engine.measuring {
            engine.recorder.start(Time::ZERO);
        }
        Ok(engine)
    }

    /// Runs to the end, to a workload's stop, or to a cancellation; true when it was not cancelled.
    ///
    /// # Errors
    /// A workload that asks for an impossible flow.
    pub fn run(&mut self, progress: &Progress) -> Result<bool, ParamError> {
        progress.end_ps.store(self.setup.end.0, Ordering::Relaxed);
        let mut completed = true;
        let mut budget = 0u32;
        while !self.stopped {
            let arrival = self.net.next_arrival();
            let deadline = self.net.deadlines.peek();
            let other = self.next_workload.min(self.recorder.next_sample());
            let next = arrival.min(deadline).min(other);
            if !self.measuring && next >= self.setup.warmup {
                self.end_warmup(self.setup.warmup);
            }
            if next > self.setup.end || next == Time::NEVER {
                break;
            }
            self.now = next;
            if arrival == next {
                self.on_arrival()?;
            } else if deadline == next {
                self.on_deadline()?;
            } else if self.next_workload == next {
                self.on_workload()?;
            } else {
                self.on_sample();
            }
            budget += 1;
            if budget >= 1 << 14 {
                budget = 0;
                progress.now_ps.store(self.now.0, Ordering::Relaxed);
                if progress.cancelled.load(Ordering::Relaxed) {
                    completed = false;
                    break;
                }
            }
        }
        if !self.stopped && completed {
            self.now = self.setup.end;
        }
        if !self.measuring {
            // It ended before its warm-up: nothing is measured.
            self.end_warmup(self.now);
        }
        self.finish();
        progress.now_ps.store(self.setup.end.0, Ordering::Relaxed);
        Ok(completed)
    }

    // ---- packets -------------------------------------------------------------------------------------

    #[inline]
    fn on_arrival(&mut self) -> Result<(), ParamError> {
        let arrived = self.net.arrive(self.now);
        self.take_lost();
        arrived.map_or(Ok(()), |packet| self.deliver(packet.slot))
    }

    /// The packet in slot `id` begins its way; false when its own host's port has dropped it.
    #[inline]
    fn transmit(&mut self, way: Way, id: u32) -> bool {
        let queued = self.net.send(self.now, way, id);
        self.take_lost();
        queued
    }

    /// Counts lost packets with their connections and frees their slots.
    #[inline]
    fn take_lost(&mut self) {
        while let Some(id) = self.net.next_lost() {
            let packet = &self.net.arena.packets[id as usize];
            if self.measuring && packet.has(flag::SYN) {
                self.recorder.syn_drops += 1;
            }
            if let Some(f) = &mut self.flows[packet.flow as usize] {
                f.drops += 1;
            }
            self.net.arena.release(id);
        }
    }

    #[inline]
    fn deliver(&mut self, id: u32) -> Result<(), ParamError> {
        let slot = self.net.arena.header_slot(id);
        let packet = self.net.arena.packets[id as usize];
        let number = packet.flow;
        // A packet of a connection that is over (a duplicate still on its way) is delivered to nobody.
        let Some(flow) = self.flows[number as usize].as_deref_mut() else {
            self.net.arena.release(id);
            return Ok(());
        };
        if packet.is_forward() {
            if let Some(control) = self.receive.get_mut(flow.record.dst as usize).and_then(Option::as_mut) {
                control.on_data(self.now, number, &packet);
                flow.receiver.set_window_cap(control.window_cap(number));
            }
            flow.receiver.on_packet(self.now, &packet, &self.net.arena.headers[slot]);
            #[cfg(debug_assertions)]
            {
                flow.witness.arrive(&packet, flow.sender.view.app_end);
                flow.witness.check(number, flow.receiver.delivered());
            }
            if flow.undelivered < flow.writes.len() {
                flow.note_delivered(self.now);
            }
            // The slot of the data packet carries its ACK.
            let mut slot_free = Some(id);
            loop {
                let flow = self.flows[number as usize].as_deref_mut().expect("checked above");
                let id = slot_free.take().unwrap_or_else(|| self.net.arena.alloc());
                let (packet, header) = self.net.arena.segment(id);
                if !flow.receiver.poll_transmit(self.now, packet, header) {
                    self.net.arena.release(id);
                    break;
                }
                let way = flow.back;
                self.transmit(way, id);
            }
            let flow = self.flows[number as usize].as_deref_mut().expect("checked above");
            let at = flow.receiver.deadline();
            if flow.receiver_wake.arm(at) {
                self.net.deadlines.push(at, Wake::Receiver, number);
            }
            Ok(())
        } else {
            let cuts = flow.sender.stats.fast_retransmits;
            flow.sender.on_packet(self.now, &packet, &self.net.arena.headers[slot]);
            if flow.sender.stats.fast_retransmits != cuts && self.measuring {
                let (outstanding, cwnd) =
                    (flow.sender.view.max_sent - flow.sender.view.una, flow.sender.cwnd());
                let lost = flow.receiver.missing_below(flow.sender.view.max_sent);
                self.recorder.fast_retransmit(self.now, number, outstanding, cwnd, flow.drops, lost);
            }
            if flow.collective != ALONE {
                self.tell_host(number, slot);
            }
            self.net.arena.release(id);
            self.after_ack(number)
        }
    }

    /// Completes writes, lets the workload react, sends what may be sent.
    #[inline]
    fn after_ack(&mut self, number: u32) -> Result<(), ParamError> {
        let flow = self.flows[number as usize].as_deref_mut().expect("the flow is open");
        let una = flow.sender.view.una;
        if flow.writes.front().is_some_and(|w| una >= w.end) {
            self.complete_writes(number)?;
            let Some(flow) = self.flows[number as usize].as_deref_mut() else { return Ok(()) };
            if flow.sender.finished() {
                self.retire(number);
                return Ok(());
            }
        } else if flow.sender.finished() {
            self.retire(number);
            return Ok(());
        }
        self.send(number);
        Ok(())
    }

    /// Tells the host controller in charge what has happened to a connection.
    fn tell_host(&mut self, number: u32, header_slot: usize) {
        let Some(flow) = self.flows[number as usize].as_deref_mut() else { return };
        let host = &mut self.collectives[flow.collective as usize].controller;
        flow.sender.take_news(&mut self.news);
        for news in &self.news {
            match *news {
                News::Acked { bytes, ece, sent_at, rtt } => {
                    let header = &self.net.arena.headers[header_slot];
                    let ack = Ack { now: self.now, bytes, ece, sent_at, rtt, header };
                    host.on_ack(FlowId(number), &ack, &flow.sender.view);
                }
                News::Congestion(event) => {
                    host.on_congestion(self.now, FlowId(number), &flow.sender.view, event);
                }
            }
        }
        host.take_transitions().iter().for_each(|t| self.recorder.transition(t));
    }

    /// Sends everything the sender may send now and arms its deadline.
    #[inline]
    fn send(&mut self, number: u32) {
        if let Some(flow) = self.flows[number as usize].as_deref_mut() {
            if flow.collective != ALONE {
                let cap = self.collectives[flow.collective as usize].controller.cap(FlowId(number));
                flow.sender.set_cap(cap);
            }
        }
        loop {
            let id = self.net.arena.alloc();
            let Some(flow) = self.flows[number as usize].as_deref_mut() else { return };
            if let Some(limit) = self.setup.host_queue {
                let next = flow.sender.packet_len();
                flow.sender.set_host_free_at(flow.host.free_at(self.now, limit, next));
            }
            let (packet, header) = self.net.arena.segment(id);
            if !flow.sender.poll_transmit(self.now, packet, header) {
                self.net.arena.release(id);
                let at = flow.sender.deadline();
                if at != Time::NEVER && flow.sender_wake.arm(at) {
                    self.net.deadlines.push(at, Wake::Sender, number);
                }
                return;
            }
            let (way, bytes) = (flow.forth, packet.wire_len);
            if self.transmit(way, id) && self.setup.host_queue.is_some() {
                let port = self.net.first_port(way, &mut self.path[0]);
                if let (Some(flow), Some(port)) = (self.flows[number as usize].as_deref_mut(), port) {
                    flow.host.take(port.free_at(), bytes);
                }
            }
        }
    }

    // ---- deadlines -----------------------------------------------------------------------------------

    fn on_deadline(&mut self) -> Result<(), ParamError> {
        let (at, kind, number) = self.net.deadlines.pop().expect("peek saw one");
        match kind {
            Wake::Link | Wake::Pause | Wake::Node => {
                self.net.on_deadline(self.now, kind, number);
                self.take_lost();
            }
            Wake::Sender => {
                let Some(flow) = self.flows[number as usize].as_deref_mut() else { return Ok(()) };
                if !flow.sender_wake.fired(at) {
                    return Ok(());
                }
                if flow.sender.deadline() <= self.now {
                    flow.sender.on_deadline(self.now);
                    if let Some(t) = flow.sender.take_timeout() {
                        if self.measuring {
                            let lost = flow.receiver.missing_below(flow.sender.view.max_sent);
                            self.recorder.timeout(self.now, number, &t, flow.drops, lost);
                        }
                    }
                    if flow.collective != ALONE {
                        self.tell_host(number, 0);
                    }
                }
                self.send(number);
            }
            Wake::Receiver => {
                let Some(flow) = self.flows[number as usize].as_deref_mut() else { return Ok(()) };
                if !flow.receiver_wake.fired(at) {
                    return Ok(());
                }
                if flow.receiver.deadline() <= self.now {
                    flow.receiver.on_deadline(self.now);
                }
                self.send_acks(number);
            }
        }
        Ok(())
    }

    fn send_acks(&mut self, number: u32) {
        loop {
            let id = self.net.arena.alloc();
            let Some(flow) = self.flows[number as usize].as_deref_mut() else { return };
            let (packet, header) = self.net.arena.segment(id);
            if !flow.receiver.poll_transmit(self.now, packet, header) {
                self.net.arena.release(id);
                let at = flow.receiver.deadline();
                if at != Time::NEVER && flow.receiver_wake.arm(at) {
                    self.net.deadlines.push(at, Wake::Receiver, number);
                }
                return;
            }
            let way = flow.back;
            self.transmit(way, id);
        }
    }

    // ---- measuring -----------------------------------------------------------------------------------

    fn end_warmup(&mut self, at: Time) {
        self.measuring = true;
        self.net.reset_stats(at);
        self.take_lost();
        for number in &self.open {
            let flow = self.flows[*number as usize].as_deref_mut().expect("it is open");
            flow.baseline = flow.counters();
        }
        self.recorder.start(at);
    }

    fn on_sample(&mut self) {
        for i in 0..self.recorder.sampled_ports.len() {
            let p = self.recorder.sampled_ports[i];
            self.net.look(self.now, p);
        }
        self.take_lost();
        let flows = &self.flows;
        let open = self.open.iter().map(|n| flows[*n as usize].as_deref().expect("it is open"));
        self.recorder.sample(self.now, self.net.ports(), open, &self.collectives);
    }

    fn finish(&mut self) {
        let now = self.now;
        self.net.settle(now);
        self.take_lost();
        for number in std::mem::take(&mut self.open) {
            if let Some(flow) = self.flows[number as usize].take() {
                self.keep(&flow, true);
            }
        }
        self.recorder.finish(now);
        self.net.check();
    }

    /// Time now.
    pub fn now(&self) -> Time {
        self.now
    }
    /// Ports, by number.
    pub fn ports(&self) -> &[Port] {
        self.net.ports()
    }
    /// Packets delivered over one link.
    pub fn packet_hops(&self) -> u64 {
        self.net.packet_hops
    }
    /// Packets accounted for.
    pub fn conservation(&self) -> Conservation {
        self.net.conservation
    }
    /// The receiver-side controller of a node, where it has one.
    pub fn receive_controller(&self, node: u32) -> Option<&dyn ReceiveController> {
        self.receive.get(node as usize)?.as_deref()
    }
    /// Network.
    pub fn topology(&self) -> &Topology {
        &self.setup.topology
    }
    /// What the run has measured so far.
    pub fn measured(&self) -> Measured<'_> {
        Measured {
            topology: &self.setup.topology,
            protocol_names: &self.setup.protocol_names,
            ports: self.net.ports(),
            bottleneck: self.setup.bottleneck.port(&self.setup.topology, self.net.ports()),
            candidate: self.setup.bottleneck.candidate(),
            recorder: &self.recorder,
            packet_hops: self.net.packet_hops,
            protocols: &self.setup.protocols,
            notes: &self.setup.notes,
            stopped: self.stopped,
        }
    }
}
