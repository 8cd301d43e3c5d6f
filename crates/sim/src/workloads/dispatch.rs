//! The applications of a run: which acts when, and messages on their way between them.
//!
//! Whoever drives a run (the engine, or a live run) asks for what is due, calls the application and carries out its actions.
//!
//! Order at one instant: workloads by position; within one first messages, by place of the sender and in the order sent, then timers, by
//! place. An application acts on its own host only, so the order of applications at different hosts has no effect on a result;
//! [`Applications::shuffle`] lets tests check that.

use super::{Actions, App, Message, Tally, Workload, Written, ALL};
use crate::numbers::Numbers;
use penstock_core::Stream;
use penstock_units::{Dur, Time};
use std::collections::{BTreeMap, VecDeque};

/// An application: workload by position, place within it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AppId {
    /// Position of the workload.
    pub workload: u32,
    /// Place within it.
    pub place: u32,
}

/// What an application is called for.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// A message has arrived.
    Message(Message),
    /// Its own time has come.
    Timer,
    /// A write of its own is acknowledged.
    Acked(Written),
    /// A write is delivered to it.
    Delivered(Written),
}

/// Something that is due.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// The application.
    pub id: AppId,
    /// What it is called for.
    pub call: Call,
    /// What orders it among all that is due at its time, whatever logical process that is in: workload, kind and place, then the number of a message.
    pub order: (u64, u64),
}

/// A message to an application of another logical process.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When it arrives.
    pub at: Time,
    /// The host that it is for.
    pub host: u32,
    /// The application there.
    pub to: AppId,
    /// What it says.
    pub message: Message,
    /// How many messages its sender's logical process had sent before.
    pub number: u64,
}

/// When the first is due.
fn first_of(agenda: &Agenda) -> Time {
    agenda.keys().next().map_or(Time::NEVER, |key| key.0)
}

/// What orders what is due.
type Key = (Time, u32, Kind, u32, u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Message,
    Timer,
}

/// What becomes due, by its order: to which application, by place, and with which message.
type Agenda = BTreeMap<Key, (u32, Option<Message>)>;

/// All applications of a run.
#[derive(Default)]
pub struct Applications {
    workloads: Vec<Workload>,
    /// What becomes due at hosts.
    agenda: Agenda,
    /// What becomes due of applications that act for all hosts.
    for_all: Agenda,
    /// Where hosts have their turns in a lookahead window: what is due before this time is that of the host whose turn it is.
    limit: Time,
    /// That, and when the next of it is due.
    of_host: Agenda,
    next_of_host: Time,
    /// What is due in the window at hosts that have not had their turn, in order for each of them.
    in_window: Vec<(u32, Key, (u32, Option<Message>))>,
    /// The timer of each application that is in the agenda, by workload and place.
    armed: Vec<Box<[Time]>>,
    /// Applications that have nothing more to do, the same way, and how many have.
    done: Vec<Box<[bool]>>,
    left: usize,
    /// Messages that take no time.
    at_once: VecDeque<(AppId, Message)>,
    sent: u64,
    actions: Actions,
    /// From the last application's end to that of the run.
    linger: Dur,
    /// When an application that is here had nothing more to do, the latest of those that have; [`Self::ended`].
    latest: Time,
    ended: Time,
    /// The run ends then.
    stop: Time,
    /// Hosts, by node, of which the applications are called by another logical process; empty = there is none.
    away: Vec<bool>,
    shuffle: Option<Stream>,
}

