//! F-RTO (RFC 5682 section 3.1, the variant with selective acknowledgements): whether a retransmission timeout was spurious.

/// What is decided by an ACK after a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Nothing yet, or the conventional recovery goes on.
    Conventional,
    /// Step 2b: send new data and wait for what it tells.
    SendNew,
    /// Step 3b: something sent once has arrived that was out at the timeout: it was spurious.
    Spurious,
}

/// What an ACK after a timeout says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack {
    /// It acknowledges new data.
    pub(super) advances: bool,
    /// All that was out at the timeout.
    pub(super) is_full: bool,
    /// It reports something that was sent once, before the timeout.
    pub(super) original: bool,
    /// It reports something selectively for the first time, or it is a duplicate.
    pub(super) duplicate: bool,
    /// Something new has been sent since the timeout.
    pub(super) new_sent: bool,
    /// There is new data, and the receiver has room for it.
    pub(super) new_data: bool,
}

/// F-RTO's state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frto {
    on: bool,
}

impl Frto {
    /// Step 1: a timeout. `begins`: it is not one within fast recovery (there RFC 5682 section 2.1 step 1 rules it out).
    pub(super) fn start(&mut self, begins: bool) {
        self.on = begins;
    }
    /// Steps 2 and 3.
    pub(super) fn on_ack(&mut self, a: &Ack) -> Verdict {
        if !self.on {
            return Verdict::Conventional;
        }
        if a.original {
            self.on = false;
            return Verdict::Spurious;
        }
        if a.new_sent {
            // Step 3a: a duplicate after new data: the loss was real.
            self.on = !a.duplicate;
        } else if a.advances && !a.is_full {
            // Step 2b; 2a where there is nothing new to send.
            self.on = a.new_data;
            if a.new_data {
                return Verdict::SendNew;
            }
        } else if a.duplicate {
            // Step 2a: a duplicate before anything was acknowledged. (Linux goes on with F-RTO; with RACK-TLP what is SACKed
            // and was sent once has answered the question above.)
            self.on = false;
        }
        Verdict::Conventional
    }
}
