//! The window law of a controller written in Python. Its state is a flat block of words (`records.rs`); its methods are one
//! compiled function, which needs no interpreter lock, or the interpreted ones on the same block.
//!
//! What goes wrong in a controller (an exception, a field that is not a number, an impossible window) ends the run. The
//! call is then made once more by the interpreter, from the state it began with, to find the line (`diagnose`): so that a
//! call that goes well pays for none of this but a copy of its block.

use crate::records::{put_ack, put_config, put_event, put_flow, Word, Words};
use penstock_core::tcp::TcpConfig;
use penstock_core::{AckRecord, Congestion, Control, FlowView, Quantity, Report, WindowLaw};
use penstock_units::{Bytes, Dur, Rate, Time};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyList, PyTuple};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// What the compiled code is told to do, and the position of its interpreted counterpart.
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
}

/// A controller's compiled methods: runs one on the state, asks `control`, writes window (bytes) and pacing rate (bit/s) to
/// `out` (infinity = not limited). Not 0 when an exception was raised.
pub type Compiled = unsafe extern "C" fn(
    call: i64,
    state: *mut u64,
    record: *const u64,
    flow: *const u64,
    out: *mut f64,
) -> i64;

/// How the methods are called.
pub enum Code {
    /// At an address, which stays as long as [`Shared::controller`] lives.
    Compiled(Compiled),
    /// By the interpreter, a callable for each [`Call`].
    Interpreted {
        /// By number of the call.
        calls: Vec<Py<PyAny>>,
    },
}

/// What the senders of one run with this controller share.
pub struct Shared {
    /// The Python side's description, which keeps the code alive and finds the line of a mistake.
    pub controller: Py<PyAny>,
    /// How it is called.
    pub code: Code,
    /// The state's fields, which are reported as samples, and what they hold.
    pub fields: Vec<(&'static Quantity, Word)>,
    /// The state a sender begins with.
    pub initial: Vec<u64>,
    /// Position of the field with the time of the next `on_timer`.
    pub timer: Option<usize>,
    /// Calls that the controller has a method for, by bit.
    pub has: u32,
    /// The delivery rate is wanted.
    pub wants_rate: bool,
    /// Records of the call under way.
    pub ack: Words,
    /// As above.
    pub event: Words,
    /// As above.
    pub flow: Words,
    /// As above.
    pub config: Words,
}

impl Shared {
    fn record(&self, call: Call) -> &Words {
        match call {
            Call::Start => &self.config,
            Call::Ack => &self.ack,
            _ => &self.event,
        }
    }
}

/// One sender's law.
pub struct Law {
    shared: Arc<Shared>,
    /// The state, its fields in order.
    state: Words,
    /// The state before the call under way.
    saved: Box<[u64]>,
    control: Control,
    deadline: Time,
}

impl Law {
    /// A sender with options `cfg`.
    pub fn new(shared: &Arc<Shared>, cfg: &TcpConfig) -> Law {
        let state = match &shared.code {
            Code::Compiled(_) => Words::of(shared.initial.len()),
            Code::Interpreted { .. } => Python::attach(|py| {
                let made =
                    shared.controller.call_method0(py, "_state").and_then(|o| Words::in_object(o.bind(py)));
                made.unwrap_or_else(|e| stop(e.to_string()))
            }),
        };
        for (word, value) in state.iter().zip(&shared.initial) {
            word.store(*value, Relaxed);
        }
        let saved = shared.initial.clone().into();
        let (control, deadline) = (Control::default(), Time::NEVER);
        let mut law = Law { shared: shared.clone(), state, saved, control, deadline };
        put_config(&shared.config, cfg);
        law.call(Call::Start, Time::ZERO);
        law
    }

    /// Calls a method; its record and the connection's are written.
    #[inline]
    fn call(&mut self, call: Call, now: Time) {
        for (word, saved) in self.state.iter().zip(&mut self.saved) {
            *saved = word.load(Relaxed);
        }
        let mut out = [0.0; 2];
        let done = match &self.shared.code {
            Code::Compiled(code) => {
                let shared = &*self.shared;
                // The words are atomics, which may be written through a shared reference. The addresses stay valid for
                // the call, and the code was made for blocks of this layout.
                unsafe {
                    code(
                        call as i64,
                        self.state.as_ptr().cast::<u64>().cast_mut(),
                        shared.record(call).as_ptr().cast::<u64>(),
                        shared.flow.as_ptr().cast::<u64>(),
                        out.as_mut_ptr(),
                    ) == 0
                }
            }
            Code::Interpreted { calls } => Python::attach(|py| {
                let shared = &*self.shared;
                let arguments = (self.state.object(), shared.record(call).object(), shared.flow.object());
                let answer = calls[call as usize].bind(py).call1(arguments);
                match answer.and_then(|value| amounts(&value)) {
                    Ok(found) => out = found,
                    Err(_) => return false,
                }
                true
            }),
        };
        if !done || !self.take(call, now, out) {
            self.fail(call, now);
        }
    }

