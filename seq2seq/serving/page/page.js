// The page of `seq2seq serve`: a text and its translation side by side, below a bar with their languages.
import {make} from "./drawing.js";
import * as backend from "./backend.js";
import {examples} from "./examples.js";
import {Glossary} from "./glossary.js";
import {Pane} from "./inside.js";
import {capital, nameOf, number, say, showLanguage} from "./interface.js";
import {locate} from "./translation.js";

const PAUSE = 250; // milliseconds without a key before the text is translated
const RETRY = 3000; // milliseconds until a server that is gone is asked again
const MIN_CONFIDENCE = 40; // percent, from which a detected language changes the direction
const LONG = 300; // characters, from which the letters are smaller
const AUTO = "auto"; // instead of a source language
const byId = id => document.getElementById(id);
const text = () => byId("text").value;
let models = [];
let panes = []; // the first one has the translation beside the text
let limit = Infinity; // characters of a text
let timer = 0;
let detects = false; // whether the source language is that of what is typed
let isDetected = false; // whether it is that of this text
let glossary = null;

// --- The languages

const first = () => panes[0].model;
const reverse = ({source, target}) =>
  models.find(model => model.source === target && model.target === source);
const sourceName = model => nameOf(model.source, model.source_name);
const targetName = model => nameOf(model.target, model.target_name);

// The first of some models that fits best to what was chosen: `better` are conditions, the best first.
const bestOf = (able, ...better) => better.map(is => able.find(is)).find(Boolean) ?? able[0];

// The model for a language; undefined if there is none.
function modelFrom(language) {
  const {source, target} = first();
  return bestOf(
    models.filter(model => model.source === language),
    model => model.target === target,
    model => model.target === source,
  );
}

function modelInto(language) {
  const {source, target} = first();
  return bestOf(
    models.filter(model => model.target === language),
    model => model.source === source,
    model => model.source === target,
  );
}

// The language of a text, if it can be told.
async function detected(typed) {
  if (!backend.detect || !typed.trim()) return null;
  const [{language, confidence}] = await backend.detect({q: typed});
  return confidence < MIN_CONFIDENCE ? null : language;
}

// Another model would lose what the translation shall begin with.
const isBegun = () => panes.some(pane => pane.prefix);

function chooseByHand(model, otherName) {
  chooseModels(model, otherName);
  translateAll({undo: true});
}

function chooseModels(model, otherName = byId("other").value) {
  // The text is in one language, so both models must translate it.
  const able = models.filter(other => other.source === model.source && other !== model);
  const name = able.some(other => other.name === otherName) ? otherName : "";
  const shown = [model, ...able.filter(other => other.name === name)];
  panes = shown.map((each, n) => {
    const pane = panes[n] ?? makePane(n === 0);
    if (pane.model !== each) pane.use(each);
    return pane;
  });
  byId("panes").replaceChildren(...panes.map(pane => pane.root));
  document.body.classList.toggle("compares", panes.length > 1);
  glossary.use(model);
  byId("text").lang = model.source;
  byId("swap").disabled = !reverse(model);
  const ofPair = models.filter(each => each.source === model.source && each.target === model.target);
  fillSelect("model", ofPair.map(each => [each.name, each.name]), model.name); // prettier-ignore
  fillSelect("other", [["", say("no other")], ...able.map(each => [each.name, each.name])], name); // prettier-ignore
  byId("other").disabled = !able.length;
  const sentences = examples[model.source] ?? [];
  byId("example").disabled = !sentences.length;
  fillSelect("example", [["", say("choose one")], ...sentences.map(([what, each]) => [each, say(what)])], "");
  showBar();
}

function showBar() {
  const model = first();
  const pairs = side => [
    ...new Map(models.map(each => [each[side], capital(nameOf(each[side], each[`${side}_name`]))])),
  ];
  const auto = isDetected
    ? capital(say("{language} (detected)", {language: sourceName(model)}))
    : say("Detect language");
  fillSelect(
    "from",
    [...(backend.detect ? [[AUTO, auto]] : []), ...pairs("source")],
    detects ? AUTO : model.source,
  );
  fillSelect("to", pairs("target"), model.target);
}

function fillSelect(id, options, value) {
  byId(id).replaceChildren(...options.map(([value, name]) => make("option", name, {value})));
  byId(id).value = value;
}

