//! What the protocols of a run need of switches, together: every port is as all of them need it, and what no port can be for two of them is refused.
//! Two sets of parameters of one protocol are not: ports are as the first of them needs, and a note before the run says so ([`left_out`]).

use super::memory::{headroom, into, is_switch, memory_of_ports, pool_of};
use super::{Headroom, Pfc, PfcKeys, Shared, Thresholds};
use crate::setup::Setup;
use crate::topology::Link;
use penstock_core::{bail_if, Amount, ParamError};
use penstock_fabric::pint::PintConfig;
use penstock_fabric::Accounting;
use penstock_fabric::{PauseAt, PortConfig, Scheduler, Spread, PRIORITIES};
use penstock_models::registry::{LinkNeeds, Lossless, Paths};
use penstock_units::Dur;

/// What a protocol needs, with its name.
type Named<'a> = (&'a str, LinkNeeds);

/// What each protocol that needs something needs of the port of a link, with its name. Keys that say what order of service and trimming
/// are to be go before these two needs, and before no other.
fn all<'a>(setup: &'a Setup, link: &'a Link) -> impl Iterator<Item = Named<'a>> {
    let facts = setup.facts(link);
    let (order, trim) = setup.fabric.asked(link);
    setup.needs().map(move |(name, needs)| {
        let mut needs = needs(&facts);
        if order {
            needs.scheduler = Scheduler::Fifo;
        }
        if trim {
            needs.trim = None;
        }
        (name, needs)
    })
}

/// They are one protocol, with other parameters or without.
fn same_protocol(a: &str, b: &str) -> bool {
    a.split(':').next() == b.split(':').next()
}

/// Fills in what the protocols of the run need of the network, as far as the scenario's own keys leave it open.
/// `given`: the user has set a key.
///
/// # Errors
/// Two protocols that need what excludes each other.
pub fn meet_needs(setup: &mut Setup, given: impl Fn(&str) -> bool) -> Result<(), ParamError> {
    let Some(link) = setup.topology.links.iter().max_by_key(|l| l.rate) else { return Ok(()) };
    let needs: Vec<Named<'_>> = all(setup, link).collect();
    let pint = one_telemetry(&needs)?;
    let keys = setup.fabric.pfc_keys;
    let lossless = if keys.is_some() || !given("pfc") { one_pause(&needs, keys.as_ref())? } else { None };
    let used = used(setup, &needs);
    let any = |what: fn(&LinkNeeds) -> bool| needs.iter().any(|(_, needs)| what(needs));
    let (telemetry, whole_ns) = (any(|n| n.telemetry), any(|n| n.whole_ns));
    // Who chooses no paths writes the same into all packets of a flow, which then keeps one.
    let by_sender = any(|n| n.paths == Paths::BySender);
    setup.fabric.telemetry |= telemetry;
    setup.fabric.whole_ns |= whole_ns;
    setup.fabric.pint = pint;
    if !given("spread") && by_sender {
        setup.fabric.spread = Spread::parse("spread", "entropy")?;
        // In a network without any choice there is nothing to spread.
        if setup.forwarding().is_err() {
            setup.fabric.spread = Spread::Drawn;
        }
    }
    match (keys, lossless) {
        (None, None) => {}
        (None, Some(needed)) => {
            let pfc = as_needed(&needed);
            share(setup, &pfc);
            setup.fabric.pfc = Some(pfc);
            setup.fabric.own_limits = given("buffer");
        }
        (Some(keys), needed) => {
            let own_buffer = given("buffer") && setup.fabric.shared.is_none();
            let pfc = as_asked(&keys, needed.as_ref(), used, own_buffer, setup.fabric.shared)?;
            // With fixed thresholds of its own a switch has the memory that its lanes need.
            if needed.is_some() && !(keys.fixed.is_some() || own_buffer) {
                share(setup, &pfc);
                setup.fabric.own_limits = given("buffer");
            }
            setup.fabric.pfc = Some(pfc);
        }
    }
    Ok(())
}

