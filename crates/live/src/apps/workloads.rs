//! What workloads ask for, carried out on sockets.

use super::{address, counters, stream, token, Apps, Flow, CHUNK, FIRST, FIRST_PORT, LISTEN, PORTS, SENDER};
use crate::edge::Opened;
use crate::sys;
use penstock_sim::metrics::{FlowCounters, FlowRecord, Leaving, Transfer};
use penstock_sim::workloads::dispatch::{AppId, Call, Due};
use penstock_sim::workloads::{Action, Block, FlowRequest};
use penstock_units::{Dur, Time};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;

impl Apps {
    pub(super) fn on_apps(&mut self, now: Time) -> io::Result<()> {
        let at = self.dispatch.next();
        let mut due = Vec::new();
        self.dispatch.take_due(now, &mut due);
        for Due { id, call, .. } in due {
            self.call(id, &call, now, at)?;
        }
        Ok(())
    }
    /// Calls an application and carries out what it asks for, and so on with those that it tells something: messages take no time here.
    /// `due` is when the call should have been made, [`Time::NEVER`] for one that could not be known before.
    pub(super) fn call(&mut self, id: AppId, call: &Call, now: Time, due: Time) -> io::Result<()> {
        self.dispatch.call(id, now, call);
        self.carry_out(id, now, due)?;
        while let Some((id, message)) = self.dispatch.next_at_once() {
            self.dispatch.call(id, now, &Call::Message(message));
            self.carry_out(id, now, due)?;
        }
        Ok(())
    }
    /// What an application has asked for.
    fn carry_out(&mut self, id: AppId, now: Time, due: Time) -> io::Result<()> {
        for action in self.dispatch.actions().take() {
            match action {
                Action::Open(request) => self.open(id.workload, &request, now)?,
                Action::Write { flow, bytes, tag } => self.write_timed(flow.0, (bytes, tag), now, due)?,
                Action::Close(flow) => {
                    if let Some(f) = self.flows[flow.0 as usize].as_mut() {
                        f.closing = true;
                        if f.writes.is_empty() {
                            self.retire(flow.0, now);
                        }
                    }
                }
                Action::Leave(flow) => self.retire(flow.0, now),
                Action::Send(to, message) => {
                    _ = self.dispatch.send(id.workload, now, (to, message), |_, _, _| Dur::ZERO);
                }
                Action::Begin(number, block) => self.dispatch.tally(id.workload).begin(number, block),
                Action::Part(number) => self.complete_part(id.workload, number, now),
                Action::Done => _ = self.dispatch.done(id, now),
            }
        }
        self.dispatch.arm(id);
        self.stopped |= self.dispatch.is_over(now);
        Ok(())
    }
    /// A part of a block is complete, and perhaps the block.
    pub(super) fn complete_part(&mut self, workload: u32, number: u64, now: Time) {
        let Some(Block { started, bytes, bus, .. }) = self.dispatch.tally(workload).part(number) else {
            return;
        };
        let waited = self.plan.ack_waits.take();
        if self.measuring {
            self.plan.recorder.block(started, now, bytes, bus);
            // No longer than the block itself.
            self.plan.recorder.ack_waits += waited.min(now.since(started));
        }
    }

