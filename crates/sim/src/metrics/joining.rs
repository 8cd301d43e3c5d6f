//! Rows of connections that several logical processes have opened.

use crate::numbers::{ByFlow, NONE};

/// Rows of the connections of several parts, by number, as far as they are known.
pub struct Joining {
    pub(super) rows: ByFlow<Row>,
    pub(super) next: u32,
}

/// The row of a connection.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// Its number in the order of opening, [`NONE`] before it has opened.
    pub number: u32,
    /// Its samples are kept.
    pub has_place: bool,
}

impl Default for Row {
    fn default() -> Row {
        Row { number: NONE, has_place: false }
    }
}

impl Joining {
    /// None, of a network of so many hosts.
    pub fn new(hosts: usize) -> Joining {
        Joining { rows: ByFlow::new(hosts), next: 0 }
    }
    /// The number of the row of a connection that has opened, and whether its samples are kept.
    pub fn of(&self, flow: u32) -> (u32, bool) {
        let Row { number, has_place } = self.row(flow);
        (number, has_place)
    }
    /// How many have opened.
    pub fn opened(&self) -> u32 {
        self.next
    }
    /// The row of a connection that has opened.
    pub(super) fn row(&self, flow: u32) -> Row {
        let row = self.rows.get(flow).copied().unwrap_or_default();
        debug_assert!(row.number != NONE, "a record names flow {flow}, which has not opened");
        row
    }
}
