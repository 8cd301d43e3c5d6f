//! What there is to choose from by name: protocols, queues, receiver-side and host controllers. Everything else (command line,
//! documentation, property tests) reads this table.
//!
//! `suite.rs` and `link.rs` have the types, `standard.rs` has the standard list. Another crate adds to the list by
//! `Registry::standard().with(&MY_PROTOCOL)`.

mod link;
mod standard;
mod suite;

pub use link::{alpha_times, BuildLink, LinkFacts, LinkNeeds, Lossless, Paths};
pub use standard::{
    host_controller, protocol, receive_control, unread, HOST_PROTOCOLS, PROTOCOLS, RECEIVE_PROTOCOLS, STACKS,
};
pub use suite::{
    BuildEndpoint, BuildReceive, BuildRouter, BuildStack, BuildSuite, Entry, HostProtocol, Protocol,
    ReceiveProtocol, Suite, Wire,
};

use crate::queues::{BuildQueue, Discipline, QueueSpec};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use penstock_core::params::{parse_spec, unknown};
use penstock_core::{HostController, ParamError, Params};

/// What there is to choose from by name, in the order shown to a user.
#[derive(Clone, Default)]
pub struct Registry {
    protocols: Vec<&'static Protocol>,
    queues: Vec<&'static Discipline>,
    receive: Vec<&'static ReceiveProtocol>,
    hosts: Vec<&'static HostProtocol>,
    /// What builds the protocols of these names in the place of their own `build`.
    builders: Vec<(&'static str, BuildSuite)>,
    /// Builders of queue disciplines, by name.
    queue_builders: Vec<(&'static str, BuildQueue)>,
    /// Protocols that did not come with penstock.
    added: Vec<&'static str>,
}

/// Puts `item` at the end, or in the place of the one with its name.
fn put<T>(list: &mut Vec<&'static T>, item: &'static T, name: fn(&T) -> &'static str) {
    match list.iter_mut().find(|other| name(other) == name(item)) {
        Some(other) => *other = item,
        None => list.push(item),
    }
}

/// An error about a parameter of what `key` names.
fn inner(key: &str) -> impl Fn(ParamError) -> ParamError + '_ {
    move |e| ParamError::new(format!("{key}:{}", e.key), e.value, e.rule)
}

impl Registry {
    /// Nothing.
    pub fn empty() -> Registry {
        Registry::default()
    }
    /// This registry with one more entry, which replaces an entry of its kind and name.
    #[must_use]
    pub fn with(mut self, entry: impl Into<Entry>) -> Registry {
        match entry.into() {
            Entry::Protocol(p) => {
                self.builders.retain(|(name, _)| *name != p.name);
                self.added.push(p.name);
                put(&mut self.protocols, p, |p| p.name);
            }
            Entry::Queue(d) => {
                self.queue_builders.retain(|(name, _)| *name != d.name);
                put(&mut self.queues, d, |d| d.name);
            }
            Entry::Receive(p) => put(&mut self.receive, p, |p| p.name),
            Entry::Host(p) => put(&mut self.hosts, p, |p| p.name),
        }
        self
    }
    /// This registry with a protocol that was made at run time: `build` builds it, not its own function.
    #[must_use]
    pub fn with_builder(self, protocol: &'static Protocol, build: BuildSuite) -> Registry {
        let mut registry = self.with(protocol);
        registry.builders.push((protocol.name, build));
        registry
    }
    /// This registry with a queue discipline that `build` builds, not its own function.
    #[must_use]
    pub fn with_queue_builder(self, discipline: &'static Discipline, build: BuildQueue) -> Registry {
        let mut registry = self.with(discipline);
        registry.queue_builders.push((discipline.name, build));
        registry
    }
    fn build(&self, protocol: &Protocol, params: &Params) -> Result<Suite, ParamError> {
        match self.builders.iter().find(|(name, _)| *name == protocol.name) {
            Some((_, build)) => build(params),
            None => (protocol.build)(params),
        }
    }
    /// Every protocol.
    pub fn protocols(&self) -> &[&'static Protocol] {
        &self.protocols
    }
    /// Every queue discipline.
    pub fn queues(&self) -> &[&'static Discipline] {
        &self.queues
    }
    /// Every receiver-side control.
    pub fn receive_controls(&self) -> &[&'static ReceiveProtocol] {
        &self.receive
    }
    /// Every host controller.
    pub fn host_controllers(&self) -> &[&'static HostProtocol] {
        &self.hosts
    }

