//! What a lab is made of.

use super::{Network, Spread};
use crate::stack::Order;
use alloc::boxed::Box;
use penstock_fabric::{BufferConfig, PortConfig};
use penstock_units::{Bytes, Dur, Rate};

/// Changes the configuration of port `number` of a lab; the flag tells whether it is a host's.
pub type SetPort = Box<dyn Fn(u32, bool, &mut PortConfig)>;

/// What a lab is made of.
pub struct LabConfig {
    /// Hosts and switches.
    pub network: Network,
    /// Rate of the links at hosts.
    pub rate: Rate,
    /// Rate of the links between switches.
    pub core_rate: Rate,
    /// Propagation delay of every link.
    pub delay: Dur,
    /// Bytes of framing per packet.
    pub framing: u32,
    /// Largest payload of a packet.
    pub mss: u32,
    /// Bytes of headers that a full packet has beside it, for the base round-trip time.
    pub header: u32,
    /// Which connection of a host is asked first.
    pub order: Order,
    /// How a leaf chooses a spine.
    pub spread: Spread,
    /// What ports are otherwise: limits, marking, trimming, loss, reordering, telemetry. Made plain and without limit first.
    pub port: SetPort,
    /// The shared buffer of every switch, for so many ports and links into it; `None` = ports on their own.
    pub buffer: Option<Box<dyn Fn(u16, u16) -> BufferConfig>>,
    /// The queue below the transport is endless.
    pub endless: bool,
    /// See [`crate::NicConfig::receive_delay`].
    pub receive_delay: Dur,
    /// See [`crate::NicConfig::processing`].
    pub processing: Dur,
    /// Congestion headers are kept per packet.
    pub headers: bool,
    /// Telemetry is kept per packet; [`Self::port`] says which ports write it.
    pub telemetry: bool,
    /// Bytes are delivered in order: no more than what has arrived without a gap.
    pub in_order: bool,
    /// Seed of all random streams.
    pub seed: u64,
}

impl LabConfig {
    /// 10 Gb/s at hosts, 40 Gb/s between switches, 1 us per link, packets of 1,500 bytes, ports without limit, no framing.
    pub fn new(network: Network) -> LabConfig {
        LabConfig {
            network,
            rate: Rate(10_000_000_000),
            core_rate: Rate(40_000_000_000),
            delay: Dur::micros(1),
            framing: 0,
            mss: 1460,
            header: 40,
            order: Order::RoundRobin,
            spread: Spread::PerFlow,
            port: Box::new(|_, _, _| {}),
            buffer: None,
            endless: false,
            receive_delay: Dur::ZERO,
            processing: Dur::ZERO,
            headers: false,
            telemetry: false,
            in_order: true,
            seed: 1,
        }
    }
    /// Smallest round-trip time between the hosts that are farthest apart: a full packet and its answer, both stored and forwarded.
    pub fn base_rtt(&self) -> Dur {
        let (edge, core) = self.network.longest_path();
        let packet = |bytes: u32| {
            let bytes = Bytes(u64::from(bytes + self.framing));
            bytes / self.rate * edge + bytes / self.core_rate * core
        };
        packet(self.mss + self.header) + packet(self.header) + self.delay * (2 * (edge + core))
    }
}
