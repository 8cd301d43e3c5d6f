//! Assigns logical processes to threads.

use std::ops::Range;

/// Parts are assigned anew after so many windows.
pub(super) const EVERY: u64 = 16;
/// A part that changes threads loses its cached memory. It only moves if the busiest thread's load shrinks by this share at least.
const WORTH: f64 = 0.05;

/// Threads of the parts, and the work of the last windows. All threads keep one, note the same and so reach the same assignment.
pub(super) struct Balance {
    threads: usize,
    /// By part: the thread that has it, and the one that is to have it from the next window on.
    now: Vec<u16>,
    next: Vec<u16>,
    /// By part: packet-hops in the last windows.
    loads: Vec<u64>,
    windows: u64,
    changes: bool,
    /// Of the last window: packet-hops of all, and of the thread that had most.
    last: (u64, u64),
}

impl Balance {
    /// Consecutive parts for each thread, equally many.
    pub fn new(threads: usize, parts: usize) -> Balance {
        let now: Vec<u16> = (0..parts).map(|part| (part * threads / parts) as u16).collect();
        let next = now.clone();
        Balance { threads, now, next, loads: vec![0; parts], windows: 0, changes: false, last: (0, 0) }
    }
    /// The parts of a thread, those that it is to have where that changes; the first part always is the first thread's.
    pub fn of(&self, thread: usize) -> impl Iterator<Item = u16> + '_ {
        let parts: Range<u16> = 0..self.next.len() as u16;
        parts.filter(move |part| self.thread_of(*part) == thread)
    }
    /// The thread that is to have a part.
    pub fn thread_of(&self, part: u16) -> usize {
        usize::from(self.next[usize::from(part)])
    }
    /// Some part is to change hands after this window.
    pub fn changes(&self) -> bool {
        self.changes
    }
    /// They have changed hands.
    pub fn changed(&mut self) {
        self.now.clone_from(&self.next);
        self.changes = false;
    }
    /// Nothing is to change any more.
    pub fn rest(&mut self) {
        self.next.clone_from(&self.now);
        self.changes = false;
    }
    /// The first thread is to have all parts.
    pub fn leave_to_first(&mut self) {
        self.next.fill(0);
        self.changes = true;
    }
    /// The first thread has all parts, and they are to be shared out as at the beginning.
    pub fn share_out(&mut self) {
        let (threads, parts) = (self.threads, self.next.len());
        *self = Balance::new(threads, parts);
        self.now.fill(0);
        self.changes = true;
    }
    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.threads
    }
    /// Packet-hops of all and of the busiest thread in the last window.
    pub fn last(&self) -> (u64, u64) {
        self.last
    }
    /// A window is over, in which each part had so many packet-hops.
    pub fn note(&mut self, hops: impl Iterator<Item = u64>) {
        let mut own = vec![0; self.threads];
        let mut all = 0;
        for ((part, hops), load) in hops.enumerate().zip(&mut self.loads) {
            own[usize::from(self.now[part])] += hops;
            (all, *load) = (all + hops, *load + hops);
        }
        self.last = (all, own.into_iter().max().unwrap_or(0));
        self.windows += 1;
        if self.now.len() > self.threads && self.windows.is_multiple_of(EVERY) {
            self.plan();
            self.loads.fill(0);
        }
    }
    /// The largest part first, each to the thread that has least so far (Graham 1969): at most a third above the best there is.
    fn plan(&mut self) {
        let mut order: Vec<usize> = (1..self.loads.len()).collect();
        order.sort_by_key(|part| (std::cmp::Reverse(self.loads[*part]), *part));
        let mut found = vec![0u64; self.threads];
        let mut next = vec![0u16; self.loads.len()];
        found[0] = self.loads[0];
        for part in order {
            // Of those with as little the one that has it.
            let least = found.iter().min().copied().unwrap_or(0);
            let had = usize::from(self.now[part]);
            let thread =
                if found[had] == least { had } else { found.iter().position(|l| *l == least).unwrap_or(0) };
            found[thread] += self.loads[part];
            next[part] = thread as u16;
        }
        let mut present = vec![0u64; self.threads];
        self.now.iter().zip(&self.loads).for_each(|(thread, load)| present[usize::from(*thread)] += load);
        let most = |loads: &[u64]| loads.iter().max().copied().unwrap_or(0) as f64;
        let each = (0..self.threads as u16).all(|thread| next.contains(&thread));
        self.changes = each && most(&found) < (1.0 - WORTH) * most(&present);
        if self.changes {
            self.next = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(threads: usize, hops: &[u64], windows: u64) -> Balance {
        let mut balance = Balance::new(threads, hops.len());
        (0..windows).for_each(|_| balance.note(hops.iter().copied()));
        balance
    }
    fn loads(balance: &Balance, hops: &[u64]) -> Vec<u64> {
        let of = |thread| balance.of(thread).map(|part| hops[usize::from(part)]).sum();
        (0..balance.threads).map(of).collect()
    }

    /// 9, 7, 6, 5, 5, 4, 4 and 2 in two runs of four are 27 and 15; the largest first they are 20 and 22.
    #[test]
    fn the_last_windows_say_who_has_what() {
        let hops = [9, 7, 6, 5, 5, 4, 4, 2];
        let mut balance = noted(2, &hops, EVERY - 1);
        assert!(!balance.changes());
        assert_eq!((loads(&balance, &hops), balance.last()), (vec![27, 15], (42, 27)));
        balance.note(hops.iter().copied());
        assert!(balance.changes());
        assert_eq!(loads(&balance, &hops), [20, 22]);
        assert_eq!(balance.thread_of(0), 0);
        balance.changed();
        balance.note(hops.iter().copied());
        assert_eq!(balance.last(), (42, 22));
        // Other windows, others that are large: what the first ones had is forgotten.
        let later = [9, 0, 0, 0, 1, 9, 9, 9];
        (0..2 * EVERY).for_each(|_| {
            balance.note(later.iter().copied());
            if balance.changes() {
                balance.changed();
            }
        });
        assert_eq!(balance.last(), (37, 19));
    }
    #[test]
    fn what_is_even_stays_where_it_is() {
        for hops in [vec![10; 8], vec![10, 10, 10, 10, 10, 10, 10, 11], vec![0; 8]] {
            let balance = noted(2, &hops, 4 * EVERY);
            assert!(!balance.changes(), "{hops:?}");
        }
        // A part for each: there is nothing to share out.
        assert!(!noted(2, &[100, 1], 4 * EVERY).changes());
    }
    #[test]
    fn at_the_end_nothing_changes_hands() {
        let hops = [9, 7, 6, 5, 5, 4, 4, 2];
        let mut balance = noted(2, &hops, EVERY);
        assert!(balance.changes());
        balance.rest();
        assert!(!balance.changes());
        assert_eq!(loads(&balance, &hops), [27, 15]);
    }
}
