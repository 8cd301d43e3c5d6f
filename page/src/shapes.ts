// The series of a figure as paths, in pixels of a panel's plotting area: the canvas and the SVG download draw the same ones.

import { legible } from "./contrast";

export interface AxisData {
  label: string;
  scale: "linear" | "log" | "symlog";
  /** Of symlog: linear up to here. */
  linear_to?: number;
  limits: [number, number];
  /** Places with words, where the axis has them. */
  ticks?: [number, string][];
}
type Numbers = (number | null)[];
export interface SeriesData {
  label: string;
  /** It stands in no legend; its label is a number. */
  unnamed?: boolean;
  /** #rrggbbaa. */
  colour: string;
  /** Of the line, in points; 0: no line. */
  width?: number;
  dash?: number[];
  marker?: string;
  size?: number;
  hollow?: boolean;
  hatch?: string;
  x: Numbers;
  y: Numbers;
  /** Ends of intervals; a band, or bars where `bars`. */
  y_low?: Numbers;
  y_high?: Numbers;
  x_low?: Numbers;
  x_high?: Numbers;
  bars?: boolean;
  steps?: "pre" | "post" | "mid";
  /** Columns from here up, each of this width. */
  base?: Numbers;
  column?: number;
  /** Points before thinning. */
  of?: number;
}
export interface PanelData {
  box: [number, number, number, number];
  title: string;
  x: AxisData;
  y: AxisData;
  series: SeriesData[];
  levels: { axis: "x" | "y"; at: number; label: string; colour: string; width: number; dash?: number[] }[];
  areas: { axis?: "x" | "y"; from?: number; to?: number; x?: Numbers; y?: Numbers; colour: string }[];
  /** `by`: points to the right and up. */
  texts: { text: string; x: number; y: number; by: [number, number]; fixed: boolean; align: CanvasTextAlign; colour: string; size: number; turned: boolean }[];
}
export interface FigureData {
  width: number;
  height: number;
  title: string;
  x: string;
  y: string;
  panels: PanelData[];
}

/** Takes what a path is made of: a `Path2D`, or `Trail`, which writes it down. */
export interface Pen {
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
  rect(x: number, y: number, width: number, height: number): void;
}
export class Trail implements Pen {
  d = "";
  moveTo(x: number, y: number): void {
    this.d += `M${two(x)} ${two(y)}`;
  }
  lineTo(x: number, y: number): void {
    this.d += `L${two(x)} ${two(y)}`;
  }
  rect(x: number, y: number, width: number, height: number): void {
    this.d += `M${two(x)} ${two(y)}h${two(width)}v${two(height)}h${two(-width)}Z`;
  }
}
const two = (v: number) => Math.round(Math.max(-1e5, Math.min(1e5, v)) * 100) / 100;

/** One path with its look. */
export interface Shape {
  d: string;
  stroke?: string;
  fill?: string;
  width?: number;
  dash?: number[];
  opacity?: number;
}
/** Where a value of an axis is, in pixels from the left or the top. */
export type Place = (v: number) => number;
/** The colours of the page round the plot. */
export interface Paper {
  ink: string;
  ground: string;
}

// Pixels per point of print.
export const PX = 96 / 72;
// The ink of printed figures (figures.py).
const INK = "#1c1f24";

/** A colour of the printed figure on this page: its ink is the page's, the others can be told from the ground. */
export function onPaper(colour: string, paper: Paper): string {
  const plain = colour.slice(0, 7).toLowerCase();
  if (plain === INK || plain === "#000000") return paper.ink;
  if (plain === "#ffffff") return paper.ground;
  return legible(plain, paper.ground);
}
const opacity = (colour: string) => (colour.length > 7 ? parseInt(colour.slice(7, 9), 16) / 255 : 1);

