// The language of the page itself, and what it keeps in this browser.
import {say, texts} from "./drawing.js";
import {spanish} from "./spanish.js";

export {say};
const LANGUAGES = {en: "English", es: "Español"};

// What cannot be kept, where a browser refuses to, lasts as long as the page.
const kept = new Map();
export const stored = {
  get(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return kept.get(name) ?? null;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {
      kept.set(name, value);
    }
  },
};

export const language =
  [stored.get("language"), ...navigator.languages]
    .map(code => code?.slice(0, 2))
    .find(code => code in LANGUAGES) ?? "en";
const other = Object.keys(LANGUAGES).find(code => code !== language);

// Shows the page in its language. What is in index.html is English.
export function showLanguage(button) {
  if (language === "es") Object.assign(texts, spanish);
  document.documentElement.lang = language;
  for (const root of [document, ...[...document.querySelectorAll("template")].map(each => each.content)]) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const [, before, text, after] = /^(\s*)(.*?)(\s*)$/s.exec(walker.currentNode.data);
      if (text) walker.currentNode.data = before + say(text.replace(/\s+/g, " ")) + after;
    }
    for (const name of ["aria-label", "title", "placeholder"])
      for (const element of root.querySelectorAll(`[${name}]`))
        element.setAttribute(name, say(element.getAttribute(name).replace(/\s+/g, " ")));
  }
  button.textContent = LANGUAGES[other];
  button.lang = other;
  button.addEventListener("click", () => {
    stored.set("language", other);
    location.reload(); // the state of the page is in its address
  });
}

// The name of a language; `name` if the browser knows none.
export function nameOf(code, name = code) {
  try {
    return new Intl.DisplayNames(language, {type: "language", fallback: "none"}).of(code) ?? name;
  } catch {
    return name; // not the form of a code
  }
}

// A text with a capital, as sentences and names in a list begin.
export const capital = text => text.charAt(0).toLocaleUpperCase(language) + text.slice(1);

export const number = value => value.toLocaleString(language);
