//! What tests do with connections: read, answer, send, wait.

use super::PATIENCE;
use penstock_live_bpf::available;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};

/// True when the test cannot run here; says why.
pub fn skipped() -> bool {
    if let Err(why) = available() {
        println!("skipped: {why}");
        return true;
    }
    false
}

pub fn at(ip: Ipv4Addr, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(ip, port)
}

pub fn local(port: u16) -> SocketAddrV4 {
    at(Ipv4Addr::LOCALHOST, port)
}

/// Waits for what the kernel does in the background.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never came true: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Reads and forgets whatever comes.
pub fn sink(listener: TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut buffer = [0u8; 65536];
    while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
}

/// Leaves everything in the receive buffer until the sender goes away. A socket without system calls is never busy, so
/// the kernel handles every segment when it arrives and merges none. Reports when it is ready for the first.
pub fn hoard(ready: mpsc::Sender<()>) -> impl FnOnce(TcpListener) {
    move |listener| {
        let (stream, _) = listener.accept().unwrap();
        // Room for all of it, and ACKs of every second segment as if it were read.
        super::wake_reader_at(&stream, 1 << 20);
        ready.send(()).unwrap();
        super::wait_for_hangup(&stream);
    }
}

/// Answers every byte that comes with one byte.
pub fn answer(listener: TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    let mut byte = [0u8; 1];
    while stream.read(&mut byte).is_ok_and(|n| n > 0) && stream.write_all(&byte).is_ok() {}
}

/// One byte there and one back: a window of data of one segment, acknowledged when this returns.
pub fn ask(stream: &mut TcpStream) {
    let mut byte = [7u8; 1];
    stream.write_all(&byte).unwrap();
    stream.read_exact(&mut byte).unwrap();
}

/// Sends while `running`, in a thread of its own.
pub fn send_while(stream: &TcpStream, running: &Arc<AtomicBool>) -> thread::JoinHandle<u64> {
    let (mut stream, running) = (stream.try_clone().unwrap(), running.clone());
    thread::spawn(move || {
        let buffer = [0u8; 16384];
        let mut sent = 0;
        while running.load(Ordering::Relaxed) {
            sent += stream.write(&buffer).unwrap() as u64;
        }
        sent
    })
}
