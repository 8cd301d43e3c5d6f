//! XCP, the eXplicit Control Protocol: routers change each sender's window packet by packet; an efficiency
//! controller decides how much in total, a fairness controller for whom.
//!
//! Source: Katabi, Handley, Rohrs, "Congestion control for high bandwidth-delay product networks", SIGCOMM
//! 2002; section and equation numbers are of that paper. Feedback carries a difference, so a lost packet
//! loses its share of the change and nothing else; on a loss the sender halves its window as TCP does (section 3.2).

use crate::registry::{LinkFacts, Protocol, Suite};
use crate::work::{Arithmetic, Counted, Plain};
use crate::work::{ADDITIONS, COMPARISONS, MULTIPLICATIONS};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::header::wire;
use penstock_core::packet::Packet;
use penstock_core::quantity::{ARRIVAL_RATE, MEAN_RTT};
use penstock_core::tcp::{LossRecovery, TcpConfig};
use penstock_core::{
    AckRecord, CcHeader, Congestion, Control, FlowView, Header, Kind, LinkController, LinkView, Looks,
    ParamSpec, Report, WindowLaw,
};
use penstock_units::{Bytes, Dur, Time};

/// XCP.
pub const XCP: Protocol = Protocol {
    name: "xcp",
    text: "eXplicit Control Protocol: per-packet window changes from separate efficiency and fairness controllers",
    cites: "Katabi et al., SIGCOMM 2002",
    params: &[
        ParamSpec::new("alpha", Kind::Float, "0.4", "efficiency gain on spare bandwidth", "Katabi et al. section 3.5"),
        ParamSpec::new("beta", Kind::Float, "0.226", "efficiency gain on the persistent queue", "Katabi et al. section 3.5"),
        ParamSpec::new("shuffle", Kind::Float, "0.1", "share of the traffic reallocated per interval", "Katabi et al. section 3.4")
            .range(0.0, 1.0),
        ParamSpec::new("first_interval", Kind::Duration, "", "control interval of a router before its first RTT; unset = the base round-trip time", "open in Katabi et al.; ns-2: 50 ms")
            .range(1e-6, 10.0),
        ParamSpec::new("work", Kind::Bool, "false", "count the router's arithmetic per packet", "PIQI-RCP section III"),
    ],
    reports: &[&ARRIVAL_RATE, &MEAN_RTT, &ADDITIONS, &MULTIPLICATIONS, &COMPARISONS],
    build: |p| {
        let first = p.is_set("first_interval").then(|| p.dur("first_interval"));
        let set = Settings { alpha: p.float("alpha"), beta: p.float("beta"), shuffle: p.float("shuffle"), first };
        Ok(Suite {
            configure: |c| {
                c.recovery = LossRecovery::Sack;
                c.restart_after_idle = false;
            },
            endpoint: Arc::new(|cfg, _| Box::new(Sender::new(cfg))),
            router: Some(if p.flag("work") {
                Arc::new(move |link| Box::new(Router::<Counted>::new(&set, link)))
            } else {
                Arc::new(move |link| Box::new(Router::<Plain>::new(&set, link)))
            }),
..Suite::tcp()
})
    },
};

/// The 20 bytes of XCP (section 3.1): window, RTT, feedback; 8 further bytes (length, version, echoed
/// feedback of the other direction) are paid for and stay zero with data flowing one way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct XcpHeader {
    /// H_cwnd: the sender's congestion window in bytes.
    pub cwnd: f32,
    /// H_rtt: its RTT estimate in seconds, zero before the first.
    pub rtt: f32,
    /// H_feedback: change of the window in bytes; the sender writes what it wishes, routers lower it.
    pub feedback: f32,
}

impl Header for XcpHeader {
    const KIND: u8 = 2;
    const WIRE_LEN: u32 = 20;
    #[inline]
    fn emit(&self, out: &mut [u8; CcHeader::ROOM]) {
        wire::put_f32(out, 0, self.cwnd);
        wire::put_f32(out, 4, self.rtt);
        wire::put_f32(out, 8, self.feedback);
    }
    #[inline]
    fn parse(raw: &[u8; CcHeader::ROOM]) -> Self {
        XcpHeader { cwnd: wire::get_f32(raw, 0), rtt: wire::get_f32(raw, 4), feedback: wire::get_f32(raw, 8) }
    }
}

