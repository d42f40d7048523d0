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

// Shows the page in its language; what is in index.html is English. The button changes the language.
export function showLanguage(button) {
  if (language === "es") translatePage(spanish);
  button.textContent = LANGUAGES[other];
  button.lang = other;
  button.addEventListener("click", () => {
    stored.set("language", other);
    location.reload(); // the state of the page is in its address
  });
}

function translatePage(translations) {
  Object.assign(texts, translations);
  document.documentElement.lang = language;
  document.title = say(document.title);
  const translated = text => text.replace(/\S.*\S|\S/s, words => say(words.replace(/\s+/g, " ")));
  const templates = [...document.querySelectorAll("template")].map(template => template.content);
  for (const root of [document.body, ...templates]) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) walker.currentNode.data = translated(walker.currentNode.data);
    for (const name of ["aria-label", "title", "placeholder"])
      for (const element of root.querySelectorAll(`[${name}]`))
        element.setAttribute(name, translated(element.getAttribute(name)));
  }
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
