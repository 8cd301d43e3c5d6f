//! One run on several cores, with the bytes that it leaves on one.
//!
//! The nodes of the network are divided into parts, one per thread (`partition`). Every part is an [`Engine`] of its own, which has its hosts,
//! ports, packets and events (`engine::part`). What leaves one part for another is a packet on a link between the two, and it is under way
//! for the delay of that link. So all parts can work through a window of simulated time that is as long as the shortest of these links without
//! asking each other: what arrives in the window had left before it began. In a window every part hands over what it has for the others,
//! and the next one begins at the earliest event that any of them has (`windows`).
//!
//! # The same bytes
//!
//! Events at one instant are in the order of (port), (deadline), (workload), which says nothing about parts; within a part that is kept, and
//! between parts only packets on links matter, which take longer. What is recorded has a stamp in this order and is recorded at the end
//! (`metrics::event_log`); packets lost anywhere are counted for the flow by their stamps. An application acts in the part of its host, and its messages to
//! others travel. What a run that is not divided does elsewhere at once needs a note:
//!
//! - a receiver's time of delivery, for the row of the transfer, is at the sender's part before the acknowledgement is;
//! - what a receiver had not received when its sender noticed a loss is worked out afterwards, from what it heard in that window;
//! - a receiving end is removed one propagation delay of its path after its sender is done, which is never within the window in which that
//!   happened: the note comes in time.
//!
//! Where a run cannot be divided, or its windows have too little work, it is made on one thread, and [`Cores::note`] says why.
//!
//! # Balance
//!
//! All threads wait for the one with most to do. At first each has one part. Where the first windows show that this is far from even, the run begins
//! anew with twice as many, and what the last windows had to do says which thread works through which (`balance`). More parts than that cost more than
//! they bring: each hands packets over, has tables of its own and takes turns in a core's cache. Parts change hands between two windows; the bytes do not
//! depend on which thread worked.
//!
//! # Small windows
//!
//! Where windows have so little to do that meetings cost more than other threads bring, the first thread takes all parts for some windows, and the
//! others sleep meanwhile (`windows`).
//!
//! # On one thread
//!
//! The whole run is a single part, with nobody to meet. Where its network allows that, it goes in windows no longer than its shortest link, as the parts of a
//! divided run do. It is worked through node by node (`engine::nodes`). If
//! windows have too little work, the rest of the run goes event by event, in the same engine.

mod balance;
mod barrier;
mod partition;
mod windows;

use crate::engine::part::{ControlMessage, Division, Left};
use crate::engine::{Engine, Progress};
use crate::metrics::event_log::Batch;
use crate::network::boundary::PacketMessages;
use crate::setup::Setup;
use balance::Balance;
use barrier::{Barrier, Broken, Guard};
use partition::partition;
use penstock_core::rng::Entity;
use penstock_core::{ParamError, Stream};
use penstock_fabric::{Spread, Standing};
use penstock_units::{Bytes, Dur, Time};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{mpsc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// On how many cores a run was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Threads.
    pub threads: usize,
    /// Why on fewer than were asked for.
    pub note: Option<String>,
    /// What its windows had to do.
    pub work: Work,
}

/// What the windows of a divided run had to do: it follows from the scenario and the number of parts. Zero for one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Windows.
    pub windows: u64,
    /// Packet-hops in all of them.
    pub hops: u64,
    /// Sum over the windows of the packet-hops of the thread that had most: the others wait for it.
    pub longest: u64,
    /// Packets that were handed from part to part.
    pub packet_messages: u64,
    /// Windows that the first thread worked through alone, as they had too little to do for several.
    pub alone: u64,
}

impl Work {
    /// Work of all threads over that of the busiest in each window: what the run could gain if meeting cost nothing.
    pub fn balance(&self) -> f64 {
        self.hops as f64 / self.longest.max(1) as f64
    }
}

/// So many windows of the network's own are one of a run on one thread.
const WINDOWS: u64 = 64;
/// Parts for each thread, at most.
const SHARES: usize = 4;
/// A part is not worth it with fewer packet-hops in a window, about 10 us of work: 1,024 hosts cost 54 ns a hop in one part, 62 in two, 67 in eight, 90 in 32.
const ENOUGH_HOPS: u64 = 250;
/// Hops of a packet in networks of several tiers, or so.
const HOPS: u64 = 4;

