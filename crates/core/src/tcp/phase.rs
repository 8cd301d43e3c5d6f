//! The states of a sending connection.

/// Where the connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Not opened yet.
    Closed,
    /// SYN sent, no answer yet.
    SynSent,
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery (RFC 5681, 6582, 6675).
    FastRecovery,
    /// After a retransmission timeout, until what was outstanding then is acknowledged.
    Loss,
}
