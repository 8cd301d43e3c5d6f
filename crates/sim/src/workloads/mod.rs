//! What hosts want to send.
//!
//! A workload has an application ([`App`]) at each of its hosts. An application sees only its own host: its timers, its writes as
//! they are acknowledged, what is delivered to it, and messages from the workload's other applications. A message takes what a packet
//! without payload takes on the idle path; with `requests=instant` it takes no time. Counting over all hosts, as for blocks and
//! collectives, is the work of the [`Tally`].
//!
//! Open loops need no feedback, so their flows are known beforehand: one [`Timetable`] lists those of all hosts.

use crate::numbers::Numbers;
use penstock_core::{FlowId, Stream};
use penstock_units::Time;
use std::sync::Arc;

pub mod all_to_all;
pub mod applications;
pub mod closed;
pub mod collective;
pub mod dispatch;
pub mod flows;
pub mod goal;
pub mod incast;
pub mod loggops;
pub mod matrix;
pub mod open;
pub mod program;
pub mod query;
mod repetition;
pub mod schedule;
pub mod sizes;
pub mod trace;

pub use crate::metrics::tally::{Block, Tally};

/// A connection to be opened.
#[derive(Clone, Debug)]
pub struct FlowRequest {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Protocol, by position in the run's list.
    pub protocol: u16,
    /// Traffic class, 0..64.
    pub class: u8,
    /// Bytes to write at once; `u64::MAX` = without end.
    pub bytes: u64,
    /// Close after that write.
    pub close: bool,
    /// When it should be done; [`Time::NEVER`] = no deadline.
    pub due: Time,
    /// Tag of its first write, free for the workload.
    pub tag: u64,
}

impl FlowRequest {
    /// A flow of `bytes` that ends with them, of the run's first protocol.
    pub fn new(src: u32, dst: u32, bytes: u64) -> FlowRequest {
        FlowRequest {
            src,
            dst,
            protocol: 0,
            class: 0,
            bytes,
            close: bytes != u64::MAX,
            due: Time::NEVER,
            tag: 0,
        }
    }
}

/// Who may send to whom: any of `from` to any other host of `to`.
#[derive(Clone, Debug)]
pub struct Pairs {
    from: Vec<u32>,
    /// Shared: sources that each have a list of senders of their own have their destinations in common.
    to: Arc<[u32]>,
}

impl Pairs {
    /// `None` when some host of `from` could only send to itself.
    pub fn new(from: Vec<u32>, to: impl Into<Arc<[u32]>>) -> Option<Pairs> {
        let to = to.into();
        let possible = from.iter().all(|f| to.iter().any(|t| t != f));
        (possible && !from.is_empty()).then_some(Pairs { from, to })
    }
    /// Draws a sender, then one of its receivers.
    pub fn draw(&self, rng: &mut Stream) -> (u32, u32) {
        let pick = |list: &[u32], rng: &mut Stream| list[rng.below(list.len() as u64) as usize];
        let src = if self.from.len() == 1 { self.from[0] } else { pick(&self.from, rng) };
        if self.to.len() == 1 {
            return (src, self.to[0]);
        }
        loop {
            let dst = pick(&self.to, rng);
            if dst != src {
                return (src, dst);
            }
        }
    }
}

/// A write, as the applications at both of its ends hear of it.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// The connection.
    pub flow: FlowId,
    /// The host that made it.
    pub src: u32,
    /// The host that receives it.
    pub dst: u32,
    /// What its sender has marked it with.
    pub tag: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// What one application tells another of the same workload. It is no packet: the network does not see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sending application, by its place in the workload.
    pub from: u32,
    /// Its kind, free for the workload.
    pub kind: u8,
    /// Its content, free for the workload.
    pub word: u64,
}

