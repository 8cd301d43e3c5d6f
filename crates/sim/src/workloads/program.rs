//! Tasks that wait for each other, as a schedule declares them, and how messages find their receives.

use penstock_units::Dur;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Nothing: others wait for it.
    Join,
    /// Each event that it waits for lets one more of those that wait for it begin, in the order they were named.
    Turns,
    /// A rank sends to another.
    Send {
        /// Sending rank.
        from: u32,
        /// Receiving rank.
        to: u32,
        /// Bytes, one at least; `u64::MAX` = without end.
        bytes: u64,
        /// What receives ask for; `None` = no receive takes it.
        tag: Option<u32>,
    },
    /// A rank takes a message, as MPI matches them: by sender and tag, in the order in which they were sent.
    Receive {
        /// The rank.
        at: u32,
        /// The sending rank; `None` = any.
        from: Option<u32>,
        /// Its tag; `None` = any.
        tag: Option<u32>,
    },
    /// A processor of a rank is busy; it does one thing at a time, first come, first served.
    Compute {
        /// The rank.
        rank: u32,
        /// Its processor.
        cpu: u32,
        /// For how long.
        time: Dur,
    },
}

impl Work {
    /// The rank that does it.
    pub(super) fn rank(self) -> Option<u32> {
        match self {
            Work::Send { from: rank, .. } | Work::Receive { at: rank, .. } | Work::Compute { rank, .. } => {
                Some(rank)
            }
            Work::Join | Work::Turns => None,
        }
    }
}

/// What of a task others may wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// It has begun.
    Begun,
    /// A message has been received.
    Arrived,
    /// It is over: a message is acknowledged to its last byte.
    Done,
}

/// A task as it is declared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) work: Work,
    /// Events that it waits for.
    pub(super) waits: u32,
    /// Earliest begin after that of the whole.
    pub(super) after: Dur,
    /// Where it comes from, for messages: a line.
    line: u32,
}

/// Tasks and what they wait for.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(super) tasks: Vec<Task>,
    /// A task, an event of it, and a task that waits for that.
    pub(super) edges: Vec<(u32, Event, u32)>,
    /// Where the edges of each task begin, once they are in order.
    index: Vec<u32>,
}

