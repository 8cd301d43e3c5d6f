//! An object of a class written in Python that the engine calls. It is a flat block of words (`records.rs`) with
//! methods: one compiled function, which needs no interpreter lock, or the interpreted ones on the same block. What the
//! methods mean is the business of a role: a window law (`law.rs`), a queue or a router (`port.rs`), a receiver
//! (`receiver.rs`).
//!
//! What goes wrong (an exception, a field that is not a number, an impossible answer) ends the run. The interpreter
//! then repeats the call from the state it began with, to find the line (`_diagnose`). A successful call pays only for
//! a copy of its block.
#![allow(unsafe_code)]

use crate::records::{Layout, Word, Words};
use crate::table::{PyTable, Table};
use penstock_core::{Quantity, Report};
use penstock_units::{Dur, Time};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyList, PyTuple};
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// A class's compiled methods: runs one on the state, with up to two records, and writes its answer to `out`. Not 0 when an
/// exception was raised.
pub type Compiled = unsafe extern "C" fn(
    call: i64,
    state: *mut u64,
    first: *const u64,
    second: *const u64,
    out: *mut f64,
) -> i64;

/// How the methods are called.
pub enum Code {
    /// At an address, which stays as long as [`Shared::class`] lives.
    Compiled(Compiled),
    /// By the interpreter, a callable for each number of a call.
    Interpreted {
        /// By number of the call.
        calls: Vec<Py<PyAny>>,
    },
}

/// What all objects of a class share in one run.
pub struct Shared {
    /// The Python side's description, which keeps the code alive and finds the line of a mistake.
    pub class: Py<PyAny>,
    /// How it is called.
    pub code: Code,
    /// The state's fields, which are reported as samples, and what they hold.
    pub fields: Vec<(&'static Quantity, Word)>,
    /// The state an object begins with.
    pub initial: Vec<u64>,
    /// Where the fields are that methods may write: all others are parameters, which stay as they are.
    pub own: Range<usize>,
    /// Those of them that hold a float.
    pub floats: Vec<usize>,
    /// Position of the field with the time of the next `on_timer`.
    pub timer: Option<usize>,
    /// Calls that the class has a method for, by bit.
    pub has: u32,
    /// Records of the call under way, in the order of the role's layouts.
    pub records: Vec<Words>,
}

impl Shared {
    /// Whether there is a method for a call.
    #[inline]
    pub fn has(&self, call: i64) -> bool {
        self.has & (1 << call) != 0
    }
    /// Positions of the fields that are dictionaries.
    fn tables(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.fields.len()).filter(|i| self.fields[*i].1.values().is_some())
    }
    /// Position of a field.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(what, _)| what.name == name)
    }
}

/// One object.
pub struct Object {
    /// Of its class.
    pub shared: Arc<Shared>,
    /// The state, its fields in order.
    state: Words,
    /// The state before the call under way.
    saved: Box<[u64]>,
    /// The dictionaries of the state, in the order of their fields.
    tables: Box<[Arc<Table>]>,
    /// When the timer runs out.
    pub deadline: Time,
}

/// The compiled methods of an object that has nothing but parameters: there is nothing to save before a call, to look at after it or to wait for. It has
/// the addresses at hand that [`Object::call`] would look up, and is as good as long as its object lives.
#[derive(Clone, Copy)]
pub struct Bare {
    code: Compiled,
    state: *const AtomicU64,
    records: [*const AtomicU64; 2],
}

// SAFETY: the addresses are of atomics that stay in place while the object lives ([`Words`]), and the code is a plain
// function without state of its own.
unsafe impl Send for Bare {}
// SAFETY: two threads may call the code at once, because it reads and writes nothing but the atomics.
unsafe impl Sync for Bare {}

impl Bare {
    /// Calls a method, its records being written; `None` when it failed.
    #[inline]
    pub fn call(&self, call: i64) -> Option<f64> {
        let mut out = [0.0, f64::INFINITY];
        let [first, second] = self.records.map(|words| words.cast::<u64>());
        // SAFETY: the object lives, so its state and records do ([`Self`]). They are atomics, which may be written through
        // a shared reference, and the code was compiled for blocks of this layout. `out` has the two numbers it writes.
        let failed = unsafe {
            (self.code)(call, self.state.cast::<u64>().cast_mut(), first, second, out.as_mut_ptr())
        };
        (failed == 0).then_some(out[0])
    }
}

/// A call: its number, its two records by position, and whether it is that of the timer.
#[derive(Clone, Copy)]
pub struct Which {
    /// Number of the call.
    pub call: i64,
    /// Records that the method is given.
    pub records: (usize, usize),
    /// The timer's: it must have been set to a later time, or to none.
    pub timer: bool,
}

