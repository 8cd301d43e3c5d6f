// The network at one moment: nodes, links, packets where they are, queues at ports. Everything is told twice: by colour and by shape.
import { FLAG, NOWHERE, type Log } from "./log";
import { layout, type Layout, type Place } from "./layout";
import { hatched } from "./shapes";

/** Okabe and Ito's palette, as the figures of penstock have it. */
export const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7A5195", "#E69F00", "#56B4E9", "#7F7F7F"];
export const colour = (ink: Ink, flow: number) => ink.palette[flow % PALETTE.length];

export interface Ink {
  text: string;
  soft: string;
  panel: string;
  pale: string;
  line: string;
  ground: string;
  alarm: string;
  /** `PALETTE`, as it can be told from the ground. */
  palette: string[];
}
export interface Selection {
  port: number;
  flow: number;
}
/** What is under the pointer. */
export type Hit =
  | { kind: "packet"; hop: number }
  | { kind: "port"; port: number }
  | { kind: "node"; node: number };

/** With more links than this, links show heat instead of packets. */
const MOST_LINKS = 1200;
/** With more packets than this on the wires, only one packet is drawn in each pixel of a link: the others would be under it. */
const CROWD = 3000;
const HEAT_BINS = 400;
/** A drop is seen falling for so long, in real seconds at the speed that is played, and never longer than its port sends so many packets:
    by then a part of the queue that had no room is still there. While the page plays, every drop is on at least one frame. */
const FALL = 0.6;
const PACKETS_OF_FALL = 24;
const FRAME = 1 / 30;

interface Thresholds {
  limit: number | null;
  marks: number[];
}
/** A port's limit and thresholds in packets, as far as they are said in packets or bytes. */
export function thresholds(log: Log, port: number): Thresholds {
  const link = log.head.links[port];
  const packet = (log.head.mss[0] ?? 1460) + 40;
  const limit = link.limit ? (link.limit.packets ?? (link.limit.bytes ?? 0) / packet) : null;
  const marks: number[] = [];
  for (const [, , value, unit] of link.queue.matchAll(/\b(k|k1|k2|min|max|kmin|kmax)=([\d.]+)\s*(\w*)/g)) {
    const factor = { "": 1, pkt: 1, B: 1 / packet, KB: 1000 / packet, KiB: 1024 / packet, MB: 1e6 / packet }[unit];
    if (factor !== undefined) marks.push(Number(value) * factor);
  }
  return { limit, marks };
}

