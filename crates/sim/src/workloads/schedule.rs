//! A schedule: sends, computations and receives that wait for each other. Collectives, GOAL files and connection matrices are all
//! schedules.
//!
//! Each rank is an application that carries out its own tasks. A send belongs to the rank that sends, and the arrival of its data to the
//! rank that receives. A task without a rank belongs to the rank of the first event that it waits for. If a task waits for an event at
//! another rank, that rank sends a message. A send that a receive may ask for is announced by a message, too. Receives are matched in the
//! order in which these messages arrive.

use super::collective::{Algorithm, Collective};
use super::program::{Envelope, Event, Mailbox, Program, Task, Work};
use super::repetition::Repetition;
use super::{Action, Actions, App, Block, FlowRequest, Message, Tally, Workload, Written};
use penstock_core::rng::Entity;
use penstock_core::{FlowId, Stream};
use penstock_units::{Dur, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What a schedule carries out.
#[derive(Clone, Debug)]
pub enum Script {
    /// Tasks, all of them in memory.
    Tasks(Program),
    /// Messages of a collective operation that follow from one other each: what is next is worked out when it is due.
    Rounds(Collective),
}

impl Collective {
    /// Its messages and their order: worked out one by one where a message follows from one other, else all of them.
    pub fn script(&self) -> Script {
        match self.algorithm {
            Algorithm::Tree => {
                let mut program = Program::default();
                self.tree(&mut program);
                Script::Tasks(program)
            }
            _ => Script::Rounds(*self),
        }
    }
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
    /// How many ranks it has tasks for.
    pub fn ranks(&self) -> u32 {
        match self {
            Script::Tasks(program) => {
                let last = |t: &Task| match t.work {
                    Work::Send { from, to, .. } => Some(from.max(to)),
                    work => work.rank(),
                };
                program.tasks.iter().filter_map(last).max().map_or(1, |last| last + 1)
            }
            Script::Rounds(collective) => collective.ranks,
        }
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
}

/// How a schedule is carried out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The first begins then.
    pub start: Time,
    /// Ranks begin U(0, this) later.
    pub spread: Dur,
    /// What ranks tell each other takes the idle delay of the path.
    pub travel: bool,
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

/// What the ranks of a schedule have in common.
struct Common {
    script: Script,
    /// The rank that keeps each task, and its position among those of that rank.
    kept: Vec<(u32, u32)>,
    /// Tasks in the order of the ranks that keep them, and where those of each rank begin.
    by_rank: Vec<u32>,
    ranks: Vec<usize>,
    template: FlowRequest,
    /// Host of each rank.
    hosts: Vec<u32>,
    plan: Plan,
}

impl Common {
    fn new(mut script: Script, template: FlowRequest, hosts: Vec<u32>, plan: Plan) -> Common {
        let mut common = Common {
            kept: Vec::new(),
            by_rank: Vec::new(),
            ranks: Vec::new(),
            template,
            hosts,
            plan,
            script: Script::Tasks(Program::default()),
        };
        if let Script::Tasks(program) = &mut script {
            program.put_in_order();
            let mut rank: Vec<Option<u32>> = program.tasks.iter().map(|t| t.work.rank()).collect();
            for (of, event, task) in &program.edges {
                let known = match (program.tasks[*of as usize].work, event) {
                    (Work::Send { to, .. }, Event::Arrived) => Some(to),
                    (work, _) => work.rank(),
                };
                rank[*task as usize] = rank[*task as usize].or(known);
            }
            let mut count = vec![0; script.ranks() as usize];
            common.kept = rank
                .into_iter()
                .map(|rank| {
                    let rank = rank.unwrap_or(0);
                    count[rank as usize] += 1;
                    (rank, count[rank as usize] - 1)
                })
                .collect();
            common.by_rank = (0..common.kept.len() as u32).collect();
            common.by_rank.sort_by_key(|task| common.kept[*task as usize].0);
            common.ranks = std::iter::once(0)
                .chain(count)
                .scan(0, |sum, n| {
                    *sum += n as usize;
                    Some(*sum)
                })
                .collect();
        }
        common.script = script;
        common
    }
    /// The rank that keeps a task.
    fn keeper(&self, task: u32) -> u32 {
        match &self.script {
            Script::Tasks(_) => self.kept[task as usize].0,
            Script::Rounds(collective) => collective.message(task).0,
        }
    }
    fn block(&self, started: Time) -> Block {
        let Plan { bytes, bus, .. } = self.plan;
        Block { started, parts: u64::from(self.script.ranks()), bytes, bus }
    }
    /// By rank: the tasks that are complete there when they are, and the messages that it sends.
    fn shares(&self) -> Vec<(u64, u64)> {
        let ranks = self.script.ranks();
        if let Script::Rounds(c) = &self.script {
            // Every rank sends and receives one in each round.
            return vec![(c.messages() / u64::from(ranks), c.messages() / u64::from(ranks)); ranks as usize];
        }
        let mut shares = vec![(0, 0); ranks as usize];
        for task in 0..self.kept.len() as u32 {
            let keeper = self.keeper(task);
            let at = match self.script.work(task) {
                Work::Send { to, .. } => {
                    shares[keeper as usize].1 += 1;
                    if self.plan.until_acknowledged {
                        keeper
                    } else {
                        to
                    }
                }
                _ => keeper,
            };
            shares[at as usize].0 += 1;
        }
        shares
    }
    /// The tasks that a rank keeps.
    fn tasks(&self, rank: u32) -> Box<dyn Iterator<Item = u32> + '_> {
        match &self.script {
            Script::Tasks(_) => {
                let of = &self.by_rank[self.ranks[rank as usize]..self.ranks[rank as usize + 1]];
                Box::new(of.iter().copied())
            }
            Script::Rounds(c) => Box::new((rank..c.messages() as u32).step_by(c.ranks as usize)),
        }
    }
    /// Those of them that wait for no other.
    fn first(&self, rank: u32) -> Box<dyn Iterator<Item = u32> + '_> {
        let tasks = self.tasks(rank);
        match &self.script {
            Script::Tasks(program) => Box::new(tasks.filter(|t| program.tasks[*t as usize].waits == 0)),
            Script::Rounds(c) => Box::new(tasks.take_while(|t| *t < c.begins())),
        }
    }
}

