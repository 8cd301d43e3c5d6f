//! Links of 10 Tb/s: no header saturates.

use penstock_sim::engine::Progress;
use penstock_sim::scenario::Resolved;
use serde_json::Value;

/// Two hosts of 10 Tb/s each towards one such link: only the routers' rates keep the queue short.
#[test]
fn rates_of_ten_terabits_are_granted_and_kept_to() {
    for protocol in ["racs", "d3", "rcp", "piqi-rcp:interval=10us"] {
        let given = [
            ("protocol", protocol),
            ("flows", "2"),
            ("link_rate", "10Tbps"),
            ("rtt", "20us"),
            ("segment", "9000B"),
            ("buffer", "1000000pkt"),
            ("start_spread", "20us"),
            ("send_jitter", "0s"),
            ("duration", "3ms"),
            ("warmup", "2ms"),
        ];
        let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let resolved = Resolved::new("long-flows", &given, 1, Value::Null).expect("the scenario is right");
        let outcome = resolved.run(0, &Progress::default()).expect("it runs");
        let (queue, used) = (outcome.summary["queue_mean_packets"], outcome.summary["utilisation"]);
        println!("{protocol}: mean queue {queue}, utilisation {used}");
        // PIQI-RCP aims at 0.95 of the link.
        assert!(queue < 10.0 && used > 0.94, "{protocol}: mean queue {queue}, utilisation {used}");
    }
}
