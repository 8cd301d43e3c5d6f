//! Blocks of words as Python objects: a class made of [`Block`] whose attributes are [`Field`]s reads and writes the very
//! words that compiled code and the engine use, and refuses what would not fit.

use crate::records::{words, Word, Words};
use pyo3::exceptions::{PyAttributeError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use std::sync::atomic::Ordering::Relaxed;

/// Words to make a [`Block`] of.
#[pyclass(frozen)]
pub struct Memory(pub Words);

#[pymethods]
impl Memory {
    /// From the words as unsigned numbers.
    #[new]
    fn new(values: Vec<u64>) -> Memory {
        let memory = words(values.len());
        for (word, value) in memory.iter().zip(values) {
            word.store(value, Relaxed);
        }
        Memory(memory)
    }
    /// The words as unsigned numbers.
    fn values(&self) -> Vec<u64> {
        self.0.iter().map(|w| w.load(Relaxed)).collect()
    }
}

/// An object whose fields are words. `strict`: a float must be a number.
#[pyclass(frozen, subclass)]
pub struct Block {
    words: Words,
    strict: bool,
}

#[pymethods]
impl Block {
    #[new]
    #[pyo3(signature = (memory, strict = false))]
    fn new(memory: &Bound<'_, Memory>, strict: bool) -> Block {
        Block { words: memory.get().0.clone(), strict }
    }
}

/// A field of a block, as an attribute of its class.
#[pyclass(frozen)]
pub struct Field {
    name: String,
    slot: usize,
    word: Word,
    writable: bool,
}

#[pymethods]
impl Field {
    /// Raises ValueError for a kind that is no word.
    #[new]
    fn new(name: String, slot: usize, kind: &str, writable: bool) -> PyResult<Field> {
        let word =
            Word::named(kind).ok_or_else(|| PyValueError::new_err(format!("no kind of word: {kind}")))?;
        Ok(Field { name, slot, word, writable })
    }
    fn __get__<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        _owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = object.py();
        let Ok(block) = object.cast::<Block>() else {
            return Err(PyAttributeError::new_err(self.name.clone()));
        };
        let value = self.in_block(block.get())?.load(Relaxed);
        Ok(match self.word {
            Word::Float => PyFloat::new(py, f64::from_bits(value)).into_any(),
            Word::Int => (value as i64).into_pyobject(py)?.into_any(),
            Word::Bool => PyBool::new(py, value != 0).to_owned().into_any(),
        })
    }
    fn __set__(&self, object: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(block) = object.cast::<Block>() else {
            return Err(PyAttributeError::new_err(self.name.clone()));
        };
        let (name, block) = (&self.name, block.get());
        if !self.writable {
            return Err(PyAttributeError::new_err(format!("{name} can only be read")));
        }
        let word = match self.word {
            Word::Float => {
                let wrong = || {
                    let kind = value.get_type().name().map_or_else(|_| String::new(), |n| n.to_string());
                    PyTypeError::new_err(format!("{name} is a float field and gets {kind}"))
                };
                let x = value.extract::<f64>().map_err(|_| wrong())?;
                if block.strict && x.is_nan() {
                    return Err(PyValueError::new_err(format!("{name} becomes NaN, which is no number")));
                }
                x.to_bits()
            }
            Word::Int if value.is_instance_of::<PyInt>() => {
                let whole = value.extract::<i64>();
                whole.map_err(|_| PyOverflowError::new_err(format!("{name} does not fit an int64")))? as u64
            }
            Word::Int => {
                let kind = value.get_type().name()?;
                let rule = format!("{name} is an int field and gets {kind}; write int(...)");
                return Err(PyTypeError::new_err(rule));
            }
            Word::Bool => u64::from(value.is_truthy()?),
        };
        self.in_block(block)?.store(word, Relaxed);
        Ok(())
    }
}

impl Field {
    fn in_block<'a>(&self, block: &'a Block) -> PyResult<&'a std::sync::atomic::AtomicU64> {
        block.words.get(self.slot).ok_or_else(|| PyAttributeError::new_err(self.name.clone()))
    }
}
