//! Tests of CBC, by the numbers of its equations.

use super::*;
use alloc::string::ToString;
use penstock_core::CcHeader;

fn cbc(given: &[(&str, &str)]) -> Cbc {
    let given: Vec<_> = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Cbc::new(Config::new(&Params::parse("cbc", PARAMS, &given).unwrap()).unwrap())
}

fn view(una: u64) -> FlowView {
    FlowView {
        una,
        nxt: una,
        max_sent: una,
        app_end: una,
        rwnd: 64_000,
        limit: Default::default(),
        ..FlowView::plain(1000)
    }
}

/// Connections that acknowledge a fixed number of bytes per round trip.
struct Rig {
    cbc: Cbc,
    now: Time,
    acked: BTreeMap<FlowId, u64>,
}

impl Rig {
    /// Flow i leads to host `hosts[i]`, attached to router `hosts[i] / 10`.
    fn new(given: &[(&str, &str)], hosts: &[u32]) -> Rig {
        let mut cbc = cbc(given);
        for (i, host) in hosts.iter().enumerate() {
            cbc.on_open(Time::ZERO, FlowId(i as u32), Peer { host: *host, router: host / 10, class: 0 });
        }
        Rig { cbc, now: Time::ZERO, acked: BTreeMap::new() }
    }
    fn ack(&mut self, flow: u32, bytes: u64, rtt: Dur) {
        let una = self.acked.entry(FlowId(flow)).or_insert(0);
        *una += bytes;
        let header = CcHeader::default();
        let ack = Ack {
            now: self.now,
            bytes,
            ece: false,
            sent_at: self.now - rtt,
            rtt: Some(rtt),
            header: &header,
        };
        self.cbc.on_ack(FlowId(flow), &ack, &view(*una));
    }
    /// `n` round trips of 10 ms in which flow i acknowledges `bytes[i]`, all with a measured RTT of `rtt`.
    fn rounds(&mut self, n: u32, bytes: &[u64], rtt: Dur) {
        for _ in 0..n {
            self.now = self.now + Dur::millis(10);
            for (i, b) in bytes.iter().enumerate() {
                self.ack(i as u32, *b, rtt);
            }
        }
    }
    fn loss(&mut self, flow: u32) {
        self.cbc.on_congestion(self.now, FlowId(flow), &view(0), Congestion::Loss);
    }
    fn states(&self) -> Vec<&'static str> {
        self.cbc.connections.values().map(|c| state_name(c.state)).collect()
    }
    fn cap(&self, flow: u32) -> Option<u64> {
        self.cbc.cap(FlowId(flow)).map(|b| b.0)
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Uncongested => "uncongested",
        State::Controlling { .. } => "controlling",
        State::Ready => "ready",
    }
}

const CALM: Dur = Dur::millis(10);

#[test]
fn estimates_by_hand() {
    // 6000 B per 10 ms round = 4.8 Mb/s, steadily; then one round of 12,000 B and 14 ms.
    let mut rig = Rig::new(&[], &[1]);
    rig.rounds(40, &[6000], CALM);
    rig.rounds(1, &[12_000], Dur::millis(14));
    let est = rig.cbc.connections[&FlowId(0)].est;
    let close = |x: f64, y: f64| assert!((x - y).abs() < 1e-9 * y, "{x} is not {y}");
    // Last 4 rounds: 30,000 B in 40 ms = 6 Mb/s; (10+10+10+14)/4 = 11 ms.
    close(est.current_bw, 6.0e6);
    close(est.current_rtt, 0.011);
    // 0.95 * 4.8 + 0.05 * 6; 0.8 * 4.8 + 0.2 * 6; 0.95 * 10 + 0.05 * 11.
    close(est.required, 4.86e6);
    close(est.available, 5.04e6);
    close(est.base_rtt, 0.01005);
}

