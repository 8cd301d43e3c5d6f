// Figures of a report: a plot takes the place of each printed one, with the same numbers. Zoom, values under the pointer or by keys,
// curves to hide, SVG, PNG and CSV of what is shown. Without scripts, and in print, the printed figure stays.
import uPlot from "uplot";
import plotStyle from "uplot/dist/uPlot.min.css";
import style from "./figures.css";
import { csv, downloads, svg, swatch, type Part, type TextMark, type Whole } from "./download";
import { short } from "./format";
import { groundShapes, onPaper, PX, seriesShapes, type AxisData, type FigureData, type PanelData, type Paper, type SeriesData, type Shape } from "./shapes";

// Below this many pixels panels stand one below the other.
const NARROW = 520;
const LEAST_HEIGHT = 170;
// Another line of a text below the axis.
const LINE = 18;
// The pointer takes a point within so many pixels.
const REACH = 36;
type Range = [number, number];
const DISTR = { linear: 1, log: 3, symlog: 4 } as const;

class Panel {
  readonly box = document.createElement("div");
  plot!: uPlot;
  private readonly dot = document.createElement("div");
  private chosen: { series: number; point: number } | null = null;

  constructor(
    private readonly owner: FigurePlot,
    readonly data: PanelData,
  ) {
    this.box.className = "pf-panel";
    // Where panels stand side by side one without a title has its room, so that what belongs to one row of words is at one height.
    if (data.title || owner.titled) this.box.append(Object.assign(document.createElement("h4"), { textContent: data.title || "\u00a0" }));
    this.dot.className = "pf-dot";
    this.dot.hidden = true;
  }
  build(width: number, height: number): void {
    this.plot?.destroy();
    const { data } = this;
    const paper = this.owner.paper;
    const [x, y] = [data.x, data.y];
    const scale = (axis: AxisData): uPlot.Scale => ({
      time: false,
      auto: false,
      distr: DISTR[axis.scale],
      asinh: axis.linear_to ?? 1,
      range: (_, low, high) => [low, high],
    });
    const look = { stroke: paper.ink, grid: { stroke: `color-mix(in srgb, ${paper.ink} 15%, transparent)`, width: 1 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
    const ticks = (axis: AxisData, room: number): Partial<uPlot.Axis> => {
      if (axis.ticks) {
        const words = new Map(axis.ticks.map(([at, text]) => [at, broken(text, room)]));
        return { splits: () => [...words.keys()], values: (_, at) => at.map((v) => words.get(v) ?? ""), filter: (_, at) => at };
      }
      if (axis.scale === "log") return { splits: (u, k) => decades(u.scales[k === 0 ? "x" : "y"]), filter: (_, at) => at, values: (_, at) => labelled(at) };
      return {
        values: (_, at) =>
          axis.scale === "symlog" && at.length > 9
            ? at.map((v) => (v === null || (v !== 0 && lead(Math.abs(v)) !== 1) ? "" : short(v)))
            : at.map((v) => (v === null ? null : short(v)) as string),
        // uPlot offers places beyond the ends of such an axis.
        ...(axis.scale === "symlog" && {
          filter: (u: uPlot, at: number[], k: number) => {
            const { min, max } = u.scales[k === 0 ? "x" : "y"];
            return at.map((v) => (v >= min! && v <= max! ? v : null));
          },
        }),
      };
    };
    const room = besides(width);
    const longest = Math.max(0, ...(y.ticks ?? []).flatMap(([, text]) => broken(text, room).split("\n").map(wide)));
    const side = y.ticks ? Math.min(14 + longest, width * 0.55) : 48;
    this.plot = new uPlot(
      {
        width,
        height,
        legend: { show: false },
        scales: { x: scale(x), y: scale(y) },
        cursor: { drag: { x: true, y: true, uni: 24, setScale: false }, points: { show: false }, y: true },
        axes: [
          { ...look, ...ticks(x, Infinity), label: x.label || undefined, labelSize: x.label ? 18 : 0, labelGap: 0, size: 28 + LINE * (deepest(x) - 1), space: 46 },
          { ...look, ...ticks(y, room), label: y.label || undefined, labelSize: y.label ? 18 : 0, labelGap: 0, size: side, space: 26 },
        ],
        padding: [6, 10, 0, 0],
        series: [{}, { show: true, stroke: "transparent", points: { show: false } }],
        hooks: {
          draw: [(u) => this.paint(u)],
          setSelect: [
            (u) => {
              const { left, top, width: w, height: h } = u.select;
              if (w < 4 && h < 4) return;
              this.view(w < 4 ? null : [u.posToVal(left, "x"), u.posToVal(left + w, "x")], h < 4 || h >= u.over.clientHeight - 1 ? null : [u.posToVal(top + h, "y"), u.posToVal(top, "y")]);
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
        },
      },
      [[...x.limits], [...y.limits]],
      this.box,
    );
    const { over } = this.plot;
    over.tabIndex = 0;
    over.setAttribute("role", "group");
    over.setAttribute("aria-label", `${data.title || data.y.label || "plot"}: arrow keys go through points and curves, plus and minus zoom, 0 shows all`);
    over.append(this.dot);
    over.addEventListener("pointermove", (e) => this.point(e.offsetX, e.offsetY));
    over.addEventListener("pointerleave", () => this.choose(null));
    over.addEventListener("dblclick", () => this.view(x.limits, y.limits));
    over.addEventListener("keydown", (e) => this.key(e));
    this.view(this.shownX ?? x.limits, this.shownY ?? y.limits);
  }
  private shownX: Range | null = null;
  private shownY: Range | null = null;
  get zoomed(): boolean {
    return this.shownX !== null || this.shownY !== null;
  }
  /** Shows these ranges; null leaves one as it is. */
  view(xs: Range | null, ys: Range | null): void {
    const same = (a: Range, b: Range) => a[0] === b[0] && a[1] === b[1];
    if (xs) this.shownX = same(xs, this.data.x.limits) ? null : xs;
    if (ys) this.shownY = same(ys, this.data.y.limits) ? null : ys;
    const [x, y] = [this.shownX ?? this.data.x.limits, this.shownY ?? this.data.y.limits];
    // An axis may run downwards; uPlot's direction does that.
    this.plot.batch(() => {
      this.plot.scales.y.dir = y[0] > y[1] ? -1 : 1;
      this.plot.scales.x.dir = x[0] > x[1] ? -1 : 1;
      this.plot.setScale("x", { min: Math.min(...x), max: Math.max(...x) });
      this.plot.setScale("y", { min: Math.min(...y), max: Math.max(...y) });
    });
    this.choose(null);
    this.owner.changed();
  }
  all(): void {
    this.view(this.data.x.limits, this.data.y.limits);
  }
  private zoom(factor: number): void {
    const part = (axis: AxisData, shown: Range | null): Range => {
      const [a, b] = shown ?? axis.limits;
      if (axis.scale === "log") {
        const [middle, half] = [Math.sqrt(a * b), Math.sqrt(b / a) ** factor];
        return [middle / half, middle * half];
      }
      const half = ((b - a) / 2) * factor;
      return [(a + b) / 2 - half, (a + b) / 2 + half];
    };
    this.view(part(this.data.x, this.shownX), part(this.data.y, this.shownY));
  }

  // ---- drawing ---------------------------------------------------------------------------------------------------

  shapes(): Shape[] {
    const u = this.plot;
    const [X, Y] = [(v: number) => u.valToPos(v, "x"), (v: number) => u.valToPos(v, "y")];
    const px = devicePixelRatio;
    const ground = groundShapes(this.data, X, Y, u.bbox.width / px, u.bbox.height / px, this.owner.paper);
    return [...ground, ...this.data.series.filter((s) => this.owner.shows(s)).flatMap((s) => seriesShapes(s, X, Y, this.owner.paper))];
  }
  texts(): TextMark[] {
    const u = this.plot;
    const px = devicePixelRatio;
    return this.data.texts.map((t) => ({
      text: t.text,
      x: (t.fixed ? (t.x * u.bbox.width) / px : u.valToPos(t.x, "x")) + t.by[0] * PX,
      y: (t.fixed ? ((1 - t.y) * u.bbox.height) / px : u.valToPos(t.y, "y")) - t.by[1] * PX + 4,
      align: t.align,
      size: Math.round(t.size * 1.25),
      turned: t.turned,
      colour: onPaper(t.colour, this.owner.paper),
    }));
  }
  private paint(u: uPlot): void {
    const g = u.ctx;
    const px = devicePixelRatio;
    g.save();
    g.beginPath();
    g.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    g.clip();
    g.translate(u.bbox.left, u.bbox.top);
    g.scale(px, px);
    for (const s of this.shapes()) {
      const path = new Path2D(s.d);
      g.globalAlpha = s.opacity ?? 1;
      if (s.fill) {
        g.fillStyle = s.fill;
        g.fill(path);
      }
      if (s.stroke) {
        g.strokeStyle = s.stroke;
        g.lineWidth = s.width ?? 1;
        g.setLineDash(s.dash ?? []);
        g.stroke(path);
      }
    }
    g.globalAlpha = 1;
    for (const t of this.texts()) {
      g.save();
      g.fillStyle = t.colour ?? this.owner.paper.ink;
      g.font = `${t.size ?? 12}px system-ui, sans-serif`;
      g.textAlign = t.align ?? "left";
      g.translate(t.x, t.y);
      if (t.turned) g.rotate(-Math.PI / 2);
      t.text.split("\n").forEach((line, i) => g.fillText(line, 0, 14 * i));
      g.restore();
    }
    g.restore();
  }

  // ---- values ----------------------------------------------------------------------------------------------------

  private point(x: number, y: number): void {
    let best: { series: number; point: number } | null = null;
    let least = REACH;
    this.data.series.forEach((s, series) => {
      if (!this.owner.shows(s)) return;
      for (let i = 0; i < s.x.length; i++) {
        const [a, b] = [s.x[i], s.y[i]];
        if (a === null || b === null) continue;
        const far = Math.hypot(this.plot.valToPos(a, "x") - x, this.plot.valToPos(b, "y") - y);
        if (far < least) [least, best] = [far, { series, point: i }];
      }
    });
    this.choose(best);
  }
  /** Marks a point and says its values. */
  private choose(at: { series: number; point: number } | null): void {
    this.chosen = at;
    this.dot.hidden = at === null;
    this.owner.say(at === null ? "" : this.words(at));
    if (!at) return;
    const s = this.data.series[at.series];
    this.dot.style.left = `${this.plot.valToPos(s.x[at.point]!, "x")}px`;
    this.dot.style.top = `${this.plot.valToPos(s.y[at.point]!, "y")}px`;
  }
  private words(at: { series: number; point: number }): string {
    const s = this.data.series[at.series];
    const value = (axis: AxisData, v: number, low?: (number | null)[], high?: (number | null)[]) => {
      const name = axis.label || (axis === this.data.x ? "x" : "y");
      const tick = axis.ticks?.find(([t]) => t === v)?.[1];
      const [a, b] = [low?.[at.point] ?? null, high?.[at.point] ?? null];
      const interval = a === null || b === null ? "" : ` (${short(a)} to ${short(b)})`;
      return `${name} ${tick ?? short(v)}${interval}`;
    };
    return `${s.label}: ${value(this.data.x, s.x[at.point]!, s.x_low, s.x_high)}, ${value(this.data.y, s.y[at.point]!, s.y_low, s.y_high)}`;
  }
  private key(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const walk = (points: number, series: number) => {
      const shown = this.data.series.map((s, i) => [s, i] as const).filter(([s]) => this.owner.shows(s) && s.x.some((v) => v !== null));
      if (shown.length === 0) return;
      const old = this.chosen;
      let row = old ? shown.findIndex(([, i]) => i === old.series) : 0;
      row = (Math.max(0, row) + (old ? series : 0) + shown.length) % shown.length;
      const [s, i] = shown[row];
      let k = old ? old.point + points : 0;
      k = Math.max(0, Math.min(s.x.length - 1, k));
      while (k > 0 && (s.x[k] === null || s.y[k] === null)) k--;
      if (s.x[k] !== null && s.y[k] !== null) this.choose({ series: i, point: k });
    };
    const keys: Record<string, () => void> = {
      ArrowRight: () => walk(1, 0),
      ArrowLeft: () => walk(-1, 0),
      ArrowDown: () => walk(0, 1),
      ArrowUp: () => walk(0, -1),
      "+": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      "0": () => this.all(),
    };
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  }
}

class FigurePlot {
  readonly box = document.createElement("div");
  readonly titled: boolean;
  paper!: Paper;
  private readonly panels: Panel[];
  private readonly grid = document.createElement("div");
  private readonly said = document.createElement("output");
  private readonly whole: HTMLButtonElement;
  private readonly hidden = new Set<string>();
  private legend: SeriesData[];
  private width = 0;

  constructor(
    printed: Element,
    private readonly data: FigureData,
    name: string,
  ) {
    this.box.className = "pf";
    this.box.setAttribute("role", "group");
    this.box.setAttribute("aria-label", printed.getAttribute("aria-label") ?? printed.getAttribute("alt") ?? name);
    if (data.title) this.box.append(Object.assign(document.createElement("p"), { className: "pf-title", textContent: data.title }));
    this.grid.className = "pf-panels";
    this.box.append(this.grid);
    // Panels that share their labels have them each: one may be looked at alone.
    for (const panel of data.panels) {
      panel.x.label ||= data.x;
      panel.y.label ||= data.y;
    }
    this.titled = data.panels.some((panel) => panel.title);
    this.panels = data.panels.map((panel) => new Panel(this, panel));
    this.grid.append(...this.panels.map((p) => p.box));
    const labels = new Map<string, SeriesData>();
    for (const s of data.panels.flatMap((p) => p.series)) if (!s.unnamed && !labels.has(s.label)) labels.set(s.label, s);
    this.legend = [...labels.values()];
    const tools = Object.assign(document.createElement("div"), { className: "pf-tools" });
    this.whole = Object.assign(document.createElement("button"), { type: "button", textContent: "Whole", title: "Undo the zoom" });
    this.whole.addEventListener("click", () => this.panels.forEach((p) => p.all()));
    tools.append(this.whole, ...downloads(() => name, () => this.svg(), () => this.csv()));
    this.said.className = "pf-said";
    this.said.setAttribute("aria-live", "polite");
    tools.append(this.said);
    this.box.append(this.legendBox(), tools);
    printed.after(this.box);
    printed.classList.add("pf-static");
    this.fit();
    new ResizeObserver(() => this.fit()).observe(this.box);
  }
  private readonly keys: [HTMLButtonElement, SeriesData][] = [];
  private legendBox(): HTMLElement {
    const list = Object.assign(document.createElement("div"), { className: "pf-legend" });
    list.setAttribute("role", "group");
    list.setAttribute("aria-label", "Curves");
    if (this.legend.length < 2) return list;
    for (const series of this.legend) {
      const key = Object.assign(document.createElement("button"), { type: "button" });
      key.setAttribute("aria-pressed", "true");
      key.append(document.createElement("span"), series.label);
      key.addEventListener("click", () => {
        const off = this.hidden.has(series.label);
        off ? this.hidden.delete(series.label) : this.hidden.add(series.label);
        key.setAttribute("aria-pressed", String(off));
        this.panels.forEach((p) => p.plot.redraw(false));
      });
      this.keys.push([key, series]);
      list.append(key);
    }
    return list;
  }
  shows(series: SeriesData): boolean {
    return !this.hidden.has(series.label);
  }
  say(text: string): void {
    this.said.textContent = text;
  }
  changed(): void {
    this.whole.disabled = !this.panels.some((p) => p.zoomed);
  }
  /** Rows of panels as the printed figure has them. */
  private rows(): Panel[][] {
    const rows: Panel[][] = [];
    for (const panel of [...this.panels].sort((a, b) => b.data.box[1] - a.data.box[1] || a.data.box[0] - b.data.box[0])) {
      const last = rows[rows.length - 1];
      const middle = (p: Panel) => p.data.box[1] + p.data.box[3] / 2;
      if (last && Math.abs(middle(last[0]) - middle(panel)) < last[0].data.box[3] / 2) last.push(panel);
      else rows.push([panel]);
    }
    rows.forEach((row) => row.sort((a, b) => a.data.box[0] - b.data.box[0]));
    return rows;
  }
  /** Lays the panels out anew where the width or the colours of the page have changed. */
  fit(again = false): void {
    this.box.style.maxWidth = `${Math.max(this.data.width, 360)}px`;
    const width = this.box.clientWidth;
    if (width < 100 || (width === this.width && !again)) return;
    this.width = width;
    this.paper = paperOf(this.box);
    const rows = this.rows();
    const columns = width < NARROW ? 1 : Math.max(...rows.map((r) => r.length));
    this.grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    const each = Math.floor((width - 12 * (columns - 1)) / columns);
    for (const row of rows) {
      // A row of fewer panels than the others has wider ones.
      const span = columns === 1 ? 1 : Math.max(1, Math.floor(columns / row.length));
      const across = each * span + 12 * (span - 1);
      const height = (panel: Panel): number => {
        const [, , w, h] = panel.data.box;
        const printed = (h * this.data.height) / (w * this.data.width);
        // Words at an axis need a row each, those that are broken two.
        const words = panel.data.y.ticks ?? [];
        const least = words.length * (words.some(([, text]) => broken(text, besides(across)).includes("\n")) ? 32 : 20) + 60;
        const shape = Math.min(460, across * Math.min(printed, 1.1) * 0.92 + 50);
        return Math.round(Math.max(LEAST_HEIGHT, words.length ? Math.min(900, Math.max(least, shape)) : shape));
      };
      const highest = Math.max(...row.map(height));
      for (const panel of row) {
        panel.box.style.gridColumn = `span ${span}`;
        panel.build(across, columns === 1 ? height(panel) : highest);
      }
    }
    // In order of reading.
    this.grid.append(...rows.flat().map((p) => p.box));
    for (const [key, series] of this.keys) {
      const look = swatch(series, 0, 7, onPaper(series.colour, this.paper), this.paper);
      key.firstElementChild!.innerHTML = `<svg viewBox="0 0 28 14" aria-hidden="true">${look}</svg>`;
    }
    this.changed();
  }
  /** What is shown as a document of its own. */
  svg(): string {
    const frame = this.grid.getBoundingClientRect();
    const top = this.data.title ? 28 : 8;
    const parts: Part[] = this.panels.map((p) => {
      const at = p.plot.root.getBoundingClientRect();
      return { left: at.left - frame.left, top: at.top - frame.top + top, plot: p.plot, title: p.data.title, shapes: p.shapes(), texts: p.texts(), labels: [p.data.x.label, p.data.y.label] };
    });
    const whole: Whole = {
      width: Math.round(frame.width),
      height: Math.round(frame.height + top),
      title: this.data.title,
      parts,
      texts: this.data.title ? [{ x: 8, y: 18, text: this.data.title, bold: true, size: 14 }] : [],
      legend: this.legend.length > 1 ? this.legend.filter((s) => this.shows(s)) : [],
      paper: this.paper,
      colour: (s) => onPaper(s.colour, this.paper),
    };
    return svg(whole);
  }
  csv(): string {
    return csv(this.data.panels);
  }
}

const pen = document.createElement("canvas").getContext("2d")!;
/** How many lines the texts below an axis have at most. */
function deepest(axis: AxisData): number {
  return Math.max(1, ...(axis.ticks ?? []).map(([, text]) => text.split("\n").length));
}
function wide(text: string): number {
  pen.font = "12px system-ui, sans-serif";
  return pen.measureText(text).width;
}
/** What words beside a panel of a width may take. */
const besides = (width: number) => width * 0.4;
/** A text of an axis in two lines where one has no room. */
function broken(text: string, room: number): string {
  return wide(text) > room ? text.replace(/, /, ",\n") : text;
}
/** Places on a log axis: 1 to 9 times the powers of ten; of less than a decade, whole steps. */
function decades({ min, max }: uPlot.Scale): number[] {
  if (!(min! > 0)) return [];
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(min!)); power <= Math.log10(max!); power++) {
    for (let k = 1; k < 10; k++) found.push(+(k * 10 ** power).toPrecision(12));
  }
  const inside = (list: number[]) => list.filter((v) => v >= min! * (1 - 1e-9) && v <= max! * (1 + 1e-9));
  if (inside(found).length >= 3) return inside(found);
  const step = 10 ** Math.floor(Math.log10((max! - min!) / 2));
  const first = Math.ceil(min! / step);
  return inside(Array.from({ length: Math.floor(max! / step) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12)));
}
/** The first digit. */
const lead = (v: number) => Math.round(v / 10 ** Math.floor(Math.log10(v) + 1e-9));
/** Their texts: all where there are few, the powers of ten where there are many, 2 and 5 times them between. */
function labelled(at: number[]): string[] {
  const wanted = at.length <= 9 ? null : at.filter((v) => lead(v) === 1).length >= 3 ? [1] : [1, 2, 5];
  return at.map((v) => (wanted === null || wanted.includes(lead(v)) ? short(v) : ""));
}

/** Ink and ground of the page round an element. */
function paperOf(element: Element): Paper {
  const ink = getComputedStyle(element).color;
  let ground = "rgb(255, 255, 255)";
  for (let at: Element | null = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (colour !== "transparent" && !/,\s*0\)$/.test(colour)) {
      ground = colour;
      break;
    }
  }
  return { ink, ground };
}

async function main(): Promise<void> {
  const data = document.getElementById("penstock-figures");
  if (!data) return;
  const made = new Map<string, FigurePlot>();
  (globalThis as Record<string, unknown>).penstockFigures = made;
  document.head.append(Object.assign(document.createElement("style"), { textContent: plotStyle + style }));
  const packed = Uint8Array.from(atob(data.textContent!), (letter) => letter.charCodeAt(0));
  const series = new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")));
  const figures = (await series.json()) as Record<string, FigureData & { name: string }>;
  const draw = (printed: Element) => {
    const key = printed.getAttribute("data-figure")!;
    const of = figures[key];
    if (of && !made.has(key)) made.set(key, new FigurePlot(printed, of, of.name));
  };
  // A page of a hundred figures draws those that are near.
  const near = new IntersectionObserver(
    (seen) => {
      for (const one of seen) {
        if (!one.isIntersecting) continue;
        near.unobserve(one.target);
        draw(one.target);
      }
    },
    { rootMargin: "500px" },
  );
  document.querySelectorAll("[data-figure]").forEach((printed) => near.observe(printed));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => made.forEach((plot) => plot.fit(true)));
}
void main();
