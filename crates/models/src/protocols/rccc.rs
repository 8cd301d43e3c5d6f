//! RCCC, the receiver's congestion control of Ultra Ethernet: credits, paced at the rate of the receiver's link, senders in turn.
//!
//! Source: Ultra Ethernet Specification 1.0, section 3.6.14 (not at hand). Values are those of the Consortium's public
//! simulator (uet-htsim, commit 40ccb05), by its description. A sender begins with unrequested credit of 1.5
//! bandwidth-delay products. Every PULL gives 16,384 bytes, and PULLs are paced so that their credit is 99 % of the
//! line rate. Credit pays for headers, too. Without requests, receivers give credit up to a window in advance. The rest
//! of the transport, and what differs, is in `uec`.

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
