// The record of a run, read as it grows. The format is described in crates/sim/src/trace.rs; times here are seconds.

/** A typed array that grows. */
class Column<T extends Float64Array | Uint32Array | Uint8Array> {
  length = 0;
  constructor(public data: T) {}
  push(x: number): void {
    if (this.length === this.data.length) {
      const bigger = new (this.data.constructor as new (n: number) => T)(this.length * 2);
      bigger.set(this.data as never);
      this.data = bigger;
    }
    this.data[this.length++] = x;
  }
}
const f64 = () => new Column(new Float64Array(1024));
const u32 = () => new Column(new Uint32Array(1024));
const u8 = () => new Column(new Uint8Array(1024));

export interface LinkHead {
  from: number;
  to: number;
  rate_bps: number;
  delay_ps: number;
  limit: { packets?: number; bytes?: number } | null;
  queue: string;
  /** Bytes that remain of a packet that finds no room, where the port trims. Absent in older records. */
  trims_to?: number | null;
  /** Order of service. */
  order?: "fifo" | "strict" | "drr" | "rank";
}
export interface Head {
  scenario: string;
  nodes: [name: string, isSwitch: 0 | 1][];
  links: LinkHead[];
  protocols: string[];
  mss: number[];
  duration_ps: number;
  warmup_ps: number;
  framing: number;
  /** How packets are spread over ports of equal cost. Absent in older records. */
  spread?: string;
  seed: number;
  run: number;
  bottleneck: number;
  causes: string[];
}
export interface Result {
  summary: Record<string, number | null>;
  warnings: string[];
  bottleneck: string;
  bottleneck_port: number;
  packet_hops: number;
  end_s: number;
  packets_until_s: number | null;
  /** Of a window of a record: packets are there from here on. */
  packets_from_s?: number;
  completed: boolean;
}
export interface Flow {
  number: number;
  opened: number;
  closed: number;
  src: number;
  dst: number;
  protocol: number;
  size: number;
  /** Times and values by name. */
  values: Map<string, { at: number[]; value: number[] }>;
  timeouts: number[];
  repairs: number[];
}
/** Flags of segments, as in crates/core/src/packet.rs. */
export const FLAG = { SYN: 1, ACK: 2, FIN: 4, ECE: 8, CWR: 16, RETRANSMIT: 32, TRIMMED: 256 } as const;
/** What a row of the hop table is. */
export const HOP = { MARKED: 1, DROPPED: 2, HELD: 4 } as const;
export const NOWHERE = (1 << 20) - 1;

const BLOCK = 1024;
const PS = 1e-12;

/** Versions given so far, of all records. */
let versions = 0;

export class Log {
  // Packets, by number.
  readonly flow = u32();
  readonly dst = u32();
  readonly seq = f64();
  readonly bytes = u32();
  readonly payload = u32();
  readonly flags = u32();
  readonly sent = f64();
  readonly ecn = u8();
  /** When a port marked it: as it took the packet in. */
  readonly markedAt = f64();
  readonly sackAt = u32();
  readonly sacks = u32();
  // Hops: one row per port that a packet was offered to.
  readonly hopPort = u32();
  readonly hopPacket = u32();
  readonly queued = f64();
  /** When the last bit left; infinite for packets that were dropped or had not been chosen when the record ended. */
  readonly left = f64();
  /** At the other end; of a dropped packet when it was dropped. */
  readonly arrived = f64();
  readonly hopKind = u8();
  readonly cause = u8();
  // Per block of hops: no packet of it is anywhere before the first or after the second.
  private readonly blockFrom = f64();
  private readonly blockTo = f64();
  readonly trims = new Map<number, { at: number; port: number; bytes: number }>();
  readonly pauses: { at: number; port: number; on: boolean; priority: number }[] = [];
  readonly outages: { at: number; port: number; up: boolean }[] = [];
  readonly drops: number[] = [];
  readonly flows = new Map<number, Flow>();
  readonly valueNames: string[] = [];
  result: Result | null = null;
  /** Everything up to here is in the record, in seconds. */
  until = 0;
  /** Packets are recorded from here on; flows and their values always. */
  from = 0;
  /** Packets that were retransmissions. */
  resent = 0;
  /** Grows with everything that is read, and is never that of another record: who keeps something made of the record compares it. */
  version = ++versions;

  constructor(readonly head: Head) {}

