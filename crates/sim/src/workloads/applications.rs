//! Open-loop applications with start and stop times: a database that answers requests on a connection, and
//! file transfers over parallel streams, one connection per file.
//!
//! Only the bulk direction is simulated as packets: a request acts at its server at the moment it is drawn. A stream that has waited
//! for the file before goes on when word has come back that the receiver has it, which takes the idle delay of the path; with instant
//! requests when the file is acknowledged.

use super::{Acked, Action, Actions, FlowRequest, Workload};
use penstock_core::{FlowId, Stream};
use penstock_units::{Dur, Time};
use std::collections::{BTreeSet, VecDeque};

/// Sizes uniform between two numbers of bytes, both included.
#[derive(Clone, Copy, Debug)]
pub struct Uniform {
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
}

impl Uniform {
    /// One size.
    pub fn draw(&self, rng: &mut Stream) -> u64 {
        self.min + rng.below(self.max - self.min + 1)
    }
    /// Mean in bytes.
    pub fn mean(&self) -> f64 {
        (self.min + self.max) as f64 / 2.0
    }
}

/// When an application runs.
#[derive(Clone, Copy, Debug)]
pub struct Active {
    /// First request at the earliest.
    pub start: Time,
    /// No request from here on.
    pub stop: Time,
}

/// A database: requests with exponential inter-arrival times, responses on a permanent connection or on one
/// that serves a given number of them.
pub struct RequestResponse {
    connection: FlowRequest,
    sizes: Uniform,
    mean_gap: f64,
    active: Active,
    /// Responses per connection; `None` = one permanent connection, opened at time zero.
    per_connection: Option<u64>,
    rng: Stream,
    flow: Option<FlowId>,
    served: u64,
    next: Time,
    opened: bool,
}

impl RequestResponse {
    /// Offers `bps` bit/s of responses over connections like `connection`.
    pub fn new(
        connection: FlowRequest,
        sizes: Uniform,
        bps: f64,
        active: Active,
        per_connection: Option<u64>,
        mut rng: Stream,
    ) -> RequestResponse {
        let mean_gap = sizes.mean() * 8.0 / bps;
        let next = active.start + Dur::from_secs(rng.exponential(mean_gap));
        RequestResponse {
            connection,
            sizes,
            mean_gap,
            active,
            per_connection,
            rng,
            flow: None,
            served: 0,
            next,
            opened: false,
        }
    }
}

impl Workload for RequestResponse {
    fn open_loop(&self) -> bool {
        true
    }
    fn next_event(&self) -> Time {
        if self.per_connection.is_none() && !self.opened {
            return Time::ZERO;
        }
        if self.next < self.active.stop {
            self.next
        } else {
            Time::NEVER
        }
    }
    fn on_event(&mut self, now: Time, actions: &mut Actions) {
        if self.per_connection.is_none() && !self.opened {
            self.flow = Some(actions.open(self.connection.clone()));
        }
        self.opened = true;
        while self.next_event() <= now {
            let bytes = self.sizes.draw(&mut self.rng);
            let flow = match self.flow {
                Some(flow) => flow,
                None => actions.open(self.connection.clone()),
            };
            self.flow = Some(flow);
            actions.push(Action::Write(flow, bytes));
            self.served += 1;
            if Some(self.served) == self.per_connection {
                self.served = 0;
                actions.push(Action::Close(flow));
                self.flow = None;
            }
            self.next = self.next + Dur::from_secs(self.rng.exponential(self.mean_gap));
        }
    }
}

/// A file asked for.
#[derive(Clone, Copy)]
struct File {
    bytes: u64,
    get: bool,
}

/// One of the parallel streams: it carries one file at a time.
struct Lane {
    next: Time,
    waiting: VecDeque<File>,
    busy: bool,
}

