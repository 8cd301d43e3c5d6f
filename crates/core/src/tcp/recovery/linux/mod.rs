//! Recovery as in Linux today: RACK-TLP finds losses (RFC 8985), PRR spreads the reduction (RFC 9937), F-RTO and the undo rules take
//! back what was needless (RFC 5682, RFC 4015, RFC 3708). One file each; this one is what connects them. Where it follows Linux
//! and no RFC, that is from memory of `tcp_input.c`, and said at the line.
//!
//! Unlike the recoveries by the RFCs alone, it keeps the scoreboard through a timeout (RFC 8985 section 6.3), so that
//! only lost segments are sent again. It also chooses what is sent whenever a segment is lost or a reduction runs, in
//! fast recovery or not ([`Recovery::steers`]).

mod frto;
mod marks;
mod prr;
mod rack;
mod timers;
mod undo;

use super::probe::Probe;
use super::{Act, Arrival, Choice, Connection, Control, Outcome, Outgoing, Recovery, Since, Timers, Why};
use crate::control::Limit;
use crate::tcp::{Phase, TcpConfig};
use frto::{Frto, Verdict};
use marks::Marks;
use penstock_units::{Dur, Time};
use prr::{Prr, Step};
use rack::Rack;
use undo::Undo;

/// What the timer had been waiting for when it went off last, until it is set anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expired {
    /// The reordering window, or a probe that was not sent because one is out.
    Kept,
    /// A probe, which has left.
    Probed,
}

/// Whose mark "lost" an undo takes back: that of a D-SACK leaves all (tcp_try_undo_dsack).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unmark {
    All,
    Nothing,
}

/// RACK-TLP, PRR, F-RTO and undo.
pub struct Linux {
    rack: Rack,
    prr: Prr,
    frto: Frto,
    undo: Undo,
    probe: Option<Probe>,
    marks: Marks,
    /// The law follows ssthresh (all but those that set their window for recovery themselves, as BBR does).
    reduces: bool,
    /// Bytes delivered when the last ACK had been handled, and by that ACK.
    delivered: u64,
    newly: u64,
    /// The ACK at hand has delivered something that says what is late (rack.advanced).
    advanced: bool,
    /// What the ACK at hand echoes, and whether it reports a duplicate that is no probe's.
    echo: Option<Time>,
    dsack: bool,
    /// The window before the reduction that this ACK may lead to.
    window: u64,
    /// State CWR: a mark is being answered until more than this is acknowledged.
    cwr: Option<u64>,
    /// The latest reduction answers a mark (prior_ssthresh is 0): an undo leaves the window as it is.
    stands: bool,
    /// The first segment is to be sent again, whatever the windows say.
    head_due: bool,
    /// F-RTO wants new data to be sent, and nothing again.
    new_only: bool,
    /// A timer that was not the retransmission timeout's has gone off.
    expired: Option<Expired>,
}

