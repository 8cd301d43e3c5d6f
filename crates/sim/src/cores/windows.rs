//! What a thread does, window by window.
//!
//! In a window a part first moves all packets on, then its hosts work. What packets it has for other parts is known before its hosts begin, as hosts are
//! with their switch. So there are two meetings: one when all packets are posted, one when all hosts are through, and between the two a thread that is
//! early has something to do. It only waits for the second before its own hosts go on, unless the next window is not known without
//! what hosts have set themselves to do. Part by part:
//!
//! 1. the packets of others that were posted in the window before are taken in, and all move on;
//! 2. packets for others are posted;
//! 3. what hosts of others have noted in the window before is read, and the own hosts work;
//! 4. what these have noted is posted.
//!
//! A part that goes event by event reads notes first, and posts all at the end.

use super::barrier::Round;
use super::{Balance, Broken, Place, Reason, Run, Work, Worked};
use crate::engine::{Engine, Progress};
use penstock_core::ParamError;
use penstock_units::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::PoisonError;
use std::time::Duration;

/// After so many windows of a run on one thread it is asked again whether there is enough to do in one.
const LOOK_EVERY: u64 = 16;
/// Where there are fewer packet-hops in a stretch, single events are as fast: 24 and 29 took 0.98 and 0.97 of the time, 18 took 1.18, in networks
/// of 34 to 96 ports.
const HOPS_PER_STRETCH: f64 = 25.0;

/// So many windows are looked at before a run on several threads goes on.
const TRIAL: u64 = 2000;
/// And after so many it is asked whether these are shared out evenly.
const FIRST_LOOK: u64 = 256;
/// They are not where threads have less than this part of what the busiest has: then the run begins anew with twice as many parts. Two for each thread
/// take 1.06 of the time that one takes where loads are even, four 1.16.
const EVEN: f64 = 0.8;

/// Who sleeps so long waits for a thread that has lost its core: for a turn of the system's scheduler, mostly.
const TURN: Duration = Duration::from_millis(4);
/// Unless that has more to do: no more time than this is needed for a packet-hop.
const HOP: Duration = Duration::from_nanos(200);
/// The first thread goes on alone when so many turns have been lost, and more than one in so many windows. With one turn in 24 windows, as beside eighteen
/// processes on two cores, two threads had 0.7 of the speed of one.
const LOST_TURNS: u64 = 16;
const WINDOWS_A_TURN: u64 = 64;

/// Why a window is not finished.
enum Halt {
    Broken,
    Error(ParamError),
}

impl From<ParamError> for Halt {
    fn from(error: ParamError) -> Halt {
        Halt::Error(error)
    }
}
impl From<Broken> for Halt {
    fn from(_: Broken) -> Halt {
        Halt::Broken
    }
}

/// The least of what all parts have said.
fn least(times: &[AtomicU64]) -> Time {
    Time(times.iter().map(|time| time.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX))
}

/// What a thread has beside its parts.
struct Worker<'r, 'a> {
    run: &'r Run<'a>,
    thread: usize,
    balance: Balance,
    work: Work,
    /// The last meetings at which it has said that it is there.
    sent: Round,
    done: Round,
    /// It has seen that all were there at the last of the second kind.
    met: bool,
    /// How long it waits before a turn is lost.
    patience: Duration,
    /// How many had been lost before the second window.
    lost_before: Option<u64>,
    /// The window from which on the first thread is alone.
    alone: Option<u64>,
}

