//! Guards: a mark is counted for a packet that is queued, and a packet that could not be marked has a counter of its own.

use penstock_core::rng::Entity;
use penstock_core::{DropCause, Ecn, Packet, Stream, Verdict};
use penstock_models::QueueSpec;
use penstock_sim::engine::Progress;
use penstock_sim::port::{Arena, Offered, Port, PortConfig};
use penstock_sim::scenario::Resolved;
use penstock_units::{Dur, Rate, Time};

fn port(loss: f64) -> Port {
    let config = PortConfig {
        rate: Rate(1_000_000),
        delay: Dur::ZERO,
        limit_packets: u32::MAX,
        limit_bytes: u64::MAX,
        framing: 0,
        queue: QueueSpec::parse("queue", "threshold:k=1pkt").unwrap().build(1500),
        controller: None,
        loss,
        jitter: None,
        measured: true,
    };
    Port::new(config, Stream::new(1, 0, Entity::Port, 0), Stream::new(1, 0, Entity::Loss, 0))
}

/// Offers 1000 packets at once; how many were queued with a mark.
fn offer(port: &mut Port, ecn: Ecn, pool: impl Fn(usize) -> Verdict) -> u64 {
    let mut arena = Arena::new(false);
    let mut marked = 0;
    for i in 0..1000 {
        let id = arena.alloc();
        *arena.get(id).0 = Packet { wire_len: 1500, payload: 1460, ecn, ..Packet::default() };
        if let Offered::Queued(_) = port.offer_shared(Time::ZERO, id, &mut arena, pool(i)) {
            marked += u64::from(arena.get(id).0.ecn == Ecn::Ce);
        }
    }
    marked
}

#[test]
fn a_packet_that_is_marked_and_then_lost_is_no_mark() {
    let mut lossy = port(0.5);
    let marked = offer(&mut lossy, Ecn::Ect0, |_| Verdict::Accept);
    assert!((400..600).contains(&marked), "{marked}");
    assert_eq!(lossy.stats().marks, marked);
    let mut shared = port(0.0);
    let pool =
        |i: usize| if i.is_multiple_of(2) { Verdict::Drop(DropCause::Overflow) } else { Verdict::Mark };
    assert_eq!(offer(&mut shared, Ecn::Ect0, pool), 500);
    assert_eq!(shared.stats().marks, 500, "marked by the queue and by the pool is one mark");
}

#[test]
fn what_cannot_be_marked_has_its_own_counter() {
    let mut p = port(0.0);
    assert_eq!(offer(&mut p, Ecn::NotEct, |_| Verdict::Accept), 0);
    let drops = p.stats().drops;
    assert_eq!(drops[DropCause::Early as usize], 0);
    assert!(drops[DropCause::NotEct as usize] >= 998, "{drops:?}");
    assert_eq!(drops.iter().sum::<u64>(), drops[DropCause::NotEct as usize]);
}

fn leaf_spine(settings: &[(&str, &str)]) -> penstock_sim::results::Summary {
    let mut all = vec![
        ("topology", "leaf-spine:2x2x4"),
        ("long_flows", "0"),
        ("sizes", "pareto:1.2:50KB"),
        ("arrivals", "load:0.7"),
        ("queue", "threshold:k=20pkt"),
        ("link_rate", "1Gbps"),
        ("link_delay", "2us"),
        ("buffer", "1000pkt"),
        ("warmup", "0s"),
        ("duration", "300ms"),
    ];
    all.extend(settings);
    let given: Vec<_> = all.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let resolved = Resolved::new("mix", &given, 1, serde_json::Value::Null).expect("a valid scenario");
    resolved.run(0, &Progress::default()).expect("a run").summary
}

#[test]
fn marking_queues_drop_nothing_of_dctcp_wherever_acks_and_syns_queue() {
    for protocol in ["dctcp", "d2tcp"] {
        let s = leaf_spine(&[("protocol", protocol)]);
        assert!(s["ce_marks"] > 1000.0, "{protocol}: nothing was marked");
        assert_eq!((s["drops_nonect"], s["drops"]), (0.0, 0.0), "{protocol}");
    }
    // SYNs as RFC 3168 has them, and a protocol without ECN, are dropped and counted as what they are.
    assert!(leaf_spine(&[("protocol", "dctcp"), ("ect_syn", "false")])["drops_nonect"] > 0.0);
    let s = leaf_spine(&[("protocol", "newreno")]);
    assert!(s["drops_nonect"] > 100.0 && s["ce_marks"] == 0.0 && s["drops_nonect"] == s["drops"], "{s:?}");
}
