//! A flow as whoever measures it has it. What moves its bytes is with its hosts. There may be 10^5 that are open and do nothing: what only some
//! need, or need for a while, lies beside and is given back.

use crate::metrics::{FlowCounters, FlowRecord, Leaving, Transfer};
use crate::numbers::ByFlow;
#[cfg(debug_assertions)]
use crate::witness::Witness;
use penstock_host::pool::BoxPool;
use penstock_host::{Counters, Opening};
use penstock_units::Time;
use std::collections::VecDeque;

/// The handle of an end that is not here, or not made yet.
pub(crate) const AWAY: u32 = Opening::UNKNOWN;

/// A connection, or a message on its own.
pub(crate) struct Flow {
    /// Where its ends are.
    pub(crate) ends: Ends,
    /// What its packets and its ends call it (`numbers`).
    pub(crate) number: u32,
    /// Its row in the tables: how many opened before it. In one of several logical processes its number, until these are joined.
    pub(crate) row: u32,
    pub(crate) workload: u32,
    /// Its protocol, by position in the run's list.
    pub(crate) protocol: u16,
    /// Its samples are kept.
    pub(crate) has_place: bool,
    /// Writes completed.
    pub(crate) transfers: u32,
    /// Bytes written on it; 0 = without end, or none yet.
    pub(crate) size: u64,
    pub(crate) opened: Time,
    /// Seconds from opening to the last acknowledgement, alone in the idle network; NaN = its size is not known.
    pub(crate) ideal: f64,
    /// Round-trip time of its path when that is idle, seconds.
    pub(crate) idle_rtt: f64,
    pub(crate) writes: Writes,
    /// Its sender is done, and its receiver, which is in this engine, is not removed yet.
    pub(crate) closed: Option<Box<Closed>>,
    beside: Option<Box<Beside>>,
    #[cfg(debug_assertions)]
    pub(crate) witness: Witness,
    /// The same where bytes may be delivered in any order.
    #[cfg(debug_assertions)]
    pub(crate) loose: penstock_host::lab::Witness,
}

/// Where the ends of a flow are, and its choices among equal paths, as in [`Opening`].
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) at_src: u32,
    pub(crate) at_dst: u32,
    pub(crate) forth: u32,
    pub(crate) back: u32,
}

impl Ends {
    pub(crate) fn of(o: &Opening) -> Ends {
        let Opening { src, dst, at_src, at_dst, forth, back, .. } = *o;
        Ends { src, dst, at_src, at_dst, forth, back }
    }
}

/// The sending half of the row of a flow: all but what its receiver counts.
pub(crate) struct Closed {
    pub(crate) record: FlowRecord,
    pub(crate) sender: Counters,
    /// Without totals.
    pub(crate) left: Leaving,
}

/// What many flows never have.
#[derive(Clone, Copy)]
struct Beside {
    due: Time,
    drops: u64,
    baseline: FlowCounters,
}

const NOTHING_BESIDE: Beside = Beside { due: Time::NEVER, drops: 0, baseline: FlowCounters::ZERO };