impl Object {
    /// A new one.
    pub fn new(shared: &Arc<Shared>) -> Object {
        let state = match &shared.code {
            Code::Compiled(_) => Words::of(shared.initial.len()),
            Code::Interpreted { .. } => Python::attach(|py| {
                let made = shared.class.call_method0(py, "_state").and_then(|o| Words::in_object(o.bind(py)));
                made.unwrap_or_else(|e| stop(e.to_string()))
            }),
        };
        for (word, value) in state.iter().zip(&shared.initial) {
            word.store(*value, Relaxed);
        }
        let tables = match &shared.code {
            Code::Compiled(_) => {
                let of_field = |i: usize| {
                    let table = Arc::new(Table::default());
                    state[i].store(Arc::as_ptr(&table) as usize as u64, Relaxed);
                    table
                };
                shared.tables().map(of_field).collect()
            }
            Code::Interpreted { .. } => Python::attach(|py| {
                let object = state.object().bind(py);
                let of_field =
                    |i: usize| Ok(object.getattr(shared.fields[i].0.name)?.cast::<PyTable>()?.get().table());
                let found: PyResult<_> = shared.tables().map(of_field).collect();
                found.unwrap_or_else(|e| stop(e.to_string()))
            }),
        };
        let mut object = Object {
            shared: shared.clone(),
            state,
            saved: shared.initial.clone().into(),
            tables,
            deadline: Time::NEVER,
        };
        object.find_deadline();
        object
    }
    /// The way to its methods with these records, where that can be a short one.
    pub fn bare(&self, records: (usize, usize)) -> Option<Bare> {
        let Code::Compiled(code) = self.shared.code else { return None };
        let at = |i: usize| self.shared.records[i].as_ptr();
        let bare = self.shared.own.is_empty() && self.shared.timer.is_none();
        bare.then(|| Bare { code, state: self.state.as_ptr(), records: [at(records.0), at(records.1)] })
    }
    /// A float of the state.
    #[inline]
    pub fn float(&self, i: usize) -> f64 {
        f64::from_bits(self.state[i].load(Relaxed))
    }
    /// A word of the state.
    #[inline]
    pub fn word(&self, i: usize) -> u64 {
        self.state[i].load(Relaxed)
    }
    /// Calls a method, its records being written; `None` when it failed or left something illegal behind.
    #[inline]
    pub fn call(&mut self, which: Which, now: Time) -> Option<[f64; 2]> {
        let own = self.shared.own.clone();
        for (word, saved) in self.state[own.clone()].iter().zip(&mut self.saved[own]) {
            *saved = word.load(Relaxed);
        }
        for table in &self.tables {
            table.begin();
        }
        if which.timer {
            if let Some(i) = self.shared.timer {
                // It runs once, until the method sets it again.
                self.state[i].store(f64::INFINITY.to_bits(), Relaxed);
            }
        }
        let shared = &*self.shared;
        let (first, second) = (&shared.records[which.records.0], &shared.records[which.records.1]);
        let mut out = [0.0, f64::INFINITY];
        match &shared.code {
            Code::Compiled(code) => {
                // SAFETY: the words are atomics, which may be written through a shared reference. The addresses stay valid
                // for the call, and the code was compiled for blocks of this layout. `out` has the two numbers it writes.
                let failed = unsafe {
                    code(
                        which.call,
                        self.state.as_ptr().cast::<u64>().cast_mut(),
                        first.as_ptr().cast::<u64>(),
                        second.as_ptr().cast::<u64>(),
                        out.as_mut_ptr(),
                    )
                };
                if failed != 0 {
                    return None;
                }
            }
            Code::Interpreted { calls } => {
                out = Python::attach(|py| {
                    let arguments = (self.state.object(), first.object(), second.object());
                    let answer = calls[which.call as usize].bind(py).call1(arguments);
                    answer.and_then(|value| amounts(&value)).ok()
                })?;
            }
        }
        if self.shared.floats.iter().any(|i| self.float(*i).is_nan()) {
            return None;
        }
        self.find_deadline();
        // A timer that does not advance would stop the clock.
        (!which.timer || self.deadline > now).then_some(out)
    }
    #[inline]
    fn find_deadline(&mut self) {
        if let Some(i) = self.shared.timer {
            let at = self.float(i);
            self.deadline = if at < 1e7 { Time::ZERO + Dur::from_secs(at) } else { Time::NEVER };
        }
    }
    /// Ends the run: a call has failed at `place` ("flow 7").
    #[cold]
    pub fn fail(&self, which: Which, now: Time, place: &str) -> ! {
        let plain = |words: &[AtomicU64]| words.iter().map(|w| w.load(Relaxed)).collect::<Vec<u64>>();
        let records = &self.shared.records;
        let (first, second) = (plain(&records[which.records.0]), plain(&records[which.records.1]));
        let kinds = self.shared.fields.iter().filter_map(|(_, word)| word.values());
        let tables: Vec<PyTable> = self
            .tables
            .iter()
            .zip(kinds)
            .map(|(table, values)| {
                table.roll_back();
                PyTable::of(table.clone(), values)
            })
            .collect();
        let text = Python::attach(|py| {
            let state = (self.saved.to_vec(), tables);
            let arguments = (which.call, state, first, second, place, now.as_secs());
            let found = self.shared.class.call_method1(py, "_diagnose", arguments);
            found.and_then(|text| text.extract::<String>(py)).unwrap_or_else(|e| e.to_string())
        });
        stop(text)
    }
    /// Reports every number of the state.
    pub fn observe(&self, report: &mut Report<'_>) {
        for ((field, word), value) in self.shared.fields.iter().zip(self.state.iter()) {
            if word.values().is_some() {
                continue;
            }
            let value = value.load(Relaxed);
            report(field, if *word == Word::Float { f64::from_bits(value) } else { value as i64 as f64 });
        }
    }
}

/// Records of a role for compiled code.
pub fn own_records(layouts: &[Layout]) -> Vec<Words> {
    layouts.iter().map(|layout| Words::of(layout.len())).collect()
}

/// What a method has returned: a number, or a window and a pacing rate.
fn amounts(value: &Bound<'_, PyAny>) -> PyResult<[f64; 2]> {
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
