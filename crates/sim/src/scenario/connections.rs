//! A protocol of a run with its connection options.

use crate::fabric_options::PacketSizes;
use penstock_core::tcp::{
    LossRecovery, MissedTicks, Personality, RetransmitThread, TcpConfig, ThreadSegment,
};
use penstock_core::{bail_if, Amount, ParamError, Params};
use penstock_models::protocols::resizing::{resizing, ResizingOptions};
use penstock_models::{Protocol, Registry, Suite};
use penstock_units::Dur;
use std::sync::Arc;

/// A protocol with its connection options.
pub type Part = (Suite, Arc<TcpConfig>);

/// Lengths of a protocol's packets on the wire.
pub(super) fn sizes(cfg: &TcpConfig) -> PacketSizes {
    PacketSizes { full: cfg.mss + cfg.header_len(), headers: cfg.header_len() }
}

/// [`Common::part`](super::Common::part) among what is in `registry`.
pub(super) fn part(
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
    let mut cfg = tcp_config(p, &suite);
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
    bail_if!(cfg.rto_min > cfg.rto_max, p.error("rto_min", "must not be above rto_max"));
    if cfg.personality == Personality::Linux && cfg.recovery != LossRecovery::Sack {
        let rule =
            format!("needs selective acknowledgements, which protocol {} does not have", registered.name);
        return Err(p.error("tcp", rule));
    }
    if !p.is_given("tail_loss_probe") && cfg.recovery != LossRecovery::Sack {
        // A profile's probes are those of its Linux hosts.
        cfg.tail_loss_probe = false;
    }
    if cfg.tail_loss_probe && cfg.recovery != LossRecovery::Sack {
        let rule =
            format!("needs selective acknowledgements, which protocol {} does not have", registered.name);
        return Err(p.error("tail_loss_probe", rule));
    }
    if cfg.personality != Personality::Linux {
        for (key, used) in [("gso", cfg.gso > 1), ("gro", cfg.gro > Dur::ZERO)] {
            if used && p.is_given(key) {
                return Err(
                    p.error(key, "needs Linux's sender: linux-reno, linux-cubic, bbr, bbr3, or tcp=linux")
                );
            }
        }
        // A profile's offloads are those of its Linux hosts.
        (cfg.gso, cfg.gro) = (1, Dur::ZERO);
    }
    if cfg.personality == Personality::Linux && cfg.retransmit_thread.is_some() {
        return Err(p.error(
            "retransmit_probability",
            "must be 0 with Linux's sender, whose recovery knows no retransmit thread",
        ));
    }
    Ok((registered, (suite, Arc::new(cfg))))
}

/// RFC 9293 section 3.7.1.
const TCP_MSS_DEFAULT: u64 = 536;

/// Beyond every ceiling of the timeout: a kernel doubles it until TCP_RTO_MAX.
const LINUX_BACKOFF_MAX: u32 = 1_000_000;

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
        missed_ticks: MissedTicks {
            write: p.float("missed_ticks_write") as f32,
            arrival: p.float("missed_ticks_arrival") as f32,
            key: 0,
        },
        backoff_max: p.count("backoff_max") as u32,
        delayed_ack: p.count("delayed_ack") as u32,
        quick_acks: if p.count("delayed_ack") > 1 { p.count("quick_acks") as u32 } else { 0 },
        delayed_ack_timeout: if p.count("delayed_ack") > 1 {
            p.dur("delayed_ack_timeout")
        } else {
            TcpConfig::default().delayed_ack_timeout
        },
        comp_sack: p.dur("comp_sack"),
        gso: p.count("gso") as u32,
        gro: p.dur("gro"),
        rwnd: match p.amount("rwnd") {
            Amount::Bytes(b) => b,
            Amount::Packets(n) => u64::from(n) * u64::from(mss),
        },
        read_rate: p.is_set("read_rate").then(|| p.rate("read_rate")),
        restart_after_idle: p.flag("restart_after_idle"),
        window_validation: p.flag("window_validation"),
        byte_counting: p.flag("byte_counting"),
        ssthresh_from_cwnd: p.text("ssthresh_from") == "cwnd",
        ecn_floor: p.text("ecn_floor") == "segment",
        ecn_backoff: p.text("ecn_floor") == "backoff",
        ect_syn: p.is_set("ect_syn").then(|| p.flag("ect_syn")),
        ecn_fallback: p.is_set("ecn_fallback") && p.flag("ecn_fallback"),
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
    // A profile's sender is for protocols that can have it; one that is asked for by name is refused where it cannot be.
    let possible = suite.stack.is_none() && cfg.recovery == LossRecovery::Sack;
    let asked = p.declares("tcp") && p.text("tcp") == "linux" && (possible || p.is_given("tcp"));
    if asked && cfg.personality == Personality::Rfc {
        cfg.personality = Personality::Linux;
        (cfg.ssthresh_from_cwnd, cfg.byte_counting) = (true, true);
    }
    if cfg.personality == Personality::Linux {
        // Linux's defaults, where the scenario does not say otherwise.
        cfg.tail_loss_probe |= !p.is_given("tail_loss_probe");
        cfg.dsack |= !p.is_given("dsack");
        cfg.ecn_fallback |= !p.is_set("ecn_fallback");
        if !p.is_given("delayed_ack") {
            cfg.delayed_ack = 2;
        }
        // TCP_RTO_MAX; the timeout doubles until it is reached.
        if !p.is_given("rto_max") {
            cfg.rto_max = Dur::from_secs(120.0);
        }
        if !p.is_given("backoff_max") {
            cfg.backoff_max = LINUX_BACKOFF_MAX;
        }
        // tcp_bound_to_half_wnd: segments of half of the largest window, of a whole window of at most 536 bytes.
        let part = if cfg.rwnd > TCP_MSS_DEFAULT { cfg.rwnd / 2 } else { cfg.rwnd };
        cfg.mss = u64::from(cfg.mss).min(part.max(1)) as u32;
    }
    cfg
}
