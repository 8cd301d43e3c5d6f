//! LogGOPS: when the ranks of a GOAL schedule are finished in a network that has only a latency, a gap and a rate. Source: Hoefler, Schneider and
//! Lumsdaine, LogGOPSim, HPDC 2010; its conventions from memory and from its finish times, which the tests have.
//!
//! A send keeps the processor for o and the network interface for g + (bytes - 1) G, both from its begin. Its message is at the receiver o + L later.
//! A receive keeps the receiver's processor for o + (bytes - 1) G and its interface for g + (bytes - 1) G. Bytes are charged on the receiver's
//! processor too, so a rank that receives much sends later. Messages are eager, whatever their size.

use super::goal::{Goal, Kind};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Parameters, in the unit of time of the schedule.
#[derive(Clone, Copy, Debug)]
pub struct LogGops {
    /// L, latency.
    pub latency: u64,
    /// o, time of a processor per message.
    pub overhead: u64,
    /// g, time of an interface per message.
    pub gap: u64,
    /// G, time per byte.
    pub per_byte: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// An operation of a rank wants to begin.
    Op { rank: u32, op: u32 },
    /// The message of an operation has reached its receiver.
    Message { rank: u32, op: u32 },
}

struct State<'a> {
    goal: &'a Goal,
    /// From when on processors and interfaces (sending, receiving) are free, by rank and number.
    free: [BTreeMap<(u32, u32), u64>; 3],
    /// Ordered by time, then by when it was put there.
    queue: BinaryHeap<Reverse<(u64, u64, What)>>,
    put: u64,
    waits: Vec<Vec<usize>>,
    /// Who waits for an operation: for its begin or its end.
    then: Vec<Vec<Vec<(u32, bool)>>>,
    /// Receives without a message and messages without a receive, by rank and in order.
    posted: Vec<Vec<u32>>,
    early: Vec<Vec<(u32, u32)>>,
}

const CPU: usize = 0;
const OUT: usize = 1;
const IN: usize = 2;

impl State<'_> {
    fn put(&mut self, at: u64, what: What) {
        self.queue.push(Reverse((at, self.put, what)));
        self.put += 1;
    }
    fn free(&self, of: usize, rank: u32, number: u32) -> u64 {
        self.free[of].get(&(rank, number)).copied().unwrap_or(0)
    }
    /// The begin or the end of an operation at a time.
    fn tell(&mut self, rank: u32, op: u32, begin: bool, at: u64) {
        for (next, of_begin) in self.then[rank as usize][op as usize].clone() {
            if of_begin == begin {
                let waits = &mut self.waits[rank as usize][next as usize];
                *waits -= 1;
                if *waits == 0 {
                    self.put(at, What::Op { rank, op: next });
                }
            }
        }
    }
    fn fits(&self, rank: u32, receive: u32, (from, send): (u32, u32)) -> bool {
        let (Kind::Recv { from: f, tag: t, .. }, Kind::Send { tag, .. }) = (
            self.goal.ranks[rank as usize][receive as usize].kind,
            self.goal.ranks[from as usize][send as usize].kind,
        ) else {
            return false;
        };
        f.is_none_or(|f| f == from) && t.is_none_or(|t| t == tag)
    }
    /// A message meets its receive.
    fn received(&mut self, p: &LogGops, at: u64, rank: u32, receive: u32, (from, send): (u32, u32)) {
        let op = &self.goal.ranks[rank as usize][receive as usize];
        let (cpu, nic) = (op.cpu, op.nic);
        let Kind::Send { bytes, .. } = self.goal.ranks[from as usize][send as usize].kind else { return };
        let long = bytes.saturating_sub(1) * p.per_byte;
        let start = at.max(self.free(CPU, rank, cpu)).max(self.free(IN, rank, nic));
        self.free[CPU].insert((rank, cpu), start + p.overhead + long);
        self.free[IN].insert((rank, nic), start + p.gap + long);
        self.tell(rank, receive, false, start + p.overhead + long);
    }
}

