//! pHost: a sender requests, and its receiver answers with a token per packet, for the message with the fewest missing
//! packets first. Short messages begin with free tokens (Gao, Narayan, Kumar, Agarwal, Ratnasamy, Shenker, CoNEXT 2015;
//! read from memory).
//!
//! Values and what the paper leaves open are those of the authors' simulator, YAPS (NetSys/simulator, 00b7557, `ext/capabilityflow.cpp` and
//! `capabilityhost.cpp`), read and not copied; its capabilities are the tokens. What its last public files (d4a3289, f8d7a12) do otherwise are keys. Here a request to send is repeated when nothing is heard
//! of it, and what says that all has arrived is repeated with it: there, neither is ever lost.
//!
//! Above 600 lines: a protocol is one file, and this one is a whole transport.

use crate::registry::{LinkNeeds, Paths, Protocol, Suite, Wire};
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use penstock_core::rng::Entity;
use penstock_core::{Amount, Kind, Packet, ParamSpec, Quantity, Report, Stream, Unit};
use penstock_fabric::{Cell, Scheduler};
use penstock_host::ends::{self, set_rank, Incoming, Outgoing, Timeout, Toward};
use penstock_host::messages::{End, MessageLaw, MessageStack, Messages, Write};
use penstock_host::{HostFacts, Io, Opening};
use penstock_units::{Bytes, Dur, Rate, Time};

static TOKENS: Quantity =
    Quantity::new("tokens_held", Unit::One, "tokens of a message that its sender has and has not used");

/// Requests, tokens and what says that all has arrived; messages that begin with tokens; others (YAPS: priorities 0, 1 and 2).
const CONTROL: u8 = 7;
const SHORT: u8 = 6;
const LONG: u8 = 5;
/// Links of the longest path in a fat tree: each stores a packet before it goes on.
const HOPS: u32 = 6;

