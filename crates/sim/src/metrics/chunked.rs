//! The rows of a table while a run records them: in chunks that never move, and on disk where memory is bounded.

use super::compressed::{Compress, Compressed, TOGETHER};
use super::disk::Disk;
use super::row::Row;
use std::fmt;
use std::ops::Index;
use std::path::{Path, PathBuf};

/// Rows of a chunk: a list that doubles would hold up to twice what is in it, and three times that while it grows.
pub(super) const CHUNK: usize = 1 << 12;

/// More rows than this are only put in order when all are there: of a table in which one comes long after its turn nearly all wait.
const MANY: usize = 1 << 14;

/// How much the recorded tables of a run may take in memory; what is more goes to disk, and no row is left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Bytes of all tables together, at least [`LEAST_MEMORY`].
    pub bytes: usize,
    /// Where the files are that hold the rest. They have no names: nothing is left of them when the process ends.
    pub folder: PathBuf,
}

/// The chunks being filled, and what sorts and codes rows on their way to disk, are within this.
pub const LEAST_MEMORY: usize = 16_000_000;

/// Rows of one table, in the order in which they were recorded; of rows that have a place ([`Row::place`]) and are on disk or compressed, in that of
/// their places.
pub struct Rows<T> {
    full: Vec<Vec<T>>,
    /// What came behind the first chunk, in a table that compresses, and what that takes.
    compressed: Vec<Compressed>,
    compressed_bytes: usize,
    last: Vec<T>,
    disk: Option<Disk>,
    compression: Option<Compression<T>>,
}

/// How rows are compressed, and expanded.
struct Compression<T> {
    compress: fn(&[T]) -> Compressed,
    expand: fn(&Compressed, &mut Vec<T>),
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Rows {
            full: Vec::new(),
            compressed: Vec::new(),
            compressed_bytes: 0,
            last: Vec::new(),
            disk: None,
            compression: None,
        }
    }
}

impl<T: Compress> Rows<T> {
    /// None, of a table that compresses its rows when there are more than fit into a chunk: [`Rows::each`] reads these.
    pub fn compressed() -> Rows<T> {
        Rows {
            compression: Some(Compression { compress: Compressed::of, expand: Compressed::put_into }),
            ..Rows::default()
        }
    }
}

