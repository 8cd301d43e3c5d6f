//! Guards: every registered transport delivers every byte once and comes to an end, in networks with several paths that lose, reorder,
//! spray and fail. What is sent is delivered, dropped or held, which the engine checks at the end of every run. No byte reaches an
//! application before it arrived, which the witness checks in builds with debug assertions.

use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_host::Order;
use penstock_models::registry::{PROTOCOLS, STACKS};
use penstock_sim::engine::{Engine, Progress};
use penstock_sim::scenario::Resolved;
use penstock_sim::setup::NicMode;
use penstock_sim::workloads::{Action, Actions, App, Workload, Written};
use penstock_units::{Dur, Time};

/// No case may take longer, in simulated time. With six links of 3 % loss each, and as many on the way back, a packet and its answer get through in two
/// of three times. Ten repetitions of 10 ms each in a row happen once in 10^5 packets, and 50 never.
const LIMIT: Dur = Dur::millis(500);

fn pick<'a, T>(rng: &mut Stream, list: &'a [T]) -> &'a T {
    &list[rng.below(list.len() as u64) as usize]
}

/// Ends the run with the last acknowledgement: the timers of routers would go on.
struct Until {
    inner: Box<dyn App>,
    left: usize,
}

impl App for Until {
    fn next_event(&self) -> Time {
        self.inner.next_event()
    }
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
        self.inner.on_timer(now, actions);
    }
    fn on_acked(&mut self, now: Time, write: &Written, actions: &mut Actions) {
        self.inner.on_acked(now, write, actions);
        self.left -= 1;
        if self.left == 0 {
            actions.push(Action::Done);
        }
    }
}

/// A permutation in a random network; what may go wrong in it is drawn too.
fn case(protocol: &str, number: u64) -> (Engine, u64, String) {
    let mut rng = Stream::new(7, number, Entity::Workload, 99);
    let most = *pick(&mut rng, &[2_000, 100_000, 1_000_000]);
    let bytes = 1 + rng.below(most);
    let mut given = vec![
        ("protocol", protocol.to_owned()),
        ("topology", (*pick(&mut rng, &["leaf-spine:2x2x2", "leaf-spine:3x2x2", "fat-tree:4"])).to_owned()),
        ("flow_size", format!("{bytes}B")),
        ("mtu", (*pick(&mut rng, &["1500B", "4160B"])).to_owned()),
        ("buffer", (*pick(&mut rng, &["10pkt", "100pkt"])).to_owned()),
        ("link_delay", (*pick(&mut rng, &["0s", "1us", "20us"])).to_owned()),
        ("duration", format!("{}s", LIMIT.as_secs())),
        ("rto_min", "2ms".to_owned()),
        ("rto_initial", "2ms".to_owned()),
        ("rto_max", "10ms".to_owned()),
        (
            "spread",
            (*pick(&mut rng, &["drawn", "flow", "packet", "round-robin", "entropy", "adaptive"])).to_owned(),
        ),
    ];
    if rng.below(2) == 0 {
        given.push(("reorder", "share=0.05,delay=20us".to_owned()));
    }
    let loss = *pick(&mut rng, &[0.0, 0.0, 0.001, 0.03]);
    let pull = rng.below(2) == 0;
    let what = format!("{given:?}, loss {loss}, pull {pull}");
    let given: Vec<_> = given.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    let resolved = Resolved::new("permutation", &given, number, serde_json::Value::Null);
    let mut setup = resolved.unwrap_or_else(|e| panic!("{what}: {e}")).setup(0).unwrap();
    for link in &mut setup.topology.links {
        link.loss = loss;
    }
    if setup.own_stack().is_none() {
        let left = setup.topology.hosts().len();
        let inner = setup.workloads.remove(0).into_app();
        setup.workloads.push(Workload::central(Until { inner, left }));
    }
    if pull && setup.own_stack().is_none() {
        (setup.nic, setup.host_queue) =
            (NicMode::Pull(*pick(&mut rng, &[Order::RoundRobin, Order::Strict])), None);
    }
    if rng.below(4) == 0 {
        (setup.receive_delay, setup.processing) = (Dur::micros(rng.below(5)), Dur::nanos(rng.below(500)));
    }
    (Engine::new(setup).unwrap_or_else(|e| panic!("{what}: {e}")), bytes, what)
}

fn check(protocol: &str, number: u64) {
    let (mut engine, bytes, what) = case(protocol, number);
    engine.run(&Progress::default()).unwrap();
    let r = &engine.recorder;
    let hosts = engine.topology().hosts().len();
    let own = STACKS.iter().any(|p| p.name == protocol);
    assert_eq!(r.flows.len(), hosts, "{what}");
    for f in &r.flows {
        assert!(!own || !f.open_at_end, "flow {} stands still: {what}", f.flow);
        assert_eq!((f.delivered_bytes, f.acked_bytes), (bytes, bytes), "flow {}: {what}", f.flow);
    }
    assert!(own || engine.now() < Time::ZERO + LIMIT, "{what}");
}

#[test]
fn transports_with_a_stack_of_their_own_deliver_everything_once() {
    for protocol in STACKS {
        (0..12).for_each(|number| check(protocol.name, number));
    }
}
#[test]
fn tcp_delivers_everything_once_whatever_its_network_card_does() {
    for (number, protocol) in (0..).zip(PROTOCOLS) {
        check(protocol.name, 100 + number);
    }
}
#[test]
#[ignore = "takes long; runs in `make test-full`"]
fn each_transport_delivers_everything_once() {
    for protocol in PROTOCOLS.iter().chain(STACKS) {
        (1000..1100).for_each(|number| check(protocol.name, number));
    }
}

/// A run that ends in the middle of everything accounts for the answers that stacks have made and no card has pulled yet.
#[test]
fn a_run_that_is_cut_short_accounts_for_every_packet() {
    for p in STACKS {
        for run in 0..5 {
            let given = [("protocol", p.name), ("topology", "fat-tree:4"), ("duration", "100us")];
            let given: Vec<_> = given.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            let resolved =
                Resolved::new("permutation", &given, 1, serde_json::Value::Null).expect("it can be built");
            let outcome = resolved.run(run, &Progress::default()).expect("it runs");
            assert!(
                outcome.engine.conservation().sent > outcome.engine.conservation().delivered,
                "{}",
                p.name
            );
        }
    }
}
