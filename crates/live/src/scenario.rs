//! What to run live: a scenario with the defaults of this view, scaled by rule, and what the kernel is told of it.

use penstock_core::params::parse_spec;
use penstock_core::tcp::EcnMode;
use penstock_core::{Amount, Kind, ParamError, ParamSpec, Params};
use penstock_models::registry::Registry;
use penstock_sim::document;
use penstock_sim::scenario::Resolved;
use penstock_sim::setup::Setup;
use penstock_units::Dur;
use serde_json::{json, Map, Value};
use std::sync::Arc;

/// Options of the live view, beside the scenario's own keys.
pub const OPTIONS: &[ParamSpec] = &[
    ParamSpec::new(
        "scale",
        Kind::Text,
        "none",
        "none: live defaults (100 Mb/s, RTT 1 ms); a factor divides rates and multiplies times, keeping buffers and sizes; auto chooses it",
        "chosen: auto brings the fastest link to 100 Mb/s",
    ),
    ParamSpec::new(
        "kernel",
        Kind::Text,
        "",
        "congestion control of the sockets: a name the kernel has, dctcp (ours), or steered (the simulator's controller sets the window); unset = by \
        protocol",
        "",
    ),
    ParamSpec::new(
        "gate",
        Kind::Float,
        "0.1",
        "a run is valid when 99 % of departures were late by at most this share of the round trip",
        "chosen: a tenth is below what a queue of one packet adds",
    )
    .range(1e-6, 10.0),
];

/// Rate of the links a run gets by default, and the target of `scale=auto`, in bit/s.
const RATE: f64 = 100e6;

/// Defaults that differ from the simulator's because the kernel has them so, or its timers want it: key, value.
/// They hold for the simulation beside a live run too.
const KERNEL: &[(&str, &str)] = &[
    ("timestamps", "true"),
    ("initial_window", "10"),
    ("rto_initial", "1s"),
    ("rto_granularity", "4ms"),
    ("delayed_ack", "2"),
    ("quick_acks", "16"),
    ("byte_counting", "true"),
    ("ssthresh_from", "cwnd"),
    ("window_validation", "true"),
    ("rwnd", "4MB"),
    ("tail_loss_probe", "false"),
    // The applications only learn of acknowledgements, and their requests are not packets.
    ("requests", "instant"),
    // Segments cross the switch one by one.
    ("gso", "1"),
    ("gro", "0s"),
    // A kernel's segments leave back to back: what noise there is, is some tens of microseconds of the machine's.
    ("send_jitter", "0s"),
];

/// Defaults when nothing is scaled: 100 Mb/s and a round trip of 1 ms. Noise is ten times that at 1 Gb/s. Shares of a
/// block last as long as at 1 Gb/s (Table 3.1: 256 KB), or the kernel's timeout floor of 200 ms would not matter.
const NETWORK: &[(&str, &str)] = &[
    ("link_rate", "100Mbps"),
    ("capacity", "100Mbps"),
    ("rtt", "1ms"),
    ("link_delay", "250us"),
    ("rto_min", "200ms"),
    ("sru", "25600B"),
    ("jitter", "200us"),
];

/// How long a run lasts unless it says so: the wall clock does not run faster for longer ones.
const LENGTH: &[(&str, &str)] = &[("duration", "10s"), ("warmup", "2s"), ("repetitions", "100")];

/// Protocols by the RFCs, and the one that has the same window law on Linux's sender.
const MATCHING: &[(&str, &str)] = &[("reno", "linux-reno"), ("sack", "linux-reno"), ("cubic", "linux-cubic")];

/// Keys of the simulator that real packets and the hosts' own ports do not obey.
const NOT_POSSIBLE: &[&str] = &["pfc", "trim", "fail", "deliveries"];

/// Smallest receive window of a live run in bytes, half of a receive buffer of 64 KiB. In a smaller buffer the kernel's bookkeeping of each
/// packet takes the place of data.
const RECEIVE_WINDOW: u64 = 32 << 10;

