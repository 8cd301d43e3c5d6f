//! The receiver of a protocol written in Python: when it acknowledges, and what an ACK says of marks.

use crate::object::{Object, Shared, Which};
use crate::records::{put_event, put_heard, put_receiving, put_segment};
use penstock_core::tcp::{Echo, Heard, TcpConfig};
use penstock_core::Packet;
use penstock_units::Time;
use std::sync::Arc;

/// What the code is told to do.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
enum Call {
    /// `on_start(config)`.
    Start = 0,
    /// `before_data(segment)`.
    Before = 1,
    /// `on_data(segment, heard)`.
    Data = 2,
    /// `on_ack_sent()`.
    Sent = 3,
    /// `on_timer(event)`.
    Timer = 4,
}

// Positions of the records.
const SEGMENT: usize = 0;
const HEARD: usize = 1;
const EVENT: usize = 2;
const CONFIG: usize = 3;

/// The echo of one connection.
pub struct Receiver {
    object: Object,
    flow: u32,
    now: Time,
    /// Position of the field that says whether an ACK carries ECN-Echo.
    ece: Option<usize>,
    /// Position of the field with the largest window.
    window: Option<usize>,
}

impl Receiver {
    /// Of a connection with options `cfg`.
    pub fn new(shared: &Arc<Shared>, cfg: &TcpConfig) -> Receiver {
        let (ece, window) = (shared.field("ece"), shared.field("window"));
        let mut it = Receiver { object: Object::new(shared), flow: u32::MAX, now: Time::ZERO, ece, window };
        put_receiving(&shared.records[CONFIG], cfg);
        it.call(Call::Start, Time::ZERO);
        it
    }
    /// Calls a method, its records being written; what it has returned.
    fn call(&mut self, call: Call, now: Time) -> f64 {
        if !self.object.shared.has(call as i64) {
            return 0.0;
        }
        self.now = now;
        let records = match call {
            Call::Start => (CONFIG, HEARD),
            Call::Timer => (EVENT, HEARD),
            _ => (SEGMENT, HEARD),
        };
        let which = Which { call: call as i64, records, timer: call == Call::Timer };
        match self.object.call(which, now) {
            Some([answer, _]) if (0.0..=1e6).contains(&answer) => answer,
            _ => {
                let place = if call == Call::Start {
                    String::new()
                } else {
                    format!("receiver of flow {}", self.flow)
                };
                self.object.fail(which, now, &place)
            }
        }
    }
}

impl Echo for Receiver {
    fn before_data(&mut self, p: &Packet) -> Option<bool> {
        self.flow = p.flow;
        if !self.object.shared.has(Call::Before as i64) {
            return None;
        }
        put_segment(&self.object.shared.records[SEGMENT], p);
        let leaves = self.call(Call::Before, self.now) != 0.0;
        leaves.then(|| self.ece())
    }
    fn on_data(&mut self, now: Time, p: &Packet, heard: &Heard) -> u32 {
        self.flow = p.flow;
        put_segment(&self.object.shared.records[SEGMENT], p);
        put_heard(&self.object.shared.records[HEARD], now, heard);
        self.call(Call::Data, now) as u32
    }
    fn on_ack_sent(&mut self) {
        self.call(Call::Sent, self.now);
    }
    fn ece(&self) -> bool {
        self.ece.is_some_and(|i| self.object.word(i) & 1 != 0)
    }
    fn deadline(&self) -> Time {
        self.object.deadline
    }
    fn on_deadline(&mut self, now: Time) -> u32 {
        if now < self.object.deadline {
            return 0;
        }
        put_event(&self.object.shared.records[EVENT], now, None);
        self.call(Call::Timer, now) as u32
    }
    fn window_cap(&self) -> u64 {
        self.window.map_or(u64::MAX, |i| self.object.word(i))
    }
}
