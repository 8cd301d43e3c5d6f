//! Guards: a flow opened with its size is over when its last byte is acknowledged. FIN rides on the last segment, so that no
//! packet of its own follows, and the flow table and the table of transfers tell the same time.

use penstock_sim::engine::Progress;
use penstock_sim::scenario::{Outcome, Resolved};

fn run(settings: &[(&str, &str)]) -> Outcome {
    let given: Vec<_> = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let resolved = Resolved::new("mix", &given, 1, serde_json::Value::Null).expect("a valid scenario");
    resolved.run(0, &Progress::default()).expect("a run")
}

/// Five flows of `segments` full segments, one after the other, through an idle rack.
fn five_flows(protocol: &str, bytes: u64) -> Outcome {
    let sizes = format!("fixed:{bytes}B");
    run(&[
        ("protocol", protocol),
        ("long_flows", "0"),
        ("short_flows", "5"),
        ("sizes", &sizes),
        ("think", "50ms"),
        ("warmup", "0s"),
        ("duration", "2s"),
    ])
}

#[test]
fn flow_and_transfer_times_agree_and_every_flow_closes() {
    for protocol in ["newreno", "sack", "cubic", "dctcp"] {
        for bytes in [1, 1460, 1461, 2 * 1460, 10 * 1460, 100 * 1460] {
            let o = five_flows(protocol, bytes);
            let r = &o.engine.recorder;
            assert_eq!((r.transfers.len(), r.flows.len()), (5, 5), "{protocol} {bytes}");
            for f in &r.flows {
                assert!(!f.open_at_end, "{protocol} {bytes}: flow {} did not close", f.flow);
                let t = r.transfers.iter().find(|t| t.flow == f.flow).expect("its transfer");
                assert_eq!(f.closed - f.opened, t.acked - t.started, "{protocol} {bytes}: flow {}", f.flow);
                // No packet beyond those of the data.
                assert_eq!(f.data_packets, bytes.div_ceil(1460), "{protocol} {bytes}");
            }
        }
    }
}

#[test]
fn the_completion_of_a_flow_that_fills_its_windows_is_that_of_its_data() {
    // Two segments of initial window at 1 Gb/s, four links of 75 us: the handshake, then windows of 2, 4, .. segments.
    // FIN in a packet of its own would wait for the last of these windows: 927 us instead of 734 for six segments.
    let o = five_flows("newreno", 6 * 1460);
    let exact = run(&[
        ("protocol", "newreno"),
        ("long_flows", "0"),
        ("short_flows", "1"),
        ("sizes", "fixed:8760B"),
        ("warmup", "0s"),
        ("duration", "1s"),
        ("send_jitter", "0s"),
    ]);
    // By hand, in microseconds: SYN and SYN-ACK of 40 B take 0.32 on each of two links; data 12, its ACK 0.32.
    let (handshake, data, ack) = (300.0 + 4.0 * 0.32, 150.0 + 2.0 * 12.0, 150.0 + 2.0 * 0.32);
    // Second window: begins with the ACK of the first segment (two leave at once), the last of its four is the third
    // burst: the ACK of the second segment comes 12 later and lets two go.
    let by_hand = handshake + (data + ack) + (data + 12.0 + 12.0 + 12.0 + ack);
    let fct = exact.summary["fct_mean_s"] * 1e6;
    assert!((fct / by_hand - 1.0).abs() < 1e-4, "{fct} us, {by_hand} by hand");
    assert!(o.summary["fct_mean_s"] * 1e6 >= fct);
}
