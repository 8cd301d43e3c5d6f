//! What a simulation runs on: a network by name, or one built by hand.

use penstock_core::{Kind, ParamError, ParamSpec, Params};
use penstock_models::{QueueSpec, Registry};
use penstock_sim::topology::{drop_tail, LinkSpec, NodeKind, Topology};
use penstock_units::Dur;
use std::collections::VecDeque;

/// A network: `"fat-tree:4"`, `"leaf-spine:4x2x8"`, `"rail:..."`, `"dragonfly:..."` and `"star:8"` by name (`penstock describe` lists
/// them; hosts are `h0`, `h1`, ...), or a [`Topology`] built by hand from nodes and [`Link`]s.
#[derive(Clone, Debug)]
pub enum Network {
    /// By name; its links are what [`Simulation::link`](crate::Simulation::link) and the keys `buffer` and `queue` say.
    Named(String),
    /// By hand; its links are as they were connected.
    Built(Box<Topology>),
}

impl From<&str> for Network {
    fn from(name: &str) -> Network {
        Network::Named(name.to_owned())
    }
}
impl From<String> for Network {
    fn from(name: String) -> Network {
        Network::Named(name)
    }
}
impl From<Topology> for Network {
    fn from(topology: Topology) -> Network {
        Network::Built(Box::new(topology))
    }
}

const SPECS: &[ParamSpec] = &[
    ParamSpec::new("rate", Kind::Rate, "", "rate", "").range(1e3, 1e13),
    ParamSpec::new("delay", Kind::Duration, "", "propagation delay", "").range(0.0, 1.0),
    ParamSpec::new("buffer", Kind::Amount, "", "limit of a switch's port", "").range(1.0, 1e12),
];

/// A kind of link, for networks built by hand: full duplex, with the output ports at both its ends. Ports of switches have buffer and
/// queue, those of hosts neither.
///
/// ```
/// use penstock::{Link, Topology};
///
/// let access = Link::new("10Gbps", "1us")?;
/// let trunk = Link::new("40Gbps", "5us")?.buffer("250KB")?.queue("threshold:k=65pkt")?;
/// let mut network = Topology::default();
/// let (left, right) = (network.switch("left"), network.switch("right"));
/// network.connect(left, right, &trunk);
/// for (host, switch) in [("a", left), ("b", right)] {
///     let host = network.host(host);
///     network.connect(host, switch, &access);
/// }
/// assert_eq!(network.links.len(), 6, "a link has two directions");
/// # Ok::<(), penstock::ParamError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Link {
    spec: LinkSpec,
}

impl core::ops::Deref for Link {
    type Target = LinkSpec;
    fn deref(&self) -> &LinkSpec {
        &self.spec
    }
}

fn one(key: &str, text: &str) -> Result<Params, ParamError> {
    Params::parse("link", SPECS, &[(key.to_owned(), text.to_owned())])
        .map_err(|e| ParamError::new(format!("link.{}", e.key), e.value, e.rule))
}

impl Link {
    /// A link of this rate (bit/s, `"10Gbps"` or a [`Rate`](crate::Rate)) and one-way propagation delay (`"1us"` or a
    /// [`Dur`]); switches' ports are drop-tail without limit.
    ///
    /// # Errors
    /// A value that is no rate or delay, under `link.rate` or `link.delay`: 1 kb/s to 10 Tb/s, 0 to 1 s.
    pub fn new(rate: impl ToString, delay: impl ToString) -> Result<Link, ParamError> {
        let rate = one("rate", &rate.to_string())?.rate("rate");
        let delay = one("delay", &delay.to_string())?.dur("delay");
        Ok(Link { spec: LinkSpec { rate, delay, buffer: None, queue: drop_tail() } })
    }
    /// This link with switch ports that hold at most `most`: bytes (`"250KB"`) or packets (`"100pkt"`).
    ///
    /// # Errors
    /// A value that is neither, under `link.buffer`.
    pub fn buffer(mut self, most: impl ToString) -> Result<Link, ParamError> {
        self.spec.buffer = Some(one("buffer", &most.to_string())?.amount("buffer"));
        Ok(self)
    }
    /// This link with a standard queue discipline at switch ports (`"threshold:k=65pkt"`).
    ///
    /// # Errors
    /// An unknown discipline or a bad parameter, under `link.queue`.
    pub fn queue(self, text: &str) -> Result<Link, ParamError> {
        self.queue_of(&Registry::standard(), text)
    }
    /// This link with a discipline of `registry`, which may be the caller's own.
    ///
    /// # Errors
    /// As [`Self::queue`].
    pub fn queue_of(mut self, registry: &Registry, text: &str) -> Result<Link, ParamError> {
        let queue: QueueSpec = registry.queue("link.queue", text)?;
        self.spec.queue = queue;
        Ok(self)
    }
}

/// Delay of the shortest paths (by number of links, as packets are routed; the smallest of them) from `src` to every node; `None`
/// where no path leads. Hosts do not forward.
pub(crate) fn delays(t: &Topology, src: u32) -> Vec<Option<Dur>> {
    let mut found: Vec<Option<(u32, Dur)>> = vec![None; t.nodes.len()];
    found[src as usize] = Some((0, Dur::ZERO));
    let mut queue = VecDeque::from([src]);
    while let Some(node) = queue.pop_front() {
        let Some((links, delay)) = found[node as usize] else { continue };
        if node != src && t.nodes[node as usize].kind == NodeKind::Host {
            continue;
        }
        for port in t.ports_of(node) {
            let link = &t.links[port as usize];
            let there = (links + 1, delay + link.delay);
            let known = &mut found[link.to as usize];
            match known {
                None => {
                    *known = Some(there);
                    queue.push_back(link.to);
                }
                // Nodes leave the queue in order of distance, so `links` is not below what is known.
                Some(best) if there < *best => *best = there,
                Some(_) => {}
            }
        }
    }
    found.into_iter().map(|f| f.map(|(_, delay)| delay)).collect()
}
