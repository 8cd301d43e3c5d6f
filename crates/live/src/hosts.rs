//! Hosts: an anonymous network namespace each, with one TUN device. Nothing has a name outside the process, so
//! nothing can be left behind: namespace and device go with their descriptors.

use crate::sys::{self, RouteMetrics, DEVICE};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// Why a host could not be made.
#[derive(Debug)]
pub struct HostError {
    /// What was tried.
    pub step: String,
    /// What the kernel said.
    pub cause: io::Error,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.cause)
    }
}

fn step<T>(what: &str, result: io::Result<T>) -> Result<T, HostError> {
    result.map_err(|cause| HostError { step: what.to_owned(), cause })
}

/// What the kernels of all hosts are told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Device MTU in bytes.
    pub mtu: u32,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamp option.
    pub timestamps: bool,
    /// Ask for ECN on every connection (RFC 3168), not only when a congestion control wants it.
    pub ecn: bool,
    /// Back to the initial window after an idle time.
    pub restart_after_idle: bool,
    /// Tail-loss probes.
    pub tail_loss_probe: bool,
    /// A SYN that is sent again asks for no ECN.
    pub ecn_fallback: bool,
    /// Floor of the retransmission timeout in microseconds.
    pub rto_min_us: u64,
    /// Ceiling of the retransmission timeout in milliseconds; `None` = the kernel's.
    pub rto_max_ms: Option<u64>,
    /// Receive buffer in bytes.
    pub receive_buffer: u64,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Acknowledge every segment.
    pub quick_ack: bool,
    /// Most segments that leave together.
    pub gso: u32,
    /// Longest an ACK of what came out of order is held back, in nanoseconds; `None` = the kernel's.
    pub comp_sack_ns: Option<u64>,
}

/// A host of the scenario.
pub struct Host {
    /// Its namespace.
    pub namespace: OwnedFd,
    /// Its address.
    pub address: [u8; 4],
}

/// Makes a host and its device; the calling thread is in the new namespace afterwards.
///
/// # Errors
/// The step that failed, with the kernel's reason.
pub fn host(number: u32, s: &Settings) -> Result<(Host, OwnedFd), HostError> {
    step("unshare(CLONE_NEWNET)", sys::new_namespace())?;
    let namespace = step("/proc/thread-self/ns/net", sys::current_namespace())?;
    let word = |on: bool| if on { "1" } else { "0" }.to_owned();
    // Neighbour discovery of IPv6 would be foreign traffic; kernels without IPv6 have none.
    let _ = sys::sysctl("ipv6/conf/all/disable_ipv6", "1");
    let _ = sys::sysctl("ipv6/conf/default/disable_ipv6", "1");
    let settings = [
        ("ipv4/tcp_sack", word(s.sack)),
        ("ipv4/tcp_timestamps", word(s.timestamps)),
        ("ipv4/tcp_ecn", if s.ecn { "1" } else { "2" }.to_owned()),
        ("ipv4/tcp_slow_start_after_idle", word(s.restart_after_idle)),
        ("ipv4/tcp_early_retrans", if s.tail_loss_probe { "3" } else { "0" }.to_owned()),
        ("ipv4/tcp_ecn_fallback", word(s.ecn_fallback)),
        // Windows and thresholds of one connection must not leak into the next.
        ("ipv4/tcp_no_metrics_save", "1".to_owned()),
        ("ipv4/tcp_rmem", format!("4096 {0} {0}", s.receive_buffer)),
        ("ipv4/tcp_wmem", "4096 4194304 16777216".to_owned()),
    ];
    for (key, value) in settings {
        step(&format!("sysctl {key} = {value}"), sys::sysctl(key, &value))?;
    }
    if let Some(ns) = s.comp_sack_ns {
        // A delay of 0 would still wait for the timer's slack; without any ACK to hold back there is none.
        let (key, value) = if ns == 0 { ("nr", 0) } else { ("delay_ns", ns) };
        let key = format!("tcp_comp_sack_{key}");
        step(&format!("sysctl {key} (Linux 4.18)"), sys::sysctl(&format!("ipv4/{key}"), &value.to_string()))?;
    }
    if let Some(ms) = s.rto_max_ms {
        step("sysctl tcp_rto_max_ms (Linux 6.15)", sys::sysctl("ipv4/tcp_rto_max_ms", &ms.to_string()))?;
    }
    // Linux 6.11; before it the route carries the floor, in whole milliseconds.
    let by_sysctl = sys::sysctl("ipv4/tcp_rto_min_us", &s.rto_min_us.to_string()).is_ok();
    let address = [10, 77, (number >> 8) as u8, number as u8];
    let device = step("/dev/net/tun", sys::tun())?;
    let index = step("address of the TUN device", sys::configure_device(address, s.mtu, 10_000))?;
    let metrics = RouteMetrics {
        initial_window: Some(s.initial_window),
        rto_min_ms: (!by_sysctl).then_some((s.rto_min_us / 1000).max(1) as u32),
        quick_ack: s.quick_ack,
    };
    step("route over the TUN device", sys::add_route([10, 77, 0, 0], 16, index, metrics))?;
    step("gso_max_segs of the TUN device", sys::segments_at_once(index, s.gso))?;
    Ok((Host { namespace, address }, device))
}

/// Packets the devices of `hosts` have dropped; moves the calling thread.
pub fn device_drops<'a>(hosts: impl Iterator<Item = &'a Host>) -> u64 {
    hosts.map(|h| sys::enter(&h.namespace).and_then(|()| sys::device_drops(DEVICE)).unwrap_or(0)).sum()
}

/// Kernel counters summed over `hosts`, in the order of `names`; moves the calling thread.
pub fn counters<'a>(hosts: impl Iterator<Item = &'a Host>, names: &[&str]) -> Vec<u64> {
    let mut sum = vec![0; names.len()];
    for h in hosts {
        if let Ok(values) = sys::enter(&h.namespace).and_then(|()| sys::counters(names)) {
            sum.iter_mut().zip(values).for_each(|(a, b)| *a += b);
        }
    }
    sum
}