/// pHost.
pub const PHOST: Protocol = Protocol {
    name: "phost",
    text: "pHost: receivers give tokens, the message with the fewest packets missing first; short ones begin at once",
    cites: "Gao et al., CoNEXT 2015 (from memory); YAPS",
    params: &[
        ParamSpec::new(
            "free",
            Kind::Count,
            "",
            "packets up to which a message begins with tokens for all; unset = as token_window",
            "a pipe; YAPS: 8, where a round trip has 8 packets",
        )
        .range(0.0, 1e6),
        ParamSpec::new(
            "token_window",
            Kind::Count,
            "",
            "unanswered tokens of a message at which a receiver serves another; unset = bandwidth-delay product and 6 packets, one stored per link \
            of a fat tree",
            "a pipe; YAPS: 8",
        )
        .range(1.0, 1e6),
        ParamSpec::new(
            "token_life",
            Kind::Float,
            "1.5",
            "packet times after which a sender can no longer use a token",
            "YAPS: 1.5",
        )
        .range(0.1, 1e6),
        ParamSpec::new(
            "window_timeout",
            Kind::Float,
            "",
            "packet times after its last token at which a message with too many unanswered tokens is served again; unset = three token windows and 1",
            "YAPS: 25",
        )
        .range(1.0, 1e6),
        ParamSpec::new(
            "resend",
            Kind::Float,
            "",
            "packet times after a message's last token at which its missing packets get new tokens; unset = a token window and 1",
            "YAPS: 9",
        )
        .range(1.0, 1e6),
        ParamSpec::new(
            "pace",
            Kind::Float,
            "1",
            "packet times from a token to the next",
            "YAPS: one of 1,540 bytes, where packets have 1,500: 1.0267",
        )
        .range(0.1, 100.0),
        ParamSpec::new(
            "hold_last",
            Kind::Bool,
            "false",
            "packets without tokens hold back as many tokens only until another message requests; false = they always do",
            "YAPS, d4a3289: a number that every request sets anew",
        ),
        ParamSpec::new(
            "sleeps",
            Kind::Bool,
            "false",
            "a receiver without a message to serve waits for a request or its earliest timeout; false = data wakes it, too",
            "YAPS",
        ),
        ParamSpec::new(
            "makes_room",
            Kind::Bool,
            "false",
            "a full port drops waiting data for an arriving request or token, and data of long messages for those of short ones",
            "YAPS: pFabric's queue",
        ),
        ParamSpec::new(
            "bare_again",
            Kind::Bool,
            "false",
            "a packet's length follows from the bytes its message has left when it leaves; a retransmission beyond these is a header alone",
            "YAPS, d4a3289: a packet's length is what is left of the message when it leaves",
        ),
        ParamSpec::new(
            "in_turn",
            Kind::Bool,
            "false",
            "a host's data packets use its paths in turn; false = each draws a random path",
            "YAPS: a counter for each host",
        ),
        ParamSpec::new("header", Kind::Size, "40", "headers of a packet", "YAPS: 40").range(20.0, 1000.0),
        ParamSpec::new("control", Kind::Size, "", "a request, a token, what says that all has arrived; unset = as the headers of a packet", "YAPS: 40")
            .range(20.0, 1000.0),
        ParamSpec::new(
            "apart",
            Kind::Bool,
            "true",
            "messages that start with tokens have their own priority; false = all data have the same",
            "YAPS: a third level, where it is set",
        ),
        ParamSpec::new("buffer", Kind::Amount, "", "what a port holds; unset = two pipes of 6 packets more", "as pFabric's").range(1.0, 1e12),
        ParamSpec::new(
            "repeat",
            Kind::Duration,
            "",
            "time without response after which a sender repeats its request, with back-off; unset = the larger of 5 ms and 20 base round trips",
            "chosen: nothing is lost in YAPS",
        )
        .range(1e-6, 100.0),
    ],
    reports: &[&TOKENS],
    build: |p| {
        let settings = Settings {
            free: p.is_set("free").then(|| p.count("free") as u32),
            window: p.is_set("token_window").then(|| p.count("token_window") as u32),
            life: p.float("token_life"),
            window_timeout: p.is_set("window_timeout").then(|| p.float("window_timeout")),
            resend: p.is_set("resend").then(|| p.float("resend")),
            pace: p.float("pace"),
            hold_last: p.flag("hold_last"),
            sleeps: p.flag("sleeps"),
            makes_room: p.flag("makes_room"),
            bare_again: p.flag("bare_again"),
            in_turn: p.flag("in_turn"),
            header: p.bytes("header").0 as u32,
            control: p.bytes(if p.is_set("control") { "control" } else { "header" }).0 as u32,
            apart: p.flag("apart"),
            repeat: p.is_set("repeat").then(|| p.dur("repeat")),
        };
        let buffer = p.is_set("buffer").then(|| p.amount("buffer"));
        let suite = Suite::own(
            Arc::new(move |facts| Box::new(MessageStack(PHost::new(facts, settings)))),
            Wire { header: settings.header, ack: settings.control },
            Some(Arc::new(move |facts| {
                let pipe = facts.pipe_bytes() as u64 + u64::from(HOPS * facts.packet);
                let limit = buffer.unwrap_or(Amount::Bytes(2 * pipe));
                LinkNeeds {
                    data: 1 << SHORT | 1 << LONG,
                    scheduler: if settings.makes_room { Scheduler::Rank } else { Scheduler::Strict },
                    limit: Some(limit),
                    paths: Paths::BySender,
                    ..LinkNeeds::default()
                }
            })),
        );
        Ok(Suite { own_order: true, bare: p.flag("bare_again"), ..suite })
    },
};

#[derive(Clone, Copy, Debug)]
struct Settings {
    free: Option<u32>,
    window: Option<u32>,
    life: f64,
    window_timeout: Option<f64>,
    resend: Option<f64>,
    pace: f64,
    hold_last: bool,
    sleeps: bool,
    makes_room: bool,
    bare_again: bool,
    in_turn: bool,
    header: u32,
    control: u32,
    apart: bool,
    repeat: Option<Dur>,
}

/// What a packet is: word 0. Word 1 of a token and of the data sent for it: the token's number; of data sent without one, and of a request: how
/// many packets need none. Words 2 and 3: end of the message (data, request), first byte wanted (token). Word 4: bytes wanted (token), 1 where
/// data needed no token. Word 5 of a token: packets missing. `seq` of what says that all has arrived: one past the last byte.
mod kind {
    pub const DATA: u32 = 0;
    pub const REQUEST: u32 = 1;
    pub const TOKEN: u32 = 2;
    pub const DONE: u32 = 3;
}

fn wide(packet: &Packet) -> u64 {
    u64::from(packet.word(2)) | u64::from(packet.word(3)) << 32
}
fn set_wide(packet: &mut Packet, value: u64) {
    packet.set_word(2, value as u32);
    packet.set_word(3, (value >> 32) as u32);
}

