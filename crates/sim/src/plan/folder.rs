//! The files a scenario names: on disk, or in the document that asks for the run, for a page that has no disk.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where the files of a scenario are.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    /// Where relative paths start.
    base: PathBuf,
    /// Texts by the name under which the scenario has them; looked at first.
    given: BTreeMap<String, String>,
}

impl Folder {
    /// `base_dir` and `files` (texts by name) of a document.
    pub fn of(document: &Value) -> Folder {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let given = document.get("files").and_then(Value::as_object);
        Folder {
            base: document.get("base_dir").map(text).unwrap_or_default().into(),
            given: given.into_iter().flatten().map(|(name, v)| (name.clone(), text(v))).collect(),
        }
    }
    /// The text of a file, or the rule that its name breaks. A byte-order mark, which spreadsheets write, is no part of the text.
    pub(crate) fn read(&self, name: &str) -> Result<String, String> {
        let mut text = match self.given.get(name) {
            Some(text) => text.clone(),
            None => {
                let path = self.base.join(name);
                std::fs::read_to_string(&path)
                    .map_err(|e| format!("the file {} cannot be read: {e}", path.display()))?
            }
        };
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        Ok(text)
    }
}
