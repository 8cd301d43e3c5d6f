//! Network namespaces, sockets and a two-host switch for the tests. Namespaces are anonymous: they belong to a thread
//! and go with it.

pub mod peers;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::ioctl::{ioctl, Opcode, Updater};
use rustix::thread::{unshare_unsafe, UnshareFlags};
use socket2::{Domain, SockRef, Socket, Type};
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Long enough for a slow machine, short enough that a broken test ends.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `f` in a thread with a network namespace of its own, loopback up.
pub fn in_new_namespace<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    thread::spawn(move || {
        // SAFETY: only CLONE_FILES is unsafe. This is CLONE_NEWNET.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
        bring_up("lo");
        f()
    })
}

/// `struct ifreq` of linux/if.h: a name, and flags or an address.
#[repr(C)]
struct DeviceRequest {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}
const _: () = assert!(size_of::<DeviceRequest>() >= size_of::<libc::ifreq>());

fn configure<const CODE: Opcode>(file: impl AsFd, name: &str, value: &[u8]) {
    let mut request = DeviceRequest { name: [0; libc::IFNAMSIZ], value: [0; 24] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    request.value[..value.len()].copy_from_slice(value);
    // SAFETY: every caller's code reads and writes one ifreq, and the request is at least as long.
    unsafe { ioctl(file, Updater::<CODE, _>::new(&mut request)) }.unwrap();
}

fn any_socket() -> Socket {
    Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap()
}

fn bring_up(name: &str) {
    configure::<{ libc::SIOCSIFFLAGS as Opcode }>(any_socket(), name, &(libc::IFF_UP as u16).to_ne_bytes());
}

/// An address as a `struct sockaddr_in` has it, without a port.
fn inet(ip: Ipv4Addr) -> [u8; 8] {
    let mut address = [0; 8];
    address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    address[4..].copy_from_slice(&ip.octets());
    address
}

fn own_namespace() -> File {
    File::open("/proc/thread-self/ns/net").unwrap()
}

/// A TUN device with this address (/24) in the thread's namespace; packets go in and out of the file without a header.
fn tun(ip: Ipv4Addr) -> OwnedFd {
    let file = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as u16;
    configure::<{ libc::TUNSETIFF as Opcode }>(&file, "net0", &flags.to_ne_bytes());
    configure::<{ libc::SIOCSIFADDR as Opcode }>(any_socket(), "net0", &inet(ip));
    let mask = inet(Ipv4Addr::new(255, 255, 255, 0));
    configure::<{ libc::SIOCSIFNETMASK as Opcode }>(any_socket(), "net0", &mask);
    bring_up("net0");
    file.into()
}

pub fn set_control(socket: &impl AsFd, name: &str) -> io::Result<()> {
    SockRef::from(socket).set_tcp_congestion(name.as_bytes())
}

pub fn control_of(socket: &impl AsFd) -> String {
    let name = SockRef::from(socket).tcp_congestion().unwrap();
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_string()
}

pub fn info(socket: &impl AsRawFd) -> libc::tcp_info {
    // SAFETY: a tcp_info is plain numbers; all zeros are valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut bytes = size_of_val(&info) as libc::socklen_t;
    let (fd, p) = (socket.as_raw_fd(), (&raw mut info).cast());
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `info`.
    let done = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, p, &mut bytes) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    info
}

/// Sets how many bytes must have arrived before a reader is woken (`SO_RCVLOWAT`).
pub fn wake_reader_at(socket: &impl AsRawFd, bytes: libc::c_int) {
    let (fd, p, length) = (socket.as_raw_fd(), (&raw const bytes).cast(), size_of_val(&bytes));
    // SAFETY: the kernel reads `length` bytes, the size of `bytes`, which outlives the call.
    let done = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, p, length as _) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

/// TCPI_OPT_ECN of the kernel's interface.
pub fn negotiated_ecn(socket: &impl AsRawFd) -> bool {
    info(socket).tcpi_options & 8 != 0
}

fn socket(control: &str) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // Reset on close: a connection left behind would hold its namespace.
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    set_control(&socket, control).unwrap();
    socket
}

/// A listening socket whose connections run `control`.
pub fn listen(at: SocketAddrV4, control: &str) -> TcpListener {
    let socket = socket(control);
    socket.bind(&at.into()).unwrap();
    socket.listen(16).unwrap();
    socket.into()
}

/// A connection from `from`, segments of at most `mss` bytes.
pub fn connect(from: SocketAddrV4, to: SocketAddrV4, control: &str, mss: u32) -> TcpStream {
    let socket = socket(control);
    socket.set_tcp_mss(mss).unwrap();
    socket.bind(&from.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Returns when the other side has closed or reset the connection.
pub fn wait_for_hangup(stream: &TcpStream) {
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as _, tv_nsec: 0 };
    poll(&mut [PollFd::new(stream, PollFlags::RDHUP)], Some(&patience)).unwrap();
}

/// What the switch does with a packet of the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Pass,
    Mark,
    Drop,
}

