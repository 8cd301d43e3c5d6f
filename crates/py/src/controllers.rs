//! Controllers written in Python as protocols of a registry.
//!
//! The document of a run names them (`controllers`: file, class and hash), so that it can be carried to another thread,
//! process or machine; `penstock.controllers.provide` finds the class there, loading the file where it has to.

use crate::law::{Call, Code, Compiled, Law, Shared};
use crate::records::{Word, Words, ACK, CONFIG, EVENT, FLOW};
use penstock_core::quantity::SHARED;
use penstock_core::tcp::{EcnMode, LossRecovery, TcpConfig};
use penstock_core::{Kind, ParamError, ParamSpec, Params, Quantity, Unit};
use penstock_models::registry::BuildSuite;
use penstock_models::{Protocol, Registry, Suite};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The standard registry with the controllers that the document names.
///
/// # Errors
/// What the Python side finds wrong with one: `ScenarioError`.
pub fn registry(py: Python<'_>, spec_json: &str) -> PyResult<Registry> {
    let mut registry = Registry::standard();
    let named = named(spec_json);
    if named.is_empty() {
        return Ok(registry);
    }
    let provide = py.import("penstock.controllers")?.getattr("provide")?;
    for named in named {
        let identity = named.to_string();
        let controller = provide.call1((identity.as_str(),))?;
        let (protocol, build) = made(&identity, &controller)?;
        registry = registry.with_builder(protocol, build);
    }
    Ok(registry)
}

