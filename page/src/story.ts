// The story of a lesson: four to six steps, the view follows each, and one asks for a prediction before it shows the answer.
import { percent, quantity } from "./format";
import type { Result } from "./log";
import type { Units } from "./plots";
import type { Values } from "./controls";

export interface Ask {
  question: string;
  key: string;
  low: number;
  high: number;
  /** Said when the answer is there. */
  after: string;
}
export interface Step {
  title: string;
  text: string;
  /** In seconds; absent: as it is. */
  at?: number;
  window?: [number, number];
  port?: string;
  flow?: number;
  value?: string;
  /** The curve that stands first, where it is not the queue: that of the value, or the payload delivered. */
  first?: "value" | "rate";
  /** What run B has set; absent: run A alone. */
  set?: Values;
  ask?: Ask;
}
export interface Story {
  number: number;
  of: number;
  steps: Step[];
}
export interface Stage {
  readonly units: Units;
  result(side: "A" | "B"): Result | null;
  /** Puts a step on the screen: `told` when the answer may be shown. */
  follow(step: Step, told: boolean): void;
}
/** Keys of the summary that are shares. */
export const SHARES = new Set(["utilisation", "drop_rate", "marked_share"]);
/** Those whose name says already what is counted. */
export const COUNTS = new Set(["drops", "trims", "retransmits", "ce_marks"]);
const STEPS = 200;

export class Teller {
  at = 0;
  private readonly guesses = new Map<number, number>();
  private readonly title = document.createElement("h2");
  private readonly text = document.createElement("div");
  private readonly ask = document.createElement("div");
  private readonly dots = document.createElement("ol");
  private readonly back = Object.assign(document.createElement("button"), { type: "button", textContent: "Back" });
  private readonly next = Object.assign(document.createElement("button"), { type: "button", textContent: "Next", className: "main" });