/// On how many threads a run is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// On so many at most.
    pub most: usize,
    /// On one where all hosts together can send fewer packets in a window than this for each thread: meeting costs more than it brings.
    pub least_packets: u64,
    /// Windows with fewer packet-hops for each thread are worked through by the first thread alone; 0: all by all.
    pub least_hops: u64,
    /// Parts for each thread; 1: as many more as it takes where the first windows are not even.
    pub shares: usize,
    /// By lookahead windows, node by node, where that can be and is faster; otherwise event by event. The bytes are the same, but not the order in which
    /// what shares no state is called.
    pub by_windows: bool,
    /// On several: what is due at one instant at several hosts is handled in an order of hosts that is drawn with this seed. For tests, as no result
    /// depends on it.
    pub shuffle: Option<u64>,
}

impl Threads {
    /// At most `most`, where there is enough to do.
    pub fn up_to(most: usize) -> Threads {
        Threads { most, least_packets: 16, least_hops: 100, shares: 1, by_windows: true, shuffle: None }
    }
    /// On one thread, event by event.
    pub fn one_by_one() -> Threads {
        Threads { by_windows: false, ..Threads::up_to(1) }
    }
    /// `most` wherever a run can be divided: for tests.
    pub fn always(most: usize) -> Threads {
        Threads { least_packets: 0, least_hops: 0, ..Threads::up_to(most) }
    }
}

/// What the hosts of a part have for another after a window.
#[derive(Default)]
struct ControlMailbox {
    notes: Vec<ControlMessage>,
    batches: Vec<Batch>,
}

/// What threads share. Windows with an even and with an odd number have boxes of their own: a part may write while another still reads.
struct Shared {
    /// All packets for other parts are in their boxes; all hosts are through, too.
    sent: Barrier,
    done: Barrier,
    threads: usize,
    parts: usize,
    packet_messages: [Vec<Mutex<PacketMessages>>; 2],
    boxes: [Vec<Mutex<ControlMailbox>>; 2],
    /// When packets arrive next in each part; when something happens next there.
    arrivals: [Vec<AtomicU64>; 2],
    next: [Vec<AtomicU64>; 2],
    /// Packet-hops of each part in the last window.
    hops: [Vec<AtomicU64>; 2],
    /// When the last application of each part had nothing more to do.
    ended: [Vec<AtomicU64>; 2],
    /// How many letters there have been.
    posted: AtomicU64,
    cancelled: [AtomicBool; 2],
    /// After the window that comes the first thread goes on alone.
    alone: [AtomicBool; 2],
    /// Where it waits for the others when it is done with that, from which window on and with which end of the last one; or the run is over.
    rejoin: Barrier,
    resume: [AtomicU64; 2],
    is_over: AtomicBool,
    /// What stood still at a look for deadlocks in the window before this one.
    standing: [Mutex<(u64, Standing)>; 2],
    /// Parts that another thread goes on with.
    passed: Vec<Mutex<Option<Box<Place>>>>,
    /// Why the run was given up.
    given_up: Mutex<Option<Reason>>,
}

/// Why a run that was begun on several threads is not finished there.
enum Reason {
    ControlMessage(String),
    Error(ParamError),
    /// Parts have too different loads: more and smaller ones are to be shared out.
    Uneven,
}

/// One or another of what was tried.
pub(crate) enum Divided {
    /// The whole run, and whether it came to its end.
    Done(Box<Engine>, bool, Cores),
    /// It is not: why, and what was built if that is still whole.
    Not(String, Option<Box<Setup>>),
}

