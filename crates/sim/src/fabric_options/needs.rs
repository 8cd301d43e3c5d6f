//! What the protocols of a run need of switches, together: every port is as all of them need it, and what no port can be for two of them is refused.
//! Two sets of parameters of one protocol are not: ports are as the first of them needs, and a note before the run says so ([`left_out`]).

use super::build::{headroom, into, is_switch, memory_of_ports, pool_of};
use super::{Headroom, Pfc, Shared, Thresholds};
use crate::setup::Setup;
use crate::topology::Link;
use penstock_core::ParamError;
use penstock_fabric::pint::PintConfig;
use penstock_fabric::{PauseAt, PortConfig, Spread};
use penstock_models::registry::{LinkNeeds, Lossless, Paths};
use penstock_units::Dur;

/// What a protocol needs, with its name.
type Named<'a> = (&'a str, LinkNeeds);

/// What each protocol that needs something needs of the port of a link, with its name.
fn all<'a>(setup: &'a Setup, link: &'a Link) -> impl Iterator<Item = Named<'a>> {
    let facts = setup.facts(link);
    setup.needs().map(move |(name, needs)| (name, needs(&facts)))
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
    let pauses = setup.fabric.pfc.is_none() && !given("pfc");
    let lossless = if pauses { one_pause(&needs)? } else { None };
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
    if let Some(lossless) = lossless {
        pause(setup, lossless);
    }
    Ok(())
}

/// Pause frames, and the memory for them.
fn pause(setup: &mut Setup, lossless: Lossless) {
    let dynamic = matches!(lossless.pause, PauseAt::Dynamic { .. });
    let room = lossless.headroom.map_or(Headroom::Formula { less: 0 }, Headroom::Cables);
    let switches = (0..setup.topology.nodes.len() as u32).filter(|n| is_switch(setup, *n));
    let lanes = u64::from(lossless.priorities.count_ones());
    let size = switches.map(|switch| {
        let promised =
            into(setup, switch).map(|l| lanes * (headroom(setup, l, room, dynamic) + lossless.reserve));
        memory_of_ports(&setup.topology, switch) + promised.sum::<u64>()
    });
    let size = size.max().unwrap_or(0);
    setup.fabric.shared = setup.fabric.shared.or(Some(Shared { alpha: 1.0, size }));
    setup.fabric.pfc = Some(Pfc {
        thresholds: match lossless.pause {
            PauseAt::Static { xoff, xon } => Thresholds::Fixed { xoff: Some(xoff), xon: Some(xon) },
            PauseAt::Dynamic { alpha, gap } => Thresholds::Dynamic { alpha, gap: Some(gap) },
        },
        headroom: room,
        reserve: lossless.reserve,
        response: Dur::ZERO,
        lossless: lossless.priorities,
        accounting: lossless.accounting,
    });
}

/// The digest that all protocols of the run read which read telemetry: a switch writes one kind.
fn one_telemetry(needs: &[Named<'_>]) -> Result<Option<PintConfig>, ParamError> {
    let mut first = None;
    for (name, needs) in needs.iter().filter(|(_, needs)| needs.telemetry) {
        let rule = "reads other telemetry than another protocol of the run (int=full or pint, pint_base): switches write one";
        if *first.get_or_insert(needs.pint) != needs.pint {
            return Err(ParamError::new("protocol", name, rule));
        }
    }
    Ok(first.flatten())
}

/// Pause frames at other thresholds.
fn pauses_otherwise(a: &Lossless, b: &Lossless) -> bool {
    Lossless { priorities: a.priorities, required: a.required, ..*b } != *a
}

/// The pause frames that all protocols of the run need which need any, in the priorities of all of them.
fn one_pause(needs: &[Named<'_>]) -> Result<Option<Lossless>, ParamError> {
    let mut found: Option<(&str, Lossless)> = None;
    for (name, own) in needs.iter().filter_map(|(name, needs)| Some((name, needs.lossless?))) {
        let Some((first, all)) = &mut found else {
            found = Some((name, own));
            continue;
        };
        all.priorities |= own.priorities;
        all.required |= own.required;
        if pauses_otherwise(all, &own) && !same_protocol(first, name) {
            let rule = format!(
                "needs pause frames at other thresholds than protocol {first} of the run, and a switch has one set of them \
                 (pfc_alpha, pfc_gap, pfc_reserve, pfc_headroom, pfc_accounting, rules); with pfc set they are as that says"
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
                let rule = format!(
                    "needs other ports of switches than protocol {other} of the run: they differ in {what}, and a port has one; \
                     with schedule or trim set ports are as those say"
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
    if !met.is_empty() {
        config.service = None;
    }
    for (name, needs) in met {
        let shares = setup.fabric.pooled() || pool_of(setup, link.from).is_some();
        if shares && needs.trim.is_some_and(|t| t.tail > 0.0) {
            let rule = "needs ports that cut packets that wait, which is not possible in memory that is shared (buffer=shared, sharing, \
                        pfc, a scenario's own shared buffer); with trim set ports are as that says";
            return Err(ParamError::new("protocol", name, rule));
        }
        if needs.trim.is_some() || needs.lossless.is_some() && setup.fabric.pfc.is_some() {
            // What is left of a packet must find room, and lossless ones are limited by their lanes.
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
