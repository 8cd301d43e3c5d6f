//! The applications: the simulator's workloads on real sockets.
//!
//! One thread carries out a workload's actions on non-blocking sockets of the hosts' namespaces (`workloads`). As in
//! the simulator, a write is complete when the kernel reports the acknowledgement of its last byte.

mod workloads;

use crate::clock::Clock;
use crate::histogram::Histogram;
use crate::hosts::{self, Host};
use crate::idle::AckWaits;
use crate::switch::Announced;
use crate::sys::{self, Poll, Ready};
use crate::ticks::Place;
use crate::waits::Reads;
use penstock_core::quantity::{ACKED, ALPHA, CWND, SRTT};
use penstock_core::{FlowId, ParamError};
use penstock_sim::engine::Progress;
use penstock_sim::metrics::{Entity, FlowCounters, FlowRecord, Recorder, Sample, Transfer};
use penstock_sim::topology::Keys;
use penstock_sim::workloads::dispatch::{Applications as Dispatch, Call};
use penstock_sim::workloads::{FlowRequest, Workload, Written};
use penstock_units::{Dur, Time};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Port the receivers listen on.
pub const LISTEN: u16 = 5001;
/// First source port, and how many there are.
const FIRST_PORT: u16 = 10_000;
const PORTS: u32 = 50_000;
/// The longest sleep: a cancelled run ends within it.
const NAP: Dur = Dur::millis(10);
/// How often counters are checked for an acknowledgement whose report was lost.
const CHECK: Dur = Dur::millis(50);
/// Bytes handed to the kernel at once.
const CHUNK: usize = 256 * 1024;
/// What a receiver takes off a socket at once.
const SINK: usize = 16 << 20;
/// Bytes that the first system call of a write copies. Copying all of a long write takes tens of microseconds, in which
/// other writes due at the same time would wait. It is large enough for a short write to be one call, because a kernel
/// takes a second call after the first was sent for a pause of the application.
const FIRST: usize = 64 * 1024;
/// Kernel counters that are summed over the hosts: entries into fast recovery with and without SACK, tail-loss probes.
pub const COUNTERS: &[&str] = &["TCPSackRecovery", "TCPRenoRecovery", "TCPLossProbes"];

const SENDER: u64 = 0;
const RECEIVER: u64 = 1;
const LISTENER: u64 = 2;
const fn token(kind: u64, number: u32) -> u64 {
    kind << 32 | number as u64
}

/// Times of a path that is idle, in seconds.
pub struct Idle {
    /// Its round trip.
    pub round_trip: f64,
    /// A transfer by its bytes.
    pub transfer: Box<dyn Fn(u64) -> f64 + Send>,
}

/// Finds the paths of a connection, by its number, and answers what they take when they are idle.
pub type Check = Box<dyn FnMut(&FlowRequest, u64) -> Result<Idle, ParamError> + Send>;

/// What the applications need of a run.
pub struct Plan {
    /// Hosts by node, `None` for switches.
    pub hosts: Vec<Option<Host>>,
    /// Workloads, in declared order.
    pub workloads: Vec<Workload>,
    /// Names of the congestion controls by protocol, as the kernel knows them.
    pub controls: Vec<String>,
    /// That of the receivers.
    pub receiver_control: String,
    /// What is recorded.
    pub recorder: Recorder,
    /// For the switch.
    pub announced: Arc<Announced>,
    /// The run's clock.
    pub clock: Clock,
    /// End of warm-up and of the run.
    pub warmup: Time,
    /// See `warmup`.
    pub end: Time,
    /// Ours, or set by the switch when it dies.
    pub stop: Arc<AtomicBool>,
    /// The switch is told when data are read.
    pub reads: Arc<Reads>,
    /// Waits for delayed ACKs, which the switch measures.
    pub ack_waits: AckWaits,
    /// Where this thread runs.
    pub place: Arc<Place>,
    /// For who watches the run.
    pub progress: Arc<Progress>,
    /// Paths are checked with this before a connection is announced.
    pub check: Check,
    /// Latest alpha of a connection of our DCTCP, by source port.
    pub alpha: Option<Box<dyn Fn(u16) -> Option<f64> + Send>>,
}

struct Flow {
    socket: Socket,
    port: u16,
    accepted: Option<Socket>,
    workload: u32,
    record: FlowRecord,
    writes: VecDeque<Transfer>,
    /// Bytes the application has written, those the kernel took, and those the receiver has read.
    written: u64,
    handed: u64,
    received: u64,
    undelivered: usize,
    closing: bool,
    endless: bool,
    due: Time,
    idle: Idle,
    /// Its samples are kept.
    has_place: bool,
    /// Counters at the end of warm-up.
    baseline: FlowCounters,
}

