//! What is known about a run before it starts and would mislead whoever reads its numbers: one line each.

use crate::fabric_options::left_out;
use crate::setup::Setup;
use crate::topology::{Link, NodeKind};
use crate::workloads::sizes::Sizes;
use penstock_core::tcp::{EcnMode, Personality};
use penstock_core::{Amount, Params};
use penstock_models::queues::DISCIPLINES;
use std::collections::BTreeSet;

/// Seconds as a person writes them.
pub fn seconds(s: f64) -> String {
    let (value, unit) = match s {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-6 => (s * 1e6, "us"),
        s => (s * 1e9, "ns"),
    };
    format!("{} {unit}", figures(value))
}

/// Bytes as a person writes them.
pub fn size(bytes: f64) -> String {
    let (value, unit) = match bytes {
        b if b >= 1e9 => (b / 1e9, "GB"),
        b if b >= 1e6 => (b / 1e6, "MB"),
        b if b >= 1e3 => (b / 1e3, "KB"),
        b => (b, "B"),
    };
    format!("{} {unit}", figures(value))
}

/// A rate as a person writes it.
pub fn rate(bps: f64) -> String {
    let (value, unit) = match bps {
        r if r >= 1e12 => (r / 1e12, "Tb/s"),
        r if r >= 1e9 => (r / 1e9, "Gb/s"),
        r if r >= 1e6 => (r / 1e6, "Mb/s"),
        r => (r / 1e3, "kb/s"),
    };
    format!("{} {unit}", figures(value))
}

