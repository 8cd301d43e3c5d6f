//! Entropy chosen at the sender: which of its paths a packet takes where switches hash a value of the packet (`spread=entropy`).
//!
//! Parameters are those of the Ultra Ethernet Consortium's public simulator (uet-htsim, commit 40ccb05), as its description states them; REPS:
//! Bonato et al., "REPS: Recycled Entropy Packet Spraying", 2024 (from memory).

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use penstock_core::{Kind, ParamSpec, Params, Stream};
use penstock_units::{Dur, Time};

/// The rule, by name.
pub const RULE: ParamSpec = ParamSpec::new(
    "paths_by",
    Kind::Choice(&["oblivious", "bitmap", "reps", "mixed"]),
    "oblivious",
    "path of a packet: oblivious: all values in turn; bitmap: skips values with marks, trims or timeouts; reps: reuses values that returned \
    unmarked; mixed: reps, else bitmap",
    "uet-htsim; REPS: Bonato et al., 2024",
);
/// How many values.
pub const PATHS: ParamSpec = ParamSpec::new(
    "paths",
    Kind::Count,
    "64",
    "values among which packets take their paths, a power of two where they take turns; 1 = one path per flow",
    "uet-htsim",
)
.range(1.0, 65536.0);

/// Values that REPS keeps (REPS, section 3: eight suffice).
const KEPT: usize = 8;
/// REPS stays frozen for so long, then draws so many values afresh (uet-htsim).
const FROZEN: Dur = Dur::millis(10);
const AFRESH: u32 = 16;
/// What bitmap counts against a value: marked, trimmed, lost; and the most that adds up. One is taken off for every packet that finds the
/// value in its turn, and is the first of those that the packet passes over.
const MARKED: u8 = 1;
const TRIMMED: u8 = 4;
const LOST: u8 = 15;

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It came through unmarked.
    Good,
    /// It was marked.
    Marked,
    /// It was trimmed.
    Trimmed,
    /// Nothing was heard of it.
    Lost,
}

/// A rule as a protocol's parameters have it.
#[derive(Clone, Copy, Debug)]
pub struct PathRule {
    bitmap: bool,
    reps: bool,
    fifo: bool,
    paths: u32,
    penalties: [u8; 3],
    /// A packet takes one off the first value alone that it passes over; otherwise off each.
    first_alone: bool,
}

impl PathRule {
    /// The rule of [`RULE`] and [`PATHS`].
    ///
    /// # Errors
    /// A number of values that is no power of two, where they take turns.
    pub fn parse(p: &Params) -> Result<PathRule, penstock_core::ParamError> {
        let (name, paths) = (p.text(RULE.name), p.count(PATHS.name) as u32);
        if name != "reps" && !paths.is_power_of_two() {
            return Err(p.error(PATHS.name, "must be a power of two where values take turns"));
        }
        Ok(PathRule {
            bitmap: name == "bitmap" || name == "mixed",
            reps: name == "reps",
            fifo: name == "mixed",
            paths,
            penalties: [MARKED, TRIMMED, LOST],
            first_alone: true,
        })
    }
    /// Values in turn, passed over once for every mark or trim (csg-htsim's EQDS).
    pub fn bitmap_of_one(paths: u32) -> PathRule {
        let penalties = [1, 1, LOST];
        PathRule { bitmap: true, reps: false, fifo: false, paths, penalties, first_alone: false }
    }
}

/// The choice of one sender.
#[derive(Clone, Debug)]
pub struct Chooser {
    rule: PathRule,
    /// Values in turn: the next index, and what it is changed by this time round.
    index: u32,
    flip: u32,
    /// Turns for which a value is passed over.
    skip: Vec<u8>,
    /// Values that came back unmarked: for REPS the latest eight in a circle, `fresh` of which were not used again.
    kept: Vec<u32>,
    head: usize,
    fresh: usize,
    frozen_at: Option<Time>,
    frozen_turn: usize,
    afresh: u32,
    /// Path values to use again, without a limit on their number; for `mixed`.
    recycled: VecDeque<u32>,
}

