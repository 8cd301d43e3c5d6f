//! Typed columns, and tables that are declared column by column.

use crate::measured::Measured;
use crate::metrics::{Row, Rows, Series, SeriesRow};
use penstock_core::Quantity;
use penstock_units::Time;

/// The values of a column.
pub enum Values {
    /// True or false.
    Bool(Vec<bool>),
    /// Numbers of entities and counts.
    U32(Vec<u32>),
    /// Counts and bytes.
    U64(Vec<u64>),
    /// Numbers with -1 for none.
    I64(Vec<i64>),
    /// Quantities; NaN for what does not exist.
    F64(Vec<f64>),
    /// Texts: a code per row, and the texts they number. A text per cell would take more memory than all else.
    Text(Vec<u32>, Vec<String>),
}

/// A table: its name, and its columns in order, each as long as the others.
pub struct Table {
    /// Name.
    pub name: &'static str,
    /// What every column is, and its values.
    pub columns: Vec<(&'static Quantity, Values)>,
}

impl Table {
    /// Rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| match values {
            Values::Bool(v) => v.len(),
            Values::U32(v) | Values::Text(v, _) => v.len(),
            Values::U64(v) => v.len(),
            Values::I64(v) => v.len(),
            Values::F64(v) => v.len(),
        })
    }
}

/// What a table has.
pub struct Declared {
    /// Name.
    pub name: &'static str,
    /// What a row is.
    pub text: &'static str,
    /// What every column is, and the type of its values, in order.
    pub columns: Vec<(&'static Quantity, &'static str)>,
}

/// Rows that [`read`](super::read) hands over at a time: those of a row group of Parquet, as polars writes them.
pub const GROUP: usize = 1 << 18;

/// A column of a table with rows `R`.
pub(super) struct Column<R> {
    pub(super) what: Quantity,
    pub(super) values: Get<R>,
}

/// The values that rows give to a column are added to it.
pub(super) type Fill<R, T> = fn(&[R], &mut Vec<T>);

