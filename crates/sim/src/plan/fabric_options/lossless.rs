//! Protocols that never send anything again need a fabric that loses nothing.

use super::link::Change;
use super::memory::headroom_is_short;
use crate::setup::Setup;
use penstock_core::ParamError;

/// Refuses a fabric that can lose packets of a protocol that never sends them again.
///
/// # Errors
/// What can lose them, under the key of the protocol.
pub fn check_required(setup: &Setup) -> Result<(), ParamError> {
    let Some(link) = setup.topology.links.first() else { return Ok(()) };
    for ((suite, _), name) in setup.protocols.iter().zip(&setup.protocol_names) {
        let needs = suite.link.as_ref().map(|needs| needs(&setup.facts(link)));
        let Some(lossless) = needs.and_then(|n| n.lossless).filter(|l| l.required) else { continue };
        if let Some(what) = loses(setup, lossless.priorities) {
            let rule =
                format!("recovery=off sends nothing again and needs a fabric that loses nothing: {what}");
            return Err(ParamError::new("protocol", name, rule));
        }
    }
    Ok(())
}

/// What can lose a packet of these priorities.
fn loses(setup: &Setup, priorities: u8) -> Option<String> {
    let Some(pfc) = setup.fabric.pfc else { return Some("pfc is off".into()) };
    if !pfc.frames {
        return Some("pfc=ingress sends no pause frames".into());
    }
    if pfc.lossless & priorities != priorities {
        return Some("its priority is not among pfc:lossless".into());
    }
    if setup.fabric.trim.is_some() {
        return Some("trim is on".into());
    }
    let links = 0..setup.topology.links.len() as u32;
    if let Some(lossy) = links.clone().find(|l| setup.topology.links[*l as usize].loss > 0.0) {
        return Some(format!("link {} loses packets", setup.topology.link_name(lossy)));
    }
    if setup.changes.iter().any(|c| !matches!(c.change, Change::Rate(_))) {
        return Some("fail takes a link down".into());
    }
    let short = links.into_iter().find(|l| headroom_is_short(setup, *l))?;
    Some(format!("the headroom of {} is below the formula", setup.topology.link_name(short)))
}
