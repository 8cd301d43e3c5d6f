//! What to know before trusting the numbers of a run: one line each, from what was measured.

use crate::bottleneck::{is_switch_port, longest};
use crate::measured::Measured;
use crate::metrics::LeftOut;
use crate::summary_keys::OFFERED_LOAD;
use penstock_core::tcp::EcnMode;
use penstock_core::DropCause;
use penstock_units::Dur;

/// A measured window of fewer round trips says little about a congestion control: slow start alone takes ten.
const ROUND_TRIPS: f64 = 20.0;
/// Transfers that may be unfinished at the end without a word, as a share of all.
const UNFINISHED: f64 = 0.1;
/// Waiting for delayed ACKs is told from this share of the blocks' time on.
const ACK_WAITS: f64 = 0.1;
/// Waiting for a sender's timers is told from this share of the transfers' time on.
const TIMER_WAITS: f64 = 0.1;
/// More than this many bytes a second offered, per byte a second the host's link carries, is overload.
const OVERLOAD: f64 = 1.02;
/// Overload is only told where so many writes say so: a single one is a long transfer, not a load.
const WRITES: u64 = 20;
/// A port reports the longest queue, unless another one is longer by this factor and this many packets.
const ELSEWHERE: (f64, f64) = (1.5, 2.0);
/// Port with marking protocols and no marks: busy from this utilisation and this many packets at once on.
const BUSY: (f64, u32) = (0.5, 20);

/// The lines: notes of the scenario first, then what the measurement itself shows.
pub fn warnings(m: &Measured<'_>) -> Vec<String> {
    let mut found = m.notes.to_vec();
    deadlock(m, &mut found);
    standing(m, &mut found);
    lossless(m, &mut found);
    if m.seconds() <= 0.0 {
        found.push("the run ended before its warm-up: nothing was measured".to_owned());
        return found;
    }
    flows(m, &mut found);
    delayed_acks(m, &mut found);
    timers(m, &mut found);
    load(m, &mut found);
    length(m, &mut found);
    marks(m, &mut found);
    ports(m, &mut found);
    tables(m, &mut found);
    found
}

