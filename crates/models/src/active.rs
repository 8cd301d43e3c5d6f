//! Soft state about the flows of a link: who is active, and one value for each.
//!
//! Counters that a SYN raises and a FIN lowers drift for ever when either is lost, sent again, or never sent
//! because the host went away. A table cannot drift: a flow is in it once, under its number, however often its
//! SYN arrives; it leaves with its FIN, or when nothing has been heard from it for a while.

use alloc::collections::BTreeMap;
use penstock_units::{Dur, Time};

/// The active flows of a link, each with a value.
#[derive(Clone, Debug)]
pub struct ActiveFlows<V> {
    flows: BTreeMap<u32, (Time, V)>,
    silence: Dur,
    next_sweep: Time,
}

impl<V: Copy> ActiveFlows<V> {
    /// An empty table that forgets a flow after it has been silent for `silence`.
    pub fn new(silence: Dur) -> ActiveFlows<V> {
        ActiveFlows { flows: BTreeMap::new(), silence, next_sweep: Time::ZERO + silence }
    }
    /// How many flows are active.
    pub fn len(&self) -> usize {
        self.flows.len()
    }
    /// True when no flow is active.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }
    /// The values of the active flows, by flow number.
    pub fn values(&self) -> impl Iterator<Item = V> + '_ {
        self.flows.values().map(|(_, v)| *v)
    }
    /// The value of `flow`.
    pub fn get(&self, flow: u32) -> Option<V> {
        self.flows.get(&flow).map(|(_, v)| *v)
    }
    /// `flow` has been heard and its value is `value` now; returns the one before, `None` when it is new.
    pub fn hear(&mut self, now: Time, flow: u32, value: V) -> Option<V> {
        self.flows.insert(flow, (now, value)).map(|(_, v)| v)
    }
    /// `flow` has said goodbye; returns its value, `None` when it was not active.
    pub fn forget(&mut self, flow: u32) -> Option<V> {
        self.flows.remove(&flow).map(|(_, v)| v)
    }
    /// Changes the allowed silence from the next search on.
    pub fn set_silence(&mut self, silence: Dur) {
        self.silence = silence;
    }
    /// Forgets flows that have been silent for too long and reports the value of each. A flow is gone at the
    /// latest after twice the allowed silence: the table is searched once per such time, not at every call.
    pub fn sweep(&mut self, now: Time, mut gone: impl FnMut(V)) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + self.silence;
        let silence = self.silence;
        self.flows.retain(|_, (heard, v)| {
            let stays = now.since(*heard) < silence;
            if !stays {
                gone(*v);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_counts_once_and_leaves_once() {
        let mut t = ActiveFlows::new(Dur::millis(3));
        assert_eq!(t.hear(Time(0), 7, 'a'), None);
        assert_eq!(t.hear(Time(1), 7, 'a'), Some('a'), "a repeated SYN");
        assert_eq!(t.hear(Time(2), 7, 'b'), Some('a'), "a change of value");
        assert_eq!(t.len(), 1);
        assert_eq!(t.forget(7), Some('b'));
        assert_eq!(t.forget(7), None, "a repeated FIN");
    }
    #[test]
    fn a_silent_flow_is_gone_within_twice_the_silence() {
        let ms = |n: u64| Time::ZERO + Dur::millis(n);
        let mut t = ActiveFlows::new(Dur::millis(3));
        t.hear(ms(1), 1, 10);
        t.hear(ms(1), 2, 20);
        let mut gone = 0;
        t.sweep(ms(3), |v| gone += v);
        assert_eq!(gone, 0);
        t.hear(ms(5), 2, 21);
        t.sweep(ms(6), |v| gone += v);
        assert_eq!((gone, t.len(), t.get(2)), (10, 1, Some(21)));
    }
}
