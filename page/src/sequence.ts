// Time-sequence plot of one flow, as tcptrace draws it: data, ACK line, SACK blocks, retransmissions, timeouts.
import { colour, type Ink } from "./draw";
import { FLAG, type Log } from "./log";
import type { Pen, SeriesData } from "./shapes";

type Place = (v: number) => number;
export interface Stroke<T extends Pen> {
  path: T;
  stroke: string;
  width: number;
  dash?: number[];
}

export class Sequence {
  private segments: { log: Log; flow: number; version: number; rows: number[] } | null = null;

  /** Packets of the flow, data and ACKs, by number. */
  private packetsOf(log: Log, flow: number): number[] {
    if (this.segments?.log !== log || this.segments.flow !== flow || this.segments.version !== log.version) {
      const rows: number[] = [];
      for (let p = 0; p < log.packets; p++) if (log.flow.data[p] === flow) rows.push(p);
      this.segments = { log, flow, version: log.version, rows };
    }
    return this.segments.rows;
  }
  /** The corners of what is in the window: two times, two sequence numbers. */
  frame(log: Log, flow: number, from: number, to: number): (number | null)[][] {
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
  /** Strokes by pens of one kind; X and Y give places in pixels, `px` of them make one of the page. */
  strokes<T extends Pen>(make: () => T, log: Log, flow: number, ink: Ink, window: [number, number], X: Place, Y: Place, span: [number, number], px: number): Stroke<T>[] {
    const about = log.flows.get(flow);
    if (!about) return [];
    const [from, to] = window;
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
      timeouts.moveTo(X(t), span[0]);
      timeouts.lineTo(X(t), span[1]);
    }
    return [
      { path: acks, stroke: colour(ink, 2), width: 1.2 },
      { path: sacks, stroke: colour(ink, 4), width: 2 },
      { path: data, stroke: colour(ink, 0), width: 2 },
      { path: again, stroke: ink.alarm, width: 2 },
      { path: timeouts, stroke: ink.alarm, width: 1.5, dash: [6, 4] },
    ];
  }
  /** The numbers of the plot, by kind. */
  series(log: Log, flow: number, ink: Ink, from: number, to: number): SeriesData[] {
    const about = log.flows.get(flow);
    const series = (label: string): SeriesData => ({ label, colour: ink.text, x: [], y: [] });
    const found = { data: series("data"), again: series("retransmission"), acks: series("acknowledged"), timeouts: series("timeout") };
    for (const p of this.packetsOf(log, flow)) {
      const sent = log.sent.data[p];
      if (!about || sent < from || sent > to) continue;
      const back = log.dst.data[p] !== about.dst;
      if (!back && log.payload.data[p] === 0) continue;
      const list = back ? found.acks : log.flags.data[p] & FLAG.RETRANSMIT ? found.again : found.data;
      list.x.push(sent);
      list.y.push(log.seq.data[p]);
    }
    for (const t of about?.timeouts ?? []) {
      if (t < from || t > to) continue;
      found.timeouts.x.push(t);
      found.timeouts.y.push(null);
    }
    return Object.values(found);
  }
}
/** What the marks of the plot are, with their looks. */
export function sequenceKey(ink: Ink): { label: string; svg: string }[] {
  const line = (stroke: string, d: string, width: number, dash = "") => `<path d="${d}" fill="none" stroke="${stroke}" stroke-width="${width}" stroke-dasharray="${dash}"/>`;
  return [
    { label: "data", svg: line(colour(ink, 0), "M14 3v8", 2) },
    { label: "acknowledged", svg: line(colour(ink, 2), "M3 11h11v-8h11", 1.4) },
    { label: "SACK block", svg: line(colour(ink, 4), "M14 2v10", 2) },
    { label: "retransmission", svg: line(ink.alarm, "M14 2v10", 2) + `<rect x="12" y="5" width="4" height="4" fill="${ink.alarm}"/>` },
    { label: "timeout", svg: line(ink.alarm, "M14 0v14", 1.5, "4 3") },
  ];
}
