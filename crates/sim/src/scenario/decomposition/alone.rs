//! What a flow alone in a network takes longer than its ideal time, which knows no windows: the round trips of slow start. Every link's
//! simulation has them, the network has them once.

use crate::bottleneck::Bottleneck;
use crate::engine::{Engine, Progress};
use crate::metrics::Recorder;
use crate::setup::Setup;
use crate::topology::Topology;
use crate::workloads::{Action, Actions, App, FlowRequest, Workload, Written};
use penstock_core::ParamError;
use penstock_units::{Dur, Rate, Time};

/// Numbers of packets that are measured one by one; above, each is half as much again as the one before.
const EACH: u64 = 32;
/// Measured up to so many packets at least, and to so many times what the path holds.
const MOST: (u64, u64) = (1000, 8);

/// Seconds beyond the ideal time, by number of packets.
pub(super) struct Alone {
    extra: Vec<(u64, f64)>,
}

impl Alone {
    /// Of flows of `protocol` from `src` to `dst` of `topology`, one after the other, none larger than `largest` packets or a multiple of what a way
    /// there and back of such rate and delay holds. `setup` has the options.
    pub(super) fn measure(
        mut setup: Setup,
        topology: Topology,
        (src, dst, protocol): (u32, u32, u16),
        (rate, round): (Rate, Dur),
        largest: u64,
    ) -> Result<Alone, ParamError> {
        let cfg = &setup.protocols[usize::from(protocol)].1;
        let (mss, wire) = (u64::from(cfg.mss), u64::from(cfg.mss + cfg.header_len() + setup.framing));
        let holds = (rate * round).0 / wire;
        let most = largest.min(MOST.0.max(MOST.1 * holds));
        let mut sizes = Vec::new();
        let mut next = 1;
        while next < most {
            sizes.push(next);
            next += if next < EACH { 1 } else { next.div_ceil(2) };
        }
        sizes.push(most);
        let template = FlowRequest { protocol, ..FlowRequest::new(src, dst, 0) };
        let bytes = sizes.iter().map(|n| n * mss).collect();
        setup.topology = topology;
        setup.workloads = vec![Workload::central(OneByOne { template, bytes, next: 0, acked: 0 })];
        setup.bottleneck = Bottleneck::Fixed(0);
        setup.recorder = Recorder::default();
        (setup.warmup, setup.send_jitter) = (Dur::ZERO, Dur::ZERO);
        // The last flow ends it.
        setup.duration = Dur::MAX;
        let mut engine = Engine::new(setup)?;
        engine.run(&Progress::default())?;
        let (mut sizes, mut extra) = (sizes.into_iter(), Vec::new());
        engine.recorder.transfers.each(|rows| {
            extra.extend(sizes.by_ref().zip(rows).map(|(packets, r)| (packets, r.fct() - r.ideal)));
        });
        Ok(Alone { extra })
    }
    /// For a flow of so many packets, between two that were measured on the line that joins them.
    pub(super) fn extra(&self, packets: u64) -> f64 {
        let at = self.extra.partition_point(|e| e.0 < packets);
        match (self.extra.get(at.wrapping_sub(1)), self.extra.get(at)) {
            (_, Some(b)) if b.0 == packets => b.1,
            (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (packets - a.0) as f64 / (b.0 - a.0) as f64,
            (Some(last), None) | (None, Some(last)) => last.1,
            (None, None) => 0.0,
        }
    }
}

/// A flow after the other, each on a connection of its own.
struct OneByOne {
    template: FlowRequest,
    bytes: Vec<u64>,
    next: usize,
    acked: usize,
}

impl App for OneByOne {
    fn next_event(&self) -> Time {
        if self.next == 0 {
            Time::ZERO
        } else {
            Time::NEVER
        }
    }
    fn on_timer(&mut self, _: Time, actions: &mut Actions) {
        let bytes = self.bytes[self.next];
        self.next += 1;
        actions.open(FlowRequest { bytes, close: true, ..self.template.clone() });
    }
    fn on_acked(&mut self, now: Time, _: &Written, actions: &mut Actions) {
        self.acked += 1;
        if self.acked < self.bytes.len() {
            self.on_timer(now, actions);
        } else {
            actions.push(Action::Done);
        }
    }
}
