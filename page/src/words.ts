// Ports, flows and packets in words.
import { type Clock } from "./plots";
import { FLAG, HOP, type Log } from "./log";
import { moment, quantity } from "./format";
import { discipline, portName, spreading, UNLIMITED, valueAt } from "./series";
import type { Units } from "./plots";

const nodeName = (log: Log, n: number) => log.head.nodes[n][0];

/** The network in one line. */
export function network(log: Log): string {
  const switches = log.head.nodes.filter((n) => n[1] === 1).length;
  const hosts = log.head.nodes.length - switches;
  const plural = (n: number, word: string) => `${n} ${word}${n === 1 ? "" : word.endsWith("ch") ? "es" : "s"}`;
  // Where there is one way, how packets are spread does not matter.
  const spread = switches > 2 ? spreading(log) : "";
  const rates = [...new Set(log.head.links.map((l) => l.rate_bps))].sort((a, b) => a - b);
  const speeds = rates.length > 3 ? `${quantity(rates[0], "bit/s")} to ${quantity(rates[rates.length - 1], "bit/s")}` : rates.map((r) => quantity(r, "bit/s")).join(", ");
  const parts = [plural(hosts, "host"), plural(switches, "switch"), `links of ${speeds}`, log.head.protocols.join(", "), spread, `${quantity(log.duration, "s")} simulated`];
  return parts.filter(Boolean).join(" · ");
}
export function port(log: Log, number: number, t: number): string {
  const link = log.head.links[number];
  if (!link) return "";
  let [inside, wire] = [0, 0];
  // Counted so far, and of these in the warm-up.
  const [drops, marks, trims] = [[0, 0], [0, 0], [0, 0]];
  const warm = log.head.warmup_ps * 1e-12;
  const count = (of: number[], at: number) => {
    if (at > t) return;
    of[0]++;
    if (at < warm) of[1]++;
  };
  log.at(t, (h) => {
    if (log.hopPort.data[h] === number) log.left.data[h] > t ? inside++ : wire++;
  });
  for (const h of log.drops) if (log.hopPort.data[h] === number) count(drops, log.arrived.data[h]);
  for (const trim of log.trims.values()) if (trim.port === number) count(trims, trim.at);
  for (let h = 0; h < log.hops; h++) {
    if (log.hopPort.data[h] === number && log.hopKind.data[h] & HOP.MARKED) count(marks, log.queued.data[h]);
  }
  const named: [number[], string][] = [[drops, "dropped"], [trims, "trimmed"], [marks, "marked"]];
  const happened = named.filter(([[n]]) => n).map(([[n, early], what]) => `${n} ${what}${early ? ` (${early === n ? "all" : early} in the warm-up)` : ""}`);
  const now = log.recorded(t) ? `${quantity(inside, "packets")} in the port, ${wire} on its wire; ${log.from > 0 ? `since ${moment(log.from, log.duration)}` : "so far"} ${happened.join(", ") || "nothing dropped or marked"}` : log.over(t) ? "the run is over" : "its packets are not recorded at this moment";
  return `Port ${portName(log, number)}: ${quantity(link.rate_bps, "bit/s")}, ${quantity(link.delay_ps * 1e-12, "s")} of wire, ${discipline(log, number)}\n${now}`;
}
export function flow(log: Log, number: number, t: number, units: Units): string {
  const f = log.flows.get(number);
  if (!f) return "";
  const lines = [`Flow ${f.number}: ${nodeName(log, f.src)} to ${nodeName(log, f.dst)}, ${log.head.protocols[f.protocol]}, ${f.size ? quantity(f.size, "bytes") : "without end"}`];
  const now: string[] = [];
  for (const [key, series] of f.values) {
    const v = valueAt({ label: key, at: series.at, value: series.value, stroke: "", steps: true, from: f.opened, to: f.closed }, t);
    if (v !== null && Math.abs(v) < UNLIMITED) now.push(`${key.replace(/_(bytes|bps|s|packets|segments)$/, "").replaceAll("_", " ")} ${quantity(v, units[key]?.[0] ?? "")}`);
  }
  if (now.length > 0) lines.push(now.join(", "));
  const state = t < f.opened ? "not open yet; " : t >= f.closed ? "over; " : "";
  lines.push(`${state}timeouts so far ${f.timeouts.filter((x) => x <= t).length}, fast retransmits ${f.repairs.filter((x) => x <= t).length}`);
  return lines.join("\n");
}
export function packet(log: Log, hop: number, clock: Clock): string {
  const p = log.hopPacket.data[hop];
  const flags = log.flags.data[p];
  const names = Object.entries(FLAG).filter(([, bit]) => flags & bit).map(([name]) => name);
  const ack = log.payload.data[p] === 0 && flags & FLAG.ACK;
  const ce = log.ecn.data[p] === 3 || log.markedAt.data[p] <= clock.t;
  const trim = log.trims.get(p);
  const window = clock.to - clock.from;
  return [
    `Packet ${p} of flow ${log.flow.data[p]} to ${nodeName(log, log.dst.data[p])}`,
    `  ${ack ? "acknowledges" : "bytes from"} ${log.seq.data[p]}${ack ? "" : `, ${log.payload.data[p]} B of payload`}`,
    ...(trim && trim.at <= clock.t ? [`  trimmed to ${trim.bytes} B at ${portName(log, trim.port)}`] : []),
    `  ${log.bytes.data[p]} B on the wire; ${names.join(" ") || "no flags"}; ${ce ? "CE" : log.ecn.data[p] ? "ECT" : "not ECN-capable"}`,
    `  sent ${moment(log.sent.data[p], window)}, at ${portName(log, log.hopPort.data[hop])} since ${moment(log.queued.data[hop], window)}`,
  ].join("\n");
}
/** What the network shows at a moment, for readers who do not see it. */
export function picture(log: Log, t: number): string {
  if (!log.recorded(t)) return log.over(t) ? "the run is over" : "packets of this moment are not recorded";
  const waiting = new Map<number, number>();
  let wires = 0;
  log.at(t, (h) => {
    const n = log.hopPort.data[h];
    if (log.left.data[h] > t) waiting.set(n, (waiting.get(n) ?? 0) + 1);
    else wires++;
  });
  const longest = [...waiting].sort((a, b) => b[1] - a[1]).slice(0, 3);
  const queues = longest.map(([n, count]) => `${count} at ${portName(log, n)}`).join(", ");
  return `${wires} packets on wires; ${queues ? `in ports ${queues}` : "ports empty"}`;
}
