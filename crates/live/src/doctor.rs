//! What this machine has and lacks for live runs.

#[cfg(target_os = "linux")]
use crate::sys;
use serde_json::{json, Value};
#[cfg(target_os = "linux")]
use std::{fs, thread};

/// How much a lack matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// No live run without it.
    Required,
    /// Runs without it, but worse or not for every protocol.
    Wanted,
}

/// One thing looked at.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What.
    pub what: &'static str,
    /// Whether it is needed.
    pub need: Need,
    /// It is there.
    pub found: bool,
    /// What was found.
    pub detail: String,
    /// What to do when it is not.
    pub remedy: &'static str,
}

/// Congestion controls the kernel has.
#[cfg(target_os = "linux")]
pub fn congestion_controls() -> Vec<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Tries something in a thread of its own, whose namespace may change.
#[cfg(target_os = "linux")]
fn attempt(f: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Result<(), String> {
    match thread::spawn(f).join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(e.to_string()),
        Err(_) => Err("the attempt died".into()),
    }
}

fn finding(what: &'static str, need: Need, result: Result<String, String>, remedy: &'static str) -> Finding {
    let found = result.is_ok();
    let detail = result.unwrap_or_else(|e| e);
    Finding { what, need, found, detail, remedy }
}

/// Looks at everything live runs use.
#[cfg(target_os = "linux")]
pub fn examine() -> Vec<Finding> {
    use Need::{Required, Wanted};
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let number = |i: usize| -> u32 {
        let part = kernel.split('.').nth(i).unwrap_or("0");
        part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("0").parse().unwrap_or(0)
    };
    let version = (number(0), number(1));
    let ok = |r: Result<(), String>, text: &str| r.map(|()| text.to_owned());
    let tun = attempt(|| {
        sys::new_namespace()?;
        sys::tun().map(drop)
    });
    vec![
        finding(
            "kernel 5.11 or newer",
            Required,
            if version >= (5, 11) { Ok(kernel.clone()) } else { Err(kernel.clone()) },
            "waiting with nanoseconds (epoll_pwait2) came with Linux 5.11",
        ),
        finding(
            "network namespaces",
            Required,
            ok(attempt(sys::new_namespace), "a thread can have its own"),
            "run as root, or in a user namespace: unshare -Ur",
        ),
        finding(
            "TUN devices",
            Required,
            ok(tun, "/dev/net/tun"),
            "/dev/net/tun must exist and be open to you: modprobe tun; in a container, pass it in",
        ),
        finding(
            "congestion controls reno and cubic",
            Required,
            match congestion_controls() {
                list if ["reno", "cubic"].iter().all(|c| list.iter().any(|l| l == c)) => Ok(list.join(", ")),
                list => Err(list.join(", ")),
            },
            "modprobe tcp_cubic",
        ),
        finding(
            "real-time priority",
            Wanted,
            ok(attempt(|| sys::fifo_priority(1)), "SCHED_FIFO"),
            "run as root (or with CAP_SYS_NICE): without it departures are late when the machine is busy",
        ),
        finding(
            "RTO floor in microseconds",
            Wanted,
            ok(
                attempt(|| {
                    sys::new_namespace()?;
                    sys::sysctl("ipv4/tcp_rto_min_us", "200000")
                }),
                "sysctl tcp_rto_min_us",
            ),
            "came with Linux 6.11; before it the floor is set by route, in milliseconds",
        ),
        finding(
            "two cores",
            Wanted,
            match thread::available_parallelism().map_or(1, usize::from) {
                1 => Err("1".into()),
                n => Ok(n.to_string()),
            },
            "the network and the applications each want a core",
        ),
        finding(
            "own congestion controls (BPF struct_ops)",
            Wanted,
            penstock_live_bpf::available().map(|()| "DCTCP and steered sockets".to_owned()),
            "for DCTCP and the papers' protocols. On Debian or Ubuntu: apt install clang llvm libelf-dev zlib1g-dev \
             pkg-config, then make setup; the kernel needs BTF (/sys/kernel/btf/vmlinux) and root",
        ),
    ]
}

/// Looks at everything live runs use: another system than Linux has none of it.
#[cfg(not(target_os = "linux"))]
pub fn examine() -> Vec<Finding> {
    let remedy = "namespaces, TUN devices and the TCP that is measured are Linux's";
    vec![finding("Linux", Need::Required, Err(std::env::consts::OS.to_owned()), remedy)]
}

/// What is missing for any live run, in one line; `None` = nothing.
pub fn missing() -> Option<String> {
    let lacks = examine().into_iter().filter(|f| f.need == Need::Required && !f.found);
    let list: Vec<String> = lacks.map(|f| format!("{} ({}); {}", f.what, f.detail, f.remedy)).collect();
    (!list.is_empty()).then(|| list.join("; "))
}

/// Everything as a document: a list of `{what, required, found, detail, remedy}`.
pub fn document() -> Value {
    examine()
        .iter()
        .map(|f| {
            json!({
                "what": f.what, "required": f.need == Need::Required, "found": f.found, "detail": f.detail,
                "remedy": f.remedy,
            })
        })
        .collect()
}