/// `1 flow`, `2 flows`.
fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn time(seconds: f64) -> String {
    let (scale, unit) =
        [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")].into_iter().find(|u| seconds >= u.0).unwrap_or((1e-9, "ns"));
    format!("{} {unit}", rounded(seconds / scale))
}

/// Three significant digits.
fn rounded(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let digits = (2 - x.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{x:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn flows(m: &Measured<'_>, found: &mut Vec<String>) {
    let r = m.recorder;
    let (f, t) = (&r.flow_totals, &r.transfer_totals);
    if f.flows == 0 {
        found.push("no flow was open in the measured time".to_owned());
        return;
    }
    if f.counters.acked_bytes == 0 {
        let flows = count(f.flows, "flow");
        found
            .push(format!("nothing was transferred in the measured time of {} ({flows})", time(m.seconds())));
    }
    if f.not_established > 0 {
        found.push(format!(
            "{} of {} opened and never established: rates and completion times are those of the others",
            f.not_established,
            count(f.flows, "flow")
        ));
    }
    if f.starved > 0 && f.counters.acked_bytes > 0 {
        found.push(format!(
            "{} of {} had data to send and carried nothing in the measured time",
            f.starved,
            count(f.flows, "flow")
        ));
    }
    let all = t.count + t.unfinished;
    let many = t.unfinished as f64 > UNFINISHED * all as f64;
    // A closed loop is always cut in the middle of a transfer. That biases the statistics where one has lasted longer than
    // any that is counted, or where the unfinished are many.
    if t.unfinished > 0 && t.count > 0 && (many || t.oldest > t.longest) {
        let bytes = t.unfinished_bytes as f64 / (t.bytes + t.unfinished_bytes).max(1) as f64;
        let share_of_bytes = format!("{:.1} %", (1000.0 * bytes).floor() / 10.0);
        found.push(format!(
            "completion statistics leave out {} of {} that were not complete at the end, with {} of the bytes, the oldest \
             for {} (longest counted: {})",
            t.unfinished,
            count(all, "transfer"),
            share_of_bytes,
            time(t.oldest),
            time(t.longest)
        ));
    }
}

fn delayed_acks(m: &Measured<'_>, found: &mut Vec<String>) {
    let r = m.recorder;
    let (waited, all) = (r.ack_waits.as_secs(), r.block_seconds);
    if waited < ACK_WAITS * all || waited <= 0.0 {
        return;
    }
    found.push(format!(
        "the blocks waited {} of their {} ({:.0} %) for delayed ACKs, with nothing under way: set delayed_ack=1, or requests=travel where \
         a client waits for the servers' last acknowledgements",
        time(waited),
        time(all),
        100.0 * waited / all
    ));
}

/// Waits that the number of timeouts does not show: a SYN's timeout is longer than others, and a tail-loss probe is no timeout.
fn timers(m: &Measured<'_>, found: &mut Vec<String>) {
    let r = m.recorder;
    let (f, t) = (&r.flow_totals, &r.transfer_totals);
    let (all, whose) = if t.count > 0 {
        (t.seconds, format!("{} took {} in all", count(t.count, "completed transfer"), time(t.seconds)))
    } else {
        let all = m.seconds() * f.flows as f64;
        (all, format!("{} were open for {} in all", count(f.flows, "flow"), time(all)))
    };
    let long = |waited: &Dur| *waited > Dur::ZERO && waited.as_secs() >= TIMER_WAITS * all;
    let (syns, waited) = r.syn_timeouts;
    if long(&waited) {
        found.push(format!(
            "connections waited {} for {} (each at least rto_initial; timeouts counts them), where {whose}: SYNs or their answers are lost, \
             which connections that stay open avoid",
            time(waited.as_secs()),
            count(syns, "SYN timeout"),
        ));
    }
    let (probes, waited) = (f.counters.tail_loss_probes, f.counters.probe_wait);
    if long(&waited) {
        found.push(format!(
            "connections waited {} for {} (timeouts does not count them), where {whose}: a probe for a single segment comes as late as a \
             timeout, at least rto_min after the last ACK",
            time(waited.as_secs()),
            count(probes, "tail-loss probe"),
        ));
    }
}

fn deadlock(m: &Measured<'_>, found: &mut Vec<String>) {
    let Some(stuck) = m.deadlock else { return };
    let priority = stuck.first().map_or(0, |s| s.priority);
    let names: Vec<String> = stuck.iter().map(|s| m.topology.link_name(s.port)).collect();
    found.push(format!(
        "deadlock: {} are paused and wait for each other's buffers (priority {priority}), none of them will ever send again; the \
         run ended at {}, when it was found",
        names.join(", "),
        time(m.recorder.until.as_secs())
    ));
}

/// Flows that nothing would ever move again.
fn standing(m: &Measured<'_>, found: &mut Vec<String>) {
    let Some(stuck) = m.stuck else { return };
    let since = stuck.since.map_or_else(String::new, |since| {
        format!("; nothing has happened in the network since {}", time(since.as_secs()))
    });
    found.push(format!(
        "{} with data to send will never go on: no packet of theirs is under way, and neither end waits for a timer{since}",
        count(stuck.flows, "flow")
    ));
}

/// Lossless means that no packet is dropped because a buffer is full; losses by failing or lossy links do not count.
fn lossless(m: &Measured<'_>, found: &mut Vec<String>) {
    if m.fabric.lossless == 0 {
        return;
    }
    let overflow = DropCause::Overflow as usize;
    let of = |number: usize| {
        let port = &m.ports[number];
        let all = port.stats().drops[overflow];
        // Where a port keeps no counters by priority, none of what it drops is of a lossy one.
        port.class_stats().map_or(all, |classes| {
            let lossless = classes.iter().enumerate().filter(|(p, _)| m.fabric.lossless & (1 << p) != 0);
            lossless.map(|(_, c)| c.drops).sum::<u64>().min(all)
        })
    };
    let dropped: Vec<(u64, usize)> = (0..m.ports.len()).map(|n| (of(n), n)).filter(|d| d.0 > 0).collect();
    if let Some((most, at)) = dropped.iter().max_by_key(|d| (d.0, std::cmp::Reverse(d.1))) {
        let all: u64 = dropped.iter().map(|d| d.0).sum();
        found.push(format!(
            "{} of a lossless priority dropped because the buffer was full, most of them ({most}) at {}: the headroom (pfc:headroom) is too \
             small",
            if all == 1 { "1 packet was".to_owned() } else { format!("{all} packets were") },
            m.topology.link_name(*at as u32)
        ));
    }
}

fn load(m: &Measured<'_>, found: &mut Vec<String>) {
    for (_, x) in m.recorder.facts.iter().filter(|(key, x)| key.is(&OFFERED_LOAD) && *x > 1.0) {
        found.push(format!("the offered load is {} of the capacity: queues and flows grow", rounded(*x)));
    }
    // What was offered to the links of hosts; a closed loop cannot offer more than it gets done.
    let mut worst: Option<(f64, u32, bool)> = None;
    for (sums, sends) in m.recorder.offered.iter().zip([true, false]) {
        for (host, (bytes, _)) in (0..).zip(sums).filter(|(_, (_, writes))| *writes >= WRITES) {
            let t = m.topology;
            let links = if sends { t.ports_of(host) } else { t.links_into(host).to_vec() };
            let capacity: f64 = links.iter().map(|l| t.links[*l as usize].rate.as_bps()).sum();
            let load = *bytes as f64 * 8.0 / m.seconds() / capacity;
            if load > OVERLOAD && worst.is_none_or(|w| load > w.0) {
                worst = Some((load, host, sends));
            }
        }
    }
    if let Some((load, host, sends)) = worst {
        let name = &m.topology.nodes[host as usize].name;
        let what = if sends { "to send by" } else { "for" };
        found.push(format!(
            "the load offered {what} host {name} in the measured time is {} of its link's rate: queues and flows grow",
            rounded(load)
        ));
    }
}

fn length(m: &Measured<'_>, found: &mut Vec<String>) {
    let r = m.recorder;
    let rtt = r.flow_totals.longest_rtt;
    let seconds = m.seconds();
    // A run that a workload has ended lasted as long as its work.
    if !m.stopped && seconds < ROUND_TRIPS * rtt {
        found.push(format!(
            "the measured time of {} is shorter than {ROUND_TRIPS} of the longest round-trip time ({})",
            time(seconds),
            time(rtt)
        ));
    }
    // Other transports have timers of their own.
    let tcp = || m.in_use().filter(|(_, (suite, _))| suite.stack.is_none());
    let longest = |f: fn(&penstock_core::tcp::TcpConfig) -> Dur| tcp().map(|(_, (_, c))| f(c)).max();
    let drops: u64 = m.ports.iter().map(|p| p.stats().drops.iter().sum::<u64>()).sum();
    let (rto_min, rto_initial) = (longest(|c| c.rto_min), longest(|c| c.rto_initial));
    let shorter = |rto: Option<Dur>| rto.filter(|rto| seconds < rto.as_secs());
    if let Some(rto) = shorter(rto_initial).filter(|_| r.syn_drops > 0 && !m.stopped) {
        found.push(format!(
            "{} were dropped, and the measured time of {} is shorter than their timeout (rto_initial {rto}): such \
             connections are missing",
            count(r.syn_drops, "SYN"),
            time(seconds)
        ));
    }
    if let Some(rto) = shorter(rto_min).filter(|_| drops > r.syn_drops && !m.stopped) {
        found.push(format!(
            "packets were dropped, and the measured time of {} is shorter than a retransmission timeout (rto_min \
             {rto}): a flow that waits for one is not seen to recover",
            time(seconds)
        ));
    }
}

fn marks(m: &Measured<'_>, found: &mut Vec<String>) {
    let stats = m.ports[m.bottleneck as usize].stats();
    let all = m.losses();
    let echoes = m.in_use().find(|(_, (_, c))| c.ecn != EcnMode::Off).map(|(name, _)| name);
    // Where no queue can mark, a note says so before the run.
    let some_could = m.topology.links.iter().any(|l| l.queue.marks());
    if let Some(protocol) = echoes.filter(|_| all.marks == 0 && some_could) {
        let overflows = stats.drops[DropCause::Overflow as usize];
        let busy = stats.utilisation() > BUSY.0 && stats.queue_max >= BUSY.1;
        let queue = m.topology.links[m.bottleneck as usize].queue.name();
        let plain = queue.split(':').next() == Some("droptail");
        if overflows > 0 || (busy && plain) {
            found.push(format!(
                "protocol {} depends on marks and no queue has marked a packet: {} ({queue}) held up to {} and dropped \
                 {overflows}",
                protocol,
                m.bottleneck_name(),
                count(u64::from(stats.queue_max), "packet"),
            ));
        }
    }
    let dropped = all.drops[DropCause::NotEct as usize];
    if dropped > 0 {
        found.push(format!(
            "{} dropped where a queue marks, because they are not ECN-capable",
            if dropped == 1 { "1 packet was".to_owned() } else { format!("{dropped} packets were") }
        ));
    }
}

fn ports(m: &Measured<'_>, found: &mut Vec<String>) {
    let mean = |p: u32| m.ports[p as usize].stats().queue_mean();
    let packets = |p: u32| format!("{} packets", rounded(mean(p)));
    if let Some(p) = longest(m.ports, |_| true).filter(|p| *p != m.bottleneck) {
        if mean(p) > (ELSEWHERE.0 * mean(m.bottleneck)).max(mean(m.bottleneck) + ELSEWHERE.1) {
            let whose = if is_switch_port(m.topology, p) { "" } else { "host port " };
            found.push(format!(
                "the longest mean queue stands at {whose}{} ({}), not at the reported port {} ({})",
                m.topology.link_name(p),
                packets(p),
                m.bottleneck_name(),
                packets(m.bottleneck)
            ));
        }
    }
    if m.ports[m.bottleneck as usize].stats().queue_integral.is_nan() {
        found.push(format!(
            "the network has {} ports: deviation and bytes of the queue of {} were not measured",
            m.ports.len(),
            m.bottleneck_name()
        ));
    }
    let sampled = &m.recorder.sampled_ports;
    if m.recorder.keep_series && !sampled.contains(&m.bottleneck) {
        found.push(format!(
            "the series table has the queue of {}, the summary that of {}",
            m.topology.link_name(m.candidate),
            m.bottleneck_name()
        ));
    }
}

fn tables(m: &Measured<'_>, found: &mut Vec<String>) {
    let r = m.recorder;
    let LeftOut { flows, transfers, events, series } = r.left_out;
    for (rows, table) in [(flows, "flows"), (transfers, "transfers"), (events, "events"), (series, "series")]
    {
        if rows > 0 {
            found.push(format!(
                "{} left out of table {table}: it has room for {}",
                count(rows, "row"),
                r.max_rows
            ));
        }
    }
    if transfers > 0 || events > 0 {
        found.push("quantiles are those of the rows that were kept".to_owned());
    }
    if r.without_place > 0 && r.series_flows > 0 {
        found.push(format!(
            "the series table leaves out {} that opened while {} others had its places (series_flows)",
            count(r.without_place, "flow"),
            r.series_flows
        ));
    }
}
