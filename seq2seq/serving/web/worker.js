// Translates in a thread of its own. Each message {kind, asked} comes with a port for what is answered:
// [kind, data], where "partial" comes before the last; a message through the port stops it.
import * as ort from "./onnxruntime.mjs";
import startSentencex, {segment} from "./sentencex.js";
import {loadTranslator} from "./translator.js";

let files = {}; // by name: the integrity of each
let queue = null; // one request after the other

async function read(name) {
  const asked = fetch(new URL(`../${name}`, import.meta.url), {integrity: files[name], cache: "no-cache"});
  const response = await asked.catch(() => null);
  if (!response?.ok) throw new Error(`${name} is missing, or not the file that was exported`);
  if (!name.endsWith(".gzip")) return new Uint8Array(await response.arrayBuffer());
  const unpacked = response.body.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(unpacked).arrayBuffer());
}

async function load() {
  const about = JSON.parse(new TextDecoder().decode(await read("page/about.json")));
  ({files} = about);
  // A module for Node.js, which finds what it reads by these names.
  const models = {};
  const modules = {fs: {readFileSync: path => models[path]}, url: {URL}};
  Object.assign(globalThis, {exports: {}, __filename: "", require: name => modules[name]});
  await import("./sentencepiece.js");
  const {SentencePieceProcessor} = globalThis.exports;
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = await read("page/onnxruntime.wasm.gzip");
  await startSentencex({module_or_path: await read("page/sentencex.wasm.gzip")});
  return loadTranslator(about, read, {ort, segment, models, SentencePieceProcessor});
}

// Let messages come in that wait.
function pause() {
  return new Promise(resolve => {
    const {port1, port2} = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

async function answer(kind, asked, port) {
  let isStopped = false;
  port.onmessage = () => {
    isStopped = true;
  };
  try {
    const translator = await (loading ??= load());
    await pause();
    if (isStopped) return;
    const show = async text => {
      port.postMessage(["partial", {text}]);
      await pause();
      if (isStopped) throw new Error("stopped");
    };
    const found =
      kind === "start"
        ? translator.settings
        : kind === "alternatives"
          ? await translator.alternatives(asked)
          : {translations: [await translator.translate(asked, show)]};
    port.postMessage([kind, found]);
  } catch (error) {
    port.postMessage(["error", {error: error.message}]);
  } finally {
    port.close();
  }
}

let loading = null;
onmessage = ({data: {kind, asked}, ports: [port]}) => {
  queue = Promise.resolve(queue).then(() => answer(kind, asked, port));
};
