//! Tables on their way to Python: columns as NumPy arrays, and memory given back behind them.
#![allow(unsafe_code)]

use numpy::IntoPyArray;
use penstock_sim::engine::Engine;
use penstock_sim::measured::Measured;
use penstock_sim::tables::{kept, on_disk, read, table, take, Table, Values};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The tables of a run: a dict of columns each. Texts are a pair of codes and the names they number.
pub(crate) fn tables<'py>(py: Python<'py>, e: &Measured<'_>) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for name in kept(e) {
        put_table(&out, table(e, name))?;
    }
    Ok(out)
}

/// The tables of an engine whose run is over, which gives its rows back. A table on disk goes to `taker` by groups of rows, as long as
/// `taker` answers true.
pub(crate) fn tables_of<'py>(
    py: Python<'py>,
    engine: &mut Engine,
    taker: Option<&Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    let names = kept(&engine.measured());
    // The last ones first: they are worked out from rows of the first, which these give away.
    let mut made = Vec::with_capacity(names.len());
    for name in names.iter().rev() {
        match taker {
            Some(taker) if on_disk(&engine.measured(), name) => {
                let mut failed = None;
                read(&engine.measured(), name, |group| {
                    let taken = columns(py, group)
                        .and_then(|columns| taker.bind(py).call1((name, columns)))
                        .and_then(|wanted| wanted.extract::<bool>());
                    taken.unwrap_or_else(|e| {
                        failed = Some(e);
                        false
                    })
                });
                if let Some(e) = failed {
                    return Err(e);
                }
            }
            _ => {
                let table = take(engine, name);
                let large = table.rows() > LARGE;
                made.push((table.name, columns(py, table)?));
                if large {
                    return_memory();
                }
            }
        }
    }
    for (name, columns) in made.into_iter().rev() {
        out.set_item(name, columns)?;
    }
    Ok(out)
}

/// Rows of a table whose memory is worth giving back: some megabytes. A tenth of it in ports: a network takes two kilobytes for each.
pub(crate) const LARGE: usize = 50_000;

/// Gives the system what was freed. The C library keeps what lies between things that live on, and the rows of a run are many megabytes that
/// nothing else of this process needs again; polars has an allocator of its own.
pub(crate) fn return_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        extern "C" {
            fn malloc_trim(pad: usize) -> i32;
        }
        // SAFETY: it touches nothing but free memory, and may be called at any time from any thread.
        unsafe { malloc_trim(0) };
    }
}

pub(crate) fn put_table(out: &Bound<'_, PyDict>, table: Table) -> PyResult<()> {
    let name = table.name;
    out.set_item(name, columns(out.py(), table)?)
}

fn columns(py: Python<'_>, table: Table) -> PyResult<Bound<'_, PyDict>> {
    let columns = PyDict::new(py);
    for (column, values) in table.columns {
        let column = column.name;
        match values {
            Values::Bool(v) => columns.set_item(column, v.into_pyarray(py))?,
            Values::U32(v) => columns.set_item(column, v.into_pyarray(py))?,
            Values::U64(v) => columns.set_item(column, v.into_pyarray(py))?,
            Values::I64(v) => columns.set_item(column, v.into_pyarray(py))?,
            Values::F64(v) => columns.set_item(column, v.into_pyarray(py))?,
            Values::Text(codes, names) => columns.set_item(column, (codes.into_pyarray(py), names))?,
        }
    }
    Ok(columns)
}
