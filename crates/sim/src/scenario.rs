//! A scenario: a name and its parameters, checked once and turned into a [`Setup`] that cannot be wrong.

use crate::engine::{Engine, Progress};
use crate::events::Ties;
use crate::fabric_options::{changes, meet_needs, FabricOptions, PacketSizes, KEYS};
use crate::metrics::Recorder;
use crate::notes::contradictions;
use crate::results::{is_switch_port, summarise, Bottleneck, Summary};
use crate::scenarios;
use crate::setup::{NicMode, Setup, TooLong};
use crate::topology::{drop_tail, Link, LinkSpec, Topology};
use crate::warnings::warnings;
use crate::workloads::Workload;
use penstock_core::params::unknown;
use penstock_core::tcp::{RetransmitThread, TcpConfig, ThreadSegment};
use penstock_core::{Amount, Kind, ParamError, ParamSpec, Params};
use penstock_fabric::Spread;
use penstock_host::Order;
use penstock_models::protocols::resizing::{resizing, ResizingOptions};
use penstock_models::registry::BuildReceive;
use penstock_models::{Protocol, QueueSpec, Registry, Suite};
use penstock_units::{Bytes, Dur, Rate};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// A named scenario.
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// What happens in it, in one line.
    pub text: &'static str,
    /// Where its defaults come from.
    pub source: &'static str,
    /// Its own parameters, before the common ones.
    pub params: &'static [ParamSpec],
    /// Defaults of common parameters that differ here: name, default, origin.
    pub defaults: &'static [(&'static str, &'static str, &'static str)],
    /// Named sets of defaults, chosen by its key `profile`; empty = it has none. The first is the defaults above.
    pub profiles: &'static [Profile],
    /// Fills keys without a value with what follows from the others.
    pub derive: fn(&mut Params),
    /// Builds one run of it.
    pub build: fn(&Params, &Common, RunId) -> Result<Setup, ParamError>,
}

/// A named set of defaults of a scenario.
pub struct Profile {
    /// Value of the key `profile`.
    pub name: &'static str,
    /// What it stands for, in one line.
    pub text: &'static str,
    /// Key, default, origin.
    pub values: &'static [(&'static str, &'static str, &'static str)],
}

/// Base seed and number of the replication.
#[derive(Clone, Copy, Debug)]
pub struct RunId {
    /// Base seed.
    pub seed: u64,
    /// Replication, 0-based.
    pub run: u64,
}

