//! EQDS: the edge of the network paces everything by credits; queues in the network are short and trim (Olteanu et al., NSDI 2022, from
//! memory; values as the public simulator csg-htsim, commit 841d9e7, has them, by its description).
//!
//! Eight packets per port; a sender begins with 50 packets that nobody has asked for (a pipe where that is more); every PULL gives one payload
//! of 4,096 bytes and leaves a packet and 38 bytes of framing after the one before, times 0.99 (the simulator's, faster than the line by a
//! hundredth, where its comment says slower); credit pays for headers too, so that packets arrive at 98.5 % of the line rate (not in the
//! description: found by the last completions of incasts, docs/validation/htsim.md); senders of trimmed packets get theirs first; paths that were
//! marked or trimmed on are passed over once. Tunnels for other transports, which the paper is about, are not here: only its own message
//! transport. The rest is in `uec`.

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
