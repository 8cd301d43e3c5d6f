//! The kinds of words that blocks are made of.

/// What a word holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// A float.
    Float,
    /// An int64.
    Int,
    /// 0 or 1.
    Bool,
    /// A dictionary with values that are int64 ([`crate::table`]), by its address.
    Ints,
    /// A dictionary with values that are floats, by its address.
    Floats,
    /// A dictionary with values that are 0 or 1, by its address.
    Bools,
}

impl Word {
    /// The name of the Python type.
    pub fn name(self) -> &'static str {
        match self {
            Word::Float => "float",
            Word::Int => "int",
            Word::Bool => "bool",
            Word::Ints => "dict[int, int]",
            Word::Floats => "dict[int, float]",
            Word::Bools => "dict[int, bool]",
        }
    }
    /// The word of that Python type.
    pub fn named(name: &str) -> Option<Word> {
        use Word::{Bool, Bools, Float, Floats, Int, Ints};
        [Float, Int, Bool, Ints, Floats, Bools].into_iter().find(|w| w.name() == name)
    }
    /// What the values of a dictionary are; `None` for a number.
    pub fn values(self) -> Option<Word> {
        match self {
            Word::Ints => Some(Word::Int),
            Word::Floats => Some(Word::Float),
            Word::Bools => Some(Word::Bool),
            _ => None,
        }
    }
}
