//! Parameters of a congestion control, what it shows, and the errors of both.

/// Why a congestion control could not be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// What [`available`](crate::available) says.
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

/// Parameters of [`Dctcp`](crate::Dctcp).
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
pub(crate) fn check_tag(tag: &str) -> Result<(), Error> {
    let plain = tag.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !plain || tag.len() > 6 {
        return Err(Error::Invalid(format!("tag {tag:?}: at most 6 of a-z, 0-9 and _")));
    }
    Ok(())
}

pub(crate) fn check_options(o: &DctcpOptions) -> Result<(), Error> {
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
