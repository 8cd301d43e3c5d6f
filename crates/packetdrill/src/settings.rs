//! Settings of a script: `sysctl` lines and options.

use penstock_core::tcp::{EcnMode, LossRecovery, Personality, TcpConfig};
use penstock_core::{Stream, WindowLaw};
use penstock_models::registry::protocol;
use penstock_units::Dur;

/// What a script has set before its first socket.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Protocol of penstock.
    pub protocol: String,
    /// Linux's sender, whatever the protocol.
    linux: bool,
    /// How much earlier or later a packet may leave.
    pub tolerance: Dur,
    changes: Vec<fn(&mut TcpConfig)>,
    reordering: Option<u32>,
    rto_min: Option<Dur>,
    comp_sack: Option<Dur>,
    /// Segments that leave together.
    gso: u32,
    /// A tick of the timers; zero: an exact clock.
    tick: Dur,
    /// Bytes of the receive buffer. Where a script sets it, ACKs that Linux leaves to the application wait for its reads.
    pub(crate) receive_buffer: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            protocol: "linux-cubic".into(),
            linux: true,
            tolerance: Dur::micros(4000),
            changes: Vec::new(),
            reordering: None,
            rto_min: None,
            comp_sack: None,
            gso: 1,
            tick: Dur::ZERO,
            receive_buffer: None,
        }
    }
}

/// The keys of `sysctl` that are known, with what penstock has of each.
pub const KEYS: &[&str] = &[
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_early_retrans",
    "net.ipv4.tcp_dsack",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_ecn_fallback",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_reordering",
    "net.ipv4.tcp_rto_min_us",
    "net.ipv4.tcp_comp_sack_delay_ns",
    "net.ipv4.tcp_comp_sack_nr",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_frto",
    "net.ipv4.tcp_rmem",
];

