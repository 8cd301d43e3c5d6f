//! Rows in memory, some hundred at a time, column by column: what all of them have is kept once, and of other values the bytes in which they differ.
//! Of short flows that is a third of what the rows take, and what is not written is no page that the system has to hand out.

use super::row::Row;

/// Rows that are compressed together: as many as stay in the first cache while their columns are read one after the other.
pub(super) const TOGETHER: usize = 256;

/// Some rows.
pub(super) struct Compressed {
    rows: usize,
    /// The least of their places; 0 where rows have none.
    pub(super) least: u64,
    bytes: Box<[u8]>,
}

impl Compressed {
    pub(super) fn of<T: Compress>(rows: &[T]) -> Compressed {
        assert!((1..=TOGETHER).contains(&rows.len()), "a column has room for so many");
        let mut columns = Columns { out: Vec::with_capacity(size_of_val(rows) / 2), column: [0; TOGETHER] };
        T::compress(rows, &mut columns);
        let least = rows.iter().filter_map(T::place).min().unwrap_or(0);
        Compressed { rows: rows.len(), least, bytes: columns.out.into() }
    }
    /// Adds the rows.
    pub(super) fn put_into<T: Compress>(&self, rows: &mut Vec<T>) {
        let from = rows.len();
        rows.resize(from + self.rows, T::default());
        T::expand(&mut Reader(&self.bytes), &mut rows[from..]);
    }
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + size_of::<Compressed>()
    }
}

/// A row all of whose fields are numbers.
pub trait Compress: Row + Default {
    /// Writes a column for each field.
    #[doc(hidden)]
    fn compress(rows: &[Self], columns: &mut Columns);
    /// Reads them.
    #[doc(hidden)]
    fn expand(from: &mut Reader<'_>, rows: &mut [Self]);
}

/// Columns that are being written.
pub struct Columns {
    out: Vec<u8>,
    column: [u64; TOGETHER],
}

impl Columns {
    /// One more, of at most [`TOGETHER`] values.
    #[inline(always)]
    pub(super) fn put(&mut self, values: impl ExactSizeIterator<Item = u64>) {
        let column = &mut self.column[..values.len()];
        column.iter_mut().zip(values).for_each(|(place, value)| *place = value);
        write(column, &mut self.out);
    }
}

/// The first value, and of each by how many bytes it differs from it.
#[inline(never)]
fn write(column: &[u64], out: &mut Vec<u8>) {
    fn differences<const WIDTH: usize>(column: &[u64], out: &mut Vec<u8>) {
        let from = out.len();
        out.resize(from + column.len() * WIDTH, 0);
        for (place, value) in out[from..].chunks_exact_mut(WIDTH).zip(column) {
            place.copy_from_slice(&(value ^ column[0]).to_le_bytes()[..WIDTH]);
        }
    }
    let differ = column.iter().fold(0, |differ, value| differ | value ^ column[0]);
    let width = (u64::BITS - differ.leading_zeros()).div_ceil(8);
    out.push(width as u8);
    out.extend_from_slice(&column[0].to_le_bytes());
    match width {
        0 => {}
        1 => differences::<1>(column, out),
        2 => differences::<2>(column, out),
        3 => differences::<3>(column, out),
        4 => differences::<4>(column, out),
        5 => differences::<5>(column, out),
        6 => differences::<6>(column, out),
        7 => differences::<7>(column, out),
        _ => differences::<8>(column, out),
    }
}

/// Columns that are being read.
pub struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// The next one, of which every row gets its value.
    #[inline(always)]
    pub(super) fn get<T>(&mut self, rows: &mut [T], mut set: impl FnMut(&mut T, u64)) {
        let mut column = [0; TOGETHER];
        let column = &mut column[..rows.len()];
        self.read(column);
        rows.iter_mut().zip(column).for_each(|(row, value)| set(row, *value));
    }
    #[inline(never)]
    fn read(&mut self, column: &mut [u64]) {
        fn differences<'a, const WIDTH: usize>(from: &'a [u8], first: u64, column: &mut [u64]) -> &'a [u8] {
            let (own, rest) = from.split_at(column.len() * WIDTH);
            for (value, bytes) in column.iter_mut().zip(own.chunks_exact(WIDTH)) {
                let mut word = [0; 8];
                word[..WIDTH].copy_from_slice(bytes);
                *value = first ^ u64::from_le_bytes(word);
            }
            rest
        }
        let (head, rest) = self.0.split_at(9);
        let first = u64::from_le_bytes(head[1..].try_into().expect("eight of nine bytes"));
        self.0 = match head[0] {
            0 => {
                column.fill(first);
                rest
            }
            1 => differences::<1>(rest, first, column),
            2 => differences::<2>(rest, first, column),
            3 => differences::<3>(rest, first, column),
            4 => differences::<4>(rest, first, column),
            5 => differences::<5>(rest, first, column),
            6 => differences::<6>(rest, first, column),
            7 => differences::<7>(rest, first, column),
            _ => differences::<8>(rest, first, column),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{FlowRecord, TransferRecord};
    use penstock_units::{Dur, Time};
    use proptest::prelude::*;

    fn back<T: Compress>(rows: &[T]) -> Vec<T> {
        let mut back = Vec::new();
        Compressed::of(rows).put_into(&mut back);
        back
    }

    proptest! {
        /// Values of every width, from columns that are all alike to those in which every byte differs.
        #[test]
        fn rows_come_back_as_they_were(
            rows in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u32>(), any::<f64>(), any::<bool>()), 1..=TOGETHER),
            shift in 0u32..64,
        ) {
            let flows: Vec<FlowRecord> = rows.iter().map(|(a, b, c, x, yes)| FlowRecord {
                flow: *c, protocol: *c as u16, opened: Time(a >> shift), closed: Time::NEVER, size: b >> shift, complete: *yes,
                drops: c >> (shift / 2), srtt: Dur(*b), ideal: *x, ..FlowRecord::default()
            }).collect();
            let transfers: Vec<TransferRecord> = rows.iter().map(|(a, b, c, x, _)| TransferRecord {
                flow: c >> (shift / 2), started: Time(*a), delivered: Time(a >> shift), acked: Time(*b), bytes: b >> shift, due: Time::NEVER, ideal: *x,
            }).collect();
            // As text, so that a NaN is equal to itself.
            prop_assert_eq!(format!("{:?}", back(&flows)), format!("{flows:?}"));
            prop_assert_eq!(format!("{:?}", back(&transfers)), format!("{transfers:?}"));
        }
    }
    #[test]
    fn what_is_alike_is_kept_once() {
        let rows = vec![FlowRecord { size: 1 << 60, ideal: f64::NAN, ..FlowRecord::default() }; TOGETHER];
        assert!(Compressed::of(&rows).bytes() < 24 * 9 + 100);
    }
}
