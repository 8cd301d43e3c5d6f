//! Workloads of a scenario file whose messages wait for each other: collectives, GOAL schedules, connection matrices.

use super::tables::Table;
use super::workloads::{Builder, MOST_CHECKS, MOST_MESSAGES};
use crate::scenario::requests_travel;
use crate::workloads::collective::{Algorithm, Collective, Operation};
use crate::workloads::goal::read_goal;
use crate::workloads::matrix::read_matrix;
use crate::workloads::schedule::{self, Plan, Script};
use crate::workloads::{FlowRequest, Workload};
use penstock_core::ParamError;
use penstock_units::Time;

/// What a schedule is made of.
pub(super) struct Parts {
    template: FlowRequest,
    hosts: Vec<u32>,
    /// Number of the first random stream of its ranks.
    stream: u64,
}

impl Builder<'_> {
    /// A workload of kind `collective`, `goal` or `matrix`.
    pub fn schedule(
        &mut self,
        table: &Table,
        kind: &str,
        template: FlowRequest,
        stream: u64,
    ) -> Result<Workload, ParamError> {
        let parts = Parts { template, hosts: self.distinct(table)?, stream };
        match kind {
            "collective" => self.collective(table, parts),
            "goal" => self.goal(table, parts),
            _ => self.matrix(table, parts),
        }
    }

    fn collective(&mut self, table: &Table, parts: Parts) -> Result<Workload, ParamError> {
        let q = &table.params;
        table.need("size")?;
        let operation = match q.text("operation") {
            "all-gather" => Operation::AllGather,
            "reduce-scatter" => Operation::ReduceScatter,
            "all-to-all" => Operation::AllToAll,
            _ => Operation::AllReduce,
        };
        let unset = if operation == Operation::AllToAll { "pairwise" } else { "ring" };
        let algorithm = match if q.is_set("algorithm") { q.text("algorithm") } else { unset } {
            "tree" => Algorithm::Tree,
            "halving-doubling" => Algorithm::HalvingDoubling,
            "pairwise" => Algorithm::Pairwise { window: q.count("window") as usize },
            _ => Algorithm::Ring,
        };
        let acknowledged = q.text("advance") == "acknowledged";
        let (ranks, bytes) = (parts.hosts.len() as u32, q.bytes("size").0);
        let c = Collective { operation, algorithm, ranks, bytes, acknowledged };
        c.check().map_err(|(key, rule)| table.error(key, rule))?;
        if c.messages() > MOST_MESSAGES {
            let rule = format!("means {} messages; at most {MOST_MESSAGES} are possible", c.messages());
            return Err(ParamError::new(format!("{}.hosts", table.path), format!("{ranks} hosts"), rule));
        }
        self.planned(table, parts, c.script(), bytes, Some(c.bus()), acknowledged)
    }

    fn goal(&mut self, table: &Table, parts: Parts) -> Result<Workload, ParamError> {
        let q = &table.params;
        let text = self.text(table)?;
        let goal = read_goal(&text).map_err(|rule| table.error("file", rule))?;
        let hosts = parts.hosts.len();
        if let Some(line) = goal.lines.get(hosts..).and_then(|lines| lines.iter().find(|l| **l > 0)) {
            let ranks = goal.ranks.len();
            let rule =
                format!("line {line} of the file, has a rank without a host: {ranks} ranks, {hosts} hosts");
            return Err(table.error("file", rule));
        }
        let program = goal.program(q.dur("overhead"), q.dur("unit"));
        let bytes = program.bytes();
        self.planned(table, parts, Script::Tasks(program), bytes, None, false)
    }

    fn matrix(&mut self, table: &Table, parts: Parts) -> Result<Workload, ParamError> {
        let text = self.text(table)?;
        let unit = table.params.dur("unit");
        let (program, nodes) = read_matrix(&text, unit).map_err(|rule| table.error("file", rule))?;
        if nodes as usize > parts.hosts.len() {
            let rule = format!("is for {nodes} hosts; there are {}", parts.hosts.len());
            return Err(table.error("file", rule));
        }
        let bytes = program.bytes();
        self.planned(table, parts, Script::Tasks(program), bytes, None, true)
    }

    fn text(&self, table: &Table) -> Result<String, ParamError> {
        table.need("file")?;
        self.c.folder.read(table.params.text("file")).map_err(|rule| table.error("file", rule))
    }

    /// The workload of a program.
    fn planned(
        &mut self,
        table: &Table,
        parts: Parts,
        script: Script,
        bytes: u64,
        bus: Option<f64>,
        until_acknowledged: bool,
    ) -> Result<Workload, ParamError> {
        let q = &table.params;
        let Parts { template, hosts, stream } = parts;
        // All pairs of a small network, an even sample of a large one, as elsewhere.
        self.used.extend(&hosts);
        for (from, to) in script.some_pairs(MOST_CHECKS) {
            self.check(table, hosts[from as usize], hosts[to as usize])?;
        }
        let plan = Plan {
            start: Time::ZERO + q.dur("start"),
            spread: q.dur("spread"),
            travel: requests_travel(self.p),
            until_acknowledged,
            persistent: match q.is_set("connections") {
                true => q.text("connections") == "persistent",
                false => self.lasts(&template)?,
            },
            repetitions: q.count("repetitions"),
            bytes,
            bus,
        };
        Ok(schedule::schedule(script, template, hosts, plan, (self.id.seed, self.id.run, stream)))
    }
}
