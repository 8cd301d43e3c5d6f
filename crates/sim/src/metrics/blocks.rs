//! The series table as it is kept while a run records it.
//!
//! Nearly every sample is of the same things as the sample before it. What its rows are of is kept once, as a form. A sample itself is its time and
//! its values, which are eight bytes per row. Rows are made of these when they are read.

use super::chunked::{Rows, CHUNK};
use super::disk::Disk;
use super::series::{Entity, Sample};
use penstock_core::Quantity;
use penstock_units::Time;
use std::path::Path;

/// A [`Sample`] as tables read it: 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct SeriesRow {
    /// When.
    pub at: Time,
    /// Value.
    pub value: f64,
    /// Number of the port, flow or host.
    pub number: u32,
    /// What was sampled, by its place in [`Series::metrics`].
    pub metric: u16,
    /// What it is of.
    pub entity: Entity,
}

const _: () = assert!(size_of::<SeriesRow>() == 24);

/// What a row is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Of {
    number: u32,
    metric: u16,
    entity: Entity,
}

/// Some of [`Series::of`].
#[derive(Clone, Copy, Default, Debug)]
struct Form {
    from: usize,
    rows: usize,
}

/// Rows of one time: their values follow those of the block before.
#[derive(Clone, Copy, Debug)]
struct Block {
    at: Time,
    form: Form,
}

/// The series table: samples in the order in which they were taken.
#[derive(Default)]
pub struct Series {
    blocks: Vec<Block>,
    values: Rows<f64>,
    /// The rows of all forms.
    of: Vec<Of>,
    /// That of whole samples, while they are of the same things.
    whole: Option<Form>,
    /// Rows that come one by one join the last block, where that is one of such rows and of their time.
    joins: bool,
    /// The form of the block of such rows before: the next is probably of the same things.
    before: Form,
    disk: Option<Disk>,
    /// What was sampled at least once, each name once.
    metrics: Vec<&'static Quantity>,
    /// By place in that list: what was sampled after it the last time. Entities of one kind report the same things in the same
    /// order, so that this nearly always tells what comes.
    after: Vec<u16>,
    last: u16,
}

impl Series {
    /// Rows.
    pub fn len(&self) -> usize {
        self.disk.as_ref().map_or(0, Disk::len) + self.values.len()
    }
    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Some rows are on disk. At the end of a run all are then.
    pub fn on_disk(&self) -> bool {
        self.disk.is_some()
    }
    /// What was sampled, each quantity once.
    pub fn metrics(&self) -> &[&'static Quantity] {
        &self.metrics
    }

    // ---- recording -----------------------------------------------------------------------------------------

