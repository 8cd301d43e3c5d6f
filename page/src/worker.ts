// Runs the simulator in a worker: a document in, the head of the record, pieces of it, and the result out. The module comes compiled; each
// run has an instance of its own, so that nothing is left of the run before.

interface Exports {
  memory: WebAssembly.Memory;
  input(length: number): number;
  output(): number;
  output_len(): number;
  create(): number;
  step(untilPs: number): number;
  drain(): number;
  records(): number;
  result(): number;
}
export type Message =
  | { kind: "head"; text: string }
  | { kind: "records"; words: Uint32Array; untilPs: number }
  | { kind: "result"; text: string; seconds: number }
  | { kind: "error"; line: string };
export type Order = { module: WebAssembly.Module; text?: string };

const post = (message: Message, transfer: Transferable[] = []) =>
  (self as unknown as { postMessage(m: Message, t: Transferable[]): void }).postMessage(message, transfer);

/** Longest and shortest time, in ms, that a step should take: often enough for a smooth progress bar. */
const [SLOW, FAST] = [60, 20];

function run(module: WebAssembly.Module, text: string): void {
  const wasm = new WebAssembly.Instance(module, {}).exports as unknown as Exports;
  const output = () => {
    const [at, length] = [wasm.output(), wasm.output_len()];
    return new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, at, length));
  };
  const checked = (answer: number) => {
    if (answer < 0) throw new Error(output());
    return answer;
  };
  try {
    const bytes = new TextEncoder().encode(text);
    const room = wasm.input(bytes.length);
    new Uint8Array(wasm.memory.buffer, room, bytes.length).set(bytes);
    checked(wasm.create());
    const head = output();
    post({ kind: "head", text: head });
    const end = (JSON.parse(head) as { duration_ps: number }).duration_ps;
    let [at, slice, busy] = [0, end / 100, 0];
    for (let more = 1; more === 1; ) {
      const before = performance.now();
      at = Math.min(at + slice, end);
      more = checked(wasm.step(at));
      const took = performance.now() - before;
      busy += took;
      if (took < FAST) slice *= 2;
      else if (took > SLOW) slice /= 2;
      const length = checked(wasm.drain());
      const words = new Uint32Array(wasm.memory.buffer, wasm.records(), length).slice();
      post({ kind: "records", words, untilPs: more ? at : end }, [words.buffer]);
    }
    checked(wasm.result());
    post({ kind: "result", text: output(), seconds: busy / 1000 });
  } catch (problem) {
    // A trap says nothing itself: the engine has left its words as output.
    const line = problem instanceof WebAssembly.RuntimeError ? output() : (problem as Error).message;
    post({ kind: "error", line });
  }
}

self.onmessage = ({ data }: MessageEvent<Order>) => {
  if (data.text !== undefined) run(data.module, data.text);
};
