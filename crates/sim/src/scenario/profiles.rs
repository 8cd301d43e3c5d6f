//! Profiles: named sets of defaults that every scenario with hosts has. `paper` is the scenario as its source has it; the others are
//! hosts of today behind a leaf switch, as Linux sets them up.
//!
//! A scenario lists what its profiles set, from the pieces here and from values of its own. A key that is given beats the profile.

/// A default: key, value, origin.
pub type Default = (&'static str, &'static str, &'static str);

/// A named set of defaults of a scenario.
pub struct Profile {
    /// Value of the key `profile`.
    pub name: &'static str,
    /// What it stands for, in one line.
    pub text: &'static str,
    /// Its defaults, piece by piece.
    pub values: &'static [&'static [Default]],
}

impl Profile {
    /// Its defaults.
    pub fn defaults(&self) -> impl Iterator<Item = &'static Default> {
        self.values.iter().copied().flatten()
    }
}

/// The scenario as its source has it.
pub const fn paper(text: &'static str) -> Profile {
    Profile { name: "paper", text, values: &[] }
}
/// Under a leaf switch of 25 Gb/s.
pub const fn leaf_25g(values: &'static [&'static [Default]]) -> Profile {
    let text =
        "hosts of today under a 25 Gb/s leaf switch: Linux's TCP with its offloads, MTU 1500, idle RTT 12 us";
    Profile { name: "25g", text, values }
}
/// Under a leaf switch of 100 Gb/s.
pub const fn leaf_100g(values: &'static [&'static [Default]]) -> Profile {
    let text = "hosts of today under a 100 Gb/s leaf switch: Linux's TCP with its offloads, MTU 9000, idle RTT 12 us";
    Profile { name: "100g", text, values }
}
/// Hosts of today in a network that keeps its own rates and delays.
pub const fn hosts_25g(values: &'static [&'static [Default]]) -> Profile {
    let text = "hosts of today, Linux's TCP with its offloads, MTU 1500; the network keeps the scenario's rates and delays";
    Profile { name: "25g", text, values }
}
/// Hosts of today with large frames, in a network that keeps its own rates and delays.
pub const fn hosts_100g(values: &'static [&'static [Default]]) -> Profile {
    let text = "hosts of today, Linux's TCP with its offloads, MTU 9000; the network keeps the scenario's rates and delays";
    Profile { name: "100g", text, values }
}

/// What Linux does, whatever its congestion control.
pub const LINUX: &[Default] = &[
    ("tcp", "linux", "Linux's sender and its ACKs: quick ACKs, delayed ACKs by its rule"),
    ("timestamps", "true", "Linux's default (RFC 7323)"),
    ("framing", "ethernet", "IEEE 802.3"),
    ("initial_window", "10", "RFC 6928, Linux"),
    ("rto_min", "200ms", "Linux TCP_RTO_MIN"),
    ("rto_initial", "1s", "Linux TCP_TIMEOUT_INIT, RFC 6298"),
    ("delayed_ack", "2", "RFC 5681 section 4.2, Linux"),
    ("quick_acks", "16", "Linux TCP_MAX_QUICKACKS"),
    ("tail_loss_probe", "true", "RFC 8985, Linux's default"),
    ("window_validation", "true", "Linux tcp_is_cwnd_limited"),
    ("gro", "8us", "mlx5: an interrupt waits so long by default"),
    ("send_jitter", "", "hosts have timing noise"),
    ("host_queue", "1MB", "Linux: tcp_limit_output_bytes"),
];
/// Its congestion control, where the scenario is not about another.
pub const CUBIC: &[Default] = &[("protocol", "linux-cubic", "Linux's default, with its integer windows")];
/// Segments in frames of MTU 1500.
pub const FRAMES_1500: &[Default] =
    &[("segment", "1448B", "MTU 1500 less 40 B of headers and 12 B of timestamps"), GSO_1500];
/// Frames of MTU 1500 in a scenario that counts in packets.
pub const MTU_1500: &[Default] = &[("mtu", "1500B", "Ethernet"), GSO_1500];
const GSO_1500: Default = ("gso", "45", "Linux: 64 KiB leave at once, less the headers");
/// Segments in frames of MTU 9000.
pub const FRAMES_9000: &[Default] =
    &[("segment", "8948B", "MTU 9000 less 40 B of headers and 12 B of timestamps"), GSO_9000];
/// Frames of MTU 9000 in a scenario that counts in packets.
pub const MTU_9000: &[Default] =
    &[("mtu", "9000B", "the usual MTU of a data centre that has large frames"), GSO_9000];
const GSO_9000: Default = ("gso", "7", "Linux: 64 KiB leave at once, less the headers");

/// What is different on slow links, where a millisecond's data are less than two packets.
pub const SLOW: &[Default] =
    &[("host_queue", "2pkt", "Linux: TCP small queues let two packets through at least")];

/// Rate of links.
pub const RATE_25G: &[Default] = &[("link_rate", "25Gbps", "IEEE 802.3by, the usual port of a host")];
/// Rate of links.
pub const RATE_100G: &[Default] = &[("link_rate", "100Gbps", "IEEE 802.3bj")];
/// Delay of links.
pub const DELAY: &[Default] = &[(
    "link_delay",
    "3us",
    "chosen: RTT 12 us under one switch, most of it in the hosts' stacks and adapters; 10 to 20 us are common",
)];
/// Delay of the links between switches.
pub const FABRIC_DELAY: &[Default] = &[("fabric_delay", "500ns", "chosen: a switch and 20 m of cable")];
/// The same, where a scenario speaks of round trips.
pub const RTT: &[Default] =
    &[("rtt", "12us", "chosen: most of it in the hosts' stacks and adapters; 10 to 20 us are common")];
/// Buffer of a switch port.
pub const BUFFER_25G: &[Default] = &[(
    "buffer",
    "256KB",
    "chosen: an equal share, 10 KB per Gb/s (32 MB for 3.2 Tb/s, from memory); sharing may give a port more",
)];
/// Buffer of a switch port.
pub const BUFFER_100G: &[Default] = &[(
    "buffer",
    "512KB",
    "chosen: an equal share, 5 KB per Gb/s (64 MB for 12.8 Tb/s, from memory); sharing may give a port more",
)];
/// Marking threshold, where the scenario is about marks.
pub const MARKS_25G: &[Default] =
    &[("queue", "threshold:k=100KB", "chosen: a burst of 64 KB and a third of the 256 KB above it")];
/// Marking threshold, where the scenario is about marks.
pub const MARKS_100G: &[Default] =
    &[("queue", "threshold:k=200KB", "chosen: three bursts of 64 KB, two fifths of the 512 KB")];
