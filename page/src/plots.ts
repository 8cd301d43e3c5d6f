// Curves over time, all on one clock: a line in each shows the moment that the network shows. Two runs beside each other have the same axes.
import uPlot from "uplot";
import { type Ink } from "./draw";
import { csv, svg } from "./download";
import { moment, quantity, scale, ticks } from "./format";
import type { Log } from "./log";
import { Sequence, sequenceKey } from "./sequence";
import { build, flowName, lower, merge, portName, UNLIMITED, valueAt, type PlotKind, type Series, type Shown } from "./series";
import { hatched, PX, Trail, seriesShapes, type Paper, type PanelData, type SeriesData } from "./shapes";

export interface Clock {
  t: number;
  from: number;
  to: number;
}
/** Unit and meaning of what is measured, by name. */
export type Units = Record<string, [unit: string, text: string]>;

/** What charts are told by the page. */
export interface Desk {
  readonly clock: Clock;
  readonly ink: Ink;
  readonly units: Units;
  zoom(from: number, to: number): void;
}
const HEIGHT = 132;
const SEQUENCE_HEIGHT = 220;
/** Hatching of what is not recorded. */
const HATCH = "/";

/** "flows 0 to 7, 12". */
export function listed(numbers: number[]): string {
  const runs: string[] = [];
  for (let i = 0; i < numbers.length; ) {
    let k = i;
    while (numbers[k + 1] === numbers[k] + 1) k++;
    runs.push(k - i > 1 ? `${numbers[i]} to ${numbers[k]}` : numbers.slice(i, k + 1).join(", "));
    i = k + 1;
  }
  return runs.join(", ");
}

/** One plot of one run. */
export class Chart {
  readonly box = document.createElement("figure");
  readonly caption = document.createElement("figcaption");
  private readonly key = document.createElement("ul");
  private readonly said = document.createElement("output");
  private plot: uPlot | null = null;
  private series: Series[] = [];
  private data: (number | null)[][] = [[]];
  private readonly sequence = new Sequence();
  private built = "";
  private merged = "";
  private drawn = "";
  private log!: Log;
  private shown!: Shown;
  private values: HTMLElement[] = [];
  private now: HTMLElement | null = null;
  private picked: { series: number; point: number } | null = null;
  private axis = { factor: 1, unit: "" };

  constructor(
    readonly kind: PlotKind,
    private readonly desk: Desk,
  ) {
    this.key.className = "key";
    this.said.className = "said";
    this.said.setAttribute("aria-live", "polite");
    this.caption.append(document.createElement("b"), document.createElement("span"));
  }
  private get unit(): string {
    if (this.kind === "queue") return "packets";
    if (this.kind === "rate") return "bit/s";
    if (this.kind === "sequence") return "bytes";
    return this.desk.units[this.kind.slice(6)]?.[0] ?? "";
  }
  /** What is charted, and of what. */
  private words(): [string, string] {
    const { log, shown } = this;
    const one = shown.flow >= 0 ? log.flows.get(shown.flow) : undefined;
    const ends = one ? `${log.head.nodes[one.src][0]}→${log.head.nodes[one.dst][0]}` : "";
    const flows = one ? flowName(log, one.number, true) : shown.flows.length === log.flows.size ? "all flows" : shown.flows.length > 0 ? `flow${shown.flows.length > 1 ? "s" : ""} ${listed(shown.flows)} of ${log.flows.size}` : "no flow";
    if (this.kind === "queue") return [`Queue of ${portName(log, shown.port)}`, ""];
    if (this.kind === "rate" && one) return [`Payload of ${ends}`, `flow ${one.number}, and all together`];
    if (this.kind === "rate") return ["Payload delivered", this.series.length > 1 ? `all together, and ${flows}` : "all flows together"];
    if (this.kind === "sequence") return [`Sequence numbers of ${ends}`, `flow ${shown.flow}`];
    const name = this.kind.slice(6);
    const title = name.replace(/_(bytes|bps|s|packets|segments)$/, "").replaceAll("_", " ");
    return [title, flows];
  }
  title(): string {
    const [what, of] = this.words();
    return [what, of, this.axis.unit].filter(Boolean).join(", ");
  }

