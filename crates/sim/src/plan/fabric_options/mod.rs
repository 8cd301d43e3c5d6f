//! What a scenario may ask of the network between its hosts: priorities, schedulers, shared buffers, pause, trimming, reordering,
//! spread rules, links that fail. [`KEYS`] are common to all scenarios; docs/reference/fabric.md explains them with examples.
//!
//! `build` makes ports and nodes of these options, with buffers from `memory`. `needs` adds what the protocols of the run need. `link` has the
//! options of one link, and `outages` finds the links that fail. `lossless` refuses a fabric that can lose what a protocol never sends again.

mod build;
mod link;
mod lossless;
mod memory;
mod needs;
mod outages;

pub use build::{check_clock, check_ports};
pub use link::{parse_outage, Change, LinkChange, LinkOptions, Outage};
pub use lossless::check_required;
pub use memory::{headroom_of, longest_wait, oversubscription, usual_memory};
pub(crate) use needs::left_out;
pub use needs::{meet_needs, told, Told};
pub use outages::changes;

pub use crate::sharing::Shared;

use crate::sharing::{above_zero, shared};
use crate::topology::Link;
use penstock_core::params::{one_of, parse_spec};
use penstock_core::{bail_if, param, ParamError, ParamSpec, Params};
use penstock_fabric::pint::PintConfig;
use penstock_fabric::{Accounting, Reordering, Reroute, Scheduler, Spread, Trim, PRIORITIES};
use penstock_units::Dur;

/// Parameters every scenario has, beside those of hosts and protocols.
pub const KEYS: &[ParamSpec] = &[
    param!("priorities": Text = "1",
        "number of data priorities, 1 to 8: N or N:CLASS=PRIORITY,...; an unnamed traffic class has the priority of its own number, at most the \
         highest",
        "IEEE 802.1Q: 7 is served first"),
    param!("schedule": Text = "",
        "order of service at every port: fifo, strict, or drr:quantum=BYTES,q0=BYTES,...; unset = strict with priorities or trim, else fifo",
        "IEEE 802.1Q; DRR: Shreedhar, Varghese, SIGCOMM 1995"),
    param!("pfc": Text = "off",
        "priority flow control at every switch: off, on:xoff=,xon= (fixed thresholds), on:alpha=,gap=,alpha_by_rate= (dynamic); also headroom=, \
         reserve=, response=, lossless=P+P; unset keys = the protocol's; ingress instead of on: limits per ingress without pause frames",
        "IEEE 802.1Qbb"),
    param!("trim": Text = "off",
        "trim a packet that finds the queue full: off, or the BYTES that remain, as in 64B:priority=7,tail=0", "NDP, SIGCOMM 2017, section 3.1"),
    param!("reorder": Text = "off",
        "switches' links delay a share S of the packets by U(0, T), so that these arrive out of order: off, or share=S,delay=T", ""),
    param!("spread": Text = "drawn",
        "choice among ports of equal cost: drawn, ideal, flow, packet, round-robin, flowlet:gap=T, weighted, adaptive, entropy", "RFC 2991, RFC 2992"),
    param!("fail": Text = "",
        "links that fail: LINK@T1 or LINK@T1-T2, separated by semicolons; LINK is A->B or A<->B; ,rate=R reduces the rate to R instead; with \
         ,waiting=kept, packets wait for recovery",
        ""),
    param!("reroute": Choice(&["at-once", "never"]) = "at-once", "switches route around a failed link at once, or never", "chosen"),
];

/// When a lane (ingress link and priority) is told to stop and to go on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Thresholds {
    /// Bytes; unset = the buffer of a port, and half of XOFF.
    Fixed {
        /// Stop at so many bytes.
        xoff: Option<u64>,
        /// Go on at so many.
        xon: Option<u64>,
    },
    /// Shares of the free memory.
    Dynamic {
        /// Stop at this times the free memory.
        alpha: f64,
        /// Go on so many bytes below; unset = two packets.
        gap: Option<u64>,
    },
}

