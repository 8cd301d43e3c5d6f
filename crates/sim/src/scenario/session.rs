//! One run of a document in steps, with its record: what the page and `penstock run --record` drive.

use crate::document;
use crate::engine::{Engine, Progress, Step};
use crate::fingerprint::fingerprint;
use crate::scenario::{Outcome, Resolved};
use crate::trace::{head, Wish};
use penstock_core::ParamError;
use penstock_units::{Dur, Time};
use serde_json::{json, Value};
use std::sync::Arc;

/// A run, and what is left of it when it is over.
pub struct Session {
    engine: Option<Engine>,
    outcome: Option<Outcome>,
    progress: Arc<Progress>,
    head: Value,
    prints: bool,
}

impl Session {
    /// The run of a document as [`document::resolve`] reads it. Beside its keys the document may have `run` (number of the replication, 0), `fingerprint`
    /// (true: of all tables, in the result) and `record`. `record` is `{"from_s", "until_s", "most_bytes"}`, all of them or none; without the key there is
    /// no record.
    ///
    /// # Errors
    /// As [`document::resolve`].
    pub fn new(text: &str) -> Result<Session, ParamError> {
        Session::of(&document::resolve(text)?, text, Arc::default())
    }
    /// A session of a scenario that has been resolved from `text`, watched by `progress`.
    ///
    /// # Errors
    /// As [`document::resolve`].
    pub fn of(resolved: &Resolved, text: &str, progress: Arc<Progress>) -> Result<Session, ParamError> {
        let document: Value = serde_json::from_str(text)
            .map_err(|e| ParamError::new("scenario", "", format!("not a JSON document: {e}")))?;
        let setup = resolved.setup(document["run"].as_u64().unwrap_or(0))?;
        let mut head = head(&setup);
        head["scenario"] = resolved.scenario.name.into();
        let all = Wish::all(setup.duration);
        let mut engine = Engine::new(setup)?;
        if let Some(record) = document.get("record").filter(|r| !r.is_null()) {
            let time = |key: &str| record[key].as_f64().map(|s| Time((s * 1e12) as u64));
            engine.record(Wish {
                from: time("from_s").unwrap_or(all.from),
                until: time("until_s").unwrap_or(all.until),
                most_bytes: record["most_bytes"].as_u64().unwrap_or(all.most_bytes),
                ..all
            });
        }
        let prints = document["fingerprint"].as_bool().unwrap_or(false);
        Ok(Session { engine: Some(engine), outcome: None, progress, head, prints })
    }
    /// Head of the record.
    pub fn head(&self) -> &Value {
        &self.head
    }
    /// Goes on to `until`; false when the run is over, or was cancelled.
    ///
    /// # Errors
    /// A workload that asks for an impossible flow.
    pub fn step(&mut self, until: Time) -> Result<bool, ParamError> {
        let Some(engine) = &mut self.engine else { return Ok(false) };
        let step = engine.step(until, &self.progress)?;
        if step == Step::More {
            return Ok(true);
        }
        let completed = step == Step::Done;
        engine.end(completed)?;
        self.outcome = self.engine.take().map(|engine| Outcome::of(engine, completed));
        Ok(false)
    }
    /// The records since the last call, into a buffer whose room is used again.
    pub fn drain(&mut self, into: &mut Vec<u32>) {
        into.clear();
        let ended = self.outcome.as_mut().map(|outcome| &mut outcome.engine);
        if let Some(trace) = self.engine.as_mut().or(ended).and_then(Engine::trace) {
            trace.take_into(into);
        }
    }
    /// `summary`, `warnings`, `bottleneck` (its name), `bottleneck_port`, `packet_hops`, `end_s`, `packets_until_s` (from then on packets
    /// are missing; null: none are), `completed` and `fingerprint`; none while the run goes on.
    pub fn result(&mut self) -> Option<Value> {
        let outcome = self.outcome.as_mut()?;
        let full_at = outcome.engine.trace().map_or(Time::NEVER, |trace| trace.full_at());
        let full_at = (full_at != Time::NEVER).then(|| Dur(full_at.0).as_secs());
        let print = self.prints.then(|| fingerprint(&outcome.engine.measured(), &outcome.summary));
        Some(json!({
            "summary": outcome.summary,
            "warnings": outcome.warnings,
            "bottleneck": outcome.bottleneck,
            "bottleneck_port": outcome.engine.measured().bottleneck,
            "packet_hops": outcome.engine.packet_hops(),
            "end_s": Dur(outcome.engine.now().0).as_secs(),
            "packets_until_s": full_at,
            "completed": outcome.completed,
            "fingerprint": print,
        }))
    }
    /// Where every packet is at `at`, not before the last step: by port the packets on its wire and those in it, each as `[flow,
    /// sequence number]`. Asks nothing else of the run afterwards. None when the run is over.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn whereabouts(&mut self, at: Time) -> Result<Option<Value>, ParamError> {
        let Some(engine) = &mut self.engine else { return Ok(None) };
        Ok(Some(json!(engine.whereabouts(at)?)))
    }
}