/// Messages between ranks: an event that a task waits for has happened; a send announces itself.
const EVENT: u8 = 0;
const ENVELOPE: u8 = 1;

/// What a rank hears of a task.
#[derive(Clone, Copy)]
enum Heard {
    Event,
    Envelope,
    Arrived,
    Acknowledged,
}

/// A rank of a schedule under way.
struct Rank {
    common: Arc<Common>,
    state: State,
}

/// How far a rank is.
struct State {
    rank: u32,
    rng: Stream,
    repetition: Repetition,
    started: Time,
    /// Events that each task it keeps still waits for.
    waits: Vec<u32>,
    /// How often each [`Work::Turns`] has let a task begin.
    turns: BTreeMap<u32, u32>,
    mailbox: Mailbox,
    /// What begins or ends at a time.
    agenda: BTreeSet<(Time, bool, u32)>,
    /// By processor: the task it works on, and those that wait for it.
    processors: BTreeMap<u32, (Option<u32>, VecDeque<u32>)>,
    /// Connections that are used for several messages, by receiving rank.
    connections: BTreeMap<u32, FlowId>,
    /// Tasks that are complete here when they are: in all repetitions, and of this one left.
    share: u64,
    left: u64,
    /// Sends of a repetition, and of this one those that have not begun.
    sends: u64,
    unsent: u64,
    /// Messages that are not acknowledged, of all repetitions.
    unacknowledged: u64,
    /// Its share of this repetition is complete.
    finished: bool,
    /// What it has heard of repetitions that have not begun here.
    ahead: Vec<(u64, Heard)>,
}