    /// What a row is of.
    #[inline]
    pub(super) fn of(&mut self, entity: Entity, number: u32, metric: &'static Quantity) -> Of {
        Of { number, metric: self.place(metric), entity }
    }
    /// Whole samples have the form that was given last.
    #[inline]
    pub(super) fn has_form(&self) -> bool {
        self.whole.is_some()
    }
    /// Whole samples have this form from now on.
    pub(super) fn set_form(&mut self, rows: &[Of]) {
        self.whole = Some(Form { from: self.of.len(), rows: rows.len() });
        self.of.extend_from_slice(rows);
    }
    /// Adds rows of a whole sample, whose values [`Self::add_values`] adds: as many as are `rows`, in the order of the form.
    #[inline]
    pub(super) fn begin(&mut self, at: Time, rows: usize) {
        let form = Form { rows, ..self.whole.expect("whole samples have a form") };
        self.end_joined();
        self.blocks.push(Block { at, form });
    }
    /// Adds values of rows that were begun.
    #[inline]
    pub(super) fn add_values(&mut self, values: &[f64]) {
        self.values.extend_from_slice(values);
    }
    /// Adds a row.
    pub fn push(&mut self, sample: Sample) {
        let Sample { at, entity, number, metric, value } = sample;
        let of = self.of(entity, number, metric);
        if !(self.joins && self.blocks.last().is_some_and(|last| last.at == at)) {
            self.end_joined();
            self.joins = true;
            self.blocks.push(Block { at, form: Form { rows: 0, ..self.before } });
        }
        let last = self.blocks.last_mut().expect("there is one now");
        let Form { from, rows } = last.form;
        let expected = from == self.before.from && rows < self.before.rows;
        if !(expected && self.of[from + rows] == of) {
            if from + rows != self.of.len() {
                // It was of the same things so far.
                last.form.from = self.of.len();
                self.of.extend_from_within(from..from + rows);
            }
            self.of.push(of);
        }
        last.form.rows += 1;
        self.values.push(value);
    }
    /// No more rows join the last block.
    #[inline]
    fn end_joined(&mut self) {
        if let (true, Some(last)) = (self.joins, self.blocks.last()) {
            let shorter = last.form.from == self.before.from && last.form.rows < self.before.rows;
            self.before = if shorter { self.before } else { last.form };
        }
        self.joins = false;
    }
    #[inline]
    fn place(&mut self, metric: &'static Quantity) -> u16 {
        let told = self.after.get(usize::from(self.last)).copied().unwrap_or(0);
        let place = match self.metrics.get(usize::from(told)) {
            Some(m) if m.is(metric) => told,
            _ => self.find(metric),
        };
        self.last = place;
        place
    }
    #[cold]
    fn find(&mut self, metric: &'static Quantity) -> u16 {
        let known = self.metrics.iter().position(|m| m.is(metric));
        // Another crate may declare a quantity of the same name: one text of the table stands for both.
        let known = known.or_else(|| self.metrics.iter().position(|m| m.name == metric.name));
        let place = known.unwrap_or_else(|| {
            self.metrics.push(metric);
            self.after.push(0);
            self.metrics.len() - 1
        });
        let place = u16::try_from(place).expect("less than 65,536 quantities are declared");
        if let Some(after) = self.after.get_mut(usize::from(self.last)) {
            *after = place;
        }
        place
    }
    /// Bytes it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let forms = self.blocks.capacity() * size_of::<Block>() + self.of.capacity() * size_of::<Of>();
        self.values.bytes() + forms
    }
    /// Moves what is in memory to disk.
    ///
    /// # Panics
    /// When the disk does not take it.
    pub(super) fn spill(&mut self, folder: &Path) {
        let mut disk = self.disk.take().unwrap_or_else(|| Disk::new(folder));
        self.drain(|rows| disk.put(rows));
        self.disk = Some(disk);
    }

    // ---- reading -------------------------------------------------------------------------------------------

    /// All rows, which are in memory.
    ///
    /// # Panics
    /// When some are on disk; [`Series::each`] reads these.
    pub fn iter(&self) -> impl Iterator<Item = Sample> + '_ {
        assert!(self.disk.is_none(), "rows on disk are read by each");
        let of = self.blocks.iter().flat_map(|block| {
            let Form { from, rows } = block.form;
            self.of[from..from + rows].iter().map(|of| (block.at, *of))
        });
        of.zip(self.values.iter()).map(|((at, of), value)| {
            let metric = self.metrics[usize::from(of.metric)];
            Sample { at, entity: of.entity, number: of.number, metric, value: *value }
        })
    }
    /// Reads all rows in order, some at a time, wherever they are.
    ///
    /// # Panics
    /// When the disk does not give them back.
    pub fn each(&self, mut read: impl FnMut(&[SeriesRow])) {
        if let Some(disk) = &self.disk {
            assert!(self.values.is_empty(), "rows are read when the run is over");
            return disk.each(&mut read);
        }
        let mut made = Made::new(&self.blocks, &self.of);
        self.values.each_chunk(|values| read(made.of(values)));
    }
    /// Takes the rows in memory out, some at a time: the room of their values is given back before the next come.
    pub(crate) fn drain(&mut self, mut read: impl FnMut(&mut [SeriesRow])) {
        let (blocks, of) = (std::mem::take(&mut self.blocks), std::mem::take(&mut self.of));
        (self.whole, self.joins, self.before) = (None, false, Form::default());
        let mut made = Made::new(&blocks, &of);
        std::mem::take(&mut self.values).chunks().for_each(|values| read(made.of(&values)));
    }
    /// Takes all rows out; what was sampled stays behind.
    pub fn take_rows(&mut self) -> Series {
        let metrics = self.metrics.clone();
        let rows = std::mem::take(self);
        self.metrics = metrics;
        self.after = rows.after.clone();
        rows
    }
    /// Puts the rows, which are in memory, in the order of their times; those of one time stay as they are.
    pub fn sort_by_time(&mut self) {
        if self.blocks.is_sorted_by_key(|block| block.at) {
            return;
        }
        let mut rows: Vec<Sample> = self.iter().collect();
        rows.sort_by_key(|row| row.at);
        self.drain(|_| ());
        rows.into_iter().for_each(|row| self.push(row));
    }
}