/// What the applications leave.
pub struct Applications {
    /// The recorder with its tables.
    pub recorder: Recorder,
    /// Kernel counters since the end of warm-up, in the order of [`COUNTERS`].
    pub counters: Vec<u64>,
    /// Packets dropped by devices, over the whole run.
    pub device_drops: u64,
    /// False when it was cancelled.
    pub completed: bool,
    /// A workload ended the run.
    pub stopped: bool,
    /// How late this thread's own timers were, and connections begun, at most.
    pub timer_lag: Dur,
    /// Acknowledgements found by looking, because no report came.
    pub unreported: u64,
    /// How long writes on open connections kept this thread, and how late it came to those that it was not kept from by another.
    pub writes: Writes,
}

/// What writes on open connections take.
pub struct Writes {
    /// How late the thread of all applications came to one that was due, where it had not been at another by then.
    pub lag: Histogram,
    /// How long one kept it.
    pub time: Histogram,
}

struct Apps {
    plan: Plan,
    poll: Poll,
    flows: Vec<Option<Flow>>,
    /// Identities of connections.
    keys: Keys,
    /// Numbers of the open ones: nothing walks flows that are over.
    open: BTreeSet<u32>,
    by_port: BTreeMap<u16, u32>,
    listeners: Vec<(u32, Socket)>,
    /// Which host acts at which time.
    dispatch: Dispatch,
    /// Connections whose writes have begun, for the rest.
    later: VecDeque<u32>,
    zeros: Vec<u8>,
    /// Room for what receivers drop; the kernel never writes it, so it takes no memory.
    sink: Box<[MaybeUninit<u8>]>,
    measuring: bool,
    stopped: bool,
    timer_lag: Dur,
    unreported: u64,
    writes: Writes,
    /// When the last write ended.
    written_at: Time,
    next_check: Time,
    base_counters: Vec<u64>,
}

/// Runs the workloads to their end.
///
/// # Errors
/// What the kernel refused; a workload that asks for an impossible flow as invalid input.
pub fn run(mut plan: Plan, priority: i32) -> io::Result<Applications> {
    let _ = sys::fifo_priority(priority);
    sys::exact_timers();
    let mut apps = Apps {
        poll: Poll::new()?,
        flows: Vec::new(),
        keys: Keys::default(),
        open: BTreeSet::new(),
        by_port: BTreeMap::new(),
        listeners: Vec::new(),
        later: VecDeque::new(),
        zeros: vec![0; CHUNK],
        sink: Box::new_uninit_slice(SINK),
        measuring: plan.warmup == Time::ZERO,
        stopped: false,
        timer_lag: Dur::ZERO,
        unreported: 0,
        writes: Writes { lag: Histogram::new(), time: Histogram::new() },
        written_at: Time::ZERO,
        next_check: Time::ZERO + CHECK,
        base_counters: vec![0; COUNTERS.len()],
        dispatch: Dispatch::new(std::mem::take(&mut plan.workloads), Dur::ZERO),
        plan,
    };
    if apps.measuring {
        apps.plan.recorder.start(Time::ZERO);
    }
    apps.listen()?;
    apps.plan.progress.end_ps.store(apps.plan.end.0, Ordering::Relaxed);
    let result = apps.work();
    apps.plan.stop.store(true, Ordering::Relaxed);
    let completed = result?;
    apps.finish(completed)
}

fn stream() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // Reset instead of a long farewell: a closed socket must not keep its namespace alive.
    socket.set_linger(Some(std::time::Duration::ZERO))?;
    Ok(socket)
}

fn address(ip: [u8; 4], port: u16) -> SockAddr {
    SocketAddrV4::new(Ipv4Addr::from(ip), port).into()
}

impl Apps {
    fn listen(&mut self) -> io::Result<()> {
        for (node, host) in self.plan.hosts.iter().enumerate() {
            let Some(host) = host else { continue };
            sys::enter(&host.namespace)?;
            let socket = stream()?;
            socket.set_reuse_address(true)?;
            socket.set_tcp_congestion(self.plan.receiver_control.as_bytes())?;
            socket.bind(&address(host.address, LISTEN))?;
            socket.listen(4096)?;
            self.poll.add(&socket, token(LISTENER, self.listeners.len() as u32), false)?;
            self.listeners.push((node as u32, socket));
        }
        Ok(())
    }

