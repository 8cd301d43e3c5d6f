// What the page is given, what a link restores, and small things that need no run.
import type { Spec, Values } from "./controls";
import { legible } from "./contrast";
import { PALETTE, type Ink } from "./draw";
import { HOP, type Log } from "./log";
import type { Units } from "./plots";
import type { Slider } from "./sliders";
import type { Story } from "./story";

/** Bytes of record that a page keeps of packets; a longer run has flows and results, and packets up to there. */
export const MOST_BYTES = 120e6;
/** Simulated seconds per second of the reader's. */
export const SPEEDS = [1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1];

/** What the page was made with. */
export interface Given {
  title: string;
  /** Asks the engine for the run. */
  document: { set: Values; seed: number; run?: number } & Record<string, unknown>;
  specs: Spec[];
  /** Every value, defaults included. */
  values: Values;
  /** Controls to show first. */
  controls: string[];
  sliders: Slider[];
  story: Story | null;
  /** Keys of the summary to show first, best first. */
  figures: string[];
  units: { summary: Units; values: Units };
  /** Packets are recorded from here on, in seconds. */
  from_s?: number;
  /** Of a page of a record: bytes that the page has, those of the whole record, and where it was made of. */
  recorded?: { bytes: number; of: number; whole: boolean; file: string };
}
/** The state that a link restores. */
export interface Link {
  a: Values;
  b: Values | null;
  /** The run that the controls are of; absent: A. */
  last?: "A" | "B";
  seed: number;
  t: number;
  from: number;
  to: number;
  port: number;
  flow: number;
  /** Flows with curves of their own; absent: not chosen. */
  flows?: number[];
  step?: number;
}

/** The page's colours, as its style sheet has them. */
export function inks(): Ink {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(name).trim();
  const ground = get("--ground");
  const palette = PALETTE.map((colour) => legible(colour, ground));
  return { text: get("--text"), soft: get("--soft"), panel: get("--panel"), pale: get("--pale"), line: get("--line"), ground, alarm: get("--alarm"), palette };
}
export function readLink(): Link | null {
  if (location.hash.length < 2) return null;
  try {
    return JSON.parse(decodeURIComponent(location.hash.slice(1))) as Link;
  } catch {
    return null;
  }
}
/** A moment to begin with: the first drop, else the first mark, else the middle of what is recorded. */
export function interesting(log: Log): number {
  const within = (t: number) => Math.max(log.from, Math.min(log.packetsUntil, t));
  if (log.drops.length > 0) return within(log.arrived.data[log.drops[0]]);
  for (let h = 0; h < log.hops; h++) if (log.hopKind.data[h] & HOP.MARKED) return within(log.queued.data[h]);
  return (log.from + log.packetsUntil) / 2;
}
