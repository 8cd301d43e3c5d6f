//! A fluid estimate of how crowded every link is: flows share a link equally, without packets. It is cheap enough for all flows of all links.
//!
//! A flow that was not simulated takes its delay from flows that met a link as crowded. Windows in which links are more crowded are simulated more often.

use super::traffic::{Flow, Traffic};
use crate::topology::Topology;
use penstock_units::{Dur, Rate, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How crowded links are.
pub(super) struct Crowds {
    /// For every step of every path, as [`Traffic::places`] has them: by which factor the flow takes longer on that link than alone there.
    pub(super) of: Vec<f32>,
    /// For every link bytes per second of a flow that is alone there: no flow is faster than the narrowest link of its path; the fastest of all counts
    /// for all.
    pub(super) alone: Vec<f64>,
    /// For every link the windows in which flows begin, in order.
    pub(super) windows: Vec<Vec<Worth>>,
}

/// What is known of a window of a link's time before it is simulated.
#[derive(Clone, Copy, Default)]
pub(super) struct Worth {
    pub(super) window: u32,
    /// Flows that begin in it.
    pub(super) flows: f32,
    /// Sum of the squares of how crowded they find it.
    pub(super) score: f32,
    /// Sum of the squares of what they are slowed down by.
    pub(super) squares: f32,
}

/// Windows of all links: begin of the first, length, number.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub(super) first: Time,
    pub(super) length: Dur,
    pub(super) count: u64,
}

impl Crowds {
    /// Seconds that a flow is there.
    pub(super) fn seconds(&self, traffic: &Traffic, flow: &Flow, (link, place): (u32, u32)) -> f64 {
        f64::from(self.of[place as usize]) * traffic.on_wire(flow) as f64 / self.alone[link as usize]
    }
}

impl Crowds {
    /// Seconds by which a flow is there longer than alone.
    pub(super) fn waits(&self, traffic: &Traffic, flow: &Flow, (link, place): (u32, u32)) -> f64 {
        (f64::from(self.of[place as usize]) - 1.0) * traffic.on_wire(flow) as f64 / self.alone[link as usize]
    }
}

/// What is looked at of a flow again and again, close together.
struct Brief {
    start: f64,
    on_wire: f64,
    narrowest: Rate,
    /// In the grid; past its end for none.
    window: u32,
}

/// Of all links.
pub(super) fn crowds(t: &Topology, traffic: &Traffic, grid: Grid) -> Crowds {
    let mut of = vec![1.0; traffic.steps()];
    let mut alone = vec![1.0; t.links.len()];
    let each = (0..).zip(&traffic.flows).map(|(flow, f)| {
        let window = f.start.since(grid.first).0 / grid.length.0.max(1);
        let inside = f.start >= grid.first && window < grid.count;
        Brief {
            start: f.start.as_secs(),
            on_wire: traffic.on_wire(f) as f64,
            narrowest: traffic.path(flow).iter().map(|l| t.links[*l as usize].rate).min().unwrap_or(Rate(1)),
            window: if inside { window as u32 } else { u32::MAX },
        }
    });
    let flows: Vec<Brief> = each.collect();
    let mut active = BinaryHeap::new();
    let mut worth = vec![Worth::default(); grid.count as usize];
    let windows = (0..t.links.len()).map(|link| {
        let crossing = traffic.crossing(link as u32);
        let capacity = traffic.capacity[link];
        let fastest = crossing.iter().map(|(flow, _)| flows[*flow as usize].narrowest).max();
        let own = fastest.unwrap_or(Rate(1)).as_bytes_per_sec();
        alone[link] = own;
        // Bytes that each active flow has got since the beginning: those that arrived later began at more.
        let (mut now, mut got) = (0.0, 0.0_f64);
        let mut over = |(flow, place): (u32, u32), at: f64| {
            let f = &flows[flow as usize];
            let crowd = ((at - f.start) * own / f.on_wire).max(1.0) as f32;
            of[place as usize] = crowd;
            if let Some(w) = worth.get_mut(f.window as usize) {
                w.flows += 1.0;
                w.score += crowd * crowd;
                w.squares += (crowd - 1.0) * (crowd - 1.0);
            }
        };
        for next in crossing.iter().map(Some).chain([None]) {
            let until = next.map_or(f64::INFINITY, |(flow, _)| flows[*flow as usize].start);
            while let Some(Reverse((end, flow))) = active.peek().copied() {
                let rate = own.min(capacity / active.len() as f64);
                let end = f64::from_bits(end);
                let at = now + (end - got) / rate;
                if at > until {
                    got += rate * (until - now);
                    break;
                }
                (now, got) = (at, end);
                active.pop();
                over(flow, at);
            }
            let Some(flow) = next else { break };
            now = until;
            // The bits of positive numbers are in the order of these.
            let end = got + flows[flow.0 as usize].on_wire;
            active.push(Reverse((end.to_bits(), *flow)));
        }
        let filled = (0..).zip(&mut worth).filter(|(_, w)| w.flows > 0.0);
        filled.map(|(window, w)| Worth { window, ..std::mem::take(w) }).collect()
    });
    let windows = windows.collect();
    Crowds { of, alone, windows }
}
