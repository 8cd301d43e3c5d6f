//! Plays a script.

use crate::assertion;
use crate::peer::Socket;
use crate::script::{Call, Event, Failure, Options, Script, What, When, Wire};
use crate::settings::Settings;
use penstock_units::Time;

/// Runs `script` in virtual time.
///
/// # Errors
/// The first line that differs, with what was expected and what was found; or a line that cannot be played.
pub fn run(script: &Script) -> Result<(), Failure> {
    let mut settings = Settings::default();
    for (key, (value, line)) in &script.options {
        settings.option(key, value).map_err(|rule| Failure::new(&script.file, *line, rule))?;
    }
    // What the peer announces is needed when an active open begins, before it does.
    let syn = script.events.iter().find_map(|e| match &e.what {
        What::In(w) if w.flags.syn => w.options.clone(),
        _ => None,
    });
    let syn = syn.unwrap_or_default();
    let mut stage = Stage {
        settings,
        mss: syn.mss.unwrap_or(536),
        scale: syn.wscale.unwrap_or(0),
        listening: false,
        socket: None,
        now: Time::ZERO,
        base: Time::ZERO,
    };
    for event in &script.events {
        stage.play(event).map_err(|text| Failure::new(&script.file, event.line, text))?;
    }
    let last = script.events.last().map_or(0, |e| e.line);
    match stage.socket.and_then(|mut s| s.sent.pop_front()) {
        Some((at, w)) => {
            let text = format!("expected nothing more, found > {w} at {} s", at.as_secs());
            Err(Failure::new(&script.file, last, text))
        }
        None => Ok(()),
    }
}

struct Stage {
    settings: Settings,
    mss: u32,
    scale: u32,
    listening: bool,
    socket: Option<Socket>,
    now: Time,
    /// Time of the latest event, which relative times count from.
    base: Time,
}

impl Stage {
    /// The earliest and the latest time of an event.
    fn span(&self, at: When) -> (Time, Time) {
        match at {
            When::At(t) => (t, t),
            When::After(d) => (self.base + d, self.base + d),
            When::Within(from, to) => (self.base + from, self.base + to),
            When::Any => (self.base, Time::NEVER),
        }
    }
    fn play(&mut self, event: &Event) -> Result<(), String> {
        let (from, to) = self.span(event.at);
        if let What::Out(w) = &event.what {
            return self.expect(w, from, to);
        }
        if to == Time::NEVER {
            return Err("* is for packets that leave: anything else needs a time".into());
        }
        if from < self.base {
            return Err(format!(
                "this line is at {} s, the one before at {} s",
                from.as_secs(),
                self.base.as_secs()
            ));
        }
        self.advance(from);
        self.base = from;
        match &event.what {
            What::In(w) => self.arrive(w),
            What::Call(call) => self.call(call),
            What::Code(code) => assertion::check(code, self.socket()?),
            What::Shell(text) if self.socket.is_some() || self.listening => {
                Err(format!("{text}: settings come before the first socket"))
            }
            What::Shell(text) => self.settings.shell(text),
            What::Out(_) => unreachable!("returned above"),
        }
    }
    fn socket(&mut self) -> Result<&mut Socket, String> {
        self.socket.as_mut().ok_or_else(|| "there is no connection yet".to_owned())
    }
    /// Lets time pass until `to`, included.
    fn advance(&mut self, to: Time) {
        if let Some(s) = &mut self.socket {
            while s.deadline() <= to {
                self.now = self.now.max(s.deadline());
                s.wake(self.now);
            }
        }
        self.now = self.now.max(to);
    }

    // ---- packets -------------------------------------------------------------------------------------

    fn arrive(&mut self, w: &Wire) -> Result<(), String> {
        if w.flags.syn && self.listening && self.socket.is_none() {
            self.socket = Some(Socket::open(&self.settings, self.now, true, self.mss, self.scale));
            return Ok(());
        }
        let now = self.now;
        self.socket()?.hear(now, w)
    }
    fn expect(&mut self, expected: &Wire, from: Time, to: Time) -> Result<(), String> {
        let tolerance = self.settings.tolerance;
        let latest = if to == Time::NEVER { to } else { to + tolerance };
        let mut now = self.now;
        let s = self.socket()?;
        while s.sent.is_empty() && s.deadline() <= latest && s.deadline() != Time::NEVER {
            now = now.max(s.deadline());
            s.wake(now);
        }
        let Some((at, found)) = joined(s, expected) else {
            let until =
                if latest == Time::NEVER { String::new() } else { format!(" until {} s", latest.as_secs()) };
            return Err(format!("expected > {expected}, found no packet{until}"));
        };
        self.now = now;
        if let Some(what) = difference(expected, &found) {
            return Err(format!(
                "expected > {expected}, found > {found} at {} s ({what} differs)",
                at.as_secs()
            ));
        }
        let late = at > latest;
        let early = at + tolerance < from;
        if late || early {
            let by = if late { at.since(to) } else { from.since(at) };
            let how = if late { "late" } else { "early" };
            return Err(format!(
                "expected > {expected} at {} s, found it at {} s: {} s too {how}",
                from.as_secs(),
                at.as_secs(),
                by.as_secs()
            ));
        }
        self.base = self.base.max(at);
        Ok(())
    }

