//! Controllers and queues written in Python as protocols and queue disciplines of a registry.
//!
//! The document of a run names them (`controllers`: file, class and hash), so that it can go to another thread, process
//! or machine. `penstock.controllers.provide` finds the class there and loads the file if necessary.
#![allow(unsafe_code)]

use crate::law::{Call, Law};
use crate::object::{own_records, Code, Compiled, Shared};
use crate::port::{Queue, Router};
use crate::receiver::Receiver;
use crate::records::{
    Layout, Read, Word, Words, ACK, CONFIG, EVENT, FLOW, HEADED, HEARD, LINE, LINK, PACKET, PORT, RECEIVING,
    SEGMENT, WAITED,
};
use penstock_core::quantity::SHARED;
use penstock_core::tcp::{BuildEcho, EcnMode, LossRecovery, Roles, TcpConfig};
use penstock_core::{Kind, ParamError, ParamSpec, Params, Quantity, Unit};
use penstock_fabric::Rule;
use penstock_models::queues::{BuildQueue, Discipline};
use penstock_models::registry::{BuildRouter, BuildSuite};
use penstock_models::{Protocol, Registry, Suite};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

/// The standard registry with the controllers that the document names.
///
/// # Errors
/// What the Python side finds wrong with one: `ScenarioError`.
pub fn registry(py: Python<'_>, spec_json: &str) -> PyResult<Registry> {
    let mut registry = Registry::standard();
    for (identity, class) in provided(py, spec_json)? {
        registry = match declared(&identity, &class)? {
            Declared::Protocol(protocol) => registry.with_builder(protocol, builder(&class)?),
            Declared::Queue(queue) => registry.with_queue_builder(queue, queue_builder(&class)?),
        };
    }
    Ok(registry)
}