/// Parameters every scenario has, beside those of the network ([`KEYS`]).
pub const COMMON: &[ParamSpec] = &[
    ParamSpec::new("protocol", Kind::Text, "newreno", "congestion control, NAME or NAME:key=value,...", ""),
    ParamSpec::new(
        "queue",
        Kind::Text,
        "droptail",
        "queue discipline of switch ports, NAME or NAME:key=value,...",
        "",
    ),
    ParamSpec::new("duration", Kind::Duration, "10s", "simulated time", "chosen").range(1e-9, 1e6),
    ParamSpec::new("warmup", Kind::Duration, "0s", "statistics count from here", "chosen").range(0.0, 1e6),
    ParamSpec::new(
        "segment",
        Kind::Size,
        "1460B",
        "payload of a full segment (MSS)",
        "Ethernet MTU 1500 less 40",
    )
    .range(1.0, 65_000.0),
    ParamSpec::new("header", Kind::Size, "40B", "IP and TCP header without options", "RFC 791, RFC 9293")
        .range(1.0, 1000.0),
    ParamSpec::new(
        "timestamps",
        Kind::Bool,
        "false",
        "timestamp option: 12 bytes, an RTT sample per ACK",
        "RFC 7323",
    ),
    ParamSpec::new(
        "framing",
        Kind::Choice(&["none", "ethernet"]),
        "none",
        "link framing: ethernet adds 38 B per packet",
        "IEEE 802.3: preamble, header, FCS, gap",
    ),
    ParamSpec::new("initial_window", Kind::Count, "10", "initial window in segments", "RFC 6928")
        .range(1.0, 10_000.0),
    ParamSpec::new(
        "rwnd",
        Kind::Amount,
        "1GB",
        "receive buffer, bytes or segments (pkt)",
        "chosen: not limiting; TCP has no larger window (RFC 7323 section 2.3)",
    )
    .range(1.0, 4e9),
    ParamSpec::new(
        "read_rate",
        Kind::Rate,
        "",
        "rate at which the receiving application reads; unset = at once",
        "",
    )
    .range(1.0, 1e15),
    ParamSpec::new(
        "rto_min",
        Kind::Duration,
        "200ms",
        "floor of the retransmission timeout",
        "Linux; RFC 6298 says 1 s",
    )
    .range(0.0, 1e4),
    ParamSpec::new(
        "rto_max",
        Kind::Duration,
        "60s",
        "ceiling of the retransmission timeout",
        "RFC 6298 section 2.5",
    )
    .range(1e-6, 1e6),
    ParamSpec::new(
        "rto_initial",
        Kind::Duration,
        "1s",
        "timeout before the first RTT sample",
        "RFC 6298 section 2.1",
    )
    .range(1e-6, 1e4),
    ParamSpec::new(
        "rto_granularity",
        Kind::Duration,
        "0s",
        "clock granularity of RTT samples and timeouts",
        "exact clock",
    )
    .range(0.0, 10.0),
    ParamSpec::new(
        "backoff_max",
        Kind::Count,
        "64",
        "largest back-off factor of the timeout",
        "RFC 6298 section 5.5, ns-2",
    )
    .range(1.0, 1e6),
    ParamSpec::new(
        "delayed_ack",
        Kind::Count,
        "1",
        "acknowledge every n-th segment; 1 = every one",
        "ns-2 TCPSink",
    )
    .range(1.0, 1000.0),
    ParamSpec::new(
        "quick_acks",
        Kind::Count,
        "0",
        "ACKs that are not delayed at the start, after a gap longer than rto_min and after a duplicate",
        "0: RFC 5681 section 4.2; 16: Linux",
    )
    .range(0.0, 1e6),
    ParamSpec::new(
        "delayed_ack_timeout",
        Kind::Duration,
        "40ms",
        "longest an ACK is delayed",
        "Linux; RFC 5681 allows 500 ms",
    )
    .range(0.0, 0.5),
    ParamSpec::new("dup_thresh", Kind::Count, "3", "duplicate ACKs that mean loss", "RFC 5681 section 3.2")
        .range(1.0, 1000.0),
    ParamSpec::new(
        "limited_transmit",
        Kind::Bool,
        "true",
        "new data on the first two duplicate ACKs",
        "RFC 3042",
    ),
    ParamSpec::new(
        "restart_after_idle",
        Kind::Bool,
        "true",
        "back to the initial window after an idle RTO",
        "RFC 5681 section 4.1",
    ),
    ParamSpec::new(
        "window_validation",
        Kind::Bool,
        "true",
        "the window grows only while it limits the sender",
        "RFC 7661",
    ),
    ParamSpec::new(
        "byte_counting",
        Kind::Bool,
        "false",
        "the window grows by the bytes acknowledged, not by the ACKs that arrive; differs where ACKs are delayed",
        "false: RFC 5681 eqs. (2), (3); true: RFC 3465, Linux",
    ),
    ParamSpec::new(
        "ssthresh_from",
        Kind::Choice(&["flight", "cwnd"]),
        "flight",
        "what is halved at a loss",
        "RFC 5681 eq. (4); cwnd: Linux, ns-2",
    ),
    ParamSpec::new(
        "ecn_floor",
        Kind::Choice(&["segment", "none"]),
        "segment",
        "smallest window after a mark (reno, newreno, sack with ecn=true); below a segment nothing is sent",
        "RFC 3168 section 6.1.2; none: ns-2",
    ),
    ParamSpec::new(
        "ect_syn",
        Kind::Bool,
        "",
        "SYN and SYN-ACK are ECN-capable; unset = what the protocol says: yes for dctcp and d2tcp, no for classic ECN",
        "RFC 8257 section 3.6; RFC 3168 section 6.1.1",
    ),
    ParamSpec::new(
        "tail_loss_probe",
        Kind::Bool,
        "false",
        "tail-loss probe (needs a SACK protocol)",
        "RFC 8985 section 7",
    ),
    ParamSpec::new(
        "dsack",
        Kind::Bool,
        "",
        "ACKs of a SACK protocol report what came twice; unset = where tail_loss_probe is on, or a needless probe behind a delayed \
         ACK is taken for a loss",
        "RFC 2883; RFC 8985 section 7.4.2; on in Linux",
    ),
    ParamSpec::new(
        "retransmit_probability",
        Kind::Float,
        "0",
        "chance that a run of the retransmit thread sends an outstanding segment again",
        "kulkarni-agrawal-incast algorithm 1; 0 = plain TCP",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "retransmit_every",
        Kind::Duration,
        "20us",
        "time between two runs of the retransmit thread",
        "kulkarni-agrawal-incast section 4.2.2",
    )
    .range(1e-9, 10.0),
    ParamSpec::new(
        "retransmit_segment",
        Kind::Choice(&["newest", "oldest"]),
        "newest",
        "which outstanding segment the retransmit thread repeats",
        "kulkarni-agrawal-incast algorithm 1: the highest unacknowledged; oldest: ns-2's highest_ack_ + 1",
    ),
    ParamSpec::new(
        "retransmit_rests",
        Kind::Bool,
        "true",
        "the retransmit thread rests from the third duplicate ACK until recovery ends",
        "kulkarni-agrawal-incast algorithm 3: suspend retransmission thread",
    ),
    ParamSpec::new(
        "segment_start",
        Kind::Size,
        "",
        "first payload of a segment, enlarged as the window grows; unset = the full segment",
        "kulkarni-agrawal-incast section 4.3",
    )
    .range(1.0, 65_000.0),
    ParamSpec::new(
        "resize_window",
        Kind::Count,
        "50",
        "window in segments at which segments are enlarged",
        "kulkarni-agrawal-incast section 4.3.1",
    )
    .range(2.0, 1e6),
    ParamSpec::new(
        "resize_from",
        Kind::Choice(&["transfer", "connection"]),
        "transfer",
        "what begins with the small segments: every write on an idle connection, or the connection",
        "kulkarni-agrawal-incast section 4.3: begin its synchronized transfer",
    ),
    ParamSpec::new(
        "header_compression",
        Kind::Bool,
        "false",
        "compressed headers: about 4 of 40 bytes on the wire",
        "RFC 1144",
    ),
    ParamSpec::new(
        "receive_control",
        Kind::Text,
        "none",
        "receiver-side congestion control of every host, none or ictcp:key=value,...",
        "none: the window is the receive buffer",
    ),
    ParamSpec::new(
        "loss_events",
        Kind::Bool,
        "false",
        "record fast retransmits as events too, not only timeouts",
        "",
    ),
    ParamSpec::new(
        "send_jitter",
        Kind::Duration,
        "",
        "timing noise of a host: a packet with payload leaves U(0, this) late, in order; unset = one full packet's time at the \
         bottleneck, 0s = exact clocks",
        "chosen: breaks the phase lock of hosts of equal rate",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "host_queue",
        Kind::Text,
        "unlimited",
        "how much of one connection may stand in its own host's port: bytes, packets (pkt) or unlimited",
        "unlimited: ns-2; 2pkt: about Linux's TCP small queues",
    ),
    ParamSpec::new("sample", Kind::Duration, "", "sampling interval of queue, cwnd, alpha; unset = none", "")
        .range(1e-9, 1e6),
    ParamSpec::new("series", Kind::Bool, "false", "keep the samples as a table (bounded)", ""),
    ParamSpec::new(
        "series_flows",
        Kind::Count,
        "256",
        "flows whose samples are kept, besides the bottleneck's",
        "chosen",
    )
    .range(0.0, 100_000.0),
    ParamSpec::new(
        "ties",
        Kind::Choice(&["forward", "reversed"]),
        "forward",
        "order of simultaneous events: arrivals, deadlines, workloads; a result that depends on it is an artefact",
        "",
    ),
];

