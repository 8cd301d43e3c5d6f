//! How crowded every link is while every flow crosses it, were flows a fluid that shares the link equally: cheap enough for all of them, where packets
//! are simulated on some links for some time only. A flow that was not simulated takes its delay from flows that met a link as crowded.

use super::traffic::Traffic;
use crate::topology::Topology;
use penstock_units::Rate;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// For every step of every path, as [`Traffic::places`] has them: by which factor the flow takes longer on that link than alone there.
pub(super) fn crowds(t: &Topology, traffic: &Traffic) -> Vec<f32> {
    let mut found = vec![1.0; traffic.steps()];
    let narrowest: Vec<Rate> = (0..traffic.flows.len())
        .map(|flow| traffic.path(flow).iter().map(|l| t.links[*l as usize].rate).min().unwrap_or(Rate(1)))
        .collect();
    let mut active = BinaryHeap::new();
    for link in 0..t.links.len() as u32 {
        let crossing = traffic.crossing(link);
        let capacity = t.links[link as usize].rate.as_bytes_per_sec();
        // No flow is faster than the narrowest link of its path; the fastest of all counts for all.
        let fastest = crossing.iter().map(|flow| narrowest[*flow as usize]).max().unwrap_or(Rate(1));
        let own = fastest.as_bytes_per_sec();
        // Bytes that each active flow has got since the beginning: those that arrived later began at more.
        let (mut now, mut got) = (0.0, 0.0_f64);
        let mut over = |flow: u32, at: f64| {
            let f = &traffic.flows[flow as usize];
            let place =
                traffic.path(flow as usize).iter().position(|l| *l == link).expect("it crosses the link");
            let alone = traffic.on_wire(f) as f64 / own;
            found[traffic.places(flow as usize).start + place] =
                ((at - f.start.as_secs()) / alone).max(1.0) as f32;
        };
        for next in crossing.iter().map(Some).chain([None]) {
            let until = next.map_or(f64::INFINITY, |flow| traffic.flows[*flow as usize].start.as_secs());
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
            let end = got + traffic.on_wire(&traffic.flows[*flow as usize]) as f64;
            active.push(Reverse((end.to_bits(), *flow)));
        }
    }
    found
}
