//! Connection matrices of htsim: who sends how much to whom, at a time or when a trigger fires (its text form from memory of the
//! simulator's examples).
//!
//! `Nodes N`, `Connections C`, `Triggers T`, `Failures F`, in any order, each but the first if wanted; then a connection or a trigger per line:
//! `A->B id I start TIME size BYTES send_done_trigger T recv_done_trigger T` (or `trigger T` in the place of the start) and `trigger id T
//! oneshot`, `multishot` or `barrier count N`. A oneshot lets all that wait for it begin once, a multishot one of them each time it fires, a
//! barrier all of them when it has fired so often. A start may have decimals. A size of 0 is a connection without end. The word `msg`, which
//! has no value, marks a message of a connection that carries several; whether messages share connections is a key of the workload.
//! `#` begins a comment.

use super::program::{Event, Program, Work};
use penstock_core::bail_if;
use penstock_units::Dur;
use std::collections::BTreeMap;

/// Latest start, in seconds.
const LATEST_S: f64 = 1e6;

/// Largest size of a connection, in bytes.
const MOST_BYTES: u64 = 1_000_000_000_000_000;

/// Keys of a connection that have a value.
const KEYS: [&str; 7] = ["id", "prio", "size", "start", "trigger", "send_done_trigger", "recv_done_trigger"];

/// A start of so many `unit`s, decimals allowed.
fn start(value: &str, unit: Dur) -> Result<Dur, String> {
    if let Some(whole) = value.parse::<u64>().ok().filter(|n| unit.as_secs() * *n as f64 <= LATEST_S) {
        return Ok(unit * whole);
    }
    match value.parse::<f64>() {
        Ok(x) if x >= 0.0 && unit.as_secs() * x <= LATEST_S => Ok(Dur::from_secs(unit.as_secs() * x)),
        Ok(x) if x.is_finite() => Err(format!("must start within 0 to {LATEST_S} seconds")),
        _ => Err(format!("must have a number after start, not {value:?}")),
    }
}

/// How a trigger fires.
#[derive(Clone, Copy)]
enum Fires {
    Once,
    Each,
    After(u32),
}

#[derive(Default)]
struct Connection {
    line: usize,
    from: u32,
    to: u32,
    /// 0 = without end.
    bytes: Option<u64>,
    start: Option<Dur>,
    /// Triggers: what it waits for, what fires when it is acknowledged or received.
    waits: Option<u64>,
    sent: Option<u64>,
    received: Option<u64>,
}

