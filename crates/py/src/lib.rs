//! `penstock._engine`: plain data in, arrays out. Nothing is decided here.

use numpy::IntoPyArray;
use penstock_core::ParamError;
use penstock_live::scenario::LiveScenario;
use penstock_live::Failure;
use penstock_sim::document;
use penstock_sim::engine::Progress as EngineProgress;
use penstock_sim::results::{Measured, Summary};
use penstock_sim::scenario::Outcome;
use penstock_units::Time;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::Arc;

create_exception!(_engine, ScenarioError, PyValueError, "A scenario breaks a rule; has key, value and rule.");

fn scenario_error(py: Python<'_>, e: &ParamError) -> PyErr {
    let error = ScenarioError::new_err(e.to_string());
    let value = error.value(py);
    for (name, text) in [("key", &e.key), ("value", &e.value), ("rule", &e.rule)] {
        if let Err(problem) = value.setattr(name, text.as_str()) {
            return problem;
        }
    }
    error
}

/// Watches one run from another thread, and stops it.
#[pyclass(frozen)]
struct Progress(Arc<EngineProgress>);

#[pymethods]
impl Progress {
    #[new]
    fn new() -> Self {
        Progress(Arc::new(EngineProgress::default()))
    }
    /// Simulated time so far over the whole, 0 to 1.
    #[getter]
    fn fraction(&self) -> f64 {
        let end = self.0.end_ps.load(Ordering::Relaxed);
        if end == 0 {
            return 0.0;
        }
        (self.0.now_ps.load(Ordering::Relaxed) as f64 / end as f64).min(1.0)
    }
    /// Stops the run soon; what it has so far is kept.
    fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }
}

/// What one run measured.
#[pyclass(frozen)]
struct RunResult {
    #[pyo3(get)]
    summary: Py<PyDict>,
    #[pyo3(get)]
    tables: Py<PyDict>,
    #[pyo3(get)]
    timings: Py<PyDict>,
    #[pyo3(get)]
    completed: bool,
    #[pyo3(get)]
    scenario: String,
    /// Live runs: why not to trust them, and what else to know.
    #[pyo3(get)]
    notes: Vec<String>,
    /// What to know before trusting the numbers, a line each.
    #[pyo3(get)]
    warnings: Vec<String>,
    /// Name of the reported port.
    #[pyo3(get)]
    bottleneck: String,
}

fn secs(t: Time) -> f64 {
    if t == Time::NEVER {
        f64::NAN
    } else {
        t.as_secs()
    }
}

/// A column of numbers from the rows of a table.
fn column<'py, R, T: numpy::Element>(
    py: Python<'py>,
    into: &Bound<'py, PyDict>,
    name: &str,
    rows: &[R],
    f: impl Fn(&R) -> T,
) -> PyResult<()> {
    into.set_item(name, rows.iter().map(f).collect::<Vec<T>>().into_pyarray(py))
}

/// A column of texts from the rows of a table: codes, and the list of names they number. A text per cell would take
/// more memory than all else.
fn texts<'py, R>(
    py: Python<'py>,
    into: &Bound<'py, PyDict>,
    name: &str,
    names: &Bound<'py, PyList>,
    rows: &[R],
    code: impl Fn(&R) -> u32,
) -> PyResult<()> {
    let codes = rows.iter().map(code).collect::<Vec<u32>>().into_pyarray(py);
    into.set_item(name, (codes, names))
}

/// The same for words that are not numbered yet.
fn words<'py, R>(
    py: Python<'py>,
    into: &Bound<'py, PyDict>,
    name: &str,
    rows: &[R],
    word: impl Fn(&R) -> &'static str,
) -> PyResult<()> {
    let mut known: BTreeMap<&'static str, u32> = BTreeMap::new();
    let mut names = Vec::new();
    let codes: Vec<u32> = rows
        .iter()
        .map(|row| {
            let word = word(row);
            *known.entry(word).or_insert_with(|| {
                names.push(word);
                names.len() as u32 - 1
            })
        })
        .collect();
    into.set_item(name, (codes.into_pyarray(py), PyList::new(py, names)?))
}

