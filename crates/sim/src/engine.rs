//! The loop: take the next event, let the object concerned handle it, re-arm its one deadline.

use crate::events::{longest_flight_ps, Arrivals, Deadlines, Pending, Ties, Wake, MAX_PORTS};
use crate::host_queue::HostShare;
use crate::ideal::{self, Lengths};
use crate::metrics::{FlowCounters, FlowRecord, Leaving, Recorder, Transfer};
use crate::pool::Pool;
use crate::port::{Arena, Offered, Port, PortConfig};
use crate::results::{Bottleneck, Measured};
use crate::topology::{route_stream, NodeKind, Routes, Topology};
#[cfg(debug_assertions)]
use crate::witness::Witness;
use crate::workloads::{Acked, Action, Actions, FlowRequest, Workload};
use penstock_core::packet::flag;
use penstock_core::receive::ReceiveController;
use penstock_core::rng::Entity;
use penstock_core::tcp::{News, Phase, Receiver, Sender, TcpConfig};
use penstock_core::{Ack, Amount, FlowId, HostController, ParamError, Peer, Stream, Verdict};
use penstock_models::registry::{BuildReceive, LinkFacts};
use penstock_models::Suite;
use penstock_units::{Bytes, Dur, Time};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Networks of up to so many ports keep the queue integrals of all of them; larger ones of the bottleneck, and of the
/// others the mean queue in packets (Little's law).
const MEASURE_ALL: usize = 512;
/// End of a route.
const END: u32 = u32::MAX;

/// A host controller and the connections in its charge: all that some workloads open.
pub struct Collective {
    /// The controller.
    pub controller: Box<dyn HostController>,
    /// Workloads, by position.
    pub workloads: Vec<u32>,
}

/// Flow in nobody's charge.
const ALONE: u32 = u32::MAX;

