//! `penstock._engine`: plain data in, arrays out. Nothing is decided here.

mod block;
mod columns;
mod controllers;
mod law;
mod object;
mod port;
mod receiver;
mod records;
mod table;
mod word;

use columns::{put_table, return_memory, tables, tables_of, LARGE};
use penstock_core::ParamError;
use penstock_live::scenario::LiveScenario;
use penstock_live::Failure;
use penstock_sim::checkpoint;
use penstock_sim::cores::{Cores, Threads};
use penstock_sim::decomposition::{self, Approximation};
use penstock_sim::document;
use penstock_sim::engine::Progress as EngineProgress;
use penstock_sim::fingerprint::fingerprint;
use penstock_sim::metrics::{Memory, LEAST_MEMORY};
use penstock_sim::results::Summary;
use penstock_sim::scenario::{Outcome, Resolved};
use penstock_sim::session::Session;
use penstock_sim::trace::{preamble, result_record};
use penstock_sim::workloads::goal::read_goal;
use penstock_sim::workloads::loggops::{finish_times, LogGops};
use penstock_units::Time;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::import_exception;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::any::Any;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

import_exception!(penstock.errors, ScenarioError);

fn scenario_error(_py: Python<'_>, e: &ParamError) -> PyErr {
    ScenarioError::new_err((e.to_string(), e.key.clone(), e.value.clone(), e.rule.clone()))
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
    /// Work that is complete, of workloads with an end of their own, or simulated time so far, over the whole, 0 to 1.
    #[getter]
    fn fraction(&self) -> f64 {
        let end = self.0.end_ps.load(Ordering::Relaxed);
        if end == 0 {
            return 0.0;
        }
        (self.0.now_ps.load(Ordering::Relaxed) as f64 / end as f64).min(1.0)
    }
    /// Why the run is made on fewer threads than it may be, as soon as that is known: mostly before it begins. Empty until then.
    #[getter]
    fn note(&self) -> String {
        self.0.note.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
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
    /// Why on fewer threads than were asked for; empty when on as many.
    #[pyo3(get)]
    threads_note: String,
    /// SHA-256 of summary and tables, if requested.
    #[pyo3(get)]
    fingerprint: String,
}

/// What a panic says.
fn what(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
    text.unwrap_or_else(|| "the engine stopped".to_owned())
}

/// A message with a port's number (`port::numbered`) replaced by its name.
fn with_port_names(text: String, resolved: &Resolved, run: u64) -> String {
    let mark = port::numbered(0);
    let mark = mark.trim_end_matches('0');
    let Some((before, after)) = text.split_once(mark) else { return text };
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    let Ok(number) = after[..digits].parse::<u32>() else { return text };
    match resolved.setup(run) {
        Ok(setup) if (number as usize) < setup.topology.links.len() => {
            format!("{before}port {}{}", setup.topology.link_name(number), &after[digits..])
        }
        _ => text,
    }
}

/// The scenario of the document, with the controllers that it names. A controller that fails while the scenario is
/// looked at has a mistake that is known before the run.
///
/// A large network takes seconds to look at, so signals are handled while it is checked, and `watch` can stop it.
fn resolved(py: Python<'_>, spec_json: &str, watch: Option<&Progress>) -> PyResult<Resolved> {
    let registry = Arc::new(controllers::registry(py, spec_json)?);
    let (watch, raised) = (watch.map(|watch| watch.0.clone()), Arc::new(Mutex::new(None)));
    let signal = raised.clone();
    let stop = move || {
        let signalled = Python::attach(|py| py.check_signals());
        let cancelled = watch.as_ref().is_some_and(|watch| watch.cancelled.load(Ordering::Relaxed));
        let stopped = signalled.is_err() || cancelled;
        *signal.lock().unwrap_or_else(PoisonError::into_inner) = signalled.err();
        stopped
    };
    let work = || checkpoint::watched(stop, || document::resolve_among(registry, spec_json));
    let found = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    if let Some(signal) = raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(signal);
    }
    match found {
        Ok(resolved) => resolved.map_err(|e| failure(py, &e)),
        Err(panic) => Err(ScenarioError::new_err(what(&*panic))),
    }
}