impl<T> Rows<T> {
    /// Rows.
    #[inline]
    pub fn len(&self) -> usize {
        let compressed = self.compressed.len() * TOGETHER;
        self.disk.as_ref().map_or(0, Disk::len) + self.full.len() * CHUNK + compressed + self.last.len()
    }
    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Some rows are on disk. At the end of a run all are then.
    pub fn on_disk(&self) -> bool {
        self.disk.is_some()
    }
    /// Adds a row.
    #[inline(always)]
    pub fn push(&mut self, row: T) {
        if self.last.len() == self.last.capacity() {
            self.make_room();
        }
        self.last.push(row);
    }
    /// Adds some rows.
    #[inline]
    pub(super) fn extend_from_slice(&mut self, mut rows: &[T])
    where
        T: Clone,
    {
        loop {
            let (now, later) = rows.split_at(rows.len().min(self.last.capacity() - self.last.len()));
            self.last.extend_from_slice(now);
            if later.is_empty() {
                return;
            }
            rows = later;
            self.make_room();
        }
    }
    /// The chunk that is being filled grows while it is short, so that small tables stay small, and is then followed by another.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        let compression =
            self.compression.as_ref().filter(|_| !self.full.is_empty() || !self.compressed.is_empty());
        if let Some(Compression { compress, .. }) = compression {
            if self.last.len() == TOGETHER {
                let compressed = compress(&self.last);
                self.compressed_bytes += compressed.bytes();
                self.compressed.push(compressed);
                self.last.clear();
            } else {
                self.last.reserve_exact(TOGETHER - self.last.len());
            }
        } else if self.last.len() >= CHUNK {
            // Rows are found by their number: every chunk but the last has as many.
            assert!(self.last.len() == CHUNK, "a list has exactly the room that was asked for");
            let room = if self.compression.is_some() { TOGETHER } else { CHUNK };
            let full = std::mem::replace(&mut self.last, Vec::with_capacity(room));
            self.full.push(full);
        } else {
            let more = self.last.len().clamp(4, CHUNK - self.last.len());
            self.last.reserve_exact(more);
        }
    }
    /// Bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        (self.full.len() * CHUNK + self.last.capacity()) * size_of::<T>() + self.compressed_bytes
    }
    /// They are all in memory, as they are.
    fn is_plain(&self) -> bool {
        self.disk.is_none() && self.compressed.is_empty()
    }
    /// Rows that are all in memory, as they are.
    ///
    /// # Panics
    /// When some are on disk or compressed; [`Rows::each`] reads these.
    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        assert!(self.is_plain(), "rows on disk or compressed are read by each");
        self.full.iter().flatten().chain(&self.last)
    }
    /// All rows, to be changed; what is compressed is expanded.
    ///
    /// # Panics
    /// When some are on disk.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        assert!(self.disk.is_none(), "rows on disk are not changed");
        self.expand();
        self.full.iter_mut().flatten().chain(&mut self.last)
    }
    /// Rows of a table that does not compress, as far as they are in memory, from the last one on.
    pub(super) fn iter_back_mut(&mut self) -> impl Iterator<Item = &mut T> {
        debug_assert!(self.compressed.is_empty());
        self.full.iter_mut().flatten().chain(&mut self.last).rev()
    }
    fn expand(&mut self) {
        let Some(Compression { expand, .. }) = &self.compression else { return };
        if self.compressed.is_empty() {
            return;
        }
        let expand = *expand;
        let last = std::mem::take(&mut self.last);
        for some in std::mem::take(&mut self.compressed) {
            if self.last.capacity() < CHUNK {
                self.last.reserve_exact(CHUNK);
            }
            expand(&some, &mut self.last);
            if self.last.len() == CHUNK {
                self.full.push(std::mem::take(&mut self.last));
            }
        }
        (self.compression, self.compressed_bytes) = (None, 0);
        last.into_iter().for_each(|row| self.push(row));
    }
    /// Reads rows that are all in memory, some at a time.
    pub(super) fn each_chunk<'a>(&'a self, mut read: impl FnMut(&'a [T])) {
        self.full.iter().chain([&self.last]).for_each(|chunk| read(chunk));
    }
    /// Takes the rows out, some at a time: each is given back before the next comes.
    ///
    /// # Panics
    /// As [`Self::iter`].
    pub fn chunks(self) -> impl Iterator<Item = Vec<T>> {
        assert!(self.is_plain(), "rows on disk or compressed are read by each");
        self.full.into_iter().chain([self.last])
    }
}