impl Linux {
    /// As `cfg` says: `tail_loss_probe`, `prr`.
    pub fn new(cfg: &TcpConfig) -> Linux {
        Linux {
            rack: Rack::new(),
            prr: Prr::default(),
            frto: Frto::default(),
            undo: Undo::default(),
            probe: cfg.tail_loss_probe.then(Probe::new),
            marks: Marks::default(),
            reduces: cfg.prr,
            delivered: 0,
            newly: 0,
            advanced: false,
            echo: None,
            dsack: false,
            window: 0,
            cwr: None,
            stands: false,
            head_due: false,
            new_only: false,
            expired: None,
        }
    }
    fn pipe(&self, c: &Connection<'_>) -> u64 {
        c.flight().saturating_sub(self.marks.lost.total()) + self.marks.twice()
    }
    /// An ACK that acknowledges something, reports something, or both.
    fn hear(&mut self, c: &Connection<'_>, advances: bool) -> Outcome {
        let Some(log) = c.segments else { return Outcome::NONE };
        let got = log.delivered_now();
        self.newly = log.delivered() - self.delivered;
        self.delivered = log.delivered();
        self.window = c.window;
        self.new_only = false;
        self.marks.acknowledged(c.view.una, c.view.max_sent);
        let is_full = c.is_full_ack();
        self.rack.update(c.now, got);
        self.rack.adapt(c, self.dsack, c.phase != Phase::Open && is_full);
        // tcp_rack_mark_lost: "rack.advanced"
        if c.phase == Phase::FastRecovery && advances && !is_full && self.undo.is_delayed(self.echo) {
            // tcp_try_undo_partial: the oldest segment came late. As long as retransmissions are under way nothing is taken back, taken for lost or sent again.
            self.new_only = self.marks.out() > 0;
        }
        self.advanced = got.newest.1 != 0 && !self.new_only;
        // tcp_fastretrans_alert takes back first and looks for losses then (`on_undone`).
        let needless = match c.phase {
            Phase::FastRecovery => self.needless_recovery(advances),
            Phase::Loss => {
                let original = c.recover.is_some_and(|r| got.lowest_original <= r);
                self.needless_timeout(c, advances, is_full, original).then_some(Unmark::All)
            }
            _ => None,
        };
        if let Some(unmark) = needless {
            let act = self.take_back(unmark);
            return Outcome { act, ..Outcome::NONE };
        }
        let lost = if self.advanced { self.rack.detect(c, &mut self.marks) } else { 0 };
        if self.cwr.is_some_and(|end| c.view.una > end) {
            self.cwr = None;
            self.prr.stop();
        }
        let act = match c.phase {
            Phase::FastRecovery if !is_full => Act::Stay,
            Phase::FastRecovery => {
                self.prr.stop();
                if self.marks.lost.is_empty() {
                    Act::Leave
                } else {
                    Act::Renew
                }
            }
            Phase::Loss if !is_full => Act::Stay,
            Phase::Loss if self.marks.lost.is_empty() => Act::Over,
            // Linux: the state is Open, and what RACK has found meanwhile begins fast recovery.
            _ if self.marks.lost.is_empty() => Act::Stay,
            _ => Act::Enter,
        };
        if self.prr.on && act == Act::Stay {
            self.step(c, advances && lost == 0);
        }
        Outcome { act, lost, ..Outcome::NONE }
    }
    fn step(&mut self, c: &Connection<'_>, safe: bool) {
        let pipe = self.pipe(c);
        self.prr.step(&Step { pipe, delivered: self.newly, safe, segment: u64::from(c.view.segment) });
    }
    /// What an ACK in fast recovery takes back.
    fn needless_recovery(&self, advances: bool) -> Option<Unmark> {
        if self.new_only {
            return None;
        }
        let late = advances && self.undo.is_delayed(self.echo);
        match (late, self.undo.is_reported()) {
            (true, _) => Some(Unmark::All),
            (false, true) => Some(Unmark::Nothing),
            (false, false) => None,
        }
    }
    /// Whether an ACK after a timeout shows that it was spurious.
    fn needless_timeout(
        &mut self,
        c: &Connection<'_>,
        advances: bool,
        is_full: bool,
        original: bool,
    ) -> bool {
        if advances && self.undo.may(self.echo) {
            return true;
        }
        let v = c.view;
        let verdict = self.frto.on_ack(&frto::Ack {
            advances,
            is_full,
            original,
            duplicate: !advances,
            new_sent: c.recover.is_some_and(|r| v.nxt > r),
            new_data: v.nxt < c.seq_end() && v.nxt + u64::from(v.segment) <= v.una + v.rwnd,
        });
        self.new_only |= verdict == Verdict::SendNew;
        verdict == Verdict::Spurious
    }
    /// The reduction was needless.
    fn take_back(&mut self, unmark: Unmark) -> Act {
        self.undo.forget();
        self.prr.stop();
        self.cwr = None;
        if unmark == Unmark::All {
            self.marks.take_back();
        }
        self.rack.reopen();
        self.head_due = false;
        if self.stands {
            Act::Reopen
        } else {
            Act::Undo
        }
    }
    /// A reduction begins that may be undone (tcp_init_undo).
    fn start_undo(&mut self, c: &Connection<'_>, probed: u64) {
        let Some(log) = c.segments else { return };
        let out = self.marks.out();
        let head = log.iter().next().is_some_and(|head| head.retransmitted);
        self.undo.start(c.view.una, out + probed, out > 0 || head);
    }
    /// Bytes of the probe that is out, if it sent old data again.
    fn probed(&self, c: &Connection<'_>) -> u64 {
        let (Some(probe), Some(log)) = (&self.probe, c.segments) else { return 0 };
        let last = log.iter().next_back().filter(|s| probe.is_out(s.end) || probe.is_out(c.seq_end()));
        last.map_or(0, |s| s.end - s.start)
    }
    /// The next piece of what is lost.
    fn next_lost(&self, c: &Connection<'_>) -> Option<Outgoing> {
        // tcp_xmit_retransmit_queue: "if (tp->retrans_out >= tp->lost_out) break"
        if self.marks.lost.total() <= self.marks.twice() {
            return None;
        }
        let (start, end) = self.marks.lost.iter().next()?;
        // FIN rides on the last byte.
        let limit = if end >= c.view.app_end { c.view.max_sent } else { end };
        Some(Outgoing { seq: start, end: c.segment_end(start, limit), why: Why::Lost })
    }
    fn sent_again(&mut self, c: &Connection<'_>, o: &Outgoing) {
        self.marks.sent_again(o.seq, o.end.min(c.view.app_end));
        self.undo.on_sent_again(c.now, o.end.min(c.view.app_end).saturating_sub(o.seq));
    }
}