/// What an application may do; carried out by the engine in the order given.
#[derive(Clone, Debug)]
pub enum Action {
    /// Open a connection from the application's own host. [`Actions::open`] answers its number.
    Open(FlowRequest),
    /// Write on an open connection.
    Write {
        /// The connection.
        flow: FlowId,
        /// How much.
        bytes: u64,
        /// What both ends hear with the write.
        tag: u64,
    },
    /// No more writes on a connection.
    Close(FlowId),
    /// The application goes away: what was sent is delivered, the rest is forgotten, the connection closes.
    Leave(FlowId),
    /// Send a message to an application of the same workload, by its place there.
    Send(u32, Message),
    /// A block of this number begins.
    Begin(u64, Block),
    /// A part of the block of this number is complete.
    Part(u64),
    /// The application has nothing more to do, and everything it has sent is acknowledged. A run ends when all of its applications
    /// have said so.
    Done,
}

/// The actions of one call.
#[derive(Default)]
pub struct Actions {
    list: Vec<Action>,
    numbers: Numbers,
    /// Place of the application that is called.
    place: u32,
}

impl Actions {
    /// Takes what has been asked for, to carry it out in this order.
    pub fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.list)
    }
    /// Nothing has been asked for.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    /// The list, carried out: its room is used again.
    pub(crate) fn give_back(&mut self, list: Vec<Action>) {
        if self.list.capacity() == 0 {
            self.list = list;
        }
    }
    /// Opens a connection and answers its number, which is [`crate::numbers::NONE`] for one that another logical process opens.
    pub fn open(&mut self, request: FlowRequest) -> FlowId {
        let id = self.numbers.next(request.src);
        self.list.push(Action::Open(request));
        id
    }
    /// Sends a message to the application at place `to` of the same workload.
    pub fn send(&mut self, to: u32, kind: u8, word: u64) {
        self.list.push(Action::Send(to, Message { from: self.place, kind, word }));
    }
    /// Anything else.
    pub fn push(&mut self, action: Action) {
        self.list.push(action);
    }
}

/// What is known before the run of what a workload will do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timetable {
    /// It listens to the network.
    Unknown,
    /// All: at its own times it opens connections with everything they carry, or leaves them.
    Fixed,
    /// All is known beforehand, and its connections stay open to the end.
    Lasting,
}