/// `script` with rank i at `hosts[i]`; messages are flows like `template`. A program passes [`Program::check`]. The random streams of the
/// ranks are numbered from `stream` on.
pub fn schedule(
    script: Script,
    template: FlowRequest,
    hosts: Vec<u32>,
    plan: Plan,
    (seed, run, stream): (u64, u64, u64),
) -> Workload {
    let travel = plan.travel.then_some(template.protocol);
    let ranks = script.ranks();
    let common = Arc::new(Common::new(script, template, hosts, plan));
    let plan = &common.plan;
    let shares = common.shares();
    let mut tally = Tally::of(plan.repetitions);
    tally.begin(0, common.block(plan.start));
    let mut apps: Vec<(u32, Box<dyn App>)> = Vec::with_capacity(ranks as usize);
    for rank in 0..ranks {
        let (share, sends) = shares[rank as usize];
        let mut state = State {
            rank,
            rng: Stream::new(seed, run, Entity::Workload, stream + u64::from(rank)),
            repetition: Repetition::first(ranks, plan.repetitions),
            started: Time::ZERO,
            waits: Vec::new(),
            turns: BTreeMap::new(),
            mailbox: Mailbox::default(),
            agenda: BTreeSet::new(),
            processors: BTreeMap::new(),
            connections: BTreeMap::new(),
            share,
            left: 0,
            sends,
            unsent: 0,
            unacknowledged: 0,
            finished: false,
            ahead: Vec::new(),
        };
        state.again(&common, plan.start);
        apps.push((common.hosts[rank as usize], Box::new(Rank { common: common.clone(), state })));
    }
    Workload::new(apps, tally).with_travel(travel).with_deliveries()
}

