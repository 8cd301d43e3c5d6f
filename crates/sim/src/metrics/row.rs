//! A row of a recorded table, as a file has it: a fixed number of bytes.

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

impl Words {
    /// The number of a text.
    pub(super) fn number(&mut self, word: &'static str) -> usize {
        self.0.iter().position(|known| *known == word).unwrap_or_else(|| {
            self.0.push(word);
            self.0.len() - 1
        })
    }
    /// The text with that number.
    pub(super) fn word(&self, number: usize) -> &'static str {
        self.0[number]
    }
}
