// What the page asks the server for. `seq2seq export --web` puts another file in the place of this one.
import {say} from "./drawing.js";

const GONE = [502, 503, 504]; // what a proxy answers for a server that is gone

// An error whose message says that the server is gone.
const unreachable = error =>
  error.name === "TypeError"
    ? Object.assign(new Error(say("The server does not answer. Your text stays here.")), {
        name: "Unreachable",
      })
    : error;

async function ask(path, body, signal) {
  const key = document.getElementById("key").value;
  const response = await fetch(path, {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    signal,
    body: JSON.stringify(key ? {...body, api_key: key} : body),
  }).catch(error => {
    throw unreachable(error);
  });
  if (!response.ok) {
    const found = await response.json().catch(() => ({}));
    // The server itself says why; a text that takes it too long also has status 504.
    if (!found.error && GONE.includes(response.status)) throw unreachable(new TypeError());
    throw new Error(found.error ?? `the server answered with status ${response.status}`);
  }
  return response;
}

const json = path => async (body, signal) => (await ask(path, body, signal)).json();
export const detect = json("/detect");
export const translate = json("/api/translate");
export const alternatives = json("/api/alternatives");
export const explain = json("/api/explain");

// Resolves to whether the server runs.
export const isAlive = () =>
  fetch("/health").then(
    response => response.ok,
    () => false,
  );

// Resolves to the models and the limits.
export async function start() {
  const get = async path => (await fetch(path)).json();
  return {...(await get("/frontend/settings")), models: await get("/api/models")};
}

// Yields the server-sent events of a translation: [name, data].
export async function* stream(body, signal) {
  const response = await ask("/api/stream", body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let isComplete = false;
  for (;;) {
    const {value, done} = await reader.read().catch(error => {
      throw unreachable(error);
    });
    if (done && !isComplete) throw unreachable(new TypeError());
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [head, data] = block.split("\n");
      const name = head.slice("event: ".length);
      isComplete ||= name !== "partial";
      yield [name, JSON.parse(data.slice("data: ".length))];
    }
  }
}
