//! The engine as one part of a divided run: it works for its own nodes, writes down what concerns the whole, and writes notes to other parts
//! about connections that end there.
//!
//! A part runs the applications of its own hosts. Open loops, whose flows are known beforehand, act in every part, and each carries out what concerns
//! its hosts. Connections have numbers that do not depend on other parts; their rows get theirs when the parts are joined, in the order of opening. None
//! of it runs in a run that is not divided.

use super::hosts::{count, Inside, Seen};
use super::nodes::Nodes;
use super::openings::Openings;
use super::stuck::Standstill;
use super::Engine;
use crate::events::Ties;
use crate::flow::{Closed, Ends, Flow, AWAY};
use crate::metrics::event_log::{
    lost_to, phase, Batch, Blocks, Closing, Entry, EventKey, EventLog, HalfRow, Lost, Opened, Over,
};
use crate::metrics::joining::Joining;
use crate::metrics::{FlowCounters, FlowRecord, Leaving, Recorder, Transfer};
use crate::network::boundary::{self, LostBefore, Mailbox, PacketMessage, PacketMessages, MESSAGES_AHEAD};
use crate::setup::Setup;
use crate::workloads::dispatch::{AppId, Sent};
use crate::workloads::Timetable;
use penstock_core::packet::flag;
use penstock_core::{FlowId, Packet, ParamError};
use penstock_fabric::{prefetch, Cell, Pause, Standing};
use penstock_host::{Opening, StackEvent};
use penstock_units::{Dur, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a network is divided.
#[derive(Clone)]
pub(crate) struct Division {
    /// Part of every node.
    pub owner: Arc<[u16]>,
    /// How many parts there are.
    pub parts: usize,
    /// Hosts are in other parts than their switches.
    pub apart: bool,
}

/// What one part tells another about a connection between the two. It is read before the other handles anything that is later than the window
/// in which it was written.
#[derive(Debug)]
pub(crate) enum ControlMessage {
    /// To the receiver's part: a connection opens to one of its hosts.
    Opened(Box<Coming>),
    /// To the receiver's part, where an application hears of it: a write that ends with byte `end`.
    Wrote { flow: u32, end: u64, bytes: u64, tag: u64 },
    /// A message to an application.
    Message(Sent),
    /// To the sender's part: everything up to byte `end` was delivered then.
    Delivered { flow: u32, at: Time, end: u64 },
    /// To the receiver's part: the sender is done, and the receiver hears of it at `at`.
    Closed { flow: u32, at: Time },
    /// To the receiver's part: how many bytes below `max_sent` had not arrived? For an entry of the asking part's journal.
    Missing { flow: u32, event_key: EventKey, max_sent: u64, entry: usize },
    /// The answer.
    Lost { entry: usize, lost: u64 },
}

/// A connection that opens in another part.
#[derive(Debug)]
pub(crate) struct Coming {
    pub ends: Opening,
    pub stack_slot: usize,
    pub workload: u32,
    pub protocol: u16,
    pub at: Time,
}

/// Something that concerned the receiving end of a connection with its sender elsewhere.
struct Heard {
    flow: u32,
    event_key: EventKey,
    /// Bytes that had been received before.
    received: u64,
}

/// What is left of a part when the run is over.
pub(crate) struct Left {
    event_log: EventLog,
    recorder: Recorder,
    /// Samples at the end of the run.
    batches: Vec<Batch>,
    net: boundary::Left,
    /// Packets inside its hosts.
    inside: u64,
    still: Option<Standstill>,
}

/// A receiver's bytes are counted below this.
const ALL: u64 = u64::MAX / 4;
/// The bits of the order of an application that hold its workload.
const WORKLOAD: u64 = !0 << 33;

pub(crate) struct Part {
    me: u16,
    division: Division,
    /// Rows, blocks and collectives are told from the event log.
    joins: bool,
    /// What has become of the workloads of a run that is whole, where the log tells.
    pub(super) blocks: Option<Box<Blocks>>,
    /// What numbers of ports are combined with where simultaneous events come in reversed order.
    tie_mask: u64,
    /// Where the engine is in the order of events, and how much has been written down.
    event_key: EventKey,
    pub event_log: EventLog,
    pub batches: Vec<Batch>,
    /// What receivers have heard in this window.
    heard: Vec<Heard>,
    /// Notes to every part.
    pub notes: Vec<Vec<ControlMessage>>,
    /// When the first of them brings about an event there.
    first_control: Time,
    /// Rows of flows that are over since the begin of this window, where the run is whole: a switch may lose a packet of theirs before that.
    over: BTreeMap<u32, u32>,
    /// Somebody has asked in this window what a receiver had not received.
    pub(super) asked: bool,
    /// What receivers hear is kept in `heard`.
    pub(super) listens: bool,
    /// The last place of those at which all hosts were in step.
    floor: EventKey,
    /// What stands still here at the end.
    pub(super) still: Option<Standstill>,
    /// What a receiver had not received was asked for when nothing had been noted of it: the run begins anew, event by event.
    pub parted: bool,
}

impl Part {
    fn is_here(&self, node: u32) -> bool {
        self.division.owner[node as usize] == self.me
    }
    /// An event begins. Within one instant the place only grows: what an event brings about at its own time comes after it.
    #[inline(always)]
    pub(super) fn begin(&mut self, at: Time, phase: u8, order: u64) {
        self.begin_one(at, phase, (order, 0));
    }
    #[inline(always)]
    fn begin_one(&mut self, at: Time, phase: u8, (order, minor): (u64, u64)) {
        let EventKey { count, level, .. } = self.event_key;
        if at > self.event_key.at {
            self.event_key = EventKey { at, level: 0, phase, order, minor, count };
            return;
        }
        // Links with delay bring no packet at the instant at which something was done.
        let back = (phase, self.event_key.phase) == (phase::DEADLINES, phase::WORKLOADS);
        let level = level + u16::from(back && at == self.event_key.at);
        self.event_key = self.event_key.max(EventKey { at, level, phase, order, minor, count });
    }
    /// Applications are due that were not when the last ones were called.
    pub(super) fn begin_workloads(&mut self, at: Time) {
        if at == self.event_key.at && self.event_key.phase == phase::WORKLOADS {
            self.event_key.level += 1;
            (self.event_key.order, self.event_key.minor) = (0, 0);
        }
    }
    /// What comes next may be earlier than what came before, though not than when all hosts were in step.
    pub(super) fn go_back(&mut self) {
        let count = self.event_key.count;
        self.event_key = EventKey { count, ..self.floor };
    }
    /// All hosts are in step.
    pub(super) fn keep_step(&mut self) {
        self.floor = self.event_key;
    }
    /// What has been written to this part itself.
    pub(super) fn own_control(&mut self) -> &mut Vec<ControlMessage> {
        &mut self.notes[usize::from(self.me)]
    }
    /// When the first note since the last call brings about an event in another part.
    pub fn take_first_control(&mut self) -> Time {
        std::mem::replace(&mut self.first_control, Time::NEVER)
    }
    /// Nobody will ask what receivers had before this.
    pub(super) fn end_window(&mut self) {
        self.heard.clear();
        self.over.clear();
    }
    /// A flow is over that has this row.
    pub(super) fn note_over(&mut self, number: u32, row: u32) {
        if self.is_whole() {
            self.over.insert(number, row);
        }
    }
    /// It is the whole run.
    pub(super) fn is_whole(&self) -> bool {
        self.division.parts == 1
    }
    /// Hosts are in other parts than their switches.
    pub(super) fn is_apart(&self) -> bool {
        self.division.apart
    }
    /// What orders the current event among simultaneous ones of its step.
    pub(super) fn order(&self) -> u64 {
        self.event_key.order
    }
    /// The number of this part, and what links are combined with in stamps.
    pub(super) fn place(&self) -> (u16, u64) {
        (self.me, self.tie_mask)
    }
    /// The run ends.
    fn begin_end(&mut self, at: Time) {
        let count = self.event_key.count;
        self.event_key = EventKey { at, level: u16::MAX, phase: phase::END, order: 0, minor: 0, count };
    }
    fn next_event_key(&mut self) -> EventKey {
        self.event_key.count += 1;
        self.event_key
    }
    /// A packet of `flow`, which has this row, was lost at `at`; `replayed`: in the replay of a card, or another port told of it later than it happened.
    pub fn lose(&mut self, flow: u32, row: u32, at: Time, replayed: bool) {
        let mut event_key = self.next_event_key();
        if replayed || at != event_key.at {
            event_key = EventKey { at, ..EventKey::default() };
        }
        self.event_log.drops.push(Lost { row, event_key, flow });
    }
    pub(super) fn note(&mut self, entry: Entry) -> (EventKey, usize) {
        let event_key = self.next_event_key();
        self.event_log.entries.push((event_key, entry));
        (event_key, self.event_log.entries.len() - 1)
    }
    pub(super) fn tell(&mut self, host: u32, note: ControlMessage) {
        if let ControlMessage::Message(Sent { at, .. }) | ControlMessage::Closed { at, .. } = &note {
            self.first_control = self.first_control.min(*at);
        }
        self.notes[usize::from(self.division.owner[host as usize])].push(note);
    }
}

impl Engine {
    /// Part `me` of a divided run; `by_windows`: not event by event, where that can be.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub(crate) fn part(
        setup: Setup,
        division: &Division,
        me: u16,
        by_windows: bool,
    ) -> Result<Engine, ParamError> {
        let ties = setup.ties;
        let mut engine = Engine::of(setup, |node| division.owner[node as usize] == me)?;
        let topology = &engine.setup.topology;
        let net = &mut engine.wire.net;
        let known = engine.apps.workloads().iter().all(|w| w.timetable() != Timetable::Unknown);
        // Deliveries are looked at in the order of events.
        let by_node = net.window_of_nodes().filter(|_| by_windows && !engine.recorder.keep_deliveries);
        // Where connections open and close between windows alone, what they do is recorded in the order of time.
        let lasts = !engine.recorder.keep_series
            || engine.apps.workloads().iter().all(|w| w.timetable() == Timetable::Lasting);
        let joins = division.parts > 1 || by_node.is_some() && !(known && lasts);
        if division.parts == 1 && by_node.is_none() {
            // It is the whole, and goes event by event.
            return Ok(engine);
        }
        if division.parts > 1 {
            net.divide(topology, division, me, ties);
        }
        if let Some(length) = by_node {
            net.begin_nodes(ties, length);
            engine.nodes = Some(Box::new(Nodes::new(length)));
        }
        if !engine.recorder.keep_series && engine.apps.workloads().iter().all(|w| w.only_opens()) {
            engine.openings = Openings::ahead(engine.setup.topology.nodes.len());
        }
        if division.parts > 1 {
            engine.wire.net.trace.iter_mut().for_each(|watch| watch.by_number = true);
        }
        if joins {
            engine.recorder.joins_later = true;
            let hosts = engine.setup.topology.hosts().len();
            engine.recorder.joining = (me == 0).then(|| Box::new(Joining::new(hosts)));
        }
        engine.watched = true;
        let blocks = (joins && division.parts == 1)
            .then(|| Box::new(Blocks::new(engine.apps.take_tallies(), engine.apps.apps())));
        engine.part = Some(Box::new(Part {
            me,
            joins,
            blocks,
            division: division.clone(),
            tie_mask: if ties == Ties::Reversed { u64::MAX } else { 0 },
            event_key: EventKey::default(),
            event_log: EventLog::default(),
            batches: Vec::new(),
            heard: Vec::new(),
            over: BTreeMap::new(),
            notes: (0..division.parts).map(|_| Vec::new()).collect(),
            first_control: Time::NEVER,
            asked: false,
            listens: true,
            floor: EventKey::default(),
            still: None,
            parted: false,
        }));
        engine
            .hosts
            .hand_over(|port| division.parts > 1 && engine.wire.net.ports()[port as usize].is_egress());
        Ok(engine)
    }
    /// True when a node is this part's, or nothing is divided.
    #[inline]
    pub(super) fn is_here(&self, node: u32) -> bool {
        self.part.as_deref().is_none_or(|part| part.is_here(node))
    }
    /// True when a node is this part's, and what it has done so far is what it has done before now.
    #[inline]
    pub(super) fn is_in_step(&self, node: u32) -> bool {
        (self.ahead == super::NOBODY || self.ahead == node) && self.is_here(node)
    }
    /// The part that this is.
    pub(crate) fn own_part(&mut self) -> &mut Part {
        self.part.as_deref_mut().expect("the run is divided")
    }

    // ---- where it is in the order of events ------------------------------------------------------------------

    /// A packet reaches the other end of a link that is not its last.
    pub(super) fn begin_hop(&mut self) {
        let port = self.wire.net.last;
        if let Some(part) = self.part.as_deref_mut() {
            part.begin(self.now, phase::ARRIVALS, u64::from(port) ^ part.tie_mask);
        }
    }
    /// A packet reaches its host.
    fn begin_arrival(&mut self, cell: &Cell) {
        let Some(part) = self.part.as_deref_mut() else { return };
        let port = self.wire.net.last;
        part.begin(self.now, phase::ARRIVALS, u64::from(port) ^ part.tie_mask);
        let packet = &self.wire.net.arena.packets[cell.packet as usize];
        if packet.is_forward() {
            let flow = packet.flow;
            self.heard(flow);
        }
    }
    /// The next deadline, which is due.
    pub(super) fn begin_deadline(&mut self) {
        let Some((_, order, _)) = self.wire.net.deadlines.first() else { return };
        if let Some(part) = self.part.as_deref_mut() {
            part.begin(self.now, phase::DEADLINES, order);
        }
    }
    /// Applications are due.
    pub(super) fn begin_workloads(&mut self) {
        if let Some(part) = self.part.as_deref_mut() {
            part.begin_workloads(self.now);
        }
    }
    /// One of them is called that has this place among simultaneous ones.
    pub(super) fn begin_workload(&mut self, (order, minor): (u64, u64)) {
        if let Some(part) = self.part.as_deref_mut() {
            // Reversed ties concern the order of workloads.
            let order = (order ^ part.tie_mask >> 1) & WORKLOAD | order & !WORKLOAD;
            part.begin_one(self.now, phase::WORKLOADS, (order, minor));
            // Tests call applications in other orders.
            (part.event_key.order, part.event_key.minor) = (order, minor);
        }
    }
    /// What applications do is joined when the run is over.
    pub(super) fn joins_later(&self) -> bool {
        self.part.as_deref().is_some_and(|part| part.joins)
    }
    /// A connection opens whose sender is here; `place` is that among the actions of the application `id`.
    pub(super) fn note_opened(&mut self, number: u32, (id, place): (AppId, u64), dst: u32) {
        let acts_for_all = self.apps.host(id).is_none();
        let Some(part) = self.part.as_deref_mut().filter(|part| part.joins) else { return };
        let mut event_key = part.next_event_key();
        if acts_for_all {
            // In every part it does the same.
            event_key.count = place;
        }
        part.event_log.openings.push(Opened { event_key, flow: number, dst });
    }
    /// The sender of a connection is done that is here.
    pub(super) fn note_closing(&mut self, flow: u32) {
        if !self.recorder.keep_series {
            return;
        }
        if let Some(part) = self.part.as_deref_mut().filter(|part| part.joins) {
            let event_key = part.next_event_key();
            part.event_log.closings.push(Closing { event_key, flow });
        }
    }
    /// The row of a flow in the journal.
    pub(super) fn row_of(&self, number: u32) -> u32 {
        self.known_row_of(number).unwrap_or(number)
    }
    /// The row of a flow in the event log. There is none when the flow is over and rows are not found by number.
    pub(super) fn known_row_of(&self, number: u32) -> Option<u32> {
        let gone = || {
            let part = self.part.as_deref()?;
            part.over.get(&number).copied().or(part.joins.then_some(number))
        };
        self.flows.at(number).map(|flow| flow.row).or_else(gone)
    }
    /// The handle at `host` of a connection, as far as it is known.
    pub(crate) fn handle_for(&self, host: u32, flow: u32) -> u32 {
        match self.flows.at(flow).map(|flow| flow.ends) {
            Some(Ends { dst, at_dst, .. }) if dst == host => at_dst,
            Some(Ends { src, at_src, .. }) if src == host => at_src,
            _ => AWAY,
        }
    }
    /// The receiver of a flow acts; noted when the sender is elsewhere.
    #[inline(never)]
    pub(super) fn heard(&mut self, flow: u32) {
        let Some(o) = self.flows.at(flow).map(|f| &f.ends) else { return };
        if self.is_in_step(o.src) {
            return;
        }
        let Some(part) = self.part.as_deref_mut() else { return };
        let received = ALL - self.hosts.missing_below(o, ALL);
        let event_key = part.next_event_key();
        part.heard.push(Heard { flow, event_key, received });
    }
    /// The same of the receiver with handle `conn` at the host that is ahead, to which a packet of its flow has come: without a look at the flow, which
    /// lies where nothing else does that such a packet touches.
    #[inline(never)]
    pub(super) fn heard_here(&mut self, flow: u32, conn: u32) {
        // A late packet of a flow that is over may name the handle of another flow: what is noted for its own is never asked for.
        if conn == AWAY {
            // Its sender has not learned the handle yet.
            return self.heard(flow);
        }
        let missing = self.hosts.get(self.ahead).map_or(0, |host| host.nic.missing_below(conn, ALL));
        if missing == 0 {
            // Not a receiver: a header that a switch has sent back is at its sender.
            return;
        }
        let received = ALL - missing;
        let part = self.own_part();
        let event_key = part.next_event_key();
        part.heard.push(Heard { flow, event_key, received });
    }
    /// A host's time has come. The packet or the segments that a receiver gets by that arrived earlier.
    #[cold]
    #[inline(never)]
    pub(super) fn heard_inside(&mut self, host: u32) {
        if !self.part.as_deref().is_some_and(|part| part.listens) {
            return;
        }
        let Some(cell) = self.hosts.due_inside(host, self.now) else { return };
        match cell {
            Inside::Packet(slot) => {
                let packet = &self.wire.net.arena.packets[slot as usize];
                if packet.is_forward() {
                    let flow = packet.flow;
                    self.heard(flow);
                }
            }
            Inside::Segments(flow) => self.heard(flow),
        }
    }
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_watched(&mut self, cell: &Cell) -> Result<(), ParamError> {
        if self.part.is_some() {
            self.begin_arrival(cell);
            return self.hand_over(cell);
        }
        self.deliver_traced(cell)
    }

    // ---- what is recorded --------------------------------------------------------------------------------------

    /// News that this part cannot act on alone; true when nothing is left to do.
    pub(super) fn write_down(&mut self, told: Time, stack_events: &StackEvent) -> bool {
        let (number, max_sent) = match *stack_events {
            StackEvent::Timeout { flow, max_sent, .. }
            | StackEvent::FastRetransmit { flow, max_sent, .. } => (flow.0, max_sent),
            StackEvent::Delivered { flow: FlowId(flow), end } => {
                let Some(o) = self.flows.at(flow).map(|f| f.ends) else { return true };
                // What is delivered in a window was written before it: a sender here knows of it, whether or not it has had its turn.
                if !self.is_here(o.src) {
                    let at = self.now;
                    self.own_part().tell(o.src, ControlMessage::Delivered { flow, at, end });
                }
                return false;
            }
            StackEvent::Acked { .. } | StackEvent::Closed { .. } | StackEvent::Transition(_) => return false,
        };
        let Some(o) = self.flows.at(number).map(|f| f.ends) else { return true };
        let lost = self.hosts.missing_below(&o, max_sent);
        let drops = self.flows.at(number).map_or(0, Flow::drops);
        let row = self.row_of(number);
        let entry = match *stack_events {
            _ if !self.measuring => return true,
            StackEvent::Timeout { record, .. } => Entry::Timeout { at: told, flow: row, record, drops, lost },
            StackEvent::FastRetransmit { outstanding, cwnd, .. } if self.recorder.keep_losses => {
                Entry::FastRetransmit { at: told, flow: row, outstanding, cwnd, drops, lost }
            }
            _ => return true,
        };
        let in_step = self.is_in_step(o.dst);
        let late = matches!(stack_events, StackEvent::Timeout { .. }) && told < self.now;
        let part = self.own_part();
        let (event_key, entry) = part.note(entry);
        // Its card has replayed it: what was lost until then is counted up to the replay, which comes at other times in a part.
        part.parted |= late;
        if !in_step {
            // Nobody expects a timeout at a host that had no deadline: then its receiver may have been ahead, and has kept nothing.
            part.parted |= !part.listens;
            part.asked = true;
            part.tell(o.dst, ControlMessage::Missing { flow: number, event_key, max_sent, entry });
        }
        true
    }
    /// A write is acknowledged.
    pub(super) fn record_transfer(&mut self, flow: u32, write: &Transfer) {
        let flow = self.row_of(flow);
        match self.part.as_deref_mut() {
            Some(part) => _ = part.note(Entry::Transfer(flow, *write)),
            None => self.recorder.transfer(flow, write, self.now),
        }
    }
    /// A port obeys a pause frame.
    pub(super) fn record_pause(&mut self, pause: &Pause) {
        match self.part.as_deref_mut() {
            Some(part) => _ = part.note(Entry::Pause(*pause)),
            None => self.recorder.pause(pause.at, pause.port, pause.priority, pause.on),
        }
    }
    /// A flow is over.
    pub(super) fn record_over(&mut self, record: FlowRecord, baseline: FlowCounters, left: Leaving) {
        match self.part.as_deref_mut() {
            Some(part) => {
                self.recorder.count_over(record.dst, &left.totals);
                let over = Over { record, totals: left.totals, baseline, left };
                let number = part.event_log.overs.len() as u32;
                part.event_log.overs.push(over);
                part.note(Entry::Over(number));
            }
            None => self.recorder.flow(record, &left.totals.since(&baseline), &left),
        }
    }
    /// The sender of a flow is done whose receiver is in another part, which hears of it at `at`. The row is recorded in the order of removals.
    pub(super) fn tell_closed(&mut self, flow: &Flow, closed: Closed, at: Time) {
        let end = self.setup.end;
        let order = self.wire.net.deadlines.order_of_removal(flow.number);
        let totals = count(&closed.sender, &penstock_host::Counters::default(), flow.drops());
        let over = Over { record: closed.record, totals, baseline: flow.baseline(), left: closed.left };
        self.recorder.count_over(flow.ends.dst, &totals);
        let part = self.own_part();
        let count = part.next_event_key().count;
        let event_key = match at <= end {
            true => EventKey { at, phase: phase::DEADLINES, order, count, ..EventKey::default() },
            // It is still there at the end.
            false => EventKey { at: end, level: u16::MAX, phase: phase::END, order: 1, count, minor: 0 },
        };
        let number = part.event_log.overs.len() as u32;
        part.event_log.overs.push(over);
        part.event_log.entries.push((event_key, Entry::Over(number)));
        part.tell(flow.ends.dst, ControlMessage::Closed { flow: flow.number, at });
    }
    /// Takes a sample of what is here.
    pub(super) fn sample_part(&mut self) {
        let (flows, hosts) = (&self.flows, &self.hosts);
        let Some(part) = self.part.as_deref_mut() else { return };
        let open = self.open.of(flows).map(|flow| Seen { flow, hosts });
        let net = &self.wire.net;
        let mut batch = self.recorder.observe(self.now, net.ports(), |port| net.owns(port), open);
        if part.joins {
            batch.openings = std::mem::take(&mut part.event_log.openings);
            batch.closings = std::mem::take(&mut part.event_log.closings);
        }
        part.batches.push(batch);
    }

    /// When the last application here had nothing more to do; [`Time::NEVER`] while some has.
    pub(crate) fn ended(&self) -> Time {
        self.apps.ended()
    }
    /// From the end of the last application of all to that of the run.
    pub(crate) fn linger(&self) -> Dur {
        self.apps.linger()
    }
    /// The run ends then.
    pub(crate) fn set_stop(&mut self, at: Time) {
        self.apps.set_stop(at);
        self.look_ahead();
    }

    // ---- windows -----------------------------------------------------------------------------------------------

    /// When the next packet arrives here.
    pub(crate) fn next_arrival(&mut self) -> Time {
        self.wire.net.next_arrival()
    }
    /// When something happens here next, as far as this part knows; not before what it has handed over arrives elsewhere.
    pub(crate) fn next_event(&mut self) -> Time {
        let own = self.next_arrival().min(self.wire.net.deadlines.peek());
        own.min(self.next_app).min(self.recorder.next_sample())
    }
    /// What is to be handed to the other parts: packets, by part.
    pub(crate) fn mailboxes(&mut self) -> &mut [Mailbox] {
        self.wire.net.mailboxes()
    }
    /// Takes in packets of another part.
    pub(crate) fn take_in(&mut self, packet_messages: &PacketMessages) {
        let all = packet_messages.all();
        for (i, packet_message) in all.iter().enumerate() {
            packet_messages.fetch(i + 4 * MESSAGES_AHEAD);
            if let Some((_, flow)) = all.get(i + 2 * MESSAGES_AHEAD).map(PacketMessage::to) {
                self.flows.get(flow).into_iter().for_each(prefetch);
            }
            // Those that only pass through are nobody's here.
            let soon = all.get(i + MESSAGES_AHEAD).map(PacketMessage::to).filter(|(to, _)| self.is_here(*to));
            if let Some(flow) = soon.and_then(|(_, flow)| self.flows.at(flow)) {
                prefetch(&flow.ends);
            }
            self.wire.net.fetch_spare();
            let (to, flow) = packet_message.to();
            // Handles are given by the part of the end. A flow that is over has none: its late packets find nobody.
            let conn = self.handle_for(to, flow);
            if let Some(lost) = self.wire.net.take_in(packet_messages, i, conn) {
                self.lose_before(&lost);
            }
        }
        self.wire.net.take_pauses(packet_messages);
    }
    /// A packet was on a link that failed before this part took it in.
    #[cold]
    fn lose_before(&mut self, lost: &LostBefore) {
        let Packet { flow, .. } = self.wire.net.arena.packets[lost.slot as usize];
        if lost.at >= self.setup.warmup && self.wire.net.arena.packets[lost.slot as usize].has(flag::SYN) {
            self.recorder.syn_drops += 1;
        }
        let row = self.row_of(flow);
        let part = self.own_part();
        let count = part.next_event_key().count;
        let event_key = EventKey {
            at: lost.at,
            phase: phase::DEADLINES,
            order: lost.order,
            count,
            ..EventKey::default()
        };
        part.event_log.drops.push(Lost { row, event_key, flow });
        self.wire.net.arena.release(lost.slot);
    }
    /// What stood still here at a look for deadlocks in this window, if there was one.
    pub(crate) fn take_standing(&mut self) -> Option<Standing> {
        self.wire.net.take_standing()
    }
    /// What all parts have told of the last look is put together. A deadlock ends the run.
    pub(crate) fn judge(&mut self, standing: &Standing) -> bool {
        self.stopped |= self.wire.net.judge(standing);
        self.stopped
    }
    /// The next time after `at` at which all parts have to have come as far: a look for deadlocks.
    pub(crate) fn next_look(&self, at: Time) -> Time {
        self.wire.net.next_look(at)
    }
    /// Reads the notes of another part, after the window in which they were written.
    pub(crate) fn read(&mut self, notes: &mut Vec<ControlMessage>, from: u16) {
        for note in notes.drain(..) {
            match note {
                ControlMessage::Delivered { flow, at, end } => {
                    if let Some(flow) = self.flows.at_mut(flow) {
                        while flow.writes.note_delivered(at, end).is_some() {}
                    }
                }
                ControlMessage::Lost { entry, lost: answer } => {
                    let Some(part) = self.part.as_deref_mut() else { return };
                    match &mut part.event_log.entries[entry].1 {
                        Entry::Timeout { lost, .. } | Entry::FastRetransmit { lost, .. } => *lost = answer,
                        _ => unreachable!("an answer to no question"),
                    }
                }
                ControlMessage::Missing { flow, event_key, max_sent, entry } => {
                    let lost = self.missing_at(flow, event_key, max_sent);
                    self.own_part().notes[usize::from(from)].push(ControlMessage::Lost { entry, lost });
                }
                ControlMessage::Closed { flow, at } => self.wire.net.deadlines.push_removal(at, flow),
                ControlMessage::Opened(coming) => self.take_opening(*coming),
                ControlMessage::Wrote { flow, end, bytes, tag } => {
                    if let Some(flow) = self.flows.at_mut(flow) {
                        let (started, due, delivered) = (Time::ZERO, Time::NEVER, Time::NEVER);
                        let write = Transfer { end, started, bytes, tag, delivered, due, ideal: 0.0 };
                        flow.writes.push(write, &mut self.written);
                    }
                }
                ControlMessage::Message(sent) => {
                    self.apps.arrive(&sent);
                    self.look_ahead();
                }
            }
        }
    }
    /// Bytes below `max_sent` that the receiver of a flow did not have at a moment of the window that is over.
    ///
    /// What arrived in the window had been sent before it began, so it lies below `max_sent` too.
    fn missing_at(&mut self, flow: u32, event_key: EventKey, max_sent: u64) -> u64 {
        let Some(part) = self.part.as_deref() else { return 0 };
        let after = part.heard.iter().find(|heard| heard.flow == flow && heard.event_key > event_key);
        match (after, self.flows.at(flow)) {
            (Some(heard), _) => max_sent.saturating_sub(heard.received),
            (None, Some(f)) => self.hosts.missing_below(&f.ends, max_sent),
            (None, None) => 0,
        }
    }
    /// Records what the receiver of a flow has counted whose sender is in another part.
    pub(super) fn keep_half(&mut self, flow: &Flow) {
        let totals = self.hosts.counters(flow);
        let half = HalfRow { flow: flow.number, totals, baseline: flow.baseline() };
        self.recorder.count_over(flow.ends.dst, &totals);
        self.own_part().event_log.halves.push(half);
    }
    /// Records the samples of the last window, when those of all parts have come.
    pub(crate) fn record_batches(&mut self) {
        // A loss of an earlier time may still be told of: losses count by destination when all are known.
        if !self.recorder.by_destination {
            let mut batches = std::mem::take(&mut self.own_part().batches);
            self.recorder.record_batches(&mut batches, &Vec::new());
        }
    }
    /// The run, which is whole, is from now on recorded as it goes.
    pub(super) fn end_joining(&mut self) {
        let Some(joining) = self.recorder.joining.take() else { return };
        self.recorder.joins_later = false;
        for number in self.open.numbers() {
            if let Some(flow) = self.flows.at_mut(*number) {
                let has_place;
                (flow.row, has_place) = joining.of(*number);
                flow.has_place = has_place && flow.closed.is_none();
                // What its sender has left names its row.
                flow.closed.iter_mut().for_each(|closed| closed.record.flow = flow.row);
            }
        }
        self.open.sort(&self.flows);
        self.opened = joining.opened();
        if let Some(blocks) = self.own_part().blocks.take() {
            let (tallies, received, over_at) = blocks.take();
            self.apps.set_tallies(tallies);
            (self.received, self.over_at) = (received, over_at);
        }
    }
    /// All notes of the last window have been read.
    pub(crate) fn begin_window(&mut self) {
        self.own_part().heard.clear();
    }
    /// The run is over at `end`: what is left here is written down.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub(crate) fn end_part(&mut self, end: Time) -> Result<(), ParamError> {
        self.now = end;
        if !self.measuring {
            self.end_warmup(end)?;
        }
        self.own_part().begin_end(end);
        self.advance()?;
        self.wire.net.settle(end);
        self.take_lost();
        self.keep_up();
        for number in std::mem::take(&mut self.open).numbers().iter().copied() {
            let Some(flow) = self.flows.take(number) else { continue };
            debug_assert_eq!(flow.number, number);
            self.keep(flow);
        }
        self.end_deliveries();
        Ok(())
    }
    /// What the whole needs of this part, whose work is over. Its hosts, connections and packets stay here.
    pub(crate) fn leave(&mut self) -> Left {
        let part = self.own_part();
        let (event_log, still) = (std::mem::take(&mut part.event_log), part.still.take());
        let batches = std::mem::take(&mut part.batches);
        let (recorder, inside) = (std::mem::take(&mut self.recorder), self.hosts.packets_held());
        Left { event_log, recorder, batches, net: self.wire.net.take_apart(), inside, still }
    }
    /// Makes the whole of all parts, of which this is the first.
    ///
    /// # Panics
    /// When packets were not conserved.
    pub(crate) fn join(&mut self, others: Vec<Left>, end: Time) {
        let mut event_logs = vec![std::mem::take(&mut self.own_part().event_log)];
        let mut nets = Vec::new();
        let (mut held, mut live) = self.wire.net.held();
        let mut inside = self.hosts.packets_held();
        let mut still = self.own_part().still.take();
        for other in others {
            still = still.zip(other.still).map(|(own, other)| own.with(other));
            (held, live) = (held + other.net.held, live + other.net.live);
            inside += other.inside;
            event_logs.push(other.event_log);
            self.recorder.add_sums(&other.recorder);
            let found = self.recorder.deliveries.as_mut().zip(other.recorder.deliveries);
            found.into_iter().for_each(|(own, theirs)| own.join(*theirs));
            self.own_part().batches.extend(other.batches);
            nets.push(other.net);
        }
        let lost = if self.recorder.by_destination { lost_to(&event_logs) } else { Vec::new() };
        let mut batches = std::mem::take(&mut self.own_part().batches);
        self.recorder.record_batches(&mut batches, &lost);
        self.stuck = still.and_then(Standstill::judge);
        self.wire.net.leave_others();
        let blocks = self.own_part().blocks.take().map(|blocks| *blocks);
        let mut blocks = blocks.unwrap_or_else(|| Blocks::new(self.apps.take_tallies(), self.apps.apps()));
        let blocks_of = &mut blocks;
        let (net, recorder) = (&mut self.wire.net, &mut self.recorder);
        let divided = !nets.is_empty();
        let put_together = || {
            nets.into_iter().for_each(|other| net.join(other));
            net.stay();
        };
        // What is in the ports and what is in the tables does not depend on each other.
        std::thread::scope(|s| {
            if divided {
                s.spawn(put_together);
            } else {
                put_together();
            }
            recorder.replay(event_logs, Some(blocks_of));
            recorder.renumber_deliveries();
        });
        let c = self.wire.net.conservation;
        assert!(
            c.sent == c.delivered + c.dropped + held && held + inside == live,
            "packets are not conserved: sent {}, delivered {}, dropped {}, held {held}, in hosts {inside}, slots in use {live}",
            c.sent,
            c.delivered,
            c.dropped,
        );
        self.recorder.finish(end.min(blocks.over_at().max(self.recorder.from)));
        (self.now, self.part) = (end, None);
    }
}
