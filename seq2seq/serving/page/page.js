// The page of `seq2seq serve`: a text, and one or two panes with what a model makes of it.
import {
  append,
  drawAttention,
  make,
  memoryDetails,
  named,
  RULE,
  scale,
  stepDetails,
  table,
} from "./drawing.js";
import * as backend from "./backend.js";
import {examples} from "./examples.js";
import {drawTree} from "./tree.js";

const PAUSE = 250; // milliseconds without a key before the text is translated
const MOST_BEAM = 20; // that the server accepts
const MIN_CONFIDENCE = 40; // percent, from which a detected language changes the direction
const byId = id => document.getElementById(id);
let models = [];
let panes = [];
let timer = 0;
let chosen = false; // the models, by hand or by a link: they stay until the text is emptied

// What one model makes of the text.
class Pane {
  constructor() {
    this.root = byId("pane").content.cloneNode(true).firstElementChild;
    this.at = selector => this.root.querySelector(selector);
    this.model = null;
    this.found = null; // the translation as the server gave it
    this.place = 0; // of the sentence that is looked into
    this.work = new AbortController();
    this.at(".prefix").addEventListener("input", translateLater);
    if (!backend.explain) {
      this.at(".shown").replaceChildren(this.at(".shown option"));
      this.at(".shown").closest("p").hidden = true;
    }
    this.at(".free").addEventListener("click", () => this.beginWith(""));
    this.at(".sentence").addEventListener("change", event => this.look(Number(event.target.value)));
    this.at(".shown").addEventListener("change", () => {
      writeAddress();
      if (this.part) this.drawWords();
    });
    for (const [name, fill] of [
      ["steps", this.explain],
      ["tree", this.drawTree],
      ["force", this.whatIf],
    ]) {
      const details = this.at(`details.${name}`);
      details.addEventListener("toggle", () => {
        if (details.open) this.fill(details, fill);
      });
    }
  }

  get prefix() {
    return this.at(".prefix").value;
  }
  get asked() {
    return {q: text(), model: this.model.name, prefix: this.prefix};
  }
  get part() {
    return this.found?.parts[this.place];
  }

  use(model) {
    this.model = model;
    this.beam = null; // of the tree, where another one than the server's was chosen
    this.at(".prefix").value = "";
    this.at("h2").textContent = model.name;
    const none = model.score === "none";
    const score = none ? "no attention" : `score ${model.score}`;
    this.at(".shown option").textContent = none ? "nothing: the model has no attention" : "attention";
    this.at(".about").textContent =
      `${model.source_name} to ${model.target_name}, style ${model.style}, ${score}, beam ${model.beam}`;
    this.at(".translation").lang = this.at(".prefix").lang = model.target;
  }

  beginWith(prefix) {
    this.at(".prefix").value = prefix;
    this.at(".prefix").focus();
    translateAll({undo: true});
  }

  // What is shown belongs to another request than the next one.
  wait() {
    this.work.abort();
    this.at(".translation").classList.add("waiting");
  }