/// Most times anything periodic may happen in a run, and most flows an open loop may begin: hours of work, and with
/// a row for each as much as a machine has memory.
pub const MOST_REPEATS: f64 = 1e8;

/// Refuses a `key` of which a run of `duration` would have too many.
fn bounded(p: &Params, key: &str, duration: Dur, every: Dur, what: &str) -> Result<(), ParamError> {
    let times = duration.as_secs() / every.as_secs();
    if times <= MOST_REPEATS {
        return Ok(());
    }
    let rule =
        format!("means {times:.0} {what} in the {duration} of the run; at most {MOST_REPEATS} are possible");
    Err(p.error(key, rule))
}

/// A protocol with its connection options.
pub type Part = (Suite, Arc<TcpConfig>);

/// The common parameters, parsed.
#[derive(Clone)]
pub struct Common {
    /// Protocols of the run; position 0 is the scenario's own.
    pub protocols: Vec<Part>,
    /// The scenario's own protocol.
    pub protocol: &'static Protocol,
    /// It, as written.
    pub protocol_name: String,
    /// Discipline of switch ports.
    pub queue: QueueSpec,
    /// End of the run.
    pub duration: Dur,
    /// Start of measuring.
    pub warmup: Dur,
    /// Framing bytes per packet.
    pub framing: u32,
    /// Timing noise of hosts; `None` = one packet's time at the bottleneck.
    pub send_jitter: Option<Dur>,
    /// How much of one connection may stand in its own host's port; `None` = any amount.
    pub host_queue: Option<Amount>,
    /// Order of simultaneous events.
    pub ties: Ties,
    /// Sampling interval.
    pub sample: Option<Dur>,
    /// Keep samples as a table.
    pub series: bool,
    /// Flows kept in that table.
    pub series_flows: u32,
    /// Record fast retransmits.
    pub loss_events: bool,
    /// Receiver-side congestion control.
    pub receive: Option<BuildReceive>,
    /// What there is to choose from by name.
    pub registry: Arc<Registry>,
    /// Where relative paths of files start.
    pub base_dir: PathBuf,
    /// What is asked of the network between the hosts.
    pub fabric: FabricOptions,
    /// Network and workloads of a scenario file, by key.
    pub tables: Map<String, Value>,
}

