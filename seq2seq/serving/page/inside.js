// What one model makes of the text, in the section "Inside the model".
import {append, drawAttention, make, memoryDetails, named, rule, say, stepDetails, table} from "./drawing.js";
import * as backend from "./backend.js";
import {capital, nameOf} from "./interface.js";
import {Translation} from "./translation.js";
import {drawTree} from "./tree.js";

const MOST_BEAM = 20; // that the server accepts
const section = document.getElementById("inside");

export class Pane {
  // `box` is where the translation is shown, if not in the pane. `on` has what a Translation asks for,
  // type(), for a beginning that is typed, and change(), for what belongs in the address of the page.
  constructor(box, on) {
    this.root = document.getElementById("pane").content.cloneNode(true).firstElementChild;
    this.at = selector => this.root.querySelector(selector);
    const choose = prefix => {
      this.prefix = prefix;
      on.choose();
    };
    this.copies = Boolean(box);
    this.translation = new Translation(box ?? this.at(".translation"), {...on, choose});
    this.model = null;
    this.place = 0; // of the sentence that is looked into
    this.at(".prefix").addEventListener("input", on.type);
    if (!backend.explain) {
      this.at(".shown").replaceChildren(this.at(".shown option"));
      this.at(".shown").closest("p").hidden = true;
    }
    this.at(".sentence").addEventListener("change", event => this.look(Number(event.target.value)));
    this.at(".shown").addEventListener("change", () => {
      on.change();
      if (this.part) this.drawWords();
    });
    arrows(this.at(".sources"));
    arrows(this.at(".targets"));
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
  set prefix(text) {
    this.at(".prefix").value = text;
  }
  get found() {
    return this.translation.found;
  }
  get part() {
    return this.found?.parts[this.place];
  }

  use(model) {
    this.model = model;
    this.beam = null; // of the tree, where another one than the server's was chosen
    this.prefix = "";
    this.at("h2").textContent = model.name;
    const none = model.score === "none";
    this.at(".shown option").textContent = say(none ? "nothing: the model has no attention" : "attention");
    const about = say(
      none
        ? "{source} to {target}, style {style}, no attention, beam {beam}"
        : "{source} to {target}, style {style}, score {score}, beam {beam}",
      {
        ...model,
        source: nameOf(model.source, model.source_name),
        target: nameOf(model.target, model.target_name),
      },
    );
    this.at(".about").textContent = capital(about);
    for (const box of [this.translation.box, this.at(".translation"), this.at(".prefix")])
      box.lang = model.target;
  }

  // Resolves to the translation of a text, or to nothing if another one has begun.
  async translate(asked) {
    this.asked = {...asked, model: this.model.name, prefix: this.prefix};
    if (!this.copies) this.say("");
    const found = await this.translation.translate(this.asked);
    if (!found) return null;
    const logProb = found.parts.reduce((sum, part) => sum + part.log_prob, 0);
    this.say(`log p = ${logProb.toFixed(3)}`);
    if (this.copies) this.at(".translation").textContent = found.text;
    this.at(".which").hidden = found.parts.length < 2;
    this.at(".sentence").replaceChildren(
      ...found.parts.map(({source}, n) => make("option", `${n + 1}: ${source}`, {value: n})),
    );
    this.look(0);
    return found;
  }

  // Shows nothing but perhaps why.
  clear(error) {
    this.translation.clear();
    if (this.copies) this.at(".translation").textContent = "";
    this.at(".attention").hidden = this.at(".which").hidden = true;
    this.say(error?.message ?? "", Boolean(error));
    for (const details of this.root.querySelectorAll(":scope > details")) {
      details.open = false;
      details.hidden = true;
    }
  }

  say(message, isWrong = false) {
    this.at(".state").textContent = message;
    this.at(".state").classList.toggle("wrong", isWrong);
  }

  // Look into one sentence of the text: its attention, and the parts of the page that are open.
  look(place = this.place) {
    this.place = place;
    if (!section.open) return;
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
    const [views, below] = [this.at(".views"), this.at(".rule")];
    let {words} = part;
    let attribution = null;
    let error = null;
    if (method) {
      views.classList.add("waiting");
      below.textContent = say("Computing…");
      const asked = this.explanation({attribution: method}).catch(error => ({error}));
      ({attributed_words: words, attribution, error} = await asked);
      if (part !== this.part || method !== this.at(".shown").value) return;
    }
    views.classList.remove("waiting");
    views.hidden = !words;
    below.classList.toggle("wrong", Boolean(error));
    below.textContent = error?.message ?? (words ? rule(attribution) : "");
    if (!words) return;
    if (attribution) below.textContent += ` ${say("Dashed lines are negative.")}`;
    const places = {
      sources: this.at(".sources"),
      targets: this.at(".targets"),
      map: this.at(".map"),
      description: this.at(".description"),
    };
    places.map.style.setProperty("--columns", words.source.length);
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

  // Fill a part of the page when it is opened, or when the translation changes while it is.
  async fill(details, fill) {
    const inside = details.querySelector(":scope > div");
    const of = JSON.stringify([this.asked, this.place]);
    if (!this.found || inside.dataset.of === of) return;
    inside.dataset.of = of;
    inside.replaceChildren(make("p", say("Computing…"), {class: "soft"}));
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
    return backend.explain(asked, this.translation.work.signal);
  }

  async explain() {
    const data = await this.explanation();
    const {formula} = data.model;
    return [
      make("p", say("Score: {text} ({source})", formula), {class: "small soft"}),
      ...data.steps.map(step => stepDetails(data, step)),
      make("h3", say("Computed once per sentence")),
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
    const label = append(make("label", `${say("hypotheses that it keeps")} `), size);
    size.addEventListener("change", () => {
      this.beam = Math.min(MOST_BEAM, Math.max(1, Math.round(Number(size.value)) || 1));
      const details = this.at("details.tree");
      delete details.querySelector(":scope > div").dataset.of;
      this.fill(details, this.drawTree);
    });
    const asked = {...this.asked, beam: this.beam ?? undefined, tree: true};
    const found = await backend.translate(asked, this.translation.work.signal);
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
    const [stepLabel, step] = choose(say("when writing"), part.tokens);
    const [placeLabel, place] = choose(say("attend to"), part.source_tokens);
    if (this.forced) [step.value, place.value] = this.forced;
    const button = make("button", say("Compute"), {type: "button", class: "play"});
    const result = make("div");
    const compute = async () => {
      result.replaceChildren(make("p", say("Computing…"), {class: "soft"}));
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
        say(
          "One step gets all its weight on the source piece that you choose, and the search goes on from there. You can also drag a target word above onto a source word.",
        ),
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
      say(
        after.translation === before.translation
          ? "The translation stays the same."
          : "The translation that follows.",
      ),
      {class: "small soft"},
    ),
    table([say("next piece at step {number}", {number}), say("probability before"), say("after")], rows),
    make(
      "p",
      say("The context moves by {moved}; before it had the length {size}.", {
        moved: moved.toFixed(3),
        size: size.toFixed(3),
      }),
      {class: "small"},
    ),
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

// Makes the buttons of a strip one stop of the Tab key, with arrow keys between them.
function arrows(strip) {
  const stopAt = button => {
    for (const other of strip.children) other.tabIndex = other === button ? 0 : -1;
  };
  new MutationObserver(() => strip.firstElementChild && stopAt(strip.firstElementChild)).observe(strip, {
    childList: true,
  });
  strip.addEventListener("focusin", event => stopAt(event.target));
  strip.addEventListener("keydown", event => {
    const {target, key} = event;
    const to = {
      ArrowUp: target.previousElementSibling,
      ArrowDown: target.nextElementSibling,
      Home: strip.firstElementChild,
      End: strip.lastElementChild,
    }[key];
    if (!to) return;
    to.focus();
    event.preventDefault();
  });
}