impl Shared {
    fn new(threads: usize, parts: usize) -> Shared {
        let times = || (0..parts).map(|_| AtomicU64::new(0)).collect();
        let packet_messages = || (0..parts * parts).map(|_| Mutex::default()).collect();
        let boxes = || (0..parts * parts).map(|_| Mutex::default()).collect();
        Shared {
            sent: Barrier::new(threads),
            done: Barrier::new(threads),
            threads,
            parts,
            packet_messages: [packet_messages(), packet_messages()],
            boxes: [boxes(), boxes()],
            arrivals: [times(), times()],
            next: [times(), times()],
            hops: [times(), times()],
            ended: [times(), times()],
            posted: AtomicU64::new(0),
            cancelled: Default::default(),
            alone: Default::default(),
            rejoin: Barrier::new(threads),
            resume: Default::default(),
            is_over: AtomicBool::new(false),
            standing: Default::default(),
            passed: (0..parts).map(|_| Mutex::default()).collect(),
            given_up: Mutex::new(None),
        }
    }
    fn give_up(&self, reason: Reason) -> Broken {
        let mut known = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        // An error is told whatever else was found.
        if known.is_none() || matches!(reason, Reason::Error(_)) {
            *known = Some(reason);
        }
        [&self.sent, &self.done, &self.rejoin].into_iter().for_each(Barrier::give_up);
        Broken
    }
}

/// What stands in the way of dividing a run, whatever its network.
fn obstacle(setup: &Setup) -> Option<&'static str> {
    let recorder = &setup.recorder;
    if let Some(reason) = setup.workloads.iter().find_map(|w| w.joins_hosts()) {
        return Some(reason);
    }
    let delays = setup.protocols.iter().any(|(suite, cfg)| suite.stack.is_none() && cfg.delayed_ack > 1);
    if delays && setup.workloads.iter().any(|w| w.has_blocks()) {
        return Some("it measures how long blocks wait for delayed ACKs while nothing is under way");
    }
    if setup.protocols.iter().any(|(suite, _)| !suite.independent) {
        return Some("its protocol does not say that what it builds for one link shares nothing with another's (Suite::independent)");
    }
    if !setup.collectives.is_empty() {
        return Some("a host controller has connections of several hosts in its charge");
    }
    if setup.noise_of_one_machine() {
        return Some("all hosts share the delays of one machine");
    }
    if setup.fabric.spread == Spread::Ideal {
        return Some("spread=ideal gives every flow a path that depends on all flows before it");
    }
    if recorder.keep_deliveries && !setup.changes.is_empty() {
        return Some("it follows what a failed link takes until all of that has arrived");
    }
    None
}

/// Packets that all hosts can send in `window`.
fn packets_in(setup: &Setup, window: Dur) -> u64 {
    let packet = setup.protocols.iter().map(|(_, c)| c.mss + c.header_len()).max().unwrap_or(1500);
    let t = &setup.topology;
    let rate = |host| t.ports_of(host).first().map_or(0, |port| t.links[*port as usize].rate.0);
    let bits: u128 = t.hosts().into_iter().map(|host| u128::from(rate(host))).sum();
    let bytes = bits * u128::from(window.0) / 8_000_000_000_000;
    u64::try_from(bytes / u128::from(Bytes(u64::from(packet + setup.framing)).0)).unwrap_or(u64::MAX)
}

/// Runs what `build` builds on several threads, if it can be divided; `build` answers the same every time, and `built` is what it has answered already.
///
/// # Errors
/// What building or running finds.
pub(crate) fn run(
    built: Option<Box<Setup>>,
    build: &(dyn Fn() -> Result<Setup, ParamError> + Sync),
    threads: &Threads,
    progress: &Progress,
) -> Result<Divided, ParamError> {
    let setup = built.map_or_else(build, |setup| Ok(*setup))?;
    let (mut setup, mut threads) = (setup, *threads);
    loop {
        match attempt(setup, build, &threads, progress)? {
            Made::Divided(divided) => return Ok(divided),
            Made::Uneven => (setup, threads.shares) = (build()?, 2 * threads.shares),
        }
    }
}

/// What became of an attempt.
enum Made {
    Divided(Divided),
    Uneven,
}

