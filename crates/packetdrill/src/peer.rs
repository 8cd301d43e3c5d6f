//! The socket under test: a sender and a receiver, and what their packets look like on a wire.
//!
//! On the wire both initial sequence numbers are 0, so that the first byte of either side is number 1; penstock's halves begin at 0.

use crate::script::{Flags, IpEcn, Options, Wire};
use crate::settings::Settings;
use penstock_core::packet::{flag, SackBlock, MAX_SACK};
use penstock_core::rng::Entity;
use penstock_core::tcp::{EcnMode, Receiver, Sender, TcpConfig};
use penstock_core::{CcHeader, Ecn, Packet, Stream};
use penstock_units::{Dur, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Window scale that the socket announces for itself.
const OWN_SCALE: u32 = 7;

/// One connection.
pub(crate) struct Socket {
    pub(crate) cfg: Arc<TcpConfig>,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// The peer has opened it.
    passive: bool,
    open: bool,
    /// Scale of the windows that the peer announces.
    scale: u32,
    syn_stamp: u64,
    /// Of the peer's data: the time stamps of penstock, and those of the script in the same packets.
    stamps: Vec<(u64, u64)>,
    /// The round trip of the handshake.
    handshake: Dur,
    /// Bytes the application has read; what hangs on that looks at reads that leave nothing.
    pub(crate) read: u64,
    /// What has left and no line of the script has asked for, in order.
    pub(crate) sent: VecDeque<(Time, Wire)>,
}

impl Socket {
    /// A socket that opens now; `mss` and `scale` are what the peer announces (or will).
    pub(crate) fn open(settings: &Settings, now: Time, passive: bool, mss: u32, scale: u32) -> Socket {
        let stream = |entity| Stream::new(1, 0, entity, 0);
        let (mut cfg, law) = settings.build(mss, stream(Entity::Host));
        if passive {
            cfg.syn_linear_timeouts = 0;
        }
        let cfg = Arc::new(cfg);
        let mut sender = Sender::new(cfg.clone(), law, 0, 0, || stream(Entity::Sender));
        sender.open(now);
        let mut receiver = Receiver::new(cfg.clone(), 0, 0);
        if settings.receive_buffer.is_some() {
            receiver.follow_reads();
        }
        let mut socket = Socket {
            cfg,
            sender,
            receiver,
            passive,
            open: false,
            scale,
            syn_stamp: 0,
            stamps: Vec::new(),
            handshake: Dur::ZERO,
            read: 0,
            sent: VecDeque::new(),
        };
        socket.flush(now);
        socket
    }
    /// When it wants to be woken up.
    pub(crate) fn deadline(&self) -> Time {
        self.sender.deadline().min(self.receiver.deadline())
    }
    /// Its deadline has come.
    pub(crate) fn wake(&mut self, now: Time) {
        if self.sender.deadline() <= now {
            self.sender.on_deadline(now);
        }
        if self.receiver.deadline() <= now {
            self.receiver.on_deadline(now);
        }
        self.flush(now);
    }
    /// Lets it send all it may.
    pub(crate) fn flush(&mut self, now: Time) {
        let (mut p, mut header) = (Packet::default(), CcHeader::NONE);
        while self.sender.poll_transmit(now, &mut p, &mut header) {
            let wire = self.forward(&p);
            self.sent.push_back((now, wire));
        }
        while self.receiver.poll_transmit(now, &mut p, &mut header) {
            let wire = self.backward(&p);
            self.sent.push_back((now, wire));
        }
    }
    /// The application reads so many bytes.
    pub(crate) fn read(&mut self, now: Time, bytes: u64) {
        self.read += bytes;
        if self.read == self.receiver.delivered() && self.receiver.on_read() {
            self.receiver.reply();
            self.flush(now);
        }
    }
    fn next_expected(&self) -> u64 {
        1 + self.receiver.delivered() + u64::from(self.receiver.finished())
    }
    /// A packet of the sending half.
    fn forward(&mut self, p: &Packet) -> Wire {
        let ecn = Some(match p.ecn {
            Ecn::NotEct => IpEcn::No,
            Ecn::Ect0 => IpEcn::Ect0,
            Ecn::Ce => IpEcn::Ce,
        });
        let stamp = self.cfg.timestamps.then(|| (millis(p.stamp), 0));
        if p.has(flag::SYN) {
            self.syn_stamp = p.stamp;
            let options = Options {
                mss: Some(self.cfg.mss),
                sack_ok: true,
                wscale: Some(OWN_SCALE),
                ..Options::default()
            };
            // RFC 3168 section 6.1.1: ECN is asked for by ECE and CWR, and granted by ECE.
            let ecn_on = self.cfg.ecn != EcnMode::Off && !p.has(flag::NO_ECN);
            let cwr = ecn_on && !self.passive;
            let flags = Flags { syn: true, ack: self.passive, ece: ecn_on, cwr, ..Flags::default() };
            let ack = self.passive.then(|| self.next_expected());
            return Wire { ecn, flags, seq: (0, 0), len: 0, ack, win: None, options: Some(options) };
        }
        // A kernel asks for the window with a number that has been acknowledged.
        let first = if p.has(flag::PROBE) { p.seq } else { p.seq + 1 };
        let len = u64::from(p.payload);
        Wire {
            ecn,
            flags: Flags { fin: p.has(flag::FIN), ack: true, cwr: p.has(flag::CWR), ..Flags::default() },
            seq: (first, first + len),
            len,
            ack: Some(self.next_expected()),
            win: None,
            options: Some(Options { ts: stamp, ..Options::default() }),
        }
    }
    /// A packet of the receiving half.
    fn backward(&self, p: &Packet) -> Wire {
        let at = |offset: u32| (p.seq + 1).wrapping_add_signed(i64::from(offset as i32));
        let blocks = p.sack[..p.sack_count()].iter().map(|b| (at(b.start), at(b.end))).collect();
        let seq = self.sender.view.max_sent + 1;
        let echo = self.stamps.iter().rev().find(|(own, _)| *own == p.stamp).map(|(_, of_script)| *of_script);
        Wire {
            ecn: None,
            flags: Flags { ack: true, ece: p.has(flag::ECE), ..Flags::default() },
            seq: (seq, seq),
            len: 0,
            ack: Some(p.seq + 1),
            win: Some((u64::from(p.window) >> OWN_SCALE).min(65_535)),
            options: Some(Options { sack: blocks, ts: echo.map(|echo| (0, echo)), ..Options::default() }),
        }
    }
    /// A packet of the peer arrives.
    pub(crate) fn hear(&mut self, now: Time, w: &Wire) -> Result<(), String> {
        if w.flags.rst {
            return Err("RST is not modelled".into());
        }
        let options = w.options.clone().unwrap_or_default();
        let Some(ack) = w.ack else {
            return if w.flags.syn { Ok(()) } else { Err("a packet without ACK can only be a SYN".into()) };
        };
        if ack == 0 {
            return Err("ack 0: the socket's SYN takes number 0, so that ACKs begin at 1".into());
        }
        let scale = if w.flags.syn { 0 } else { self.scale };
        let window = w.win.map_or(u32::MAX, |win| (win << scale).min(u64::from(u32::MAX)) as u32);
        if !self.open {
            self.open = true;
            self.handshake = now.since(Time(self.syn_stamp));
            self.receiver.set_handshake(self.handshake);
            let granted = self.passive || w.flags.ece || self.cfg.ecn == EcnMode::Off;
            let flags = flag::SYN | flag::ACK | if granted { 0 } else { flag::NO_ECN };
            // With time stamps it says which SYN it answers.
            let echo = options.ts.filter(|(_, echo)| self.cfg.timestamps && *echo > 0);
            let stamp = echo.map_or(self.syn_stamp, |(_, echo)| (Time::ZERO + Dur::millis(echo)).0);
            let p = Packet { flags, stamp, window, ..Packet::default() };
            self.sender.on_packet(now, &p, &CcHeader::NONE);
            if !self.passive {
                // The third packet of the handshake.
                let third = Wire {
                    flags: Flags { ack: true, ..Flags::default() },
                    seq: (1, 1),
                    ack: Some(1),
                    options: Some(Options::default()),
                    ..Wire::default()
                };
                self.sent.push_back((now, third));
            }
        } else if w.len == 0 && !w.flags.fin || ack - 1 > self.sender.view.una {
            let p = self.acknowledgement(w, &options, ack, window)?;
            self.sender.on_packet(now, &p, &CcHeader::NONE);
        }
        if w.len > 0 || w.flags.fin {
            if w.seq.0 == 0 {
                return Err("data begins at sequence number 1".into());
            }
            let fin = if w.flags.fin { flag::FIN } else { 0 };
            let cwr = if w.flags.cwr { flag::CWR } else { 0 };
            let p = Packet {
                seq: w.seq.0 - 1,
                payload: w.len as u32,
                flags: fin | cwr,
                // As if the path were as long as in the handshake, and as long either way.
                stamp: now.0.saturating_sub(self.handshake.0 / 2),
                ecn: match w.ecn {
                    Some(IpEcn::Ce) => Ecn::Ce,
                    Some(IpEcn::Ect0) => Ecn::Ect0,
                    _ => Ecn::NotEct,
                },
                ..Packet::default()
            };
            if let Some((value, _)) = options.ts {
                self.stamps.push((p.stamp, value));
            }
            self.receiver.on_packet(now, &p, &CcHeader::NONE);
        }
        self.flush(now);
        Ok(())
    }
    fn acknowledgement(&self, w: &Wire, options: &Options, ack: u64, window: u32) -> Result<Packet, String> {
        let mut p = Packet { seq: ack - 1, flags: flag::ACK, window, ..Packet::default() };
        if w.flags.ece {
            p.flags |= flag::ECE;
        }
        match (self.cfg.timestamps, options.ts) {
            (true, None) => return Err("this connection uses time stamps: an ACK has TS val N ecr N".into()),
            (_, Some((_, echo))) => p.stamp = (Time::ZERO + Dur::millis(echo)).0,
            _ => {}
        }
        let blocks = &options.sack;
        if blocks.len() > MAX_SACK {
            return Err(format!("an ACK has at most {MAX_SACK} SACK blocks here"));
        }
        // RFC 2883 section 4: the first block lies below the ACK or within the second.
        let twice = blocks.first().is_some_and(|first| {
            first.1 <= ack || blocks.get(1).is_some_and(|b| b.0 <= first.0 && first.1 <= b.1)
        });
        if twice {
            p.flags |= flag::DSACK;
        }
        for (i, (start, end)) in blocks.iter().enumerate() {
            if start >= end || *start < ack && !(twice && i == 0) {
                return Err(format!("SACK block {start}:{end} lies below ack {ack}, or is empty"));
            }
            let offset = |at: u64| at.wrapping_sub(ack) as u32;
            p.sack[i] = SackBlock { start: offset(*start), end: offset(*end) };
        }
        p.set_sack_count(blocks.len());
        Ok(p)
    }
}

fn millis(stamp: u64) -> u64 {
    stamp / 1_000_000_000
}