/// Headroom of a lane.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Headroom {
    /// So many bytes.
    Bytes(u64),
    /// By formula, from each link's rate and delay, and so many bytes less.
    Formula {
        /// How many.
        less: u64,
    },
    /// So many times rate x delay of each link.
    Cables(f64),
}

/// What the key `pfc` says; what it leaves open is as the protocols of the run need it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PfcKeys {
    /// XOFF and XON of fixed thresholds, where one of them is given.
    fixed: Option<(Option<u64>, Option<u64>)>,
    /// A key of dynamic thresholds that is given.
    dynamic: Option<&'static str>,
    alpha: Option<f64>,
    gap: Option<u64>,
    alpha_by_rate: Option<bool>,
    headroom: Option<Headroom>,
    reserve: Option<u64>,
    response: Dur,
    /// Priorities, a bit each.
    lossless: Option<u8>,
    /// Pause frames are sent.
    frames: bool,
}

/// Priority flow control.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pfc {
    /// When lanes are paused.
    pub thresholds: Thresholds,
    /// A dynamic threshold's alpha grows with the rate of the link into the switch ([`penstock_models::registry::alpha_times`]).
    pub alpha_by_rate: bool,
    /// Pause frames are sent; otherwise lanes are limited, and what finds no room is lost.
    pub frames: bool,
    /// Headroom of every lane.
    pub headroom: Headroom,
    /// Bytes each lane has for itself.
    pub reserve: u64,
    /// Time a port takes to obey a pause frame.
    pub response: Dur,
    /// Priorities without loss, a bit each.
    pub lossless: u8,
    /// How packets of these are charged.
    pub accounting: Accounting,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct FabricOptions {
    /// Priority of every traffic class.
    pub priority_of: [u8; 64],
    /// Priorities of data.
    pub priorities: u8,
    /// Order of service; `None` = first come, first served, with departures known on arrival.
    pub scheduler: Option<Scheduler>,
    /// Memory that the ports of a switch share; `None` = each has its own.
    pub shared: Option<Shared>,
    /// What is asked of priority flow control.
    pub pfc_keys: Option<PfcKeys>,
    /// Priority flow control, once the needs of the protocols are known ([`meet_needs`]).
    pub pfc: Option<Pfc>,
    /// A port's own buffer limits those of its priorities that may be lost also where priorities without loss share a switch's memory.
    pub own_limits: bool,
    /// The order of service is what a key of the scenario says, whatever protocols need.
    pub scheduler_given: bool,
    /// Trimming is what a key of the scenario says, whatever protocols need.
    pub trim_given: bool,
    /// Trimming.
    pub trim: Option<Trim>,
    /// Reordering, on links from switches.
    pub reorder: Option<Reordering>,
    /// Choice among ports of equal cost.
    pub spread: Spread,
    /// Who learns of a failure.
    pub reroute: Reroute,
    /// Links that fail, as written.
    pub fail: String,
    /// Ports keep in-band telemetry.
    pub telemetry: bool,
    /// It is a digest of one byte.
    pub pint: Option<PintConfig>,
    /// Ports count whole nanoseconds ([`penstock_fabric::PortConfig::whole_ns`]).
    pub whole_ns: bool,
}

impl Default for FabricOptions {
    fn default() -> Self {
        FabricOptions {
            priority_of: [0; 64],
            priorities: 1,
            scheduler: None,
            shared: None,
            pfc_keys: None,
            pfc: None,
            own_limits: true,
            scheduler_given: false,
            trim_given: false,
            trim: None,
            reorder: None,
            spread: Spread::Drawn,
            reroute: Reroute::AtOnce,
            fail: String::new(),
            telemetry: false,
            pint: None,
            whole_ns: false,
        }
    }
}

/// Lengths of the packets of a run, in bytes on the wire without framing.
#[derive(Clone, Copy, Debug)]
pub struct PacketSizes {
    /// A full packet.
    pub full: u32,
    /// Its headers.
    pub headers: u32,
}

