//! Reads a script.

use crate::script::{Call, Event, Failure, IpEcn, Options, Script, What, When, Wire};
use penstock_units::{Dur, Time};
use std::collections::BTreeMap;

/// Reads the script `text` of `file`.
///
/// # Errors
/// The first line that is wrong, and the rule it breaks.
pub fn parse(file: &str, text: &str) -> Result<Script, Failure> {
    let mut script = Script { file: file.to_owned(), options: BTreeMap::new(), events: Vec::new() };
    let text = without_comments(file, text)?;
    let mut lines = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())).filter(|(_, l)| !l.is_empty());
    while let Some((line, first)) = lines.next() {
        let fail = |rule: String| Failure::new(file, line, rule);
        if let Some(option) = first.strip_prefix("--") {
            let (key, value) =
                option.split_once('=').ok_or_else(|| fail("an option is --key=value".into()))?;
            if !script.events.is_empty() {
                return Err(fail("options stand before the first event".into()));
            }
            script.options.insert(key.trim().to_owned(), (value.trim().to_owned(), line));
            continue;
        }
        let (at, rest) = when(first).map_err(fail)?;
        let mut rest = rest.to_owned();
        // Code and settings may run over several lines.
        for (open, close) in [("%{", "}%"), ("`", "`")] {
            if rest.starts_with(open) {
                while !rest[open.len()..].contains(close) {
                    let (_, more) = lines.next().ok_or_else(|| fail(format!("{open} has no {close}")))?;
                    rest = format!("{rest}\n{more}");
                }
            }
        }
        let what = what(&rest).map_err(fail)?;
        script.events.push(Event { line, at, what });
    }
    if script.events.is_empty() {
        return Err(Failure::new(file, 0, "a script has at least one event"));
    }
    Ok(script)
}

/// The text with comments blanked, line by line.
fn without_comments(file: &str, text: &str) -> Result<String, Failure> {
    let mut out = String::new();
    let mut opened = None;
    for (i, line) in text.lines().enumerate() {
        let mut rest = line;
        loop {
            if opened.is_some() {
                let Some(end) = rest.find("*/") else { break };
                opened = None;
                rest = &rest[end + 2..];
            }
            let code = rest.split("//").next().unwrap_or("");
            let code = if code.trim_start().starts_with('#') { "" } else { code };
            match code.find("/*") {
                Some(start) => {
                    out.push_str(&code[..start]);
                    opened = Some(i + 1);
                    rest = &rest[start + 2..];
                }
                None => {
                    out.push_str(code);
                    break;
                }
            }
        }
        out.push('\n');
    }
    match opened {
        Some(line) => Err(Failure::new(file, line, "the comment /* has no end */")),
        None => Ok(out),
    }
}

fn seconds(text: &str) -> Result<Dur, String> {
    let rule = || format!("{text} is no time: seconds as 0.1 or .1");
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && part.is_empty() || part.len() > 12 {
        return Err(rule());
    }
    let number =
        |digits: &str| if digits.is_empty() { Ok(0) } else { digits.parse::<u64>().map_err(|_| rule()) };
    let fraction = number(part)? * 10u64.pow(12 - part.len() as u32);
    number(whole)?
        .checked_mul(1_000_000_000_000)
        .and_then(|s| s.checked_add(fraction))
        .map(Dur)
        .ok_or_else(rule)
}

fn when(line: &str) -> Result<(When, &str), String> {
    if line.starts_with('`') {
        return Ok((When::After(Dur::ZERO), line));
    }
    let (time, rest) = line.split_once(char::is_whitespace).ok_or("a line is a time and an event")?;
    let rest = rest.trim_start();
    let at = if time == "*" {
        When::Any
    } else if let Some((from, to)) = time.split_once('~') {
        let relative = |t: &str| seconds(t.strip_prefix('+').ok_or("a range of times is +0.1~+0.2")?);
        let (from, to) = (relative(from)?, relative(to)?);
        if from > to {
            return Err(format!("{time}: a range of times ends after it begins"));
        }
        When::Within(from, to)
    } else if let Some(after) = time.strip_prefix('+') {
        When::After(seconds(after)?)
    } else {
        When::At(Time::ZERO + seconds(time)?)
    };
    Ok((at, rest))
}

fn what(rest: &str) -> Result<What, String> {
    if let Some(packet) = rest.strip_prefix('<') {
        return Ok(What::In(wire(packet.trim())?));
    }
    if let Some(packet) = rest.strip_prefix('>') {
        return Ok(What::Out(wire(packet.trim())?));
    }
    if let Some(code) = rest.strip_prefix("%{").and_then(|r| r.strip_suffix("}%")) {
        return Ok(What::Code(code.trim().to_owned()));
    }
    if let Some(shell) = rest.strip_prefix('`').and_then(|r| r.strip_suffix('`')) {
        return Ok(What::Shell(shell.trim().to_owned()));
    }
    call(rest).map(What::Call)
}

