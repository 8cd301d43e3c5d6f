// The pictures in the list of lessons: each is a part of a run, drawn as its page draws it, and plays while the pointer or the focus is on it.
import { Picture } from "./draw";
import { readFile } from "./log";
import { inks } from "./state";
import { embedded } from "./unpack";

const calm = matchMedia("(prefers-reduced-motion: reduce)");
/** The part of the run takes so many seconds to play. */
const LASTS = 4;

class Card {
  private readonly picture: Picture;
  private readonly from: number;
  private readonly length: number;
  private playing = 0;
  t: number;

  constructor(
    readonly link: HTMLElement,
    canvas: HTMLCanvasElement,
    record: ArrayBuffer,
  ) {
    this.picture = new Picture(canvas, readFile(record), true);
    this.from = Number(canvas.dataset.from);
    this.length = Number(canvas.dataset.length);
    this.t = this.from + Number(canvas.dataset.still) * this.length;
    link.addEventListener("pointerenter", (e) => e.pointerType === "mouse" && this.play(true));
    link.addEventListener("pointerleave", () => this.stop());
    link.addEventListener("focus", () => this.play(true));
    link.addEventListener("blur", () => this.stop());
    this.draw();
  }
  draw(): void {
    this.picture.draw(this.t, inks(), { port: this.picture.log.reported, flow: -1 }, this.length / LASTS);
  }
  get packets(): number {
    return this.picture.shown.packets;
  }
  /** Plays once, or over and over. */
  play(again: boolean): void {
    if (this.playing || calm.matches) return;
    const begun = performance.now() - ((this.t - this.from) / this.length) * LASTS * 1000;
    const frame = (now: number) => {
      const turns = (now - begun) / 1000 / LASTS;
      this.t = this.from + (turns % 1) * this.length;
      this.draw();
      this.playing = again || turns < 1.5 ? requestAnimationFrame(frame) : 0;
    };
    this.playing = requestAnimationFrame(frame);
  }
  private stop(): void {
    cancelAnimationFrame(this.playing);
    this.playing = 0;
  }
}

async function main(): Promise<void> {
  const cards: Card[] = [];
  for (const canvas of document.querySelectorAll<HTMLCanvasElement>("canvas[data-record]")) {
    const record = await embedded(canvas.dataset.record!);
    if (record) cards.push(new Card(canvas.closest("a")!, canvas, record));
  }
  const all = () => cards.forEach((card) => card.draw());
  addEventListener("resize", all);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  if (matchMedia("(hover: none)").matches) {
    // Nothing hovers: a card plays once as it comes into view, for less than five seconds.
    const seen = new IntersectionObserver((entries) => {
      for (const e of entries) if (e.isIntersecting) cards.find((card) => card.link === e.target)?.play(false);
    }, { threshold: 0.9 });
    cards.forEach((card) => seen.observe(card.link));
  }
  // For tests.
  (globalThis as Record<string, unknown>).cards = cards;
}
void main();