/// The exception of an error in building or running a scenario.
fn failure(py: Python<'_>, e: &ParamError) -> PyErr {
    match e.rule == checkpoint::STOPPED {
        true => PyRuntimeError::new_err(format!("the run {}", e.rule)),
        false => scenario_error(py, e),
    }
}

/// The resolved scenario as a document, with what its controllers are: a run is another when their file changes.
fn resolved_document(resolved: &Resolved, spec_json: &str) -> String {
    let mut out = with_controllers(document::resolved(resolved), spec_json);
    if let Some(method) = approximate(spec_json) {
        out[decomposition::KEY] = method.into();
    }
    out.to_string()
}

/// The method of the approximation that the document asks for in a run's place.
fn approximate(spec_json: &str) -> Option<String> {
    let document: serde_json::Value = serde_json::from_str(spec_json).ok()?;
    document[decomposition::KEY].as_str().map(str::to_owned)
}

fn with_controllers(mut out: serde_json::Value, spec_json: &str) -> serde_json::Value {
    let named = controllers::named(spec_json);
    if !named.is_empty() {
        out["controllers"] = named.iter().map(controllers::content).collect();
    }
    out
}

/// Runs replication `run` of the scenario of the document on up to `threads` threads; releases the GIL meanwhile. The
/// result is the same for any number of these. `fingerprinted` asks for the fingerprint too. An approximation that the
/// document asks for is computed in the run's place. `memory` bounds the memory of tables: bytes, the folder for the
/// rest, and a callback that reads tables from there. The callback gets their name and the columns of some rows at a
/// time, and returns whether it wants more.
#[pyfunction]
#[pyo3(signature = (spec_json, run, progress, fingerprinted = false, threads = 1, memory = None))]
fn run(
    py: Python<'_>,
    spec_json: &str,
    run: u64,
    progress: &Progress,
    fingerprinted: bool,
    threads: usize,
    memory: Option<(usize, String, Py<PyAny>)>,
) -> PyResult<RunResult> {
    let resolved = resolved(py, spec_json, Some(progress))?;
    let watch = progress.0.clone();
    if let Some(method) = approximate(spec_json) {
        let clock = py.import("time")?.getattr(if threads > 1 { "process_time" } else { "thread_time" })?;
        let before: f64 = clock.call0()?.extract()?;
        let work = || decomposition::run(&resolved, run, &method, threads, &watch);
        let found = match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
            Ok(result) => result.map_err(|e| scenario_error(py, &e))?,
            Err(panic) => return Err(PyRuntimeError::new_err(format!("the run failed: {}", what(&*panic)))),
        };
        let cpu = clock.call0()?.extract::<f64>()? - before;
        return approximated(py, &resolved, spec_json, &found, cpu, fingerprinted);
    }
    // Methods that are interpreted would wait for each other's turn, and may keep what they like where others see it.
    let interpreted = controllers::interpreted(py, spec_json)?;
    let in_python = threads > 1 && interpreted;
    let threads = if interpreted { Threads::one_by_one() } else { Threads::up_to(threads) };
    let thread_time = py.import("time")?.getattr("thread_time")?;
    let before: f64 = thread_time.call0()?.extract()?;
    let (bound, taker) = match memory {
        Some((bytes, folder, taker)) => (Some(Memory { bytes, folder: folder.into() }), Some(taker)),
        None => (None, None),
    };
    let work = || match bound {
        Some(bound) => {
            let cores = alone(&threads);
            cores.note.iter().for_each(|note| watch.say(note));
            Ok((resolved.run_within(run, bound, &watch)?, cores))
        }
        None => resolved.run_on(run, &threads, &watch),
    };
    if in_python {
        watch.say(INTERPRETED);
    }
    let cancelled = progress.0.clone();
    let stop = move || cancelled.cancelled.load(Ordering::Relaxed);
    let work = || checkpoint::watched(stop, work);
    let mut outcome = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    if outcome.is_err()
        && taker.is_none()
        && threads != Threads::one_by_one()
        && !controllers::named(spec_json).is_empty()
    {
        // A controller has failed. A run event by event decides which one fails first, whatever the number of threads
        // here.
        let again = || resolved.run_on(run, &Threads::one_by_one(), &watch);
        outcome = py.detach(|| catch_unwind(AssertUnwindSafe(again)));
    }
    let cpu: f64 = thread_time.call0()?.extract::<f64>()? - before;
    let (outcome, mut cores) = match outcome {
        Ok(result) => result.map_err(|e| failure(py, &e))?,
        Err(panic) => {
            let text = with_port_names(what(&*panic), &resolved, run);
            return Err(PyRuntimeError::new_err(format!("the run failed: {text}")));
        }
    };
    let Outcome { mut engine, summary, completed, bottleneck, warnings } = outcome;
    if in_python {
        cores.note = Some(INTERPRETED.to_owned());
    }
    let print = if fingerprinted { fingerprint(&engine.measured(), &summary) } else { String::new() };
    let numbers = numbers(py, &summary)?;
    let timings = PyDict::new(py);
    // All threads work and wait for each other as long as this one.
    timings.set_item("cpu_s", cpu * cores.threads as f64)?;
    timings.set_item("packet_hops", engine.packet_hops())?;
    timings.set_item("threads", cores.threads)?;
    if cores.work.windows > 0 {
        timings.set_item("windows", cores.work.windows)?;
        timings.set_item("hops_per_window", cores.work.hops as f64 / cores.work.windows as f64)?;
    }
    // Reading back what is on disk may fail as writing it may.
    let tables = catch_unwind(AssertUnwindSafe(|| tables_of(py, &mut engine, taker.as_ref())))
        .map_err(|panic| PyRuntimeError::new_err(format!("the run failed: {}", what(&*panic))))??;
    let large = engine.measured().ports.len() > LARGE / 10;
    drop(engine);
    if large {
        return_memory();
    }
    Ok(RunResult {
        summary: numbers.unbind(),
        tables: tables.unbind(),
        timings: timings.unbind(),
        completed,
        scenario: resolved_document(&resolved, spec_json),
        notes: Vec::new(),
        warnings,
        bottleneck,
        threads_note: cores.note.unwrap_or_default(),
        fingerprint: print,
    })
}

