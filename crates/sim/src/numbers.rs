//! Numbers of connections that a logical process gives without knowing of others, and tables by such numbers.
//!
//! The number of a connection is made of the rank of its source host among the hosts and of a count of the connections that this host has opened. So it
//! does not depend on the partition, and neither does an order by it. Rows of tables have numbers in the order of opening instead.

use penstock_core::FlowId;
use std::sync::Arc;

/// Gives connections their numbers.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// By node: its rank among the hosts; [`NONE`] for a switch and for a host of another logical process.
    ranks: Arc<[u32]>,
    /// Low bits of a number that hold the rank.
    bits: u32,
    /// By rank: connections opened.
    opened: Vec<u32>,
}

/// The number of no connection.
pub const NONE: u32 = u32::MAX;

impl Default for Numbers {
    /// One count for all hosts.
    fn default() -> Numbers {
        Numbers { ranks: Arc::default(), bits: 0, opened: vec![0] }
    }
}

impl Numbers {
    /// Of a network with so many nodes, of which these are its hosts, in order. Those that are not `here` get no numbers.
    pub fn of(nodes: usize, hosts: &[u32], here: impl Fn(u32) -> bool) -> Numbers {
        let mut ranks = vec![NONE; nodes];
        for (rank, host) in (0u32..).zip(hosts).filter(|(_, host)| here(**host)) {
            ranks[*host as usize] = rank;
        }
        Numbers { ranks: ranks.into(), bits: Numbers::bits(hosts.len()), opened: vec![0; hosts.len()] }
    }
    fn bits(hosts: usize) -> u32 {
        hosts.max(1).next_power_of_two().trailing_zeros()
    }
    /// Connections that one host can open.
    pub fn most(&self) -> u32 {
        NONE >> self.bits
    }
    /// The number of the next connection of a host; [`NONE`] where it belongs to another logical process or has opened [`Self::most`].
    pub fn next(&mut self, src: u32) -> FlowId {
        let rank = if self.ranks.is_empty() { 0 } else { self.ranks[src as usize] };
        if rank == NONE {
            return FlowId(NONE);
        }
        let (most, count) = (self.most(), &mut self.opened[rank as usize]);
        if *count == most {
            return FlowId(NONE);
        }
        *count += 1;
        FlowId((*count - 1) << self.bits | rank)
    }
}

/// A table by numbers of connections.
#[derive(Debug, Default)]
pub(crate) struct ByFlow<T> {
    bits: u32,
    /// By rank of the source host and count.
    lists: Vec<Vec<T>>,
}

impl<T: Default> ByFlow<T> {
    /// An empty table for a network of so many hosts.
    pub fn new(hosts: usize) -> ByFlow<T> {
        let mut lists = Vec::new();
        lists.resize_with(hosts.max(1), Vec::new);
        ByFlow { bits: Numbers::bits(hosts), lists }
    }
    #[inline(always)]
    fn place(&self, number: u32) -> (usize, usize) {
        ((number & ((1 << self.bits) - 1)) as usize, (number >> self.bits) as usize)
    }
    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&T> {
        let (rank, count) = self.place(number);
        self.lists.get(rank)?.get(count)
    }
    #[inline(always)]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (rank, count) = self.place(number);
        self.lists.get_mut(rank)?.get_mut(count)
    }
    /// The entry, which is made where it is missing.
    pub fn entry(&mut self, number: u32) -> &mut T {
        let (rank, count) = self.place(number);
        let list = &mut self.lists[rank];
        if list.len() <= count {
            list.resize_with(count + 1, T::default);
        }
        &mut list[count]
    }
}

/// A table whose entries lie in boxes, as far as they are there.
impl<T> ByFlow<Option<Box<T>>> {
    #[inline(always)]
    pub fn at(&self, number: u32) -> Option<&T> {
        self.get(number)?.as_deref()
    }
    #[inline(always)]
    pub fn at_mut(&mut self, number: u32) -> Option<&mut T> {
        self.get_mut(number)?.as_deref_mut()
    }
    pub fn take(&mut self, number: u32) -> Option<Box<T>> {
        self.get_mut(number)?.take()
    }
    pub fn put(&mut self, number: u32, one: Box<T>) {
        *self.entry(number) = Some(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts 2, 5 and 6 of eight nodes; 5 belongs to another logical process.
    #[test]
    fn numbers_do_not_depend_on_what_other_hosts_open() {
        let all = |order: &[u32]| {
            let mut numbers = Numbers::of(8, &[2, 5, 6], |host| host != 5);
            order.iter().map(|host| (*host, numbers.next(*host).0)).collect::<Vec<_>>()
        };
        assert_eq!(all(&[2, 6, 2, 5, 6]), [(2, 0), (6, 2), (2, 4), (5, NONE), (6, 6)]);
        assert_eq!(all(&[6, 6, 2, 2]), [(6, 2), (6, 6), (2, 0), (2, 4)]);
        let mut plain = Numbers::default();
        assert_eq!([7, 3, 7].map(|host| plain.next(host).0), [0, 1, 2]);
    }
    #[test]
    fn a_host_that_has_opened_all_it_can_gets_no_number() {
        let mut numbers = Numbers::of(1 << 20, &(0..1 << 20).collect::<Vec<_>>(), |_| true);
        let found: Vec<u32> = (0..=numbers.most()).map(|_| numbers.next(9).0).collect();
        let (last, all) = found.split_last().unwrap();
        assert_eq!((*last, all.len()), (NONE, 4095));
        assert!(all.iter().enumerate().all(|(i, number)| *number == (i as u32) << 20 | 9));
    }
    #[test]
    fn a_table_has_an_entry_for_every_number() {
        let mut table: ByFlow<Option<Box<u32>>> = ByFlow::new(3);
        [5, 0, 2, 1000].into_iter().for_each(|number| table.put(number, Box::new(number)));
        assert_eq!(
            [0, 2, 5, 1000].map(|number| table.at(number).copied()),
            [Some(0), Some(2), Some(5), Some(1000)]
        );
        assert_eq!([1, 3, NONE].map(|number| table.at(number).copied()), [None; 3]);
        assert_eq!((table.take(5), table.take(5)), (Some(Box::new(5)), None));
    }
}