impl Program {
    /// One task more; answers its number.
    pub fn add(&mut self, work: Work, line: usize) -> u32 {
        self.tasks.push(Task { work, waits: 0, after: Dur::ZERO, line: line as u32 });
        self.tasks.len() as u32 - 1
    }
    /// `task` waits for `event` of `of`.
    pub fn wait(&mut self, task: u32, of: u32, event: Event) {
        self.edges.push((of, event, task));
        self.index.clear();
        self.tasks[task as usize].waits += 1;
    }
    /// `task` begins so long after the whole at the earliest.
    pub fn delay(&mut self, task: u32, after: Dur) {
        self.tasks[task as usize].after = after;
    }
    /// `task` waits for so many of its events only.
    pub fn wait_for(&mut self, task: u32, events: u32) {
        self.tasks[task as usize].waits = events;
    }
    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }
    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
    /// Every pair of ranks that have a message between them, once.
    pub fn pairs(&self) -> BTreeSet<(u32, u32)> {
        let pair = |t: &Task| match t.work {
            Work::Send { from, to, .. } => Some((from, to)),
            _ => None,
        };
        self.tasks.iter().filter_map(pair).collect()
    }
    /// Bytes of all messages that end.
    pub fn bytes(&self) -> u64 {
        let bytes = |t: &Task| match t.work {
            Work::Send { bytes, .. } if bytes != u64::MAX => bytes,
            _ => 0,
        };
        self.tasks.iter().map(bytes).sum()
    }
    /// Puts edges in the order of tasks, then of declaration.
    pub(super) fn put_in_order(&mut self) {
        if !self.index.is_empty() {
            return;
        }
        self.edges.sort_by_key(|e| e.0);
        self.index = vec![0; self.tasks.len() + 1];
        self.edges.iter().for_each(|e| self.index[e.0 as usize + 1] += 1);
        (1..self.index.len()).for_each(|i| self.index[i] += self.index[i - 1]);
    }
    /// Goes through it without a clock.
    ///
    /// # Errors
    /// The line of a task that can never begin, because it waits for itself in a circle or for what never happens, or of a message
    /// that no receive takes.
    pub fn check(&mut self) -> Result<(), usize> {
        self.put_in_order();
        let mut waits: Vec<u32> = self.tasks.iter().map(|t| t.waits).collect();
        let mut turns = BTreeMap::new();
        let mut mailboxes: BTreeMap<u32, Mailbox> = BTreeMap::new();
        let mut begun = vec![false; self.tasks.len()];
        let mut list: Vec<u32> = (0..self.tasks.len() as u32).filter(|t| waits[*t as usize] == 0).collect();
        let mut at = 0;
        let mut tell = |task: u32, event: Event, list: &mut Vec<u32>| {
            for next in self.after(task, event) {
                let passed_on = self.happen(next, &mut waits[next as usize], &mut turns, list);
                if let Some(next) = passed_on {
                    self.happen(next, &mut waits[next as usize], &mut turns, list);
                }
            }
        };
        while let Some(task) = list.get(at).copied() {
            at += 1;
            begun[task as usize] = true;
            let work = self.tasks[task as usize].work;
            if work == Work::Turns {
                continue;
            }
            for event in [Event::Begun, Event::Arrived, Event::Done] {
                // A receive is over when its message is there.
                let matched = match (work, event) {
                    (Work::Send { from, to, tag: Some(tag), .. }, Event::Begun) => {
                        mailboxes.entry(to).or_default().announce(self, Envelope { send: task, from, tag })
                    }
                    (Work::Receive { at, .. }, Event::Begun) => {
                        mailboxes.entry(at).or_default().post(self, task).map(|_| task)
                    }
                    _ => None,
                };
                if let Some(receive) = matched {
                    tell(receive, Event::Done, &mut list);
                }
                if event != Event::Done || !matches!(work, Work::Receive { .. }) {
                    tell(task, event, &mut list);
                }
            }
        }
        let Some(mut stuck) = begun.iter().position(|b| !b) else {
            let unmatched = mailboxes.values().filter_map(|m| m.unmatched(self)).min();
            return unmatched.map_or(Ok(()), |line| Err(line as usize));
        };
        // Back along what it waits for, as far as nothing there has begun: into a circle, where there is one.
        for _ in 0..self.tasks.len() {
            let before = self.edges.iter().find(|e| e.2 as usize == stuck && !begun[e.0 as usize]);
            match before {
                Some(e) => stuck = e.0 as usize,
                None => break,
            }
        }
        Err(self.tasks[stuck].line as usize)
    }
    /// Tasks that wait for `event` of `task`.
    pub(super) fn after(&self, task: u32, event: Event) -> impl Iterator<Item = u32> + '_ {
        let of = &self.edges[self.index[task as usize] as usize..self.index[task as usize + 1] as usize];
        of.iter().filter(move |e| e.1 == event).map(|e| e.2)
    }
    /// One of the events that a task waits for has happened: appends it to `list` when it may begin now. Answers the task to which the
    /// event is passed on, where this one is [`Work::Turns`].
    pub(super) fn happen(
        &self,
        task: u32,
        waits: &mut u32,
        turns: &mut BTreeMap<u32, u32>,
        list: &mut Vec<u32>,
    ) -> Option<u32> {
        let turns_over = self.tasks[task as usize].work == Work::Turns;
        // A task of turns begins with its first event.
        let begins = if turns_over { *waits > 0 } else { *waits == 1 };
        *waits = if turns_over { 0 } else { waits.saturating_sub(1) };
        list.extend(begins.then_some(task));
        if !turns_over {
            return None;
        }
        let turn = turns.entry(task).or_insert(0);
        *turn += 1;
        self.after(task, Event::Done).nth(*turn as usize - 1)
    }
}

/// A message that a receive may ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope {
    pub(super) send: u32,
    pub(super) from: u32,
    pub(super) tag: u32,
}

/// Receives of a rank and messages for it, as MPI matches them: each in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Mailbox {
    /// Messages that no receive has asked for.
    early: VecDeque<Envelope>,
    /// Receives without a message.
    posted: VecDeque<u32>,
    /// The receive that takes the message of a send.
    pub(super) taker: BTreeMap<u32, u32>,
    /// Messages whose data have arrived before any receive took them.
    pub(super) here: BTreeSet<u32>,
}

impl Mailbox {
    fn fits(p: &Program, receive: u32, e: &Envelope) -> bool {
        let Work::Receive { from, tag, .. } = p.tasks[receive as usize].work else { return false };
        from.is_none_or(|f| f == e.from) && tag.is_none_or(|t| t == e.tag)
    }
    /// A message announces itself: the receive that takes it, when one is posted.
    pub(super) fn announce(&mut self, p: &Program, e: Envelope) -> Option<u32> {
        let Some(at) = self.posted.iter().position(|r| Mailbox::fits(p, *r, &e)) else {
            self.early.push_back(e);
            return None;
        };
        let receive = self.posted.remove(at)?;
        self.taker.insert(e.send, receive);
        Some(receive)
    }
    /// A receive is posted: the send whose message it takes, when that has announced itself.
    pub(super) fn post(&mut self, p: &Program, receive: u32) -> Option<u32> {
        let Some(at) = self.early.iter().position(|e| Mailbox::fits(p, receive, e)) else {
            self.posted.push_back(receive);
            return None;
        };
        let send = self.early.remove(at)?.send;
        self.taker.insert(send, receive);
        Some(send)
    }
    /// Line of a send or receive that found no partner.
    fn unmatched(&self, p: &Program) -> Option<u32> {
        let all = self.posted.iter().copied().chain(self.early.iter().map(|e| e.send));
        all.map(|task| p.tasks[task as usize].line).min()
    }
}
