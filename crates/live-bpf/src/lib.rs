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

mod options;

pub use options::{DctcpOptions, Error, Seen, Steer};
pub use this::{Dctcp, Steered};

/// Why own congestion controls cannot be used here, or Ok.
///
/// Loads a program and removes it again (tens of milliseconds), so that Ok means it works: built with the objects, a
/// kernel that is new enough and has BTF, and the permission.
pub fn available() -> Result<(), String> {
    this::available()
}

#[cfg(test)]
mod tests {
    use super::options::{check_options, check_tag, DctcpOptions};

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
