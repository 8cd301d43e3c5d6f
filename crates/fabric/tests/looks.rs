//! What a port makes ready for a controller: no more than it looks at, and never other calls than it asked for.

mod common;

use common::stream;
use penstock_core::packet::flag;
use penstock_core::{CcHeader, Departures, Ecn, LinkController, LinkView, Looks, Packet};
use penstock_fabric::{Arena, Cell, Effects, Port, PortConfig};
use penstock_units::{Dur, Rate, Time};
use std::sync::{Arc, Mutex};

/// A call: arrival or departure, the packet's length, packets and capacity that the link shows, the packet's ECN field.
type Call = (char, u32, u32, Rate, Ecn);

struct Noting {
    looks: Looks,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Noting {
    fn note(&self, what: char, link: &LinkView, packet: &Packet) {
        let call = (what, link.len(packet), link.queue_packets, link.capacity, packet.ecn);
        self.calls.lock().unwrap().push(call);
    }
}

impl LinkController for Noting {
    fn on_arrival(&mut self, _: Time, link: &LinkView, packet: &mut Packet, _: &mut CcHeader) {
        self.note('a', link, packet);
    }
    fn on_departure(&mut self, _: Time, link: &LinkView, packet: &mut Packet, _: &mut CcHeader) {
        self.note('d', link, packet);
    }
    fn looks(&self) -> Looks {
        self.looks
    }
}

/// 8 Gb/s, a byte takes a nanosecond; 38 bytes of framing.
const RATE: Rate = Rate(8_000_000_000);

/// Data of 1,000 bytes, an ACK of 50 and data of 500 that arrive together, marked on their way; all have left after 2 us.
fn calls(looks: Looks) -> Vec<Call> {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let controller = Box::new(Noting { looks, calls: Arc::clone(&calls) });
    let config = PortConfig {
        controller: Some(controller),
        framing: 38,
        ..PortConfig::plain(RATE, Dur::micros(9), stream(0))
    };
    let mut port = Port::new(0, config).unwrap();
    let (mut seg, mut fx) = (Arena::new(false), Effects::default());
    for (bytes, flags) in [(1000, 0), (50, flag::ACK), (500, 0)] {
        let slot = seg.alloc();
        let packet = Packet { wire_len: bytes, payload: bytes - 40, flags, ..Packet::default() };
        seg.packets[slot as usize] = packet;
        port.offer(Time(1), Cell::carrying(slot, &packet).with_ecn(Ecn::Ce), &mut seg, &mut fx);
    }
    port.advance(Time(2_000_000), &mut seg, &mut fx);
    let found = calls.lock().unwrap().clone();
    found
}

#[test]
fn a_controller_sees_what_it_looks_at() {
    let whole = calls(Looks::ALL);
    let ce = |what, len, queued| (what, len, queued, RATE, Ecn::Ce);
    let arrivals = [ce('a', 1038, 0), ce('a', 88, 1), ce('a', 538, 2)];
    assert_eq!(whole, [&arrivals[..], &[ce('d', 1038, 2), ce('d', 88, 1), ce('d', 538, 0)]].concat());
    assert_eq!(calls(Looks::ARRIVALS), arrivals);
    // The link is bare, the packet's own field as its sender left it, and the ACK leaves unseen.
    let bare = |what, len| (what, len, 0, RATE, Ecn::NotEct);
    let headers = [bare('a', 1038), bare('a', 88), bare('a', 538), bare('d', 1038), bare('d', 538)];
    assert_eq!(calls(Looks::HEADERS), headers);
    let some = Looks { departures: Departures::Forward, ..Looks::ALL };
    let forward = [ce('d', 1038, 2), ce('d', 538, 0)];
    assert_eq!(calls(some), [&arrivals[..], &forward].concat());
}
