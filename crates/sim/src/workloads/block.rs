//! Synchronized reads: every server sends its share of a block; the next block is requested when the client has this one, and the
//! request takes the idle delay of the path to each server. With instant requests the next block is requested when the last server
//! has its last acknowledgement, and the servers know at once.

use super::{Acked, Action, Actions, FlowRequest, Workload};
use penstock_core::{FlowId, Stream};
use penstock_units::{Dur, Time};

/// How the requests of a block are spread over time (kulkarni-agrawal-incast section 3.2: "a random scheduling
/// delay of up to 20 us between every consecutive data request" leaves two readings).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JitterMode {
    /// Server i's request follows that of server i-1 by U(0, jitter).
    Cumulative,
    /// Every request leaves after U(0, jitter), independently.
    Independent,
}

/// Synchronized reads over persistent connections.
pub struct SynchronizedReads {
    connections: Vec<FlowRequest>,
    share: u64,
    jitter: Dur,
    mode: JitterMode,
    /// Blocks still to be read; `u64::MAX` = until the end of the run.
    blocks: u64,
    /// What a request takes to each server; `None` = requests are instant.
    travel: Option<Vec<Dur>>,
    /// Blocks in all.
    all: u64,
    rng: Stream,
    flows: Vec<Option<FlowId>>,
    /// Requests on their way: when, to which server; in order of time.
    requests: Vec<(Time, usize)>,
    next: usize,
    /// Shares of this block that the client does not have yet; of instant requests, those that are not acknowledged.
    outstanding: usize,
    /// Shares that are not acknowledged, where requests travel.
    unacknowledged: usize,
    started: Time,
}

impl SynchronizedReads {
    /// Each of `connections` carries `share` bytes of every block.
    pub fn new(
        connections: Vec<FlowRequest>,
        share: u64,
        jitter: Dur,
        mode: JitterMode,
        blocks: u64,
        rng: Stream,
    ) -> SynchronizedReads {
        let flows = vec![None; connections.len()];
        let mut reads = SynchronizedReads {
            connections,
            share,
            jitter,
            mode,
            blocks,
            travel: None,
            all: blocks,
            rng,
            flows,
            requests: Vec::new(),
            next: 0,
            outstanding: 0,
            unacknowledged: 0,
            started: Time::ZERO,
        };
        reads.request_block(Time::ZERO);
        reads
    }

    /// The same, with requests that leave when the client has the block before, and travel.
    pub fn with_travel(mut self, travels: bool) -> SynchronizedReads {
        self.travel = travels.then(|| vec![Dur::ZERO; self.connections.len()]);
        self
    }

    fn request_block(&mut self, now: Time) {
        self.started = now;
        self.requests.clear();
        self.next = 0;
        self.outstanding = self.connections.len();
        let mut at = now;
        for server in 0..self.connections.len() {
            let delay = self.rng.dur_below(self.jitter);
            at = match self.mode {
                JitterMode::Cumulative => at + delay,
                JitterMode::Independent => now + delay,
            };
            let travel = self.travel.as_ref().map_or(Dur::ZERO, |delays| delays[server]);
            self.requests.push((at + travel, server));
        }
        self.requests.sort_by_key(|r| r.0);
    }
}

impl Workload for SynchronizedReads {
    fn next_event(&self) -> Time {
        self.requests.get(self.next).map_or(Time::NEVER, |r| r.0)
    }
    fn on_event(&mut self, now: Time, actions: &mut Actions) {
        while self.next_event() <= now {
            let server = self.requests[self.next].1;
            // A server is connected when it is first asked.
            let flow =
                *self.flows[server].get_or_insert_with(|| actions.open(self.connections[server].clone()));
            actions.push(Action::Write(flow, self.share));
            self.unacknowledged += 1;
            self.next += 1;
        }
    }
    fn prepare(&mut self, delay: &mut dyn FnMut(u32, u32) -> Dur) {
        let Some(delays) = &mut self.travel else { return };
        for (known, c) in delays.iter_mut().zip(&self.connections) {
            *known = delay(c.dst, c.src);
        }
        for (at, server) in &mut self.requests {
            *at = *at + delays[*server];
        }
        self.requests.sort_by_key(|r| r.0);
    }
    fn hears_deliveries(&self) -> bool {
        self.travel.is_some()
    }
    fn on_delivered(&mut self, now: Time, _: &Acked, _: &mut dyn FnMut() -> Dur, actions: &mut Actions) {
        if self.travel.is_some() {
            self.on_share(now, actions);
        }
    }
    fn work(&self) -> Option<(u64, u64)> {
        (self.all < u64::MAX).then_some((self.all - self.blocks, self.all))
    }
    fn on_acked(&mut self, now: Time, _acked: &Acked, actions: &mut Actions) {
        self.unacknowledged -= 1;
        if self.travel.is_none() {
            self.on_share(now, actions);
        }
        // The last acknowledgement of all ends the run.
        if self.blocks == 0 && self.unacknowledged == 0 {
            actions.push(Action::Stop);
        }
    }
}

impl SynchronizedReads {
    /// One more share of the block is complete.
    fn on_share(&mut self, now: Time, actions: &mut Actions) {
        self.outstanding -= 1;
        if self.outstanding > 0 {
            return;
        }
        actions.push(Action::Block { started: self.started, bytes: self.share * self.flows.len() as u64 });
        self.blocks -= 1;
        if self.blocks > 0 {
            self.request_block(now);
        } else {
            actions.push(Action::Over);
        }
    }
}
