//! What a script says.

use penstock_units::{Dur, Time};
use std::collections::BTreeMap;
use std::fmt;

/// A script that cannot be read, or a run that differs from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// File.
    pub file: String,
    /// Line, from 1; 0 = the file itself.
    pub line: usize,
    /// What is wrong, or expected and found.
    pub text: String,
}

impl Failure {
    /// At `line` of `file`.
    pub fn new(file: &str, line: usize, text: impl Into<String>) -> Failure {
        Failure { file: file.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

impl std::error::Error for Failure {}

/// A script.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// File.
    pub file: String,
    /// `--key=value` at its top, with the line.
    pub options: BTreeMap<String, (String, usize)>,
    /// In order.
    pub events: Vec<Event>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Where it begins.
    pub line: usize,
    /// When.
    pub at: When,
    /// What.
    pub what: What,
}

/// When an event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a time of the script.
    At(Time),
    /// So long after the event before.
    After(Dur),
    /// From so long after the event before to so long after it.
    Within(Dur, Dur),
    /// Whenever.
    Any,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A packet arrives.
    In(Wire),
    /// A packet must leave.
    Out(Wire),
    /// A socket call and what it returns.
    Call(Call),
    /// A setting, as given to a shell.
    Shell(String),
    /// Assertions.
    Code(String),
}

/// A socket call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Name.
    pub name: String,
    /// Arguments as written.
    pub args: Vec<String>,
    /// What it returns, as written.
    pub returns: String,
}

/// The ECN field of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpEcn {
    /// Not ECN-capable.
    No,
    /// ECN-capable.
    Ect0,
    /// Congestion experienced.
    Ce,
}

/// A packet as a script writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// IP header, if it is said.
    pub ecn: Option<IpEcn>,
    /// SYN, FIN, RST, ECE, CWR.
    pub flags: Flags,
    /// First sequence number and one past the last.
    pub seq: (u64, u64),
    /// Payload.
    pub len: u64,
    /// Acknowledgement, if there is one.
    pub ack: Option<u64>,
    /// Window field.
    pub win: Option<u64>,
    /// TCP options; `None` = any (`<...>`).
    pub options: Option<Options>,
}

/// Flags of a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Flags {
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
    pub ack: bool,
    pub ece: bool,
    pub cwr: bool,
}

/// Options of a TCP header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u32>,
    /// Selective acknowledgements are permitted.
    pub sack_ok: bool,
    /// Window scale.
    pub wscale: Option<u32>,
    /// Blocks.
    pub sack: Vec<(u64, u64)>,
    /// Time stamp: value and echo.
    pub ts: Option<(u64, u64)>,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = |on: bool, name: &'static str| if on { name } else { "" };
        let g = &self.flags;
        match self.ecn {
            Some(IpEcn::Ce) => write!(f, "[ce] ")?,
            Some(IpEcn::Ect0) => write!(f, "[ect0] ")?,
            Some(IpEcn::No) => write!(f, "[noecn] ")?,
            None => {}
        }
        write!(f, "{}{}{}", flag(g.syn, "S"), flag(g.fin, "F"), flag(g.rst, "R"))?;
        write!(f, "{}{}{} ", flag(g.ece, "E"), flag(g.cwr, "W"), flag(g.ack, "."))?;
        write!(f, "{}:{}({})", self.seq.0, self.seq.1, self.len)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(win) = self.win {
            write!(f, " win {win}")?;
        }
        if let Some(o) = self.options.as_ref().filter(|o| !o.sack.is_empty()) {
            let blocks: Vec<String> = o.sack.iter().map(|(a, b)| format!("{a}:{b}")).collect();
            write!(f, " <sack {}>", blocks.join(" "))?;
        }
        Ok(())
    }
}
