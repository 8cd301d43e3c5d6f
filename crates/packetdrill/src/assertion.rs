//! Assertions about a socket: the expressions of `%{ assert ... }%`, in the part of Python that scripts use.

use crate::peer::Socket;
use penstock_core::tcp::Phase;

/// Checks every `assert` of `code`.
pub(crate) fn check(code: &str, socket: &Socket) -> Result<(), String> {
    for statement in code.split(['\n', ';']).map(str::trim).filter(|s| !s.is_empty()) {
        let asserted = statement
            .strip_prefix("assert")
            .filter(|rest| rest.starts_with([' ', '(']))
            .ok_or_else(|| format!("{statement}: the only statement is assert"))?;
        // What stands behind a comma is the message.
        let expression = asserted.split(',').next().unwrap_or(asserted);
        let mut p = Parser { words: words(expression)?, at: 0, socket, seen: Vec::new() };
        let value = p.or()?;
        if let Some(word) = p.words.get(p.at) {
            return Err(format!("{statement}: {word} is not understood here"));
        }
        if value == 0.0 {
            let seen: Vec<String> = p.seen.iter().map(|(k, v)| format!("{k} = {v}")).collect();
            return Err(format!("expected {}, found {}", expression.trim(), seen.join(", ")));
        }
    }
    Ok(())
}

fn words(text: &str) -> Result<Vec<String>, String> {
    let mut out: Vec<String> = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        let mut word = String::from(c);
        if c.is_ascii_alphanumeric() || c == '_' {
            while let Some(d) = chars.next_if(|d| d.is_ascii_alphanumeric() || *d == '_' || *d == '.') {
                word.push(d);
            }
        } else if "=!<>".contains(c) {
            if let Some(d) = chars.next_if_eq(&'=') {
                word.push(d);
            }
        } else if !"+-*/()".contains(c) {
            return Err(format!("{c} is not understood in an assertion"));
        }
        out.push(word);
    }
    Ok(out)
}

struct Parser<'a> {
    words: Vec<String>,
    at: usize,
    socket: &'a Socket,
    /// Names read, with their values.
    seen: Vec<(String, f64)>,
}

impl Parser<'_> {
    fn next_if(&mut self, among: &[&str]) -> Option<String> {
        let word = self.words.get(self.at).filter(|w| among.contains(&w.as_str()))?.clone();
        self.at += 1;
        Some(word)
    }
    fn or(&mut self) -> Result<f64, String> {
        let mut value = self.and()?;
        while self.next_if(&["or"]).is_some() {
            let right = self.and()?;
            value = f64::from(value != 0.0 || right != 0.0);
        }
        Ok(value)
    }
    fn and(&mut self) -> Result<f64, String> {
        let mut value = self.not()?;
        while self.next_if(&["and"]).is_some() {
            let right = self.not()?;
            value = f64::from(value != 0.0 && right != 0.0);
        }
        Ok(value)
    }
    fn not(&mut self) -> Result<f64, String> {
        if self.next_if(&["not"]).is_some() {
            return Ok(f64::from(self.not()? == 0.0));
        }
        let left = self.sum()?;
        let Some(op) = self.next_if(&["==", "!=", "<", "<=", ">", ">="]) else { return Ok(left) };
        let right = self.sum()?;
        Ok(f64::from(match op.as_str() {
            "==" => left == right,
            "!=" => left != right,
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left >= right,
        }))
    }
    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        while let Some(op) = self.next_if(&["+", "-"]) {
            let right = self.product()?;
            value = if op == "+" { value + right } else { value - right };
        }
        Ok(value)
    }
    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.atom()?;
        while let Some(op) = self.next_if(&["*", "/"]) {
            let right = self.atom()?;
            value = if op == "*" { value * right } else { value / right };
        }
        Ok(value)
    }
    fn atom(&mut self) -> Result<f64, String> {
        if self.next_if(&["("]).is_some() {
            let value = self.or()?;
            self.next_if(&[")"]).ok_or("( has no )")?;
            return Ok(value);
        }
        let word = self.words.get(self.at).ok_or("an assertion ends too early")?.clone();
        self.at += 1;
        if let Ok(number) = word.parse::<f64>() {
            return Ok(number);
        }
        let value = value(&word, self.socket)
            .ok_or_else(|| format!("{word} is not known; known are {}", NAMES.join(", ")))?;
        self.seen.push((word, value));
        Ok(value)
    }
}

const NAMES: &[&str] = &[
    "tcpi_snd_cwnd",
    "tcpi_snd_ssthresh",
    "tcpi_snd_mss",
    "tcpi_ca_state",
    "tcpi_unacked",
    "tcpi_sacked",
    "tcpi_total_retrans",
    "tcpi_rtt",
    "tcpi_rttvar",
    "tcpi_rto",
    "tcpi_bytes_acked",
    "tcpi_data_segs_out",
    "TCP_CA_*",
    "TCP_INFINITE_SSTHRESH",
];

/// Names of `struct tcp_info`, times in microseconds.
fn value(name: &str, s: &Socket) -> Option<f64> {
    let v = &s.sender.view;
    let segment = f64::from(v.segment);
    let us = |d: penstock_units::Dur| (d.as_secs() * 1e6).round();
    Some(match name {
        "tcpi_snd_cwnd" => (s.sender.cwnd() as f64 / segment).floor(),
        "tcpi_snd_ssthresh" => {
            let mut bytes = f64::NAN;
            s.sender.observe(&mut |quantity, value| {
                if quantity.name == "ssthresh_bytes" {
                    bytes = value;
                }
            });
            if bytes.is_infinite() {
                return value("TCP_INFINITE_SSTHRESH", s);
            }
            (bytes / segment).floor()
        }
        "tcpi_snd_mss" => segment,
        "tcpi_ca_state" => match s.sender.phase() {
            Phase::FastRecovery => 3.0,
            Phase::Loss => 4.0,
            _ if v.in_recovery => 2.0,
            _ if s.sender.sacked_bytes() > 0 => 1.0,
            _ => 0.0,
        },
        "tcpi_unacked" => ((v.max_sent - v.una) as f64 / segment).ceil(),
        "tcpi_sacked" => (s.sender.sacked_bytes() as f64 / segment).ceil(),
        "tcpi_total_retrans" => s.sender.stats.retransmits as f64,
        "tcpi_rtt" => us(v.rtt_smoothed),
        // Linux reports a quarter of its fourfold variation.
        "tcpi_rttvar" => us(s.sender.rtt().variation),
        "tcpi_rto" => us(s.sender.rto()),
        "tcpi_bytes_acked" => s.sender.acked() as f64,
        "tcpi_data_segs_out" => s.sender.stats.data_packets as f64,
        "TCP_CA_Open" => 0.0,
        "TCP_CA_Disorder" => 1.0,
        "TCP_CA_CWR" => 2.0,
        "TCP_CA_Recovery" => 3.0,
        "TCP_CA_Loss" => 4.0,
        "TCP_INFINITE_SSTHRESH" => f64::from(i32::MAX),
        _ => return None,
    })
}
