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

/// What orders what is due.
type Key = (Time, u32, Kind, u32, u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Message,
    Timer,
}

/// All applications of a run.
#[derive(Default)]
pub struct Applications {
    workloads: Vec<Workload>,
    /// What becomes due: to whom, and with which message.
    agenda: BTreeMap<Key, (u32, Option<Message>)>,
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
    /// When the last application that is here had nothing more to do.
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
        self.agenda.first_key_value().map_or(Time::NEVER, |(key, _)| key.0).min(self.stop)
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
        while let Some(first) = self.agenda.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, workload, kind, from, number), (place, message)) = first.remove_entry();
            if message.is_none() {
                self.armed[workload as usize][place as usize] = Time::NEVER;
            }
            let (id, call) = (AppId { workload, place }, message.map_or(Call::Timer, Call::Message));
            let order = u64::from(workload) << 33 | (kind as u64) << 32 | u64::from(from);
            due.push(Due { id, call, order: (order, number) });
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
            self.agenda.remove(&(known, workload, Kind::Timer, place, 0));
        }
        if next != Time::NEVER {
            self.agenda.insert((next, workload, Kind::Timer, place, 0), (place, None));
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
        self.agenda.insert((at, workload, Kind::Message, message.from, number), (place, Some(message)));
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
        if self.left == 0 {
            self.ended = now;
            if self.away.is_empty() {
                self.stop = now + self.linger;
            }
        }
        done.iter().all(|done| *done)
    }
}