    /// The loop; true when it was not cancelled.
    fn work(&mut self) -> io::Result<bool> {
        let mut ready: Vec<Ready> = Vec::new();
        while !self.stopped {
            self.plan.place.here();
            if self.plan.progress.cancelled.load(Ordering::Relaxed) {
                return Ok(false);
            }
            // The network ends at the same instant, and may be a moment earlier.
            if self.plan.stop.load(Ordering::Relaxed) && self.plan.clock.now() < self.plan.end {
                return Err(io::Error::other("the network has stopped"));
            }
            let now = self.plan.clock.now();
            self.plan.progress.now_ps.store(now.0, Ordering::Relaxed);
            if now >= self.plan.end {
                break;
            }
            if !self.measuring && now >= self.plan.warmup {
                self.end_warmup(now);
            }
            let due = self.dispatch.next();
            if due <= now {
                self.timer_lag = self.timer_lag.max(now.since(due));
                self.on_apps(now)?;
                continue;
            }
            if self.plan.recorder.next_sample() <= now {
                self.on_sample(now);
            }
            if self.next_check <= now {
                self.check(now)?;
            }
            let sample = self.plan.recorder.next_sample();
            let next = due.min(sample).min(self.next_check).min(self.plan.end).min(now + NAP);
            let next = if self.measuring { next } else { next.min(self.plan.warmup.max(now)) };
            let wait = if self.later.is_empty() { next.since(self.plan.clock.now()).0 / 1000 } else { 0 };
            ready.clear();
            ready.extend(self.poll.wait(wait)?);
            for event in std::mem::take(&mut ready) {
                self.on_ready(event)?;
            }
            // One at a time, so that writes that begin meanwhile go first.
            if let Some(number) = self.later.pop_front() {
                self.push(number)?;
            }
        }
        Ok(true)
    }

    fn on_ready(&mut self, event: Ready) -> io::Result<()> {
        let number = event.token as u32;
        match event.token >> 32 {
            LISTENER => self.on_accept(number),
            RECEIVER => self.on_receive(number),
            _ => {
                if event.error {
                    self.on_report(number)?;
                }
                if event.writable {
                    self.push(number)?;
                }
                Ok(())
            }
        }
    }

    fn on_accept(&mut self, listener: u32) -> io::Result<()> {
        loop {
            let (socket, peer) = match self.listeners[listener as usize].1.accept() {
                Ok(x) => x,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The peer has gone already.
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(e) => return Err(e),
            };
            let port = peer.as_socket_ipv4().map_or(0, |a| a.port());
            let number = self.by_port.get(&port).copied();
            let Some(flow) = number.and_then(|n| self.flows[n as usize].as_mut()) else { continue };
            socket.set_nonblocking(true)?;
            socket.set_linger(Some(std::time::Duration::ZERO))?;
            self.poll.add(&socket, token(RECEIVER, flow.record.flow), false)?;
            flow.accepted = Some(socket);
        }
    }

    fn on_receive(&mut self, number: u32) -> io::Result<()> {
        let now = self.plan.clock.now();
        let Some(flow) = self.flows[number as usize].as_mut() else { return Ok(()) };
        let Some(socket) = &flow.accepted else { return Ok(()) };
        self.plan.reads.begins(flow.record.dst, now);
        loop {
            match sys::discard(socket, &mut self.sink) {
                Ok(None) => break,
                Ok(Some(0)) | Err(_) => {
                    // The sender has closed.
                    flow.accepted = None;
                    break;
                }
                Ok(Some(n)) => flow.received += n as u64,
            }
        }
        self.plan.reads.ends(flow.record.dst);
        while let Some(w) = flow.writes.get_mut(flow.undelivered).filter(|w| w.end <= flow.received) {
            w.delivered = now;
            flow.undelivered += 1;
        }
        Ok(())
    }

    /// The kernel says that something asked about was acknowledged.
    fn on_report(&mut self, number: u32) -> io::Result<()> {
        let Some(flow) = self.flows[number as usize].as_ref() else { return Ok(()) };
        while sys::take_report(&flow.socket) {}
        if let Some(e) = flow.socket.take_error()? {
            let port = flow.port;
            return Err(io::Error::new(e.kind(), format!("connection {number} from port {port}: {e}")));
        }
        self.complete(number).map(drop)
    }

