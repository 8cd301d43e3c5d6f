// What is shown, as a file: SVG and PNG of the same drawing, CSV of the numbers.
import type uPlot from "uplot";
import { HATCH_WIDTH, hatched, mark, type Paper, type PanelData, type SeriesData, type Shape } from "./shapes";

export interface TextMark {
  x: number;
  y: number;
  text: string;
  size?: number;
  align?: CanvasTextAlign;
  bold?: boolean;
  turned?: boolean;
  colour?: string;
}
/** One panel as it is on the screen: where it stands in the whole, its plot, its shapes in pixels of the plotting area. */
export interface Part {
  left: number;
  top: number;
  plot: uPlot;
  title: string;
  shapes: Shape[];
  texts: TextMark[];
  labels: [string, string];
}
export interface Whole {
  width: number;
  height: number;
  title: string;
  parts: Part[];
  texts: TextMark[];
  legend: SeriesData[];
  paper: Paper;
  colour: (series: SeriesData) => string;
}

const FONT = "system-ui, 'DejaVu Sans', sans-serif";
const LEGEND_ROW = 20;

/** The whole as an SVG document. */
export function svg(whole: Whole): string {
  const { paper, width } = whole;
  const rows = legendRows(whole);
  const height = whole.height + rows.length * LEGEND_ROW + (rows.length ? 8 : 0);
  const out: string[] = [`<rect width="100%" height="100%" fill="${paper.ground}"/>`];
  for (const text of whole.texts) out.push(word(text, paper.ink));
  whole.parts.forEach((part, i) => {
    const { plot } = part;
    const px = devicePixelRatio;
    const box = { x: plot.bbox.left / px, y: plot.bbox.top / px, w: plot.bbox.width / px, h: plot.bbox.height / px };
    const inside: string[] = [];
    const lines: string[] = [];
    const words: string[] = [];
    plot.axes.forEach((axis, k) => {
      // What uPlot has drawn: places and texts of its ticks (pinned version; not in its types).
      const { _splits: places, _values: texts } = axis as unknown as { _splits?: (number | null)[]; _values?: string[] };
      places?.forEach((v, n) => {
        if (v === null || texts?.[n] === undefined || texts[n] === null) return;
        const rows = texts[n].split("\n").length;
        const at = plot.valToPos(v, k === 0 ? "x" : "y");
        if (k === 0) {
          lines.push(`M${at + box.x} ${box.y}v${box.h}`);
          words.push(word({ x: at + box.x, y: box.y + box.h + 16, text: texts[n], align: "center" }, paper.ink));
        } else {
          lines.push(`M${box.x} ${at + box.y}h${box.w}`);
          words.push(word({ x: box.x - 6, y: at + box.y + 4 - 7 * (rows - 1), text: texts[n], align: "right" }, paper.ink));
        }
      });
    });
    for (const shape of part.shapes) inside.push(path(shape));
    for (const text of part.texts) inside.push(word(text, paper.ink));
    const [x, y] = part.labels;
    if (x) words.push(word({ x: box.x + box.w / 2, y: plot.height - 3, text: x, align: "center" }, paper.ink));
    if (y) words.push(word({ x: 12, y: box.y + box.h / 2, text: y, align: "center", turned: true }, paper.ink));
    if (part.title) words.push(word({ x: box.x, y: -6, text: part.title, bold: true }, paper.ink));
    out.push(
      `<g transform="translate(${part.left} ${part.top})">`,
      `<path d="${lines.join("")}" fill="none" stroke="${paper.ink}" stroke-opacity=".15"/>`,
      `<path d="M${box.x} ${box.y}v${box.h}h${box.w}" fill="none" stroke="${paper.ink}"/>`,
      words.join(""),
      `<clipPath id="c${i}"><rect width="${box.w}" height="${box.h}"/></clipPath>`,
      `<g transform="translate(${box.x} ${box.y})"><g clip-path="url(#c${i})">${inside.join("")}</g></g></g>`,
    );
  });
  rows.forEach((row, i) => {
    for (const { x, series } of row) {
      const y = whole.height + 14 + i * LEGEND_ROW;
      out.push(swatch(series, x, y - 4, whole.colour(series), paper));
      out.push(word({ x: x + 34, y, text: series.label }, paper.ink));
    }
  });
  const box = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
  // The parser knows SVG's namespace, and the serialiser writes it.
  const holder = document.createElement("template");
  holder.innerHTML = `<svg ${box} font-family="${FONT}" font-size="12">${out.join("")}</svg>`;
  return new XMLSerializer().serializeToString(holder.content.firstElementChild!);
}

