//! The window law of a controller written in Python.

use crate::object::{Object, Shared, Which};
use crate::records::{put_ack, put_ack_header, put_config, put_event, put_flow, put_headed, Headed};
use penstock_core::tcp::TcpConfig;
use penstock_core::{AckRecord, CcHeader, Congestion, Control, FlowView, Header, Packet, Report, WindowLaw};
use penstock_units::{Bytes, Rate, Time};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// What the code is told to do: the position of the method among the role's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i64)]
pub enum Call {
    /// `on_start(config)`.
    Start = 0,
    /// `on_ack(ack, flow)`.
    Ack = 1,
    /// `on_congestion(event, flow)`.
    Congestion = 2,
    /// `on_timer(event, flow)`.
    Timer = 3,
    /// `on_transfer(event, flow)`.
    Transfer = 4,
    /// `on_send(packet, flow)`.
    Send = 5,
}

// Positions of the records.
const ACK: usize = 0;
const EVENT: usize = 1;
const FLOW: usize = 2;
const CONFIG: usize = 3;
const PACKET: usize = 4;

/// One sender's law.
pub struct Law {
    object: Object,
    control: Control,
    wants_rate: bool,
    /// Its packets carry a header for routers.
    headed: bool,
}

impl Law {
    /// A sender with options `cfg`; `headed` when its packets carry a header.
    pub fn new(shared: &Arc<Shared>, cfg: &TcpConfig, wants_rate: bool, headed: bool) -> Law {
        let mut law = Law { object: Object::new(shared), control: Control::default(), wants_rate, headed };
        put_config(&shared.records[CONFIG], cfg);
        law.call(Call::Start, Time::ZERO);
        law
    }
    /// Calls a method; its record and the connection's are written.
    #[inline]
    fn call(&mut self, call: Call, now: Time) {
        let record = match call {
            Call::Start => CONFIG,
            Call::Ack => ACK,
            Call::Send => PACKET,
            _ => EVENT,
        };
        let which = Which { call: call as i64, records: (record, FLOW), timer: call == Call::Timer };
        match self.object.call(which, now) {
            // Written so that NaN fails.
            Some([window, pacing]) if window >= 0.0 && pacing > 0.0 => {
                self.control = Control {
                    window: window.is_finite().then_some(Bytes(window as u64)),
                    pacing: pacing.is_finite().then(|| Rate::from_bps(pacing)),
                    segment: None,
                };
            }
            _ => {
                let flow = self.object.shared.records[FLOW][0].load(Relaxed);
                let place = if call == Call::Start { String::new() } else { format!("flow {flow}") };
                self.object.fail(which, now, &place)
            }
        }
    }
}

impl WindowLaw for Law {
    #[inline]
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        let records = &self.object.shared.records;
        put_ack(&records[ACK], ack);
        if self.headed {
            put_ack_header(&records[ACK], ack.header);
        }
        put_flow(&records[FLOW], flow);
        self.call(Call::Ack, ack.now);
    }
    fn wants_rate(&self) -> bool {
        self.wants_rate
    }
    fn on_congestion(&mut self, now: Time, flow: &FlowView, event: Congestion) {
        put_event(&self.object.shared.records[EVENT], now, Some(event));
        put_flow(&self.object.shared.records[FLOW], flow);
        self.call(Call::Congestion, now);
    }
    fn on_transfer(&mut self, now: Time, flow: &FlowView) {
        if self.object.shared.has(Call::Transfer as i64) {
            put_event(&self.object.shared.records[EVENT], now, None);
            put_flow(&self.object.shared.records[FLOW], flow);
            self.call(Call::Transfer, now);
        }
    }
    #[inline]
    fn control(&self) -> Control {
        self.control
    }
    fn on_send(&mut self, now: Time, flow: &FlowView, packet: &mut Packet, header: &mut CcHeader) {
        let mut headed = Headed::default();
        if self.object.shared.has(Call::Send as i64) {
            let words = &self.object.shared.records[PACKET];
            put_headed(words, packet, packet.wire_len, Some(&headed));
            put_flow(&self.object.shared.records[FLOW], flow);
            self.call(Call::Send, now);
            headed = Headed::read(&self.object.shared.records[PACKET]);
        }
        header.set(&headed);
    }
    fn header_len(&self) -> u32 {
        if self.headed {
            Headed::WIRE_LEN
        } else {
            0
        }
    }
    #[inline]
    fn deadline(&self) -> Time {
        self.object.deadline
    }
    fn on_deadline(&mut self, now: Time, flow: &FlowView) {
        put_event(&self.object.shared.records[EVENT], now, None);
        put_flow(&self.object.shared.records[FLOW], flow);
        self.call(Call::Timer, now);
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.object.observe(report);
    }
}