impl Chooser {
    /// A sender that has sent nothing.
    pub fn new(rule: PathRule, rng: &mut Stream) -> Chooser {
        Chooser {
            index: 0,
            flip: rng.below(u64::from(rule.paths)) as u32,
            skip: if rule.bitmap { vec![0; rule.paths as usize] } else { Vec::new() },
            kept: Vec::new(),
            head: 0,
            fresh: 0,
            frozen_at: None,
            frozen_turn: 0,
            afresh: 0,
            recycled: VecDeque::new(),
            rule,
        }
    }
    /// The value of the next packet.
    pub fn next(&mut self, rng: &mut Stream) -> u32 {
        if self.rule.reps {
            return self.next_reps(rng);
        }
        if let Some(value) = self.recycled.pop_front() {
            return value;
        }
        // Where each that is passed over counts down, all have done so after so many rounds; otherwise one round is looked at.
        let (rounds, mut counts) =
            if self.rule.first_alone { (1, 1) } else { (u32::from(LOST + 1), u32::MAX) };
        let mut value = self.next_in_turn(rng);
        for _ in 0..rounds * self.rule.paths {
            match self.skip.get_mut(value as usize) {
                Some(turns) if *turns > 0 && counts > 0 => (*turns, counts) = (*turns - 1, counts - 1),
                Some(turns) if *turns > 0 => {}
                _ => return value,
            }
            value = self.next_in_turn(rng);
        }
        value
    }
    /// Every value once each time round, in an order that changes every time.
    fn next_in_turn(&mut self, rng: &mut Stream) -> u32 {
        if self.index == self.rule.paths {
            self.index = 0;
            self.flip = rng.below(u64::from(self.rule.paths)) as u32;
        }
        self.index += 1;
        (self.index - 1) ^ self.flip
    }
    fn next_reps(&mut self, rng: &mut Stream) -> u32 {
        if self.afresh > 0 {
            self.afresh -= 1;
        } else if self.frozen_at.is_some() && !self.kept.is_empty() {
            // Known to have worked, used or not, over and over.
            let at = self.frozen_turn % self.kept.len();
            self.frozen_turn = at + 1;
            return self.kept[at];
        } else if self.fresh > 0 {
            let at = (self.head + KEPT - self.fresh) % KEPT;
            self.fresh -= 1;
            return self.kept[at];
        }
        rng.below(u64::from(self.rule.paths)) as u32
    }
    /// A packet with this value was heard of, or not.
    pub fn told(&mut self, now: Time, value: u32, fate: Fate) {
        if self.rule.bitmap && fate != Fate::Good {
            let turns = &mut self.skip[value as usize % self.rule.paths as usize];
            let more = self.rule.penalties[fate as usize - 1];
            *turns = (*turns + more).min(LOST);
        }
        if fate == Fate::Good && self.rule.fifo {
            self.recycled.push_back(value);
        }
        if !self.rule.reps {
            return;
        }
        if fate == Fate::Lost && self.frozen_at.is_none() && self.afresh == 0 {
            (self.frozen_at, self.frozen_turn) = (Some(now), 0);
        }
        if self.frozen_at.is_some_and(|since| now > since + FROZEN) {
            self.frozen_at = None;
            (self.head, self.fresh, self.afresh) = (0, 0, AFRESH);
            self.kept.clear();
        }
        // A frozen cache takes values, too: a packet that came back shows that its path works.
        if fate == Fate::Good {
            if self.kept.len() < KEPT {
                self.kept.push(value);
            } else {
                self.kept[self.head] = value;
            }
            self.head = (self.head + 1) % KEPT;
            self.fresh = (self.fresh + 1).min(KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::rng::Entity;

    fn chooser(name: &str, paths: u32) -> (Chooser, Stream) {
        let given = [("paths_by".into(), name.into()), ("paths".into(), alloc::format!("{paths}"))];
        let p = Params::parse("test", &[RULE, PATHS], &given).unwrap();
        let mut rng = Stream::new(1, 0, Entity::Sender, 0);
        (Chooser::new(PathRule::parse(&p).unwrap(), &mut rng), rng)
    }

    #[test]
    fn values_take_turns_and_each_comes_once() {
        let (mut c, mut rng) = chooser("oblivious", 8);
        let rounds: Vec<Vec<u32>> = (0..6).map(|_| (0..8).map(|_| c.next(&mut rng)).collect()).collect();
        for round in &rounds {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6, 7]);
        }
        assert!(rounds.windows(2).any(|w| w[0] != w[1]), "another order");
    }
    #[test]
    fn bitmap_passes_over_what_was_told_badly_of() {
        let (mut c, mut rng) = chooser("bitmap", 4);
        c.told(Time::ZERO, 2, Fate::Trimmed);
        c.told(Time::ZERO, 1, Fate::Marked);
        let next: Vec<u32> = (0..18).map(|_| c.next(&mut rng)).collect();
        let count = |v: u32| next.iter().filter(|n| **n == v).count();
        // Five and a half rounds: value 1 is left out once, value 2 four times.
        assert!(count(2) <= 2 && count(0) >= 5 && count(3) >= 5, "{next:?}");
        // All of them bad: it goes on all the same.
        (0..4).for_each(|v| c.told(Time::ZERO, v, Fate::Lost));
        c.next(&mut rng);
    }
    #[test]
    fn a_packet_takes_one_off_the_first_value_that_it_passes_over() {
        let left = |rule: PathRule| {
            let mut rng = Stream::new(1, 0, Entity::Sender, 0);
            let mut c = Chooser::new(rule, &mut rng);
            // All four values are marked three times.
            (0..4).for_each(|v| (0..3).for_each(|_| c.told(Time::ZERO, v, Fate::Marked)));
            c.next(&mut rng);
            c.skip.iter().map(|turns| u32::from(*turns)).sum::<u32>()
        };
        let rule = PathRule { first_alone: true, ..PathRule::bitmap_of_one(4) };
        // The first packet passes over all of them: three rounds where each counts down, and one mark less where the first does.
        assert_eq!([left(PathRule::bitmap_of_one(4)), left(rule)], [0, 11]);
    }
    #[test]
    fn reps_uses_again_what_came_back() {
        let (mut c, mut rng) = chooser("reps", 1024);
        for v in [11, 12, 13] {
            c.told(Time::ZERO, v, Fate::Good);
        }
        c.told(Time::ZERO, 99, Fate::Marked);
        assert_eq!([c.next(&mut rng), c.next(&mut rng), c.next(&mut rng)], [11, 12, 13]);
        // Ten come back; the first two are forgotten.
        (20..30).for_each(|v| c.told(Time::ZERO, v, Fate::Good));
        let again: Vec<u32> = (0..8).map(|_| c.next(&mut rng)).collect();
        assert_eq!(again, [22, 23, 24, 25, 26, 27, 28, 29]);
    }
    #[test]
    fn reps_freezes_on_a_loss_and_thaws() {
        let (mut c, mut rng) = chooser("reps", 1024);
        (20..24).for_each(|v| c.told(Time::ZERO, v, Fate::Good));
        c.told(Time::ZERO, 999, Fate::Lost);
        let frozen: Vec<u32> = (0..12).map(|_| c.next(&mut rng)).collect();
        assert!(frozen.iter().all(|v| (20..24).contains(v)), "{frozen:?}");
        // What comes back meanwhile is used as well; 10 ms later it begins anew.
        c.told(Time::ZERO + Dur::millis(1), 500, Fate::Good);
        let frozen: Vec<u32> = (0..10).map(|_| c.next(&mut rng)).collect();
        assert_eq!(frozen.iter().filter(|v| **v == 500).count(), 2, "{frozen:?}");
        assert!(frozen.iter().all(|v| (20..24).contains(v) || *v == 500), "{frozen:?}");
        c.told(Time::ZERO + Dur::millis(11), 600, Fate::Good);
        let fresh: Vec<u32> = (0..16).map(|_| c.next(&mut rng)).collect();
        assert!(fresh.iter().filter(|v| (20..24).contains(*v)).count() < 3, "{fresh:?}");
        assert_eq!(c.next(&mut rng), 600, "what came back last is the first of the new ones");
    }
}