#[test]
fn a_set_event_grants_each_window_once_however_many_join() {
    for n in [10usize, 400] {
        let mut rig = Rig::new(&[("set", "router")], &alloc::vec![11; n]);
        rig.rounds(60, &alloc::vec![6500; n], CALM);
        rig.cbc.grants = 0;
        rig.loss(0);
        assert_eq!(rig.cbc.grants, n as u64);
        assert_eq!(rig.states(), alloc::vec!["controlling"; n]);
        // All require 5.2 Mb/s and have it: the cap is that times 10 ms, 6500 B, in whole segments.
        assert!((0..n as u32).all(|flow| rig.cap(flow) == Some(6000)));
    }
}

#[test]
fn delay_alone_sets_control_of_the_whole_set_and_freezes_the_estimates() {
    let mut rig = Rig::new(&[("set", "router")], &[11, 12, 21]);
    rig.rounds(60, &[6000, 3000, 3000], CALM);
    assert_eq!(rig.states(), ["uncongested"; 3]);
    // Mean of 4 above 1.4 * 10 ms: needs two rounds of 20 ms (15 ms), one is not enough (12.5 ms).
    rig.now = rig.now + Dur::millis(10);
    rig.ack(0, 6000, Dur::millis(20));
    assert_eq!(rig.states(), ["uncongested"; 3]);
    let required = rig.cbc.connections[&FlowId(0)].est.required;
    rig.now = rig.now + Dur::millis(10);
    rig.ack(0, 2000, Dur::millis(20));
    assert_eq!(rig.states(), ["controlling", "controlling", "uncongested"]);
    assert_eq!(rig.cbc.connections[&FlowId(0)].est.required, required, "frozen from the revealing round on");
    let transitions: Vec<_> = rig.cbc.take_transitions().iter().map(|t| t.what).collect();
    assert_eq!(transitions, ["controlling: delay", "controlling: member"]);
}

#[test]
fn caps_follow_equation_1_in_both_readings() {
    for (form, expected) in [("intended", [8625, 4312]), ("printed", [8625, 3000])] {
        let mut rig = Rig::new(&[("form", form)], &[11, 12]);
        rig.rounds(60, &[9000, 4500], CALM); // requirements 7.2 and 3.6 Mb/s, mean 5.4
        rig.loss(1);
        for c in rig.cbc.connections.values_mut() {
            c.est.available = 4.5e6;
        }
        rig.cbc.share(1);
        // l_a = 4.5: intended min(1.15*4.5*4/3, 7.2) = 6.9 and 3.45 Mb/s; printed min(5.175, 7.2)*4/3 = 6.9
        // and min(5.175, 3.6)*2/3 = 2.4; times 10 ms / 8.
        let window = |i| rig.cbc.equation_1(&rig.cbc.connections[&FlowId(i)]).unwrap() as u64;
        assert_eq!([window(0), window(1)], expected, "{form}");
    }
}

#[test]
fn windows_are_whole_segments_and_carried_fractions_make_their_mean_equation_1() {
    // Requirement 4.6 Mb/s in a set that carries its requirement: 4.6 * 10 ms / 8 = 5750 B = 5.75 segments.
    for (fraction, expected) in [("drop", [5, 5, 5, 5]), ("carry", [5, 6, 6, 6])] {
        let mut rig = Rig::new(&[("fraction", fraction), ("min_period", "100s")], &[11, 12]);
        rig.rounds(100, &[5750, 5750], CALM);
        rig.loss(0);
        let windows = [(); 4].map(|()| {
            let segments = rig.cap(0).unwrap() / 1000;
            rig.rounds(1, &[5750, 5750], CALM);
            segments
        });
        assert_eq!(windows, expected, "{fraction}");
    }
}

#[test]
fn a_cap_is_never_below_two_segments_and_a_set_of_one_is_not_capped() {
    let mut rig = Rig::new(&[], &[11, 12, 21]);
    rig.rounds(60, &[600, 300, 300], CALM);
    rig.loss(0);
    rig.loss(2);
    assert_eq!((rig.cap(0), rig.cap(1), rig.cap(2)), (Some(2000), Some(2000), None));
    assert_eq!(rig.states()[2], "controlling");
}

