//! The congestion controls in the running kernel. Everything needs root, BTF and the BPF objects; where one of these is
//! missing each test says "skipped: reason" and passes.
#![allow(unsafe_code)]
#![cfg(target_os = "linux")]
// The kernel runs by the wall clock; the rule against it is for the simulator.
#![allow(clippy::disallowed_methods)]

mod net;

use net::peers::{answer, ask, at, eventually, hoard, local, send_while, sink, skipped};
use net::{Fate, Packet, PATIENCE, RECEIVER, SENDER};
use penstock_live_bpf::{Dctcp, DctcpOptions, Steer, Steered};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn the_window_is_what_user_space_says() {
    if skipped() {
        return;
    }
    let steered = Steered::register("win", false).unwrap();
    net::in_new_namespace(move || {
        let listener = net::listen(local(5001), "reno");
        let receiver = thread::spawn(move || sink(listener));
        steered.set(40001, Steer { window: 5, pacing: 0 });
        let stream = net::connect(local(40001), local(5001), steered.name(), 1000);
        assert_eq!(net::control_of(&stream), steered.name());
        assert_eq!(net::info(&stream).tcpi_snd_cwnd, 5, "from the first packet");
        let running = Arc::new(AtomicBool::new(true));
        let sender = send_while(&stream, &running);
        // 0 is the window the kernel began with.
        for (said, meant) in [(3, 3), (40, 40), (1, 1), (200, 200), (0, 10)] {
            steered.set(40001, Steer { window: said, pacing: 0 });
            eventually(&format!("window {meant}"), || net::info(&stream).tcpi_snd_cwnd == meant);
            for _ in 0..200 {
                let info = net::info(&stream);
                assert_eq!(info.tcpi_snd_cwnd, meant);
            }
            let seen = steered.seen(40001);
            assert_eq!((seen.cwnd, seen.state), (meant, 0));
        }
        let seen = steered.seen(40001);
        assert!(seen.delivered > 1000 && seen.srtt_us > 0, "{seen:?}");
        assert_eq!((seen.losses, seen.timeouts, seen.ece_events), (0, 0, 0));
        running.store(false, Ordering::Relaxed);
        assert!(sender.join().unwrap() > 0);
        drop(stream);
        receiver.join().unwrap();
        assert_eq!(steered.seen(40002), Default::default(), "another port");
        steered.clear(40001);
        assert_eq!(steered.seen(40001), Default::default());
    })
    .join()
    .unwrap();
}

#[test]
fn a_connection_that_never_pauses_is_steered_too() {
    if skipped() {
        return;
    }
    let steered = Arc::new(Steered::register("busy", false).unwrap());
    let name = steered.name().to_string();
    net::across_a_switch(
        move || {
            steered.set(40001, Steer { window: 4, pacing: 0 });
            let stream = net::connect(at(SENDER, 40001), at(RECEIVER, 5001), steered.name(), 1000);
            let running = Arc::new(AtomicBool::new(true));
            let sender = send_while(&stream, &running);
            for window in [12, 6, 20, 4] {
                let before = steered.seen(40001).delivered;
                steered.set(40001, Steer { window, pacing: 0 });
                eventually(&format!("window {window}"), || net::info(&stream).tcpi_snd_cwnd == window);
                let took = steered.seen(40001).delivered - before;
                // With the next ACKs, not with the next pause.
                assert!(took < 300, "{took} packets were delivered before the window was {window}");
                // The flight follows: what it had beyond the window is acknowledged first.
                eventually(&format!("{window} in flight"), || net::info(&stream).tcpi_unacked == window);
                for _ in 0..20 {
                    thread::sleep(Duration::from_micros(500));
                    assert!(net::info(&stream).tcpi_unacked <= window);
                }
            }
            running.store(false, Ordering::Relaxed);
            sender.join().unwrap();
        },
        sink,
        &name,
        |_| {
            // The bottleneck: something is always in flight.
            thread::sleep(Duration::from_micros(200));
            Fate::Pass
        },
    );
}

