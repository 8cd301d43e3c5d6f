//! System calls, each behind a safe function: namespaces, TUN devices, addresses and routes, priorities, waiting.

use std::ffi::CStr;
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

fn check(result: libc::c_int) -> Result<libc::c_int> {
    if result < 0 {
        return Err(Error::last_os_error());
    }
    Ok(result)
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Nanoseconds of the monotonic clock at the kernel's last tick.
pub fn tick_time_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The time from one tick of the kernel to the next (1/HZ), in nanoseconds.
pub fn tick_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut t) };
    (t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64).max(1)
}

/// The processor that this thread runs on.
pub fn processor() -> Option<usize> {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Keeps this thread on one processor.
pub fn stay_on(processor: usize) -> Result<()> {
    // SAFETY: a cpu_set_t is plain data; all zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if processor >= 8 * std::mem::size_of_val(&set) {
        return Err(ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is within the set.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: the pointer is to a set of ours of that size.
    check(unsafe { libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set) }).map(drop)
}

/// CPU time of this process in seconds.
pub fn process_cpu() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// Seconds all cores together have been busy since boot (`/proc/stat`), interrupts and stolen time included.
pub fn machine_cpu() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<f64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|x| x.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is counted in user already.
    let busy: f64 =
        fields.iter().take(8).enumerate().filter(|(i, _)| *i != 3 && *i != 4).map(|(_, x)| x).sum();
    // SAFETY: no pointers.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    (per_second > 0).then(|| busy / per_second as f64)
}

/// Sleeps that long.
pub fn sleep_ns(ns: u64) {
    let t = libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
    // SAFETY: the pointers are to a timespec of ours and null.
    unsafe { libc::nanosleep(&t, std::ptr::null_mut()) };
}

// ---- namespaces ----------------------------------------------------------------------------------------------

/// Moves this thread into a new, empty network namespace.
pub fn new_namespace() -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// The network namespace this thread is in; it lives as long as the descriptor.
pub fn current_namespace() -> Result<OwnedFd> {
    Ok(fs::File::open("/proc/thread-self/ns/net")?.into())
}

/// Moves this thread into a namespace.
pub fn enter(namespace: &OwnedFd) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Writes a value below `/proc/sys/net` of the namespace this thread is in.
pub fn sysctl(name: &str, value: &str) -> Result<()> {
    fs::write(Path::new("/proc/sys/net").join(name), value)
}

/// Packets the device of this thread's namespace has dropped, received or sent.
pub fn device_drops(device: &str) -> Result<u64> {
    let table = fs::read_to_string("/proc/thread-self/net/dev")?;
    let row = table.lines().find_map(|l| l.trim().strip_prefix(device)?.strip_prefix(':'));
    let fields: Vec<u64> = row.unwrap_or("").split_whitespace().filter_map(|x| x.parse().ok()).collect();
    // receive: bytes packets errs drop fifo frame compressed multicast; transmit: bytes packets errs drop ...
    Ok([2, 3, 10, 11].iter().filter_map(|i| fields.get(*i)).sum())
}

/// Counters of this thread's namespace from `/proc/net/netstat` and `/proc/net/snmp`, by name.
pub fn counters(wanted: &[&str]) -> Result<Vec<u64>> {
    let mut values = vec![0; wanted.len()];
    for file in ["/proc/thread-self/net/netstat", "/proc/thread-self/net/snmp"] {
        let text = fs::read_to_string(file)?;
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks(2).filter(|p| p.len() == 2) {
            for (name, value) in pair[0].split_whitespace().zip(pair[1].split_whitespace()) {
                if let Some(i) = wanted.iter().position(|w| *w == name) {
                    values[i] = value.parse().unwrap_or(0);
                }
            }
        }
    }
    Ok(values)
}

// ---- TUN device ------------------------------------------------------------------------------------------------

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
/// Name of the only device of a host.
pub const DEVICE: &str = "tun0";

fn request() -> libc::ifreq {
    // SAFETY: an ifreq is plain data; all zeros are valid.
    let mut r: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in r.ifr_name.iter_mut().zip(DEVICE.bytes()) {
        *to = from as libc::c_char;
    }
    r
}

/// Creates the TUN device [`DEVICE`] in this thread's namespace; it lives as long as the descriptor.
pub fn tun() -> Result<OwnedFd> {
    open_tun(|fd| {
        let mut r = request();
        r.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq.
        check(unsafe { libc::ioctl(fd, TUNSETIFF as _, &mut r) }).map(drop)
    })
}