/// File transfers: every stream asks for files with exponential inter-arrival times and carries them one after
/// the other, each on a connection of its own. What still waits when the application stops is given up.
pub struct FileTransfers {
    get: FlowRequest,
    put: FlowRequest,
    gets: f64,
    sizes: Uniform,
    mean_gap: f64,
    active: Active,
    lanes: Vec<Lane>,
    rng: Stream,
    next: Time,
    travel: bool,
    /// When which stream hears that its file has arrived.
    heard: BTreeSet<(Time, usize)>,
}

/// What a [`FileTransfers`] offers.
#[derive(Clone, Copy, Debug)]
pub struct FileLoad {
    /// Files of both directions together, bit/s.
    pub bps: f64,
    /// Fraction of the files that are read from the server.
    pub gets: f64,
    /// Sizes.
    pub sizes: Uniform,
    /// Parallel streams.
    pub streams: u64,
    /// A stream goes on when its file has arrived and word of it has come back, not when it is acknowledged.
    pub travel: bool,
}

impl FileTransfers {
    /// Gets over connections like `get`, puts over connections like `put`.
    pub fn new(
        get: FlowRequest,
        put: FlowRequest,
        load: FileLoad,
        active: Active,
        mut rng: Stream,
    ) -> FileTransfers {
        let mean_gap = load.sizes.mean() * 8.0 * load.streams as f64 / load.bps;
        let lanes = (0..load.streams)
            .map(|_| Lane {
                next: active.start + Dur::from_secs(rng.exponential(mean_gap)),
                waiting: VecDeque::new(),
                busy: false,
            })
            .collect();
        let mut transfers = FileTransfers {
            get,
            put,
            gets: load.gets,
            sizes: load.sizes,
            mean_gap,
            active,
            lanes,
            rng,
            next: Time::NEVER,
            travel: load.travel,
            heard: BTreeSet::new(),
        };
        transfers.find_next();
        transfers
    }

    fn find_next(&mut self) {
        let next = self.lanes.iter().map(|l| l.next).min().unwrap_or(Time::NEVER);
        self.next = if next < self.active.stop { next } else { Time::NEVER };
    }

    fn start(&mut self, now: Time, lane: usize, actions: &mut Actions) {
        let l = &mut self.lanes[lane];
        if l.busy || now >= self.active.stop {
            return;
        }
        let Some(file) = l.waiting.pop_front() else { return };
        l.busy = true;
        let template = if file.get { &self.get } else { &self.put };
        actions.open(FlowRequest { bytes: file.bytes, close: true, tag: lane as u64, ..template.clone() });
    }
}

impl Workload for FileTransfers {
    fn next_event(&self) -> Time {
        self.next.min(self.heard.first().map_or(Time::NEVER, |h| h.0))
    }
    fn on_event(&mut self, now: Time, actions: &mut Actions) {
        while self.heard.first().is_some_and(|h| h.0 <= now) {
            let Some((_, lane)) = self.heard.pop_first() else { break };
            self.lanes[lane].busy = false;
            self.start(now, lane, actions);
        }
        for lane in 0..self.lanes.len() {
            while self.lanes[lane].next <= now {
                // Drawn on arrival, so that the same files are asked for whatever the network does.
                let file =
                    File { bytes: self.sizes.draw(&mut self.rng), get: self.rng.uniform() < self.gets };
                let gap = Dur::from_secs(self.rng.exponential(self.mean_gap));
                let l = &mut self.lanes[lane];
                l.waiting.push_back(file);
                l.next = l.next + gap;
                self.start(now, lane, actions);
            }
        }
        self.find_next();
    }
    fn on_acked(&mut self, now: Time, acked: &Acked, actions: &mut Actions) {
        if self.travel {
            return;
        }
        let lane = acked.tag as usize;
        self.lanes[lane].busy = false;
        self.start(now, lane, actions);
    }
    fn hears_deliveries(&self) -> bool {
        self.travel
    }
    fn on_delivered(&mut self, now: Time, delivered: &Acked, back: &mut dyn FnMut() -> Dur, _: &mut Actions) {
        if self.travel {
            self.heard.insert((now + back(), delivered.tag as usize));
        }
    }
}
