// The page: one or two runs on one clock, the story, the controls of the scenario, and what is selected.
import "uplot/dist/uPlot.min.css";
import "./page.css";
import { Controls, type Values } from "./controls";
import type { Hit, Ink, Selection } from "./draw";
import { moment, quantity, seconds } from "./format";
import { legend } from "./legend";
import { readFile, type Log, type Result } from "./log";
import { listed, type Clock, type Units } from "./plots";
import * as results from "./results";
import { embeddedEngine } from "./runner";
import { MOST_FLOWS, portName, tellingValues, type PlotKind, type Shown } from "./series";
import { Side, type Owner } from "./side";
import { Sliders } from "./sliders";
import { SPEEDS, inks, interesting, readLink, type Given, type Link } from "./state";
import { Teller, type Stage, type Step } from "./story";
import { embedded } from "./unpack";
import * as words from "./words";

const $ = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const same = (a: Values, b: Values) => JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());
/** Chips to choose flows by; more flows have a number to type. */
const MOST_CHIPS = 64;

class App implements Owner, Stage {
  clock: Clock = { t: 0, from: 0, to: 1 };
  selected: Selection = { port: -1, flow: -1 };
  ink: Ink = inks();
  recordFrom = 0;
  /** The value of flows to chart, where some run reports it. */
  private wanted = "";
  /** The curve that the story speaks of. */
  private firstCurve: NonNullable<Step["first"]> | "queue" = "queue";
  /** Flows that the reader chose to chart. */
  private flows: number[] | null = null;
  private readonly a: Side;
  private readonly b: Side;
  private readonly controls: Controls;
  private readonly sliders: Sliders;
  private readonly teller: Teller | null;
  private playing = false;
  private speed = 1e-4;
  private touched = false;
  private seed: number;
  private lastFrame = 0;
  /** What the reader waits for, and since when (ms): the browser's timeline has it once it is drawn. */
  private awaited: { name: string; since: number } | null = { name: "penstock: first picture", since: 0 };
  // For tests: frames drawn while playing, and their time.
  frames = { count: 0, seconds: 0 };

  constructor(
    readonly given: Given,
    engine: WebAssembly.Module | null,
    readonly record: ArrayBuffer | null,
  ) {
    this.seed = given.document.seed;
    this.recordFrom = given.from_s ?? 0;
    const own = JSON.stringify([given.figures, given.story]).matchAll(/goodput_bps_of_(\d+)/g);
    this.ownGoodputs = [...new Map([...own].map(([key, flow]) => [key, Number(flow)]))];
    this.a = new Side("A", engine, this);
    this.b = new Side("B", engine, this);
    this.controls = new Controls($("controls"), this.given.specs, this.given.values, this.given.controls, () => this.draft(), () => this.again(this.target));
    // Without the engine there is nothing to run again.
    this.sliders = new Sliders($("sliders"), engine ? this.given.sliders : [], (key) => this.controls.given(key), (key, value) => this.slide(key, value));
    this.sliders.show((key) => this.controls.value(key));
    this.teller = this.given.story && engine ? new Teller($("telling"), this.given.story, this) : null;
    if (!engine) $("parameters").hidden = true;
    document.body.classList.toggle("lesson", this.teller !== null);
    this.wire();
  }
  get units(): Units {
    const goodput = this.given.units.summary.goodput_bps;
    return { ...this.given.units.values, ...this.given.units.summary, ...Object.fromEntries(this.ownGoodputs.map(([key]) => [key, goodput])) };
  }
  /** Keys of the goodput of single flows that the figures and the story name, with the flow. */
  private readonly ownGoodputs: [key: string, flow: number][];
  private readonly completed = new WeakMap<Result, Result>();
  /** What a run has measured, with the goodput of these flows. */
  private resultOf(log: Log): Result | null {
    if (!log.result || this.ownGoodputs.length === 0) return log.result;
    let found = this.completed.get(log.result);
    if (!found) {
      const own = this.ownGoodputs.map(([key, flow]) => [key, log.goodputOf(flow)]);
      this.completed.set(log.result, (found = { ...log.result, summary: { ...log.result.summary, ...Object.fromEntries(own) } }));
    }
    return found;
  }

