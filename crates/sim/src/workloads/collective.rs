//! Collective operations as schedules of messages: who sends what to whom, and after which message.
//!
//! Sizes are those of NCCL's tests: the buffer of one rank, for all-gather and reduce-scatter the whole one. The bus bandwidth is the
//! algorithm's (size over time) times what every link of a rank has to carry of it at least, by the same source.

use super::program::{Event, Program, Work};

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Every rank ends with the sum of all buffers.
    AllReduce,
    /// Every rank ends with the parts of all.
    AllGather,
    /// Every rank ends with its part of the sum.
    ReduceScatter,
    /// Every rank has a part for every other.
    AllToAll,
}

/// How.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// Parts go round a ring of the ranks (Patarasuk and Yuan, JPDC 2009).
    Ring,
    /// Whole buffers go up a binomial tree and down again (Thakur, Rabenseifner and Gropp, IJHPCA 2005).
    Tree,
    /// Recursive halving, then recursive doubling (Rabenseifner, ICCS 2004); all-gather is the second half, reduce-scatter the first.
    HalvingDoubling,
    /// Rank i sends to i + 1, i + 2, ..., so many at a time.
    Pairwise {
        /// Messages of a rank under way.
        window: usize,
    },
}

/// A collective operation.
#[derive(Clone, Copy, Debug)]
pub struct Collective {
    /// What.
    pub operation: Operation,
    /// How.
    pub algorithm: Algorithm,
    /// Ranks, two at least.
    pub ranks: u32,
    /// Bytes of the buffer of a rank.
    pub bytes: u64,
    /// A rank goes on when its sender knows that a message is acknowledged, not when it has received it.
    pub acknowledged: bool,
}

