//! GOAL: schedules of ranks that send, receive and compute (Hoefler, Siebert and Lumsdaine, Group Operation Assembly Language, ICPP 2009;
//! the text form that LogGOPSim reads).
//!
//! A file is `num_ranks N`, then `rank R {` ... `}` with one statement per line, which a label `NAME:` may precede. Statements are:
//!
//! - `send SIZEb to RANK` and `recv SIZEb from RANK`, both with `tag T cpu C nic I` if wanted and in this order;
//! - `calc TIME` with `cpu C`;
//! - `A requires B` (A begins after the end of B) and `A irequires B` (A begins after the begin of B).
//!
//! The number -1 is any rank or any tag of a receive. Comments are those of C++. A message of `0b`, as a barrier sends it, is a packet with one byte of
//! payload in a simulated network: a transport without data has nothing to acknowledge.

use super::program::{Event, Program, Work};
use penstock_core::bail_if;
use penstock_units::Dur;
use std::collections::BTreeMap;

/// What a rank does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Sends to a rank.
    Send {
        /// Bytes.
        bytes: u64,
        /// To whom.
        to: u32,
        /// Tag.
        tag: u32,
    },
    /// Receives.
    Recv {
        /// Bytes.
        bytes: u64,
        /// From whom; `None` = anybody.
        from: Option<u32>,
        /// Tag; `None` = any.
        tag: Option<u32>,
    },
    /// Computes for so many units of time.
    Calc(u64),
}

/// An operation of a rank.
#[derive(Clone, Debug)]
pub struct Op {
    /// What.
    pub kind: Kind,
    /// Processor.
    pub cpu: u32,
    /// Network interface; they are one in a simulated network.
    pub nic: u32,
    /// Its line.
    pub line: usize,
    /// Operations of the same rank, before which it may not begin; true = their begin is enough.
    pub needs: Vec<(u32, bool)>,
}

/// A schedule as read: the operations of every rank.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    /// By rank.
    pub ranks: Vec<Vec<Op>>,
    /// Line where each rank begins; 0 = it has nothing to do.
    pub lines: Vec<usize>,
}

/// The tasks of an operation: what begins it, and what is its begin and its end.
type Parts = (u32, (u32, Event), (u32, Event));

/// Most ranks of a file.
const MOST_RANKS: u64 = 1_000_000;

/// The text without comments, lines kept.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = match rest.get(..2) {
            Some("//") => rest.find('\n').unwrap_or(rest.len()),
            Some("/*") => rest.find("*/").map_or(rest.len(), |e| e + 2),
            _ => {
                out.push('/');
                rest = &rest[1..];
                continue;
            }
        };
        out.extend(rest[..end].chars().filter(|c| *c == '\n'));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Reads one statement's words.
struct Words<'a> {
    words: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.words.next().unwrap_or("");
        word.parse().map_err(|_| format!("must have {what} where it has {word:?}"))
    }
    fn expect(&mut self, word: &str) -> Result<(), String> {
        match self.words.next() {
            Some(found) if found == word => Ok(()),
            found => Err(format!("must have {word:?} where it has {:?}", found.unwrap_or(""))),
        }
    }
    fn option(&mut self, name: &str) -> Result<Option<i64>, String> {
        if self.words.next_if(|w| *w == name).is_none() {
            return Ok(None);
        }
        self.number(&format!("a number after {name}")).map(Some)
    }
    fn size(&mut self) -> Result<u64, String> {
        let word = self.words.next().unwrap_or("");
        match word.strip_suffix('b').and_then(|n| n.parse::<u64>().ok()) {
            Some(bytes) if bytes <= 1_000_000_000_000_000 => Ok(bytes),
            _ => Err(format!("must have bytes, as in 8b, where it has {word:?}")),
        }
    }
    fn end(&mut self) -> Result<(), String> {
        match self.words.next() {
            None => Ok(()),
            Some(word) => Err(format!("has {word:?} too many; the order is tag, cpu, nic")),
        }
    }
}

fn natural(name: &str, value: Option<i64>) -> Result<u32, String> {
    let rule = || format!("must have a {name} of 0 or more, not {}", value.unwrap_or(0));
    u32::try_from(value.unwrap_or(0)).map_err(|_| rule())
}