fn call(text: &str) -> Result<Call, String> {
    let rule =
        || "an event is < packet, > packet, call(...) = result, `setting` or %{ assertions }%".to_owned();
    let (name, rest) = text.split_once('(').ok_or_else(rule)?;
    let end = rest.rfind(") ").or_else(|| rest.rfind(")=")).ok_or_else(rule)?;
    let returns = rest[end + 1..].trim().strip_prefix('=').ok_or_else(rule)?.trim().to_owned();
    if name.trim().is_empty() || !name.trim().chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(rule());
    }
    let mut args = Vec::new();
    let (mut depth, mut arg) = (0, String::new());
    for c in rest[..end].chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            args.push(core::mem::take(&mut arg).trim().to_owned());
        } else {
            arg.push(c);
        }
    }
    args.push(arg.trim().to_owned());
    Ok(Call { name: name.trim().to_owned(), args, returns })
}

fn wire(text: &str) -> Result<Wire, String> {
    let mut w = Wire { options: Some(Options::default()), ..Wire::default() };
    let mut rest = text;
    if let Some(ip) = rest.strip_prefix('[') {
        let (field, after) = ip.split_once(']').ok_or("[ has no ]")?;
        w.ecn = Some(match field.trim() {
            "ce" => IpEcn::Ce,
            "ect0" => IpEcn::Ect0,
            "noecn" => IpEcn::No,
            other => return Err(format!("[{other}]: the IP header is [ce], [ect0] or [noecn]")),
        });
        rest = after.trim_start();
    }
    if let Some((before, options)) = rest.split_once('<') {
        let options = options.trim_end().strip_suffix('>').ok_or("< has no >")?;
        w.options = if options.trim() == "..." { None } else { Some(tcp_options(options)?) };
        rest = before;
    }
    let mut words = rest.split_whitespace();
    for c in words.next().ok_or("a packet has flags")?.chars() {
        match c {
            'S' => w.flags.syn = true,
            'F' => w.flags.fin = true,
            'R' => w.flags.rst = true,
            'E' => w.flags.ece = true,
            'W' => w.flags.cwr = true,
            '.' => w.flags.ack = true,
            'P' | '-' => {}
            other => return Err(format!("{other} is no flag: S F R P E W and . for ACK")),
        }
    }
    let numbers = words.next().ok_or("a packet has sequence numbers FIRST:END(LENGTH)")?;
    let rule = || format!("{numbers}: sequence numbers are FIRST:END(LENGTH)");
    let (first, more) = numbers.split_once(':').ok_or_else(rule)?;
    let (end, len) = more.strip_suffix(')').and_then(|m| m.split_once('(')).ok_or_else(rule)?;
    let number = |t: &str| t.parse::<u64>().map_err(|_| rule());
    (w.seq, w.len) = ((number(first)?, number(end)?), number(len)?);
    if w.seq.0 + w.len != w.seq.1 {
        return Err(format!("{numbers}: FIRST + LENGTH must be END (SYN and FIN are not counted)"));
    }
    while let Some(word) = words.next() {
        let mut value = || -> Result<u64, String> {
            words.next().and_then(|v| v.parse().ok()).ok_or_else(|| format!("{word} takes a number"))
        };
        match word {
            "ack" => w.ack = Some(value()?),
            "win" => w.win = Some(value()?),
            other => {
                return Err(format!("{other}: behind the sequence numbers stand ack N, win N and <options>"))
            }
        }
    }
    if w.flags.ack != w.ack.is_some() {
        return Err("a packet has ack N where its flags have a dot, and only there".into());
    }
    Ok(w)
}

fn tcp_options(text: &str) -> Result<Options, String> {
    let mut o = Options::default();
    for item in text.split(',').map(str::trim).filter(|i| !i.is_empty()) {
        let mut words = item.split_whitespace();
        let name = words.next().unwrap_or("");
        let mut number = |what: &str| -> Result<u64, String> {
            words.next().and_then(|v| v.parse().ok()).ok_or_else(|| format!("{item}: {what} takes a number"))
        };
        match name {
            "nop" | "eol" => {}
            "sackOK" => o.sack_ok = true,
            "mss" => o.mss = Some(number("mss")? as u32),
            "wscale" => o.wscale = Some(number("wscale")? as u32),
            "sack" => {
                for block in words {
                    let edges =
                        block.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                    o.sack.push(edges.ok_or_else(|| format!("{block}: a SACK block is START:END"))?);
                }
            }
            "TS" => {
                let rule = || format!("{item}: a time stamp is TS val N ecr N");
                let given: Vec<&str> = item.split_whitespace().collect();
                let ["TS", "val", val, "ecr", ecr] = given[..] else { return Err(rule()) };
                o.ts = Some((val.parse().map_err(|_| rule())?, ecr.parse().map_err(|_| rule())?));
            }
            other => return Err(format!("{other}: options are mss, sackOK, wscale, nop, sack, TS")),
        }
    }
    Ok(o)
}