/// Reads a matrix: the schedule, and how many hosts it is for. `unit` is that of start times.
///
/// # Errors
/// What is no matrix, a host beyond those it has, a trigger that is not declared or that never fires, by line.
pub fn read_matrix(text: &str, unit: Dur) -> Result<(Program, u32), String> {
    let (mut nodes, mut announced) = (None, None);
    let mut connections: Vec<Connection> = Vec::new();
    let mut triggers: BTreeMap<u64, (usize, Fires)> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        let bad = |rule: String| format!("line {number} of the file, {line:?}, {rule}");
        let count = |word: &str| {
            word.parse::<u32>().map_err(|_| bad(format!("must have a whole number where it has {word:?}")))
        };
        match words[..] {
            [] => {}
            ["Nodes", n] => nodes = Some(count(n)?),
            ["Connections", n] => announced = Some((number, count(n)?)),
            ["Triggers", n] => _ = count(n)?,
            ["Failures", n] => {
                if count(n)? > 0 {
                    return Err(
                        bad("must be 0: links that fail are named by the scenario's key fail".into()),
                    );
                }
            }
            ["failure", ..] => {
                return Err(bad(
                    "cannot be here: links that fail are named by the scenario's key fail".into()
                ));
            }
            ["trigger", "id", id, ref how @ ..] => {
                let fires = match how {
                    ["oneshot"] => Fires::Once,
                    ["multishot"] => Fires::Each,
                    ["barrier", "count", n] if count(n)? > 0 => Fires::After(count(n)?),
                    _ => return Err(bad("must be oneshot, multishot or barrier count N".into())),
                };
                if triggers.insert(u64::from(count(id)?), (number, fires)).is_some() {
                    return Err(bad(format!("is the second trigger {id}")));
                }
            }
            [pair, ref rest @ ..] => {
                let nodes = nodes.ok_or_else(|| bad("comes before Nodes N".into()))?;
                let ends = pair.split_once("->").ok_or_else(|| {
                    bad("must be A->B, a trigger, Nodes, Connections, Triggers or Failures".into())
                })?;
                let host = |word: &str| match word.parse::<u32>() {
                    Ok(h) if h < nodes => Ok(h),
                    _ => Err(bad(format!("names host {word} of {nodes}, which are counted from 0"))),
                };
                let mut c = Connection {
                    line: number,
                    from: host(ends.0)?,
                    to: host(ends.1)?,
                    ..Connection::default()
                };
                bail_if!(c.from == c.to, bad("must lead to another host than its own".into()));
                let mut rest = rest.iter().copied();
                while let Some(key) = rest.next() {
                    if key == "msg" {
                        continue;
                    }
                    if !KEYS.contains(&key) {
                        return Err(bad(format!("has {key:?}, which is no key of a connection")));
                    }
                    let value = rest.next().ok_or_else(|| bad(format!("has no value after {key}")))?;
                    if key == "start" {
                        c.start = Some(start(value, unit).map_err(bad)?);
                        continue;
                    }
                    let whole = value.parse::<u64>();
                    let whole = whole
                        .map_err(|_| bad(format!("must have a whole number after {key}, not {value:?}")))?;
                    match key {
                        "size" if whole <= MOST_BYTES => c.bytes = Some(whole),
                        "size" => return Err(bad(format!("must have at most {MOST_BYTES} bytes"))),
                        "trigger" => c.waits = Some(whole),
                        "send_done_trigger" => c.sent = Some(whole),
                        "recv_done_trigger" => c.received = Some(whole),
                        _ => {}
                    }
                }
                bail_if!(c.bytes.is_none(), bad("must have a size (0 = without end)".into()));
                if c.bytes == Some(0) && (c.sent.is_some() || c.received.is_some()) {
                    return Err(bad("has no end (size 0), so its trigger would never fire".into()));
                }
                if c.start.is_some() == c.waits.is_some() {
                    return Err(bad("must have a start or a trigger, one of them".into()));
                }
                connections.push(c);
            }
        }
    }
    let nodes = nodes.ok_or("the file must begin with Nodes N")?;
    bail_if!(connections.is_empty(), "the file has no connections");
    if let Some((line, n)) = announced.filter(|(_, n)| *n as usize != connections.len()) {
        return Err(format!(
            "line {line} of the file announces {n} connections; there are {}",
            connections.len()
        ));
    }
    let mut p = Program::default();
    let task_of: BTreeMap<u64, (u32, Fires)> = triggers
        .iter()
        .map(|(id, (line, fires))| {
            let work = if matches!(fires, Fires::Each) { Work::Turns } else { Work::Join };
            (*id, (p.add(work, *line), *fires))
        })
        .collect();
    for c in &connections {
        let bytes = c.bytes.filter(|b| *b > 0).unwrap_or(u64::MAX);
        let send = p.add(Work::Send { from: c.from, to: c.to, bytes, tag: None }, c.line);
        let trigger = |id: u64| {
            let found = task_of.get(&id).map(|t| t.0);
            found.ok_or_else(|| {
                format!("line {} of the file names trigger {id}, which is not declared", c.line)
            })
        };
        c.start.into_iter().for_each(|start| p.delay(send, start));
        if let Some(id) = c.waits {
            p.wait(send, trigger(id)?, Event::Done);
        }
        if let Some(id) = c.sent {
            p.wait(trigger(id)?, send, Event::Done);
        }
        if let Some(id) = c.received {
            p.wait(trigger(id)?, send, Event::Arrived);
        }
    }
    for (task, fires) in task_of.values() {
        match fires {
            Fires::Once | Fires::Each => p.wait_for(*task, 1),
            Fires::After(n) => p.wait_for(*task, *n),
        }
    }
    let never =
        |line| format!("line {line} of the file can never begin: nothing that it waits for happens first");
    p.check().map_err(never)?;
    Ok((p, nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Program, u32), String> {
        read_matrix(text, Dur::nanos(1))
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line() {
        let error = |rows: &str| read(&format!("Nodes 128\n{rows}\n")).unwrap_err();
        for (rows, message) in [
            (
                "0->200 start 0 size 5",
                "line 2 of the file, \"0->200 start 0 size 5\", names host 200 of 128, which are counted from 0",
            ),
            ("1->1 start 0 size 5", "line 2 of the file, \"1->1 start 0 size 5\", must lead to another host than its own"),
            ("0->1 start 0", "line 2 of the file, \"0->1 start 0\", must have a size (0 = without end)"),
            (
                "trigger id 3 oneshot\n0->1 start 0 size 0 send_done_trigger 3",
                "line 3 of the file, \"0->1 start 0 size 0 send_done_trigger 3\", has no end (size 0), so its trigger would never fire",
            ),
            ("0->1 start -1.5 size 1", "line 2 of the file, \"0->1 start -1.5 size 1\", must start within 0 to 1000000 seconds"),
            ("0->1 start soon size 1", "line 2 of the file, \"0->1 start soon size 1\", must have a number after start, not \"soon\""),
            ("0->1 msg 4 size 1", "line 2 of the file, \"0->1 msg 4 size 1\", has \"4\", which is no key of a connection"),
            ("0->1 size 5", "line 2 of the file, \"0->1 size 5\", must have a start or a trigger, one of them"),
            ("0->1 size 5 start", "line 2 of the file, \"0->1 size 5 start\", has no value after start"),
            ("0->1 trigger 3 size 5", "line 2 of the file names trigger 3, which is not declared"),
            (
                "trigger id 3 oneshot\n0->1 trigger 3 size 5",
                "line 2 of the file can never begin: nothing that it waits for happens first",
            ),
            ("Connections 2\n0->1 start 0 size 5", "line 2 of the file announces 2 connections; there are 1"),
            ("Failures 1", "line 2 of the file, \"Failures 1\", must be 0: links that fail are named by the scenario's key fail"),
            ("", "the file has no connections"),
        ] {
            assert_eq!(error(rows), message);
        }
        assert_eq!(
            read("0->1 start 0 size 5").unwrap_err(),
            "line 1 of the file, \"0->1 start 0 size 5\", comes before Nodes N"
        );
    }
    #[test]
    fn decimals_endless_sizes_and_msg_are_read() {
        let rows = "Nodes 2\nConnections 3\n0->1 id 1 msg start 0.000000 size 40860\n\
                    0->1 id 1 start 1.5 msg size 10\n1->0 start 2 size 0";
        let (program, nodes) = read(rows).unwrap();
        assert_eq!((nodes, program.bytes(), program.pairs().len()), (2, 40870, 2));
        assert_eq!(start("1.5", Dur::nanos(1)), Ok(Dur(1500)));
    }
    #[test]
    fn a_circle_of_triggers_is_told() {
        let rows = "Nodes 4\ntrigger id 1 oneshot\ntrigger id 2 barrier count 1\n\
                    0->1 trigger 1 size 5 send_done_trigger 2\n2->3 trigger 2 size 5 recv_done_trigger 1";
        let error = read(rows).unwrap_err();
        assert!(error.contains("can never begin"), "{error}");
        let open = rows.replace("0->1 trigger 1", "0->1 start 7");
        assert_eq!(read(&open).unwrap().0.pairs().len(), 2);
    }
}