/// Priorities of the data of all protocols of the run, a bit each.
fn used(setup: &Setup, needs: &[Named<'_>]) -> u8 {
    let classes = u8::MAX >> (PRIORITIES as u32 - u32::from(setup.fabric.priorities));
    let by_class = setup.protocols.iter().any(|(suite, _)| suite.link.is_none());
    let of = |needs: &LinkNeeds| if needs.data == 0 { classes } else { needs.data };
    needs.iter().fold(if by_class { classes } else { 0 }, |all, (_, needs)| all | of(needs))
}

/// Pause frames as protocols need them.
fn as_needed(needed: &Lossless) -> Pfc {
    Pfc {
        thresholds: match needed.pause {
            PauseAt::Static { xoff, xon } => Thresholds::Fixed { xoff: Some(xoff), xon: Some(xon) },
            PauseAt::Dynamic { alpha, gap } => Thresholds::Dynamic { alpha, gap: Some(gap) },
        },
        alpha_by_rate: needed.alpha_by_rate,
        frames: true,
        headroom: needed.headroom.map_or(Headroom::Formula { less: 0 }, Headroom::Cables),
        reserve: needed.reserve,
        response: Dur::ZERO,
        lossless: needed.priorities,
        accounting: needed.accounting,
    }
}

/// Pause frames as the key `pfc` says; what it leaves open is as protocols need it, where one brings pause of its own.
///
/// `used`: the priorities of the run's data; `own_buffer`: ports have a buffer of their own, which the user has given.
///
/// # Errors
/// Dynamic thresholds without shared memory; priorities without data, or without those that a protocol needs.
fn as_asked(
    keys: &PfcKeys,
    needed: Option<&Lossless>,
    used: u8,
    own_buffer: bool,
    shared: Option<Shared>,
) -> Result<Pfc, ParamError> {
    let list = |mask: u8| {
        let named: Vec<String> =
            (0..PRIORITIES).filter(|p| mask & 1 << p != 0).map(|p| p.to_string()).collect();
        named.join("+")
    };
    let lossless = keys.lossless.unwrap_or(used);
    let lacking = needed.map_or(0, |needed| needed.priorities) & !lossless;
    if lacking != 0 {
        let rule = format!(
            "must hold the priorities that a protocol of the run needs without loss, {} too; pfc=off takes pause frames away",
            list(lacking)
        );
        return Err(ParamError::new("pfc:lossless", list(lossless), rule));
    }
    if lossless & !used != 0 {
        let rule = format!("must be among the priorities of the run's data, {}", list(used));
        return Err(ParamError::new("pfc:lossless", list(lossless), rule));
    }
    let base = needed.map(as_needed);
    let dynamic = match base.map(|base| base.thresholds) {
        Some(Thresholds::Dynamic { alpha, gap }) => Some((alpha, gap)),
        _ => shared.map(|shared| (shared.alpha, None)),
    };
    let thresholds = match (keys.fixed, keys.dynamic, dynamic) {
        (Some((xoff, xon)), ..) => Thresholds::Fixed { xoff, xon },
        (None, Some(key), None) => {
            let rule =
                "needs memory that is shared, buffer=shared:size=..: thresholds are shares of what is free";
            let value = match (keys.alpha, keys.gap) {
                (Some(alpha), _) => alpha.to_string(),
                (None, Some(gap)) => format!("{gap}B"),
                (None, None) => keys.alpha_by_rate.is_some_and(|by_rate| by_rate).to_string(),
            };
            return Err(ParamError::new(format!("pfc:{key}"), value, rule));
        }
        (None, None, _) if own_buffer => Thresholds::Fixed { xoff: None, xon: None },
        (None, None, _) if base.is_some() => base.expect("just asked").thresholds,
        (None, _, Some((alpha, gap))) => {
            Thresholds::Dynamic { alpha: keys.alpha.unwrap_or(alpha), gap: keys.gap.or(gap) }
        }
        (None, None, None) => Thresholds::Fixed { xoff: None, xon: None },
    };
    Ok(Pfc {
        thresholds,
        alpha_by_rate: keys.alpha_by_rate.unwrap_or(base.is_some_and(|base| base.alpha_by_rate)),
        frames: keys.frames,
        headroom: keys.headroom.or(base.map(|base| base.headroom)).unwrap_or(Headroom::Formula { less: 0 }),
        reserve: keys.reserve.or(base.map(|base| base.reserve)).unwrap_or(0),
        response: keys.response,
        lossless,
        accounting: base.map_or(Accounting::default(), |base| base.accounting),
    })
}

/// The memory that pause frames by dynamic thresholds need, where the scenario says nothing of it.
fn share(setup: &mut Setup, pfc: &Pfc) {
    if setup.fabric.shared.is_some() {
        return;
    }
    let dynamic = matches!(pfc.thresholds, Thresholds::Dynamic { .. });
    let switches = (0..setup.topology.nodes.len() as u32).filter(|n| is_switch(setup, *n));
    let lanes = u64::from(pfc.lossless.count_ones());
    let size = switches.map(|switch| {
        let promised =
            into(setup, switch).map(|l| lanes * (headroom(setup, l, pfc.headroom, dynamic) + pfc.reserve));
        memory_of_ports(setup, switch) + promised.sum::<u64>()
    });
    setup.fabric.shared = Some(Shared { alpha: 1.0, size: size.max().unwrap_or(0) });
}

/// The digest that all protocols of the run read which read telemetry: a switch writes one kind.
fn one_telemetry(needs: &[Named<'_>]) -> Result<Option<PintConfig>, ParamError> {
    let mut first = None;
    for (name, needs) in needs.iter().filter(|(_, needs)| needs.telemetry) {
        let rule = "reads other telemetry than another protocol of the run (int=full or pint, pint_base): switches write one";
        bail_if!(*first.get_or_insert(needs.pint) != needs.pint, ParamError::new("protocol", name, rule));
    }
    Ok(first.flatten())
}

/// Pause frames at other thresholds.
fn pauses_otherwise(a: &Lossless, b: &Lossless) -> bool {
    Lossless { priorities: a.priorities, required: a.required, ..*b } != *a
}

/// The pause frames that all protocols of the run need which need any, in the priorities of all of them.
///
/// # Errors
/// Two protocols that need different ones, as far as `keys` do not say what they are.
fn one_pause(needs: &[Named<'_>], keys: Option<&PfcKeys>) -> Result<Option<Lossless>, ParamError> {
    // Keys that say when lanes are paused settle it.
    let said = keys.is_some_and(|keys| keys.fixed.is_some() || keys.dynamic.is_some());
    let mut found: Option<(&str, Lossless)> = None;
    for (name, own) in needs.iter().filter_map(|(name, needs)| Some((name, needs.lossless?))) {
        let Some((first, all)) = &mut found else {
            found = Some((name, own));
            continue;
        };
        all.priorities |= own.priorities;
        all.required |= own.required;
        if !said && pauses_otherwise(all, &own) && !same_protocol(first, name) {
            let rule = format!(
                "needs pause frames at other thresholds than protocol {first} of the run, and a switch has one set of them \
                 (pfc_alpha, pfc_gap, pfc_reserve, pfc_headroom, pfc_accounting, rules); the keys pfc=on:alpha= and pfc=on:xoff= override them"
            );
            return Err(ParamError::new("protocol", name, rule));
        }
    }
    Ok(found.map(|(_, lossless)| lossless))
}

/// What the port of a switch can be for all protocols of the run, by protocol; and the names of those left out, of which another set of
/// parameters comes before.
///
/// # Errors
/// What it cannot be for two protocols.
fn together<'a>(setup: &'a Setup, link: &'a Link) -> Result<(Vec<Named<'a>>, Vec<&'a str>), ParamError> {
    let (mut met, mut left): (Vec<Named<'_>>, Vec<&str>) = Default::default();
    let paused = setup.fabric.pfc.is_some();
    for (name, needs) in all(setup, link) {
        let contradicts = |(other, theirs): &Named<'a>| Some((*other, needs.contradicts(theirs, paused)?));
        match met.iter().find_map(contradicts) {
            None => met.push((name, needs)),
            Some((other, _)) if same_protocol(other, name) => left.push(name),
            Some((other, what)) => {
                let remedy = match what.as_str() {
                    "their order of service" => "the key schedule overrides it",
                    "what they trim" => "the key trim overrides it",
                    _ => "give one of them another priority, or both the same values",
                };
                let rule = format!(
                    "needs other ports of switches than protocol {other} of the run: they differ in {what}, and a port has one; {remedy}"
                );
                return Err(ParamError::new("protocol", name, rule));
            }
        }
    }
    Ok((met, left))
}

/// Protocols of the run that do not get what they need of the port of a switch, as another set of their own parameters comes before.
/// `pauses`: its pause frames are as protocols need them.
pub(crate) fn left_out<'a>(setup: &'a Setup, link: &'a Link, pauses: bool) -> Vec<&'a str> {
    let mut left = together(setup, link).map_or_else(|_| Vec::new(), |(_, left)| left);
    let mut first: Option<Lossless> = None;
    for (name, needs) in all(setup, link) {
        let Some(own) = needs.lossless.filter(|_| pauses) else { continue };
        if pauses_otherwise(first.get_or_insert(own), &own) && !left.contains(&name) {
            left.push(name);
        }
    }
    left
}

/// Gives the port of a switch, whose link the scenario asks nothing of, what all protocols of the run need of it.
///
/// # Errors
/// What it cannot be for two of them, or in shared memory.
pub(super) fn give(setup: &Setup, link: &Link, config: &mut PortConfig) -> Result<(), ParamError> {
    let facts = setup.facts(link);
    let (met, _) = together(setup, link)?;
    for (name, needs) in met {
        let shares = setup.fabric.pooled() || pool_of(setup, link.from).is_some();
        if shares && needs.trim.is_some_and(|t| t.tail > 0.0) {
            let rule = "needs ports that cut packets that wait, which is not possible in memory that is shared (buffer=shared, sharing, \
                        pfc, a scenario's own shared buffer); the key trim overrides this";
            return Err(ParamError::new("protocol", name, rule));
        }
        if needs.trim.is_some() || needs.lossless.is_some() && setup.fabric.pfc.is_some() {
            // What is left of a packet must find room, and lossless ones are limited by their lanes; others by their priority.
            (config.limit_packets, config.limit_bytes) = (u32::MAX, u64::MAX);
        }
        // The keys of a queue that the protocol brings are nobody's: its own parameters are.
        needs.apply(&facts, config).map_err(|e| {
            let rule = format!(
                "its parameters ask for a port that is not possible at a link of {}: {} = {} {}",
                link.rate, e.key, e.value, e.rule
            );
            ParamError::new("protocol", name, rule)
        })?;
    }
    Ok(())
}

/// What a port does with packets, as the scenario and the protocols of the run have it: for those who show it.
pub struct Told {
    /// Order of service.
    pub order: Scheduler,
    /// Bytes that remain of a packet that finds no room, where the port trims.
    pub trims_to: Option<u32>,
    /// Room for data.
    pub limit: Option<Amount>,
    /// Queue discipline of data, as written in a scenario.
    pub queue: String,
}

/// What the port of a link does with packets.
pub fn told(setup: &Setup, link: &Link) -> Told {
    let (own, run) = (&link.options, &setup.fabric);
    let by_switch = is_switch(setup, link.from);
    let mut told = Told {
        order: own.scheduler.unwrap_or(run.scheduler).unwrap_or_default(),
        trims_to: own.trim.unwrap_or(run.trim).filter(|_| by_switch).map(|trim| trim.bytes),
        limit: link.buffer,
        queue: link.queue.name().to_string(),
    };
    if !by_switch {
        return told;
    }
    for (_, needs) in together(setup, link).map_or_else(|_| Vec::new(), |(met, _)| met) {
        if needs.scheduler != Scheduler::Fifo {
            told.order = needs.scheduler;
        }
        told.limit = needs.limit.or(told.limit);
        if let Some(trim) = needs.trim {
            told.trims_to = Some(trim.bytes);
            // Headers have a priority, and a limit, of their own.
            let of_data = (0..PRIORITIES).filter(|p| *p != usize::from(trim.priority));
            told.limit = of_data.filter_map(|p| needs.classes[p]).next().or(told.limit);
        }
        let plain = told.queue == "droptail";
        let of_port = needs.queue_of_port.filter(|_| plain);
        if let Some(text) = needs.queue.map(|(_, text)| text).or(of_port) {
            told.queue = text;
        }
    }
    told
}
