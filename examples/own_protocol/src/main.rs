//! `cargo run --release -p own-protocol`: who gets how much of a port that a flow of the law shares with one of DCTCP.

use own_protocol::{against, TARGET_DELAY};
use penstock::{Dur, ParamError};

fn main() -> Result<(), ParamError> {
    println!("{}: {}\n", TARGET_DELAY.name, TARGET_DELAY.cites);
    for target in [80, 120, 160, 240].map(Dur::micros) {
        println!("{}", against("dctcp", target)?);
    }
    Ok(())
}
