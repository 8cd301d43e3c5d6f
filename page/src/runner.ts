// A run in a worker of its own, and the record as it comes in.
import { Log, type Head, type Result } from "./log";
import type { Message } from "./worker";

declare const WORKER_SOURCE: string;

/** The bytes of an element that holds base64 of gzip. */
export async function embedded(id: string): Promise<ArrayBuffer | null> {
  const element = document.getElementById(id);
  const text = element?.textContent?.trim();
  if (!text) return null;
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

export interface Listener {
  head(log: Log): void;
  progress(share: number): void;
  done(seconds: number): void;
  error(line: string): void;
}

export class Runner {
  private worker: Worker | null = null;
  private url = URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" }));

  constructor(private readonly engine: ArrayBuffer) {}

  get busy(): boolean {
    return this.worker !== null;
  }
  start(text: string, to: Listener): void {
    this.cancel();
    const worker = new Worker(this.url);
    this.worker = worker;
    let log: Log | null = null;
    const over = () => {
      worker.terminate();
      if (this.worker === worker) this.worker = null;
    };
    worker.onerror = (event) => {
      over();
      to.error(event.message || "the worker could not start");
    };
    worker.onmessage = ({ data }: MessageEvent<Message>) => {
      if (this.worker !== worker) return;
      if (data.kind === "head") {
        log = new Log(JSON.parse(data.text) as Head);
        to.head(log);
      } else if (data.kind === "records") {
        log!.read(data.words);
        log!.until = data.untilPs * 1e-12;
        to.progress(log!.until / log!.duration);
      } else if (data.kind === "result") {
        log!.result = JSON.parse(data.text) as Result;
        log!.until = log!.result.end_s;
        log!.version++;
        over();
        to.done(data.seconds);
      } else {
        over();
        to.error(data.line);
      }
    };
    worker.postMessage({ engine: this.engine, text });
  }
  cancel(): void {
    this.worker?.terminate();
    this.worker = null;
  }
}