#[test]
fn the_pacing_rate_is_what_user_space_says() {
    if skipped() {
        return;
    }
    let steered = Steered::register("pace", false).unwrap();
    net::in_new_namespace(move || {
        let listener = net::listen(local(5001), "reno");
        let receiver = thread::spawn(move || sink(listener));
        let stream = net::connect(local(40001), local(5001), steered.name(), 1000);
        let running = Arc::new(AtomicBool::new(true));
        let sender = send_while(&stream, &running);
        let goodput = |time: Duration| {
            // The clock is read outside the count, so that a pause of this thread makes the rate smaller, not larger.
            let start = Instant::now();
            let before = steered.seen(40001).delivered;
            thread::sleep(time);
            let delivered = steered.seen(40001).delivered - before;
            delivered as f64 / start.elapsed().as_secs_f64()
        };
        // Segments of 1000 bytes less 12 of time stamps: the kernel paces payload.
        let packets = 2000.0;
        steered.set(40001, Steer { window: 20, pacing: (packets * 988.0) as u64 });
        thread::sleep(Duration::from_millis(200));
        let paced = goodput(Duration::from_millis(1000));
        // Never faster; slower only by what the machine's timers lose.
        assert!(paced < 1.05 * packets && paced > 0.6 * packets, "{paced} packets/s");
        steered.set(40001, Steer { window: 20, pacing: 0 });
        thread::sleep(Duration::from_millis(100));
        let unlimited = goodput(Duration::from_millis(200));
        assert!(unlimited > 5.0 * packets, "{unlimited} packets/s");
        running.store(false, Ordering::Relaxed);
        sender.join().unwrap();
        drop(stream);
        receiver.join().unwrap();
    })
    .join()
    .unwrap();
}

#[test]
fn neither_loss_nor_timeout_moves_a_steered_window() {
    if skipped() {
        return;
    }
    const WINDOW: u32 = 12;
    let steered = Arc::new(Steered::register("loss", false).unwrap());
    let name = steered.name().to_string();
    // Packet 30 is lost once; later nothing passes until the timer has expired twice.
    let outage = Arc::new(AtomicBool::new(false));
    let dropping = outage.clone();
    let ours = steered.clone();
    let ((), packets) = net::across_a_switch(
        move || {
            ours.set(40001, Steer { window: WINDOW, pacing: 0 });
            let stream = net::connect(at(SENDER, 40001), at(RECEIVER, 5001), ours.name(), 1000);
            (&stream).write_all(&[0; 60_000]).unwrap();
            let still = |event: &str| {
                let cwnd = net::info(&stream).tcpi_snd_cwnd;
                assert_eq!(
                    (cwnd, ours.seen(40001).cwnd),
                    (WINDOW, WINDOW),
                    "{event}: {:?}",
                    ours.seen(40001)
                );
            };
            eventually("recovery", || ours.seen(40001).losses == 1);
            still("in recovery");
            eventually("recovered", || net::info(&stream).tcpi_unacked == 0);
            still("after recovery");
            assert_eq!(ours.seen(40001).timeouts, 0);
            outage.store(true, Ordering::Relaxed);
            (&stream).write_all(&[0; 14_000]).unwrap(); // more than a window, less than a send buffer
            eventually("two timeouts", || {
                still("on the way");
                ours.seen(40001).timeouts >= 2
            });
            assert_eq!(ours.seen(40001).state, 4);
            still("after timeouts");
            outage.store(false, Ordering::Relaxed);
            eventually("delivered", || net::info(&stream).tcpi_unacked == 0 && ours.seen(40001).state == 0);
            still("in the end");
        },
        sink,
        &name,
        move |n| match n {
            30 => Fate::Drop,
            _ if dropping.load(Ordering::Relaxed) => Fate::Drop,
            _ => Fate::Pass,
        },
    );
    assert!(packets.iter().all(|p| p.ecn == 0), "without ecn nothing is ECT");
    assert!(packets.iter().filter(|p| p.fate == Fate::Drop).count() >= 3);
}

