//! Dictionaries of a class written in Python, as state by flow needs them: from an int64 to a word ([`crate::records`]).
//! Compiled code calls the C functions below with the address that the word of its field holds; the interpreter has the
//! same dictionary as an object. A call that fails is taken back, so that the interpreter can repeat it (`_diagnose`).
#![allow(unsafe_code)]

use crate::records::Word;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// One dictionary. Ordered, so that nothing depends on a hash.
#[derive(Default)]
pub struct Table(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    words: BTreeMap<i64, u64>,
    /// What the call under way has changed, with what was there before.
    changed: Vec<(i64, Option<u64>)>,
}

impl Inner {
    fn put(&mut self, key: i64, word: u64) {
        let before = self.words.insert(key, word);
        self.changed.push((key, before));
    }
    fn remove(&mut self, key: i64) -> Option<u64> {
        let before = self.words.remove(&key)?;
        self.changed.push((key, Some(before)));
        Some(before)
    }
    fn clear(&mut self) {
        let all = std::mem::take(&mut self.words);
        self.changed.extend(all.into_iter().map(|(key, word)| (key, Some(word))));
    }
}

impl Table {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nobody panics with it")
    }
    /// A call begins: what it changes can be taken back.
    pub fn begin(&self) {
        self.inner().changed.clear();
    }
    /// As the call under way has found it.
    pub fn roll_back(&self) {
        let inner = &mut *self.inner();
        for (key, before) in inner.changed.drain(..).rev() {
            match before {
                Some(word) => inner.words.insert(key, word),
                None => inner.words.remove(&key),
            };
        }
    }
    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.inner().words.len()
    }
}

/// The dictionary at an address of compiled code.
///
/// # Safety
/// The address is the word of a field that an [`crate::object::Object`] has written, which keeps the dictionary for as
/// long as its methods are called.
unsafe fn at<'a>(table: i64) -> MutexGuard<'a, Inner> {
    // SAFETY: see above.
    unsafe { &*(table as usize as *const Table) }.inner()
}

unsafe extern "C" fn has(table: i64, key: i64) -> i64 {
    // SAFETY: called with the word of a field only.
    i64::from(unsafe { at(table) }.words.contains_key(&key))
}
unsafe extern "C" fn get_int(table: i64, key: i64, default: i64) -> i64 {
    // SAFETY: as in `has`.
    unsafe { at(table) }.words.get(&key).map_or(default, |word| *word as i64)
}
unsafe extern "C" fn get_float(table: i64, key: i64, default: f64) -> f64 {
    // SAFETY: as in `has`.
    unsafe { at(table) }.words.get(&key).map_or(default, |word| f64::from_bits(*word))
}
unsafe extern "C" fn put_int(table: i64, key: i64, value: i64) -> i64 {
    // SAFETY: as in `has`.
    unsafe { at(table) }.put(key, value as u64);
    0
}
unsafe extern "C" fn put_float(table: i64, key: i64, value: f64) -> i64 {
    // SAFETY: as in `has`.
    unsafe { at(table) }.put(key, value.to_bits());
    0
}
unsafe extern "C" fn remove(table: i64, key: i64) -> i64 {
    // SAFETY: as in `has`.
    i64::from(unsafe { at(table) }.remove(key).is_some())
}
unsafe extern "C" fn size(table: i64) -> i64 {
    // SAFETY: as in `has`.
    unsafe { at(table) }.words.len() as i64
}
unsafe extern "C" fn clear(table: i64) -> i64 {
    // SAFETY: as in `has`.
    unsafe { at(table) }.clear();
    0
}