fn operation(text: &str, rank: u32, ranks: u32, line: usize) -> Result<Op, String> {
    let mut w = Words { words: text.split_whitespace().peekable() };
    let peer = |peer: i64| match u32::try_from(peer) {
        Ok(p) if p == rank => Err(format!("is between rank {rank} and itself")),
        Ok(p) if p < ranks => Ok(p),
        _ => Err(format!("names rank {peer}, but there are {ranks}, counted from 0")),
    };
    let kind = match w.words.next() {
        Some("send") => {
            let bytes = w.size()?;
            w.expect("to")?;
            let to = peer(w.number("a rank")?)?;
            Kind::Send { bytes, to, tag: natural("tag", w.option("tag")?)? }
        }
        Some("recv") => {
            let bytes = w.size()?;
            w.expect("from")?;
            let from = w.number::<i64>("a rank")?;
            let from = if from == -1 { None } else { Some(peer(from)?) };
            let tag = match w.option("tag")? {
                Some(-1) => None,
                tag => Some(natural("tag", tag)?),
            };
            Kind::Recv { bytes, from, tag }
        }
        Some("calc") => Kind::Calc(w.number("a time")?),
        other => {
            return Err(format!(
                "must be send, recv, calc, requires or irequires, not {:?}",
                other.unwrap_or("")
            ))
        }
    };
    let cpu = natural("cpu", w.option("cpu")?)?;
    let nic = if matches!(kind, Kind::Calc(_)) { 0 } else { natural("nic", w.option("nic")?)? };
    w.end()?;
    Ok(Op { kind, cpu, nic, line, needs: Vec::new() })
}

fn is_label(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Reads a schedule.
///
/// # Errors
/// Text that is no GOAL, a label that is used before its definition, a rank that does not exist, a send or receive without a partner. Operations that
/// wait for each other in a circle. All errors name the line.
pub fn read_goal(text: &str) -> Result<Goal, String> {
    let clean = without_comments(text);
    let mut goal = Goal::default();
    let mut ranks = None;
    let mut current: Option<(usize, BTreeMap<String, u32>)> = None;
    for (number, line) in (1..).zip(clean.lines()) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let bad = |rule: String| format!("line {number} of the file, {line:?}, {rule}");
        let Some(n) = ranks else {
            let n = line.strip_prefix("num_ranks").and_then(|n| n.trim().parse::<u64>().ok());
            let n = n.filter(|n| (1..=MOST_RANKS).contains(n));
            let n = n.ok_or_else(|| bad(format!("must be num_ranks N, N being 1 to {MOST_RANKS}")))?;
            goal.ranks = vec![Vec::new(); n as usize];
            goal.lines = vec![0; n as usize];
            ranks = Some(n as u32);
            continue;
        };
        let Some((rank, labels)) = current.as_mut() else {
            let rank = line.strip_prefix("rank").and_then(|r| r.trim().strip_suffix('{'));
            let rank = rank.and_then(|r| r.trim().parse::<u32>().ok());
            let rank = rank.ok_or_else(|| bad("must be rank R {".into()))?;
            bail_if!(rank >= n, bad(format!("names rank {rank}, but there are {n}, counted from 0")));
            bail_if!(goal.lines[rank as usize] > 0, bad(format!("is the second rank {rank}")));
            goal.lines[rank as usize] = number;
            current = Some((rank as usize, BTreeMap::new()));
            continue;
        };
        if line == "}" {
            current = None;
            continue;
        }
        let ops = &mut goal.ranks[*rank];
        if let [a, how @ ("requires" | "irequires"), b] = line.split_whitespace().collect::<Vec<_>>()[..] {
            let find = |label: &str| {
                labels
                    .get(label)
                    .copied()
                    .ok_or_else(|| bad(format!("names {label}, which is not defined yet")))
            };
            let (a, b) = (find(a)?, find(b)?);
            ops[a as usize].needs.push((b, how == "irequires"));
            continue;
        }
        let (label, rest) = match line.split_once(':') {
            Some((label, rest)) => (Some(label.trim()), rest),
            None => (None, line),
        };
        let op = operation(rest, *rank as u32, n, number).map_err(bad)?;
        if let Some(label) = label {
            if !is_label(label) {
                return Err(bad(
                    "must have a label of letters, digits and _ that begins with a letter".into()
                ));
            }
            if labels.insert(label.to_owned(), ops.len() as u32).is_some() {
                return Err(bad(format!("defines {label} a second time")));
            }
        }
        ops.push(op);
    }
    if let Some((rank, _)) = current {
        return Err(format!("line {} of the file, rank {rank}, has no closing brace", goal.lines[rank]));
    }
    bail_if!(ranks.is_none(), "the file must begin with num_ranks N");
    goal.check_partners()?;
    let circle = |line| format!("line {line} of the file can never begin: it waits for itself in a circle");
    goal.program(Dur::ZERO, Dur::ZERO).check().map_err(circle)?;
    Ok(goal)
}

