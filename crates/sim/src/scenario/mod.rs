//! A scenario: a name and its parameters, checked once and turned into a [`Setup`] that cannot be wrong.
//!
//! `keys` declares the parameters all scenarios share, `common` parses them, `connections` makes connection options of them, `resolved`
//! checks a scenario with its values and runs it.

mod common;
mod connections;
mod keys;
mod resolved;

pub use common::Common;
pub use connections::Part;
pub use keys::{COMMON, MOST_REPEATS};
pub use resolved::{Build, Outcome, Resolved};

use crate::fabric_options::KEYS;
use crate::scenarios;
use crate::setup::Setup;
use penstock_core::params::unknown;
use penstock_core::{ParamError, ParamSpec, Params};

/// A named scenario.
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// What happens in it, in one line.
    pub text: &'static str,
    /// Where its defaults come from.
    pub source: &'static str,
    /// Its own parameters, before the common ones.
    pub params: &'static [ParamSpec],
    /// Defaults of common parameters that differ here: name, default, origin.
    pub defaults: &'static [(&'static str, &'static str, &'static str)],
    /// Named sets of defaults, chosen by its key `profile`; empty = it has none. The first is the defaults above.
    pub profiles: &'static [Profile],
    /// Fills keys without a value with what follows from the others.
    pub derive: fn(&mut Params),
    /// Builds one run of it.
    pub build: fn(&Params, &Common, RunId) -> Result<Setup, ParamError>,
}

/// A named set of defaults of a scenario.
pub struct Profile {
    /// Value of the key `profile`.
    pub name: &'static str,
    /// What it stands for, in one line.
    pub text: &'static str,
    /// Key, default, origin.
    pub values: &'static [(&'static str, &'static str, &'static str)],
}

/// Base seed and number of the replication.
#[derive(Clone, Copy, Debug)]
pub struct RunId {
    /// Base seed.
    pub seed: u64,
    /// Replication, 0-based.
    pub run: u64,
}

impl Scenario {
    /// Own and common parameters, with this scenario's defaults.
    pub fn specs(&self) -> Vec<ParamSpec> {
        self.specs_of("")
    }
    /// The same with the defaults of a profile; those of the scenario itself when there is none of that name.
    pub fn specs_of(&self, profile: &str) -> Vec<ParamSpec> {
        let mut specs = self.own_specs();
        let values = self.profiles.iter().find(|p| p.name == profile).map_or(&[][..], |p| p.values);
        for spec in &mut specs {
            if let Some((_, default, origin)) = values.iter().find(|v| v.0 == spec.name) {
                *spec = spec.with_default(default, origin);
            }
        }
        specs
    }
    fn own_specs(&self) -> Vec<ParamSpec> {
        let mut specs = self.params.to_vec();
        for common in COMMON.iter().chain(KEYS) {
            if self.params.iter().any(|s| s.name == common.name) {
                continue;
            }
            specs.push(match self.defaults.iter().find(|d| d.0 == common.name) {
                Some((_, default, origin)) => common.with_default(default, origin),
                None => *common,
            });
        }
        specs
    }
}

/// The scenario of that name.
///
/// # Errors
/// An unknown name.
pub fn find(name: &str) -> Result<&'static Scenario, ParamError> {
    scenarios::ALL.iter().copied().find(|s| s.name == name).ok_or_else(|| {
        let names: Vec<&str> = scenarios::ALL.iter().map(|s| s.name).collect();
        ParamError::new("scenario", name, unknown("scenario", name, &names))
    })
}