impl Common {
    fn parse(p: &Params, file: &Value, registry: &Arc<Registry>) -> Result<Common, ParamError> {
        let (registered, part) = part(registry, p, "protocol", p.text("protocol"))?;
        let (duration, warmup) = (p.dur("duration"), p.dur("warmup"));
        if warmup >= duration {
            return Err(p.error("warmup", format!("must be shorter than duration ({duration})")));
        }
        let sample = p.is_set("sample").then(|| p.dur("sample"));
        let series = p.flag("series");
        if let Some(interval) = sample {
            bounded(p, "sample", duration, interval, "samples")?;
        }
        if p.float("retransmit_probability") > 0.0 {
            bounded(
                p,
                "retransmit_every",
                duration,
                p.dur("retransmit_every"),
                "runs of the retransmit thread",
            )?;
        }
        if series && sample.is_none() {
            return Err(p.error("series", "needs a sampling interval: set sample"));
        }
        let fabric = FabricOptions::parse(p, sizes(&part.1))?;
        Ok(Common {
            protocols: vec![part],
            protocol: registered,
            protocol_name: p.text("protocol").to_owned(),
            queue: registry.queue("queue", p.text("queue"))?,
            duration,
            warmup,
            framing: if p.text("framing") == "ethernet" { 38 } else { 0 },
            send_jitter: p.is_set("send_jitter").then(|| p.dur("send_jitter")),
            host_queue: host_queue(p.text("host_queue"))?,
            ties: if p.text("ties") == "reversed" { Ties::Reversed } else { Ties::Forward },
            sample,
            series,
            series_flows: if series { p.count("series_flows") as u32 } else { 0 },
            loss_events: p.flag("loss_events"),
            receive: registry.receive_control("receive_control", p.text("receive_control"))?,
            registry: registry.clone(),
            fabric,
            base_dir: file.get("base_dir").and_then(Value::as_str).unwrap_or_default().into(),
            tables: file.get("tables").and_then(Value::as_object).cloned().unwrap_or_default(),
        })
    }
    /// A protocol as written under `key`, with the connection options of the scenario.
    ///
    /// # Errors
    /// An unknown protocol, a bad parameter, options that contradict each other or the protocol.
    pub fn part(&self, p: &Params, key: &str, text: &str) -> Result<(&'static Protocol, Part), ParamError> {
        part(&self.registry, p, key, text)
    }
    /// Gives `setup` one more protocol, as written under `key`; answers its position.
    ///
    /// # Errors
    /// As [`Self::part`]; a second protocol that needs the routers.
    pub fn add_protocol(
        &self,
        p: &Params,
        key: &str,
        text: &str,
        setup: &mut Setup,
    ) -> Result<u16, ParamError> {
        let (registered, part) = self.part(p, key, text)?;
        let position = setup.protocols.len();
        if part.0.router.is_some() {
            if setup.router.is_some() {
                let rule =
                    format!("{} needs the routers, and so does another protocol of the run", registered.name);
                return Err(ParamError::new(key, text, rule));
            }
            setup.router = Some(position);
        }
        setup.protocols.push(part);
        setup.protocol_names.push(text.to_owned());
        Ok(position as u16)
    }
    /// Wire length of a full data packet.
    pub fn packet(&self) -> u32 {
        let (_, cfg) = &self.protocols[0];
        cfg.mss + cfg.header_len()
    }
    /// Lengths of its packets.
    pub fn sizes(&self) -> PacketSizes {
        sizes(&self.protocols[0].1)
    }
    /// Bytes on the wire of `payload` in full segments of the scenario's protocol.
    pub fn on_wire(&self, payload: f64) -> f64 {
        payload * f64::from(self.packet() + self.framing) / f64::from(self.protocols[0].1.mss)
    }
    /// A link with the scenario's discipline; `buffer` is checked to hold one packet.
    ///
    /// # Errors
    /// A buffer smaller than one packet.
    pub fn link(
        &self,
        rate: Rate,
        delay: Dur,
        buffer: Option<(&Params, &str)>,
    ) -> Result<LinkSpec, ParamError> {
        let buffer = match buffer {
            None => None,
            Some((p, key)) => {
                let amount = p.amount(key);
                self.check_buffer(amount, || p.error(key, String::new()))?;
                // Memory that is shared is no port's own.
                (self.fabric.shared.is_none() || key != "buffer").then_some(amount)
            }
        };
        Ok(LinkSpec { rate, delay, buffer, queue: self.queue.clone() })
    }
    /// A buffer must hold at least one full packet.
    ///
    /// # Errors
    /// When it does not.
    pub fn check_buffer(&self, amount: Amount, error: impl Fn() -> ParamError) -> Result<(), ParamError> {
        let fits = match amount {
            Amount::Packets(n) => n >= 1,
            Amount::Bytes(b) => b >= u64::from(self.packet()),
        };
        if fits {
            return Ok(());
        }
        Err(ParamError {
            rule: format!("must hold at least one packet of {} bytes", self.packet()),
            ..error()
        })
    }
    /// Assembles a run; `base_rtt` is the smallest RTT of its flows, for router controllers.
    pub fn setup(
        &self,
        topology: Topology,
        workloads: Vec<Box<dyn Workload>>,
        bottleneck: impl Into<Bottleneck>,
        base_rtt: Dur,
        id: RunId,
    ) -> Setup {
        let mut recorder = Recorder::default();
        let bottleneck = bottleneck.into();
        recorder.sampled_ports = sampled_ports(bottleneck, &topology);
        recorder.series_flows = self.series_flows;
        recorder.keep_series = self.series;
        recorder.keep_losses = self.loss_events;
        if let Some(interval) = self.sample {
            recorder.sample_every(interval);
        }
        let mut derived = Vec::new();
        let send_jitter = self.send_jitter.unwrap_or_else(|| {
            let wire = Bytes(u64::from(self.packet() + self.framing));
            let packet = wire / topology.links[bottleneck.candidate() as usize].rate;
            derived.push(("send_jitter", packet.to_string()));
            packet
        });
        Setup {
            topology,
            protocols: self.protocols.clone(),
            protocol_names: vec![self.protocol_name.clone()],
            unused: Vec::new(),
            derived,
            router: self.protocols.iter().position(|p| p.0.router.is_some()),
            base_rtt,
            workloads,
            duration: self.duration,
            warmup: self.warmup,
            framing: self.framing,
            send_jitter,
            nic: NicMode::Endless,
            receive_delay: Dur::ZERO,
            processing: Dur::ZERO,
            host_queue: self.host_queue,
            seed: id.seed,
            run: id.run,
            ties: self.ties,
            bottleneck,
            notes: Vec::new(),
            recorder,
            receive: self.receive.clone(),
            pools: Vec::new(),
            fabric: self.fabric.clone(),
            changes: Vec::new(),
            collectives: Vec::new(),
        }
    }
}