/// Why a run with interpreted controllers is made on one thread.
const INTERPRETED: &str = "the run is made on one thread: it has controllers that are interpreted";

/// On how many cores a run is made that may put its tables on disk: what several threads record is told to one recorder at the end.
fn alone(threads: &Threads) -> Cores {
    let note = (threads.most > 1)
        .then(|| "the run is made on one thread: its tables go to disk as they grow (memory)".to_owned());
    Cores { threads: 1, note, work: Default::default() }
}

/// An approximation in the place of a run: its tables are those it has.
fn approximated(
    py: Python<'_>,
    resolved: &Resolved,
    spec_json: &str,
    found: &Approximation,
    cpu: f64,
    fingerprinted: bool,
) -> PyResult<RunResult> {
    let (timings, tables) = (PyDict::new(py), PyDict::new(py));
    timings.set_item("cpu_s", cpu)?;
    timings.set_item("packet_hops", found.packet_hops)?;
    timings.set_item("links", found.links.0)?;
    timings.set_item("links_simulated", found.links.1)?;
    for name in decomposition::TABLES {
        put_table(&tables, found.table(name))?;
    }
    Ok(RunResult {
        summary: numbers(py, &found.summary)?.unbind(),
        tables: tables.unbind(),
        timings: timings.unbind(),
        completed: found.completed,
        scenario: resolved_document(resolved, spec_json),
        notes: Vec::new(),
        threads_note: String::new(),
        warnings: found.warnings.clone(),
        bottleneck: String::new(),
        fingerprint: if fingerprinted { found.fingerprint() } else { String::new() },
    })
}