  start(): void {
    const link = readLink();
    if (this.record) {
      const log = readFile(this.record);
      this.a.take(log);
      const { recorded } = this.given;
      const part = recorded && !recorded.whole ? `${quantity(recorded.bytes, "bytes")} of a record of ${quantity(recorded.of, "bytes")}, packets from ${seconds(log.from, log.duration)} to ${seconds(log.packetsUntil, log.duration)}` : "a record";
      this.a.status.textContent = `${part}: ${quantity(log.packets, "packets")}, ${quantity(log.memory, "bytes")} in memory`;
      this.results();
      this.arrive(link);
      return;
    }
    if (this.recordFrom > 0) $<HTMLInputElement>("record-from").value = String(+(this.recordFrom * 1e3).toPrecision(9));
    const edits = link?.a ?? {};
    this.seed = link?.seed ?? this.seed;
    $<HTMLInputElement>("seed").value = String(this.seed);
    this.last = link?.last ?? "A";
    this.restore((this.last === "B" ? link?.b : null) ?? edits);
    this.a.run(edits, this.seed, () => this.arrive(link));
    if (link?.b) this.b.run(link.b, this.seed);
  }
  /** The run that the page opened with is there. */
  private arrive(link: Link | null): void {
    const log = this.a.log!;
    if (link) {
      this.touched = true;
      this.clock = { t: link.t, from: link.from, to: link.to };
      this.selected = { port: link.port, flow: link.flow };
      this.flows = link.flows ?? null;
      if (this.teller && link.step) {
        this.teller.at = link.step;
        this.teller.show();
      }
    } else if (!this.touched) {
      // Opens where the record is.
      this.clock = { t: interesting(log), from: log.from, to: Math.max(log.packetsUntil, log.from + log.duration * 1e-3) };
      this.teller?.go(0, true);
    }
    this.chooseSpeed();
    this.fill();
    this.refresh();
  }

  // ---- the story -------------------------------------------------------------------------------------------------

  result(side: "A" | "B"): Result | null {
    const found = side === "A" ? this.a : this.b;
    return found.open && !found.busy && found.log ? this.resultOf(found.log) : null;
  }
  follow(step: Step, told: boolean): void {
    this.stop();
    // A step speaks of the run as the page was made.
    if (!same(this.a.edits, {}) || (this.a.busy && !same(this.a.wanted, {}))) this.a.run({}, this.seed);
    if (step.set && told) {
      if (!this.b.open || !same(this.b.wanted, step.set)) this.b.run(step.set, this.seed);
      this.last = "B";
      this.restore(step.set);
    } else {
      if (this.b.open) this.closeB();
      this.restore({});
    }
    const log = this.a.log;
    if (!log) return;
    this.touched = true;
    document.body.classList.toggle("begun", this.teller !== null && this.teller.at > 0);
    this.wanted = step.value ?? "";
    this.firstCurve = step.first ?? "queue";
    if (step.port) {
      const port = log.head.links.findIndex((_, i) => portName(log, i) === step.port);
      if (port >= 0) this.selected.port = port;
    } else this.selected.port = -1;
    this.selected.flow = step.flow ?? -1;
    const [from, to] = step.window ?? [0, log.duration];
    this.clock = { t: step.at ?? this.clock.t, from, to: Math.min(to, log.duration) };
    this.clock.t = Math.max(this.clock.from, Math.min(this.clock.to, this.clock.t));
    this.chooseSpeed(this.clock.to - this.clock.from);
    this.fill();
    this.refresh();
  }

  // ---- runs ------------------------------------------------------------------------------------------------------