/// Lengths of a protocol's packets on the wire.
fn sizes(cfg: &TcpConfig) -> PacketSizes {
    PacketSizes { full: cfg.mss + cfg.header_len(), headers: cfg.header_len() }
}

/// [`Common::part`] among what is in `registry`.
fn part(
    registry: &Registry,
    p: &Params,
    key: &str,
    text: &str,
) -> Result<(&'static Protocol, Part), ParamError> {
    let (registered, mut suite) = registry.protocol(key, text)?;
    if p.declares("mtu") {
        let headers = p.bytes("header").0 + if p.flag("timestamps") { 12 } else { 0 };
        if p.bytes("mtu").0 <= headers {
            return Err(p.error("mtu", format!("must be larger than the headers of {headers} bytes")));
        }
    }
    let cfg = tcp_config(p, &suite);
    if p.is_set("segment_start") {
        let start = p.bytes("segment_start").0;
        if start > u64::from(cfg.mss) {
            return Err(
                p.error("segment_start", format!("must not be above the full segment of {} bytes", cfg.mss))
            );
        }
        suite.endpoint = resizing(
            suite.endpoint,
            ResizingOptions {
                segment: start as u32,
                threshold: p.count("resize_window") as u32,
                every_transfer: p.text("resize_from") == "transfer",
            },
        );
    }
    if cfg.rto_min > cfg.rto_max {
        return Err(p.error("rto_min", "must not be above rto_max"));
    }
    if cfg.tail_loss_probe && cfg.recovery != penstock_core::tcp::LossRecovery::Sack {
        let rule =
            format!("needs selective acknowledgements, which protocol {} does not have", registered.name);
        return Err(p.error("tail_loss_probe", rule));
    }
    Ok((registered, (suite, Arc::new(cfg))))
}