fn tables<'py>(py: Python<'py>, e: &Measured<'_>) -> PyResult<Bound<'py, PyDict>> {
    let r = e.recorder;
    let out = PyDict::new(py);

    let t = PyDict::new(py);
    let rows = &r.flows[..];
    let nodes = PyList::new(py, e.topology.nodes.iter().map(|n| n.name.as_str()))?;
    column(py, &t, "flow", rows, |f| f.flow)?;
    texts(py, &t, "src", &nodes, rows, |f| f.src)?;
    texts(py, &t, "dst", &nodes, rows, |f| f.dst)?;
    column(py, &t, "size_bytes", rows, |f| f.size)?;
    column(py, &t, "opened_s", rows, |f| f.opened.as_secs())?;
    column(py, &t, "closed_s", rows, |f| if f.open_at_end { f64::NAN } else { f.closed.as_secs() })?;
    column(py, &t, "fct_s", rows, |f| f.fct().unwrap_or(f64::NAN))?;
    column(py, &t, "ideal_fct_s", rows, |f| f.ideal)?;
    column(py, &t, "slowdown", rows, |f| f.slowdown())?;
    texts(py, &t, "protocol", &PyList::new(py, e.protocol_names)?, rows, |f| u32::from(f.protocol))?;
    column(py, &t, "workload", rows, |f| f.workload)?;
    column(py, &t, "complete", rows, |f| f.complete)?;
    column(py, &t, "transfers", rows, |f| f.transfers)?;
    column(py, &t, "acked_bytes", rows, |f| f.acked_bytes)?;
    column(py, &t, "delivered_bytes", rows, |f| f.delivered_bytes)?;
    column(py, &t, "packets_sent", rows, |f| f.data_packets)?;
    column(py, &t, "retransmits", rows, |f| f.retransmits)?;
    column(py, &t, "timeouts", rows, |f| f.timeouts)?;
    column(py, &t, "fast_retransmits", rows, |f| f.fast_retransmits)?;
    column(py, &t, "ece_acks", rows, |f| f.ece_acks)?;
    column(py, &t, "drops", rows, |f| f.drops)?;
    column(py, &t, "srtt_s", rows, |f| f.srtt.as_secs())?;
    column(py, &t, "rtt_mean_s", rows, |f| f.rtt_mean.as_secs())?;
    out.set_item("flows", t)?;

    let t = PyDict::new(py);
    let rows = &r.transfers[..];
    column(py, &t, "flow", rows, |x| x.flow)?;
    column(py, &t, "start_s", rows, |x| x.started.as_secs())?;
    column(py, &t, "delivered_s", rows, |x| secs(x.delivered))?;
    column(py, &t, "acked_s", rows, |x| x.acked.as_secs())?;
    column(py, &t, "bytes", rows, |x| x.bytes)?;
    column(py, &t, "fct_s", rows, |x| x.fct())?;
    column(py, &t, "ideal_fct_s", rows, |x| x.ideal)?;
    column(py, &t, "slowdown", rows, |x| x.fct() / x.ideal)?;
    column(py, &t, "due_s", rows, |x| secs(x.due))?;
    out.set_item("transfers", t)?;

    let t = PyDict::new(py);
    let rows: Vec<u32> = (0..e.ports.len() as u32).collect();
    let ps = r.until.since(r.from).as_secs() * 1e12;
    let stats = |i: &u32| e.ports[*i as usize].stats();
    column(py, &t, "port", &rows, |i| *i)?;
    t.set_item("name", rows.iter().map(|i| e.topology.link_name(*i)).collect::<Vec<_>>())?;
    column(py, &t, "bottleneck", &rows, |i| *i == e.bottleneck)?;
    column(py, &t, "rate_bps", &rows, |i| e.ports[*i as usize].rate().as_bps())?;
    column(py, &t, "utilisation", &rows, |i| {
        stats(i).departed_bytes as f64 * 8.0 / (e.ports[*i as usize].rate().as_bps() * ps / 1e12)
    })?;
    column(py, &t, "queue_mean_packets", &rows, |i| e.mean_queue(&stats(i)))?;
    column(py, &t, "queue_std_packets", &rows, |i| {
        let mean = stats(i).queue_integral / ps;
        let variance = stats(i).queue_square_integral / ps - mean * mean;
        // NaN where it was not measured.
        if variance < 0.0 {
            0.0
        } else {
            variance.sqrt()
        }
    })?;
    column(py, &t, "queue_max_packets", &rows, |i| stats(i).queue_max)?;
    column(py, &t, "queue_mean_bytes", &rows, |i| stats(i).byte_integral / ps)?;
    column(py, &t, "packets_arrived", &rows, |i| stats(i).arrived_packets)?;
    column(py, &t, "packets_departed", &rows, |i| stats(i).departed_packets)?;
    for cause in penstock_core::DropCause::ALL {
        column(py, &t, &format!("drops_{}", cause.name()), &rows, |i| stats(i).drops[cause as usize])?;
    }
    column(py, &t, "ce_marks", &rows, |i| stats(i).marks)?;
    out.set_item("ports", t)?;

    let t = PyDict::new(py);
    let rows = &r.events[..];
    column(py, &t, "time_s", rows, |x| x.at.as_secs())?;
    column(py, &t, "flow", rows, |x| if x.flow == u32::MAX { -1 } else { i64::from(x.flow) })?;
    words(py, &t, "what", rows, |x| x.what)?;
    column(py, &t, "block_start", rows, |x| x.block_start)?;
    column(py, &t, "offset_bytes", rows, |x| x.offset)?;
    column(py, &t, "outstanding_bytes", rows, |x| x.outstanding)?;
    column(py, &t, "cwnd_bytes", rows, |x| x.cwnd)?;
    column(py, &t, "rto_s", rows, |x| x.length.as_secs())?;
    column(py, &t, "in_a_row", rows, |x| x.in_a_row)?;
    column(py, &t, "drops", rows, |x| x.drops)?;
    column(py, &t, "lost_bytes", rows, |x| x.lost)?;
    out.set_item("events", t)?;

    let t = PyDict::new(py);
    let rows = &r.series[..];
    column(py, &t, "time_s", rows, |x| x.at.as_secs())?;
    words(py, &t, "entity", rows, |x| x.entity)?;
    column(py, &t, "number", rows, |x| x.number)?;
    words(py, &t, "metric", rows, |x| x.metric)?;
    column(py, &t, "value", rows, |x| x.value)?;
    out.set_item("series", t)?;
    Ok(out)
}

