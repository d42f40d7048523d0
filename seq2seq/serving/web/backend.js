// What the page asks a worker for, in the place of a server (seq2seq/serving/page/backend.js).
// It does not explain a translation, for which the graphs lack scores and gradients, nor detect languages.
const worker = new Worker(new URL("worker.js", import.meta.url), {type: "module"});
const waiting = new Set(); // streams of answers
let fault = null;
worker.onerror = event => {
  fault = new Error(event.message || "this browser cannot run the translator");
  for (const answers of waiting) answers.error(fault);
};

// Yields what the worker answers: [name, data].
async function* ask(kind, asked, signal) {
  const {port1: port, port2} = new MessageChannel();
  let answers;
  const reader = new ReadableStream({
    start: controller => {
      answers = controller;
    },
  }).getReader();
  port.onmessage = ({data}) => answers.enqueue(data);
  signal?.addEventListener("abort", () => {
    port.onmessage = null;
    port.postMessage("stop");
    answers.error(signal.reason);
  });
  waiting.add(answers);
  if (fault) answers.error(fault);
  worker.postMessage({kind, asked}, [port2]);
  try {
    for (;;) {
      const {
        value: [name, data],
      } = await reader.read();
      if (name === "error") throw new Error(data.error);
      yield [name, data];
      if (name === kind) return;
    }
  } finally {
    waiting.delete(answers);
  }
}

async function only(kind, asked, signal) {
  for await (const [name, data] of ask(kind, asked, signal)) if (name === kind) return data;
}

export async function start() {
  // Keeps the files for the next time, also without a network; not in every browser and mode.
  navigator.serviceWorker?.register("service-worker.js").catch(() => {});
  return only("start");
}

export const stream = (asked, signal) => ask("translation", asked, signal);
export const translate = (asked, signal) => only("translation", asked, signal);
export const alternatives = (asked, signal) => only("alternatives", asked, signal);
