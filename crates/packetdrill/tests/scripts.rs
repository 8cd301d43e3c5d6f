//! Every script of `scripts/`, and what is said of wrong ones.

use penstock_packetdrill::{parse, run, run_file};
use std::path::Path;

#[test]
fn every_script_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let failed: Vec<String> =
        files.iter().filter_map(|f| run_file(f).err()).map(|failure| failure.to_string()).collect();
    assert!(files.len() >= 60, "{} scripts", files.len());
    assert!(failed.is_empty(), "{} of {} fail\n{}", failed.len(), files.len(), failed.join("\n"));
}

const OPEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,wscale 7>
+0 > S. 0:0(0) ack 1 <...>
+.01 < . 1:1(0) ack 1 win 1000
+0 accept(3, ..., ...) = 4
";

fn said(rest: &str) -> String {
    let text = format!("{OPEN}{rest}");
    parse("x.pkt", &text).and_then(|s| run(&s)).map_or_else(|e| e.to_string(), |()| "passes".into())
}

/// A script that differs says where, what was expected and what was found.
#[test]
fn a_failing_script_names_line_expected_and_found() {
    for (rest, message) in [
        ("+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1", "passes"),
        (
            "+0 write(4, ..., 1000) = 1000\n+0 > P. 1:501(500) ack 1",
            "x.pkt:8: expected > . 1:501(500) ack 1, found > [noecn] . 1:1001(1000) ack 1 at 0.01 s (the length differs)",
        ),
        (
            "+0 write(4, ..., 1000) = 1000\n+.1 > P. 1:1001(1000) ack 1",
            "x.pkt:8: expected > . 1:1001(1000) ack 1 at 0.11 s, found it at 0.01 s: 0.1 s too early",
        ),
        ("+0 > . 1:1001(1000) ack 1", "x.pkt:7: expected > . 1:1001(1000) ack 1, found no packet until 0.014 s"),
        (
            "+0 write(4, ..., 1000) = 1000",
            "x.pkt:7: expected nothing more, found > [noecn] . 1:1001(1000) ack 1 at 0.01 s",
        ),
        (
            "+0 %{ assert tcpi_snd_cwnd == 11, tcpi_snd_cwnd }%",
            "x.pkt:7: expected tcpi_snd_cwnd == 11, found tcpi_snd_cwnd = 10",
        ),
        ("+0 < . 1:501(500) ack 1 win 1000\n+0 > . 1:1(0) ack 501\n+0 read(4, ..., 1000) = 400", "x.pkt:9: expected read(...) = 400, found 500"),
    ] {
        assert_eq!(said(rest), message);
    }
}

/// A script that is wrong says where, and which rule it breaks.
#[test]
fn a_bad_script_names_line_and_rule() {
    for (rest, message) in [
        ("+0 < X 0:0(0)", "x.pkt:7: X is no flag: S F R P E W and . for ACK"),
        (
            "+0 < . 1:10(5) ack 1",
            "x.pkt:7: 1:10(5): FIRST + LENGTH must be END (SYN and FIN are not counted)",
        ),
        ("+0 < . 1:1(0)", "x.pkt:7: a packet has ack N where its flags have a dot, and only there"),
        ("+x < . 1:1(0) ack 1", "x.pkt:7: x is no time: seconds as 0.1 or .1"),
        ("+0 < . 1:1(0) ack 1 <sack 5>", "x.pkt:7: 5: a SACK block is START:END"),
        ("+0 < . 1:1(0) ack 1 <md5 5>", "x.pkt:7: md5: options are mss, sackOK, wscale, nop, sack, TS"),
        ("+0 frobnicate(3) = 0", "x.pkt:7: frobnicate: this call is not known"),
        (
            "+0 nonsense",
            "x.pkt:7: an event is < packet, > packet, call(...) = result, `setting` or %{ assertions }%",
        ),
        ("+0 %{ assert tcpi_x == 1 }%", "x.pkt:7: tcpi_x is not known; known are tcpi_snd_cwnd,"),
        ("+0 %{ assert", "x.pkt:7: %{ has no }%"),
        ("0 write(4, ..., 1000) = 1000", "x.pkt:7: this line is at 0 s, the one before at 0.01 s"),
        ("* write(4, ..., 1000) = 1000", "x.pkt:7: * is for packets that leave: anything else needs a time"),
        (
            "+0 `sysctl -q net.ipv4.tcp_sack=0`",
            "x.pkt:7: sysctl -q net.ipv4.tcp_sack=0: settings come before the first socket",
        ),
        ("/* +0 write(4, ..., 1000) = 1000", "x.pkt:7: the comment /* has no end */"),
    ] {
        let found = said(rest);
        assert!(found.starts_with(message), "{found}");
    }
    let found = |text: &str| parse("x.pkt", text).and_then(|s| run(&s)).unwrap_err().to_string();
    assert_eq!(
        found("`sysctl -q net.ipv4.tcp_sack=0`"),
        "x.pkt:1: net.ipv4.tcp_sack=0: known values are 1: Linux's sender needs it here"
    );
    assert_eq!(found("`rm file`"), "x.pkt:1: rm file: the only command is sysctl");
    assert!(found("--protocol=renoo\n+0 socket() = 3")
        .contains("x.pkt:1: --protocol = \"renoo\": unknown protocol"));
    assert_eq!(found("// nothing"), "x.pkt:0: a script has at least one event");
}