fn attempt(
    setup: Setup,
    build: &(dyn Fn() -> Result<Setup, ParamError> + Sync),
    threads: &Threads,
    progress: &Progress,
) -> Result<Made, ParamError> {
    let not = |reason: String, setup| Ok(Made::Divided(Divided::Not(reason, Some(Box::new(setup)))));
    if threads.most < 2 && !threads.by_windows {
        return not("it is to be made event by event".into(), setup);
    }
    if let Some(reason) = obstacle(&setup) {
        return not(reason.into(), setup);
    }
    let (plain, several) = (setup.is_plain(), threads.most > 1);
    let shares = if several { threads.shares } else { 1 };
    // Fewer threads where their windows would be too small.
    let mut most = threads.most;
    let (divided, packets) = loop {
        let divided = partition(&setup.topology, (most * shares).min(usize::from(u16::MAX)), !plain);
        let divided = match divided {
            Ok(divided) => divided,
            Err(reason) => return not(reason, setup),
        };
        let packets = packets_in(&setup, divided.shortest);
        if most <= 2 || packets >= threads.least_packets * most as u64 {
            break (divided, packets);
        }
        most -= 1;
    };
    let parts = divided.parts;
    let workers = most.min(parts);
    let shortest = setup.topology.links.iter().map(|link| link.delay).min().unwrap_or(Dur::ZERO);
    let mut window = setup.fabric.flight(if parts > 1 { divided.shortest } else { shortest });
    if setup.workloads.iter().any(|w| w.has_end()) {
        // A run that ends by itself does so the delay of the shortest link after its last application.
        let links = setup.topology.links.iter().map(|link| link.delay);
        window = window.min(links.filter(|delay| *delay > Dur::ZERO).min().unwrap_or_default());
    }
    if window == Dur::ZERO {
        return not("links without delay join its switches".into(), setup);
    }
    if packets_in(&setup, window) < threads.least_packets * workers as u64 {
        return not("too little happens while a packet is on a link between two parts".into(), setup);
    }
    // A part that is the whole meets nobody: it only looks up now and then.
    let window = if parts > 1 { window } else { Dur(window.0.saturating_mul(WINDOWS)) };
    let division = Division { owner: divided.owner.into(), parts, apart: divided.apart };
    let few = fewer(workers, threads.most);
    few.iter().for_each(|note| progress.say(note));
    let shared = Shared::new(workers, parts);
    let fills = plain || packets * HOPS >= 2 * parts as u64 * ENOUGH_HOPS;
    let finer = fills && divided.units > parts && 2 * shares <= SHARES;
    let least_hops = threads.least_hops;
    let Threads { shuffle, by_windows, .. } = *threads;
    let run = Run { shared, window, division, least_hops, finer, shuffle, by_windows, progress };
    let (end, warmup) = (Time::ZERO + setup.duration, Time::ZERO + setup.warmup);
    progress.end_ps.store(end.0, Ordering::Relaxed);
    let tables = setup.tables.clone();
    let (run, tables) = (&run, &tables);
    let anew = || build().map(|setup| Setup { tables: tables.clone(), ..setup });
    let anew = &anew;
    std::thread::scope(|s| {
        let spawn = |thread: usize| {
            let (hand_over, left) = mpsc::channel();
            let worker = s.spawn(move || {
                let mut made = run.worker(None, anew, thread, (end, warmup));
                let left = made.as_mut().map(|worked| worked.leave(0));
                // Whatever became of the first: nobody is left to be told.
                _ = hand_over.send(left.map_err(|broken| *broken));
                // All else is given back while it makes the whole, and by a thread that nobody waits for; by this one where there cannot be another.
                _ = std::thread::Builder::new().spawn(move || drop(made));
            });
            (worker, left)
        };
        let others: Vec<_> = (1..workers).map(spawn).collect();
        let first = run.worker(Some(setup), anew, 0, (end, warmup));
        let hear = |(worker, left): (ScopedJoinHandle<'_, ()>, mpsc::Receiver<_>)| {
            // Who hands nothing over has panicked.
            left.recv().unwrap_or_else(|_| std::panic::resume_unwind(worker.join().unwrap_err()))
        };
        run.join(first, others.into_iter().map(hear).collect(), end, threads.most)
    })
}

/// Why a run is made on fewer threads than the most that it may have.
fn fewer(threads: usize, most: usize) -> Option<String> {
    (threads < most).then(|| {
        format!("the run is made on {threads} threads: its network has no more parts with enough to do in a window")
    })
}

