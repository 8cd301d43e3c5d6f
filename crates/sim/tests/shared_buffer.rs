//! Guards: a shared buffer never holds more than its limits, and gives back all it held, whatever arrives where.

use penstock_core::rng::Entity;
use penstock_core::{Packet, Stream};
use penstock_models::queues::shared_buffer::{ClassLimit, SharedBuffer};
use penstock_models::QueueSpec;
use penstock_sim::pool::Pool;
use penstock_sim::port::{Arena, Offered, Port, PortConfig};
use penstock_units::{Dur, Rate, Time};
use proptest::prelude::*;

const CLASSES: [u8; 3] = [26, 18, 0];
const FRAMING: u32 = 38;

fn port(i: u64, rate: u64) -> Port {
    let config = PortConfig {
        rate: Rate(rate),
        delay: Dur::micros(10 * (i + 1)),
        limit_packets: u32::MAX,
        limit_bytes: u64::MAX,
        framing: FRAMING,
        queue: QueueSpec::parse("queue", "droptail").unwrap().build(1500),
        controller: None,
        loss: 0.0,
        jitter: None,
        measured: true,
    };
    let mut port = Port::new(config, Stream::new(1, 0, Entity::Port, i), Stream::new(1, 0, Entity::Loss, i));
    port.share();
    port
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
        let pool = Pool::new(rule, vec![0, 1, 2]);
        // Rates whose byte time is a whole number of picoseconds: the second count below is then exact.
        let mut ports = vec![port(0, 10_000_000), port(1, 1_000_000), port(2, 100_000_000)];
        let mut arena = Arena::new(false);
        let mut rng = Stream::new(seed, 0, Entity::Pool, 0);
        let mut now = Time::ZERO;
        // What each class should hold, counted a second time: the class of every packet and when it leaves.
        let mut leaving: Vec<(u8, u64)> = Vec::new();
        let mut free_at = [0u64; 3];
        for (gap, at, class, bytes) in &arrivals {
            now = now + Dur::micros(*gap);
            let class = CLASSES[*class];
            let id = arena.alloc();
            arena.packets[id as usize] = Packet { wire_len: *bytes, ..Packet::default() };
            arena.packets[id as usize].set_class(class);
            let verdict = pool.admit(now, class, &mut ports, &mut arena, &mut rng);
            match ports[*at].offer_shared(now, id, &mut arena, verdict) {
                Offered::Queued(_) => {
                    let length = u64::from(bytes + FRAMING) * 8_000_000_000_000 / ports[*at].rate().0;
                    free_at[*at] = free_at[*at].max(now.0) + length;
                    leaving.push((class, free_at[*at]));
                }
                Offered::Dropped(_) => arena.release(id),
            }
            for (i, class) in CLASSES.iter().enumerate() {
                let (held, all) = pool.held(now, *class, &mut ports, &mut arena);
                prop_assert!(all <= total, "the pool holds {all} of {total}");
                if let Some(limit) = limits.get(i) {
                    prop_assert!(held <= *limit, "class {class} holds {held} of {limit}");
                }
                let expected = leaving.iter().filter(|(c, t)| c == class && *t > now.0).count() as u32;
                prop_assert_eq!(held, expected, "class {}", class);
            }
        }
        let end = now + Dur::from_secs(1e3);
        for class in CLASSES {
            prop_assert_eq!(pool.held(end, class, &mut ports, &mut arena), (0, 0), "everything is given back");
        }
        let departed: u64 = ports.iter().map(|p| p.stats().departed_packets).sum();
        prop_assert_eq!(departed, leaving.len() as u64);
    }
}