impl Flow {
    /// A flow that is opened, without what the workload and the network say of it.
    pub(crate) fn new(o: &Opening) -> Flow {
        let mut flow = Flow {
            ends: Ends::of(o),
            number: o.flow.0,
            row: o.flow.0,
            workload: 0,
            protocol: 0,
            has_place: false,
            transfers: 0,
            size: o.bytes,
            opened: Time::ZERO,
            ideal: f64::NAN,
            idle_rtt: 0.0,
            writes: Writes::default(),
            closed: None,
            beside: None,
            #[cfg(debug_assertions)]
            witness: Witness::default(),
            #[cfg(debug_assertions)]
            loose: penstock_host::lab::Witness::default(),
        };
        if o.due != Time::NEVER {
            flow.beside().due = o.due;
        }
        flow
    }
    fn beside(&mut self) -> &mut Beside {
        self.beside.get_or_insert_with(|| Box::new(NOTHING_BESIDE))
    }
    fn what_is_beside(&self) -> &Beside {
        self.beside.as_deref().unwrap_or(&NOTHING_BESIDE)
    }
    /// When it should be done; [`Time::NEVER`] = no deadline.
    pub(crate) fn due(&self) -> Time {
        self.what_is_beside().due
    }
    /// Its packets dropped so far.
    pub(crate) fn drops(&self) -> u64 {
        self.what_is_beside().drops
    }
    /// One more is dropped.
    pub(crate) fn drop_packet(&mut self) {
        self.beside().drops += 1;
    }
    /// Counters at the end of warm-up.
    pub(crate) fn baseline(&self) -> FlowCounters {
        self.what_is_beside().baseline
    }
    /// Its sender is done, has counted this, and is removed: what is left is its receiver.
    pub(crate) fn close(&mut self, closed: Closed) {
        (self.ends.at_src, self.has_place) = (AWAY, false);
        self.closed = Some(Box::new(closed));
    }
    /// Warm-up ends.
    pub(crate) fn set_baseline(&mut self, counters: FlowCounters) {
        if counters != FlowCounters::ZERO {
            self.beside().baseline = counters;
        }
    }
    /// More is written on it, after what it was opened with: as a whole it is compared with no transfer.
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.size += bytes;
        self.ideal = f64::NAN;
    }
    /// Its row, as far as it is known when it opens.
    pub(crate) fn record(&self) -> FlowRecord {
        FlowRecord {
            flow: self.row,
            src: self.ends.src,
            dst: self.ends.dst,
            workload: self.workload,
            protocol: self.protocol,
            opened: self.opened,
            size: self.size,
            transfers: self.transfers,
            ideal: self.ideal,
            ..FlowRecord::default()
        }
    }
}

/// All flows, by number.
pub(crate) type Flows = ByFlow<Option<Box<Flow>>>;

/// The numbers of the open flows, in the order in which they opened: nothing walks all that are over. One that is over is left where it stands until half of them are.
#[derive(Default)]
pub(crate) struct Open {
    numbers: Vec<u32>,
    over: usize,
}

impl Open {
    /// Less than so many are not worth a walk.
    const FEW: usize = 32;

    /// A flow opens.
    pub(crate) fn push(&mut self, number: u32) {
        self.numbers.push(number);
    }
    /// One of them is over, which is not among the flows any more.
    pub(crate) fn is_over(&mut self, flows: &Flows) {
        self.over += 1;
        if self.over > Open::FEW && self.over > self.numbers.len() / 2 {
            self.numbers.retain(|number| flows.at(*number).is_some());
            self.over = 0;
        }
    }
    /// Puts those that are there in the order of their rows.
    pub(crate) fn sort(&mut self, flows: &Flows) {
        self.numbers.retain(|number| flows.at(*number).is_some());
        self.over = 0;
        self.numbers.sort_by_key(|number| flows.at(*number).map(|flow| flow.row));
    }
    /// All that are open.
    pub(crate) fn of<'a>(&'a self, flows: &'a Flows) -> impl Iterator<Item = &'a Flow> + Clone {
        self.numbers.iter().filter_map(|number| flows.at(*number))
    }
    /// Their numbers, and of some that are over.
    pub(crate) fn numbers(&self) -> &[u32] {
        &self.numbers
    }
}

/// So many boxes are kept of flows that are over, and of writes.
pub(crate) const KEPT: usize = 256;

pub(crate) type Written = BoxPool<Waiting, KEPT>;

/// Writes not yet acknowledged, oldest first. Where there is none, nothing is kept.
#[derive(Default)]
pub(crate) struct Writes(Option<Box<Waiting>>);

pub(crate) struct Waiting {
    first: Transfer,
    more: VecDeque<Transfer>,
    /// How many, from the oldest on, are delivered.
    delivered: usize,
}

