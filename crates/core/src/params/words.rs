//! Words that are no known ones: what was probably meant.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The one of `known` that was probably meant by `text`: the same but for the case of letters, or with few letters
/// wrong (half of it, three at most, not all).
pub fn nearest<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.trim().to_lowercase();
    let most = (text.chars().count() / 2).clamp(1, 3);
    known
        .map(|name| (edit_distance(&name.to_lowercase(), &text), name))
        .filter(|(distance, name)| *distance <= most && *distance < name.chars().count())
        .min()
        .map(|(_, name)| name)
}

/// The rule that a word must be one of `known`, with the one that was probably meant by `text`.
pub fn one_of(text: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    match nearest(text, known.iter().copied()) {
        Some(name) => format!("must be one of {list}; did you mean {name}?"),
        None => format!("must be one of {list}"),
    }
}

/// The rule that `text` is no known `what`: the one that was probably meant, and all there are.
pub fn unknown(what: &str, text: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    match nearest(text, known.iter().copied()) {
        Some(name) => format!("unknown {what}; did you mean {name}? known are {list}"),
        None => format!("unknown {what}; known are {list}"),
    }
}

/// Levenshtein distance, for "did you mean".
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
