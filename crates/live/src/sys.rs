//! The operating system behind safe functions: clocks, namespaces, TUN devices, addresses and routes, priorities, waiting
//! and the options of sockets.
//!
//! `rustix` and `socket2` make the system calls, `netlink-packet-route` the messages to the kernel's routing. Unsafe are
//! the six calls that none of them has in a safe form.
#![allow(unsafe_code)]

use netlink_packet_core::{
    NetlinkMessage, NetlinkPayload, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
    RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::buffer::spare_capacity;
use rustix::event::{epoll, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::ioctl::{ioctl, opcode, Getter, Updater};
use rustix::thread::{CpuSet, LinkNameSpaceType, UnshareFlags};
use rustix::time::{clock_getres, clock_gettime, ClockId, Timespec};
use socket2::{Domain, MsgHdr, MsgHdrMut, Protocol, SockRef, Socket, Type};
use std::fs::{self, OpenOptions};
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

fn check(result: libc::c_int) -> Result<()> {
    if result < 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}

/// `None` where the call would have had to wait.
fn unless_it_would_block<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(x) => Ok(Some(x)),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

fn in_ns(t: Timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic_ns() -> u64 {
    in_ns(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds of the monotonic clock at the kernel's last tick.
pub fn tick_time_ns() -> u64 {
    in_ns(clock_gettime(ClockId::MonotonicCoarse))
}

/// The time from one tick of the kernel to the next (1/HZ), in nanoseconds.
pub fn tick_ns() -> u64 {
    in_ns(clock_getres(ClockId::MonotonicCoarse)).max(1)
}

/// The processor that this thread runs on.
pub fn processor() -> usize {
    rustix::thread::sched_getcpu()
}

/// Keeps this thread on one processor.
pub fn stay_on(processor: usize) -> Result<()> {
    if processor >= CpuSet::MAX_CPU {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// CPU time of this process in seconds.
pub fn process_cpu() -> f64 {
    in_ns(clock_gettime(ClockId::ProcessCPUTime)) as f64 * 1e-9
}

/// Seconds all cores together have been busy since boot (`/proc/stat`), interrupts and stolen time included.
pub fn machine_cpu() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<f64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|x| x.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is counted in user already.
    let busy: f64 =
        fields.iter().take(8).enumerate().filter(|(i, _)| *i != 3 && *i != 4).map(|(_, x)| x).sum();
    Some(busy / rustix::param::clock_ticks_per_second() as f64)
}

/// Sleeps that long.
#[allow(clippy::disallowed_methods)] // Live runs follow the wall clock.
pub fn sleep_ns(ns: u64) {
    std::thread::sleep(Duration::from_nanos(ns));
}

// ---- namespaces ----------------------------------------------------------------------------------------------

/// Moves this thread into a new, empty network namespace.
pub fn new_namespace() -> Result<()> {
    // SAFETY: only CLONE_FILES is unsafe: it gives the thread a table of descriptors of its own. This is CLONE_NEWNET.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// The network namespace this thread is in; it lives as long as the descriptor.
pub fn current_namespace() -> Result<OwnedFd> {
    Ok(fs::File::open("/proc/thread-self/ns/net")?.into())
}

/// Moves this thread into a namespace.
pub fn enter(namespace: &OwnedFd) -> Result<()> {
    let kind = Some(LinkNameSpaceType::Network);
    Ok(rustix::thread::move_into_link_name_space(namespace.as_fd(), kind)?)
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

/// Name of the only device of a host.
pub const DEVICE: &str = "tun0";

/// `struct ifreq` of linux/if.h as TUNSETIFF reads and writes it: a name and flags.
#[repr(C)]
struct DeviceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    unused: [u8; 22],
}
const _: () = assert!(size_of::<DeviceRequest>() >= size_of::<libc::ifreq>());

/// Creates the TUN device [`DEVICE`] in this thread's namespace; it lives as long as the descriptor.
pub fn tun() -> Result<OwnedFd> {
    let tun: OwnedFd =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?.into();
    let mut request = DeviceRequest {
        name: [0; libc::IFNAMSIZ],
        flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        unused: [0; 22],
    };
    request.name[..DEVICE.len()].copy_from_slice(DEVICE.as_bytes());
    const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<libc::c_int>(b'T', 202);
    // SAFETY: TUNSETIFF reads and writes one ifreq, and the request is at least as long.
    unsafe { ioctl(&tun, Updater::<TUNSETIFF, _>::new(&mut request)) }?;
    Ok(tun)
}

/// Gives [`DEVICE`] its address, MTU and queue length, and takes it up; answers its number.
pub fn configure_device(address: [u8; 4], mtu: u32, queue: u32) -> Result<u32> {
    let any = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let device = rustix::net::netdevice::name_to_index(&any, DEVICE)?;
    let address = IpAddr::V4(Ipv4Addr::from(address));
    let mut own = AddressMessage::default();
    own.header.family = AddressFamily::Inet;
    own.header.prefix_len = 32;
    own.header.index = device;
    own.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    request(RouteNetlinkMessage::NewAddress(own), NLM_F_CREATE | NLM_F_REPLACE)?;
    let attributes = vec![LinkAttribute::Mtu(mtu), LinkAttribute::TxQueueLen(queue)];
    set_link(device, LinkFlags::Up, attributes)?;
    Ok(device)
}

// ---- netlink -----------------------------------------------------------------------------------------------------

/// Sends a request to the kernel's routing in this thread's namespace; answers what the kernel answers.
fn exchange(message: RouteNetlinkMessage, flags: u16) -> Result<NetlinkPayload<RouteNetlinkMessage>> {
    let mut message = NetlinkMessage::from(message);
    message.header.flags = NLM_F_REQUEST | flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let netlink = Domain::from(libc::AF_NETLINK);
    let kernel = Socket::new(netlink, Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
    kernel.send(&bytes)?;
    let mut answer = vec![0; 1 << 15];
    let n = rustix::io::read(&kernel, &mut answer)?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer[..n]).map_err(Error::other)?;
    Ok(answer.payload)
}

/// Changes something, and waits until the kernel has confirmed it.
fn request(message: RouteNetlinkMessage, flags: u16) -> Result<()> {
    match exchange(message, NLM_F_ACK | flags)? {
        // The acknowledgement is an error of code 0.
        NetlinkPayload::Error(e) if e.code.is_some() => Err(e.to_io()),
        NetlinkPayload::Error(_) => Ok(()),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// Sets flags and attributes of the device of number `device`.
fn set_link(device: u32, flags: LinkFlags, attributes: Vec<LinkAttribute>) -> Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = device;
    (link.header.flags, link.header.change_mask) = (flags, flags);
    link.attributes = attributes;
    request(RouteNetlinkMessage::SetLink(link), 0)
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
    let window = metrics.initial_window.map(RouteMetric::InitCwnd);
    let rto = metrics.rto_min_ms.map(RouteMetric::RtoMin);
    let quick = metrics.quick_ack.then_some(RouteMetric::QuickAck(1));
    let metrics: Vec<RouteMetric> = [window, rto, quick].into_iter().flatten().collect();
    let mut route = RouteMessage::default();
    route.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: prefix,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Link,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    route.attributes =
        vec![RouteAttribute::Destination(RouteAddress::Inet(net.into())), RouteAttribute::Oif(device)];
    if !metrics.is_empty() {
        route.attributes.push(RouteAttribute::Metrics(metrics));
    }
    request(RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_REPLACE)
}

/// Trains of `most` segments at most leave for the device of number `device`, to be cut there; 1 = none.
pub fn segments_at_once(device: u32, most: u32) -> Result<()> {
    set_link(device, LinkFlags::empty(), vec![LinkAttribute::GsoMaxSegs(most)])
}

// ---- priorities and waiting ----------------------------------------------------------------------------------------

/// Gives this thread a first-in first-out real-time priority.
pub fn fifo_priority(priority: i32) -> Result<()> {
    let p = libc::sched_param { sched_priority: priority };
    // SAFETY: the kernel reads one sched_param, which outlives the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &p) })
}

/// Lets this thread's timers fire when they are due, not up to 50 us later.
pub fn exact_timers() {
    // Linux takes any slack that is not zero; without it timers are late, which the run measures.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Lets the process hold as many descriptors as it may.
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    // None is no limit.
    (if raised.is_ok() { limit.maximum } else { limit.current }).unwrap_or(u64::MAX)
}

/// Waits for descriptors.
pub struct Poll {
    fd: OwnedFd,
    ready: Vec<epoll::Event>,
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
        Ok(Poll { fd: epoll::create(epoll::CreateFlags::CLOEXEC)?, ready: Vec::with_capacity(128) })
    }
    /// Reports `fd` as `token`: when readable, and when it becomes writable if `writable`.
    pub fn add(&self, fd: impl AsFd, token: u64, writable: bool) -> Result<()> {
        use epoll::EventFlags;
        // Edge-triggered where writability is of interest: a socket is nearly always writable.
        let more = if writable { EventFlags::OUT | EventFlags::ET } else { EventFlags::empty() };
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), EventFlags::IN | more)?)
    }
    /// Waits up to `ns` nanoseconds.
    pub fn wait(&mut self, ns: u64) -> Result<impl Iterator<Item = Ready> + '_> {
        let t = Timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
        self.ready.clear();
        match epoll::wait(&self.fd, spare_capacity(&mut self.ready), Some(&t)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(self.ready.iter().map(|e| {
            let (flags, data) = (e.flags, e.data);
            Ready {
                token: data.u64(),
                writable: flags.contains(epoll::EventFlags::OUT),
                error: flags.contains(epoll::EventFlags::ERR),
            }
        }))
    }
}

/// Reads into `buffer`; `None` = nothing there.
pub fn read(fd: &OwnedFd, buffer: &mut [u8]) -> Result<Option<usize>> {
    unless_it_would_block(rustix::io::read(fd, buffer).map_err(Error::from))
}

/// Whether a packet can be read.
pub fn readable(fd: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(fd, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut asked, Some(&at_once)) == Ok(1) && asked[0].revents().contains(PollFlags::IN)
}

/// Writes one packet; false when the device did not take it.
pub fn write(fd: &OwnedFd, packet: &[u8]) -> bool {
    rustix::io::write(fd, packet) == Ok(packet.len())
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
pub fn tcp_info(socket: &Socket) -> Result<TcpInfo> {
    // struct tcp_info of include/uapi/linux/tcp.h: byte fields first, then the offsets below. Newer kernels append.
    let mut raw = [0u8; 512];
    let mut length = raw.len() as libc::socklen_t;
    let (fd, to) = (socket.as_raw_fd(), raw.as_mut_ptr().cast());
    // SAFETY: the kernel writes at most `length` bytes, which is how many `raw` has, and how many it wrote to `length`.
    check(unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &mut length) })?;
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
pub fn unacknowledged(socket: &Socket) -> Result<u64> {
    // linux/sockios.h; the number is that of a terminal's TIOCOUTQ.
    const SIOCOUTQ: rustix::ioctl::Opcode = 0x5411;
    // SAFETY: SIOCOUTQ writes one int.
    let bytes = unsafe { ioctl(socket, Getter::<SIOCOUTQ, libc::c_int>::new()) }?;
    Ok(bytes as u64)
}

/// Asks that [`send`] with `report` be answered on the error queue when its last byte is acknowledged.
pub fn report_acknowledgements(socket: &Socket) -> Result<()> {
    let flags: libc::c_uint = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    let (fd, from) = (socket.as_raw_fd(), (&raw const flags).cast());
    let length = size_of_val(&flags) as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes, the size of `flags`, which outlives the call.
    check(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, from, length) })
}

/// Bytes of a `struct cmsghdr` (length, level, type) and a value of 32 bits.
const CONTROL: usize = size_of::<usize>() + 3 * size_of::<u32>();

/// The control message that asks for a report when the last byte of a write is acknowledged.
fn acknowledgement_report() -> [u8; CONTROL] {
    let mut control = [0; CONTROL];
    let (length, rest) = control.split_at_mut(size_of::<usize>());
    length.copy_from_slice(&CONTROL.to_ne_bytes());
    let fields = [libc::SOL_SOCKET, libc::SO_TIMESTAMPING, libc::SOF_TIMESTAMPING_TX_ACK as libc::c_int];
    for (to, field) in rest.chunks_exact_mut(size_of::<u32>()).zip(fields) {
        to.copy_from_slice(&field.to_ne_bytes());
    }
    control
}

/// Sends what fits of `data`; with `report`, the acknowledgement of the last byte of a complete send is reported.
/// With `more`, a segment that is not full waits for what follows. `None` = no room.
pub fn send(socket: &Socket, data: &[u8], report: bool, more: bool) -> Result<Option<usize>> {
    let part = [IoSlice::new(data)];
    let control = acknowledgement_report();
    let mut message = MsgHdr::new().with_buffers(&part);
    let mut flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if more {
        flags |= libc::MSG_MORE;
    }
    if report {
        flags |= libc::MSG_EOR;
        message = message.with_control(&control);
    }
    unless_it_would_block(SockRef::from(socket).sendmsg(&message, flags))
}

/// Takes one message off the error queue; false when it is empty. Which write it answers does not matter:
/// connections have one write under way, and [`unacknowledged`] says whether it is complete.
pub fn take_report(socket: &Socket) -> bool {
    let mut control = [MaybeUninit::uninit(); 512];
    let mut message = MsgHdrMut::new().with_control(&mut control);
    socket.recvmsg(&mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT).is_ok()
}

/// Takes what has arrived off a TCP socket: bytes, `Some(0)` at the end of the stream, `None` when nothing is there.
/// The kernel drops as many bytes as `sink` has room for, and writes nothing to it (`MSG_TRUNC`).
pub fn discard(socket: &Socket, sink: &mut [MaybeUninit<u8>]) -> Result<Option<usize>> {
    unless_it_would_block(socket.recv_with_flags(sink, libc::MSG_TRUNC | libc::MSG_DONTWAIT))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Guards: the resolution of the switch's waits. A timeout rounded up to milliseconds would make every packet late.
    #[test]
    fn a_wait_of_microseconds_is_no_wait_of_milliseconds() {
        let mut poll = Poll::new().unwrap();
        exact_timers();
        let wait = |poll: &mut Poll| {
            let begin = Instant::now();
            assert_eq!(poll.wait(20_000).unwrap().count(), 0);
            begin.elapsed()
        };
        // The shortest of many: a busy machine makes single waits late.
        let shortest = (0..200).map(|_| wait(&mut poll)).min().unwrap();
        assert!(shortest >= Duration::from_micros(20) && shortest < Duration::from_millis(1), "{shortest:?}");
    }
    /// Guards: what comes back from a clock, from a limit and from a processor is in the units that callers expect.
    #[test]
    fn clocks_ticks_and_processors_are_plausible() {
        let before = monotonic_ns();
        sleep_ns(2_000_000);
        assert!(monotonic_ns() - before >= 2_000_000);
        assert!(monotonic_ns() - tick_time_ns() < 1_000_000_000);
        // HZ is 100, 250, 300 or 1000.
        assert!((1_000_000..=10_000_000).contains(&tick_ns()), "{}", tick_ns());
        assert!(raise_descriptor_limit() >= 64);
        let here = processor();
        stay_on(here).unwrap();
        assert_eq!(processor(), here);
        assert_eq!(stay_on(usize::MAX).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    /// Guards: the layout of the control message, which the kernel refuses if a length is wrong, and the report itself.
    #[test]
    fn the_acknowledgement_of_a_write_is_reported_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.connect(&listener.local_addr().unwrap().into()).unwrap();
        let accepted = Socket::from(listener.accept().unwrap().0);
        report_acknowledgements(&socket).unwrap();
        let mut sink = Box::new_uninit_slice(1 << 20);
        let arrive = |wanted: usize, sink: &mut [MaybeUninit<u8>]| {
            let mut got = 0;
            while got < wanted {
                got += discard(&accepted, sink).unwrap().unwrap_or(0);
            }
        };
        assert_eq!(send(&socket, &[0; 1000], false, false).unwrap(), Some(1000));
        arrive(1000, &mut sink);
        assert!(!take_report(&socket), "not asked for");
        assert_eq!(send(&socket, &[0; 3000], true, false).unwrap(), Some(3000));
        arrive(3000, &mut sink);
        let begin = Instant::now();
        while !take_report(&socket) {
            assert!(begin.elapsed() < Duration::from_secs(10), "no report");
        }
        assert!(!take_report(&socket));
        assert_eq!(unacknowledged(&socket).unwrap(), 0);
        // The SYN counts as a byte.
        assert_eq!(tcp_info(&socket).unwrap().acked, 4001);
        drop(socket);
        while discard(&accepted, &mut sink).unwrap() != Some(0) {}
    }
    /// Guards: a failed request to the kernel's routing is an error with its cause, not silence.
    #[test]
    fn a_refused_route_says_why() {
        let refused = std::thread::spawn(|| {
            // Without privileges this is the refusal; with them the namespace has no such device.
            new_namespace()?;
            add_route([10, 77, 0, 0], 16, 4711, RouteMetrics::default())
        });
        let kind = refused.join().unwrap().unwrap_err().raw_os_error();
        assert!(kind == Some(libc::ENODEV) || kind == Some(libc::EPERM), "{kind:?}");
    }
    /// Guards: address, MTU, queue, route metrics and segments of the device are what the kernel then has.
    #[test]
    fn the_device_has_what_was_asked_for() {
        let run = std::thread::spawn(|| -> Result<()> {
            if new_namespace().is_err() {
                return Ok(());
            }
            let Ok(_device) = tun() else { return Ok(()) };
            let index = configure_device([10, 77, 0, 1], 1480, 777)?;
            let metrics = RouteMetrics { initial_window: Some(7), rto_min_ms: Some(12), quick_ack: true };
            add_route([10, 77, 0, 0], 16, index, metrics)?;
            segments_at_once(index, 3)?;
            // Routes of /proc: Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT.
            let routes = fs::read_to_string("/proc/thread-self/net/route")?;
            let row: Vec<&str> = routes.lines().nth(1).unwrap_or("").split_whitespace().collect();
            assert_eq!((row[0], row[1], row[7]), (DEVICE, "00004D0A", "0000FFFF"), "{routes}");
            let addresses = fs::read_to_string("/proc/thread-self/net/fib_trie")?;
            let lines: Vec<&str> = addresses.lines().map(str::trim).collect();
            assert!(lines.windows(2).any(|l| l == ["|-- 10.77.0.1", "/32 host LOCAL"]), "{addresses}");
            let link = link(index)?;
            assert!(link.header.flags.contains(LinkFlags::Up));
            for wanted in
                [LinkAttribute::Mtu(1480), LinkAttribute::TxQueueLen(777), LinkAttribute::GsoMaxSegs(3)]
            {
                assert!(link.attributes.contains(&wanted), "{wanted:?} in {:?}", link.attributes);
            }
            Ok(())
        });
        run.join().unwrap().unwrap();
    }
    fn link(index: u32) -> Result<LinkMessage> {
        let mut asked = LinkMessage::default();
        asked.header.index = index;
        match exchange(RouteNetlinkMessage::GetLink(asked), 0)? {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(link),
            other => panic!("{other:?}"),
        }
    }
}
