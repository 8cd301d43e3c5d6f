//! Loading and registering, and the arrays shared with the programs.
#![allow(unsafe_code)]

use crate::options::{check_options, check_tag, DctcpOptions, Error, Seen, Steer};
use libbpf_rs::{ErrorKind, Link, MapCore, Object, ObjectBuilder, PrintLevel};
use memmap2::{MmapOptions, MmapRaw};
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

/// ELF wants its tables aligned, `include_bytes!` promises nothing.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static DCTCP: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/dctcp.bpf.o")));
static STEERED: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/steered.bpf.o")));

/// Entries of every array: one per TCP port (`PORTS` in kernel.h).
const PORTS: usize = 65536;

/// What the sources say where the name goes.
const PLACEHOLDER: &[u8; 16] = b"penstock-name\0\0\0";

pub(crate) fn available() -> Result<(), String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if let Some(version) = kernel_version(&release) {
        // Links for struct_ops came with 6.4.
        if version < (6, 4) {
            return Err(format!("Linux {} is too old: 6.4 or newer is needed", release.trim()));
        }
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(
            "the kernel has no BTF (/sys/kernel/btf/vmlinux is missing: CONFIG_DEBUG_INFO_BTF)".into()
        );
    }
    // Both objects go through the verifier; without the link nothing is registered.
    for source in [Source::dctcp(DctcpOptions::default()), Source::steered(true)] {
        source.load("pk_try").map_err(|refused| match refused.kind {
            Kind::Permission => {
                "no permission to load BPF programs: root is needed, outside user namespaces".into()
            }
            _ => format!("the kernel did not take the BPF programs: {}", refused.message),
        })?;
    }
    Ok(())
}

/// "6.18.44-generic" -> (6, 18).
fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// DCTCP in the kernel, registered under a name of its own; dropped = unregistered.
#[derive(Debug)]
pub struct Dctcp {
    control: Control,
    reports: Array<Report>,
}

impl Dctcp {
    /// Loads and registers it. `tag` (at most 6 of a-z, 0-9, _) becomes part of the name.
    pub fn register(tag: &str, o: DctcpOptions) -> Result<Dctcp, Error> {
        check_tag(tag)?;
        check_options(&o)?;
        let control = Control::register("pk_d", tag, &Source::dctcp(o))?;
        Ok(Dctcp { reports: Array::of(&control.object, "reports")?, control })
    }
    /// The name for `TCP_CONGESTION`; for both ends of a connection, and on the listening socket.
    pub fn name(&self) -> &str {
        &self.control.name
    }
    /// DCTCP.Alpha of the latest connection from this local port, 0..=1; None before there was one.
    pub fn alpha(&self, source_port: u16) -> Option<f64> {
        let report = self.reports.at(source_port);
        (report.known.load(Relaxed) != 0).then(|| report.alpha.load(Relaxed) as f64 / ALPHA_ONE)
    }
    /// Whether the latest connection from this local port negotiated ECN; None before there was one. One that did not
    /// runs the kernel's reno instead.
    pub fn ecn(&self, source_port: u16) -> Option<bool> {
        match self.reports.at(source_port).known.load(Relaxed) {
            0 => None,
            known => Some(known & 2 != 0),
        }
    }
}

/// A congestion control whose window and pacing rate come from user space; dropped = unregistered.
#[derive(Debug)]
pub struct Steered {
    control: Control,
    steers: Array<SteerCell>,
    seens: Array<SeenCell>,
}

impl Steered {
    /// Loads and registers it. `tag` (at most 6 of a-z, 0-9, _) becomes part of the name. With `ecn` connections
    /// negotiate ECN, and [`Seen`] tells of ECE.
    pub fn register(tag: &str, ecn: bool) -> Result<Steered, Error> {
        check_tag(tag)?;
        let control = Control::register(if ecn { "pk_e" } else { "pk_s" }, tag, &Source::steered(ecn))?;
        let steers = Array::of(&control.object, "steers")?;
        Ok(Steered { steers, seens: Array::of(&control.object, "seens")?, control })
    }
    /// The name for `TCP_CONGESTION`; with ECN for both ends of a connection, and on the listening socket.
    pub fn name(&self) -> &str {
        &self.control.name
    }
    /// Says what the sender with this local port shall do. Two plain stores; the kernel obeys with the next ACK, or when
    /// the connection next begins to send. Set it before `connect` for it to hold from the first packet.
    pub fn set(&self, source_port: u16, s: Steer) {
        let cell = self.steers.at(source_port);
        cell.pacing.store(s.pacing, Relaxed);
        cell.window.store(s.window, Relaxed);
    }
    /// What the connection with this local port went through. Plain loads, one per field: with ACKs coming in, the fields
    /// may be of neighbouring ACKs.
    pub fn seen(&self, source_port: u16) -> Seen {
        let cell = self.seens.at(source_port);
        Seen {
            losses: cell.losses.load(Relaxed),
            timeouts: cell.timeouts.load(Relaxed),
            ece_events: cell.ece_events.load(Relaxed),
            cwnd: cell.cwnd.load(Relaxed),
            srtt_us: cell.srtt_us.load(Relaxed),
            state: cell.state.load(Relaxed) as u8,
            delivered: cell.delivered.load(Relaxed),
            delivered_ce: cell.delivered_ce.load(Relaxed),
        }
    }
    /// Forgets the port: no wishes, nothing seen. For a port that will be used again.
    pub fn clear(&self, source_port: u16) {
        self.set(source_port, Steer::default());
        let cell = self.seens.at(source_port);
        for field in [
            &cell.losses,
            &cell.timeouts,
            &cell.ece_events,
            &cell.cwnd,
            &cell.srtt_us,
            &cell.state,
            &cell.delivered,
            &cell.delivered_ce,
        ] {
            field.store(0, Relaxed);
        }
    }
}

