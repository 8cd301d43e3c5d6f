//! A schedule: messages, computations and receives that wait for each other. Collectives, GOAL files and connection matrices are all
//! schedules; this is what carries one out.

use super::collective::Collective;
use super::{Acked, Action, Actions, FlowRequest, Workload};
use penstock_core::{FlowId, Stream};
use penstock_units::{Dur, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Nothing: others wait for it.
    Join,
    /// Whatever lets it go on lets one more of those that wait for it begin, in the order they were named.
    Turns,
    /// One of its ranks sends to another.
    Send {
        /// Sending rank.
        from: u32,
        /// Receiving rank.
        to: u32,
        /// Bytes, one at least; `u64::MAX` = without end.
        bytes: u64,
        /// What receives ask for; `None` = nobody does.
        tag: Option<u32>,
    },
    /// A rank takes a message, as MPI matches them: by sender and tag, in the order in which they were sent.
    Receive {
        /// The rank.
        at: u32,
        /// From whom; `None` = anybody.
        from: Option<u32>,
        /// With which tag; `None` = any.
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
struct Task {
    work: Work,
    /// Events that it waits for.
    waits: u32,
    /// Earliest begin after that of the whole.
    after: Dur,
    /// Where it comes from, for messages: a line.
    line: u32,
}

/// Tasks and who waits for whom.
#[derive(Clone, Debug, Default)]
pub struct Program {
    tasks: Vec<Task>,
    /// Whose what, and who waits for it.
    edges: Vec<(u32, Event, u32)>,
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
    /// Goes through it without a clock.
    ///
    /// # Errors
    /// The line of a task that can never begin, because it waits for itself in a circle or for what never happens, or of a message
    /// that nobody takes.
    pub fn check(&mut self) -> Result<(), usize> {
        self.edges.sort_by_key(|e| e.0);
        let mut run = Run::new(self);
        let mut begun = vec![false; self.tasks.len()];
        let mut list: Vec<u32> =
            (0..self.tasks.len() as u32).filter(|t| self.tasks[*t as usize].waits == 0).collect();
        let mut at = 0;
        while let Some(task) = list.get(at).copied() {
            at += 1;
            begun[task as usize] = true;
            if self.tasks[task as usize].work == Work::Turns {
                continue;
            }
            for event in [Event::Begun, Event::Arrived, Event::Done] {
                // A receive is over when its message is there.
                let matched = match (self.tasks[task as usize].work, event) {
                    (Work::Send { .. }, Event::Begun) => run.sent(self, task),
                    (Work::Receive { .. }, Event::Begun) => run.post(self, task).map(|_| task),
                    _ => None,
                };
                if let Some(receive) = matched {
                    run.tell(self, receive, Event::Done, &mut list);
                }
                if event != Event::Done || !matches!(self.tasks[task as usize].work, Work::Receive { .. }) {
                    run.tell(self, task, event, &mut list);
                }
            }
        }
        let Some(mut stuck) = begun.iter().position(|b| !b) else {
            return run.unmatched(self).map_or(Ok(()), |task| Err(self.tasks[task as usize].line as usize));
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
    /// Edges of `task` for `event`.
    fn after(&self, index: &[u32], task: u32, event: Event) -> impl Iterator<Item = u32> + '_ {
        let of = &self.edges[index[task as usize] as usize..index[task as usize + 1] as usize];
        of.iter().filter(move |e| e.1 == event).map(|e| e.2)
    }
}

/// What a schedule carries out.
#[derive(Clone, Debug)]
pub enum Script {
    /// Tasks, all of them in memory.
    Tasks(Program),
    /// Messages of a collective operation that follow from one other each: what is next is worked out when it is due.
    Rounds(Collective),
}

impl Script {
    /// How many tasks there are.
    pub fn len(&self) -> usize {
        match self {
            Script::Tasks(program) => program.len(),
            Script::Rounds(collective) => collective.messages() as usize,
        }
    }
    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Some pairs of ranks that have a message between them, all where there are no more than `most`.
    pub fn some_pairs(&self, most: usize) -> Vec<(u32, u32)> {
        match self {
            Script::Tasks(program) => {
                let pairs = program.pairs();
                let step = pairs.len().div_ceil(most).max(1);
                pairs.into_iter().step_by(step).collect()
            }
            Script::Rounds(collective) => {
                let step = self.len().div_ceil(most).max(1);
                let pair = |number: usize| {
                    let (from, to, _) = collective.message(number as u32);
                    (from, to)
                };
                let pairs: BTreeSet<(u32, u32)> = (0..self.len()).step_by(step).map(pair).collect();
                pairs.into_iter().collect()
            }
        }
    }
    fn work(&self, task: u32) -> Work {
        match self {
            Script::Tasks(program) => program.tasks[task as usize].work,
            Script::Rounds(collective) => {
                let (from, to, bytes) = collective.message(task);
                Work::Send { from, to, bytes, tag: None }
            }
        }
    }
    /// Earliest begin of a task after that of the whole.
    fn after(&self, task: u32) -> Dur {
        match self {
            Script::Tasks(program) => program.tasks[task as usize].after,
            Script::Rounds(_) => Dur::ZERO,
        }
    }
    /// Tasks that wait for no other.
    fn first(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match self {
            Script::Tasks(program) => {
                let tasks = (0u32..).zip(&program.tasks);
                Box::new(tasks.filter(|(_, t)| t.waits == 0).map(|(task, _)| task))
            }
            Script::Rounds(collective) => Box::new(0..collective.begins()),
        }
    }
    fn run(&self) -> Run {
        match self {
            Script::Tasks(program) => Run::new(program),
            Script::Rounds(_) => Run::default(),
        }
    }
}

/// A message on its way to a rank that somebody may ask for.
#[derive(Clone, Copy, Debug)]
struct Envelope {
    send: u32,
    from: u32,
    tag: u32,
}

/// What one going-through knows.
#[derive(Clone, Debug, Default)]
struct Run {
    /// Where the edges of each task begin.
    index: Vec<u32>,
    /// Events each task still waits for.
    waits: Vec<u32>,
    /// How often each [`Work::Turns`] has let one begin.
    turns: BTreeMap<u32, u32>,
    /// Messages that nobody has asked for, and receives without a message, by rank and in order.
    early: BTreeMap<u32, VecDeque<Envelope>>,
    posted: BTreeMap<u32, VecDeque<u32>>,
    /// The receive that takes the message of a send.
    taker: BTreeMap<u32, u32>,
    /// Messages that have arrived before anybody asked for them.
    here: BTreeSet<u32>,
}

impl Run {
    fn new(p: &Program) -> Run {
        let mut index = vec![0u32; p.tasks.len() + 1];
        p.edges.iter().for_each(|e| index[e.0 as usize + 1] += 1);
        (1..index.len()).for_each(|i| index[i] += index[i - 1]);
        Run { index, waits: p.tasks.iter().map(|t| t.waits).collect(), ..Run::default() }
    }
    /// An event of a task: what may begin now is appended to `list`.
    fn tell(&mut self, p: &Program, task: u32, event: Event, list: &mut Vec<u32>) {
        for next in p.after(&self.index, task, event) {
            if p.tasks[next as usize].work == Work::Turns {
                let turn = self.turns.entry(next).or_insert(0);
                let found = p.after(&self.index, next, Event::Done).nth(*turn as usize);
                *turn += 1;
                if self.waits[next as usize] > 0 {
                    // It begins itself, too, though nothing follows from that.
                    self.waits[next as usize] = 0;
                    list.push(next);
                }
                list.extend(found.filter(|f| count_down(&mut self.waits[*f as usize])));
            } else if count_down(&mut self.waits[next as usize]) {
                list.push(next);
            }
        }
    }
    fn fits(p: &Program, receive: u32, e: &Envelope) -> bool {
        let Work::Receive { from, tag, .. } = p.tasks[receive as usize].work else { return false };
        from.is_none_or(|f| f == e.from) && tag.is_none_or(|t| t == e.tag)
    }
    /// A message leaves: the receive that will take it, when one is posted.
    fn sent(&mut self, p: &Program, send: u32) -> Option<u32> {
        let Work::Send { from, to, tag: Some(tag), .. } = p.tasks[send as usize].work else { return None };
        let e = Envelope { send, from, tag };
        let posted = self.posted.entry(to).or_default();
        if let Some(at) = posted.iter().position(|r| Run::fits(p, *r, &e)) {
            let receive = posted.remove(at)?;
            self.taker.insert(send, receive);
            return Some(receive);
        }
        self.early.entry(to).or_default().push_back(e);
        None
    }
    /// A receive is posted: the send whose message it will take, when that has left.
    fn post(&mut self, p: &Program, receive: u32) -> Option<u32> {
        let Work::Receive { at, .. } = p.tasks[receive as usize].work else { return None };
        let early = self.early.entry(at).or_default();
        if let Some(i) = early.iter().position(|e| Run::fits(p, receive, e)) {
            let send = early.remove(i)?.send;
            self.taker.insert(send, receive);
            return Some(send);
        }
        self.posted.entry(at).or_default().push_back(receive);
        None
    }
    /// A send or receive that found no partner.
    fn unmatched(&self, p: &Program) -> Option<u32> {
        let posted = self.posted.values().flatten().copied();
        let early = self.early.values().flatten().map(|e| e.send);
        posted.chain(early).min_by_key(|t| p.tasks[*t as usize].line)
    }
}

/// One event less; true when it was the last.
fn count_down(waits: &mut u32) -> bool {
    let last = *waits == 1;
    *waits = waits.saturating_sub(1);
    last
}

/// How a schedule is carried out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The first begins then.
    pub start: Time,
    /// Ranks begin U(0, this) later.
    pub spread: Dur,
    /// It is complete when every message is acknowledged; else when every one has been received.
    pub until_acknowledged: bool,
    /// One connection for all messages from a rank to another, instead of one each.
    pub persistent: bool,
    /// How often; the next begins when one is complete.
    pub repetitions: u64,
    /// Bytes that count as its size.
    pub bytes: u64,
    /// Bus bandwidth as a multiple of the algorithm's, where that is defined.
    pub bus: Option<f64>,
}

/// Messages of a connection that is used for several, in order: how many of them are received, and which are not acknowledged.
#[derive(Default)]
struct Channel {
    flow: FlowId,
    received: usize,
    open: VecDeque<u64>,
}

/// A program under way.
pub struct Schedule {
    script: Script,
    template: FlowRequest,
    /// Host of each rank.
    hosts: Vec<u32>,
    plan: Plan,
    rng: Stream,
    run: Run,
    /// What begins or ends at a time.
    agenda: BTreeSet<(Time, bool, u32)>,
    /// Tasks that wait for a processor, and the one it works on.
    processors: BTreeMap<(u32, u32), (Option<u32>, VecDeque<u32>)>,
    channels: BTreeMap<(u32, u32), Channel>,
    /// Connections by number, for those that are used for several messages.
    pair_of: BTreeMap<FlowId, (u32, u32)>,
    /// Tasks that are not complete.
    left: usize,
    /// Messages that are not acknowledged, of all repetitions.
    unacknowledged: u64,
    started: Time,
    done: u64,
    over: bool,
}

impl Schedule {
    /// `script` with rank i at `hosts[i]`; messages are flows like `template`. A program passes [`Program::check`].
    pub fn new(
        mut script: Script,
        template: FlowRequest,
        hosts: Vec<u32>,
        plan: Plan,
        rng: Stream,
    ) -> Schedule {
        if let Script::Tasks(program) = &mut script {
            // In order of the task, then of declaration.
            program.edges.sort_by_key(|e| e.0);
        }
        let mut schedule = Schedule {
            run: Run::default(),
            script,
            template,
            hosts,
            rng,
            agenda: BTreeSet::new(),
            processors: BTreeMap::new(),
            channels: BTreeMap::new(),
            pair_of: BTreeMap::new(),
            left: 0,
            unacknowledged: 0,
            started: plan.start,
            done: 0,
            over: false,
            plan,
        };
        schedule.again(schedule.plan.start);
        schedule
    }
    fn again(&mut self, at: Time) {
        self.run = self.script.run();
        self.left = self.script.len();
        self.started = at;
        let later: Vec<Dur> = self.hosts.iter().map(|_| self.rng.dur_below(self.plan.spread)).collect();
        for task in self.script.first() {
            let rank = match self.script.work(task) {
                Work::Send { from, .. } => Some(from),
                Work::Receive { at, .. } => Some(at),
                Work::Compute { rank, .. } => Some(rank),
                Work::Join | Work::Turns => None,
            };
            let later = rank.map_or(Dur::ZERO, |r| later[r as usize]);
            self.agenda.insert((at + later + self.script.after(task), false, task));
        }
    }
    /// What marks messages of this repetition.
    fn mark(&self, task: u32) -> u64 {
        self.done << 32 | u64::from(task)
    }
    /// Events of tasks, and all that follows from them at once.
    fn follow(&mut self, now: Time, events: &[(u32, Event)], actions: &mut Actions) {
        let mut list = Vec::new();
        for (task, event) in events {
            self.tell(*task, *event, &mut list);
        }
        self.go_on(now, list, actions);
    }
    /// Begins the tasks of a list, and what may begin because of them, in order: what was let go first begins first.
    fn go_on(&mut self, now: Time, mut list: Vec<u32>, actions: &mut Actions) {
        let mut at = 0;
        while at < list.len() {
            let task = list[at];
            at += 1;
            let after = self.started + self.script.after(task);
            if after > now {
                self.agenda.insert((after, false, task));
            } else {
                self.begin(now, task, &mut list, actions);
            }
        }
        if self.left == 0 && !self.over {
            self.complete(now, actions);
        }
    }
    fn tell(&mut self, task: u32, event: Event, list: &mut Vec<u32>) {
        let last = match self.script.work(task) {
            Work::Send { .. } if !self.plan.until_acknowledged => Event::Arrived,
            _ => Event::Done,
        };
        self.left -= usize::from(event == last);
        match &self.script {
            Script::Tasks(program) => self.run.tell(program, task, event, list),
            Script::Rounds(collective) => list.extend(collective.next(task, event)),
        }
    }
    fn begin(&mut self, now: Time, task: u32, list: &mut Vec<u32>, actions: &mut Actions) {
        match self.script.work(task) {
            Work::Join => {
                self.tell(task, Event::Begun, list);
                self.tell(task, Event::Done, list);
            }
            // Those that wait for it begin one by one.
            Work::Turns => self.left -= 1,
            Work::Send { from, to, bytes, .. } => {
                self.unacknowledged += 1;
                self.send(from, to, bytes, self.mark(task), actions);
                if let Script::Tasks(program) = &self.script {
                    self.run.sent(program, task);
                }
                self.tell(task, Event::Begun, list);
            }
            Work::Receive { .. } => {
                let send = match &self.script {
                    Script::Tasks(program) => self.run.post(program, task),
                    Script::Rounds(_) => None,
                };
                self.tell(task, Event::Begun, list);
                if send.is_some_and(|send| self.run.here.remove(&send)) {
                    self.tell(task, Event::Done, list);
                }
            }
            Work::Compute { rank, cpu, time } => {
                let (busy, waiting) = self.processors.entry((rank, cpu)).or_default();
                if busy.is_some() {
                    waiting.push_back(task);
                    return;
                }
                *busy = Some(task);
                self.agenda.insert((now + time, true, task));
                self.tell(task, Event::Begun, list);
            }
        }
    }
    fn send(&mut self, from: u32, to: u32, bytes: u64, mark: u64, actions: &mut Actions) {
        let (src, dst) = (self.hosts[from as usize], self.hosts[to as usize]);
        if !self.plan.persistent {
            let close = bytes != u64::MAX;
            actions.open(FlowRequest { src, dst, bytes, close, tag: mark, ..self.template.clone() });
            return;
        }
        match self.channels.get_mut(&(from, to)) {
            Some(channel) => {
                channel.open.push_back(mark);
                actions.push(Action::Write(channel.flow, bytes));
            }
            None => {
                let flow = actions.open(FlowRequest {
                    src,
                    dst,
                    bytes,
                    close: false,
                    tag: 0,
                    ..self.template.clone()
                });
                self.channels.insert((from, to), Channel { flow, received: 0, open: VecDeque::from([mark]) });
                self.pair_of.insert(flow, (from, to));
            }
        }
    }
    /// A computation is over; the next one on its processor begins.
    fn computed(&mut self, now: Time, task: u32) -> Vec<(u32, Event)> {
        let Work::Compute { rank, cpu, .. } = self.script.work(task) else {
            return Vec::new();
        };
        let mut events = vec![(task, Event::Done)];
        let Some((busy, waiting)) = self.processors.get_mut(&(rank, cpu)) else { return events };
        *busy = waiting.pop_front();
        if let Some(next) = *busy {
            if let Work::Compute { time, .. } = self.script.work(next) {
                self.agenda.insert((now + time, true, next));
            }
            events.push((next, Event::Begun));
        }
        events
    }
    /// The message that an acknowledgement or a delivery is about.
    fn message(&mut self, told: &Acked, acknowledged: bool) -> Option<u64> {
        if !self.plan.persistent {
            return Some(told.tag);
        }
        let channel = self.channels.get_mut(self.pair_of.get(&told.flow)?)?;
        if acknowledged {
            channel.received = channel.received.saturating_sub(1);
            return channel.open.pop_front();
        }
        channel.received += 1;
        channel.open.get(channel.received - 1).copied()
    }
    fn complete(&mut self, now: Time, actions: &mut Actions) {
        let (started, bytes) = (self.started, self.plan.bytes);
        actions.push(match self.plan.bus {
            Some(bus) => Action::Collective { started, bytes, bus },
            None => Action::Block { started, bytes },
        });
        self.done += 1;
        if self.done < self.plan.repetitions {
            self.again(now);
        } else {
            self.over = true;
        }
    }
    /// The last acknowledgement of all ends what is left.
    fn end(&mut self, actions: &mut Actions) {
        if !self.over || self.unacknowledged > 0 {
            return;
        }
        self.channels.values().for_each(|c| actions.push(Action::Close(c.flow)));
        self.channels.clear();
        actions.push(Action::Stop);
    }
}

impl Workload for Schedule {
    fn next_event(&self) -> Time {
        self.agenda.first().map_or(Time::NEVER, |a| a.0)
    }
    fn on_event(&mut self, now: Time, actions: &mut Actions) {
        while self.next_event() <= now {
            let Some((_, ends, task)) = self.agenda.pop_first() else { return };
            if ends {
                let events = self.computed(now, task);
                self.follow(now, &events, actions);
            } else {
                let mut list = Vec::new();
                self.begin(now, task, &mut list, actions);
                self.go_on(now, list, actions);
            }
        }
        self.end(actions);
    }
    fn work(&self) -> Option<(u64, u64)> {
        let each = self.script.len() as u64;
        let under_way = if self.over { 0 } else { each - self.left as u64 };
        Some((self.done * each + under_way, self.plan.repetitions.checked_mul(each)?))
    }
    fn hears_deliveries(&self) -> bool {
        true
    }
    fn on_delivered(
        &mut self,
        now: Time,
        delivered: &Acked,
        _: &mut dyn FnMut() -> Dur,
        actions: &mut Actions,
    ) {
        let Some(mark) = self.message(delivered, false) else { return };
        if mark >> 32 != self.done {
            return;
        }
        let send = mark as u32;
        let mut events = vec![(send, Event::Arrived)];
        if let Work::Send { tag: Some(_), .. } = self.script.work(send) {
            match self.run.taker.get(&send) {
                Some(receive) => events.push((*receive, Event::Done)),
                None => _ = self.run.here.insert(send),
            }
        }
        self.follow(now, &events, actions);
    }
    fn on_acked(&mut self, now: Time, acked: &Acked, actions: &mut Actions) {
        self.unacknowledged -= 1;
        if let Some(mark) = self.message(acked, true).filter(|mark| mark >> 32 == self.done) {
            self.follow(now, &[(mark as u32, Event::Done)], actions);
        }
        self.end(actions);
    }
}