/// Keys of the simulator that the kernel has no counterpart for: given ones are named in a warning.
const WITHOUT_COUNTERPART: &[&str] = &[
    "read_rate",
    "rto_initial",
    "rto_granularity",
    "backoff_max",
    "delayed_ack_timeout",
    "quick_acks",
    "dup_thresh",
    "limited_transmit",
    "window_validation",
    "byte_counting",
    "ssthresh_from",
    "ect_syn",
    "retransmit_probability",
    "retransmit_every",
    "retransmit_segment",
    "retransmit_rests",
    "segment_start",
    "resize_window",
    "resize_from",
    "header_compression",
    "send_jitter",
    "host_queue",
    "nic",
    "nic_order",
    "receive_delay",
    "receive_jitter",
    "receive_lag",
    "data_handover",
    "ack_handover",
    "timer_lag",
    "processing_delay",
    "receiver_turn",
    "dupack_turn",
    "sender_turn",
    "missed_ticks_write",
    "missed_ticks_arrival",
    "write_lag",
    "write_time",
    "write_turn",
    "application_lag",
    "application_turn",
    "application_correlation",
    "gro",
    "loss_events",
    "ties",
];

/// Protocols whose senders speak to routers in packets of their own before they have data to send.
const ASK_WITHOUT_PAYLOAD: &[&str] = &["racs", "d3"];

/// A scenario for the wall clock.
pub struct LiveScenario {
    /// The scenario with every value as it will be run; the simulator runs the same.
    pub resolved: Resolved,
    /// Options of this view.
    pub options: Params,
    /// Factor that rates were divided and times multiplied by.
    pub scale: f64,
    /// Keys that were given and that the kernel has no counterpart for.
    pub without_counterpart: Vec<String>,
}

