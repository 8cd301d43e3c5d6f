//! A stack that does nothing but send packets, and writes down when it was called.

use penstock_fabric::{Arena, Cell};
use penstock_host::{ApplicationReads, Counters, FastPath, Io, Opening, Order, Stack};
use penstock_units::Time;

const NS: u64 = 1000;

/// A connection: how many packets of how many bytes, how far apart, how many without a credit.
#[derive(Clone, Debug)]
pub struct Conn {
    pub flow: u32,
    pub packets: u32,
    pub bytes: u32,
    /// Pacing, in ns; 0 = none.
    pub gap: u64,
    pub priority: u8,
    pub credit: u32,
    pub next_at: u64,
    pub seq: u64,
}

impl Conn {
    pub fn new(packets: u32, bytes: u32, gap: u64, priority: u8, credit: u32) -> Conn {
        Conn { flow: 0, packets, bytes, gap, priority, credit, next_at: 0, seq: 0 }
    }
    fn wants(&self) -> bool {
        self.packets > 0 && self.credit > 0
    }
}

/// A call that did something: when, and what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Did {
    Sent(u64, u32, u64),
    Heard(u64, u32),
    Woke(u64),
}

/// The stack.
#[derive(Clone, Debug)]
pub struct Toy {
    pub conns: Vec<Conn>,
    pub order: Order,
    /// So many ns after a packet, if nothing was set before, the stack wakes up and has one packet more; 20 times.
    pub timer: Option<u64>,
    pub did: Vec<Did>,
    deadline: u64,
    wakes: u32,
    turn: usize,
}

impl Toy {
    pub fn new(order: Order, timer: Option<u64>, conns: Vec<Conn>) -> Toy {
        Toy { conns, order, timer, did: Vec::new(), deadline: u64::MAX, wakes: 0, turn: 0 }
    }
    /// All times at which something may be different.
    pub fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.conns.iter().filter(|c| c.wants()).map(|c| c.next_at).chain([self.deadline])
    }
    /// A handle's connection: 4 handles per stack.
    fn conn(&mut self, handle: u32) -> &mut Conn {
        &mut self.conns[(handle % 4) as usize]
    }
}

/// A packet that gives connection `handle` a credit.
pub fn credit(arena: &mut Arena, handle: u32) -> Cell {
    let slot = arena.alloc();
    arena.packets[slot as usize].set_conn(handle);
    Cell::new(slot, 1)
}

impl Stack for Toy {
    fn open(&mut self, _: &mut Io<'_>, _: &Opening, _: u64, _: bool) {}
    fn accept(&mut self, _: &mut Io<'_>, _: &Opening) {}
    fn set_peer(&mut self, _: u32, _: u32) {}
    fn write(&mut self, _: &mut Io<'_>, conn: u32, bytes: u64) {
        self.conn(conn).packets += bytes as u32;
    }
    fn close(&mut self, _: &mut Io<'_>, _: u32) {}
    fn abort(&mut self, _: &mut Io<'_>, _: u32) {}
    fn remove(&mut self, _: &mut Io<'_>, _: u32) {}
    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell) {
        let handle = io.arena.packets[cell.packet as usize].conn();
        io.arena.release(cell.packet);
        let conn = self.conn(handle);
        conn.credit = conn.credit.saturating_add(1);
        let flow = conn.flow;
        self.did.push(Did::Heard(io.now.0, flow));
    }
    fn poll_transmit(&mut self, io: &mut Io<'_>, _: Option<u32>) -> Option<Cell> {
        let n = self.conns.len();
        let first = if self.order == Order::Strict { 0 } else { self.turn };
        let i = (0..n).map(|k| (first + k) % n).find(|i| {
            let c = &self.conns[*i];
            c.wants() && c.next_at <= io.now.0 && io.paused & (1 << c.priority) == 0
        })?;
        self.turn = (i + 1) % n;
        let c = &mut self.conns[i];
        c.packets -= 1;
        if c.credit != u32::MAX {
            c.credit -= 1;
        }
        c.next_at = if c.gap > 0 { io.now.0 + c.gap * NS } else { 0 };
        let slot = io.arena.alloc();
        let packet = &mut io.arena.packets[slot as usize];
        (packet.flow, packet.seq) = (c.flow, c.seq);
        c.seq += 1;
        self.did.push(Did::Sent(io.now.0, c.flow, c.seq));
        if let (Some(after), u64::MAX, 0..20) = (self.timer, self.deadline, self.wakes) {
            self.deadline = io.now.0 + after * NS;
        }
        Some(Cell::new(slot, c.bytes).with_priority(c.priority))
    }
    fn ready_at(&self, paused: u8) -> Time {
        let open = self.conns.iter().filter(|c| c.wants() && paused & (1 << c.priority) == 0);
        Time(open.map(|c| c.next_at).min().unwrap_or(u64::MAX))
    }
    fn next_timer(&self) -> Time {
        Time(self.deadline)
    }
    fn on_timer(&mut self, io: &mut Io<'_>) {
        self.did.push(Did::Woke(io.now.0));
        self.deadline = u64::MAX;
        self.wakes += 1;
        self.conns[0].packets += 1;
    }
    fn counters(&self, _: u32) -> Counters {
        Counters::default()
    }
}

impl ApplicationReads for Toy {}
impl FastPath for Toy {}
