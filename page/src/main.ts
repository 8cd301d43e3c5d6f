// Over 600 lines: it wires all controls of the page to one state.
// The page: one or two runs on one clock, the controls of the scenario, and what is selected.
import "uplot/dist/uPlot.min.css";
import "./page.css";
import { Controls, type Values } from "./controls";
import { downloads } from "./download";
import { Picture, type Hit, type Ink, type Selection } from "./draw";
import { FLAG, HOP, readFile, type Log } from "./log";
import { seconds, short } from "./format";
import { Chart, portName, type Clock, type PlotKind } from "./plots";
import { embedded, Runner } from "./runner";
import { MOST_BYTES, SPEEDS, inks, interesting, readLink, value, type Given, type Link } from "./state";

const $ = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const given = JSON.parse($("given").textContent!) as Given;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

class Side {
  log: Log | null = null;
  picture: Picture | null = null;
  charts: Chart[] = [];
  edits: Values = {};
  readonly box: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  private readonly plots: HTMLElement;
  readonly status: HTMLElement;
  private readonly bar: HTMLProgressElement;
  private readonly cancel: HTMLButtonElement;
  readonly runner: Runner | null;

  constructor(
    readonly name: "A" | "B",
    engine: ArrayBuffer | null,
    private readonly app: App,
  ) {
    this.box = $(`side-${name.toLowerCase()}`);
    this.canvas = this.box.querySelector("canvas")!;
    this.plots = this.box.querySelector(".plots")!;
    this.status = this.box.querySelector(".status")!;
    this.bar = this.box.querySelector("progress")!;
    this.cancel = this.box.querySelector(".cancel")!;
    this.runner = engine ? new Runner(engine) : null;
    this.cancel.addEventListener("click", () => {
      this.runner?.cancel();
      this.busy(false);
      this.status.textContent = "cancelled; what had been recorded is shown";
    });
    this.canvas.addEventListener("pointermove", (e) => app.hover(this, e));
    this.canvas.addEventListener("pointerleave", () => app.hover(this, null));
    this.canvas.addEventListener("blur", () => app.hover(this, null));
    this.canvas.addEventListener("click", (e) => app.click(this, e));
  }
  busy(on: boolean): void {
    this.bar.hidden = !on;
    this.cancel.hidden = !on;
    if (!on) this.app.running();
  }
  run(edits: Values, seed: number, after: () => void): void {
    if (!this.runner) return;
    const text = JSON.stringify({
      ...given.document,
      set: { ...given.document.set, ...edits },
      seed,
      record: { from_s: this.app.recordFrom, most_bytes: MOST_BYTES },
    });
    this.busy(true);
    this.app.complain("");
    this.status.textContent = "running";
    this.bar.value = 0;
    this.runner.start(text, {
      head: (log) => {
        this.edits = edits;
        this.take(log);
      },
      progress: (share) => (this.bar.value = share),
      done: (busy) => {
        this.busy(false);
        const result = this.log!.result!;
        const rate = result.packet_hops / Math.max(busy, 1e-9);
        this.status.textContent = `${short(result.packet_hops)} packet-hops in ${busy.toFixed(2)} s, ${short(rate)} per second`;
        this.box.dataset.rate = String(rate);
        this.app.results();
        after();
      },
      error: (line) => {
        this.busy(false);
        this.status.textContent = "did not run";
        this.app.complain(line);
      },
    });
    this.app.running();
  }
  take(log: Log): void {
    this.log = log;
    this.picture = new Picture(this.canvas, log);
    this.plots.replaceChildren();
    this.charts = [];
    this.box.hidden = false;
    this.app.took(this);
  }
  /** The charts of this run, made anew when the kinds change. */
  chart(kinds: PlotKind[], port: number, flow: number, flows: number[]): void {
    const { log } = this;
    if (!log) return;
    if (this.charts.map((c) => c.kind).join() !== kinds.join()) {
      this.plots.replaceChildren();
      this.charts = kinds.map((kind) => {
        const figure = document.createElement("figure");
        const caption = document.createElement("figcaption");
        const chart: Chart = new Chart(figure, kind, () => this.app.clock, () => this.app.ink, (a, b) => this.app.zoom(a, b));
        const shown = (): [Log, number, number] => [this.log!, this.app.selectionOf(this.log!).port, this.app.selected.flow];
        const name = () => chart.title(...shown()).replace(/[^\p{L}\p{N}]+/gu, "-");
        const head = Object.assign(document.createElement("div"), { className: "figure-head" });
        head.append(caption, ...downloads(name, () => chart.svg(...shown()), () => chart.csv(...shown())));
        figure.append(head);
        this.plots.append(figure);
        return chart;
      });
    }
    for (const chart of this.charts) {
      const caption = chart.box.querySelector("figcaption")!;
      const title = chart.title(log, port, flow);
      if (caption.textContent !== title) caption.textContent = title;
      chart.show(log, port, flow, flows);
    }
  }
}

