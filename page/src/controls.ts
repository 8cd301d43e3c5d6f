// The parameters of the scenario as controls: what the catalogue says of each is what a reader sees.

export interface Spec {
  name: string;
  kind: string;
  unit: string;
  default: string;
  min: number | null;
  max: number | null;
  choices: string[] | null;
  text: string;
  origin: string;
}
export type Values = Record<string, string>;

export class Controls {
  private readonly inputs = new Map<string, HTMLInputElement | HTMLSelectElement>();

  /** `first` are shown at once, the others behind a fold. */
  constructor(
    box: HTMLElement,
    readonly specs: Spec[],
    private readonly base: Values,
    first: string[],
    private readonly changed: () => void,
    private readonly enter: () => void,
  ) {
    const known = new Map(specs.map((s) => [s.name, s]));
    for (const name of first) {
      const spec = known.get(name);
      if (spec) box.append(this.row(spec));
    }
    const rest = specs.filter((s) => !first.includes(s.name));
    const fold = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = `All other parameters (${rest.length})`;
    fold.append(summary, ...rest.map((s) => this.row(s)));
    box.append(fold);
  }
  private row(spec: Spec): HTMLElement {
    const row = document.createElement("div");
    row.className = "control";
    const label = document.createElement("label");
    label.textContent = spec.name;
    label.htmlFor = `set-${spec.name}`;
    const choices = spec.kind === "bool" ? ["false", "true"] : spec.choices;
    let input: HTMLInputElement | HTMLSelectElement;
    if (choices) {
      input = document.createElement("select");
      input.append(...choices.map((c) => new Option(c, c)));
    } else {
      input = document.createElement("input");
      input.type = "text";
      input.spellcheck = false;
      input.placeholder = spec.default || "derived";
    }
    input.id = label.htmlFor;
    input.addEventListener("keydown", (e) => {
      if ((e as KeyboardEvent).key === "Enter") this.enter();
    });
    input.value = this.base[spec.name] ?? spec.default;
    input.addEventListener("input", () => {
      this.mark(spec.name);
      this.changed();
    });
    const about = document.createElement("small");
    const range = spec.min !== null && spec.max !== null && !choices ? ` ${bound(spec.min)} to ${bound(spec.max)}.` : "";
    const unit = spec.unit && !choices ? ` In ${spec.unit}.` : "";
    about.textContent = `${spec.text}.${unit}${range}${spec.origin ? ` From: ${spec.origin}.` : ""}`;
    about.id = `about-${spec.name}`;
    input.setAttribute("aria-describedby", about.id);
    row.append(label, input, about);
    this.inputs.set(spec.name, input);
    return row;
  }
  private mark(name: string): void {
    const input = this.inputs.get(name)!;
    input.closest(".control")?.classList.toggle("edited", input.value.trim() !== this.given(name));
  }
  /** What the page was made with. */
  given(name: string): string {
    return this.base[name] ?? this.specs.find((s) => s.name === name)?.default ?? "";
  }
  value(name: string): string {
    return this.inputs.get(name)?.value.trim() ?? "";
  }
  put(name: string, value: string): void {
    const input = this.inputs.get(name);
    if (!input) return;
    // A select has no value that is not among its options.
    if (input instanceof HTMLSelectElement && ![...input.options].some((o) => o.value === value)) input.append(new Option(value, value));
    input.value = value;
    this.mark(name);
  }
  /** The values that differ from what the page was made with. */
  edits(): Values {
    const out: Values = {};
    for (const [name, input] of this.inputs) {
      if (input.value.trim() !== this.given(name)) out[name] = input.value.trim();
    }
    return out;
  }
  /** Shows these edits. */
  restore(edits: Values): void {
    for (const name of this.inputs.keys()) this.put(name, edits[name] ?? this.given(name));
  }
  /** The control that an error's line is about. */
  blame(line: string): void {
    for (const input of this.inputs.values()) input.removeAttribute("aria-invalid");
    const key = line.match(/(\w+)(:\w+)? = /)?.[1];
    const input = key === undefined ? undefined : this.inputs.get(key);
    input?.setAttribute("aria-invalid", "true");
    input?.closest("details")?.setAttribute("open", "");
    input?.focus();
  }
}
const bound = (x: number) => (Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3) ? x.toExponential(0) : `${x}`);
