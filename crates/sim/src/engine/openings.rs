//! Connections that open within the next window: what is known of them before their hosts have come as far.

use penstock_host::Opening;
use penstock_units::Time;

/// A connection whose sending end is to be opened.
#[derive(Clone)]
pub(super) struct ToOpen {
    /// When.
    pub at: Time,
    /// Its place among what applications do at that time.
    pub order: u64,
    /// The stack.
    pub stack_slot: usize,
    pub ends: Opening,
    /// What it carries; [`u64::MAX`] = without end.
    pub bytes: u64,
    /// What the workload marks that with.
    pub tag: u64,
    /// It ends with that.
    pub close: bool,
    /// Seconds that it takes in the idle network.
    pub ideal: f64,
}

/// None.
const NONE: u32 = u32::MAX;

/// See the top of the file. Workloads are asked for them in the order of time, so those of a host are in it.
#[derive(Default)]
pub(super) struct Openings {
    /// All of the window, each with the number of the next of its host.
    list: Vec<(ToOpen, u32)>,
    /// By host: the first that has not been opened, and the last. Empty where workloads are not asked ahead of time.
    of_host: Vec<(u32, u32)>,
    /// Hosts that have some.
    hosts: Vec<u32>,
    /// While workloads are asked ahead: how far all hosts have come.
    asked: Option<Time>,
}

impl Openings {
    /// Workloads are asked ahead, for so many nodes.
    pub fn ahead(nodes: usize) -> Openings {
        Openings { of_host: vec![(NONE, NONE); nodes], ..Openings::default() }
    }
    /// Workloads are asked ahead of time.
    pub fn are_ahead(&self) -> bool {
        !self.of_host.is_empty()
    }
    /// From now to [`Self::close`] workloads are asked for what they do after `now`.
    pub fn ask(&mut self, now: Time) {
        self.asked = Some(now);
    }
    /// Workloads are asked for nothing any more.
    pub fn close(&mut self) {
        self.asked = None;
    }
    /// When a workload is asked for something that it does at `at`: earlier only if ahead of time.
    pub fn asked_at(&self, at: Time) -> Time {
        self.asked.unwrap_or(at)
    }
    pub fn put(&mut self, opening: ToOpen) {
        let (host, number) = (opening.ends.src, self.list.len() as u32);
        self.list.push((opening, NONE));
        let (first, last) = &mut self.of_host[host as usize];
        if *first == NONE {
            *first = number;
            self.hosts.push(host);
        } else {
            self.list[*last as usize].1 = number;
        }
        *last = number;
    }
    /// When a host has the next one.
    #[inline(always)]
    pub fn next(&self, host: u32) -> Time {
        match self.of_host.get(host as usize) {
            Some((first, _)) if *first != NONE => self.list[*first as usize].0.at,
            _ => Time::NEVER,
        }
    }
    /// The next one of a host.
    pub fn take(&mut self, host: u32) -> Option<ToOpen> {
        let (first, _) = self.of_host.get_mut(host as usize).filter(|(first, _)| *first != NONE)?;
        let (opening, next) = &self.list[*first as usize];
        *first = *next;
        Some(opening.clone())
    }
    /// The hosts that have some in this window.
    pub fn hosts(&self) -> &[u32] {
        &self.hosts
    }
    /// All have been opened.
    pub fn clear(&mut self) {
        self.hosts.clear();
        self.list.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::FlowId;

    fn opening(at: u64, src: u32, number: u32) -> ToOpen {
        let ends = Opening { flow: FlowId(number), src, dst: 9, bytes: 1, ..Opening::default() };
        ToOpen { at: Time(at), order: 0, stack_slot: 0, ends, bytes: 1, tag: 0, close: true, ideal: 0.0 }
    }

    #[test]
    fn every_host_has_its_own_in_order_of_time() {
        let mut openings = Openings::ahead(4);
        for round in 0..2 {
            let asked = [(5, 1), (6, 3), (6, 1), (9, 1)];
            (0u32..).zip(asked).for_each(|(number, (at, host))| openings.put(opening(at, host, number)));
            let mut found = Vec::new();
            for host in openings.hosts().to_vec() {
                while openings.next(host) != Time::NEVER {
                    let next = openings.next(host);
                    let taken = openings.take(host).unwrap();
                    assert_eq!(taken.at, next);
                    found.push((host, taken.at.0, taken.ends.flow.0));
                }
                assert!(openings.take(host).is_none(), "round {round}");
            }
            assert_eq!(found, [(1, 5, 0), (1, 6, 2), (1, 9, 3), (3, 6, 1)]);
            openings.clear();
        }
    }

    #[test]
    fn what_is_asked_for_in_time_is_asked_at_its_time() {
        let mut openings = Openings::default();
        assert!(!openings.are_ahead());
        assert_eq!(openings.asked_at(Time(7)), Time(7));
        openings.ask(Time(3));
        assert_eq!(openings.asked_at(Time(7)), Time(3));
        openings.close();
        assert_eq!(openings.asked_at(Time(7)), Time(7));
    }
}