/// The controllers that a document names. Anything that is no document is the business of who reads all of it.
pub fn named(spec_json: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(spec_json).unwrap_or_default();
    document.get("controllers").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The name of the first of them that asks for what a live run does not know, and what that is.
///
/// # Errors
/// As [`registry`].
pub fn not_live(py: Python<'_>, spec_json: &str) -> PyResult<Option<(String, &'static str)>> {
    let named = named(spec_json);
    if named.is_empty() {
        return Ok(None);
    }
    let provide = py.import("penstock.controllers")?.getattr("provide")?;
    for named in named {
        let controller = provide.call1((named.to_string(),))?;
        let has: u32 = controller.getattr("_has")?.extract()?;
        let what = if controller.getattr("_wants_rate")?.extract()? {
            "ack.rate_bps"
        } else if has & (1 << Call::Transfer as u32) != 0 {
            "on_transfer"
        } else {
            continue;
        };
        return Ok(Some((controller.getattr("name")?.extract()?, what)));
    }
    Ok(None)
}

/// What a controller is, wherever its file lies.
pub fn content(named: &Value) -> Value {
    serde_json::json!({ "name": named["name"], "class": named["class"], "sha256": named["sha256"] })
}

/// A text for the rest of the process: a protocol's names are declared as constants.
fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Protocols by what names their controllers: each is declared once in a process.
static DECLARED: Mutex<Option<BTreeMap<String, &'static Protocol>>> = Mutex::new(None);

fn made(identity: &str, controller: &Bound<'_, PyAny>) -> PyResult<(&'static Protocol, BuildSuite)> {
    let known =
        DECLARED.lock().expect("nobody panics with it").get_or_insert_default().get(identity).copied();
    let protocol = match known {
        Some(protocol) => protocol,
        None => {
            let protocol = declare(controller)?;
            let mut declared = DECLARED.lock().expect("nobody panics with it");
            *declared.get_or_insert_default().entry(identity.to_owned()).or_insert(protocol)
        }
    };
    Ok((protocol, builder(controller)?))
}

fn declare(controller: &Bound<'_, PyAny>) -> PyResult<&'static Protocol> {
    type Row = (String, String, String, f64, f64, String, String);
    let text = |name: &str| Ok::<_, PyErr>(leak(controller.getattr(name)?.extract()?));
    let rows: Vec<Row> = controller.getattr("_parameters")?.extract()?;
    let mut params = Vec::new();
    for (name, kind, default, min, max, text, origin) in rows {
        let kind = match kind.as_str() {
            "rate" => Kind::Rate,
            "duration" => Kind::Duration,
            "size" => Kind::Size,
            "count" => Kind::Count,
            "bool" => Kind::Bool,
            "float" => Kind::Float,
            other => return Err(PyValueError::new_err(format!("no kind of parameter: {other}"))),
        };
        let spec = ParamSpec::new(leak(name), kind, leak(default), leak(text), leak(origin)).range(min, max);
        params.push(spec);
    }
    Ok(Box::leak(Box::new(Protocol {
        name: text("name")?,
        text: text("text")?,
        cites: text("source")?,
        params: params.leak(),
        // They are declared where the builder is made.
        reports: &[],
        // The registry has its builder.
        build: |_| Err(ParamError::new("protocol", "", "is built by the registry it was added to")),
    })))
}

/// Fields of controllers, by name: each is declared once in a process.
static FIELDS: Mutex<BTreeMap<String, &'static Quantity>> = Mutex::new(BTreeMap::new());

/// A field as something that is sampled. What bears the name of a quantity of the engine is that quantity: `alpha` counts in the
/// mean of all `alpha`.
fn field(name: String) -> &'static Quantity {
    if let Some(shared) = SHARED.iter().find(|shared| shared.name == name) {
        return shared;
    }
    let mut fields = FIELDS.lock().expect("nobody panics with it");
    fields.entry(name).or_insert_with_key(|name| {
        let unit = Unit::told_by(name).unwrap_or(Unit::One);
        let text = "field of a controller in Python";
        Box::leak(Box::new(Quantity::new(leak(name.clone()), unit, text)))
    })
}

/// A field of a controller's state, and what a sender begins with.
struct Start {
    what: &'static Quantity,
    word: Word,
    /// `None` = the parameter of that name.
    default: Option<f64>,
}

fn builder(controller: &Bound<'_, PyAny>) -> PyResult<BuildSuite> {
    let mut fields = Vec::new();
    for (name, kind, default) in
        controller.getattr("fields")?.extract::<Vec<(String, String, Option<f64>)>>()?
    {
        let word =
            Word::named(&kind).ok_or_else(|| PyValueError::new_err(format!("no kind of word: {kind}")))?;
        fields.push(Start { what: field(name), word, default });
    }
    let timer = fields.iter().position(|f| f.what.name == "timer_s");
    let has: u32 = controller.getattr("_has")?.extract()?;
    let wants_rate: bool = controller.getattr("_wants_rate")?.extract()?;
    let address: usize = controller.call_method0("_address")?.extract()?;
    let configure = configure(
        &controller.getattr("recovery")?.extract::<String>()?,
        &controller.getattr("ecn")?.extract::<String>()?,
    );
    let controller = controller.clone().unbind();
    Ok(Arc::new(move |p: &Params| {
        let initial = fields.iter().map(|f| initial(f, p)).collect();
        let (code, [ack, event, flow, config]) = Python::attach(|py| code(py, &controller, address))
            .map_err(|e| ParamError::new("protocol", "", e.to_string()))?;
        let shared = Arc::new(Shared {
            controller: Python::attach(|py| controller.clone_ref(py)),
            code,
            fields: fields.iter().map(|f| (f.what, f.word)).collect(),
            initial,
            timer,
            has,
            wants_rate,
            ack,
            event,
            flow,
            config,
        });
        Ok(Suite {
            configure,
            endpoint: Arc::new(move |cfg, _| Box::new(Law::new(&shared, cfg))),
            ..Suite::tcp()
        })
    }))
}

/// The word that a sender's field begins with.
fn initial(field: &Start, p: &Params) -> u64 {
    let x = match (field.default, field.word) {
        (Some(x), _) => x,
        (None, Word::Bool) => f64::from(u8::from(p.flag(field.what.name))),
        (None, _) => p.float(field.what.name),
    };
    if field.word == Word::Float {
        x.to_bits()
    } else {
        x as i64 as u64
    }
}

/// How the methods are called, and the records of a call: ack, event, flow, config.
fn code(py: Python<'_>, controller: &Py<PyAny>, address: usize) -> PyResult<(Code, [Words; 4])> {
    if address != 0 {
        // The address of a C function of this signature, which the Python side has compiled and keeps.
        let code = Code::Compiled(unsafe { std::mem::transmute::<usize, Compiled>(address) });
        return Ok((code, [ACK, EVENT, FLOW, CONFIG].map(|layout| Words::of(layout.len()))));
    }
    let (calls, records): (_, Vec<Py<PyAny>>) = controller.call_method0(py, "_interpreted")?.extract(py)?;
    let mut of = records.iter().map(|object| Words::in_object(object.bind(py)));
    let mut next = || of.next().unwrap_or_else(|| Err(PyValueError::new_err("four records")));
    Ok((Code::Interpreted { calls }, [next()?, next()?, next()?, next()?]))
}

/// What a protocol fixes in the connection is a function without state: one for each combination.
fn configure(recovery: &str, ecn: &str) -> fn(&mut TcpConfig) {
    const fn set<const R: u8, const E: u8>() -> fn(&mut TcpConfig) {
        |c| {
            c.recovery = [LossRecovery::Reno, LossRecovery::NewReno, LossRecovery::Sack][R as usize];
            c.ecn = [EcnMode::Off, EcnMode::Classic, EcnMode::Dctcp][E as usize];
        }
    }
    match (recovery, ecn) {
        ("reno", "off") => set::<0, 0>(),
        ("reno", "classic") => set::<0, 1>(),
        ("reno", _) => set::<0, 2>(),
        ("newreno", "off") => set::<1, 0>(),
        ("newreno", "classic") => set::<1, 1>(),
        ("newreno", _) => set::<1, 2>(),
        (_, "off") => set::<2, 0>(),
        (_, "classic") => set::<2, 1>(),
        _ => set::<2, 2>(),
    }
}
