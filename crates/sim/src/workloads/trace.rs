//! Flows from a file: CSV with the header `start_s,src,dst,bytes` and, if wanted, `class` and `deadline_s`.

use super::FlowRequest;
use crate::topology::{NodeKind, Topology};
use penstock_core::bail_if;
use penstock_units::{Dur, Time};

/// Longest time that is understood, in seconds.
const LATEST_S: f64 = 1e6;

/// Reads a trace: `start_s` in seconds from the start of the workload, hosts by name, whole bytes (0 = without
/// end), a class of 0 to 63, a deadline in seconds after the start. `#` starts a comment.
///
/// # Errors
/// A missing or unknown column, a value that is none, an unknown host, a flow to its own host; all by line.
pub fn read_trace(
    text: &str,
    topology: &Topology,
    template: &FlowRequest,
) -> Result<Vec<(Time, FlowRequest)>, String> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(i, l)| (i + 1, l.split('#').next().unwrap_or("").trim()))
        .filter(|(_, l)| !l.is_empty());
    let header: Vec<&str> = lines.next().map_or(Vec::new(), |(_, l)| l.split(',').map(str::trim).collect());
    let known = ["start_s", "src", "dst", "bytes", "class", "deadline_s"];
    let column = |name: &str| header.iter().position(|h| *h == name);
    let (Some(start), Some(src), Some(dst), Some(bytes)) =
        (column("start_s"), column("src"), column("dst"), column("bytes"))
    else {
        return Err("the file must begin with the header start_s,src,dst,bytes".into());
    };
    if let Some(other) = header.iter().find(|h| !known.contains(h)) {
        return Err(format!("unknown column {other:?} of the file; known are {}", known.join(", ")));
    }
    let (class, deadline) = (column("class"), column("deadline_s"));
    let mut flows = Vec::new();
    for (number, line) in lines {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let bad = |rule: String| format!("line {number} of the file, {line:?}, {rule}");
        bail_if!(cells.len() != header.len(), bad(format!("must have {} columns", header.len())));
        let seconds = |i: usize| match cells[i].parse::<f64>() {
            Ok(x) if (0.0..=LATEST_S).contains(&x) => Ok(Dur::from_secs(x)),
            _ => Err(bad(format!("must have a {} of 0 to {LATEST_S} seconds", header[i]))),
        };
        let host = |i: usize| match topology.find(cells[i]) {
            Some(n) if topology.nodes[n as usize].kind == NodeKind::Host => Ok(n),
            _ => Err(bad(format!("names {:?}, which is no host", cells[i]))),
        };
        let (from, to) = (host(src)?, host(dst)?);
        bail_if!(from == to, bad("must lead to another host than its own".into()));
        let bytes = match cells[bytes].parse::<u64>() {
            Ok(0) => u64::MAX,
            Ok(n) if n <= 1_000_000_000_000_000 => n,
            _ => return Err(bad("must have whole bytes, at most 1e15 (0 = without end)".into())),
        };
        let at = Time::ZERO + seconds(start)?;
        let mut request =
            FlowRequest { src: from, dst: to, bytes, close: bytes != u64::MAX, ..template.clone() };
        if let Some(i) = class {
            request.class = match cells[i].parse::<u8>() {
                Ok(c) if c < 64 => c,
                _ => return Err(bad("must have a class of 0 to 63".into())),
            };
        }
        if let Some(i) = deadline.filter(|i| !cells[*i].is_empty()) {
            request.due = at + seconds(i)?;
        }
        flows.push((at, request));
    }
    bail_if!(flows.is_empty(), "the file has no flows");
    Ok(flows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> (Topology, FlowRequest) {
        let mut t = Topology::default();
        t.host("a");
        t.host("b");
        t.switch("s");
        (t, FlowRequest::new(0, 0, 0))
    }

    #[test]
    fn columns_may_come_in_any_order() {
        let (t, template) = network();
        let text = "# two flows\nsrc,dst,start_s,bytes,class,deadline_s\na,b,0.5,3000,7,0.02\nb,a,0,0,0,\n";
        let flows = read_trace(text, &t, &template).unwrap();
        assert_eq!(
            (flows[0].0, flows[0].1.bytes, flows[0].1.class),
            (Time::ZERO + Dur::millis(500), 3000, 7)
        );
        assert_eq!(flows[0].1.due, Time::ZERO + Dur::millis(520));
        assert_eq!((flows[1].1.bytes, flows[1].1.close, flows[1].1.due), (u64::MAX, false, Time::NEVER));
    }
    #[test]
    fn bad_lines_are_told() {
        let (t, template) = network();
        let error =
            |rows: &str| read_trace(&format!("start_s,src,dst,bytes\n{rows}"), &t, &template).unwrap_err();
        assert_eq!(
            error("0,a,a,1"),
            "line 2 of the file, \"0,a,a,1\", must lead to another host than its own"
        );
        assert_eq!(error("0,a,s,1"), "line 2 of the file, \"0,a,s,1\", names \"s\", which is no host");
        assert_eq!(
            error("-1,a,b,1"),
            "line 2 of the file, \"-1,a,b,1\", must have a start_s of 0 to 1000000 seconds"
        );
        assert!(error("0,a,b,-5").ends_with("must have whole bytes, at most 1e15 (0 = without end)"));
        assert!(error("0,a,b").ends_with("must have 4 columns"));
        assert_eq!(error(""), "the file has no flows");
        let header = read_trace("start,src,dst,bytes\n", &t, &template).unwrap_err();
        assert_eq!(header, "the file must begin with the header start_s,src,dst,bytes");
    }
}
