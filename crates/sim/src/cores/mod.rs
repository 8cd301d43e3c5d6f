//! One run on several cores, with the bytes that it leaves on one.
//!
//! The nodes of the network are divided into parts, one per thread (`partition`). Every part is an [`Engine`] of its own, which has its hosts,
//! ports, packets and events (`engine::part`). What leaves one part for another is a packet on a link between the two, and it is under way
//! for the delay of that link. So all parts can work through a window of simulated time that is as long as the shortest of these links without
//! asking each other: what arrives in the window had left before it began. After a window every part hands over what it has for the others,
//! and the next one begins at the earliest event that any of them has.
//!
//! # The same bytes
//!
//! Events at one instant are in the order of (port), (deadline), (workload), which says nothing about parts; within a part that is kept, and
//! between parts only packets on links matter, which take longer. What is recorded has a stamp in this order and is recorded at the end
//! (`metrics::journal`); packets lost anywhere are counted for the flow by their stamps. Workloads act in every part at the same times, so
//! only those can be divided whose timetable is known ([`Timetable`]). What a run that is not divided does elsewhere at once needs a note:
//!
//! - a receiver's time of delivery, for the row of the transfer, is at the sender's part before the acknowledgement is;
//! - what a receiver had not received when its sender noticed a loss is worked out afterwards, from what it heard in that window;
//! - a receiver is forgotten when its sender is done. Within a part a receiver to which something comes that it has already lets the host of its sender
//!   come as far first. From another part the note comes after the window; if the receiver has answered a late duplicate
//!   meanwhile, a run that is not divided would have been another. Then the run is given up and made on one thread. Which runs
//!   these are follows from the scenario alone.
//!
//! Where a run cannot be divided, or its windows have too little work, it is made on one thread, and [`Cores::note`] says why.
//!
//! # Balance
//!
//! A thread has one part, and all wait for the one with most to do. Where the first windows show that this is far from even, the run begins anew with
//! twice as many parts, and what the last windows had to do says which thread works through which (`balance`). Parts change hands between
//! two windows; the bytes do not ask who has worked.
//!
//! # On one thread
//!
//! A part works through a window by stretches of time, host by host, where its network allows that (`engine::sweep`). So the whole run on one thread
//! is a single part, with nobody to meet: it looks up after some stretches. Where these turn out to bring too little at a time, the rest of the run is
//! made event by event, by the same engine.

mod balance;
mod barrier;
mod partition;

use crate::engine::part::{Division, Left, Note};
use crate::engine::{Engine, Progress};
use crate::metrics::journal::Batch;
use crate::network::gates::Letters;
use crate::setup::{NicMode, Setup};
use crate::workloads::Timetable;
use balance::Balance;
use barrier::{Barrier, Broken, Guard};
use partition::partition;
use penstock_core::ParamError;
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
    pub letters: u64,
}

impl Work {
    /// Work of all threads over that of the busiest in each window: what the run could gain if meeting cost nothing.
    pub fn balance(&self) -> f64 {
        self.hops as f64 / self.longest.max(1) as f64
    }
}

/// So many stretches of a run on one thread are a window.
const STRETCHES: u64 = 64;
/// After so many such windows it is asked again whether there is enough to do in one.
const LOOK_EVERY: u64 = 16;
/// Where there are fewer packet-hops in a stretch, single events are as fast: 24 and 29 took 0.98 and 0.97 of the time, 18 took 1.18, in networks
/// of 34 to 96 ports (docs/performance.md).
const HOPS_PER_STRETCH: f64 = 25.0;

/// So many windows are looked at before a run on several threads goes on.
const TRIAL: u64 = 2000;
/// And after so many it is asked whether these are shared out evenly.
const FIRST_LOOK: u64 = 256;
/// They are not where threads have less than this part of what the busiest has: then the run begins anew with twice as many parts. Two for each thread
/// take 1.06 of the time that one takes where loads are even, four 1.16 (docs/performance.md).
const EVEN: f64 = 0.8;
/// Parts for each thread, at most.
const SHARES: usize = 4;

/// On how many threads a run is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// On so many at most.
    pub most: usize,
    /// On one where all hosts together can send fewer packets in a window than this for each thread: meeting costs more than it brings.
    pub least_packets: u64,
    /// The same where there have been fewer packet-hops for each thread; 0: windows are worked through whatever they bring.
    pub least_hops: u64,
    /// Parts for each thread; 1: as many more as it takes where the first windows are not even.
    pub shares: usize,
    /// On one thread: by stretches of time, host by host, where that can be and is faster. The bytes are the same, but not the order in which what
    /// shares no state is called.
    pub by_stretches: bool,
}

