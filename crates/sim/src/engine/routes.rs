//! The paths of connections that open, and their idle round-trip times. Where two hosts have one path only, most connections have one that was
//! found for an earlier one.

use super::SetupRest;
use crate::ideal::{self, Idle, Layer, Lengths};
use crate::network::Network;
use crate::topology::{route_stream, Topology};
use penstock_core::ParamError;

/// Both ways of a connection.
#[derive(Default)]
pub(super) struct FlowRoutes {
    /// Source, destination and protocol, where there are no others between these hosts.
    only: Option<(u32, u32, u16)>,
    /// Ports, in order.
    pub forward: Vec<u32>,
    pub back: Vec<u32>,
    /// Seconds of the round trip in the idle network.
    pub idle_rtt: f64,
    /// What a transfer takes there.
    idle: Idle,
    /// The links of all paths there and back, where packets may take several or a link may fail.
    layers: Option<(Vec<Layer>, Vec<Layer>)>,
}

impl FlowRoutes {
    /// Seconds that a transfer of so many bytes takes in the idle network without failures, once the connection is open.
    pub fn transfer(&self, t: &Topology, lengths: &Lengths, bytes: u64) -> f64 {
        match &self.layers {
            Some((forward, back)) => ideal::transfer_through(forward, back, lengths, bytes),
            None => self.idle.transfer(t, &self.forward, lengths, bytes),
        }
    }
}

/// So many of them are kept, by their ends.
const KEPT: usize = 1024;

/// Those found last.
#[derive(Default)]
pub(super) struct Known {
    routes: Vec<FlowRoutes>,
}

impl Known {
    /// Draws the ways of the connection with this key, (from, to, by protocol): with what its cells carry as entropy in either direction.
    ///
    /// # Errors
    /// No path.
    pub fn draw(
        &mut self,
        (src, dst, protocol): (u32, u32, u16),
        net: &mut Network,
        setup: &SetupRest,
        key: u64,
    ) -> Result<(&FlowRoutes, u32, u32), ParamError> {
        if self.routes.is_empty() {
            self.routes.resize_with(KEPT, FlowRoutes::default);
        }
        let rng = || route_stream(setup.seed, setup.run, key);
        let routes = &mut self.routes[place(src, dst)];
        if routes.only == Some((src, dst, protocol)) {
            let mut drawn = None;
            let (forth, back) = net.draw_only(|| drawn.get_or_insert_with(rng).next_u64());
            return Ok((routes, forth, back));
        }
        routes.only = None;
        let (t, mut rng) = (&setup.topology, rng());
        let forth = net.draw_path(t, (src, dst), &mut rng, &mut routes.forward)?.entropy;
        let back = net.draw_path(t, (dst, src), &mut rng, &mut routes.back)?.entropy;
        let lengths = &setup.lengths[usize::from(protocol)];
        routes.idle_rtt = ideal::handshake(t, &routes.forward, &routes.back, lengths);
        routes.idle = Idle::new(t, &routes.forward, &routes.back, lengths);
        let only = net.is_only_path(dst, &routes.forward) && net.is_only_path(src, &routes.back);
        routes.only = only.then_some((src, dst, protocol));
        routes.layers = if only { None } else { net.layers(t, src, dst).zip(net.layers(t, dst, src)) };
        if let Some((forward, back)) = &routes.layers {
            routes.idle_rtt = ideal::handshake_through(forward, back, lengths);
        }
        Ok((routes, forth, back))
    }
    /// The ways that were drawn last, when they are those of a connection between these hosts.
    pub fn last(&self, src: u32, dst: u32) -> &FlowRoutes {
        &self.routes[place(src, dst)]
    }
}

fn place(src: u32, dst: u32) -> usize {
    src.wrapping_mul(31).wrapping_add(dst) as usize % KEPT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::scenario::Resolved;

    /// What is kept is what would be drawn: with one path and with several, where switches take digits and where they hash.
    #[test]
    fn ways_that_are_known_are_those_that_are_drawn() {
        for (topology, spread, only) in [
            ("leaf-spine:2x1x3", "drawn", true),
            ("leaf-spine:2x2x3", "drawn", false),
            ("leaf-spine:2x2x3", "flow", false),
        ] {
            let given = [("topology", topology), ("spread", spread)];
            let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let scenario = Resolved::new("permutation", &given, 1, serde_json::Value::Null).unwrap();
            let mut engine = Engine::new(scenario.setup(0).unwrap()).unwrap();
            let hosts = engine.setup.topology.hosts();
            let (mut flow, mut kept) = (0, 0);
            let Engine { routes, wire, setup, .. } = &mut engine;
            for (src, dst) in [(0, 3), (0, 3), (5, 1), (3, 0), (0, 1), (0, 3), (0, 1)] {
                let of_both = (hosts[src], hosts[dst], 0);
                let mut fresh = Known::default();
                let (drawn, ..) = fresh.draw(of_both, &mut wire.net, setup, flow).unwrap();
                let expected = (drawn.forward.clone(), drawn.back.clone(), drawn.idle_rtt);
                let (_, forth, back) = fresh.draw(of_both, &mut wire.net, setup, flow).unwrap();
                let (found, a, b) = routes.draw(of_both, &mut wire.net, setup, flow).unwrap();
                assert_eq!((found.forward.clone(), found.back.clone(), found.idle_rtt), expected);
                assert_eq!((a, b), (forth, back), "{topology}, {spread}");
                (flow, kept) = (flow + 1, kept + u32::from(found.only.is_some()));
            }
            // Two hosts at one switch have no other path either.
            assert_eq!(kept, if only { 7 } else { 2 }, "{topology}, {spread}");
        }
    }
}
