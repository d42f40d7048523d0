// Translates JSON from standard input with an exported folder: `node translate.mjs FOLDER < asked.json`.
// FOLDER must be below a package.json with "type": "module". The input is a list of [method, asked].
import {readFile} from "node:fs/promises";
import {createRequire} from "node:module";
import {join, resolve} from "node:path";
import {text} from "node:stream/consumers";
import {pathToFileURL} from "node:url";
import {gunzipSync} from "node:zlib";

const folder = resolve(process.argv[2]);
const load = name => import(pathToFileURL(join(folder, "page", name)));
const read = async name => {
  const bytes = await readFile(join(folder, name));
  return new Uint8Array(name.endsWith(".gzip") ? gunzipSync(bytes) : bytes);
};

const models = {};
const nodes = createRequire(import.meta.url);
const files = {...nodes("fs"), readFileSync: path => models[path]};
Object.assign(globalThis, {
  exports: {},
  __filename: join(folder, "page/sentencepiece.js"),
  require: name => (name === "fs" ? files : nodes(name)),
});
await load("sentencepiece.js");
const {SentencePieceProcessor} = globalThis.exports;
const {default: startSentencex, segment} = await load("sentencex.js");
await startSentencex({module_or_path: await read("page/sentencex.wasm.gzip")});
const ort = await load("onnxruntime.mjs");
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmBinary = await read("page/onnxruntime.wasm.gzip");
const {loadTranslator} = await load("translator.js");
const about = JSON.parse(new TextDecoder().decode(await read("page/about.json")));
const translator = await loadTranslator(about, read, {ort, segment, models, SentencePieceProcessor});
const found = [];
for (const [method, asked] of JSON.parse(await text(process.stdin)))
  found.push(await translator[method](asked));
process.stdout.write(JSON.stringify(found));