impl Threads {
    /// At most `most`, where there is enough to do.
    pub fn up_to(most: usize) -> Threads {
        Threads { most, least_packets: 16, least_hops: 100, shares: 1, by_stretches: true }
    }
    /// On one thread, event by event.
    pub fn one_by_one() -> Threads {
        Threads { by_stretches: false, ..Threads::up_to(1) }
    }
    /// `most` wherever a run can be divided: for tests.
    pub fn always(most: usize) -> Threads {
        Threads { most, least_packets: 0, least_hops: 0, shares: 1, by_stretches: true }
    }
}

/// What a part hands to another after a window.
#[derive(Default)]
struct Mail {
    letters: Letters,
    notes: Vec<Note>,
    batches: Vec<Batch>,
}

/// What threads share. Windows with an even and with an odd number have boxes of their own: a part may write while another still reads.
struct Shared {
    barrier: Barrier,
    threads: usize,
    parts: usize,
    boxes: [Vec<Mutex<Mail>>; 2],
    /// When something happens next in each part.
    next: [Vec<AtomicU64>; 2],
    /// Packet-hops of each part in the last window.
    hops: [Vec<AtomicU64>; 2],
    letters: AtomicU64,
    cancelled: [AtomicBool; 2],
    /// Parts that another thread goes on with.
    passed: Vec<Mutex<Option<Box<Place>>>>,
    /// Why the run was given up.
    given_up: Mutex<Option<Reason>>,
}

/// Why a run that was begun on several threads is not finished there.
enum Reason {
    Note(String),
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
        let boxes = || (0..parts * parts).map(|_| Mutex::default()).collect();
        Shared {
            barrier: Barrier::new(threads),
            threads,
            parts,
            boxes: [boxes(), boxes()],
            next: [times(), times()],
            hops: [times(), times()],
            letters: AtomicU64::new(0),
            cancelled: Default::default(),
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
        self.barrier.give_up();
        Broken
    }
}