  get duration(): number {
    return this.head.duration_ps * PS;
  }
  /** Packets are recorded up to here. */
  get packetsUntil(): number {
    return Math.min(this.until, this.result?.packets_until_s ?? Infinity);
  }
  /** Whether the record has the packets of this moment. */
  recorded(t: number): boolean {
    return t >= this.from && t <= this.packetsUntil;
  }
  /** Whether the run was over by then: nothing happened any more. */
  over(t: number): boolean {
    const { result } = this;
    return result !== null && result.packets_until_s === null && t > result.end_s;
  }
  /** Memory of the record, in bytes. */
  get memory(): number {
    const columns = [this.flow, this.dst, this.seq, this.bytes, this.payload, this.flags, this.sent, this.ecn, this.markedAt, this.sackAt, this.sacks];
    const rows = [this.hopPort, this.hopPacket, this.queued, this.left, this.arrived, this.hopKind, this.cause];
    return [...columns, ...rows].reduce((sum, column) => sum + column.data.byteLength, 0);
  }
  /** The port that the summary's queue figures are of. */
  get reported(): number {
    return this.result?.bottleneck_port ?? this.head.bottleneck;
  }
  get hops(): number {
    return this.hopPort.length;
  }
  get packets(): number {
    return this.flow.length;
  }

  /** Reads the words of a whole number of records. */
  read(words: Uint32Array): void {
    const time = (i: number) => (words[i + 1] * 4294967296 + words[i]) * PS;
    const number = (i: number) => words[i + 1] * 4294967296 + words[i];
    const double = new DataView(new ArrayBuffer(8));
    let i = 0;
    while (i < words.length) {
      const first = words[i];
      const port = first >>> 12;
      switch (first & 15) {
        case 1: {
          const sacks = (first >>> 6) & 3;
          this.flow.push(words[i + 4]);
          this.dst.push(words[i + 5]);
          this.seq.push(number(i + 6));
          this.bytes.push(words[i + 8]);
          this.payload.push(words[i + 9]);
          this.flags.push(words[i + 10]);
          if (words[i + 10] & FLAG.RETRANSMIT) this.resent++;
          this.sent.push(time(i + 2));
          this.ecn.push((first >>> 4) & 3);
          this.markedAt.push(Infinity);
          this.sackAt.push((this.sacks.length << 2) | sacks);
          i += 11;
          for (let k = 0; k < 2 * sacks; k++) this.sacks.push(words[i++]);
          break;
        }
        case 2: {
          const late = (first >>> 5) & 1;
          const left = time(i + 4);
          const arrived = late ? time(i + 6) : left + this.head.links[port].delay_ps * PS;
          this.hop(port, words[i + 1], time(i + 2), left, arrived, (first >>> 4) & 1 ? HOP.MARKED : 0, 0);
          i += late ? 8 : 6;
          break;
        }
        case 3: {
          this.drops.push(this.hops);
          this.hop(port, words[i + 1], time(i + 2), Infinity, time(i + 4), HOP.DROPPED, (first >>> 4) & 255);
          i += 6;
          break;
        }
        case 4:
          this.trims.set(words[i + 1], { at: time(i + 2), port, bytes: words[i + 4] });
          i += 5;
          break;
        case 5:
          this.pauses.push({ at: time(i + 1), port, on: ((first >>> 4) & 1) === 1, priority: (first >>> 5) & 7 });
          i += 3;
          break;
        case 6:
          this.flows.set(words[i + 1], {
            number: words[i + 1],
            opened: time(i + 2),
            closed: Infinity,
            src: words[i + 4],
            dst: words[i + 5],
            protocol: words[i + 6],
            size: number(i + 8),
            values: new Map(),
            timeouts: [],
            repairs: [],
          });
          i += 10;
          break;
        case 7: {
          const flow = this.flows.get(words[i + 1]);
          if (flow) flow.closed = time(i + 2);
          i += 4;
          break;
        }
        case 8: {
          double.setUint32(0, words[i + 4], true);
          double.setUint32(4, words[i + 5], true);
          const name = this.valueNames[(first >>> 4) & 255];
          const values = this.flows.get(words[i + 1])?.values;
          if (values) {
            let series = values.get(name);
            if (!series) values.set(name, (series = { at: [], value: [] }));
            series.at.push(time(i + 2));
            series.value.push(double.getFloat64(0, true));
          }
          i += 6;
          break;
        }
        case 9: {
          const [text, next] = this.text(words, i + 1);
          this.valueNames[(first >>> 4) & 255] = text;
          i = next;
          break;
        }
        case 10:
          this.flows.get(words[i + 1])?.timeouts.push(time(i + 2));
          i += 4;
          break;
        case 11:
          this.flows.get(words[i + 1])?.repairs.push(time(i + 2));
          i += 4;
          break;
        case 12: {
          const undecided = words[i + 5] === 0xffffffff;
          const left = undecided ? Infinity : time(i + 4);
          this.hop(port, words[i + 1], time(i + 2), left, Infinity, HOP.HELD, 0);
          i += 6;
          break;
        }
        case 13:
          this.outages.push({ at: time(i + 1), port, up: ((first >>> 4) & 1) === 1 });
          i += 3;
          break;
        case 14: {
          const [text, next] = this.text(words, i + 1);
          this.result = JSON.parse(text) as Result;
          i = next;
          break;
        }
        default:
          throw new Error(`the record has an unknown kind ${first & 15} at word ${i}`);
      }
    }
    this.changed();
  }
  /** What is made of the record is to be made again. */
  changed(): void {
    this.version = ++versions;
  }
  private text(words: Uint32Array, i: number): [string, number] {
    const bytes = new Uint8Array(words.buffer, words.byteOffset + 4 * (i + 1), words[i]);
    return [new TextDecoder().decode(bytes), i + 1 + Math.ceil(words[i] / 4)];
  }
  private hop(
    port: number,
    packet: number,
    queued: number,
    left: number,
    arrived: number,
    kind: number,
    cause: number,
  ): void {
    const block = Math.floor(this.hops / BLOCK);
    if (block === this.blockFrom.length) {
      this.blockFrom.push(queued);
      this.blockTo.push(arrived);
    } else {
      this.blockFrom.data[block] = Math.min(this.blockFrom.data[block], queued);
      this.blockTo.data[block] = Math.max(this.blockTo.data[block], arrived);
    }
    if (kind & HOP.MARKED) this.markedAt.data[packet] = queued;
    this.hopPort.push(port);
    this.hopPacket.push(packet);
    this.queued.push(queued);
    this.left.push(left);
    this.arrived.push(arrived);
    this.hopKind.push(kind);
    this.cause.push(cause);
  }

