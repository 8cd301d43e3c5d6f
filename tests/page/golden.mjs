// Runs documents with the page's WebAssembly in Node: `node golden.mjs MODULE` reads JSON documents from stdin, a line each,
// and answers each with a line: its result (summary, warnings, fingerprint) or {"error": LINE}. A document with `whereabouts`,
// a list of times in picoseconds, is answered with where every packet is then, each by a run of its own that stops there.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));

function open(text) {
  const wasm = new WebAssembly.Instance(module, {}).exports;
  // A call may make the memory grow, which detaches its buffer: first the call, then the view.
  const view = (at, length) => new Uint8Array(wasm.memory.buffer, at, length);
  const output = () => new TextDecoder().decode(view(wasm.output(), wasm.output_len()));
  const checked = (answer) => {
    if (answer < 0) throw new Error(output());
    return answer;
  };
  const bytes = new TextEncoder().encode(text);
  const room = wasm.input(bytes.length);
  view(room, bytes.length).set(bytes);
  checked(wasm.create());
  return { wasm, output, checked, end: JSON.parse(output()).duration_ps };
}

function run(text) {
  const started = performance.now();
  const { wasm, output, checked, end } = open(text);
  let words = 0;
  for (let part = 1; checked(wasm.step((end / 16) * part)) === 1; part++) words += checked(wasm.drain());
  words += checked(wasm.drain());
  checked(wasm.result());
  return { ...JSON.parse(output()), words, seconds: (performance.now() - started) / 1000 };
}

function whereabouts(text, at) {
  const { wasm, output, checked } = open(text);
  checked(wasm.step(at));
  checked(wasm.whereabouts(at));
  return JSON.parse(output());
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const times = JSON.parse(line).whereabouts;
    answer = times ? times.map((at) => whereabouts(line, at)) : run(line);
  } catch (problem) {
    answer = { error: String(problem.message) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