impl<T: Row> Rows<T> {
    /// Reads all rows in order, some at a time, wherever they are.
    ///
    /// # Panics
    /// When the disk does not give them back.
    pub fn each(&self, mut read: impl FnMut(&[T])) {
        match &self.disk {
            Some(disk) => {
                let none = self.full.is_empty() && self.compressed.is_empty() && self.last.is_empty();
                assert!(none, "rows are read when the run is over");
                disk.each(&mut read);
            }
            None if self.compressed.is_empty() => self.each_chunk(read),
            None => self.compressed_in_places(read),
        }
    }
    /// Reads all rows in the order in which they were added, whatever their places are.
    pub(crate) fn each_as_it_comes(&self, mut read: impl FnMut(&[T])) {
        if self.disk.is_some() {
            return self.each(read);
        }
        self.full.iter().for_each(|chunk| read(chunk));
        let mut rows = Vec::new();
        for some in &self.compressed {
            rows.clear();
            self.put_into(some, &mut rows);
            read(&rows);
        }
        read(&self.last);
    }
    fn put_into(&self, some: &Compressed, rows: &mut Vec<T>) {
        (self.compression.as_ref().expect("they were compressed").expand)(some, rows);
    }
    /// Reads rows of which some are compressed. Those with a place mostly come little later than it is their turn: so they wait, sorted, until nothing that
    /// comes behind them is before them.
    fn compressed_in_places(&self, mut read: impl FnMut(&[T])) {
        let places = |rows: &[T]| rows.iter().filter_map(T::place).min().unwrap_or(0);
        if self.full.first().and_then(|chunk| chunk.first()).is_none_or(|row| row.place().is_none()) {
            return self.each_as_it_comes(read);
        }
        let least =
            self.full.iter().map(|chunk| places(chunk)).chain(self.compressed.iter().map(|some| some.least));
        // Of what comes behind each chunk.
        let mut behind: Vec<u64> = least.skip(1).collect();
        behind.push(if self.last.is_empty() { u64::MAX } else { places(&self.last) });
        for i in (1..behind.len()).rev() {
            behind[i - 1] = behind[i - 1].min(behind[i]);
        }
        let (mut waiting, mut ready): (Vec<T>, Vec<T>) = Default::default();
        let mut give = |waiting: &mut Vec<T>, next: u64| {
            let before = |row: &T| row.place() < Some(next);
            let (keys, rows): (Vec<u64>, Vec<u32>) = (0..)
                .zip(&*waiting)
                .filter(|(_, row)| before(row))
                .map(|(i, row)| (row.place().unwrap_or(0), i))
                .unzip();
            ready.clear();
            ready.extend(order_of(&keys).into_iter().map(|i| waiting[rows[i as usize] as usize].clone()));
            read(&ready);
            waiting.retain(|row| !before(row));
        };
        let mut behind = behind.into_iter();
        for chunk in &self.full {
            waiting.extend_from_slice(chunk);
            give(&mut waiting, behind.next().unwrap_or(u64::MAX));
        }
        for (some, next) in self.compressed.iter().zip(behind) {
            self.put_into(some, &mut waiting);
            if waiting.len() <= MANY {
                give(&mut waiting, next);
            }
        }
        waiting.extend_from_slice(&self.last);
        waiting.sort_unstable_by_key(T::place);
        read(&waiting);
    }
    /// Takes all rows out, some at a time, and gives back what they take meanwhile.
    pub fn drain(self, mut read: impl FnMut(&[T])) {
        if self.compressed.is_empty() {
            return self.chunks().for_each(|chunk| read(&chunk));
        }
        // Compressed they are few bytes.
        self.each(read);
    }
    /// Rows that have places are read in their order from now on.
    pub(super) fn put_in_places(&mut self) {
        if self.is_plain() {
            self.sort_by_key(|row| row.place().unwrap_or(0));
        }
    }
    /// Puts the last row, of those in memory, behind all whose key is not greater: rows that come nearly in order are in order.
    pub(super) fn settle_last<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        let mut at = (self.full.len() * CHUNK + self.last.len()).saturating_sub(1);
        while at > 0 && key(&self[at - 1]) > key(&self[at]) {
            let before = self[at - 1].clone();
            *self.at(at - 1) = std::mem::replace(self.at(at), before);
            at -= 1;
        }
    }
    /// Moves what is in memory to disk.
    ///
    /// # Panics
    /// When the disk does not take it.
    pub(super) fn spill(&mut self, folder: &Path) {
        let mut rows: Vec<T> = Vec::with_capacity(CHUNK);
        let disk = self.disk.get_or_insert_with(|| Disk::new(folder));
        for mut chunk in self.full.drain(..) {
            rows.append(&mut chunk);
            disk.put(&mut rows);
            rows.clear();
        }
        for some in self.compressed.drain(..) {
            (self.compression.as_ref().expect("they were compressed").expand)(&some, &mut rows);
            if rows.len() >= CHUNK {
                disk.put(&mut rows);
                rows.clear();
            }
        }
        self.compressed_bytes = 0;
        rows.append(&mut std::mem::take(&mut self.last));
        disk.put(&mut rows);
    }
    /// Sorts rows in memory; those with the same key stay as they are.
    pub fn sort_by_key(&mut self, key: impl Fn(&T) -> u64) {
        self.expand();
        let keys: Vec<u64> = self.iter().map(&key).collect();
        if keys.is_sorted() {
            return;
        }
        let mut order = order_of(&keys);
        drop(keys);
        // Row order[i] goes to i. Each cycle of the permutation needs one row beside the table.
        for start in 0..order.len() {
            if order[start] as usize == start {
                continue;
            }
            let first = self[start].clone();
            let mut at = start;
            loop {
                let from = std::mem::replace(&mut order[at], at as u32) as usize;
                if from == start {
                    break;
                }
                *self.at(at) = self[from].clone();
                at = from;
            }
            *self.at(at) = first;
        }
    }
    /// Takes the last row out, where it is in memory and `wanted`.
    pub(super) fn pop_if(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        if self.last.is_empty() {
            self.last = self.full.pop()?;
        }
        self.last.last().is_some_and(wanted).then(|| self.last.pop()).flatten()
    }
    /// The last row, where it is in memory.
    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        let chunk = if self.last.is_empty() { self.full.last_mut()? } else { &mut self.last };
        chunk.last_mut()
    }
    fn at(&mut self, i: usize) -> &mut T {
        match self.full.get_mut(i / CHUNK) {
            Some(chunk) => &mut chunk[i % CHUNK],
            None => &mut self.last[i % CHUNK],
        }
    }
}