  /** The run that sliders and Enter make again: the one that was run last. */
  private last: "A" | "B" = "A";
  private get target(): Side {
    return this.last === "B" && this.b.open ? this.b : this.a;
  }
  private restore(edits: Values): void {
    this.controls.restore(edits);
    this.draft();
  }
  private slide(key: string, value: string): void {
    this.controls.put(key, value);
    this.draft();
    this.again(this.target);
  }
  took(side: Side): void {
    const log = side.log!;
    if (side.name === "A") {
      if (!this.touched) this.clock = { t: 0, from: 0, to: log.duration };
      if (this.selected.port >= log.head.links.length) this.selected.port = -1;
      this.clock.to = Math.min(this.clock.to, log.duration);
      if (this.clock.to <= this.clock.from) this.clock = { t: 0, from: 0, to: log.duration };
      $("what").textContent = words.network(log);
      this.chooseSpeed();
    }
    this.fill();
    this.refresh();
  }
  /** A round trip or so per second, so that the eye follows packets; a long window in a quarter of a minute. */
  private chooseSpeed(window = 0): void {
    const log = this.a.log;
    if (!log || (this.touched && window === 0)) return;
    const longest = Math.max(...log.head.links.map((l) => l.delay_ps * 1e-12 + 12000 / l.rate_bps));
    const want = window > 300 * longest ? window / 15 : longest * 1.2;
    const i = SPEEDS.findIndex((s) => s >= want);
    $<HTMLInputElement>("speed").value = String(i < 0 ? SPEEDS.length - 1 : i);
    this.setSpeed();
  }
  private setSpeed(): void {
    this.speed = SPEEDS[Number($<HTMLInputElement>("speed").value)];
    $("speed-text").textContent = `${quantity(this.speed, "s")} each second`;
    $("speed").setAttribute("aria-valuetext", $("speed-text").textContent!);
  }
  complain(line: string): void {
    $("error").textContent = line;
    $("error").hidden = line === "";
    this.controls.blame(line);
  }
  running(): void {
    document.body.dataset.state = this.a.busy || this.b.busy ? "running" : "idle";
  }
  /** The controls have values: which runs are of others is said. */
  private draft(): void {
    const edits = this.controls.edits();
    const changed = Object.keys(edits).length;
    this.sliders.show((key) => this.controls.value(key));
    $("edited").textContent = changed === 0 ? "all values as the page was made" : Object.entries(edits).map(([k, v]) => this.inWords(k, v)).join(", ");
    $<HTMLButtonElement>("reset").disabled = changed === 0 && same(this.a.wanted, {}) && !this.b.open;
    this.stale();
  }
  /** A value as its slider says it, else as the command line has it. */
  private inWords(key: string, value: string): string {
    const slider = this.given.sliders.find((s) => s.key === key);
    const at = slider?.values.indexOf(value) ?? -1;
    return slider && at >= 0 ? `${slider.label}: ${slider.say[at]}` : `${key} = ${value || "derived"}`;
  }
  private isStale(side: Side): boolean {
    return side === this.target && side.log !== null && !side.busy && !same(side.edits, this.controls.edits());
  }
  private stale(): void {
    for (const side of [this.a, this.b]) side.box.classList.toggle("stale", this.isStale(side));
    const line = $("stale");
    const old = this.open().filter((s) => this.isStale(s));
    line.hidden = old.length === 0;
    if (old.length > 0) line.textContent = `Run ${old.map((s) => s.name).join(" and ")} is of other settings: press Enter or Run.`;
    this.figures();
  }
  private again(side: Side): void {
    const seed = Number($<HTMLInputElement>("seed").value);
    if (!Number.isSafeInteger(seed) || seed < 0) {
      this.complain(`seed = "${$<HTMLInputElement>("seed").value}": must be a whole number of 0 to 2^53 - 1`);
      return;
    }
    this.seed = seed;
    this.recordFrom = Math.max(0, Number($<HTMLInputElement>("record-from").value) || 0) * 1e-3;
    this.touched = true;
    this.last = side.name;
    this.awaited = { name: "penstock: run again", since: performance.now() };
    side.run(this.controls.edits(), seed, () => {
      this.fill();
      this.refresh();
    });
    this.draft();
  }
  private open(): Side[] {
    return [this.a, this.b].filter((s) => s.log && s.open);
  }
  private columns(): results.Column[] {
    return this.open().flatMap((s) => (s.log!.result ? [{ name: s.name, result: this.resultOf(s.log!)!, stale: this.isStale(s) }] : []));
  }
  /** What run A has measured as the page was made: what is dragged is told beside it. */
  private made: Result | null = null;
  private figures(): void {
    const log = this.a.log;
    const labels = this.ownGoodputs.map(([key, flow]) => [key, `Goodput of ${log?.head.nodes[log.flows.get(flow)?.src ?? -1]?.[0] ?? `flow ${flow}`}`]);
    if (labels.length > 0) labels.push(["goodput_bps", "Goodput of all flows"]);
    results.figures($("figures"), this.columns(), this.given.figures, this.units, this.made, Object.fromEntries(labels));
    const done = this.open().filter((s) => s.log!.result).map((s) => s.log!);
    $("measured").textContent = done.length > 0 ? results.measured(done) : "";
  }
  results(): void {
    const { a } = this;
    if (a.log?.result && !a.busy && same(a.edits, {}) && this.seed === this.given.document.seed) this.made = this.resultOf(a.log);
    this.draft();
    results.table($("summary"), this.columns(), this.units);
    const lines = this.open().filter((s) => s.log!.result).flatMap((s) => {
      const log = s.log!;
      const { result } = log;
      const until = result!.packets_until_s;
      const memory = quantity(log.memory, "bytes");
      return [
        ...Object.entries(s.edits).map(([k, v]) => `${s.name} has ${k} = ${v || "derived"}`),
        ...result!.warnings.map((w) => `${s.name}: ${w}`),
        ...(until === null && log.from === 0 ? [] : [`${s.name}: packets are recorded from ${seconds(log.from, log.duration)} to ${seconds(log.packetsUntil, log.duration)} (${memory} of memory); flows, their values and results are of the whole run`]),
      ];
    });
    $("notes").replaceChildren(...lines.map((l) => Object.assign(document.createElement("li"), { textContent: l })));
    this.teller?.show();
    this.fill();
    this.refresh();
  }
  private closeB(): void {
    this.b.stop();
    this.b.box.hidden = true;
    this.b.wanted = {};
    this.last = "A";
    this.results();
  }