    // ---- calls ---------------------------------------------------------------------------------------

    fn call(&mut self, c: &Call) -> Result<(), String> {
        let number = |i: usize| -> Result<u64, String> {
            let arg = c.args.get(i).map_or("", String::as_str);
            arg.parse().map_err(|_| format!("{}: argument {} must be a number, is '{arg}'", c.name, i + 1))
        };
        let now = self.now;
        match c.name.as_str() {
            "socket" | "bind" | "fcntl" | "setsockopt" | "accept" | "ioctl" | "poll" => {
                if c.name == "accept" {
                    self.socket()?;
                }
            }
            "listen" => self.listening = true,
            "connect" => {
                if self.socket.is_some() {
                    return Err("connect: there is one connection per script".into());
                }
                self.socket = Some(Socket::open(&self.settings, now, false, self.mss, self.scale));
            }
            "write" | "send" | "sendto" => {
                let bytes = number(2)?;
                let s = self.socket()?;
                s.sender.write(now, bytes);
                s.flush(now);
                returned(c, bytes)?;
            }
            "read" | "recv" | "recvfrom" => {
                let most = number(2)?;
                let s = self.socket()?;
                let got = (s.receiver.delivered() - s.read).min(most);
                s.read(now, got);
                returned(c, got)?;
            }
            "close" | "shutdown" => {
                let s = self.socket()?;
                s.sender.close();
                s.flush(now);
            }
            other => return Err(format!("{other}: this call is not known")),
        }
        Ok(())
    }
}

fn returned(c: &Call, value: u64) -> Result<(), String> {
    if c.returns.parse() == Ok(value) {
        return Ok(());
    }
    Err(format!("expected {}(...) = {}, found {value}", c.name, c.returns))
}

/// The next packet that has left, with those behind it that leave with it and make the one that is expected.
fn joined(s: &mut Socket, expected: &Wire) -> Option<(Time, Wire)> {
    let (at, mut w) = s.sent.pop_front()?;
    while w.len > 0 && w.seq.1 < expected.seq.1 {
        let follows =
            s.sent.front().is_some_and(|(t, next)| *t == at && next.seq.0 == w.seq.1 && next.len > 0);
        let Some((_, next)) = s.sent.pop_front().filter(|_| follows) else { break };
        (w.seq.1, w.len) = (next.seq.1, w.len + next.len);
        w.flags.fin |= next.flags.fin;
    }
    Some((at, w))
}

/// What is not as expected.
fn difference(expected: &Wire, found: &Wire) -> Option<&'static str> {
    let options = expected.options.as_ref().zip(found.options.as_ref());
    let checks = [
        ("the flags", expected.flags == found.flags),
        ("the sequence number", expected.seq.0 == found.seq.0),
        ("the length", expected.len == found.len),
        ("the acknowledgement", expected.ack == found.ack),
        ("the window", expected.win.is_none() || found.win.is_none() || expected.win == found.win),
        ("the IP header", expected.ecn.is_none() || found.ecn.is_none() || expected.ecn == found.ecn),
        ("the SACK option", options.is_none_or(|(e, f)| e.sack == f.sack)),
        ("the time stamp", options.is_none_or(|(e, f)| same_stamp(e, f, |(value, _)| value))),
        ("the echo of a time stamp", options.is_none_or(|(e, f)| same_stamp(e, f, |(_, echo)| echo))),
    ];
    checks.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
}

/// Where one of them says nothing, or 0, all is right: an ACK has no time stamp of its own here, and data no echo.
fn same_stamp(e: &Options, f: &Options, of: fn((u64, u64)) -> u64) -> bool {
    match (e.ts.map(of), f.ts.map(of)) {
        (Some(e), Some(f)) => e == f || e == 0 || f == 0,
        _ => true,
    }
}
