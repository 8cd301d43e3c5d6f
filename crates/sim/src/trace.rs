//! The trace of a run: what became of every packet, and how flows stood, as a compact binary log.
//!
//! A run has none unless [`crate::engine::Engine::record`] is called. Without it the packet path pays one test of a pointer per hop and
//! nothing else. The browser page and `penstock run --record` read and write the same log:
//!
//! * 8 bytes `PENSTOCK`, a version (`u32`), the length of the head (`u32`), the head: a JSON document ([`head`]) padded with blanks to
//!   a multiple of four bytes;
//! * records of little-endian 32-bit words. The low four bits of the first word are the kind, bits 4..12 its own, bits 12..32 a port.
//!   Times are picoseconds in two words, the low one first; so are 64-bit numbers and doubles.
//!
//! | kind | words after the first | the first word's own bits |
//! |---|---|---|
//! | 1 sent | packet, time, flow, destination, sequence number (2), wire bytes, payload, flags | ECN 4..6, SACK blocks 6..8, priority 8..11 |
//! | | then two words per SACK block: start and end from the acknowledgement on | |
//! | 2 hop | packet, queued at, left at (last bit), and the arrival where bit 5 is set | 4: was marked here; 5: held up on the wire |
//! | 3 dropped | packet, queued at, dropped at | cause, [`CAUSES`] |
//! | 4 trimmed | packet, time, bytes that remain | |
//! | 5 pause | time at which it takes effect at the port | 4: stop; 5..8: priority |
//! | 6 opened | flow, time, source, destination, protocol, workload, size (2) | |
//! | 7 closed | flow, time | |
//! | 8 value | flow, time, value (2) | number of its name |
//! | 9 name | bytes, UTF-8 padded with zeros | its number |
//! | 10 timeout | flow, time | |
//! | 11 repair | flow, time: a loss was noticed without a timeout | |
//! | 12 held | packet, queued at, left at or 2^64 - 1: where it is when the record ends | |
//! | 13 link | time | 4: up |
//! | 14 result | bytes, a JSON document in UTF-8 padded with zeros ([`crate::session::Session::result`]); the last record of a file | |
//!
//! The low 16 bits of the flags are those of [`flag`]; the others are, of a transport that is no TCP, the first word of its own header: what
//! the packet is.
//!
//! A hop without bit 5 arrives at `left + delay` of its port. Packets are numbered from 0 as they come into the log; sequence numbers of ACKs
//! are the next byte expected. Records are in the order in which the engine learns of them, which is not that of time. A flow's values
//! are written when an ACK or a timeout has changed them, at most once in a part of the run ([`Wish::interval`]).

use crate::fabric_options;
use crate::setup::Setup;
use crate::topology::NodeKind;
use penstock_core::packet::flag;
use penstock_core::quantity::{Quantity, ACKED};
use penstock_core::{Amount, Ecn};
use penstock_fabric::{Arena, Cell, Loss, Port, Scheduler, Spread};
use penstock_units::{Dur, Time};
use serde_json::{json, Value};

/// Version of the log.
pub const VERSION: u32 = 1;
/// What drop records call their causes, by number.
pub const CAUSES: [&str; 6] = ["overflow", "early", "random", "nonect", "link down", "no way"];
/// Port of packets for which a node knows no way on.
pub const NOWHERE: u32 = (1 << 20) - 1;

const NONE: u32 = u32::MAX;
/// A packet that was sent before the record begins; it has a number once it is seen under way after that.
const EARLY: u32 = u32::MAX - 1;
/// A report of every sender that ACK records say already.
const KNOWN: &Quantity = &ACKED;

/// What is to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Packets that are under way at this time or sent later, each from its sending to its end; flows and values always.
    pub from: Time,
    /// Packets sent before this.
    pub until: Time,
    /// No packet is taken in beyond so many bytes of log. What is under way is followed to its end.
    pub most_bytes: u64,
    /// Shortest time between two records of the same flow's values.
    pub interval: Dur,
}

impl Wish {
    /// Everything of a run of this length, values 4000 times at most.
    pub fn all(duration: Dur) -> Wish {
        let interval = Dur(duration.0 / 4000);
        Wish { from: Time::ZERO, until: Time::NEVER, most_bytes: u64::MAX, interval }
    }
}

/// What is known of the packet in a slot of the arena.
#[derive(Clone, Copy)]
struct Seat {
    packet: u32,
    port: u32,
    queued: Time,
    ce: bool,
}

/// What was last written of a flow.
#[derive(Default)]
struct Known {
    at: Time,
    values: Vec<(u8, f64)>,
}

