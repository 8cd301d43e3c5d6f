//! The applications of a run: which acts when, and messages on their way between them.
//!
//! Whoever drives a run (the engine, or a live run) asks for what is due, calls the application and carries out its actions.
//!
//! Order at one instant: workloads by position; within one first messages, by place of the sender and in the order sent, then timers, by
//! place. An application acts on its own host only, so the order of applications at different hosts has no effect on a result;
//! [`Applications::shuffle`] lets tests check that.

use super::{Actions, App, Message, Tally, Workload, Written, ALL};
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
    /// The run ends then.
    stop: Time,
    shuffle: Option<Stream>,
}

impl Applications {
    /// Those of `workloads`. `linger` is the smallest delay of the network: where messages travel, the end of the run takes as long
    /// to be known.
    pub fn new(workloads: Vec<Workload>, linger: Dur) -> Applications {
        let each = |w: &Workload| w.apps.len();
        let travels = workloads.iter().any(|w| w.travel.is_some());
        let mut all = Applications {
            armed: workloads.iter().map(|w| vec![Time::NEVER; each(w)].into()).collect(),
            done: workloads.iter().map(|w| vec![false; each(w)].into()).collect(),
            left: workloads.iter().map(each).sum(),
            workloads,
            linger: if travels { linger } else { Dur::ZERO },
            stop: Time::NEVER,
            ..Applications::default()
        };
        for (workload, apps) in (0..).zip(all.workloads.iter().map(each).collect::<Vec<_>>()) {
            (0..apps as u32).for_each(|place| all.arm(AppId { workload, place }));
        }
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
    /// All work is done: the run is over.
    pub fn is_over(&self, now: Time) -> bool {
        self.stop <= now
    }
    /// Takes out what is due at `now`, in order. What it makes due at once comes next time.
    pub fn take_due(&mut self, now: Time, due: &mut Vec<(AppId, Call)>) {
        while let Some(first) = self.agenda.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, workload, _, _, _), (place, message)) = first.remove_entry();
            if message.is_none() {
                self.armed[workload as usize][place as usize] = Time::NEVER;
            }
            due.push((AppId { workload, place }, message.map_or(Call::Timer, Call::Message)));
        }
        if let Some(order) = &mut self.shuffle {
            let workloads = &self.workloads;
            let host = |id: &AppId| match workloads[id.workload as usize].apps[id.place as usize].0 {
                ALL => (1, id.workload),
                host => (0, host),
            };
            let mut hosts: Vec<_> = due.iter().map(|(id, _)| host(id)).collect();
            hosts.sort_unstable();
            hosts.dedup();
            order.shuffle(&mut hosts);
            due.sort_by_key(|(id, _)| hosts.iter().position(|of| *of == host(id)));
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
    /// to another in the idle network.
    pub fn send(
        &mut self,
        workload: u32,
        now: Time,
        (to, message): (u32, Message),
        delay: impl FnOnce(u32, u32, u16) -> Dur,
    ) {
        let w = &self.workloads[workload as usize];
        let [from, at] = [message.from, to].map(|place| w.apps[place as usize].0);
        match w.travel {
            Some(protocol) if from != at => {
                let arrives = now + delay(from, at, protocol);
                self.sent += 1;
                self.agenda
                    .insert((arrives, workload, Kind::Message, message.from, self.sent), (to, Some(message)));
            }
            _ => self.at_once.push_back((AppId { workload, place: to }, message)),
        }
    }
    /// The next message that has taken no time.
    pub fn next_at_once(&mut self) -> Option<(AppId, Message)> {
        self.at_once.pop_front()
    }
    /// Carries out [`super::Action::Done`] of an application; true when it was the last of its workload.
    pub fn done(&mut self, id: AppId, now: Time) -> bool {
        let done = &mut self.done[id.workload as usize];
        if std::mem::replace(&mut done[id.place as usize], true) {
            return false;
        }
        self.left -= 1;
        if self.left == 0 {
            self.stop = now + self.linger;
        }
        done.iter().all(|done| *done)
    }
}
