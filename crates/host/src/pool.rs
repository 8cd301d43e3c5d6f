//! A pool of boxes. A connection needs some for as long as it is open, and can have those of connections that are over.
//!
//! With short connections an allocator would take a tenth of the run time, and more of the instruction cache.
#![allow(unsafe_code)]

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

/// Free boxes of one kind, `MOST` at most.
pub struct BoxPool<T, const MOST: usize> {
    boxes: Vec<Box<MaybeUninit<T>>>,
}

impl<T, const MOST: usize> Default for BoxPool<T, MOST> {
    fn default() -> BoxPool<T, MOST> {
        BoxPool { boxes: Vec::new() }
    }
}

impl<T, const MOST: usize> BoxPool<T, MOST> {
    /// A box with `value` in it.
    #[inline(always)]
    pub fn put(&mut self, value: T) -> Box<T> {
        let empty = self.boxes.pop().unwrap_or_else(Self::make);
        Box::write(empty, value)
    }
    #[cold]
    #[inline(never)]
    fn make() -> Box<MaybeUninit<T>> {
        Box::new_uninit()
    }
    /// Drops the value in a box, and keeps the box.
    #[inline(always)]
    pub fn take_back(&mut self, used: Box<T>) {
        let at = Box::into_raw(used);
        // SAFETY: `at` comes from a box, so it points at a value. The value is dropped once, and the memory is a box without a
        // value from then on.
        let empty = unsafe {
            at.drop_in_place();
            Box::from_raw(at.cast::<MaybeUninit<T>>())
        };
        if self.boxes.len() < MOST {
            self.boxes.push(empty);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;

    /// Every value is dropped once, when its box is given back, and the next value may get the same box.
    #[test]
    fn a_box_is_used_again_and_its_value_is_not() {
        const MOST: usize = 4;
        let (mut pool, alive) = (BoxPool::<_, MOST>::default(), Rc::new(()));
        let mut boxes: Vec<_> = (0..2 * MOST as u32).map(|i| pool.put((i, alive.clone()))).collect();
        assert!(boxes.iter().map(|kept| kept.0).eq(0..2 * MOST as u32));
        let places: Vec<*const _> = boxes.iter().map(|kept| core::ptr::from_ref(&**kept)).collect();
        while let Some(used) = boxes.pop() {
            pool.take_back(used);
            assert_eq!(Rc::strong_count(&alive), 1 + boxes.len());
        }
        assert_eq!(pool.boxes.len(), MOST);
        for i in 0..MOST as u32 {
            let again = pool.put((i, alive.clone()));
            assert!(places.contains(&core::ptr::from_ref(&*again)) && again.0 == i);
            boxes.push(again);
        }
        boxes.push(pool.put((9, alive.clone())));
        drop((boxes, pool));
        assert_eq!(Rc::strong_count(&alive), 1);
    }
}
