//! Guards: receivers give less credit where the network carries less than its hosts send (RCCC), and the priorities in which Homa grants
//! decide what a message that was granted first waits for.

use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::fabric_options::oversubscription;
use penstock_sim::results::Summary;
use serde_json::json;

fn run(toml: &str, protocol: &str) -> Summary {
    let document = json!({ "toml": toml, "seed": 1, "set": { "protocol": protocol } });
    resolve(&document.to_string()).unwrap().run(0, &Progress::default()).unwrap().summary
}

/// Half of the hosts send to the other half over one link for each eight.
const EIGHT_TO_ONE: &str = "scenario = \"custom\"\ntopology = \"leaf-spine:8x1x8\"\nlink_rate = \"100Gbps\"\nfabric_rate = \"100Gbps\"\n\
                            link_delay = \"1us\"\nsegment = \"4096B\"\nduration = \"20ms\"\n\
                            [[workload]]\nkind = \"flows\"\nfrom = \"h[0-31]\"\nto = \"h[32-63]\"\nsize = \"1MB\"\n";

#[test]
fn rccc_gives_less_credit_in_an_oversubscribed_network() {
    let [with, without] = ["rccc", "rccc:oversubscription=1"].map(|protocol| {
        let found = run(EIGHT_TO_ONE, protocol);
        assert_eq!(found["flows_completed"], 32.0);
        (found["trims"], found["fct_p99_s"])
    });
    println!("trims and 99th percentile: {with:?} and {without:?} without");
    assert!(with.0 < without.0 / 10.0 && with.1 < without.1, "{with:?} {without:?}");
    // Senders with windows see to it themselves.
    let [a, b] = ["nscc", "nscc:oversubscription=8"].map(|protocol| run(EIGHT_TO_ONE, protocol));
    assert_eq!(a, b);
}

#[test]
fn oversubscription_is_that_of_all_tiers() {
    let of = |topology: &str, fabric: &str| {
        let toml = format!(
            "scenario = \"custom\"\ntopology = \"{topology}\"\nlink_rate = \"100Gbps\"\nfabric_rate = \"{fabric}\"\n\
             link_delay = \"1us\"\nprotocol = \"rccc\"\nduration = \"1ms\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h0\"\nto = \"h1\"\nsize = \"1MB\"\n"
        );
        let resolved = resolve(&json!({ "toml": toml, "seed": 1 }).to_string()).unwrap();
        oversubscription(&resolved.setup(0).unwrap().topology)
    };
    assert_eq!(of("leaf-spine:8x1x8", "100Gbps"), 8.0);
    assert_eq!(of("leaf-spine:4x2x8", "400Gbps"), 1.0);
    assert_eq!(of("fat-tree:4", "100Gbps"), 1.0);
    assert_eq!(of("fat-tree:4", "50Gbps"), 2.0);
}

/// Four messages to one host. The shortest that is alone is granted in the lowest priority, as the paper has it, and what was granted so waits
/// behind the longer ones: the second message ends after the third. With the highest priorities they end in the order of their sizes.
#[test]
fn what_homa_grants_in_the_lowest_priority_waits_for_longer_messages() {
    let mut toml = "scenario = \"custom\"\ntopology = \"star:5\"\nlink_rate = \"25Gbps\"\nlink_delay = \"1us\"\nbuffer = \"5000pkt\"\n\
                    duration = \"100ms\"\n"
        .to_owned();
    for (host, size) in [(0, "10MB"), (1, "10.1MB"), (2, "10.2MB"), (3, "10.3MB")] {
        toml +=
            &format!("[[workload]]\nkind = \"flows\"\nfrom = \"h{host}\"\nto = \"h4\"\nsize = \"{size}\"\n");
    }
    // The mean of 1, 2, 3 and 4 times 3.36 ms: shortest first.
    let shortest_first = 2.5 * 3.36e-3;
    let mean = |protocol: &str| run(&toml, protocol)["fct_mean_s"] / shortest_first;
    let (lowest, highest) = (mean("homa"), mean("homa:grant_levels=highest"));
    assert!((0.99..1.03).contains(&highest) && lowest > 1.08, "{lowest} {highest}");
}
