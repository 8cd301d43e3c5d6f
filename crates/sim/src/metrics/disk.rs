//! Rows of recorded tables as bytes in a file without a name.

use super::row::{Row, Words};
use std::fs::{remove_file, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows that are read at a time.
const BLOCK: usize = 1 << 12;

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
