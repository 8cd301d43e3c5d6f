// The numbers behind the curves: what a run has recorded of ports and flows, with where each curve begins and ends.
import { colour, thresholds, type Ink } from "./draw";
import { HOP, type Flow, type Log } from "./log";

/** What is charted: which port, which flows, and whether the reader chose these. */
export interface Shown {
  port: number;
  /** The flow selected, -1 for none. */
  flow: number;
  /** The flows with curves of their own. */
  flows: number[];
  /** The reader chose them. */
  chosen: boolean;
}
export interface Series {
  label: string;
  /** Ascending. */
  at: ArrayLike<number>;
  value: ArrayLike<number>;
  stroke: string;
  dash?: number[];
  width?: number;
  /** Holds its value until the next, up to `to`. */
  steps: boolean;
  /** It says nothing before and after these. */
  from: number;
  to: number;
  /** A flow's curve that ends because the flow does. */
  ends?: boolean;
  /** A threshold or limit: it does not decide the axis. */
  level?: boolean;
}
export type PlotKind = "queue" | "rate" | "sequence" | `value:${string}`;
const DASHES: (number[] | undefined)[] = [undefined, [8, 3], [8, 3, 2, 3], [2, 2], [5, 2, 2, 2, 2, 2], [12, 4], [4, 2], [1, 2]];
/** Parts of the window that rates are means over: a part is long enough for some packets, so that a steady rate looks steady. */
const [LEAST_BINS, MOST_BINS, PACKETS_IN_BIN] = [30, 150, 6];
/** More flows than this have no curves of their own unless the reader asks for some of them. */
export const MOST_FLOWS = 8;
/** A number so large stands for "no limit". */
export const UNLIMITED = 1e15;

export function lower(sorted: ArrayLike<number>, x: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}
/** The value at `t` of a curve, null where it has none. */
export function valueAt(s: Series, t: number): number | null {
  if (t < s.from || t > s.to) return null;
  let i = lower(s.at, t);
  if (s.at[i] !== t) i--;
  else while (s.at[i + 1] === t) i++;
  if (i < 0) return null;
  return s.value[i];
}

/** Times and values of several series on the times of all, thinned to what a width of so many pixels can show. Null: nothing is known. */
export function merge(series: Series[], from: number, to: number, pixels: number): (number | null)[][] {
  const parts = series.map((s) => within(s, from, to, pixels));
  const all = Float64Array.from(parts.flatMap((p) => p.at)).sort();
  const times = all.filter((t, i) => i === 0 || t !== all[i - 1]);
  const columns = parts.map((p, k) => {
    const out: (number | null)[] = [];
    const [first, last] = [p.at[0] ?? Infinity, p.at[p.at.length - 1] ?? -Infinity];
    let i = 0;
    for (const t of times) {
      while (i < p.at.length && p.at[i] < t) i++;
      if (p.at[i] === t) {
        while (i + 1 < p.at.length && p.at[i + 1] === t) i++;
        out.push(p.value[i]);
      } else out.push(series[k].steps && t > first && t < last ? p.value[i - 1] : null);
    }
    return out.map((v) => (v !== null && Number.isNaN(v) ? null : v));
  });
  return [[...times], ...columns];
}
/** The part of a series in a window: a value that holds is held from the window's edge on, and up to where the series ends. */
function within(s: Series, from: number, to: number, pixels: number): { at: number[]; value: number[] } {
  const [start, end] = [Math.max(from, s.from), Math.min(to, s.to)];
  if (!(end >= start) || s.at.length === 0) return { at: [], value: [] };
  const part = thin(s, start, end, pixels);
  if (!s.steps) return part;
  const kept = part.at.map((_, i) => i).filter((i) => part.at[i] > start && part.at[i] < end);
  const [at, value] = [kept.map((i) => part.at[i]), kept.map((i) => part.value[i])];
  const [before, last] = [valueAt(s, start), valueAt(s, end)];
  if (before !== null) (at.unshift(start), value.unshift(before));
  if (last !== null && end > start) (at.push(end), value.push(last));
  return { at, value };
}
/** In every pixel the first, lowest, highest and last value: nothing that can be seen is lost. */
function thin(s: Series, from: number, to: number, pixels: number): { at: number[]; value: number[] } {
  let [low, high] = [lower(s.at, from), lower(s.at, to)];
  low = Math.max(0, low - 1);
  high = Math.min(s.at.length, high + 1);
  const [at, value]: [number[], number[]] = [[], []];
  if (high - low <= 4 * pixels) {
    for (let i = low; i < high; i++) {
      at.push(s.at[i]);
      value.push(s.value[i]);
    }
    return { at, value };
  }
  const width = (to - from) / pixels;
  for (let i = low; i < high; ) {
    const edge = from + (Math.floor((s.at[i] - from) / width) + 1) * width;
    let [first, min, max, last] = [i, i, i, i];
    for (; i < high && (s.at[i] < edge || i === first); i++) {
      if (s.value[i] < s.value[min]) min = i;
      if (s.value[i] > s.value[max]) max = i;
      last = i;
    }
    for (const k of [...new Set([first, min, max, last])].sort((a, b) => a - b)) {
      at.push(s.at[k]);
      value.push(s.value[k]);
    }
  }
  return { at, value };
}