/// The sender of XCP (section 3.2).
struct Sender {
    cwnd: f64,
    rtt: f64,
    segment: f64,
}

impl Sender {
    fn new(cfg: &TcpConfig) -> Sender {
        Sender { cwnd: (cfg.initial_window * cfg.mss) as f64, rtt: 0.0, segment: cfg.mss as f64 }
    }
    #[inline]
    fn hear(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        self.rtt = flow.rtt_smoothed.as_secs();
        let Some(h) = ack.header.get::<XcpHeader>() else { return };
        if h.rtt > 0.0 && h.feedback.is_finite() {
            // Section 3.2, eq. (1): cwnd = max(cwnd + H_feedback, s)
            self.cwnd = (self.cwnd + h.feedback as f64).max(self.segment);
        }
    }
}

impl WindowLaw for Sender {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        self.hear(ack, flow);
    }
    fn on_congestion(&mut self, _: Time, _: &FlowView, event: Congestion) {
        match event {
            Congestion::Loss | Congestion::Ecn => self.cwnd = (self.cwnd / 2.0).max(self.segment),
            Congestion::Timeout { .. } | Congestion::SynLost => self.cwnd = self.segment,
            Congestion::Recovered | Congestion::Idle | Congestion::Spurious => {}
        }
    }
    fn control(&self) -> Control {
        Control { window: Some(Bytes(self.cwnd as u64)), pacing: None, segment: None }
    }
    fn on_send(&mut self, _: Time, _: &FlowView, _: &mut Packet, header: &mut CcHeader) {
        header.set(&XcpHeader { cwnd: self.cwnd as f32, rtt: self.rtt as f32, feedback: f32::INFINITY });
    }
    fn header_len(&self) -> u32 {
        XcpHeader::WIRE_LEN
    }
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    alpha: f64,
    beta: f64,
    shuffle: f64,
    first: Option<Dur>,
}

/// The router of XCP (sections 3.3 to 3.5). Bytes and seconds throughout.
struct Router<A> {
    set: Settings,
    work: A,
    /// Capacity in bytes per second.
    capacity: f64,
    /// Sums over the packets of this interval: bytes, RTT s/cwnd, and RTT^2 s/cwnd.
    bytes: f64,
    sum_share: f64,
    sum_rtt: f64,
    /// Smallest backlog of this interval: the persistent queue.
    smallest_queue: f64,
    /// Average RTT: the control interval.
    mean_rtt: f64,
    /// Arrival rate of the last interval in bytes per second.
    arrival_rate: f64,
    /// xi_p and xi_n of the last interval.
    xi_p: f64,
    xi_n: f64,
    /// What is left to hand out in this interval, in bytes per second: each way.
    left_p: f64,
    left_n: f64,
    began: Time,
    due: Time,
}

impl<A: Arithmetic> Router<A> {
    fn new(set: &Settings, link: &LinkFacts) -> Router<A> {
        let mean_rtt = set.first.unwrap_or(link.base_rtt).as_secs().max(1e-6);
        Router {
            set: *set,
            work: A::default(),
            capacity: link.capacity.as_bytes_per_sec(),
            bytes: 0.0,
            sum_share: 0.0,
            sum_rtt: 0.0,
            smallest_queue: 0.0,
            mean_rtt,
            arrival_rate: 0.0,
            xi_p: 0.0,
            xi_n: 0.0,
            left_p: 0.0,
            left_n: 0.0,
            began: Time::ZERO,
            due: Time::ZERO + Dur::from_secs(mean_rtt),
        }
    }
}

