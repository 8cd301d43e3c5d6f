//! Workloads whose messages wait for each other, on an idle star: their time is that of their longest chain of messages, worked out by
//! hand. The transport is RDMA at the line rate, which acknowledges whole messages; these acknowledgements go on the links of data the
//! other way, which is all that the closed form leaves out.

use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::metrics::What;
use penstock_sim::scenario::Outcome;
use serde_json::json;

const HEAD: &str = "scenario = \"custom\"\nduration = \"1s\"\ntopology = \"star:8\"\nlink_rate = \"10Gbps\"\nlink_delay = \"1us\"\n\
                    protocol = \"roce:ack_every=10000\"\nsegment = \"1000B\"\nsend_jitter = \"0s\"\n";

/// What is done to a workload with these files: the outcome, or the one line that is wrong.
fn try_run(workload: &str, files: &[(&str, &str)]) -> Result<Outcome, String> {
    try_run_with("travel", workload, files)
}
fn try_run_with(requests: &str, workload: &str, files: &[(&str, &str)]) -> Result<Outcome, String> {
    let files: serde_json::Map<_, _> = files.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    let toml = format!("{HEAD}[[workload]]\n{workload}\n");
    let set = json!({ "requests": requests });
    let document = json!({ "toml": toml, "name": "s.toml", "files": files, "set": set, "seed": 1 });
    let run = || resolve(&document.to_string())?.run(0, &Progress::default());
    run().map_err(|e| e.to_string())
}
fn run(workload: &str) -> Outcome {
    try_run(workload, &[]).unwrap_or_else(|e| panic!("{e}"))
}
/// Seconds from the first bit of a message of `bytes` to its last at the receiver. Packets of 1,044 bytes follow one another, the last of them takes the
/// second link too, and there are two links of 1 us.
fn message(bytes: u64) -> f64 {
    let packets = bytes.div_ceil(1000);
    let last = bytes - 1000 * (packets - 1);
    ((bytes + 44 * packets) as f64 + (last + 44) as f64) * 8.0 / 10e9 + 2e-6
}
/// An acknowledgement of 48 bytes on its way back.
const ACK: f64 = 2.0 * 48.0 * 8.0 / 10e9 + 2e-6;
/// What one rank tells another is as long as a packet without payload, an acknowledgement.
const WORD: f64 = ACK;

fn close(o: &Outcome, expected: f64, what: &str) {
    let took = o.summary["block_mean_s"];
    assert!(
        took >= expected * 0.999_999 && took < expected * 1.005,
        "{what}: {took} s, {expected} s by hand"
    );
}