/// The log of a run in progress.
pub struct Trace {
    wish: Wish,
    words: Vec<u32>,
    written: u64,
    now: Time,
    seats: Vec<Seat>,
    packets: u32,
    /// By slot, the records of a packet that was sent before the record begins.
    early: Vec<Vec<Vec<u32>>>,
    names: Vec<&'static Quantity>,
    flows: Vec<Known>,
    full_at: Time,
}

impl Trace {
    /// An empty log.
    pub fn new(wish: Wish) -> Trace {
        Trace {
            wish,
            words: Vec::new(),
            written: 0,
            now: Time::ZERO,
            seats: Vec::new(),
            packets: 0,
            early: Vec::new(),
            names: Vec::new(),
            flows: Vec::new(),
            full_at: Time::NEVER,
        }
    }
    /// The records since the last call, into a buffer whose room is used again.
    pub fn take_into(&mut self, buffer: &mut Vec<u32>) {
        self.written += 4 * self.words.len() as u64;
        buffer.clear();
        std::mem::swap(buffer, &mut self.words);
    }
    /// From when on packets are missing because the log was full; [`Time::NEVER`] when none are.
    pub fn full_at(&self) -> Time {
        self.full_at
    }
    fn put(&mut self, words: &[u32]) {
        self.words.extend_from_slice(words);
    }

    // ---- packets -------------------------------------------------------------------------------------

