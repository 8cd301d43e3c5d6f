//! RCCC, the receiver's congestion control of Ultra Ethernet: credits, paced at the rate of the receiver's link, senders in turn.
//!
//! Ultra Ethernet Specification 1.0, section 3.6.14 (not at hand); values as the Consortium's public simulator has them (uet-htsim, commit
//! 40ccb05), by its description: a sender begins with 1.5 pipes that nobody has given, every PULL gives 16,384 bytes, PULLs leave at 99 % of the
//! line rate of what they give, credit pays for headers too, and while nobody wants any they give it unasked, a window
//! ahead. The rest of the transport, and what differs, is in `uec`.

use super::uec::{self, Credit, Nature};
use crate::registry::Protocol;

/// RCCC.
pub const RCCC: Protocol = Protocol {
    name: "rccc",
    text: "Ultra Ethernet, receiver's control (RCCC): credits paced by receivers, trimming, packets sprayed",
    cites: "Ultra Ethernet Specification 1.0, section 3.6.14, by the UEC's public simulator",
    params: uec::PARAMS,
    reports: uec::OF_CREDIT,
    build: |p| uec::build(p, &Nature { credit: Some(Credit::RCCC), ..Nature::default() }),
};
