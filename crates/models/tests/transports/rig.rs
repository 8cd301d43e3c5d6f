//! A lab whose switches are what the protocol's suite asks for.
#![allow(dead_code)]

use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_fabric::{BufferConfig, Cable, Reordering, Trim};
use penstock_host::lab::Spread;
use penstock_host::{Lab, LabConfig, Network};
use penstock_models::registry::{protocol, LinkFacts, Paths};
use penstock_units::{Dur, Rate};

pub const MSS: u32 = 1460;
/// Ethernet: preamble, header, FCS, gap.
pub const FRAMING: u32 = 38;

/// What a lab is made of.
pub struct Rig {
    pub network: Network,
    pub protocol: String,
    pub rate: Rate,
    pub mss: u32,
    pub framing: u32,
    /// Bytes of a switch's buffer where the protocol wants it shared, and whether it pauses.
    pub buffer: u64,
    pub pause: bool,
    /// At every port of a switch.
    pub loss: f64,
    pub reorder: Option<Reordering>,
    /// Every port of a switch trims data beyond so many packets, whatever the protocol.
    pub trim_at: Option<u32>,
    pub seed: u64,
}

impl Rig {
    pub fn new(network: Network, protocol: &str) -> Rig {
        Rig {
            network,
            protocol: protocol.to_string(),
            rate: Rate(10_000_000_000),
            mss: MSS,
            framing: FRAMING,
            buffer: 4_000_000,
            pause: true,
            loss: 0.0,
            reorder: None,
            trim_at: None,
            seed: 1,
        }
    }
    pub fn build(self) -> Lab {
        let (_, suite) = protocol("protocol", &self.protocol).unwrap_or_else(|e| panic!("{e}"));
        let (stack, link) =
            (suite.stack.expect("a stack of its own"), suite.link.expect("needs of switches"));
        let mut c = LabConfig::new(self.network);
        (c.rate, c.core_rate, c.mss, c.framing, c.seed) =
            (self.rate, self.rate, self.mss, self.framing, self.seed);
        let packet = self.mss + 64;
        c.header = 64;
        let facts =
            LinkFacts { port: 0, capacity: self.rate, base_rtt: c.base_rtt(), packet, framing: self.framing };
        let needs = link(&facts);
        c.telemetry = needs.telemetry;
        if needs.paths == Paths::BySender {
            c.spread = Spread::PerFlow;
        }
        if let Some(lossless) = needs.lossless {
            let (needs, pause, bytes) = (needs.clone(), self.pause, self.buffer);
            let cable = Cable {
                rate: self.rate,
                delay: c.delay,
                mtu: packet + self.framing,
                framing: self.framing,
                response: Dur::ZERO,
            };
            c.buffer = Some(Box::new(move |ports, ingresses| {
                let cables = vec![cable; usize::from(ingresses)];
                let lossless = needs.buffer(bytes, ports, &cables).expect("something is lossless");
                if pause {
                    lossless
                } else {
                    BufferConfig::pool(bytes, ports, ingresses)
                }
            }));
            assert!(lossless.priorities != 0);
        }
        let (loss, reorder, trim_at, seed) = (self.loss, self.reorder, self.trim_at, self.seed);
        c.port = Box::new(move |number, of_host, port| {
            if of_host {
                return;
            }
            needs.apply(&facts, port).unwrap_or_else(|e| panic!("{e}"));
            let stream = |kind| Stream::new(seed, 7, kind, u64::from(number));
            if loss > 0.0 {
                port.loss = Some((loss, stream(Entity::Loss)));
            }
            port.reorder = reorder.map(|r| (r, stream(Entity::Jitter)));
            if let (Some(at), Some(service)) = (trim_at, &mut port.service) {
                let data = needs.lossless.map_or(0, |l| l.priorities.trailing_zeros() as usize);
                service.classes[data].limit_packets = at;
                // Where a buffer is shared, only what arrives is cut.
                let tail = if needs.lossless.is_some() { 0.0 } else { 0.5 };
                service.trim = Some(Trim { bytes: 64, priority: 7, tail });
            }
        });
        Lab::new(c, move |facts| stack(facts))
    }
}
