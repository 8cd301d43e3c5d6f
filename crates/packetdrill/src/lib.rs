//! Packetdrill scripts against penstock's own [`Sender`](penstock_core::tcp::Sender) and [`Receiver`](penstock_core::tcp::Receiver),
//! in virtual time.
//!
//! The language is that of Google's packetdrill (Cardwell et al., "packetdrill: Scriptable Network Stack Testing, from
//! Sockets to Packets", USENIX ATC 2013). A line is a time and an event: a packet that arrives (`<`), a packet that
//! must leave (`>`), a socket call, a setting in backticks, or assertions about `TCP_INFO` in `%{ }%`. Supported are:
//!
//! - **Times**: `+.1`, `0.25`, `+0.1~+0.2`, `*` (any time). A packet may leave by `--tolerance_usecs` (4000, as there) too early or late.
//! - **A clock that ticks**: `--hz=250`; without it timers are exact. Against a kernel that ticks otherwise such a script is skipped.
//! - **Packets**: flags `S F R P E W .`, `FIRST:END(LENGTH)`, `ack`, `win`, options `mss`, `sackOK`, `wscale`, `nop`, `sack`, `TS`, `<...>`
//!   for any, and `[ce]`, `[ect0]`, `[noecn]` of the IP header. PSH is not modelled and matches either way. Segments without a gap that
//!   leave at one time match a longer packet, which is what a kernel with segmentation offload hands over.
//! - **Calls**: `socket`, `bind`, `listen`, `accept`, `connect`, `fcntl`, `setsockopt`, `write`, `send`, `sendto`, `read`, `recv`,
//!   `shutdown`, `close`.
//! - **Settings**: `sysctl` of the keys in [`settings`]; the option `--protocol=NAME` names a protocol of penstock (such a script is none
//!   for a kernel).
//! - **Assertions**: `assert` with `tcpi_*` names, numbers, `TCP_CA_*`, arithmetic, comparisons, `and`, `or`, `not`.
//!
//! Some things differ. There is one connection, whose two directions are independent. A passive open uses the sender's
//! own handshake, in which only the options of the peer's SYN count. The runner sends the third packet of an active
//! open. Anything unknown is an error that names file, line and rule.
#![forbid(unsafe_code)]

mod assertion;
mod parse;
mod peer;
mod run;
mod script;
pub mod settings;

pub use parse::parse;
pub use run::run;
pub use script::{Failure, Script};

use std::path::Path;

/// Reads and runs the script in `path`.
///
/// # Errors
/// What is wrong with the script, or what differs from it.
pub fn run_file(path: &Path) -> Result<(), Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| Failure::new(&name, 0, e.to_string()))?;
    run(&parse(&name, &text)?)
}
