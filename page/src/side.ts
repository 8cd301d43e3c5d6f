// One run on the page: its network, its curves, and how it is made again.
import type { Values } from "./controls";
import { downloads } from "./download";
import { Picture, type Hit } from "./draw";
import type { Log } from "./log";
import { short } from "./format";
import { Chart, type Desk } from "./plots";
import { Runner } from "./runner";
import type { PlotKind, Shown } from "./series";
import { MOST_BYTES, type Given } from "./state";

/** What a side tells the page. */
export interface Owner extends Desk {
  readonly given: Given;
  recordFrom: number;
  running(): void;
  complain(line: string): void;
  took(side: Side): void;
  results(): void;
  refresh(): void;
  hover(side: Side, event: PointerEvent | null): void;
  click(side: Side, event: MouseEvent): void;
}
/** A run made again shows what is there after so long, in ms; until then the last one stays on the screen. */
const PATIENCE = 300;

export class Side {
  log: Log | null = null;
  picture: Picture | null = null;
  charts: Chart[] = [];
  edits: Values = {};
  /** Values of the run that is under way. */
  wanted: Values = {};
  readonly box: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  private readonly plots: HTMLElement;
  readonly status: HTMLElement;
  private readonly bar: HTMLProgressElement;
  private readonly cancel: HTMLButtonElement;
  readonly runner: Runner | null;

  constructor(
    readonly name: "A" | "B",
    engine: WebAssembly.Module | null,
    private readonly app: Owner,
  ) {
    this.box = document.getElementById(`side-${name.toLowerCase()}`)!;
    this.canvas = this.box.querySelector("canvas")!;
    this.plots = this.box.querySelector(".plots")!;
    this.status = this.box.querySelector(".status")!;
    this.bar = this.box.querySelector("progress")!;
    this.cancel = this.box.querySelector(".cancel")!;
    this.runner = engine ? new Runner(engine) : null;
    this.cancel.addEventListener("click", () => {
      this.stop();
      this.status.textContent = "cancelled; what had been recorded is shown";
    });
    this.canvas.addEventListener("pointermove", (e) => app.hover(this, e));
    this.canvas.addEventListener("pointerleave", () => app.hover(this, null));
    this.canvas.addEventListener("blur", () => app.hover(this, null));
    this.canvas.addEventListener("click", (e) => app.click(this, e));
  }
  get open(): boolean {
    return !this.box.hidden;
  }
  get busy(): boolean {
    return this.runner?.busy ?? false;
  }
  stop(): void {
    this.runner?.cancel();
    this.show(false);
    this.app.running();
  }
  private show(busy: boolean): void {
    this.bar.hidden = !busy;
    this.cancel.hidden = !busy;
  }
  run(edits: Values, seed: number, after: () => void = () => undefined): void {
    if (!this.runner) return;
    const { given, recordFrom } = this.app;
    const text = JSON.stringify({
      ...given.document,
      set: { ...given.document.set, ...edits },
      seed,
      record: { from_s: recordFrom, most_bytes: MOST_BYTES },
    });
    this.app.complain("");
    this.wanted = edits;
    const begun = performance.now();
    // The last run stays until the new one is there: dragging a slider does not flicker.
    let waiting: Log | null = null;
    const take = () => {
      if (!waiting) return;
      this.edits = edits;
      this.take(waiting);
      waiting = null;
    };
    this.box.hidden = false;
    this.runner.start(text, recordFrom, {
      head: (log) => {
        waiting = log;
        if (!this.log?.result) take();
      },
      progress: (share) => {
        if (performance.now() - begun > PATIENCE) {
          this.show(true);
          this.status.textContent = "running";
          this.bar.value = share;
          take();
        }
        this.app.refresh();
      },
      done: (busy) => {
        take();
        this.show(false);
        const result = this.log!.result!;
        const rate = result.packet_hops / Math.max(busy, 1e-9);
        this.status.textContent = `${short(result.packet_hops)} packet-hops simulated in ${busy.toFixed(2)} s`;
        this.box.dataset.rate = String(rate);
        this.app.running();
        this.app.results();
        after();
      },
      error: (line) => {
        this.show(false);
        this.status.textContent = this.log ? "did not run; the last run is shown" : "did not run";
        if (!this.log) this.box.hidden = true;
        this.app.running();
        this.app.complain(line);
      },
    });
    this.app.running();
  }
  take(log: Log): void {
    this.log = log;
    this.picture = new Picture(this.canvas, log);
    this.box.hidden = false;
    this.app.took(this);
  }
  /** The charts of this run for these kinds; those that are there stay. */
  chart(kinds: PlotKind[]): void {
    if (this.charts.map((c) => c.kind).join() === kinds.join()) return;
    this.charts = kinds.map((kind) => {
      const found = this.charts.find((c) => c.kind === kind);
      if (found) return found;
      const chart = new Chart(kind, this.app);
      const head = Object.assign(document.createElement("div"), { className: "figure-head" });
      head.append(chart.caption, ...downloads(() => chart.fileName(), () => chart.svg(), () => chart.csv()));
      chart.box.prepend(head);
      return chart;
    });
    this.plots.replaceChildren(...this.charts.map((c) => c.box));
  }
  get width(): number {
    return Math.max(220, this.canvas.clientWidth);
  }
  prepare(shown: Shown): [number, number][] {
    return this.charts.map((chart) => chart.prepare(this.log!, shown, this.width));
  }
  paint(extents: [number, number][]): void {
    this.charts.forEach((chart, i) => chart.paint(extents[i], this.width));
  }
  hit(event: PointerEvent | MouseEvent): Hit | null {
    return this.picture?.hit(event.offsetX, event.offsetY) ?? null;
  }
}