/// Networks of up to so many switch ports sample all of them, where the reported one is found at the end.
const SAMPLE_ALL: usize = 8;

/// The ports whose queue is sampled.
fn sampled_ports(bottleneck: Bottleneck, topology: &Topology) -> Vec<u32> {
    let switches: Vec<u32> =
        (0..topology.links.len() as u32).filter(|p| is_switch_port(topology, *p)).collect();
    match bottleneck {
        Bottleneck::Busiest { .. } if (1..=SAMPLE_ALL).contains(&switches.len()) => switches,
        _ => vec![bottleneck.candidate()],
    }
}

/// How much of one connection may stand in its own host's port, as written.
fn host_queue(text: &str) -> Result<Option<Amount>, ParamError> {
    const LIMIT: ParamSpec = ParamSpec::new("host_queue", Kind::Amount, "2pkt", "", "").range(1.0, 1e12);
    if text.trim() == "unlimited" {
        return Ok(None);
    }
    let given = [(LIMIT.name.to_owned(), text.to_owned())];
    let p = Params::parse("host_queue", &[LIMIT], &given)
        .map_err(|e| ParamError { rule: format!("{}, or unlimited", e.rule), ..e })?;
    Ok(Some(p.amount(LIMIT.name)))
}

/// The connection options of a scenario, as `suite` wants them.
fn tcp_config(p: &Params, suite: &Suite) -> TcpConfig {
    let header = p.bytes("header").0 as u32;
    let timestamps = p.flag("timestamps");
    // A scenario that speaks of packets on the wire declares `mtu`; the others declare the payload.
    let mss = if p.declares("mtu") {
        p.bytes("mtu").0 as u32 - header - if timestamps { 12 } else { 0 }
    } else {
        p.bytes("segment").0 as u32
    };
    let mut cfg = TcpConfig {
        mss,
        header,
        timestamps,
        initial_window: p.count("initial_window") as u32,
        dup_thresh: p.count("dup_thresh") as u32,
        limited_transmit: p.flag("limited_transmit"),
        rto_min: p.dur("rto_min"),
        rto_max: p.dur("rto_max"),
        rto_initial: p.dur("rto_initial"),
        rto_granularity: p.dur("rto_granularity"),
        backoff_max: p.count("backoff_max") as u32,
        delayed_ack: p.count("delayed_ack") as u32,
        quick_acks: if p.count("delayed_ack") > 1 { p.count("quick_acks") as u32 } else { 0 },
        delayed_ack_timeout: if p.count("delayed_ack") > 1 {
            p.dur("delayed_ack_timeout")
        } else {
            TcpConfig::default().delayed_ack_timeout
        },
        rwnd: match p.amount("rwnd") {
            Amount::Bytes(b) => b.max(u64::from(mss)),
            Amount::Packets(n) => u64::from(n) * u64::from(mss),
        },
        read_rate: p.is_set("read_rate").then(|| p.rate("read_rate")),
        restart_after_idle: p.flag("restart_after_idle"),
        window_validation: p.flag("window_validation"),
        byte_counting: p.flag("byte_counting"),
        ssthresh_from_cwnd: p.text("ssthresh_from") == "cwnd",
        ecn_floor: p.text("ecn_floor") == "segment",
        ect_syn: p.is_set("ect_syn").then(|| p.flag("ect_syn")),
        tail_loss_probe: p.flag("tail_loss_probe"),
        dsack: if p.is_set("dsack") { p.flag("dsack") } else { p.flag("tail_loss_probe") },
        retransmit_thread: (p.float("retransmit_probability") > 0.0).then(|| RetransmitThread {
            probability: p.float("retransmit_probability"),
            every: p.dur("retransmit_every"),
            segment: match p.text("retransmit_segment") {
                "oldest" => ThreadSegment::Oldest,
                _ => ThreadSegment::Newest,
            },
            rests_in_recovery: p.flag("retransmit_rests"),
        }),
        header_compression: p.flag("header_compression"),
        ..TcpConfig::default()
    };
    suite.set_up(&mut cfg);
    cfg
}