/** Shapes of one series, under what is above it. */
export function seriesShapes(s: SeriesData, X: Place, Y: Place, paper: Paper): Shape[] {
  const colour = onPaper(s.colour, paper);
  const shapes: Shape[] = [];
  const at = (i: number): [number, number] | null => {
    const [x, y] = [s.x[i], s.y[i]];
    if (x === null || y === null) return null;
    const place: [number, number] = [X(x), Y(y)];
    return Number.isFinite(place[0]) && Number.isFinite(place[1]) ? place : null;
  };
  if (s.base) {
    const columns = new Trail();
    let hatches = "";
    s.x.forEach((x, i) => {
      const [y, base] = [s.y[i], s.base![i]];
      if (x === null || y === null || base === null) return;
      const [left, right] = [X(x - s.column! / 2), X(x + s.column! / 2)];
      columns.rect(left, Y(y), right - left, Y(base) - Y(y));
      hatches += hatched(s.hatch ?? "", left, Y(y), right - left, Y(base) - Y(y));
    });
    const plain = { d: columns.d, fill: colour, stroke: colour, width: 1, opacity: opacity(s.colour) };
    return hatches ? [plain, { d: hatches, stroke: paper.ground, width: HATCH_WIDTH }] : [plain];
  }
  if (s.y_low && s.y_high && !s.bars) {
    const [low, high] = [s.y_low, s.y_high];
    const kept = s.x.map((_, i) => i).filter((i) => s.x[i] !== null && low[i] !== null && high[i] !== null);
    if (kept.length > 1) {
      const band = new Trail();
      kept.forEach((i, k) => (k ? band.lineTo : band.moveTo).call(band, X(s.x[i]!), Y(high[i]!)));
      kept.reverse().forEach((i) => band.lineTo(X(s.x[i]!), Y(low[i]!)));
      shapes.push({ d: `${band.d}Z`, fill: colour, opacity: 0.2 });
    }
  }
  if (s.bars) {
    const bars = new Trail();
    for (let i = 0; i < s.x.length; i++) {
      const place = at(i);
      if (!place) continue;
      const ends: [Numbers | undefined, Numbers | undefined, boolean][] = [
        [s.x_low, s.x_high, true],
        [s.y_low, s.y_high, false],
      ];
      for (const [low, high, across] of ends) {
        const [a, b] = [low?.[i] ?? null, high?.[i] ?? null];
        if (a === null || b === null) continue;
        const [from, to] = across ? [X(a), X(b)] : [Y(a), Y(b)];
        if (!Number.isFinite(from) || !Number.isFinite(to)) continue;
        for (const [u, end] of [
          [from, 3],
          [to, 3],
        ] as const) {
          across ? bars.moveTo(u, place[1] - end) : bars.moveTo(place[0] - end, u);
          across ? bars.lineTo(u, place[1] + end) : bars.lineTo(place[0] + end, u);
        }
        across ? bars.moveTo(from, place[1]) : bars.moveTo(place[0], from);
        across ? bars.lineTo(to, place[1]) : bars.lineTo(place[0], to);
      }
    }
    shapes.push({ d: bars.d, stroke: colour, width: 1.4 });
  }
  if (s.width) {
    const line = new Trail();
    let last: [number, number] | null = null;
    for (let i = 0; i < s.x.length; i++) {
      const place = at(i);
      if (place && !last) line.moveTo(...place);
      else if (place && last) {
        if (s.steps === "post") line.lineTo(place[0], last[1]);
        else if (s.steps === "pre") line.lineTo(last[0], place[1]);
        else if (s.steps === "mid") {
          line.lineTo((last[0] + place[0]) / 2, last[1]);
          line.lineTo((last[0] + place[0]) / 2, place[1]);
        }
        line.lineTo(...place);
      }
      last = place;
    }
    shapes.push({ d: line.d, stroke: colour, width: s.width, dash: s.dash?.map((v) => v * PX), opacity: opacity(s.colour) });
  }
  if (s.marker) {
    const r = Math.max(2, ((s.size ?? 4.5) * PX) / 2);
    let d = "";
    for (let i = 0; i < s.x.length; i++) {
      const place = at(i);
      if (place) d += mark(s.marker, place[0], place[1], r);
    }
    const open = "x+|_".includes(s.marker);
    const fill = open ? undefined : s.hollow ? paper.ground : colour;
    shapes.push({ d, fill, stroke: colour, width: 1.2, opacity: opacity(s.colour) });
  }
  return shapes;
}

export const HATCH_WIDTH = 1.2;
/**
 * Strokes within a column, so that columns differ without their colours: of matplotlib's hatches `/`, `\\`, `x`, `-`, `|`, `+`, `.` and `o`,
 * strokes of each kind 7 pixels apart, 5 where there is more than one letter.
 */
export function hatched(hatch: string, x: number, y: number, width: number, height: number): string {
  // A column below its base.
  if (height < 0) [y, height] = [y + height, -height];
  if (!(width > 0 && height > 0)) return "";
  const trail = new Trail();
  const pace = hatch.length > 1 ? 5 : 7;
  const across = (kind: string) => hatch.includes(kind) || (hatch.includes("+") && "-|".includes(kind));
  const turned = (kind: string) => hatch.includes(kind) || (/[xX]/.test(hatch) && "/\\".includes(kind));
  if (across("-")) for (let v = y + pace / 2; v < y + height; v += pace) trail.moveTo(x, v), trail.lineTo(x + width, v);
  if (across("|")) for (let u = x + pace / 2; u < x + width; u += pace) trail.moveTo(u, y), trail.lineTo(u, y + height);
  // Lines u + v = c up to the right, u - v = c - height down to the right, in the column's own coordinates.
  const slant = pace * Math.SQRT2;
  for (const kind of "/\\") {
    if (!turned(kind)) continue;
    for (let c = slant / 2; c < width + height; c += slant) {
      const [from, to] = [Math.max(0, c - height), Math.min(width, c)];
      const place = (u: number): [number, number] => [x + u, kind === "/" ? y + c - u : y + height - (c - u)];
      trail.moveTo(...place(from));
      trail.lineTo(...place(to));
    }
  }
  if (/[.oO*]/.test(hatch)) {
    const r = 0.9;
    for (let v = y + pace / 2, row = 0; v + r < y + height; v += pace, row++) {
      for (let u = x + pace / 2 + (row % 2 ? pace / 2 : 0); u + r < x + width; u += pace) trail.rect(u - r / 2, v - r / 2, r, r);
    }
  }
  return trail.d;
}