/** Payload delivered per flow (row of `flows`) and by all together (the last row), in bins of a window, as rates. NaN: not recorded. */
function rates(log: Log, flows: number[], from: number, to: number): { at: number[]; value: Float64Array[] } {
  const row = new Map(flows.map((f, i) => [f, i]));
  const packet = (((log.head.mss[0] ?? 1460) + 40) * 8) / (log.head.links[log.head.bottleneck]?.rate_bps ?? Infinity);
  const bins = Math.max(LEAST_BINS, Math.min(MOST_BINS, Math.floor((to - from) / (PACKETS_IN_BIN * packet))));
  const width = (to - from) / bins;
  const value = Array.from({ length: flows.length + 1 }, () => new Float64Array(bins));
  for (let h = 0; h < log.hops; h++) {
    const p = log.hopPacket.data[h];
    const arrived = log.arrived.data[h];
    if (arrived < from || arrived >= to || log.hopKind.data[h] & (HOP.DROPPED | HOP.HELD)) continue;
    if (log.head.links[log.hopPort.data[h]].to !== log.dst.data[p]) continue;
    const trim = log.trims.get(p);
    if (trim && trim.at <= arrived) continue;
    const bin = Math.min(bins - 1, Math.floor((arrived - from) / width));
    const rate = (log.payload.data[p] * 8) / width;
    value[flows.length][bin] += rate;
    const i = row.get(log.flow.data[p]);
    if (i !== undefined) value[i][bin] += rate;
  }
  const at = Array.from({ length: bins }, (_, i) => from + (i + 0.5) * width);
  // A bin that the record covers in part would show too little.
  at.forEach((middle, i) => {
    if (middle - width / 2 < log.from - 1e-12 || middle + width / 2 > log.packetsUntil + 1e-12) for (const list of value) list[i] = NaN;
  });
  return { at, value };
}

const look = (ink: Ink, flow: number) => ({ stroke: colour(ink, flow), dash: DASHES[flow % DASHES.length] });
/** When a flow is there, as far as the run has got. */
const life = (log: Log, f: Flow) => ({ from: f.opened, to: Math.min(f.closed, log.until), ends: f.closed <= log.until });

/** "flow 8", with its ends where it is the one selected. */
export function flowName(log: Log, number: number, selected: boolean): string {
  const f = log.flows.get(number);
  return f && selected ? `flow ${number}, ${log.head.nodes[f.src][0]}→${log.head.nodes[f.dst][0]}` : `flow ${number}`;
}

