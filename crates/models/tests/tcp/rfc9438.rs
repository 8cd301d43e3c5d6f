//! CUBIC: the equations with numbers worked out by hand. Windows in segments, C = 0.4, beta = 0.7.

use crate::rig::{observed, sender, Hand, MSS};
use penstock_core::tcp::Phase::{FastRecovery, Loss, Open};
use penstock_core::{AckRecord, CcHeader, Congestion, FlowView, Limit, Stream, WindowLaw};
use penstock_models::registry::protocol;
use penstock_units::{Dur, Time};

/// The controller alone, at a smoothed RTT of 100 ms.
struct Law {
    cc: Box<dyn WindowLaw>,
    view: FlowView,
}

impl Law {
    fn new(name: &str, window: u32) -> Law {
        let (cfg, s) = sender(name, |c| c.initial_window = window);
        let (_, suite) = protocol("protocol", name).unwrap();
        let cc = (suite.endpoint)(&cfg, &|| Stream::new(1, 0, penstock_core::rng::Entity::Host, 0));
        let mut view = s.view.clone();
        (view.limit, view.rtt_smoothed) = (Limit::Window, Dur::millis(100));
        Law { cc, view }
    }
    fn cwnd(&self) -> f64 {
        self.cc.control().window.unwrap().0 as f64 / MSS as f64
    }
    fn congestion(&mut self, flight: u64, event: Congestion) {
        self.view.in_flight = flight * MSS;
        self.cc.on_congestion(Time::ZERO, &self.view, event);
    }
    /// One segment is acknowledged `seconds` into the run.
    fn ack(&mut self, seconds: f64) {
        let now = Time::ZERO + Dur((seconds * 1e12).round() as u64);
        self.cc.on_ack(&AckRecord::plain(now, MSS, &CcHeader::NONE), &self.view);
    }
    fn w_max(&self) -> f64 {
        let mut w = f64::NAN;
        self.cc.observe(&mut |k, v| {
            if k.name == "w_max_segments" {
                w = v;
            }
        });
        w
    }
}

/// To a tenth of a percent of a segment: windows are whole bytes.
fn near(x: f64, expected: f64) {
    assert!((x - expected).abs() < 2e-3, "{x} instead of {expected}");
}

#[test]
fn section_4_6_a_loss_leaves_seven_tenths_of_the_flight() {
    let mut l = Law::new("cubic", 100);
    l.congestion(100, Congestion::Loss);
    near(l.cwnd(), 70.0);
    near(l.w_max(), 100.0);
    // At least two segments.
    l.congestion(2, Congestion::Loss);
    near(l.cwnd(), 2.0);
}

#[test]
fn section_4_6_a_mark_may_leave_one_segment() {
    let mut l = Law::new("cubic:ecn=true", 10);
    l.congestion(10, Congestion::Ecn);
    near(l.cwnd(), 7.0);
    l.congestion(1, Congestion::Ecn);
    near(l.cwnd(), 1.0);
}

#[test]
fn section_4_2_equations_1_and_2_concave_then_convex() {
    let mut l = Law::new("cubic", 100);
    l.congestion(100, Congestion::Loss);
    // K = cbrt((100 - 70) / 0.4) = 4.217 s. At t = 0 the Reno-friendly window is ahead: 70 + 0.5294 / 70.
    l.ack(10.0);
    near(l.cwnd(), 70.0076);
    // t = 3: W(3) = 99.279, target W(3.1) = 99.442: 70.0076 + (99.442 - 70.0076) / 70.0076.
    l.ack(13.0);
    near(l.cwnd(), 70.4280);
    // t = 8: target W(8.1) = 123.4, cut to 1.5 cwnd = 105.642.
    l.ack(18.0);
    near(l.cwnd(), 70.9280);
}

#[test]
fn section_4_2_time_without_need_for_the_window_does_not_count() {
    let mut steady = Law::new("cubic", 100);
    let mut paused = Law::new("cubic", 100);
    for l in [&mut steady, &mut paused] {
        l.congestion(100, Congestion::Loss);
        l.ack(10.0);
    }
    steady.ack(13.0);
    // Limited by the application from 11 s to 41 s.
    paused.view.limit = Limit::Application;
    paused.ack(11.0);
    paused.ack(11.5);
    near(paused.cwnd(), 70.0076);
    paused.view.limit = Limit::Window;
    // Continues at t = 1: what was 13 s in the steady run is 43 s.
    paused.ack(41.0);
    let mut reference = Law::new("cubic", 100);
    reference.congestion(100, Congestion::Loss);
    reference.ack(10.0);
    reference.ack(11.0);
    near(paused.cwnd(), reference.cwnd());
    paused.ack(43.0);
    reference.ack(13.0);
    near(paused.cwnd(), reference.cwnd());
}