impl FabricOptions {
    /// From the end of a transmission to the arrival, over a link with this propagation delay. By a clock of whole nanoseconds what leaves does
    /// so half of one later than it would, and the link is as much shorter.
    pub fn flight(&self, delay: Dur) -> Dur {
        if self.whole_ns {
            Dur(delay.0.saturating_sub(500))
        } else {
            delay
        }
    }
    /// The options among the parameters of a scenario.
    ///
    /// # Errors
    /// A bad value, by its key (`pfc:xon`), and options that contradict each other.
    pub fn parse(p: &Params, sizes: PacketSizes) -> Result<FabricOptions, ParamError> {
        let (priorities, priority_of) = priorities(p.text("priorities"))?;
        let trim = trim("trim", p.text("trim"), sizes, priorities)?;
        let scheduler = match p.is_set("schedule") {
            true => schedule("schedule", p.text("schedule"), sizes)?,
            false => (priorities > 1 || trim.is_some()).then_some(Scheduler::Strict),
        };
        let shared = shared(p)?;
        let pfc_keys = pfc(p.text("pfc"))?;
        let options = FabricOptions {
            priority_of,
            priorities,
            scheduler,
            shared,
            pfc_keys,
            pfc: None,
            own_limits: true,
            scheduler_given: p.is_set("schedule"),
            trim_given: p.is_given("trim"),
            trim,
            reorder: reorder("reorder", p.text("reorder"))?,
            spread: Spread::parse("spread", p.text("spread"))?,
            reroute: if p.text("reroute") == "never" { Reroute::Never } else { Reroute::AtOnce },
            fail: p.text("fail").to_owned(),
            telemetry: false,
            pint: None,
            whole_ns: false,
        };
        options.check_trim("trim", trim)?;
        Ok(options)
    }
    /// What a port with its own `trim` must not have.
    pub fn check_trim(&self, key: &str, trim: Option<Trim>) -> Result<(), ParamError> {
        let Some(trim) = trim.filter(|t| t.tail > 0.0) else { return Ok(()) };
        let shares = match (self.shared, self.pfc_keys) {
            (Some(_), _) => "buffer=shared",
            (_, Some(_)) => "pfc",
            _ => return Ok(()),
        };
        let rule = format!("must be 0 with {shares}: a packet that waits in a shared buffer is not trimmed");
        Err(ParamError::new(format!("{key}:tail"), trim.tail, rule))
    }
    /// What of the order of service and of trimming keys say for the port of a link: there no protocol's need counts.
    pub fn asked(&self, link: &Link) -> (bool, bool) {
        (
            self.scheduler_given || link.options.scheduler.is_some(),
            self.trim_given || link.options.trim.is_some(),
        )
    }
    /// True when the ports of a switch share its memory.
    pub fn pooled(&self) -> bool {
        self.shared.is_some() || self.pfc.is_some() || self.pfc_keys.is_some()
    }
}

/// Reads `NAME:key=value,...` against `specs`; errors are under `key:...`.
fn read(
    key: &str,
    owner: &str,
    specs: &[ParamSpec],
    given: &[(String, String)],
) -> Result<Params, ParamError> {
    Params::parse(owner, specs, given).map_err(|e| ParamError { key: format!("{key}:{}", e.key), ..e })
}

fn priorities(text: &str) -> Result<(u8, [u8; 64]), ParamError> {
    let key = "priorities";
    let (number, given) = parse_spec(key, text)?;
    let most = number.parse::<u8>().ok().filter(|n| (1..=PRIORITIES as u8).contains(n));
    let most = most.ok_or_else(|| ParamError::new(key, text, "must be a number of priorities, 1 to 8"))?;
    let mut map = std::array::from_fn(|class| (class as u8).min(most - 1));
    for (class, priority) in given {
        let found = class.parse::<usize>().ok().filter(|c| *c < map.len());
        let Some(class) = found else {
            return Err(ParamError::new(key, class, "must be a traffic class, 0 to 63"));
        };
        map[class] = priority.parse::<u8>().ok().filter(|p| *p < most).ok_or_else(|| {
            ParamError::new(
                format!("{key}:{class}"),
                &priority,
                format!("must be a priority of 0 to {}", most - 1),
            )
        })?;
    }
    Ok((most, map))
}