// --- Translating

function translateLater() {
  clearTimeout(timer);
  panes.forEach(pane => pane.translation.wait());
  timer = setTimeout(translateTyped, PAUSE);
}

// Translate what was typed, in the direction of its language.
async function translateTyped() {
  clearTimeout(timer);
  const typed = text();
  const isChecked = !isBegun() && length() <= limit;
  const finding = isChecked ? detected(typed).catch(() => null) : null; // translating reports the same error
  if (detects && isChecked) {
    const language = await finding;
    if (text() !== typed) return;
    const model = language && modelFrom(language);
    if (language && !model) {
      isDetected = false;
      showBar();
      writeAddress();
      refuse(language);
      return;
    }
    if (!isBegun()) {
      isDetected = Boolean(language);
      if (model && model.source !== first().source) chooseModels(model);
      else showBar();
    }
  }
  translateAll();
  suggest(typed, detects ? null : await finding);
}

// Offer to translate from another language than the chosen one, if the text is in one.
function suggest(typed, language) {
  if (text() !== typed) return;
  const model = language && language !== first().source && modelFrom(language);
  byId("hint").hidden = !model;
  if (!model) return;
  byId("hint").textContent = say("Translate from {language}", {language: sourceName(model)});
  byId("hint").onclick = () => chooseByHand(model);
}

async function translateAll({undo = false} = {}) {
  clearTimeout(timer);
  writeAddress(undo);
  byId("hint").hidden = true;
  byId("free").hidden = !isBegun();
  const q = text();
  if (!q.trim() || length() > limit) {
    panes.forEach(pane => {
      pane.translation.wait();
      pane.clear();
    });
    notice();
    if (length() > limit) refuseLength();
    showPlaces();
    return;
  }
  const asked = {q, ...glossary.asked};
  const [main, ...others] = panes;
  others.forEach(pane => pane.translate(asked).catch(error => pane.clear(error)));
  byId("status").textContent = "";
  try {
    const found = await main.translate(asked);
    if (!found) return;
    notice();
    byId("status").textContent = say("Translated from {source} into {target}.", {
      source: sourceName(main.model),
      target: targetName(main.model),
    });
  } catch (error) {
    main.clear();
    fail(error);
  }
  showPlaces();
}

// Show something in the place of the translation.
function notice(message, ...buttons) {
  byId("notice").hidden = !message;
  byId("notice").replaceChildren(...(message ? [make("p", message), ...buttons] : []));
}

function action(label, act) {
  const button = make("button", label, {type: "button"});
  button.addEventListener("click", act);
  return button;
}

function fail(error) {
  notice(
    error.message,
    action(say("Try again"), () => translateAll()),
  );
  if (error.name !== "Unreachable") return;
  const again = async () => {
    if (!byId("notice").contains(mark)) return; // something else is shown
    if (await backend.isAlive()) translateAll();
    else setTimeout(again, RETRY);
  };
  const mark = byId("notice").firstChild;
  setTimeout(again, RETRY);
}

function refuse(language) {
  const sources = [...new Map(models.map(model => [model.source, model])).values()];
  panes.forEach(pane => pane.clear());
  showPlaces();
  notice(
    say("This seems to be {language}, which no model here reads.", {language: nameOf(language)}),
    ...sources.map(model =>
      action(say("Translate from {language}", {language: sourceName(model)}), () => {
        detects = false;
        chooseByHand(modelFrom(model.source));
      }),
    ),
  );
}

function refuseLength() {
  notice(
    say("The text is too long: {size} characters, of at most {limit} at a time.", {
      size: number(length()),
      limit: number(limit),
    }),
    action(say("Select what is too much"), () => {
      byId("text").focus();
      byId("text").setSelectionRange([...text()].slice(0, limit).join("").length, text().length);
    }),
  );
}

// --- The text

// Characters as the server counts them.
const length = () => [...text()].length;

function showText() {
  const size = length();
  byId("count").textContent = `${number(size)} / ${number(limit)}`;
  byId("count").classList.toggle("wrong", size > limit);
  byId("clear").hidden = !size;
  byId("try").hidden = Boolean(size) || !examples[first().source];
  byId("ask").classList.toggle("long", size > LONG);
  markText([]);
}