/// Addresses of the functions that compiled code calls: name, address, types of the arguments after the dictionary, and
/// of the answer ("i" an int64, "f" a double).
#[pyfunction]
pub fn table_calls() -> Vec<(&'static str, usize, &'static str, &'static str)> {
    vec![
        ("has", has as *const () as usize, "i", "i"),
        ("get_int", get_int as *const () as usize, "ii", "i"),
        ("get_float", get_float as *const () as usize, "if", "f"),
        ("put_int", put_int as *const () as usize, "ii", "i"),
        ("put_float", put_float as *const () as usize, "if", "i"),
        ("remove", remove as *const () as usize, "i", "i"),
        ("size", size as *const () as usize, "", "i"),
        ("clear", clear as *const () as usize, "", "i"),
    ]
}

/// A dictionary as the interpreter has it.
#[pyclass(name = "Table", frozen)]
pub struct PyTable {
    values: Word,
    table: Arc<Table>,
}

impl PyTable {
    /// The dictionary itself.
    pub fn table(&self) -> Arc<Table> {
        self.table.clone()
    }
    /// One that is there already, with values of a kind.
    pub fn of(table: Arc<Table>, values: Word) -> PyTable {
        PyTable { values, table }
    }
    fn value<'py>(&self, py: Python<'py>, word: u64) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self.values {
            Word::Float => PyFloat::new(py, f64::from_bits(word)).into_any(),
            Word::Bool => PyBool::new(py, word != 0).to_owned().into_any(),
            _ => (word as i64).into_pyobject(py)?.into_any(),
        })
    }
    fn word(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        match self.values {
            Word::Float => {
                let x: f64 = value.extract()?;
                if x.is_nan() {
                    return Err(PyValueError::new_err("a dict of floats gets NaN, which is no number"));
                }
                Ok(x.to_bits())
            }
            Word::Bool => Ok(u64::from(value.extract::<bool>()?)),
            _ => Ok(value.extract::<i64>()? as u64),
        }
    }
}

#[pymethods]
impl PyTable {
    #[new]
    fn new(values: &str) -> PyResult<PyTable> {
        let kind = Word::named(values).filter(|kind| kind.values().is_none());
        let values = kind.ok_or_else(|| PyTypeError::new_err(format!("no kind of value: {values}")))?;
        Ok(PyTable { values, table: Arc::default() })
    }
    fn __len__(&self) -> usize {
        self.table.len()
    }
    fn __contains__(&self, key: i64) -> bool {
        self.table.inner().words.contains_key(&key)
    }
    fn __getitem__<'py>(&self, py: Python<'py>, key: i64) -> PyResult<Bound<'py, PyAny>> {
        let word = self.table.inner().words.get(&key).copied();
        self.value(py, word.ok_or_else(|| PyKeyError::new_err(key))?)
    }
    fn __setitem__(&self, key: i64, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let word = self.word(value)?;
        self.table.inner().put(key, word);
        Ok(())
    }
    fn __delitem__(&self, key: i64) -> PyResult<()> {
        let word = self.table.inner().remove(key);
        word.map(|_| ()).ok_or_else(|| PyKeyError::new_err(key))
    }
    fn get<'py>(&self, key: i64, default: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let word = self.table.inner().words.get(&key).copied();
        word.map_or_else(|| Ok(default.clone()), |word| self.value(default.py(), word))
    }
    #[pyo3(signature = (key, default=None))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: i64,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let word = self.table.inner().remove(key);
        match word {
            Some(word) => self.value(py, word),
            None => default.ok_or_else(|| PyKeyError::new_err(key)),
        }
    }
    fn clear(&self) {
        self.table.inner().clear();
    }
    /// Keys and values, keys in their order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Vec<(i64, Bound<'py, PyAny>)>> {
        let all: Vec<(i64, u64)> = self.table.inner().words.iter().map(|(key, word)| (*key, *word)).collect();
        all.into_iter().map(|(key, word)| Ok((key, self.value(py, word)?))).collect()
    }
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let rows = self.items(py)?;
        let rows: PyResult<Vec<String>> =
            rows.iter().map(|(key, value)| Ok(format!("{key}: {}", value.repr()?))).collect();
        Ok(format!("{{{}}}", rows?.join(", ")))
    }
}
