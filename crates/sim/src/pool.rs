//! A buffer shared by all ports of a router.

use crate::port::{Arena, Port};
use penstock_core::{Stream, Verdict};
use penstock_models::queues::shared_buffer::SharedBuffer;
use penstock_units::Time;

/// A shared buffer and the ports that draw on it.
///
/// What it holds is summed over its ports at every arrival, after their departures up to that moment have been
/// replayed. There is no second count that could drift from the queues.
#[derive(Clone, Debug)]
pub struct Pool {
    rule: SharedBuffer,
    ports: Vec<u32>,
}

impl Pool {
    /// `ports` share a buffer governed by `rule`.
    pub fn new(rule: SharedBuffer, ports: Vec<u32>) -> Pool {
        Pool { rule, ports }
    }
    /// Its ports.
    pub fn ports(&self) -> &[u32] {
        &self.ports
    }
    /// Packets of `class` and of all classes held at `now`.
    pub fn held(&self, now: Time, class: u8, ports: &mut [Port], arena: &mut Arena) -> (u32, u32) {
        let (mut of_class, mut all) = (0, 0);
        for p in &self.ports {
            let port = &mut ports[*p as usize];
            port.advance(now, arena);
            of_class += port.held(class);
            all += port.queue_packets();
        }
        (of_class, all)
    }
    /// What becomes of a packet of `class` that arrives at one of its ports.
    pub fn admit(
        &self,
        now: Time,
        class: u8,
        ports: &mut [Port],
        arena: &mut Arena,
        rng: &mut Stream,
    ) -> Verdict {
        let (of_class, all) = self.held(now, class, ports, arena);
        self.rule.admit(class, of_class, all, rng)
    }
}
