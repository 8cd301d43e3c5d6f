// What the page is given, what a link restores, and small things that need no run.
import type { Spec, Values } from "./controls";
import { legible } from "./contrast";
import { PALETTE, type Ink } from "./draw";
import { HOP, type Log } from "./log";
import { seconds, short } from "./format";

/** Bytes of record that a page keeps of packets; a longer run has flows and results, and packets up to there. */
export const MOST_BYTES = 120e6;
/** Simulated seconds per second of the reader's. */
export const SPEEDS = [1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1];

/** What the page was made with. */
export interface Given {
  title: string;
  lesson: string[];
  /** Asks the engine for the run. */
  document: { set: Values; seed: number; run?: number } & Record<string, unknown>;
  specs: Spec[];
  /** Every value, defaults included. */
  values: Values;
  /** Controls to show first. */
  controls: string[];
}
/** The state that a link restores. */
export interface Link {
  a: Values;
  b: Values | null;
  seed: number;
  t: number;
  from: number;
  to: number;
  port: number;
  flow: number;
}

/** The page's colours, as its style sheet has them. */
export function inks(): Ink {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(name).trim();
  const ground = get("--ground");
  const palette = PALETTE.map((colour) => legible(colour, ground));
  return { text: get("--text"), pale: get("--pale"), line: get("--line"), ground, alarm: get("--alarm"), palette };
}
export function readLink(): Link | null {
  if (location.hash.length < 2) return null;
  try {
    return JSON.parse(decodeURIComponent(location.hash.slice(1))) as Link;
  } catch {
    return null;
  }
}
/** A moment to begin with: the first drop, else the first mark, else the middle. */
export function interesting(log: Log): number {
  if (log.drops.length > 0) return log.arrived.data[log.drops[0]];
  for (let h = 0; h < log.hops; h++) if (log.hopKind.data[h] & HOP.MARKED) return log.queued.data[h];
  return log.duration / 2;
}
export function value(key: string, v: number): string {
  if (key.endsWith("_bps")) return `${short(v)}bit/s`;
  if (key.endsWith("_s")) return seconds(v, v);
  return short(v);
}
