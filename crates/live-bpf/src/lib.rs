//! Own congestion controls in the Linux kernel, by BPF struct_ops: real sockets of the live mode run them under
//! `TCP_CONGESTION`.
//!
//! - [`Dctcp`]: DCTCP by RFC 8257. `src/bpf/dctcp.bpf.c` begins with a table: what each clause became.
//! - [`Steered`]: window and pacing rate come from user space through a mapped array, so that the controllers of the
//!   simulator drive kernel sockets. `src/bpf/steered.bpf.c` says at which moments the kernel looks at the array.
//!
//! Both are keyed by the **local port** of the sending socket, over all network namespaces. Sockets that share a port
//! share an entry: those accepted by one listener, or two hosts with the same ephemeral port. Bind before `connect`.
//!
//! # What it needs
//!
//! The crate always compiles. Feature `bpf` (which `penstock-live` turns on with its `live-bpf`) adds the BPF objects:
//!
//! | | needed | Debian or Ubuntu | without it |
//! |---|---|---|---|
//! | build | clang 14 or newer | `clang` | a cargo warning; [`available`] says so |
//! | build | libelf, zlib, pkg-config, make, C compiler (for libbpf) | `libelf-dev zlib1g-dev pkg-config make gcc` | feature `bpf` does not build |
//! | run | Linux 6.4 or newer with BTF (`CONFIG_DEBUG_INFO_BTF`) and JIT | | [`available`] says so |
//! | run | root (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN in the first user namespace) | | [`available`] says so |
//! | run | libelf.so.1, libz.so.1 | `libelf1 zlib1g` | the program does not start |
//!
//! Neither kernel headers nor bpftool nor the system's libbpf are used. `CLANG` names another compiler.
//!
//! # What the kernel keeps
//!
//! A congestion control is registered for the whole kernel, under a name of its own (at most 15 characters), usable in
//! every namespace by everybody who knows it. It goes when the value is dropped or the process ends, however it ends:
//! the registration is a BPF link that nothing but this process holds. Sockets that still run it keep the programs in
//! the kernel until they close; they can no longer be chosen by name.
//!
//! # ECN
//!
//! [`Dctcp`] and a [`Steered`] with `ecn` negotiate ECN whatever `net.ipv4.tcp_ecn` says, but not accurate ECN
//! (`tcp_ecn` of 3 and more): leave the default of 2. They also set ECT on SYN and SYN-ACK, and echo CE as DCTCP's
//! receiver does. Because the SYN carries ECT, the **listening socket must run such a control too**, or the kernel
//! answers without ECN.

#[cfg(bpf_objects)]
mod kernel;
#[cfg(bpf_objects)]
use kernel as this;

#[cfg(not(bpf_objects))]
mod absent;
#[cfg(not(bpf_objects))]
use absent as this;

pub use this::{Dctcp, Steered};

/// Why own congestion controls cannot be used here, or Ok.
///
/// Loads a program and removes it again (tens of milliseconds), so that Ok means it works: built with the objects, a
/// kernel that is new enough and has BTF, and the permission.
pub fn available() -> Result<(), String> {
    this::available()
}

/// Why a congestion control could not be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// What [`available`] says.
    Unavailable(String),
    /// A tag or an option that cannot be: name, value and rule.
    Invalid(String),
    /// The kernel or libbpf refused: its message.
    Refused(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Unavailable(why) => write!(f, "no congestion controls of our own: {why}"),
            Error::Invalid(what) => write!(f, "{what}"),
            Error::Refused(message) => write!(f, "the kernel did not take the congestion control: {message}"),
        }
    }
}

impl std::error::Error for Error {}

/// Parameters of [`Dctcp`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DctcpOptions {
    /// Gain of the marked-fraction average, g = 2^-g_shift; 1..=16. RFC 8257 section 4.2: 4.
    pub g_shift: u32,
    /// alpha of a new connection, 0..=1. RFC 8257 section 3.3: 1.
    pub initial_alpha: f64,
    /// Smallest window after a mark, packets; at least 1. Linux's own DCTCP: 2.
    pub min_window: u32,
    /// As Linux's own DCTCP: alpha's window ends with the ACK of exactly its end, and a cut takes whole packets. Else by RFC 8257, and what a cut leaves
    /// of a packet is kept.
    pub linux_rules: bool,
}

impl Default for DctcpOptions {
    fn default() -> DctcpOptions {
        DctcpOptions { g_shift: 4, initial_alpha: 1.0, min_window: 2, linux_rules: false }
    }
}

/// What a sender shall do. The default is a control that leaves the connection at its initial window, unpaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steer {
    /// Congestion window, packets; 0: the window the kernel began with (10 packets by default).
    pub window: u32,
    /// Pacing rate, bytes of payload per second (the kernel's own pacing does not count headers); 0: unlimited.
    pub pacing: u64,
}

/// What the latest connection of a port went through. Counters begin at 0 with the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Entries into fast recovery.
    pub losses: u32,
    /// Expiries of the retransmission timer, repeated ones of one outage included.
    pub timeouts: u32,
    /// ACKs that carried ECE (the kernel merges some while the socket is busy); 0 without `ecn`.
    pub ece_events: u32,
    /// Congestion window in force, packets.
    pub cwnd: u32,
    /// Smoothed round-trip time, microseconds; 0 before the first sample.
    pub srtt_us: u32,
    /// The kernel's congestion state: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub state: u8,
    /// Packets delivered, retransmitted ones included.
    pub delivered: u32,
    /// Of these, the ones whose ACK carried ECE; 0 without `ecn`.
    pub delivered_ce: u32,
}

/// Tags make names readable in `ss -i`. The kernel's names have 15 characters; the prefix takes 4 and the part that keeps
/// two processes apart 5.
fn check_tag(tag: &str) -> Result<(), Error> {
    let plain = tag.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !plain || tag.len() > 6 {
        return Err(Error::Invalid(format!("tag {tag:?}: at most 6 of a-z, 0-9 and _")));
    }
    Ok(())
}

fn check_options(o: &DctcpOptions) -> Result<(), Error> {
    if !(1..=16).contains(&o.g_shift) {
        return Err(Error::Invalid(format!("g_shift = {}: must be in 1..=16", o.g_shift)));
    }
    if !(0.0..=1.0).contains(&o.initial_alpha) {
        return Err(Error::Invalid(format!("initial_alpha = {}: must be in 0..=1", o.initial_alpha)));
    }
    if !(1..=1000).contains(&o.min_window) {
        return Err(Error::Invalid(format!("min_window = {}: must be in 1..=1000", o.min_window)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_tag_or_option_is_named_with_its_rule() {
        assert!(check_tag("").is_ok() && check_tag("a_9xyz").is_ok());
        for tag in ["Upper", "sevenxx", "a b", "ä"] {
            let message = check_tag(tag).unwrap_err().to_string();
            assert!(message.contains(tag) && message.contains("at most 6"), "{message}");
        }
        assert!(check_options(&DctcpOptions::default()).is_ok());
        for bad in [f64::NAN, -0.1, 1.1] {
            assert!(check_options(&DctcpOptions { initial_alpha: bad, ..Default::default() }).is_err());
        }
        for bad in [0, 17] {
            assert!(check_options(&DctcpOptions { g_shift: bad, ..Default::default() }).is_err());
        }
        assert!(check_options(&DctcpOptions { min_window: 0, ..Default::default() }).is_err());
    }
}
