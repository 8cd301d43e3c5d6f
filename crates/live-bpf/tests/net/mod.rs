//! Network namespaces, sockets and a two-host switch for the tests. Namespaces are anonymous: they belong to a thread
//! and go with it.

pub mod peers;

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Long enough for a slow machine, short enough that a broken test ends.
pub const PATIENCE: Duration = Duration::from_secs(20);

fn checked(result: libc::c_int) -> libc::c_int {
    assert!(result >= 0, "{}", io::Error::last_os_error());
    result
}

/// Runs `f` in a thread with a network namespace of its own, loopback up.
pub fn in_new_namespace<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    thread::spawn(move || {
        checked(unsafe { libc::unshare(libc::CLONE_NEWNET) });
        bring_up("lo");
        f()
    })
}

fn request(name: &str) -> libc::ifreq {
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn configure(code: libc::c_ulong, request: &libc::ifreq) {
    let socket = checked(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) });
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), code as _, request) });
}

fn bring_up(name: &str) {
    let mut up = request(name);
    up.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    configure(libc::SIOCSIFFLAGS, &up);
}

fn address(ip: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    let mut a: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    a.sin_family = libc::AF_INET as libc::sa_family_t;
    a.sin_port = port.to_be();
    a.sin_addr.s_addr = u32::from(ip).to_be();
    a
}

fn set_address(code: libc::c_ulong, name: &str, ip: Ipv4Addr) {
    let mut r = request(name);
    let a = address(ip, 0);
    r.ifr_ifru.ifru_addr = unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(a) };
    configure(code, &r);
}

fn own_namespace() -> File {
    File::open("/proc/thread-self/ns/net").unwrap()
}

/// A TUN device with this address (/24) in the thread's namespace; packets go in and out of the file without a header.
fn tun(ip: Ipv4Addr) -> OwnedFd {
    let file = checked(unsafe { libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) });
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let mut r = request("net0");
    r.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &r) });
    set_address(libc::SIOCSIFADDR, "net0", ip);
    set_address(libc::SIOCSIFNETMASK, "net0", Ipv4Addr::new(255, 255, 255, 0));
    bring_up("net0");
    file
}

pub fn set_option<T>(socket: &impl AsRawFd, level: i32, name: i32, value: &[T]) -> io::Result<()> {
    let bytes = std::mem::size_of_val(value) as libc::socklen_t;
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), bytes) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

pub fn set_control(socket: &impl AsRawFd, name: &str) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
}

pub fn control_of(socket: &impl AsRawFd) -> String {
    let mut name = [0u8; 16];
    let mut bytes = name.len() as libc::socklen_t;
    let (fd, p) = (socket.as_raw_fd(), name.as_mut_ptr().cast());
    checked(unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, p, &mut bytes) });
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_string()
}

pub fn info(socket: &impl AsRawFd) -> libc::tcp_info {
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut bytes = std::mem::size_of_val(&info) as libc::socklen_t;
    let (fd, p) = (socket.as_raw_fd(), (&raw mut info).cast());
    checked(unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, p, &mut bytes) });
    info
}

/// TCPI_OPT_ECN of the kernel's interface.
pub fn negotiated_ecn(socket: &impl AsRawFd) -> bool {
    info(socket).tcpi_options & 8 != 0
}

fn socket() -> OwnedFd {
    let fd = checked(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) });
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // Reset on close: a connection left behind would hold its namespace.
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    set_option(&fd, libc::SOL_SOCKET, libc::SO_LINGER, &[linger]).unwrap();
    fd
}

fn bind(fd: &OwnedFd, at: SocketAddrV4) {
    let a = address(*at.ip(), at.port());
    let bytes = std::mem::size_of_val(&a) as libc::socklen_t;
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const a).cast(), bytes) });
}

/// A listening socket whose connections run `control`.
pub fn listen(at: SocketAddrV4, control: &str) -> TcpListener {
    let fd = socket();
    set_control(&fd, control).unwrap();
    bind(&fd, at);
    checked(unsafe { libc::listen(fd.as_raw_fd(), 16) });
    TcpListener::from(fd)
}

/// A connection from `from`, segments of at most `mss` bytes.
pub fn connect(from: SocketAddrV4, to: SocketAddrV4, control: &str, mss: i32) -> TcpStream {
    let fd = socket();
    set_control(&fd, control).unwrap();
    set_option(&fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &[mss]).unwrap();
    bind(&fd, from);
    let a = address(*to.ip(), to.port());
    let bytes = std::mem::size_of_val(&a) as libc::socklen_t;
    checked(unsafe { libc::connect(fd.as_raw_fd(), (&raw const a).cast(), bytes) });
    let stream = TcpStream::from(fd);
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Returns when the other side has closed or reset the connection.
pub fn wait_for_hangup(stream: &TcpStream) {
    let mut wait = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    checked(unsafe { libc::poll(&mut wait, 1, PATIENCE.as_millis() as libc::c_int) });
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
            let wait = |end: &(u8, OwnedFd, File)| libc::pollfd {
                fd: end.1.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            let mut ready = [wait(&ends[0]), wait(&ends[1])];
            checked(unsafe { libc::poll(ready.as_mut_ptr(), 2, 20) });
            for (side, end) in ready.iter().enumerate() {
                if end.revents & libc::POLLIN == 0 {
                    continue;
                }
                let length = unsafe { libc::read(end.fd, bytes.as_mut_ptr().cast(), bytes.len()) };
                let packet = &mut bytes[..length.max(0) as usize];
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
                unsafe { libc::write(ready[1 - side].fd, packet.as_ptr().cast(), packet.len()) };
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
