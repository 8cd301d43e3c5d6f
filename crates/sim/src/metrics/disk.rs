//! Rows of recorded tables as bytes in a file without a name.

use super::packed::{Columns, Packs, Reader, Word};
use super::{Entity, Event, FlowRecord, SeriesRow, TransferRecord, What};
use penstock_core::tcp::TimeoutKind;
use penstock_units::{Dur, Time};
use std::fs::{remove_file, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows that are read at a time.
const BLOCK: usize = 1 << 12;

/// A row that can go to a file, in as many bytes as every other of its table.
pub trait Row: Clone {
    /// Bytes.
    const WIDTH: usize;
    /// Its place among the rows of the table, where that is not the order in which they come.
    fn place(&self) -> Option<u64> {
        None
    }
    /// Adds its bytes.
    fn put(&self, out: &mut Vec<u8>, words: &mut Words);
    /// The row that these bytes were made of.
    fn get(from: &mut &[u8], words: &Words) -> Self;
}

/// Texts that rows have: each has a number in the file.
#[derive(Default)]
pub struct Words(Vec<&'static str>);

/// A value of a fixed number of bytes.
trait Plain: Sized {
    const WIDTH: usize;
    fn put(&self, out: &mut Vec<u8>, words: &mut Words);
    fn get(from: &mut &[u8], words: &Words) -> Self;
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl Plain for $kind {
            const WIDTH: usize = size_of::<$kind>();
            fn put(&self, out: &mut Vec<u8>, _: &mut Words) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn get(from: &mut &[u8], _: &Words) -> Self {
                let (own, rest) = from.split_at(size_of::<$kind>());
                *from = rest;
                <$kind>::from_le_bytes(own.try_into().expect("split at its width"))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, f64);

/// Values that are a number and back.
macro_rules! as_number {
    ($kind:ty, $number:ty, $to:expr, $from:expr) => {
        impl Plain for $kind {
            const WIDTH: usize = size_of::<$number>();
            fn put(&self, out: &mut Vec<u8>, words: &mut Words) {
                let to: fn(&$kind) -> $number = $to;
                to(self).put(out, words);
            }
            fn get(from: &mut &[u8], words: &Words) -> Self {
                let back: fn($number) -> $kind = $from;
                back(<$number>::get(from, words))
            }
        }
    };
}
as_number!(bool, u8, |x| u8::from(*x), |x| x != 0);
as_number!(Time, u64, |x| x.0, Time);
as_number!(Dur, u64, |x| x.0, Dur);
as_number!(Entity, u8, |x| *x as u8, |x| Entity::ALL[usize::from(x)]);

const TIMEOUTS: [TimeoutKind; 6] = [
    TimeoutKind::WindowLost,
    TimeoutKind::FewDupAcks,
    TimeoutKind::RetransmitLost,
    TimeoutKind::Repeated,
    TimeoutKind::Syn,
    TimeoutKind::Probe,
];
const FAST_RETRANSMIT: u16 = TIMEOUTS.len() as u16;
const BLOCK_DONE: u16 = FAST_RETRANSMIT + 1;
const PAUSE: u16 = BLOCK_DONE + 1;
const RESUME: u16 = PAUSE + 1;
const CHANGES: u16 = RESUME + 1;

impl Plain for What {
    const WIDTH: usize = 2;
    fn put(&self, out: &mut Vec<u8>, words: &mut Words) {
        let code = match self {
            What::Timeout(kind) => {
                TIMEOUTS.iter().position(|k| k == kind).expect("all kinds are listed") as u16
            }
            What::FastRetransmit => FAST_RETRANSMIT,
            What::Block => BLOCK_DONE,
            What::Pause => PAUSE,
            What::Resume => RESUME,
            What::Change(word) => {
                let known = words.0.iter().position(|w| w == word).unwrap_or_else(|| {
                    words.0.push(word);
                    words.0.len() - 1
                });
                CHANGES + u16::try_from(known).expect("the texts are written in the program")
            }
        };
        code.put(out, words);
    }
    fn get(from: &mut &[u8], words: &Words) -> Self {
        match u16::get(from, words) {
            FAST_RETRANSMIT => What::FastRetransmit,
            BLOCK_DONE => What::Block,
            PAUSE => What::Pause,
            RESUME => What::Resume,
            code if code < FAST_RETRANSMIT => What::Timeout(TIMEOUTS[usize::from(code)]),
            code => What::Change(words.0[usize::from(code - CHANGES)]),
        }
    }
}

/// A row of these fields; a field that is missing here does not compile.
macro_rules! row {
    ($kind:ident { $($field:ident: $type:ty),* } $(place $place:ident)?) => {
        impl Row for $kind {
            const WIDTH: usize = 0 $(+ <$type as Plain>::WIDTH)*;
            $(fn place(&self) -> Option<u64> {
                Some(u64::from(self.$place))
            })?
            fn put(&self, out: &mut Vec<u8>, words: &mut Words) {
                $(<$type as Plain>::put(&self.$field, out, words);)*
            }
            fn get(from: &mut &[u8], words: &Words) -> Self {
                $(let $field = <$type as Plain>::get(from, words);)*
                $kind { $($field),* }
            }
        }
    };
}
/// The same, which can also be packed in memory.
macro_rules! packed_row {
    ($kind:ident { $($field:ident: $type:ty),* } $($place:tt)*) => {
        row!($kind { $($field: $type),* } $($place)*);
        impl Packs for $kind {
            fn pack(rows: &[Self], columns: &mut Columns) {
                $(columns.put(rows.iter().map(|row| row.$field.word()));)*
            }
            fn unpack(from: &mut Reader<'_>, rows: &mut [Self]) {
                $(from.get(rows, |row, word| row.$field = <$type as Word>::of_word(word));)*
            }
        }
    };
}
packed_row!(FlowRecord {
    flow: u32, src: u32, dst: u32, workload: u32, protocol: u16, opened: Time, closed: Time, size: u64,
    open_at_end: bool, complete: bool, established: bool, transfers: u32, acked_bytes: u64,
    delivered_bytes: u64, data_packets: u64, ece_acks: u64, retransmits: u32, timeouts: u32,
    fast_retransmits: u32, tail_loss_probes: u32, drops: u32, srtt: Dur, rtt_mean: Dur, duplicate_bytes: u64, ideal: f64
} place flow);
packed_row!(TransferRecord {
    flow: u32,
    started: Time,
    delivered: Time,
    acked: Time,
    bytes: u64,
    due: Time,
    ideal: f64
});
row!(Event {
    at: Time,
    flow: u32,
    what: What,
    block_start: bool,
    offset: u64,
    outstanding: u64,
    cwnd: u64,
    length: Dur,
    in_a_row: u32,
    drops: u64,
    lost: u64
});
row!(SeriesRow { at: Time, value: f64, number: u32, metric: u16, entity: Entity });

/// The rows of one table in a file. A byte before each says that it is there: places may be empty.
pub(super) struct Disk {
    file: File,
    folder: PathBuf,
    rows: usize,
    /// Places up to the last row.
    places: u64,
    words: Words,
    bytes: Vec<u8>,
}

impl Disk {
    /// An empty file in `folder`, whose name is taken away at once: nothing is left when the process ends, however it ends.
    pub(super) fn new(folder: &Path) -> Disk {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".penstock-rows-{}-{number}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.unwrap_or_else(|e| unwritten(folder, &e));
        remove_file(&path).unwrap_or_else(|e| unwritten(folder, &e));
        Disk {
            file,
            folder: folder.to_owned(),
            rows: 0,
            places: 0,
            words: Words::default(),
            bytes: Vec::new(),
        }
    }
    pub(super) fn len(&self) -> usize {
        self.rows
    }
    /// Adds rows, in the order of their places.
    pub(super) fn put<T: Row>(&mut self, rows: &mut [T]) {
        rows.sort_by_key(|row| row.place());
        self.rows += rows.len();
        let mut rest = &*rows;
        while let Some(first) = rest.first() {
            let start = first.place().unwrap_or(self.places);
            let together = |i: &usize| rest[*i].place().is_none_or(|place| place == start + *i as u64);
            let count = (0..rest.len()).take_while(together).count();
            let (run, others) = rest.split_at(count);
            self.bytes.clear();
            for row in run {
                self.bytes.push(1);
                row.put(&mut self.bytes, &mut self.words);
            }
            let at = SeekFrom::Start(start * (T::WIDTH as u64 + 1));
            let written = self.file.seek(at).and_then(|_| self.file.write_all(&self.bytes));
            written.unwrap_or_else(|e| unwritten(&self.folder, &e));
            self.places = self.places.max(start + count as u64);
            rest = others;
        }
    }
    /// Reads all rows, some at a time.
    pub(super) fn each<T: Row>(&self, read: &mut dyn FnMut(&[T])) {
        let mut file = &self.file;
        let unread = |e: &io::Error| -> ! {
            let why =
                format!("the tables of the run cannot be read back from {} ({e})", self.folder.display());
            std::panic::resume_unwind(Box::new(why))
        };
        if let Err(e) = file.seek(SeekFrom::Start(0)) {
            unread(&e);
        }
        let width = T::WIDTH + 1;
        let (mut bytes, mut rows) = (vec![0; BLOCK * width], Vec::with_capacity(BLOCK));
        let mut left = self.places as usize;
        while left > 0 {
            let block = left.min(BLOCK);
            let bytes = &mut bytes[..block * width];
            if let Err(e) = file.read_exact(bytes) {
                unread(&e);
            }
            let there = bytes.chunks_exact(width).filter(|row| row[0] == 1);
            rows.clear();
            rows.extend(there.map(|row| T::get(&mut &row[1..], &self.words)));
            read(&rows);
            left -= block;
        }
    }
}

/// What cannot be recorded ends the run: a table with holes would be worse. That is no fault of the program: nothing is said of a panic.
fn unwritten(folder: &Path, e: &io::Error) -> ! {
    let why = format!("the tables of the run cannot be written to {} ({e})", folder.display());
    std::panic::resume_unwind(Box::new(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_event_is_read_back() {
        let kinds = TIMEOUTS.map(What::Timeout).into_iter();
        let kinds =
            kinds.chain([What::FastRetransmit, What::Block, What::Change("grows"), What::Change("rests")]);
        let mut rows: Vec<Event> = (1u64..)
            .zip(kinds)
            .map(|(i, what)| Event {
                at: Time(i),
                flow: if i == 1 { u32::MAX } else { 7 },
                what,
                block_start: i % 2 == 0,
                offset: i + 1,
                outstanding: i + 2,
                cwnd: i + 3,
                length: Dur(i + 4),
                in_a_row: 5,
                drops: i + 6,
                lost: i + 7,
            })
            .collect();
        let given = format!("{rows:?}");
        let mut disk = Disk::new(&std::env::temp_dir());
        disk.put(&mut rows);
        let mut back = Vec::new();
        disk.each(&mut |some: &[Event]| back.extend_from_slice(some));
        assert_eq!(format!("{back:?}"), given);
    }
}
