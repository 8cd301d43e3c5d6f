//! What a thread does, window by window.
//!
//! 1. the packets of others that were posted in the window before are taken in, and what they have noted is read;
//! 2. the part works through its own events;
//! 3. packets for others are posted, and then what hosts have noted.
//!
//! There are two meetings: one when all packets are posted, one when all notes are.

use super::balance::EVERY;
use super::barrier::Round;
use super::{Balance, Broken, Place, Reason, Run, Work, Worked};
use crate::engine::{Engine, Progress};
use penstock_fabric::Standing;
use penstock_units::{Dur, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::PoisonError;

/// After so many windows of a run on one thread it is asked again whether there is enough to do in one.
const LOOK_EVERY: u64 = 16;
/// The least packet-hops in a window for working node by node. With 16 hosts that took 0.92 to 1.07 of the time of single events, with 1,024 hosts 0.6.
const ENOUGH: f64 = 200.0;
/// The least packet-hops in a window where all ports are FIFOs. With 24 and 29 a run took 0.98 and 0.97 of the time of single events, with 18 it took 1.18, in networks of 34 to 96 ports.
const ENOUGH_FOR_FIFOS: f64 = 25.0;
/// With fewer than this in the first windows the run does not go on node by node: it has far too little to do, and most such runs are short.
const FAR_TOO_FEW: f64 = 20.0;

/// After so many windows it is asked whether they are shared out evenly: what was done until then is done again where they are not.
const FIRST_LOOK: u64 = 64;
/// They are not where threads have less than this part of what the busiest has: then the run begins anew with twice as many parts. Two for each thread
/// take 1.06 of the time that one takes where loads are even, four 1.16.
const EVEN: f64 = 0.8;
/// So many windows the first thread works through alone when it begins to, and at most.
const SOLO: (u64, u64) = (64, 8192);

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
    /// The last meetings at which it has said that it is there, until it has seen that all were.
    sent: Option<Round>,
    done: Option<Round>,
    /// The window before which it has done what is done when all are through with the one before.
    met: Option<u64>,
    /// The first window that the first thread does not work through alone; 0 while it does not.
    solo_until: u64,
    /// How many windows it works through alone the next time.
    solo: u64,
    /// Windows since it was last asked whether they have enough to do, and their packet-hops.
    recent: (u64, u64),
    /// How long the windows of all parts are, unless they go event by event.
    inner: Option<Dur>,
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
        if shared.parts == 1 && !places[0].engine.works_by_windows() {
            let (at, work) = (Time::ZERO, Work::default());
            return Ok(Worked { places, at, completed: false, sparse: true, work });
        }
        let mut worker = Worker {
            run: self,
            thread,
            balance,
            work: Work::default(),
            sent: None,
            done: None,
            met: None,
            solo_until: 0,
            solo: SOLO.0,
            recent: (0, 0),
            inner: places[0].engine.length_of_windows(),
        };
        worker.tell(&mut places, 0);
        // The end of the last window.
        let mut last = None;
        let mut window = 0u64;
        loop {
            worker.wait_for_messages()?;
            let turn = window as usize % 2;
            let cancelled = shared.cancelled[turn].load(Ordering::Relaxed);
            let to_first = shared.alone[turn].load(Ordering::Relaxed);
            worker.meet(window, Some(&mut places))?;
            let first = least(&shared.next[turn]);
            let stopped = self.judge_standing(&mut places, window);
            let stop = self.stop(&mut places, turn);
            // That is an event of all parts.
            let (first, end) = (first.min(stop), end.min(stop));
            if cancelled || stopped || first > end || last == Some(end) {
                let at = match shared.parts {
                    1 if stopped => places[0].engine.now(),
                    _ if cancelled || stopped => last.unwrap_or(Time::ZERO),
                    _ => end,
                };
                worker.finish(&mut places, window, (at, !cancelled))?;
                return Ok(worker.worked(places, at, !cancelled, false));
            }
            let at = worker.end_of_window(&places[0].engine, first, (end, warmup));
            let mut to_post = places.len();
            for place in &mut places {
                worker.work_through(place, window, at, &mut to_post)?;
            }
            if to_first {
                worker.balance.leave_to_first();
            }
            worker.hand_over(&mut places);
            last = Some(at);
            window += 1;
            if to_first && !worker.go_solo(&mut window, &mut last)? {
                return Ok(worker.worked(places, at, true, false));
            }
            worker.end_solo(window, at, &mut places)?;
            if thread == 0 {
                self.progress.now_ps.store(at.0, Ordering::Relaxed);
            }
            if shared.parts == 1 && self.is_sparse(&places[0].engine, window) {
                worker.meet(window, None)?;
                self.read(&mut places[0], window as usize % 2)?;
                places[0].engine.end_windows();
                return Ok(worker.worked(places, at, false, true));
            }
        }
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
    /// Whether what stood still at a look for deadlocks in the window before `window` is a deadlock, which ends the run. All threads come to the same.
    fn judge_standing(&self, places: &mut [Box<Place>], window: u64) -> bool {
        if places[0].engine.next_look(Time::ZERO) == Time::NEVER {
            return false;
        }
        if places[0].engine.is_stopped() {
            return true;
        }
        let told = self.shared.standing[window as usize % 2].lock().unwrap_or_else(PoisonError::into_inner);
        let (of, standing) = &*told;
        *of == window && places.iter_mut().fold(false, |found, place| found | place.engine.judge(standing))
    }
    /// Packets that a part has for others, and when the next ones arrive.
    fn post(&self, part: u16, engine: &mut Engine, window: u64) {
        let (shared, own, turn) = (&self.shared, usize::from(part), window as usize % 2);
        if let Some(standing) = engine.take_standing() {
            let mut told = shared.standing[turn].lock().unwrap_or_else(PoisonError::into_inner);
            if told.0 != window {
                *told = (window, Standing::default());
            }
            told.1.add(&standing);
        }
        let mut next = engine.next_arrival();
        for to in (0..shared.parts).filter(|to| *to != own) {
            // Nobody else holds it now.
            let packet_messages = &shared.packet_messages[turn][own * shared.parts + to];
            let mut packet_messages = packet_messages.lock().unwrap_or_else(PoisonError::into_inner);
            let mailbox = &mut engine.mailboxes()[to];
            next = next.min(mailbox.take_first());
            shared.posted.fetch_add(mailbox.packet_messages.len() as u64, Ordering::Relaxed);
            std::mem::swap(&mut *packet_messages, &mut mailbox.packet_messages);
        }
        shared.arrivals[turn][own].store(next.0, Ordering::Relaxed);
    }
    /// The packets that others have for a part.
    fn fetch(&self, part: u16, engine: &mut Engine, turn: usize) {
        let (shared, own) = (&self.shared, usize::from(part));
        for from in (0..shared.parts).filter(|from| *from != own) {
            // Read where they are, as the other writes into a box of its own meanwhile: the fewer lists go round, the more of them stay in a core's cache.
            let packet_messages = &shared.packet_messages[turn][from * shared.parts + own];
            let mut packet_messages = packet_messages.lock().unwrap_or_else(PoisonError::into_inner);
            engine.take_in(&packet_messages);
            packet_messages.clear();
        }
    }
    /// What the hosts of a part have for others, and when something happens next.
    fn post_control(&self, place: &mut Place, turn: usize) {
        let shared = &self.shared;
        let (own, engine) = (usize::from(place.part), &mut place.engine);
        debug_assert!(
            engine.mailboxes().iter().all(|mailbox| mailbox.packet_messages.len() == 0),
            "hosts hand nothing to other parts"
        );
        // What has been posted is under way.
        let next = engine.next_event().0.min(shared.arrivals[turn][own].load(Ordering::Relaxed));
        let part = engine.own_part();
        let next = next.min(part.take_first_control().0);
        for to in (0..shared.parts).filter(|to| *to != own) {
            let control_mailbox = &shared.boxes[turn][own * shared.parts + to];
            let mut control_mailbox = control_mailbox.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut control_mailbox.notes, &mut part.notes[to]);
            if to == 0 {
                control_mailbox.batches.append(&mut part.batches);
            }
        }
        shared.next[turn][own].store(next, Ordering::Relaxed);
        shared.ended[turn][own].store(engine.ended().0, Ordering::Relaxed);
    }
    /// What the hosts of others have for a part.
    fn read_control(&self, part: u16, engine: &mut Engine, turn: usize) -> Result<(), Broken> {
        let (shared, own) = (&self.shared, usize::from(part));
        for from in (0..shared.parts).filter(|from| *from != own) {
            let control_mailbox = &shared.boxes[turn][from * shared.parts + own];
            let mut control_mailbox = control_mailbox.lock().unwrap_or_else(PoisonError::into_inner);
            engine.read(&mut control_mailbox.notes, from as u16);
            engine.own_part().batches.append(&mut control_mailbox.batches);
        }
        if own == 0 {
            engine.record_batches();
        }
        if engine.own_part().parted {
            let note = "a retransmission timer was set and expired within one lookahead window";
            return Err(shared.give_up(Reason::ControlMessage(note.into())));
        }
        Ok(())
    }
    /// All that others have for a part.
    fn read(&self, place: &mut Place, turn: usize) -> Result<(), Broken> {
        self.fetch(place.part, &mut place.engine, turn);
        self.read_control(place.part, &mut place.engine, turn)
    }
    /// Works through all events up to `at`.
    fn advance(&self, engine: &mut Engine, at: Time) -> Result<(), Broken> {
        let done = match engine.works_by_windows() {
            true => engine.step_by_node(at),
            // The engine's own looks at the progress are those between windows.
            false => engine.step(at, &Progress::default()).map(|_| ()),
        };
        done.map_err(|e| self.shared.give_up(Reason::Error(e)))
    }
    /// On one thread: is there so little to do in a window that single events are as fast? Asked now and then.
    fn is_sparse(&self, engine: &Engine, window: u64) -> bool {
        let enough = match window.is_multiple_of(LOOK_EVERY) {
            true if engine.has_fifos_alone() => ENOUGH_FOR_FIFOS,
            true => ENOUGH,
            false if window < LOOK_EVERY && window.is_power_of_two() && !engine.has_fifos_alone() => {
                FAR_TOO_FEW
            }
            false => return false,
        };
        self.least_hops > 0 && engine.hops_per_window() < enough
    }
}