/// The controllers that a document names, each with the text that it is named by. The interpreter is asked only where there is one.
fn provided<'py>(py: Python<'py>, spec_json: &str) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let named = named(spec_json);
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let provide = py.import("penstock.controllers")?.getattr("provide")?;
    let class = |named: Value| {
        let identity = named.to_string();
        let class = provide.call1((identity.as_str(),))?;
        Ok((identity, class))
    };
    named.into_iter().map(class).collect()
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
    for (_, controller) in provided(py, spec_json)? {
        if controller.getattr("role")?.extract::<String>()? != "controller" {
            continue;
        }
        let has: u32 = controller.getattr("_has")?.extract()?;
        let what = if !controller.getattr("router")?.is_none() {
            "a router"
        } else if !controller.getattr("receiver")?.is_none() {
            "a receiver"
        } else if controller.getattr("_wants_rate")?.extract()? {
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

/// True when the interpreter calls the methods of one of them, which may then keep state outside of their objects.
///
/// # Errors
/// As [`registry`].
pub fn interpreted(py: Python<'_>, spec_json: &str) -> PyResult<bool> {
    for (_, controller) in provided(py, spec_json)? {
        let mut classes = vec![controller.clone()];
        if controller.getattr("role")?.extract::<String>()? == "controller" {
            classes.extend([controller.getattr("router")?, controller.getattr("receiver")?]);
        }
        for class in classes.iter().filter(|class| !class.is_none()) {
            if class.call_method0("_address")?.extract::<usize>()? == 0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// What a controller is, wherever its file lies.
pub fn content(named: &Value) -> Value {
    serde_json::json!({ "name": named["name"], "class": named["class"], "sha256": named["sha256"] })
}

/// A text for the rest of the process: a protocol's names are declared as constants.
fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// What a class is to the registry.
#[derive(Clone, Copy)]
enum Declared {
    Protocol(&'static Protocol),
    Queue(&'static Discipline),
}

/// Declarations by what names their classes: each is made once in a process.
static DECLARED: Mutex<BTreeMap<String, Declared>> = Mutex::new(BTreeMap::new());

fn declared(identity: &str, class: &Bound<'_, PyAny>) -> PyResult<Declared> {
    let known = DECLARED.lock().expect("nobody panics with it").get(identity).copied();
    if let Some(known) = known {
        return Ok(known);
    }
    let made = declare(class)?;
    Ok(*DECLARED.lock().expect("nobody panics with it").entry(identity.to_owned()).or_insert(made))
}

fn declare(class: &Bound<'_, PyAny>) -> PyResult<Declared> {
    type Row = (String, String, String, f64, f64, String, String);
    let text = |name: &str| Ok::<_, PyErr>(leak(class.getattr(name)?.extract()?));
    let rows: Vec<Row> = class.getattr("_parameters")?.extract()?;
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
    let (name, said, cites) = (text("name")?, text("text")?, text("source")?);
    if class.getattr("role")?.extract::<String>()? == "queue" {
        let marks: fn(&Params) -> bool =
            if class.getattr("marks")?.extract()? { |_| true } else { |_| false };
        let build =
            |_: &Params, _| Err(ParamError::new("queue", "", "is built by the registry it was added to"));
        let queue = Discipline { name, text: said, cites, params: params.leak(), marks, build };
        return Ok(Declared::Queue(Box::leak(Box::new(queue))));
    }
    Ok(Declared::Protocol(Box::leak(Box::new(Protocol {
        name,
        text: said,
        cites,
        params: params.leak(),
        // They are declared where the builder is made.
        reports: &[],
        // The registry has its builder.
        build: |_| Err(ParamError::new("protocol", "", "is built by the registry it was added to")),
    }))))
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

/// What makes objects of a class: its fields and its code.
struct Class {
    class: Py<PyAny>,
    fields: Vec<Start>,
    timer: Option<usize>,
    has: u32,
    address: usize,
    layouts: &'static [Layout],
}

impl Class {
    fn of(class: &Bound<'_, PyAny>, layouts: &'static [Layout]) -> PyResult<Class> {
        let mut fields = Vec::new();
        for (name, kind, default) in
            class.getattr("fields")?.extract::<Vec<(String, String, Option<f64>)>>()?
        {
            let word = Word::named(&kind)
                .ok_or_else(|| PyValueError::new_err(format!("no kind of word: {kind}")))?;
            fields.push(Start { what: field(name), word, default });
        }
        Ok(Class {
            timer: fields.iter().position(|f| f.what.name == "timer_s"),
            fields,
            has: class.getattr("_has")?.extract()?,
            address: class.call_method0("_address")?.extract()?,
            class: class.clone().unbind(),
            layouts,
        })
    }
    /// With parameters, for one run.
    fn shared(&self, p: &Params) -> Result<Arc<Shared>, ParamError> {
        let (code, records) =
            Python::attach(|py| self.code(py)).map_err(|e| ParamError::new("protocol", "", e.to_string()))?;
        let own: Vec<usize> = (0..self.fields.len()).filter(|i| self.fields[*i].default.is_some()).collect();
        Ok(Arc::new(Shared {
            own: own.first().map_or(0..0, |first| *first..own[own.len() - 1] + 1),
            floats: own.into_iter().filter(|i| self.fields[*i].word == Word::Float).collect(),
            class: Python::attach(|py| self.class.clone_ref(py)),
            code,
            fields: self.fields.iter().map(|f| (f.what, f.word)).collect(),
            initial: self.fields.iter().map(|f| initial(f, p)).collect(),
            timer: self.timer,
            has: self.has,
            records,
        }))
    }
    /// How the methods are called, and the records of a call.
    fn code(&self, py: Python<'_>) -> PyResult<(Code, Vec<Words>)> {
        if self.address != 0 {
            // SAFETY: the address is that of a C function of this signature, not null. The Python side has compiled it and
            // keeps it as long as `class` lives.
            let compiled = unsafe { std::mem::transmute::<usize, Compiled>(self.address) };
            let code = Code::Compiled(compiled);
            return Ok((code, own_records(self.layouts)));
        }
        let (calls, records): (_, Vec<Py<PyAny>>) =
            self.class.call_method0(py, "_interpreted")?.extract(py)?;
        let records: Vec<Words> =
            records.iter().map(|object| Words::in_object(object.bind(py))).collect::<PyResult<_>>()?;
        if records.len() != self.layouts.len() {
            return Err(PyValueError::new_err("records of another role"));
        }
        Ok((Code::Interpreted { calls }, records))
    }
}

// The records of each role, in the order of `penstock.controller_source.ROLES`.
const OF_CONTROLLER: &[Layout] = &[ACK, EVENT, FLOW, CONFIG, HEADED];
const OF_QUEUE: &[Layout] = &[PACKET, WAITED, PORT];
const OF_ROUTER: &[Layout] = &[HEADED, LINE, LINK];
const OF_RECEIVER: &[Layout] = &[SEGMENT, HEARD, EVENT, RECEIVING];

fn builder(controller: &Bound<'_, PyAny>) -> PyResult<BuildSuite> {
    let law = Class::of(controller, OF_CONTROLLER)?;
    let part = |name: &str, layouts| {
        let part = controller.getattr(name)?;
        if part.is_none() {
            Ok(None)
        } else {
            Class::of(&part, layouts).map(Some)
        }
    };
    let (router, receiver) = (part("router", OF_ROUTER)?, part("receiver", OF_RECEIVER)?);
    // Compiled code has nothing but the words of its object: a global is a constant to it. The records of a call are of one run, or of one part of it.
    let independent =
        [Some(&law), router.as_ref(), receiver.as_ref()].iter().flatten().all(|c| c.address != 0);
    let wants_rate: bool = controller.getattr("_wants_rate")?.extract()?;
    let configure = configure(
        &controller.getattr("recovery")?.extract::<String>()?,
        &controller.getattr("ecn")?.extract::<String>()?,
    );
    Ok(Arc::new(move |p: &Params| {
        let (shared, headed) = (law.shared(p)?, router.is_some());
        let router = router.as_ref().map(|class| class.shared(p)).transpose()?;
        let receiver = receiver.as_ref().map(|class| class.shared(p)).transpose()?;
        let echo = receiver
            .map(|shared| -> BuildEcho { Arc::new(move |cfg| Box::new(Receiver::new(&shared, cfg))) });
        Ok(Suite {
            configure,
            endpoint: Arc::new(move |cfg, _| Box::new(Law::new(&shared, cfg, wants_rate, headed))),
            roles: Roles { echo, ..Roles::default() },
            router: router
                .map(|shared| -> BuildRouter { Arc::new(move |link| Box::new(Router::new(&shared, link))) }),
            independent,
            ..Suite::tcp()
        })
    }))
}

fn queue_builder(queue: &Bound<'_, PyAny>) -> PyResult<BuildQueue> {
    let class = Class::of(queue, OF_QUEUE)?;
    let random: bool = queue.getattr("_random")?.extract()?;
    let reads: [Read; 2] = queue.getattr("_reads")?.extract()?;
    // All ports of a run that begin alike share their records, one set of a few cache lines. In a partitioned run the
    // ports of a part do, which one thread builds and runs. A registry serves one run (`registry`).
    let made: Mutex<Vec<(ThreadId, Arc<Shared>)>> = Mutex::default();
    Ok(Arc::new(move |p: &Params, packet| {
        let initial: Vec<u64> = class.fields.iter().map(|f| initial(f, p)).collect();
        let own = std::thread::current().id();
        let known = |made: &[(ThreadId, Arc<Shared>)]| {
            made.iter().find(|(by, shared)| *by == own && shared.initial == initial).map(|(_, s)| s.clone())
        };
        let found = known(&made.lock().expect("nobody panics with it"));
        let shared = match found {
            Some(shared) => shared,
            None => {
                // Asks the interpreter, whom another thread may have while it waits for the list.
                let new = class.shared(p)?;
                made.lock().expect("nobody panics with it").push((own, new.clone()));
                new
            }
        };
        let queue = Box::new(Queue::new(&shared, packet, random, reads));
        // What decides when packets leave alone need not be asked when they come.
        Ok(if class.has & 1 == 0 { Rule::AtDequeue(queue) } else { Rule::Other(queue) })
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