/// Everything that defines one run.
pub struct Setup {
    /// Network.
    pub topology: Topology,
    /// Protocols by position, each with its connection options.
    pub protocols: Vec<(Suite, Arc<TcpConfig>)>,
    /// Their names, as written.
    pub protocol_names: Vec<String>,
    /// Keys of a scenario file that were given and have no effect.
    pub unused: Vec<String>,
    /// Values that follow from others where a key is unset, as text by key.
    pub derived: Vec<(&'static str, String)>,
    /// Protocol whose router part runs on every switch port, when it has one.
    pub router: Option<usize>,
    /// Smallest round-trip time of the scenario, told to router controllers.
    pub base_rtt: Dur,
    /// Workloads, in declared order.
    pub workloads: Vec<Box<dyn Workload>>,
    /// End of the run.
    pub duration: Dur,
    /// Statistics count from here.
    pub warmup: Dur,
    /// Framing bytes per packet on the wire.
    pub framing: u32,
    /// Most that a packet of a sender leaves its host later than exact.
    pub send_jitter: Dur,
    /// How much of one connection may stand in its own host's port; `None` = any amount.
    pub host_queue: Option<Amount>,
    /// Base seed.
    pub seed: u64,
    /// Number of the replication.
    pub run: u64,
    /// Order of simultaneous events.
    pub ties: Ties,
    /// The port reported as the bottleneck.
    pub bottleneck: Bottleneck,
    /// What was found out while this was built and whoever reads the results should know, a line each.
    pub notes: Vec<String>,
    /// What is recorded beside the summary.
    pub recorder: Recorder,
    /// Receiver-side congestion control of every host, when there is one.
    pub receive: Option<BuildReceive>,
    /// Shared buffers of routers.
    pub pools: Vec<Pool>,
    /// Host controllers.
    pub collectives: Vec<Collective>,
}

/// Longest time a packet may be held back beside its transmission and propagation.
const MARGIN: Dur = Dur::millis(1000);

/// A link that is too slow or too long for the clock of its network.
#[derive(Clone, Copy, Debug)]
pub struct TooLong {
    /// The link.
    pub link: u32,
    /// Transmission of the largest packet of the run on it.
    pub transmission: Dur,
    /// Its propagation delay.
    pub delay: Dur,
    /// What both together may take.
    pub most: Dur,
}

impl TooLong {
    /// The error, under the key that set what is most of it.
    pub fn error(&self, key: &str, value: &str) -> ParamError {
        let rule = format!(
            "a packet takes {} to send and {} to arrive; in a network of this size both together may take {}",
            self.transmission, self.delay, self.most
        );
        ParamError::new(key, value, rule)
    }
}

impl Setup {
    /// The first link on which a packet would be longer under way than the event keys of this network can say.
    pub fn too_long(&self) -> Option<TooLong> {
        // Headers beside the usual ones: congestion header, SACK blocks.
        let extra = 256;
        let largest = self.protocols.iter().map(|(_, c)| c.mss + c.header_len()).max().unwrap_or(1500);
        let bytes = Bytes(u64::from(largest + self.framing + extra));
        let most = Dur(longest_flight_ps(self.topology.links.len())) - MARGIN;
        self.topology.links.iter().zip(0..).find_map(|(l, link)| {
            let (transmission, delay) = (bytes / l.rate, l.delay);
            (transmission + delay > most).then_some(TooLong { link, transmission, delay, most })
        })
    }
    /// What must hold of every network.
    ///
    /// # Errors
    /// Too many ports, a link that is too slow or too long for the clock, by the link's name.
    pub fn check(&self) -> Result<(), ParamError> {
        let ports = self.topology.links.len();
        if ports > MAX_PORTS {
            return Err(ParamError::new("network", ports, format!("at most {MAX_PORTS} ports are possible")));
        }
        self.too_long().map_or(Ok(()), |found| Err(found.error("link", &self.topology.link_name(found.link))))
    }
    /// True when packets of this run carry a congestion header.
    pub fn uses_headers(&self) -> bool {
        self.protocols.iter().any(|(suite, cfg)| {
            let probe = Stream::new(self.seed, self.run, Entity::Sender, u64::MAX);
            suite.router.is_some() || (suite.endpoint)(cfg, probe).header_len() > 0
        })
    }
    /// The output ports of the network, one per link and in their order.
    pub fn ports(&self) -> Vec<Port> {
        let mut ports = Vec::with_capacity(self.topology.links.len());
        // What a router's controller counts, its own protocol's header included.
        let routed = self.router.map_or(0, |p| {
            let (suite, cfg) = &self.protocols[p];
            let probe = Stream::new(self.seed, self.run, Entity::Sender, u64::MAX);
            cfg.mss + cfg.header_len() + (suite.endpoint)(cfg, probe).header_len()
        });
        for (i, l) in self.topology.links.iter().enumerate() {
            let packet = self.protocols.iter().map(|(_, c)| c.mss + c.header_len()).max().unwrap_or(1500);
            let controller = match self.router {
                Some(p) if l.controlled => {
                    // No round trip is shorter than a packet's own transmission, whatever the distance.
                    let base_rtt = self.base_rtt.max(Bytes(u64::from(routed + self.framing)) / l.rate);
                    let facts =
                        LinkFacts { capacity: l.rate, base_rtt, packet: routed, framing: self.framing };
                    self.protocols[p].0.router.as_ref().map(|build| build(&facts))
                }
                _ => None,
            };
            let (limit_packets, limit_bytes) = match l.buffer {
                None => (u32::MAX, u64::MAX),
                Some(Amount::Packets(n)) => (n, u64::MAX),
                Some(Amount::Bytes(b)) => (u32::MAX, b),
            };
            let stream = |kind| Stream::new(self.seed, self.run, kind, i as u64);
            let at_host = self.topology.nodes[l.from as usize].kind == NodeKind::Host;
            let config = PortConfig {
                rate: l.rate,
                delay: l.delay,
                limit_packets,
                limit_bytes,
                framing: self.framing,
                queue: l.queue.build(packet),
                controller,
                loss: l.loss,
                jitter: at_host.then(|| (self.send_jitter, stream(Entity::Jitter))),
                // Integrals of thousands of ports nobody looks at would cost a sixth of the run.
                measured: self.topology.links.len() <= MEASURE_ALL || i as u32 == self.bottleneck.candidate(),
            };
            ports.push(Port::new(config, stream(Entity::Port), stream(Entity::Loss)));
        }
        ports
    }
    /// Receiver-side controllers by node; empty when there are none.
    pub fn receive_controllers(&self) -> Vec<Option<Box<dyn ReceiveController>>> {
        let Some(build) = &self.receive else { return Vec::new() };
        let mut receive = Vec::new();
        receive.resize_with(self.topology.nodes.len(), || None);
        let packet = self.protocols.iter().map(|(_, c)| c.mss).max().unwrap_or(1500);
        for l in &self.topology.links {
            if self.topology.nodes[l.to as usize].kind == NodeKind::Host {
                // No round trip is shorter than a packet's own transmission, whatever the distance.
                let base_rtt = self.base_rtt.max(Bytes(u64::from(packet + self.framing)) / l.rate);
                let facts = LinkFacts { capacity: l.rate, base_rtt, packet, framing: self.framing };
                receive[l.to as usize] = Some(build(&facts));
            }
        }
        receive
    }
}

/// A connection with both its ends.
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    receiver: Receiver,
    /// Start of the forward route, and of the way back.
    route: u32,
    back: u32,
    sender_wake: Pending,
    receiver_wake: Pending,
    /// What stands in its host's port, where that is limited.
    host: HostShare,
    workload: u32,
    /// Host controller in charge, or [`ALONE`].
    pub(crate) collective: u32,
    tag: u64,
    /// Writes not yet acknowledged.
    writes: VecDeque<Transfer>,
    /// End of the oldest of them that is not yet delivered.
    undelivered: usize,
    #[cfg(debug_assertions)]
    witness: Witness,
    /// Its samples are kept.
    pub(crate) has_place: bool,
    lengths: Lengths,
    /// Round-trip time of its path when that is idle, seconds.
    idle_rtt: f64,
    /// Its packets dropped so far.
    drops: u64,
    /// Counters at the end of warm-up.
    baseline: FlowCounters,
    pub(crate) record: FlowRecord,
}

