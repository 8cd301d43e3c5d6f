// The parameters that a lesson is about: a slider over sensible values, or a few choices side by side.

export interface Slider {
  key: string;
  label: string;
  kind: "range" | "choice";
  /** Values as the command line takes them, and as the reader sees them. */
  values: string[];
  say: string[];
}

export class Sliders {
  private readonly rows: { slider: Slider; show: (value: string) => void }[] = [];

  /** `take` gets a value while it is dragged, and `of` tells the values that the controls have. */
  constructor(
    box: HTMLElement,
    sliders: Slider[],
    private readonly base: (key: string) => string,
    private readonly take: (key: string, value: string) => void,
  ) {
    for (const slider of sliders) box.append(slider.kind === "range" ? this.range(slider) : this.choice(slider));
    box.hidden = sliders.length === 0;
  }
  private range(slider: Slider): HTMLElement {
    const row = Object.assign(document.createElement("div"), { className: "slider" });
    const id = `slide-${slider.key}`;
    const label = Object.assign(document.createElement("label"), { htmlFor: id, textContent: slider.label });
    const input = Object.assign(document.createElement("input"), { id, type: "range", min: "0", max: String(slider.values.length - 1), step: "1" });
    const output = document.createElement("output");
    const given = slider.values.indexOf(this.base(slider.key));
    const tick = Object.assign(document.createElement("span"), { className: "given", title: "as the page was made" });
    tick.style.setProperty("--at", String(given / Math.max(1, slider.values.length - 1)));
    tick.hidden = given < 0;
    const ends = Object.assign(document.createElement("div"), { className: "ends" });
    ends.append(...[slider.say[0], slider.say[slider.say.length - 1]].map((text) => Object.assign(document.createElement("span"), { textContent: text })));
    const say = (text: string) => {
      output.textContent = text;
      input.setAttribute("aria-valuetext", text);
    };
    input.addEventListener("input", () => {
      const i = Number(input.value);
      say(slider.say[i]);
      this.take(slider.key, slider.values[i]);
    });
    this.rows.push({
      slider,
      show: (value) => {
        const i = slider.values.indexOf(value);
        if (i >= 0) input.value = String(i);
        say(i >= 0 ? slider.say[i] : value || "derived");
      },
    });
    const track = Object.assign(document.createElement("div"), { className: "track" });
    track.append(input, tick);
    row.append(label, output, track, ends);
    return row;
  }
  private choice(slider: Slider): HTMLElement {
    const row = Object.assign(document.createElement("fieldset"), { className: "choice" });
    row.append(Object.assign(document.createElement("legend"), { textContent: slider.label }));
    const inputs = slider.values.map((value, i) => {
      const label = document.createElement("label");
      const input = Object.assign(document.createElement("input"), { type: "radio", name: `slide-${slider.key}`, value });
      input.addEventListener("input", () => this.take(slider.key, value));
      label.append(input, Object.assign(document.createElement("span"), { textContent: slider.say[i] }));
      row.append(label);
      return input;
    });
    this.rows.push({
      slider,
      show: (value) => {
        for (const input of inputs) input.checked = input.value === value;
      },
    });
    return row;
  }
  /** Shows the values that the controls have now. */
  show(value: (key: string) => string): void {
    for (const { slider, show } of this.rows) show(value(slider.key));
  }
}