#[test]
fn section_4_3_equation_4_reno_friendly_region() {
    // A small window: W_max = 10, cwnd 7, K = cbrt(7.5) = 1.957 s. alpha = 3 * 0.3 / 1.7 = 0.52941.
    let mut l = Law::new("cubic", 10);
    l.congestion(10, Congestion::Loss);
    let (mut west, mut cwnd) = (7.0, 7.0);
    for i in 0..40 {
        // Ten acknowledgements per RTT of 100 ms in the first 0.4 s: the cubic is flat near W_max.
        l.ack(1.0 + 0.0001 * f64::from(i));
        west += 0.529_411_76 / cwnd;
        cwnd = west;
        if cwnd >= 9.9 {
            break;
        }
        near(l.cwnd(), cwnd);
    }
}

#[test]
fn section_4_3_alpha_is_one_from_the_old_window_on() {
    let mut l = Law::new("cubic", 10);
    l.congestion(10, Congestion::Loss);
    let (mut west, mut cwnd) = (7.0f64, 7.0f64);
    let mut beyond = 0;
    for i in 0..120 {
        l.ack(1.0 + 0.0001 * f64::from(i));
        let alpha = if west >= 10.0 { 1.0 } else { 0.529_411_76 };
        beyond += u32::from(west >= 10.0);
        west += alpha / cwnd;
        cwnd = west;
        near(l.cwnd(), cwnd);
    }
    assert!(beyond > 20);
}

#[test]
fn section_4_7_fast_convergence() {
    for (name, w_max) in [("cubic", 0.85 * 80.0), ("cubic:fast_convergence=false", 80.0)] {
        let mut l = Law::new(name, 100);
        l.congestion(100, Congestion::Loss);
        l.congestion(80, Congestion::Recovered);
        // The window is 70: below W_max when the next loss comes.
        l.congestion(70, Congestion::Loss);
        near(l.w_max(), w_max / 80.0 * 70.0);
        near(l.cwnd(), 49.0);
    }
}

#[test]
fn section_4_8_after_a_timeout_k_is_zero() {
    let mut l = Law::new("cubic", 100);
    l.congestion(100, Congestion::Timeout { in_a_row: 1, kept: 0 });
    near(l.cwnd(), 1.0);
    // Slow start up to ssthresh = 70.
    for _ in 0..69 {
        l.ack(1.0);
    }
    near(l.cwnd(), 70.0);
    l.ack(2.0);
    near(l.w_max(), 70.0);
    // t = 2, K = 0: target = 0.4 * 2.1^3 + 70 = 73.7044, from 70.0076.
    l.ack(4.0);
    near(l.cwnd(), 70.0076 + (73.7044 - 70.0076) / 70.0076);
}

#[test]
fn section_4_10_slow_start_until_the_first_loss() {
    let mut h = Hand::busy("cubic", |_| ());
    h.play(&[
        ("ack 1", Open, 11.0, "10 11"),
        ("ack 2", Open, 12.0, "12 13"),
        ("dup s 3-6", FastRecovery, 8.4, "r2"),
    ]);
    assert_eq!(observed(&h.s, "ssthresh_bytes"), 8400.0);
    h.play(&[("tick", Loss, 1.0, "r2")]);
}

/// Section 4.2: t leaves idle time out, whether the sender validates its window or not. After a loss at 20 segments the window is 14; ten silent seconds later a
/// flight of 14 grows it by what a round trip does and not by what the curve has reached meanwhile.
#[test]
fn section_4_2_idle_time_is_not_on_the_curve() {
    for (name, window_validation) in
        [("cubic", true), ("cubic", false), ("linux-cubic", true), ("linux-cubic", false)]
    {
        let mut h = Hand::established(name, |c| {
            c.initial_window = 20;
            c.restart_after_idle = false;
            c.window_validation = window_validation;
        });
        h.event("write 20");
        h.event("dup s 1-20");
        h.event("ack 20");
        assert_eq!((h.s.phase(), h.cwnd()), (Open, 14.0), "{name}");
        // The curve begins.
        h.event("write 14");
        (21..=34).for_each(|n| drop(h.event(&format!("ack {n}"))));
        let before = h.cwnd();
        h.event("wait 10000");
        h.event("write 14");
        (35..=48).for_each(|n| drop(h.event(&format!("ack {n}"))));
        let grown = h.cwnd() - before;
        assert!(grown < 1.5, "{name}, window_validation = {window_validation}: {before} + {grown}");
    }
}
