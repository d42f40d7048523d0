// A translation as text that can be selected. Pointing at a word shows what it translates; choosing one
// offers others. The words are one stop of the Tab key, with arrow keys between them.
import * as backend from "./backend.js";
import {append, make, say} from "./drawing.js";

const LINKED = 0.25; // the weight of attention from which a source word is shown as linked
const [ASKED, SHOWN] = [8, 5]; // other words; some are the same in another case
const UNLIKELY = Math.log(20); // by how much an other word is less likely than the best one, to be left out
const popover = document.getElementById("others");

export class Translation {
  // `on` has point(place, words), which gets what a word translates (or nothing), choose(prefix), and
  // term(source, target), which makes the elements with which such a term is kept.
  constructor(box, on) {
    Object.assign(this, {box, on, found: null, words: [], work: new AbortController()});
    const wordOf = ({target}) => this.words.find(({span}) => span === target);
    box.addEventListener("pointerover", event => this.point(wordOf(event)));
    box.addEventListener("pointerleave", () => this.point());
    box.addEventListener("focusin", event => this.point(wordOf(event)));
    box.addEventListener("focusout", () => this.point());
    box.addEventListener("click", event => {
      const word = wordOf(event);
      if (word && getSelection().isCollapsed) this.offer(word);
    });
    box.addEventListener("keydown", event => this.press(event, wordOf(event)));
  }

  // What is shown belongs to another text than the next one.
  wait() {
    this.work.abort();
    this.box.classList.add("waiting");
    if (this.isOpen) popover.hidePopover();
  }

  clear() {
    this.found = null;
    this.words = [];
    this.box.classList.remove("waiting");
    this.box.replaceChildren();
  }

  // Resolves to the translation, which is shown as it is decoded; to nothing if another one has begun.
  async translate(asked) {
    const focused = this.words.findIndex(({span}) => span === document.activeElement);
    this.wait();
    this.asked = asked;
    this.work = new AbortController();
    const {signal} = this.work;
    this.found = null;
    try {
      for await (const [name, data] of backend.stream(asked, signal)) {
        if (signal.aborted) return null;
        if (name === "error") throw new Error(data.error);
        if (name === "translation") [this.found] = data.translations;
        // The one before stays until there is as much of the new one.
        else if (data.text.length >= this.box.textContent.length) this.box.textContent = data.text;
      }
    } catch (error) {
      if (signal.aborted) return null;
      throw error;
    }
    this.show();
    const same = this.words[Math.min(focused, this.words.length - 1)];
    if (same && document.activeElement === document.body) {
      this.stopAt(same);
      same.span.focus();
    }
    return this.found;
  }

  show() {
    const {box, found, asked} = this;
    const given = asked.prefix.split(/\s+/).filter(Boolean).length;
    this.words = found.parts.flatMap(({space, text, unlikely, uncertain, finished}, place) =>
      [...text.matchAll(/\S+/g)].map(({0: word, index}, n) => ({
        word,
        place,
        start: index,
        space: n ? " " : place ? space : "",
        isUncertain: uncertain.includes(n),
        span: make("span", word, {class: `word${unlikely || !finished ? " doubtful" : ""}`}),
      })),
    );
    this.words.slice(0, given).forEach(({span}) => span.classList.add("given"));
    for (const {span} of this.words.slice(given).filter(({isUncertain}) => isUncertain)) {
      span.classList.add("uncertain");
      span.title = say("The model is unsure of this word");
    }
    box.classList.remove("waiting");
    box.replaceChildren(...this.words.flatMap(({space, span}) => [space, span]));
    if (this.words.length) this.stopAt(this.words[given - 1] ?? this.words[0]);
  }

  // Only the word where the Tab key stops is a button, so that the others are read as text.
  stopAt({span}) {
    for (const stop of this.box.querySelectorAll("[tabindex]"))
      for (const name of ["tabindex", "role", "aria-haspopup"]) stop.removeAttribute(name);
    for (const [name, value] of [
      ["tabindex", 0],
      ["role", "button"],
      ["aria-haspopup", "dialog"],
    ])
      // prettier-ignore
      span.setAttribute(name, value);
  }

  press(event, word) {
    if (!word || event.ctrlKey || event.altKey || event.metaKey) return;
    const {words} = this;
    const n = words.indexOf(word);
    const isLeftward = getComputedStyle(this.box).direction === "rtl";
    const [before, after] = isLeftward ? ["ArrowRight", "ArrowLeft"] : ["ArrowLeft", "ArrowRight"];
    const to = {
      [before]: () => words[n - 1],
      [after]: () => words[n + 1],
      ArrowUp: () => this.nearest(word, words.slice(0, n).reverse()),
      ArrowDown: () => this.nearest(word, words.slice(n + 1)),
      Home: () => words[0],
      End: () => words.at(-1),
    }[event.key];
    if (to) {
      const next = to() ?? word;
      this.stopAt(next);
      next.span.focus();
    } else if (event.key === "Enter" || event.key === " ") this.offer(word);
    else return;
    event.preventDefault();
  }

  // The word of the next line that is nearest to another one.
  nearest(word, candidates) {
    const middle = ({span}) => span.offsetLeft + span.offsetWidth / 2;
    const far = other => Math.abs(middle(other) - middle(word));
    const line = candidates.find(({span}) => span.offsetTop !== word.span.offsetTop)?.span.offsetTop;
    const others = candidates.filter(({span}) => span.offsetTop === line);
    return others.reduce((best, other) => (best && far(best) <= far(other) ? best : other), undefined);
  }