  /** Brings the numbers up to date; the values that the axis has to show. */
  prepare(log: Log, shown: Shown, width: number): [number, number] {
    const { clock, ink } = this.desk;
    [this.log, this.shown] = [log, shown];
    const what = `${log.version}|${log.head.seed}|${shown.port}|${shown.flow}|${shown.flows.join()}|${shown.chosen}|${ink.text}|${this.kind === "rate" ? `${clock.from}|${clock.to}` : ""}`;
    if (what !== this.built) {
      this.series = build(this.kind, log, shown, ink, clock.from, clock.to);
      this.built = what;
      this.picked = null;
    }
    const window = `${what}|${clock.from}|${clock.to}|${width}`;
    if (window !== this.merged) {
      this.merged = window;
      this.data = this.kind === "sequence" ? this.sequence.frame(log, shown.flow, clock.from, clock.to) : merge(this.series, clock.from, clock.to, width);
    }
    return this.extent();
  }
  private extent(): [number, number] {
    let [low, high] = [this.kind === "sequence" ? Infinity : 0, -Infinity];
    this.data.slice(1).forEach((column, i) => {
      if (this.series[i]?.level) return;
      for (const v of column) if (v !== null && Math.abs(v) < UNLIMITED) [low, high] = [Math.min(low, v), Math.max(high, v)];
    });
    // A threshold or limit is in the picture where it is not far above it.
    for (const s of this.series) if (s.level && s.value[0] <= 4 * Math.max(high, 1)) high = Math.max(high, s.value[0]);
    return [low, high];
  }
  /** Draws, on the axis that all runs share. */
  paint([low, high]: [number, number], width: number): void {
    if (!(high > low)) high = (Number.isFinite(low) ? low : 0) + 1;
    if (!Number.isFinite(low)) low = 0;
    if (this.kind !== "sequence") high += (high - low) * 0.06;
    const { clock, ink } = this.desk;
    const state = `${this.merged}|${low}|${high}|${ink.ground}`;
    if (state !== this.drawn) {
      this.axis = scale(Math.max(Math.abs(low), Math.abs(high)) / 1.06, this.unit);
      const same = this.plot && this.data.length === this.plot.series.length && this.drawn.endsWith(ink.ground) && this.plot.width === width;
      this.drawn = state;
      if (!same) this.make(width);
      this.plot!.setData(this.data as unknown as uPlot.AlignedData, false);
      this.plot!.batch(() => {
        this.plot!.setScale("x", { min: clock.from, max: clock.to });
        this.plot!.setScale("y", { min: low, max: high });
      });
      const [what, of] = this.words();
      const [b, span] = this.caption.children;
      if (b.textContent !== what) b.textContent = what;
      const more = [of, this.axis.unit].filter(Boolean).join(", ");
      if (span.textContent !== more) span.textContent = more;
      this.caption.title = this.desk.units[this.kind.slice(6)]?.[1] ?? "";
      this.plot!.over.setAttribute("aria-label", `${this.title()}, over time. Arrow keys go through its points and curves and say them.`);
      this.keys();
    }
    this.hand();
  }
  private make(width: number): void {
    const { ink } = this.desk;
    this.plot?.destroy();
    const axis = { stroke: ink.soft, grid: { stroke: ink.line, width: 1 }, ticks: { show: false }, font: "11px system-ui", gap: 6 };
    const lines: uPlot.Series[] =
      this.kind === "sequence"
        ? [{ label: "bytes", stroke: "transparent", points: { show: false } }]
        : this.series.map((s) => ({
            label: s.label,
            stroke: s.stroke,
            width: s.width ?? 1.75,
            dash: s.dash,
            spanGaps: false,
            // A curve of one point is that point.
            points: { show: (u, i) => (u.data[i] as (number | null)[]).filter((v) => v !== null).length === 1, size: 5, fill: s.stroke },
            paths: s.steps ? uPlot.paths.stepped!({ align: 1 }) : uPlot.paths.linear!(),
          }));
    const options: uPlot.Options = {
      width,
      height: this.kind === "sequence" ? SEQUENCE_HEIGHT : HEIGHT,
      ms: 1e-3,
      padding: [6, 24, 0, 0],
      cursor: { sync: { key: "clock" }, drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
      legend: { show: false },
      scales: { x: { time: false, auto: false }, y: { auto: false } },
      axes: [
        { ...axis, values: (_, times, __, ___, step) => ticks(times, step, this.desk.clock.to - this.desk.clock.from), size: 24 },
        { ...axis, values: (_, levels) => levels.map((v) => `${+(v * this.axis.factor).toPrecision(6)}`), size: 46, space: 28 },
      ],
      series: [{}, ...lines],
      hooks: {
        setSelect: [
          (u) => {
            if (u.select.width < 4) return;
            this.desk.zoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        drawAxes: [(u) => this.emptiness(u)],
        draw: [(u) => (this.kind === "sequence" ? this.tcptrace(u) : this.ends(u))],
        setCursor: [(u) => this.tell(u.cursor.left !== undefined && u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : this.desk.clock.t)],
      },
    };
    this.plot = new uPlot(options, this.data as unknown as uPlot.AlignedData);
    const over = this.plot.over;
    over.tabIndex = 0;
    over.setAttribute("role", "application");
    over.setAttribute("aria-roledescription", "chart");
    over.addEventListener("keydown", (e) => this.walk(e));
    over.addEventListener("blur", () => this.mark(null));
    this.box.querySelector(".plot")?.remove();
    const holder = Object.assign(document.createElement("div"), { className: "plot" });
    holder.append(this.plot.root);
    // What it shows is told by the layer above it, which has the focus.
    this.plot.root.querySelector("canvas")!.setAttribute("aria-hidden", "true");
    this.box.append(holder, this.key, this.said);
  }

  // ---- what is not recorded, and where curves end ------------------------------------------------------------------

  /** Parts of the window of which nothing is known. */
  private unknown(): [number, number][] {
    const { log } = this;
    const { from, to } = this.desk.clock;
    const ofPackets = !this.kind.startsWith("value:");
    const [first, last] = ofPackets ? [log.from, log.packetsUntil] : [0, log.until];
    const slack = (to - from) * 1e-6;
    const parts: [number, number][] = [[from, Math.min(to, first)], [Math.max(from, last), to]];
    return parts.filter(([a, b]) => b - a > slack);
  }
  private emptiness(u: uPlot): void {
    const g = u.ctx;
    const px = devicePixelRatio;
    const { top, height } = u.bbox;
    for (const [a, b] of this.unknown()) {
      const [x0, x1] = [u.valToPos(a, "x", true), u.valToPos(b, "x", true)];
      g.save();
      g.beginPath();
      g.rect(x0, top, x1 - x0, height);
      g.clip();
      g.fillStyle = this.desk.ink.ground;
      g.fillRect(x0, top, x1 - x0, height);
      g.translate(x0, top);
      g.scale(px, px);
      g.strokeStyle = this.desk.ink.line;
      g.lineWidth = 1.2;
      g.stroke(new Path2D(hatched(HATCH, 0, 0, (x1 - x0) / px, height / px)));
      const text = this.log.over((a + b) / 2) ? "the run is over" : "not recorded";
      g.font = "11px system-ui";
      const wide = g.measureText(text).width;
      const middle = (x1 - x0) / px / 2;
      if (2 * middle > wide + 12) {
        g.fillStyle = this.desk.ink.ground;
        g.fillRect(middle - wide / 2 - 4, height / px / 2 - 9, wide + 8, 18);
        g.fillStyle = this.desk.ink.soft;
        g.textAlign = "center";
        g.textBaseline = "middle";
        g.fillText(text, middle, height / px / 2);
      }
      g.restore();
    }
  }
  /** A stroke across the end of a curve whose flow is over. */
  private ends(u: uPlot): void {
    const g = u.ctx;
    const px = devicePixelRatio;
    const { from, to } = this.desk.clock;
    g.save();
    for (const s of this.series) {
      if (!s.ends || s.to < from || s.to > to || s.at.length === 0) continue;
      const last = this.kind === "rate" ? this.lastRate(s) : valueAt(s, s.to);
      if (last === null || Number.isNaN(last)) continue;
      const [x, y] = [u.valToPos(s.to, "x", true), u.valToPos(last, "y", true)];
      g.strokeStyle = s.stroke;
      g.lineWidth = 2 * px;
      g.beginPath();
      g.moveTo(x, y - 5 * px);
      g.lineTo(x, y + 5 * px);
      g.stroke();
    }
    g.restore();
  }
  private lastRate(s: Series): number | null {
    const i = lower(s.at, s.to) - 1;
    return i < 0 ? null : s.value[i];
  }

  // ---- the key below the plot, and the moment ------------------------------------------------------------------------

  private keys(): void {
    const { ink } = this.desk;
    const mark = (stroke: string, dash?: number[]) =>
      `<svg viewBox="0 0 28 14" width="28" height="14" aria-hidden="true"><path d="M1 7h26" fill="none" stroke="${stroke}" stroke-width="2" stroke-dasharray="${dash?.join(" ") ?? ""}"/></svg>`;
    const rows =
      this.kind === "sequence"
        ? sequenceKey(ink).map(({ label, svg: look }) => `<li><svg viewBox="0 0 28 14" width="28" height="14" aria-hidden="true">${look}</svg>${label}</li>`)
        : this.series.map((s) => `<li>${mark(s.stroke, s.dash)}${s.label} <span></span></li>`);
    if (this.series.some((s) => s.ends)) {
      rows.push(`<li><svg viewBox="0 0 28 14" width="28" height="14" aria-hidden="true"><path d="M2 7h20m0 -5v10" fill="none" stroke="${ink.text}" stroke-width="2"/></svg>the flow is over</li>`);
    }
    // Values in the key are those of the moment.
    if (rows.length > 0 && this.kind !== "sequence") rows.unshift(`<li class="now">at <time></time></li>`);
    const html = rows.length === 0 ? "<li>no flow reports it</li>" : rows.join("");
    if (this.key.dataset.made !== html) {
      this.key.dataset.made = html;
      this.key.innerHTML = html;
      this.values = [...this.key.querySelectorAll<HTMLElement>("li > span")];
      this.now = this.key.querySelector("time");
    }
  }
  /** The values at a moment, in the key. */
  private tell(t: number): void {
    if (this.kind === "sequence") return;
    const { from, to } = this.desk.clock;
    if (this.now) this.now.textContent = moment(t, to - from);
    this.values.forEach((cell, i) => {
      const s = this.series[i];
      if (!s) return;
      let v = valueAt(s, t);
      if (v !== null && this.kind === "rate") v = s.value[Math.max(0, Math.min(s.value.length - 1, Math.round((t - s.at[0]) / (s.at[1] - s.at[0]))))];
      const text = v === null || Number.isNaN(v) ? "–" : quantity(Math.abs(v) < UNLIMITED ? v : Infinity, this.unit);
      if (cell.textContent !== text) cell.textContent = text;
    });
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
    const { t, from, to } = this.desk.clock;
    line.hidden = t < from || t > to;
    line.style.transform = `translateX(${u.valToPos(t, "x")}px)`;
    this.tell(t);
  }

  // ---- keys ----------------------------------------------------------------------------------------------------------

  private walk(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey || e.altKey || this.kind === "sequence") return;
    const curves = this.series.map((_, i) => i).filter((i) => (this.data[i + 1] ?? []).some((v) => v !== null));
    if (curves.length === 0) return;
    const points = (curve: number) => this.data[0].map((_, i) => i).filter((i) => this.data[curve + 1][i] !== null);
    const at = this.picked && curves.includes(this.picked.series) ? this.picked : null;
    const nearest = (curve: number, t: number) => points(curve).reduce((best, i) => (Math.abs(this.data[0][i]! - t) < Math.abs(this.data[0][best]! - t) ? i : best));
    const step = (by: number) => {
      if (!at) return { series: curves[0], point: nearest(curves[0], this.desk.clock.t) };
      const list = points(at.series);
      const i = Math.max(0, Math.min(list.length - 1, list.indexOf(at.point) + by));
      return { series: at.series, point: list[i] };
    };
    const turn = (by: number) => {
      const from = at ?? step(0);
      const curve = curves[(curves.indexOf(from.series) + by + curves.length) % curves.length];
      return { series: curve, point: nearest(curve, this.data[0][from.point]!) };
    };
    const moves: Record<string, () => { series: number; point: number } | null> = {
      ArrowRight: () => step(e.shiftKey ? 10 : 1),
      ArrowLeft: () => step(e.shiftKey ? -10 : -1),
      ArrowDown: () => turn(1),
      ArrowUp: () => turn(-1),
      Escape: () => null,
    };
    if (!moves[e.key]) return;
    e.preventDefault();
    e.stopPropagation();
    this.mark(moves[e.key]());
  }
  private mark(to: { series: number; point: number } | null): void {
    this.picked = to;
    const u = this.plot!;
    let dot = u.over.querySelector<HTMLElement>(".dot");
    if (!to) {
      dot?.remove();
      if (this.said.textContent) this.said.textContent = "";
      return;
    }
    if (!dot) {
      dot = Object.assign(document.createElement("div"), { className: "dot" });
      u.over.append(dot);
    }
    const [t, v] = [this.data[0][to.point]!, this.data[to.series + 1][to.point]!];
    dot.style.transform = `translate(${u.valToPos(t, "x")}px, ${u.valToPos(v, "y")}px)`;
    const { from, to: end } = this.desk.clock;
    this.said.textContent = `${this.series[to.series].label}: ${quantity(v, this.unit)} at ${moment(t, end - from)}`;
  }

  // ---- files ---------------------------------------------------------------------------------------------------------

  private tcptrace(u: uPlot): void {
    const g = u.ctx;
    const px = devicePixelRatio;
    const { left, top, width, height } = u.bbox;
    const { from, to } = this.desk.clock;
    g.save();
    g.beginPath();
    g.rect(left, top, width, height);
    g.clip();
    const [X, Y] = [(t: number) => u.valToPos(t, "x", true), (v: number) => u.valToPos(v, "y", true)];
    for (const s of this.sequence.strokes(() => new Path2D(), this.log, this.shown.flow, this.desk.ink, [from, to], X, Y, [top, top + height], px)) {
      g.strokeStyle = s.stroke;
      g.lineWidth = s.width * px;
      g.setLineDash((s.dash ?? []).map((v) => v * px));
      g.stroke(s.path);
    }
    g.restore();
  }
  /** The numbers in the window: as recorded, held to the ends of their curves; NaN where nothing is recorded. */
  private panel(): PanelData {
    const { from, to } = this.desk.clock;
    const cut = (s: Series): SeriesData => {
      // Rates are of bins of the whole window, which say themselves where nothing is recorded.
      const bins = !s.steps && s.ends === undefined;
      const [start, end] = bins ? [from, to] : [Math.max(from, s.from), Math.min(to, s.to)];
      const [first, last] = [lower(s.at, start), lower(s.at, end)];
      const x: (number | null)[] = Array.prototype.slice.call(s.at, first, last);
      const y: (number | null)[] = Array.prototype.slice.call(s.value, first, last);
      if (s.steps && end >= start) {
        const [before, after] = [valueAt(s, start), valueAt(s, end)];
        if (before !== null && x[0] !== start) (x.unshift(start), y.unshift(before));
        if (after !== null) (x.push(end), y.push(after));
        if (!s.level && s.from > from && s.from === this.log.from) (x.unshift(from, s.from), y.unshift(NaN, NaN));
        if (!s.level && s.to < to && !s.ends) (x.push(s.to, to), y.push(NaN, NaN));
      }
      return { label: s.label, colour: s.stroke, width: 1.5, dash: s.dash?.map((v) => v / PX), steps: s.steps ? "post" : undefined, x, y };
    };
    const axis = { scale: "linear" as const, limits: [from, to] as [number, number] };
    return {
      box: [0, 0, 1, 1],
      title: this.title(),
      x: { ...axis, label: "time (s)" },
      y: { ...axis, label: "" },
      series: this.kind === "sequence" ? this.sequence.series(this.log, this.shown.flow, this.desk.ink, from, to) : this.series.map(cut),
      levels: [],
      areas: [],
      texts: [],
    };
  }
  /** The numbers in the units of their declaration, not in those of the axis. */
  csv(): string {
    return csv([{ ...this.panel(), title: [...this.words(), this.unit].filter(Boolean).join(", ") }]);
  }
  svg(): string {
    const u = this.plot!;
    const { text, ground, line } = this.desk.ink;
    const paper: Paper = { ink: text, ground };
    const panel = this.panel();
    const { from, to } = this.desk.clock;
    const [X, Y] = [(t: number) => u.valToPos(t, "x"), (v: number) => u.valToPos(v, "y")];
    const height = u.bbox.height / devicePixelRatio;
    const empty = this.unknown().map(([a, b]) => ({ d: hatched(HATCH, X(a), 0, X(b) - X(a), height), stroke: line, width: 1.2 }));
    const known = (s: SeriesData): SeriesData => ({ ...s, y: s.y.map((v) => (v === null || Number.isNaN(v) ? null : v)) });
    const shapes =
      this.kind === "sequence"
        ? this.sequence.strokes(() => new Trail(), this.log, this.shown.flow, this.desk.ink, [from, to], X, Y, [0, height], 1).map(({ path, ...look }) => ({ ...look, d: path.d }))
        : panel.series.flatMap((s) => seriesShapes(known(s), X, Y, paper));
    return svg({
      width: u.width,
      height: u.height + 30,
      title: "",
      parts: [{ left: 0, top: 24, plot: u, title: panel.title, shapes: [...empty, ...shapes], texts: [], labels: ["", ""] }],
      texts: [],
      legend: this.kind === "sequence" || panel.series.length < 2 ? [] : panel.series,
      paper,
      colour: (s) => s.colour,
    });
  }
  /** The name of the file of what is shown. */
  fileName(): string {
    return this.title().replace(/[^\p{L}\p{N}]+/gu, "-");
  }
  /** For tests: the columns that are drawn, and the axis. */
  state(): { data: (number | null)[][]; unknown: [number, number][]; scale: [number, number]; labels: string[]; ends: number } {
    const { min, max } = this.plot!.scales.y;
    return { data: this.data, unknown: this.unknown(), scale: [min!, max!], labels: this.series.map((s) => s.label), ends: this.series.filter((s) => s.ends).length };
  }
}
