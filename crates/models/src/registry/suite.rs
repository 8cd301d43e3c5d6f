//! What a protocol, a receiver-side control and a host controller declare of themselves, and what they build.

use super::link::{BuildLink, LinkFacts};
use crate::queues::Discipline;
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::receive::ReceiveController;
use penstock_core::tcp::{Roles, TcpConfig};
use penstock_core::{
    HostController, LinkController, ParamError, ParamSpec, Params, Quantity, Stream, WindowLaw,
};
use penstock_host::{HostFacts, Stack};

/// Builds the window law of one sender, with a random stream of its own for one that asks for it: most do not.
pub type BuildEndpoint = Arc<dyn Fn(&TcpConfig, &dyn Fn() -> Stream) -> Box<dyn WindowLaw> + Send + Sync>;
/// Builds the controller of one output link of a switch.
pub type BuildRouter = Arc<dyn Fn(&LinkFacts) -> Box<dyn LinkController> + Send + Sync>;
/// Builds the receiver-side controller of one host; the facts are those of the link into it, `packet` its MSS.
pub type BuildReceive = Arc<dyn Fn(&LinkFacts) -> Box<dyn ReceiveController> + Send + Sync>;
/// Builds a protocol from its parameters, for one that was made at run time: a builder with state of its own.
pub type BuildSuite = Arc<dyn Fn(&Params) -> Result<Suite, ParamError> + Send + Sync>;
/// Builds the stack of one host.
pub type BuildStack = Arc<dyn Fn(&HostFacts) -> Box<dyn Stack> + Send + Sync>;

/// What the packets of a stack of its own have on the wire, in bytes without framing: what a transfer takes at least follows from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wire {
    /// A data packet beside its payload.
    pub header: u32,
    /// An acknowledgement.
    pub ack: u32,
}

/// A protocol with its parameters set: how to build each of its roles.
#[derive(Clone)]
pub struct Suite {
    /// Sets what the protocol fixes in the connection (loss recovery, ECN mode).
    pub configure: fn(&mut TcpConfig),
    /// The sender's window law.
    pub endpoint: BuildEndpoint,
    /// Recovery and echo of the protocol's own; by default the standard ones that `configure` chooses.
    pub roles: Roles,
    /// The router's controller, for protocols that have one.
    pub router: Option<BuildRouter>,
    /// The stack, for transports that are no TCP: then `configure` and `endpoint` mean nothing.
    pub stack: Option<BuildStack>,
    /// Its packets; a transport with a stack of its own sends data at once, without a handshake.
    pub wire: Option<Wire>,
    /// The stack chooses among its connections by a rule of its own, whatever the order of the network card.
    pub own_order: bool,
    /// Its connections are set up once and used for many messages, as queue pairs of RDMA are.
    pub lasts: bool,
    /// Its packets may deliver more bytes than they have on the wire, as a rule of a reference that is followed.
    pub bare: bool,
    /// What the protocol needs of the switches' ports; a scenario's own keys go before it.
    pub link: Option<BuildLink>,
    /// Objects built for different connections or links share nothing, neither through a lock nor through a static.
    /// Otherwise a run could not be partitioned over threads, each of which builds its own. The registry says it for
    /// penstock's own.
    pub independent: bool,
}

impl Suite {
    /// TCP with nothing special but the law, which has to be given: `Suite { configure, endpoint, ..Suite::tcp() }`.
    pub fn tcp() -> Suite {
        Suite {
            configure: |_| {},
            endpoint: Arc::new(|_, _| panic!("a transport with a stack of its own has no law for TCP")),
            roles: Roles::default(),
            router: None,
            stack: None,
            wire: None,
            own_order: false,
            lasts: false,
            bare: false,
            link: None,
            independent: false,
        }
    }
    /// Sets in the options of a connection what the protocol fixes.
    pub fn set_up(&self, cfg: &mut TcpConfig) {
        (self.configure)(cfg);
        cfg.roles = self.roles.clone();
    }
    /// A transport with a stack of its own, its packets, and what it needs of switches.
    pub fn own(stack: BuildStack, wire: Wire, link: Option<BuildLink>) -> Suite {
        Suite { stack: Some(stack), wire: Some(wire), link, ..Suite::tcp() }
    }
}

/// A registered protocol.
pub struct Protocol {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub text: &'static str,
    /// Source: RFC or paper.
    pub cites: &'static str,
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// What it reports to be sampled, beside what the stack does.
    pub reports: &'static [&'static Quantity],
    /// Builds it.
    pub build: fn(&Params) -> Result<Suite, ParamError>,
}

/// A registered host controller.
pub struct HostProtocol {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub text: &'static str,
    /// Source: RFC or paper.
    pub cites: &'static str,
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// What it reports to be sampled.
    pub reports: &'static [&'static Quantity],
    /// Builds the controller of one host, or of one set of applications on it.
    pub build: fn(&Params) -> Result<Box<dyn HostController>, ParamError>,
}

/// A registered receiver-side control.
pub struct ReceiveProtocol {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub text: &'static str,
    /// Source: RFC or paper.
    pub cites: &'static str,
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// Builds it.
    pub build: fn(&Params) -> Result<BuildReceive, ParamError>,
}

/// Something that can be registered.
pub enum Entry {
    /// A protocol.
    Protocol(&'static Protocol),
    /// A queue discipline.
    Queue(&'static Discipline),
    /// A receiver-side control.
    Receive(&'static ReceiveProtocol),
    /// A host controller.
    Host(&'static HostProtocol),
}

impl From<&'static Protocol> for Entry {
    fn from(p: &'static Protocol) -> Entry {
        Entry::Protocol(p)
    }
}
impl From<&'static Discipline> for Entry {
    fn from(d: &'static Discipline) -> Entry {
        Entry::Queue(d)
    }
}
impl From<&'static ReceiveProtocol> for Entry {
    fn from(p: &'static ReceiveProtocol) -> Entry {
        Entry::Receive(p)
    }
}
impl From<&'static HostProtocol> for Entry {
    fn from(p: &'static HostProtocol) -> Entry {
        Entry::Host(p)
    }
}
