// Curves over time, all on one clock: a line in each shows the moment that the network shows.
import uPlot from "uplot";
import { FLAG, HOP, type Log } from "./log";
import { colour, thresholds, type Ink } from "./draw";
import { csv, svg } from "./download";
import { seconds, short } from "./format";
import { PX, Trail, seriesShapes, type Paper, type PanelData, type Pen, type SeriesData, type Shape } from "./shapes";

export interface Clock {
  t: number;
  from: number;
  to: number;
}
interface Series {
  label: string;
  /** Ascending. */
  at: ArrayLike<number>;
  value: ArrayLike<number>;
  stroke: string;
  dash?: number[];
  /** Holds its value until the next. */
  steps: boolean;
}
const DASHES: (number[] | undefined)[] = [undefined, [8, 3], [8, 3, 2, 3], [2, 2], [5, 2, 2, 2, 2, 2], [12, 4], [4, 2], [1, 2]];

/** Times and values of several series on the times of all, thinned to what a width of so many pixels can show. */
export function merge(series: Series[], from: number, to: number, pixels: number): (number | null)[][] {
  const parts = series.map((s) => thin(s, from, to, pixels));
  const all = Float64Array.from(parts.flatMap((p) => p.at)).sort();
  const times = all.filter((t, i) => i === 0 || t !== all[i - 1]);
  const columns = parts.map((p, k) => {
    const out: (number | null)[] = [];
    let i = 0;
    for (const t of times) {
      while (i < p.at.length && p.at[i] < t) i++;
      if (p.at[i] === t) {
        while (i + 1 < p.at.length && p.at[i + 1] === t) i++;
        out.push(p.value[i]);
      } else out.push(series[k].steps && i > 0 ? p.value[i - 1] : null);
    }
    return out;
  });
  return [[...times], ...columns];
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
function lower(sorted: ArrayLike<number>, x: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Payload delivered per flow, or by all together, in bins of a window, as rates. */
function rates(log: Log, flows: number[] | null, from: number, to: number, bins: number): { at: number[]; value: Float64Array[] } {
  const row = flows && new Map(flows.map((f, i) => [f, i]));
  const width = (to - from) / bins;
  const value = (flows ?? [0]).map(() => new Float64Array(bins));
  for (let h = 0; h < log.hops; h++) {
    const p = log.hopPacket.data[h];
    const i = row ? row.get(log.flow.data[p]) : 0;
    const arrived = log.arrived.data[h];
    if (i === undefined || arrived < from || arrived >= to || log.hopKind.data[h] & (HOP.DROPPED | HOP.HELD)) continue;
    if (log.head.links[log.hopPort.data[h]].to !== log.dst.data[p]) continue;
    value[i][Math.min(bins - 1, Math.floor((arrived - from) / width))] += (log.payload.data[p] * 8) / width;
  }
  return { at: Array.from({ length: bins }, (_, i) => from + (i + 0.5) * width), value };
}

/** Parts of the window that rates are means over. */
const RATE_BINS = 150;

export type PlotKind = "queue" | "rate" | "sequence" | `value:${string}`;

/** One plot of one run. */
export class Chart {
  private plot: uPlot | null = null;
  private series: Series[] = [];
  private made = "";
  private window = "";

  constructor(
    readonly box: HTMLElement,
    readonly kind: PlotKind,
    private readonly clock: () => Clock,
    private readonly ink: () => Ink,
    private readonly zoom: (from: number, to: number) => void,
  ) {}

  title(log: Log, port: number, flow: number): string {
    if (this.kind === "queue") return `Queue of ${portName(log, port)}, packets`;
    if (this.kind === "rate") return "Payload delivered, Mbit/s";
    if (this.kind === "sequence") return `Sequence numbers of flow ${flow < 0 ? "…" : flow}, bytes`;
    return this.kind.slice(6).replaceAll("_", " ");
  }
  private build(log: Log, port: number, flow: number, flows: number[]): Series[] {
    if (this.kind === "queue") {
      const { at, value } = log.queueOf(port);
      const list: Series[] = [{ label: "queue", at, value, stroke: colour(this.ink(), 0), steps: true }];
      const { limit, marks } = thresholds(log, port);
      const level = (label: string, y: number, dash: number[]) =>
        list.push({ label, at: [0, log.duration], value: [y, y], stroke: this.ink().alarm, dash, steps: false });
      marks.forEach((y) => level("threshold", y, [4, 3]));
      if (limit !== null && limit < 2000) level("limit", limit, [10, 4]);
      return list;
    }
    if (this.kind === "sequence") return [];
    if (this.kind === "rate") {
      const all = flow < 0;
      const { at, value } = rates(log, all ? null : flows, this.clock().from, this.clock().to, RATE_BINS);
      if (all) return [{ label: "all flows", at, value: value[0].map((x) => x / 1e6), stroke: colour(this.ink(), 0), steps: false }];
      return flows.map((f, i) => ({ ...look(this.ink(), f, i), label: `flow ${f}`, at, value: value[i].map((x) => x / 1e6), steps: false }));
    }
    const name = this.kind.slice(6);
    return flows.flatMap((f, i) => {
      const found = log.flows.get(f)?.values.get(name);
      return found ? [{ ...look(this.ink(), f, i), label: `flow ${f}`, at: found.at, value: found.value, steps: true }] : [];
    });
  }

  show(log: Log, port: number, flow: number, flows: number[]): void {
    const clock = this.clock();
    const width = Math.max(240, this.box.clientWidth);
    const what = `${log.version}|${port}|${flow}|${flows.join()}|${width}|${this.ink().text}`;
    const window = `${clock.from}|${clock.to}`;
    const fresh = what !== this.made || this.plot === null;
    if (fresh || (this.kind === "rate" && window !== this.window)) {
      this.series = this.build(log, port, flow, flows);
      this.made = what;
    }
    if (fresh || window !== this.window) {
      this.window = window;
      this.render(log, port, flow, width, fresh);
    }
    this.hand();
  }
  private render(log: Log, port: number, flow: number, width: number, fresh: boolean): void {
    const { from, to } = this.clock();
    const data = this.kind === "sequence" ? this.sequenceFrame(log, flow, from, to) : merge(this.series, from, to, width);
    if (!fresh && this.plot && data.length === this.plot.series.length) {
      this.plot.setData(data as unknown as uPlot.AlignedData, false);
      this.plot.batch(() => this.fit(data));
      return;
    }
    this.plot?.destroy();
    const ink = this.ink();
    const axis = { stroke: ink.text, grid: { stroke: ink.line, width: 1 }, ticks: { stroke: ink.line }, font: "11px system-ui" };
    const lines: uPlot.Series[] =
      this.kind === "sequence"
        ? [{ label: "bytes", show: true, stroke: "transparent", points: { show: false } }]
        : this.series.map((s) => ({
            label: s.label,
            stroke: s.stroke,
            width: 1.5,
            dash: s.dash,
            spanGaps: true,
            points: { show: false },
            paths: s.steps ? uPlot.paths.stepped!({ align: 1 }) : uPlot.paths.linear!(),
            value: (_: uPlot, v: number | null) => (v === null ? "–" : short(v)),
          }));
    const options: uPlot.Options = {
      width,
      height: this.kind === "sequence" ? 230 : 150,
      ms: 1e-3,
      cursor: { sync: { key: "clock" }, drag: { x: true, y: false, setScale: false }, points: { show: false } },
      legend: { show: this.kind !== "sequence" && this.series.length <= 9, live: true },
      scales: { x: { time: false, auto: false }, y: { auto: false } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((v) => seconds(v, to - from)), size: 26 },
        { ...axis, values: (_, ticks) => ticks.map(short), size: 56 },
      ],
      series: [{ label: "time", value: (_: uPlot, v: number | null) => (v === null ? "–" : seconds(v, to - from)) }, ...lines],
      hooks: {
        setSelect: [
          (u) => {
            if (u.select.width < 4) return;
            this.zoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        draw: [
          (u) => {
            if (this.kind === "sequence") this.sequence(u, log, flow);
          },
        ],
      },
    };
    this.plot = new uPlot(options, data as unknown as uPlot.AlignedData, this.box);
    this.plot.root.setAttribute("role", "img");
    this.plot.root.setAttribute("aria-label", `${this.title(log, port, flow)}, over time`);
    this.plot.batch(() => this.fit(data));
  }
  private fit(data: (number | null)[][]): void {
    const { from, to } = this.clock();
    let [low, high] = [this.kind === "sequence" ? Infinity : 0, -Infinity];
    for (const column of data.slice(1)) {
      for (const v of column) if (v !== null) [low, high] = [Math.min(low, v), Math.max(high, v)];
    }
    if (!(high > low)) high = (Number.isFinite(low) ? low : 0) + 1;
    if (!Number.isFinite(low)) low = 0;
    this.plot!.setScale("x", { min: from, max: to });
    this.plot!.setScale("y", { min: low, max: high + (high - low) * 0.06 });
  }
  /** The line of the moment shown: an element of its own, so that playing draws no curve anew. */
  private hand(): void {
    const u = this.plot!;
    let line = u.over.querySelector<HTMLElement>(".hand");
    if (!line) {
      line = document.createElement("div");
      line.className = "hand";
      u.over.append(line);
    }
    const { t, from, to } = this.clock();
    line.hidden = t < from || t > to;
    line.style.transform = `translateX(${u.valToPos(t, "x")}px)`;
  }

  // ---- time-sequence plot, as tcptrace draws it -----------------------------------------------------------------

  private segments: { flow: number; version: number; rows: number[] } | null = null;
  /** Packets of the flow, data and ACKs, by number. */
  private packetsOf(log: Log, flow: number): number[] {
    if (this.segments?.flow !== flow || this.segments.version !== log.version) {
      const rows: number[] = [];
      for (let p = 0; p < log.packets; p++) if (log.flow.data[p] === flow) rows.push(p);
      this.segments = { flow, version: log.version, rows };
    }
    return this.segments.rows;
  }
  private sequenceFrame(log: Log, flow: number, from: number, to: number): (number | null)[][] {
    let [low, high] = [Infinity, -Infinity];
    const home = log.flows.get(flow)?.dst;
    for (const p of this.packetsOf(log, flow)) {
      const sent = log.sent.data[p];
      if (sent < from || sent > to || (log.dst.data[p] !== home && log.seq.data[p] === 0)) continue;
      low = Math.min(low, log.seq.data[p]);
      high = Math.max(high, log.seq.data[p] + log.payload.data[p]);
    }
    if (!Number.isFinite(low)) [low, high] = [0, 1];
    return [
      [from, to],
      [low, high],
    ];
  }
  /** Strokes of the plot, by pens of one kind; X and Y give places in its pixels, `px` of them make one of the page. */
  private strokes<T extends Pen>(make: () => T, log: Log, flow: number, X: Place, Y: Place, top: number, bottom: number, px: number): Stroke<T>[] {
    const about = log.flows.get(flow);
    if (!about) return [];
    const { from, to } = this.clock();
    const [data, again, sacks, acks, timeouts] = [make(), make(), make(), make(), make()];
    let last: number | null = null;
    for (const p of this.packetsOf(log, flow)) {
      const sent = log.sent.data[p];
      if (sent > to) continue;
      const seq = log.seq.data[p];
      if (log.dst.data[p] === about.dst) {
        if (sent < from || log.payload.data[p] === 0) continue;
        const [x, y0, y1] = [X(sent), Y(seq), Y(seq + log.payload.data[p])];
        const path = log.flags.data[p] & FLAG.RETRANSMIT ? again : data;
        path.moveTo(x, y0);
        path.lineTo(x, Math.min(y1, y0 - 2 * px));
        if (path === again) path.rect(x - 2 * px, (y0 + y1) / 2 - 2 * px, 4 * px, 4 * px);
      } else {
        // An ACK as its receiver sends it: what is acknowledged until the next.
        const x = X(Math.max(sent, from));
        if (last === null) acks.moveTo(x, Y(seq));
        else {
          acks.lineTo(x, Y(last));
          acks.lineTo(x, Y(seq));
        }
        last = seq;
        if (sent < from) continue;
        const packed = log.sackAt.data[p];
        for (let k = 0; k < (packed & 3); k++) {
          const i = (packed >>> 2) + 2 * k;
          sacks.moveTo(x, Y(seq + log.sacks.data[i]));
          sacks.lineTo(x, Y(seq + log.sacks.data[i + 1]));
        }
      }
    }
    for (const t of about.timeouts) {
      timeouts.moveTo(X(t), top);
      timeouts.lineTo(X(t), bottom);
    }
    const ink = this.ink();
    return [
      { path: acks, stroke: colour(ink, 2), width: 1.2 },
      { path: sacks, stroke: colour(ink, 4), width: 2 },
      { path: data, stroke: colour(ink, 0), width: 2 },
      { path: again, stroke: ink.alarm, width: 2 },
      { path: timeouts, stroke: ink.alarm, width: 1.5, dash: [6, 4] },
    ];
  }
  private sequence(u: uPlot, log: Log, flow: number): void {
    const g = u.ctx;
    const px = devicePixelRatio;
    const { left, top, width, height } = u.bbox;
    g.save();
    g.beginPath();
    g.rect(left, top, width, height);
    g.clip();
    const [X, Y] = [(t: number) => u.valToPos(t, "x", true), (v: number) => u.valToPos(v, "y", true)];
    for (const s of this.strokes(() => new Path2D(), log, flow, X, Y, top, top + height, px)) {
      g.strokeStyle = s.stroke;
      g.lineWidth = s.width * px;
      g.setLineDash((s.dash ?? []).map((v) => v * px));
      g.stroke(s.path);
    }
    g.restore();
  }
  private sequenceSeries(log: Log, flow: number): SeriesData[] {
    const about = log.flows.get(flow);
    const { from, to } = this.clock();
    const series = (label: string): SeriesData => ({ label, colour: this.ink().text, x: [], y: [] });
    const found = { data: series("data"), again: series("retransmission"), acks: series("acknowledged"), timeouts: series("timeout") };
    for (const p of this.packetsOf(log, flow)) {
      const sent = log.sent.data[p];
      if (!about || sent < from || sent > to) continue;
      const back = log.dst.data[p] !== about.dst;
      if (!back && log.payload.data[p] === 0) continue;
      const to_ = back ? found.acks : log.flags.data[p] & FLAG.RETRANSMIT ? found.again : found.data;
      to_.x.push(sent);
      to_.y.push(log.seq.data[p]);
    }
    for (const t of about?.timeouts ?? []) {
      if (t < from || t > to) continue;
      found.timeouts.x.push(t);
      found.timeouts.y.push(null);
    }
    return Object.values(found);
  }

  // ---- files -----------------------------------------------------------------------------------------------------

  /** Series in the window that is shown, without those that are hidden. */
  private panel(log: Log, port: number, flow: number): PanelData {
    const { from, to } = this.clock();
    const cut = (s: Series): SeriesData => {
      const [first, end] = [Math.max(0, lower(s.at, from) - 1), Math.min(s.at.length, lower(s.at, to) + 1)];
      const part = (v: ArrayLike<number>) => Array.prototype.slice.call(v, first, end) as number[];
      return { label: s.label, colour: s.stroke, width: 1.5, dash: s.dash?.map((v) => v / PX), steps: s.steps ? "post" : undefined, x: part(s.at), y: part(s.value) };
    };
    const shown = this.series.filter((_, i) => this.plot!.series[i + 1]?.show !== false).map(cut);
    const axis = { scale: "linear" as const, limits: [from, to] as [number, number] };
    return {
      box: [0, 0, 1, 1],
      title: this.title(log, port, flow),
      x: { ...axis, label: "time (s)" },
      y: { ...axis, label: "" },
      series: this.kind === "sequence" ? this.sequenceSeries(log, flow) : shown,
      levels: [],
      areas: [],
      texts: [],
    };
  }
  csv(log: Log, port: number, flow: number): string {
    return csv([this.panel(log, port, flow)]);
  }
  svg(log: Log, port: number, flow: number): string {
    const u = this.plot!;
    const { text, ground } = this.ink();
    const paper: Paper = { ink: text, ground };
    const panel = this.panel(log, port, flow);
    const [X, Y] = [(t: number) => u.valToPos(t, "x"), (v: number) => u.valToPos(v, "y")];
    const shapes: Shape[] =
      this.kind === "sequence"
        ? this.strokes(() => new Trail(), log, flow, X, Y, 0, u.bbox.height / devicePixelRatio, 1).map(({ path, ...look }) => ({ ...look, d: path.d }))
        : panel.series.flatMap((s) => seriesShapes(s, X, Y, paper));
    return svg({
      width: u.width,
      height: u.height + 30,
      title: "",
      parts: [{ left: 0, top: 24, plot: u, title: panel.title, shapes, texts: [], labels: ["", ""] }],
      texts: [],
      legend: this.kind === "sequence" || panel.series.length < 2 ? [] : panel.series,
      paper,
      colour: (s) => s.colour,
    });
  }
}
type Place = (v: number) => number;
interface Stroke<T extends Pen> {
  path: T;
  stroke: string;
  width: number;
  dash?: number[];
}

function look(ink: Ink, flow: number, i: number): { stroke: string; dash?: number[] } {
  return { stroke: colour(ink, flow), dash: DASHES[i % DASHES.length] };
}
export function portName(log: Log, port: number): string {
  const link = log.head.links[port];
  return link ? `${log.head.nodes[link.from][0]}→${log.head.nodes[link.to][0]}` : "no port";
}
