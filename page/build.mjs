// Bundles the page, the cards of the gallery and the plots of reports: `node build.mjs OUT [WASM]` writes page.js, page.css, load.js,
// cards.js, figures.js and LICENSES.txt there, and of the engine's WebAssembly penstock.wasm.zst: gzip's window of 32 KB misses what generic code has in common,
// zstd's does not.
import { build } from "esbuild";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const out = process.argv[2] ?? "dist";
const common = { bundle: true, minify: true, write: false, format: "iife", target: ["chrome120", "firefox120"], legalComments: "inline" };
const worker = await build({ ...common, entryPoints: ["src/worker.ts"] });
const page = await build({
  ...common,
  entryPoints: ["src/main.ts"],
  outdir: "out",
  define: { WORKER_SOURCE: JSON.stringify(worker.outputFiles[0].text) },
});
const load = await build({ ...common, entryPoints: ["src/load.ts"] });
const cards = await build({ ...common, entryPoints: ["src/cards.ts"] });
const pack = JSON.parse(readFileSync("package.json", "utf8"));
const licences = Object.keys(pack.dependencies).map((name) => {
  const { version, license } = JSON.parse(readFileSync(join("node_modules", name, "package.json"), "utf8"));
  return `${name} ${version} (${license})\n\n${readFileSync(join("node_modules", name, "LICENSE"), "utf8").trim()}\n`;
});
// A report is one file, so its script carries the licences; and no address, for nothing in it is fetched.
const figures = await build({
  ...common,
  entryPoints: ["src/figures.ts"],
  loader: { ".css": "text" },
  legalComments: "none",
  banner: { js: `/*\n${licences.join("\n")}*/` },
});
mkdirSync(out, { recursive: true });
for (const file of page.outputFiles) {
  writeFileSync(join(out, file.path.endsWith(".css") ? "page.css" : "page.js"), file.text);
}
writeFileSync(join(out, "figures.js"), figures.outputFiles[0].text);
writeFileSync(join(out, "load.js"), load.outputFiles[0].text);
writeFileSync(join(out, "cards.js"), cards.outputFiles[0].text);
writeFileSync(join(out, "LICENSES.txt"), licences.join("\n"));
if (process.argv[3]) {
  // Its module for Node is CommonJS.
  const zstd = createRequire(import.meta.url)("@bokuweb/zstd-wasm");
  await zstd.init();
  writeFileSync(join(out, "penstock.wasm.zst"), zstd.compress(readFileSync(process.argv[3]), 22));
}
