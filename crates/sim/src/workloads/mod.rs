//! What hosts want to send. A workload opens connections, writes on them and hears when a write is acknowledged.

use penstock_core::{FlowId, Stream};
use penstock_units::{Dur, Time};
use std::sync::Arc;

pub mod all_to_all;
pub mod applications;
pub mod block;
pub mod closed;
pub mod collective;
pub mod flows;
pub mod goal;
pub mod incast;
pub mod loggops;
pub mod matrix;
pub mod open;
pub mod query;
pub mod schedule;
pub mod sizes;
pub mod trace;

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
    /// Free for the workload.
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

/// A write that has been acknowledged to its last byte.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// The connection.
    pub flow: FlowId,
    /// The workload's tag of the connection.
    pub tag: u64,
    /// When the write was made.
    pub started: Time,
    /// Its bytes.
    pub bytes: u64,
}

/// What a workload may do; carried out by the engine in the order given.
#[derive(Clone, Debug)]
pub enum Action {
    /// Open a connection. Numbers are given in the order of the requests: see [`Actions::open`].
    Open(FlowRequest),
    /// Write on an open connection.
    Write(FlowId, u64),
    /// No more writes on a connection.
    Close(FlowId),
    /// The application goes away: what was sent is delivered, the rest is forgotten, the connection closes.
    Leave(FlowId),
    /// A unit of application work (a block, a query) that ran from `started` until now is complete.
    Block {
        /// Its start.
        started: Time,
        /// Its bytes.
        bytes: u64,
    },
    /// The same for a collective operation.
    Collective {
        /// Its start.
        started: Time,
        /// Bytes of the buffer of a rank.
        bytes: u64,
        /// Its bus bandwidth as a multiple of the algorithm's.
        bus: f64,
    },
    /// The work is complete: what is measured ends now. The run goes on until [`Action::Stop`], for the last acknowledgements.
    Over,
    /// The work of this workload is complete. The run is when that of all workloads is.
    Stop,
}

/// The actions of one call.
#[derive(Default)]
pub struct Actions {
    list: Vec<Action>,
    next_flow: u32,
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
    /// Opens a connection and answers its number.
    pub fn open(&mut self, request: FlowRequest) -> FlowId {
        let id = FlowId(self.next_flow);
        self.next_flow += 1;
        self.list.push(Action::Open(request));
        id
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
    /// The same, and its connections stay open to the end.
    Lasting,
}

/// A source of flows, open or closed loop.
pub trait Workload: Send {
    /// Next time it wants to act by itself; [`Time::NEVER`] = when told.
    fn next_event(&self) -> Time;
    /// What it offers does not depend on what became of the earlier: it can offer more than a link carries.
    fn open_loop(&self) -> bool {
        false
    }
    /// What is known of it before the run.
    fn timetable(&self) -> Timetable {
        Timetable::Unknown
    }
    /// By itself it only opens connections with everything they carry, so that it can be asked for them ahead of time. Of those with a timetable.
    fn only_opens(&self) -> bool {
        false
    }
    /// How much of its work is complete, and how much there is; `None` where it has no end of its own. The bytes or messages of one workload
    /// count as much as those of another.
    fn work(&self) -> Option<(u64, u64)> {
        None
    }
    /// That time has come.
    fn on_event(&mut self, now: Time, actions: &mut Actions);
    /// One of its writes was acknowledged to the last byte.
    fn on_acked(&mut self, now: Time, acked: &Acked, actions: &mut Actions) {
        let _ = (now, acked, actions);
    }
    /// It wants to hear of deliveries ([`Self::on_delivered`]).
    fn hears_deliveries(&self) -> bool {
        false
    }
    /// One of its writes was received to the last byte. `back` answers what a packet without payload takes from the receiver to
    /// the sender in the idle network.
    fn on_delivered(
        &mut self,
        now: Time,
        delivered: &Acked,
        back: &mut dyn FnMut() -> Dur,
        actions: &mut Actions,
    ) {
        let _ = (now, delivered, back, actions);
    }
    /// Called once before the run, where there is a simulated network: `delay` answers what a packet without payload takes from
    /// one host to another in the idle network.
    fn prepare(&mut self, delay: &mut dyn FnMut(u32, u32) -> Dur) {
        let _ = delay;
    }
}
