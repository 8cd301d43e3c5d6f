//! Asking the processor to fetch what is touched soon: where networks are large that is not in its cache.
#![allow(unsafe_code)]

use crate::port::Port;
use crate::rule::Rule;
use crate::Cell;

/// Asks the processor to fetch the cache line in which something begins.
#[inline(always)]
pub fn prefetch<T: ?Sized>(thing: &T) {
    prefetch_at(core::ptr::from_ref(thing).cast::<u8>());
}

/// Prefetches the cache line of an address, which need not be valid.
#[inline(always)]
pub(crate) fn prefetch_at<T>(thing: *const T) {
    // Miri cannot prefetch.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint: it reads nothing that the program sees, and cannot fault at any address.
    unsafe {
        use core::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        _mm_prefetch::<_MM_HINT_T0>(thing.cast::<i8>());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = thing;
}

/// Asks the processor for the cache lines at which a list will be written when it has got so much longer, and to take them away from whoever has them.
#[inline(always)]
pub fn prefetch_room<T>(list: &[T], ahead: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint: it changes nothing that the program sees, and cannot fault at any address. Processors
    // of 64 bits that do not know it do nothing.
    unsafe {
        let at = list.as_ptr().wrapping_add(list.len() + ahead);
        core::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (list, ahead);
}

/// The same as [`prefetch`] for all of it.
#[inline(always)]
pub fn prefetch_all<T: ?Sized>(thing: &T) {
    prefetch_first(thing, core::mem::size_of_val(thing));
}

/// The same for its first bytes.
#[inline(always)]
pub fn prefetch_first<T: ?Sized>(thing: &T, bytes: usize) {
    for line in 0..bytes.div_ceil(64) {
        prefetch_at(core::ptr::from_ref(thing).cast::<u8>().wrapping_add(64 * line));
    }
}

impl Port {
    /// Asks the processor to fetch what the next event on this port will touch.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.ring);
        prefetch(&self.threshold_packets);
    }
    /// As [`Self::prefetch`] for a port that schedules: what says in addition who has a say, and the node.
    #[inline]
    pub fn prefetch_front(&self) {
        self.prefetch();
        prefetch(&self.hooks);
    }
    /// And when that is there: the packets that an arrival or an offer touches, and what is counted of the lowest priority.
    #[inline]
    pub fn prefetch_behind(&self) {
        self.prefetch_head();
        self.prefetch_tail();
        if let Some(served) = &self.served {
            served.prefetch_first_lane();
        }
    }
    /// The same for an arrival at the other end.
    #[inline]
    pub fn prefetch_ring(&self) {
        prefetch(&self.ring);
    }
    /// Fetches what an event touches of a port that schedules, in steps of which each looks at what the one before has fetched: itself,
    #[inline]
    pub fn prefetch_whole(&self) {
        prefetch_all(self);
    }
    /// what it has beside itself,
    #[inline]
    pub fn prefetch_beside(&self) {
        self.prefetch_head();
        self.prefetch_tail();
        if let Some(served) = &self.served {
            served.prefetch();
        }
        if let Rule::AtDequeue(rule) | Rule::Other(rule) = &self.rule {
            prefetch(&**rule);
        }
    }
    /// the counts of those that wait,
    #[inline]
    pub fn prefetch_lanes(&self) {
        if let Some(served) = &self.served {
            served.waiting.prefetch_lanes();
        }
    }
    /// or those of the priority of a packet that comes,
    #[inline]
    pub fn prefetch_lane(&self, priority: u8) {
        if let Some(served) = &self.served {
            served.waiting.prefetch_lane(priority);
        }
    }
    /// and the first of them.
    #[inline]
    pub fn prefetch_waiting(&self) {
        if let Some(served) = &self.served {
            served.waiting.prefetch_first();
        }
    }
    /// The packet that arrives next at the other end, to look ahead.
    #[inline]
    pub fn head(&self) -> &Cell {
        self.ring.at(self.ring.head)
    }
    /// As [`Self::prefetch`] for that packet and the one after it, whose arrival is announced then; when the port itself has been fetched.
    #[inline]
    pub fn prefetch_head(&self) {
        prefetch(self.head());
        prefetch(self.ring.at(self.ring.head.wrapping_add(1)));
    }
    /// The same for those behind, where all that have arrived are taken at once.
    #[inline]
    pub fn prefetch_heads(&self) {
        (0..3).for_each(|i| prefetch(self.ring.at(self.ring.head.wrapping_add(2 * i))));
    }
    /// The same for what an offer touches of the packets in the port.
    #[inline]
    pub fn prefetch_tail(&self) {
        prefetch(self.ring.at(self.ring.departing));
        prefetch(self.ring.at(self.ring.tail));
    }
    /// As [`Self::prefetch`] for a port that may have timing noise: where that lies,
    #[inline]
    pub fn prefetch_noisy(&self) {
        self.prefetch();
        prefetch(&self.extra);
    }
    /// and when that is there, the noise.
    #[inline]
    pub fn prefetch_jitter(&self) {
        if let Some(extra) = &self.extra {
            let noise = core::ptr::from_ref(&extra.noise);
            prefetch_at(noise);
            prefetch_at(noise.wrapping_add(1));
        }
    }
}
