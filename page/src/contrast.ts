// Colours that can be told from the ground they are on: WCAG 2.2, success criteria 1.4.3 and 1.4.11.

/** Red, green and blue, 0 to 255, of #rrggbb or rgb(r, g, b). */
function channels(colour: string): number[] {
  if (colour.startsWith("#")) return [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return (colour.match(/[\d.]+/g) ?? ["0", "0", "0"]).slice(0, 3).map(Number);
}
/** Relative luminance, 0 to 1. */
export function luminance(colour: string): number {
  const [r, g, b] = channels(colour).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
/** Contrast ratio, 1 to 21. */
export function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}
export const isDark = (ground: string) => luminance(ground) < 0.18;
/** Of graphics on light paper; thin lines on a dark ground need more. */
const [LEAST, LEAST_DARK] = [3, 4];

/** The colour, as much lighter or darker as it must be to be told from the ground. */
export function legible(colour: string, ground: string): string {
  const dark = isDark(ground);
  const [end, least] = dark ? [255, LEAST_DARK] : [0, LEAST];
  const from = channels(colour);
  for (let share = 0; ; share += 0.04) {
    const mixed = from.map((v) => Math.round(v + (end - v) * Math.min(1, share)));
    const found = `#${mixed.map((v) => v.toString(16).padStart(2, "0")).join("")}`;
    if (contrast(found, ground) >= least || share >= 1) return found;
  }
}
