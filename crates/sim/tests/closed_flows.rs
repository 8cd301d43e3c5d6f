//! Nothing is kept of flows that are over.

use penstock_core::packet::Packet;
use penstock_core::params::Params;
use penstock_core::receive::ReceiveController;
use penstock_models::protocols::ictcp;
use penstock_models::registry::{protocol, LinkFacts};
use penstock_units::{Dur, Rate, Time};

const LINK: LinkFacts =
    LinkFacts { capacity: Rate(1_000_000_000), base_rtt: Dur::micros(100), packet: 1500, framing: 38 };