/// Runs replication `run` of the scenario of the document; releases the GIL meanwhile.
#[pyfunction]
fn run(py: Python<'_>, spec_json: &str, run: u64, progress: &Progress) -> PyResult<RunResult> {
    let resolved = document::resolve(spec_json).map_err(|e| scenario_error(py, &e))?;
    let watch = progress.0.clone();
    let thread_time = py.import("time")?.getattr("thread_time")?;
    let before: f64 = thread_time.call0()?.extract()?;
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(|| resolved.run(run, &watch))));
    let cpu: f64 = thread_time.call0()?.extract::<f64>()? - before;
    let Outcome { engine, summary, completed, bottleneck, warnings } = match outcome {
        Ok(result) => result.map_err(|e| scenario_error(py, &e))?,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
                .unwrap_or_else(|| "the engine stopped".to_owned());
            return Err(PyRuntimeError::new_err(format!("the run failed: {text}")));
        }
    };
    let numbers = numbers(py, &summary)?;
    let timings = PyDict::new(py);
    timings.set_item("cpu_s", cpu)?;
    timings.set_item("packet_hops", engine.packet_hops)?;
    Ok(RunResult {
        summary: numbers.unbind(),
        tables: tables(py, &engine.measured())?.unbind(),
        timings: timings.unbind(),
        completed,
        scenario: document::resolved(&resolved).to_string(),
        notes: Vec::new(),
        warnings,
        bottleneck,
    })
}