class App {
  clock: Clock = { t: 0, from: 0, to: 1 };
  selected: Selection = { port: -1, flow: -1 };
  ink: Ink = inks();
  recordFrom = 0;
  private readonly a: Side;
  private readonly b: Side;
  private readonly controls: Controls;
  private playing = false;
  private speed = 1e-4;
  private touched = false;
  private seed = given.document.seed;
  private lastFrame = 0;
  private values: string[] = [];
  // For tests: frames drawn while playing, and their time.
  frames = { count: 0, seconds: 0 };

  constructor(
    engine: ArrayBuffer | null,
    readonly record: ArrayBuffer | null,
  ) {
    this.a = new Side("A", engine, this);
    this.b = new Side("B", engine, this);
    this.controls = new Controls($("controls"), given.specs, given.values, given.controls, () => this.draft());
    if (!engine) $("parameters").hidden = true;
    this.wire();
  }

  start(): void {
    const link = readLink();
    if (this.record) {
      const log = readFile(this.record);
      this.a.take(log);
      this.a.status.textContent = "a recording";
      this.results();
      this.arrive(link);
      return;
    }
    const edits = link?.a ?? {};
    this.seed = link?.seed ?? this.seed;
    $<HTMLInputElement>("seed").value = String(this.seed);
    this.controls.restore(edits);
    this.a.run(edits, this.seed, () => this.arrive(link));
    if (link?.b) this.b.run(link.b, this.seed, () => undefined);
  }
  /** The run that the page opened with is there. */
  private arrive(link: Link | null): void {
    const log = this.a.log!;
    if (link) {
      this.touched = true;
      this.clock = { t: link.t, from: link.from, to: link.to };
      this.selected = { port: link.port, flow: link.flow };
    } else if (!this.touched) this.clock.t = interesting(log);
    this.chooseSpeed();
    this.fill();
    this.refresh();
  }

  // ---- runs ------------------------------------------------------------------------------------------------------