impl Settings {
    /// An option of the script's head.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn option(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "protocol" => {
                protocol("--protocol", value).map_err(|e| e.to_string())?;
                (self.protocol, self.linux) = (value.to_owned(), false);
            }
            "tolerance_usecs" => {
                let us = value.parse().map_err(|_| format!("--tolerance_usecs={value}: must be a number"))?;
                self.tolerance = Dur::micros(us);
            }
            "gso" => {
                self.gso = value.parse().map_err(|_| format!("--gso={value}: must be a number"))?;
            }
            "hz" => {
                let hz: u64 = value.parse().ok().filter(|hz| (1..=10_000).contains(hz)).ok_or_else(|| {
                    format!("--hz={value}: must be a number of ticks a second, from 1 to 10000")
                })?;
                self.tick = Dur::millis(1000) / hz;
            }
            other => {
                return Err(format!("--{other}: known are --protocol, --tolerance_usecs, --gso and --hz"))
            }
        }
        Ok(())
    }
    /// A line for a shell: `sysctl -q KEY=VALUE ...`, several separated by line ends or `;`.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn shell(&mut self, text: &str) -> Result<(), String> {
        for command in text.split(['\n', ';']).map(str::trim).filter(|c| !c.is_empty()) {
            let words = words(command);
            if words.first().map(String::as_str) != Some("sysctl") {
                return Err(format!("{command}: the only command is sysctl"));
            }
            for word in words[1..].iter().filter(|w| !w.starts_with('-')) {
                let (key, value) =
                    word.split_once('=').ok_or_else(|| format!("{word}: sysctl takes KEY=VALUE"))?;
                self.sysctl(key, value)?;
            }
        }
        Ok(())
    }
    fn sysctl(&mut self, key: &str, value: &str) -> Result<(), String> {
        let wrong = |known: &str| Err(format!("{key}={value}: known values are {known}"));
        let change: fn(&mut TcpConfig) = match (key.strip_prefix("net.ipv4.tcp_").unwrap_or(key), value) {
            ("congestion_control", name) => {
                let name = match name {
                    "reno" => "linux-reno",
                    "cubic" => "linux-cubic",
                    "bbr" => "bbr",
                    "dctcp" => "dctcp:rules=linux,min_window=2",
                    _ => return wrong("reno, cubic, bbr, dctcp"),
                };
                (self.protocol, self.linux) = (name.to_owned(), true);
                return Ok(());
            }
            ("early_retrans", "0") => |c| c.tail_loss_probe = false,
            ("early_retrans", "3" | "4") => |c| c.tail_loss_probe = true,
            ("early_retrans", _) => return wrong("0, 3, 4"),
            ("dsack", "0") => |c| c.dsack = false,
            ("dsack", "1") => |c| c.dsack = true,
            ("sack", "1") => return Ok(()),
            ("sack", _) => return wrong("1: Linux's sender needs it here"),
            ("timestamps", "0") => |c| c.timestamps = false,
            ("timestamps", "1") => |c| c.timestamps = true,
            ("ecn", "0") => |c| c.ecn = EcnMode::Off,
            ("ecn", "1") => |c| {
                if c.ecn == EcnMode::Off {
                    c.ecn = EcnMode::Classic;
                }
            },
            ("ecn_fallback", "0") => |c| c.ecn_fallback = false,
            ("ecn_fallback", "1") => |c| c.ecn_fallback = true,
            ("slow_start_after_idle", "0") => |c| c.restart_after_idle = false,
            ("slow_start_after_idle", "1") => |c| c.restart_after_idle = true,
            ("recovery", "1") | ("frto", "2") => return Ok(()),
            ("recovery", _) => return wrong("1"),
            ("frto", _) => return wrong("2"),
            ("reordering", n) => {
                self.reordering = Some(n.parse().map_err(|_| format!("{key}={value}: must be a number"))?);
                return Ok(());
            }
            ("rto_min_us", n) => {
                let us = n.parse().map_err(|_| format!("{key}={value}: must be a number"))?;
                self.rto_min = Some(Dur::micros(us));
                return Ok(());
            }
            ("comp_sack_delay_ns", n) => {
                let ns: u64 = n.parse().map_err(|_| format!("{key}={value}: must be a number"))?;
                self.comp_sack = Some(Dur(ns * 1000));
                return Ok(());
            }
            ("comp_sack_nr", "0") => {
                self.comp_sack = Some(Dur::ZERO);
                return Ok(());
            }
            ("comp_sack_nr", _) => return wrong("0"),
            ("rmem", sizes) => {
                let sizes: Option<Vec<u64>> = sizes.split_whitespace().map(|n| n.parse().ok()).collect();
                self.receive_buffer = match sizes.as_deref() {
                    Some([_, first, most]) if first == most => Some(*first),
                    _ => return wrong("three sizes in bytes, the second and third alike"),
                };
                return Ok(());
            }
            ("dsack" | "timestamps" | "ecn" | "ecn_fallback" | "slow_start_after_idle", _) => {
                return wrong("0, 1")
            }
            _ => return Err(format!("{key}: known keys are {}", KEYS.join(", "))),
        };
        self.changes.push(change);
        Ok(())
    }
    /// Options and window law of a connection whose peer has announced `mss`.
    pub(crate) fn build(&self, mss: u32, stream: Stream) -> (TcpConfig, Box<dyn WindowLaw>) {
        let (_, suite) = protocol("protocol", &self.protocol).expect("looked up when it was set");
        let mut cfg = TcpConfig { mss, ..TcpConfig::default() };
        if self.linux {
            (cfg.tail_loss_probe, cfg.dsack, cfg.ecn_fallback, cfg.delayed_ack) = (true, true, true, 2);
        }
        suite.set_up(&mut cfg);
        if self.linux && cfg.personality == Personality::Rfc && cfg.recovery == LossRecovery::Sack {
            cfg.personality = Personality::Linux;
            (cfg.ssthresh_from_cwnd, cfg.byte_counting) = (true, true);
        }
        self.changes.iter().for_each(|change| change(&mut cfg));
        if cfg.timestamps {
            // RFC 6691 section 2: what a segment carries is less by its options.
            cfg.mss -= 12;
        }
        if let Some(n) = self.reordering {
            cfg.dup_thresh = n;
        }
        cfg.rto_min = self.rto_min.unwrap_or(cfg.rto_min);
        cfg.comp_sack = self.comp_sack.unwrap_or(cfg.comp_sack);
        cfg.gso = self.gso;
        cfg.rto_granularity = self.tick;
        // Half of a buffer is window (TCP_DEFAULT_SCALING_RATIO).
        cfg.rwnd = self.receive_buffer.map_or(cfg.rwnd, |bytes| bytes / 2);
        let law = (suite.endpoint)(&cfg, &|| stream.clone());
        (cfg, law)
    }
}

/// The words of a command; quotes keep spaces within one.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in command.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}
