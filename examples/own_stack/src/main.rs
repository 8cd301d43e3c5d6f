//! `cargo run --release -p own-stack`: what a window of so many packets gets out of a link, and what it leaves to DCTCP.

use own_stack::{beside, FIXED_WINDOW};
use penstock::ParamError;

fn main() -> Result<(), ParamError> {
    println!("{}: {}\n", FIXED_WINDOW.name, FIXED_WINDOW.cites);
    for window in [4, 16, 64] {
        println!("{}", beside("dctcp", window)?);
    }
    Ok(())
}