/// The type of a column, and how rows give their values: many at a time, as a table may have millions of them.
pub(super) enum Get<R> {
    Bool(Fill<R, bool>),
    U32(Fill<R, u32>),
    U64(Fill<R, u64>),
    I64(Fill<R, i64>),
    F64(Fill<R, f64>),
    /// Texts that are numbered already, and the list of them.
    Coded(fn(&Measured<'_>) -> Vec<String>, Fill<R, u32>),
    /// Texts that are not numbered yet.
    Word(Fill<R, &'static str>),
}

/// Whether a run has the column with this position among those that some runs have.
pub(super) type Wanted = fn(&Measured<'_>, usize) -> bool;

/// A table with rows `R`.
pub(super) struct Layout<R: 'static> {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    pub(super) columns: &'static [Column<R>],
    /// Columns that some runs have behind these.
    pub(super) more: (&'static [Column<R>], Wanted),
}

impl<R> Layout<R> {
    pub(super) fn declared(&self) -> Declared {
        let columns = self.columns.iter().chain(self.more.0).map(|c| (&c.what, c.values.kind())).collect();
        Declared { name: self.name, text: self.text, columns }
    }
    /// Without rows, but with room for so many.
    fn empty(&self, e: &Measured<'_>, rows: usize) -> Table {
        let (more, wanted) = self.more;
        let more = more.iter().enumerate().filter(|(i, _)| wanted(e, *i)).map(|(_, column)| column);
        let columns = self.columns.iter().chain(more).map(|c| (&c.what, c.values.empty(e, rows))).collect();
        Table { name: self.name, columns }
    }
    fn add(&self, table: &mut Table, rows: &[R]) {
        let mut all = self.columns.iter().chain(self.more.0);
        for (what, values) in &mut table.columns {
            let column = all.find(|column| std::ptr::eq(&column.what, *what));
            column.expect("a table has columns of its layout, in their order").values.add(values, rows);
        }
    }
    pub(super) fn of(&self, e: &Measured<'_>, rows: &[R]) -> Table {
        let mut table = self.empty(e, rows.len());
        self.add(&mut table, rows);
        table
    }
}

/// Recorded rows, however they are kept.
pub(super) trait Recorded<R> {
    fn len(&self) -> usize;
    /// Reads all in order, some at a time.
    fn each(&self, read: impl FnMut(&[R]));
    /// The same, and gives back what they take meanwhile.
    fn drain(self, read: impl FnMut(&[R]));
}

impl<R: Row> Recorded<R> for Rows<R> {
    fn len(&self) -> usize {
        self.len()
    }
    fn each(&self, read: impl FnMut(&[R])) {
        self.each(read);
    }
    fn drain(self, read: impl FnMut(&[R])) {
        Rows::drain(self, read);
    }
}

impl Recorded<SeriesRow> for Series {
    fn len(&self) -> usize {
        self.len()
    }
    fn each(&self, read: impl FnMut(&[SeriesRow])) {
        self.each(read);
    }
    fn drain(mut self, mut read: impl FnMut(&[SeriesRow])) {
        Series::drain(&mut self, |rows| read(rows));
    }
}

impl<R> Layout<R> {
    pub(super) fn filled(&self, e: &Measured<'_>, rows: &impl Recorded<R>) -> Table {
        let mut table = self.empty(e, rows.len());
        rows.each(|some| self.add(&mut table, some));
        table
    }
    pub(super) fn drained(&self, e: &Measured<'_>, rows: impl Recorded<R>) -> Table {
        let mut table = self.empty(e, rows.len());
        rows.drain(|some| self.add(&mut table, some));
        table
    }
    pub(super) fn groups(
        &self,
        e: &Measured<'_>,
        rows: &impl Recorded<R>,
        read: &mut dyn FnMut(Table) -> bool,
    ) {
        let (mut group, mut there, mut left) = (self.empty(e, rows.len().min(GROUP)), 0, rows.len());
        let mut wanted = true;
        rows.each(|mut some| {
            while wanted && !some.is_empty() {
                let (now, rest) = some.split_at(some.len().min(GROUP - there));
                self.add(&mut group, now);
                (there, left, some) = (there + now.len(), left - now.len(), rest);
                if there == GROUP || left == 0 {
                    let full = std::mem::replace(&mut group, self.empty(e, left.min(GROUP)));
                    (wanted, there) = (read(full), 0);
                }
            }
        });
    }
}

impl<R> Get<R> {
    fn kind(&self) -> &'static str {
        match self {
            Get::Bool(_) => "bool",
            Get::U32(_) => "u32",
            Get::U64(_) => "u64",
            Get::I64(_) => "i64",
            Get::F64(_) => "f64",
            Get::Coded(..) | Get::Word(_) => "text",
        }
    }
    fn empty(&self, e: &Measured<'_>, rows: usize) -> Values {
        match self {
            Get::Bool(_) => Values::Bool(Vec::with_capacity(rows)),
            Get::U32(_) => Values::U32(Vec::with_capacity(rows)),
            Get::U64(_) => Values::U64(Vec::with_capacity(rows)),
            Get::I64(_) => Values::I64(Vec::with_capacity(rows)),
            Get::F64(_) => Values::F64(Vec::with_capacity(rows)),
            Get::Coded(names, _) => Values::Text(Vec::with_capacity(rows), names(e)),
            Get::Word(_) => Values::Text(Vec::with_capacity(rows), Vec::new()),
        }
    }
    fn add(&self, values: &mut Values, rows: &[R]) {
        match (self, values) {
            (Get::Bool(fill), Values::Bool(column)) => fill(rows, column),
            (Get::U32(fill), Values::U32(column)) => fill(rows, column),
            (Get::U64(fill), Values::U64(column)) => fill(rows, column),
            (Get::I64(fill), Values::I64(column)) => fill(rows, column),
            (Get::F64(fill), Values::F64(column)) => fill(rows, column),
            (Get::Coded(_, fill), Values::Text(column, _)) => fill(rows, column),
            (Get::Word(fill), Values::Text(column, names)) => {
                let mut words = Vec::with_capacity(rows.len());
                fill(rows, &mut words);
                column.extend(words.into_iter().map(|word| {
                    let known = names.iter().position(|name| name == word).unwrap_or_else(|| {
                        names.push(word.to_owned());
                        names.len() - 1
                    });
                    known as u32
                }));
            }
            _ => unreachable!("a column is filled with what it was made for"),
        }
    }
}

pub(super) fn secs(t: Time) -> f64 {
    if t == Time::NEVER {
        f64::NAN
    } else {
        t.as_secs()
    }
}

pub(super) fn nodes(e: &Measured<'_>) -> Vec<String> {
    e.topology.nodes.iter().map(|n| n.name.clone()).collect()
}

pub(super) fn protocols(e: &Measured<'_>) -> Vec<String> {
    e.protocol_names.to_vec()
}

/// Columns, one a line: name, unit, type and value of a row (and the texts that the value numbers), meaning.
macro_rules! columns {
    ($row:ident => $($name:expr, $unit:ident, $kind:ident $([$texts:expr])? = $value:expr, $text:expr;)*) => {
        &[$($crate::tables::columns::Column {
            what: penstock_core::Quantity::new($name, penstock_core::Unit::$unit, $text),
            values: $crate::tables::columns::Get::$kind(
                $($texts,)? |rows, column| column.extend(rows.iter().map(|$row| $value)),
            ),
        }),*]
    };
}
pub(super) use columns;
