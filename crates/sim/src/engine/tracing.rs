//! What the engine adds to a trace and to the account of deliveries: flows, their values, timeouts. None of it runs where neither is kept.

use super::Engine;
use crate::flow::AWAY;
use crate::ideal;
use crate::metrics::deliveries::Opened;
use crate::metrics::Deliveries;
use crate::trace::{Trace, Wish};
use crate::watch::Watch;
use penstock_core::tcp::TimeoutKind;
use penstock_core::{FlowId, ParamError};
use penstock_fabric::Cell;
use penstock_host::StackEvent;
use penstock_units::Time;

/// Packets on the wire of a port, and in it: flow and sequence number of each.
pub type Held = [Vec<(u32, u64)>; 2];

impl Engine {
    /// Records packets and flows from now on; call it before the first step.
    pub fn record(&mut self, wish: Wish) {
        self.watched = true;
        self.watch().log = Some(Trace::new(wish));
    }
    fn watch(&mut self) -> &mut Watch {
        let hosts = self.setup.topology.hosts().len();
        self.wire.net.trace.get_or_insert_with(|| Box::new(Watch::new(hosts)))
    }
    /// The record, when one is kept.
    pub fn trace(&mut self) -> Option<&mut Trace> {
        self.wire.net.trace.as_deref_mut()?.log.as_mut()
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
        let watch = self.wire.net.trace.as_deref();
        let open = |flow| self.flows.at(flow).map_or(flow, |flow| flow.row);
        let row = |flow| watch.map_or_else(|| open(flow), |watch| watch.row(flow));
        let place = |port: &penstock_fabric::Port| {
            let mut out = Held::default();
            for (cell, left) in port.all_cells(at) {
                let p = &packets[cell.packet as usize];
                out[usize::from(left > at)].push((row(p.flow), p.seq));
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
        let watch = self.wire.net.trace.as_deref_mut();
        let Some(trace) = watch.and_then(|watch| watch.log.as_mut()) else { return };
        let Some(flow) = self.flows.at(number) else { return };
        let number = flow.row;
        if !trace.wants_values(now, number) {
            return;
        }
        let o = &flow.ends;
        if let Some(host) = hosts.get(o.src).filter(|_| o.at_src != AWAY) {
            host.nic.observe(o.at_src, &mut |name, value| trace.value(now, number, name, value));
        }
    }
    /// A flow is open.
    #[inline]
    pub(super) fn trace_opened(&mut self, number: u32) {
        let Some(watch) = self.wire.net.trace.as_deref_mut() else { return };
        let Some(flow) = self.flows.at(number) else { return };
        watch.opened(number, flow.row);
        let number = flow.row;
        let lengths = &self.setup.lengths[usize::from(flow.protocol)];
        let (ends, size) = (&flow.ends, flow.size);
        if let Some(trace) = &mut watch.log {
            let between = (ends.src, ends.dst);
            trace.opened(flow.opened, number, between, flow.protocol, flow.workload, size);
        }
        if let Some(deliveries) = &mut watch.deliveries {
            // The flow has just been opened.
            let routes = self.routes.last(ends.src, ends.dst);
            let lead = ideal::lead(&self.setup.topology, &routes.forward, &routes.back, lengths, size);
            let (segment, header) = (lengths.segment, lengths.header);
            let opened = Opened { dst: ends.dst, protocol: flow.protocol, segment, header, lead };
            deliveries.opened(number, opened);
        }
    }

    // ---- deliveries ----------------------------------------------------------------------------------

    /// Looks at every packet from now on.
    #[cold]
    pub(super) fn look_at_deliveries(&mut self) {
        let mut deliveries = Deliveries::new(self.wire.net.possible.fails);
        if self.measuring {
            deliveries.start();
        }
        self.watch().deliveries = Some(Box::new(deliveries));
    }
    /// A flow opens in another logical process that leads to a host here.
    pub(super) fn look_at_coming(&mut self, number: u32, dst: u32, protocol: u16) {
        let watch = self.wire.net.trace.as_deref_mut().and_then(|watch| watch.deliveries.as_mut());
        if let Some(deliveries) = watch {
            let lengths = &self.setup.lengths[usize::from(protocol)];
            let (segment, header, lead) = (lengths.segment, lengths.header, 0.0);
            deliveries.opened(number, Opened { dst, protocol, segment, header, lead });
        }
    }
    /// Warm-up is over.
    pub(super) fn start_deliveries(&mut self) {
        if let Some(deliveries) = self.wire.net.trace.as_mut().and_then(|w| w.deliveries.as_mut()) {
            deliveries.start();
        }
    }
    /// The run is over: what was found is the recorder's.
    pub(super) fn end_deliveries(&mut self) {
        if let Some(mut deliveries) = self.wire.net.trace.as_mut().and_then(|w| w.deliveries.take()) {
            deliveries.finish();
            self.recorder.deliveries = Some(deliveries);
        }
    }
    /// What a stack has told.
    #[inline]
    pub(super) fn trace_stack_event(&mut self, at: Time, stack_events: &StackEvent) {
        if self.wire.net.trace.is_none() {
            return;
        }
        let row = |flow: &FlowId| self.row_of(flow.0);
        let row = match stack_events {
            StackEvent::Timeout { flow, .. }
            | StackEvent::FastRetransmit { flow, .. }
            | StackEvent::Closed { flow } => row(flow),
            _ => return,
        };
        let Some(trace) = self.trace() else { return };
        match stack_events {
            StackEvent::Timeout { record, .. } if record.kind == TimeoutKind::Probe => {}
            StackEvent::Timeout { flow: FlowId(flow), .. } => {
                trace.timeout(at, row);
                self.trace_values(*flow);
            }
            StackEvent::FastRetransmit { .. } => trace.repair(at, row),
            StackEvent::Closed { .. } => trace.closed(at, row),
            StackEvent::Acked { .. } | StackEvent::Delivered { .. } | StackEvent::Transition(_) => {}
        }
    }
}