  // ---- the clock -------------------------------------------------------------------------------------------------

  seek(t: number): void {
    const log = this.a.log;
    if (!log) return;
    this.touched = true;
    this.clock.t = Math.max(0, Math.min(log.duration, t));
    const { from, to } = this.clock;
    if (this.clock.t < from || this.clock.t > to) {
      const half = (to - from) / 2;
      const start = Math.max(0, Math.min(log.duration - 2 * half, this.clock.t - half));
      [this.clock.from, this.clock.to] = [start, start + 2 * half];
    }
    this.refresh();
  }
  zoom(from: number, to: number): void {
    const log = this.a.log;
    if (!log) return;
    this.touched = true;
    const length = Math.max(Math.min(to - from, log.duration), log.duration * 1e-9, 1e-9);
    const start = Math.max(0, Math.min(from, log.duration - length));
    [this.clock.from, this.clock.to] = [start, start + length];
    this.clock.t = Math.max(start, Math.min(start + length, this.clock.t));
    this.refresh();
  }
  private zoomBy(factor: number): void {
    const { t, from, to } = this.clock;
    const half = ((to - from) / 2) * factor;
    this.zoom(t - half, t + half);
  }
  private step(forwards: boolean): void {
    this.stop();
    const times = this.open().map((s) => s.log!.event(this.clock.t, forwards));
    const moved = times.filter((t) => t !== this.clock.t);
    if (moved.length > 0) this.seek(forwards ? Math.min(...moved) : Math.max(...moved));
  }
  play(): void {
    if (this.playing) return this.stop();
    const log = this.a.log;
    if (!log) return;
    if (this.clock.t >= log.packetsUntil) this.clock.t = Math.max(this.clock.from, log.from);
    this.playing = true;
    this.touched = true;
    this.lastFrame = performance.now();
    $("play").textContent = "Pause";
    $("play").setAttribute("aria-pressed", "true");
    requestAnimationFrame((now) => this.frame(now));
  }
  stop(): void {
    this.playing = false;
    $("play").textContent = "Play";
    $("play").setAttribute("aria-pressed", "false");
    this.keepLink();
  }
  private frame(now: number): void {
    if (!this.playing) return;
    const passed = Math.max(0, (now - this.lastFrame) / 1000);
    // With reduced motion the page shows two stills a second.
    if (calm.matches && passed < 0.5) {
      requestAnimationFrame((next) => this.frame(next));
      return;
    }
    this.lastFrame = now;
    this.frames.count++;
    this.frames.seconds += passed;
    const log = this.a.log!;
    this.clock.t += passed * this.speed;
    if (this.clock.t > this.clock.to) {
      // The window turns over like a page, with a tenth of the old one left.
      const length = this.clock.to - this.clock.from;
      this.clock.from = Math.min(this.clock.t - length / 10, log.duration - length);
      this.clock.to = this.clock.from + length;
    }
    if (this.clock.t >= log.packetsUntil) {
      this.clock.t = log.packetsUntil;
      if (!this.a.busy) this.stop();
    }
    this.draw();
    requestAnimationFrame((next) => this.frame(next));
  }

