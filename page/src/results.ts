// What the runs have measured: the figures that matter in words, B against A; all others in a table behind a fold.
import { percent, quantity } from "./format";
import type { Log, Result } from "./log";
import type { Units } from "./plots";
import { COUNTS, SHARES } from "./story";

const LABELS: Record<string, string> = {
  goodput_bps: "Goodput",
  utilisation: "Link in use",
  queue_mean_packets: "Queue, on average",
  queue_std_packets: "Queue, standard deviation",
  queue_max_packets: "Longest queue",
  drops: "Packets dropped",
  trims: "Packets trimmed",
  timeouts: "Timeouts",
  retransmits: "Packets sent again",
  ce_marks: "Packets marked",
  pauses: "Pauses",
  jain: "Fairness (Jain’s index)",
  blocks: "Blocks read",
  fct_mean_s: "Time of a transfer, mean",
  fct_p50_s: "Time of a transfer, median",
  fct_p99_s: "Time of a transfer, 99th percentile",
  slowdown_p50: "Slowdown, median",
  slowdown_p99: "Slowdown, 99th percentile",
  collective_mean_s: "Time of an all-reduce",
  busbw_bps: "Bus bandwidth",
  algbw_bps: "Algorithm bandwidth",
};
/** In this order, those that the run has and that are not nought in all runs. */
const USUAL = ["collective_mean_s", "busbw_bps", "goodput_bps", "utilisation", "queue_mean_packets", "queue_max_packets", "drops", "trims", "timeouts", "ce_marks", "fct_p99_s", "jain"];
const MOST = 5;
/** Counted where they happen: a run without them has none. */
const EVENTS = new Set(["drops", "trims", "pauses", "timeouts", "retransmits", "ce_marks"]);

export interface Column {
  name: "A" | "B";
  result: Result;
  /** The controls have other values than this run. */
  stale: boolean;
}
const say = (key: string, v: number | null | undefined, units: Units) => (SHARES.has(key) && typeof v === "number" ? percent(v) : quantity(v, units[key]?.[0] ?? ""));
/** Without the unit where the label says it: "Packets dropped 12". */
const figure = (key: string, v: number | null | undefined, units: Units) => (v === null || v === undefined ? (EVENTS.has(key) ? "none" : "not in this run") : COUNTS.has(key) ? quantity(v, "") : say(key, v, units));

/** B against A in words. */
export function against(a: number | null, b: number | null): string {
  if (a === null || b === null || Number.isNaN(a) || Number.isNaN(b)) return "";
  if (a === b) return "as in A";
  if (a === 0) return "none in A";
  if (b === 0) return "none, unlike A";
  const ratio = b / a;
  if (ratio >= 2) return `${+ratio.toPrecision(2)} times A`;
  const share = Math.abs(ratio - 1) * 100;
  const text = share < 0.1 ? "under 0.1" : `${+share.toPrecision(2)}`;
  return `${text} % ${ratio > 1 ? "more" : "less"} than A`;
}
/** What time the figures are of: the picture and the keys of the curves tell single moments. */
export function measured(logs: Log[]): string {
  const ends = logs.map((log) => log.result?.end_s ?? log.duration);
  const [from, to] = [logs[0].head.warmup_ps * 1e-12, ends[0]];
  // Runs that end when their work is done have lengths of their own.
  if (ends.some((end) => end !== to)) return `of the whole runs, ${ends.map((end, i) => `${"AB"[i]} ${quantity(end, "s")}`).join(", ")}`;
  return from > 0 ? `from ${quantity(from, "s")} to ${quantity(to, "s")}, after the warm-up` : `of the whole run, ${quantity(to, "s")}`;
}
/** `made`: the run as the page was made, which a single run with other values is told beside. */
export function figures(box: HTMLElement, columns: Column[], wanted: string[], units: Units, made: Result | null, labels: Record<string, string>): void {
  const all = columns.map((c) => c.result.summary);
  // A row of events stays where a slider leaves none of them.
  const given = wanted.filter((key) => [...all, made?.summary ?? {}].some((s) => s[key] !== undefined && s[key] !== null) && (EVENTS.has(key) || all.some((s) => s[key] !== undefined && s[key] !== null)));
  const keys = (given.length > 0 ? given : USUAL.filter((key) => all.some((s) => s[key]))).slice(0, MOST);
  const before = columns.length === 1 && made && made !== columns[0].result ? made.summary : null;
  const rows = keys.map((key) => {
    const row = document.createElement("div");
    row.append(Object.assign(document.createElement("dt"), { textContent: labels[key] ?? LABELS[key] ?? key, title: units[key]?.[1] ?? "" }));
    columns.forEach((column, i) => {
      const cell = Object.assign(document.createElement("dd"), { textContent: figure(key, column.result.summary[key], units) });
      cell.dataset.side = column.name;
      if (column.stale) cell.className = "stale";
      if (i > 0) {
        const words = Object.assign(document.createElement("dd"), { className: "against" });
        words.append(Object.assign(document.createElement("small"), { textContent: against(all[0][key] ?? null, column.result.summary[key] ?? null) }));
        row.append(words);
      } else if (before) {
        const [then, now] = [before, column.result.summary].map((s) => figure(key, s[key], units));
        if (then !== now) cell.append(Object.assign(document.createElement("small"), { textContent: `at first ${then}` }));
      }
      row.append(cell);
    });
    return row;
  });
  box.replaceChildren(...rows);
  box.classList.toggle("two", columns.length > 1);
}
export function table(box: HTMLElement, columns: Column[], units: Units): void {
  const cells = (row: HTMLElement, texts: string[], tag: "th" | "td") => {
    for (const text of texts) row.append(Object.assign(document.createElement(tag), { textContent: text }));
    return row;
  };
  const head = cells(document.createElement("tr"), ["", ...columns.map((c) => c.name)], "th");
  head.querySelectorAll("th").forEach((th) => (th.scope = "col"));
  const keys = Object.keys(columns[0]?.result.summary ?? {});
  const rows = keys.map((key) => {
    const row = cells(document.createElement("tr"), [key], "th");
    row.firstElementChild!.setAttribute("title", units[key]?.[1] ?? "");
    (row.firstElementChild as HTMLTableCellElement).scope = "row";
    const texts = columns.map((c) => say(key, c.result.summary[key], units)).map((text) => (text === "not measured" ? "–" : text));
    if (new Set(texts).size > 1) row.className = "differs";
    return cells(row, texts, "td");
  });
  box.replaceChildren(head, ...rows);
}
