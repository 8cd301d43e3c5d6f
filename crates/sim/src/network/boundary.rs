//! A network as one part of several: the links that lead from part to part.
//!
//! Every part knows the whole network; it works for the nodes that are its own. A link from one part to another has its queue in the part of the
//! node that it comes from and its wire in that of the node it leads to ([`penstock_fabric::Fabric::make_egress`]): what leaves the queue is written
//! into a message, which the other part takes in before it gets to the time at which the packet arrives. A pause frame for a port of another part
//! is a message too: it is under way for the delay of that link.
//!
//! When a boundary link fails, what is on its wire is lost. Part of it is not at the ingress side yet, since messages are handed over after a window. The
//! ingress side therefore remembers failures, and loses a message whose packet was on the wire at the time of one.

use super::{Conservation, Network};
use crate::engine::part::Division;
use crate::events::{Deadlines, Pending, Ties, Wake};
use crate::topology::Topology;
use penstock_core::{CcHeader, Ecn, Packet};
use penstock_fabric::{prefetch, prefetch_room, Arena, Cell, Hop, Pause, Port, Standing};
use penstock_units::{Dur, Rate, Time};

/// A packet on its way to another part: its cell as links carry it, and what its segment says that the cell does not. One line of a cache, as all of it
/// goes from core to core.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct PacketMessage {
    /// The time is that of the arrival. The slot holds one more than the number of the segment in [`PacketMessages::whole`]. It is 0 where the message
    /// itself holds all of the segment.
    cell: Cell,
    seq: u64,
    stamp: u64,
    flow: u32,
    payload: u32,
    window: u32,
    flags: u16,
    ecn: Ecn,
    class_sacks: u8,
}

const _: () = assert!(core::mem::size_of::<PacketMessage>() == 64, "a letter fills one cache line");

impl PacketMessage {
    /// The host it is for, and its flow.
    pub fn to(&self) -> (u32, u32) {
        (self.cell.to, self.flow)
    }
    /// Writes down what a segment says; answers whether that is all. The handle of its connection is known where that is.
    #[inline(always)]
    fn write(&mut self, packet: &Packet) -> bool {
        let Packet { seq, stamp, sack, flow, conn: _, wire_len, payload, window, flags, ecn, class_sacks } =
            *packet;
        (self.seq, self.stamp, self.flow, self.payload) = (seq, stamp, flow, payload);
        (self.window, self.flags, self.ecn, self.class_sacks) = (window, flags, ecn, class_sacks);
        let blocks = sack.iter().fold(0, |all, block| all | block.start | block.end);
        (blocks == 0) & (wire_len == self.cell.bytes)
    }
    #[inline(always)]
    fn segment(&self, conn: u32) -> Packet {
        let PacketMessage { cell, seq, stamp, flow, payload, window, flags, ecn, class_sacks } = *self;
        let (sack, wire_len) = (Default::default(), cell.bytes);
        Packet { seq, stamp, sack, flow, conn, wire_len, payload, window, flags, ecn, class_sacks }
    }
}

/// Packets on their way to another part.
#[derive(Default)]
pub(crate) struct PacketMessages {
    /// Behind the last of them are old ones.
    packet_messages: Vec<PacketMessage>,
    /// How many there are, and how many of them are written to the end.
    len: usize,
    written: usize,
    /// Segments that say more than there is room for in a letter.
    whole: Vec<Packet>,
    /// Their congestion headers, where packets of the run have some.
    headers: Vec<CcHeader>,
    /// The links by which they come.
    ports: Vec<u32>,
    /// Whether each asks for telemetry, and where its own ends in `hops`; none where telemetry is not kept.
    telemetry: Vec<(bool, u32)>,
    hops: Vec<Hop>,
    /// The links that each has crossed; none where deliveries are not looked at.
    ways: Vec<Vec<u32>>,
    /// Pause frames on their way to ports of the other part.
    pub pauses: Vec<Pause>,
}