/// RFC 8257 section 3.2, from the wire: every ACK with ECE acknowledges only marked segments, every ACK without only
/// unmarked ones, and the first segment after a change is acknowledged without waiting for a second. Needs a trace
/// without loss and `hoard`.
fn check_echo(packets: &[Packet]) {
    let mut waiting: Vec<(u32, bool)> = Vec::new(); // (end of segment, marked)
    let (mut with, mut without) = (0, 0);
    let (mut last, mut changes, mut at_once) = (false, 0, 0);
    for p in packets {
        if p.from_sender {
            if p.payload > 0 {
                waiting.push((p.seq.wrapping_add(p.payload), p.fate == Fate::Mark));
            }
            continue;
        }
        if p.syn {
            continue;
        }
        let covered = waiting.iter().take_while(|(end, _)| (p.ack.wrapping_sub(*end) as i32) >= 0).count();
        for (n, (end, marked)) in waiting.drain(..covered).enumerate() {
            assert_eq!(marked, p.ece, "segment to {end} in the ACK {p:?}");
            if marked != last {
                (last, changes) = (marked, changes + 1);
                at_once += usize::from(n + 1 == covered);
            }
        }
        if covered > 0 {
            *if p.ece { &mut with } else { &mut without } += 1;
        }
    }
    assert!(with > 20 && without > 20, "{with} ACKs with ECE, {without} without");
    assert!(changes > 80, "{changes} changes");
    assert_eq!(at_once, changes, "a change was not acknowledged at once");
}

/// Marks that come and go in runs of uneven length.
fn runs(n: usize) -> Fate {
    if n % 17 % 7 < 3 {
        Fate::Mark
    } else {
        Fate::Pass
    }
}

/// Sends 400 kB from port 40001 through marks that come and go, without loss.
fn bulk(control: &str) -> Vec<Packet> {
    let (ready, receiving) = mpsc::channel();
    let name = control.to_string();
    let sender = move || {
        let mut stream = net::connect(at(SENDER, 40001), at(RECEIVER, 5001), &name, 1000);
        assert!(net::negotiated_ecn(&stream));
        receiving.recv_timeout(PATIENCE).unwrap();
        stream.write_all(&[0; 400_000]).unwrap();
        eventually("delivered", || net::info(&stream).tcpi_unacked == 0);
        net::info(&stream).tcpi_total_retrans
    };
    let (retransmissions, packets) = net::across_a_switch(sender, hoard(ready), control, runs);
    assert_eq!(retransmissions, 0, "the check needs a trace without loss");
    packets
}

#[test]
fn dctcp_echoes_marks_segment_by_segment() {
    if skipped() {
        return;
    }
    let dctcp = Dctcp::register("echo", DctcpOptions::default()).unwrap();
    let packets = bulk(dctcp.name());
    check_echo(&packets);
    // Section 3.6: ECT on SYN and SYN-ACK; and on all data.
    assert!(packets.iter().filter(|p| p.syn || p.payload > 0).all(|p| p.ecn == 2), "ECT(0)");
    // Section 3.3: CWR as in RFC 3168, on new data after a cut.
    assert!(packets.iter().any(|p| p.from_sender && p.cwr && p.payload > 0));
    let alpha = dctcp.alpha(40001).unwrap();
    assert!(alpha > 0.1 && alpha < 0.9, "alpha {alpha} with 3/7 of the packets marked");
}

