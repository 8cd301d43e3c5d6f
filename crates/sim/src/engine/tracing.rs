//! What the engine adds to a trace: flows, their values, timeouts. None of it runs where no trace is kept.

use super::Engine;
use crate::trace::{Trace, Wish};
use penstock_core::{FlowId, ParamError};
use penstock_fabric::Cell;
use penstock_host::News;
use penstock_units::Time;

/// Packets on the wire of a port, and in it: flow and sequence number of each.
pub type Held = [Vec<(u32, u64)>; 2];

impl Engine {
    /// Records packets and flows from now on; call it before the first step.
    pub fn record(&mut self, wish: Wish) {
        self.watched = true;
        self.wire.net.trace = Some(Box::new(Trace::new(wish)));
    }
    /// The record, when one is kept.
    pub fn trace(&mut self) -> Option<&mut Trace> {
        self.wire.net.trace.as_deref_mut()
    }
    /// Where every packet is at `at`, which is not before the last event: by port, those on its wire and those in it. To compare a
    /// record with; replays departures, so it is for an engine that is asked nothing else afterwards.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn whereabouts(&mut self, at: Time) -> Result<Vec<Held>, ParamError> {
        self.now = at.max(self.now);
        // Network cards that pull have sent what they could by now.
        self.advance()?;
        self.wire.net.settle(at);
        let packets = &self.wire.net.arena.packets;
        let place = |port: &penstock_fabric::Port| {
            let mut out = Held::default();
            for (cell, left) in port.all_cells(at) {
                let p = &packets[cell.packet as usize];
                out[usize::from(left > at)].push((p.flow, p.seq));
            }
            out.iter_mut().for_each(|list| list.sort_unstable());
            out
        };
        Ok(self.wire.net.ports().iter().map(place).collect())
    }

    /// [`Engine::hand_over`], and then a look at the flow whose packet it was.
    #[cold]
    pub(super) fn deliver_traced(&mut self, cell: &Cell) -> Result<(), ParamError> {
        let flow = self.wire.net.arena.packets[cell.packet as usize].flow;
        self.hand_over(cell)?;
        self.trace_values(flow);
        Ok(())
    }
    fn trace_values(&mut self, number: u32) {
        let (now, hosts) = (self.now, &self.hosts);
        let Some(trace) = self.wire.net.trace.as_deref_mut() else { return };
        let Some(flow) = self.flows[number as usize].as_deref() else { return };
        if !trace.wants_values(now, number) {
            return;
        }
        let o = &flow.opening;
        if let Some(host) = hosts.get(o.src) {
            host.nic.observe(o.at_src, &mut |name, value| trace.value(now, number, name, value));
        }
    }
    /// A flow is open.
    #[inline]
    pub(super) fn trace_opened(&mut self, number: u32) {
        let Some(trace) = self.wire.net.trace.as_deref_mut() else { return };
        if let Some(flow) = self.flows[number as usize].as_deref() {
            let r = &flow.record;
            trace.opened(r.opened, number, (r.src, r.dst), r.protocol, r.workload, r.size);
        }
    }
    /// What a stack has told.
    #[inline]
    pub(super) fn trace_news(&mut self, at: Time, news: &News) {
        let Some(trace) = self.wire.net.trace.as_deref_mut() else { return };
        match news {
            News::Timeout { flow: FlowId(flow), .. } => {
                trace.timeout(at, *flow);
                self.trace_values(*flow);
            }
            News::FastRetransmit { flow: FlowId(flow), .. } => trace.repair(at, *flow),
            News::Closed { flow: FlowId(flow) } => trace.closed(at, *flow),
            News::Acked { .. } | News::Delivered { .. } | News::Transition(_) => {}
        }
    }
}