/// Runs replication `run` of the scenario of the document and writes its record to `path` (format: `penstock_sim::trace`), which
/// must not exist; `record` in the document says how much of it (`penstock_sim::session`). Releases the GIL meanwhile. Answers whether it ran to its end. Raises OSError for a file that cannot be written.
#[pyfunction]
fn record(py: Python<'_>, spec_json: &str, run: u64, path: &str, progress: &Progress) -> PyResult<bool> {
    let mut document: serde_json::Value =
        serde_json::from_str(spec_json).map_err(|e| PyValueError::new_err(e.to_string()))?;
    document["run"] = run.into();
    if document["record"].is_null() {
        document["record"] = serde_json::json!({});
    }
    let resolved = resolved(py, spec_json, None)?;
    let mut session = Session::of(&resolved, &document.to_string(), progress.0.clone())
        .map_err(|e| scenario_error(py, &e))?;
    let written = py.detach(|| catch_unwind(AssertUnwindSafe(|| write_record(&mut session, path))));
    match written {
        Ok(Ok(())) => Ok(session.result().is_some_and(|r| r["completed"] == true)),
        Ok(Err(Unwritten::Input(e))) => Err(scenario_error(py, &e)),
        Ok(Err(Unwritten::File(e))) => Err(e.into()),
        Err(panic) => {
            let text = with_port_names(what(&*panic), &resolved, run);
            Err(PyRuntimeError::new_err(format!("the run failed: {text}")))
        }
    }
}

enum Unwritten {
    Input(ParamError),
    File(std::io::Error),
}

fn write_record(session: &mut Session, path: &str) -> Result<(), Unwritten> {
    // The file is created exclusively, so an existing file or a link at its place is not written through.
    let file = File::options().write(true).create_new(true).open(path).map_err(Unwritten::File)?;
    let mut file = BufWriter::new(file);
    let mut put = |words: &[u32]| {
        words.iter().try_for_each(|word| file.write_all(&word.to_le_bytes())).map_err(Unwritten::File)
    };
    let preamble = preamble(session.head());
    let words: Vec<u32> = preamble
        .chunks_exact(4)
        .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect();
    put(&words)?;
    let end = session.head()["duration_ps"].as_u64().unwrap_or(0);
    let (mut at, mut buffer) = (0, Vec::new());
    loop {
        // A slice whose records fit any memory.
        at += (end / 1000).max(1);
        let more = session.step(Time(at)).map_err(Unwritten::Input)?;
        session.drain(&mut buffer);
        put(&buffer)?;
        if !more {
            break;
        }
    }
    if let Some(result) = session.result() {
        put(&result_record(&result))?;
    }
    file.flush().map_err(Unwritten::File)
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
    let scenario = live_scenario(py, spec_json)?;
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
        scenario: live_document(&scenario, spec_json).to_string(),
        bottleneck: outcome.measured().bottleneck_name(),
        warnings: outcome.warnings,
        threads_note: String::new(),
        fingerprint: String::new(),
        notes: outcome.quality.notes,
    })
}

/// The live scenario of the document. A controller in Python steers its sockets by what the edge of the network sees.
fn live_scenario(py: Python<'_>, spec_json: &str) -> PyResult<LiveScenario> {
    if let Some((name, what)) = controllers::not_live(py, spec_json)? {
        let rule =
            format!("has {what}, which a kernel's socket does not report: it runs in the simulator only");
        return Err(scenario_error(py, &ParamError::new("protocol", name, rule)));
    }
    let registry = Arc::new(controllers::registry(py, spec_json)?);
    match catch_unwind(AssertUnwindSafe(|| LiveScenario::among(&registry, spec_json))) {
        Ok(scenario) => scenario.map_err(|e| scenario_error(py, &e)),
        Err(panic) => Err(ScenarioError::new_err(what(&*panic))),
    }
}

fn live_document(scenario: &LiveScenario, spec_json: &str) -> serde_json::Value {
    let mut out = with_controllers(document::resolved(&scenario.resolved), spec_json);
    let options: serde_json::Map<_, _> =
        scenario.options.resolved().map(|(key, text, _)| (key.to_owned(), text.into())).collect();
    out["live"] = options.into();
    out["scale"] = scenario.scale.into();
    out["without_counterpart"] = scenario.without_counterpart.clone().into();
    out
}

/// Returns the scenario of the document as a live run would have it, as a JSON document. That is the document of
/// [`resolve`] with the options under `live`, the factor under `scale`, and under `without_counterpart` the given keys
/// that the kernel lacks.
#[pyfunction]
fn live_resolve(py: Python<'_>, spec_json: &str) -> PyResult<String> {
    let scenario = live_scenario(py, spec_json)?;
    Ok(live_document(&scenario, spec_json).to_string())
}

/// What this machine has and lacks for live runs, as a JSON document.
#[pyfunction]
fn doctor() -> String {
    penstock_live::doctor::document().to_string()
}