/// Leave to send a packet.
#[derive(Clone, Copy, Debug)]
struct Token {
    number: u32,
    from: u64,
    bytes: u32,
    until: Time,
}

struct Sending {
    out: Outgoing,
    una: u64,
    /// Packets that need no token: the next one, the end of the last one, and until when.
    free: u64,
    free_end: u64,
    free_until: Time,
    tokens: VecDeque<Token>,
    /// Bytes that went, by whole packets, as many as there are at most.
    gone: u64,
    /// Packets missing, as its receiver says.
    left: u64,
    repeat_at: Time,
    repeated: u32,
    listed: Option<(u64, u32)>,
    rng: Stream,
}

struct Receiving {
    incoming: Incoming,
    /// Messages that had begun to arrive before.
    age: u32,
    /// End of the message as its sender says, and when it said so.
    total: u64,
    said: u64,
    /// Where the next token begins; behind the end it goes on at the first gap.
    cursor: u64,
    /// Tokens given, how many there should be, and the newest of which data came.
    given: u32,
    goal: u32,
    heard: u32,
    last_token: Time,
    /// Every packet has had its token: no more before this time.
    wait_until: Option<Time>,
    listed: Option<(u64, u32)>,
}

penstock_host::ends!(Sending { out }, Receiving { incoming });

/// pHost at one host.
struct PHost {
    m: Messages<Sending, Receiving>,
    s: Settings,
    /// Packets of the messages that need no token, tokens that may be unanswered.
    free: u32,
    window: u32,
    /// Packet times after which a message with too many of these has its turn, and after which what is missing has tokens.
    window_timeout: f64,
    resend: f64,
    /// Time of a full packet on the link of this host.
    packet: Dur,
    repeat: Dur,
    /// Senders that may send, by packets missing, then age.
    line: BTreeSet<((u64, u32), u32)>,
    /// Messages that arrive here and are not complete, by packets missing, then age.
    active: BTreeSet<((u64, u32), u32)>,
    /// Messages that have begun to arrive.
    begun: u32,
    /// No token before this time and as many turns more as are held back, and none worth a look before that one.
    token_at: Time,
    held: u32,
    look_at: Time,
    /// The path whose turn it is.
    turn: u32,
}

fn packet_time(facts: &HostFacts, header: u32, rate: Rate) -> Dur {
    Bytes(u64::from(facts.mss + header + facts.framing)) / rate
}

