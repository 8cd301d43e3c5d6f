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
//! # On one thread
//!
//! A part works through a window by stretches of time, host by host, where its network allows that (`engine::sweep`). So the whole run on one thread
//! is a single part, with nobody to meet: it looks up after some stretches. Where these turn out to bring too little at a time, the rest of the run is
//! made event by event, by the same engine.

mod barrier;
mod partition;

use crate::engine::part::{Division, Left, Note};
use crate::engine::{Engine, Progress};
use crate::metrics::journal::Batch;
use crate::network::gates::Letters;
use crate::setup::{NicMode, Setup};
use crate::workloads::Timetable;
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
    /// Sum over the windows of the packet-hops of the part that had most: the others wait for it.
    pub longest: u64,
    /// Packets that were handed from part to part.
    pub letters: u64,
}

impl Work {
    /// Work of all parts over that of the busiest in each window: what the run could gain if meeting cost nothing.
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

/// On how many threads a run is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// On so many at most.
    pub most: usize,
    /// On one where all hosts together can send fewer packets in a window than this for each thread: meeting costs more than it brings.
    pub least_packets: u64,
    /// The same where there have been fewer packet-hops for each thread; 0: windows are worked through whatever they bring.
    pub least_hops: u64,
    /// On one thread: by stretches of time, host by host, where that can be and is faster. The bytes are the same, but not the order in which what
    /// shares no state is called.
    pub by_stretches: bool,
}

