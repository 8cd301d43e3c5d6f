//! The best sample of a moving window as a kernel keeps it: Kathleen Nichols's filter (Linux `lib/win_minmax.c`), which remembers
//! three samples and not all of them.
//!
//! They are the best, the best since, and the best since that one. When the first is too old, the second takes its place,
//! although a better sample may lie between the two. So the answer is sometimes worse than the exact extreme, never better.

/// Three samples, each with the time it was taken: none is better than the one before it, or older.
#[derive(Clone, Copy, Debug, Default)]
pub struct Windowed<V>([(u64, V); 3]);

impl<V: Copy> Windowed<V> {
    /// The first sample is at once the only one.
    pub fn new(now: u64, first: V) -> Windowed<V> {
        Windowed([(now, first); 3])
    }
    /// What counted at the last sample.
    pub fn best(&self) -> V {
        self.0[0].1
    }
    /// A sample taken at `now`, and what counts then. Times and `window` have any one unit; `beats` says whether the first of two samples is at least
    /// as good as the second.
    pub fn take(&mut self, now: u64, value: V, window: u64, beats: impl Fn(V, V) -> bool) -> V {
        let new = (now, value);
        let kept = &mut self.0;
        if beats(value, kept[0].1) || now - kept[2].0 > window {
            *kept = [new; 3];
            return value;
        }
        if beats(value, kept[1].1) {
            (kept[1], kept[2]) = (new, new);
        } else if beats(value, kept[2].1) {
            kept[2] = new;
        }
        let age = now - kept[0].0;
        if age > window {
            // The second may be too old itself.
            for _ in 0..2 {
                if now - kept[0].0 > window {
                    *kept = [kept[1], kept[2], new];
                }
            }
        } else if kept[1].0 == kept[0].0 && age > window / 4 {
            // The three are to lie apart: a second is taken after a quarter of the window, whatever it is,
            (kept[1], kept[2]) = (new, new);
        } else if kept[2].0 == kept[1].0 && age > window / 2 {
            // and a third after half of it.
            kept[2] = new;
        }
        kept[0].1
    }
}