impl State {
    /// A repetition begins.
    fn again(&mut self, c: &Common, at: Time) {
        if let Script::Tasks(program) = &c.script {
            let waits = |task: u32| program.tasks[task as usize].waits;
            self.waits = c.tasks(self.rank).map(waits).collect();
            (self.turns, self.mailbox) = (BTreeMap::new(), Mailbox::default());
        }
        (self.left, self.unsent, self.started, self.finished) = (self.share, self.sends, at, false);
        let later = self.rng.dur_below(c.plan.spread);
        for task in c.first(self.rank) {
            let spread = if c.script.work(task).rank().is_some() { later } else { Dur::ZERO };
            self.agenda.insert((at + spread + c.script.after(task), false, task));
        }
    }
    /// Content of what it says of a task, and tag of a message: the repetition, too.
    fn mark(&self, task: u32) -> u64 {
        self.repetition.number() << 32 | u64::from(task)
    }
    /// Something has happened to a task of a repetition, here or elsewhere.
    fn hear(&mut self, c: &Common, now: Time, mark: u64, heard: Heard, actions: &mut Actions) {
        let (repetition, task) = (mark >> 32, mark as u32);
        if repetition > self.repetition.number() {
            self.ahead.push((mark, heard));
        }
        if repetition != self.repetition.number() {
            return;
        }
        let mut list = Vec::new();
        match heard {
            Heard::Event => self.happen(c, task, &mut list, actions),
            Heard::Acknowledged => self.event(c, task, Event::Done, &mut list, actions),
            Heard::Arrived => {
                self.event(c, task, Event::Arrived, &mut list, actions);
                if let Work::Send { tag: Some(_), .. } = c.script.work(task) {
                    match self.mailbox.taker.get(&task).copied() {
                        Some(receive) => self.event(c, receive, Event::Done, &mut list, actions),
                        None => _ = self.mailbox.here.insert(task),
                    }
                }
            }
            Heard::Envelope => {
                if let (Script::Tasks(p), Work::Send { from, tag: Some(tag), .. }) =
                    (&c.script, c.script.work(task))
                {
                    let receive = self.mailbox.announce(p, Envelope { send: task, from, tag });
                    if let Some(receive) = receive.filter(|_| self.mailbox.here.remove(&task)) {
                        self.event(c, receive, Event::Done, &mut list, actions);
                    }
                }
            }
        }
        self.go_on(c, now, list, actions);
    }
    /// An event of a task that happens at this rank: what may begin now is appended to `list`.
    fn event(&mut self, c: &Common, task: u32, event: Event, list: &mut Vec<u32>, actions: &mut Actions) {
        let last = match c.script.work(task) {
            Work::Send { .. } if !c.plan.until_acknowledged => Event::Arrived,
            _ => Event::Done,
        };
        self.left -= u64::from(event == last);
        match &c.script {
            Script::Tasks(p) => p.after(task, event).for_each(|next| self.happen(c, next, list, actions)),
            Script::Rounds(r) => {
                r.next(task, event).into_iter().for_each(|next| self.happen(c, next, list, actions))
            }
        }
    }
    /// An event that a task waits for has happened: the rank that keeps it is told.
    fn happen(&mut self, c: &Common, task: u32, list: &mut Vec<u32>, actions: &mut Actions) {
        let keeper = c.keeper(task);
        if keeper != self.rank {
            actions.send(keeper, EVENT, self.mark(task));
            return;
        }
        let Script::Tasks(p) = &c.script else {
            list.push(task);
            return;
        };
        let waits = &mut self.waits[c.kept[task as usize].1 as usize];
        if let Some(next) = p.happen(task, waits, &mut self.turns, list) {
            self.happen(c, next, list, actions);
        }
    }
    /// Begins the tasks of a list, and what may begin because of them, in order: what was let go first begins first.
    fn go_on(&mut self, c: &Common, now: Time, mut list: Vec<u32>, actions: &mut Actions) {
        let mut at = 0;
        while at < list.len() {
            let task = list[at];
            at += 1;
            let after = self.started + c.script.after(task);
            if after > now {
                self.agenda.insert((after, false, task));
            } else {
                self.begin(c, now, task, &mut list, actions);
            }
        }
        if self.left == 0 && !self.finished {
            self.finished = true;
            self.repetition.finish(actions);
        }
        self.end(actions);
    }
    fn begin(&mut self, c: &Common, now: Time, task: u32, list: &mut Vec<u32>, actions: &mut Actions) {
        match c.script.work(task) {
            Work::Join => {
                self.event(c, task, Event::Begun, list, actions);
                self.event(c, task, Event::Done, list, actions);
            }
            // Those that wait for it begin one by one.
            Work::Turns => self.left -= 1,
            Work::Send { to, bytes, tag, .. } => {
                self.unacknowledged += 1;
                self.unsent -= 1;
                self.send(c, to, bytes, self.mark(task), actions);
                if tag.is_some() {
                    actions.send(to, ENVELOPE, self.mark(task));
                }
                self.event(c, task, Event::Begun, list, actions);
            }
            Work::Receive { .. } => {
                let send = match &c.script {
                    Script::Tasks(program) => self.mailbox.post(program, task),
                    Script::Rounds(_) => None,
                };
                self.event(c, task, Event::Begun, list, actions);
                if send.is_some_and(|send| self.mailbox.here.remove(&send)) {
                    self.event(c, task, Event::Done, list, actions);
                }
            }
            Work::Compute { cpu, time, .. } => {
                let (busy, waiting) = self.processors.entry(cpu).or_default();
                if busy.is_some() {
                    waiting.push_back(task);
                    return;
                }
                *busy = Some(task);
                self.agenda.insert((now + time, true, task));
                self.event(c, task, Event::Begun, list, actions);
            }
        }
    }
    fn send(&mut self, c: &Common, to: u32, bytes: u64, tag: u64, actions: &mut Actions) {
        let Common { template, hosts, plan, .. } = c;
        let (src, dst) = (hosts[self.rank as usize], hosts[to as usize]);
        let close = !plan.persistent && bytes != u64::MAX;
        match self.connections.get(&to) {
            Some(flow) => actions.push(Action::Write { flow: *flow, bytes, tag }),
            None => {
                let flow = actions.open(FlowRequest { src, dst, bytes, close, tag, ..template.clone() });
                if plan.persistent {
                    self.connections.insert(to, flow);
                }
            }
        }
    }
    /// A computation is over; the next one on its processor begins.
    fn computed(&mut self, c: &Common, now: Time, task: u32, list: &mut Vec<u32>, actions: &mut Actions) {
        let Work::Compute { cpu, .. } = c.script.work(task) else { return };
        let next = self.processors.get_mut(&cpu).and_then(|(busy, waiting)| {
            *busy = waiting.pop_front();
            *busy
        });
        self.event(c, task, Event::Done, list, actions);
        let Some(next) = next else { return };
        if let Work::Compute { time, .. } = c.script.work(next) {
            self.agenda.insert((now + time, true, next));
        }
        self.event(c, next, Event::Begun, list, actions);
    }
    /// The last acknowledgement of all ends what is left.
    fn end(&mut self, actions: &mut Actions) {
        if self.finished && self.repetition.is_last() && self.unsent == 0 && self.unacknowledged == 0 {
            std::mem::take(&mut self.connections)
                .values()
                .for_each(|flow| actions.push(Action::Close(*flow)));
            actions.push(Action::Done);
        }
    }
}