#[test]
fn collectives_take_the_time_of_their_longest_chain() {
    for (keys, seconds, bus) in [
        ("operation = \"all-reduce\"", 14.0 * message(100_000), 1.75),
        // Thirteen times the next rank is told of the acknowledgement; the last message ends it.
        (
            "operation = \"all-reduce\"\nadvance = \"acknowledged\"",
            14.0 * (message(100_000) + ACK) + 13.0 * WORD,
            1.75,
        ),
        ("operation = \"all-gather\"", 7.0 * message(100_000), 0.875),
        ("operation = \"reduce-scatter\"\nalgorithm = \"ring\"", 7.0 * message(100_000), 0.875),
        (
            "operation = \"all-reduce\"\nalgorithm = \"halving-doubling\"",
            2.0 * (message(400_000) + message(200_000) + message(100_000)),
            1.75,
        ),
        (
            "operation = \"all-gather\"\nalgorithm = \"halving-doubling\"",
            message(400_000) + message(200_000) + message(100_000),
            0.875,
        ),
        // Three levels up; down, the root's third message waits for two acknowledgements.
        ("operation = \"all-reduce\"\nalgorithm = \"tree\"", 6.0 * message(800_000) + 2.0 * ACK, 1.75),
        ("operation = \"all-to-all\"", 7.0 * message(100_000) + 6.0 * ACK, 0.875),
    ] {
        for connections in ["fresh", "persistent"] {
            let o = run(&format!(
                "kind = \"collective\"\nsize = \"800KB\"\nconnections = \"{connections}\"\n{keys}"
            ));
            close(&o, seconds, keys);
            let s = &o.summary;
            assert_eq!(s["blocks"], 1.0);
            let algorithm = 800_000.0 * 8.0 / s["block_mean_s"];
            assert!((s["algbw_bps"] / algorithm - 1.0).abs() < 1e-9, "{keys}");
            assert!((s["busbw_bps"] / (bus * algorithm) - 1.0).abs() < 1e-9, "{keys}");
        }
    }
}
/// Ends and lengths of the blocks, in seconds.
fn blocks(o: &Outcome) -> Vec<(f64, f64)> {
    let events = o.engine.recorder.events.iter();
    events.filter(|x| x.what == What::Block).map(|x| (x.at.as_secs(), x.length.as_secs())).collect()
}
#[test]
fn a_wider_window_hides_acknowledgements() {
    // Two messages of a host share its link, and none of it stands still: all its bytes, and the last message's acknowledgement
    // does not count, as in the closed form of one window; hosts meet at receivers, so it is a little more.
    let o = run("kind = \"collective\"\nsize = \"800KB\"\noperation = \"all-to-all\"\nwindow = 2");
    let (took, least) = (o.summary["block_mean_s"], 700.0 * 1044.0 * 8.0 / 10e9 + 1044.0 * 8.0 / 10e9 + 2e-6);
    assert!(took >= least && took < 1.02 * least, "{took} s, {least} s at least");
}
#[test]
fn repetitions_follow_each_other() {
    let o = run("kind = \"collective\"\nsize = \"800KB\"\nrepetitions = 5\nhosts = \"h[2-5]\"\nconnections = \"fresh\"");
    assert_eq!((o.summary["blocks"], o.summary["flows_completed"]), (5.0, 5.0 * 24.0));
    // Those after the first begin while the last acknowledgements of the one before are on their way.
    close(&o, 6.0 * message(200_000), "ring of four");
    // Between two repetitions every rank reports to the root, which begins the next and tells the others: they begin a word later.
    let ends: Vec<(f64, f64)> = blocks(&o);
    for two in ends.windows(2) {
        let pause = two[1].0 - two[1].1 - two[0].0;
        assert!((pause - WORD).abs() < 1e-9, "{pause} s between two repetitions, {WORD} s by hand");
    }
}

/// Rank 0 computes, sends to 1; 1 answers when it has computed, too.
const GOAL: &str = "num_ranks 2\nrank 0 {\na: calc 5000\ns: send 10000b to 1 tag 7\ns requires a\nr: recv 500b from 1\n}\n\
                    rank 1 {\nr: recv 10000b from 0 tag 7\nc: calc 3000\nc requires r\ns: send 500b to 0\ns requires c\n}\n";