    /// Takes over what a call has left; false when it is not legal.
    #[inline]
    fn take(&mut self, call: Call, now: Time, [window, pacing]: [f64; 2]) -> bool {
        let float = |i: usize| f64::from_bits(self.state[i].load(Relaxed));
        for (i, (_, word)) in self.shared.fields.iter().enumerate() {
            if *word == Word::Float && float(i).is_nan() {
                return false;
            }
        }
        // Written so that NaN fails.
        if !(window >= 0.0 && pacing > 0.0) {
            return false;
        }
        self.control = Control {
            window: window.is_finite().then_some(Bytes(window as u64)),
            pacing: pacing.is_finite().then(|| Rate::from_bps(pacing)),
            segment: None,
        };
        if let Some(i) = self.shared.timer {
            let at = float(i);
            self.deadline = if at < 1e7 { Time::ZERO + Dur::from_secs(at) } else { Time::NEVER };
            // A timer that does not advance would stop the clock.
            if call == Call::Timer && self.deadline <= now {
                return false;
            }
        }
        true
    }

    #[cold]
    fn fail(&self, call: Call, now: Time) -> ! {
        let plain = |words: &[AtomicU64]| words.iter().map(|w| w.load(Relaxed)).collect::<Vec<u64>>();
        let flow = plain(&self.shared.flow);
        let text = Python::attach(|py| {
            let arguments =
                (call as i64, self.saved.to_vec(), plain(self.shared.record(call)), flow, now.as_secs());
            let found = self.shared.controller.call_method1(py, "_diagnose", arguments);
            found.and_then(|text| text.extract::<String>(py)).unwrap_or_else(|e| e.to_string())
        });
        stop(text)
    }

    fn has(&self, call: Call) -> bool {
        self.shared.has & (1 << call as u32) != 0
    }
}

/// What `control` has returned: a window, or a window and a pacing rate.
pub fn amounts(value: &Bound<'_, PyAny>) -> PyResult<[f64; 2]> {
    if let Ok(window) = value.cast::<PyFloat>() {
        return Ok([window.value(), f64::INFINITY]);
    }
    if let Ok(pair) = value.cast::<PyTuple>() {
        let (window, pacing) = pair.extract::<(f64, f64)>()?;
        return Ok([window, pacing]);
    }
    if value.is_instance_of::<PyList>() {
        return Err(pyo3::exceptions::PyTypeError::new_err("control returns a number or a pair of numbers"));
    }
    Ok([value.extract::<f64>()?, f64::INFINITY])
}

/// Ends the run: `run` finds the text. A law has no other way, and no panic of ours, so nothing is printed.
fn stop(text: String) -> ! {
    resume_unwind(Box::new(text))
}

impl WindowLaw for Law {
    #[inline]
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        put_ack(&self.shared.ack, ack);
        put_flow(&self.shared.flow, flow);
        self.call(Call::Ack, ack.now);
    }
    fn wants_rate(&self) -> bool {
        self.shared.wants_rate
    }
    fn on_congestion(&mut self, now: Time, flow: &FlowView, event: Congestion) {
        put_event(&self.shared.event, now, Some(event));
        put_flow(&self.shared.flow, flow);
        self.call(Call::Congestion, now);
    }
    fn on_transfer(&mut self, now: Time, flow: &FlowView) {
        if self.has(Call::Transfer) {
            put_event(&self.shared.event, now, None);
            put_flow(&self.shared.flow, flow);
            self.call(Call::Transfer, now);
        }
    }
    #[inline]
    fn control(&self) -> Control {
        self.control
    }
    #[inline]
    fn deadline(&self) -> Time {
        self.deadline
    }
    fn on_deadline(&mut self, now: Time, flow: &FlowView) {
        if let Some(i) = self.shared.timer {
            // It runs once, until the method sets it again.
            self.state[i].store(f64::INFINITY.to_bits(), Relaxed);
        }
        put_event(&self.shared.event, now, None);
        put_flow(&self.shared.flow, flow);
        self.call(Call::Timer, now);
    }
    fn observe(&self, report: &mut Report<'_>) {
        for ((field, word), value) in self.shared.fields.iter().zip(self.state.iter()) {
            let value = value.load(Relaxed);
            report(field, if *word == Word::Float { f64::from_bits(value) } else { value as i64 as f64 });
        }
    }
}
