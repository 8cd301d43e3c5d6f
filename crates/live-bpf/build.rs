//! Compiles `src/bpf/*.bpf.c` with clang when the feature `bpf` is on. A missing compiler is a warning, not an error:
//! the crate then builds without the objects and says so (`available`).

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const OBJECTS: [&str; 2] = ["dctcp", "steered"];

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-env-changed=PATH");
    // Set when the objects are embedded: everything that touches libbpf is behind it.
    println!("cargo:rustc-check-cfg=cfg(bpf_objects)");

    let missing = if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        Some("built without BPF: only Linux has it".to_string())
    } else if env::var_os("CARGO_FEATURE_BPF").is_none() {
        Some("built without BPF: penstock was built without the feature live-bpf".to_string())
    } else {
        compile().err()
    };
    match missing {
        None => println!("cargo:rustc-cfg=bpf_objects"),
        Some(reason) => {
            if env::var_os("CARGO_FEATURE_BPF").is_some() {
                println!(
                    "cargo:warning={reason}; install clang 14 or newer (apt install clang) and build again"
                );
            }
            println!("cargo:rustc-env=PENSTOCK_BPF_MISSING={reason}");
        }
    }
}

/// Compiles every object into OUT_DIR; the error is what `available` says.
fn compile() -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let clang =
        find_clang().ok_or("built without the BPF objects: clang was not found when penstock was built")?;
    // The byte order of the objects is the target's.
    let target = match env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() {
        Ok("big") => "bpfeb",
        _ => "bpfel",
    };
    for name in OBJECTS {
        let source = Path::new("src/bpf").join(format!("{name}.bpf.c"));
        let object = out.join(format!("{name}.bpf.o"));
        // v3 has 32-bit arithmetic and jumps, which clang 14 and every kernel with struct_ops links support. -g is for
        // the types (BTF) that libbpf needs. The debug records do not contain the source's path on this machine.
        let run = Command::new(&clang)
            .args(["-target", target, "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra"])
            .args(["-fdebug-compilation-dir=.", "-c"])
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .output();
        match run {
            Ok(done) if done.status.success() => {}
            Ok(done) => {
                for line in String::from_utf8_lossy(&done.stderr).lines() {
                    println!("cargo:warning={line}");
                }
                return Err(format!(
                    "built without the BPF objects: {clang} did not compile {}",
                    source.display()
                ));
            }
            Err(e) => return Err(format!("built without the BPF objects: {clang} did not start ({e})")),
        }
    }
    Ok(())
}

/// `$CLANG`, `clang`, or the newest versioned name Debian and Ubuntu give it; one that can write BPF.
fn find_clang() -> Option<String> {
    let named = env::var("CLANG").ok().into_iter();
    let versioned = (14..=24).rev().map(|v| format!("clang-{v}"));
    named.chain(["clang".to_string()]).chain(versioned).find(|name| {
        Command::new(name)
            .arg("-print-targets")
            .output()
            .is_ok_and(|o| o.status.success() && String::from_utf8_lossy(&o.stdout).contains("bpfel"))
    })
}