  /** Calls `each` with every hop that is in a port or on its wire at `t`. */
  at(t: number, each: (hop: number) => void): void {
    const { queued, arrived } = this;
    for (let b = 0; b < this.blockFrom.length; b++) {
      if (this.blockFrom.data[b] > t || this.blockTo.data[b] <= t) continue;
      const end = Math.min((b + 1) * BLOCK, this.hops);
      for (let h = b * BLOCK; h < end; h++) {
        if (queued.data[h] <= t && arrived.data[h] > t) each(h);
      }
    }
  }
  /** The first event after `t`, or the last before it: a packet is queued, has left, arrives or is dropped. */
  event(t: number, forwards: boolean): number {
    let best = forwards ? Infinity : -Infinity;
    const better = (x: number) => {
      if (forwards ? x > t && x < best : x < t && x > best) best = x;
    };
    for (let b = 0; b < this.blockFrom.length; b++) {
      if (forwards ? this.blockTo.data[b] <= t || this.blockFrom.data[b] >= best : this.blockFrom.data[b] >= t) continue;
      if (!forwards && this.blockTo.data[b] < best) continue;
      const end = Math.min((b + 1) * BLOCK, this.hops);
      for (let h = b * BLOCK; h < end; h++) {
        better(this.queued.data[h]);
        if (Number.isFinite(this.left.data[h])) better(this.left.data[h]);
        if (Number.isFinite(this.arrived.data[h])) better(this.arrived.data[h]);
      }
    }
    return Number.isFinite(best) ? best : t;
  }
  /** Where every packet is at `t`: by port those on its wire and those in it, as the engine's own `whereabouts` has them. */
  whereabouts(t: number): [wire: [number, number][], port: [number, number][]][] {
    const out = this.head.links.map(() => [[], []] as [[number, number][], [number, number][]]);
    this.at(t, (h) => {
      const p = this.hopPacket.data[h];
      out[this.hopPort.data[h]][this.left.data[h] > t ? 1 : 0].push([this.flow.data[p], this.seq.data[p]]);
    });
    for (const lists of out) for (const list of lists) list.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    return out;
  }

