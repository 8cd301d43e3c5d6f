//! What workloads ask for: connections that open, writes, and what is left of a connection that is over.

use super::Engine;
use crate::events::{Pending, Ties};
use crate::flow::{Flow, ALONE};
use crate::host_queue::HostShare;
use crate::ideal::{self, Lengths};
use crate::metrics::{FlowCounters, FlowRecord, Leaving, Transfer};
use crate::topology::route_stream;
#[cfg(debug_assertions)]
use crate::witness::Witness;
use crate::workloads::{Acked, Action, FlowRequest};
use penstock_core::rng::Entity;
use penstock_core::tcp::{Phase, Receiver, Sender};
use penstock_core::{FlowId, ParamError, Peer, Stream};
use penstock_units::{Dur, Time};
use std::collections::VecDeque;

impl Engine {
    /// Notes when a workload acts next.
    pub(super) fn plan(&mut self, workload: u32) {
        let next = self.workloads[workload as usize].next_event();
        let known = std::mem::replace(&mut self.workload_at[workload as usize], next);
        if known != next {
            self.agenda.remove(&(known, workload));
            if next != Time::NEVER {
                self.agenda.insert((next, workload));
            }
            self.next_workload = self.agenda.first().map_or(Time::NEVER, |first| first.0);
        }
    }