/// Shared with whoever watches the run: progress out, cancellation in.
#[derive(Default)]
pub struct Progress {
    /// Simulated time so far, in picoseconds.
    pub now_ps: AtomicU64,
    /// Simulated time at the end, in picoseconds.
    pub end_ps: AtomicU64,
    /// Set to stop the run early; partial results are kept.
    pub cancelled: AtomicBool,
}

/// Packets accounted for. At any time `sent = delivered + dropped + held`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conservation {
    /// Packets handed to a host's own port.
    pub sent: u64,
    /// Packets that reached the host they were for.
    pub delivered: u64,
    /// Packets dropped, whatever the cause.
    pub dropped: u64,
}

impl Conservation {
    /// sent = delivered + dropped + held, and the arena agrees.
    ///
    /// # Panics
    /// When it is not so: a violation is a crash with the numbers.
    pub fn check(&self, ports: &[Port], arena: &Arena) {
        let held: u64 = ports.iter().map(|p| p.packets_held()).sum();
        assert!(
            self.sent == self.delivered + self.dropped + held && held == arena.live(),
            "packets are not conserved: sent {}, delivered {}, dropped {}, held {held}, slots in use {}",
            self.sent,
            self.delivered,
            self.dropped,
            arena.live(),
        );
    }
}

/// A run in progress.
pub struct Engine {
    now: Time,
    ports: Vec<Port>,
    arrivals: Arrivals,
    deadlines: Deadlines,
    arena: Arena,
    routes: Vec<u32>,
    route_index: std::collections::BTreeMap<Vec<u32>, u32>,
    router: Routes,
    flows: Vec<Option<Box<Flow>>>,
    /// Numbers of the open ones: nothing walks flows that are over.
    open: BTreeSet<u32>,
    /// Receiver-side controllers by host; empty when there is none.
    receive: Vec<Option<Box<dyn ReceiveController>>>,
    link_wake: Vec<Pending>,
    workloads: Vec<Box<dyn Workload>>,
    pools: Vec<(Pool, Stream)>,
    /// Position of the shared buffer of each port, where it has one.
    pool_of: Vec<u32>,
    collectives: Vec<Collective>,
    news: Vec<News>,
    next_workload: Time,
    /// When each workload acts next, and the same in order of time.
    workload_at: Vec<Time>,
    agenda: BTreeSet<(Time, u32)>,
    actions: Actions,
    setup: SetupRest,
    measuring: bool,
    stopped: bool,
    /// Packets delivered over one link.
    pub packet_hops: u64,
    /// Packets accounted for.
    pub conservation: Conservation,
    /// What has been recorded.
    pub recorder: Recorder,
}

struct SetupRest {
    topology: Topology,
    protocols: Vec<(Suite, Arc<TcpConfig>)>,
    protocol_names: Vec<String>,
    end: Time,
    warmup: Time,
    seed: u64,
    run: u64,
    framing: u32,
    ties: Ties,
    bottleneck: Bottleneck,
    notes: Vec<String>,
    host_queue: Option<Amount>,
}

impl Engine {
    /// Builds the network and asks every workload for its first event.
    ///
    /// # Errors
    /// What [`Setup::check`] finds.
    pub fn new(setup: Setup) -> Result<Engine, ParamError> {
        setup.check()?;
        let mut ports = setup.ports();
        let uses_headers = setup.uses_headers();
        let receive = setup.receive_controllers();
        let Setup { topology, protocols, seed, run, .. } = setup;
        let mut pools = Vec::with_capacity(setup.pools.len());
        let mut pool_of = vec![u32::MAX; ports.len()];
        for (i, pool) in setup.pools.into_iter().enumerate() {
            for p in pool.ports() {
                ports[*p as usize].share();
                pool_of[*p as usize] = i as u32;
            }
            pools.push((pool, Stream::new(seed, run, Entity::Pool, i as u64)));
        }
        let mut engine = Engine {
            now: Time::ZERO,
            link_wake: vec![Pending::default(); ports.len()],
            arrivals: Arrivals::new(setup.ties, ports.len()),
            ports,
            deadlines: Deadlines::new(setup.ties),
            arena: Arena::new(uses_headers),
            routes: Vec::new(),
            route_index: Default::default(),
            router: Routes::new(&topology),
            flows: Vec::new(),
            open: BTreeSet::new(),
            receive,
            workload_at: vec![Time::NEVER; setup.workloads.len()],
            agenda: BTreeSet::new(),
            workloads: setup.workloads,
            pools,
            pool_of,
            collectives: setup.collectives,
            news: Vec::new(),
            next_workload: Time::NEVER,
            actions: Actions::default(),
            setup: SetupRest {
                topology,
                protocols,
                protocol_names: setup.protocol_names,
                end: Time::ZERO + setup.duration,
                warmup: Time::ZERO + setup.warmup,
                seed,
                run,
                framing: setup.framing,
                ties: setup.ties,
                bottleneck: setup.bottleneck,
                notes: setup.notes,
                host_queue: setup.host_queue,
            },
            measuring: setup.warmup == Dur::ZERO,
            stopped: false,
            packet_hops: 0,
            conservation: Conservation::default(),
            recorder: setup.recorder,
        };
        for port in 0..engine.ports.len() {
            engine.arm_link(port as u32);
        }
        for workload in 0..engine.workloads.len() {
            engine.plan(workload as u32);
        }
        if engine.measuring {
            engine.recorder.start(Time::ZERO);
        }
        Ok(engine)
    }

