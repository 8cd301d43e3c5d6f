//! What a caller may write for a name, a host, a size and a time.

use penstock_models::queues::Discipline;
use penstock_models::registry::{Entry, HostProtocol, Protocol, ReceiveProtocol};
use penstock_units::{Bytes, Dur, Time};

/// Something of the registry by its name, with parameters (`"dctcp:g=0.0625"`), or something new itself (`&MY_PROTOCOL`, or
/// `(&MY_PROTOCOL, "gain=0.5")` with parameters), which is put into the registry of the simulation.
#[derive(Clone, Debug)]
pub struct Choice<T: 'static> {
    pub(crate) text: String,
    pub(crate) new: Option<&'static T>,
}

/// What has a name and can be registered.
pub trait Registered: Sized + 'static {
    /// Its name.
    fn name(&self) -> &'static str;
    /// As an entry of a registry.
    fn entry(&'static self) -> Entry;
}

macro_rules! registered {
    ($($type:ty),*) => { $(
        impl Registered for $type {
            fn name(&self) -> &'static str {
                self.name
            }
            fn entry(&'static self) -> Entry {
                self.into()
            }
        }
    )* };
}
registered!(Protocol, Discipline, ReceiveProtocol, HostProtocol);

impl<T> From<&str> for Choice<T> {
    fn from(text: &str) -> Self {
        Choice { text: text.to_owned(), new: None }
    }
}
impl<T> From<String> for Choice<T> {
    fn from(text: String) -> Self {
        Choice { text, new: None }
    }
}
impl<T: Registered> From<&'static T> for Choice<T> {
    fn from(new: &'static T) -> Self {
        Choice { text: new.name().to_owned(), new: Some(new) }
    }
}
impl<T: Registered> From<(&'static T, &str)> for Choice<T> {
    fn from((new, params): (&'static T, &str)) -> Self {
        Choice { text: format!("{}:{params}", new.name()), new: Some(new) }
    }
}

/// A host: by its name, or by its position among the hosts of the network, from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Host {
    /// By name.
    Name(String),
    /// By position among the hosts.
    Number(usize),
}

impl From<&str> for Host {
    fn from(name: &str) -> Host {
        Host::Name(name.to_owned())
    }
}
impl From<String> for Host {
    fn from(name: String) -> Host {
        Host::Name(name)
    }
}
impl From<usize> for Host {
    fn from(number: usize) -> Host {
        Host::Number(number)
    }
}

/// A number of bytes: a number, [`Bytes`], or a text with unit (`"10MB"`, 10^7; `"64KiB"`, 2^16).
#[derive(Clone, PartialEq, Debug)]
pub enum Size {
    /// So many.
    Bytes(u64),
    /// As written.
    Text(String),
}

impl From<u64> for Size {
    fn from(bytes: u64) -> Size {
        Size::Bytes(bytes)
    }
}
impl From<Bytes> for Size {
    fn from(bytes: Bytes) -> Size {
        Size::Bytes(bytes.0)
    }
}
impl From<&str> for Size {
    fn from(text: &str) -> Size {
        Size::Text(text.to_owned())
    }
}
impl From<String> for Size {
    fn from(text: String) -> Size {
        Size::Text(text)
    }
}

/// A point in simulated time: [`Time`], a [`Dur`] since the start, or a text with unit (`"1.5ms"`).
#[derive(Clone, PartialEq, Debug)]
pub enum At {
    /// Then.
    Time(Time),
    /// As written.
    Text(String),
}

impl From<Time> for At {
    fn from(at: Time) -> At {
        At::Time(at)
    }
}
impl From<Dur> for At {
    fn from(since: Dur) -> At {
        At::Time(Time::ZERO + since)
    }
}
impl From<&str> for At {
    fn from(text: &str) -> At {
        At::Text(text.to_owned())
    }
}
impl From<String> for At {
    fn from(text: String) -> At {
        At::Text(text)
    }
}
