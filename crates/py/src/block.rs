//! Blocks of words as Python objects: a class whose attributes are C members of its objects, read and written by the
//! interpreter itself. Nothing is quicker there, and what would not fit is refused: a float in an int, an int beyond 64 bits.
#![allow(unsafe_code)]

use crate::word::Word;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void, CString};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What marks the classes made here: the number of their words.
const MARK: &str = "_words";

/// A class of blocks with these fields (name, kind, writable), for others to inherit from. Made once for a controller; it
/// lives as long as the process. Raises TypeError for a kind that is no word.
#[pyfunction]
pub fn block_type<'py>(
    py: Python<'py>,
    name: &str,
    fields: Vec<(String, String, bool)>,
) -> PyResult<Bound<'py, PyAny>> {
    let text = |text: &str| -> PyResult<*const std::ffi::c_char> { Ok(CString::new(text)?.into_raw()) };
    let head = size_of::<ffi::PyObject>();
    let mut members = Vec::new();
    for (i, (name, kind, writable)) in fields.iter().enumerate() {
        let kind = match Word::named(kind) {
            Some(Word::Float) => ffi::Py_T_DOUBLE,
            Some(Word::Int) => ffi::Py_T_LONGLONG,
            // The first byte of the word: penstock runs where the least comes first.
            Some(Word::Bool) => ffi::Py_T_BOOL,
            _ => return Err(PyTypeError::new_err(format!("no kind of word: {kind}"))),
        };
        members.push(ffi::PyMemberDef {
            name: text(name)?,
            type_code: kind,
            offset: (head + 8 * i) as ffi::Py_ssize_t,
            flags: if *writable { 0 } else { ffi::Py_READONLY },
            doc: ptr::null(),
        });
    }
    let end = ffi::PyMemberDef { name: ptr::null(), type_code: 0, offset: 0, flags: 0, doc: ptr::null() };
    members.push(end);
    // The interpreter keeps references to all of this for as long as the class lives.
    let members: &'static mut [ffi::PyMemberDef] = members.leak();
    let slots = [
        ffi::PyType_Slot { slot: ffi::Py_tp_members, pfunc: members.as_mut_ptr().cast::<c_void>() },
        ffi::PyType_Slot { slot: 0, pfunc: ptr::null_mut() },
    ];
    let mut spec = ffi::PyType_Spec {
        name: text(&format!("penstock.{name}"))?,
        basicsize: (head + 8 * fields.len()) as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as _,
        slots: slots.as_ptr().cast_mut(),
    };
    // SAFETY: the slots end with a zero slot and the members with an empty one, and the members are leaked. They lie
    // within `basicsize`. The interpreter copies name and slots, and a new reference comes back, or null and an error.
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec))? };
    class.setattr(MARK, fields.len())?;
    Ok(class)
}

/// The words of a block. They lie in the object and live as long.
pub fn in_object(object: &Bound<'_, PyAny>) -> PyResult<(*const AtomicU64, usize)> {
    let class = object.get_type();
    let n: usize = class.getattr(MARK)?.extract()?;
    let head = size_of::<ffi::PyObject>();
    if class.getattr("__basicsize__")?.extract::<usize>()? < head + 8 * n {
        return Err(PyTypeError::new_err("no block of words"));
    }
    // SAFETY: the object has at least `head + 8 * n` bytes, as its class says.
    let words = unsafe { object.as_ptr().cast::<u8>().add(head) };
    Ok((words.cast::<AtomicU64>(), n))
}

/// Writes the words of a block, read-only fields too.
#[pyfunction]
pub fn put_words(object: &Bound<'_, PyAny>, values: Vec<u64>) -> PyResult<()> {
    let (at, n) = in_object(object)?;
    for (i, value) in values.into_iter().take(n).enumerate() {
        // SAFETY: the first `n` words lie in the object, which `object` keeps alive. They are aligned to 8 bytes, as the
        // head of an object is, and shared as atomics only.
        unsafe { &*at.add(i) }.store(value, Relaxed);
    }
    Ok(())
}