// Put a text into the box, as if it had been typed.
function type(typed) {
  byId("text").value = typed;
  byId("text").dispatchEvent(new Event("input"));
}

// Mark ranges of the text: [start, end, class].
function markText(ranges) {
  const q = text();
  const nodes = [];
  let from = 0;
  for (const [start, end, kind] of ranges.sort((a, b) => a[0] - b[0])) {
    if (start < from) continue;
    nodes.push(q.slice(from, start), make("mark", q.slice(start, end), {class: kind}));
    from = end;
  }
  // A box ends with a line of its own after a line break.
  document.querySelector(".mirror").replaceChildren(...nodes, `${q.slice(from)}\u200b`);
}

// Mark the source words of a part of the translation.
function pointAt(place, words) {
  const {found} = panes[0];
  if (!found) return;
  const marks = missing(found);
  const at = locate(found.parts.map(part => part.source), text())[place]; // prettier-ignore
  if (at) {
    const places = locate(found.parts[place].words?.source ?? [], found.parts[place].source);
    for (const s of words)
      if (places[s]) marks.unshift([at[0] + places[s][0], at[0] + places[s][1], "linked"]);
  }
  markText(marks);
}

// --- What may be wrong

// Ranges of the text that did not arrive in the translation.
function missing({parts}) {
  const places = locate(parts.map(part => part.source), text()); // prettier-ignore
  return parts.flatMap(({source, missing = []}, n) =>
    missing.flatMap(target =>
      [target, ...glossary.sources(target)].flatMap(each => {
        const start = places[n] ? source.toLowerCase().indexOf(each.toLowerCase()) : -1;
        return start < 0 ? [] : [[places[n][0] + start, places[n][0] + start + each.length, "missing"]];
      }),
    ),
  );
}

// Say in plain words which sentences may have a wrong translation, and why; the places are marked.
function showPlaces() {
  const {found} = panes[0];
  const parts = found?.parts ?? [];
  const lines = parts.flatMap((part, n) => {
    const where = parts.length > 1 ? say("Sentence {number}: ", {number: n + 1}) : "";
    return [
      part.unlikely && say("the model itself finds this translation unlikely; it may be wrong."),
      !part.finished && say("the translation ended at the length limit; it may be incomplete."),
      part.missing?.length && say("not in the translation: {texts}", {texts: part.missing.join(", ")}),
    ]
      .filter(Boolean)
      .map(line => capital(where + line));
  });
  byId("doubts").hidden = !lines.length;
  byId("doubts").replaceChildren(...lines.map(line => make("li", line)));
  byId("copy").disabled = byId("share").disabled = !found;
  byId("tip").hidden = !found || isBegun();
  byId("unsure").hidden = !document.querySelector(".word.uncertain");
  pointAt(-1, []);
}

// --- The state of the page, which is in the fragment of its address