    pub(super) fn open(&mut self, workload: u32, request: &FlowRequest, now: Time) -> io::Result<()> {
        let number = self.flows.len() as u32;
        let key = self.keys.next(request.src, workload);
        let idle = (self.plan.check)(request, key)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
        let port = FIRST_PORT + (number % PORTS) as u16;
        let endless = request.bytes == u64::MAX;
        let size = if endless { 0 } else { request.bytes };
        let (src, dst) = (&self.plan.hosts[request.src as usize], &self.plan.hosts[request.dst as usize]);
        let (Some(src), Some(dst)) = (src, dst) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a flow ends at a switch"));
        };
        let opened = Opened {
            flow: number,
            key,
            src: request.src,
            dst: request.dst,
            protocol: request.protocol,
            workload,
            class: request.class,
            size,
            due: request.due,
        };
        self.plan.announced.lock().unwrap_or_else(|e| e.into_inner()).insert(port, opened);
        sys::enter(&src.namespace)?;
        let socket = stream()?;
        socket.set_reuse_address(true)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_congestion(self.plan.controls[request.protocol as usize].as_bytes())?;
        if !endless {
            sys::report_acknowledgements(&socket)?;
        }
        socket.bind(&address(src.address, port))?;
        self.by_port.insert(port, number);
        self.poll.add(&socket, token(SENDER, number), true)?;
        match socket.connect(&address(dst.address, LISTEN)) {
            Ok(()) => {}
            Err(e) if e.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
            Err(e) => return Err(e),
        }
        // Of many that are due at once, each waits for those before it.
        self.timer_lag = self.timer_lag.max(self.plan.clock.now().since(now));
        let record = FlowRecord {
            flow: number,
            src: request.src,
            dst: request.dst,
            workload,
            protocol: request.protocol,
            opened: now,
            size,
            ideal: idle.round_trip + (idle.transfer)(request.bytes),
            ..FlowRecord::default()
        };
        self.open.insert(number);
        self.flows.push(Some(Flow {
            socket,
            port,
            accepted: None,
            workload,
            record,
            writes: VecDeque::new(),
            written: 0,
            handed: 0,
            received: 0,
            undelivered: 0,
            closing: request.close,
            endless,
            due: request.due,
            idle,
            has_place: self.plan.recorder.take_place(),
            baseline: FlowCounters::default(),
        }));
        if endless {
            if let Some(f) = self.flows[number as usize].as_mut() {
                f.written = u64::MAX / 4;
            }
        } else if request.bytes > 0 {
            self.write(number, (request.bytes, request.tag), now)?;
        }
        Ok(())
    }

    /// A write on an open connection, and what it takes.
    fn write_timed(&mut self, number: u32, (bytes, tag): (u64, u64), now: Time, due: Time) -> io::Result<()> {
        let begins = self.plan.clock.now();
        let idle = |flow: &&Flow| flow.writes.is_empty() && flow.accepted.is_some();
        if let Some(flow) = self.flows[number as usize].as_ref().filter(idle) {
            self.plan.reads.writes(flow.record.src, begins);
        }
        if let Some(flow) = self.flows[number as usize].as_mut() {
            // As a whole it is compared with no transfer.
            flow.record.size += bytes;
            flow.record.ideal = f64::NAN;
        }
        self.write(number, (bytes, tag), now)?;
        let ended = self.plan.clock.now();
        if self.measuring {
            self.writes.time.record(ended.since(begins));
            // What has waited for another write is as late as that took.
            if due != Time::NEVER && due > self.written_at {
                self.writes.lag.record(begins.since(due));
            }
        }
        self.written_at = ended;
        Ok(())
    }
    pub(super) fn write(&mut self, number: u32, (bytes, tag): (u64, u64), now: Time) -> io::Result<()> {
        let Some(flow) = self.flows[number as usize].as_mut() else { return Ok(()) };
        flow.written += bytes;
        let end = flow.written;
        // A write made as the connection is opened waits for the handshake.
        let handshake = if flow.record.opened == now { flow.idle.round_trip } else { 0.0 };
        let ideal = handshake + (flow.idle.transfer)(bytes);
        let (delivered, due) = (Time::NEVER, flow.due);
        flow.writes.push_back(Transfer { end, started: now, bytes, tag, delivered, due, ideal });
        if self.dispatch.workloads()[flow.workload as usize].overloads() {
            self.plan.recorder.offer(flow.record.src, flow.record.dst, bytes);
        }
        self.push(number)
    }

    /// Hands the kernel what it takes.
    pub(super) fn push(&mut self, number: u32) -> io::Result<()> {
        let Some(flow) = self.flows[number as usize].as_mut() else { return Ok(()) };
        while flow.handed < flow.written {
            // A report is asked for the last byte of each write.
            let end = if flow.endless {
                flow.written
            } else {
                flow.writes.iter().map(|w| w.end).find(|e| *e > flow.handed).unwrap_or(flow.written)
            };
            let left = end - flow.handed;
            let begins = flow.writes.iter().any(|w| w.end - w.bytes == flow.handed);
            let chunk = left.min(if begins { FIRST } else { CHUNK } as u64) as usize;
            let report = !flow.endless && chunk as u64 == left;
            match sys::send(&flow.socket, &self.zeros[..chunk], report, !report) {
                Ok(Some(n)) => {
                    flow.handed += n as u64;
                    if begins && flow.handed < flow.written {
                        self.later.push_back(number);
                        break;
                    }
                }
                Ok(None) => break,
                // Not connected yet: the poll tells when.
                Err(e) if e.kind() == io::ErrorKind::NotConnected => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// A connection is over.
    pub(super) fn retire(&mut self, number: u32, now: Time) {
        self.keep(number, now, false);
    }
    /// Records a connection that is over, or was when the run ended.
    pub(super) fn keep(&mut self, number: u32, now: Time, open_at_end: bool) {
        let Some(flow) = self.flows[number as usize].take() else { return };
        self.open.remove(&number);
        if flow.has_place {
            self.plan.recorder.give_back();
        }
        let (totals, established) = counters(&flow);
        let info = sys::tcp_info(&flow.socket).unwrap_or_default();
        let srtt = Dur::micros(u64::from(info.srtt_us));
        let record = FlowRecord {
            closed: now,
            open_at_end,
            complete: !open_at_end && flow.writes.is_empty(),
            established,
            srtt,
            rtt_mean: srtt,
            ..flow.record
        };
        let left = Leaving {
            totals,
            idle_rtt: flow.idle.round_trip,
            owes: flow.endless || !flow.writes.is_empty(),
            unfinished: flow.writes.len() as u64,
            unfinished_bytes: flow.writes.iter().map(|w| w.bytes).sum(),
            since: flow.writes.front().map_or(record.opened, |w| w.started),
        };
        self.by_port.remove(&flow.port);
        self.plan.recorder.flow(record, &totals.since(&flow.baseline), &left);
    }
}