fn open_tun(prepare: impl Fn(RawFd) -> Result<()>) -> Result<OwnedFd> {
    let path: &CStr = c"/dev/net/tun";
    // SAFETY: the path ends with a zero byte.
    let fd = check(unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC) })?;
    // SAFETY: the descriptor is new and ours.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    prepare(fd.as_raw_fd())?;
    Ok(fd)
}

/// Gives [`DEVICE`] its address, MTU and queue length, and takes it up; answers its number.
pub fn configure_device(address: [u8; 4], mtu: u32, queue: u32) -> Result<u32> {
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and ours.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let call = |what: libc::c_ulong, r: &mut libc::ifreq| {
        // SAFETY: these requests read and write one ifreq.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), what as _, r) }).map(drop)
    };
    let inet = |a: [u8; 4]| {
        let from = libc::sockaddr_in {
            sin_family: libc::AF_INET as _,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(a) },
            sin_zero: [0; 8],
        };
        // SAFETY: sockaddr_in and sockaddr are plain data of one size.
        unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(from) }
    };
    let mut r = request();
    r.ifr_ifru.ifru_addr = inet(address);
    call(libc::SIOCSIFADDR, &mut r)?;
    r.ifr_ifru.ifru_netmask = inet([255; 4]);
    call(libc::SIOCSIFNETMASK, &mut r)?;
    r.ifr_ifru.ifru_mtu = mtu as _;
    call(libc::SIOCSIFMTU, &mut r)?;
    // A short device queue is only a risk of drops, which are counted: unprivileged users may not lengthen it.
    r.ifr_ifru.ifru_metric = queue as _;
    let _ = call(libc::SIOCSIFTXQLEN, &mut r);
    r.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as _;
    call(libc::SIOCSIFFLAGS, &mut r)?;
    call(libc::SIOCGIFINDEX, &mut r)?;
    // SAFETY: SIOCGIFINDEX has just filled this member.
    Ok(unsafe { r.ifr_ifru.ifru_ifindex } as u32)
}

// ---- netlink -----------------------------------------------------------------------------------------------------

/// A netlink request, built field by field.
struct Request {
    bytes: Vec<u8>,
}

impl Request {
    fn new(kind: u16, flags: u16, family_header: &[u8]) -> Request {
        let flags = flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(family_header);
        Request { bytes }
    }
    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.bytes.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
    fn send(mut self) -> Result<()> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        // SAFETY: no pointers.
        let fd = check(unsafe {
            libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE)
        })?;
        // SAFETY: the descriptor is new and ours.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut answer = [0u8; 1024];
        // SAFETY: the buffers are ours and as long as said.
        let received = unsafe {
            let sent = libc::send(fd.as_raw_fd(), self.bytes.as_ptr().cast(), self.bytes.len(), 0);
            check(sent as libc::c_int)?;
            libc::recv(fd.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
        };
        if received < 20 {
            return Err(Error::from(ErrorKind::UnexpectedEof));
        }
        let code = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
        if code < 0 {
            return Err(Error::from_raw_os_error(-code));
        }
        Ok(())
    }
}

/// What a route tells the connections that use it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouteMetrics {
    /// Initial window in segments.
    pub initial_window: Option<u32>,
    /// Floor of the retransmission timeout in milliseconds.
    pub rto_min_ms: Option<u32>,
    /// Acknowledge every segment.
    pub quick_ack: bool,
}

/// Routes `net/prefix` over the device of number `device`.
pub fn add_route(net: [u8; 4], prefix: u8, device: u32, metrics: RouteMetrics) -> Result<()> {
    const RTA_DST: u16 = 1;
    const RTA_OIF: u16 = 4;
    const RTA_METRICS: u16 = 8;
    const RTAX_INITCWND: u16 = 11;
    const RTAX_RTO_MIN: u16 = 13;
    const RTAX_QUICKACK: u16 = 15;
    const SCOPE_LINK: u8 = 253;
    const PROTOCOL_STATIC: u8 = 4;
    const MAIN: u8 = 254;
    // rtmsg: family, prefix of destination and source, tos, table, protocol, scope, type, flags.
    let header = [libc::AF_INET as u8, prefix, 0, 0, MAIN, PROTOCOL_STATIC, SCOPE_LINK, 1, 0, 0, 0, 0];
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
    let mut r = Request::new(libc::RTM_NEWROUTE, flags, &header);
    r.attribute(RTA_DST, &net);
    r.attribute(RTA_OIF, &device.to_ne_bytes());
    let mut nested = Request { bytes: Vec::new() };
    let window = metrics.initial_window.map(|w| (RTAX_INITCWND, w));
    let rto = metrics.rto_min_ms.map(|ms| (RTAX_RTO_MIN, ms));
    let quick = metrics.quick_ack.then_some((RTAX_QUICKACK, 1));
    for (kind, value) in [window, rto, quick].into_iter().flatten() {
        nested.attribute(kind, &value.to_ne_bytes());
    }
    if !nested.bytes.is_empty() {
        r.attribute(RTA_METRICS, &nested.bytes);
    }
    r.send()
}