// With `undo` the browser's Back leads to the state before.
function writeAddress(undo) {
  const state = new URLSearchParams();
  if (text()) state.set("text", text());
  if (detects) state.set("from", AUTO);
  state.set("model", first().name);
  if (panes[1]) state.set("with", panes[1].model.name);
  panes.forEach((pane, n) => {
    if (pane.prefix) state.set(`begin${n + 1}`, pane.prefix);
    if (pane.at(".shown").value) state.set(`show${n + 1}`, pane.at(".shown").value);
  });
  const address = `#${state}`;
  if (undo && address !== location.hash) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

// Take the page's state from its address, but what was typed.
function readAddress(inBox = "") {
  const state = new URLSearchParams(location.hash.slice(1));
  const [wanted, other] = [state.get("model"), state.get("with")];
  detects = Boolean(backend.detect) && (!wanted || state.get("from") === AUTO);
  chooseModels(models.find(model => model.name === wanted) ?? models[0], other ?? "");
  const shown = panes.map(pane => pane.model.name);
  byId("fault").textContent = [
    wanted &&
      wanted !== shown[0] &&
      say("There is no model “{wanted}” here; this is {name}.", {wanted, name: shown[0]}),
    other && other !== shown[1] && say("“{other}” cannot be compared with {name}.", {other, name: shown[0]}),
  ]
    .filter(Boolean)
    .join(" ");
  const given = state.get("text") ?? "";
  const typed = inBox !== given && inBox; // a browser may restore the box after Back
  byId("text").value = typed || given;
  panes.forEach((pane, n) => {
    pane.prefix = (!typed && state.get(`begin${n + 1}`)) || "";
    pane.at(".shown").value = state.get(`show${n + 1}`) ?? "";
    if (!pane.at(".shown").value) pane.at(".shown").selectedIndex = 0;
  });
  isDetected = detects && Boolean(wanted && given.trim() && !typed);
  showBar();
  showText();
  if (typed || (given && !wanted)) translateTyped();
  else translateAll();
}

// --- The controls

const makePane = isFirst =>
  new Pane(isFirst ? byId("translation") : null, {
    point: isFirst ? pointAt : () => {},
    choose: () => translateAll({undo: true}),
    type: translateLater,
    change: () => writeAddress(),
    term: (source, target) => glossary.form(source, target),
  });

// Copy a text, and say so above the button.
async function copy(button, content) {
  const isDone = await navigator.clipboard?.writeText(content).then(
    () => true,
    () => false,
  );
  button.dataset.said = say((isDone ?? copyFromBox(content)) ? "Copied" : "This browser does not allow it");
  byId("status").textContent = button.dataset.said;
  setTimeout(() => {
    delete button.dataset.said;
  }, 2000);
}

// Browsers have no clipboard for pages that come over HTTP from another machine.
function copyFromBox(content) {
  const box = make("textarea", content, {class: "unseen"});
  document.body.append(box);
  box.select();
  const isDone = document.execCommand("copy");
  box.remove();
  return isDone;
}

function listen() {
  const on = (id, name, act) => byId(id).addEventListener(name, act);
  on("ask", "submit", event => event.preventDefault());
  on("text", "input", () => {
    // What was chosen for another text does not fit this one.
    panes.forEach(pane => {
      pane.prefix = "";
    });
    byId("fault").textContent = "";
    byId("hint").hidden = true;
    isDetected &&= Boolean(text().trim());
    showText();
    showBar();
    translateLater();
  });
  on("from", "change", () => {
    const chosen = byId("from").value;
    detects = chosen === AUTO;
    isDetected = false;
    if (detects) translateTyped();
    else chooseByHand(modelFrom(chosen));
  });
  on("to", "change", () => {
    const model = modelInto(byId("to").value);
    if (model.source !== first().source && text().trim()) detects = false;
    chooseByHand(model);
  });
  on("swap", "click", () => {
    const {model, found} = panes[0];
    detects = false;
    if (found?.text) byId("text").value = found.text;
    showText();
    chooseByHand(reverse(model), "");
  });
  on("clear", "click", () => {
    type("");
    byId("text").focus();
  });
  on("try", "click", () => type(examples[first().source][0][1]));
  on("copy", "click", () => copy(byId("copy"), panes[0].found.text));
  on("share", "click", () => copy(byId("share"), location.href));
  on("free", "click", () => {
    panes.forEach(pane => {
      pane.prefix = "";
    });
    translateAll({undo: true});
  });
  on("key", "change", () => translateAll());
  on("model", "change", () => chooseByHand(models.find(model => model.name === byId("model").value)));
  on("other", "change", () => chooseByHand(first()));
  on("example", "change", () => byId("example").value && type(byId("example").value));
  on("inside", "toggle", () => {
    document.body.classList.toggle("inside", byId("inside").open);
    panes.forEach(pane => pane.look());
  });
  document.addEventListener("keydown", event => {
    if (event.key === "Escape") panes.forEach(pane => pane.attention?.release());
  });
  window.addEventListener("hashchange", () => readAddress());
}

async function start() {
  showLanguage(byId("other-language"));
  const settings = await backend.start();
  ({models} = settings);
  limit = settings.charLimit;
  byId("key-label").hidden = !settings.keyRequired;
  byId("other-label").hidden = models.length < 2;
  glossary = new Glossary(byId("glossary"), settings, () => translateAll());
  byId("ask").classList.remove("loading");
  listen();
  readAddress(text()); // what was typed while the page loaded
}

start().catch(error => {
  byId("fault").textContent = say("The page cannot start: {reason}", {reason: error.message});
});