/// The numbers of keys in the order of these, those of one key in their own. Keys that are numbers of what was opened one after the other have places of their own.
fn order_of(keys: &[u64]) -> Vec<u32> {
    const NONE: u32 = u32::MAX;
    let rows = 0..u32::try_from(keys.len()).expect("a table in memory has fewer rows");
    let (least, most) = keys.iter().fold((u64::MAX, 0), |(a, b), key| (a.min(*key), b.max(*key)));
    if let Some(span) = most.checked_sub(least).filter(|span| *span < 2 * keys.len() as u64) {
        let mut places = vec![NONE; span as usize + 1];
        let alone = keys
            .iter()
            .zip(rows.clone())
            .all(|(key, row)| std::mem::replace(&mut places[(key - least) as usize], row) == NONE);
        if alone {
            places.retain(|row| *row != NONE);
            return places;
        }
    }
    let mut order: Vec<u32> = rows.collect();
    order.sort_by_key(|row| keys[*row as usize]);
    order
}

/// Rows in memory.
impl<T> Index<usize> for Rows<T> {
    type Output = T;
    fn index(&self, i: usize) -> &T {
        assert!(self.compressed.is_empty(), "rows that are compressed are read by each");
        match self.full.get(i / CHUNK) {
            Some(chunk) => &chunk[i % CHUNK],
            None => &self.last[i - self.full.len() * CHUNK],
        }
    }
}

impl<'a, T> IntoIterator for &'a Rows<T> {
    type Item = &'a T;
    type IntoIter =
        std::iter::Chain<std::iter::Flatten<std::slice::Iter<'a, Vec<T>>>, std::slice::Iter<'a, T>>;
    fn into_iter(self) -> Self::IntoIter {
        assert!(self.is_plain(), "rows on disk or compressed are read by each");
        self.full.iter().flatten().chain(&self.last)
    }
}

