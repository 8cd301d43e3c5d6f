//! Guards: what an open connection takes while nothing is under way on it, in the whole process: engine, both hosts, law, tables of handles,
//! timers. Counted by an allocator that knows what is in use.
//!
//! `cargo test -p penstock-sim --test idle_memory -- --nocapture` prints it.
#![allow(unsafe_code)]

use penstock_sim::engine::{Engine, Progress};
use penstock_sim::scenario::Resolved;
use penstock_sim::workloads::{Action, Actions, App, FlowRequest, Workload, Written};
use penstock_units::{Dur, Time};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts what is in use as glibc does: eight bytes for itself, in steps of 16, 32 at least.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

fn taken(bytes: usize) -> usize {
    ((bytes + 8).next_multiple_of(16)).max(32)
}

// SAFETY: every call goes to the system's allocator as it comes.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(taken(layout.size()), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(taken(layout.size()), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        IN_USE.fetch_add(taken(bytes), Relaxed);
        IN_USE.fetch_sub(taken(layout.size()), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CONNECTIONS: u32 = 100_000;
/// Two writes of two segments each.
const WRITE: u64 = 2920;

/// Opens a connection every 200 ns between hosts of other racks; each writes twice and stays open.
struct Persistent {
    hosts: Vec<u32>,
    opened: u32,
    again: Vec<bool>,
}

impl App for Persistent {
    fn next_event(&self) -> Time {
        match self.opened {
            CONNECTIONS => Time::NEVER,
            n => Time::ZERO + Dur::nanos(200) * u64::from(n),
        }
    }
    fn on_timer(&mut self, _: Time, actions: &mut Actions) {
        let hosts = self.hosts.len();
        let (src, lap) = (self.opened as usize % hosts, self.opened as usize / hosts);
        let dst = (src + 16 + lap % 96) % hosts;
        let request = FlowRequest { close: false, ..FlowRequest::new(self.hosts[src], self.hosts[dst], 0) };
        let flow = actions.open(request);
        actions.push(Action::Write { flow, bytes: WRITE, tag: 0 });
        self.opened += 1;
    }
    fn on_acked(&mut self, _: Time, write: &Written, actions: &mut Actions) {
        let again = &mut self.again[write.flow.0 as usize];
        if !std::mem::replace(again, true) {
            actions.push(Action::Write { flow: write.flow, bytes: WRITE, tag: 0 });
        }
    }
}

/// Bytes per connection of a law, when all are idle and when all is over.
fn measure(protocol: &str) -> (f64, f64) {
    let given = [
        ("protocol", protocol),
        ("topology", "leaf-spine:8x8x16"),
        ("link_rate", "10Gbps"),
        ("rto_min", "1ms"),
        ("rto_initial", "1ms"),
        ("warmup", "0s"),
        ("duration", "1s"),
    ];
    let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let resolved = Resolved::new("permutation", &given, 1, serde_json::Value::Null).expect("a scenario");
    let mut setup = resolved.setup(0).expect("it was checked");
    let (hosts, again) = (setup.topology.hosts(), vec![false; CONNECTIONS as usize]);
    setup.workloads = vec![Workload::central(Persistent { hosts, opened: 0, again })];
    let mut engine = Engine::new(setup).expect("it was checked");
    let before = IN_USE.load(Relaxed);
    engine.step(Time::ZERO + Dur::millis(900), &Progress::default()).expect("it runs");
    let idle = IN_USE.load(Relaxed) - before;
    engine.end(true).expect("it ends");
    let rows = &engine.recorder.transfers;
    assert_eq!(rows.len(), 2 * CONNECTIONS as usize, "every connection has written twice");
    let tables = rows.bytes();
    let per = |bytes: usize| bytes as f64 / f64::from(CONNECTIONS);
    (per(idle - tables), per(idle))
}

#[test]
fn an_idle_connection_takes_less_than_600_bytes_in_all() {
    // Builds with debug assertions keep an account of every byte of each flow beside it.
    let witness = if cfg!(debug_assertions) { WITNESS } else { 0.0 };
    // DCTCP's law has 112 bytes of its own, the others' 56.
    for (protocol, limit) in [("newreno", 600.0), ("sack", 600.0), ("dctcp", 664.0)] {
        let (idle, with_rows) = measure(protocol);
        let (idle, with_rows) = (idle - witness, with_rows - witness);
        println!(
            "{protocol:8} {idle:.0} bytes per idle connection, {with_rows:.0} with two rows of transfers"
        );
        assert!(idle < limit, "{protocol}: {idle:.0} bytes per idle connection");
    }
}

/// Two accounts of what has arrived, 32 and 48 bytes in the record of the flow, and a leaf of the tree that one of them has.
const WITNESS: f64 = 80.0 + 208.0;
