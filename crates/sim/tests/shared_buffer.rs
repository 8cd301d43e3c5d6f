//! Guards: a shared buffer never holds more than its limits, and gives back all it held, whatever arrives where.

use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_fabric::{Arena, BufferConfig, Cell, Fabric, NodeConfig, Offered, Port, PortConfig};
use penstock_models::queues::shared_buffer::{ClassLimit, SharedBuffer};
use penstock_units::{Dur, Rate, Time};
use proptest::prelude::*;

const CLASSES: [u8; 3] = [26, 18, 0];
const FRAMING: u32 = 38;

fn port(i: u32, rate: u64) -> Port {
    let stream = Stream::new(1, 0, Entity::Port, u64::from(i));
    let plain = PortConfig::plain(Rate(rate), Dur::micros(10 * (u64::from(i) + 1)), stream);
    Port::new(i, PortConfig { framing: FRAMING, ..plain }).unwrap()
}

/// Packets of a class in the ports of the node, as the ports have them.
fn held(fabric: &Fabric, class: u8) -> u32 {
    fabric.ports().iter().flat_map(|p| p.cells()).filter(|c| c.class() == class).count() as u32
}

/// One arrival: after how many microseconds, at which port, of which class, how many bytes.
fn arrival() -> impl Strategy<Value = (u64, usize, usize, u32)> {
    (0u64..3_000, 0usize..3, 0usize..3, 40u32..1500)
}

proptest! {
    #[test]
    fn the_pool_is_never_exceeded_and_never_leaks(
        arrivals in prop::collection::vec(arrival(), 1..400),
        limits in prop::array::uniform2(1u32..30),
        min in 0.0f64..1.0,
        drop in 0.0f64..1.0,
        seed in any::<u64>(),
    ) {
        let limit = |i: usize| {
            ClassLimit { class: CLASSES[i], limit: limits[i], min: min * f64::from(limits[i]), drop }
        };
        let rule = SharedBuffer::new(vec![limit(0), limit(1)]);
        let total = rule.total();
        // Rates whose byte time is a whole number of picoseconds: the second count below is then exact.
        let mut fabric = Fabric::new(vec![port(0, 10_000_000), port(1, 1_000_000), port(2, 100_000_000)]);
        let node = fabric.add_node(NodeConfig {
            ports: vec![0, 1, 2],
            ingresses: Vec::new(),
            buffer: BufferConfig { rule: Some(Box::new(rule)), ..BufferConfig::pool(u64::MAX, 0, 0) },
            response: Dur::ZERO,
            rng: Stream::new(seed, 0, Entity::Pool, 0),
        }).unwrap();
        let mut arena = Arena::new(false);
        let mut now = Time::ZERO;
        // What each class should hold, counted a second time: the class of every packet and when it leaves.
        let mut leaving: Vec<(u8, u64)> = Vec::new();
        let mut free_at = [0u64; 3];
        for (slot, (gap, at, class, bytes)) in (0..).zip(&arrivals) {
            now = now + Dur::micros(*gap);
            let class = CLASSES[*class];
            let cell = Cell::new(slot, *bytes).with_class(class);
            if let Offered::Queued(_) = fabric.offer(now, *at as u32, cell, &mut arena) {
                let length = u64::from(bytes + FRAMING) * 8_000_000_000_000 / fabric.ports()[*at].rate().0;
                free_at[*at] = free_at[*at].max(now.0) + length;
                leaving.push((class, free_at[*at]));
            }
            fabric.look(now, node, &mut arena);
            let all = fabric.buffer(node).packets();
            for (i, class) in CLASSES.iter().enumerate() {
                let held = held(&fabric, *class);
                prop_assert!(all <= total, "the pool holds {all} of {total}");
                if let Some(limit) = limits.get(i) {
                    prop_assert!(held <= *limit, "class {class} holds {held} of {limit}");
                }
                let expected = leaving.iter().filter(|(c, t)| c == class && *t > now.0).count() as u32;
                prop_assert_eq!(held, expected, "class {}", class);
            }
        }
        let end = now + Dur::from_secs(1e3);
        fabric.look(end, node, &mut arena);
        prop_assert_eq!((fabric.buffer(node).packets(), fabric.buffer(node).used()), (0, 0), "everything is given back");
        let departed: u64 = fabric.ports().iter().map(|p| p.stats().departed_packets).sum();
        prop_assert_eq!(departed, leaving.len() as u64);
    }
}
