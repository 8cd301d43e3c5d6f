//! Applications: when they are called, and what they ask for.

use super::part::ControlMessage;
use super::Engine;
use crate::events::Ties;
use crate::ideal;
use crate::metrics::event_log::Entry;
use crate::network::FlowRoute;
use crate::workloads::dispatch::{AppId, Call, Due};
use crate::workloads::{Action, Block, Message, Written};
use penstock_core::{FlowId, ParamError, Stream};
use penstock_units::Time;

impl Engine {
    /// Finds out when an application acts next, or something is done that one has asked for.
    pub(super) fn look_ahead(&mut self) {
        let writer = self.writer.as_deref().map_or(Time::NEVER, |writer| writer.next());
        self.next_app = self.apps.next().min(writer);
    }
    /// What is due at one instant at several hosts is handled in an order of hosts that is drawn from `order`: for tests, since no result
    /// depends on it.
    pub fn shuffle_apps(&mut self, order: Stream) {
        self.apps.shuffle(order);
    }

    /// Applications are due.
    pub(super) fn on_apps(&mut self) -> Result<(), ParamError> {
        if self.writer.is_some() {
            self.on_writer()?;
        }
        let mut due = std::mem::take(&mut self.due);
        self.apps.take_due(self.now, &mut due);
        if self.setup.ties == Ties::Reversed {
            // What one workload does at one time stays in its own order.
            due.sort_by_key(|due| std::cmp::Reverse(due.id.workload));
        }
        if self.watched {
            self.begin_workloads();
        }
        for Due { id, call, order } in due.drain(..) {
            if self.watched {
                self.begin_workload(order);
            }
            self.call_app(id, &call)?;
        }
        self.due = due;
        self.stopped |= self.apps.is_over(self.now);
        self.look_ahead();
        Ok(())
    }
    /// Applications are due at the host whose turn it is.
    pub(super) fn on_apps_of_host(&mut self) -> Result<(), ParamError> {
        let mut due = std::mem::take(&mut self.due);
        self.apps.take_due_of_host(&mut due);
        if self.setup.ties == Ties::Reversed {
            due.sort_by_key(|due| std::cmp::Reverse(due.id.workload));
        }
        self.begin_workloads();
        for Due { id, call, order } in due.drain(..) {
            self.begin_workload(order);
            self.call_app(id, &call)?;
        }
        self.due = due;
        Ok(())
    }
    /// When something is due next that is no host's own: an application acts for all hosts, the thread that they share comes to a write, or the run ends.
    pub(super) fn next_for_all(&self) -> Time {
        let writer = self.writer.as_deref().map_or(Time::NEVER, |writer| writer.next());
        self.apps.next_for_all().min(writer)
    }
    /// A write is acknowledged to its last byte.
    pub(super) fn tell_acked(&mut self, workload: u32, write: Written) -> Result<(), ParamError> {
        if self.apps.workloads()[workload as usize].counts_writes() {
            self.complete_part(workload, write.tag);
        }
        match self.apps.at(workload, write.src) {
            Some(id) => self.call_app(id, &Call::Acked(write)),
            None => Ok(()),
        }
    }
    /// A write is delivered to its last byte.
    pub(super) fn tell_delivered(&mut self, workload: u32, write: Written) -> Result<(), ParamError> {
        match self.apps.at(workload, write.dst) {
            Some(id) => self.call_app(id, &Call::Delivered(write)),
            None => Ok(()),
        }
    }
    /// Calls an application and carries out what it asks for; then calls those that it tells something without delay.
    fn call_app(&mut self, id: AppId, call: &Call) -> Result<(), ParamError> {
        self.apps.call(id, self.now, call);
        self.carry_out(id)?;
        while let Some((id, message)) = self.apps.next_at_once() {
            self.apps.call(id, self.now, &Call::Message(message));
            self.carry_out(id)?;
        }
        Ok(())
    }