impl PacketMessages {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }
    /// All there are.
    pub fn all(&self) -> &[PacketMessage] {
        &self.packet_messages[..self.len]
    }
    /// The segment of one of them, with the handle of its connection where it is now, and its congestion header if there is one.
    #[inline(always)]
    pub fn segment(&self, i: usize, conn: u32) -> (Packet, Option<&CcHeader>) {
        let packet_message = &self.packet_messages[i];
        let packet = match packet_message.cell.packet {
            0 => packet_message.segment(conn),
            place => Packet { conn, ..self.whole[place as usize - 1] },
        };
        (packet, self.headers.get(i))
    }
    /// All have been read.
    pub fn clear(&mut self) {
        (self.len, self.written) = (0, 0);
        self.whole.clear();
        self.headers.clear();
        self.ports.clear();
        self.telemetry.clear();
        self.hops.clear();
        self.ways.clear();
        self.pauses.clear();
    }
    /// Whether one of them asks for telemetry, and what it has.
    fn telemetry(&self, i: usize) -> Option<(bool, &[Hop])> {
        let (asks, end) = *self.telemetry.get(i)?;
        let begin = i.checked_sub(1).map_or(0, |before| self.telemetry[before].1);
        Some((asks, &self.hops[begin as usize..end as usize]))
    }
    /// There is room for one more.
    #[inline(always)]
    fn room(&mut self) -> &mut [PacketMessage] {
        if self.len == self.packet_messages.len() {
            self.grow(self.len + 1);
        }
        &mut self.packet_messages[self.len..]
    }
    #[cold]
    #[inline(never)]
    fn grow(&mut self, enough: usize) {
        self.packet_messages.resize(enough.max(2 * self.packet_messages.len()), PacketMessage::default());
    }
    /// Writes to those that have only their cells what their segments say: these leave the arena.
    #[inline(always)]
    fn put_in(&mut self, arena: &mut Arena, with_headers: bool) {
        let PacketMessages { packet_messages, len, written, whole, headers, telemetry, hops, .. } = self;
        let new = &mut packet_messages[*written..*len];
        for i in 0..new.len() {
            if let Some(ahead) = new.get(i + SEGMENTS_AHEAD) {
                arena.prefetch(ahead.cell.packet);
            }
            let packet_message = &mut new[i];
            let slot = std::mem::take(&mut packet_message.cell.packet);
            let packet = &arena.packets[slot as usize];
            if !packet_message.write(packet) {
                whole.push(*packet);
                packet_message.cell.packet = whole.len() as u32;
            }
            if with_headers {
                headers.push(arena.headers[arena.header_slot(slot)]);
            }
            if arena.keeps_telemetry() {
                hops.extend_from_slice(arena.hops(slot));
                telemetry.push((arena.asks_telemetry(slot), hops.len() as u32));
            }
            arena.release(slot);
        }
        *written = *len;
    }
    /// Fetches one that is read later: what another core has written lies far.
    #[inline(always)]
    pub fn fetch(&self, i: usize) {
        self.packet_messages.get(i).into_iter().for_each(prefetch);
    }
}

/// So many letters ahead what taking one in touches is fetched from memory.
pub(crate) const MESSAGES_AHEAD: usize = 8;

/// And so many letters ahead the room for one that is written, and its segment.
const ROOM_AHEAD: usize = 16;
const SEGMENTS_AHEAD: usize = 2 * MESSAGES_AHEAD;

/// What is handed to one other part.
pub(crate) struct Mailbox {
    pub packet_messages: PacketMessages,
    /// When the first of them arrives, [`u64::MAX`] where there is none.
    first: u64,
}

impl Mailbox {
    fn new() -> Mailbox {
        Mailbox { packet_messages: PacketMessages::default(), first: u64::MAX }
    }
    /// When the first of them arrives; they are not in it any more.
    pub fn take_first(&mut self) -> Time {
        Time(std::mem::replace(&mut self.first, u64::MAX))
    }
    /// Takes one in that has left by `port` and arrives at `time`.
    #[inline(always)]
    fn put(&mut self, port: u32, cell: &Cell, time: u64) {
        let room = self.packet_messages.room();
        room[0].cell = *cell;
        room[0].cell.time = time;
        // Another core has read here last: who writes has to wait until it has given the line away.
        prefetch_room(&room[..0], ROOM_AHEAD);
        self.packet_messages.len += 1;
        self.packet_messages.ports.push(port);
        self.first = self.first.min(time);
    }
}

