//! Where two runs of one scenario differ.

use penstock_sim::scenario::Outcome;
use penstock_sim::tables::{kept, table, Values};

/// The first value in which the tables differ.
pub fn differing(whole: &Outcome, other: &Outcome) -> String {
    let (a, b) = (whole.engine.measured(), other.engine.measured());
    for name in kept(&a) {
        let (left, right) = (table(&a, name), table(&b, name));
        for ((column, x), (_, y)) in left.columns.iter().zip(&right.columns) {
            let texts = |v: &Values| -> Vec<String> {
                match v {
                    Values::Bool(v) => v.iter().map(ToString::to_string).collect(),
                    Values::U32(v) => v.iter().map(ToString::to_string).collect(),
                    Values::U64(v) => v.iter().map(ToString::to_string).collect(),
                    Values::I64(v) => v.iter().map(ToString::to_string).collect(),
                    Values::F64(v) => v.iter().map(ToString::to_string).collect(),
                    Values::Text(codes, names) => {
                        codes.iter().map(|c| names[*c as usize].to_string()).collect()
                    }
                }
            };
            let (x, y) = (texts(x), texts(y));
            if let Some(row) = (0..x.len().max(y.len())).find(|row| x.get(*row) != y.get(*row)) {
                let rows = [&a, &b].map(|m| m.recorder.flows.iter().nth(row).cloned());
                return format!(
                    "{name}, {}, row {row}: {:?} {:?} {rows:?} ends {:?} {:?}",
                    column.name,
                    x.get(row),
                    y.get(row),
                    whole.engine.now(),
                    other.engine.now()
                );
            }
        }
    }
    String::new()
}