impl Collective {
    /// Messages in all.
    pub fn messages(&self) -> u64 {
        let n = u64::from(self.ranks);
        match (self.algorithm, self.operation) {
            (Algorithm::Ring, Operation::AllReduce) => 2 * n * (n - 1),
            (Algorithm::Tree, _) => 2 * (n - 1),
            (Algorithm::HalvingDoubling, Operation::AllReduce) => 2 * n * u64::from(n.ilog2()),
            (Algorithm::HalvingDoubling, _) => n * u64::from(n.ilog2()),
            _ => n * (n - 1),
        }
    }
    /// Why it cannot be.
    ///
    /// # Errors
    /// An algorithm for another operation, a number of ranks that is no power of two, less than a byte for a rank; the key and the rule.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        use Algorithm::{HalvingDoubling, Pairwise, Ring, Tree};
        use Operation::{AllReduce, AllToAll};
        let fits = match self.algorithm {
            Ring => self.operation != AllToAll,
            Tree => self.operation == AllReduce,
            HalvingDoubling => self.operation != AllToAll,
            Pairwise { .. } => self.operation == AllToAll,
        };
        if !fits {
            let rule = "must be pairwise for all-to-all, ring, tree or halving-doubling for all-reduce, ring or halving-doubling for \
                        all-gather and reduce-scatter";
            return Err(("algorithm", rule.into()));
        }
        if self.algorithm == HalvingDoubling && !self.ranks.is_power_of_two() {
            return Err(("algorithm", format!("needs a power of two of hosts; there are {}", self.ranks)));
        }
        if self.bytes < u64::from(self.ranks) {
            return Err(("size", format!("must be at least one byte for each of the {} hosts", self.ranks)));
        }
        Ok(())
    }
    /// Bus bandwidth as a multiple of the algorithm's.
    pub fn bus(&self) -> f64 {
        let n = f64::from(self.ranks);
        match self.operation {
            Operation::AllReduce => 2.0 * (n - 1.0) / n,
            _ => (n - 1.0) / n,
        }
    }
    /// Bytes of part `i` of the buffer, which is split as evenly as it can be.
    fn part(&self, i: u32) -> u64 {
        let n = u64::from(self.ranks);
        self.bytes / n + u64::from(u64::from(i) < self.bytes % n)
    }
    /// Bytes of parts `[from, from + count)`.
    fn parts(&self, from: u32, count: u32) -> u64 {
        let (n, from, count) = (u64::from(self.ranks), u64::from(from), u64::from(count));
        self.bytes / n * count + (self.bytes % n).clamp(from, from + count) - from
    }
    /// Exchanges with a partner in the first half of halving and doubling, and in all.
    fn exchanges(&self) -> (u32, u32) {
        let steps = self.ranks.ilog2();
        match self.operation {
            Operation::AllGather => (0, steps),
            Operation::ReduceScatter => (steps, steps),
            _ => (steps, 2 * steps),
        }
    }

    // ---- messages by number: round times ranks, plus the rank that sends ---------------------------------

    /// So many messages wait for no other: the first by number.
    pub(super) fn begins(&self) -> u32 {
        match self.algorithm {
            Algorithm::Pairwise { window } => self.ranks * (self.ranks - 1).min(window.min(1 << 20) as u32),
            _ => self.ranks,
        }
    }
    /// Sender, receiver and bytes of a message.
    pub(super) fn message(&self, number: u32) -> (u32, u32, u64) {
        let n = self.ranks;
        let (round, rank) = (number / n, number % n);
        match self.algorithm {
            Algorithm::Ring | Algorithm::Tree => {
                // What it passes on: in round 0 its own part, then what it got in the round before.
                let part = (rank + n - round % n) % n;
                (rank, (rank + 1) % n, self.part(part))
            }
            Algorithm::Pairwise { .. } => {
                let to = (rank + round + 1) % n;
                (rank, to, self.part(to))
            }
            Algorithm::HalvingDoubling => {
                let (halvings, _) = self.exchanges();
                // Halving sends the partner's half of what both have, doubling all of one's own.
                let (half, keep) = match round.checked_sub(halvings) {
                    None => (1 << (halvings - 1 - round), false),
                    Some(doubling) => (1 << doubling, true),
                };
                let partner = rank ^ half;
                // Parts that a rank is responsible for begin at its number without the bits below `half`.
                let first = if keep { rank } else { partner } / half * half;
                (rank, partner, self.parts(first, half))
            }
        }
    }
    /// The message that an event of another lets go, where there is one.
    pub(super) fn next(&self, number: u32, event: Event) -> Option<u32> {
        let n = self.ranks;
        let (round, rank) = (number / n, number % n);
        let (waits_for, rounds, rank) = match self.algorithm {
            // A window is of messages that are not acknowledged.
            Algorithm::Pairwise { window } => {
                let next = u32::try_from(window).ok().and_then(|window| round.checked_add(window));
                return next.filter(|next| event == Event::Done && *next < n - 1).map(|next| next * n + rank);
            }
            Algorithm::HalvingDoubling => {
                let (_, exchanges) = self.exchanges();
                (self.got(), exchanges, self.message(number).1)
            }
            _ => (self.got(), (self.messages() / u64::from(n)) as u32, (rank + 1) % n),
        };
        (event == waits_for && round + 1 < rounds).then_some((round + 1) * n + rank)
    }
    fn send(p: &mut Program, from: u32, to: u32, bytes: u64) -> u32 {
        p.add(Work::Send { from, to, bytes, tag: None }, 0)
    }
    /// What lets a rank go on with what a message has brought.
    fn got(&self) -> Event {
        if self.acknowledged {
            Event::Done
        } else {
            Event::Arrived
        }
    }
    pub(super) fn tree(&self, p: &mut Program) {
        let n = self.ranks;
        // The parent of a rank is the rank without its lowest bit that is set.
        let parent = |rank: u32| rank & (rank - 1);
        // Up, children before their parents: what each child sends is known when its parent's message is made.
        let mut up = vec![0; n as usize];
        let mut order: Vec<u32> = (1..n).collect();
        order.sort_by_key(|r| r.trailing_zeros());
        for rank in &order {
            let send = Self::send(p, *rank, parent(*rank), self.bytes);
            up[*rank as usize] = send;
            for child in (1..n).filter(|c| parent(*c) == *rank) {
                p.wait(send, up[child as usize], self.got());
            }
        }
        // Down, the largest subtree first.
        let mut down: Vec<Option<u32>> = vec![None; n as usize];
        let mut latest: Vec<Option<u32>> = vec![None; n as usize];
        order.reverse();
        for rank in &order {
            let from = parent(*rank);
            let send = Self::send(p, from, *rank, self.bytes);
            down[*rank as usize] = Some(send);
            // One after the other, as a blocking send does: a rank knows that by its acknowledgement.
            if let Some(before) = latest[from as usize].replace(send) {
                p.wait(send, before, Event::Done);
            }
            match down[from as usize] {
                Some(got) => p.wait(send, got, self.got()),
                // The root has everything when all its children have reported.
                None => {
                    for child in (1..n).filter(|c| parent(*c) == 0) {
                        p.wait(send, up[child as usize], self.got());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::schedule::Script;

    fn collective(operation: Operation, algorithm: Algorithm, ranks: u32, bytes: u64) -> Collective {
        let c = Collective { operation, algorithm, ranks, bytes, acknowledged: false };
        c.check().unwrap();
        c
    }

    #[test]
    fn every_rank_sends_what_the_algorithm_says() {
        use Algorithm::{HalvingDoubling, Pairwise, Ring, Tree};
        use Operation::{AllGather, AllReduce, AllToAll, ReduceScatter};
        for (operation, algorithm, n, bytes, total) in [
            // 2 (n-1)/n of the buffer per rank, n ranks; odd sizes are not lost.
            (AllReduce, Ring, 4, 1000, 2 * 3 * 1000),
            (AllReduce, Ring, 5, 1003, 2 * 4 * 1003),
            (AllGather, Ring, 4, 1000, 3 * 1000),
            (ReduceScatter, Ring, 7, 1000, 6 * 1000),
            (AllReduce, HalvingDoubling, 8, 1001, 2 * 7 * 1001),
            (AllGather, HalvingDoubling, 8, 1000, 7 * 1000),
            (ReduceScatter, HalvingDoubling, 8, 1000, 7 * 1000),
            // Every rank but the root sends its whole buffer up, and gets it from above.
            (AllReduce, Tree, 6, 1000, 2 * 5 * 1000),
            // All but one's own part.
            (AllToAll, Pairwise { window: 2 }, 5, 1000, 5 * 4 * 200),
        ] {
            let c = collective(operation, algorithm, n, bytes);
            match c.script() {
                Script::Tasks(mut p) => {
                    assert_eq!((p.bytes(), p.len() as u64), (total, c.messages()), "{c:?}");
                    assert_eq!(p.check(), Ok(()), "{c:?}");
                }
                Script::Rounds(c) => assert_eq!(walked(&c), (total, c.messages()), "{c:?}"),
            }
        }
    }
    /// Bytes and messages of one that is carried out to its end, each message once.
    fn walked(c: &Collective) -> (u64, u64) {
        let mut list: Vec<u32> = (0..c.begins()).collect();
        let mut at = 0;
        while let Some(number) = list.get(at).copied() {
            at += 1;
            let events = [Event::Begun, Event::Arrived, Event::Done];
            let next: Vec<u32> = events.into_iter().filter_map(|event| c.next(number, event)).collect();
            assert!(next.len() <= 1);
            // The rank that goes on is the one that has received, or that knows of its own message.
            let (from, to, _) = c.message(number);
            let on = if matches!(c.algorithm, Algorithm::Pairwise { .. }) { from } else { to };
            assert!(next.iter().all(|next| c.message(*next).0 == on), "{c:?}: {number}");
            list.extend(next);
        }
        let bytes = list.iter().map(|number| c.message(*number).2).sum();
        let once: std::collections::BTreeSet<u32> = list.iter().copied().collect();
        assert_eq!(once.len(), list.len(), "{c:?}");
        (bytes, list.len() as u64)
    }
    #[test]
    fn a_ring_of_1024_ranks_has_two_million_messages_and_no_list_of_them() {
        let c = collective(Operation::AllReduce, Algorithm::Ring, 1024, 1 << 28);
        assert_eq!((c.messages(), c.begins()), (2_095_104, 1024));
        assert!(size_of::<Collective>() <= 48);
        // The last round of rank 5: what it got from rank 4.
        let last = 2045 * 1024 + 5;
        assert_eq!((c.next(last - 1025, Event::Arrived), c.next(last, Event::Arrived)), (Some(last), None));
        assert_eq!(c.message(last), (5, 6, 1 << 18));
    }
    #[test]
    fn halving_and_doubling_exchange_the_parts_of_their_partners() {
        let c = collective(Operation::AllReduce, Algorithm::HalvingDoubling, 8, 803);
        // Parts 0, 1 and 2 have 101 bytes, the others 100. Rank 5 halves with 1, 7, 4, then doubles with 4, 7, 1.
        let of_5: Vec<_> = (0..6).map(|round| c.message(round * 8 + 5)).collect();
        assert_eq!(of_5, [(5, 1, 403), (5, 7, 200), (5, 4, 100), (5, 4, 100), (5, 7, 200), (5, 1, 400)]);
    }
    #[test]
    fn what_an_algorithm_cannot_do_is_refused() {
        let check = |operation, algorithm, ranks, bytes| {
            Collective { operation, algorithm, ranks, bytes, acknowledged: false }.check().unwrap_err()
        };
        assert_eq!(check(Operation::AllToAll, Algorithm::Ring, 4, 100).0, "algorithm");
        assert_eq!(
            check(Operation::AllReduce, Algorithm::HalvingDoubling, 6, 100),
            ("algorithm", "needs a power of two of hosts; there are 6".into())
        );
        let few = check(Operation::AllGather, Algorithm::Ring, 6, 5);
        assert_eq!(few, ("size", "must be at least one byte for each of the 6 hosts".into()));
    }
    #[test]
    fn bus_bandwidth_is_that_of_nccl_s_tests() {
        let bus = |operation, algorithm| collective(operation, algorithm, 8, 800).bus();
        assert_eq!(bus(Operation::AllReduce, Algorithm::Ring), 1.75);
        assert_eq!(bus(Operation::AllGather, Algorithm::Ring), 0.875);
        assert_eq!(bus(Operation::AllToAll, Algorithm::Pairwise { window: 1 }), 0.875);
    }
}
