// Numbers and times in few letters.
export function short(x: number): string {
  const size = Math.abs(x);
  if (!Number.isFinite(x)) return x > 0 ? "∞" : `${x}`;
  if (size >= 1e9) return `${+(x / 1e9).toPrecision(4)}G`;
  if (size >= 1e6) return `${+(x / 1e6).toPrecision(4)}M`;
  if (size >= 1e4) return `${+(x / 1e3).toPrecision(4)}k`;
  return `${+x.toPrecision(4)}`;
}
/** A time with as many digits as a window of this length needs. */
export function seconds(t: number, window: number): string {
  const [unit, factor] = window < 2e-3 ? ["µs", 1e6] : window < 2 ? ["ms", 1e3] : ["s", 1];
  const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(Math.max(window * factor, 1e-9)))));
  return `${(t * factor).toFixed(digits)} ${unit}`;
}