  took(side: Side): void {
    const log = side.log!;
    if (side.name === "A") {
      if (!this.touched) this.clock = { t: 0, from: 0, to: log.duration };
      if (!log.flows.has(this.selected.flow) && log.result) this.selected.flow = -1;
      if (this.selected.port < 0 || this.selected.port >= log.head.links.length) this.selected.port = log.head.bottleneck;
      this.clock.to = Math.min(this.clock.to, log.duration);
      if (this.clock.to <= this.clock.from) this.clock = { t: 0, from: 0, to: log.duration };
      $("what").textContent = `${log.head.nodes.length} nodes, ${log.head.protocols.join(", ")}, ${seconds(log.duration, log.duration)} simulated`;
      this.chooseSpeed();
    }
    $("sides").classList.toggle("two", !this.b.box.hidden);
    this.fill();
    this.refresh();
  }
  private chooseSpeed(): void {
    // A round trip or so per second: the eye follows packets.
    const log = this.a.log;
    if (!log || this.touched) return;
    const longest = Math.max(...log.head.links.map((l) => l.delay_ps * 1e-12 + 12000 / l.rate_bps));
    const want = longest * 1.2;
    const i = SPEEDS.findIndex((s) => s >= want);
    $<HTMLInputElement>("speed").value = String(i < 0 ? SPEEDS.length - 1 : i);
    this.setSpeed();
  }
  private setSpeed(): void {
    this.speed = SPEEDS[Number($<HTMLInputElement>("speed").value)];
    $("speed-text").textContent = `${seconds(this.speed, this.speed)} per s`;
    $("speed").setAttribute("aria-valuetext", $("speed-text").textContent!);
  }
  complain(line: string): void {
    $("error").textContent = line;
    $("error").hidden = line === "";
    this.controls.blame(line);
  }
  running(): void {
    const busy = this.a.runner?.busy || this.b.runner?.busy;
    document.body.dataset.state = busy ? "running" : "idle";
  }
  private draft(): void {
    const edited = Object.keys(this.controls.edits()).length;
    $("edited").textContent = edited === 0 ? "as the page was made" : `${edited} changed`;
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
    this.stop();
    side.run(this.controls.edits(), seed, () => {
      this.fill();
      this.refresh();
    });
  }
  results(): void {
    const sides = [this.a, this.b].filter((s) => s.log?.result && !s.box.hidden);
    const head = document.createElement("tr");
    const cells = (row: HTMLElement, texts: string[], tag: "th" | "td") => {
      for (const text of texts) row.append(Object.assign(document.createElement(tag), { textContent: text }));
      return row;
    };
    cells(head, ["", ...sides.map((s) => s.name)], "th");
    const keys = Object.keys(sides[0]?.log?.result?.summary ?? {});
    const rows = keys.map((key) => {
      const row = cells(document.createElement("tr"), [key], "th");
      const texts = sides.map((s) => s.log!.result!.summary[key]).map((v) => (v === null || v === undefined ? "–" : value(key, v)));
      if (new Set(texts).size > 1) row.className = "differs";
      return cells(row, texts, "td");
    });
    $("summary").replaceChildren(head, ...rows);
    const lines = sides.flatMap((s) => [
      ...s.log!.result!.warnings.map((w) => `${s.name}: ${w}`),
      ...(s.log!.result!.packets_until_s === null
        ? []
        : [`${s.name}: packets are recorded until ${seconds(s.log!.result!.packets_until_s, s.log!.duration)}; flows and results are of the whole run`]),
      ...Object.entries(s.edits).map(([k, v]) => `${s.name}: ${k} = ${v}`),
    ]);
    $("notes").replaceChildren(...lines.map((l) => Object.assign(document.createElement("li"), { textContent: l })));
    this.fill();
    this.refresh();
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
    const times = this.sides().map((s) => s.log!.event(this.clock.t, forwards));
    const moved = times.filter((t) => t !== this.clock.t);
    if (moved.length > 0) this.seek(forwards ? Math.min(...moved) : Math.max(...moved));
  }
  private sides(): Side[] {
    return [this.a, this.b].filter((s) => s.log && !s.box.hidden);
  }
  play(): void {
    if (this.playing) return this.stop();
    const log = this.a.log;
    if (!log) return;
    if (this.clock.t >= log.until) this.clock.t = this.clock.from;
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
    // Who wants little motion gets stills, two a second.
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
    if (this.clock.t >= log.until) {
      this.clock.t = log.until;
      if (!this.a.runner?.busy) this.stop();
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
    for (const side of this.sides()) {
      const selected = this.selectionOf(side.log!);
      side.picture!.draw(t, this.ink, selected, this.speed);
      side.chart(this.kinds(), selected.port, selected.flow, this.chosenFlows(side.log!));
    }
    this.tell();
    const scrub = $<HTMLInputElement>("scrub");
    scrub.value = String(Math.round(((t - from) / (to - from)) * 10000));
    const text = seconds(t, Math.min(to - from, 2e-3));
    $("time").textContent = text;
    scrub.setAttribute("aria-valuetext", text);
    $("window").textContent = `${seconds(from, to - from)} to ${seconds(to, to - from)}`;
  }
  /** The selection in one side's network. It may have fewer ports than the other's, or be there before it. */
  selectionOf(log: Log): Selection {
    const { port, flow } = this.selected;
    return { port: port >= 0 && port < log.head.links.length ? port : log.head.bottleneck, flow };
  }
  private kinds(): PlotKind[] {
    const kinds: PlotKind[] = ["queue"];
    const name = $<HTMLSelectElement>("value").value;
    if (name) kinds.push(`value:${name}`);
    kinds.push("rate");
    if (this.selected.flow >= 0) kinds.push("sequence");
    return kinds;
  }
  private chosenFlows(log: Log): number[] {
    if (this.selected.flow >= 0) return [this.selected.flow];
    return [...log.flows.keys()].slice(0, 8);
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
    options("port", ports.slice(0, 3000), String(this.selected.port));
    const flows = [...log.flows.values()].slice(0, 3000);
    const name = (n: number) => log.head.nodes[n][0];
    options(
      "flow",
      [["-1", "all flows"], ...flows.map((f) => [String(f.number), `${f.number}: ${name(f.src)} to ${name(f.dst)}`] as [string, string])],
      String(this.selected.flow),
    );
    this.values = log.valueNames;
    const before = $<HTMLSelectElement>("value").value;
    const chosen = this.values.includes(before) ? before : (this.values[0] ?? "");
    options("value", this.values.map((v) => [v, v.replaceAll("_", " ")]), chosen);
  }
  private tell(): void {
    const { log } = this.a;
    if (!log || this.playing) return;
    $("detail").textContent = this.about(log);
  }
  /** The selected port and flow in words. */
  private about(log: Log): string {
    const { t } = this.clock;
    const { port, flow } = this.selected;
    const lines: string[] = [];
    if (port >= 0 && port < log.head.links.length) {
      let [inside, wire, drops, marks] = [0, 0, 0, 0];
      log.at(t, (h) => {
        if (log.hopPort.data[h] === port) log.left.data[h] > t ? inside++ : wire++;
      });
      for (const h of log.drops) if (log.hopPort.data[h] === port && log.arrived.data[h] <= t) drops++;
      for (let h = 0; h < log.hops; h++) {
        if (log.hopPort.data[h] === port && log.hopKind.data[h] & HOP.MARKED && log.queued.data[h] <= t) marks++;
      }
      const link = log.head.links[port];
      lines.push(
        `Port ${portName(log, port)}: ${short(link.rate_bps)}bit/s, ${seconds(link.delay_ps * 1e-12, 1e-3)}, ${link.queue}`,
        `  ${inside} in the port, ${wire} on the wire; so far ${drops} dropped, ${marks} marked`,
      );
    }
    const f = log.flows.get(flow);
    if (f) {
      const name = (n: number) => log.head.nodes[n][0];
      lines.push(`Flow ${f.number}: ${name(f.src)} to ${name(f.dst)}, ${log.head.protocols[f.protocol]}, ${f.size ? `${short(f.size)}B` : "no end"}`);
      for (const [key, series] of f.values) {
        let i = series.at.findIndex((at) => at > t);
        i = i < 0 ? series.at.length - 1 : i - 1;
        if (i >= 0) lines.push(`  ${key} ${short(series.value[i])}`);
      }
      lines.push(`  timeouts so far ${f.timeouts.filter((x) => x <= t).length}, fast retransmits ${f.repairs.filter((x) => x <= t).length}`);
    }
    return lines.join("\n");
  }
  packet(log: Log, hop: number): string {
    const p = log.hopPacket.data[hop];
    const flags = log.flags.data[p];
    const names = Object.entries(FLAG).filter(([, bit]) => flags & bit).map(([name]) => name);
    const ack = log.payload.data[p] === 0 && flags & FLAG.ACK;
    const { t } = this.clock;
    const ce = log.ecn.data[p] === 3 || log.markedAt.data[p] <= t;
    return [
      `Packet ${p} of flow ${log.flow.data[p]} to ${log.head.nodes[log.dst.data[p]][0]}`,
      `  ${ack ? "acknowledges" : "bytes from"} ${log.seq.data[p]}${ack ? "" : `, ${log.payload.data[p]} B of payload`}`,
      `  ${log.bytes.data[p]} B on the wire; ${names.join(" ") || "no flags"}; ${ce ? "CE" : log.ecn.data[p] ? "ECT" : "not ECN-capable"}`,
      `  sent ${seconds(log.sent.data[p], 2e-3)}, at ${portName(log, log.hopPort.data[hop])} since ${seconds(log.queued.data[hop], 2e-3)}`,
    ].join("\n");
  }
  hover(side: Side, event: PointerEvent | null): void {
    const tip = $("tip");
    const hit = event && side.picture ? side.picture.hit(event.offsetX, event.offsetY) : null;
    tip.hidden = hit === null;
    if (!hit || !event) return;
    tip.textContent = this.words(side.log!, hit);
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 330)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - 110)}px`;
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
    const tip = $("tip");
    const box = side.canvas.getBoundingClientRect();
    tip.textContent = text;
    tip.hidden = false;
    tip.style.left = `${Math.min(box.left + x + 14, innerWidth - 330)}px`;
    tip.style.top = `${Math.min(box.top + y + 14, innerHeight - 110)}px`;
  }
  private words(log: Log, hit: Hit): string {
    if (hit.kind === "packet") return this.packet(log, hit.hop);
    if (hit.kind === "node") return log.head.nodes[hit.node][0];
    let inside = 0;
    const { t } = this.clock;
    log.at(t, (h) => {
      if (log.hopPort.data[h] === hit.port && log.left.data[h] > t) inside++;
    });
    const link = log.head.links[hit.port];
    return `Port ${portName(log, hit.port)}\n  ${short(link.rate_bps)}bit/s, ${link.queue}, ${inside} packets in it`;
  }
  click(side: Side, event: MouseEvent): void {
    const hit = side.picture?.hit(event.offsetX, event.offsetY);
    if (!hit) this.selected.flow = -1;
    else if (hit.kind === "packet") {
      this.selected.flow = side.log!.flow.data[side.log!.hopPacket.data[hit.hop]];
      $("detail").textContent = this.packet(side.log!, hit.hop);
    } else if (hit.kind === "port") this.selected.port = hit.port;
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
      b: this.b.box.hidden || !this.b.log ? null : this.b.edits,
      seed: this.seed,
      t,
      from,
      to,
      ...this.selected,
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
      this.refresh();
    });
    on("value", "change", () => this.refresh());
    on("run", "click", () => this.again(this.a));
    on("compare", "click", () => this.again(this.b));
    on("close-b", "click", () => {
      this.b.runner?.cancel();
      this.b.busy(false);
      this.b.box.hidden = true;
      $("sides").classList.remove("two");
      this.results();
    });
    on("reset", "click", () => {
      this.controls.restore({});
      this.draft();
    });
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
      this.refresh();
    });
  }
  /** The logs, for tests. */
  logs(): (Log | null)[] {
    return [this.a.log, this.b.log];
  }
  shown(): { packets: number; heat: boolean; queues: number[] } {
    const { shown } = this.a.picture!;
    return { ...shown, queues: [...shown.queues] };
  }
}

async function main(): Promise<void> {
  const [engine, record] = await Promise.all([embedded("engine"), embedded("record")]);
  const app = new App(engine, record);
  (globalThis as Record<string, unknown>).penstock = app;
  app.start();
}
void main();