impl Scenario {
    /// Own and common parameters, with this scenario's defaults.
    pub fn specs(&self) -> Vec<ParamSpec> {
        self.specs_of("")
    }
    /// The same with the defaults of a profile; those of the scenario itself when there is none of that name.
    pub fn specs_of(&self, profile: &str) -> Vec<ParamSpec> {
        let mut specs = self.own_specs();
        let values = self.profiles.iter().find(|p| p.name == profile).map_or(&[][..], |p| p.values);
        for spec in &mut specs {
            if let Some((_, default, origin)) = values.iter().find(|v| v.0 == spec.name) {
                *spec = spec.with_default(default, origin);
            }
        }
        specs
    }
    fn own_specs(&self) -> Vec<ParamSpec> {
        let mut specs = self.params.to_vec();
        for common in COMMON.iter().chain(KEYS) {
            if self.params.iter().any(|s| s.name == common.name) {
                continue;
            }
            specs.push(match self.defaults.iter().find(|d| d.0 == common.name) {
                Some((_, default, origin)) => common.with_default(default, origin),
                None => *common,
            });
        }
        specs
    }
}

/// The scenario of that name.
///
/// # Errors
/// An unknown name.
pub fn find(name: &str) -> Result<&'static Scenario, ParamError> {
    scenarios::ALL.iter().copied().find(|s| s.name == name).ok_or_else(|| {
        let names: Vec<&str> = scenarios::ALL.iter().map(|s| s.name).collect();
        ParamError::new("scenario", name, unknown("scenario", name, &names))
    })
}