#[test]
fn a_goal_schedule_takes_its_computations_and_messages() {
    let goal = |keys: &str, text: &str| {
        try_run(&format!("kind = \"goal\"\nfile = \"x.goal\"\n{keys}"), &[("x.goal", text)])
    };
    let o = goal("", GOAL).unwrap_or_else(|e| panic!("{e}"));
    close(&o, 8e-6 + message(10_000) + message(500), "goal");
    // LogP's o: twice for each message, on the way of both.
    let o = goal("overhead = \"1us\"", GOAL).unwrap_or_else(|e| panic!("{e}"));
    close(&o, 12e-6 + message(10_000) + message(500), "goal with overhead");
    // Whoever comes first is received first.
    let any = "num_ranks 3\nrank 0 {\nr: recv 500b from -1 tag -1\nq: recv 900b from -1\n}\nrank 1 {\nsend 500b to 0 tag 4\n}\n\
               rank 2 {\na: calc 9000\ns: send 900b to 0\ns requires a\n}\n";
    let o = goal("", any).unwrap_or_else(|e| panic!("{e}"));
    close(&o, 9e-6 + message(900), "any");
}
#[test]
fn matrices_start_at_their_times_and_by_their_triggers() {
    let head = "Nodes 8\nConnections 3\nTriggers 1\n";
    let all = "0->1 id 1 start 5000000 size 10000 send_done_trigger 1\n2->3 id 2 start 0 size 20000 send_done_trigger 1\n\
               1->4 id 3 trigger 1 size 30000\n";
    // As soon as it is received.
    let received = all.replace("send_done", "recv_done");
    let first = 5e-6 + message(10_000) + ACK;
    let second = message(20_000) + ACK;
    for (requests, word) in [("travel", WORD), ("instant", 0.0)] {
        let close = |rows: &str, begin: f64, what: &str| {
            let text = format!("{head}{rows}");
            let o = try_run_with(requests, "kind = \"matrix\"\nfile = \"x.cm\"", &[("x.cm", &text)]);
            let o = o.unwrap_or_else(|e| panic!("{e}"));
            close(&o, begin + message(30_000) + ACK, &format!("{what}, {requests}"));
            assert_eq!(o.summary["flows_completed"], 3.0);
        };
        // The trigger is kept by rank 0, which sends the first connection; rank 1 sends the third.
        for (trigger, fires) in [
            ("oneshot", first.min(second + word)),
            ("multishot", first.min(second + word)),
            ("barrier count 2", first.max(second + word)),
        ] {
            close(&format!("trigger id 1 {trigger}\n{all}"), fires + word, trigger);
        }
        // By rank 1, which receives the first.
        let fires = (first - ACK).max(second - ACK + word);
        close(&format!("trigger id 1 barrier count 2\n{received}"), fires, "received");
    }
}
#[test]
fn what_is_wrong_is_one_line() {
    let one = |workload: &str, files: &[(&str, &str)], expected: &str| {
        let e = try_run(workload, files).err().unwrap_or_default();
        assert_eq!(e, expected);
    };
    let goal = "kind = \"goal\"\nfile = \"x.goal\"";
    let circle = GOAL.replace("s requires a", "s requires a\na requires s");
    one(
        goal,
        &[("x.goal", &circle)],
        "s.toml:11: workload[1].file = \"x.goal\": line 3 of the file can never begin: it waits for itself in a circle",
    );
    let lonely = GOAL.replace("r: recv 500b from 1", "r: recv 500b from 1 tag 3");
    one(
        goal,
        &[("x.goal", &lonely)],
        "s.toml:11: workload[1].file = \"x.goal\": line 12 of the file is a send that no receive of rank 0 matches",
    );
    one(
        &format!("{goal}\nhosts = [\"h0\", \"h1\"]"),
        &[("x.goal", &format!("{}rank 2 {{\ncalc 5\n}}\n", GOAL.replace("ranks 2", "ranks 3")))],
        "s.toml:11: workload[1].file = \"x.goal\": line 15 of the file, has a rank without a host: 3 ranks, 2 hosts",
    );
    let matrix = "kind = \"matrix\"\nfile = \"x.cm\"";
    one(
        matrix,
        &[("x.cm", "Nodes 8\n0->200 start 0 size 7\n")],
        "s.toml:11: workload[1].file = \"x.cm\": line 2 of the file, \"0->200 start 0 size 7\", names host 200 of 8, which are counted from 0",
    );
    one(
        matrix,
        &[("x.cm", "Nodes 128\n0->5 start 0 size 7\n")],
        "s.toml:11: workload[1].file = \"x.cm\": is for 128 hosts; there are 8",
    );
    one(
        "kind = \"collective\"\nsize = \"1MB\"\nhosts = \"h[0-5]\"\nalgorithm = \"halving-doubling\"",
        &[],
        "s.toml:13: workload[1].algorithm = \"halving-doubling\": needs a power of two of hosts; there are 6",
    );
    one(
        "kind = \"collective\"\nsize = \"1MB\"\noperation = \"all-to-all\"\nalgorithm = \"ring\"",
        &[],
        "s.toml:13: workload[1].algorithm = \"ring\": must be pairwise for all-to-all, ring, tree or halving-doubling for all-reduce, ring \
         or halving-doubling for all-gather and reduce-scatter",
    );
}