/// Trains of `most` segments at most leave for the device of number `device`, to be cut there; 1 = none.
pub fn segments_at_once(device: u32, most: u32) -> Result<()> {
    const IFLA_GSO_MAX_SEGS: u16 = 40;
    let mut header = [0u8; 16];
    header[4..8].copy_from_slice(&device.to_ne_bytes());
    let mut r = Request::new(libc::RTM_NEWLINK, 0, &header);
    r.attribute(IFLA_GSO_MAX_SEGS, &most.to_ne_bytes());
    r.send()
}

// ---- priorities and waiting ----------------------------------------------------------------------------------------

/// Gives this thread a first-in first-out real-time priority.
pub fn fifo_priority(priority: i32) -> Result<()> {
    let p = libc::sched_param { sched_priority: priority };
    // SAFETY: the pointer is to a sched_param of ours.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &p) }).map(drop)
}

/// Lets this thread's timers fire when they are due, not up to 50 us later.
pub fn exact_timers() {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

/// Lets the process hold as many descriptors as it may.
pub fn raise_descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to an rlimit of ours.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    limit.rlim_cur
}

/// Waits for descriptors.
pub struct Poll {
    fd: OwnedFd,
    ready: Vec<libc::epoll_event>,
}

/// A descriptor is ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The number it was added with.
    pub token: u64,
    /// It can be written.
    pub writable: bool,
    /// Its error queue has something.
    pub error: bool,
}

impl Poll {
    /// Nothing to wait for yet.
    pub fn new() -> Result<Poll> {
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new and ours.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Poll { fd, ready: vec![libc::epoll_event { events: 0, u64: 0 }; 128] })
    }
    /// Reports `fd` as `token`: when readable, and when it becomes writable if `writable`.
    pub fn add(&self, fd: RawFd, token: u64, writable: bool) -> Result<()> {
        // Edge-triggered where writability is of interest: a socket is nearly always writable.
        let more = if writable { libc::EPOLLOUT | libc::EPOLLET } else { 0 };
        let mut e = libc::epoll_event { events: (libc::EPOLLIN | more) as u32, u64: token };
        // SAFETY: the pointer is to an epoll_event of ours.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut e) }).map(drop)
    }
    /// Waits up to `ns` nanoseconds.
    pub fn wait(&mut self, ns: u64) -> Result<impl Iterator<Item = Ready> + '_> {
        let t = libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
        // SAFETY: the buffer is as long as said; the other pointers are to a timespec of ours and null.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.ready.as_mut_ptr(),
                self.ready.len() as libc::c_int,
                &t as *const libc::timespec,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        let n = match check(n as libc::c_int) {
            Ok(n) => n as usize,
            Err(e) if e.kind() == ErrorKind::Interrupted => 0,
            Err(e) => return Err(e),
        };
        Ok(self.ready[..n].iter().map(|e| {
            let has = |bits: libc::c_int| e.events & bits as u32 != 0;
            Ready { token: e.u64, writable: has(libc::EPOLLOUT), error: has(libc::EPOLLERR) }
        }))
    }
}