impl PHost {
    fn new(facts: &HostFacts, s: Settings) -> PHost {
        let window = s.window.unwrap_or_else(|| facts.pipe(facts.mss + s.header + facts.framing) + HOPS);
        PHost {
            m: Messages::new(facts),
            free: s.free.unwrap_or(window),
            window,
            window_timeout: s.window_timeout.unwrap_or(f64::from(3 * window + 1)),
            resend: s.resend.unwrap_or(f64::from(window + 1)),
            packet: packet_time(facts, s.header, facts.rate),
            repeat: s.repeat.unwrap_or_else(|| Dur::millis(5).max(facts.base_rtt * 20)),
            line: BTreeSet::new(),
            active: BTreeSet::new(),
            begun: 0,
            token_at: Time::ZERO,
            held: 0,
            look_at: Time::NEVER,
            // Hosts do not begin alike.
            turn: Stream::new(facts.seed, facts.run, Entity::Host, u64::from(facts.host)).next_u64() as u32,
            s,
        }
    }
    fn times(&self, packets: f64) -> Dur {
        Dur::from_secs(self.packet.as_secs() * packets)
    }
    fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.m.facts.mss))
    }
    /// A request to send: what there is in all, and how many packets come by themselves.
    fn request(&mut self, io: &mut Io<'_>, conn: u32, free: u64) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        let (o, written, turn) = (s.out.opening, s.out.written, s.out.turn());
        let cell = ends::header(io, &o, Toward::Receiver, turn, self.s.control, CONTROL);
        let packet = &mut io.arena.packets[cell.packet as usize];
        packet.stamp = io.now.0;
        packet.set_word(0, kind::REQUEST);
        packet.set_word(1, free as u32);
        set_wide(packet, written);
        self.m.control.push_back(cell);
    }
    /// The next packet of a sender; `None` when its tokens have expired.
    fn send_of(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let (mss, header, most) = (u64::from(self.m.facts.mss), self.s.header, u64::from(self.free));
        let s = self.m.ends.sender(conn)?;
        let free_end = s.free_end.min(s.out.written);
        if s.free_until < io.now {
            s.free = s.free.max(free_end);
        }
        let (seq, end, number, free) = if s.free < free_end {
            let seq = s.free;
            s.free = (seq + mss).min(free_end);
            (seq, s.free, s.free_end.div_ceil(mss) as u32, true)
        } else {
            // A token is of use for a short time, so that none is used when its receiver waits for another sender.
            let usable = |t: &Token| t.until >= io.now && t.from < s.out.written;
            while s.tokens.front().is_some_and(|t| !usable(t)) {
                s.tokens.pop_front();
            }
            let Some(t) = s.tokens.pop_front() else {
                self.settle(io.now, conn);
                return None;
            };
            (t.from, (t.from + u64::from(t.bytes)).min(s.out.written), t.number, false)
        };
        let repeated = s.out.count_sent(end);
        let path = if self.s.in_turn {
            self.turn = self.turn.wrapping_add(1);
            self.turn
        } else {
            s.rng.next_u64() as u32
        };
        let total = s.out.written;
        let next = (s.gone + mss).min(total);
        let wire = header + if self.s.bare_again { (next - s.gone) as u32 } else { (end - seq) as u32 };
        s.gone = next;
        let first = !self.s.apart || total.div_ceil(mss) <= most;
        let priority = if first { SHORT } else { LONG };
        let mut cell = s.out.data(io, (seq, end), wire, repeated).with_priority(priority);
        // Control packets have rank 0.
        (cell.rank, cell.entropy) = (u32::from(CONTROL - priority), path);
        let packet = &mut io.arena.packets[cell.packet as usize];
        packet.set_word(0, kind::DATA);
        packet.set_word(1, number);
        set_wide(packet, total);
        packet.set_word(4, u32::from(free));
        self.settle(io.now, conn);
        Some(cell)
    }
    /// When the next token may leave: turns held back pass without one.
    fn next_token(&self) -> Time {
        self.token_at + self.times(self.s.pace) * u64::from(self.held)
    }
    /// Lets the turns pass that were held back up to now.
    fn pass(&mut self, now: Time) {
        let pace = self.times(self.s.pace);
        while self.held > 0 && self.token_at <= now {
            self.token_at = self.token_at + pace;
            self.held -= 1;
        }
    }
    /// Gives a receiving end its place after something has changed.
    fn place(&mut self, conn: u32) {
        let mss = u64::from(self.m.facts.mss);
        let Some(r) = self.m.ends.receiver(conn) else { return };
        let missing = r.incoming.missing_below(r.total);
        let place = (missing > 0).then(|| (missing.div_ceil(mss), r.age));
        set_rank(&mut self.active, &mut r.listed, place, conn);
        if !self.s.sleeps {
            self.look_at = Time::ZERO;
        }
    }
    /// A request, or data that says the same.
    fn learn(&mut self, now: Time, conn: u32, packet: &Packet, free: u32) {
        let (total, both) = (wide(packet), self.packet * 2);
        self.pass(now);
        let Some(r) = self.m.ends.receiver(conn) else { return };
        if packet.stamp < r.said || total == r.total {
            return;
        }
        let known = core::mem::replace(&mut r.total, total);
        r.said = packet.stamp;
        let more = total.saturating_sub(known).div_ceil(u64::from(self.m.facts.mss)) as u32;
        r.goal += more;
        let by_itself = free.min(more);
        if self.s.sleeps || by_itself > 0 {
            self.token_at = self.token_at.max(now);
        }
        self.held = if self.s.hold_last { by_itself } else { self.held + by_itself };
        self.look_at = Time::ZERO;
        if by_itself > 0 {
            // What comes by itself needs no token, and takes the time of as many, whether anything else waits for one or not.
            r.given += by_itself;
            r.cursor = r.cursor.max(total);
            r.wait_until = (r.given >= r.goal).then_some(now + both * u64::from(free));
        } else {
            r.cursor = r.cursor.max(known).min(total);
            r.wait_until = None;
        }
    }
    /// A token, when its time has come: one for each packet that the link of this host can take.
    fn give(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        self.pass(io.now);
        if self.held > 0 || self.token_at > io.now || self.look_at > io.now {
            return None;
        }
        if self.s.sleeps {
            self.token_at = self.token_at.max(self.look_at);
        }
        let (mut chosen, mut earliest) = (None, Time::NEVER);
        for ((left, _), conn) in &self.active {
            let Some(r) = self.m.ends.receiver(*conn) else { continue };
            if let Some(until) = r.wait_until {
                if until > io.now {
                    earliest = earliest.min(until);
                    continue;
                }
                // Every packet had its token, and some did not come.
                r.wait_until = None;
                r.goal = r.given + *left as u32;
            }
            // Too many unanswered: its sender is busy with other receivers.
            if r.given - r.heard.min(r.given) >= self.window {
                let timeout = Dur::from_secs(self.packet.as_secs() * self.window_timeout);
                let again = r.last_token + timeout;
                if again > io.now {
                    earliest = earliest.min(again);
                    continue;
                }
                r.heard = r.given + 1 - self.window;
            }
            chosen = Some((*conn, *left));
            break;
        }
        let Some((conn, left)) = chosen else {
            self.look_at = earliest;
            return None;
        };
        let (mss, resend, pace) =
            (u64::from(self.m.facts.mss), self.times(self.resend), self.times(self.s.pace));
        let r = self.m.ends.receiver(conn)?;
        let gap = r.incoming.gap_from(r.cursor, r.total).or_else(|| r.incoming.first_gap(r.total));
        let (from, to) = gap?;
        let bytes = (to - from).min(mss);
        r.cursor = from + bytes;
        r.given += 1;
        r.last_token = io.now;
        if r.given >= r.goal {
            r.wait_until = Some(io.now + resend);
        }
        let (number, o, turn) = (r.given, r.incoming.opening, r.incoming.turn());
        let cell = ends::header(io, &o, Toward::Sender, turn, self.s.control, CONTROL);
        let token = &mut io.arena.packets[cell.packet as usize];
        token.set_word(0, kind::TOKEN);
        token.set_word(1, number);
        set_wide(token, from);
        token.set_word(4, bytes as u32);
        token.set_word(5, left.min(u64::from(u32::MAX)) as u32);
        self.token_at = (self.token_at + pace).max(io.now);
        Some(cell)
    }
}