#[test]
fn a_steered_receiver_echoes_marks_segment_by_segment() {
    if skipped() {
        return;
    }
    let steered = Steered::register("echo", true).unwrap();
    steered.set(40001, Steer { window: 13, pacing: 0 });
    let packets = bulk(steered.name());
    check_echo(&packets);
    let seen = steered.seen(40001);
    let marked = packets.iter().filter(|p| p.fate == Fate::Mark).count() as u32;
    assert_eq!(seen.delivered_ce, marked, "{seen:?}");
    let echoes = packets.iter().filter(|p| !p.from_sender && !p.syn && p.ece).count() as u32;
    // The kernel may merge ACKs that wait for a busy socket, if they agree on ECE.
    assert!(seen.ece_events > 20 && seen.ece_events <= echoes, "{} of {echoes}", seen.ece_events);
    assert_eq!((seen.losses, seen.timeouts, seen.cwnd), (0, 0, 13), "marks do not move the window");
}

#[test]
fn alpha_and_the_cut_are_those_of_rfc_8257() {
    if skipped() {
        return;
    }
    // One segment per window of data: M is 0 or 1, and alpha follows by hand.
    let marks = [false, false, true, true, false, true, false, false, false, true];
    let g_shift = 3;
    let options = DctcpOptions { g_shift, initial_alpha: 0.5, ..Default::default() };
    let dctcp = Arc::new(Dctcp::register("alpha", options).unwrap());
    let name = dctcp.name().to_string();
    assert_eq!(dctcp.alpha(40001), None, "nothing was here");
    let ours = dctcp.clone();
    net::across_a_switch(
        move || {
            let mut stream = net::connect(at(SENDER, 40001), at(RECEIVER, 5001), ours.name(), 1000);
            assert_eq!((ours.alpha(40001), ours.ecn(40001)), (Some(0.5), Some(true)));
            let g = 0.5f64.powi(g_shift as i32);
            let mut alpha = 0.5;
            let mut window = net::info(&stream).tcpi_snd_cwnd;
            assert_eq!(window, 10);
            let mut rest = 0.0; // packets acknowledged towards the next one of the window
            for (n, marked) in marks.into_iter().enumerate() {
                ask(&mut stream);
                alpha = alpha * (1.0 - g) + if marked { g } else { 0.0 };
                let measured = ours.alpha(40001).unwrap();
                assert!((measured - alpha).abs() < 1e-6, "message {n}: alpha {measured}, by hand {alpha}");
                if marked {
                    // The connection does not fill its window, so it does not grow in between.
                    let cut = (window as f64 + rest / window as f64) * (1.0 - alpha / 2.0);
                    window = cut as u32;
                    rest = (cut.fract() * window as f64).round();
                    assert_eq!(net::info(&stream).tcpi_snd_ssthresh, window, "message {n}: {cut}");
                }
            }
            // The window gets there by the end of the window of data.
            eventually("cwnd = ssthresh", || {
                ask(&mut stream);
                net::info(&stream).tcpi_snd_cwnd == window
            });
        },
        answer,
        &name,
        move |n| if marks.get(n) == Some(&true) { Fate::Mark } else { Fate::Pass },
    );
}

#[test]
fn marks_do_not_cut_below_the_smallest_window() {
    if skipped() {
        return;
    }
    for min_window in [1, 3] {
        // With alpha at 1, every marked window of data halves: 10, 5, 2.5, 1.25, ...
        let dctcp = Dctcp::register("floor", DctcpOptions { min_window, ..Default::default() }).unwrap();
        let name = dctcp.name().to_string();
        let control = name.clone();
        net::across_a_switch(
            move || {
                let mut stream = net::connect(at(SENDER, 40001), at(RECEIVER, 5001), &control, 1000);
                for expected in [5, 2, 1, 1, 1].map(|n: u32| n.max(min_window)) {
                    ask(&mut stream);
                    assert_eq!(net::info(&stream).tcpi_snd_ssthresh, expected, "min_window {min_window}");
                }
            },
            answer,
            &name,
            |_| Fate::Mark,
        );
    }
}