/// Three significant figures, without zeros behind the point.
fn figures(x: f64) -> String {
    let digits = if x >= 100.0 { 0 } else { 2 - (x.max(0.01).log10().floor() as i32).clamp(0, 1) };
    let text = format!("{x:.*}", digits.max(0) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Requests to many servers for one block, as far as they decide about an incast.
pub struct Requests {
    /// Mean time from the first request to the last, seconds.
    pub spread: f64,
    /// Bytes of a block on the wire.
    pub block: f64,
    /// Rate at which it can arrive, bit/s.
    pub rate: f64,
    /// Bytes the port can hold.
    pub buffer: f64,
    /// Nothing but a full buffer loses packets there.
    pub drop_tail: bool,
}

impl Requests {
    /// What keeps these requests from colliding, by the keys that say so.
    pub fn notes(&self, spread_key: &str, buffer_key: &str) -> Vec<String> {
        let fits = (self.drop_tail && self.block <= self.buffer).then(|| {
            format!(
                "a whole block of {} fits into the port's {} ({buffer_key}): it cannot overflow, and there is no incast",
                size(self.block),
                size(self.buffer)
            )
        });
        self.spread_note(spread_key).into_iter().chain(fits).collect()
    }
    /// That they are spread over more time than their block takes, when they are.
    pub fn spread_note(&self, key: &str) -> Option<String> {
        let least = self.block * 8.0 / self.rate;
        (self.spread > least).then(|| {
            format!(
                "requests are spread over {} ({key}), longer than the {} a block of {} takes at {}: the servers take \
                 turns, and there is no incast",
                seconds(self.spread),
                seconds(least),
                size(self.block),
                rate(self.rate)
            )
        })
    }
}

/// The note that a load offers more than it says. A load counts one header for each `mss` bytes of payload, and short flows have more headers. `said` is
/// its key and value, `overhead` the bytes on the wire beside the payload of a segment.
pub fn headers_of_short_flows(
    said: &str,
    load: f64,
    sizes: &Sizes,
    mss: f64,
    overhead: f64,
) -> Option<String> {
    let counted = sizes.mean() * (mss + overhead) / mss;
    let more = (sizes.mean() + overhead * sizes.mean_segments(mss)) / counted;
    // Smaller shares do not change a conclusion.
    (more > 1.05).then(|| {
        format!(
            "{said} counts headers as if all segments were full: with those of these short flows {} of the capacity is offered",
            figures(load * more)
        )
    })
}

/// More names than this are counted, not listed.
const LISTED: usize = 4;

/// `protocol a`, `protocols a and b`, `protocols a, b, c, d and 7 more`.
fn listed(what: &str, names: &[&str]) -> String {
    match names {
        [one] => format!("{what} {one}"),
        [some @ .., last] if names.len() <= LISTED => format!("{what}s {} and {last}", some.join(", ")),
        _ => format!("{what}s {} and {} more", names[..LISTED].join(", "), names.len() - LISTED),
    }
}

/// Protocols and queues that contradict each other, and a marking threshold left at a default that is too low. `queue` is the discipline of
/// the scenario's ports.
pub fn contradictions(p: &Params, queue: &str, setup: &Setup) -> Vec<String> {
    let mut notes = Vec::new();
    let marking: BTreeSet<&str> =
        setup.topology.links.iter().filter(|l| l.queue.marks()).map(|l| l.queue.discipline()).collect();
    let (deaf, hearing): (Vec<usize>, Vec<usize>) =
        setup.in_use().partition(|position| setup.protocols[*position].1.ecn == EcnMode::Off);
    let names = |list: &[usize]| list.iter().map(|i| setup.protocol_names[*i].as_str()).collect::<Vec<_>>();
    // A queue that a user has written may treat packets that are not ECN-capable as it likes; drops are counted in the run.
    let known = |queue: &&&str| DISCIPLINES.iter().any(|d| d.name == **queue);
    let (deaf, hearing) = (names(&deaf), names(&hearing));
    for queue in marking.iter().filter(known).filter(|_| !deaf.is_empty()) {
        let (is, its) = if deaf.len() == 1 { ("is", "this protocol's") } else { ("are", "their") };
        notes.push(format!(
            "{} {is} not ECN-capable, but queue {queue} marks: it drops {its} packets where it marks others' (drops_nonect)",
            listed("protocol", &deaf)
        ));
    }
    if marking.is_empty() && setup.pools.is_empty() && !hearing.is_empty() {
        let (depends, hears) =
            if hearing.len() == 1 { ("depends", "it detects") } else { ("depend", "they detect") };
        notes.push(format!(
            "{} {depends} on ECN marks, but no queue marks (queue {queue}): {hears} congestion only by losses; queue=threshold marks",
            listed("protocol", &hearing)
        ));
    }
    notes.extend(without_linux(p, setup));
    notes.extend(low_threshold(p, setup));
    notes.extend(needs_of_some(p, setup));
    notes
}

/// Protocols that cannot have the Linux sender of a profile.
fn without_linux(p: &Params, setup: &Setup) -> Option<String> {
    if p.text("tcp") != "linux" || p.is_given("tcp") {
        return None;
    }
    let all = setup.in_use().map(|i| (&setup.protocols[i], &setup.protocol_names[i]));
    let others: BTreeSet<&str> = all
        .filter(|((suite, cfg), _)| suite.stack.is_none() && cfg.personality != Personality::Linux)
        .map(|(_, name)| name.as_str())
        .collect();
    let names = others.iter().copied().collect::<Vec<_>>().join(", ");
    (!others.is_empty()).then(|| {
        format!(
            "protocol {names} has no selective acknowledgements, which Linux's sender needs: it runs on the sender by the RFCs, \
             without the offloads of profile {}",
            p.text("profile")
        )
    })
}

/// Ports that are as some protocols of several need them.
fn needs_of_some(p: &Params, setup: &Setup) -> Vec<String> {
    let open = |l: &&Link| {
        setup.topology.nodes[l.from as usize].kind == NodeKind::Switch
            && setup.fabric.asked(l) != (true, true)
    };
    let Some(link) = setup.topology.links.iter().find(open) else { return Vec::new() };
    let of = |i: usize| setup.protocol_names[i].split(':').next().unwrap_or_default();
    let (asking, others): (Vec<usize>, Vec<usize>) =
        setup.in_use().partition(|i| setup.protocols[*i].0.link.is_some());
    let names = |list: &[usize]| list.iter().map(|i| of(*i)).collect::<BTreeSet<_>>();
    let list = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
    let (asking, mut others) = (names(&asking), names(&others));
    others.retain(|name| !asking.contains(name));
    let verb = if asking.len() == 1 { "needs" } else { "need" };
    let for_others = (!asking.is_empty() && !others.is_empty()).then(|| {
        format!(
            "all switch ports have the discipline that protocol {} {verb}, for {} too",
            list(&asking),
            list(&others)
        )
    });
    let left: Vec<_> = left_out(setup, link, !p.is_given("pfc"));
    let names: Vec<&str> = left.iter().map(AsRef::as_ref).collect();
    let left = (!names.is_empty()).then(|| {
        let bases: BTreeSet<&str> = names.iter().filter_map(|name| name.split(':').next()).collect();
        format!(
            "switch ports use the first set of parameters of protocol {}, not that of {}",
            list(&bases),
            listed("protocol", &names).trim_start_matches("protocols ").trim_start_matches("protocol ")
        )
    });
    for_others.into_iter().chain(left).collect()
}

/// The default K beside a protocol that cuts by the share of marks, where the port needs more (DCTCP, SIGCOMM 2010,
/// eq. 13: K > C RTT / 7).
fn low_threshold(p: &Params, setup: &Setup) -> Option<String> {
    let link = &setup.topology.links[setup.bottleneck.candidate() as usize];
    let (k, given) = link.queue.threshold()?;
    let dctcp = setup.in_use().any(|i| setup.protocols[i].1.ecn == EcnMode::Dctcp);
    if !dctcp || (given && p.is_given("queue")) || (given && !p.declares("link_rate")) {
        return None;
    }
    let packet = setup.protocols.iter().map(|(_, c)| f64::from(c.mss + c.header_len())).fold(1.0, f64::max);
    let needed = link.rate.as_bytes_per_sec() * setup.base_rtt.as_secs() / 7.0 / packet;
    let k = match k {
        Amount::Packets(n) => f64::from(n),
        Amount::Bytes(b) => b as f64 / packet,
    };
    (k < needed).then(|| {
        format!(
            "queue {} marks from {} packets on, its default; a seventh of the bandwidth-delay product is {}: below it the link is \
             not kept busy (DCTCP eq. 13); set k",
            link.queue.discipline(),
            figures(k),
            figures(needed.ceil())
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(seconds(400e-6), "400 us");
        assert_eq!(seconds(16e-6), "16 us");
        assert_eq!(seconds(0.0125), "12.5 ms");
        assert_eq!(size(1_040_000.0), "1.04 MB");
        assert_eq!(rate(25e9), "25 Gb/s");
    }
}