  point(word) {
    this.on.point(word?.place, word ? this.linked(word).map(({s}) => s) : []);
  }

  // The source words that attention links to a word, the heaviest first: [{s, weight}].
  linked({place, start, word}) {
    const {words, text} = this.found.parts[place];
    if (!words) return [];
    const rows = locate(words.target, text).flatMap((at, t) =>
      at && at[1] > start && at[0] < start + word.length ? [words.weights[t]] : [],
    );
    return words.source
      .slice(0, -1) // the end of the sentence
      .map((name, s) => ({name, s, weight: Math.max(0, ...rows.map(row => row[s]))}))
      .filter(({name, weight}) => weight >= LINKED && /[\p{L}\p{N}]/u.test(name))
      .sort((a, b) => b.weight - a.weight);
  }

  get isOpen() {
    return popover.matches(":popover-open") && this.box.contains(popover.word ?? null);
  }

  // Offer other words in the place of one.
  async offer(word) {
    const {source, text, words} = this.found.parts[word.place];
    const n = this.words.indexOf(word);
    const before = this.words.slice(0, n).map(({space, word}) => space + word).join(""); // prettier-ignore
    this.stopAt(word);
    const share = make("span", null, {class: "number share"});
    const bare = word.word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "");
    const title = make("h2", say("Instead of “{word}”", {word: bare || word.word}), {id: "others-title"});
    const list = append(make("ol"), make("li", say("Computing…"), {class: "soft"}));
    const [link] = this.linked(word);
    popover.replaceChildren(
      append(title, " ", share),
      list,
      ...this.on.term(link ? words.source[link.s] : "", bare),
    );
    open(word.span);
    let others;
    try {
      // No other sentence changes.
      const asked = {model: this.asked.model, q: source, prefix: text.slice(0, word.start), number: ASKED};
      others = await backend.alternatives(asked, this.work.signal);
    } catch (error) {
      if (error.name !== "AbortError") list.replaceChildren(make("li", error.message, {class: "wrong"}));
      return;
    }
    if (!list.isConnected) return; // another word was chosen meanwhile
    const own = others.find(other => other.word === word.word);
    share.textContent = own ? percent(own.log_prob) : "";
    const lower = word.word.toLowerCase();
    const different = others
      .filter(other => other.word && other.word.toLowerCase() !== lower)
      .filter((other, _, [best]) => other.log_prob > best.log_prob - UNLIKELY)
      .slice(0, SHOWN);
    list.replaceChildren(
      ...different.map(other => {
        const choice = append(
          make("button", null, {type: "button"}),
          make("strong", other.word, {lang: this.box.lang}),
          make("span", percent(other.log_prob), {class: "number share"}),
          sentence(text, other.text, this.box.lang),
        );
        choice.addEventListener("click", () => {
          popover.hidePopover();
          this.on.choose(`${before}${before && word.space}${other.word} `);
        });
        return append(make("li"), choice);
      }),
    );
    if (!different.length)
      list.append(make("li", say("The model knows no other word here."), {class: "soft"}));
    if (!popover.contains(document.activeElement)) list.querySelector("button")?.focus();
  }
}

// Where words are in a text, one after the other: [start, end], or null for one that is not there.
export function locate(words, text) {
  let from = 0;
  return words.map(word => {
    const start = text.indexOf(word, from);
    if (start < 0) return null;
    from = start + word.length;
    return [start, from];
  });
}

// A sentence, with the words that are other ones than before.
function sentence(before, text, lang) {
  const [was, is] = [before, text].map(each => each.split(/\s+/).filter(Boolean));
  let [first, last] = [0, 0];
  while (first < is.length && is[first] === was[first]) first++;
  while (last < Math.min(is.length, was.length) - first && is.at(-1 - last) === was.at(-1 - last)) last++;
  const words = [is.slice(0, first), is.slice(first, is.length - last), is.slice(is.length - last)];
  const [start, middle, end] = words.map(each => each.join(" "));
  return append(make("span", null, {class: "soft", lang}), start, " ", make("b", middle), " ", end);
}

function percent(logProb) {
  const share = 100 * Math.exp(logProb);
  return `${share < 0.1 ? "<0.1" : share.toFixed(1)} %`;
}

function open(span) {
  popover.hidePopover();
  popover.word = span;
  span.focus({preventScroll: true});
  span.classList.add("open");
  const {top, bottom} = span.getBoundingClientRect();
  const room = Math.max(top, document.documentElement.clientHeight - bottom) - 12;
  popover.style.setProperty("--room", `${room}px`);
  popover.showPopover({source: span});
}

// The popover is below its word, or above where there is more room.
new ResizeObserver(() => {
  if (!popover.matches(":popover-open")) return;
  const {left, top, bottom} = popover.word.getBoundingClientRect();
  const {clientWidth, clientHeight} = document.documentElement;
  const isBelow = clientHeight - bottom >= Math.min(popover.offsetHeight + 8, top);
  const x = Math.max(8, Math.min(left, clientWidth - popover.offsetWidth - 8));
  popover.style.left = `${x + scrollX}px`;
  popover.style.top = `${Math.max(8, scrollY + (isBelow ? bottom + 4 : top - popover.offsetHeight - 4))}px`;
}).observe(popover);

popover.addEventListener("beforetoggle", ({newState}) => {
  if (newState === "closed") popover.word.classList.remove("open");
});