/// What stands in the way of dividing a run, whatever its network.
fn obstacle(setup: &Setup) -> Option<&'static str> {
    let known = setup.workloads.iter().map(|w| w.timetable());
    let recorder = &setup.recorder;
    if known.clone().any(|t| t == Timetable::Unknown) {
        return Some("its workloads react to what becomes of their flows");
    }
    if setup.own_stack().is_some() {
        return Some("its transport is no TCP");
    }
    if setup.protocols.iter().any(|(suite, _)| !suite.independent) {
        return Some("its protocol does not say that what it builds for one link shares nothing with another's (Suite::independent)");
    }
    if setup.nic != NicMode::Endless {
        return Some("its network cards pull");
    }
    if !setup.collectives.is_empty() || setup.receive.is_some() {
        return Some("controllers of hosts have connections in their charge");
    }
    if !setup.receives_at_once() {
        return Some("its hosts take time for what arrives");
    }
    if !setup.pools.is_empty() || setup.fabric.pooled() {
        return Some("its switches have shared buffers or pause");
    }
    if setup.fabric.telemetry || !setup.changes.is_empty() {
        return Some("its links change or tell of themselves");
    }
    if recorder.keep_deliveries {
        return Some("every packet is looked at");
    }
    if recorder.by_destination || recorder.keep_series && known.clone().any(|t| t != Timetable::Lasting) {
        return Some("it records series of flows that come and go, or sums of them");
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
    if threads.most < 2 && !threads.by_stretches {
        return not("it is to be made event by event".into(), setup);
    }
    if let Some(reason) = obstacle(&setup) {
        return not(reason.into(), setup);
    }
    let shares = if threads.most > 1 { threads.shares } else { 1 };
    let divided = match partition(&setup.topology, (threads.most * shares).min(usize::from(u16::MAX))) {
        Ok(divided) => divided,
        Err(reason) => return not(reason, setup),
    };
    let parts = divided.parts;
    let workers = threads.most.min(parts);
    let shortest = setup.topology.links.iter().map(|link| link.delay).min().unwrap_or(Dur::ZERO);
    let window = if parts > 1 { divided.shortest } else { shortest };
    if window == Dur::ZERO {
        return not("links without delay join its switches".into(), setup);
    }
    if packets_in(&setup, window) < threads.least_packets * workers as u64 {
        return not("too little happens while a packet is on a link between two parts".into(), setup);
    }
    // A part that is the whole meets nobody: it only looks up now and then.
    let window = if parts > 1 { window } else { Dur(window.0.saturating_mul(STRETCHES)) };
    let division = Division { home: divided.home.into(), inbound: divided.inbound.into(), parts };
    let shared = Shared::new(workers, parts);
    let finer = divided.racks > parts && 2 * shares <= SHARES;
    let run = Run { shared, window, division, least_hops: threads.least_hops, finer, progress };
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

struct Run<'a> {
    shared: Shared,
    window: Dur,
    division: Division,
    least_hops: u64,
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
            Some(Reason::Note(note)) => return Ok(Made::Divided(Divided::Not(note, None))),
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
        work.letters = self.shared.letters.load(Ordering::Relaxed);
        let threads = self.shared.threads;
        let note = (threads < most)
            .then(|| format!("the run is made on {threads} threads: its hosts are at so many switches"));
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
        let _guard = Guard(&shared.barrier);
        let failed = |e| shared.give_up(Reason::Error(e));
        let balance = Balance::new(shared.threads, shared.parts);
        let mut places = Vec::new();
        for part in balance.of(thread) {
            let setup = built.take().map_or_else(anew, Ok);
            let made = setup.and_then(|setup| Engine::part(setup, &self.division, part)).map_err(failed)?;
            let engine = made.map_err(|whole| shared.give_up(Reason::Note(whole.0)))?;
            places.push(Box::new(Place { part, engine, hops: 0 }));
        }
        self.work(places, balance, thread, times)
    }
    fn work(
        &self,
        mut places: Vec<Box<Place>>,
        mut balance: Balance,
        thread: usize,
        (end, warmup): (Time, Time),
    ) -> Result<Worked, Broken> {
        let shared = &self.shared;
        let failed = |e| shared.give_up(Reason::Error(e));
        let mut work = Work::default();
        let mut at = Time::ZERO;
        let worked = |places, at, completed, sparse, work| Worked { places, at, completed, sparse, work };
        if shared.parts == 1 && !places[0].engine.sweeps() {
            return Ok(worked(places, at, false, true, work));
        }
        for window in 0u64.. {
            let first = self.exchange(&mut places, &mut balance, thread, window)?;
            if window > 0 {
                let hops = &shared.hops[window as usize % 2];
                balance.note(hops.iter().map(|hops| hops.load(Ordering::Relaxed)));
            }
            if thread == 0 {
                self.judge(window, &balance, &mut work)?;
            }
            let cancelled = shared.cancelled[window as usize % 2].load(Ordering::Relaxed);
            if cancelled || first > end {
                // What notes of the last window have asked is answered by now.
                balance.rest();
                self.exchange(&mut places, &mut balance, thread, window + 1)?;
                if !cancelled {
                    at = end;
                    places.iter_mut().try_for_each(|place| self.advance(&mut place.engine, end))?;
                }
                places.iter_mut().try_for_each(|place| place.engine.end_part(at)).map_err(failed)?;
                return Ok(worked(places, at, !cancelled, false, work));
            }
            for place in &mut places {
                at = self.end_of_window(&place.engine, first).min(end);
                if first < warmup {
                    // The counters are reset between two windows.
                    at = at.min(Time(warmup.0 - 1));
                }
                place.engine.begin_window();
                self.advance(&mut place.engine, at)?;
                let before = std::mem::replace(&mut place.hops, place.engine.packet_hops());
                let own = &shared.hops[(window as usize + 1) % 2][usize::from(place.part)];
                own.store(place.hops - before.min(place.hops), Ordering::Relaxed);
            }
            if thread == 0 {
                self.progress.now_ps.store(at.0, Ordering::Relaxed);
            }
            let looks = shared.parts == 1 && window % LOOK_EVERY == LOOK_EVERY - 1;
            if looks && self.is_sparse(&places[0].engine) {
                self.exchange(&mut places, &mut balance, thread, window + 1)?;
                places[0].engine.end_sweeps();
                return Ok(worked(places, at, false, true, work));
            }
        }
        Err(Broken)
    }
    /// The end of the window that begins with an event at `first`: where that can be, it is one of a stretch.
    fn end_of_window(&self, engine: &Engine, first: Time) -> Time {
        let most = Time(first.0.saturating_add(self.window.0 - 1));
        match engine.sweeps() {
            true => engine.last_stretch(first, most),
            false => most,
        }
    }
    /// Works through all events up to `at`.
    fn advance(&self, engine: &mut Engine, at: Time) -> Result<(), Broken> {
        let done = match engine.sweeps() {
            true => engine.sweep(at),
            // The engine's own looks at the progress are those between windows.
            false => engine.step(at, &Progress::default()).map(|_| ()),
        };
        done.map_err(|e| self.shared.give_up(Reason::Error(e)))
    }
    /// Hands over what other parts are to have, and the parts that other threads are to have, waits for them, and takes in what there is for this
    /// one. Answers when something happens next anywhere.
    fn exchange(
        &self,
        places: &mut Vec<Box<Place>>,
        balance: &mut Balance,
        thread: usize,
        window: u64,
    ) -> Result<Time, Broken> {
        let shared = &self.shared;
        let turn = window as usize % 2;
        places.iter_mut().for_each(|place| self.post(place, turn));
        if balance.changes() {
            for place in places.extract_if(.., |place| balance.thread_of(place.part) != thread) {
                let part = usize::from(place.part);
                *shared.passed[part].lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
            }
        }
        if thread == 0 {
            shared.cancelled[turn].store(self.progress.cancelled.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        shared.barrier.wait()?;
        if balance.changes() {
            let passed = balance.of(thread).map(|part| &shared.passed[usize::from(part)]);
            places.extend(
                passed.filter_map(|place| place.lock().unwrap_or_else(PoisonError::into_inner).take()),
            );
            balance.changed();
        }
        let first = shared.next[turn].iter().map(|next| next.load(Ordering::Relaxed)).min();
        places.iter_mut().try_for_each(|place| self.fetch(place, turn))?;
        Ok(Time(first.unwrap_or(u64::MAX)))
    }
    /// What a part has for others, and when something happens there next.
    fn post(&self, place: &mut Place, turn: usize) {
        let shared = &self.shared;
        let (own, engine) = (usize::from(place.part), &mut place.engine);
        let mut next = engine.next_event();
        for to in (0..shared.parts).filter(|to| *to != own) {
            // Nobody else holds it now.
            let mail = &shared.boxes[turn][own * shared.parts + to];
            let mut mail = mail.lock().unwrap_or_else(PoisonError::into_inner);
            let bag = &mut engine.bags()[to];
            if let Some(first) = bag.first.take() {
                next = next.min(first);
            }
            shared.letters.fetch_add(bag.letters.len() as u64, Ordering::Relaxed);
            std::mem::swap(&mut mail.letters, &mut bag.letters);
            let part = engine.own_part();
            std::mem::swap(&mut mail.notes, &mut part.notes[to]);
            if to == 0 {
                mail.batches.append(&mut part.batches);
            }
        }
        shared.next[turn][own].store(next.0, Ordering::Relaxed);
    }
    /// What others have for a part.
    fn fetch(&self, place: &mut Place, turn: usize) -> Result<(), Broken> {
        let shared = &self.shared;
        let Place { part, engine, .. } = place;
        let own = usize::from(*part);
        for from in (0..shared.parts).filter(|from| *from != own) {
            // Read where it is, as the other writes into a box of its own meanwhile: the fewer lists go round, the more of them stay in a core's cache.
            let mail = &shared.boxes[turn][from * shared.parts + own];
            let mut mail = mail.lock().unwrap_or_else(PoisonError::into_inner);
            engine.take_in(&mail.letters);
            engine.read(&mut mail.notes, from as u16);
            mail.letters.clear();
            engine.own_part().batches.append(&mut mail.batches);
        }
        if own == 0 {
            engine.record_batches();
        }
        if engine.own_part().parted {
            let note = "a receiver answered a late duplicate just as its sender was done";
            return Err(shared.give_up(Reason::Note(note.into())));
        }
        Ok(())
    }
    /// On one thread: is there so little to do in a stretch that single events are as fast?
    fn is_sparse(&self, engine: &Engine) -> bool {
        self.least_hops > 0 && engine.hops_per_stretch() < HOPS_PER_STRETCH
    }
    /// Adds up what the window before this had to do. After some of them: is that enough, and is it shared out evenly?
    fn judge(&self, window: u64, balance: &Balance, work: &mut Work) -> Result<(), Broken> {
        let (hops, longest) = balance.last();
        (work.windows, work.hops, work.longest) = (window, work.hops + hops, work.longest + longest);
        let threads = self.shared.threads;
        if threads == 1 || ![FIRST_LOOK, TRIAL].contains(&window) {
            return Ok(());
        }
        let enough = work.hops >= window * self.least_hops * threads as u64;
        if window == TRIAL && !enough {
            let each = work.hops as f64 / TRIAL as f64;
            let window = self.window;
            let note =
                format!("a window of {window} has {each:.1} packet-hops: too little for {threads} threads");
            return Err(self.shared.give_up(Reason::Note(note)));
        }
        if enough && self.finer && work.balance() < EVEN * threads as f64 {
            return Err(self.shared.give_up(Reason::Uneven));
        }
        Ok(())
    }
}
