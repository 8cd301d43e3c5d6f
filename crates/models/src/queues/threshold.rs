//! Threshold marking: DCTCP's switch. A packet that finds K or more in the port is marked.

use super::discipline::{counting, Discipline, COUNT};
use penstock_core::{Kind, ParamSpec};
use penstock_fabric::Rule;

/// Threshold marking.
pub const DISCIPLINE: Discipline = Discipline {
    name: "threshold",
    text: "mark every packet that finds a queue of k or more; packets that are not ECN-capable are dropped instead (drops_nonect)",
    cites: "Alizadeh et al., SIGCOMM 2010, section 3.1; RFC 8257 section 3.1",
    params: &[
        ParamSpec::new("k", Kind::Amount, "40pkt", "marking threshold K", "DT-DCTCP section VI (K = 40)")
            .range(0.0, 1e12),
        COUNT,
    ],
    marks: |_| true,
    build: |p, _| Ok(counting(p, Rule::Threshold(p.amount("k")))),
};