  constructor(
    box: HTMLElement,
    readonly story: Story,
    private readonly stage: Stage,
  ) {
    this.title.tabIndex = -1;
    this.text.className = "prose";
    this.ask.className = "ask";
    this.dots.className = "dots";
    this.dots.append(
      ...story.steps.map((step, i) => {
        const dot = Object.assign(document.createElement("button"), { type: "button", textContent: String(i + 1), title: step.title });
        dot.setAttribute("aria-label", `Step ${i + 1} of ${story.steps.length}: ${step.title}`);
        dot.addEventListener("click", () => this.go(i));
        const item = document.createElement("li");
        item.append(dot);
        return item;
      }),
    );
    this.back.addEventListener("click", () => this.go(this.at - 1));
    this.next.addEventListener("click", () => this.go(this.at + 1));
    const turn = Object.assign(document.createElement("div"), { className: "turn" });
    turn.append(this.back, this.dots, this.next);
    box.append(this.title, this.text, this.ask, turn);
    box.parentElement!.hidden = false;
  }
  get step(): Step {
    return this.story.steps[this.at];
  }
  private told(): boolean {
    return !this.step.ask || this.guesses.has(this.at);
  }
  go(i: number, quietly = false): void {
    this.at = Math.max(0, Math.min(this.story.steps.length - 1, i));
    this.show();
    this.stage.follow(this.step, this.told());
    if (!quietly) this.title.focus({ preventScroll: true });
  }
  /** Writes the step, with the numbers that the runs have now. */
  show(): void {
    const { step } = this;
    this.title.textContent = step.title;
    this.text.replaceChildren(...this.paragraphs(step.text));
    this.back.disabled = this.at === 0;
    this.next.disabled = this.at === this.story.steps.length - 1;
    [...this.dots.querySelectorAll("button")].forEach((dot, i) => (i === this.at ? dot.setAttribute("aria-current", "step") : dot.removeAttribute("aria-current")));
    if (!step.ask) this.ask.replaceChildren();
    else if (this.ask.dataset.step !== String(this.at) || this.ask.childElementCount === 0 || this.told()) this.question(step.ask);
    this.ask.hidden = !step.ask;
    this.ask.dataset.step = String(this.at);
  }
  /** Text with the figures of the runs in the place of `{A.goodput_bps}`. */
  private paragraphs(text: string): HTMLElement[] {
    return text.split("\n").map((paragraph) => {
      const p = document.createElement("p");
      paragraph.split(/\{([AB]\.\w+)\}/).forEach((part, i) => {
        if (i % 2 === 0) p.append(part);
        else p.append(Object.assign(document.createElement("b"), { className: "figure", textContent: this.figure(part[0] as "A" | "B", part.slice(2)) }));
      });
      return p;
    });
  }
  private figure(side: "A" | "B", key: string): string {
    const v = this.stage.result(side)?.summary[key];
    if (v === undefined) return "…";
    return this.say(key, v);
  }
  private say(key: string, v: number | null): string {
    if (SHARES.has(key) && v !== null) return percent(v);
    return quantity(v, COUNTS.has(key) ? "" : (this.stage.units[key]?.[0] ?? ""));
  }
  private question(ask: Ask): void {
    const guess = this.guesses.get(this.at);
    const question = Object.assign(document.createElement("p"), { className: "question", textContent: ask.question });
    if (guess === undefined) {
      const input = Object.assign(document.createElement("input"), { type: "range", id: "guess", min: "0", max: String(STEPS), value: String(STEPS / 2) });
      const output = Object.assign(document.createElement("output"), { className: "guess" });
      const value = () => rounded(ask.low + ((ask.high - ask.low) * Number(input.value)) / STEPS);
      const say = () => {
        output.textContent = this.say(ask.key, value());
        input.setAttribute("aria-valuetext", output.textContent);
      };
      const label = Object.assign(document.createElement("label"), { htmlFor: "guess", textContent: "Your prediction" });
      input.addEventListener("input", say);
      say();
      const button = Object.assign(document.createElement("button"), { type: "button", className: "main", id: "check", textContent: "Run it and see" });
      const give = () => {
        this.guesses.set(this.at, value());
        this.show();
        this.stage.follow(this.step, true);
      };
      button.addEventListener("click", give);
      input.addEventListener("keydown", (e) => {
        if (e.key === "Enter") give();
      });
      const row = Object.assign(document.createElement("div"), { className: "predict" });
      row.append(label, output, input, button);
      this.ask.replaceChildren(question, row);
      return;
    }
    const answer = this.stage.result(this.step.set ? "B" : "A")?.summary[ask.key];
    const before = this.step.set ? this.stage.result("A")?.summary[ask.key] : undefined;
    if (answer === undefined || answer === null) {
      this.ask.replaceChildren(question, Object.assign(document.createElement("p"), { textContent: "The run is under way …" }));
      return;
    }
    const most = Math.max(ask.high, answer, guess, before ?? 0);
    const bar = (name: string, v: number, kind: string) => {
      const row = Object.assign(document.createElement("div"), { className: `bar ${kind}` });
      const fill = document.createElement("i");
      fill.style.width = `${(100 * Math.max(0, v)) / most}%`;
      const rail = Object.assign(document.createElement("div"), { className: "rail" });
      rail.append(fill);
      row.append(Object.assign(document.createElement("span"), { textContent: name }), rail, Object.assign(document.createElement("b"), { textContent: this.say(ask.key, v) }));
      return row;
    };
    const bars = Object.assign(document.createElement("div"), { className: "bars" });
    if (before !== undefined && before !== null) bars.append(bar("A", before, "before"));
    bars.append(bar("You said", guess, "yours"), bar(this.step.set ? "B" : "It is", answer, "answer"));
    this.ask.replaceChildren(question, bars, ...this.paragraphs(ask.after));
  }
}
const rounded = (v: number) => +v.toPrecision(2);