  // ---- what is shown ---------------------------------------------------------------------------------------------

  private pending = false;
  refresh(): void {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
      this.keepLink();
    });
  }
  private draw(): void {
    const { t, from, to } = this.clock;
    const sides = this.open();
    $("sides").classList.toggle("two", sides.length > 1);
    document.body.classList.toggle("beside", sides.length > 1);
    const extents = sides.map((side) => {
      const shown = this.shownOf(side.log!);
      const beside = sides.find((other) => other !== side)?.picture ?? null;
      side.picture!.draw(t, this.ink, { port: shown.port, flow: shown.flow }, this.speed, this.playing, beside);
      side.chart(this.kinds());
      return side.prepare(shown);
    });
    // Both runs on the same axes.
    const shared = (extents[0] ?? []).map((_, i): [number, number] => [Math.min(...extents.map((e) => e[i][0])), Math.max(...extents.map((e) => e[i][1]))]);
    sides.forEach((side) => side.paint(shared));
    if (this.awaited && sides.length > 0 && !this.a.busy && !this.b.busy) {
      performance.measure(this.awaited.name, { start: this.awaited.since });
      this.awaited = null;
    }
    this.tell(sides);
    const scrub = $<HTMLInputElement>("scrub");
    scrub.value = String(Math.round(((t - from) / (to - from)) * 10000));
    const text = moment(t, to - from);
    $("time").textContent = text;
    scrub.setAttribute("aria-valuetext", text);
  }
  /** The selection in one side's network: without a choice the port of its results. It may have fewer ports than the other's. */
  selectionOf(log: Log): Selection {
    const { port, flow } = this.selected;
    return { port: port >= 0 && port < log.head.links.length ? port : log.reported, flow };
  }
  private shownOf(log: Log): Shown {
    const { port, flow } = this.selectionOf(log);
    const first = [...log.flows.keys()].slice(0, MOST_FLOWS);
    const flows = flow >= 0 ? [flow] : (this.flows ?? first);
    return { port, flow, flows: flows.filter((f) => log.flows.has(f)), chosen: flow >= 0 || this.flows !== null };
  }
  private kinds(): PlotKind[] {
    const kinds: PlotKind[] = ["queue"];
    const name = $<HTMLSelectElement>("value").value;
    kinds.push("rate");
    if (name) kinds.push(`value:${name}`);
    if (this.selected.flow >= 0) kinds.push("sequence");
    const first = (kind: PlotKind) => Number(kind.split(":")[0] === this.firstCurve);
    return kinds.sort((a, b) => first(b) - first(a));
  }
  /** Fills the lists to choose from. */
  private fill(): void {
    const log = this.a.log;
    if (!log) return;
    const options = (id: string, list: [string, string][], chosen: string) => {
      const select = $<HTMLSelectElement>(id);
      if (select.options.length !== list.length || [...select.options].some((o, i) => o.value !== list[i][0] || o.text !== list[i][1])) {
        select.replaceChildren(...list.map(([v, text]) => new Option(text, v)));
      }
      select.value = chosen;
    };
    const ports = log.head.links.map((_, i) => [String(i), portName(log, i)] as [string, string]);
    options("port", [["-1", `${portName(log, log.reported)} (of the results)`], ...ports.slice(0, 3000)], String(this.selected.port));
    const flows = [...log.flows.values()].slice(0, 3000);
    const name = (n: number) => log.head.nodes[n][0];
    const none: [string, string][] = [["-1", "none: all flows"]];
    options("flow", [...none, ...flows.map((f) => [String(f.number), `${f.number}: ${name(f.src)} to ${name(f.dst)}`] as [string, string])], String(this.selected.flow));
    // Of both runs: they may have other protocols.
    const values = [...new Set(this.open().flatMap((s) => tellingValues(s.log!)))];
    const before = this.wanted || $<HTMLSelectElement>("value").value;
    const chosen = values.includes(before) ? before : (values[0] ?? "");
    options("value", values.map((v) => [v, v.replaceAll("_", " ")]), chosen);
    this.chips(log);
    legend($("legend"), this.open().map((s) => s.log!), this.ink);
  }
  /** Which flows have curves: said, and chosen by a click. */
  private chips(log: Log): void {
    const shown = this.shownOf(log);
    const all = [...log.flows.keys()];
    const list = shown.flows.length === all.length ? "all" : shown.flows.length === 0 ? "none" : listed(shown.flows);
    $("charted").textContent = `Flows with curves: ${list}${list === "all" ? ` ${all.length}` : ` of ${all.length}`}`;
    const box = $("chips");
    const made = all.slice(0, MOST_CHIPS).join();
    if (box.dataset.made !== made) {
      box.dataset.made = made;
      box.replaceChildren(
        ...all.slice(0, MOST_CHIPS).map((f) => {
          const label = document.createElement("label");
          const input = Object.assign(document.createElement("input"), { type: "checkbox", value: String(f) });
          input.addEventListener("input", () => {
            this.flows = [...box.querySelectorAll("input")].filter((i) => i.checked).map((i) => Number(i.value));
            this.selected.flow = -1;
            this.fill();
            this.refresh();
          });
          const swatch = document.createElement("i");
          swatch.style.background = this.ink.palette[f % this.ink.palette.length];
          label.append(input, swatch, String(f));
          return label;
        }),
      );
    }
    for (const input of box.querySelectorAll("input")) input.checked = shown.flows.includes(Number(input.value));
  }
  private choose(flows: number[] | null): void {
    this.flows = flows;
    this.selected.flow = -1;
    this.fill();
    this.refresh();
  }
  /** Flows that took longest, or are not over. */
  private slowest(): number[] {
    const flows = [...(this.a.log?.flows.values() ?? [])];
    return flows.sort((a, b) => b.closed - b.opened - (a.closed - a.opened) || a.number - b.number).slice(0, MOST_FLOWS).map((f) => f.number).sort((a, b) => a - b);
  }
  private tell(sides: Side[]): void {
    if (this.playing) return;
    const log = this.a.log;
    if (!log) return;
    const { t } = this.clock;
    const { port, flow } = this.selectionOf(log);
    $("detail").textContent = [words.port(log, port, t), words.flow(log, flow, t, this.units)].filter(Boolean).join("\n");
    for (const side of sides) {
      side.canvas.setAttribute("aria-label", `The network of run ${side.name} at ${moment(t, this.clock.to - this.clock.from)}: ${words.picture(side.log!, t)}. The keys n and p go through its packets and say each.`);
    }
    const outside = !log.recorded(t) && !log.over(t) && !this.a.busy;
    $("record-here").hidden = !outside || this.a.runner === null;
    const { recorded } = this.given;
    $("elsewhere-said").hidden = !outside || !recorded?.file;
    if (recorded) $("elsewhere").textContent = `penstock view ${recorded.file} --from ${+t.toPrecision(4)}s`;
  }
  packet(log: Log, hop: number): string {
    return words.packet(log, hop, this.clock);
  }
  private place(text: string, x: number, y: number): void {
    const tip = $("tip");
    tip.hidden = false;
    tip.textContent = text;
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - 330))}px`;
    tip.style.top = `${Math.min(y + 14, innerHeight - 110)}px`;
  }
  hover(side: Side, event: PointerEvent | null): void {
    const hit = event ? side.hit(event) : null;
    $("tip").hidden = hit === null;
    if (hit && event) this.place(this.words(side.log!, hit), event.clientX, event.clientY);
  }
  private walked = 0;
  /** Goes to another packet on the wires, says its header and marks where it is. */
  private walk(side: Side, by: number): void {
    this.stop();
    const list = side.picture?.onWires() ?? [];
    if (list.length === 0) return;
    const before = list.findIndex(({ hop }) => hop === this.walked);
    const { hop, x, y } = list[before < 0 ? 0 : (before + by + list.length) % list.length];
    this.walked = hop;
    const text = this.packet(side.log!, hop);
    $("detail").textContent = text;
    const box = side.canvas.getBoundingClientRect();
    this.place(text, box.left + x, box.top + y);
  }
  private words(log: Log, hit: Hit): string {
    if (hit.kind === "packet") return this.packet(log, hit.hop);
    if (hit.kind === "node") return log.head.nodes[hit.node][0];
    return words.port(log, hit.port, this.clock.t);
  }
  click(side: Side, event: MouseEvent): void {
    const hit = side.hit(event);
    if (!hit) this.selected.flow = -1;
    else if (hit.kind === "packet") this.selected.flow = side.log!.flow.data[side.log!.hopPacket.data[hit.hop]];
    else if (hit.kind === "port") this.selected.port = hit.port;
    else {
      const out = side.log!.head.links.findIndex((l) => l.from === hit.node);
      if (out >= 0) this.selected.port = out;
    }
    this.fill();
    this.refresh();
  }

  // ---- a link that brings it all back ------------------------------------------------------------------------------

  private keepLink(): void {
    if (!this.a.log?.result || this.playing) return;
    const { t, from, to } = this.clock;
    const link: Link = {
      a: this.a.edits,
      b: !this.b.open || !this.b.log ? null : this.b.edits,
      last: this.last,
      seed: this.seed,
      t,
      from,
      to,
      ...this.selected,
      ...(this.flows ? { flows: this.flows } : {}),
      ...(this.teller ? { step: this.teller.at } : {}),
    };
    const text = `#${encodeURIComponent(JSON.stringify(link))}`;
    if (text === location.hash) return;
    try {
      history.replaceState(null, "", text);
    } catch {
      // A sandboxed frame (a notebook's) has no address of its own.
    }
  }

  private wire(): void {
    const on = (id: string, event: string, act: () => void) => $(id).addEventListener(event, act);
    on("play", "click", () => this.play());
    on("forth", "click", () => this.step(true));
    on("back", "click", () => this.step(false));
    on("zoom-in", "click", () => this.zoomBy(0.25));
    on("zoom-out", "click", () => this.zoomBy(4));
    on("zoom-all", "click", () => this.zoom(0, this.a.log?.duration ?? 1));
    on("speed", "input", () => {
      this.touched = true;
      this.setSpeed();
    });
    on("scrub", "input", () => {
      const { from, to } = this.clock;
      this.seek(from + (Number($<HTMLInputElement>("scrub").value) / 10000) * (to - from));
    });
    on("port", "change", () => {
      this.selected.port = Number($<HTMLSelectElement>("port").value);
      this.refresh();
    });
    on("flow", "change", () => {
      this.selected.flow = Number($<HTMLSelectElement>("flow").value);
      this.fill();
      this.refresh();
    });
    on("value", "change", () => {
      this.wanted = $<HTMLSelectElement>("value").value;
      this.refresh();
    });
    on("flows-first", "click", () => this.choose(null));
    on("flows-slow", "click", () => this.choose(this.slowest()));
    on("flows-none", "click", () => this.choose([]));
    on("run", "click", () => this.again(this.a));
    on("compare", "click", () => this.again(this.b));
    on("close-b", "click", () => this.closeB());
    // As the page was made: the values, and the run that is shown.
    on("reset", "click", () => {
      if (this.b.open) this.closeB();
      this.restore({});
      if (!same(this.a.wanted, {}) || !same(this.a.edits, {})) this.again(this.a);
      this.draft();
    });
    on("record-here", "click", () => {
      $<HTMLInputElement>("record-from").value = String(+(this.clock.from * 1e3).toPrecision(9));
      this.again(this.a);
    });
    for (const id of ["seed", "record-from"]) {
      $(id).addEventListener("keydown", (e) => {
        if ((e as KeyboardEvent).key === "Enter") this.again(this.target);
      });
    }
    document.addEventListener("keydown", (e) => {
      const target = e.target as HTMLElement;
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
      // A space presses the button that has the focus.
      if (e.key === " " && /^(BUTTON|SUMMARY)$/.test(target.tagName)) return;
      const { from, to } = this.clock;
      const keys: Record<string, () => void> = {
        " ": () => this.play(),
        ArrowRight: () => (e.shiftKey ? this.seek(this.clock.t + (to - from) / 50) : this.step(true)),
        ArrowLeft: () => (e.shiftKey ? this.seek(this.clock.t - (to - from) / 50) : this.step(false)),
        "+": () => this.zoomBy(0.25),
        "-": () => this.zoomBy(4),
        "0": () => this.zoom(0, this.a.log?.duration ?? 1),
        n: () => this.walk(target === this.b.canvas ? this.b : this.a, 1),
        p: () => this.walk(target === this.b.canvas ? this.b : this.a, -1),
        Home: () => this.seek(0),
        End: () => this.seek(this.a.log?.until ?? 0),
      };
      if (!keys[e.key]) return;
      e.preventDefault();
      keys[e.key]();
    });
    addEventListener("resize", () => this.refresh());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.ink = inks();
      this.fill();
      this.refresh();
    });
  }
  // ---- for tests ---------------------------------------------------------------------------------------------------

  logs(): (Log | null)[] {
    return [this.a.log, this.b.log];
  }
  charts(side: "A" | "B" = "A"): Record<string, unknown> {
    // As it is now, not as of the last frame.
    this.draw();
    return Object.fromEntries((side === "A" ? this.a : this.b).charts.map((c) => [c.kind, { ...c.state(), title: c.title(), csv: c.csv() }]));
  }
  shown(): { packets: number; heat: boolean; drops: number; queues: number[]; labels: { text: string; x: number; y: number; w: number; h: number }[] } {
    const { shown, labels } = this.a.picture!;
    return { ...shown, queues: [...shown.queues], labels };
  }
}

async function main(): Promise<void> {
  const [given, engine, record] = await Promise.all([embedded("given"), embeddedEngine(), embedded("record")]);
  const app = new App(JSON.parse(new TextDecoder().decode(given!)) as Given, engine, record);
  (globalThis as Record<string, unknown>).penstock = app;
  app.start();
}
void main();
