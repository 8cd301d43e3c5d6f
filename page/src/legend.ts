// What the symbols of the network stand for, each drawn as the network draws it. Only those that occur in the run are listed.
import type { Ink } from "./draw";
import { HOP, type Log } from "./log";

interface Entry {
  key: string;
  text: string;
  /** On a ground of 34 by 16. */
  draw(ink: Ink): string;
}
const line = (d: string, stroke: string, width: number, more = "") => `<path d="${d}" fill="none" stroke="${stroke}" stroke-width="${width}" ${more}/>`;
const wire = (ink: Ink) => line("M1 8H33", ink.pale, 1);

const ENTRIES: Entry[] = [
  { key: "data", text: "data packet, in the colour of its flow", draw: (ink) => wire(ink) + line("M9 8h16", ink.palette[0], 5) },
  { key: "ack", text: "ACK or other packet without data", draw: (ink) => wire(ink) + line("M13 8h8", ink.palette[0], 2) },
  { key: "trim", text: "header of a trimmed packet", draw: (ink) => wire(ink) + line("M13 8h8", ink.palette[0], 2) + line("M13 4v8", ink.palette[0], 2) },
  { key: "mark", text: "marked (CE)", draw: (ink) => wire(ink) + line("M9 8h16", ink.palette[0], 5) + `<circle cx="17" cy="8" r="4" fill="none" stroke="${ink.text}" stroke-width="1.4"/>` },
  { key: "again", text: "retransmission", draw: (ink) => wire(ink) + line("M9 8h16", ink.palette[0], 5) + `<path d="M17 3l5 5l-5 5l-5 -5z" fill="${ink.text}"/>` },
  { key: "drop", text: "dropped", draw: (ink) => line("M14 5l6 6m0 -6l-6 6", ink.alarm, 2) },
  { key: "queue", text: "queue of a port", draw: (ink) => line("M3 8h28", ink.line, 10) + line("M3 8h12", ink.text, 8) },
  { key: "threshold", text: "marking threshold", draw: (ink) => line("M3 8h28", ink.line, 10) + line("M3 8h12", ink.text, 8) + line("M20 1v14", ink.alarm, 2) },
  { key: "limit", text: "limit of the buffer", draw: (ink) => line("M3 8h28", ink.line, 10) + line("M3 8h12", ink.text, 8) + line("M31 1v14", ink.text, 2) },
  { key: "pause", text: "link paused", draw: (ink) => line("M1 8H33", ink.pale, 1) + line("M17 1v14", ink.alarm, 3) },
  { key: "down", text: "link down", draw: (ink) => line("M1 8H33", ink.pale, 1) + line("M12 3l10 10m0 -10l-10 10", ink.alarm, 3) },
];

/** Which entries say something about these runs. */
function occurring(logs: Log[]): Set<string> {
  const found = new Set(["data", "ack", "queue"]);
  for (const log of logs) {
    if (log.trims.size > 0) found.add("trim");
    if (log.drops.length > 0) found.add("drop");
    if (log.pauses.length > 0) found.add("pause");
    if (log.outages.length > 0) found.add("down");
    if (log.head.links.some((link) => link.limit)) found.add("limit");
    if (log.head.links.some((link) => /\b(k|k1|kmin|min)=/.test(link.queue))) found.add("threshold");
    if (log.resent > 0) found.add("again");
    for (let h = 0; h < log.hops && !found.has("mark"); h++) if (log.hopKind.data[h] & HOP.MARKED) found.add("mark");
  }
  return found;
}

export function legend(box: HTMLElement, logs: Log[], ink: Ink): void {
  const there = occurring(logs);
  const shown = ENTRIES.filter((entry) => there.has(entry.key));
  const made = `${shown.map((e) => e.key).join()}|${ink.text}`;
  if (box.dataset.made === made) return;
  box.dataset.made = made;
  box.innerHTML = shown
    .map((e) => `<li><svg viewBox="0 0 34 16" width="34" height="16" aria-hidden="true">${e.draw(ink)}</svg>${e.text}</li>`)
    .join("");
}