/// `ONE` of dctcp.bpf.c.
const ALPHA_ONE: f64 = (1u64 << 30) as f64;

/// What an [`Array`] holds: structures of atomics alone.
trait Entry {}
impl Entry for Report {}
impl Entry for SteerCell {}
impl Entry for SeenCell {}

/// `struct report` of dctcp.bpf.c.
#[repr(C)]
struct Report {
    alpha: AtomicU32,
    known: AtomicU32,
}

/// `struct steer` of steered.bpf.c.
#[repr(C)]
struct SteerCell {
    pacing: AtomicU64,
    window: AtomicU32,
    unused: AtomicU32,
}

/// `struct seen` of steered.bpf.c.
#[repr(C)]
struct SeenCell {
    losses: AtomicU32,
    timeouts: AtomicU32,
    ece_events: AtomicU32,
    cwnd: AtomicU32,
    srtt_us: AtomicU32,
    state: AtomicU32,
    delivered: AtomicU32,
    delivered_ce: AtomicU32,
}

/// An object to load: which of its struct_ops, and its options.
struct Source {
    object: &'static [u8],
    operations: &'static str,
    /// The contents of .rodata, if the object has any.
    options: Vec<u8>,
}

impl Source {
    fn dctcp(o: DctcpOptions) -> Source {
        let mut options = o.g_shift.to_ne_bytes().to_vec();
        options.extend(((o.initial_alpha * ALPHA_ONE) as u32).to_ne_bytes());
        options.extend(o.min_window.to_ne_bytes());
        options.extend(u32::from(o.linux_rules).to_ne_bytes());
        options.extend(b"reno\0\0\0\0");
        Source { object: &DCTCP.0, operations: "dctcp", options }
    }
    fn steered(ecn: bool) -> Source {
        Source { object: &STEERED.0, operations: if ecn { "ecn" } else { "plain" }, options: Vec::new() }
    }

    /// Patches, loads and verifies it; nothing is registered yet.
    fn load(&self, name: &str) -> Result<Object, Refused> {
        // libbpf has one place for its messages; the lock keeps them apart by load.
        let _one = LOADING.lock().unwrap_or_else(|e| e.into_inner());
        take_messages();
        let before = libbpf_rs::set_print(Some((PrintLevel::Warn, |_, line| {
            MESSAGES.lock().unwrap_or_else(|e| e.into_inner()).push(line);
        })));
        let loaded = self.try_load(name);
        libbpf_rs::set_print(before);
        loaded.map_err(Refused::from)
    }

    fn try_load(&self, name: &str) -> libbpf_rs::Result<Object> {
        let mut open = ObjectBuilder::default().name("penstock")?.open_memory(self.object)?;
        for mut map in open.maps_mut() {
            let map_name = map.name().to_string_lossy().into_owned();
            if map_name == self.operations {
                let value = map.initial_value_mut().expect("a struct_ops map has an initial value");
                let at = value
                    .windows(PLACEHOLDER.len())
                    .position(|w| w == PLACEHOLDER)
                    .expect("the source names it by the placeholder");
                value[at..at + PLACEHOLDER.len()].fill(0);
                value[at..at + name.len()].copy_from_slice(name.as_bytes());
            } else if map_name.ends_with(".rodata") {
                map.set_initial_value(&self.options)?;
            } else if !ARRAYS.contains(&map_name.as_str()) {
                map.set_autocreate(false)?; // the other set of operations
            }
        }
        open.load()
    }
}

const ARRAYS: [&str; 3] = ["reports", "steers", "seens"];