impl<A: Arithmetic> LinkController for Router<A> {
    #[inline]
    fn on_arrival(&mut self, _: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        let w = &mut self.work;
        let len = f64::from(link.len(packet));
        self.bytes = w.add(self.bytes, len);
        if !packet.is_forward() {
            return;
        }
        w.packet();
        let Some(h) = header.get::<XcpHeader>() else { return };
        if h.rtt > 0.0 && h.cwnd > 0.0 {
            // Section 3.4: sum of rtt_i s_i / cwnd_i; the same with rtt_i once more gives the mean RTT over flows
            let product = w.mul(h.rtt as f64, len);
            let share = w.div(product, h.cwnd as f64);
            self.sum_share = w.add(self.sum_share, share);
            let weighted = w.mul(share, h.rtt as f64);
            self.sum_rtt = w.add(self.sum_rtt, weighted);
        }
    }
    #[inline]
    fn on_departure(&mut self, _: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        let w = &mut self.work;
        let queue = super::rcp::waiting(link);
        if w.less(queue, self.smallest_queue) {
            self.smallest_queue = queue;
        }
        if !packet.is_forward() {
            return;
        }
        let Some(mut h) = header.get::<XcpHeader>() else { return };
        if h.rtt <= 0.0 || h.cwnd <= 0.0 {
            return;
        }
        let (rtt, len) = (h.rtt as f64, f64::from(link.len(packet)));
        // Changes of the rate, p_i / rtt_i and n_i / rtt_i, never more than is left in this interval:
        // section 3.4, p_i = xi_p rtt_i^2 s_i / cwnd_i and n_i = xi_n rtt_i s_i
        let product = w.mul(rtt, len);
        let share = w.div(product, h.cwnd as f64);
        let up = w.mul(self.xi_p, share).min(self.left_p);
        let down = w.mul(self.xi_n, len).min(self.left_n);
        // Eq. (2): H_feedback = p_i - n_i
        let change = w.sub(up, down);
        let feedback = w.mul(change, rtt);
        if w.less(feedback, h.feedback as f64) {
            h.feedback = feedback as f32;
            header.set(&h);
            self.left_p = w.sub(self.left_p, up);
        } else {
            // A router upstream allows less: only what this packet really takes is used up.
            self.left_p -= (h.feedback as f64 / rtt + down).clamp(0.0, up);
        }
        self.left_n = w.sub(self.left_n, down);
    }
    fn looks(&self) -> Looks {
        Looks::ALL
    }
    fn deadline(&self) -> Time {
        self.due
    }
    fn on_deadline(&mut self, now: Time, link: &LinkView) {
        let t = now.since(self.began).as_secs();
        let input = self.bytes / t;
        if self.sum_share > 0.0 {
            self.mean_rtt = self.sum_rtt / self.sum_share;
        }
        let d = self.mean_rtt;
        // Eq. (3): phi = alpha d S - beta Q, here as a change of rate over one interval: phi / d
        let phi = self.set.alpha * (self.capacity - input) - self.set.beta * self.smallest_queue / d;
        // Section 3.4, eq. (4): h = max(0, gamma y - |phi|)
        let shuffled = (self.set.shuffle * input - libm::fabs(phi)).max(0.0);
        self.left_p = shuffled + phi.max(0.0);
        self.left_n = shuffled + (-phi).max(0.0);
        // Section 3.4: xi_p = (h + max(phi, 0)) / (d sum rtt s/cwnd), xi_n = (h + max(-phi, 0)) / (d sum s);
        // with h and phi as rates, d cancels
        self.xi_p = if self.sum_share > 0.0 { self.left_p / self.sum_share } else { 0.0 };
        self.xi_n = if self.bytes > 0.0 { self.left_n / self.bytes } else { 0.0 };
        self.arrival_rate = input;
        self.bytes = 0.0;
        self.sum_share = 0.0;
        self.sum_rtt = 0.0;
        self.smallest_queue = super::rcp::waiting(link);
        self.began = now;
        self.due = now + Dur::from_secs(d);
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&ARRIVAL_RATE, self.arrival_rate * 8.0);
        report(&MEAN_RTT, self.mean_rtt);
        self.work.observe(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use penstock_units::Rate;

    const LINK: LinkFacts = LinkFacts {
        port: 0,
        capacity: Rate(100_000_000),
        base_rtt: Dur::millis(100),
        packet: 1000,
        framing: 0,
    };
    const IDLE: LinkView = LinkView::idle(LINK.capacity);
    const INTERVAL: Time = Time(100_000_000_000);

    fn packet(feedback: f32) -> (Packet, CcHeader) {
        let mut header = CcHeader::NONE;
        header.set(&XcpHeader { cwnd: 50_000.0, rtt: 0.1, feedback });
        (Packet { wire_len: 1000, ..Packet::default() }, header)
    }
    fn after<A: Arithmetic>(packets: u32) -> Router<A> {
        let mut r = Router::<A>::new(&Settings { alpha: 0.4, beta: 0.226, shuffle: 0.1, first: None }, &LINK);
        for _ in 0..packets {
            let (mut p, mut h) = packet(f32::INFINITY);
            r.on_arrival(Time::ZERO, &IDLE, &mut p, &mut h);
        }
        r.on_deadline(INTERVAL, &IDLE);
        r
    }
    fn feedback<A: Arithmetic>(r: &mut Router<A>, wish: f32) -> f32 {
        let (mut p, mut h) = packet(wish);
        r.on_departure(INTERVAL, &IDLE, &mut p, &mut h);
        h.get::<XcpHeader>().map_or(0.0, |h| h.feedback)
    }

    #[test]
    fn spare_bandwidth_is_handed_out_in_full() {
        // 500 packets in 0.1 s: y = 5 MB/s of 12.5; phi/d = 0.4 * 7.5 = 3 MB/s; sum rtt s/cwnd = 500 * 0.002 = 1.
        // Each packet: 3e6 * 0.002 = 6 kB/s more, over 0.1 s a window of 600 B more.
        let mut r = after::<Plain>(500);
        assert!((feedback(&mut r, f32::INFINITY) - 600.0).abs() < 1e-3);
        let given: f64 = (1..500).map(|_| feedback(&mut r, f32::INFINITY) as f64 / 0.1).sum::<f64>() + 6000.0;
        assert!((given - 3e6).abs() < 100.0, "{given}");
        // Nothing is left for a packet more than was counted.
        assert!(feedback(&mut r, f32::INFINITY).abs() < 1e-2);
    }

    #[test]
    fn overload_is_taken_back_in_proportion_to_bytes() {
        // 2000 packets: y = 20 MB/s, phi/d = -3 MB/s over 2 MB: 1.5 per byte and second; 1000 B * 0.1 s * 1.5 = 150 B
        let mut r = after::<Plain>(2000);
        assert!((feedback(&mut r, f32::INFINITY) + 150.0).abs() < 1e-3);
    }

    #[test]
    fn shuffling_moves_bandwidth_at_full_use() {
        // y = C: phi = 0, h/d = 0.1 * 12.5 = 1.25 MB/s each way. p: 1.25e6 / 2.5 * 0.002 = 1 kB/s; n: the same for this flow.
        let mut r = after::<Plain>(1250);
        assert!((r.left_p - 1.25e6).abs() < 1.0 && (r.left_n - 1.25e6).abs() < 1.0);
        assert!(feedback(&mut r, f32::INFINITY).abs() < 1e-3);
    }

    #[test]
    fn a_tighter_router_upstream_is_left_alone_and_keeps_its_share_here() {
        let mut r = after::<Plain>(500);
        assert_eq!(feedback(&mut r, 100.0), 100.0);
        // It takes 100 B / 0.1 s of the 3 MB/s, not the 6 kB/s offered.
        assert!((r.left_p - (3e6 - 1000.0)).abs() < 1e-3);
    }

    #[test]
    fn the_first_intervals_last_what_is_asked_until_an_rtt_is_heard() {
        let set = Settings { alpha: 0.4, beta: 0.226, shuffle: 0.1, first: Some(Dur::millis(50)) };
        let mut r = Router::<Plain>::new(&set, &LINK);
        let ms = |n| Time::ZERO + Dur::millis(n);
        assert_eq!(r.deadline(), ms(50));
        r.on_deadline(ms(50), &IDLE);
        assert_eq!(r.deadline(), ms(100), "no RTT was heard");
        let (mut p, mut h) = packet(f32::INFINITY);
        r.on_arrival(ms(60), &IDLE, &mut p, &mut h);
        r.on_deadline(ms(100), &IDLE);
        // 0.1 s, as an f32.
        assert!(r.deadline().since(ms(200)).as_secs() < 1e-8 && r.deadline() >= ms(200));
    }

    #[test]
    fn counted_work_per_packet() {
        let mut r = after::<Counted>(10);
        for _ in 0..10 {
            feedback(&mut r, f32::INFINITY);
        }
        let mut seen = Vec::new();
        r.observe(&mut |what, value| seen.push((what.name, value)));
        // Section III of the PIQI-RCP paper says 6 additions for XCP.
        assert!(seen.contains(&("additions_per_packet", 6.0)), "{seen:?}");
    }
}