impl LiveScenario {
    /// What to run, as a document: that of [`document::resolve`] with the options under `live`.
    ///
    /// # Errors
    /// What [`document::resolve`] refuses, and a bad option.
    pub fn new(text: &str) -> Result<LiveScenario, ParamError> {
        Self::among(&Arc::new(Registry::standard()), text)
    }
    /// As [`LiveScenario::new`], with the protocols, queues and controllers of `registry`.
    ///
    /// # Errors
    /// As [`LiveScenario::new`].
    pub fn among(registry: &Arc<Registry>, text: &str) -> Result<LiveScenario, ParamError> {
        let resolve = |text: &str| document::resolve_among(registry.clone(), text);
        let asked = resolve(text)?;
        for (key, value, given) in asked.params.resolved() {
            if given && NOT_POSSIBLE.contains(&key) && value != "off" && value != "false" {
                return Err(asked.params.error(key, "is not possible in the kernel view"));
            }
        }
        if asked.params.is_given("requests") && asked.params.text("requests") != "instant" {
            let rule = "must be instant in the kernel view, whose requests are no packets";
            return Err(asked.params.error("requests", rule));
        }
        let mut given = Vec::new();
        let parsed: Value = serde_json::from_str(text).unwrap_or(Value::Null);
        for (key, value) in parsed.get("live").and_then(Value::as_object).into_iter().flatten() {
            given.push((key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
        let options = Params::parse("live", OPTIONS, &given)?;
        let scale = scale(&options, &asked)?;
        let mut set = Map::new();
        for (key, value, was_given) in asked.params.resolved() {
            if let Some(text) = live_value(registry, &asked, key, value, was_given, scale)? {
                set.insert(key.to_owned(), Value::String(text));
            }
        }
        for (key, value) in matching(registry, &asked, &options)? {
            set.insert(key.to_owned(), Value::String(value));
        }
        let mut document = json!({
            "scenario": asked.scenario.name, "set": set, "seed": asked.seed,
            "base_dir": asked.file.get("base_dir").cloned().unwrap_or(Value::Null),
        });
        if let Some(text) = parsed.get("toml") {
            document["toml"] = text.clone();
        }
        let mut resolved = resolve(&document.to_string())?;
        if !asked.params.is_given("delayed_ack_timeout") {
            let timeout = delayed_ack_timeout(resolved.params.dur("rto_min"));
            document["set"]["delayed_ack_timeout"] = format!("{}us", timeout.0 / 1_000_000).into();
            resolved = resolve(&document.to_string())?;
        }
        receive_window(&resolved.params)?;
        resolved.without_effect.retain(|k| asked.without_effect.contains(k));
        let without_counterpart = asked
            .params
            .resolved()
            .filter(|(key, _, given)| *given && WITHOUT_COUNTERPART.contains(key))
            .map(|(key, ..)| key.to_owned())
            .collect();
        Ok(LiveScenario { resolved, options, scale: scale.unwrap_or(1.0), without_counterpart })
    }
}

/// Refuses a receive window that the hosts' sockets would not have.
fn receive_window(p: &Params) -> Result<(), ParamError> {
    let bytes = match p.amount("rwnd") {
        Amount::Bytes(bytes) => bytes,
        Amount::Packets(packets) => u64::from(packets) * payload(p),
    };
    if bytes >= RECEIVE_WINDOW {
        return Ok(());
    }
    let rule = format!(
        "must be at least {RECEIVE_WINDOW} bytes in the kernel view, half of a socket's smallest receive buffer there (this is {bytes} bytes); \
         only a simulation has smaller windows"
    );
    Err(p.error("rwnd", rule))
}

/// Payload of a full segment.
fn payload(p: &Params) -> u64 {
    if !p.declares("mtu") {
        return p.bytes("segment").0;
    }
    let headers = p.bytes("header").0 + if p.flag("timestamps") { 12 } else { 0 };
    p.bytes("mtu").0.saturating_sub(headers)
}

/// What the simulation of a kernel's sockets is run with unless `tcp` is given: the kernel's recovery, delayed ACKs and integer windows
/// (docs/background/linux-sender.md). Without a protocol it is Reno. `newreno` stays what it is, a kernel without SACK.
fn matching(
    registry: &Registry,
    asked: &Resolved,
    options: &Params,
) -> Result<Vec<(&'static str, String)>, ParamError> {
    let p = &asked.params;
    if p.is_given("tcp") || !p.declares("tcp") || !options.text("kernel").is_empty() {
        return Ok(Vec::new());
    }
    if !p.is_given("protocol") && p.text("protocol") == "newreno" {
        return Ok(vec![("protocol", "linux-reno".to_owned())]);
    }
    let (name, given) = parse_spec("protocol", p.text("protocol"))?;
    let list = |name: &str, given: &[(String, String)]| {
        let given: Vec<String> = given.iter().map(|(k, v)| format!("{k}={v}")).collect();
        if given.is_empty() {
            name.to_owned()
        } else {
            format!("{name}:{}", given.join(","))
        }
    };
    if let Some((_, linux)) = MATCHING.iter().find(|(rfc, _)| *rfc == name) {
        let known = protocol_params(registry, linux).unwrap_or(&[]);
        let all = given.iter().all(|(k, _)| known.iter().any(|s| s.name == k));
        return Ok(if all { vec![("protocol", list(linux, &given))] } else { Vec::new() });
    }
    if name == "dctcp" {
        return Ok(vec![("tcp", "linux".to_owned())]);
    }
    Ok(Vec::new())
}

/// How long the kernel delays an ACK: 40 ms, or a tick less than the floor of the retransmission timeout (since Linux
/// 6.8, `tcp_delack_max`), in ticks of 4 ms.
fn delayed_ack_timeout(rto_min: Dur) -> Dur {
    let tick = Dur::millis(4);
    let ticks = rto_min.0.div_ceil(tick.0).max(2) - 1;
    (tick * ticks).min(Dur::millis(40))
}

/// The factor of `scale`, `None` when nothing is scaled.
fn scale(options: &Params, asked: &Resolved) -> Result<Option<f64>, ParamError> {
    let fastest = || {
        let keys = asked.scenario.specs();
        let rates = keys.iter().filter(|s| s.kind == Kind::Rate && asked.params.is_set(s.name));
        rates.map(|s| asked.params.rate(s.name).as_bps()).fold(0.0, f64::max)
    };
    let factor = match options.text("scale") {
        "none" => return Ok(None),
        "auto" => (fastest() / RATE).max(1.0),
        text => match text.parse::<f64>() {
            Ok(x) if (0.001..=1e6).contains(&x) => x,
            _ => return Err(options.error("scale", "must be none, auto or a factor of 0.001 to 1e6")),
        },
    };
    let tables = asked.file.get("tables").and_then(Value::as_object);
    if tables.is_some_and(|t| !t.is_empty()) {
        let rule =
            "cannot scale the links and workloads of a file: write the rates and times to be run there";
        return Err(options.error("scale", rule));
    }
    Ok(Some(factor))
}

/// The value a key has live, `None` = its default.
fn live_value(
    registry: &Registry,
    asked: &Resolved,
    key: &str,
    value: &str,
    given: bool,
    scale: Option<f64>,
) -> Result<Option<String>, ParamError> {
    let default = |table: &[(&str, &str)]| {
        table.iter().find(|(k, _)| *k == key).filter(|_| !given).map(|(_, v)| (*v).to_owned())
    };
    if let Some(text) = default(KERNEL) {
        return Ok(Some(text));
    }
    if let Some(text) = default(LENGTH) {
        // Never longer than the scenario itself, and a scenario without warm-up keeps none.
        let p = &asked.params;
        let longer = match key {
            "repetitions" => p.count(key) < 100,
            _ => p.dur(key) < if key == "duration" { Dur::millis(10_000) } else { Dur::millis(2_000) },
        };
        return Ok(if longer { given.then(|| value.to_owned()) } else { Some(text) });
    }
    let Some(factor) = scale else {
        return Ok(default(NETWORK).or(given.then(|| value.to_owned())));
    };
    let kind = asked.scenario.specs().iter().find(|s| s.name == key).map(|s| s.kind);
    match key {
        // How long and how finely one looks is not part of the network.
        "duration" | "warmup" | "sample" => Ok(given.then(|| value.to_owned())),
        "protocol" => scaled_spec(key, value, factor, |name| protocol_params(registry, name)).map(Some),
        "queue" => scaled_spec(key, value, factor, |name| queue_params(registry, name)).map(Some),
        "arrivals" => Ok(Some(match value.split_once(':') {
            Some(("poisson", rate)) => {
                let rate = rate.trim().trim_end_matches("/s").trim();
                rate.parse::<f64>().map_or(value.to_owned(), |r| format!("poisson:{}", r / factor))
            }
            _ => value.to_owned(),
        })),
        _ if !asked.params.is_set(key) => Ok(given.then(|| value.to_owned())),
        _ => match kind {
            Some(kind @ (Kind::Rate | Kind::Duration)) => scaled(&asked.params, key, kind, factor).map(Some),
            _ => Ok(given.then(|| value.to_owned())),
        },
    }
}

fn scaled(p: &Params, key: &str, kind: Kind, factor: f64) -> Result<String, ParamError> {
    Ok(match kind {
        Kind::Rate => format!("{}bps", (p.rate(key).as_bps() / factor).round()),
        _ => format!("{}ns", (p.dur(key).as_secs() * 1e9 * factor).round()),
    })
}

fn protocol_params(registry: &Registry, name: &str) -> Option<&'static [ParamSpec]> {
    registry.protocols().iter().find(|p| p.name == name).map(|p| p.params)
}

fn queue_params(registry: &Registry, name: &str) -> Option<&'static [ParamSpec]> {
    registry.queues().iter().find(|d| d.name == name).map(|d| d.params)
}

/// `name:key=value,...` with its rates and times scaled, defaults too.
fn scaled_spec(
    key: &str,
    text: &str,
    factor: f64,
    params: impl Fn(&str) -> Option<&'static [ParamSpec]>,
) -> Result<String, ParamError> {
    let (name, mut given) = parse_spec(key, text)?;
    let Some(specs) = params(&name) else { return Ok(text.to_owned()) };
    let p = Params::parse(&name, specs, &given)?;
    for s in specs.iter().filter(|s| matches!(s.kind, Kind::Rate | Kind::Duration) && p.is_set(s.name)) {
        let value = scaled(&p, s.name, s.kind, factor)?;
        match given.iter_mut().find(|(k, _)| k == s.name) {
            Some((_, v)) => *v = value,
            None => given.push((s.name.to_owned(), value)),
        }
    }
    let list: Vec<String> = given.iter().map(|(k, v)| format!("{k}={v}")).collect();
    Ok(if list.is_empty() { name } else { format!("{name}:{}", list.join(",")) })
}

/// Whose congestion control a connection has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// One the kernel has, by name.
    Kernel(String),
    /// Ours by RFC 8257, in the kernel.
    Dctcp,
    /// The simulator's controller sets the window of the socket.
    Steered,
}

