//! Switches whose ports do not depend on each other: a window's packets are offered port by port.
//!
//! Such a switch needs no order of events between its ports: only the packets that leave by one port have to be in order. Where they leave is found for
//! all of them first. Then each port is offered what it gets, one packet after the other, while it is in the processor's cache.

use super::inbox::Run;
use super::Network;
use crate::events::{Deadlines, Pending, Wake};
use penstock_fabric::{prefetch, Arena, Cell, NextHops, Port, Queue};
use penstock_units::Time;

/// What a port is offered in a window: [`Switches::keys`] from the first to one past the last.
#[derive(Clone, Copy, Default)]
struct Share {
    port: u32,
    keys: (u32, u32),
}

/// A packet that a switch has lost.
#[derive(Clone, Copy)]
pub(crate) struct LostAt {
    pub at: Time,
    /// The link by which it came.
    pub link: u32,
    pub slot: u32,
}

impl LostAt {
    #[cold]
    fn of(cell: &Cell, number: u32, runs: &[Run]) -> LostAt {
        let run = runs.partition_point(|run| run.end <= number);
        LostAt { at: Time(cell.time), link: runs[run].link, slot: cell.packet }
    }
}

/// See the top of the file.
pub(super) struct Switches {
    /// By node: it is one.
    is_one: Box<[bool]>,
    /// By port: how many packets it gets from the switch whose turn it is, and then where the next one goes among the keys.
    count: Box<[u32]>,
    /// Length of a window, ps, and how long each of its [`PARTS`] is: that power of two.
    length: u64,
    shift: u32,
    /// The packets of a switch, in the order of their links, and then about in the order of time.
    hops: Vec<Hop>,
    in_order: Vec<Hop>,
    /// When packets come, since the begin of the window, with the numbers of their cells: those of each share together. Cells have the order of their
    /// links, and those of a link that of time.
    keys: Vec<u64>,
    keys_len: usize,
    shares: Vec<Share>,
    shares_len: usize,
    /// Ports whose controllers have a deadline in this window.
    ticking: Vec<u32>,
    /// Packets lost in this window.
    lost: Vec<LostAt>,
    /// How many of them had no way on.
    no_way: u64,
}

/// A packet that goes on: its port, and its key.
#[derive(Clone, Copy, Default)]
struct Hop {
    port: u32,
    key: u64,
}

/// The deadlines of controllers in a window that ends with `end`.
struct Clocks<'a> {
    wakes: &'a mut [Pending],
    deadlines: &'a mut Deadlines,
    end: Time,
}

impl Clocks<'_> {
    /// The deadlines of the controller at a port that come before a time. Those after the window are wake-ups like any other.
    #[inline(always)]
    fn run(&mut self, number: u32, port: &mut Port, before: u64, arena: &mut Arena) {
        let wake = &mut self.wakes[number as usize];
        while wake.next().0 < before {
            let now = wake.next();
            wake.fired(now);
            let next = port.tick(now, arena);
            if next != Time::NEVER && wake.arm(next) && next > self.end {
                self.deadlines.push(next, Wake::Link, number);
            }
        }
    }
}

/// So many shares ahead a port is fetched from memory, then its queue and its first packet.
const PORT_AHEAD: usize = 12;
const CELL_AHEAD: usize = 6;

/// Parts of a window into which a switch's packets are counted, so that few have to be put before others of their port.
const PARTS: usize = 64;
/// With fewer packets at a switch the parts, all of which are gone through, would be most of the work.
const FEW: usize = 24;

/// A list has room for so many.
fn make_room<T: Clone + Default>(list: &mut Vec<T>, most: usize) {
    if list.len() < most {
        list.resize(most.max(2 * list.len()), T::default());
    }
}