/// The last end of windows of `length` from `from` up to `until`; `until` where there is none.
fn last_end(length: Dur, from: Time, until: Time) -> Time {
    let end = (from.0 / length.0 + 1).saturating_mul(length.0) - 1;
    if end >= until.0 {
        return until;
    }
    Time(end + (until.0 - end) / length.0 * length.0)
}

impl Worker<'_, '_> {
    /// The end of the window that begins with an event at `first`: where that can be, it is one of the parts' own windows.
    fn end_of_window(&self, engine: &Engine, first: Time, (end, warmup): (Time, Time)) -> Time {
        let most = Time(first.0.saturating_add(self.run.window.0 - 1));
        let mut at = self.inner.map_or(most, |length| last_end(length, first, most));
        if self.run.shared.parts > 1 {
            // A look for deadlocks is one of all parts at once.
            at = at.min(engine.next_look(Time(first.0.saturating_sub(1))));
        }
        // The counters are reset between two windows.
        let most = if first < warmup { Time(warmup.0 - 1) } else { end };
        at.min(most).min(end)
    }
    fn worked(&self, places: Vec<Box<Place>>, at: Time, completed: bool, sparse: bool) -> Worked {
        Worked { places, at, completed, sparse, work: self.work }
    }
    fn is_solo(&self) -> bool {
        self.solo_until > 0
    }
    /// What parts have for others before the first window, or after the last.
    fn tell(&mut self, places: &mut [Box<Place>], window: u64) {
        for place in places {
            self.run.post(place.part, &mut place.engine, window);
            self.run.post_control(place, window as usize % 2);
        }
        self.all_sent(window);
        self.all_done();
    }
    /// All packets of this thread's parts that arrive from `window` on are posted. The first thread says whether it goes on alone after it.
    fn all_sent(&mut self, window: u64) {
        let (shared, turn) = (&self.run.shared, window as usize % 2);
        if self.thread == 0 {
            let alone = self.is_sparse();
            shared.alone[turn].store(alone, Ordering::Relaxed);
            let cancelled = self.run.progress.cancelled.load(Ordering::Relaxed);
            shared.cancelled[turn].store(cancelled, Ordering::Relaxed);
        }
        self.sent = (!self.is_solo()).then(|| shared.sent.arrive());
    }
    /// All hosts of this thread's parts are through with a window.
    fn all_done(&mut self) {
        self.done = (!self.is_solo()).then(|| self.run.shared.done.arrive());
    }
    /// Waits until all packets that arrive from this window on are posted.
    fn wait_for_messages(&mut self) -> Result<(), Broken> {
        self.sent.take().map_or(Ok(()), |round| self.run.shared.sent.wait(round))
    }
    /// The last windows had so little to do that the first thread is as fast alone.
    fn is_sparse(&self) -> bool {
        let several = self.balance.threads() > 1 && !self.is_solo() && !self.balance.changes();
        several && self.recent.0 == EVERY && self.recent.1 < self.enough()
    }
    /// So many packet-hops in some windows are worth the meetings of all threads.
    fn enough(&self) -> u64 {
        EVERY.saturating_mul(self.run.least_hops).saturating_mul(self.balance.threads() as u64)
    }
    /// After the window before `window`: the first thread has all parts and goes on alone. Others wait until it is done with that; false when the run is over
    /// then.
    fn go_solo(&mut self, window: &mut u64, last: &mut Option<Time>) -> Result<bool, Broken> {
        let shared = &self.run.shared;
        if self.thread == 0 {
            self.solo_until = *window + self.solo;
            self.solo = (2 * self.solo).min(SOLO.1);
            return Ok(true);
        }
        shared.rejoin.wait(shared.rejoin.arrive())?;
        *window = shared.resume[0].load(Ordering::Relaxed);
        *last = Some(Time(shared.resume[1].load(Ordering::Relaxed)));
        if shared.is_over.load(Ordering::Relaxed) {
            return Ok(false);
        }
        self.rejoin();
        Ok(true)
    }
    /// All share in the work again, as at the beginning.
    fn rejoin(&mut self) {
        self.balance.share_out();
        (self.solo_until, self.recent) = (0, (0, 0));
        self.sent = Some(self.run.shared.sent.arrive());
        self.done = Some(self.run.shared.done.arrive());
    }
    /// The first thread was alone for long enough: the window before `window` ended at `at`.
    fn end_solo(&mut self, window: u64, at: Time, places: &mut Vec<Box<Place>>) -> Result<(), Broken> {
        if !self.is_solo() || window < self.solo_until {
            return Ok(());
        }
        let shared = &self.run.shared;
        self.balance.share_out();
        self.pass(places);
        shared.resume[0].store(window, Ordering::Relaxed);
        shared.resume[1].store(at.0, Ordering::Relaxed);
        shared.rejoin.wait(shared.rejoin.arrive())?;
        self.rejoin();
        Ok(())
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
        run.read_control(*part, engine, turn)?;
        engine.begin_window();
        run.advance(engine, at)?;
        run.post(*part, engine, window + 1);
        *to_post -= 1;
        if *to_post == 0 {
            self.all_sent(window + 1);
        }
        let before = std::mem::replace(hops, engine.packet_hops());
        let own = &run.shared.hops[next][usize::from(*part)];
        own.store(*hops - before.min(*hops), Ordering::Relaxed);
        run.post_control(place, next);
        Ok(())
    }
    /// This thread is through with its parts: those that others are to have are handed over.
    fn hand_over(&mut self, places: &mut Vec<Box<Place>>) {
        if self.balance.changes() {
            self.pass(places);
        }
        self.all_done();
    }
    fn pass(&self, places: &mut Vec<Box<Place>>) {
        let others = |place: &mut Box<Place>| self.balance.thread_of(place.part) != self.thread;
        for place in places.extract_if(.., others) {
            let passed = &self.run.shared.passed[usize::from(place.part)];
            *passed.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        }
    }
    /// Waits until all are through with the window before `window`. With `places`, takes what parts others have handed over.
    fn meet(&mut self, window: u64, places: Option<&mut Vec<Box<Place>>>) -> Result<(), Broken> {
        let shared = &self.run.shared;
        match self.done.take() {
            Some(round) => shared.done.wait(round)?,
            None if self.met == Some(window) => return Ok(()),
            None => {}
        }
        if self.met == Some(window) {
            return Ok(());
        }
        self.met = Some(window);
        if let (true, Some(places)) = (self.balance.changes(), places) {
            let passed = self.balance.of(self.thread).map(|part| &shared.passed[usize::from(part)]);
            places.extend(
                passed.filter_map(|place| place.lock().unwrap_or_else(PoisonError::into_inner).take()),
            );
            self.balance.changed();
        }
        if window > 0 {
            let hops = shared.hops[window as usize % 2].iter().map(|hops| hops.load(Ordering::Relaxed));
            if self.is_solo() {
                let all = hops.sum();
                self.count(window, (all, all))?;
            } else {
                self.balance.note(hops);
                self.count(window, self.balance.last())?;
            }
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
        self.tell(places, window + 1);
        self.wait_for_messages()?;
        self.done.take().map_or(Ok(()), |round| run.shared.done.wait(round))?;
        for place in places {
            run.read(place, next)?;
            let engine = &mut place.engine;
            if completed {
                run.advance(engine, at)?;
                engine.find_standstill();
            }
            engine.end_part(at).map_err(|e| run.shared.give_up(Reason::Error(e)))?;
        }
        if self.is_solo() {
            run.shared.is_over.store(true, Ordering::Relaxed);
            run.shared.rejoin.arrive();
        }
        Ok(())
    }
    /// The window before `window` had so many packet-hops, and so many of them the busiest thread. After some windows the first thread asks whether they are shared
    /// out evenly.
    fn count(&mut self, window: u64, (hops, longest): (u64, u64)) -> Result<(), Broken> {
        if self.recent.0 == EVERY {
            self.recent = (0, 0);
        }
        self.recent = (self.recent.0 + 1, self.recent.1 + hops);
        if self.is_solo() && self.recent.0 == EVERY && self.recent.1 / 2 >= self.enough() {
            (self.solo_until, self.solo) = (window, SOLO.0);
        }
        let (run, work) = (self.run, &mut self.work);
        (work.windows, work.hops, work.longest) = (window, work.hops + hops, work.longest + longest);
        work.alone += u64::from(self.solo_until > 0);
        let threads = self.balance.threads();
        if self.thread > 0 || threads == 1 || window != FIRST_LOOK {
            return Ok(());
        }
        let enough = work.hops / window >= run.least_hops.saturating_mul(threads as u64);
        if enough && run.finer && work.balance() < EVEN * threads as f64 {
            return Err(run.shared.give_up(Reason::Uneven));
        }
        Ok(())
    }
}
