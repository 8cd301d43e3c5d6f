//! EQDS: hosts pace everything by credits; queues in the network are short and trim (Olteanu et al., NSDI 2022, from
//! memory). Values are those of the public simulator csg-htsim, commit 841d9e7, by its description.
//!
//! A port holds eight packets. A sender begins with 50 unrequested packets, or the bandwidth-delay product if that is
//! more. Every PULL gives credit for one payload of 4,096 bytes. PULLs are spaced by a packet and 38 bytes of framing,
//! times 0.99, as in the simulator (its comment says slower than the line, the factor makes them faster). Credit pays
//! for headers, too, so that packets arrive at 98.5 % of the line rate; the description lacks this rule, the last
//! completions of incasts show it (docs/validation/htsim.md). Senders of trimmed packets get credit first. Paths with
//! marks or trims are skipped once. Only the message transport is modelled, not the tunnels for other transports that
//! the paper is about. The rest is in `uec`.

use super::uec::{self, Credit, Nature};
use crate::paths::PathRule;
use crate::registry::Protocol;
use penstock_units::Dur;

/// EQDS.
pub const EQDS: Protocol = Protocol {
    name: "eqds",
    text: "EQDS: credits paced by receivers, short queues that trim, packets sprayed",
    cites: "Olteanu et al., NSDI 2022 (from memory)",
    params: uec::PARAMS,
    reports: uec::OF_CREDIT,
    build: |p| uec::build(p, &NATURE),
};

const NATURE: Nature = Nature {
    window: false,
    credit: Some(Credit { grant: 4096, spacing: Some(4160 + 38), stretch: 0.99, trimmed_first: true }),
    marks: false,
    queue: 8,
    first: 50,
    rto: Dur::micros(150),
    paths: Some(PathRule::bitmap_of_one),
};