impl Applications {
    /// Those of `workloads`. `linger` is the smallest delay of the network: where messages travel, the end of the run takes as long
    /// to be known.
    pub fn new(workloads: Vec<Workload>, linger: Dur) -> Applications {
        Applications::of(workloads, linger, Numbers::default(), Vec::new())
    }
    /// Those of one logical process: at the hosts that are not `away` (by node; empty = all are here), and those that act for all hosts. What
    /// they open gets these `numbers`.
    pub fn of(workloads: Vec<Workload>, linger: Dur, numbers: Numbers, away: Vec<bool>) -> Applications {
        let is_here = |host: u32| host == ALL || !away.get(host as usize).is_some_and(|away| *away);
        let each = |w: &Workload| w.apps.len();
        let here = |w: &Workload| w.apps.iter().filter(|app| is_here(app.0)).count();
        let travels = workloads.iter().any(|w| w.travel.is_some());
        let mut all = Applications {
            armed: workloads.iter().map(|w| vec![Time::NEVER; each(w)].into()).collect(),
            done: workloads.iter().map(|w| vec![false; each(w)].into()).collect(),
            left: workloads.iter().map(here).sum(),
            workloads,
            linger: if travels { linger } else { Dur::ZERO },
            stop: Time::NEVER,
            ended: Time::NEVER,
            next_of_host: Time::NEVER,
            actions: Actions { numbers, ..Actions::default() },
            ..Applications::default()
        };
        for (workload, apps) in (0..).zip(all.workloads.iter().map(each).collect::<Vec<_>>()) {
            for place in 0..apps as u32 {
                if is_here(all.workloads[workload as usize].apps[place as usize].0) {
                    all.arm(AppId { workload, place });
                }
            }
        }
        if all.left == 0 {
            all.ended = Time::ZERO;
        }
        all.away = away;
        all
    }
    /// What is due at one instant at several hosts is handled in an order of hosts that is drawn from `order`: for tests.
    pub fn shuffle(&mut self, order: Stream) {
        self.shuffle = Some(order);
    }
    /// The workloads, in declared order.
    pub fn workloads(&self) -> &[Workload] {
        &self.workloads
    }
    /// The tallies of all workloads.
    pub fn take_tallies(&mut self) -> Vec<Tally> {
        self.workloads.iter_mut().map(|w| std::mem::take(&mut w.tally)).collect()
    }
    /// Gives them back.
    pub fn set_tallies(&mut self, tallies: Vec<Tally>) {
        self.workloads.iter_mut().zip(tallies).for_each(|(workload, tally)| workload.tally = tally);
    }
    /// The tally of a workload.
    pub fn tally(&mut self, workload: u32) -> &mut Tally {
        &mut self.workloads[workload as usize].tally
    }
    /// How much of the run's work is complete, 0 to 1; `None` where some workload has no end of its own.
    pub fn progress(&self) -> Option<f64> {
        let share = |(done, all): (u64, u64)| done as f64 / all.max(1) as f64;
        let shares: Option<Vec<f64>> = self.workloads.iter().map(|w| w.work().map(share)).collect();
        shares
            .filter(|shares| !shares.is_empty())
            .map(|shares| shares.iter().sum::<f64>() / shares.len() as f64)
    }
    /// When something is due next.
    pub fn next(&self) -> Time {
        first_of(&self.agenda).min(self.next_for_all())
    }
    /// When an application acts that acts for all hosts, or the run ends.
    pub fn next_for_all(&self) -> Time {
        first_of(&self.for_all).min(self.stop)
    }
    /// When the last application that is here had nothing more to do; [`Time::NEVER`] = some has.
    pub fn ended(&self) -> Time {
        self.ended
    }
    /// From the end of the last application to that of the run.
    pub fn linger(&self) -> Dur {
        self.linger
    }
    /// The run ends then: all logical processes have nothing more to do.
    pub fn set_stop(&mut self, at: Time) {
        self.stop = at;
    }
    /// The applications of every workload.
    pub fn apps(&self) -> impl Iterator<Item = usize> + '_ {
        self.workloads.iter().map(|w| w.apps.len())
    }
    /// All work is done: the run is over.
    pub fn is_over(&self, now: Time) -> bool {
        self.stop <= now
    }
    /// Takes out what is due at `now`, in order. What it makes due at once comes next time.
    pub fn take_due(&mut self, now: Time, due: &mut Vec<Due>) {
        loop {
            let [of_hosts, for_all] =
                [&self.agenda, &self.for_all].map(|agenda| agenda.keys().next().copied());
            let agenda = match (of_hosts, for_all) {
                (Some(own), Some(other)) if other < own => &mut self.for_all,
                (None, Some(_)) => &mut self.for_all,
                _ => &mut self.agenda,
            };
            let Some(first) = agenda.first_entry().filter(|first| first.key().0 <= now) else { break };
            let (key, what) = first.remove_entry();
            due.push(self.take(key, what));
        }
        if let Some(order) = &mut self.shuffle {
            let workloads = &self.workloads;
            let host = |due: &Due| workloads[due.id.workload as usize].apps[due.id.place as usize].0;
            // What acts for all hosts keeps its place among what each of them does.
            for due in due.split_mut(|due| host(due) == ALL) {
                let mut hosts: Vec<_> = due.iter().map(host).collect();
                hosts.sort_unstable();
                hosts.dedup();
                order.shuffle(&mut hosts);
                due.sort_by_key(|due| hosts.iter().position(|of| *of == host(due)));
            }
        }
    }
    /// It is taken out of the agenda.
    fn take(&mut self, key: Key, (place, message): (u32, Option<Message>)) -> Due {
        let (_, workload, kind, from, number) = key;
        if message.is_none() {
            self.armed[workload as usize][place as usize] = Time::NEVER;
        }
        let (id, call) = (AppId { workload, place }, message.map_or(Call::Timer, Call::Message));
        let order = u64::from(workload) << 33 | (kind as u64) << 32 | u64::from(from);
        Due { id, call, order: (order, number) }
    }

    // ---- host by host in a lookahead window ----------------------------------------------------------------

    /// Hosts have their turns: what is due before `limit` is theirs. Answers the hosts that have something.
    pub fn begin_window(&mut self, limit: Time) -> impl Iterator<Item = u32> + '_ {
        self.limit = limit;
        while let Some(first) = self.agenda.first_entry().filter(|first| first.key().0 < limit) {
            let (key, what) = first.remove_entry();
            let host = self.workloads[key.1 as usize].apps[what.0 as usize].0;
            self.in_window.push((host, key, what));
        }
        self.in_window.sort_unstable_by_key(|due| (due.0, due.1));
        self.in_window.iter().map(|due| due.0)
    }
    /// It is the turn of `host`.
    #[inline(always)]
    pub fn begin_host(&mut self, host: u32) {
        debug_assert!(
            self.of_host.is_empty(),
            "an application asked to be called in the turn of another host"
        );
        if !self.in_window.is_empty() {
            self.find_due_of(host);
        }
    }
    #[inline(never)]
    fn find_due_of(&mut self, host: u32) {
        let first = self.in_window.partition_point(|due| due.0 < host);
        let own = self.in_window[first..].iter().take_while(|due| due.0 == host);
        self.of_host.extend(own.map(|(_, key, what)| (*key, *what)));
        self.next_of_host = first_of(&self.of_host);
    }
    /// When something is due at the host whose turn it is.
    #[inline(always)]
    pub fn next_of_host(&self) -> Time {
        self.next_of_host
    }
    /// Takes out what is due there then, in order.
    pub fn take_due_of_host(&mut self, due: &mut Vec<Due>) {
        let now = self.next_of_host;
        while let Some(first) = self.of_host.first_entry().filter(|first| first.key().0 <= now) {
            let (key, what) = first.remove_entry();
            due.push(self.take(key, what));
        }
        self.next_of_host = first_of(&self.of_host);
    }
    /// All hosts have had their turns.
    pub fn end_window(&mut self) {
        self.limit = Time::ZERO;
        self.in_window.clear();
    }
    fn put(&mut self, key: Key, what: (u32, Option<Message>)) {
        if key.0 < self.limit {
            self.next_of_host = self.next_of_host.min(key.0);
            self.of_host.insert(key, what);
            return;
        }
        let for_all = self.workloads[key.1 as usize].apps[what.0 as usize].0 == ALL;
        if for_all { &mut self.for_all } else { &mut self.agenda }.insert(key, what);
    }

    /// The application of a workload that hears what happens at a host, if there is one.
    #[inline]
    pub fn at(&self, workload: u32, host: u32) -> Option<AppId> {
        let place = self.workloads[workload as usize].place_at(host)?;
        Some(AppId { workload, place })
    }
    /// The host of an application; `None` = it acts for all.
    pub fn host(&self, id: AppId) -> Option<u32> {
        let host = self.workloads[id.workload as usize].apps[id.place as usize].0;
        (host != ALL).then_some(host)
    }
    /// Calls an application. What it asks for is in [`Self::actions`], to be carried out before anything else is called; then
    /// [`Self::arm`] and, until there is none, [`Self::next_at_once`].
    pub fn call(&mut self, id: AppId, now: Time, call: &Call) {
        let (workload, place) = (id.workload as usize, id.place as usize);
        let (app, actions): (&mut dyn App, _) =
            (&mut *self.workloads[workload].apps[place].1, &mut self.actions);
        actions.place = id.place;
        match call {
            Call::Timer => app.on_timer(now, actions),
            Call::Message(message) => app.on_message(now, message, actions),
            Call::Acked(write) => app.on_acked(now, write, actions),
            Call::Delivered(write) => app.on_delivered(now, write, actions),
        }
    }
    /// What the application that was called last asks for.
    pub fn actions(&mut self) -> &mut Actions {
        &mut self.actions
    }
    /// Asks an application when it acts next.
    pub fn arm(&mut self, id: AppId) {
        let AppId { workload, place } = id;
        let next = self.workloads[workload as usize].apps[place as usize].1.next_event();
        let armed = &mut self.armed[workload as usize][place as usize];
        let known = std::mem::replace(armed, next);
        if known == next {
            return;
        }
        if known != Time::NEVER {
            let key = (known, workload, Kind::Timer, place, 0);
            if self.agenda.remove(&key).is_none() && self.for_all.remove(&key).is_none() {
                self.of_host.remove(&key);
                self.next_of_host = first_of(&self.of_host);
            }
        }
        if next != Time::NEVER {
            self.put((next, workload, Kind::Timer, place, 0), (place, None));
        }
    }
    /// Carries out [`super::Action::Send`] of an application. `delay` answers what a packet without payload of a protocol takes from one host
    /// to another in the idle network. A message to an application of another logical process is answered: it is handed to [`Self::arrive`] there.
    pub fn send(
        &mut self,
        workload: u32,
        now: Time,
        (to, message): (u32, Message),
        delay: impl FnOnce(u32, u32, u16) -> Dur,
    ) -> Option<Sent> {
        let w = &self.workloads[workload as usize];
        let [from, at] = [message.from, to].map(|place| w.apps[place as usize].0);
        match w.travel {
            Some(protocol) if from != at => {
                let arrives = now + delay(from, at, protocol);
                self.sent += 1;
                let to = AppId { workload, place: to };
                let sent = Sent { at: arrives, host: at, to, message, number: self.sent };
                if self.away.get(at as usize).is_some_and(|away| *away) {
                    return Some(sent);
                }
                self.arrive(&sent);
            }
            _ => self.at_once.push_back((AppId { workload, place: to }, message)),
        }
        None
    }
    /// A message is on its way to an application here.
    pub fn arrive(&mut self, sent: &Sent) {
        let Sent { at, to: AppId { workload, place }, message, number, .. } = *sent;
        self.put((at, workload, Kind::Message, message.from, number), (place, Some(message)));
    }
    /// The next message that has taken no time.
    pub fn next_at_once(&mut self) -> Option<(AppId, Message)> {
        self.at_once.pop_front()
    }
    /// An application has said that it has nothing more to do.
    pub fn is_done(&self, id: AppId) -> bool {
        self.done[id.workload as usize][id.place as usize]
    }
    /// Carries out [`super::Action::Done`] of an application; true when it was the last of its workload.
    pub fn done(&mut self, id: AppId, now: Time) -> bool {
        let done = &mut self.done[id.workload as usize];
        if std::mem::replace(&mut done[id.place as usize], true) {
            return false;
        }
        self.left -= 1;
        // In a window one host may be ahead of another.
        self.latest = self.latest.max(now);
        if self.left == 0 {
            self.ended = self.latest;
            if self.away.is_empty() {
                self.stop = self.latest + self.linger;
            }
        }
        done.iter().all(|done| *done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is called at its times, the next one last, and sets none itself.
    struct Calls(Vec<u64>);
    impl App for Calls {
        fn next_event(&self) -> Time {
            self.0.last().map_or(Time::NEVER, |at| Time(*at))
        }
        fn on_timer(&mut self, _: Time, _: &mut Actions) {
            self.0.pop();
        }
    }
    fn workload(apps: Vec<(u32, Vec<u64>)>) -> Workload {
        let app = |(host, calls)| (host, Box::new(Calls(calls)) as Box<dyn App>);
        Workload::new(apps.into_iter().map(app).collect(), Tally::default())
    }

    /// Hosts 7 and 4 have their turns in a window that ends before 30, and are called as often in it as they ask to be; what acts for all hosts is not called.
    #[test]
    fn each_host_has_all_its_calls_of_a_window_in_its_turn() {
        let workloads = vec![
            workload(vec![(4, vec![30, 12]), (7, vec![40, 20, 15, 10])]),
            workload(vec![(ALL, vec![25])]),
            workload(vec![(7, vec![29, 15])]),
        ];
        let mut apps = Applications::new(workloads, Dur::ZERO);
        assert_eq!((apps.next(), apps.next_for_all()), (Time(10), Time(25)));
        let mut hosts: Vec<u32> = apps.begin_window(Time(30)).collect();
        hosts.dedup();
        assert_eq!(hosts, [4, 7]);
        let mut found = Vec::new();
        for host in [7, 4, 5] {
            apps.begin_host(host);
            while apps.next_of_host() != Time::NEVER {
                let (now, mut due) = (apps.next_of_host(), Vec::new());
                apps.take_due_of_host(&mut due);
                for Due { id, call, .. } in due {
                    apps.call(id, now, &call);
                    apps.arm(id);
                    found.push((host, now.0, id.workload));
                }
            }
        }
        apps.end_window();
        assert_eq!(found, [(7, 10, 0), (7, 15, 0), (7, 15, 2), (7, 20, 0), (7, 29, 2), (4, 12, 0)]);
        let (next, mut due) = (apps.next(), Vec::new());
        apps.take_due(Time(40), &mut due);
        let due: Vec<_> = due.iter().map(|due| (due.id.workload, due.id.place)).collect();
        assert_eq!((next, due), (Time(25), vec![(1, 0), (0, 0), (0, 1)]));
    }
}