impl Recovery for Linux {
    fn wants_segments(&self) -> bool {
        true
    }
    fn hears_all(&self) -> bool {
        true
    }
    fn steers(&self) -> bool {
        true
    }
    fn keeps_timer(&self) -> bool {
        true
    }
    fn is_duplicate(&self, new_sack: bool, _: bool) -> bool {
        new_sack
    }
    fn before_ack(&mut self, c: &Connection<'_>, a: &Arrival) -> Act {
        self.echo = a.echo;
        (self.dsack, self.advanced) = (false, false);
        if let Some((start, end)) = a.dsack {
            self.marks.reported_twice(start, end);
            // A duplicate that a probe has made says nothing about order (RFC 8985 section 7.4.2).
            let probed = self.probe.as_ref().is_some_and(|p| p.is_out(end));
            self.dsack = !probed;
            if self.undo.on_dsack(start, end, c.view.una) && c.phase == Phase::Open {
                // RFC 3708 section 3, Linux's tcp_try_undo_dsack: the last of them comes after the recovery.
                return self.take_back(Unmark::Nothing);
            }
        }
        self.probe.as_mut().map_or(Act::Stay, |p| p.before_ack(c, a))
    }
    /// Takes out of `lost` what has been reported.
    fn on_sack(&mut self, c: &Connection<'_>) -> u64 {
        let Some(log) = c.segments else { return 0 };
        let (from, to) = log.delivered_now().sacked;
        if from < to && !self.marks.is_empty() {
            for (start, end) in c.sacked.iter_in(from, to) {
                self.marks.reported(start, end);
            }
        }
        0
    }
    fn on_duplicate(&mut self, c: &Connection<'_>) -> Outcome {
        self.hear(c, false)
    }
    fn on_ack(&mut self, c: &Connection<'_>, _: u64) -> Outcome {
        self.hear(c, true)
    }
    fn on_enter(&mut self, c: &Connection<'_>) {
        let probed = self.probed(c);
        if let Some(probe) = &mut self.probe {
            probe.forget();
        }
        // Within the answer to a mark there is no second reduction.
        if self.cwr.take().is_none() {
            self.stands = false;
            self.start_undo(c, probed);
            if self.reduces {
                self.prr.start(self.window, c.window);
            }
        }
        if self.prr.on {
            self.step(c, false);
        }
    }
    /// tcp_fastretrans_alert goes on to look for losses (tcp_identify_packet_loss) when an undo has opened the connection.
    fn on_undone(&mut self, c: &Connection<'_>) -> Outcome {
        if !self.advanced {
            return Outcome::NONE;
        }
        self.window = c.window;
        self.rack.look_anew(c);
        let lost = self.rack.detect(c, &mut self.marks);
        let act = if self.marks.lost.is_empty() { Act::Stay } else { Act::Enter };
        Outcome { act, lost, ..Outcome::NONE }
    }
    fn on_reduction(&mut self, c: &Connection<'_>) {
        if self.reduces {
            self.cwr = Some(c.view.nxt);
            self.stands = true;
            self.prr.start(self.window, c.window);
            self.undo.forget();
            self.step(c, true);
        }
    }
    fn on_timeout(&mut self, c: &Connection<'_>) -> u64 {
        // tcp_enter_loss: a timeout reduces anew after an ACK that advanced within Loss, not in the answer to a mark.
        let advanced = c.timeouts_in_a_row == 1;
        let in_loss = c.phase == Phase::Loss;
        let reduces = c.phase == Phase::Open && self.cwr.is_none() || in_loss && advanced;
        // RFC 5682 section 2.1 step 1: not within a recovery. When the timer has expired again for the same segment it goes on.
        self.frto.start(c.phase == Phase::Open || in_loss && !advanced);
        self.prr.stop();
        self.cwr = None;
        self.new_only = false;
        let probed = self.probed(c);
        if let Some(probe) = &mut self.probe {
            probe.on_timeout();
        }
        self.expired = None;
        let bytes = self.rack.on_timeout(c, &mut self.marks);
        if reduces {
            self.stands = false;
            self.start_undo(c, probed);
        }
        self.head_due = true;
        bytes
    }
    fn control(&self, c: &Connection<'_>) -> Control {
        let (due, probe_at) =
            self.probe.as_ref().map_or((false, Time::NEVER), |p| (p.is_due(), p.deadline()));
        Control {
            urgent: self.head_due || due,
            deadline: probe_at.min(self.rack.at),
            missing: self.marks.lost.total(),
            twice: self.marks.twice(),
            reducing: self.prr.on,
            chooses: self.prr.on || !self.marks.lost.is_empty() || c.phase == Phase::FastRecovery,
            ..Control::NONE
        }
    }
    fn urgent(&mut self, c: &Connection<'_>) -> Option<Outgoing> {
        if core::mem::take(&mut self.head_due) && c.view.una < c.view.max_sent {
            let head = c.head(Why::Lost);
            self.sent_again(c, &head);
            return Some(head);
        }
        let probe = self.probe.as_mut()?.send(c)?;
        self.expired = Some(Expired::Probed);
        if probe.seq < c.view.max_sent {
            self.marks.probed(probe.seq, probe.end);
            self.undo.on_probe(probe.end - probe.seq);
        }
        Some(probe)
    }
    fn choose(&self, c: &Connection<'_>) -> Choice {
        let v = c.view;
        let pipe = self.pipe(c);
        let lost = if self.new_only { None } else { self.next_lost(c) };
        let room = if self.prr.on {
            self.prr.has_room(pipe)
        } else {
            pipe == 0 || pipe + u64::from(v.segment) <= c.window
        };
        if !room {
            return Choice::Wait(Limit::Window);
        }
        if let Some(o) = lost {
            return Choice::Send(o);
        }
        if !self.prr.on {
            return Choice::Usual;
        }
        if v.nxt >= c.seq_end() {
            return Choice::Wait(Limit::Application);
        }
        let end = c.segment_end(v.nxt, c.seq_end());
        if end.min(v.app_end) > v.una + v.rwnd {
            return Choice::Wait(Limit::Receiver);
        }
        Choice::Send(Outgoing { seq: v.nxt, end, why: Why::Next })
    }
    fn on_sent(&mut self, c: &Connection<'_>, sent: &Outgoing) {
        if self.prr.on {
            self.prr.on_sent(sent.end.min(c.view.app_end).saturating_sub(sent.seq));
        }
        if sent.why == Why::Lost {
            self.sent_again(c, sent);
        }
    }
    #[inline]
    fn rearm(&mut self, c: &Connection<'_>, rto: Dur, since: &Since) -> Timers {
        self.set_timers(c, rto, since)
    }
    fn on_deadline(&mut self, c: &Connection<'_>) -> Outcome {
        self.expired = Some(Expired::Kept);
        if c.now >= self.rack.at {
            // tcp_rack_reo_timeout
            self.window = c.window;
            self.newly = 0;
            let lost = self.rack.detect(c, &mut self.marks);
            (self.rack.at, self.rack.waits_anew) = (Time::NEVER, false);
            let enters = lost > 0 && c.phase == Phase::Open;
            let act = if enters { Act::Enter } else { Act::Stay };
            return Outcome { act, lost, ..Outcome::NONE };
        }
        let due = self.probe.as_mut().is_some_and(|probe| probe.expire(c.now));
        Outcome { probe: due, ..Outcome::NONE }
    }
}