impl Run<'_> {
    pub(super) fn work(
        &self,
        mut places: Vec<Box<Place>>,
        balance: Balance,
        thread: usize,
        (end, warmup): (Time, Time),
    ) -> Result<Worked, Broken> {
        let shared = &self.shared;
        if shared.parts == 1 && !places[0].engine.sweeps() {
            let (at, work) = (Time::ZERO, Work::default());
            return Ok(Worked { places, at, completed: false, sparse: true, work, alone: None });
        }
        let (sent, done) = self.tell(&mut places, thread, 0);
        let mut worker = Worker {
            run: self,
            thread,
            balance,
            work: Work::default(),
            sent,
            done,
            met: false,
            patience: TURN,
            lost_before: None,
            alone: None,
        };
        // The end of the last window.
        let mut last = None;
        for window in 0u64.. {
            shared.sent.wait(worker.sent, worker.patience)?;
            let turn = window as usize % 2;
            let cancelled = shared.cancelled[turn].load(Ordering::Relaxed);
            let alone = shared.alone[turn].load(Ordering::Relaxed);
            let surely = last.filter(|_| !cancelled && !worker.balance.changes());
            let surely = surely.and_then(|at| self.sure_begin(&places[0].engine, at, turn, (end, warmup)));
            let first = match surely {
                Some(first) => first,
                None => {
                    worker.meet(window, Some(&mut places))?;
                    least(&shared.next[turn])
                }
            };
            let stop = self.stop(&mut places, turn);
            let end = end.min(stop);
            if cancelled || first > end || last == Some(end) {
                let at = if cancelled { last.unwrap_or(Time::ZERO) } else { end };
                worker.finish(&mut places, window, (at, !cancelled))?;
                return Ok(worker.worked(places, at, !cancelled, false));
            }
            let at = self.end_of_window(&places[0].engine, first, (end, warmup));
            let mut to_post = places.len();
            for place in &mut places {
                worker.work_through(place, window, at, &mut to_post)?;
            }
            if alone {
                worker.balance.leave_to_first();
                worker.alone = Some(window + 1);
            }
            worker.hand_over(&mut places);
            if alone && thread != 0 {
                return Ok(worker.worked(places, at, true, false));
            }
            last = Some(at);
            if thread == 0 {
                self.progress.now_ps.store(at.0, Ordering::Relaxed);
            }
            let looks = shared.parts == 1 && window % LOOK_EVERY == LOOK_EVERY - 1;
            if looks && self.is_sparse(&places[0].engine) {
                worker.meet(window + 1, None)?;
                self.read(&mut places[0], (window as usize + 1) % 2)?;
                places[0].engine.end_sweeps();
                return Ok(worker.worked(places, at, false, true));
            }
        }
        Err(Broken)
    }
    /// The end of the window that begins with an event at `first`: where that can be, it is one of a stretch.
    fn end_of_window(&self, engine: &Engine, first: Time, (end, warmup): (Time, Time)) -> Time {
        let most = Time(first.0.saturating_add(self.window.0 - 1));
        let at = match engine.sweeps() {
            true => engine.last_stretch(first, most),
            false => most,
        };
        // The counters are reset between two windows.
        let most = if first < warmup { Time(warmup.0 - 1) } else { end };
        at.min(most).min(end)
    }
    /// When the window after one that ended at `last` begins, if its end does not depend on what hosts have set themselves to do, nor on what they have noted
    /// what is done at its begin: all parts come to the same, as they know the same. It may begin earlier than said, with the same end.
    fn sure_begin(&self, engine: &Engine, last: Time, turn: usize, times: (Time, Time)) -> Option<Time> {
        let arrives = least(&self.shared.arrivals[turn]);
        if !engine.sweeps() || arrives > times.0 {
            return None;
        }
        let [end, same] = [Time(last.0 + 1), arrives].map(|first| self.end_of_window(engine, first, times));
        (end == same && !engine.takes_stock_by(end)).then_some(arrives)
    }
    /// The run ends then, as all applications have nothing more to do; [`Time::NEVER`] while some has.
    fn stop(&self, places: &mut [Box<Place>], turn: usize) -> Time {
        let ended = self.shared.ended[turn].iter().map(|at| at.load(Ordering::Relaxed)).max();
        let ended = Time(ended.unwrap_or(u64::MAX));
        if ended == Time::NEVER {
            return Time::NEVER;
        }
        let stop = ended + places[0].engine.linger();
        places.iter_mut().for_each(|place| place.engine.set_stop(stop));
        stop
    }
    /// What parts have for others before the first window.
    fn tell(&self, places: &mut [Box<Place>], thread: usize, window: u64) -> (Round, Round) {
        let turn = window as usize % 2;
        for place in places {
            self.post(place.part, &mut place.engine, turn);
            self.post_notes(place, turn);
        }
        (self.all_sent(thread, turn, false), self.shared.done.arrive())
    }
    /// All packets of a thread's parts are posted. The first thread says whether it goes on alone after the next window.
    fn all_sent(&self, thread: usize, turn: usize, alone: bool) -> Round {
        let shared = &self.shared;
        if thread == 0 {
            shared.alone[turn].store(alone, Ordering::Relaxed);
            shared.cancelled[turn].store(self.progress.cancelled.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        shared.sent.arrive()
    }
    /// Packets that a part has for others, and when the next ones arrive.
    fn post(&self, part: u16, engine: &mut Engine, turn: usize) {
        let (shared, own) = (&self.shared, usize::from(part));
        let mut next = engine.next_arrival();
        for to in (0..shared.parts).filter(|to| *to != own) {
            // Nobody else holds it now.
            let letters = &shared.letters[turn][own * shared.parts + to];
            let mut letters = letters.lock().unwrap_or_else(PoisonError::into_inner);
            let bag = &mut engine.bags()[to];
            next = next.min(bag.take_first());
            shared.posted.fetch_add(bag.letters.len() as u64, Ordering::Relaxed);
            std::mem::swap(&mut *letters, &mut bag.letters);
        }
        shared.arrivals[turn][own].store(next.0, Ordering::Relaxed);
    }
    /// The packets that others have for a part.
    fn fetch(&self, part: u16, engine: &mut Engine, turn: usize) {
        let (shared, own) = (&self.shared, usize::from(part));
        for from in (0..shared.parts).filter(|from| *from != own) {
            // Read where they are, as the other writes into a box of its own meanwhile: the fewer lists go round, the more of them stay in a core's cache.
            let letters = &shared.letters[turn][from * shared.parts + own];
            let mut letters = letters.lock().unwrap_or_else(PoisonError::into_inner);
            engine.take_in(&letters);
            letters.clear();
        }
    }
    /// What the hosts of a part have for others, and when something happens next.
    fn post_notes(&self, place: &mut Place, turn: usize) {
        let shared = &self.shared;
        let (own, engine) = (usize::from(place.part), &mut place.engine);
        debug_assert!(
            engine.bags().iter().all(|bag| bag.letters.len() == 0),
            "hosts hand nothing to other parts"
        );
        // What has been posted is under way.
        let next = engine.next_event().0.min(shared.arrivals[turn][own].load(Ordering::Relaxed));
        let part = engine.own_part();
        for to in (0..shared.parts).filter(|to| *to != own) {
            let mail = &shared.boxes[turn][own * shared.parts + to];
            let mut mail = mail.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut mail.notes, &mut part.notes[to]);
            if to == 0 {
                mail.batches.append(&mut part.batches);
            }
        }
        shared.next[turn][own].store(next, Ordering::Relaxed);
        shared.ended[turn][own].store(engine.ended().0, Ordering::Relaxed);
    }
    /// What the hosts of others have for a part.
    fn read_notes(&self, part: u16, engine: &mut Engine, turn: usize) -> Result<(), Broken> {
        let (shared, own) = (&self.shared, usize::from(part));
        for from in (0..shared.parts).filter(|from| *from != own) {
            let mail = &shared.boxes[turn][from * shared.parts + own];
            let mut mail = mail.lock().unwrap_or_else(PoisonError::into_inner);
            engine.read(&mut mail.notes, from as u16);
            engine.own_part().batches.append(&mut mail.batches);
        }
        if own == 0 {
            engine.record_batches();
        }
        if engine.own_part().parted {
            let note = "a retransmission timer was set and expired within one lookahead window";
            return Err(shared.give_up(Reason::Note(note.into())));
        }
        Ok(())
    }
    /// All that others have for a part.
    fn read(&self, place: &mut Place, turn: usize) -> Result<(), Broken> {
        self.fetch(place.part, &mut place.engine, turn);
        self.read_notes(place.part, &mut place.engine, turn)
    }
    /// Works through all events up to `at`; `between` as in [`Engine::sweep`].
    fn advance(
        &self,
        engine: &mut Engine,
        at: Time,
        mut between: impl FnMut(&mut Engine, bool) -> Result<(), Halt>,
    ) -> Result<(), Broken> {
        let done = match engine.sweeps() {
            true => engine.sweep(at, &mut between),
            // The engine's own looks at the progress are those between windows.
            false => {
                between(engine, false).and_then(|()| Ok(engine.step(at, &Progress::default()).map(|_| ())?))
            }
        };
        // Nothing may have happened.
        match done.and_then(|()| between(engine, true)) {
            Ok(()) => Ok(()),
            Err(Halt::Broken) => Err(Broken),
            Err(Halt::Error(e)) => Err(self.shared.give_up(Reason::Error(e))),
        }
    }
    /// On one thread: is there so little to do in a stretch that single events are as fast?
    fn is_sparse(&self, engine: &Engine) -> bool {
        self.least_hops > 0 && engine.hops_per_stretch() < HOPS_PER_STRETCH
    }
}