/// Makes rows of blocks, forms and values.
struct Made<'a> {
    blocks: std::slice::Iter<'a, Block>,
    all: &'a [Of],
    at: Time,
    /// What is left of a block.
    of: &'a [Of],
    rows: Vec<SeriesRow>,
}

impl<'a> Made<'a> {
    fn new(blocks: &'a [Block], all: &'a [Of]) -> Made<'a> {
        Made { blocks: blocks.iter(), all, at: Time::ZERO, of: &[], rows: Vec::with_capacity(CHUNK) }
    }
    /// The rows of the next values.
    fn of(&mut self, mut values: &[f64]) -> &mut [SeriesRow] {
        self.rows.clear();
        while !values.is_empty() {
            if self.of.is_empty() {
                let Block { at, form: Form { from, rows } } =
                    *self.blocks.next().expect("values have a block");
                (self.at, self.of) = (at, &self.all[from..from + rows]);
            }
            let together = values.len().min(self.of.len());
            let (now, of) = (&values[..together], &self.of[..together]);
            (values, self.of) = (&values[together..], &self.of[together..]);
            let at = self.at;
            self.rows.extend(now.iter().zip(of).map(|(value, of)| SeriesRow {
                at,
                value: *value,
                number: of.number,
                metric: of.metric,
                entity: of.entity,
            }));
        }
        &mut self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::Unit;

    static A: Quantity = Quantity::new("a_s", Unit::Seconds, "one");
    static OTHER_A: Quantity = Quantity::new("a_s", Unit::Seconds, "declared by somebody else");
    static B: Quantity = Quantity::new("b", Unit::One, "another");

    type Plain = (u64, u32, &'static str, f64);

    fn series(rows: &[(u64, u32, &'static Quantity)]) -> Series {
        let mut found = Series::default();
        rows.iter().for_each(|row| found.push(sample(*row)));
        found
    }
    fn sample((at, number, metric): (u64, u32, &'static Quantity)) -> Sample {
        Sample {
            at: Time(at),
            entity: Entity::Flow,
            number,
            metric,
            value: f64::from(number) + at as f64 / 4.0,
        }
    }
    fn plain(samples: impl Iterator<Item = Sample>) -> Vec<Plain> {
        samples.map(|x| (x.at.0, x.number, x.metric.name, x.value)).collect()
    }
    fn read(series: &Series) -> Vec<Plain> {
        let mut found = Vec::new();
        series.each(|rows| {
            found.extend(
                rows.iter()
                    .map(|r| (r.at.0, r.number, series.metrics()[usize::from(r.metric)].name, r.value)),
            );
        });
        found
    }

    #[test]
    fn rows_come_back_as_they_were_taken_whatever_the_order_of_reports() {
        let rows = [(1, 0, &A), (1, 0, &B), (1, 1, &B), (1, 1, &A), (1, 2, &A), (1, 2, &A), (2, 0, &B)];
        let found = series(&rows);
        assert_eq!(found.metrics().iter().map(|m| m.name).collect::<Vec<_>>(), ["a_s", "b"]);
        let given = plain(rows.into_iter().map(sample));
        assert_eq!(plain(found.iter()), given);
        assert_eq!(read(&found), given);
    }

    /// Blocks of single rows that are like the one before, shorter, longer, and other at their beginning, middle or end.
    #[test]
    fn blocks_that_are_like_the_one_before_share_its_form() {
        let like = |at| [(at, 0, &A), (at, 0, &B), (at, 1, &A)];
        let mut rows: Vec<(u64, u32, &'static Quantity)> = Vec::new();
        (1..50).for_each(|at| rows.extend(like(at)));
        assert_eq!(series(&rows).of.len(), 3);
        rows.extend(&like(50)[..2]);
        rows.extend(like(51));
        assert_eq!(series(&rows).of.len(), 3);
        rows.extend([(52, 0, &A), (52, 1, &A), (52, 2, &B), (52, 3, &B)]);
        rows.extend([(53, 0, &A), (53, 1, &A), (53, 2, &B), (53, 3, &A), (53, 4, &A)]);
        rows.extend([(54, 7, &A), (55, 0, &A), (55, 1, &A), (56, 7, &A), (56, 7, &A)]);
        let found = series(&rows);
        assert_eq!(plain(found.iter()), plain(rows.iter().map(|row| sample(*row))));
    }

    /// Whole samples, one that is cut short, others, and single rows between them, over several chunks of values; then all go to disk.
    #[test]
    fn whole_samples_and_single_rows_come_back_in_order_from_memory_and_from_disk() {
        let (mut found, mut given) = (Series::default(), Vec::new());
        let mut spilled = Series::default();
        for at in 0..3 * CHUNK as u64 {
            let things = if at < 5000 { [0, 3, 1, 2] } else { [4, 2, 3, 9] };
            let whole: Vec<_> = things.iter().map(|number| sample((at, *number, &A))).collect();
            let rows = if at == 77 { 1 } else { whole.len() };
            for series in [&mut found, &mut spilled] {
                if at == 5000 || !series.has_form() {
                    let of: Vec<_> = whole.iter().map(|x| series.of(x.entity, x.number, x.metric)).collect();
                    series.set_form(&of);
                }
                series.begin(Time(at), rows);
                whole[..rows].iter().for_each(|x| series.add_values(&[x.value]));
                if at % 3 == 0 {
                    series.push(sample((at, 8, &B)));
                }
            }
            given.extend_from_slice(&whole[..rows]);
            given.extend((at % 3 == 0).then(|| sample((at, 8, &B))));
            if at % 1000 == 999 {
                spilled.spill(&std::env::temp_dir());
            }
        }
        assert_eq!(found.of.len(), 9, "two forms, and the one of single rows");
        spilled.spill(&std::env::temp_dir());
        let given = plain(given.into_iter());
        assert_eq!((found.len(), spilled.len()), (given.len(), given.len()));
        assert_eq!(plain(found.iter()), given);
        assert_eq!(read(&found), given);
        assert_eq!(read(&spilled), given);
        let mut taken = 0;
        found.drain(|rows| taken += rows.len());
        assert_eq!((taken, found.len(), found.bytes()), (given.len(), 0, 0));
    }

    #[test]
    fn two_declarations_of_one_name_are_one_text_of_the_table() {
        let found = series(&[(1, 0, &A), (1, 1, &OTHER_A), (1, 2, &B), (1, 3, &OTHER_A)]);
        assert_eq!(found.metrics().len(), 2);
        assert_eq!(read(&found).iter().map(|r| r.2).collect::<Vec<_>>(), ["a_s", "a_s", "b", "a_s"]);
    }

    #[test]
    fn rows_of_one_time_keep_their_order() {
        let mut found = series(&[(2, 0, &A), (1, 1, &B), (2, 2, &B), (1, 3, &A)]);
        found.sort_by_time();
        assert_eq!(found.iter().map(|x| x.number).collect::<Vec<_>>(), [1, 3, 0, 2]);
    }
}
