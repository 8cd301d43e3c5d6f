//! The flows of a scenario before anything is simulated, and the links they cross.

use crate::ideal::{self, Lengths};
use crate::setup::Setup;
use crate::topology::{route_stream, Keys};
use crate::workloads::{Action, Actions, Timetable, Workload};
use penstock_core::ParamError;
use penstock_units::{Bytes, Dur, Time};

/// The key under which a document asks for an approximation, and errors are told.
pub const KEY: &str = "approximate";

/// Flows that begin in a window are samples; it has so many of the longest round trips of the idle network: chosen.
pub(super) const LENGTH: u64 = 64;
/// A flow of known size.
pub(super) struct Flow {
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) protocol: u16,
    pub(super) class: u8,
    pub(super) workload: u32,
    pub(super) bytes: u64,
    /// Data packets it takes.
    pub(super) packets: u64,
    pub(super) start: Time,
    pub(super) due: Time,
    /// Seconds it takes alone in the network.
    pub(super) ideal: f64,
    /// Seconds that its bytes take on the narrowest link of its path.
    pub(super) serial: f64,
    /// Where its path begins and ends among all paths.
    first: usize,
    last: usize,
}

/// All flows, in the order in which the exact run would open them.
pub(super) struct Traffic {
    pub(super) flows: Vec<Flow>,
    paths: Vec<u32>,
    /// The flows of each link whose data it carries, in order, and the place of the link among all paths.
    crossing: Vec<Vec<(u32, u32)>>,
    /// Bytes of data each link carries.
    pub(super) data: Vec<u64>,
    /// Bytes per second of each link.
    pub(super) capacity: Vec<f64>,
    pub(super) lengths: Vec<Lengths>,
    /// Seconds of the longest handshake: the largest round trip of the idle network.
    round: f64,
}

impl Traffic {
    /// Asks the workloads of `setup` for all they open, and draws the paths that the exact run draws.
    ///
    /// # Errors
    /// A workload that reacts to what becomes of its flows, a flow without end.
    pub(super) fn of(setup: &mut Setup, plan: &str) -> Result<Traffic, ParamError> {
        let refuse = |workload: usize, rule: &str| {
            let rule = format!("workload {workload} {rule}: only flows of known size whose starts are known beforehand can be taken apart");
            Err(ParamError::new(KEY, plan, rule))
        };
        if let Some(w) = setup.workloads.iter().position(|w| w.timetable() == Timetable::Unknown) {
            return refuse(w, "reacts to what becomes of its flows");
        }
        let mut apps: Vec<_> =
            std::mem::take(&mut setup.workloads).into_iter().map(Workload::into_app).collect();
        let mut forwarding = setup.forwarding()?;
        let t = &setup.topology;
        let lengths: Vec<Lengths> = (0..setup.protocols.len()).map(|i| setup.lengths_of(i)).collect();
        let links = t.links.len();
        let mut found = Traffic {
            flows: Vec::new(),
            paths: Vec::new(),
            crossing: vec![Vec::new(); links],
            data: vec![0; links],
            capacity: t.links.iter().map(|l| l.rate.as_bytes_per_sec()).collect(),
            lengths,
            round: 0.0,
        };
        let mut keys = Keys::default();
        let (end, mut actions, mut back) = (Time::ZERO + setup.duration, Actions::default(), Vec::new());
        loop {
            let next = apps.iter().map(|app| app.next_event()).min().unwrap_or(Time::NEVER);
            if next > end {
                return Ok(found);
            }
            for (number, app) in apps.iter_mut().enumerate().filter(|(_, app)| app.next_event() == next) {
                app.on_timer(next, &mut actions);
                for action in actions.take() {
                    let Action::Open(request) = action else {
                        return refuse(number, "does more than open flows");
                    };
                    if !request.close || request.bytes == u64::MAX || request.bytes == 0 {
                        return refuse(number, "opens a flow without end");
                    }
                    let flow = found.flows.len() as u32;
                    let key = keys.next(request.src, number as u32);
                    let mut rng = route_stream(setup.seed, setup.run, key);
                    let first = found.paths.len();
                    let mut way = |src, dst, ports: &mut Vec<u32>| {
                        let entropy = forwarding.draw(src, dst, &mut rng)?;
                        forwarding.path(src, dst, entropy, ports)
                    };
                    back.clear();
                    way(request.src, request.dst, &mut found.paths)
                        .and_then(|()| way(request.dst, request.src, &mut back))
                        .map_err(|e| e.named(|n| t.nodes[n as usize].name.clone()))?;
                    let l = &found.lengths[usize::from(request.protocol)];
                    let (segment, bytes) = (u64::from(l.segment), request.bytes);
                    let packets = bytes.div_ceil(segment);
                    let forward = &found.paths[first..];
                    let handshake = ideal::handshake(t, forward, &back, l);
                    found.round = found.round.max(handshake);
                    let ideal = handshake + ideal::transfer(t, forward, &back, l, bytes);
                    let narrowest = forward.iter().map(|l| t.links[*l as usize].rate).min();
                    let on_wire = bytes + packets * u64::from(l.header);
                    let serial = (Bytes(on_wire) / narrowest.expect("a path has links")).as_secs();
                    for (place, link) in (first as u32..).zip(forward) {
                        found.crossing[*link as usize].push((flow, place));
                        found.data[*link as usize] += on_wire;
                    }
                    let last = found.paths.len();
                    let (src, dst, due) = (request.src, request.dst, request.due);
                    found.flows.push(Flow {
                        src,
                        dst,
                        protocol: request.protocol,
                        class: request.class,
                        workload: number as u32,
                        bytes,
                        packets,
                        start: next,
                        due,
                        ideal,
                        serial,
                        first,
                        last,
                    });
                }
            }
        }
    }
    /// The links of a flow's data, in order.
    pub(super) fn path(&self, flow: usize) -> &[u32] {
        &self.paths[self.flows[flow].first..self.flows[flow].last]
    }
    /// Where a flow's links are among those of all flows.
    pub(super) fn places(&self, flow: usize) -> std::ops::Range<usize> {
        self.flows[flow].first..self.flows[flow].last
    }
    /// Links of all paths.
    pub(super) fn steps(&self) -> usize {
        self.paths.len()
    }
    /// The flows whose data a link carries, in order, and where the link is among those of all flows.
    pub(super) fn crossing(&self, link: u32) -> &[(u32, u32)] {
        &self.crossing[link as usize]
    }
    /// Bytes of a flow on the wire.
    pub(super) fn on_wire(&self, flow: &Flow) -> u64 {
        flow.bytes + flow.packets * u64::from(self.lengths[usize::from(flow.protocol)].header)
    }
    /// The unit in which delays of flows of different sizes are compared, in seconds, beyond what they wait as a fluid. A short flow waits for a queue twice,
    /// once for its handshake and once for its first window, and a long flow waits again and again. A flow that is longer than a window of time is like
    /// a fluid but for its beginning.
    pub(super) fn unit(&self, flow: &Flow) -> f64 {
        2.0 * self.round + flow.serial.min(LENGTH as f64 * self.round)
    }
    /// The longest handshake.
    pub(super) fn round(&self) -> Dur {
        Dur::from_secs(self.round)
    }
    /// Links that carry data.
    pub(super) fn carrying(&self) -> usize {
        self.crossing.iter().filter(|flows| !flows.is_empty()).count()
    }
}
