//! One number for all that a run left: two results are the same when their fingerprints are.

use crate::measured::Measured;
use crate::summary_keys::Summary;
use crate::tables::{kept, table, Values};
use sha2::{Digest, Sha256};

/// SHA-256, in hexadecimal, of the summary and of every table: names, values and order.
pub fn fingerprint(measured: &Measured<'_>, summary: &Summary) -> String {
    fingerprint_of(measured, summary, kept(measured))
}

/// A fingerprint of some of the tables.
pub fn fingerprint_of(measured: &Measured<'_>, summary: &Summary, tables: &[&str]) -> String {
    let mut hash = Sha256::new();
    let text = |hash: &mut Sha256, t: &str| {
        hash.update((t.len() as u64).to_le_bytes());
        hash.update(t.as_bytes());
    };
    for (key, value) in summary {
        text(&mut hash, key);
        hash.update(value.to_le_bytes());
    }
    for name in tables {
        let table = table(measured, name);
        text(&mut hash, table.name);
        for (column, values) in &table.columns {
            text(&mut hash, column.name);
            match values {
                Values::Bool(v) => v.iter().for_each(|x| hash.update([u8::from(*x)])),
                Values::U32(v) => v.iter().for_each(|x| hash.update(x.to_le_bytes())),
                Values::U64(v) => v.iter().for_each(|x| hash.update(x.to_le_bytes())),
                Values::I64(v) => v.iter().for_each(|x| hash.update(x.to_le_bytes())),
                // One pattern for what does not exist, whatever operation gave it.
                Values::F64(v) => v.iter().for_each(|x| {
                    hash.update((if x.is_nan() { f64::NAN } else { *x }).to_le_bytes());
                }),
                Values::Text(codes, names) => {
                    codes.iter().for_each(|c| text(&mut hash, &names[*c as usize]));
                }
            }
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
