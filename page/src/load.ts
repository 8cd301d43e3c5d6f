// The one script of a page that is not packed: it unpacks the program and runs it.
import { embedded } from "./unpack";

async function load(): Promise<void> {
  const program = document.createElement("script");
  program.textContent = new TextDecoder().decode((await embedded("program"))!);
  document.body.append(program);
}
void load();