/// The scenario of the document with every value filled in, as a JSON document.
#[pyfunction]
fn resolve(py: Python<'_>, spec_json: &str) -> PyResult<String> {
    let resolved = resolved(py, spec_json, None)?;
    if let Some(method) = approximate(spec_json) {
        decomposition::check(&resolved, &method).map_err(|e| scenario_error(py, &e))?;
    }
    Ok(resolved_document(&resolved, spec_json))
}

/// Everything there is, as a JSON document.
#[pyfunction]
fn describe() -> String {
    let mut all = document::catalogue();
    let options: Vec<_> = penstock_live::scenario::OPTIONS.iter().map(document::spec).collect();
    all["views"] = serde_json::json!([{
        "name": "live", "params": options, "source": "docs/reference/live.md",
        "text": "any scenario with kernel sockets across the simulator's ports (Linux): penstock live",
    }]);
    all.to_string()
}

/// A value as it is written ("200us", "32KB") as a number in base units and its unit; None when it is no number.
#[pyfunction]
fn quantity(text: &str) -> Option<(f64, &'static str)> {
    penstock_core::params::quantity(text)
}

/// Finish times of the ranks of a GOAL schedule under LogGOPS, in its unit of time.
#[pyfunction]
fn loggops(
    py: Python<'_>,
    text: &str,
    latency: u64,
    overhead: u64,
    gap: u64,
    per_byte: u64,
) -> PyResult<Vec<u64>> {
    let goal = read_goal(text).map_err(|rule| scenario_error(py, &ParamError::new("file", "", rule)))?;
    Ok(py.detach(|| finish_times(&goal, &LogGops { latency, overhead, gap, per_byte })))
}

/// The records that classes written in Python see, by name: a (field, type, text, writable) for each field; and the numbers
/// of events, limits and verdicts by name.
#[pyfunction]
fn controller_records<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    let layouts = [
        ("ack", records::ACK),
        ("flow", records::FLOW),
        ("event", records::EVENT),
        ("config", records::CONFIG),
        ("packet", records::PACKET),
        ("waited", records::WAITED),
        ("port", records::PORT),
        ("headed", records::HEADED),
        ("line", records::LINE),
        ("link", records::LINK),
        ("segment", records::SEGMENT),
        ("heard", records::HEARD),
        ("receiving", records::RECEIVING),
    ];
    for (name, layout) in layouts {
        let writable = records::WRITABLE.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, of)| of);
        let field = |(name, word, text): &(&'static str, records::Word, &'static str)| {
            (*name, word.name(), *text, writable.contains(name))
        };
        let fields: Vec<_> = layout.iter().map(field).collect();
        out.set_item(name, fields)?;
    }
    out.set_item("Event", records::EVENTS.to_vec())?;
    out.set_item("Limit", records::LIMITS.to_vec())?;
    out.set_item("Verdict", records::VERDICTS.to_vec())?;
    Ok(out)
}

/// The engine.
#[pymodule]
fn _engine(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("ScenarioError", m.py().get_type::<ScenarioError>())?;
    m.add("LEAST_MEMORY", LEAST_MEMORY)?;
    m.add_class::<Progress>()?;
    m.add_class::<RunResult>()?;
    m.add_class::<table::PyTable>()?;
    m.add_function(wrap_pyfunction!(table::table_calls, m)?)?;
    m.add_function(wrap_pyfunction!(block::block_type, m)?)?;
    m.add_function(wrap_pyfunction!(block::put_words, m)?)?;
    m.add_function(wrap_pyfunction!(run, m)?)?;
    m.add_function(wrap_pyfunction!(record, m)?)?;
    m.add_function(wrap_pyfunction!(resolve, m)?)?;
    m.add_function(wrap_pyfunction!(describe, m)?)?;
    m.add_function(wrap_pyfunction!(live, m)?)?;
    m.add_function(wrap_pyfunction!(live_resolve, m)?)?;
    m.add_function(wrap_pyfunction!(doctor, m)?)?;
    m.add_function(wrap_pyfunction!(quantity, m)?)?;
    m.add_function(wrap_pyfunction!(loggops, m)?)?;
    m.add_function(wrap_pyfunction!(controller_records, m)?)?;
    Ok(())
}