/// A summary; counts are whole numbers for the reader too.
fn numbers<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (key, value) in summary {
        if value.fract() == 0.0 && value.abs() < 9e15 && !key.ends_with("_s") && !key.ends_with("_bps") {
            out.set_item(*key, *value as i64)?;
        } else {
            out.set_item(*key, *value)?;
        }
    }
    Ok(out)
}

/// Runs replication `run` of the scenario of the document with kernel sockets; releases the GIL meanwhile.
#[pyfunction]
fn live(py: Python<'_>, spec_json: &str, run: u64, progress: &Progress) -> PyResult<RunResult> {
    let scenario = LiveScenario::new(spec_json).map_err(|e| scenario_error(py, &e))?;
    let watch = progress.0.clone();
    let outcome = py.detach(|| penstock_live::run(&scenario, run, watch)).map_err(|e| match e {
        Failure::Input(e) => scenario_error(py, &e),
        Failure::Run(text) => PyRuntimeError::new_err(format!("the run failed: {text}")),
    })?;
    let timings = PyDict::new(py);
    timings.set_item("cpu_s", outcome.cpu_s)?;
    timings.set_item("packet_hops", outcome.measured().packet_hops)?;
    Ok(RunResult {
        summary: numbers(py, &outcome.summary)?.unbind(),
        tables: tables(py, &outcome.measured())?.unbind(),
        timings: timings.unbind(),
        completed: outcome.completed,
        scenario: live_document(&scenario).to_string(),
        bottleneck: outcome.measured().bottleneck_name(),
        warnings: outcome.warnings,
        notes: outcome.quality.notes,
    })
}

fn live_document(scenario: &LiveScenario) -> serde_json::Value {
    let mut out = document::resolved(&scenario.resolved);
    let options: serde_json::Map<_, _> =
        scenario.options.resolved().map(|(key, text, _)| (key.to_owned(), text.into())).collect();
    out["live"] = options.into();
    out["scale"] = scenario.scale.into();
    out["without_counterpart"] = scenario.without_counterpart.clone().into();
    out
}

/// The scenario of the document as a live run would have it, as a JSON document: that of [`resolve`] with the options
/// under `live`, the factor under `scale`, and under `without_counterpart` the given keys that the kernel has not.
#[pyfunction]
fn live_resolve(py: Python<'_>, spec_json: &str) -> PyResult<String> {
    let scenario = LiveScenario::new(spec_json).map_err(|e| scenario_error(py, &e))?;
    Ok(live_document(&scenario).to_string())
}

/// What this machine has and lacks for live runs, as a JSON document.
#[pyfunction]
fn doctor() -> String {
    penstock_live::doctor::document().to_string()
}

/// The scenario of the document with every value filled in, as a JSON document.
#[pyfunction]
fn resolve(py: Python<'_>, spec_json: &str) -> PyResult<String> {
    let resolved = document::resolve(spec_json).map_err(|e| scenario_error(py, &e))?;
    Ok(document::resolved(&resolved).to_string())
}

/// Everything there is, as a JSON document.
#[pyfunction]
fn describe() -> String {
    let mut all = document::catalogue();
    let options: Vec<_> = penstock_live::scenario::OPTIONS.iter().map(document::spec).collect();
    all["views"] = serde_json::json!([{
        "name": "live", "params": options, "source": "docs/live.md",
        "text": "any scenario with kernel sockets across the simulator's ports (Linux): penstock live",
    }]);
    all.to_string()
}

/// The engine.
#[pymodule]
fn _engine(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("ScenarioError", m.py().get_type::<ScenarioError>())?;
    m.add_class::<Progress>()?;
    m.add_class::<RunResult>()?;
    m.add_function(wrap_pyfunction!(run, m)?)?;
    m.add_function(wrap_pyfunction!(resolve, m)?)?;
    m.add_function(wrap_pyfunction!(describe, m)?)?;
    m.add_function(wrap_pyfunction!(live, m)?)?;
    m.add_function(wrap_pyfunction!(live_resolve, m)?)?;
    m.add_function(wrap_pyfunction!(doctor, m)?)?;
    Ok(())
}
