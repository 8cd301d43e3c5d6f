//! What a link has of its own, and what happens to it at given times: it fails, recovers, or goes on at another rate.

use penstock_core::{bail_if, param, ParamError, ParamSpec, Params};
use penstock_fabric::{Reordering, Scheduler, Trim};
use penstock_units::{Dur, Rate, Time};

/// What a link has of its own instead of the run's; `None` = the run's.
#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    /// Order of service of its port.
    pub scheduler: Option<Option<Scheduler>>,
    /// Whether its port trims.
    pub trim: Option<Option<Trim>>,
    /// Whether it reorders.
    pub reorder: Option<Option<Reordering>>,
    /// When it fails.
    pub outages: Vec<Outage>,
}

impl LinkOptions {
    /// The port has something of its own instead of the run's.
    pub fn are_own(&self) -> bool {
        self.scheduler.is_some() || self.trim.is_some() || self.reorder.is_some()
    }
}

/// What happens to a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    /// It is down; packets that wait for it are lost, or kept.
    Fail {
        /// They wait for its recovery.
        keep: bool,
    },
    /// It is up again.
    Recover,
    /// It has another rate from the next packet on.
    Rate(Rate),
}

/// What happens to the links of a cable at one instant.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkChange {
    /// When.
    pub at: Time,
    /// Links, by number: one direction or both.
    pub links: Vec<u32>,
    /// What.
    pub change: Change,
}

/// A time during which a link is down or slower.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outage {
    pub(super) from: Dur,
    /// `None` = to the end of the run.
    pub(super) to: Option<Dur>,
    /// `None` = it is down.
    pub(super) rate: Option<Rate>,
    pub(super) keep: bool,
}

const TIME: ParamSpec = param!("time": Duration = "" in [0.0, 1e6], "", "");
const RATE: ParamSpec = param!("rate": Rate = "" in [1e3, 1e13], "", "");
const WAITING: ParamSpec = param!("waiting": Choice(&["lost", "kept"]) = "lost", "", "");

/// Reads `T1`, `T1-T2`, `T1-T2,rate=R`, `T1-T2,waiting=kept`.
///
/// # Errors
/// What is no time, an end before the beginning.
pub fn parse_outage(key: &str, text: &str) -> Result<Outage, ParamError> {
    let bad = |rule: &str| ParamError::new(key, text, rule);
    let time = |text: &str| {
        let given = [("time".to_owned(), text.trim().to_owned())];
        Params::parse(key, &[TIME], &given)
            .map(|p| p.dur("time"))
            .map_err(|_| bad("must have times with units, T1 or T1-T2, such as 10ms-20ms"))
    };
    let mut parts = text.split(',');
    let (from, to) = match parts.next().unwrap_or_default().split_once('-') {
        Some((from, to)) => (time(from)?, Some(time(to)?)),
        None => (time(text.split(',').next().unwrap_or_default())?, None),
    };
    bail_if!(to.is_some_and(|to| to <= from), bad("must end after it begins"));
    let given: Option<Vec<(String, String)>> = parts
        .map(|part| part.split_once('=').map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned())))
        .collect();
    let given = given.ok_or_else(|| bad("must be T1-T2, then rate=R or waiting=kept"))?;
    let p = Params::parse(key, &[RATE, WAITING], &given)
        .map_err(|e| ParamError { key: format!("{key}:{}", e.key), ..e })?;
    let rate = p.is_set("rate").then(|| p.rate("rate"));
    let keep = p.text("waiting") == "kept";
    if rate.is_some() && p.is_given("waiting") {
        return Err(ParamError::new(
            format!("{key}:waiting"),
            p.text("waiting"),
            "cannot be given together with rate: the link stays up",
        ));
    }
    Ok(Outage { from, to, rate, keep })
}