#[test]
fn dctcp_halves_on_loss_whatever_alpha_says() {
    if skipped() {
        return;
    }
    type Rule = fn(usize) -> Fate;
    // Section 3.5. alpha is 0 or little above: a cut by alpha would leave the window of 10 as good as whole.
    let cases: [(&str, bool, Rule, u32); 4] = [
        ("the first segment is lost", false, |n| if n == 0 { Fate::Drop } else { Fate::Pass }, 5),
        (
            "a flight with its tail-loss probe is lost",
            false,
            |n| if n < 12 { Fate::Drop } else { Fate::Pass },
            5,
        ),
        (
            "the third duplicate ACK carries ECE",
            false,
            |n| match n {
                0 => Fate::Drop,
                3 => Fate::Mark,
                _ => Fate::Pass,
            },
            5,
        ),
        (
            // The kernel is at the end of CWR, where its window is what the application used: 2 is the least.
            "a timeout, and the last ACK carried ECE",
            true,
            |n| match n {
                0 => Fate::Mark,
                1..=3 => Fate::Drop,
                _ => Fate::Pass,
            },
            2,
        ),
    ];
    for (case, ask_first, fate, expected) in cases {
        let dctcp =
            Dctcp::register("half", DctcpOptions { initial_alpha: 0.0, ..Default::default() }).unwrap();
        let name = dctcp.name().to_string();
        let control = name.clone();
        let (after, _) = net::across_a_switch(
            move || {
                let mut stream = net::connect(at(SENDER, 40001), at(RECEIVER, 5001), &control, 1000);
                assert_eq!(net::info(&stream).tcpi_snd_cwnd, 10);
                if ask_first {
                    stream.write_all(&[0]).unwrap();
                    eventually("cut", || net::info(&stream).tcpi_unacked == 0);
                }
                // The initial window and no more: the window has not grown when the loss is found.
                stream.write_all(&[0; 9_000]).unwrap();
                eventually("retransmitted", || net::info(&stream).tcpi_total_retrans >= 1);
                eventually("delivered", || net::info(&stream).tcpi_unacked == 0);
                net::info(&stream)
            },
            sink,
            &name,
            fate,
        );
        assert_eq!(after.tcpi_snd_ssthresh, expected, "{case}");
    }
}

#[test]
fn dctcp_becomes_reno_where_the_peer_has_no_ecn() {
    if skipped() {
        return;
    }
    let dctcp = Dctcp::register("noecn", DctcpOptions::default()).unwrap();
    let control = dctcp.name().to_string();
    let (name, packets) = net::across_a_switch(
        move || {
            let mut stream = net::connect(at(SENDER, 40001), at(RECEIVER, 5001), &control, 1000);
            assert!(!net::negotiated_ecn(&stream));
            ask(&mut stream);
            net::control_of(&stream)
        },
        answer,
        "reno",
        |_| Fate::Pass,
    );
    assert_eq!(name, "reno");
    assert_eq!(dctcp.ecn(40001), Some(false));
    assert!(packets.iter().filter(|p| p.payload > 0).all(|p| p.ecn == 0), "no ECT without ECN");
}

#[test]
fn a_name_can_be_the_default_of_a_new_namespace() {
    if skipped() {
        return;
    }
    let dctcp = Dctcp::register("dflt", DctcpOptions::default()).unwrap();
    net::in_new_namespace(move || {
        // The file shows the namespace of the thread that opens it.
        std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", dctcp.name()).unwrap();
        let listener = TcpListener::bind(local(5001)).unwrap();
        assert_eq!(net::control_of(&listener), dctcp.name());
    })
    .join()
    .unwrap();
}

/// Names the kernel offers.
fn registered() -> Vec<String> {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    names.split_whitespace().map(str::to_string).collect()
}