impl Writes {
    /// One more.
    pub(crate) fn push(&mut self, write: Transfer, stock: &mut Written) {
        match &mut self.0 {
            None => {
                self.0 = Some(stock.put(Waiting { first: write, more: VecDeque::new(), delivered: 0 }));
            }
            Some(waiting) => waiting.more.push_back(write),
        }
    }
    /// The oldest.
    pub(crate) fn first(&self) -> Option<&Transfer> {
        self.0.as_ref().map(|waiting| &waiting.first)
    }
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |waiting| 1 + waiting.more.len())
    }
    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |waiting| {
            waiting.first.bytes + waiting.more.iter().map(|write| write.bytes).sum::<u64>()
        })
    }
    /// Takes out the oldest, where it ends at byte `end` or before.
    pub(crate) fn acked(&mut self, end: u64, stock: &mut Written) -> Option<Transfer> {
        let waiting = self.0.as_mut().filter(|waiting| waiting.first.end <= end)?;
        let first = waiting.first;
        match waiting.more.pop_front() {
            Some(next) => {
                waiting.first = next;
                waiting.delivered = waiting.delivered.saturating_sub(1);
            }
            None => {
                if let Some(waiting) = self.0.take() {
                    stock.take_back(waiting);
                }
            }
        }
        Some(first)
    }
    /// Everything up to byte `end` was delivered at `at`: notes it for the oldest write of which that was not known.
    pub(crate) fn note_delivered(&mut self, at: Time, end: u64) -> Option<Transfer> {
        let Waiting { first, more, delivered } = &mut **self.0.as_mut()?;
        let write = match *delivered {
            0 => first,
            later => more.get_mut(later - 1)?,
        };
        if write.end > end {
            return None;
        }
        write.delivered = at;
        *delivered += 1;
        Some(*write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(end: u64) -> Transfer {
        Transfer {
            end,
            started: Time(end),
            bytes: 10,
            tag: 0,
            delivered: Time::NEVER,
            due: Time::NEVER,
            ideal: 0.0,
        }
    }
    #[test]
    fn writes_are_delivered_and_acknowledged_in_order_and_leave_nothing() {
        let (mut writes, mut stock) = (Writes::default(), Written::default());
        assert!(writes.note_delivered(Time(1), 100).is_none() && writes.acked(100, &mut stock).is_none());
        [10, 20, 30].into_iter().for_each(|end| writes.push(write(end), &mut stock));
        assert_eq!(writes.note_delivered(Time(5), 20).map(|w| w.end), Some(10));
        assert_eq!(writes.note_delivered(Time(5), 20).map(|w| w.end), Some(20));
        assert!(writes.note_delivered(Time(6), 29).is_none() && writes.acked(9, &mut stock).is_none());
        assert_eq!((writes.bytes(), Writes::default().bytes()), (30, 0));
        assert_eq!((writes.len(), writes.acked(10, &mut stock).map(|w| w.delivered)), (3, Some(Time(5))));
        assert_eq!(writes.note_delivered(Time(7), 30).map(|w| (w.end, w.delivered)), Some((30, Time(7))));
        assert_eq!((writes.first().map(|w| w.end), writes.len()), (Some(20), 2));
        assert!(
            writes.acked(30, &mut stock).is_some()
                && writes.acked(30, &mut stock).is_some()
                && writes.acked(30, &mut stock).is_none()
        );
        assert!(writes.len() == 0 && writes.0.is_none(), "what no write needs is given back");
    }
    #[test]
    fn open_flows_are_walked_in_order_and_those_that_are_over_are_forgotten() {
        let opening = |number| Opening { flow: penstock_core::FlowId(number), ..Opening::default() };
        let (mut open, mut flows, mut longest) = (Open::default(), Flows::new(1), 0);
        for number in 0..1000u32 {
            flows.put(number, Box::new(Flow::new(&opening(number))));
            open.push(number);
            // Two of three are over some time later.
            if number >= 20 && number % 3 > 0 {
                _ = flows.take(number - 20);
                open.is_over(&flows);
            }
            let walked: Vec<u32> = open.of(&flows).map(|flow| flow.number).collect();
            let there = (0..1000).filter(|number| flows.at(*number).is_some()).collect::<Vec<_>>();
            assert_eq!(walked, there);
            longest = longest.max(open.numbers().len().saturating_sub(2 * there.len()));
        }
        assert!(longest <= Open::FEW, "{longest}");
    }
    /// In releases; tests have an account of every byte beside it.
    #[test]
    fn an_idle_flow_takes_104_bytes_at_most() {
        #[cfg(debug_assertions)]
        let witness = size_of::<crate::witness::Witness>() + size_of::<penstock_host::lab::Witness>();
        #[cfg(not(debug_assertions))]
        let witness = 0;
        let flow = size_of::<Flow>() - witness;
        assert!(flow <= 104, "{flow} bytes");
    }
}
