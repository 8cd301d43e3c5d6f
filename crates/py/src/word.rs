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
}

impl Word {
    /// The name of the Python type.
    pub fn name(self) -> &'static str {
        match self {
            Word::Float => "float",
            Word::Int => "int",
            Word::Bool => "bool",
        }
    }
    /// The word of that Python type.
    pub fn named(name: &str) -> Option<Word> {
        [Word::Float, Word::Int, Word::Bool].into_iter().find(|w| w.name() == name)
    }
}