function legendRows(whole: Whole): { x: number; series: SeriesData }[][] {
  const rows: { x: number; series: SeriesData }[][] = [];
  let x = Infinity;
  for (const series of whole.legend) {
    const wide = 48 + 6.6 * series.label.length;
    if (x + wide > whole.width) {
      rows.push([]);
      x = 8;
    }
    rows[rows.length - 1].push({ x, series });
    x += wide;
  }
  return rows;
}
/** The look of a series in a legend: 28 wide, its middle at y. */
export function swatch(series: SeriesData, x: number, y: number, colour: string, paper: Paper): string {
  const dash = series.dash?.join(" ") ?? "";
  let out = "";
  if (series.base) {
    const hatch = hatched(series.hatch ?? "", x, y - 5, 28, 10);
    const strokes = hatch && `<path d="${hatch}" fill="none" stroke="${paper.ground}" stroke-width="${HATCH_WIDTH}"/>`;
    return `<rect x="${x}" y="${y - 5}" width="28" height="10" fill="${colour}"/>${strokes}`;
  }
  if (series.width) out = `<path d="M${x} ${y}h28" fill="none" stroke="${colour}" stroke-width="2" stroke-dasharray="${dash}"/>`;
  if (series.marker) {
    out += `<path d="${mark(series.marker, x + 14, y, 4)}" fill="${series.hollow ? paper.ground : colour}" stroke="${colour}"/>`;
  }
  return out;
}
function path(s: Shape): string {
  const stroke = s.stroke ? ` stroke="${s.stroke}" stroke-width="${s.width ?? 1}"` : "";
  const dash = s.dash ? ` stroke-dasharray="${s.dash.map((v) => +v.toFixed(2)).join(" ")}"` : "";
  const opacity = s.opacity === undefined || s.opacity === 1 ? "" : ` opacity="${+s.opacity.toFixed(3)}"`;
  return `<path d="${s.d}" fill="${s.fill ?? "none"}"${stroke}${dash}${opacity}/>`;
}
function word(t: TextMark, ink: string): string {
  const anchor = { center: "middle", right: "end", end: "end" }[t.align as string] ?? "start";
  const turn = t.turned ? ` transform="rotate(-90 ${t.x} ${t.y})"` : "";
  const bold = t.bold ? ' font-weight="600"' : "";
  const size = t.size ? ` font-size="${t.size}"` : "";
  return t.text
    .split("\n")
    .map((line, i) => `<text x="${t.x}" y="${t.y + 14 * i}" text-anchor="${anchor}" fill="${t.colour ?? ink}"${size}${bold}${turn}>${escape(line)}</text>`)
    .join("");
}
const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** That SVG as pixels, two for each. */
async function png(text: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth * 2, image.naturalHeight * 2];
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("no picture"))), "image/png"));
}

/** The numbers of all series of panels, a row per point. */
export function csv(panels: PanelData[]): string {
  const columns = ["panel", "series", "x", "y", "x_low", "x_high", "y_low", "y_high"] as const;
  const rows = [columns.join(",")];
  const cell = (v: number | string | null | undefined) => {
    const text = v === null || v === undefined ? "" : String(v);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  panels.forEach((panel, k) => {
    const name = panel.title || (panels.length > 1 ? String(k + 1) : "");
    for (const s of panel.series) {
      s.x.forEach((x, i) => {
        rows.push([name, s.label, x, s.y[i], s.x_low?.[i], s.x_high?.[i], s.y_low?.[i], s.y_high?.[i]].map(cell).join(","));
      });
    }
  });
  return `${rows.join("\n")}\n`;
}

/** Give the reader a file. */
function save(name: string, data: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(data);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Buttons that give a plot's picture and numbers as files. */
export function downloads(name: () => string, picture: () => string, numbers: () => string): HTMLButtonElement[] {
  const button = (text: string, about: string, act: () => void) => {
    const made = Object.assign(document.createElement("button"), { type: "button", textContent: text, title: about });
    made.setAttribute("aria-label", about);
    made.addEventListener("click", act);
    return made;
  };
  return [
    button("SVG", "Download what is shown as SVG", () => save(`${name()}.svg`, new Blob([picture()], { type: "image/svg+xml" }))),
    button("PNG", "Download what is shown as PNG", () => void png(picture()).then((blob) => save(`${name()}.png`, blob))),
    button("CSV", "Download the numbers as CSV", () => save(`${name()}.csv`, new Blob([numbers()], { type: "text/csv" }))),
  ];
}