    /// Runs to the end, to a workload's stop, or to a cancellation; true when it was not cancelled.
    ///
    /// # Errors
    /// A workload that asks for an impossible flow.
    pub fn run(&mut self, progress: &Progress) -> Result<bool, ParamError> {
        progress.end_ps.store(self.setup.end.0, Ordering::Relaxed);
        let mut completed = true;
        let mut budget = 0u32;
        while !self.stopped {
            let arrival = self.arrivals.peek();
            let deadline = self.deadlines.peek();
            let other = self.next_workload.min(self.recorder.next_sample());
            let next = arrival.min(deadline).min(other);
            if !self.measuring && next >= self.setup.warmup {
                self.end_warmup(self.setup.warmup);
            }
            if next > self.setup.end || next == Time::NEVER {
                break;
            }
            self.now = next;
            if arrival == next {
                self.on_arrival()?;
            } else if deadline == next {
                self.on_deadline()?;
            } else if self.next_workload == next {
                self.on_workload()?;
            } else {
                self.on_sample();
            }
            budget += 1;
            if budget >= 1 << 14 {
                budget = 0;
                progress.now_ps.store(self.now.0, Ordering::Relaxed);
                if progress.cancelled.load(Ordering::Relaxed) {
                    completed = false;
                    break;
                }
            }
        }
        if !self.stopped && completed {
            self.now = self.setup.end;
        }
        if !self.measuring {
            // It ended before its warm-up: nothing is measured.
            self.end_warmup(self.now);
        }
        self.finish();
        progress.now_ps.store(self.setup.end.0, Ordering::Relaxed);
        Ok(completed)
    }

    // ---- packets -------------------------------------------------------------------------------------

    #[inline]
    fn on_arrival(&mut self) -> Result<(), ParamError> {
        let port = self.arrivals.take();
        let (id, next) = self.ports[port as usize].arrive(self.now, &mut self.arena);
        if let Some(at) = next {
            self.arrivals.push(at, port);
            // In a large network the next port is not in the cache: fetch it while this packet is handled.
            if let Some(next) = self.arrivals.upcoming() {
                self.ports[next as usize].prefetch();
            }
        }
        self.packet_hops += 1;
        let packet = &mut self.arena.packets[id as usize];
        let out = self.routes[packet.path as usize];
        if out == END {
            return self.deliver(id);
        }
        packet.path += 1;
        self.transmit(out, id);
        Ok(())
    }

    /// Offers a packet to an output port; true when it was queued.
    #[inline]
    fn transmit(&mut self, port: u32, id: u32) -> bool {
        let offered = if self.ports[port as usize].is_shared() {
            self.offer_shared(port, id)
        } else {
            self.ports[port as usize].offer(self.now, id, &mut self.arena)
        };
        match offered {
            Offered::Queued(None) => true,
            Offered::Queued(Some(at)) => {
                self.arrivals.push(at, port);
                true
            }
            Offered::Dropped(_) => {
                self.conservation.dropped += 1;
                let packet = &self.arena.packets[id as usize];
                if self.measuring && packet.has(flag::SYN) {
                    self.recorder.syn_drops += 1;
                }
                if let Some(f) = &mut self.flows[packet.flow as usize] {
                    f.drops += 1;
                }
                self.arena.release(id);
                false
            }
        }
    }

    fn offer_shared(&mut self, port: u32, id: u32) -> Offered {
        let class = self.arena.packets[id as usize].class();
        let (pool, rng) = &mut self.pools[self.pool_of[port as usize] as usize];
        let verdict: Verdict = pool.admit(self.now, class, &mut self.ports, &mut self.arena, rng);
        self.ports[port as usize].offer_shared(self.now, id, &mut self.arena, verdict)
    }

