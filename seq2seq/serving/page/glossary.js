// What words are always translated as: a list for each pair of languages, which stays in this browser.
import {append, make, say} from "./drawing.js";
import {capital, nameOf, stored} from "./interface.js";

export class Glossary {
  // `root` is the section that shows the list, and `changed` is called when it changes.
  constructor(root, settings, changed) {
    Object.assign(this, {root, changed, isOffered: Boolean(settings.glossaries), terms: {}});
    root.hidden = !this.isOffered;
    const form = root.querySelector("form");
    form.addEventListener("submit", event => {
      event.preventDefault();
      this.set(form.elements.term.value, form.elements.translation.value);
      form.reset();
      form.elements.term.focus();
    });
  }

  use({source, target}) {
    this.name = `glossary ${source} ${target}`;
    this.terms = JSON.parse(stored.get(this.name) ?? "{}");
    const [from, into] = this.root.querySelectorAll("form input");
    [from.lang, into.lang] = [source, target];
    [from.placeholder, into.placeholder] = [source, target].map(code => capital(nameOf(code)));
    this.show();
  }

  // What a request has of the list.
  get asked() {
    return this.isOffered && Object.keys(this.terms).length ? {glossary: this.terms} : {};
  }

  // Without a translation, the term is removed.
  set(term, translation) {
    delete this.terms[term.trim()];
    if (term.trim() && translation?.trim()) this.terms[term.trim()] = translation.trim();
    stored.set(this.name, JSON.stringify(this.terms));
    this.show();
    this.changed();
  }

  show() {
    const terms = Object.entries(this.terms);
    this.root.querySelector("#terms-count").textContent = terms.length || "";
    this.root.querySelector("#terms").replaceChildren(
      ...terms.map(([term, translation]) => {
        const label = say("Remove “{term}”", {term});
        const button = make("button", "×", {
          type: "button",
          class: "icon",
          "aria-label": label,
          title: label,
        });
        button.addEventListener("click", () => {
          this.set(term);
          this.root.querySelector("summary").focus();
        });
        return append(make("li"), make("span", `${term} → ${translation}`), button);
      }),
    );
  }

  // A form for a term, to be put at a word.
  form(term, translation) {
    if (!this.isOffered) return [];
    const [from, into] = [
      [say("Translate"), term],
      [say("as"), translation],
    ].map(([label, value]) => {
      const input = make("input", null, {value, required: "", autocomplete: "off", maxlength: 100});
      return {input, label: append(make("label", `${label} `), input)};
    });
    const form = append(make("form"), from.label, into.label, make("button", say("Keep")));
    form.addEventListener("submit", event => {
      event.preventDefault();
      form.closest("[popover]").hidePopover();
      this.set(from.input.value, into.input.value);
    });
    return [append(make("details"), make("summary", say("Always translate this word as…")), form)];
  }
}
