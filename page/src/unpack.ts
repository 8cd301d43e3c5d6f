// What an element of the page holds: bytes in base85.

/** The alphabet of Python's `base64.b85encode`, with a comma for "<", which a script element may not have. */
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

/** Bytes of base85 text: five digits for four bytes, the last group filled up with the highest digit. */
export function base85(text: string): Uint8Array {
  const value = new Uint8Array(128);
  for (let i = 0; i < 85; i++) value[DIGITS.charCodeAt(i)] = i;
  const out = new Uint8Array(Math.ceil(text.length / 5) * 4);
  const view = new DataView(out.buffer);
  for (let i = 0, at = 0; i < text.length; i += 5, at += 4) {
    let word = 0;
    for (let k = i; k < i + 5; k++) word = word * 85 + (k < text.length ? value[text.charCodeAt(k)] : 84);
    view.setUint32(at, word);
  }
  return out.subarray(0, out.length - ((5 - (text.length % 5)) % 5));
}
export function text(id: string): string {
  return document.getElementById(id)?.textContent?.trim() ?? "";
}
/** What an element of the page holds as gzip in base85; null where it is empty. */
export async function embedded(id: string): Promise<ArrayBuffer | null> {
  const packed = text(id);
  if (!packed) return null;
  const stream = new Blob([base85(packed) as BlobPart]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
