//! The simulator for the page: what WebAssembly exports of a [`Session`], plain functions on numbers, so that the page needs no bindings.
//!
//! A module instance has one run at a time. Text goes in by [`input`] and comes out by [`output`]. A function that can
//! fail returns 0 or more on success. It returns -1 on failure, and [`output`] then has the reason, as one line of the
//! command line.
#![allow(unsafe_code)]

use penstock_core::ParamError;
use penstock_sim::document;
use penstock_sim::session::Session;
use penstock_units::Time;
use std::cell::RefCell;

#[derive(Default)]
struct State {
    input: Vec<u8>,
    output: Vec<u8>,
    records: Vec<u32>,
    run: Option<Session>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Keeps what a panic says for [`output`]: the trap itself carries no text.
fn keep_panics() {
    std::panic::set_hook(Box::new(|info| {
        let text = format!("the run failed: {info}");
        STATE.with(|s| {
            // Borrowed by the function that panics, which never returns.
            // SAFETY: one thread, and the borrow is dead: the module traps after this hook.
            let state = unsafe { &mut *s.as_ptr() };
            state.output = text.into_bytes();
        });
    }));
}

fn with(act: impl FnOnce(&mut State) -> Result<i32, String>) -> i32 {
    STATE.with(|s| {
        let mut state = s.borrow_mut();
        match act(&mut state) {
            Ok(answer) => answer,
            Err(text) => {
                state.output = text.into_bytes();
                -1
            }
        }
    })
}

fn text(input: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(input).map_err(|e| e.to_string())
}
/// An error as the command line prints it.
#[allow(clippy::needless_pass_by_value)]
fn line(e: ParamError) -> String {
    e.to_string()
}

fn running(state: &mut State) -> Result<&mut Session, String> {
    state.run.as_mut().ok_or_else(|| "no run has been created".to_owned())
}

/// Room for `len` bytes of text that goes in.
#[no_mangle]
pub extern "C" fn input(len: usize) -> *mut u8 {
    STATE.with(|s| {
        let mut state = s.borrow_mut();
        state.input = vec![0; len];
        state.input.as_mut_ptr()
    })
}
/// Where the text is that the last call has left.
#[no_mangle]
pub extern "C" fn output() -> *const u8 {
    STATE.with(|s| s.borrow().output.as_ptr())
}
/// Its length in bytes.
#[no_mangle]
pub extern "C" fn output_len() -> usize {
    STATE.with(|s| s.borrow().output.len())
}
/// Builds the run of the document in [`input`]: keys as on the command line ([`Session::new`]). Output: the head of its record.
#[no_mangle]
pub extern "C" fn create() -> i32 {
    keep_panics();
    with(|state| {
        state.run = None;
        let run = Session::new(text(&state.input)?).map_err(line)?;
        state.output = run.head().to_string().into_bytes();
        state.run = Some(run);
        Ok(0)
    })
}
/// Goes on to `until` (picoseconds): 1 when something happens later, 0 when the run is over.
#[no_mangle]
pub extern "C" fn step(until: f64) -> i32 {
    with(|state| running(state)?.step(Time(until as u64)).map(i32::from).map_err(line))
}
/// Takes the records made since the last call: how many words there are at [`records`].
#[no_mangle]
pub extern "C" fn drain() -> i32 {
    with(|state| {
        let mut records = std::mem::take(&mut state.records);
        running(state)?.drain(&mut records);
        state.records = records;
        Ok(state.records.len() as i32)
    })
}
/// Where the records are.
#[no_mangle]
pub extern "C" fn records() -> *const u32 {
    STATE.with(|s| s.borrow().records.as_ptr())
}
/// Output: what the run has measured, once it is over ([`Session::result`]).
#[no_mangle]
pub extern "C" fn result() -> i32 {
    with(|state| {
        state.output = running(state)?.result().ok_or("the run is not over")?.to_string().into_bytes();
        Ok(0)
    })
}
/// Output: where every packet is at `at` (picoseconds), from the engine's own rings; ends the run. To check the record by.
#[no_mangle]
pub extern "C" fn whereabouts(at: f64) -> i32 {
    with(|state| {
        state.output = running(state)?
            .whereabouts(Time(at as u64))
            .map_err(line)?
            .ok_or("the run is over")?
            .to_string()
            .into_bytes();
        Ok(0)
    })
}
/// Output: the scenario of the document in [`input`] with every value filled in, as `resolve` of the Python module.
#[no_mangle]
pub extern "C" fn resolve() -> i32 {
    keep_panics();
    with(|state| {
        let resolved = document::resolve(text(&state.input)?).map_err(line)?;
        state.output = document::resolved(&resolved).to_string().into_bytes();
        Ok(0)
    })
}