/// An order of service; `None` is the plain FIFO.
///
/// # Errors
/// An unknown order, a quantum of zero.
pub fn schedule(key: &str, text: &str, sizes: PacketSizes) -> Result<Option<Scheduler>, ParamError> {
    const QUANTUM: ParamSpec =
        param!("quantum": Size = "" in [1.0, 1e9], "bytes per turn; unset = a full packet", "");
    const QUANTA: [&str; PRIORITIES] = ["q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7"];
    let (name, given) = parse_spec(key, text)?;
    match name.as_str() {
        "fifo" | "strict" => {
            read(key, &format!("schedule {name}"), &[], &given)?;
            Ok((name == "strict").then_some(Scheduler::Strict))
        }
        "drr" => {
            let of_priority = QUANTA.map(|name| ParamSpec { name, ..QUANTUM });
            let specs: Vec<ParamSpec> = std::iter::once(QUANTUM).chain(of_priority).collect();
            let p = read(key, "schedule drr", &specs, &given)?;
            let all = if p.is_set("quantum") { p.bytes("quantum").0 as u32 } else { sizes.full };
            let quanta = QUANTA.map(|name| if p.is_set(name) { p.bytes(name).0 as u32 } else { all });
            Ok(Some(Scheduler::Drr(quanta)))
        }
        other => Err(ParamError::new(key, text, one_of(other, &["fifo", "strict", "drr"]))),
    }
}

const ALPHA: ParamSpec =
    param!("alpha": Float = "1", "share of the free memory", "Choudhury, Hahne, ToN 1998");

/// Reads `pfc`; `None` is off.
fn pfc(text: &str) -> Result<Option<PfcKeys>, ParamError> {
    const BYTES: ParamSpec = param!("xoff": Size = "" in [1.0, 1e15], "", "");
    let specs = [
        BYTES,
        ParamSpec { name: "xon", min: 0.0, ..BYTES },
        ALPHA.with_default("", ""),
        ParamSpec { name: "gap", min: 0.0, ..BYTES },
        param!("alpha_by_rate": Bool = "", "", ""),
        param!("headroom": Text = "", "", ""),
        ParamSpec { name: "reserve", min: 0.0, ..BYTES },
        param!("response": Duration = "0s" in [0.0, 1.0], "", ""),
        param!("lossless": Text = "all", "", ""),
    ];
    let key = "pfc";
    let (name, given) = parse_spec(key, text)?;
    let p = match name.as_str() {
        "on" | "ingress" => read(key, "pfc", &specs, &given)?,
        "off" => return read(key, "pfc off", &[], &given).map(|_| None),
        other => return Err(ParamError::new(key, text, one_of(other, &["off", "on", "ingress"]))),
    };
    let bytes = |name: &str| p.is_set(name).then(|| p.bytes(name).0);
    let bad = |name: &str, rule: String| ParamError::new(format!("{key}:{name}"), p.text(name), rule);
    let fixed = ["xoff", "xon"].into_iter().find(|k| p.is_set(k));
    let dynamic = ["alpha", "gap", "alpha_by_rate"].into_iter().find(|k| p.is_set(k));
    if let (Some(a), Some(b)) = (fixed, dynamic) {
        return Err(bad(b, format!("cannot be given together with {a}: thresholds are fixed or dynamic")));
    }
    let (xoff, xon) = (bytes("xoff"), bytes("xon"));
    if let (Some(xoff), Some(xon)) = (xoff, xon) {
        bail_if!(xon > xoff, bad("xon", format!("must not be above xoff ({xoff} bytes)")));
    }
    let lossless = match p.text("lossless") {
        "all" => None,
        list => Some(list.split('+').try_fold(0u8, |mask, one| {
            let found = one.trim().parse::<u8>().ok().filter(|p| usize::from(*p) < PRIORITIES);
            let rule = || format!("must be all, or priorities of 0 to {} as in 0+3", PRIORITIES - 1);
            found.map(|p| mask | 1 << p).ok_or_else(|| bad("lossless", rule()))
        })?),
    };
    Ok(Some(PfcKeys {
        fixed: fixed.map(|_| (xoff, xon)),
        dynamic,
        alpha: if p.is_set("alpha") { Some(above_zero(key, "alpha", &p)?) } else { None },
        gap: bytes("gap"),
        alpha_by_rate: p.is_set("alpha_by_rate").then(|| p.flag("alpha_by_rate")),
        headroom: if p.is_set("headroom") { Some(headroom(p.text("headroom"))?) } else { None },
        reserve: bytes("reserve"),
        response: p.dur("response"),
        lossless,
        frames: name == "on",
    }))
}

