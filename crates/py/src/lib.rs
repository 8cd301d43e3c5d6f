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
use pyo3::types::PyDict;
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
    /// Name of the port that the summary's queue and utilisation are of.
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

fn tables<'py>(py: Python<'py>, e: &Measured<'_>) -> PyResult<Bound<'py, PyDict>> {
    let r = e.recorder;
    let node = |n: u32| e.topology.nodes[n as usize].name.as_str();
    let out = PyDict::new(py);

    let t = PyDict::new(py);
    let rows = &r.flows[..];
    column(py, &t, "flow", rows, |f| f.flow)?;
    t.set_item("src", rows.iter().map(|f| node(f.src)).collect::<Vec<_>>())?;
    t.set_item("dst", rows.iter().map(|f| node(f.dst)).collect::<Vec<_>>())?;
    column(py, &t, "workload", rows, |f| f.workload)?;
    t.set_item(
        "protocol",
        rows.iter().map(|f| e.protocol_names[f.protocol as usize].as_str()).collect::<Vec<_>>(),
    )?;
    column(py, &t, "start_s", rows, |f| f.opened.as_secs())?;
    column(py, &t, "end_s", rows, |f| f.closed.as_secs())?;
    column(py, &t, "complete", rows, |f| !f.open_at_end)?;
    column(
        py,
        &t,
        "fct_s",
        rows,
        |f| {
            if f.open_at_end {
                f64::NAN
            } else {
                f.closed.since(f.opened).as_secs()
            }
        },
    )?;
    column(py, &t, "size_bytes", rows, |f| f.size)?;
    column(py, &t, "transfers", rows, |f| f.transfers)?;
    column(py, &t, "acked_bytes", rows, |f| f.measured().acked_bytes)?;
    column(py, &t, "delivered_bytes", rows, |f| f.measured().delivered_bytes)?;
    column(py, &t, "packets_sent", rows, |f| f.measured().data_packets)?;
    column(py, &t, "retransmits", rows, |f| f.measured().retransmits)?;
    column(py, &t, "timeouts", rows, |f| f.measured().timeouts)?;
    column(py, &t, "fast_retransmits", rows, |f| f.measured().fast_retransmits)?;
    column(py, &t, "ece_acks", rows, |f| f.measured().ece_acks)?;
    column(py, &t, "drops", rows, |f| f.measured().drops)?;
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
    column(py, &t, "fct_s", rows, |x| x.acked.since(x.started).as_secs())?;
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
    column(py, &t, "queue_mean_packets", &rows, |i| stats(i).queue_integral / ps)?;
    column(py, &t, "queue_std_packets", &rows, |i| {
        let mean = stats(i).queue_integral / ps;
        (stats(i).queue_square_integral / ps - mean * mean).max(0.0).sqrt()
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
    t.set_item("what", rows.iter().map(|x| x.what).collect::<Vec<_>>())?;
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
    t.set_item("entity", rows.iter().map(|x| x.entity).collect::<Vec<_>>())?;
    column(py, &t, "number", rows, |x| x.number)?;
    t.set_item("metric", rows.iter().map(|x| x.metric).collect::<Vec<_>>())?;
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
    let Outcome { engine, summary, completed } = match outcome {
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
        warnings: warnings(&summary),
        bottleneck: bottleneck(&engine.measured()),
    })
}

fn warnings(summary: &Summary) -> Vec<String> {
    let of = |name: &str| summary.get(name).copied().unwrap_or(0.0);
    let mut found = Vec::new();
    if of("measured_s") <= 0.0 {
        found.push("the run ended before its warm-up: nothing was measured".to_owned());
    }
    if of("rows_left_out") > 0.0 {
        found.push(format!("{} rows left out, because a table was full", of("rows_left_out")));
    }
    found
}

fn bottleneck(of: &Measured<'_>) -> String {
    of.topology.link_name(of.bottleneck)
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
        bottleneck: bottleneck(&outcome.measured()),
        warnings: warnings(&outcome.summary),
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

/// A value as it is written ("200us", "32KB") as a number in base units and its unit; None when it is no number.
#[pyfunction]
fn quantity(text: &str) -> Option<(f64, &'static str)> {
    penstock_core::params::quantity(text)
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
    m.add_function(wrap_pyfunction!(quantity, m)?)?;
    Ok(())
}