    /// Tells the workload of every write that is acknowledged to its last byte; true when there was one.
    fn complete(&mut self, number: u32) -> io::Result<bool> {
        let mut any = false;
        loop {
            let now = self.plan.clock.now();
            let Some(flow) = self.flows[number as usize].as_mut() else { return Ok(any) };
            let Some(write) = flow.writes.front().copied().filter(|w| w.end <= flow.handed) else {
                return Ok(any);
            };
            if flow.handed - sys::unacknowledged(&flow.socket)? < write.end {
                return Ok(any);
            }
            any = true;
            flow.writes.pop_front();
            let delivered = if flow.undelivered > 0 { write.delivered } else { now };
            flow.undelivered = flow.undelivered.saturating_sub(1);
            flow.record.transfers = flow.record.transfers.saturating_add(1);
            let write = Transfer { delivered, ..write };
            if self.measuring {
                self.plan.recorder.transfer(number, &write, now);
            }
            let (workload, src, dst) = (flow.workload, flow.record.src, flow.record.dst);
            let over = flow.closing && flow.writes.is_empty();
            let acked = Written { flow: FlowId(number), src, dst, tag: write.tag, bytes: write.bytes };
            if over {
                self.retire(number, now);
            }
            if self.dispatch.workloads()[workload as usize].counts_writes() {
                self.complete_part(workload, acked.tag, now);
            }
            if let Some(id) = self.dispatch.at(workload, src) {
                self.call(id, &Call::Acked(acked), now, Time::NEVER)?;
            }
        }
    }

    /// Looks for acknowledgements whose report was lost.
    fn check(&mut self, now: Time) -> io::Result<()> {
        self.next_check = now + CHECK;
        // In rounds: completing one opens and closes others.
        let mut from = 0;
        while let Some(number) = self.open.range(from..).next().copied() {
            from = number + 1;
            let waiting = self.flows[number as usize].as_ref().is_some_and(|f| !f.writes.is_empty());
            if waiting && self.complete(number)? {
                self.unreported += 1;
            }
        }
        Ok(())
    }

    // ---- measuring ---------------------------------------------------------------------------------------

    fn end_warmup(&mut self, now: Time) {
        self.measuring = true;
        self.plan.recorder.start(self.plan.warmup.min(now));
        for number in &self.open {
            if let Some(flow) = self.flows[*number as usize].as_mut() {
                flow.baseline = counters(flow).0;
            }
        }
        self.base_counters = hosts::counters(self.plan.hosts.iter().flatten(), COUNTERS);
    }

    fn on_sample(&mut self, now: Time) {
        let recorder = &mut self.plan.recorder;
        recorder.sampled(now);
        for flow in self.open.iter().filter_map(|number| self.flows[*number as usize].as_ref()) {
            let Ok(info) = sys::tcp_info(&flow.socket) else { continue };
            let number = flow.record.flow;
            let window = f64::from(info.cwnd) * f64::from(info.mss);
            let alpha = self.plan.alpha.as_ref().and_then(|f| f(flow.port));
            if self.measuring {
                recorder.cwnd.add(window);
                recorder.alpha.add(alpha.unwrap_or(f64::NAN));
            }
            if flow.has_place {
                let mut row = |metric, value| {
                    recorder.row(Sample { at: now, entity: Entity::Flow, number, metric, value });
                };
                row(&CWND, window);
                row(&ACKED, info.acked.saturating_sub(1) as f64);
                row(&SRTT, f64::from(info.srtt_us) * 1e-6);
                alpha.into_iter().for_each(|a| row(&ALPHA, a));
            }
        }
    }

    fn finish(mut self, completed: bool) -> io::Result<Applications> {
        let now = self.plan.clock.now().min(self.plan.end);
        if !self.measuring {
            self.end_warmup(now);
        }
        let totals = hosts::counters(self.plan.hosts.iter().flatten(), COUNTERS);
        let device_drops = hosts::device_drops(self.plan.hosts.iter().flatten());
        for number in std::mem::take(&mut self.open) {
            self.keep(number, now, true);
        }
        let mut recorder = self.plan.recorder;
        recorder.finish(now);
        Ok(Applications {
            recorder,
            counters: totals.iter().zip(&self.base_counters).map(|(a, b)| a - b).collect(),
            device_drops,
            completed,
            stopped: self.stopped,
            timer_lag: self.timer_lag,
            unreported: self.unreported,
            writes: self.writes,
        })
    }
}

/// Counters of a connection so far, and whether it is established; what the switch counts is added later.
fn counters(flow: &Flow) -> (FlowCounters, bool) {
    let info = sys::tcp_info(&flow.socket).unwrap_or_default();
    // The answer of the SYN is the first round trip the kernel knows of.
    let established = info.srtt_us > 0;
    let counted = FlowCounters {
        // The SYN counts as a byte.
        acked_bytes: info.acked.saturating_sub(1),
        delivered_bytes: flow.received,
        // What waits behind a gap the kernel does not tell.
        arrived_bytes: info.acked.saturating_sub(1),
        data_packets: u64::from(info.data_segments),
        retransmits: u64::from(info.retransmits),
        timeouts: u64::from(info.timeouts),
        ..FlowCounters::default()
    };
    (counted, established)
}