/// When every rank's processors are free for the last time.
pub fn finish_times(goal: &Goal, p: &LogGops) -> Vec<u64> {
    let mut s = State {
        goal,
        free: Default::default(),
        queue: BinaryHeap::new(),
        put: 0,
        waits: goal.ranks.iter().map(|ops| ops.iter().map(|op| op.needs.len()).collect()).collect(),
        then: goal.ranks.iter().map(|ops| vec![Vec::new(); ops.len()]).collect(),
        posted: vec![Vec::new(); goal.ranks.len()],
        early: vec![Vec::new(); goal.ranks.len()],
    };
    for (rank, ops) in goal.ranks.iter().enumerate() {
        for (i, op) in (0u32..).zip(ops) {
            op.needs.iter().for_each(|(of, begin)| s.then[rank][*of as usize].push((i, *begin)));
            if op.needs.is_empty() {
                s.put(0, What::Op { rank: rank as u32, op: i });
            }
        }
    }
    while let Some(Reverse((at, _, what))) = s.queue.pop() {
        match what {
            What::Op { rank, op } => {
                let found = &goal.ranks[rank as usize][op as usize];
                let (cpu, nic) = (found.cpu, found.nic);
                match found.kind {
                    Kind::Send { bytes, .. } => {
                        let free = s.free(CPU, rank, cpu).max(s.free(OUT, rank, nic));
                        if free > at {
                            s.put(free, what);
                            continue;
                        }
                        s.free[CPU].insert((rank, cpu), at + p.overhead);
                        s.free[OUT].insert((rank, nic), at + p.gap + bytes.saturating_sub(1) * p.per_byte);
                        s.tell(rank, op, true, at);
                        s.tell(rank, op, false, at + p.overhead);
                        s.put(at + p.overhead + p.latency, What::Message { rank, op });
                    }
                    Kind::Recv { .. } => {
                        s.tell(rank, op, true, at);
                        let early = s.early[rank as usize].iter().position(|m| s.fits(rank, op, *m));
                        match early {
                            Some(i) => {
                                let message = s.early[rank as usize].remove(i);
                                s.received(p, at, rank, op, message);
                            }
                            None => s.posted[rank as usize].push(op),
                        }
                    }
                    Kind::Calc(time) => {
                        let free = s.free(CPU, rank, cpu);
                        if free > at {
                            s.put(free, what);
                            continue;
                        }
                        s.free[CPU].insert((rank, cpu), at + time);
                        s.tell(rank, op, true, at);
                        s.tell(rank, op, false, at + time);
                    }
                }
            }
            What::Message { rank: from, op } => {
                let Kind::Send { to, .. } = goal.ranks[from as usize][op as usize].kind else { continue };
                let receive = s.posted[to as usize].iter().position(|r| s.fits(to, *r, (from, op)));
                let Some(i) = receive else {
                    s.early[to as usize].push((from, op));
                    continue;
                };
                let receive = s.posted[to as usize][i];
                let taker = &goal.ranks[to as usize][receive as usize];
                let free = s.free(CPU, to, taker.cpu).max(s.free(IN, to, taker.nic));
                if free > at {
                    s.put(free, what);
                    continue;
                }
                s.posted[to as usize].remove(i);
                s.received(p, at, to, receive, (from, op));
            }
        }
    }
    (0..goal.ranks.len() as u32)
        .map(|rank| s.free[CPU].range((rank, 0)..=(rank, u32::MAX)).map(|(_, t)| *t).max().unwrap_or(0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::goal::read_goal;
    use std::fmt::Write as _;

    const A: LogGops = LogGops { latency: 2500, overhead: 1500, gap: 1000, per_byte: 6 };
    const B: LogGops = LogGops { latency: 1000, overhead: 200, gap: 5, per_byte: 1 };

    fn file(ranks: &[String]) -> Goal {
        let mut text = format!("num_ranks {}\n", ranks.len());
        for (rank, body) in ranks.iter().enumerate() {
            write!(text, "\nrank {rank} {{\n{body}}}\n").unwrap();
        }
        read_goal(&text).unwrap()
    }
    /// A ring, in which every send waits for what was received before.
    fn ring(n: usize, bytes: u64) -> Goal {
        let rank = |r: usize| {
            let mut body = String::new();
            for step in 0..2 * (n - 1) {
                writeln!(body, "s{step}: send {bytes}b to {}", (r + 1) % n).unwrap();
                if step > 0 {
                    writeln!(body, "s{step} requires r{}", step - 1).unwrap();
                }
                writeln!(body, "r{step}: recv {bytes}b from {}", (r + n - 1) % n).unwrap();
            }
            body
        };
        file(&(0..n).map(rank).collect::<Vec<_>>())
    }
    /// Partners at these distances (bits of the rank) exchange so much, one after the other.
    fn exchange(n: usize, steps: &[(usize, u64)]) -> Goal {
        let rank = |r: usize| {
            let mut body = String::new();
            for (i, (bit, bytes)) in steps.iter().enumerate() {
                writeln!(body, "s{i}: send {bytes}b to {}", r ^ bit).unwrap();
                if i > 0 {
                    writeln!(body, "s{i} requires r{}", i - 1).unwrap();
                }
                writeln!(body, "r{i}: recv {bytes}b from {}", r ^ bit).unwrap();
            }
            body
        };
        file(&(0..n).map(rank).collect::<Vec<_>>())
    }

    /// Finish times of LogGOPSim itself for schedules of its own generator, given with the reference data of GOAL (LogGOPSim 76451de).
    #[test]
    fn finish_times_are_those_of_loggopsim() {
        let same = |goal: &Goal, a: u64, b: u64| {
            let n = goal.ranks.len();
            assert_eq!((finish_times(goal, &A), finish_times(goal, &B)), (vec![a; n], vec![b; n]));
        };
        same(&ring(4, 1024), 69828, 14538);
        same(&exchange(4, &[(1, 2048), (2, 1024), (2, 1024), (1, 2048)]), 58840, 11740);
        let linear = |r: usize| {
            (1..4).fold(String::new(), |body, away| {
                let (to, from) = ((r + away) % 4, (r + 4 - away) % 4);
                format!("{body}send 1000b to {to}\nrecv 1000b from {from}\n")
            })
        };
        same(&file(&(0..4).map(linear).collect::<Vec<_>>()), 34482, 5001);
        // A binomial tree of eight towards rank 0.
        let tree = |r: usize| {
            let low = if r == 0 { 8 } else { 1 << (r.ilog2() + 1) };
            let children: Vec<usize> = if r == 0 {
                vec![1, 2, 4]
            } else {
                [2, 4].into_iter().filter(|b| *b >= low && r + b < 8).map(|b| r + b).collect()
            };
            let mut body = String::new();
            if r > 0 {
                writeln!(body, "s: send 1024b to {}", r - (1 << r.ilog2())).unwrap();
            }
            for c in children {
                writeln!(body, "r{c}: recv 1024b from {c}").unwrap();
                if r > 0 {
                    writeln!(body, "s requires r{c}").unwrap();
                }
            }
            body
        };
        let goal = file(&(0..8).map(tree).collect::<Vec<_>>());
        assert_eq!(finish_times(&goal, &A), [34914, 24776, 13138, 13138, 1500, 1500, 1500, 1500]);
        assert_eq!(finish_times(&goal, &B), [7269, 5046, 2623, 2623, 200, 200, 200, 200]);
    }
    #[test]
    fn processors_are_of_their_own_and_a_begin_can_be_enough() {
        let text =
            |needs: &str| format!("num_ranks 1\nrank 0 {{\na: calc 100\nb: calc 30 cpu 1\n{needs}\n}}\n");
        let finish = |needs: &str| finish_times(&read_goal(&text(needs)).unwrap(), &A)[0];
        assert_eq!((finish(""), finish("b requires a"), finish("b irequires a")), (100, 130, 100));
    }
}