export class Picture {
  private readonly layout: Layout;
  /** Whether a cable has a link in either direction: then each keeps to its side. */
  private readonly paired: boolean[];
  private heatOf: { version: number; bins: Float32Array[] } | null = null;
  /** Packets on wires, as far as `count`: their hops, and x and y by turns. */
  private readonly drawn: { count: number; hops: Uint32Array; places: Float32Array } = { count: 0, hops: new Uint32Array(1024), places: new Float32Array(2048) };
  private peaks: { version: number; queue: Uint32Array; longest: Map<number, number> } | null = null;
  /** For tests: packets drawn on wires, whether links showed heat, packets in each port, drops that are seen falling. */
  shown = { packets: 0, heat: false, queues: new Uint32Array(), drops: 0, full: new Map<number, number>() };
  /** Boxes of the words on the picture: none of them overlap. For tests too. */
  labels: { text: string; x: number; y: number; w: number; h: number }[] = [];

  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly log: Log,
    /** Small: without words. */
    private readonly small = false,
  ) {
    this.layout = layout(log.head);
    const there = new Set(log.head.links.map((l) => `${l.from}-${l.to}`));
    this.paired = log.head.links.map((l) => there.has(`${l.to}-${l.from}`));
  }
  get kind(): string {
    return this.layout.kind;
  }

  private place(node: number, w: number, h: number): Place {
    const p = this.layout.places[node];
    const [mx, my] = this.small ? [14, 14] : [Math.min(64, w * 0.17), 30];
    return { x: mx + p.x * (w - 2 * mx), y: my + p.y * (h - 2 * my) };
  }
  /** Ends of a link on the canvas, moved to its side of the cable. */
  private ends(port: number, w: number, h: number): [Place, Place] {
    const link = this.log.head.links[port];
    const [a, b] = [this.place(link.from, w, h), this.place(link.to, w, h)];
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    const side = this.paired[port] ? 2.5 : 0;
    const [ox, oy] = [(-(b.y - a.y) / length) * side, ((b.x - a.x) / length) * side];
    return [
      { x: a.x + ox, y: a.y + oy },
      { x: b.x + ox, y: b.y + oy },
    ];
  }

  /** `beside`: the picture of another run, whose bars at queues have the same scale. */
  draw(t: number, ink: Ink, selected: Selection, speed: number, playing = false, beside: Picture | null = null): void {
    const { canvas, log } = this;
    const scale = window.devicePixelRatio || 1;
    const [w, h] = [canvas.clientWidth, canvas.clientHeight];
    if (w === 0 || h === 0) return;
    if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
      canvas.width = Math.round(w * scale);
      canvas.height = Math.round(h * scale);
    }
    const g = canvas.getContext("2d")!;
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, w, h);
    this.drawn.count = 0;
    this.labels = [];

    const active: number[] = [];
    const queues = new Uint32Array(log.head.links.length);
    let wires = 0;
    log.at(t, (hop) => {
      if (log.left.data[hop] > t) queues[log.hopPort.data[hop]]++;
      else wires++;
      active.push(hop);
    });
    const heat = log.head.links.length > MOST_LINKS;
    const known = log.recorded(t);
    this.links(g, w, h, ink, t, heat && known, selected);
    if (!heat && known) this.packets(g, w, h, ink, t, active, selected, wires > CROWD);
    this.shown = { packets: wires, heat, queues, drops: 0, full: new Map() };
    if (known) this.falling(g, w, h, ink, t, speed, playing, queues);
    this.nodes(g, w, h, ink);
    const lengths = known ? this.queues(g, w, h, ink, queues, selected, beside) : [];
    // Names come first: a length of a queue finds another place.
    this.names(g, w, h, ink, selected);
    for (const say of lengths) say();
    if (!known) this.emptiness(g, w, h, ink, log.over(t) ? "The run is over" : "Packets of this moment are not recorded");
  }
  /** Nothing is known of this moment's packets: hatched, and said. */
  private emptiness(g: CanvasRenderingContext2D, w: number, h: number, ink: Ink, why: string): void {
    g.strokeStyle = ink.line;
    g.lineWidth = 1.2;
    g.stroke(new Path2D(hatched("/", 0, 0, w, h)));
    this.label(g, why, w / 2, h - 16, "center", ink, true);
  }
  /** A word where there is room for it; false where another stands. */
  private label(g: CanvasRenderingContext2D, text: string, x: number, y: number, align: CanvasTextAlign, ink: Ink, must = false): boolean {
    if (this.small) return true;
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const wide = g.measureText(text).width;
    const high = 13;
    const left = align === "center" ? x - wide / 2 : align === "right" ? x - wide : x;
    const box = { text, x: Math.max(2, Math.min(w - wide - 2, left)), y: Math.max(2, Math.min(h - high - 2, y - high / 2)), w: wide, h: high };
    const taken = this.labels.some((o) => box.x < o.x + o.w + 3 && o.x < box.x + box.w + 3 && box.y < o.y + o.h && o.y < box.y + box.h);
    if (taken && !must) return false;
    this.labels.push(box);
    // A halo of the ground: a word on a line can be read.
    g.textAlign = "left";
    g.textBaseline = "middle";
    g.lineJoin = "round";
    g.lineWidth = 3;
    g.strokeStyle = ink.panel;
    g.strokeText(text, box.x, box.y + high / 2);
    g.fillStyle = ink.text;
    g.fillText(text, box.x, box.y + high / 2);
    return true;
  }

  private links(
    g: CanvasRenderingContext2D,
    w: number,
    h: number,
    ink: Ink,
    t: number,
    heat: boolean,
    selected: Selection,
  ): void {
    const { log } = this;
    const stopped = new Set<number>();
    const down = new Set<number>();
    for (const p of log.pauses) if (p.at <= t) p.on ? stopped.add(p.port) : stopped.delete(p.port);
    for (const o of log.outages) if (o.at <= t) o.up ? down.delete(o.port) : down.add(o.port);
    let bins: Float32Array[] | null = null;
    if (heat) {
      if (this.heatOf?.version !== log.version) this.heatOf = { version: log.version, bins: log.heat(HEAT_BINS) };
      bins = this.heatOf.bins;
    }
    const bin = Math.min(HEAT_BINS - 1, Math.floor((t / log.duration) * HEAT_BINS));
    g.lineCap = "butt";
    if (!heat) {
      g.beginPath();
      for (let port = 0; port < log.head.links.length; port++) {
        const [a, b] = this.ends(port, w, h);
        g.moveTo(a.x, a.y);
        g.lineTo(b.x, b.y);
      }
      g.strokeStyle = ink.pale;
      g.lineWidth = 0.8;
      g.stroke();
    } else {
      for (let port = 0; port < log.head.links.length; port++) {
        const [a, b] = this.ends(port, w, h);
        const bits = (bins![port][bin] * 8 * HEAT_BINS) / log.duration;
        const share = Math.min(1, bits / log.head.links[port].rate_bps);
        g.beginPath();
        g.moveTo(a.x, a.y);
        g.lineTo(b.x, b.y);
        // Wider and stronger with load, in any shade.
        g.globalAlpha = 0.15 + 0.85 * share;
        g.strokeStyle = share > 0.9 ? ink.alarm : ink.text;
        g.lineWidth = 0.5 + 3.5 * share;
        g.stroke();
        g.globalAlpha = 1;
      }
    }
    if (selected.port >= 0 && selected.port < log.head.links.length) {
      const [a, b] = this.ends(selected.port, w, h);
      g.beginPath();
      g.moveTo(a.x, a.y);
      g.lineTo(b.x, b.y);
      g.strokeStyle = ink.text;
      g.lineWidth = 1.5;
      g.setLineDash([6, 3]);
      g.stroke();
      g.setLineDash([]);
    }
    for (const port of [...stopped, ...down]) {
      const [a, b] = this.ends(port, w, h);
      const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
      const [ux, uy] = [(b.x - a.x) / length, (b.y - a.y) / length];
      const at = down.has(port) ? length / 2 : Math.min(26, length / 3);
      const [x, y] = [a.x + ux * at, a.y + uy * at];
      g.strokeStyle = ink.alarm;
      g.lineWidth = 3;
      g.beginPath();
      if (down.has(port)) {
        g.moveTo(x - 5, y - 5);
        g.lineTo(x + 5, y + 5);
        g.moveTo(x + 5, y - 5);
        g.lineTo(x - 5, y + 5);
      } else {
        // A barrier across the link.
        g.moveTo(x - uy * 7, y + ux * 7);
        g.lineTo(x + uy * 7, y - ux * 7);
      }
      g.stroke();
    }
  }

  private packets(
    g: CanvasRenderingContext2D,
    w: number,
    h: number,
    ink: Ink,
    t: number,
    active: number[],
    selected: Selection,
    crowded: boolean,
  ): void {
    const { log } = this;
    const ends: (undefined | { a: Place; dx: number; dy: number; length: number; taken: Uint8Array })[] = [];
    // One path per look: thousands of packets are a few strokes.
    const paths = new Map<number, Path2D>();
    const marked = new Path2D();
    const again = new Path2D();
    const cuts = log.trims.size > 0;
    for (const hop of active) {
      const port = log.hopPort.data[hop];
      const link = log.head.links[port];
      if (!link) continue;
      const packet = log.hopPacket.data[hop];
      const flow = log.flow.data[packet];
      const delay = link.delay_ps * 1e-12;
      const trim = cuts ? log.trims.get(packet) : undefined;
      const cut = trim !== undefined && trim.at <= t;
      const size = cut ? trim.bytes : log.bytes.data[packet];
      const wire = ((size + log.head.framing) * 8) / link.rate_bps;
      const [left, arrived] = [log.left.data[hop], log.arrived.data[hop]];
      // Its first bit is on the wire from `left - wire` on.
      const front = Math.min(1, (t - (left - wire)) / Math.max(delay, 1e-15));
      if (!(front > 0)) continue;
      const late = arrived - left - delay;
      const travel = Number.isFinite(late) && late > 1e-12 ? arrived - left : delay;
      const tail = Math.max(0, Math.min(1, (t - left) / Math.max(travel, 1e-15)));
      let line = ends[port];
      if (!line) {
        const [a, b] = this.ends(port, w, h);
        const [dx, dy] = [b.x - a.x, b.y - a.y];
        const length = Math.hypot(dx, dy) || 1;
        ends[port] = line = { a, dx, dy, length, taken: new Uint8Array(Math.ceil(length) + 1) };
      }
      const { a, dx, dy, length } = line;
      const least = 4 / length;
      const head = Math.max(Math.min(front, 1), tail + least);
      const [x, y] = [a.x + dx * tail, a.y + dy * tail];
      const [hx, hy] = [a.x + dx * head, a.y + dy * head];
      const [mx, my] = [(x + hx) / 2, (y + hy) / 2];
      this.keep(hop, mx, my);
      const dim = selected.flow >= 0 && flow !== selected.flow;
      const ce = log.ecn.data[packet] === 3 || log.markedAt.data[packet] <= t;
      const resent = (log.flags.data[packet] & FLAG.RETRANSMIT) !== 0;
      // Bits of what has been drawn in this pixel: a packet, one of the selected flow, a ring, a diamond.
      const pixel = Math.floor(Math.min(1, tail) * length);
      const shows = (selected.flow >= 0 && !dim ? 2 : 1) | (ce ? 4 : 0) | (resent ? 8 : 0) | (cut ? 16 : 0);
      if (crowded && (line.taken[pixel] & shows) === shows) continue;
      line.taken[pixel] |= shows;
      const payload = log.payload.data[packet] > 0 && !cut;
      const key = (dim ? PALETTE.length : flow % PALETTE.length) * 2 + (payload ? 1 : 0);
      let path = paths.get(key);
      if (!path) paths.set(key, (path = new Path2D()));
      path.moveTo(x, y);
      path.lineTo(hx, hy);
      if (cut) {
        path.moveTo(mx - (dy / length) * 4, my + (dx / length) * 4);
        path.lineTo(mx + (dy / length) * 4, my - (dx / length) * 4);
      }
      if (ce && payload) {
        marked.moveTo(mx + 4, my);
        marked.arc(mx, my, 4, 0, 7);
      }
      if (resent) {
        again.moveTo(mx, my - 5);
        again.lineTo(mx + 5, my);
        again.lineTo(mx, my + 5);
        again.lineTo(mx - 5, my);
        again.closePath();
      }
    }
    // The selected flow is drawn over the others.
    for (const [key, path] of [...paths].sort((p, q) => q[0] - p[0])) {
      const who = key >> 1;
      g.strokeStyle = who === PALETTE.length ? ink.pale : colour(ink, who);
      g.lineWidth = key & 1 ? 5 : 2;
      g.stroke(path);
    }
    g.lineWidth = 1.4;
    g.strokeStyle = ink.text;
    g.stroke(marked);
    g.fillStyle = ink.text;
    g.fill(again);
  }

  private keep(hop: number, x: number, y: number): void {
    const { drawn } = this;
    if (drawn.count === drawn.hops.length) {
      const [hops, places] = [new Uint32Array(2 * drawn.count), new Float32Array(4 * drawn.count)];
      hops.set(drawn.hops);
      places.set(drawn.places);
      [drawn.hops, drawn.places] = [hops, places];
    }
    drawn.hops[drawn.count] = hop;
    drawn.places[2 * drawn.count] = x;
    drawn.places[2 * drawn.count++ + 1] = y;
  }

  private falling(g: CanvasRenderingContext2D, w: number, h: number, ink: Ink, t: number, speed: number, playing: boolean, queues: Uint32Array): void {
    const { log } = this;
    const frame = playing ? FRAME * speed : 0;
    // Drops are nearly in order of time: look back from the first that is later.
    let [low, high] = [0, log.drops.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (log.arrived.data[log.drops[middle]] > t) high = middle;
      else low = middle + 1;
    }
    const spans = new Map<number, number>();
    const span = (port: number) => {
      let found = spans.get(port);
      if (found === undefined) {
        const packets = Math.min(PACKETS_OF_FALL, (thresholds(log, port).limit ?? Infinity) / 2);
        const packet = ((log.head.mss[0] ?? 1460) + 40) * 8;
        spans.set(port, (found = Math.min(FALL * speed, (packets * packet) / log.head.links[port].rate_bps)));
      }
      return found;
    };
    g.strokeStyle = ink.alarm;
    g.lineWidth = 2;
    for (let i = low - 1, seen = 0; i >= 0 && seen < 200; i--, seen++) {
      const hop = log.drops[i];
      const past = t - log.arrived.data[hop];
      if (past > Math.max(FALL * speed, frame)) break;
      const port = log.hopPort.data[hop];
      if (port === NOWHERE) continue;
      // Of a frame that skips much time, only where there is still a queue.
      const last = queues[port] > 0 ? Math.max(span(port), frame) : span(port);
      if (past > last) continue;
      const age = past / last;
      const [a, b] = this.ends(port, w, h);
      const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
      const x = a.x + ((b.x - a.x) / length) * 16 + (hop % 7) * 2 - 6;
      const y = a.y + ((b.y - a.y) / length) * 16 + 8 + age * 40;
      g.globalAlpha = 1 - 0.7 * age;
      stroke(g, x - 3, y - 3, x + 3, y + 3);
      stroke(g, x + 3, y - 3, x - 3, y + 3);
      this.shown.drops++;
    }
    g.globalAlpha = 1;
  }

  private peaksNow(): { queue: Uint32Array; longest: Map<number, number> } {
    const { log } = this;
    if (this.peaks?.version !== log.version) {
      const queue = this.peaks?.queue ?? new Uint32Array(log.head.links.length);
      this.peaks = { version: log.version, queue, longest: new Map() };
    }
    return this.peaks;
  }
  /** Packets of a full bar: the limit; without one the longest queue of the record, or for ports that are not selected of what was drawn. */
  private fullAt(port: number, chosen: boolean): number {
    const { limit } = thresholds(this.log, port);
    if (limit !== null) return limit;
    const { queue, longest } = this.peaksNow();
    if (!chosen) return Math.max(queue[port], 10);
    if (!longest.has(port)) longest.set(port, this.log.queueOf(port).value.reduce((most, v) => Math.max(most, v), 10));
    return longest.get(port)!;
  }
  /** The same at the port that has this place in another run's network; 0 where there is none. */
  private fullAs(other: Log, port: number, chosen: boolean): number {
    const [theirs, ours] = [other, this.log].map(({ head: { links, nodes } }) => links[port] && `${nodes[links[port].from][0]}→${nodes[links[port].to][0]}`);
    return theirs === ours ? this.fullAt(port, chosen) : 0;
  }

  private queues(
    g: CanvasRenderingContext2D,
    w: number,
    h: number,
    ink: Ink,
    queues: Uint32Array,
    selected: Selection,
    beside: Picture | null,
  ): (() => void)[] {
    const { log } = this;
    const peak = this.peaksNow().queue;
    const gap = this.gap(w, h);
    const said: (() => void)[] = [];
    for (let port = 0; port < queues.length; port++) {
      const now = queues[port];
      peak[port] = Math.max(peak[port], now);
      const chosen = port === selected.port || port === log.reported;
      if (now < 2 && !chosen) continue;
      // A small picture is made without the packets that wait in hosts.
      if (this.small && !log.head.nodes[log.head.links[port].from][1]) continue;
      const [a, b] = this.ends(port, w, h);
      const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
      const [ux, uy] = [(b.x - a.x) / length, (b.y - a.y) / length];
      const { limit, marks } = thresholds(log, port);
      const full = Math.max(this.fullAt(port, chosen), beside?.fullAs(log, port, chosen) ?? 0);
      this.shown.full.set(port, full);
      // Where nodes stand close, bars of hosts are so small that they keep clear of the next one's.
      const host = !chosen && !log.head.nodes[log.head.links[port].from][1];
      const reach = Math.min(chosen ? 70 : host ? Math.min(34, Math.max(10, 1.2 * gap)) : 34, length * 0.45);
      const wide = chosen ? 11 : host ? Math.max(3, Math.min(6, gap / 4)) : 6;
      const start = 11;
      // Along the link, on its own side of the cable.
      const aside = wide / 2 + (host ? Math.min(4, gap / 5) : 4);
      const [ox, oy] = [-uy * aside, ux * aside];
      const at = (part: number): [number, number] => {
        const d = start + reach * Math.min(part, 1);
        return [a.x + ux * d + ox, a.y + uy * d + oy];
      };
      const [x0, y0] = at(0);
      const [x1, y1] = at(1);
      g.lineWidth = wide;
      g.strokeStyle = ink.line;
      stroke(g, x0, y0, x1, y1);
      const [xq, yq] = at(now / full);
      // A port that trims keeps headers beyond its limit.
      const trims = typeof log.head.links[port].trims_to === "number";
      g.strokeStyle = limit !== null && now >= limit && !trims ? ink.alarm : ink.text;
      g.lineWidth = wide - 2;
      stroke(g, x0, y0, xq, yq);
      g.lineWidth = 2;
      for (const mark of marks) {
        const [x, y] = at(mark / full);
        g.strokeStyle = ink.alarm;
        stroke(g, x - uy * wide * 0.8, y + ux * wide * 0.8, x + uy * wide * 0.8, y - ux * wide * 0.8);
      }
      if (limit !== null) {
        g.strokeStyle = ink.text;
        stroke(g, x1 - uy * wide * 0.7, y1 + ux * wide * 0.7, x1 + uy * wide * 0.7, y1 - ux * wide * 0.7);
      }
      if (chosen) {
        g.font = "600 12px system-ui, sans-serif";
        const text = limit === null || trims ? now.toLocaleString("en") : `${now.toLocaleString("en")} of ${round(limit)}`;
        const [mx, ty] = at(0.5);
        // Beside a level bar the words keep clear of the drops that fall at its beginning.
        const clear = Math.abs(ux) > 0.7 ? Math.max(0, 28 + g.measureText(text).width / 2 - Math.abs(mx - a.x)) : 0;
        const tx = mx + Math.sign(ux) * clear;
        // Beside the bar, away from the link; else on the other side, else beyond its end.
        const off = wide / 2 + 12 + Math.abs(uy) * g.measureText(text).width * 0.75;
        const places: [number, number][] = [
          [tx - uy * off, ty + ux * off],
          [tx + uy * (off + 20), ty - ux * (off + 20)],
          [x1 - uy * off, y1 + ux * off + 14],
          [tx - uy * off, ty + ux * off + 20],
          [tx + uy * (off + 20), ty - ux * (off + 20) - 20],
          [a.x, a.y + 28],
          [a.x, a.y - 32],
        ];
        // Over the bars of all ports.
        said.push(() => {
          g.font = "600 12px system-ui, sans-serif";
          places.some(([x, y], i) => this.label(g, text, x, y, "center", ink, i === places.length - 1 && port === selected.port));
        });
      }
    }
    return said;
  }
  private gaps: { size: string; least: number } | null = null;
  /** The least distance between two nodes; of many nodes a small one. */
  private gap(w: number, h: number): number {
    if (this.log.head.nodes.length > 400) return 4;
    const size = `${w} ${h}`;
    if (this.gaps?.size !== size) {
      const places = this.log.head.nodes.map((_, i) => this.place(i, w, h)).sort((a, b) => a.y - b.y);
      let least = Math.min(w, h);
      places.forEach((p, i) => {
        for (let k = i + 1; k < places.length && places[k].y - p.y < least; k++) least = Math.min(least, Math.hypot(places[k].x - p.x, places[k].y - p.y) || least);
      });
      this.gaps = { size, least };
    }
    return this.gaps.least;
  }

  private radius(isSwitch: boolean): number {
    const many = this.log.head.nodes.length > 80;
    return isSwitch ? (many ? 4 : 8) : many ? 2 : 4;
  }
  private nodes(g: CanvasRenderingContext2D, w: number, h: number, ink: Ink): void {
    this.log.head.nodes.forEach(([, isSwitch], i) => {
      const p = this.place(i, w, h);
      const r = this.radius(isSwitch === 1);
      g.beginPath();
      if (isSwitch) g.roundRect(p.x - r, p.y - r, 2 * r, 2 * r, 2);
      else g.arc(p.x, p.y, r, 0, 7);
      g.fillStyle = ink.ground;
      g.fill();
      g.strokeStyle = ink.text;
      g.lineWidth = 1.5;
      g.stroke();
    });
  }
  /** Names of nodes, the important ones first; a name without room is left out. */
  private names(g: CanvasRenderingContext2D, w: number, h: number, ink: Ink, selected: Selection): void {
    const { log } = this;
    const { nodes, links } = log.head;
    if (nodes.length > 400) return;
    g.font = "11px system-ui, sans-serif";
    const beside = this.layout.kind === "star" || this.layout.kind === "chain";
    const chosen = links[selected.port];
    const first = (i: number) => (chosen && (chosen.from === i || chosen.to === i) ? 0 : nodes[i][1] ? 1 : 2);
    const order = nodes.map((_, i) => i).sort((a, b) => first(a) - first(b) || a - b);
    // In a column of hosts every second or third has its name: always the same ones.
    const hosts = order.filter((i) => !nodes[i][1]);
    const columns = Math.max(1, new Set(hosts.map((i) => this.layout.places[i].x.toFixed(3))).size);
    const widest = Math.max(0, ...hosts.map((i) => g.measureText(nodes[i][0]).width)) + 6;
    const every = Math.max(1, Math.ceil(beside ? (13 * hosts.length) / h / columns : this.layout.kind === "tiers" ? (widest * hosts.length) / (w - 2 * Math.min(64, w * 0.17)) : 1));
    const rank = new Map([...hosts].sort((a, b) => a - b).map((i, k) => [i, k]));
    for (const i of order) {
      const [name, isSwitch] = nodes[i];
      const p = this.place(i, w, h);
      const r = this.radius(isSwitch === 1);
      if (!isSwitch && rank.get(i)! % every !== 0 && !(first(i) === 0 && beside)) continue;
      if (beside && !isSwitch && this.layout.kind === "star") {
        const outside = p.x < w * 0.5;
        this.label(g, name, p.x + (outside ? -r - 4 : r + 4), p.y, outside ? "right" : "left", ink);
      } else if (beside && !isSwitch) {
        const [left, right] = [p.x < w * 0.24, p.x > w * 0.76];
        if (left || right) this.label(g, name, p.x + (left ? -r - 4 : r + 4), p.y, left ? "right" : "left", ink);
        else this.label(g, name, p.x, p.y < h / 2 ? p.y - r - 8 : p.y + r + 8, "center", ink);
      } else if (isSwitch) {
        const above = [p.y - r - 9, p.y + r + 9];
        above.some((y) => this.label(g, name, p.x, y, "center", ink));
      } else this.label(g, name, p.x, p.y + r + 9, "center", ink);
    }
  }

  /** Packets on wires, where they were drawn, by flow and place in it: to go through by keys. */
  onWires(): { hop: number; x: number; y: number }[] {
    const { log } = this;
    const key = (hop: number) => [log.flow.data[log.hopPacket.data[hop]], log.hopPacket.data[hop]];
    const { count, hops, places } = this.drawn;
    const list = Array.from({ length: count }, (_, i) => ({ hop: hops[i], x: places[2 * i], y: places[2 * i + 1] }));
    return list.sort((a, b) => key(a.hop)[0] - key(b.hop)[0] || key(a.hop)[1] - key(b.hop)[1]);
  }
  /** What is nearest to a point of the canvas. */
  hit(x: number, y: number): Hit | null {
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    let best: { d: number; hit: Hit } = { d: 9, hit: { kind: "node", node: -1 } };
    this.log.head.nodes.forEach((_, node) => {
      const p = this.place(node, w, h);
      const d = Math.hypot(p.x - x, p.y - y);
      if (d < best.d) best = { d, hit: { kind: "node", node } };
    });
    const { count, hops, places } = this.drawn;
    for (let i = 0; i < count; i++) {
      const d = Math.hypot(places[2 * i] - x, places[2 * i + 1] - y) - 1;
      if (d < best.d) best = { d, hit: { kind: "packet", hop: hops[i] } };
    }
    if (best.d >= 9) {
      for (let port = 0; port < this.log.head.links.length; port++) {
        const [a, b] = this.ends(port, w, h);
        const [dx, dy] = [b.x - a.x, b.y - a.y];
        const s = Math.max(0, Math.min(1, ((x - a.x) * dx + (y - a.y) * dy) / (dx * dx + dy * dy || 1)));
        const d = Math.hypot(a.x + s * dx - x, a.y + s * dy - y);
        if (d < best.d) best = { d, hit: { kind: "port", port } };
      }
    }
    return best.hit.kind === "node" && best.hit.node < 0 ? null : best.hit;
  }
}

function stroke(g: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  g.beginPath();
  g.moveTo(x0, y0);
  g.lineTo(x1, y1);
  g.stroke();
}
const round = (x: number) => (Number.isInteger(x) ? x : x.toFixed(1));
