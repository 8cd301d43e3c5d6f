//! NewReno with ECN whose routers name the congested port: one of the ways in which CBC finds its control sets.
//!
//! Source: K. Kant, "Coordinated Bandwidth Control in Data Centers", section 3.1, method 4.

use super::reno::RenoWindow;
use crate::registry::{BuildEndpoint, BuildRouter, Protocol, Suite};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use penstock_core::header::wire::{get_u32, put_u32};
use penstock_core::quantity::SSTHRESH;
use penstock_core::tcp::{EcnMode, LossRecovery, TcpConfig};
use penstock_core::{
    AckRecord, CcHeader, Congestion, Control, Ecn, FlowView, Header, Kind, LinkController, LinkView, Packet,
    ParamSpec, Quantity, Report, Unit, WindowLaw,
};
use penstock_units::{Dur, Time};

static MARKED: Quantity =
    Quantity::new("marked_connections", Unit::One, "connections that a port has marked and not forgotten");

/// The port that marked a packet; 0 = none did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    /// Name of the port.
    pub point: u32,
}

impl Header for Label {
    const KIND: u8 = 0xCB;
    const WIRE_LEN: u32 = 4;
    fn emit(&self, out: &mut [u8; CcHeader::ROOM]) {
        put_u32(out, 0, self.point);
    }
    fn parse(raw: &[u8; CcHeader::ROOM]) -> Self {
        Label { point: get_u32(raw, 0) }
    }
}

/// NewReno with ECN whose routers write the name of the congested port beside the mark.
pub const ECN_LABEL: Protocol = Protocol {
    name: "ecn-label",
    text: "TCP NewReno with ECN; a congested port marks every packet, or one per connection and interval, and names itself",
    cites: "kant-cbc section 3.1, RFC 3168",
    params: &[
        ParamSpec::new("way", Kind::Choice(&["all", "pairs"]), "all",
            "mark all packets, or one per source-destination pair and interval", "section 3.1: 100 % or intelligent marking"),
        ParamSpec::new("k", Kind::Count, "20", "packets in the port from which it marks", "chosen: below L_min of AF21 (30)")
            .range(1.0, 1e9),
        ParamSpec::new("interval", Kind::Duration, "100ms", "with way=pairs: time between marks of one pair", "chosen: a few congested RTTs"),
    ],
    reports: &[&SSTHRESH, &MARKED],
    build: |p| {
        let every = match p.text("way") {
            "pairs" => Some(p.dur("interval")),
            _ => {
                if p.is_given("interval") {
                    return Err(p.error("interval", "needs way=pairs"));
                }
                None
            }
        };
        let k = p.count("k") as u32;
        let router: BuildRouter = Arc::new(move |facts| {
            // 0 is the name of no port.
            let point = facts.port + 1;
            Box::new(LabelRouter { point, k, every, marked: BTreeMap::new(), next_search: Time::ZERO })
        });
        let configure = |c: &mut TcpConfig| {
            c.recovery = LossRecovery::NewReno;
            c.ecn = EcnMode::Classic;
        };
        let endpoint: BuildEndpoint = Arc::new(|cfg, _| Box::new(LabelSender { window: RenoWindow::new(cfg) }));
        Ok(Suite { configure, endpoint, router: Some(router), ..Suite::tcp() })
    },
};

/// NewReno's window law with room for a label on every packet.
struct LabelSender {
    window: RenoWindow,
}

impl WindowLaw for LabelSender {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        // RFC 3168 section 6.1.2: an ACK with ECN-Echo does not grow the window.
        if ack.may_grow(flow) && !ack.ece {
            self.window.grow(ack.acked, flow);
        }
    }
    fn on_congestion(&mut self, _now: Time, flow: &FlowView, event: Congestion) {
        self.window.reduce(flow, event, 0.5);
    }
    fn control(&self) -> Control {
        self.window.control()
    }
    fn on_send(&mut self, _now: Time, _flow: &FlowView, _packet: &mut Packet, header: &mut CcHeader) {
        header.set(&Label { point: 0 });
    }
    fn header_len(&self) -> u32 {
        Label::WIRE_LEN
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.window.observe(report);
    }
}

/// Marks and names itself while its queue is long.
struct LabelRouter {
    point: u32,
    k: u32,
    /// Time between marks of one pair; `None` = mark every packet.
    every: Option<Dur>,
    /// When each connection was last marked; forgotten when it may be marked again.
    marked: BTreeMap<u32, Time>,
    /// When old entries are next looked for.
    next_search: Time,
}

impl LinkController for LabelRouter {
    fn on_arrival(&mut self, now: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        if link.queue_packets < self.k || packet.ecn == Ecn::NotEct {
            return;
        }
        if let Some(every) = self.every {
            if self.marked.get(&packet.flow).is_some_and(|last| now.since(*last) < every) {
                return;
            }
            if now >= self.next_search {
                // Once per interval, so that the work per mark does not grow with connections that are over.
                self.next_search = now + every;
                self.marked.retain(|_, last| now.since(*last) < every);
            }
            self.marked.insert(packet.flow, now);
        }
        packet.ecn = Ecn::Ce;
        header.set(&Label { point: self.point });
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&MARKED, self.marked.len() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_labelling_port_forgets_connections_it_may_mark_again() {
        let every = Dur::millis(100);
        let mut port = LabelRouter {
            point: 1,
            k: 0,
            every: Some(every),
            marked: BTreeMap::new(),
            next_search: Time::ZERO,
        };
        let link = LinkView::idle(penstock_units::Rate(1_000_000));
        let mut marks = 0;
        for flow in 0..10_000u32 {
            // 1000 new connections per interval, of two packets each: the second is not marked.
            let now = Time::ZERO + Dur::micros(100) * u64::from(flow);
            for _ in 0..2 {
                let mut packet = Packet { flow, ecn: Ecn::Ect0, ..Packet::default() };
                port.on_arrival(now, &link, &mut packet, &mut CcHeader::NONE.clone());
                marks += u32::from(packet.ecn == Ecn::Ce);
            }
            assert!(port.marked.len() <= 2001, "{}", port.marked.len());
        }
        assert_eq!(marks, 10_000);
    }
}