  async translate() {
    this.wait();
    this.work = new AbortController();
    const {signal} = this.work;
    this.found = null;
    this.at(".free").hidden = !this.prefix;
    this.at(".others").hidden = true;
    if (!text().trim()) {
      this.clear();
      return;
    }
    try {
      for await (const [name, data] of backend.stream(this.asked, signal)) {
        if (signal.aborted) return;
        if (name === "partial") this.at(".translation").textContent = data.text;
        else if (name === "translation") this.show(data.translations[0]);
        else throw new Error(data.error);
      }
      if (!this.found) throw new Error("the server ended the connection");
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  clear() {
    this.at(".translation").replaceChildren();
    this.at(".translation").classList.remove("waiting");
    this.at(".attention").hidden = this.at(".which").hidden = true;
    this.at(".doubt").textContent = "";
    this.say("");
    for (const details of this.root.querySelectorAll(":scope > details")) {
      details.open = details.hidden = false;
      details.hidden = true;
    }
  }

  fail(error) {
    this.clear();
    this.say(error.message, true);
  }

  say(message, wrong = false) {
    this.at(".state").textContent = message;
    this.at(".state").classList.toggle("wrong", wrong);
  }

  show(found) {
    this.found = found;
    const line = this.at(".translation");
    line.classList.remove("waiting");
    const words = found.parts.flatMap(({space, text, unlikely, finished}, place) =>
      text
        .split(/\s+/)
        .filter(Boolean)
        .map((word, n) => ({
          word,
          place,
          space: n ? " " : place ? space : "",
          doubtful: unlikely || !finished,
        })),
    );
    const given = this.prefix.split(/\s+/).filter(Boolean).length;
    line.replaceChildren(
      ...words.flatMap(({word, space, doubtful}, n) => {
        const button = make("button", word, {
          type: "button",
          "aria-expanded": "false",
          class: `word${n < given ? " given" : ""}${doubtful ? " doubtful" : ""}`,
        });
        button.title = "Show the likeliest words here";
        button.addEventListener("click", () => this.offer(words, n, button));
        return [space, button];
      }),
    );
    const logProb = found.parts.reduce((sum, part) => sum + part.log_prob, 0);
    this.say(`Translated: log p = ${logProb.toFixed(3)}`);
    this.at(".doubt").textContent = doubt(found.parts);
    this.at(".which").hidden = found.parts.length < 2;
    this.at(".sentence").replaceChildren(
      ...found.parts.map(({source}, n) => make("option", `${n + 1}: ${source}`, {value: n})),
    );
    this.look(0);
  }

  // Look into one sentence of the text: its attention, and the parts of the page that are open.
  look(place) {
    this.place = place;
    this.at(".sentence").value = place;
    this.at(".attention").hidden = !this.part?.target_words.some(words => words.length);
    if (!this.at(".attention").hidden) this.drawWords();
    for (const details of this.root.querySelectorAll(":scope > details")) {
      details.hidden =
        !this.part ||
        (details.classList.contains("force") && !this.part.words) ||
        (!backend.explain && !details.classList.contains("tree"));
      if (details.open) details.dispatchEvent(new Event("toggle"));
    }
  }

  // Draw the attention between words, or the attribution that is chosen.
  async drawWords() {
    const {part} = this;
    const method = this.at(".shown").value;
    const [views, rule] = [this.at(".views"), this.at(".rule")];
    let {words} = part;
    let attribution = null;
    let error = null;
    if (method) {
      views.classList.add("waiting");
      rule.textContent = "Computing…";
      const asked = this.explanation({attribution: method}).catch(error => ({error}));
      ({attributed_words: words, attribution, error} = await asked);
      if (part !== this.part || method !== this.at(".shown").value) return;
    }
    views.classList.remove("waiting");
    views.hidden = !words;
    rule.classList.toggle("wrong", Boolean(error));
    rule.textContent = error?.message ?? (words ? RULE + scale(attribution) : "");
    if (!words) return;
    if (attribution) rule.textContent += " Dashed lines are negative.";
    const places = {
      sources: this.at(".sources"),
      targets: this.at(".targets"),
      map: this.at(".map"),
      description: this.at(".description"),
    };
    this.attention = drawAttention(places, {
      sourceNames: words.source.map(named),
      targetNames: words.target,
      matrix: words.weights,
      languages: [this.model.source, this.model.target],
      attribution,
      onHighlight: place =>
        [...this.at(".lines").children].forEach(path =>
          path.classList.toggle("dim", Boolean(place) && Number(path.dataset[place.side]) !== place.index),
        ),
    });
    this.at(".lines").replaceChildren(...drawLines(this.at(".lines"), this.attention.matrix));
    if (part.words && backend.explain) this.makeDraggable();
  }

  // Show the likeliest words in the place of one of the translation.
  async offer(words, place, button) {
    const box = this.at(".others");
    const close = () => {
      box.hidden = true;
      button.setAttribute("aria-expanded", "false");
    };
    for (const other of this.at(".translation").querySelectorAll("button"))
      other.setAttribute("aria-expanded", String(other === button));
    const closing = make("button", "Close", {type: "button"});
    closing.addEventListener("click", () => {
      close();
      button.focus();
    });
    const heading = make("h3", `Instead of “${words[place].word}”`);
    box.replaceChildren(append(make("div", null, {class: "grid"}), heading, closing));
    box.onkeydown = event => {
      if (event.key === "Escape") closing.click();
    };
    box.hidden = false;
    const before = words
      .slice(0, place)
      .map(({space, word}) => space + word)
      .join("");
    const prefix = before + (before && words[place].space);
    const list = make("ol");
    try {
      const others = await backend.alternatives({...this.asked, prefix}, this.work.signal);
      if (!heading.isConnected) return; // another word was clicked meanwhile
      for (const other of others) {
        const choice = append(
          make("button", null, {type: "button"}),
          make("strong", other.word || "(end)", {lang: this.model.target}),
          make("span", percent(other.log_prob), {class: "number"}),
          make("span", other.text, {lang: this.model.target, class: "soft"}),
        );
        choice.disabled = !other.word;
        choice.addEventListener("click", () => this.beginWith(`${prefix}${other.word} `));
        append(list, append(make("li"), choice));
      }
      append(box, list);
      list.querySelector("button:enabled")?.focus();
    } catch (error) {
      if (error.name !== "AbortError" && heading.isConnected)
        append(box, make("p", error.message, {class: "wrong"}));
    }
  }

  // Fill a part of the page when it is opened, or when the translation changes while it is.
  async fill(details, fill) {
    const inside = details.querySelector(":scope > div");
    const of = JSON.stringify([this.asked, this.place]);
    if (!this.found || inside.dataset.of === of) return;
    inside.dataset.of = of;
    inside.replaceChildren(make("p", "Computing…", {class: "soft"}));
    try {
      inside.replaceChildren(...(await fill.call(this)));
    } catch (error) {
      delete inside.dataset.of;
      if (error.name !== "AbortError") inside.replaceChildren(make("p", error.message, {class: "wrong"}));
    }
  }

  async explanation(look = {}) {
    const {source: q, text: target} = this.part;
    const asked = {q, target, model: this.model.name, ...look};
    return backend.explain(asked, this.work.signal);
  }

  async explain() {
    const data = await this.explanation();
    const {formula} = data.model;
    return [
      make("p", `Score: ${formula.text} (${formula.source})`, {class: "small soft"}),
      ...data.steps.map(step => stepDetails(data, step)),
      make("h3", "Computed once per sentence"),
      memoryDetails(data),
    ];
  }

  async drawTree() {
    const size = make("input", null, {
      type: "number",
      min: 1,
      max: MOST_BEAM,
      value: this.beam ?? this.model.beam,
    });
    const label = append(make("label", "hypotheses that it keeps "), size);
    size.addEventListener("change", () => {
      this.beam = Math.min(MOST_BEAM, Math.max(1, Math.round(Number(size.value)) || 1));
      const details = this.at("details.tree");
      delete details.querySelector(":scope > div").dataset.of;
      this.fill(details, this.drawTree);
    });
    const asked = {...this.asked, beam: this.beam ?? undefined, tree: true};
    const found = await backend.translate(asked, this.work.signal);
    return [label, ...drawTree(found.translations[0].parts[this.place].tree, this.model.target)];
  }

  // Choose a step and a source piece that it shall attend to.
  async whatIf() {
    const {part} = this;
    const choose = (label, pieces) => {
      const select = append(
        make("select"),
        ...pieces.map((piece, n) => make("option", `${n + 1} ${named(piece)}`, {value: n + 1})),
      );
      return [append(make("label", `${label} `), select), select];
    };
    const [stepLabel, step] = choose("when writing", part.tokens);
    const [placeLabel, place] = choose("attend to", part.source_tokens);
    if (this.forced) [step.value, place.value] = this.forced;
    const button = make("button", "Compute", {type: "button", class: "play"});
    const result = make("div");
    const compute = async () => {
      result.replaceChildren(make("p", "Computing…", {class: "soft"}));
      try {
        const look = {step: Number(step.value), position: Number(place.value)};
        const [before, after] = [await this.explanation(), await this.explanation(look)];
        result.replaceChildren(...drawChange(before, after, look.step, this.model.target));
      } catch (error) {
        if (error.name !== "AbortError") result.replaceChildren(make("p", error.message, {class: "wrong"}));
      }
    };
    button.addEventListener("click", compute);
    if (this.forced) compute();
    this.forced = null;
    return [
      make(
        "p",
        "One step gets all its weight on the source piece that you choose, and the search " +
          "goes on from there. You can also drag a target word above onto a source word.",
        {class: "small soft"},
      ),
      append(make("div", null, {class: "grid"}), stepLabel, placeLabel, button),
      result,
    ];
  }

  // Let target words be dragged onto source words, with a mouse, a pen or a finger.
  makeDraggable() {
    const {source_words: ofSource, target_words: ofTarget} = this.part;
    const first = (pieces, word) => pieces.findIndex(words => words.includes(word)) + 1;
    const chips = [...this.at(".sources").children];
    const under = event => chips.indexOf(document.elementFromPoint(event.clientX, event.clientY));
    [...this.at(".targets").children].forEach((chip, t) => {
      const mark = s => chips.forEach((other, n) => other.classList.toggle("over", n === s));
      chip.addEventListener("pointerdown", event => chip.setPointerCapture(event.pointerId));
      chip.addEventListener("pointermove", event => {
        if (chip.hasPointerCapture(event.pointerId)) mark(under(event));
      });
      chip.addEventListener("pointercancel", () => mark(-1));
      chip.addEventListener("pointerup", event => {
        const s = under(event);
        mark(-1);
        if (s < 0) return;
        // No click follows then, which would pin the word.
        const ignore = click => click.stopImmediatePropagation();
        chip.addEventListener("click", ignore, {capture: true});
        setTimeout(() => chip.removeEventListener("click", ignore, {capture: true}));
        this.forced = [first(ofTarget, t), first(ofSource, s)];
        const details = this.at("details.force");
        delete details.querySelector(":scope > div").dataset.of;
        if (details.open) this.fill(details, this.whatIf);
        else details.open = true;
        details.scrollIntoView({block: "nearest"});
      });
    });
  }
}

// What changes when one step attends elsewhere: the translation, the next pieces, the context.
function drawChange(before, after, number, language) {
  const [was, is] = [before, after].map(data => data.steps[number - 1]);
  const rows = after.next_pieces.map(each => ({cells: [named(each.piece), each.before, each.after]}));
  const moved = Math.hypot(...is.context.data.map((value, n) => value - was.context.data[n]));
  const size = Math.hypot(...was.context.data);
  return [
    make("p", after.translation, {lang: language, class: "instead", role: "status"}),
    make(
      "p",
      after.translation === before.translation
        ? "The translation stays the same."
        : "The translation that follows.",
      {class: "small soft"},
    ),
    table([`next piece at step ${number}`, "probability before", "after"], rows),
    make("p", `The context moves by ${moved.toFixed(3)}; before it had the length ${size.toFixed(3)}.`, {
      class: "small",
    }),
    stepDetails(after, is),
  ];
}

// Lines from source words on the left to target words on the right.
function drawLines(svg, matrix) {
  const rows = Math.max(matrix[0].length, matrix.length);
  const row = 100 / rows;
  svg.setAttribute("viewBox", "0 0 100 100");
  svg.style.setProperty("--rows", rows);
  const lines = matrix.flatMap((of, t) => of.map((weight, s) => ({weight, size: Math.abs(weight), s, t})));
  return lines
    .filter(({size}) => size >= 0.05)
    .sort((a, b) => a.size - b.size)
    .map(({weight, size, s, t}) => {
      const path = document.createElementNS(svg.namespaceURI, "path");
      const [from, to] = [(s + 0.5) * row, (t + 0.5) * row];
      path.setAttribute("d", `M0 ${from} C50 ${from} 50 ${to} 100 ${to}`);
      path.setAttribute("stroke-opacity", size.toFixed(3));
      path.classList.toggle("negative", weight < 0);
      [path.dataset.source, path.dataset.target] = [s, t];
      return path;
    });
}

// Say in plain words which sentences may have a wrong translation, and why.
function doubt(parts) {
  const which = is => parts.flatMap((part, n) => (is(part) ? [n + 1] : [])).join(", ");
  const whole = parts.length > 1 ? numbers => `Sentence ${numbers}: the` : () => "The";
  const [unlikely, cut] = [which(part => part.unlikely), which(part => !part.finished)];
  return [
    unlikely && `${whole(unlikely)} model itself finds this translation unlikely; it may be wrong.`,
    cut && `${whole(cut)} translation ended at the length limit; it may be incomplete.`,
  ]
    .filter(Boolean)
    .join(" ");
}

function percent(logProb) {
  const share = 100 * Math.exp(logProb);
  return `${share < 0.1 ? "<0.1" : share.toFixed(1)} %`;
}

const text = () => byId("text").value;

// --- The state of the page, which is in the fragment of its address

// With `undo` the browser's Back leads to the state before.
function writeAddress(undo) {
  const state = new URLSearchParams();
  if (text()) state.set("text", text());
  state.set("model", panes[0].model.name);
  if (panes[1]) state.set("with", panes[1].model.name);
  panes.forEach((pane, n) => {
    if (pane.prefix) state.set(`begin${n + 1}`, pane.prefix);
    if (pane.at(".shown").value) state.set(`show${n + 1}`, pane.at(".shown").value);
  });
  const address = `#${state}`;
  if (undo && address !== location.hash) history.pushState({chosen}, "", address);
  else history.replaceState({chosen}, "", address);
}

// Take the page's state from its address, but what was typed; without both, translate an example.
function readAddress(inBox = "") {
  const state = new URLSearchParams(location.hash.slice(1));
  const [wanted, other] = [state.get("model"), state.get("with")];
  chooseModels(models.find(model => model.name === wanted) ?? models[0], other);
  chosen = history.state?.chosen ?? panes.length > 1;
  const shown = panes.map(pane => pane.model.name);
  byId("fault").textContent = [
    wanted && wanted !== shown[0] && `There is no model “${wanted}” here; this is ${shown[0]}.`,
    other && other !== shown[1] && `“${other}” cannot be compared with ${shown[0]}.`,
  ]
    .filter(Boolean)
    .join(" ");
  const example = location.hash ? "" : (examples[panes[0].model.source]?.[0][1] ?? "");
  const given = state.get("text") ?? example;
  const typed = inBox !== given && inBox; // a browser may restore the box after Back
  byId("text").value = typed || given;
  panes.forEach((pane, n) => {
    pane.at(".prefix").value = (!typed && state.get(`begin${n + 1}`)) || "";
    pane.at(".shown").value = state.get(`show${n + 1}`) ?? "";
    if (!pane.at(".shown").value) pane.at(".shown").selectedIndex = 0;
  });
  if (typed) translateTyped();
  else translateAll();
}

// --- Choices

function translateLater() {
  clearTimeout(timer);
  panes.forEach(pane => pane.wait());
  timer = setTimeout(translateTyped, PAUSE);
}

// Translate what was typed, in the direction of its language.
async function translateTyped() {
  clearTimeout(timer);
  const typed = text();
  const language = await detected(typed).catch(() => null); // translating reports the same error
  if (text() !== typed) return;
  if (language && !keepsModels()) {
    const model = modelOf(language);
    if (model) {
      chooseModels(model);
      byId("direction").textContent = `This is ${model.source_name}, so ${model.name} translates it.`;
    } else {
      const name = new Intl.DisplayNames("en", {type: "language"}).of(language);
      byId("fault").textContent = `This seems to be ${name}, which no model here translates.`;
    }
  }
  translateAll();
}

// Another model would lose what the translation shall begin with.
const keepsModels = () => chosen || panes.some(pane => pane.prefix);

// The language of a text, if it is another one than that of the first pane.
async function detected(typed) {
  if (!backend.detect || keepsModels() || !typed.trim()) return null;
  const [{language, confidence}] = await backend.detect({q: typed});
  return language === panes[0].model.source || confidence < MIN_CONFIDENCE ? null : language;
}

// The model for a language; undefined if there is none.
function modelOf(language) {
  const {source, target} = panes[0].model;
  const able = models.filter(model => model.source === language);
  return (
    able.find(model => model.target === source) ?? able.find(model => model.target === target) ?? able[0]
  );
}

function translateAll({undo = false} = {}) {
  clearTimeout(timer);
  writeAddress(undo);
  panes.forEach(pane => pane.translate());
}

// What translates the other way; undefined if no model does.
const reverse = ({source, target}) =>
  models.find(model => model.source === target && model.target === source);

function chooseByHand(model, otherName) {
  chosen = true;
  byId("fault").textContent = "";
  chooseModels(model, otherName);
  translateAll({undo: true});
}

function chooseModels(first, otherName = byId("other").value) {
  // The text is in one language, so both models must translate it.
  const able = models.filter(model => model.source === first.source && model !== first);
  const option = model => make("option", model.name, {value: model.name});
  byId("model").value = first.name;
  byId("other").replaceChildren(make("option", "no other", {value: ""}), ...able.map(option));
  byId("other").value = able.some(model => model.name === otherName) ? otherName : "";
  byId("other").disabled = !able.length;
  const shown = [first, ...able.filter(model => model.name === byId("other").value)];
  panes = shown.map((model, n) => {
    const pane = panes[n] ?? new Pane();
    if (pane.model !== model) pane.use(model);
    return pane;
  });
  byId("panes").replaceChildren(...panes.map(pane => pane.root));
  document.body.classList.toggle("compares", panes.length > 1);
  byId("swap").disabled = !reverse(first);
  byId("direction").textContent = "";
  byId("text-label").textContent = `${first.source_name} text`;
  byId("text").lang = first.source;
  const sentences = examples[first.source] ?? [];
  byId("example").disabled = !sentences.length;
  byId("example").replaceChildren(
    make("option", "choose one", {value: ""}),
    ...sentences.map(([what, sentence]) => make("option", what, {value: sentence})),
  );
}

async function start() {
  const settings = await backend.start();
  ({models} = settings);
  byId("text").maxLength = settings.charLimit;
  byId("key-label").hidden = !settings.keyRequired;
  for (const name of ["other-label", "swap"]) byId(name).hidden = models.length < 2;
  byId("model").replaceChildren(
    ...models.map(model =>
      make("option", `${model.name} (${model.source_name} to ${model.target_name})`, {value: model.name}),
    ),
  );
  byId("ask").addEventListener("submit", event => event.preventDefault());
  // What is typed first takes the place of the example.
  const selectExample = () => {
    if (Object.values(examples).some(([[, sentence]]) => sentence === text())) byId("text").select();
  };
  for (const name of ["focus", "click"]) byId("text").addEventListener(name, selectExample, {once: true});
  byId("text").addEventListener("input", () => {
    // What was chosen for another text does not fit this one.
    panes.forEach(pane => {
      pane.at(".prefix").value = "";
    });
    byId("fault").textContent = "";
    if (!text().trim()) {
      chosen = false;
      byId("direction").textContent = "";
    }
    translateLater();
  });
  byId("key").addEventListener("change", () => translateAll());
  byId("model").addEventListener("change", () =>
    chooseByHand(models.find(model => model.name === byId("model").value)),
  );
  byId("other").addEventListener("change", () => chooseByHand(panes[0].model));
  byId("swap").addEventListener("click", () => {
    const {model, found} = panes[0];
    if (found?.text) byId("text").value = found.text;
    chooseByHand(reverse(model), "");
  });
  byId("example").addEventListener("change", () => {
    if (!byId("example").value) return;
    byId("text").value = byId("example").value;
    byId("text").dispatchEvent(new Event("input"));
  });
  byId("share").addEventListener("click", async () => {
    const copied = await navigator.clipboard?.writeText(location.href).then(
      () => "Copied",
      () => null,
    );
    byId("share").textContent = copied ?? "Copy the address of this page";
    setTimeout(() => {
      byId("share").textContent = "Copy link";
    }, 2000);
  });
  document.addEventListener("keydown", event => {
    if (event.key === "Escape") panes.forEach(pane => pane.attention?.release());
  });
  window.addEventListener("hashchange", () => readAddress());
  readAddress(text()); // what was typed while the page loaded
  if (document.activeElement === byId("text")) selectExample();
}

start().catch(error => {
  byId("direction").textContent = "";
  byId("fault").textContent = `The page cannot start: ${error.message}`;
});
