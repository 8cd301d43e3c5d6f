//! The thirteen keys of a scenario.

use super::quantiles::{DelayQuantiles, ServiceTime, TimerDelays};
use penstock_core::{ParamError, Params};

/// The delays of one machine that all hosts share, by the names of their keys; `None` = no delay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostLatency {
    /// Lateness of the network thread after a sleep.
    pub receive_lag: Option<DelayQuantiles>,
    /// Time that it takes to deliver a packet with payload. Nothing else is delivered meanwhile.
    pub data_handover: Option<DelayQuantiles>,
    /// Time that it takes to deliver a packet without payload.
    pub ack_handover: Option<DelayQuantiles>,
    /// Lateness of hosts' timers.
    pub timer_lag: Option<TimerDelays>,
    /// Time that a host takes for a packet with payload.
    pub receiver_turn: Option<ServiceTime>,
    /// Time that a host takes for a packet that it answers with a duplicate ACK; `None` = as for other data.
    pub dupack_turn: Option<ServiceTime>,
    /// Time that a host takes for a packet without payload, such as an ACK.
    pub sender_turn: Option<ServiceTime>,
    /// Time from the first unread byte to the application's read.
    pub application_lag: Option<ServiceTime>,
    /// Time from the first unread byte to the answer that the read releases.
    pub application_turn: Option<ServiceTime>,
    /// Correlation of the normal deviates of `application_lag` and `application_turn`, -1 to 1.
    pub application_correlation: f64,
    /// Lateness of the application thread with a write.
    pub write_lag: Option<DelayQuantiles>,
    /// Time for which a write occupies that thread.
    pub write_time: Option<DelayQuantiles>,
    /// Time from the beginning of a write to the first packet that it releases.
    pub write_turn: Option<DelayQuantiles>,
}

impl HostLatency {
    /// Reads the keys, which have the names of the fields.
    ///
    /// # Errors
    /// The first bad value.
    pub fn parse(p: &Params) -> Result<HostLatency, ParamError> {
        let delay = |key| DelayQuantiles::parse(key, p.text(key));
        let time = |key| ServiceTime::parse(key, p.text(key));
        Ok(HostLatency {
            receive_lag: delay("receive_lag")?,
            data_handover: delay("data_handover")?,
            ack_handover: delay("ack_handover")?,
            timer_lag: TimerDelays::parse("timer_lag", p.text("timer_lag"))?,
            receiver_turn: time("receiver_turn")?,
            dupack_turn: time("dupack_turn")?,
            application_lag: time("application_lag")?,
            application_turn: time("application_turn")?,
            application_correlation: p.float("application_correlation"),
            sender_turn: time("sender_turn")?,
            write_lag: delay("write_lag")?,
            write_time: delay("write_time")?,
            write_turn: delay("write_turn")?,
        })
    }
    /// There is a delay.
    pub fn any(&self) -> bool {
        let silent =
            HostLatency { application_correlation: self.application_correlation, ..Default::default() };
        *self != silent
    }
    /// Applications read late.
    pub fn reads(&self) -> bool {
        self.application_lag.is_some() || self.application_turn.is_some()
    }
    /// Applications write late.
    pub fn writes(&self) -> bool {
        [&self.write_lag, &self.write_time, &self.write_turn].iter().any(|delay| delay.is_some())
    }
}
