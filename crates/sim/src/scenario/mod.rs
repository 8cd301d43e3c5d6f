//! A scenario: a name and its parameters, checked once and turned into a [`Setup`] that cannot be wrong.
//!
//! `keys` declares the parameters all scenarios share, `profiles` what their profiles are made of, `common` parses them, `connections` makes connection options of them, `resolved`
//! checks a scenario with its values and runs it.

mod common;
mod connections;
pub mod decomposition;
pub mod document;
pub mod file;
mod keys;
pub mod notes;
pub mod profiles;
mod resolved;
pub mod scenarios;
pub mod session;
pub mod topologies;

pub use crate::setup::RunId;
pub use common::{requests_travel, Common};
pub use connections::Part;
pub use keys::COMMON;
pub use profiles::{Default, Profile};
pub use resolved::{Build, Outcome, Resolved};

use crate::fabric_options::KEYS;
use crate::setup::Setup;
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
    /// Defaults of common parameters that differ here, piece by piece.
    pub defaults: &'static [&'static [Default]],
    /// Named sets of defaults, chosen by the key `profile`; empty = it has none but its own. The first is the defaults above.
    pub profiles: &'static [Profile],
    /// Fills keys without a value with what follows from the others.
    pub derive: fn(&mut Params),
    /// Builds one run of it.
    pub build: fn(&Params, &Common, RunId) -> Result<Setup, ParamError>,
}

impl Scenario {
    /// Own and common parameters, with this scenario's defaults.
    pub fn specs(&self) -> Vec<ParamSpec> {
        self.specs_of("")
    }
    /// Its parameters with the defaults of a profile; those of the scenario itself when there is none of that name.
    pub fn specs_of(&self, profile: &str) -> Vec<ParamSpec> {
        let mut specs = self.own_specs();
        let found = self.profiles.iter().find(|p| p.name == profile);
        for (key, default, origin) in found.into_iter().flat_map(Profile::defaults) {
            let spec = specs.iter_mut().find(|spec| spec.name == *key);
            let spec = spec
                .unwrap_or_else(|| panic!("profile {profile} of {} sets the unknown key {key}", self.name));
            *spec = spec.with_default(default, origin);
        }
        specs
    }
    /// What `profile` may be.
    ///
    /// # Errors
    /// A profile that the scenario does not have.
    pub(crate) fn check_profile(&self, p: &Params) -> Result<(), ParamError> {
        let asked = p.text("profile");
        if asked == "paper" || self.profiles.iter().any(|profile| profile.name == asked) {
            return Ok(());
        }
        Err(p.error("profile", format!("must be paper: scenario {} has no other profiles", self.name)))
    }
    fn own_specs(&self) -> Vec<ParamSpec> {
        let mut specs = self.params.to_vec();
        for common in COMMON.iter().chain(KEYS) {
            if self.params.iter().any(|s| s.name == common.name) {
                continue;
            }
            specs.push(match self.defaults.iter().copied().flatten().find(|d| d.0 == common.name) {
                Some((_, default, origin)) => common.with_default(default, origin),
                None => *common,
            });
        }
        specs
    }
}