impl Threads {
    /// At most `most`, where there is enough to do.
    pub fn up_to(most: usize) -> Threads {
        Threads { most, least_packets: 16, least_hops: 100, by_stretches: true }
    }
    /// On one thread, event by event.
    pub fn one_by_one() -> Threads {
        Threads { by_stretches: false, ..Threads::up_to(1) }
    }
    /// `most` wherever a run can be divided: for tests.
    pub fn always(most: usize) -> Threads {
        Threads { most, least_packets: 0, least_hops: 0, by_stretches: true }
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
    parts: usize,
    boxes: [Vec<Mutex<Mail>>; 2],
    /// When something happens next in each part.
    next: [Vec<AtomicU64>; 2],
    /// Packet-hops of each part in the last window.
    hops: [Vec<AtomicU64>; 2],
    letters: AtomicU64,
    cancelled: [AtomicBool; 2],
    /// Why the run was given up.
    given_up: Mutex<Option<Reason>>,
}

/// Why a run that was begun on several threads is not finished there.
enum Reason {
    Note(String),
    Error(ParamError),
}

/// One or another of what was tried.
pub(crate) enum Divided {
    /// The whole run, and whether it came to its end.
    Done(Box<Engine>, bool, Cores),
    /// It is not: why, and what was built if that is still whole.
    Not(String, Option<Box<Setup>>),
}

impl Shared {
    fn new(parts: usize) -> Shared {
        let times = || (0..parts).map(|_| AtomicU64::new(0)).collect();
        let boxes = || (0..parts * parts).map(|_| Mutex::default()).collect();
        Shared {
            barrier: Barrier::new(parts),
            parts,
            boxes: [boxes(), boxes()],
            next: [times(), times()],
            hops: [times(), times()],
            letters: AtomicU64::new(0),
            cancelled: Default::default(),
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
    let not = |reason: String, setup| Ok(Divided::Not(reason, Some(Box::new(setup))));
    if threads.most < 2 && !threads.by_stretches {
        return not("it is to be made event by event".into(), setup);
    }
    if let Some(reason) = obstacle(&setup) {
        return not(reason.into(), setup);
    }
    let divided = match partition(&setup.topology, threads.most.min(usize::from(u16::MAX))) {
        Ok(divided) => divided,
        Err(reason) => return not(reason, setup),
    };
    let parts = divided.parts;
    let shortest = setup.topology.links.iter().map(|link| link.delay).min().unwrap_or(Dur::ZERO);
    let window = if parts > 1 { divided.shortest } else { shortest };
    if window == Dur::ZERO {
        return not("links without delay join its switches".into(), setup);
    }
    if packets_in(&setup, window) < threads.least_packets * parts as u64 {
        return not("too little happens while a packet is on a link between two parts".into(), setup);
    }
    // A part that is the whole meets nobody: it only looks up now and then.
    let window = if parts > 1 { window } else { Dur(window.0.saturating_mul(STRETCHES)) };
    let division = Division { home: divided.home.into(), inbound: divided.inbound.into(), parts };
    let run = Run { shared: Shared::new(parts), window, division, least_hops: threads.least_hops, progress };
    let (end, warmup) = (Time::ZERO + setup.duration, Time::ZERO + setup.warmup);
    progress.end_ps.store(end.0, Ordering::Relaxed);
    let tables = setup.tables.clone();
    let (run, tables) = (&run, &tables);
    std::thread::scope(|s| {
        let spawn = |me: u16| {
            let (hand_over, left) = mpsc::channel();
            let thread = s.spawn(move || {
                let setup = build().map(|setup| Setup { tables: tables.clone(), ..setup });
                let mut made = run.part(setup, me, (end, warmup));
                let left = made.as_mut().map(|worked| worked.engine.leave());
                // Whatever became of the first: nobody is left to be told. All else is given back while it makes the whole.
                _ = hand_over.send(left.map_err(|broken| *broken));
            });
            (thread, left)
        };
        let others: Vec<_> = (1..parts as u16).map(spawn).collect();
        let first = run.part(Ok(setup), 0, (end, warmup));
        let hear = |(thread, left): (ScopedJoinHandle<'_, ()>, mpsc::Receiver<_>)| {
            // Who hands nothing over has panicked.
            left.recv().unwrap_or_else(|_| std::panic::resume_unwind(thread.join().unwrap_err()))
        };
        run.join(first, others.into_iter().map(hear).collect(), end, threads.most)
    })
}

struct Run<'a> {
    shared: Shared,
    window: Dur,
    division: Division,
    least_hops: u64,
    progress: &'a Progress,
}

/// What a thread leaves.
struct Worked {
    engine: Engine,
    /// Up to when it has worked.
    at: Time,
    /// That is the end of the run.
    completed: bool,
    /// Stretches bring too little at a time: the rest is to be made event by event.
    sparse: bool,
    work: Work,
}

impl Run<'_> {
    /// Makes the whole of what is left of all parts.
    fn join(
        &self,
        first: Result<Worked, Broken>,
        others: Vec<Result<Left, Broken>>,
        end: Time,
        most: usize,
    ) -> Result<Divided, ParamError> {
        let given_up = self.shared.given_up.lock().unwrap_or_else(PoisonError::into_inner).take();
        match given_up {
            Some(Reason::Error(e)) => return Err(e),
            Some(Reason::Note(note)) => return Ok(Divided::Not(note, None)),
            None => {}
        }
        let whole = "nobody has given up";
        let Worked { mut engine, at, mut completed, sparse, mut work } = first.expect(whole);
        if sparse {
            completed = engine.run(self.progress)?;
            let cores = Cores { threads: 1, note: None, work };
            return Ok(Divided::Done(Box::new(engine), completed, cores));
        }
        engine.join(others.into_iter().map(|left| left.expect(whole)).collect(), at);
        self.progress.now_ps.store(end.0, Ordering::Relaxed);
        work.letters = self.shared.letters.load(Ordering::Relaxed);
        let parts = self.shared.parts;
        let note = (parts < most)
            .then(|| format!("the run is made on {parts} threads: its hosts are at so many switches"));
        Ok(Divided::Done(Box::new(engine), completed, Cores { threads: parts, note, work }))
    }
    /// One thread: builds its part and works for it.
    fn part(&self, setup: Result<Setup, ParamError>, me: u16, times: (Time, Time)) -> Result<Worked, Broken> {
        let shared = &self.shared;
        let _guard = Guard(&shared.barrier);
        let failed = |e| shared.give_up(Reason::Error(e));
        let made = setup.and_then(|setup| Engine::part(setup, &self.division, me)).map_err(failed)?;
        let engine = made.map_err(|whole| shared.give_up(Reason::Note(whole.0)))?;
        self.work(engine, me, times)
    }
    fn work(&self, mut engine: Engine, me: u16, (end, warmup): (Time, Time)) -> Result<Worked, Broken> {
        let shared = &self.shared;
        let failed = |e| shared.give_up(Reason::Error(e));
        let mut reading = Mail::default();
        let mut at = Time::ZERO;
        if shared.parts == 1 && !engine.sweeps() {
            return Ok(Worked { engine, at, completed: false, sparse: true, work: Work::default() });
        }
        let (mut work, mut hops) = (Work::default(), 0);
        for window in 0u64.. {
            let first = self.exchange(&mut engine, me, window, &mut reading)?;
            if me == 0 {
                self.judge(window, &mut work)?;
            }
            if shared.cancelled[window as usize % 2].load(Ordering::Relaxed) {
                self.exchange(&mut engine, me, window + 1, &mut reading)?;
                engine.end_part(at).map_err(failed)?;
                return Ok(Worked { engine, at, completed: false, sparse: false, work });
            }
            if first > end {
                // What notes of the last window have asked is answered by now.
                self.exchange(&mut engine, me, window + 1, &mut reading)?;
                self.advance(&mut engine, end)?;
                engine.end_part(end).map_err(failed)?;
                return Ok(Worked { engine, at: end, completed: true, sparse: false, work });
            }
            at = self.end_of_window(&engine, first).min(end);
            if first < warmup {
                // The counters are reset between two windows.
                at = at.min(Time(warmup.0 - 1));
            }
            engine.begin_window();
            self.advance(&mut engine, at)?;
            if me == 0 {
                self.progress.now_ps.store(at.0, Ordering::Relaxed);
            }
            if shared.parts == 1 && window % LOOK_EVERY == LOOK_EVERY - 1 && self.is_sparse(&engine) {
                self.exchange(&mut engine, me, window + 1, &mut reading)?;
                engine.end_sweeps();
                return Ok(Worked { engine, at, completed: false, sparse: true, work });
            }
            let before = std::mem::replace(&mut hops, engine.packet_hops());
            let own = &shared.hops[(window as usize + 1) % 2][usize::from(me)];
            own.store(hops - before.min(hops), Ordering::Relaxed);
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
    /// Hands over what the others are to have, waits for them, and takes in what they have for this part. Answers when something happens next
    /// anywhere.
    fn exchange(
        &self,
        engine: &mut Engine,
        me: u16,
        window: u64,
        reading: &mut Mail,
    ) -> Result<Time, Broken> {
        let shared = &self.shared;
        let turn = window as usize % 2;
        let of = |from: usize, to: usize| &shared.boxes[turn][from * shared.parts + to];
        let own = usize::from(me);
        let mut next = engine.next_event();
        for to in (0..shared.parts).filter(|to| *to != own) {
            // Nobody else holds it now.
            let mut mail = of(own, to).lock().unwrap_or_else(PoisonError::into_inner);
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
        if me == 0 {
            shared.cancelled[turn].store(self.progress.cancelled.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        shared.barrier.wait()?;
        let first = shared.next[turn].iter().map(|next| next.load(Ordering::Relaxed)).min();
        for from in (0..shared.parts).filter(|from| *from != own) {
            std::mem::swap(reading, &mut *of(from, own).lock().unwrap_or_else(PoisonError::into_inner));
            engine.take_in(&reading.letters);
            engine.read(&mut reading.notes, from as u16);
            reading.letters.clear();
            engine.own_part().batches.append(&mut reading.batches);
        }
        if me == 0 {
            engine.record_batches();
        }
        if engine.own_part().parted {
            let note = "a receiver answered a late duplicate just as its sender was done";
            return Err(shared.give_up(Reason::Note(note.into())));
        }
        Ok(Time(first.unwrap_or(u64::MAX)))
    }
    /// On one thread: is there so little to do in a stretch that single events are as fast?
    fn is_sparse(&self, engine: &Engine) -> bool {
        self.least_hops > 0 && engine.hops_per_stretch() < HOPS_PER_STRETCH
    }
    /// Adds up what the window before this had to do. After some of them: is that enough?
    fn judge(&self, window: u64, work: &mut Work) -> Result<(), Broken> {
        let own = |hops: &AtomicU64| hops.load(Ordering::Relaxed);
        let hops = &self.shared.hops[window as usize % 2];
        work.windows = window;
        work.hops += hops.iter().map(own).sum::<u64>();
        work.longest += hops.iter().map(own).max().unwrap_or(0);
        if self.shared.parts == 1
            || window != TRIAL
            || work.hops >= TRIAL * self.least_hops * self.shared.parts as u64
        {
            return Ok(());
        }
        let each = work.hops as f64 / TRIAL as f64;
        let (window, parts) = (self.window, self.shared.parts);
        let note = format!("a window of {window} has {each:.1} packet-hops: too little for {parts} threads");
        Err(self.shared.give_up(Reason::Note(note)))
    }
}