  /** Payload of a flow that its receiver has in order, per measured time after the warm-up, in bit/s. */
  goodputOf(flow: number): number | null {
    const measured = this.result?.summary.measured_s;
    if (!measured || this.from > 0 || this.result?.packets_until_s !== null) return null;
    const from = this.head.warmup_ps * PS;
    const came: [at: number, seq: number, payload: number][] = [];
    for (let h = 0; h < this.hops; h++) {
      const p = this.hopPacket.data[h];
      if (this.flow.data[p] !== flow || this.payload.data[p] === 0 || this.hopKind.data[h] & (HOP.DROPPED | HOP.HELD)) continue;
      const at = this.arrived.data[h];
      const trim = this.trims.get(p);
      if (this.head.links[this.hopPort.data[h]]?.to !== this.dst.data[p] || at > from + measured || (trim && trim.at <= at)) continue;
      came.push([at, this.seq.data[p], this.payload.data[p]]);
    }
    came.sort((a, b) => a[0] - b[0]);
    // Behind a gap, until it is filled: where each part ends, by where it begins.
    const waiting = new Map<number, number>();
    let next = came.reduce((least, [, seq]) => Math.min(least, seq), Infinity);
    let bytes = 0;
    for (const [at, seq, payload] of came) {
      if (seq + payload <= next) continue;
      waiting.set(Math.max(seq, next), seq + payload);
      for (let end = waiting.get(next); end !== undefined; end = waiting.get(next)) {
        waiting.delete(next);
        if (at >= from) bytes += end - next;
        next = end;
      }
    }
    return (bytes * 8) / measured;
  }

  // ---- what is made of the record ------------------------------------------------------------------------------

  /** The queue of a port, waiting and in service, as steps. */
  queueOf(port: number): { at: Float64Array; value: Float64Array } {
    let n = 0;
    for (let h = 0; h < this.hops; h++) if (this.hopPort.data[h] === port) n += 2;
    const up = new Float64Array(n / 2);
    const down = new Float64Array(n / 2);
    let i = 0;
    for (let h = 0; h < this.hops; h++) {
      if (this.hopPort.data[h] !== port) continue;
      const end = this.hopKind.data[h] & HOP.DROPPED ? this.arrived.data[h] : this.left.data[h];
      if (end === this.queued.data[h]) continue;
      up[i] = this.queued.data[h];
      down[i++] = end;
    }
    const ups = up.subarray(0, i).sort();
    const downs = down.subarray(0, i).sort();
    const at = new Float64Array(2 * i + 1);
    const value = new Float64Array(2 * i + 1);
    let [u, d, k] = [0, 0, 1];
    while (u < i || (d < i && Number.isFinite(downs[d]))) {
      // A packet whose last bit leaves makes room for one that arrives at the same instant.
      const isUp = u < i && ups[u] < downs[d];
      at[k] = isUp ? ups[u++] : downs[d++];
      value[k] = u - d;
      k++;
      if (!isUp && d >= i) break;
    }
    return { at: at.subarray(0, k), value: value.subarray(0, k) };
  }
  /** Bytes that left by each port in `bins` equal parts of the run. */
  heat(bins: number): Float32Array[] {
    const out = this.head.links.map(() => new Float32Array(bins));
    const scale = bins / this.duration;
    for (let h = 0; h < this.hops; h++) {
      const left = this.left.data[h];
      if (left >= this.duration || this.hopPort.data[h] === NOWHERE) continue;
      out[this.hopPort.data[h]][Math.floor(left * scale)] += this.bytes.data[this.hopPacket.data[h]];
    }
    return out;
  }
}

/** A log from a file's bytes. */
export function readFile(bytes: ArrayBuffer): Log {
  const view = new DataView(bytes);
  const magic = new TextDecoder().decode(new Uint8Array(bytes, 0, 8));
  if (magic !== "PENSTOCK") throw new Error("this is no record of a run");
  if (view.getUint32(8, true) !== 1) throw new Error(`the record has version ${view.getUint32(8, true)}, not 1`);
  const length = view.getUint32(12, true);
  const log = new Log(JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 16, length))) as Head);
  log.read(new Uint32Array(bytes, 16 + length));
  log.until = log.result?.end_s ?? log.duration;
  log.from = log.result?.packets_from_s ?? 0;
  return log;
}
