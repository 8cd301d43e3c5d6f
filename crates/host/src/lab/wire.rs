//! The network of a lab as its network cards see it.

use crate::stack::Net;
use crate::stack::StackEvent;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use penstock_fabric::{Arena, Cell, Fabric, Offered, Pause};
use penstock_units::Time;

/// Kinds of events, in their order at one instant.
pub(super) mod kind {
    pub const ARRIVAL: u8 = 0;
    pub const PAUSE: u8 = 1;
    pub const NODE: u8 = 2;
    pub const HOST: u8 = 3;
    pub const CHANGE: u8 = 4;
}

type Key = Reverse<(Time, u8, u32)>;

/// All but the hosts: what a network card calls.
pub(super) struct Wire {
    pub fabric: Fabric,
    pub arena: Arena,
    pub heap: BinaryHeap<Key>,
    pub told: Vec<(Time, StackEvent)>,
    pub pauses: Vec<Pause>,
    pub free_pauses: Vec<u32>,
    pub drops: Vec<u32>,
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
}

impl Wire {
    pub fn drop(&mut self, slot: u32) {
        self.dropped += 1;
        self.drops.push(self.arena.packets[slot as usize].flow);
        self.arena.release(slot);
    }
    pub fn push(&mut self, at: Time, kind: u8, number: u32) {
        self.heap.push(Reverse((at, kind, number)));
    }
    pub fn offer(&mut self, at: Time, port: u32, cell: Cell) -> bool {
        let offered = self.fabric.offer(at, port, cell, &mut self.arena);
        let queued = match offered {
            Offered::Queued(next) | Offered::Trimmed(next) => {
                if let Some(next) = next {
                    self.push(next, kind::ARRIVAL, port);
                }
                true
            }
            Offered::Dropped(_) => {
                self.drop(cell.packet);
                false
            }
        };
        self.drain();
        queued
    }
    /// Takes what happened in the fabric beside the answers to calls.
    pub fn drain(&mut self) {
        if !self.fabric.effects().any() {
            return;
        }
        let fx = core::mem::take(self.fabric.effects());
        fx.lost.iter().for_each(|lost| self.drop(lost.cell.packet));
        fx.heads.iter().for_each(|(at, port)| self.push(*at, kind::ARRIVAL, *port));
        fx.wakes.iter().for_each(|(at, node)| self.push(*at, kind::NODE, *node));
        for pause in &fx.pauses {
            let slot = self.free_pauses.pop().unwrap_or_else(|| {
                self.pauses.push(*pause);
                self.pauses.len() as u32 - 1
            });
            self.pauses[slot as usize] = *pause;
            self.push(pause.at, kind::PAUSE, slot);
        }
    }
}

impl Net for Wire {
    fn arena(&mut self) -> &mut Arena {
        &mut self.arena
    }
    fn transmit(&mut self, at: Time, port: u32, cell: Cell) -> Option<Time> {
        self.sent += 1;
        let queued = self.offer(at, port, cell);
        queued.then(|| self.fabric.ports()[port as usize].free_at())
    }
    fn tell(&mut self, at: Time, stack_events: StackEvent) {
        self.told.push((at, stack_events));
    }
}
