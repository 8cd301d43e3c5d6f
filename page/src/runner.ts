// A run in a worker of its own, and the record as it comes in.
import { decompress } from "fzstd";
import { Log, type Head, type Result } from "./log";
import { base85, text } from "./unpack";
import type { Message, Order } from "./worker";

declare const WORKER_SOURCE: string;

/** The engine that the page holds, compiled once for all runs; null in a page of a recording. */
export async function embeddedEngine(): Promise<WebAssembly.Module | null> {
  const packed = text("engine");
  return packed ? WebAssembly.compile(decompress(base85(packed)) as BufferSource) : null;
}
export interface Listener {
  head(log: Log): void;
  progress(share: number): void;
  done(seconds: number): void;
  error(line: string): void;
}

export class Runner {
  private worker: Worker | null = null;
  /** A worker without a run: it has started while the reader looked at the last run. */
  private spare: Worker | null = null;
  /** The run that the page opens with has begun. */
  private opened = false;
  private readonly url = URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" }));

  constructor(private readonly module: WebAssembly.Module) {}

  get busy(): boolean {
    return this.worker !== null;
  }
  private fresh(): Worker {
    const worker = new Worker(this.url);
    worker.postMessage({ module: this.module } satisfies Order);
    return worker;
  }
  /** Begins a run, and gives up the one that is under way. */
  start(document: string, from: number, to: Listener): void {
    this.cancel();
    const worker = this.spare ?? this.fresh();
    this.spare = null;
    this.worker = worker;
    let log: Log | null = null;
    const over = (again: boolean) => {
      if (this.worker === worker) this.worker = null;
      if (again && !this.spare) this.spare = worker;
      else worker.terminate();
    };
    worker.onerror = (event) => {
      over(false);
      to.error(event.message || "the worker could not start");
    };
    worker.onmessage = ({ data }: MessageEvent<Message>) => {
      if (this.worker !== worker) return;
      if (data.kind === "head") {
        log = new Log(JSON.parse(data.text) as Head);
        log.from = from;
        to.head(log);
      } else if (data.kind === "records") {
        log!.read(data.words);
        log!.until = data.untilPs * 1e-12;
        to.progress(log!.until / log!.duration);
      } else if (data.kind === "result") {
        log!.result = JSON.parse(data.text) as Result;
        log!.until = log!.result.end_s;
        log!.changed();
        over(true);
        to.done(data.seconds);
      } else {
        // A trap leaves an instance behind that the next run does not use.
        over(true);
        to.error(data.line);
      }
    };
    worker.postMessage({ module: this.module, text: document } satisfies Order);
    // While the page opens there are two processors at most for the run and the picture.
    if (!this.spare && this.opened) this.spare = this.fresh();
    this.opened = true;
  }
  cancel(): void {
    this.worker?.terminate();
    this.worker = null;
  }
}
