//! Runs packetdrill scripts: `penstock-packetdrill FILE...`; a line for each that fails, exit code 1 then.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: penstock-packetdrill FILE...");
        return ExitCode::from(2);
    }
    let mut failed = 0;
    for file in &files {
        if let Err(failure) = penstock_packetdrill::run_file(Path::new(file)) {
            println!("{failure}");
            failed += 1;
        }
    }
    eprintln!("{} of {} scripts pass", files.len() - failed, files.len());
    ExitCode::from(u8::from(failed > 0))
}
