//! Repetitions of a workload with a barrier between them: every application tells a root when its share is complete, and the root
//! tells all to begin the next. With requests that travel this takes the delays of two messages.

use super::{Action, Actions, Message};

/// Kinds of messages; a workload's own are below.
const FINISHED: u8 = u8::MAX;
const BEGIN: u8 = u8::MAX - 1;

/// Place of the application that collects the others' reports.
const ROOT: u32 = 0;

/// Which repetition an application is in.
pub(super) struct Repetition {
    /// Applications.
    places: u32,
    /// Repetitions in all.
    all: u64,
    number: u64,
    /// At the root: applications that have reported the end of the current one.
    finished: u32,
}

impl Repetition {
    /// The first of `all`, of so many applications.
    pub fn first(places: u32, all: u64) -> Repetition {
        Repetition { places, all, number: 0, finished: 0 }
    }
    /// Its number, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }
    /// It is the last.
    pub fn is_last(&self) -> bool {
        self.number + 1 == self.all
    }
    /// The application's share of the current one is complete.
    pub fn finish(&mut self, actions: &mut Actions) {
        actions.push(Action::Part(self.number));
        if !self.is_last() {
            actions.send(ROOT, FINISHED, self.number);
        }
    }
    /// A message has arrived; true when the next repetition begins with it.
    pub fn on_message(&mut self, message: &Message, actions: &mut Actions) -> bool {
        match message.kind {
            FINISHED => {
                self.finished += 1;
                if self.finished == self.places {
                    self.finished = 0;
                    (0..self.places).for_each(|place| actions.send(place, BEGIN, message.word + 1));
                }
                false
            }
            BEGIN => {
                self.number = message.word;
                true
            }
            _ => false,
        }
    }
}