/// The BPF objects this process holds, as (command that opens one by id, id).
fn held() -> Vec<(i32, u32)> {
    let mut held = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        for line in std::fs::read_to_string(entry.path()).unwrap_or_default().lines() {
            let mut words = line.split_whitespace();
            // BPF_PROG_GET_FD_BY_ID, BPF_MAP_GET_FD_BY_ID, BPF_LINK_GET_FD_BY_ID of linux/bpf.h
            let command = match words.next() {
                Some("prog_id:") => 13,
                Some("map_id:") => 14,
                Some("link_id:") => 30,
                _ => continue,
            };
            held.push((command, words.next().unwrap().parse().unwrap()));
        }
    }
    held
}

/// Whether the kernel still has the object.
fn exists(&(command, id): &(i32, u32)) -> bool {
    let mut attributes = [0u32; 32];
    attributes[0] = id;
    let size = std::mem::size_of_val(&attributes);
    // SAFETY: these commands read and write at most `size` bytes, the size of `attributes`.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size) };
    if fd >= 0 {
        // SAFETY: the descriptor is new and owned by nothing else.
        drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        return true;
    }
    let error = std::io::Error::last_os_error();
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}");
    false
}

/// The environment variable that makes the next test a child that waits to be killed.
const CHILD: &str = "PENSTOCK_TEST_CHILD";

/// Registers both, tells names and objects, and waits. Only as a child of the next test: no other test's objects are in
/// its files.
#[test]
fn child() {
    let Ok(how) = std::env::var(CHILD) else { return };
    let dctcp = Dctcp::register("a", DctcpOptions::default()).unwrap();
    let steered = [Steered::register("a", false).unwrap(), Steered::register("a", false).unwrap()];
    println!("names {} {} {}", dctcp.name(), steered[0].name(), steered[1].name());
    let mut controls = Some((dctcp, steered));
    for (command, id) in held() {
        println!("object {command} {id}");
    }
    println!("ready");
    std::io::stdin().read_exact(&mut [0]).unwrap();
    if how == "drop" {
        controls.take();
        println!("names {}", registered().join(" "));
        assert!(held().is_empty(), "{:?}", held());
    }
}

#[test]
fn nothing_stays_in_the_kernel() {
    if skipped() {
        return;
    }
    for how in ["drop", "kill"] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(CHILD, how)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let (mut names, mut objects) = (Vec::new(), Vec::new());
        for line in lines.by_ref() {
            // The test harness writes its own words before ours on the first line.
            if let Some((_, rest)) = line.split_once("names ") {
                names = rest.split_whitespace().map(str::to_string).collect();
            } else if let Some(rest) = line.strip_prefix("object ") {
                let mut numbers = rest.split_whitespace();
                let command: i32 = numbers.next().unwrap().parse().unwrap();
                objects.push((command, numbers.next().unwrap().parse::<u32>().unwrap()));
            } else if line == "ready" {
                break;
            }
        }
        assert_eq!(names.len(), 3);
        assert!(names[1] != names[2], "one tag, one process, two names: {names:?}");
        assert!(names.iter().all(|n| n.len() <= 15));
        let present = registered();
        assert!(names.iter().all(|n| present.contains(n)), "{names:?} in {present:?}");
        // Three links, three struct_ops maps, at least an array and six programs each.
        let count = |command| objects.iter().filter(|o| o.0 == command).count();
        assert!(count(13) >= 18 && count(14) >= 6 && count(30) == 3, "{objects:?}");
        assert!(objects.iter().all(exists));

        if how == "kill" {
            child.kill().unwrap(); // SIGKILL
            child.wait().unwrap();
        } else {
            child.stdin.take().unwrap().write_all(b"x").unwrap();
            let said = lines.find(|l| l.starts_with("names ")).expect("the child says what is left");
            assert!(names.iter().all(|n| !said.contains(n.as_str())), "still there after the drop: {said}");
            assert!(child.wait().unwrap().success());
        }
        eventually(&format!("names gone after {how}"), || {
            let present = registered();
            names.iter().all(|n| !present.contains(n))
        });
        // Programs and maps are freed after a grace period.
        eventually(&format!("objects gone after {how}"), || !objects.iter().any(exists));
    }
}
