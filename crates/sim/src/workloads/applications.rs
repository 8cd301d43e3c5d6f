//! Open-loop applications with start and stop times: a database that answers requests on a connection, and
//! file transfers over parallel streams, one connection per file.
//!
//! Only the bulk direction is simulated as packets. A database is an open loop: its requests are drawn as they arrive at the server. The
//! request of a file takes the idle delay of the path. The client goes on when it has a file that it gets, and when word has come back
//! that the server has one that it puts; with instant requests when a file is acknowledged.

use super::{Action, Actions, App, FlowRequest, Message, Tally, Timetable, Workload, Written};
use penstock_core::{FlowId, Stream};
use penstock_units::{Dur, Time};
use std::collections::VecDeque;

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
struct RequestResponse {
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

/// A database that offers `bps` bit/s of responses over connections like `connection`.
pub fn database(
    connection: FlowRequest,
    sizes: Uniform,
    bps: f64,
    active: Active,
    per_connection: Option<u64>,
    mut rng: Stream,
) -> Workload {
    let mean_gap = sizes.mean() * 8.0 / bps;
    let next = active.start + Dur::from_secs(rng.exponential(mean_gap));
    let app = RequestResponse {
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
    };
    Workload::open_loop(app, Timetable::Unknown, false).that_overloads()
}

impl App for RequestResponse {
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
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
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
            actions.push(Action::Write { flow, bytes, tag: 0 });
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

/// What file transfers offer.
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
    /// Requests of files, and word of those that have arrived, take the idle delay of the path.
    pub travel: bool,
}

/// File transfers of a client: every stream asks for files with exponential inter-arrival times and carries them one after the other, each
/// on a connection of its own: gets like `get`, puts like `put`. What still waits when the application stops is given up.
pub fn file_transfers(
    get: FlowRequest,
    put: FlowRequest,
    load: FileLoad,
    active: Active,
    mut rng: Stream,
) -> Workload {
    let mean_gap = load.sizes.mean() * 8.0 * load.streams as f64 / load.bps;
    let lane = |_| Lane {
        next: active.start + Dur::from_secs(rng.exponential(mean_gap)),
        waiting: VecDeque::new(),
        busy: false,
    };
    let lanes: Vec<Lane> = (0..load.streams).map(lane).collect();
    let travel = load.travel.then_some(get.protocol);
    let (client, server) = (get.dst, get.src);
    let mut app = FileClient { put, load, mean_gap, active, lanes, rng, next: Time::NEVER };
    app.find_next();
    let apps: Vec<(u32, Box<dyn App>)> =
        vec![(client, Box::new(app)), (server, Box::new(FileServer { get, travel: load.travel }))];
    Workload::new(apps, Tally::default()).with_travel(travel)
}

/// Places of the two applications.
const CLIENT: u32 = 0;
const SERVER: u32 = 1;

/// Messages. To the server: send a file on a stream. To the client: the file of a stream is complete.
const GET: u8 = 0;
const COMPLETE: u8 = 1;
/// Of the content of [`GET`] these lower bits are the bytes of the file, the others the stream.
const BYTES: u32 = 46;

/// The client of file transfers.
struct FileClient {
    put: FlowRequest,
    load: FileLoad,
    mean_gap: f64,
    active: Active,
    lanes: Vec<Lane>,
    rng: Stream,
    next: Time,
}

impl FileClient {
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
        if file.get {
            actions.send(SERVER, GET, (lane as u64) << BYTES | file.bytes);
        } else {
            let tag = lane as u64;
            actions.open(FlowRequest { bytes: file.bytes, close: true, tag, ..self.put.clone() });
        }
    }
    /// The file of a stream is complete.
    fn on_complete(&mut self, now: Time, lane: u64, actions: &mut Actions) {
        self.lanes[lane as usize].busy = false;
        self.start(now, lane as usize, actions);
    }
}

impl App for FileClient {
    fn next_event(&self) -> Time {
        self.next
    }
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
        for lane in 0..self.lanes.len() {
            while self.lanes[lane].next <= now {
                // Drawn on arrival, so that the same files are asked for whatever the network does.
                let bytes = self.load.sizes.draw(&mut self.rng);
                let file = File { bytes, get: self.rng.uniform() < self.load.gets };
                let gap = Dur::from_secs(self.rng.exponential(self.mean_gap));
                let l = &mut self.lanes[lane];
                l.waiting.push_back(file);
                l.next = l.next + gap;
                self.start(now, lane, actions);
            }
        }
        self.find_next();
    }
    fn on_acked(&mut self, now: Time, write: &Written, actions: &mut Actions) {
        if !self.load.travel {
            self.on_complete(now, write.tag, actions);
        }
    }
    fn on_delivered(&mut self, now: Time, write: &Written, actions: &mut Actions) {
        if self.load.travel {
            self.on_complete(now, write.tag, actions);
        }
    }
    fn on_message(&mut self, now: Time, message: &Message, actions: &mut Actions) {
        self.on_complete(now, message.word, actions);
    }
}

/// The server of file transfers.
struct FileServer {
    get: FlowRequest,
    travel: bool,
}

impl App for FileServer {
    fn next_event(&self) -> Time {
        Time::NEVER
    }
    fn on_timer(&mut self, _: Time, _: &mut Actions) {}
    fn on_acked(&mut self, _: Time, write: &Written, actions: &mut Actions) {
        if !self.travel {
            actions.send(CLIENT, COMPLETE, write.tag);
        }
    }
    fn on_delivered(&mut self, _: Time, write: &Written, actions: &mut Actions) {
        if self.travel {
            actions.send(CLIENT, COMPLETE, write.tag);
        }
    }
    fn on_message(&mut self, _: Time, message: &Message, actions: &mut Actions) {
        let (tag, bytes) = (message.word >> BYTES, message.word & ((1 << BYTES) - 1));
        actions.open(FlowRequest { bytes, close: true, tag, ..self.get.clone() });
    }
}
