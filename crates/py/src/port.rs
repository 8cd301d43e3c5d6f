//! What a class written in Python does at a port: a queue decides about packets, a router reads and writes their headers.

use crate::object::{Bare, Object, Shared, Which};
use crate::records::{
    put_headed, put_line, put_link, put_packet, put_place, put_waited, Fixed, Headed, Read, PACKET_RANDOM,
    WAITED_RANDOM,
};
use penstock_core::{
    Backlog, CcHeader, DropCause, LinkController, LinkView, Looks, Packet, QueueDiscipline, Report, Stream,
    Verdict,
};
use penstock_models::registry::LinkFacts;
use penstock_units::{Dur, Rate, Time};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// Name of a port in a message until who knows the network replaces it (`lib.rs`).
pub fn numbered(port: u32) -> String {
    format!("port #{port}")
}

/// The queue of one port. Calls: 0 `on_arrival(packet, port)`, 1 `on_departure(waited, port)`.
pub struct Queue {
    object: Object,
    /// The short way to `on_arrival`.
    bare: Option<Bare>,
    port: u32,
    fixed: Fixed,
    random: bool,
    reads: [Read; 2],
}

// Positions of the records.
const PACKET: usize = 0;
const WAITED: usize = 1;
const PORT: usize = 2;

impl Queue {
    /// For a port whose full data packets have `packet` bytes; `random` when the class asks for random numbers, `reads` what it
    /// reads of packets and of the port.
    pub fn new(shared: &Arc<Shared>, packet: u32, random: bool, reads: [Read; 2]) -> Queue {
        let object = Object::new(shared);
        let bare = object.bare((PACKET, PORT));
        Queue { object, bare, port: 0, fixed: Fixed::new(Rate(0), packet), random, reads }
    }
    #[inline]
    fn judge(&mut self, call: i64, now: Time, q: &Backlog, full: bool, rng: &mut Stream) -> Verdict {
        let records = &self.object.shared.records;
        put_place(&records[PORT], now, q, full, self.reads[1], &mut self.fixed);
        let (record, at) = if call == 0 { (PACKET, PACKET_RANDOM) } else { (WAITED, WAITED_RANDOM) };
        if self.random {
            records[record][at].store(rng.clone().uniform().to_bits(), Relaxed);
            records[record][at + 1].store(0, Relaxed);
        }
        let which = Which { call, records: (record, PORT), timer: false };
        let answer = match self.bare {
            Some(bare) if call == 0 => bare.call(0),
            _ => self.object.call(which, now).map(|[answer, _]| answer),
        };
        if self.random && self.object.shared.records[record][at + 1].load(Relaxed) & 1 != 0 {
            rng.next_u64();
        }
        match answer {
            Some(0.0) => Verdict::Accept,
            Some(1.0) => Verdict::Mark,
            Some(2.0) => Verdict::Drop(DropCause::Early),
            _ => self.object.fail(which, now, &numbered(self.port)),
        }
    }
}

impl QueueDiscipline for Queue {
    fn admit(&mut self, now: Time, q: &Backlog, packet: &Packet, full: bool, rng: &mut Stream) -> Verdict {
        if !self.object.shared.has(0) {
            return Verdict::Accept;
        }
        put_packet(&self.object.shared.records[PACKET], packet, self.reads[0]);
        self.judge(0, now, q, full, rng)
    }
    fn on_dequeue(&mut self, now: Time, sojourn: Dur, left: &Backlog, rng: &mut Stream) -> Verdict {
        if !self.wants_dequeue() {
            return Verdict::Accept;
        }
        put_waited(&self.object.shared.records[WAITED], sojourn);
        self.judge(1, now, left, false, rng)
    }
    fn wants_dequeue(&self) -> bool {
        self.object.shared.has(1)
    }
    fn at_port(&mut self, port: u32) {
        self.port = port;
    }
}

/// What a router does for one output link.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
enum Call {
    /// `on_start(link)`.
    Start = 0,
    /// `on_arrival(packet, port)`.
    Arrival = 1,
    /// `on_drop(packet, port)`.
    Drop = 2,
    /// `on_departure(packet, port)`.
    Departure = 3,
    /// `on_timer(port)`.
    Timer = 4,
}

// Positions of the records.
const HEADED: usize = 0;
const LINE: usize = 1;
const LINK: usize = 2;

/// The controller of one output link.
pub struct Router {
    object: Object,
    facts: LinkFacts,
    port: u32,
}

impl Router {
    /// For a link.
    pub fn new(shared: &Arc<Shared>, facts: &LinkFacts) -> Router {
        Router { object: Object::new(shared), facts: *facts, port: 0 }
    }
    fn call(&mut self, call: Call, now: Time) {
        if !self.object.shared.has(call as i64) {
            return;
        }
        let records = match call {
            Call::Start => (LINK, LINE),
            Call::Timer => (LINE, LINE),
            _ => (HEADED, LINE),
        };
        let which = Which { call: call as i64, records, timer: call == Call::Timer };
        if self.object.call(which, now).is_none() {
            self.object.fail(which, now, &numbered(self.port));
        }
    }
    fn packet(&mut self, call: Call, now: Time, link: &LinkView, packet: &Packet, header: &CcHeader) {
        if !self.object.shared.has(call as i64) {
            return;
        }
        let records = &self.object.shared.records;
        put_headed(&records[HEADED], packet, link.len(packet), header.get::<Headed>().as_ref());
        put_line(&records[LINE], now, link);
        self.call(call, now);
    }
    /// What the method has written, where the packet has a header.
    fn write(&self, call: Call, now: Time, header: &mut CcHeader) {
        if header.get::<Headed>().is_none() || !self.object.shared.has(call as i64) {
            return;
        }
        let written = Headed::read(&self.object.shared.records[HEADED]);
        if written.is_nan() {
            let which = Which { call: call as i64, records: (HEADED, LINE), timer: false };
            self.object.fail(which, now, &numbered(self.port));
        }
        header.set(&written);
    }
}

impl LinkController for Router {
    fn on_arrival(&mut self, now: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        self.packet(Call::Arrival, now, link, packet, header);
        self.write(Call::Arrival, now, header);
    }
    fn on_drop(&mut self, now: Time, link: &LinkView, packet: &Packet, header: &CcHeader) {
        self.packet(Call::Drop, now, link, packet, header);
    }
    fn on_departure(&mut self, now: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        self.packet(Call::Departure, now, link, packet, header);
        self.write(Call::Departure, now, header);
    }
    fn looks(&self) -> Looks {
        if self.object.shared.has(Call::Departure as i64) {
            Looks::ALL
        } else {
            Looks::ARRIVALS
        }
    }
    fn deadline(&self) -> Time {
        self.object.deadline
    }
    fn on_deadline(&mut self, now: Time, link: &LinkView) {
        put_line(&self.object.shared.records[LINE], now, link);
        self.call(Call::Timer, now);
    }
    /// It begins here, where it knows its port.
    fn at_port(&mut self, port: u32) {
        self.port = port;
        put_link(&self.object.shared.records[LINK], &self.facts);
        self.call(Call::Start, Time::ZERO);
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.object.observe(report);
    }
}