impl Switches {
    /// Which nodes those are; `none`: for a network in which there are none. A window is `length` long.
    pub fn new(none: bool, ports: &[Port], from: &[u32], is_host: &[bool], length: u64) -> Switches {
        let mut is_one: Box<[bool]> = is_host.iter().map(|is_host| !is_host && !none).collect();
        for (port, node) in ports.iter().zip(from) {
            is_one[*node as usize] &= port.keeps_to_itself();
        }
        let bits = u64::BITS - (length - 1).leading_zeros();
        Switches {
            is_one,
            count: vec![0; ports.len()].into(),
            length,
            shift: bits.saturating_sub(PARTS.ilog2()),
            hops: Vec::new(),
            in_order: Vec::new(),
            keys: Vec::new(),
            keys_len: 0,
            shares: Vec::new(),
            shares_len: 0,
            ticking: Vec::new(),
            lost: Vec::new(),
            no_way: 0,
        }
    }
    /// A node is such a switch.
    #[inline(always)]
    pub fn has(&self, node: u32) -> bool {
        self.is_one[node as usize]
    }
    /// There is room for what so many packets need.
    pub fn expect(&mut self, packets: usize) {
        make_room(&mut self.hops, packets + 1);
        make_room(&mut self.in_order, packets);
        make_room(&mut self.keys, packets);
        make_room(&mut self.shares, packets.min(self.count.len()) + 1);
    }
    /// Finds the ports by which the packets in the inbox of a switch leave: those numbers of `cells`, in a window that ends with or after `end`.
    #[inline(always)]
    pub fn find_ports(
        &mut self,
        node: u32,
        (first, last): (u32, u32),
        runs: &[Run],
        cells: &mut [Cell],
        next_hops: &NextHops<'_>,
        end: Time,
    ) {
        let begin = end.0 / self.length * self.length;
        let mut parts = [0u32; PARTS];
        let mut packets = 0;
        let (mut shares_len, first_share) = (self.shares_len, self.shares_len);
        for (number, cell) in (first..last).zip(&mut cells[first as usize..last as usize]) {
            let mut entropy = cell.entropy;
            let Some(port) = next_hops.next(node, cell.to, &mut entropy) else {
                self.no_way += 1;
                self.lost.push(LostAt::of(cell, number, runs));
                continue;
            };
            cell.entropy = entropy;
            let since = cell.time - begin;
            self.hops[packets] = Hop { port, key: since << 32 | u64::from(number) };
            packets += 1;
            parts[(since >> self.shift) as usize % PARTS] += 1;
            let count = &mut self.count[port as usize];
            // No jump on whether it is the first, as nobody can foresee it.
            self.shares[shares_len].port = port;
            shares_len += usize::from(*count == 0);
            *count += 1;
        }
        let mut end = self.keys_len as u32;
        for share in &mut self.shares[first_share..shares_len] {
            let count = &mut self.count[share.port as usize];
            share.keys = (end, end + *count);
            (*count, end) = (end, end + *count);
        }
        (self.shares_len, self.keys_len) = (shares_len, end as usize);
        let hops = match packets > FEW {
            true => {
                let mut before = 0;
                for part in &mut parts {
                    before += std::mem::replace(part, before);
                }
                for hop in &self.hops[..packets] {
                    let place = &mut parts[(hop.key >> 32 >> self.shift) as usize % PARTS];
                    self.in_order[*place as usize] = *hop;
                    *place += 1;
                }
                &self.in_order[..packets]
            }
            false => &self.hops[..packets],
        };
        for hop in hops {
            let place = &mut self.count[hop.port as usize];
            self.keys[*place as usize] = hop.key;
            *place += 1;
        }
        for share in &self.shares[first_share..shares_len] {
            self.count[share.port as usize] = 0;
        }
    }
}

/// Puts keys in order that nearly are.
#[inline(always)]
fn put_in_order(keys: &mut [u64]) {
    for i in 1..keys.len() {
        let key = keys[i];
        let mut at = i;
        while at > 0 && keys[at - 1] > key {
            keys[at] = keys[at - 1];
            at -= 1;
        }
        keys[at] = key;
    }
}

impl Network {
    /// A controller has a deadline in this window; true where it belongs to a switch whose ports do not depend on each other.
    pub(crate) fn ticks_apart(&mut self, port: u32) -> bool {
        let Some(inboxes) = self.inboxes.as_deref_mut() else { return false };
        let apart = inboxes.switches.has(self.from[port as usize]);
        if apart {
            inboxes.switches.ticking.push(port);
        }
        apart
    }
    /// Every port is offered what has been found for it, in a window that ends with `end`, and controllers have their deadlines.
    #[inline(never)]
    pub(crate) fn offer_shares(&mut self, end: Time) -> Vec<LostAt> {
        let Network { fabric, arena, inboxes, arrivals, fetches, link_wake, deadlines, .. } = self;
        let Some(inboxes) = inboxes.as_deref_mut() else { return Vec::new() };
        let Switches { shares, shares_len, keys, keys_len, ticking, lost, no_way, .. } =
            &mut inboxes.switches;
        let mut clocks = Clocks { wakes: link_wake, deadlines, end };
        let (cells, runs) = (&inboxes.cells[..], &inboxes.runs[..]);
        let slots = arrivals.slots().expect("arrivals are kept by windows");
        let ports = fabric.ports_mut();
        let shares = &shares[..std::mem::take(shares_len)];
        for (i, Share { port, keys: (first, last) }) in shares.iter().copied().enumerate() {
            if *fetches {
                if let Some(ahead) = shares.get(i + PORT_AHEAD) {
                    ports[ahead.port as usize].prefetch();
                    prefetch(&cells[keys[ahead.keys.0 as usize] as u32 as usize]);
                }
                if let Some(ahead) = shares.get(i + CELL_AHEAD) {
                    ports[ahead.port as usize].prefetch_tail();
                }
            }
            let keys = &mut keys[first as usize..last as usize];
            put_in_order(keys);
            let lose = |cell: &Cell, number| lost.push(LostAt::of(cell, number, runs));
            let tick = |link: &mut Port, at, arena: &mut Arena| clocks.run(port, link, at, arena);
            let head = ports[port as usize].offer_all(Queue { cells, keys }, arena, lose, tick);
            slots.put_if(head.0, port);
        }
        for port in ticking.drain(..) {
            clocks.run(port, &mut ports[port as usize], end.0 + 1, arena);
        }
        *keys_len = 0;
        self.no_way += std::mem::take(no_way);
        std::mem::take(lost)
    }
}