impl Goal {
    /// Every receive has a send, and every send a receive, of the same size. Where a rank receives from anybody or with any tag, who
    /// gets what is known only when it happens: there the numbers must agree.
    fn check_partners(&self) -> Result<(), String> {
        type Ends = (Vec<(usize, u64)>, Vec<(usize, u64)>);
        let mut open = vec![false; self.ranks.len()];
        for (at, ops) in self.ranks.iter().enumerate() {
            let wild = |op: &Op| match op.kind {
                Kind::Recv { from, tag, .. } => from.is_none() || tag.is_none(),
                _ => false,
            };
            open[at] = ops.iter().any(wild);
        }
        let mut pairs: BTreeMap<(u32, u32, u32), Ends> = BTreeMap::new();
        for (rank, ops) in (0u32..).zip(&self.ranks) {
            for op in ops {
                match op.kind {
                    Kind::Send { bytes, to, tag } => {
                        let key = if open[to as usize] { (to, 0, 0) } else { (to, rank, tag) };
                        pairs.entry(key).or_default().0.push((op.line, bytes));
                    }
                    Kind::Recv { bytes, from, tag } => {
                        let exact = (rank, from.unwrap_or(0), tag.unwrap_or(0));
                        let key = if open[rank as usize] { (rank, 0, 0) } else { exact };
                        pairs.entry(key).or_default().1.push((op.line, bytes));
                    }
                    Kind::Calc(_) => {}
                }
            }
        }
        for ((to, _, _), (sends, recvs)) in &pairs {
            let n = sends.len().min(recvs.len());
            if let Some((line, _)) = recvs.get(n) {
                return Err(format!("line {line} of the file is a receive that no send matches"));
            }
            if let Some((line, _)) = sends.get(n) {
                return Err(format!(
                    "line {line} of the file is a send that no receive of rank {to} matches"
                ));
            }
            let odd = sends.iter().zip(recvs).find(|(s, r)| s.1 != r.1);
            if let Some((s, r)) = odd.filter(|_| !open[*to as usize]) {
                return Err(format!(
                    "line {} of the file receives {} bytes, but line {} sends {}",
                    r.0, r.1, s.0, s.1
                ));
            }
        }
        Ok(())
    }
    /// The schedule for a simulated network: a send or receive keeps its processor busy for `overhead`, a computation for its
    /// number of `unit`. What a send requires of its own rank is over when its processor is free, as with eager messages.
    pub fn program(&self, overhead: Dur, unit: Dur) -> Program {
        let mut p = Program::default();
        for (rank, ops) in (0u32..).zip(&self.ranks) {
            let mut parts: Vec<Parts> = Vec::with_capacity(ops.len());
            for op in ops {
                let cpu = |p: &mut Program, time| p.add(Work::Compute { rank, cpu: op.cpu, time }, op.line);
                parts.push(match op.kind {
                    Kind::Send { bytes, to, tag } => {
                        let busy = cpu(&mut p, overhead);
                        let work = Work::Send { from: rank, to, bytes: bytes.max(1), tag: Some(tag) };
                        let send = p.add(work, op.line);
                        p.wait(send, busy, Event::Done);
                        (busy, (busy, Event::Begun), (busy, Event::Done))
                    }
                    Kind::Recv { from, tag, .. } => {
                        let take = p.add(Work::Receive { at: rank, from, tag }, op.line);
                        let busy = cpu(&mut p, overhead);
                        p.wait(busy, take, Event::Done);
                        (take, (take, Event::Begun), (busy, Event::Done))
                    }
                    Kind::Calc(n) => {
                        let busy = cpu(&mut p, unit * n);
                        (busy, (busy, Event::Begun), (busy, Event::Done))
                    }
                });
            }
            for (op, part) in ops.iter().zip(&parts) {
                for (before, begin) in &op.needs {
                    let of = parts[*before as usize];
                    let (task, event) = if *begin { of.1 } else { of.2 };
                    p.wait(part.0, task, event);
                }
            }
        }
        p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_labels_and_comments_are_read() {
        let text =
            "// two ranks\nnum_ranks 2\n\nrank 0 { \nl1: send 8b to 1 tag 3 cpu 1 nic 2 /* out\nof */\n\
                    c: calc 100 cpu 1\nc irequires l1\n}\nrank 1 {\nrecv 8b from -1 tag -1\n}\n";
        let goal = read_goal(text).unwrap();
        let op = &goal.ranks[0][0];
        assert_eq!((op.kind, op.cpu, op.nic, op.line), (Kind::Send { bytes: 8, to: 1, tag: 3 }, 1, 2, 5));
        assert_eq!((goal.ranks[0][1].kind, &goal.ranks[0][1].needs), (Kind::Calc(100), &vec![(0, true)]));
        assert_eq!(goal.ranks[1][0].kind, Kind::Recv { bytes: 8, from: None, tag: None });
        assert_eq!((goal.ranks[1][0].line, &goal.lines), (11, &vec![4, 10]));
    }
    #[test]
    fn a_message_without_bytes_is_a_message() {
        let text = "num_ranks 2\nrank 0 {\nsend 0b to 1 tag 1\n}\nrank 1 {\nrecv 0b from 0 tag 1\n}\n";
        let goal = read_goal(text).unwrap();
        assert_eq!(goal.ranks[0][0].kind, Kind::Send { bytes: 0, to: 1, tag: 1 });
        assert_eq!(goal.program(Dur::ZERO, Dur::ZERO).bytes(), 1);
    }
    #[test]
    fn what_is_wrong_is_told_by_its_line() {
        let error = |body: &str| read_goal(&format!("num_ranks 2\nrank 0 {{\n{body}\n")).unwrap_err();
        let other = "\n}\nrank 1 {\nrecv 8b from 0\n}";
        for (body, message) in [
            ("send 8b to 2\n}", "line 3 of the file, \"send 8b to 2\", names rank 2, but there are 2, counted from 0"),
            ("send 8b to 0\n}", "line 3 of the file, \"send 8b to 0\", is between rank 0 and itself"),
            ("send 8 to 1\n}", "line 3 of the file, \"send 8 to 1\", must have bytes, as in 8b, where it has \"8\""),
            ("a: calc 1\nb requires a\n}", "line 4 of the file, \"b requires a\", names b, which is not defined yet"),
            ("a: calc 1\na: calc 2\n}", "line 4 of the file, \"a: calc 2\", defines a a second time"),
            ("send 8b to 1 cpu 1 tag 2\n}", "line 3 of the file, \"send 8b to 1 cpu 1 tag 2\", has \"tag\" too many; the order is tag, cpu, nic"),
            ("wait 3\n}", "line 3 of the file, \"wait 3\", must be send, recv, calc, requires or irequires, not \"wait\""),
            ("calc 1", "line 2 of the file, rank 0, has no closing brace"),
            ("recv 8b from 1\n}", "line 3 of the file is a receive that no send matches"),
            ("send 8b to 1\n}", "line 3 of the file is a send that no receive of rank 1 matches"),
            ("}\nrank 0 {\n}", "line 4 of the file, \"rank 0 {\", is the second rank 0"),
        ] {
            assert_eq!(error(body), message);
        }
        let sizes = error(&format!("send 9b to 1{other}"));
        assert_eq!(sizes, "line 6 of the file receives 8 bytes, but line 3 sends 9");
        let circle = error(&format!("a: send 8b to 1\nb: calc 5\na requires b\nb requires a{other}"));
        assert!(circle.contains("of the file can never begin: it waits for itself in a circle"), "{circle}");
        assert!(circle.starts_with("line 3 ") || circle.starts_with("line 4 "), "{circle}");
        // Each waits for the other's message before it sends its own.
        let across = "r: recv 8b from 1\ns: send 8b to 1\ns requires r\n}\nrank 1 {\nr: recv 8b from 0\ns: send 8b to 0\ns requires r\n}";
        assert!(error(across).contains("can never begin"), "{}", error(across));
        assert_eq!(read_goal("").unwrap_err(), "the file must begin with num_ranks N");
    }
}