/// An application of a workload at one host.
pub trait App: Send {
    /// When it next acts by itself; [`Time::NEVER`] = when told.
    fn next_event(&self) -> Time;
    /// That time has come.
    fn on_timer(&mut self, now: Time, actions: &mut Actions);
    /// One of its writes was acknowledged to the last byte.
    fn on_acked(&mut self, now: Time, write: &Written, actions: &mut Actions) {
        let _ = (now, write, actions);
    }
    /// A write of another host of the workload was delivered to the last byte.
    fn on_delivered(&mut self, now: Time, write: &Written, actions: &mut Actions) {
        let _ = (now, write, actions);
    }
    /// A message has arrived.
    fn on_message(&mut self, now: Time, message: &Message, actions: &mut Actions) {
        let _ = (now, message, actions);
    }
    /// How much of its work is complete, and how much there is. Read only where the workload has an end ([`Workload::has_end`]).
    fn work(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// Applications that belong together.
pub struct Workload {
    /// Host and application, by place. A lone application without a host acts for all hosts.
    apps: Vec<(u32, Box<dyn App>)>,
    /// Host and place, in order of hosts.
    places: Vec<(u32, u32)>,
    tally: Tally,
    timetable: Timetable,
    only_opens: bool,
    overloads: bool,
    /// Its applications hear what becomes of writes.
    hears: bool,
    /// An acknowledged write is a part of the block whose number is its tag.
    counts_writes: bool,
    /// Position of the protocol whose packets its messages are as long as; `None` = they take no time.
    travel: Option<u16>,
    needs_deliveries: bool,
}

/// In the place of a host: all hosts.
const ALL: u32 = u32::MAX;

impl Workload {
    /// Applications at these hosts, of which each has one at most, and what counts over all of them.
    pub fn new(apps: Vec<(u32, Box<dyn App>)>, tally: Tally) -> Workload {
        let mut places: Vec<(u32, u32)> =
            apps.iter().zip(0..).map(|((host, _), place)| (*host, place)).collect();
        places.sort_unstable();
        debug_assert!(places.windows(2).all(|two| two[0].0 != two[1].0), "a host has one application");
        Workload {
            apps,
            places,
            tally,
            timetable: Timetable::Unknown,
            only_opens: false,
            overloads: false,
            hears: true,
            counts_writes: false,
            travel: None,
            needs_deliveries: false,
        }
    }
    /// One application that acts for all hosts at once, as no program of a real network could: for tests and probes. Such a run
    /// is made on one thread.
    pub fn central(app: impl App + 'static) -> Workload {
        Workload::new(vec![(ALL, Box::new(app))], Tally::default())
    }
    /// An open loop: the flows of all hosts, which are known beforehand and depend on nothing that happens. Its application hears
    /// of nothing.
    pub fn open_loop(app: impl App + 'static, timetable: Timetable, only_opens: bool) -> Workload {
        Workload { timetable, only_opens, hears: false, ..Workload::central(app) }
    }
    /// It can offer more than a link carries: the bytes that it offers are recorded.
    #[must_use]
    pub fn that_overloads(mut self) -> Workload {
        self.overloads = true;
        self
    }
    /// An acknowledged write is a part of the block whose number is its tag.
    #[must_use]
    pub fn that_counts_writes(mut self) -> Workload {
        self.counts_writes = true;
        self
    }
    /// What counts over all of its hosts.
    #[must_use]
    pub fn with_tally(mut self, tally: Tally) -> Workload {
        self.tally = tally;
        self
    }
    /// Its messages take what a packet without payload of this protocol takes on the idle path. `None`: no time.
    #[must_use]
    pub fn with_travel(mut self, protocol: Option<u16>) -> Workload {
        self.travel = protocol;
        self
    }
    /// It cannot do without [`App::on_delivered`].
    #[must_use]
    pub fn with_deliveries(mut self) -> Workload {
        self.needs_deliveries = true;
        self
    }
    /// What is known of it before the run.
    pub fn timetable(&self) -> Timetable {
        self.timetable
    }
    /// By itself it only opens connections with everything they carry, so that it can be asked for them ahead of time. Of those with
    /// a timetable.
    pub fn only_opens(&self) -> bool {
        self.only_opens
    }
    /// It can offer more than a link carries.
    pub fn overloads(&self) -> bool {
        self.overloads
    }
    /// An acknowledged write is a part of the block whose number is its tag.
    pub fn counts_writes(&self) -> bool {
        self.counts_writes
    }
    /// It cannot do without [`App::on_delivered`].
    pub fn needs_deliveries(&self) -> bool {
        self.needs_deliveries
    }
    /// Why its hosts must be in one logical process, if they must.
    pub(crate) fn joins_hosts(&self) -> Option<&'static str> {
        match self.apps[..] {
            [] => None,
            [(ALL, _)] if self.hears => Some("a workload acts for all hosts at once"),
            [_] if !self.has_end() => None,
            _ if self.travel.is_some() => None,
            _ => Some("its requests take no time (requests=instant)"),
        }
    }
    /// It counts blocks.
    pub(crate) fn has_blocks(&self) -> bool {
        self.counts_writes || self.tally.is_used()
    }
    /// It has an end of its own.
    pub fn has_end(&self) -> bool {
        self.tally.has_end()
    }
    /// The application of an open loop, or of [`Self::central`].
    ///
    /// # Panics
    /// When the workload has several.
    pub fn into_app(mut self) -> Box<dyn App> {
        assert_eq!(self.apps.len(), 1, "the workload has several applications");
        self.apps.remove(0).1
    }
    /// How much of its work is complete, and how much there is; `None` where it has no end of its own.
    fn work(&self) -> Option<(u64, u64)> {
        let sum = |(done, all), (more, of): (u64, u64)| (done + more, u64::saturating_add(all, of));
        self.has_end().then(|| self.apps.iter().map(|(_, app)| app.work()).fold((0, 0), sum))
    }
    /// Place of the application that hears what happens at `host`, if any does.
    fn place_at(&self, host: u32) -> Option<u32> {
        if !self.hears {
            return None;
        }
        match self.places[..] {
            [(ALL, place)] => Some(place),
            _ => self.places.binary_search_by_key(&host, |at| at.0).ok().map(|at| self.places[at].1),
        }
    }
}