    pub(super) fn on_workload(&mut self) -> Result<(), ParamError> {
        let mut due: Vec<u32> =
            self.agenda.iter().take_while(|(at, _)| *at <= self.now).map(|(_, workload)| *workload).collect();
        due.sort_unstable();
        if self.setup.ties == Ties::Reversed {
            due.reverse();
        }
        for workload in due {
            self.workloads[workload as usize].on_event(self.now, &mut self.actions);
            self.carry_out(workload)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, workload: u32) -> Result<(), ParamError> {
        for action in self.actions.take() {
            match action {
                Action::Open(request) => self.open(workload, &request)?,
                Action::Write(flow, bytes) => {
                    if self.write(flow.0, bytes) {
                        self.send(flow.0);
                    }
                }
                Action::Close(flow) => {
                    if let Some(f) = self.flows[flow.0 as usize].as_deref_mut() {
                        f.sender.close();
                        self.send(flow.0);
                    }
                }
                Action::Leave(flow) => {
                    if let Some(f) = self.flows[flow.0 as usize].as_deref_mut() {
                        f.sender.leave();
                        self.send(flow.0);
                    }
                }
                Action::Block { started, bytes } => {
                    if self.measuring {
                        self.recorder.block(started, self.now, bytes);
                    }
                }
                Action::Stop => self.stopped = true,
            }
        }
        self.plan(workload);
        Ok(())
    }

    #[cold]
    pub(super) fn complete_writes(&mut self, number: u32) -> Result<(), ParamError> {
        loop {
            let Some(flow) = self.flows[number as usize].as_deref_mut() else { return Ok(()) };
            let una = flow.sender.view.una;
            let Some(write) = flow.writes.front().copied().filter(|w| una >= w.end) else { return Ok(()) };
            flow.writes.pop_front();
            flow.undelivered = flow.undelivered.saturating_sub(1);
            let (workload, tag) = (flow.workload, flow.tag);
            flow.record.transfers = flow.record.transfers.saturating_add(1);
            if self.measuring {
                self.recorder.transfer(number, &write, self.now);
            }
            let acked = Acked { flow: FlowId(number), tag, started: write.started, bytes: write.bytes };
            self.workloads[workload as usize].on_acked(self.now, &acked, &mut self.actions);
            self.carry_out(workload)?;
        }
    }

    fn write(&mut self, number: u32, bytes: u64) -> bool {
        let Some(flow) = self.flows[number as usize].as_deref_mut() else { return false };
        flow.sender.write(self.now, bytes);
        // A write made as the connection is opened waits for the handshake.
        let handshake = if flow.record.opened == self.now { flow.idle_rtt } else { 0.0 };
        let [forward, back] = &mut self.path;
        self.net.path(flow.forth, forward);
        self.net.path(flow.back, back);
        flow.writes.push_back(Transfer {
            end: flow.sender.view.app_end,
            started: self.now,
            bytes,
            delivered: Time::NEVER,
            due: flow.sender.view.due,
            ideal: handshake + ideal::transfer(&self.setup.topology, forward, back, &flow.lengths, bytes),
        });
        if self.workloads[flow.workload as usize].open_loop() {
            self.recorder.offer(flow.record.src, flow.record.dst, bytes);
        }
        true
    }

    fn open(&mut self, workload: u32, request: &FlowRequest) -> Result<(), ParamError> {
        let number = self.flows.len() as u32;
        let mut rng = route_stream(self.setup.seed, self.setup.run, number);
        let t = &self.setup.topology;
        let forth = self.net.draw(t, request.src, request.dst, &mut rng)?;
        let back = self.net.draw(t, request.dst, request.src, &mut rng)?;
        let [forward, backward] = &mut self.path;
        self.net.path(forth, forward);
        self.net.path(back, backward);
        let (suite, cfg) = &self.setup.protocols[request.protocol as usize];
        let stream = |entity| Stream::new(self.setup.seed, self.setup.run, entity, u64::from(number));
        let controller = (suite.endpoint)(cfg, stream(Entity::Host));
        let mut sender = Sender::new(cfg.clone(), controller, number, request.class, stream(Entity::Sender));
        let endless = request.bytes == u64::MAX;
        sender.view.size = if endless { 0 } else { request.bytes };
        sender.view.due = request.due;
        sender.open(self.now);
        let receiver = Receiver::new(cfg.clone(), number, sender.header_len());
        let charge = self.collectives.iter().position(|c| c.workloads.contains(&workload));
        let collective = charge.map_or(ALONE, |c| c as u32);
        if let Some(c) = charge {
            sender.keep_news();
            let router = *forward.last().expect("a path has a link");
            let router = self.setup.topology.links[router as usize].from;
            let peer = Peer { host: request.dst, router, class: request.class };
            let host = &mut self.collectives[c].controller;
            host.on_open(self.now, FlowId(number), peer);
            host.take_transitions().iter().for_each(|t| self.recorder.transition(t));
        }
        let lengths = Lengths::new(cfg, sender.header_len(), self.setup.framing);
        let idle_rtt = ideal::handshake(t, forward, backward, &lengths);
        let ideal = idle_rtt + ideal::transfer(t, forward, backward, &lengths, request.bytes);
        let record = FlowRecord {
            flow: number,
            src: request.src,
            dst: request.dst,
            workload,
            protocol: request.protocol,
            opened: self.now,
            size: if endless { 0 } else { request.bytes },
            ideal,
            ..FlowRecord::default()
        };
        self.flows.push(Some(Box::new(Flow {
            sender,
            receiver,
            forth,
            back,
            sender_wake: Pending::default(),
            receiver_wake: Pending::default(),
            host: HostShare::default(),
            workload,
            collective,
            tag: request.tag,
            writes: VecDeque::new(),
            undelivered: 0,
            #[cfg(debug_assertions)]
            witness: Witness::default(),
            has_place: self.recorder.take_place(),
            lengths,
            idle_rtt,
            drops: 0,
            baseline: FlowCounters::default(),
            record,
        })));
        self.open.insert(number);
        if endless {
            let flow = self.flows[number as usize].as_deref_mut().expect("just pushed");
            flow.sender.write(self.now, u64::MAX / 4);
        } else if request.bytes > 0 {
            self.write(number, request.bytes);
        }
        if request.close {
            let flow = self.flows[number as usize].as_deref_mut().expect("just pushed");
            flow.sender.close();
        }
        self.send(number);
        Ok(())
    }

    /// A connection is over: keep its record, free the rest.
    pub(super) fn retire(&mut self, number: u32) {
        if let Some(flow) = self.flows[number as usize].take() {
            self.open.remove(&number);
            if flow.has_place {
                self.recorder.give_back();
            }
            self.keep(&flow, false);
            if let Some(control) = self.receive.get_mut(flow.record.dst as usize).and_then(Option::as_mut) {
                control.on_close(self.now, number);
            }
            if flow.collective != ALONE {
                let host = &mut self.collectives[flow.collective as usize].controller;
                host.on_close(self.now, FlowId(number));
                host.take_transitions().iter().for_each(|t| self.recorder.transition(t));
            }
        }
    }
    /// Records a connection that is over, or was when the run ended.
    pub(super) fn keep(&mut self, flow: &Flow, open_at_end: bool) {
        let totals = flow.counters();
        let rtt = flow.sender.rtt();
        let record = FlowRecord {
            closed: self.now,
            open_at_end,
            complete: !open_at_end && totals.acked_bytes >= flow.record.size,
            established: !matches!(flow.sender.phase(), Phase::Closed | Phase::SynSent),
            srtt: rtt.smoothed,
            rtt_mean: Dur(rtt.total.0 / rtt.samples.max(1)),
            duplicate_bytes: flow.receiver.duplicate_bytes,
            ..flow.record.clone()
        };
        let left = Leaving {
            totals,
            idle_rtt: flow.idle_rtt,
            owes: flow.sender.view.una < flow.sender.view.app_end,
            unfinished: flow.writes.len() as u64,
            since: flow.writes.front().map_or(flow.record.opened, |w| w.started),
        };
        self.recorder.flow(record, &totals.since(&flow.baseline), &left);
    }
}