static LOADING: Mutex<()> = Mutex::new(());
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn take_messages() -> Vec<String> {
    std::mem::take(&mut *MESSAGES.lock().unwrap_or_else(|e| e.into_inner()))
}

#[derive(PartialEq)]
enum Kind {
    Permission,
    NameTaken,
    Other,
}

struct Refused {
    kind: Kind,
    message: String,
}

impl From<libbpf_rs::Error> for Refused {
    fn from(e: libbpf_rs::Error) -> Refused {
        let kind = match e.kind() {
            ErrorKind::PermissionDenied => Kind::Permission,
            ErrorKind::AlreadyExists => Kind::NameTaken,
            _ => Kind::Other,
        };
        // A verifier log runs to pages; its end says what was wrong.
        let lines = take_messages();
        let tail = lines.iter().skip(lines.len().saturating_sub(12));
        let message = tail.fold(format!("{e:#}"), |all, line| format!("{all}\n  {}", line.trim_end()));
        Refused { kind, message }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        match refused.kind {
            Kind::Permission => Error::Unavailable(refused.message),
            _ => Error::Refused(refused.message),
        }
    }
}

/// A registered congestion control.
#[derive(Debug)]
struct Control {
    name: String,
    /// The registration: closing it unregisters. Declared before the object, so dropped first.
    _link: Link,
    object: Object,
}

impl Control {
    /// Names are the kernel's, not the process's: the process id keeps two of ours apart, and a name that is taken all
    /// the same (a second of this process, another process-id namespace) is passed over.
    fn register(prefix: &str, tag: &str, source: &Source) -> Result<Control, Error> {
        const TRIES: u32 = 64;
        for attempt in 0..TRIES {
            let own = base36(std::process::id().wrapping_add(attempt.wrapping_mul(7919)));
            let name = format!("{prefix}{tag}{own}");
            let mut object = source.load(&name)?;
            let mut operations = object
                .maps_mut()
                .find(|m| m.name().to_string_lossy() == source.operations)
                .expect("the object was loaded with it");
            match operations.attach_struct_ops().map_err(Refused::from) {
                Ok(link) => return Ok(Control { name, _link: link, object }),
                Err(refused) if refused.kind == Kind::NameTaken => continue,
                Err(refused) => return Err(refused.into()),
            }
        }
        Err(Error::Refused(format!("{TRIES} names that begin with {prefix}{tag} are taken")))
    }
}

/// The low five digits of `n` to base 36: process ids have at most five.
fn base36(mut n: u32) -> String {
    let mut digits = [b'0'; 5];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(n % 36) as usize];
        n /= 36;
    }
    String::from_utf8_lossy(&digits).into_owned()
}

/// A BPF array of [`PORTS`] entries of atomics, mapped: reads and writes are loads and stores.
struct Array<T> {
    mapping: MmapRaw,
    entries: PhantomData<T>,
}

impl<T> std::fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Array({:p})", self.mapping.as_ptr())
    }
}

impl<T: Entry> Array<T> {
    fn of(object: &Object, name: &str) -> Result<Array<T>, Error> {
        let map = object.maps().find(|m| m.name() == name).expect("the object has this array");
        assert_eq!(map.value_size() as usize, size_of::<T>(), "entries of {name}: source and mirror differ");
        assert_eq!(map.max_entries() as usize, PORTS);
        let mapping = MmapOptions::new()
            .len(PORTS * size_of::<T>())
            .map_raw(map.as_fd().as_raw_fd())
            .map_err(|e| Error::Refused(format!("mapping {name}: {e}")))?;
        Ok(Array { mapping, entries: PhantomData })
    }

    fn at(&self, port: u16) -> &T {
        // SAFETY: the mapping is shared, begins at a page and has PORTS entries, of which `port` is one. It lives as long
        // as the reference. An entry is made of atomics, for which any bits are valid and which the kernel may change.
        unsafe { &*self.mapping.as_ptr().cast::<T>().add(usize::from(port)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number_not_by_text() {
        assert_eq!(kernel_version("6.18.44-fc-v769\n"), Some((6, 18)));
        assert_eq!(kernel_version("5.4\n"), Some((5, 4)));
        assert!(kernel_version("6.18.0").unwrap() > (6, 4));
        assert_eq!(kernel_version(""), None);
    }

    #[test]
    fn two_process_ids_never_share_a_name() {
        // The largest process id of Linux is 2^22.
        assert_eq!(base36(0), "00000");
        assert_eq!(base36(36 * 36 + 35), "0010z");
        assert_eq!(base36(1 << 22).len(), 5);
        assert_ne!(base36(1 << 22), base36((1 << 22) - 36u32.pow(4)));
    }
}