/** The curves of a chart. */
export function build(kind: PlotKind, log: Log, shown: Shown, ink: Ink, from: number, to: number): Series[] {
  const flows = shown.flows.flatMap((number) => log.flows.get(number) ?? []);
  if (kind === "queue") {
    const record = { from: log.from, to: log.packetsUntil };
    const list: Series[] = [{ label: "queue", ...log.queueOf(shown.port), stroke: colour(ink, 0), steps: true, ...record }];
    const { limit, marks } = thresholds(log, shown.port);
    const level = (label: string, y: number, dash: number[]) =>
      list.push({ label, at: [0], value: [y], stroke: ink.alarm, dash, steps: true, from: 0, to: log.duration, level: true });
    marks.forEach((y, i) => level(marks.length > 1 ? `threshold ${i + 1}` : "threshold", y, [4, 3]));
    if (limit !== null) level(typeof log.head.links[shown.port].trims_to === "number" ? "limit of data packets" : "limit", limit, [10, 4]);
    return list;
  }
  if (kind === "rate") {
    const own = shown.chosen || log.flows.size <= MOST_FLOWS ? flows : [];
    const { at, value } = rates(log, own.map((f) => f.number), from, to);
    const list: Series[] = own.map((f, i) => ({ ...look(ink, f.number), label: flowName(log, f.number, f.number === shown.flow), at, value: value[i], steps: false, ...life(log, f) }));
    list.unshift({ label: "all flows", at, value: value[own.length], stroke: ink.text, width: own.length > 0 ? 1 : 1.75, steps: false, from: log.from, to: log.packetsUntil });
    return list;
  }
  if (kind === "sequence") return [];
  return flows.flatMap((f) => {
    const found = f.values.get(kind.slice(6));
    return found ? [{ ...look(ink, f.number), label: flowName(log, f.number, f.number === shown.flow), at: found.at, value: found.value, steps: true, ...life(log, f) }] : [];
  });
}
/** Values of flows that say something: not those that are "no limit" all along. */
export function tellingValues(log: Log): string[] {
  const telling = new Set<string>();
  for (const f of log.flows.values()) {
    for (const [name, { value }] of f.values) if (!telling.has(name) && value.some((v) => Number.isFinite(v) && Math.abs(v) < UNLIMITED)) telling.add(name);
  }
  return log.valueNames.filter((name) => telling.has(name));
}
export function portName(log: Log, port: number): string {
  const link = log.head.links[port];
  return link ? `${log.head.nodes[link.from][0]}→${log.head.nodes[link.to][0]}` : "no port";
}
/** What a port does with packets, in words. */
export function discipline(log: Log, port: number): string {
  const link = log.head.links[port];
  const [name, given] = [link.queue.split(":")[0], link.queue.slice(link.queue.indexOf(":") + 1)];
  const at = (key: string) => new RegExp(`\\b${key}=([^,]+)`).exec(given)?.[1] ?? "";
  const words: Record<string, string> = {
    droptail: link.trims_to ? "" : "drops what finds no room",
    threshold: `marks from ${packets(at("k"))} on`,
    hysteresis: `marks from ${packets(at("k1"))} rising until ${packets(at("k2"))} falling`,
    red: "drops or marks at random as the mean queue grows (RED)",
  };
  const does = [words[name] ?? link.queue];
  if (link.trims_to) does.unshift(`cuts packets that find no room to ${link.trims_to} B`);
  if (link.order === "strict" && link.trims_to) does.push("headers first");
  else if (link.order === "drr" && link.trims_to) does.push("headers and data by turns, headers more often");
  else if (link.order && link.order !== "fifo") does.push({ strict: "strict priorities", drr: "deficit round robin", rank: "smallest rank first" }[link.order]);
  return does.filter(Boolean).join(", ");
}
const packets = (text: string) => text.replace(/^(\d+)pkt$/, "$1 packets") || "its threshold";
/** How the network chooses among paths, in words. */
export function spreading(log: Log): string {
  const words: Record<string, string> = {
    drawn: "one path per flow, chosen at random",
    ideal: "one path per flow, the least used",
    flow: "one path per flow, by hash",
    entropy: "senders choose the path of every packet",
    packet: "every packet takes a path of its own",
    "round-robin": "packets take the paths in turn",
    flowlet: "paths change after pauses (flowlets)",
    weighted: "paths by weight",
    adaptive: "packets take the path with the shortest queue",
  };
  return words[log.head.spread ?? ""] ?? "";
}