/// The part of every node, and the links between parts.
pub(crate) struct Boundaries {
    me: u16,
    /// Part of every port.
    owner: Box<[u16]>,
    /// The part that every link leads to.
    leads: Box<[u16]>,
    /// How long every link is.
    delays: Box<[Dur]>,
    with_headers: bool,
    /// What is to be handed over, by part.
    pub out: Vec<Mailbox>,
    /// Failures of links whose ingress side is here, in order of time: when, what orders them among simultaneous events, and the link.
    failures: Vec<(Time, u64, u32)>,
    /// What stood still at the last look for deadlocks, until all parts are told.
    pub standing: Option<Standing>,
}

impl Boundaries {
    /// True when a link leads from this part to another.
    #[inline(always)]
    pub fn is_egress_side(&self, port: u32) -> bool {
        self.leads[port as usize] != self.me && self.owns(port)
    }
    /// True when a port is this part's.
    #[inline(always)]
    pub fn owns(&self, port: u32) -> bool {
        self.owner[port as usize] == self.me
    }
    /// How long a link is.
    #[inline(always)]
    pub fn delay(&self, port: u32) -> Dur {
        self.delays[port as usize]
    }
    /// What goes to the part to which a link leads, and how long that link is.
    #[inline(always)]
    pub fn mailbox_of(&mut self, port: u32) -> (&mut Mailbox, Dur) {
        let (part, delay) = (self.leads[port as usize], self.delay(port));
        (&mut self.out[usize::from(part)], delay)
    }
    /// Hands a packet over that has left by `port`.
    pub fn post(&mut self, port: u32, cell: &Cell, arena: &mut Arena, way: Option<Vec<u32>>) {
        let with_headers = self.with_headers;
        self.post_cell(port, cell);
        let packet_messages = &mut self.mailbox_of(port).0.packet_messages;
        packet_messages.ways.extend(way);
        packet_messages.put_in(arena, with_headers);
    }
    /// Hands a packet over without its segment. [`Self::put_in`] adds the segments of all packets later.
    #[inline(always)]
    pub fn post_cell(&mut self, port: u32, cell: &Cell) {
        let (mailbox, delay) = self.mailbox_of(port);
        mailbox.put(port, cell, cell.time + delay.0);
    }
    /// A pause frame for `port`, which is in another part: handed over.
    pub fn post_pause(&mut self, pause: Pause) {
        let mailbox = &mut self.out[usize::from(self.owner[pause.port as usize])];
        mailbox.first = mailbox.first.min(pause.at.0);
        mailbox.packet_messages.pauses.push(pause);
    }
    /// The ingress side of a link is here, and its egress side is not.
    pub fn is_ingress_side(&self, port: u32) -> bool {
        self.leads[port as usize] == self.me && !self.owns(port)
    }
    /// The failure that a packet was on the wire of `port` at which arrives at `time`.
    fn failure(&self, port: u32, time: u64) -> Option<(Time, u64)> {
        let left = time - self.delay(port).0;
        let met = |(at, _, link): &&(Time, u64, u32)| *link == port && left <= at.0 && at.0 < time;
        self.failures.iter().find(met).map(|(at, order, _)| (*at, *order))
    }
    /// The segments of all packets whose cells are in the bags.
    #[inline]
    pub fn put_in(&mut self, arena: &mut Arena) {
        let with_headers = self.with_headers;
        self.out.iter_mut().for_each(|mailbox| mailbox.packet_messages.put_in(arena, with_headers));
    }
}

/// What is left of a part: its ports among those of all parts, and what it has counted.
pub(crate) struct Left {
    me: u16,
    ports: Vec<Port>,
    packet_hops: u64,
    no_way: u64,
    returned: u64,
    conservation: Conservation,
    /// As [`Network::held`].
    pub held: u64,
    pub live: u64,
}

