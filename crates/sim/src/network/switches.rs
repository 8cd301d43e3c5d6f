//! Switches whose ports do not depend on each other: a window's packets are offered port by port.
//!
//! Such a switch needs no order of events between its ports: only the packets that leave by one port have to be in order. Where they leave is found for
//! all of them first. Then each port is offered what it gets, one packet after the other, while it is in the processor's cache.

use super::inbox::{Run, NONE};
use super::Network;
use penstock_fabric::{prefetch, Cell, NextHops, Port, Queue};
use penstock_units::Time;

/// What a port is offered in a window: [`Switches::keys`] from the first to one past the last.
#[derive(Clone, Copy)]
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

/// See the top of the file.
#[derive(Default)]
pub(super) struct Switches {
    /// By node: it is one.
    is_one: Box<[bool]>,
    /// By port: how many packets it gets from the switch whose turn it is, and then where the next one goes among the keys.
    count: Box<[u32]>,
    /// The ports by which the packets of a switch leave, with their keys.
    hops: Vec<(u32, u64)>,
    /// When a packet comes, since a time before the window, and the number of its cell. Cells have the order of their links, and those of a link that of time.
    keys: Vec<u64>,
    shares: Vec<Share>,
    /// Packets lost in this window.
    lost: Vec<LostAt>,
    /// How many of them had no way on.
    no_way: u64,
}

/// So many shares ahead a port is fetched from memory, then its queue and its first packet.
const PORT_AHEAD: usize = 12;
const CELL_AHEAD: usize = 6;

impl Switches {
    pub fn new(nodes: usize, ports: &[Port], from: &[u32], is_host: &[bool]) -> Switches {
        let mut is_one: Box<[bool]> = is_host.iter().map(|is_host| !is_host).collect();
        debug_assert_eq!(is_one.len(), nodes);
        for (port, node) in ports.iter().zip(from) {
            is_one[*node as usize] &= port.keeps_to_itself();
        }
        Switches { is_one, count: vec![0; ports.len()].into(), ..Switches::default() }
    }
    /// A node is such a switch.
    #[inline(always)]
    pub fn has(&self, node: u32) -> bool {
        self.is_one.get(node as usize).copied().unwrap_or(false)
    }
    /// Finds the ports by which the packets in the inbox of a switch leave: `runs`, from `first` on. `since`: no packet comes earlier.
    pub fn find_ports(
        &mut self,
        node: u32,
        first: u32,
        runs: &[Run],
        cells: &mut [Cell],
        next_hops: &NextHops<'_>,
        since: u64,
    ) {
        let Switches { count, hops, keys, shares, lost, no_way, .. } = self;
        let from = shares.len();
        hops.clear();
        let mut run = first;
        while run != NONE {
            let Run { link, cells: (first, last), next } = runs[run as usize];
            let numbers = first..last;
            for (number, cell) in numbers.zip(&mut cells[first as usize..last as usize]) {
                let mut entropy = cell.entropy;
                match next_hops.next(node, cell.to, &mut entropy) {
                    Some(port) => {
                        cell.entropy = entropy;
                        hops.push((port, (cell.time - since) << 32 | u64::from(number)));
                        let count = &mut count[port as usize];
                        if *count == 0 {
                            shares.push(Share { port, keys: (0, 0) });
                        }
                        *count += 1;
                    }
                    None => {
                        *no_way += 1;
                        lost.push(LostAt { at: Time(cell.time), link, slot: cell.packet });
                    }
                }
            }
            run = next;
        }
        let mut end = keys.len() as u32;
        for share in &mut shares[from..] {
            let count = &mut count[share.port as usize];
            share.keys = (end, end + *count);
            (*count, end) = (end, end + *count);
        }
        keys.resize(end as usize, 0);
        for (port, key) in hops {
            let place = &mut count[*port as usize];
            keys[*place as usize] = *key;
            *place += 1;
        }
        shares[from..].iter().for_each(|share| count[share.port as usize] = 0);
    }
}

impl Network {
    /// Every port is offered what has been found for it.
    #[inline(never)]
    pub(crate) fn offer_shares(&mut self) -> Vec<LostAt> {
        let Network { fabric, arena, inboxes, arrivals, fetches, .. } = self;
        let Some(inboxes) = inboxes.as_deref_mut() else { return Vec::new() };
        let Switches { shares, keys, lost, no_way, .. } = &mut inboxes.switches;
        let (cells, runs) = (&inboxes.cells[..], &inboxes.runs[..]);
        let slots = arrivals.slots().expect("arrivals are kept by windows");
        let ports = fabric.ports_mut();
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
            keys.sort_unstable();
            let queue = Queue { cells, keys };
            let lose = |cell: &Cell, number: u32| {
                let run = runs.partition_point(|run| run.cells.1 <= number);
                lost.push(LostAt { at: Time(cell.time), link: runs[run].link, slot: cell.packet });
            };
            let head = ports[port as usize].offer_all(queue, 1, arena, lose, |_, _, _| {});
            slots.put_if(head.0, port);
        }
        shares.clear();
        keys.clear();
        self.no_way += std::mem::take(no_way);
        std::mem::take(lost)
    }
}