    /// What an application has asked for, if it has.
    #[inline(always)]
    fn carry_out(&mut self, id: AppId) -> Result<(), ParamError> {
        if !self.apps.actions().is_empty() {
            self.carry_out_all(id)?;
        }
        self.apps.arm(id);
        self.look_ahead();
        Ok(())
    }
    #[inline(never)]
    fn carry_out_all(&mut self, id: AppId) -> Result<(), ParamError> {
        let mut actions = self.apps.actions().take();
        for (place, action) in (0u64..).zip(actions.drain(..)) {
            match action {
                Action::Open(request) => {
                    debug_assert!(self.apps.host(id).is_none_or(|host| host == request.src));
                    self.open(id, place, &request)?;
                }
                Action::Write { flow: FlowId(number), bytes, tag } => self.write(number, bytes, tag)?,
                Action::Close(FlowId(number)) => self.close_connection(number)?,
                Action::Leave(FlowId(number)) => self.leave_connection(number)?,
                Action::Send(to, message) => self.send_message(id.workload, to, message),
                Action::Begin(number, block) => self.begin_block(id, number, block),
                Action::Part(number) => self.complete_part(id.workload, number),
                Action::Done => {
                    self.on_done(id);
                    self.stopped |= self.apps.is_over(self.now);
                }
            }
        }
        self.apps.actions().give_back(actions);
        Ok(())
    }
    /// A message from one application of a workload to another.
    fn send_message(&mut self, workload: u32, to: u32, message: Message) {
        let Engine { apps, wire, setup, path: [_, links], .. } = self;
        let sent = apps.send(workload, self.now, (to, message), |src, dst, protocol| {
            wire.net.path(FlowRoute { src, dst, entropy: 0 }, links);
            if links.is_empty() && src != dst {
                // A failure has left no way. No lookahead window is longer than the longest link.
                let delays = setup.topology.links.iter().map(|link| link.delay);
                return delays.max().unwrap_or_default();
            }
            let least = setup.least_delay;
            ideal::request(&setup.topology, links, &setup.lengths[usize::from(protocol)]).max(least)
        });
        if let (Some(sent), Some(part)) = (sent, self.part.as_deref_mut()) {
            part.tell(sent.host, ControlMessage::Message(sent));
        }
    }
    /// A block begins.
    fn begin_block(&mut self, id: AppId, number: u64, block: Block) {
        if !self.joins_later() {
            return self.apps.tally(id.workload).begin(number, block);
        }
        // What acts for all hosts does so in every logical process.
        if self.apps.host(id).is_some() || self.own_part().place().0 == 0 {
            self.own_part().note(Entry::Begin(id.workload, number, block));
        }
    }
    /// A part of a block is complete, and perhaps the block.
    fn complete_part(&mut self, workload: u32, number: u64) {
        if self.joins_later() {
            self.own_part().note(Entry::Part(workload, number));
            return;
        }
        let Engine { apps, recorder, waits, .. } = self;
        let tally = apps.tally(workload);
        let Some(Block { started, bytes, bus, .. }) = tally.part(number) else { return };
        let is_over = tally.is_over();
        let waited = waits.as_mut().map(|waits| std::mem::take(&mut waits.pending));
        if self.measuring {
            recorder.block(started, self.now, bytes, bus);
            // No longer than the block itself.
            recorder.ack_waits += waited.unwrap_or_default().min(self.now.since(started));
        }
        if is_over {
            self.on_over(workload);
        }
    }
    /// An application has nothing more to do.
    fn on_done(&mut self, id: AppId) {
        if self.apps.is_done(id) {
            return;
        }
        let is_last = self.apps.done(id, self.now);
        if self.joins_later() {
            self.own_part().note(Entry::Done(id.workload));
        } else if is_last {
            self.on_over(id.workload);
        }
    }
    /// The receivers of `workload` have everything. When that is true of all workloads, what is measured ends. The run goes on for the
    /// last acknowledgements.
    fn on_over(&mut self, workload: u32) {
        if self.received.insert(workload) && self.received.len() == self.apps.workloads().len() {
            self.over_at = self.now;
        }
    }
}