#[test]
fn control_is_released_only_when_all_members_are_ready_and_after_the_minimum_period() {
    let mut rig = Rig::new(&[("min_period", "1s")], &[11, 12]);
    rig.rounds(60, &[6000, 3000], CALM);
    rig.loss(0);
    // Flow 0 is normal at once, flow 1 carries more than its requirement: the hump.
    rig.rounds(99, &[6000, 4000], CALM);
    assert_eq!(rig.states(), ["controlling"; 2]);
    rig.rounds(10, &[6000, 4000], CALM);
    assert_eq!(rig.states(), ["ready", "controlling"]);
    assert!(rig.cap(0).is_some(), "a ready member stays capped");
    // Over the hump: the average needs some rounds to fall to the requirement.
    rig.rounds(60, &[6000, 2900], CALM);
    assert_eq!(rig.states(), ["uncongested"; 2]);
    assert_eq!((rig.cap(0), rig.cap(1)), (None, None));
}

#[test]
fn congestion_sends_a_ready_member_back() {
    let mut rig = Rig::new(&[("min_period", "1s")], &[11, 12]);
    rig.rounds(60, &[6000, 3000], CALM);
    rig.loss(0);
    rig.rounds(110, &[6000, 4000], CALM);
    assert_eq!(rig.states(), ["ready", "controlling"]);
    rig.loss(0);
    assert_eq!(rig.states(), ["controlling"; 2]);
}

#[test]
fn a_silent_member_does_not_hold_the_set() {
    let mut rig = Rig::new(&[("min_period", "1s")], &[11, 12]);
    rig.rounds(60, &[6000, 3000], CALM);
    rig.loss(1);
    rig.rounds(110, &[6000], CALM);
    assert_eq!(rig.states(), ["uncongested"; 2]);
}

#[test]
fn each_rule_finds_its_set() {
    // Two connections to host 11, one to host 12 behind the same router, one to host 21.
    for (rule, controlled) in [
        ("performance", [true, false, false, false]),
        ("destination", [true, true, false, false]),
        ("router", [true, true, true, false]),
    ] {
        let mut rig = Rig::new(&[("set", rule)], &[11, 11, 12, 21]);
        rig.rounds(60, &[3000; 4], CALM);
        rig.loss(0);
        let is: Vec<bool> = rig.cbc.connections.values().map(|c| c.set.is_some()).collect();
        assert_eq!(is, controlled, "{rule}");
    }
    // ECN: a loss reveals no router; a mark does, to all connections of that pair of hosts.
    let mut rig = Rig::new(&[("set", "ecn")], &[11, 11, 12, 21]);
    rig.rounds(60, &[3000; 4], CALM);
    rig.loss(0);
    assert_eq!(rig.states(), ["uncongested"; 4]);
    rig.cbc.on_congestion(rig.now, FlowId(2), &view(0), Congestion::Ecn);
    rig.cbc.on_congestion(rig.now, FlowId(0), &view(0), Congestion::Ecn);
    assert_eq!(rig.states(), ["controlling", "controlling", "controlling", "uncongested"]);
}

#[test]
fn a_new_connection_inherits_what_the_last_one_to_its_peer_learned() {
    for (inherit, expected) in [("true", "controlling"), ("false", "uncongested")] {
        let mut rig = Rig::new(&[("inherit", inherit)], &[11, 12]);
        rig.rounds(60, &[6000, 3000], CALM);
        rig.cbc.on_close(rig.now, FlowId(0));
        rig.loss(1);
        rig.cbc.on_open(rig.now, FlowId(7), Peer { host: 11, router: 1, class: 0 });
        assert_eq!(rig.states(), ["controlling", expected]);
        assert_eq!(rig.cap(1).is_some(), inherit == "true", "a set of one is not capped");
    }
}

#[test]
fn nothing_is_controlled_before_the_estimates_are_worth_freezing() {
    let mut rig = Rig::new(&[], &[11, 12]);
    rig.rounds(10, &[6000, 3000], CALM);
    rig.loss(0);
    assert_eq!(rig.states(), ["uncongested"; 2]);
}

#[test]
fn smoothing_that_could_not_track_is_refused() {
    let given = [("alpha_a".to_string(), "0.05".to_string())];
    let e = Config::new(&Params::parse("cbc", PARAMS, &given).unwrap()).unwrap_err();
    assert_eq!(e.to_string(), "alpha_a = \"0.05\": must be larger than alpha_r");
}
