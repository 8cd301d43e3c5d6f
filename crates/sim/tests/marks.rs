//! Guards: a mark is counted for a packet that is queued, and a packet that could not be marked has a counter of its own.

use penstock_core::rng::Entity;
use penstock_core::{DropCause, Ecn, Stream};
use penstock_fabric::{Arena, BufferConfig, Cell, Fabric, NodeConfig, Offered, PoolRule, Port, PortConfig};
use penstock_models::QueueSpec;
use penstock_sim::engine::Progress;
use penstock_sim::scenario::Resolved;
use penstock_units::{Dur, Rate, Time};

fn port(loss: f64) -> Port {
    let config = PortConfig {
        rule: QueueSpec::parse("queue", "threshold:k=1pkt").unwrap().build(1500),
        loss: Some((loss, Stream::new(1, 0, Entity::Loss, 0))),
        ..PortConfig::plain(Rate(1_000_000), Dur::ZERO, Stream::new(1, 0, Entity::Port, 0))
    };
    Port::new(0, config).unwrap()
}

/// Drops a packet with probability 1/2.
struct Half;
impl PoolRule for Half {
    fn refuse(&self, _: u8, _: u32, _: u32, rng: &mut Stream) -> Option<DropCause> {
        (rng.uniform() < 0.5).then_some(DropCause::Overflow)
    }
}

/// A port, alone or with a shared buffer that drops half of the packets.
fn fabric(loss: f64, pool: bool) -> Fabric {
    let mut fabric = Fabric::new(vec![port(loss)]);
    if pool {
        let rule: Option<Box<dyn PoolRule>> = Some(Box::new(Half));
        let node = NodeConfig {
            ports: vec![0],
            ingresses: Vec::new(),
            buffer: BufferConfig { rule, ..BufferConfig::pool(u64::MAX, 0, 0) },
            response: Dur::ZERO,
            rng: Stream::new(1, 0, Entity::Pool, 0),
        };
        fabric.add_node(node).unwrap();
    }
    fabric
}

/// Offers 1000 packets at once; how many were queued, the marked ones in the port.
fn offer(fabric: &mut Fabric, ecn: Ecn) -> (u64, u64) {
    let mut arena = Arena::new(false);
    let mut queued = 0;
    for i in 0..1000 {
        let cell = Cell::new(i, 1500).with_ecn(ecn).with_payload();
        queued += u64::from(matches!(fabric.offer(Time::ZERO, 0, cell, &mut arena), Offered::Queued(_)));
    }
    let marked = fabric.ports()[0].cells().filter(|c| c.ecn() == Ecn::Ce).count();
    (queued, marked as u64)
}

#[test]
fn a_packet_that_is_marked_and_then_lost_is_no_mark() {
    for (loss, pool) in [(0.5, false), (0.0, true)] {
        let mut lossy = fabric(loss, pool);
        let (queued, marked) = offer(&mut lossy, Ecn::Ect0);
        assert!((400..600).contains(&queued), "{queued}");
        // The first that is queued finds an empty port.
        assert_eq!((lossy.ports()[0].stats().marks, marked), (queued - 1, queued - 1));
    }
}

#[test]
fn what_cannot_be_marked_has_its_own_counter() {
    let mut f = fabric(0.0, false);
    assert_eq!(offer(&mut f, Ecn::NotEct), (1, 0));
    let drops = f.ports()[0].stats().drops;
    assert_eq!(drops[DropCause::NotEct as usize], 999, "{drops:?}");
    assert_eq!(drops.iter().sum::<u64>(), 999);
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