impl<T: fmt::Debug> fmt::Debug for Rows<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Entity, FlowRecord, SeriesRow};
    use super::*;
    use penstock_units::Time;

    fn sample(number: u32) -> SeriesRow {
        SeriesRow {
            at: Time(u64::from(number / 3)),
            value: f64::from(number),
            number,
            metric: 0,
            entity: Entity::Flow,
        }
    }
    fn numbers(rows: &Rows<SeriesRow>) -> Vec<u32> {
        let mut found = Vec::new();
        rows.each(|chunk| found.extend(chunk.iter().map(|row| row.number)));
        found
    }

    /// More than two chunks, spilled never, once at the end, and after every 1,000 rows.
    #[test]
    fn rows_come_back_in_order_from_memory_and_from_disk() {
        let count = 2 * CHUNK as u32 + 5;
        for every in [0, count, 1000] {
            let mut rows = Rows::default();
            for number in 0..count {
                rows.push(sample(number));
                if every > 0 && (number + 1) % every == 0 {
                    rows.spill(&std::env::temp_dir());
                    assert_eq!(rows.bytes(), 0);
                }
            }
            if every > 0 {
                rows.spill(&std::env::temp_dir());
            }
            assert_eq!(rows.len(), count as usize);
            assert_eq!(numbers(&rows), (0..count).collect::<Vec<_>>(), "every {every}");
        }
    }

    #[test]
    fn sorting_keeps_rows_of_one_key_as_they_are() {
        let count = CHUNK as u32 + 300;
        let mut rows = Rows::default();
        // A permutation of 0..count, because 7919 is prime and not a divisor of it.
        (0..count).for_each(|i| rows.push(sample(i * 7919 % count)));
        let mut plain: Vec<_> = rows.iter().copied().collect();
        rows.sort_by_key(|row| row.at.0);
        plain.sort_by_key(|row| row.at);
        assert_eq!(numbers(&rows), plain.iter().map(|row| row.number).collect::<Vec<_>>());
    }

    /// Numbers of which each is there once, some are missing, some are there twice.
    #[test]
    fn keys_have_the_order_that_sorting_gives() {
        for keys in [vec![], vec![7], vec![5, 3, 4], vec![9, 3, 5, 4], vec![9, 3, 5, 3], vec![1 << 40, 2, 3]]
        {
            let mut order: Vec<u32> = (0..keys.len() as u32).collect();
            order.sort_by_key(|row| keys[*row as usize]);
            assert_eq!(order_of(&keys), order, "{keys:?}");
        }
    }

    /// Flows end in another order than they were opened, and one that was open for long comes with the last.
    #[test]
    fn flows_on_disk_are_in_the_order_of_their_numbers() {
        let mut rows = Rows::default();
        let count = 3000u32;
        for (i, flow) in (1..count).rev().chain([0]).enumerate() {
            rows.push(FlowRecord {
                flow,
                size: u64::from(flow) * 3,
                ideal: f64::NAN,
                ..FlowRecord::default()
            });
            if i % 700 == 0 {
                rows.spill(&std::env::temp_dir());
            }
        }
        rows.spill(&std::env::temp_dir());
        let mut next = 0;
        rows.each(|chunk| {
            for row in chunk {
                assert_eq!((row.flow, row.size, row.ideal.is_nan()), (next, u64::from(next) * 3, true));
                next += 1;
            }
        });
        assert_eq!(next, count);
    }

    fn flow(number: u32) -> FlowRecord {
        FlowRecord { flow: number, size: u64::from(number) * 3, ideal: f64::NAN, ..FlowRecord::default() }
    }
    fn flows(rows: &Rows<FlowRecord>) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        rows.each(|some| found.extend(some.iter().map(|row| (row.flow, row.size))));
        found
    }
    fn in_order(count: u32) -> Vec<(u32, u64)> {
        (0..count).map(|number| (number, u64::from(number) * 3)).collect()
    }

    /// Flows that end some places from where they were opened, and one that was open all the time: with few rows behind it and with more than wait one by one.
    #[test]
    fn compressed_flows_are_read_in_the_order_of_their_numbers() {
        for (count, longest) in
            [(3 * CHUNK as u32 + 77, None), (2 * CHUNK as u32, Some(9)), (MANY as u32 + 9000, Some(0))]
        {
            let mut rows = Rows::compressed();
            // Within groups of 64 they end the other way round.
            let mut ends: Vec<u32> = (0..count).collect();
            ends.chunks_mut(64).for_each(<[u32]>::reverse);
            if let Some(longest) = longest {
                ends.retain(|number| *number != longest);
                ends.push(longest);
            }
            ends.iter().for_each(|number| rows.push(flow(*number)));
            rows.put_in_places();
            assert_eq!(rows.len(), count as usize);
            assert!(rows.bytes() < count as usize * size_of::<FlowRecord>(), "nothing is compressed");
            assert!(flows(&rows) == in_order(count), "{count} flows");
            let mut came = Vec::new();
            rows.each_as_it_comes(|some| came.extend(some.iter().map(|row| row.flow)));
            assert!(came == ends, "{count} flows");
        }
    }
    /// What is compressed can be changed, sorted and moved to disk as well.
    #[test]
    fn compressed_rows_are_unpacked_where_they_are_changed() {
        let count = 2 * CHUNK as u32 + 300;
        let compressed = || {
            let mut rows = Rows::compressed();
            (0..count).rev().for_each(|number| rows.push(flow(number)));
            rows
        };
        let mut rows = compressed();
        rows.iter_mut().for_each(|row| row.size += 1);
        assert!(rows.iter().map(|row| row.size).eq((0..count).rev().map(|number| u64::from(number) * 3 + 1)));
        let mut rows = compressed();
        rows.sort_by_key(|row| u64::from(row.flow));
        assert!(rows.iter().map(|row| row.flow).eq(0..count));
        rows.push(flow(count));
        assert_eq!((rows.len(), rows[count as usize].flow), (count as usize + 1, count));
        let mut rows = compressed();
        rows.spill(&std::env::temp_dir());
        assert_eq!((rows.bytes(), rows.len()), (0, count as usize));
        assert!(flows(&rows) == in_order(count));
    }
    #[test]
    #[should_panic(expected = "the tables of the run cannot be written to /no/such/folder")]
    fn a_folder_that_takes_no_file_is_named() {
        let mut rows = Rows::default();
        rows.push(sample(1));
        rows.spill(Path::new("/no/such/folder"));
    }
}