/// The congestion control of each protocol of the run.
///
/// # Errors
/// An option that contradicts the protocol, protocols that cannot share a host.
pub fn controls(scenario: &LiveScenario, setup: &Setup) -> Result<Vec<Control>, ParamError> {
    let asked = scenario.options.text("kernel");
    let p = &scenario.resolved.params;
    let wrong = |key: &str, rule: &str| Err(p.error(key, rule));
    let first = &setup.protocols[0].1;
    let mut list = Vec::new();
    for ((suite, cfg), text) in setup.protocols.iter().zip(&setup.protocol_names) {
        if suite.stack.is_some() {
            return wrong(
                "protocol",
                "must be a TCP in a live run: the kernel's sockets have no other transport",
            );
        }
        if (cfg.recovery, cfg.ecn) != (first.recovery, first.ecn) {
            return wrong("protocol", "protocols of a live run must agree on loss recovery and on ECN");
        }
        let name = text.split(':').next().unwrap_or(text).trim();
        list.push(match asked {
            "dctcp" => Control::Dctcp,
            "steered" => Control::Steered,
            "" => match name {
                "reno" | "newreno" | "sack" | "linux-reno" => Control::Kernel("reno".into()),
                "cubic" | "linux-cubic" => Control::Kernel("cubic".into()),
                "bbr" => Control::Kernel("bbr".into()),
                "dctcp" => Control::Dctcp,
                _ => Control::Steered,
            },
            other => Control::Kernel(other.into()),
        });
    }
    let silent = |text: &String| ASK_WITHOUT_PAYLOAD.contains(&text.split(':').next().unwrap_or(text).trim());
    if let Some((text, _)) =
        setup.protocol_names.iter().zip(&list).find(|(t, c)| **c == Control::Steered && silent(t))
    {
        let rule = "asks for its rate in packets without payload, which a kernel socket does not send";
        return Err(ParamError::new("protocol", text, rule));
    }
    if list.contains(&Control::Dctcp) && first.ecn != EcnMode::Dctcp {
        return Err(scenario
            .options
            .error("kernel", "dctcp needs protocol=dctcp, or the queue would not mark"));
    }
    if first.header != penstock_core::tcp::IP_TCP_HEADER {
        return wrong("header", "must be 40B in a live run: the kernel's own headers");
    }
    if p.declares("delayed_ack") && !(1..=2).contains(&p.count("delayed_ack")) {
        return wrong("delayed_ack", "must be 1 or 2 in a live run: the kernel knows no other");
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(live: &str, set: &str) -> LiveScenario {
        let text = format!("{{\"scenario\":\"incast\",\"set\":{set},\"live\":{live}}}");
        LiveScenario::new(&text).unwrap()
    }

    #[test]
    fn without_a_scale_the_network_has_live_defaults_and_given_values_stay() {
        let s = resolve("{}", "{\"rto_min\":\"10ms\",\"servers\":4}");
        let p = &s.resolved.params;
        assert_eq!(p.rate("link_rate").as_bps(), 100e6);
        assert_eq!(p.dur("link_delay") * 4, Dur::millis(1));
        assert_eq!((p.dur("rto_min"), p.count("servers")), (Dur::millis(10), 4));
        assert_eq!((p.count("initial_window"), p.dur("duration")), (10, Dur::millis(10_000)));
        assert_eq!(p.text("buffer"), "32pkt");
    }

    /// The rule: rates / s, times * s, buffers and sizes kept, the length of the run not touched.
    #[test]
    fn a_scale_divides_rates_and_multiplies_times() {
        let s =
            resolve("{\"scale\":\"auto\"}", "{\"rto_min\":\"20ms\",\"duration\":\"7s\",\"sru\":\"64KB\"}");
        let p = &s.resolved.params;
        assert_eq!(s.scale, 10.0);
        assert_eq!(p.rate("link_rate").as_bps(), 100e6);
        assert_eq!(p.dur("link_delay"), Dur::micros(500));
        assert_eq!(p.dur("rto_min"), Dur::millis(200));
        assert_eq!((p.dur("duration"), p.bytes("sru").0), (Dur::millis(7000), 64_000));
    }

    #[test]
    fn parameters_of_protocols_are_scaled_too() {
        let standard = Registry::standard();
        let protocol = |name: &str| protocol_params(&standard, name);
        let text = scaled_spec("protocol", "sdc:silence=5ms", 10.0, protocol).unwrap();
        assert_eq!(text, "sdc:silence=50000000ns");
        let queue = |name: &str| queue_params(&standard, name);
        assert_eq!(scaled_spec("queue", "threshold:k=4pkt", 10.0, queue).unwrap(), "threshold:k=4pkt");
    }

    #[test]
    fn a_receive_window_below_the_smallest_buffer_is_refused() {
        let of = |set: &str| LiveScenario::new(&format!("{{\"scenario\":\"incast\",\"set\":{set}}}")).err();
        let said = |set: &str| of(set).expect("it is refused").to_string();
        for set in ["{\"rwnd\":\"20pkt\"}", "{\"rwnd\":\"32767B\"}"] {
            let line = said(set);
            assert!(line.contains("rwnd") && line.contains("at least 32768 bytes"), "{line}");
        }
        assert!(of("{\"rwnd\":\"32KiB\"}").is_none() && of("{\"rwnd\":\"40pkt\"}").is_none());
        assert!(of("{}").is_none());
    }

    #[test]
    fn acks_are_not_delayed_beyond_the_floor_of_the_timeout() {
        let timeout = |rto: &str| {
            let s = resolve("{}", &format!("{{\"rto_min\":\"{rto}\"}}"));
            s.resolved.params.dur("delayed_ack_timeout")
        };
        assert_eq!([timeout("200ms"), timeout("10ms"), timeout("1ms")], [40, 8, 4].map(Dur::millis));
    }

    /// The simulation beside a kernel has the kernel's rules, unless it is told whose.
    #[test]
    fn a_protocol_by_the_rfcs_is_simulated_on_linux_s_sender() {
        let of = |set: &str| {
            let p = resolve("{}", set).resolved.params;
            format!("{} {}", p.text("protocol"), p.text("tcp"))
        };
        assert_eq!(of("{}"), "linux-reno rfc");
        assert_eq!(of("{\"protocol\":\"newreno\"}"), "newreno rfc");
        assert_eq!(of("{\"protocol\":\"sack\"}"), "linux-reno rfc");
        assert_eq!(of("{\"protocol\":\"cubic:ecn=true\"}"), "linux-cubic:ecn=true rfc");
        assert_eq!(of("{\"protocol\":\"cubic\",\"tcp\":\"rfc\"}"), "cubic rfc");
        assert_eq!(of("{\"protocol\":\"dctcp:g=0.125\"}"), "dctcp:g=0.125 linux");
        assert_eq!(of("{\"protocol\":\"rcp\"}"), "rcp rfc");
    }

    #[test]
    fn bad_options_are_named() {
        let bad = |live: &str| {
            let text = format!("{{\"scenario\":\"incast\",\"live\":{live}}}");
            LiveScenario::new(&text).err().map(|e| e.key)
        };
        assert_eq!(bad("{\"scale\":\"-1\"}").as_deref(), Some("scale"));
        assert_eq!(bad("{\"gate\":\"none\"}").as_deref(), Some("gate"));
        assert_eq!(bad("{\"wire\":\"1\"}").as_deref(), Some("wire"));
    }

    #[test]
    fn keys_the_kernel_has_no_counterpart_for_are_known() {
        let s = resolve("{}", "{\"dup_thresh\":4,\"sru\":\"10KB\"}");
        assert_eq!(s.without_counterpart, ["dup_thresh"]);
    }
}