    #[inline]
    fn deliver(&mut self, id: u32) -> Result<(), ParamError> {
        self.conservation.delivered += 1;
        let slot = self.arena.header_slot(id);
        let packet = self.arena.packets[id as usize];
        let number = packet.flow;
        // A packet of a connection that is over (a duplicate still on its way) is delivered to nobody.
        let Some(flow) = self.flows[number as usize].as_deref_mut() else {
            self.arena.release(id);
            return Ok(());
        };
        if packet.is_forward() {
            if let Some(control) = self.receive.get_mut(flow.record.dst as usize).and_then(Option::as_mut) {
                control.on_data(self.now, number, &packet);
                flow.receiver.set_window_cap(control.window_cap(number));
            }
            flow.receiver.on_packet(self.now, &packet, &self.arena.headers[slot]);
            #[cfg(debug_assertions)]
            {
                flow.witness.arrive(&packet, flow.sender.view.app_end);
                flow.witness.check(number, flow.receiver.delivered());
            }
            if flow.undelivered < flow.writes.len() {
                flow.note_delivered(self.now);
            }
            // The slot of the data packet carries its ACK.
            let mut slot_free = Some(id);
            loop {
                let flow = self.flows[number as usize].as_deref_mut().expect("checked above");
                let id = slot_free.take().unwrap_or_else(|| self.arena.alloc());
                let (packet, header) = self.arena.get(id);
                if !flow.receiver.poll_transmit(self.now, packet, header) {
                    self.arena.release(id);
                    break;
                }
                packet.path = flow.back + 1;
                let first = self.routes[flow.back as usize];
                self.conservation.sent += 1;
                self.transmit(first, id);
            }
            let flow = self.flows[number as usize].as_deref_mut().expect("checked above");
            let at = flow.receiver.deadline();
            if flow.receiver_wake.arm(at) {
                self.deadlines.push(at, Wake::Receiver, number);
            }
            Ok(())
        } else {
            let cuts = flow.sender.stats.fast_retransmits;
            flow.sender.on_packet(self.now, &packet, &self.arena.headers[slot]);
            if flow.sender.stats.fast_retransmits != cuts && self.measuring {
                let (outstanding, cwnd) =
                    (flow.sender.view.max_sent - flow.sender.view.una, flow.sender.cwnd());
                let lost = flow.receiver.missing_below(flow.sender.view.max_sent);
                self.recorder.fast_retransmit(self.now, number, outstanding, cwnd, flow.drops, lost);
            }
            if flow.collective != ALONE {
                self.tell_host(number, slot);
            }
            self.arena.release(id);
            self.after_ack(number)
        }
    }

    /// Completes writes, lets the workload react, sends what may be sent.
    #[inline]
    fn after_ack(&mut self, number: u32) -> Result<(), ParamError> {
        let flow = self.flows[number as usize].as_deref_mut().expect("the flow is open");
        let una = flow.sender.view.una;
        if flow.writes.front().is_some_and(|w| una >= w.end) {
            self.complete_writes(number)?;
            let Some(flow) = self.flows[number as usize].as_deref_mut() else { return Ok(()) };
            if flow.sender.finished() {
                self.retire(number);
                return Ok(());
            }
        } else if flow.sender.finished() {
            self.retire(number);
            return Ok(());
        }
        self.send(number);
        Ok(())
    }

    /// Tells the host controller in charge what has happened to a connection.
    fn tell_host(&mut self, number: u32, header_slot: usize) {
        let Some(flow) = self.flows[number as usize].as_deref_mut() else { return };
        let host = &mut self.collectives[flow.collective as usize].controller;
        flow.sender.take_news(&mut self.news);
        for news in &self.news {
            match *news {
                News::Acked { bytes, ece, sent_at, rtt } => {
                    let header = &self.arena.headers[header_slot];
                    let ack = Ack { now: self.now, bytes, ece, sent_at, rtt, header };
                    host.on_ack(FlowId(number), &ack, &flow.sender.view);
                }
                News::Congestion(event) => {
                    host.on_congestion(self.now, FlowId(number), &flow.sender.view, event);
                }
            }
        }
        host.take_transitions().iter().for_each(|t| self.recorder.transition(t));
    }

    /// Sends everything the sender may send now and arms its deadline.
    #[inline]
    fn send(&mut self, number: u32) {
        if let Some(flow) = self.flows[number as usize].as_deref_mut() {
            if flow.collective != ALONE {
                let cap = self.collectives[flow.collective as usize].controller.cap(FlowId(number));
                flow.sender.set_cap(cap);
            }
        }
        loop {
            let id = self.arena.alloc();
            let Some(flow) = self.flows[number as usize].as_deref_mut() else { return };
            if let Some(limit) = self.setup.host_queue {
                let next = flow.sender.packet_len();
                flow.sender.set_host_free_at(flow.host.free_at(self.now, limit, next));
            }
            let (packet, header) = self.arena.get(id);
            if !flow.sender.poll_transmit(self.now, packet, header) {
                self.arena.release(id);
                let at = flow.sender.deadline();
                if at != Time::NEVER && flow.sender_wake.arm(at) {
                    self.deadlines.push(at, Wake::Sender, number);
                }
                return;
            }
            packet.path = flow.route + 1;
            let bytes = packet.wire_len;
            let first = self.routes[flow.route as usize];
            self.conservation.sent += 1;
            if self.transmit(first, id) && self.setup.host_queue.is_some() {
                if let Some(flow) = self.flows[number as usize].as_deref_mut() {
                    flow.host.take(self.ports[first as usize].free_at(), bytes);
                }
            }
        }
    }

