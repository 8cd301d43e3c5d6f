//! Whoever looks at every packet of a run: the log, or the account of deliveries, or both. Where neither is asked for, a packet pays the test
//! of one pointer.

use crate::metrics::Deliveries;
use crate::numbers::{ByFlow, NONE};
use crate::trace::Trace;
use penstock_fabric::{Arena, Cell, Loss, Port};
use penstock_units::{Dur, Time};

/// The log and the account of a run, as far as they are kept.
pub struct Watch {
    /// Rows of flows, by number.
    rows: ByFlow<u32>,
    /// This is one of several logical processes: flows have their numbers for rows until these are joined.
    pub by_number: bool,
    /// The log.
    pub log: Option<Trace>,
    /// The account of deliveries.
    pub deliveries: Option<Box<Deliveries>>,
}

impl Watch {
    /// Nothing is kept yet, of a network with so many hosts.
    pub fn new(hosts: usize) -> Watch {
        Watch { rows: ByFlow::new(hosts), by_number: false, log: None, deliveries: None }
    }
    /// A flow opens that has this row.
    pub fn opened(&mut self, flow: u32, row: u32) {
        *self.rows.entry(flow) = row;
    }
    /// The row of a flow; [`NONE`] for one that has not opened.
    pub fn row(&self, flow: u32) -> u32 {
        if self.by_number {
            return flow;
        }
        self.rows.get(flow).copied().unwrap_or(NONE)
    }
    /// A host sends a packet.
    #[cold]
    pub fn sent(&mut self, now: Time, cell: &Cell, arena: &Arena) {
        if let Some(log) = &mut self.log {
            let flow = arena.packets[cell.packet as usize].flow;
            log.sent(now, cell, arena, self.rows.get(flow).copied().unwrap_or(NONE));
        }
        if let Some(d) = &mut self.deliveries {
            d.sent(cell.packet);
        }
    }
    /// A port has taken a packet in.
    #[cold]
    pub fn queued(&mut self, now: Time, port: u32, slot: u32) {
        if let Some(log) = &mut self.log {
            log.queued(now, port, slot);
        }
    }
    /// A packet has arrived at the other end of a link, `delay` long.
    #[cold]
    pub fn arrived(&mut self, now: Time, port: u32, cell: &Cell, delay: Dur) {
        if let Some(log) = &mut self.log {
            log.arrived(now, port, cell, delay);
        }
        if let Some(d) = &mut self.deliveries {
            d.crossed(cell.packet, port);
        }
    }
    /// A packet is at the host it is for.
    #[cold]
    pub fn delivered(&mut self, now: Time, slot: u32, arena: &Arena) {
        let packet = &arena.packets[slot as usize];
        let row = self.row(packet.flow);
        if let Some(d) = &mut self.deliveries {
            d.delivered(now, slot, packet, row);
        }
    }
    /// A packet is lost at a port it was offered to (`at_once`) or in which it is.
    #[cold]
    pub fn dropped(
        &mut self,
        now: Time,
        port: u32,
        slot: u32,
        loss: Option<Loss>,
        at_once: bool,
        arena: &Arena,
    ) {
        let row = self.row(arena.packets[slot as usize].flow);
        if let Some(log) = &mut self.log {
            log.dropped(now, port, slot, loss, at_once);
        }
        if let Some(d) = &mut self.deliveries {
            d.lost(now, port, &arena.packets[slot as usize], row, loss);
        }
    }
    /// The packet of `flow` in `slot` has lost its payload in the port that has it now.
    #[cold]
    pub fn trimmed(&mut self, slot: u32, bytes: u32, flow: u32) {
        let row = self.row(flow);
        if let Some(log) = &mut self.log {
            log.trimmed(slot, bytes);
        }
        if let Some(d) = &mut self.deliveries {
            d.trimmed(row);
        }
    }
    /// A pause frame takes effect at `at`.
    #[cold]
    pub fn paused(&mut self, at: Time, port: u32, priority: u8, on: bool) {
        if let Some(log) = &mut self.log {
            log.paused(at, port, priority, on);
        }
    }
    /// Links fail or recover together.
    #[cold]
    pub fn links(&mut self, now: Time, links: &[u32], up: bool) {
        if let Some(log) = &mut self.log {
            links.iter().for_each(|link| log.link(now, *link, up));
        }
        if let Some(d) = &mut self.deliveries {
            d.links(now, links, up);
        }
    }
    /// The record ends: where the packets are that have not arrived. The ports are settled.
    pub fn end(&mut self, now: Time, ports: &[Port]) {
        if let Some(log) = &mut self.log {
            log.end(now, ports);
        }
    }
}