struct Run<'a> {
    shared: Shared,
    window: Dur,
    division: Division,
    least_hops: u64,
    /// See [`Threads::shuffle`].
    shuffle: Option<u64>,
    /// See [`Threads::by_windows`].
    by_windows: bool,
    /// There could be more parts.
    finer: bool,
    progress: &'a Progress,
}

/// A part, wherever it is worked through.
struct Place {
    part: u16,
    engine: Engine,
    /// Packet-hops so far.
    hops: u64,
}

/// What a thread leaves.
struct Worked {
    /// Its parts; those of the first thread begin with the first.
    places: Vec<Box<Place>>,
    /// Up to when they have worked.
    at: Time,
    /// That is the end of the run.
    completed: bool,
    /// Stretches bring too little at a time: the rest is to be made event by event.
    sparse: bool,
    work: Work,
}

impl Worked {
    /// What the whole needs of its parts, but for the first `but`.
    fn leave(&mut self, but: usize) -> Vec<(u16, Left)> {
        self.places.iter_mut().skip(but).map(|place| (place.part, place.engine.leave())).collect()
    }
}

impl Run<'_> {
    /// Makes the whole of what is left of all parts.
    fn join(
        &self,
        first: Result<Worked, Broken>,
        others: Vec<Result<Vec<(u16, Left)>, Broken>>,
        end: Time,
        most: usize,
    ) -> Result<Made, ParamError> {
        let given_up = self.shared.given_up.lock().unwrap_or_else(PoisonError::into_inner).take();
        match given_up {
            Some(Reason::Error(e)) => return Err(e),
            Some(Reason::ControlMessage(note)) => return Ok(Made::Divided(Divided::Not(note, None))),
            Some(Reason::Uneven) => return Ok(Made::Uneven),
            None => {}
        }
        let whole = "nobody has given up";
        let mut first = first.expect(whole);
        let mut left = first.leave(1);
        let Worked { places, at, mut completed, sparse, mut work } = first;
        let mut places = places.into_iter();
        let mut engine = places.next().expect("the first thread has the first part").engine;
        if sparse {
            completed = engine.run(self.progress)?;
            let cores = Cores { threads: 1, note: None, work };
            return Ok(Made::Divided(Divided::Done(Box::new(engine), completed, cores)));
        }
        left.extend(others.into_iter().flat_map(|left| left.expect(whole)));
        left.sort_unstable_by_key(|(part, _)| *part);
        engine.join(left.into_iter().map(|(_, left)| left).collect(), at);
        self.progress.now_ps.store(end.0, Ordering::Relaxed);
        work.packet_messages = self.shared.posted.load(Ordering::Relaxed);
        let threads = self.shared.threads;
        let note = fewer(threads, most);
        Ok(Made::Divided(Divided::Done(Box::new(engine), completed, Cores { threads, note, work })))
    }
    /// One thread: builds its first parts and works for the run. The first of all is of the setup that is `built`.
    fn worker(
        &self,
        mut built: Option<Setup>,
        anew: &(dyn Fn() -> Result<Setup, ParamError> + Sync),
        thread: usize,
        times: (Time, Time),
    ) -> Result<Worked, Broken> {
        let shared = &self.shared;
        let _guard = Guard([&shared.sent, &shared.done, &shared.rejoin]);
        let failed = |e| shared.give_up(Reason::Error(e));
        let balance = Balance::new(shared.threads, shared.parts);
        let mut places = Vec::new();
        for part in balance.of(thread) {
            let setup = built.take().map_or_else(anew, Ok);
            let engine = setup.and_then(|setup| Engine::part(setup, &self.division, part, self.by_windows));
            let mut engine = engine.map_err(failed)?;
            if let Some(seed) = self.shuffle.filter(|_| shared.parts > 1) {
                engine.shuffle_apps(Stream::new(seed, u64::from(part), Entity::Workload, u64::MAX));
            }
            places.push(Box::new(Place { part, engine, hops: 0 }));
        }
        self.work(places, balance, thread, times)
    }
}
