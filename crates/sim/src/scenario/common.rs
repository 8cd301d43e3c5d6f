//! The parameters all scenarios share, parsed, and the parts of a [`Setup`] that follow from them.

use super::connections::{part, sizes};
use super::Part;
use crate::bottleneck::{is_switch_port, Bottleneck};
use crate::events::Ties;
use crate::fabric_options::{FabricOptions, PacketSizes};
use crate::folder::Folder;
use crate::metrics::Recorder;
use crate::notes::headers_of_short_flows;
use crate::setup::{NicMode, RunId, Setup};
use crate::topology::{LinkSpec, Topology};
use crate::workloads::open::MOST_REPEATS;
use crate::workloads::sizes::Sizes;
use crate::workloads::Workload;
use penstock_core::{bail_if, param, Amount, ParamError, ParamSpec, Params};
use penstock_host::latency::HostLatency;
use penstock_host::MOST_STACKS;
use penstock_models::registry::BuildReceive;
use penstock_models::{Protocol, QueueSpec, Registry};
use penstock_units::{Bytes, Dur, Rate};
use serde_json::{Map, Value};
use std::sync::Arc;

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
    /// A packet reaches its transport so much later than its host.
    pub receive_delay: Dur,
    /// Largest random delay that is added to [`Self::receive_delay`].
    pub receive_jitter: Dur,
    /// The delays of one machine that all hosts share.
    pub latency: HostLatency,
    /// A host takes so long for every packet that has arrived.
    pub processing_delay: Dur,
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
    /// Record pauses and resumes.
    pub pause_events: bool,
    /// Look at every packet.
    pub deliveries: bool,
    /// Receiver-side congestion control.
    pub receive: Option<BuildReceive>,
    /// What there is to choose from by name.
    pub registry: Arc<Registry>,
    /// Where files are that values name.
    pub folder: Folder,
    /// What is asked of the network between the hosts.
    pub fabric: FabricOptions,
    /// Network and workloads of a scenario file, by key.
    pub tables: Map<String, Value>,
}

/// Whether requests of closed loops travel, as key `requests` says. Only scenarios with such a loop ask.
pub fn requests_travel(p: &Params) -> bool {
    p.text("requests") == "travel"
}

impl Common {
    pub(super) fn parse(p: &Params, file: &Value, registry: &Arc<Registry>) -> Result<Common, ParamError> {
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
        bail_if!(series && sample.is_none(), p.error("series", "needs a sampling interval: set sample"));
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
            receive_delay: p.dur("receive_delay"),
            receive_jitter: p.dur("receive_jitter"),
            latency: HostLatency::parse(p)?,
            processing_delay: p.dur("processing_delay"),
            ties: if p.text("ties") == "reversed" { Ties::Reversed } else { Ties::Forward },
            sample,
            series,
            series_flows: if series { p.count("series_flows") as u32 } else { 0 },
            loss_events: p.flag("loss_events"),
            pause_events: p.flag("pause_events"),
            deliveries: p.flag("deliveries"),
            receive: registry.receive_control("receive_control", p.text("receive_control"))?,
            registry: registry.clone(),
            fabric,
            folder: Folder::of(file),
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
        // All laws of TCP are one transport.
        let stacks = setup.protocols.iter().filter(|(suite, _)| suite.stack.is_some()).count() + 1;
        if part.0.stack.is_some() && stacks >= MOST_STACKS {
            let rule = format!(
                "is transport {stacks} of the run that is no TCP, each set of parameters being one; at most {} are possible",
                MOST_STACKS - 1
            );
            return Err(ParamError::new(key, text, rule));
        }
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
    /// Of a load of the scenario's protocol: that it offers more than it says, because of the headers of flows of these sizes.
    pub fn headers_note(&self, said: &str, load: f64, sizes: &Sizes) -> Option<String> {
        let mss = self.protocols[0].1.mss;
        let overhead = self.packet() + self.framing - mss;
        headers_of_short_flows(said, load, sizes, f64::from(mss), f64::from(overhead))
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
        workloads: Vec<Workload>,
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
        recorder.keep_pauses = self.pause_events;
        recorder.keep_deliveries = self.deliveries;
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
            tables: Arc::default(),
            protocols: self.protocols.clone(),
            protocol_names: vec![self.protocol_name.clone()],
            idle: Vec::new(),
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
            receive_delay: self.receive_delay,
            receive_jitter: self.receive_jitter,
            latency: self.latency.clone(),
            processing: self.processing_delay,
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
    const LIMIT: ParamSpec = param!("host_queue": Amount = "2pkt" in [1.0, 1e12], "", "");
    if text.trim() == "unlimited" {
        return Ok(None);
    }
    let given = [(LIMIT.name.to_owned(), text.to_owned())];
    let p = Params::parse("host_queue", &[LIMIT], &given)
        .map_err(|e| ParamError { rule: format!("{}, or unlimited", e.rule), ..e })?;
    Ok(Some(p.amount(LIMIT.name)))
}