    #[cold]
    fn complete_writes(&mut self, number: u32) -> Result<(), ParamError> {
        loop {
            let Some(flow) = self.flows[number as usize].as_deref_mut() else { return Ok(()) };
            let una = flow.sender.view.una;
            let Some(write) = flow.writes.front().copied().filter(|w| una >= w.end) else { return Ok(()) };
            flow.writes.pop_front();
            flow.undelivered = flow.undelivered.saturating_sub(1);
            let (workload, tag) = (flow.workload, flow.tag);
            flow.record.transfers = flow.record.transfers.saturating_add(1);
            if self.measuring {
                self.recorder.transfer(number, &write, self.now);
            }
            let acked = Acked { flow: FlowId(number), tag, started: write.started, bytes: write.bytes };
            self.workloads[workload as usize].on_acked(self.now, &acked, &mut self.actions);
            self.carry_out(workload)?;
        }
    }

    // ---- deadlines -----------------------------------------------------------------------------------

    fn on_deadline(&mut self) -> Result<(), ParamError> {
        let (at, kind, number) = self.deadlines.pop().expect("peek saw one");
        match kind {
            Wake::Link => {
                if self.link_wake[number as usize].fired(at) {
                    self.ports[number as usize].on_deadline(self.now, &mut self.arena);
                    self.arm_link(number);
                }
            }
            Wake::Sender => {
                let Some(flow) = self.flows[number as usize].as_deref_mut() else { return Ok(()) };
                if !flow.sender_wake.fired(at) {
                    return Ok(());
                }
                if flow.sender.deadline() <= self.now {
                    flow.sender.on_deadline(self.now);
                    if let Some(t) = flow.sender.take_timeout() {
                        if self.measuring {
                            let lost = flow.receiver.missing_below(flow.sender.view.max_sent);
                            self.recorder.timeout(self.now, number, &t, flow.drops, lost);
                        }
                    }
                    if flow.collective != ALONE {
                        self.tell_host(number, 0);
                    }
                }
                self.send(number);
            }
            Wake::Receiver => {
                let Some(flow) = self.flows[number as usize].as_deref_mut() else { return Ok(()) };
                if !flow.receiver_wake.fired(at) {
                    return Ok(());
                }
                if flow.receiver.deadline() <= self.now {
                    flow.receiver.on_deadline(self.now);
                }
                self.send_acks(number);
            }
            Wake::Host => {}
        }
        Ok(())
    }

    fn send_acks(&mut self, number: u32) {
        loop {
            let id = self.arena.alloc();
            let Some(flow) = self.flows[number as usize].as_deref_mut() else { return };
            let (packet, header) = self.arena.get(id);
            if !flow.receiver.poll_transmit(self.now, packet, header) {
                self.arena.release(id);
                let at = flow.receiver.deadline();
                if at != Time::NEVER && flow.receiver_wake.arm(at) {
                    self.deadlines.push(at, Wake::Receiver, number);
                }
                return;
            }
            packet.path = flow.back + 1;
            let first = self.routes[flow.back as usize];
            self.conservation.sent += 1;
            self.transmit(first, id);
        }
    }

    fn arm_link(&mut self, port: u32) {
        let at = self.ports[port as usize].deadline();
        if at != Time::NEVER && self.link_wake[port as usize].arm(at) {
            self.deadlines.push(at, Wake::Link, port);
        }
    }

    // ---- workloads -----------------------------------------------------------------------------------

    /// Notes when a workload acts next.
    fn plan(&mut self, workload: u32) {
        let next = self.workloads[workload as usize].next_event();
        let known = std::mem::replace(&mut self.workload_at[workload as usize], next);
        if known != next {
            self.agenda.remove(&(known, workload));
            if next != Time::NEVER {
                self.agenda.insert((next, workload));
            }
            self.next_workload = self.agenda.first().map_or(Time::NEVER, |first| first.0);
        }
    }

