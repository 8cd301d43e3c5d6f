//! `count=waiting`: thresholds compare with what waits, the packet in service left out.

use penstock_core::rng::Entity;
use penstock_core::{Backlog, DropCause, Packet, QueueDiscipline, Stream, Verdict};
use penstock_models::QueueSpec;
use penstock_units::{Rate, Time};

/// What a discipline decides about packets that find `0..n` of 1000 B in the port, or bytes of these sizes.
fn verdicts(spec: &str, finds: &[&[u32]]) -> Vec<bool> {
    let mut queue = QueueSpec::parse("queue", spec).expect("the spec is right").build(1000);
    let mut rng = Stream::new(1, 0, Entity::Port, 0);
    let decide = |held: &&[u32]| {
        let q = Backlog {
            packets: held.len() as u32,
            bytes: held.iter().map(|b| u64::from(*b)).sum(),
            serving: held.first().copied().unwrap_or(0),
            idle_since: Time::NEVER,
            rate: Rate(1_000_000_000),
        };
        match queue.admit(Time(1), &q, &Packet { wire_len: 1000, ..Packet::default() }, false, &mut rng) {
            Verdict::Accept => false,
            Verdict::Mark | Verdict::Drop(DropCause::Early) => true,
            Verdict::Drop(cause) => panic!("{cause:?}"),
        }
    };
    finds.iter().map(decide).collect()
}

const FULL: [u32; 6] = [1000; 6];

/// The queue grows packet by packet from an empty port.
fn growing(spec: &str) -> Vec<bool> {
    let finds: Vec<&[u32]> = (0..=6).map(|n| &FULL[..n]).collect();
    verdicts(spec, &finds)
}

#[test]
fn thresholds_move_by_the_packet_in_service() {
    // With wq=1 the average is the queue itself; with max_p=0 and no slope above max, RED is a step at max.
    let red = "red:min=2999B,max=3KB,wq=1,gentle=false,max_p=0";
    for (spec, from) in [
        ("threshold:k=3pkt", 3),
        ("threshold:k=3KB", 3),
        ("hysteresis:k1=3pkt,k2=3pkt", 3),
        ("hysteresis:k1=3KB,k2=3KB", 3),
        ("red:min=2pkt,max=3pkt,wq=1,gentle=false,max_p=0", 3),
        (red, 3),
    ] {
        let expected = |from: usize| (0..=6).map(|n| n >= from).collect::<Vec<_>>();
        assert_eq!(growing(spec), expected(from), "{spec}");
        assert_eq!(growing(&format!("{spec},count=port")), expected(from), "{spec}, the default");
        assert_eq!(growing(&format!("{spec},count=waiting")), expected(from + 1), "{spec}, waiting");
    }
}

/// Bytes: it is the packet in service that is left out, not a mean one.
#[test]
fn bytes_in_service_are_those_of_the_packet_in_service() {
    let finds: [&[u32]; 3] = [&[40, 1000, 1000], &[1000, 1000, 40], &[1000]];
    assert_eq!(verdicts("threshold:k=2000B", &finds), [true, true, false]);
    assert_eq!(verdicts("threshold:k=2000B,count=waiting", &finds), [true, false, false]);
}
