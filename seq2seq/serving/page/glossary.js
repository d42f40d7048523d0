// What words are always translated as: a list for each pair of languages, which stays in this browser.
import {append, make, say} from "./drawing.js";
import {capital, nameOf, stored} from "./interface.js";

export class Glossary {
  // `root` is the section that shows the list, and `changed` is called when it changes.
  constructor(root, settings, changed) {
    const names = settings.glossaries; // of the server's; a page without a server takes none
    Object.assign(this, {root, changed, isOffered: Boolean(names), terms: {}});
    root.hidden = !names;
    this.named = root.querySelector("select");
    this.named.closest("p").hidden = !names?.length;
    this.named.append(...(names ?? []).map(name => make("option", name, {value: name})));
    this.named.value = stored.get("glossary") ?? "";
    if (this.named.selectedIndex < 0) this.named.value = "";
    this.named.addEventListener("change", () => {
      stored.set("glossary", this.named.value);
      this.show();
      changed();
    });
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

  // What a request has of it.
  get asked() {
    if (this.named.value) return {glossary: this.named.value};
    return this.isOffered && Object.keys(this.terms).length ? {glossary: this.terms} : {};
  }

  // The terms that are translated as a text.
  sources(translation) {
    const lower = translation.toLowerCase();
    return Object.keys(this.terms).filter(term => this.terms[term].toLowerCase() === lower);
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
    const isOwn = !this.named.value;
    this.root.querySelector("#terms-count").textContent = isOwn ? terms.length || "" : this.named.value;
    for (const part of this.root.querySelectorAll("form, #terms, .own")) part.hidden = !isOwn;
    this.root.querySelector(".named").hidden = isOwn;
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
    if (!this.isOffered || this.named.value) return [];
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
    const details = append(make("details"), make("summary", say("Always translate this word as…")), form);
    details.addEventListener("toggle", () => details.open && into.input.select());
    return [details];
  }
}