impl Worker<'_, '_> {
    fn worked(&self, places: Vec<Box<Place>>, at: Time, completed: bool, sparse: bool) -> Worked {
        Worked { places, at, completed, sparse, work: self.work, alone: self.alone }
    }
    /// Have so many turns been lost that one thread alone is faster? What parts took to be built does not count.
    fn goes_alone(&mut self, window: u64) -> bool {
        let (run, shared) = (self.run, &self.run.shared);
        if self.balance.threads() == 1 || self.balance.changes() {
            return false;
        }
        let overslept = shared.sent.overslept() + shared.done.overslept();
        if window == 0 {
            return window >= run.alone_from;
        }
        let lost = overslept - *self.lost_before.get_or_insert(overslept);
        lost > LOST_TURNS.max(window / WINDOWS_A_TURN) || window >= run.alone_from
    }
    /// Works through `window`, which ends at `at`, for a part; `to_post` parts of this thread have not posted their packets.
    fn work_through(
        &mut self,
        place: &mut Place,
        window: u64,
        at: Time,
        to_post: &mut usize,
    ) -> Result<(), Broken> {
        let (run, turn, next) = (self.run, window as usize % 2, (window as usize + 1) % 2);
        let Place { part, engine, hops } = place;
        run.fetch(*part, engine, turn);
        let (mut has_read, mut has_posted) = (false, false);
        run.advance(engine, at, |engine, last| {
            if last && !has_posted {
                has_posted = true;
                run.post(*part, engine, next);
                *to_post -= 1;
                if *to_post == 0 {
                    let alone = self.thread == 0 && self.goes_alone(window);
                    self.sent = run.all_sent(self.thread, next, alone);
                }
            }
            if !has_read {
                has_read = true;
                self.meet(window, None)?;
                run.read_notes(*part, engine, turn)?;
                engine.begin_window();
            }
            Ok(())
        })?;
        let before = std::mem::replace(hops, engine.packet_hops());
        let own = &run.shared.hops[next][usize::from(*part)];
        own.store(*hops - before.min(*hops), Ordering::Relaxed);
        run.post_notes(place, next);
        Ok(())
    }
    /// This thread is through with its parts: those that others are to have are handed over.
    fn hand_over(&mut self, places: &mut Vec<Box<Place>>) {
        let shared = &self.run.shared;
        if self.balance.changes() {
            let others = |place: &mut Box<Place>| self.balance.thread_of(place.part) != self.thread;
            for place in places.extract_if(.., others) {
                let part = usize::from(place.part);
                *shared.passed[part].lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
            }
        }
        (self.done, self.met) = (shared.done.arrive(), false);
    }
    /// Waits until all are through with the window before `window`. With `places`, takes what parts others have handed over.
    fn meet(&mut self, window: u64, places: Option<&mut Vec<Box<Place>>>) -> Result<(), Broken> {
        if self.met {
            return Ok(());
        }
        let shared = &self.run.shared;
        shared.done.wait(self.done, self.patience)?;
        self.met = true;
        if self.alone.is_some() {
            shared.sent.all_but_one_have_gone();
            shared.done.all_but_one_have_gone();
        }
        if let (true, Some(places)) = (self.balance.changes(), places) {
            let passed = self.balance.of(self.thread).map(|part| &shared.passed[usize::from(part)]);
            places.extend(
                passed.filter_map(|place| place.lock().unwrap_or_else(PoisonError::into_inner).take()),
            );
            self.balance.changed();
        }
        if window > 0 {
            let hops = &shared.hops[window as usize % 2];
            self.balance.note(hops.iter().map(|hops| hops.load(Ordering::Relaxed)));
            self.patience = TURN.max(HOP * u32::try_from(self.balance.last().1).unwrap_or(u32::MAX));
        }
        if self.thread == 0 {
            self.judge(window)?;
        }
        Ok(())
    }
    /// The run is over, at `at`: what notes of the last window have asked is answered, and what is left of all parts is written down.
    fn finish(
        &mut self,
        places: &mut [Box<Place>],
        window: u64,
        (at, completed): (Time, bool),
    ) -> Result<(), Broken> {
        let (run, turn, next) = (self.run, window as usize % 2, (window + 1) as usize % 2);
        self.balance.rest();
        places.iter_mut().try_for_each(|place| run.read(place, turn))?;
        let (sent, done) = run.tell(places, self.thread, window + 1);
        run.shared.sent.wait(sent, self.patience)?;
        run.shared.done.wait(done, self.patience)?;
        for place in places {
            run.read(place, next)?;
            let engine = &mut place.engine;
            if completed {
                run.advance(engine, at, |_, _| Ok(()))?;
            }
            engine.end_part(at).map_err(|e| run.shared.give_up(Reason::Error(e)))?;
        }
        Ok(())
    }
    /// Adds up what the window before this had to do. After some of them: is that enough, and is it shared out evenly?
    fn judge(&mut self, window: u64) -> Result<(), Broken> {
        let (run, shared, work) = (self.run, &self.run.shared, &mut self.work);
        let (hops, longest) = self.balance.last();
        (work.windows, work.hops, work.longest) = (window, work.hops + hops, work.longest + longest);
        let threads = self.balance.threads();
        if threads == 1 || ![FIRST_LOOK, TRIAL].contains(&window) {
            return Ok(());
        }
        let enough = work.hops >= window * run.least_hops * threads as u64;
        if window == TRIAL && !enough {
            let each = work.hops as f64 / TRIAL as f64;
            let window = run.window;
            let note =
                format!("a window of {window} has {each:.1} packet-hops: too little for {threads} threads");
            return Err(shared.give_up(Reason::Note(note)));
        }
        if enough && run.finer && work.balance() < EVEN * threads as f64 {
            return Err(shared.give_up(Reason::Uneven));
        }
        Ok(())
    }
}
