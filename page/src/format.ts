// Numbers, times and quantities with their units.

/** Four digits, with a letter for the power of a thousand. */
export function short(x: number): string {
  const size = Math.abs(x);
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "–" : x > 0 ? "∞" : "-∞";
  if (size >= 1e9) return `${+(x / 1e9).toPrecision(4)}G`;
  if (size >= 1e6) return `${+(x / 1e6).toPrecision(4)}M`;
  if (size >= 1e4) return `${+(x / 1e3).toPrecision(4)}k`;
  return `${+x.toPrecision(4)}`;
}
/** Unit and factor for times of this size. */
function scaleOfTime(size: number): [string, number] {
  if (size < 2e-3) return ["µs", 1e6];
  return size < 2 ? ["ms", 1e3] : ["s", 1];
}
/** A time with as many digits as a window of this length needs. */
export function seconds(t: number, window: number): string {
  const [unit, factor] = scaleOfTime(window);
  const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(Math.max(window * factor, 1e-9)))));
  return `${(t * factor).toFixed(digits)} ${unit}`;
}
/** Unit and factor for times up to this one in a window: short windows that are late have the unit of the time, not of their length. */
const scaleWithin = (t: number, window: number) => scaleOfTime(t > 2 * window ? Math.max(window, 2 * t) : window);
/** The moment shown: fine enough for single packets, in a unit that suits the window and its place in the run. */
export function moment(t: number, window: number): string {
  const [unit, factor] = scaleWithin(t, window);
  const fine = unit === scaleOfTime(window)[0] ? 0 : 1;
  const digits = { µs: 2, ms: 3, s: 4 }[unit]! + fine;
  return `${(t * factor).toFixed(digits)} ${unit}`;
}
/** The times of an axis with this step between them, with all digits that the step needs: 2.5 is not 3. The last one has the unit. */
export function ticks(times: number[], step: number, window: number): string[] {
  const [unit, factor] = scaleWithin(times[times.length - 1] ?? 0, window);
  let digits = 0;
  while (digits < 6 && Math.abs(step * factor * 10 ** digits - Math.round(step * factor * 10 ** digits)) > 1e-6 * step * factor * 10 ** digits) digits++;
  return times.map((t, i) => `${(t * factor).toFixed(digits)}${i === times.length - 1 ? ` ${unit}` : ""}`);
}
const grouped = (x: number) => x.toLocaleString("en", { maximumFractionDigits: 0 });

/** Prefix and factor so that a value of this size has one to four digits before the point. */
export function scale(size: number, unit: string): { factor: number; unit: string } {
  if (unit === "s") {
    const [name, factor] = scaleOfTime(2 * size);
    return { factor, unit: name };
  }
  const steps: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const name = unit === "bit/s" ? "b/s" : unit === "bytes" ? "B" : unit;
  if (unit !== "bit/s" && unit !== "bytes") return { factor: 1, unit: name };
  const found = steps.find(([least]) => size >= least);
  return found ? { factor: 1 / found[0], unit: `${found[1]}${name}` } : { factor: 1, unit: name };
}
/** A value with its unit, in four digits. */
export function quantity(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "not measured";
  if (!Number.isFinite(value)) return "no limit";
  const { factor, unit: name } = scale(Math.abs(value), unit);
  const scaled = value * factor;
  const text = Math.abs(scaled) >= 1000 ? grouped(scaled) : `${+scaled.toPrecision(unit === "s" ? 3 : 4)}`;
  if (name === "1/s") return `${text} per second`;
  if (name === "packets" && text === "1") return "1 packet";
  return name ? `${text} ${name}` : text;
}
/** A share in per cent. */
export const percent = (value: number) => `${+(value * 100).toPrecision(value >= 0.995 ? 4 : 3)} %`;