/// Reads into `buffer`; `None` = nothing there.
pub fn read(fd: &OwnedFd, buffer: &mut [u8]) -> Result<Option<usize>> {
    // SAFETY: the buffer is ours and as long as said.
    let n = unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    match check(n as libc::c_int) {
        Ok(n) => Ok(Some(n as usize)),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether a packet can be read.
pub fn readable(fd: &OwnedFd) -> bool {
    let mut asked = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd of ours; without a timeout nothing waits.
    unsafe { libc::poll(&mut asked, 1, 0) == 1 && asked.revents & libc::POLLIN != 0 }
}

/// Writes one packet; false when the device did not take it.
pub fn write(fd: &OwnedFd, packet: &[u8]) -> bool {
    // SAFETY: the buffer is ours and as long as said.
    let n = unsafe { libc::write(fd.as_raw_fd(), packet.as_ptr().cast(), packet.len()) };
    n == packet.len() as isize
}

// ---- sockets -------------------------------------------------------------------------------------------------------

/// What the kernel says of a connection; the fields of its `tcp_info` that are used here.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    /// Window in segments.
    pub cwnd: u32,
    /// Segment in bytes.
    pub mss: u32,
    /// Smoothed RTT in microseconds.
    pub srtt_us: u32,
    /// Retransmissions.
    pub retransmits: u32,
    /// Bytes acknowledged, the SYN among them.
    pub acked: u64,
    /// Segments with data sent, retransmissions included.
    pub data_segments: u32,
    /// Timeouts; 0 on kernels before 6.7, which do not tell.
    pub timeouts: u32,
}

/// Asks the kernel about a connection.
pub fn tcp_info(fd: RawFd) -> Result<TcpInfo> {
    // struct tcp_info of include/uapi/linux/tcp.h: byte fields first, then the offsets below. Newer kernels append.
    let mut raw = [0u8; 512];
    let mut length = raw.len() as libc::socklen_t;
    // SAFETY: the buffer is ours and as long as said.
    check(unsafe {
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, raw.as_mut_ptr().cast(), &mut length)
    })?;
    let u32_at = |i: usize| u32::from_ne_bytes([raw[i], raw[i + 1], raw[i + 2], raw[i + 3]]);
    let u64_at = |i: usize| u64::from(u32_at(i)) | u64::from(u32_at(i + 4)) << 32;
    let u16_at = |i: usize| u32::from(u16::from_ne_bytes([raw[i], raw[i + 1]]));
    Ok(TcpInfo {
        mss: u32_at(16),
        srtt_us: u32_at(68),
        cwnd: u32_at(80),
        retransmits: u32_at(100),
        acked: u64_at(120),
        data_segments: u32_at(156),
        timeouts: if length as usize >= 242 { u16_at(240) } else { 0 },
    })
}

/// Bytes written on a connection and not yet acknowledged.
pub fn unacknowledged(fd: RawFd) -> Result<u64> {
    const SIOCOUTQ: libc::c_ulong = 0x5411;
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ writes one int.
    check(unsafe { libc::ioctl(fd, SIOCOUTQ as _, &mut bytes) })?;
    Ok(bytes as u64)
}

/// Asks that [`send`] with `report` be answered on the error queue when its last byte is acknowledged.
pub fn report_acknowledgements(fd: RawFd) -> Result<()> {
    let flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    // SAFETY: the option is one unsigned int.
    check(unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&flags as *const libc::c_uint).cast(),
            size_of::<libc::c_uint>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Sends what fits of `data`; with `report`, the acknowledgement of the last byte of a complete send is reported.
/// With `more`, a segment that is not full waits for what follows. `None` = no room.
pub fn send(fd: RawFd, data: &[u8], report: bool, more: bool) -> Result<Option<usize>> {
    let mut part = libc::iovec { iov_base: data.as_ptr() as *mut _, iov_len: data.len() };
    // Room for one control message, aligned as its header wants.
    let mut control = [0u64; 8];
    // SAFETY: a msghdr is plain data; all zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    let mut flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if more {
        flags |= libc::MSG_MORE;
    }
    if report {
        flags |= libc::MSG_EOR;
        let what: libc::c_uint = libc::SOF_TIMESTAMPING_TX_ACK;
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the buffer holds one control message with one unsigned int.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(size_of::<libc::c_uint>() as u32) as _;
            let c = libc::CMSG_FIRSTHDR(&message);
            (*c).cmsg_level = libc::SOL_SOCKET;
            (*c).cmsg_type = libc::SO_TIMESTAMPING;
            (*c).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_uint>() as u32) as _;
            libc::CMSG_DATA(c).cast::<libc::c_uint>().write_unaligned(what);
        }
    }
    // SAFETY: all pointers are to buffers of ours that outlive the call.
    let n = unsafe { libc::sendmsg(fd, &message, flags) };
    match check(n as libc::c_int) {
        Ok(n) => Ok(Some(n as usize)),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

/// Takes one message off the error queue; false when it is empty. Which write it answers does not matter:
/// connections have one write under way, and [`unacknowledged`] says whether it is complete.
pub fn take_report(fd: RawFd) -> bool {
    let mut control = [0u64; 64];
    // SAFETY: a msghdr is plain data; all zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: all pointers are to buffers of ours that outlive the call.
    unsafe { libc::recvmsg(fd, &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) >= 0 }
}

/// Reads and forgets what has arrived: bytes, `Some(0)` at the end of the stream, `None` when nothing is there.
pub fn discard(fd: RawFd) -> Result<Option<usize>> {
    // SAFETY: with MSG_TRUNC a TCP socket throws the bytes away and touches no buffer.
    let n = unsafe { libc::recv(fd, std::ptr::null_mut(), 1 << 24, libc::MSG_TRUNC | libc::MSG_DONTWAIT) };
    match check(n.min(i32::MAX as isize) as libc::c_int) {
        Ok(n) => Ok(Some(n as usize)),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}