/** A marker as matplotlib draws the one of this letter. */
export function mark(kind: string, x: number, y: number, r: number): string {
  const polygon = (...turns: [number, number][]) => `M${turns.map(([dx, dy]) => `${two(x + dx * r)} ${two(y + dy * r)}`).join("L")}Z`;
  const star = () => polygon(...Array.from({ length: 10 }, (_, i): [number, number] => {
    const [angle, reach] = [(i * Math.PI) / 5, i % 2 ? 0.45 : 1.15];
    return [Math.sin(angle) * reach, -Math.cos(angle) * reach];
  }));
  const lines = (...parts: [number, number, number, number][]) =>
    parts.map(([a, b, c, e]) => `M${two(x + a * r)} ${two(y + b * r)}L${two(x + c * r)} ${two(y + e * r)}`).join("");
  switch (kind) {
    case "s":
      return polygon([-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]);
    case "^":
      return polygon([0, -1.1], [1, 0.9], [-1, 0.9]);
    case "v":
      return polygon([0, 1.1], [1, -0.9], [-1, -0.9]);
    case "<":
      return polygon([-1.1, 0], [0.9, 1], [0.9, -1]);
    case ">":
      return polygon([1.1, 0], [-0.9, 1], [-0.9, -1]);
    case "D":
      return polygon([0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]);
    case "P":
      return polygon([-0.4, -1.1], [0.4, -1.1], [0.4, -0.4], [1.1, -0.4], [1.1, 0.4], [0.4, 0.4], [0.4, 1.1], [-0.4, 1.1], [-0.4, 0.4], [-1.1, 0.4], [-1.1, -0.4], [-0.4, -0.4]);
    case "X":
      return polygon([-0.5, -1.1], [0, -0.6], [0.5, -1.1], [1.1, -0.5], [0.6, 0], [1.1, 0.5], [0.5, 1.1], [0, 0.6], [-0.5, 1.1], [-1.1, 0.5], [-0.6, 0], [-1.1, -0.5]);
    case "*":
      return star();
    case "x":
      return lines([-1, -1, 1, 1], [-1, 1, 1, -1]);
    case "+":
      return lines([-1, 0, 1, 0], [0, -1, 0, 1]);
    case "|":
      return lines([0, -1, 0, 1]);
    case "_":
      return lines([-1, 0, 1, 0]);
    default: {
      const q = kind === "." ? r * 0.5 : r;
      return `M${two(x - q)} ${two(y)}a${two(q)} ${two(q)} 0 1 0 ${two(2 * q)} 0a${two(q)} ${two(q)} 0 1 0 ${two(-2 * q)} 0Z`;
    }
  }
}

/** What lies under the series (areas) and across the panel (levels). */
export function groundShapes(panel: PanelData, X: Place, Y: Place, width: number, height: number, paper: Paper): Shape[] {
  const shapes: Shape[] = [];
  for (const area of panel.areas) {
    const trail = new Trail();
    if (area.axis === "x") trail.rect(X(area.from!), 0, X(area.to!) - X(area.from!), height);
    else if (area.axis === "y") trail.rect(0, Y(area.to!), width, Y(area.from!) - Y(area.to!));
    else {
      area.x!.forEach((x, i) => {
        const y = area.y![i];
        if (x !== null && y !== null) (trail.d ? trail.lineTo : trail.moveTo).call(trail, X(x), Y(y));
      });
      trail.d += "Z";
    }
    shapes.push({ d: trail.d, fill: onPaper(area.colour, paper), opacity: opacity(area.colour) });
  }
  for (const level of panel.levels) {
    const at = level.axis === "x" ? X(level.at) : Y(level.at);
    const trail = new Trail();
    trail.moveTo(level.axis === "x" ? at : 0, level.axis === "x" ? 0 : at);
    trail.lineTo(level.axis === "x" ? at : width, level.axis === "x" ? height : at);
    shapes.push({ d: trail.d, stroke: onPaper(level.colour, paper), width: level.width, dash: level.dash?.map((v) => v * PX), opacity: opacity(level.colour) });
  }
  return shapes;
}