/// One TCP packet as the switch saw it.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub from_sender: bool,
    pub seq: u32,
    pub ack: u32,
    pub payload: u32,
    pub syn: bool,
    pub ece: bool,
    pub cwr: bool,
    /// The two ECN bits, before marking.
    pub ecn: u8,
    pub fate: Fate,
}

impl Packet {
    fn parse(bytes: &[u8], from_sender: bool) -> Option<Packet> {
        let ip = (bytes[0] & 15) as usize * 4;
        if bytes[0] >> 4 != 4 || bytes[9] != 6 || bytes.len() < ip + 20 {
            return None;
        }
        let tcp = &bytes[ip..];
        let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
        Some(Packet {
            from_sender,
            seq: word(4),
            ack: word(8),
            payload: (bytes.len() - ip - (tcp[12] >> 4) as usize * 4) as u32,
            syn: tcp[13] & 2 != 0,
            ece: tcp[13] & 0x40 != 0,
            cwr: tcp[13] & 0x80 != 0,
            ecn: bytes[1] & 3,
            fate: Fate::Pass,
        })
    }
}

/// Sets CE and mends the header checksum (RFC 1624: HC' = ~(~HC + ~m + m')).
fn mark(bytes: &mut [u8]) {
    let word = |b: &[u8], at: usize| u16::from_be_bytes([b[at], b[at + 1]]) as u32;
    let (before, sum) = (word(bytes, 0), word(bytes, 10));
    bytes[1] |= 3;
    let mut new = (!sum & 0xffff) + (!before & 0xffff) + word(bytes, 0);
    new = (new & 0xffff) + (new >> 16);
    new = (new & 0xffff) + (new >> 16);
    bytes[10..12].copy_from_slice(&(!new as u16).to_be_bytes());
}

/// Where the two hosts are.
pub const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Runs `sender` and `receiver` in two namespaces with a switch between them that asks `fate` about every packet with
/// data from the sender (numbered from 0). Returns what the sender returned and every TCP packet in order.
pub fn across_a_switch<R: Send + 'static>(
    sender: impl FnOnce() -> R + Send + 'static,
    receiver: impl FnOnce(TcpListener) + Send + 'static,
    control: &str,
    mut fate: impl FnMut(usize) -> Fate + Send + 'static,
) -> (R, Vec<Packet>) {
    let (give, take) = mpsc::channel();
    let give_second = give.clone();
    let (ready, listening) = mpsc::channel();
    let control = control.to_string();
    let second = in_new_namespace(move || {
        give_second.send((1, tun(RECEIVER), own_namespace())).unwrap();
        let listener = listen(SocketAddrV4::new(RECEIVER, 5001), &control);
        ready.send(()).unwrap();
        receiver(listener)
    });
    let first = in_new_namespace(move || {
        give.send((0, tun(SENDER), own_namespace())).unwrap();
        listening.recv().unwrap();
        sender()
    });
    // The namespaces are held until the end: a connection's last words still get through.
    let mut ends: Vec<(u8, OwnedFd, File)> = take.iter().take(2).collect();
    ends.sort_by_key(|(which, ..)| *which);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let switch = thread::spawn(move || {
        let mut seen = Vec::new();
        let mut numbered = 0;
        let mut bytes = [0u8; 2048];
        while !stopped.load(Ordering::Relaxed) {
            let soon = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let mut ready = [0, 1].map(|side: usize| PollFd::new(&ends[side].1, PollFlags::IN));
            poll(&mut ready, Some(&soon)).unwrap();
            let ready = ready.map(|end| end.revents().contains(PollFlags::IN));
            for (side, _) in ready.iter().enumerate().filter(|(_, ready)| **ready) {
                let length = rustix::io::read(&ends[side].1, &mut bytes).unwrap_or(0);
                let packet = &mut bytes[..length];
                let Some(mut about) = Packet::parse(packet, side == 0) else { continue };
                if side == 0 && about.payload > 0 {
                    about.fate = fate(numbered);
                    numbered += 1;
                }
                seen.push(about);
                match about.fate {
                    Fate::Drop => continue,
                    Fate::Mark => mark(packet),
                    Fate::Pass => {}
                }
                // A device that takes no packet has lost it, as a wire may.
                let _ = rustix::io::write(&ends[1 - side].1, packet);
            }
        }
        seen
    });
    let result = first.join();
    let other = second.join();
    stop.store(true, Ordering::Relaxed);
    let seen = switch.join().unwrap();
    match (result, other) {
        (Ok(result), Ok(())) => (result, seen),
        (Err(e), _) | (_, Err(e)) => std::panic::resume_unwind(e),
    }
}
