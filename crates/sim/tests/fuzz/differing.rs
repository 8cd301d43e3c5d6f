//! Where two runs of one scenario differ.

use penstock_sim::measured::Measured;
use penstock_sim::tables::{kept, table, Values};

/// The first value in which the tables differ; nothing where they are the same. Rows of the tables in `any_order` may have any.
pub fn differing(a: &Measured<'_>, b: &Measured<'_>, any_order: &[&str]) -> String {
    for name in kept(a) {
        let (mut left, mut right) = (rows(a, name), rows(b, name));
        if any_order.contains(name) {
            left.sort();
            right.sort();
        }
        let columns = table(a, name).columns;
        for row in 0..left.len().max(right.len()) {
            let (x, y) = (left.get(row), right.get(row));
            let Some((x, y)) = x.zip(y) else {
                return format!("{name}: {} and {} rows", left.len(), right.len());
            };
            if let Some(i) = (0..x.len()).find(|i| x[*i] != y[*i]) {
                return format!("{name}, {}, row {row}: {x:?} and {y:?}", columns[i].0.name);
            }
        }
    }
    String::new()
}

/// The rows of a table as texts.
fn rows(m: &Measured<'_>, name: &str) -> Vec<Vec<String>> {
    let columns: Vec<Vec<String>> = table(m, name).columns.iter().map(|(_, values)| texts(values)).collect();
    let count = columns.first().map_or(0, Vec::len);
    (0..count).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}
fn texts(values: &Values) -> Vec<String> {
    match values {
        Values::Bool(v) => v.iter().map(ToString::to_string).collect(),
        Values::U32(v) => v.iter().map(ToString::to_string).collect(),
        Values::U64(v) => v.iter().map(ToString::to_string).collect(),
        Values::I64(v) => v.iter().map(ToString::to_string).collect(),
        Values::F64(v) => v.iter().map(ToString::to_string).collect(),
        Values::Text(codes, names) => codes.iter().map(|c| names[*c as usize].to_string()).collect(),
    }
}