impl App for Rank {
    fn next_event(&self) -> Time {
        let state = &self.state;
        // A rank that has nothing to do says so at the beginning.
        let idle = state.left == 0 && !state.finished;
        let next = state.agenda.first().map_or(Time::NEVER, |a| a.0);
        if idle {
            next.min(state.started)
        } else {
            next
        }
    }
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
        let Rank { common: c, state } = self;
        while let Some((_, ends, task)) = state.agenda.first().copied().filter(|first| first.0 <= now) {
            state.agenda.pop_first();
            let mut list = Vec::new();
            if ends {
                state.computed(c, now, task, &mut list, actions);
            } else {
                state.begin(c, now, task, &mut list, actions);
            }
            state.go_on(c, now, list, actions);
        }
        state.go_on(c, now, Vec::new(), actions);
    }
    fn on_acked(&mut self, now: Time, write: &Written, actions: &mut Actions) {
        let Rank { common: c, state } = self;
        state.unacknowledged -= 1;
        state.hear(c, now, write.tag, Heard::Acknowledged, actions);
        state.end(actions);
    }
    fn on_delivered(&mut self, now: Time, write: &Written, actions: &mut Actions) {
        self.state.hear(&self.common, now, write.tag, Heard::Arrived, actions);
    }
    fn on_message(&mut self, now: Time, message: &Message, actions: &mut Actions) {
        let Rank { common: c, state } = self;
        if state.repetition.on_message(message, actions) {
            if state.rank == 0 {
                actions.push(Action::Begin(state.repetition.number(), c.block(now)));
            }
            state.again(c, now);
            let (now_due, ahead) = std::mem::take(&mut state.ahead)
                .into_iter()
                .partition(|(mark, _)| mark >> 32 == message.word);
            state.ahead = ahead;
            let now_due: Vec<_> = now_due;
            now_due.into_iter().for_each(|(mark, heard)| state.hear(c, now, mark, heard, actions));
            return;
        }
        match message.kind {
            EVENT => state.hear(c, now, message.word, Heard::Event, actions),
            ENVELOPE => state.hear(c, now, message.word, Heard::Envelope, actions),
            _ => {}
        }
    }
    fn work(&self) -> (u64, u64) {
        let State { share, left, repetition, .. } = &self.state;
        let all = self.common.plan.repetitions.saturating_mul(*share);
        (repetition.number() * share + share - left, all)
    }
}