/// A packet that was lost by a failure before it came here.
pub(crate) struct LostBefore {
    pub slot: u32,
    /// When the link failed, and what orders that among simultaneous events.
    pub at: Time,
    pub order: u64,
}

impl Network {
    /// The part `me` of the network. Called before anything is sent.
    pub(crate) fn divide(
        &mut self,
        t: &Topology,
        Division { owner, parts, .. }: &Division,
        me: u16,
        ties: Ties,
    ) {
        let part = |node: u32| owner[node as usize];
        let owner: Box<[u16]> = t.links.iter().map(|l| part(l.from)).collect();
        let leads: Box<[u16]> = t.links.iter().map(|l| part(l.to)).collect();
        for port in 0..t.links.len() as u32 {
            if owner[port as usize] == leads[port as usize] {
                continue;
            }
            if owner[port as usize] == me {
                self.fabric.make_egress(port);
            } else if leads[port as usize] == me {
                self.fabric.make_ingress(port);
            }
        }
        // Controllers of other parts' ports sleep.
        self.deadlines = Deadlines::new(ties);
        self.link_wake.iter_mut().for_each(|wake| *wake = Pending::default());
        for port in (0u32..).zip(&owner).filter(|(_, owner)| **owner == me).map(|(port, _)| port) {
            self.arm_link(port);
        }
        self.plan();
        self.boundaries = Some(Box::new(Boundaries {
            me,
            owner,
            leads,
            delays: self.fabric.ports().iter().map(Port::delay).collect(),
            with_headers: self.arena.header_slot(0) != 0,
            out: (0..*parts).map(|_| Mailbox::new()).collect(),
            failures: Vec::new(),
            standing: None,
        }));
    }
    /// A link fails, and its ingress side is here.
    pub(super) fn fail_wire(&mut self, now: Time, number: u32, port: u32) {
        let order = self.deadlines.order_of_change(number);
        let Some(boundaries) =
            self.boundaries.as_deref_mut().filter(|boundaries| boundaries.is_ingress_side(port))
        else {
            return;
        };
        boundaries.failures.push((now, order, port));
        self.fabric.fail_wire(now, port);
    }
    /// A link has another rate, and its ingress side is here.
    pub(super) fn set_wire_rate(&mut self, port: u32, rate: Rate) {
        if self.boundaries.as_deref().is_some_and(|boundaries| boundaries.is_ingress_side(port)) {
            self.fabric.set_wire_rate(port, rate);
        }
    }
    /// A packet has left by `port`: handed over when that leads out of this part.
    #[inline(never)]
    pub(super) fn hand_over(&mut self, port: u32, cell: &Cell) -> bool {
        let Some(boundaries) = self.boundaries.as_deref_mut() else { return false };
        let leaves = boundaries.is_egress_side(port);
        if leaves {
            let watch = self.trace.as_deref_mut().and_then(|watch| watch.deliveries.as_mut());
            let way = watch.map(|deliveries| deliveries.take_way(cell.packet));
            boundaries.post(port, cell, &mut self.arena, way);
        }
        leaves
    }
    /// What is to be handed to every other part.
    pub(crate) fn mailboxes(&mut self) -> &mut [Mailbox] {
        self.boundaries.as_deref_mut().map_or(&mut [], |boundaries| &mut boundaries.out)
    }
    /// Takes a packet in that another part has handed over: number `i` of `packet_messages`, for whose destination `conn` is the handle of the connection, where
    /// that is here. Answers it where it was lost on its way.
    #[inline(always)]
    pub(crate) fn take_in(
        &mut self,
        packet_messages: &PacketMessages,
        i: usize,
        conn: u32,
    ) -> Option<LostBefore> {
        let slot = self.arena.alloc();
        let (packet, header) = packet_messages.segment(i, conn);
        self.arena.packets[slot as usize] = packet;
        if let Some(header) = header {
            let place = self.arena.header_slot(slot);
            self.arena.headers[place] = *header;
        }
        let mut cell = packet_messages.all()[i].cell;
        cell.packet = slot;
        if let Some((asks, hops)) = packet_messages.telemetry(i) {
            self.arena.set_telemetry(slot, asks, hops);
        }
        if let Some(way) = packet_messages.ways.get(i) {
            let watch = self.trace.as_deref_mut().and_then(|watch| watch.deliveries.as_mut());
            watch.into_iter().for_each(|deliveries| deliveries.goes_on(slot, way));
        }
        let port = packet_messages.ports[i];
        if let Some((at, order)) =
            self.boundaries.as_deref().and_then(|boundaries| boundaries.failure(port, cell.time))
        {
            self.conservation.dropped += 1;
            return Some(LostBefore { slot, at, order });
        }
        self.put_on_wire(port, &cell);
        None
    }
    /// Pause frames of another part that come to ports of this one.
    pub(crate) fn take_pauses(&mut self, packet_messages: &PacketMessages) {
        for pause in &packet_messages.pauses {
            self.deadlines.push(pause.at, Wake::Pause, super::number_of(pause));
        }
    }
    /// What stood still here at a look for deadlocks in this window, if there was one.
    pub(crate) fn take_standing(&mut self) -> Option<Standing> {
        self.boundaries.as_deref_mut()?.standing.take()
    }
    /// Whether there is a deadlock in what stood still in all parts at the last look.
    pub(crate) fn judge(&mut self, standing: &Standing) -> bool {
        self.deadlock = self.fabric.deadlock_in(standing);
        self.deadlock.is_some()
    }
    /// A packet is on the wire of a link that leads here from another part.
    pub(super) fn put_on_wire(&mut self, port: u32, cell: &Cell) {
        let next = self.fabric.put_on_wire(port, cell);
        if next != Time::NEVER {
            self.arrivals.push(next, port);
        }
    }
    /// True when a port is this part's, or nothing is divided.
    pub(crate) fn owns(&self, port: u32) -> bool {
        self.boundaries.as_deref().is_none_or(|boundaries| boundaries.owns(port))
    }
    /// Fetches from memory what [`Self::take_in`] touches some letters later: where the packet will lie.
    #[inline(always)]
    pub(crate) fn fetch_spare(&self) {
        self.arena.prefetch_spare(MESSAGES_AHEAD);
    }
    /// What the whole network needs of this part, whose work is over.
    pub(crate) fn take_apart(&mut self) -> Left {
        let (held, live) = self.held();
        self.leave_others();
        Left {
            me: self.boundaries.as_ref().map_or(0, |boundaries| boundaries.me),
            ports: self.fabric.leave(),
            packet_hops: self.packet_hops,
            no_way: self.no_way,
            returned: self.returned,
            conservation: self.conservation,
            held,
            live,
        }
    }
    /// The work is over: what is on the wires of links from other parts is let go of by the thread that has asked for its memory. Two threads that give
    /// back to one stock wait for each other's turn with every piece.
    pub(crate) fn leave_others(&mut self) {
        let boundaries = self.boundaries.as_deref();
        self.fabric.empty(|port| boundaries.is_some_and(|boundaries| !boundaries.owns(port)));
    }
    /// Puts the ports of another part into their places here, with all that was counted there: the network is whole again, to be read.
    pub(crate) fn join(&mut self, other: Left) {
        let Some(boundaries) = self.boundaries.as_deref() else { return };
        self.fabric.take_ports(other.ports, |port| boundaries.owner[port as usize] == other.me);
        self.packet_hops += other.packet_hops;
        self.no_way += other.no_way;
        self.returned += other.returned;
        self.conservation.sent += other.conservation.sent;
        self.conservation.delivered += other.conservation.delivered;
        self.conservation.dropped += other.conservation.dropped;
    }
    /// Packets in the ports and on the wires of this part, and slots of its arena that are in use.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.fabric.packets_held(), self.arena.live())
    }
    /// The own ports of a part that the others have joined.
    pub(crate) fn stay(&mut self) {
        let Some(boundaries) = self.boundaries.take() else { return };
        for port in (0..self.to.len() as u32).filter(|port| boundaries.is_egress_side(*port)) {
            self.fabric.make_whole_again(port);
        }
    }
}
