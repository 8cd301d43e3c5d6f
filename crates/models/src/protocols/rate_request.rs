//! The sender's half of a protocol that asks the routers for a rate once per round: RACS and D3.
//!
//! A request rides on a data packet when one leaves in time, and otherwise travels alone in a packet without
//! payload. Between requests the sender is paced at the rate it was granted. When the last byte has been sent
//! the request says goodbye; if something has to be sent again after that, the flow opens anew.

use penstock_core::{packet::flag, Control, FlowView, Packet};
use penstock_units::{Bytes, Dur, Rate, Time};

/// What a request asks of the routers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// Take the flow in.
    Open,
    /// The flow goes on.
    Renew,
    /// The flow has sent everything.
    Release,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The routers do not know the flow, or it has said goodbye.
    Out,
    /// Known to the routers, no rate granted yet.
    Admitted,
    /// Sending at a granted rate.
    Granted,
}

/// A grant is used for this many rounds at most when no newer one arrives; the losses of a burst take that many
/// requests in a row. After that only requests are sent.
const STALE_ROUNDS: u64 = 4;

/// When to ask, what to ask, and how fast to send.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    state: State,
    rate: Option<Rate>,
    round: Dur,
    /// The answer to an opening request is only an admission, the first rate comes a round later.
    admission_round: bool,
    /// From when on the next data packet carries a request.
    due: Time,
    /// When a request leaves alone if no data packet has carried it.
    alone: Time,
    /// That time has come.
    asking: bool,
    granted_at: Time,
    /// Wire length of a full data packet, as last sent.
    packet: u32,
}

impl Requester {
    /// With a first guess of the round, used until the routers name theirs.
    pub(super) fn new(round: Dur, admission_round: bool) -> Requester {
        Requester {
            state: State::Out,
            rate: None,
            round,
            admission_round,
            due: Time::NEVER,
            alone: Time::NEVER,
            asking: false,
            granted_at: Time::ZERO,
            packet: 1500,
        }
    }

    /// The length of a round now.
    pub(super) fn round(&self) -> Dur {
        self.round
    }
    /// The granted rate, zero without a grant.
    pub(super) fn rate(&self) -> Rate {
        self.rate.unwrap_or(Rate(0))
    }

    /// The request `packet` has to carry, if any; called for every packet as it leaves.
    pub(super) fn on_send(&mut self, now: Time, flow: &FlowView, packet: &Packet) -> Option<Request> {
        if packet.has(flag::SYN) {
            return Some(self.ask(now, Request::Open));
        }
        let alone = packet.seq_len() == 0;
        if !alone {
            self.packet = packet.wire_len;
        }
        if packet.has(flag::FIN) || !alone && packet.seq + packet.seq_len() >= flow.app_end {
            return Some(self.ask(now, Request::Release));
        }
        if alone && flow.una >= flow.app_end {
            return Some(self.ask(now, Request::Release));
        }
        if self.state == State::Out {
            // What is sent again after the goodbye is little, and says nothing: a flow that opened anew for it
            // would be done, and gone, before it could say goodbye again.
            let again = !alone && packet.seq < flow.max_sent && flow.nxt >= flow.app_end;
            return (!again).then(|| self.ask(now, Request::Open));
        }
        (now >= self.due).then(|| self.ask(now, Request::Renew))
    }

    fn ask(&mut self, now: Time, request: Request) -> Request {
        match request {
            Request::Open => {
                self.state = State::Admitted;
                self.rate = None;
            }
            Request::Release => self.state = State::Out,
            Request::Renew => {}
        }
        // Keep to the grid of rounds unless a round or more was missed.
        let next = self.due + self.round;
        self.due = if self.due != Time::NEVER && next > now { next } else { now + self.round };
        // A data packet may carry the next request while the rate gives at least one per round.
        let patience = if self.rate.is_some_and(|r| (r * self.round).0 >= u64::from(self.packet)) {
            self.round
        } else {
            Dur::ZERO
        };
        self.alone = self.due + patience;
        self.asking = false;
        request
    }

    /// The answer to an [`Request::Open`] or [`Request::Renew`] has come back.
    pub(super) fn on_answer(&mut self, now: Time, opening: bool, rate: Option<Rate>, round: Option<Dur>) {
        if let Some(round) = round {
            self.round = round;
        }
        if self.state == State::Out {
            return; // Said goodbye meanwhile.
        }
        self.granted_at = now;
        if opening && self.admission_round {
            // Admitted; the first rate is asked for at once, and alone.
            if self.state == State::Admitted {
                self.due = now;
                self.asking = true;
            }
            return;
        }
        self.state = State::Granted;
        self.rate = rate.or(Some(Rate(u64::MAX / 2)));
    }

    /// A request should leave alone, now.
    pub(super) fn wants_request(&self, now: Time, flow: &FlowView) -> bool {
        match self.state {
            // New data on an old connection, or everything again after a timeout.
            State::Out => now >= self.due && flow.una < flow.app_end && flow.nxt < flow.app_end,
            State::Admitted | State::Granted => self.asking,
        }
    }

    /// When [`Self::wants_request`] may become true by the passing of time.
    pub(super) fn deadline(&self) -> Time {
        match self.state {
            State::Out => Time::NEVER,
            _ => self.alone,
        }
    }

    /// The deadline has come: a grant that was not renewed ends.
    pub(super) fn on_deadline(&mut self, now: Time) {
        self.asking = true;
        self.alone = now + self.round;
        if self.state == State::Granted && now.since(self.granted_at) > self.round * STALE_ROUNDS {
            self.state = State::Admitted;
            self.rate = None;
        }
    }

    /// Paced at the granted rate. Without one nothing but requests may leave. After the goodbye the last rate serves
    /// what has to be sent again, and a bare FIN.
    pub(super) fn control(&self) -> Control {
        let base = Bytes(u64::from(penstock_core::tcp::IP_TCP_HEADER)) / self.round;
        let pacing = match self.state {
            State::Admitted => Rate(0),
            State::Out | State::Granted => self.rate().max(base),
        };
        Control { window: None, pacing: Some(pacing), segment: None }
    }
}