    /// A protocol as written in a scenario (`dctcp:g=0.0625`), parsed and built.
    ///
    /// # Errors
    /// An unknown protocol or a bad parameter, naming `key`.
    pub fn protocol(&self, key: &str, text: &str) -> Result<(&'static Protocol, Suite), ParamError> {
        let (name, given) = parse_spec(key, text)?;
        let Some(found) = self.protocols.iter().find(|p| p.name == name) else {
            let names: Vec<&str> = self.protocols.iter().map(|p| p.name).collect();
            return Err(ParamError::new(key, text, unknown("protocol", &name, &names)));
        };
        let params = Params::parse(&format!("protocol {name}"), found.params, &given).map_err(inner(key))?;
        let mut suite = self.build(found, &params).map_err(inner(key))?;
        suite.independent |= !self.added.contains(&found.name);
        Ok((found, suite))
    }
    /// Parameters given to a protocol (`key:name`) that it did not look at: they have no effect.
    pub fn unread(&self, key: &str, text: &str) -> Vec<String> {
        let Ok((name, given)) = parse_spec(key, text) else { return Vec::new() };
        let Some(found) = self.protocols.iter().find(|p| p.name == name) else { return Vec::new() };
        let Ok(params) = Params::parse(&name, found.params, &given) else { return Vec::new() };
        if self.build(found, &params).is_err() {
            return Vec::new();
        }
        params.without_effect().iter().map(|k| format!("{key}:{k}")).collect()
    }
    /// A queue discipline as written in a scenario (`threshold:k=40pkt`).
    ///
    /// # Errors
    /// An unknown discipline or a bad parameter, naming `key`.
    pub fn queue(&self, key: &str, text: &str) -> Result<QueueSpec, ParamError> {
        QueueSpec::built_by(&self.queues, &self.queue_builders, key, text)
    }
    /// A receiver-side control as written in a scenario (`none`, `ictcp:alpha=0.9`), parsed.
    ///
    /// # Errors
    /// An unknown name or a bad parameter, naming `key`.
    pub fn receive_control(&self, key: &str, text: &str) -> Result<Option<BuildReceive>, ParamError> {
        let (name, given) = parse_spec(key, text)?;
        if name == "none" && given.is_empty() {
            return Ok(None);
        }
        let Some(found) = self.receive.iter().find(|p| p.name == name) else {
            let names: Vec<&str> = ["none"].into_iter().chain(self.receive.iter().map(|p| p.name)).collect();
            return Err(ParamError::new(key, text, unknown("receiver-side control", &name, &names)));
        };
        let params = Params::parse(&format!("receiver-side control {name}"), found.params, &given)
            .map_err(inner(key))?;
        Ok(Some((found.build)(&params).map_err(inner(key))?))
    }
    /// A host controller as written in a scenario (`cbc:eta=1.3`); `none` is no control.
    ///
    /// # Errors
    /// An unknown controller or a bad parameter, naming `key`.
    pub fn host_controller(
        &self,
        key: &str,
        text: &str,
    ) -> Result<Option<Box<dyn HostController>>, ParamError> {
        let (name, given) = parse_spec(key, text)?;
        if name == "none" && given.is_empty() {
            return Ok(None);
        }
        let Some(found) = self.hosts.iter().find(|p| p.name == name) else {
            let names: Vec<&str> = ["none"].into_iter().chain(self.hosts.iter().map(|p| p.name)).collect();
            return Err(ParamError::new(key, text, unknown("host controller", &name, &names)));
        };
        let params =
            Params::parse(&format!("host controller {name}"), found.params, &given).map_err(inner(key))?;
        Ok(Some((found.build)(&params).map_err(inner(key))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::sync::Arc;
    use penstock_core::Amount;
    use penstock_fabric::Rule;

    const MINE: Protocol = Protocol {
        name: "mine",
        text: "",
        cites: "",
        params: &[],
        reports: &[],
        build: |_| Ok(Suite::tcp()),
    };
    const OTHER_RENO: Protocol = Protocol { name: "reno", text: "another", ..MINE };

    #[test]
    fn a_registry_is_open() {
        let registry = Registry::standard().with(&MINE).with(&OTHER_RENO);
        let standard = Registry::standard();
        assert_eq!(registry.protocols().len(), standard.protocols().len() + 1);
        assert_eq!(registry.protocol("protocol", "mine").unwrap().0.name, "mine");
        assert_eq!(registry.protocol("protocol", "reno").unwrap().0.text, "another");
        assert!(standard.protocol("protocol", "mine").is_err());
        let message = registry.protocol("protocol", "mime").err().unwrap().to_string();
        assert!(message.contains("unknown protocol; did you mean mine?"), "{message}");
        assert_eq!(Registry::empty().with(&MINE).protocols().len(), 1);
    }
    #[test]
    fn a_builder_made_at_run_time_goes_before_the_protocol_s_own_until_it_is_replaced() {
        let rule = String::from("state of its own");
        let build: BuildSuite = Arc::new(move |_| Err(ParamError::new("x", "", rule.clone())));
        let registry = Registry::standard().with_builder(&MINE, build);
        let message = registry.protocol("protocol", "mine").err().unwrap().to_string();
        assert!(message.contains("protocol:x") && message.contains("state of its own"), "{message}");
        assert!(registry.with(&MINE).protocol("protocol", "mine").is_ok());
    }
    #[test]
    fn so_does_the_builder_of_a_queue() {
        const MY_QUEUE: Discipline = Discipline {
            name: "mine",
            text: "",
            cites: "",
            params: &[],
            marks: |_| false,
            build: |_, _| Ok(Rule::DropTail),
        };
        let k = Amount::Packets(7);
        let build: BuildQueue = Arc::new(move |_, _| Ok(Rule::Threshold(k)));
        let registry = Registry::standard().with_queue_builder(&MY_QUEUE, build);
        let rule = |registry: &Registry| registry.queue("queue", "mine").unwrap().build(1500);
        assert!(matches!(rule(&registry), Rule::Threshold(Amount::Packets(7))));
        assert!(matches!(rule(&registry.with(&MY_QUEUE)), Rule::DropTail));
    }
    #[test]
    fn every_standard_name_is_there_once_and_builds() {
        let registry = Registry::standard();
        let mut names: Vec<&str> = registry.protocols().iter().map(|p| p.name).collect();
        for name in &names {
            assert!(registry.protocol("protocol", name).is_ok(), "{name}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROTOCOLS.len() + STACKS.len());
        for d in registry.queues() {
            assert!(registry.queue("queue", d.name).is_ok(), "{}", d.name);
        }
        assert!(registry.receive_control("receive", "ictcp").unwrap().is_some());
        assert!(registry.host_controller("control", "none").unwrap().is_none());
    }
}