/// `formula`, `formula-SIZE` or `SIZE`.
fn headroom(text: &str) -> Result<Headroom, ParamError> {
    const SIZE: ParamSpec = param!("headroom": Size = "" in [0.0, 1e15], "", "");
    let size = |text: &str| {
        let given = [("headroom".to_owned(), text.to_owned())];
        let rule = "must be a size, or formula, or formula-SIZE such as formula-1540B";
        Params::parse("pfc", &[SIZE], &given)
            .map(|p| p.bytes("headroom").0)
            .map_err(|_| ParamError::new("pfc:headroom", text, rule))
    };
    match text.trim().strip_prefix("formula") {
        Some("") => Ok(Headroom::Formula { less: 0 }),
        Some(rest) => Ok(Headroom::Formula { less: size(rest.strip_prefix('-').unwrap_or(text))? }),
        None => Ok(Headroom::Bytes(size(text)?)),
    }
}

/// Trimming; `None` is off.
///
/// # Errors
/// A length that is none, a priority of data.
pub fn trim(key: &str, text: &str, sizes: PacketSizes, priorities: u8) -> Result<Option<Trim>, ParamError> {
    let (bytes, given) = parse_spec(key, text)?;
    let specs = [
        param!("priority": Count = "7" in [0.0, 7.0], "of what remains", ""),
        param!("tail": Float = "0" in [0.0, 1.0], "probability that the last packet is cut instead", "NDP: 0.5"),
    ];
    if bytes == "off" {
        return read(key, "trim off", &[], &given).map(|_| None);
    }
    let size = param!("trim": Size = "", "", "");
    let rule = format!(
        "must be off, or the bytes that remain: at least the headers of {} B, less than a full packet of {} B",
        sizes.headers, sizes.full
    );
    let refuse = || ParamError::new(key, text, rule.clone());
    let bytes = Params::parse(key, &[size], &[("trim".into(), bytes)]).map_err(|_| refuse())?.bytes("trim").0;
    bail_if!(bytes < u64::from(sizes.headers) || bytes >= u64::from(sizes.full), refuse());
    let p = read(key, "trim", &specs, &given)?;
    let priority = p.count("priority") as u8;
    if priority < priorities {
        let rule = format!("must be above the priorities of data, 0 to {}", priorities - 1);
        return Err(ParamError::new(format!("{key}:priority"), p.text("priority"), rule));
    }
    Ok(Some(Trim { bytes: bytes as u32, priority, tail: p.float("tail") }))
}

/// Reordering; `None` is off.
///
/// # Errors
/// A share that is none, no delay.
pub fn reorder(key: &str, text: &str) -> Result<Option<Reordering>, ParamError> {
    let specs = [
        param!("share": Float = "" in [0.0, 1.0], "share of the packets", ""),
        param!("delay": Duration = "" in [0.0, 1.0], "most that one is held up", ""),
    ];
    if text.trim() == "off" {
        return Ok(None);
    }
    let rule = "must be off, or share=0.01,delay=50us";
    let (_, given) = parse_spec(key, &format!("on:{text}")).map_err(|_| ParamError::new(key, text, rule))?;
    let p = read(key, "reorder", &specs, &given)?;
    for name in ["share", "delay"] {
        if !p.is_set(name) {
            return Err(ParamError::new(format!("{key}:{name}"), "", format!("must be given: {key} {rule}")));
        }
    }
    above_zero(key, "delay", &p)?;
    Ok(Some(Reordering { share: p.float("share"), extra: p.dur("delay") }))
}