/// A scenario with its parameters, checked.
pub struct Resolved {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// Its parameters.
    pub params: Params,
    /// Base seed.
    pub seed: u64,
    /// Tables of a scenario file (network and workloads), null when there are none.
    pub file: Value,
    /// Facts the build found: mean flow size, offered load and the like, by summary key.
    pub facts: Vec<(&'static str, f64)>,
    /// Values that follow from others where a key is unset, as text by key.
    pub derived: Vec<(&'static str, String)>,
    /// Keys that were given but have no effect in this run.
    pub without_effect: Vec<String>,
    /// What is known before the run and would mislead a reader of its numbers.
    pub notes: Vec<String>,
    registry: Arc<Registry>,
    build: Build,
}

/// Builds one run of a scenario.
pub type Build = Arc<dyn Fn(&Params, &Common, RunId) -> Result<Setup, ParamError> + Send + Sync>;

/// What a finished (or interrupted) run leaves.
pub struct Outcome {
    /// The engine with its tables.
    pub engine: Engine,
    /// Summary.
    pub summary: Summary,
    /// False when it was cancelled.
    pub completed: bool,
    /// Name of the reported port.
    pub bottleneck: String,
    /// What to know before trusting the numbers, a line each.
    pub warnings: Vec<String>,
}

impl Resolved {
    /// Checks `given` against scenario `name`, and builds run 0 once to find what only building can. Protocols, queues and controllers
    /// are the standard ones.
    ///
    /// # Errors
    /// An unknown scenario or key, or a bad value.
    pub fn new(
        name: &str,
        given: &[(String, String)],
        seed: u64,
        file: Value,
    ) -> Result<Resolved, ParamError> {
        Resolved::among(Arc::new(Registry::standard()), name, given, seed, file)
    }
    /// The same with what is in `registry`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn among(
        registry: Arc<Registry>,
        name: &str,
        given: &[(String, String)],
        seed: u64,
        file: Value,
    ) -> Result<Resolved, ParamError> {
        let scenario = find(name)?;
        Resolved::built_by(Arc::new(scenario.build), scenario, registry, given, seed, file)
    }
    /// A scenario that is in no list, or one that is and is built otherwise: `build` takes the place of the scenario's own.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn built_by(
        build: Build,
        scenario: &'static Scenario,
        registry: Arc<Registry>,
        given: &[(String, String)],
        seed: u64,
        file: Value,
    ) -> Result<Resolved, ParamError> {
        let name = scenario.name;
        let profile = given.iter().find(|(key, _)| key == "profile").map_or("", |(_, text)| text.trim());
        let mut params = Params::parse(&format!("scenario {name}"), &scenario.specs_of(profile), given)?;
        if params.declares("profile") {
            params.text("profile");
        }
        // What a default is derived from counts as read only when the run itself looks at it.
        let read = params.clone();
        (scenario.derive)(&mut params);
        params.read_as(&read);
        let tables = file.get("tables").and_then(Value::as_object);
        if let Some(key) = tables.and_then(|t| t.keys().next()).filter(|_| scenario.name != "custom") {
            let rule =
                format!("scenario {name} has its own network and workloads; scenario custom takes them");
            return Err(ParamError::new(key, "", rule));
        }
        let mut resolved = Resolved {
            scenario,
            params,
            seed,
            file,
            facts: Vec::new(),
            without_effect: Vec::new(),
            derived: Vec::new(),
            notes: Vec::new(),
            registry,
            build,
        };
        let setup = resolved.setup(0)?;
        resolved.facts = setup.recorder.facts;
        resolved.derived = setup.derived;
        resolved.notes = setup.notes;
        let p = &resolved.params;
        resolved.without_effect = p.without_effect().iter().map(|k| (*k).to_owned()).collect();
        resolved.without_effect.extend(setup.unused);
        resolved.without_effect.extend(resolved.registry.unread("protocol", p.text("protocol")));
        Ok(resolved)
    }
    /// Builds replication `run` without running it.
    ///
    /// # Errors
    /// A bad value that only building can find.
    pub fn setup(&self, run: u64) -> Result<Setup, ParamError> {
        let common = Common::parse(&self.params, &self.file, &self.registry)?;
        let mut setup = (self.build)(&self.params, &common, RunId { seed: self.seed, run })?;
        setup.changes = changes(&setup.topology, &setup.fabric.fail)?;
        if setup.own_stack().is_some() {
            if setup.nic == NicMode::Endless {
                setup.nic = NicMode::Pull(Order::RoundRobin);
            }
            if !self.params.is_given("host_queue") {
                setup.host_queue = None;
            }
            // A scenario's default discipline is one for the protocol that is its default.
            if setup.needs().is_some() && !self.params.is_given("queue") {
                let same = |l: &&mut Link| l.queue.name == common.queue.name;
                setup.topology.links.iter_mut().filter(same).for_each(|l| l.queue = drop_tail());
            }
        }
        setup.check_hosts()?;
        meet_needs(&mut setup, !self.params.is_given("spread"))?;
        if setup.fabric.spread != Spread::Drawn {
            setup.forwarding()?;
        }
        if setup.fabric.pooled() {
            setup.fabric()?;
        }
        setup.notes.extend(contradictions(&self.params, &common, &setup));
        setup.derived.extend(self.params.derived().map(|(key, value, why)| (key, format!("{value}: {why}"))));
        match setup.too_long() {
            None => Ok(setup),
            Some(found) => Err(self.too_long(&setup, &found)),
        }
    }
    /// The error of a link that is too slow or too long, under the key that set its rate or its delay.
    fn too_long(&self, setup: &Setup, found: &TooLong) -> ParamError {
        let p = &self.params;
        let link = &setup.topology.links[found.link as usize];
        let slow = found.transmission > found.delay;
        let sets = |spec: &ParamSpec| match spec.kind {
            Kind::Rate if slow => p.is_set(spec.name) && p.rate(spec.name) == link.rate,
            Kind::Duration if !slow => p.is_set(spec.name) && p.dur(spec.name) == link.delay,
            _ => false,
        };
        match self.scenario.params.iter().find(|spec| sets(spec)) {
            Some(spec) => found.error(spec.name, p.text(spec.name)),
            None => found.error("link", &setup.topology.link_name(found.link)),
        }
    }
    /// Runs replication `run`.
    ///
    /// # Errors
    /// A workload that asks for an impossible flow.
    pub fn run(&self, run: u64, progress: &Progress) -> Result<Outcome, ParamError> {
        let mut engine = Engine::new(self.setup(run)?)?;
        let completed = engine.run(progress)?;
        let measured = engine.measured();
        let summary = summarise(&measured);
        let (bottleneck, warnings) = (measured.bottleneck_name(), warnings(&measured));
        Ok(Outcome { engine, summary, completed, bottleneck, warnings })
    }
}