    fn on_workload(&mut self) -> Result<(), ParamError> {
        let mut due: Vec<u32> =
            self.agenda.iter().take_while(|(at, _)| *at <= self.now).map(|(_, workload)| *workload).collect();
        due.sort_unstable();
        if self.setup.ties == Ties::Reversed {
            due.reverse();
        }
        for workload in due {
            self.workloads[workload as usize].on_event(self.now, &mut self.actions);
            self.carry_out(workload)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, workload: u32) -> Result<(), ParamError> {
        for action in self.actions.take() {
            match action {
                Action::Open(request) => self.open(workload, &request)?,
                Action::Write(flow, bytes) => {
                    if self.write(flow.0, bytes) {
                        self.send(flow.0);
                    }
                }
                Action::Close(flow) => {
                    if let Some(f) = self.flows[flow.0 as usize].as_deref_mut() {
                        f.sender.close();
                        self.send(flow.0);
                    }
                }
                Action::Leave(flow) => {
                    if let Some(f) = self.flows[flow.0 as usize].as_deref_mut() {
                        f.sender.leave();
                        self.send(flow.0);
                    }
                }
                Action::Block { started, bytes } => {
                    if self.measuring {
                        self.recorder.block(started, self.now, bytes);
                    }
                }
                Action::Stop => self.stopped = true,
            }
        }
        self.plan(workload);
        Ok(())
    }

    fn write(&mut self, number: u32, bytes: u64) -> bool {
        let Some(flow) = self.flows[number as usize].as_deref_mut() else { return false };
        flow.sender.write(self.now, bytes);
        // A write made as the connection is opened waits for the handshake.
        let handshake = if flow.record.opened == self.now { flow.idle_rtt } else { 0.0 };
        let path = |start: u32| {
            let from = &self.routes[start as usize..];
            &from[..from.iter().position(|p| *p == END).expect("routes end")]
        };
        let (forward, back) = (path(flow.route), path(flow.back));
        flow.writes.push_back(Transfer {
            end: flow.sender.view.app_end,
            started: self.now,
            bytes,
            delivered: Time::NEVER,
            due: flow.sender.view.due,
            ideal: handshake + ideal::transfer(&self.setup.topology, forward, back, &flow.lengths, bytes),
        });
        if self.workloads[flow.workload as usize].open_loop() {
            self.recorder.offer(flow.record.src, flow.record.dst, bytes);
        }
        true
    }

    fn open(&mut self, workload: u32, request: &FlowRequest) -> Result<(), ParamError> {
        let number = self.flows.len() as u32;
        let mut rng = route_stream(self.setup.seed, self.setup.run, number);
        let t = &self.setup.topology;
        let forward = self.router.path(t, request.src, request.dst, &mut rng)?;
        let back = self.router.path(t, request.dst, request.src, &mut rng)?;
        let (suite, cfg) = &self.setup.protocols[request.protocol as usize];
        let stream = |entity| Stream::new(self.setup.seed, self.setup.run, entity, u64::from(number));
        let controller = (suite.endpoint)(cfg, stream(Entity::Host));
        let mut sender = Sender::new(cfg.clone(), controller, number, request.class, stream(Entity::Sender));
        let endless = request.bytes == u64::MAX;
        sender.view.size = if endless { 0 } else { request.bytes };
        sender.view.due = request.due;
        sender.open(self.now);
        let receiver = Receiver::new(cfg.clone(), number, sender.header_len());
        let charge = self.collectives.iter().position(|c| c.workloads.contains(&workload));
        let collective = charge.map_or(ALONE, |c| c as u32);
        if let Some(c) = charge {
            sender.keep_news();
            let router = *forward.last().expect("a path has a link");
            let router = self.setup.topology.links[router as usize].from;
            let peer = Peer { host: request.dst, router, class: request.class };
            let host = &mut self.collectives[c].controller;
            host.on_open(self.now, FlowId(number), peer);
            host.take_transitions().iter().for_each(|t| self.recorder.transition(t));
        }
        let lengths = Lengths::new(cfg, sender.header_len(), self.setup.framing);
        let idle_rtt = ideal::handshake(t, &forward, &back, &lengths);
        let ideal = idle_rtt + ideal::transfer(t, &forward, &back, &lengths, request.bytes);
        let (route, back) = (self.intern(forward), self.intern(back));
        let record = FlowRecord {
            flow: number,
            src: request.src,
            dst: request.dst,
            workload,
            protocol: request.protocol,
            opened: self.now,
            size: if endless { 0 } else { request.bytes },
            ideal,
            ..FlowRecord::default()
        };
        self.flows.push(Some(Box::new(Flow {
            sender,
            receiver,
            route,
            back,
            sender_wake: Pending::default(),
            receiver_wake: Pending::default(),
            host: HostShare::default(),
            workload,
            collective,
            tag: request.tag,
            writes: VecDeque::new(),
            undelivered: 0,
            #[cfg(debug_assertions)]
            witness: Witness::default(),
            has_place: self.recorder.take_place(),
            lengths,
            idle_rtt,
            drops: 0,
            baseline: FlowCounters::default(),
            record,
        })));
        self.open.insert(number);
        if endless {
            let flow = self.flows[number as usize].as_deref_mut().expect("just pushed");
            flow.sender.write(self.now, u64::MAX / 4);
        } else if request.bytes > 0 {
            self.write(number, request.bytes);
        }
        if request.close {
            let flow = self.flows[number as usize].as_deref_mut().expect("just pushed");
            flow.sender.close();
        }
        self.send(number);
        Ok(())
    }

    /// Stores a route once; routes end with [`END`].
    fn intern(&mut self, path: Vec<u32>) -> u32 {
        if let Some(at) = self.route_index.get(&path) {
            return *at;
        }
        let at = self.routes.len() as u32;
        self.routes.extend_from_slice(&path);
        self.routes.push(END);
        self.route_index.insert(path, at);
        at
    }

    /// A connection is over: keep its record, free the rest.
    fn retire(&mut self, number: u32) {
        if let Some(flow) = self.flows[number as usize].take() {
            self.open.remove(&number);
            if flow.has_place {
                self.recorder.give_back();
            }
            self.keep(&flow, false);
            if let Some(control) = self.receive.get_mut(flow.record.dst as usize).and_then(Option::as_mut) {
                control.on_close(self.now, number);
            }
            if flow.collective != ALONE {
                let host = &mut self.collectives[flow.collective as usize].controller;
                host.on_close(self.now, FlowId(number));
                host.take_transitions().iter().for_each(|t| self.recorder.transition(t));
            }
        }
    }
    /// Records a connection that is over, or was when the run ended.
    fn keep(&mut self, flow: &Flow, open_at_end: bool) {
        let totals = flow.counters();
        let rtt = flow.sender.rtt();
        let record = FlowRecord {
            closed: self.now,
            open_at_end,
            complete: !open_at_end && totals.acked_bytes >= flow.record.size,
            established: !matches!(flow.sender.phase(), Phase::Closed | Phase::SynSent),
            srtt: rtt.smoothed,
            rtt_mean: Dur(rtt.total.0 / rtt.samples.max(1)),
            duplicate_bytes: flow.receiver.duplicate_bytes,
            ..flow.record.clone()
        };
        let left = Leaving {
            totals,
            idle_rtt: flow.idle_rtt,
            owes: flow.sender.view.una < flow.sender.view.app_end,
            unfinished: flow.writes.len() as u64,
            since: flow.writes.front().map_or(flow.record.opened, |w| w.started),
        };
        self.recorder.flow(record, &totals.since(&flow.baseline), &left);
    }

    // ---- measuring -----------------------------------------------------------------------------------

    fn end_warmup(&mut self, at: Time) {
        self.measuring = true;
        for port in &mut self.ports {
            port.reset_stats(at, &mut self.arena);
        }
        for number in &self.open {
            let flow = self.flows[*number as usize].as_deref_mut().expect("it is open");
            flow.baseline = flow.counters();
        }
        self.recorder.start(at);
    }

    fn on_sample(&mut self) {
        for i in 0..self.recorder.sampled_ports.len() {
            let p = self.recorder.sampled_ports[i];
            self.ports[p as usize].advance(self.now, &mut self.arena);
        }
        let flows = &self.flows;
        let open = self.open.iter().map(|n| flows[*n as usize].as_deref().expect("it is open"));
        self.recorder.sample(self.now, &self.ports, open, &self.collectives);
    }

    fn finish(&mut self) {
        let now = self.now;
        for port in &mut self.ports {
            port.settle(now, &mut self.arena);
        }
        for number in std::mem::take(&mut self.open) {
            if let Some(flow) = self.flows[number as usize].take() {
                self.keep(&flow, true);
            }
        }
        self.recorder.finish(now);
        self.conservation.check(&self.ports, &self.arena);
    }

    /// Time now.
    pub fn now(&self) -> Time {
        self.now
    }
    /// Ports, by number.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }
    /// The receiver-side controller of a node, where it has one.
    pub fn receive_controller(&self, node: u32) -> Option<&dyn ReceiveController> {
        self.receive.get(node as usize)?.as_deref()
    }
    /// Network.
    pub fn topology(&self) -> &Topology {
        &self.setup.topology
    }
    /// What the run has measured so far.
    pub fn measured(&self) -> Measured<'_> {
        Measured {
            topology: &self.setup.topology,
            protocol_names: &self.setup.protocol_names,
            ports: &self.ports,
            bottleneck: self.setup.bottleneck.port(&self.setup.topology, &self.ports),
            candidate: self.setup.bottleneck.candidate(),
            recorder: &self.recorder,
            packet_hops: self.packet_hops,
            protocols: &self.setup.protocols,
            notes: &self.setup.notes,
            stopped: self.stopped,
        }
    }
}

impl Flow {
    fn note_delivered(&mut self, now: Time) {
        let delivered = self.receiver.delivered();
        while let Some(w) = self.writes.get_mut(self.undelivered) {
            if delivered < w.end {
                break;
            }
            w.delivered = now;
            self.undelivered += 1;
        }
    }
    pub(crate) fn counters(&self) -> FlowCounters {
        let s = &self.sender.stats;
        FlowCounters {
            acked_bytes: self.sender.acked(),
            delivered_bytes: self.receiver.delivered(),
            data_packets: s.data_packets,
            retransmits: s.retransmits,
            timeouts: s.timeouts,
            fast_retransmits: s.fast_retransmits,
            ece_acks: s.ece_acks,
            drops: self.drops,
        }
    }
}
