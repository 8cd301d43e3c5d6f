//! Stopping what takes long before a run begins: a network of a million ports is built for seconds.
//!
//! Code that builds calls [`go_on`] once per part. It asks the watcher that [`watched`] has installed in this thread, now and then, and fails when
//! the watcher wants to stop. Without a watcher it does nothing.

use penstock_core::ParamError;
use std::cell::RefCell;

/// Parts that are built between two questions to the watcher.
const BETWEEN: u32 = 2048;

/// The rule of the error by which building ends that was stopped.
pub const STOPPED: &str = "was stopped while the network was being built";

struct Watcher {
    stop: Box<dyn FnMut() -> bool>,
    parts: u32,
}

thread_local! {
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
}

/// Does some work in this thread, which is stopped at the next part that it builds when `stop` answers true.
pub fn watched<T>(stop: impl FnMut() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Watcher>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WATCHER.with(|w| *w.borrow_mut() = self.0.take());
        }
    }
    let outer = WATCHER.with(|w| w.borrow_mut().replace(Watcher { stop: Box::new(stop), parts: 0 }));
    let _restore = Restore(outer);
    work()
}

/// One more part is about to be built.
///
/// # Errors
/// The watcher wants to stop: an error with the rule [`STOPPED`].
#[inline]
pub fn go_on() -> Result<(), ParamError> {
    let stop = WATCHER.with(|watcher| {
        // The watcher itself may build something: it is not asked meanwhile.
        let mut watcher = watcher.try_borrow_mut().ok()?;
        let watcher = watcher.as_mut()?;
        watcher.parts += 1;
        (watcher.parts % BETWEEN == 1).then(|| (watcher.stop)())
    });
    match stop {
        Some(true) => Err(ParamError::new("scenario", "", STOPPED)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn building_stops_soon_after_its_watcher_wants_to() {
        let (asked, stop) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let (count, wish) = (asked.clone(), stop.clone());
        let watcher = move || {
            count.set(count.get() + 1);
            wish.get()
        };
        watched(watcher, || {
            for _ in 0..10 * BETWEEN {
                go_on().unwrap();
            }
            assert_eq!(asked.get(), 10);
            stop.set(true);
            let built = (0..10 * BETWEEN).take_while(|_| go_on().is_ok()).count();
            assert!(built < BETWEEN as usize, "{built}");
        });
        // Outside nobody watches.
        (0..10 * BETWEEN).for_each(|_| go_on().unwrap());
    }
}
