// Keeps the files of the page in the browser, so that it works without a network.
const FILES = {}; // the export fills in the integrity of each
const NAME = `seq2seq ${registration.scope} `;
const CACHE = NAME + FILES["./"];

addEventListener("install", event => event.waitUntil(keep()));
addEventListener("activate", event => event.waitUntil(clear()));
addEventListener("fetch", event => {
  const {request} = event;
  if (request.method === "GET" && request.url.startsWith(registration.scope))
    event.respondWith(answer(request));
});

async function keep() {
  const cache = await caches.open(CACHE);
  await Promise.all(
    Object.entries(FILES).map(async ([path, integrity]) => {
      const response = await fetch(path, {integrity, cache: "no-cache"});
      if (!response.ok) throw new Error(`${path}: status ${response.status}`);
      await cache.put(path, response);
    }),
  );
}

async function clear() {
  const old = (await caches.keys()).filter(name => name.startsWith(NAME) && name !== CACHE);
  await Promise.all(old.map(name => caches.delete(name)));
  await clients.claim();
}

async function answer(request) {
  const wanted = request.mode === "navigate" ? "./" : request;
  return (await (await caches.open(CACHE)).match(wanted)) ?? fetch(request);
}