    /// The next number of a packet, or `NONE` if the log is full.
    fn number(&mut self, now: Time) -> u32 {
        if self.written + 4 * self.words.len() as u64 >= self.wish.most_bytes {
            self.full_at = self.full_at.min(now);
            return NONE;
        }
        self.packets += 1;
        self.packets - 1
    }
    /// A record, at `now`, of the packet in `slot`; its second word will be the packet's number. Records of a packet sent before the log
    /// begins are kept until the packet is under way after that, and forgotten where it is not.
    fn note(&mut self, now: Time, slot: usize, record: &mut [u32]) {
        if self.seats[slot].packet == EARLY {
            if now < self.wish.from {
                self.early[slot].push(record.to_vec());
                return;
            }
            let packet = self.number(now);
            self.seats[slot].packet = packet;
            for mut earlier in std::mem::take(&mut self.early[slot]) {
                if packet != NONE {
                    earlier[1] = packet;
                    self.put(&earlier);
                }
            }
        }
        let packet = self.seats[slot].packet;
        if packet != NONE {
            record[1] = packet;
            self.put(record);
        }
    }
    /// A host sends a packet of the flow with this row.
    #[cold]
    pub fn sent(&mut self, now: Time, cell: &Cell, arena: &Arena, flow: u32) {
        self.now = now;
        let slot = cell.packet as usize;
        if self.seats.len() <= slot {
            self.seats.resize(slot + 1, Seat { packet: NONE, port: NOWHERE, queued: Time::ZERO, ce: false });
        }
        let seat = &mut self.seats[slot];
        *seat = Seat { packet: NONE, port: NOWHERE, queued: now, ce: cell.ecn() == Ecn::Ce };
        if now >= self.wish.until {
            return;
        }
        seat.packet = EARLY;
        if now >= self.wish.from {
            let packet = self.number(now);
            self.seats[slot].packet = packet;
            if packet == NONE {
                return;
            }
        } else {
            self.early.resize_with(self.early.len().max(slot + 1), Vec::new);
            self.early[slot].clear();
        }
        let p = &arena.packets[slot];
        let sacks = if p.has(flag::ACK) { p.sack_count() } else { 0 };
        let own = cell.ecn() as u32 | (sacks as u32) << 2 | u32::from(cell.priority()) << 4;
        let [at, seq] = [now.0, p.seq].map(halves);
        // Transports that are no TCP say in the room of the SACK blocks what a packet is.
        let kind = if sacks == 0 { p.word(0) & 0xFFFF } else { 0 };
        let flags = u32::from(p.flags) | kind << 16;
        let mut record = [0; 11 + 6];
        record[..8].copy_from_slice(&[1 | own << 4, 0, at[0], at[1], flow, cell.to, seq[0], seq[1]]);
        record[8..11].copy_from_slice(&[p.wire_len, p.payload, flags]);
        for (two, block) in record[11..].chunks_exact_mut(2).zip(&p.sack[..sacks]) {
            two.copy_from_slice(&[block.start, block.end]);
        }
        self.note(now, slot, &mut record[..11 + 2 * sacks]);
    }
    /// A port has taken a packet in.
    #[cold]
    pub fn queued(&mut self, now: Time, port: u32, slot: u32) {
        self.now = now;
        let seat = &mut self.seats[slot as usize];
        (seat.port, seat.queued) = (port, now);
    }
    /// A packet has arrived at the other end of a link, `delay` long.
    #[cold]
    pub fn arrived(&mut self, now: Time, port: u32, cell: &Cell, delay: Dur) {
        self.now = now;
        let seat = &mut self.seats[cell.packet as usize];
        let ce = cell.ecn() == Ecn::Ce;
        let marked = u32::from(ce && !seat.ce);
        seat.ce = ce;
        let Seat { queued, .. } = *seat;
        let late = cell.time + delay.0 != now.0;
        let [queued, left, at] = [queued.0, cell.time, now.0].map(halves);
        let first = 2 | marked << 4 | u32::from(late) << 5 | port << 12;
        let mut record = [first, 0, queued[0], queued[1], left[0], left[1], at[0], at[1]];
        let length = if late { 8 } else { 6 };
        self.note(now, cell.packet as usize, &mut record[..length]);
    }
    /// A packet is lost at a port it was offered to (`at_once`) or in which it is.
    #[cold]
    pub fn dropped(&mut self, now: Time, port: u32, slot: u32, loss: Option<Loss>, at_once: bool) {
        let cause = match loss {
            Some(Loss::Queue(cause)) => cause as u32,
            Some(Loss::Down) => 4,
            None => 5,
        };
        let Seat { queued, .. } = self.seats[slot as usize];
        let [queued, at] = [if at_once { now.0 } else { queued.0 }, now.0].map(halves);
        self.note(
            now,
            slot as usize,
            &mut [3 | cause << 4 | port << 12, 0, queued[0], queued[1], at[0], at[1]],
        );
        self.seats[slot as usize].packet = NONE;
    }
    /// The packet in `slot` has lost its payload in the port that has it now.
    #[cold]
    pub fn trimmed(&mut self, slot: u32, bytes: u32) {
        let Seat { port, .. } = self.seats[slot as usize];
        let at = halves(self.now.0);
        self.note(self.now, slot as usize, &mut [4 | port << 12, 0, at[0], at[1], bytes]);
    }
    /// A pause frame takes effect at `at`.
    #[cold]
    pub fn paused(&mut self, at: Time, port: u32, priority: u8, on: bool) {
        let time = halves(at.0);
        self.put(&[5 | u32::from(on) << 4 | u32::from(priority) << 5 | port << 12, time[0], time[1]]);
    }
    /// A link fails or recovers.
    #[cold]
    pub fn link(&mut self, now: Time, port: u32, up: bool) {
        let time = halves(now.0);
        self.put(&[13 | u32::from(up) << 4 | port << 12, time[0], time[1]]);
    }
    /// The record ends: where the packets are that have not arrived. The ports are settled.
    pub fn end(&mut self, now: Time, ports: &[Port]) {
        for (port, number) in ports.iter().zip(0u32..) {
            for (cell, left) in port.all_cells(now) {
                let Seat { queued, .. } = self.seats[cell.packet as usize];
                let [queued, left] = [queued, left].map(|t| halves(t.0));
                let mut record = [12 | number << 12, 0, queued[0], queued[1], left[0], left[1]];
                self.note(now, cell.packet as usize, &mut record);
            }
        }
    }

    // ---- flows ---------------------------------------------------------------------------------------