impl MessageLaw for PHost {
    type Sender = Sending;
    type Receiver = Receiving;

    fn messages(&self) -> &Messages<Sending, Receiving> {
        &self.m
    }
    fn messages_mut(&mut self) -> &mut Messages<Sending, Receiving> {
        &mut self.m
    }
    fn priorities(&self) -> (u8, u8) {
        (1 << CONTROL, !(1 << CONTROL))
    }

    fn sender(&mut self, _: Time, opening: &Opening) -> Sending {
        let rng = self.m.facts.stream(opening);
        Sending {
            out: Outgoing::new(opening),
            una: 0,
            free: 0,
            free_end: 0,
            free_until: Time::ZERO,
            tokens: VecDeque::new(),
            gone: 0,
            left: 0,
            repeat_at: Time::NEVER,
            repeated: 0,
            listed: None,
            rng,
        }
    }
    fn receiver(&mut self, opening: &Opening) -> Receiving {
        let age = self.begun;
        self.begun = self.begun.wrapping_add(1);
        Receiving {
            incoming: Incoming::new(opening),
            age,
            total: 0,
            said: 0,
            cursor: 0,
            given: 0,
            goal: 0,
            heard: 0,
            last_token: Time::ZERO,
            wait_until: None,
            listed: None,
        }
    }
    fn on_write(&mut self, io: &mut Io<'_>, conn: u32, write: Write) {
        let packets = self.packets(write.bytes);
        let (few, life) = (packets <= u64::from(self.free), self.times(packets as f64 + self.s.life));
        let Some(s) = self.m.ends.sender(conn) else { return };
        (s.free, s.free_end) = (write.from, write.from);
        let mut free = 0;
        if write.idle {
            s.left = packets;
            if few {
                (s.free_end, s.free_until, free) = (s.out.written, io.now + life, packets);
            }
        } else {
            s.left += packets;
        }
        s.repeat_at = io.now + self.repeat;
        self.request(io, conn, free);
    }
    fn on_abort(&mut self, io: &mut Io<'_>, conn: u32, _: u64) {
        // The receiver has to hear that the message is shorter.
        if self.m.ends.sender(conn).is_some_and(|s| s.una < s.out.written) {
            self.request(io, conn, 0);
        }
    }
    fn on_remove(&mut self, conn: u32, end: End<Sending, Receiving>) {
        match end {
            End::Sender(mut s) => set_rank(&mut self.line, &mut s.listed, None, conn),
            End::Receiver(mut r) => set_rank(&mut self.active, &mut r.listed, None, conn),
        }
    }
    fn settle(&mut self, _: Time, conn: u32) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        if s.out.remaining() == 0 {
            s.repeat_at = Time::NEVER;
        }
        self.m.timers.set(conn, s.repeat_at);
        // Source: the message with the fewest packets missing first.
        let may_send = s.free < s.free_end.min(s.out.written) || !s.tokens.is_empty();
        let place = may_send.then_some((s.left, s.out.opening.flow.0));
        set_rank(&mut self.line, &mut s.listed, place, conn);
    }

    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, cell: &Cell) {
        let is_data = packet.word(0) == kind::DATA;
        let free = if !is_data || packet.word(4) == 1 { packet.word(1) } else { 0 };
        self.learn(io.now, conn, packet, free);
        let Some(r) = self.m.ends.receiver(conn) else { return };
        if is_data && !cell.is_trimmed() {
            r.incoming.take(packet, u64::from(packet.payload), io.stack_events);
            r.heard = if packet.word(4) == 1 { r.given } else { r.heard.max(packet.word(1)) };
        }
        // Sent when all packets have arrived, and in answer to every later request.
        if r.incoming.missing_below(r.total) == 0 {
            let (o, next, turn) = (r.incoming.opening, r.incoming.next, r.incoming.turn());
            let cell = ends::header(io, &o, Toward::Sender, turn, self.s.control, CONTROL);
            let done = &mut io.arena.packets[cell.packet as usize];
            done.seq = next;
            done.set_word(0, kind::DONE);
            self.m.control.push_back(cell);
        }
        if self.active.is_empty() {
            self.token_at = self.token_at.max(io.now);
        }
        self.place(conn);
    }
    fn on_answer(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, _: &Cell) {
        let (life, repeat) = (self.times(self.s.life), self.repeat);
        let Some(s) = self.m.ends.sender(conn) else { return };
        (s.repeated, s.repeat_at) = (0, io.now + repeat);
        if packet.word(0) == kind::TOKEN {
            s.left = u64::from(packet.word(5));
            s.tokens.push_back(Token {
                number: packet.word(1),
                from: wide(packet),
                bytes: packet.word(4),
                until: io.now + life,
            });
        } else {
            s.una = s.una.max(packet.seq);
            s.out.acked(s.una, io.stack_events);
        }
        self.settle(io.now, conn);
    }
    fn send(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        while let Some((_, conn)) = self.line.first().copied() {
            if let Some(cell) = self.send_of(io, conn) {
                return Some(cell);
            }
        }
        None
    }
    fn may_send(&self) -> bool {
        !self.line.is_empty()
    }
    fn send_paced(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        self.give(io)
    }
    fn paced_at(&self) -> Time {
        if self.active.is_empty() {
            Time::NEVER
        } else {
            self.next_token().max(self.look_at)
        }
    }
    fn on_link_rate(&mut self, _: Time) {
        self.packet = packet_time(&self.m.facts, self.s.header, self.m.facts.rate);
    }
    fn on_timer(&mut self, io: &mut Io<'_>, conn: u32) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        // Nothing was heard: the request was lost, or what says that all has arrived.
        s.repeated += 1;
        s.repeat_at = io.now + self.repeat * (1 << s.repeated.min(6));
        let timeout = Timeout {
            from: s.una,
            lost: s.una,
            outstanding: s.out.max_sent - s.una.min(s.out.max_sent),
            cwnd: s.tokens.len() as u64 * u64::from(self.m.facts.mss),
            rto: self.repeat,
            in_a_row: s.repeated,
        };
        s.out.timed_out(&timeout, io.stack_events);
        self.request(io, conn, 0);
        self.settle(io.now, conn);
    }
    fn observe(&self, end: &End<Sending, Receiving>, report: &mut Report<'_>) {
        if let End::Sender(s) = end {
            report(&TOKENS, s.tokens.len() as f64);
        }
    }
}
