//! A small driver of a fabric: one heap of events, nothing else.
#![allow(dead_code)]

use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_fabric::{Arena, Cell, Fabric, Lost, Offered, Pause};
use penstock_units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub fn stream(index: u64) -> Stream {
    Stream::new(7, 0, Entity::Port, index)
}

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A packet has arrived at the other end of this port's link.
    Arrived(u32, Cell),
    /// A time the test had asked for.
    Mine(u32),
    /// Nothing a test has to know.
    Inner,
}

/// Arrivals first, by port; then pauses, wakes and the test's own, each in the order they were asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrival(u32),
    Pause(u64, u32, u8, bool),
    Wake(u32),
    Mine(u64, u32),
}

pub struct Net {
    pub fabric: Fabric,
    pub seg: Arena,
    pub lost: Vec<Lost>,
    /// Pause frames that took effect.
    pub pauses: Vec<Pause>,
    /// Wake-ups carried out, and packets arrived over links.
    pub wakes: u64,
    pub hops: u64,
    heap: BinaryHeap<Reverse<(u64, What)>>,
    count: u64,
    now: Time,
}

impl Net {
    pub fn new(fabric: Fabric) -> Net {
        Net {
            fabric,
            seg: Arena::new(false),
            lost: Vec::new(),
            pauses: Vec::new(),
            wakes: 0,
            hops: 0,
            heap: BinaryHeap::new(),
            count: 0,
            now: Time::ZERO,
        }
    }
    pub fn at(&mut self, t: Time, tag: u32) {
        self.count += 1;
        self.heap.push(Reverse((t.0, What::Mine(self.count, tag))));
    }
    /// Offers a packet to a port.
    pub fn send(&mut self, now: Time, port: u32, cell: Cell) -> Offered {
        let offered = self.fabric.offer(now, port, cell, &mut self.seg);
        if let Offered::Queued(Some(t)) | Offered::Trimmed(Some(t)) = offered {
            self.heap.push(Reverse((t.0, What::Arrival(port))));
        }
        self.take_effects();
        offered
    }
    pub fn take_effects(&mut self) {
        let fx = self.fabric.effects();
        if !fx.any() {
            return;
        }
        self.lost.append(&mut fx.lost);
        for (t, port) in &fx.heads {
            self.heap.push(Reverse((t.0, What::Arrival(*port))));
        }
        for p in &fx.pauses {
            self.count += 1;
            self.heap.push(Reverse((p.at.0, What::Pause(self.count, p.port, p.priority, p.on))));
        }
        for (t, node) in &fx.wakes {
            self.heap.push(Reverse((t.0, What::Wake(*node))));
        }
        fx.clear();
    }
    pub fn peek(&self) -> Option<Time> {
        self.heap.peek().map(|e| Time(e.0 .0))
    }
    /// Does what is next.
    pub fn step(&mut self) -> Option<(Time, Step)> {
        let Reverse((t, what)) = self.heap.pop()?;
        let now = Time(t);
        // What the fabric asks for must lie ahead: a pause frame that is found late would come too late.
        assert!(now >= self.now, "an event of {now} at {}", self.now);
        self.now = now;
        let mut step = Step::Inner;
        match what {
            What::Arrival(port) => {
                let arrival = self.fabric.arrive(now, port, &mut self.seg);
                if arrival.next != Time::NEVER {
                    self.heap.push(Reverse((arrival.next.0, What::Arrival(port))));
                }
                if let Some(cell) = arrival.packet() {
                    self.hops += 1;
                    step = Step::Arrived(port, cell);
                }
            }
            What::Pause(_, port, priority, on) => {
                let pause = Pause { at: now, port, priority, on };
                self.pauses.push(pause);
                self.fabric.pause(now, &pause, &mut self.seg);
            }
            What::Wake(node) => {
                self.wakes += 1;
                self.fabric.wake(now, node, &mut self.seg);
            }
            What::Mine(_, tag) => step = Step::Mine(tag),
        }
        self.take_effects();
        Some((now, step))
    }
}