    fn of_flow(&mut self, kind: u32, flow: u32, at: Time) {
        let at = halves(at.0);
        self.put(&[kind, flow, at[0], at[1]]);
    }
    /// A flow begins.
    #[cold]
    pub fn opened(&mut self, at: Time, flow: u32, ends: (u32, u32), protocol: u16, workload: u32, size: u64) {
        self.of_flow(6, flow, at);
        let size = halves(size);
        self.put(&[ends.0, ends.1, u32::from(protocol), workload, size[0], size[1]]);
    }
    /// A flow is over.
    #[cold]
    pub fn closed(&mut self, at: Time, flow: u32) {
        self.of_flow(7, flow, at);
    }
    /// A retransmission timeout.
    #[cold]
    pub fn timeout(&mut self, at: Time, flow: u32) {
        self.of_flow(10, flow, at);
        if let Some(known) = self.flows.get_mut(flow as usize) {
            known.at = Time::ZERO;
        }
    }
    /// A loss was noticed and is repaired without a timeout.
    #[cold]
    pub fn repair(&mut self, at: Time, flow: u32) {
        self.of_flow(11, flow, at);
    }
    /// True when a flow's values are to be looked at again.
    pub fn wants_values(&mut self, now: Time, flow: u32) -> bool {
        if self.flows.len() <= flow as usize {
            self.flows.resize_with(flow as usize + 1, Known::default);
        }
        let known = &mut self.flows[flow as usize];
        let wanted = known.at == Time::ZERO || now >= known.at + self.wish.interval;
        if wanted {
            known.at = now;
        }
        wanted
    }
    /// A value of a flow, as [`penstock_host::Stack::observe`] reports it; written when it is another than before.
    pub fn value(&mut self, now: Time, flow: u32, name: &'static Quantity, value: f64) {
        if name.is(KNOWN) {
            return;
        }
        let number = self.names.iter().position(|n| n.is(name)).unwrap_or_else(|| self.add_name(name)) as u8;
        let known = &mut self.flows[flow as usize].values;
        match known.iter_mut().find(|(n, _)| *n == number) {
            Some((_, old)) if old.to_bits() == value.to_bits() => return,
            Some((_, old)) => *old = value,
            None => known.push((number, value)),
        }
        self.of_flow(8 | u32::from(number) << 4, flow, now);
        let value = halves(value.to_bits());
        self.put(&value);
    }
    fn add_name(&mut self, quantity: &'static Quantity) -> usize {
        let number = self.names.len();
        self.names.push(quantity);
        put_text(&mut self.words, 9 | (number as u32) << 4, quantity.name);
        number
    }
}

fn put_text(words: &mut Vec<u32>, kind: u32, text: &str) {
    words.extend([kind, text.len() as u32]);
    for four in text.as_bytes().chunks(4) {
        let mut word = [0; 4];
        word[..four.len()].copy_from_slice(four);
        words.push(u32::from_le_bytes(word));
    }
}

/// The last record of a file: what the run has measured.
pub fn result_record(result: &Value) -> Vec<u32> {
    let mut words = Vec::new();
    put_text(&mut words, 14, &result.to_string());
    words
}

/// A 64-bit number as two words.
fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

/// The head of a log: the network, the run, and what numbers stand for.
pub fn head(setup: &Setup) -> Value {
    let limit = |amount: &Option<Amount>| match amount {
        None => Value::Null,
        Some(Amount::Bytes(n)) => json!({ "bytes": n }),
        Some(Amount::Packets(n)) => json!({ "packets": n }),
    };
    let t = &setup.topology;
    let order = |order: Scheduler| match order {
        Scheduler::Fifo => "fifo",
        Scheduler::Strict => "strict",
        Scheduler::Drr(_) => "drr",
        Scheduler::Rank => "rank",
    };
    let spread = match setup.fabric.spread {
        Spread::Drawn => "drawn",
        Spread::Ideal => "ideal",
        Spread::Hash { by_sender: false, .. } => "flow",
        Spread::Hash { by_sender: true, .. } => "entropy",
        Spread::Packet => "packet",
        Spread::RoundRobin => "round-robin",
        Spread::Flowlet { .. } => "flowlet",
        Spread::Weighted { .. } => "weighted",
        Spread::Adaptive => "adaptive",
    };
    let node = |n: &crate::topology::Node| json!([n.name, u8::from(n.kind == NodeKind::Switch)]);
    let link = |l: &crate::topology::Link| {
        let told = fabric_options::told(setup, l);
        json!({
            "from": l.from, "to": l.to, "rate_bps": l.rate.0, "delay_ps": l.delay.0,
            "limit": limit(&told.limit), "queue": told.queue, "trims_to": told.trims_to, "order": order(told.order),
        })
    };
    json!({
        "nodes": t.nodes.iter().map(node).collect::<Vec<_>>(),
        "links": t.links.iter().map(link).collect::<Vec<_>>(),
        "protocols": setup.protocol_names,
        "mss": setup.protocols.iter().map(|(_, c)| c.mss).collect::<Vec<_>>(),
        "duration_ps": setup.duration.0,
        "warmup_ps": setup.warmup.0,
        "framing": setup.framing,
        "spread": spread,
        "seed": setup.seed,
        "run": setup.run,
        "bottleneck": setup.bottleneck.candidate(),
        "causes": CAUSES,
    })
}

/// What stands before the records of a log in a file.
pub fn preamble(head: &Value) -> Vec<u8> {
    let mut text = head.to_string().into_bytes();
    while !text.len().is_multiple_of(4) {
        text.push(b' ');
    }
    let mut out = b"PENSTOCK".to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(&text);
    out
}
