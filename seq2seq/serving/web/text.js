// Text on both sides of search, as in seq2seq/data/cleaning.py, casing.py and seq2seq/inference/text.py.
import {isSpace, SPACE, splitWords, stripEnd, stripStart} from "./characters.js";
import {splitSentences} from "./sentences.js";

// --- Normalization

const EMOJI = "\\u2190-\\u2bff\\u{1f000}-\\u{1faff}";
const LOOSE_JOINER = new RegExp(`(?<![${EMOJI}\\ufe0f])\\u200d|\\u200d(?![${EMOJI}])`, "gu");

export function normalize(text) {
  const plain = text.replace(/[\p{Cc}\p{Cs}]/gu, " ").replace(/(?!\u200d)\p{Cf}/gu, "");
  return splitWords(plain.replace(LOOSE_JOINER, "").normalize("NFC")).join(" ");
}

export const normalizeLine = text => normalize(text.replaceAll("▁", " "));

// --- Capitals as marks

export const [SHIFT, CAPS] = ["\u2184", "\u2183"];
const [ALL_CAPS, ALL_CAPS_END] = [CAPS + CAPS, SHIFT + SHIFT];
export const CASE_PIECES = [CAPS, ALL_CAPS, ALL_CAPS_END].map(mark => `▁${mark}`);
const FEWEST_IN_A_ROW = 3;

export function markCase(text) {
  text = text.replaceAll(SHIFT, "c").replaceAll(CAPS, "C");
  if (text === text.toLowerCase()) return text;
  const words = text.split(" ").map(readWord);
  const found = [];
  for (let start = 0, end; start < words.length; start = end) {
    const {couldBe} = words[start];
    end = words.findIndex((word, n) => n > start && word.couldBe !== couldBe);
    if (end < 0) end = words.length;
    const row = words.slice(start, end);
    if (couldBe && row.filter(word => word.inCapitals).length >= FEWEST_IN_A_ROW)
      found.push(ALL_CAPS, ...row.map(word => word.lower), ALL_CAPS_END);
    else found.push(...row.flatMap(word => (word.inCapitals ? [CAPS, word.lower] : [word.marked])));
  }
  if (found.at(-1) === ALL_CAPS_END) found.pop();
  return found.join(" ");
}

// How the marked forms of longer texts can begin with this one, its own form first.
export function markPrefix(text, complete) {
  const found = [markCase(text)];
  for (const more of complete ? [" AA AA AA"] : ["a", "AA", "AA AA AA"]) {
    const longer = markCase(text + more);
    const form = longer.slice(0, -more.length);
    if (longer.endsWith(more.toLowerCase()) && !form.endsWith(ALL_CAPS)) found.push(form);
  }
  return [...new Set(found)];
}

export function restoreCase(text) {
  const found = [];
  let [one, every] = [false, false];
  for (let word of text.split(" ")) {
    if (word === CAPS) {
      one = true;
    } else if (word === ALL_CAPS || word === ALL_CAPS_END) {
      [every, one] = [word === ALL_CAPS, false];
    } else {
      word = word.replace(/[\u2183\u2184]+([^\n]?)/gu, (_, letter) => capital(letter));
      found.push(one || every ? [...word].map(capital).join("") : word);
      one = false;
    }
  }
  return found.join(" ");
}

function readWord(word) {
  const letters = [...word];
  const lower = letters.map(letter => letter.toLowerCase());
  const marked = letters.map((letter, n) =>
    lower[n] !== letter && capital(lower[n]) === letter ? SHIFT + lower[n] : letter,
  );
  const couldBe = [...lower.join("")].map(capital).join("") === word;
  const number = marked.join("").split(SHIFT).length - 1;
  return {lower: lower.join(""), marked: marked.join(""), couldBe, inCapitals: couldBe && number > 1};
}

function capital(letter) {
  const upper = letter.toUpperCase();
  return [...upper].length === 1 && upper.toLowerCase() === letter ? upper : letter;
}

// --- The sentences of a text, each as the parts that are translated

const CUTS = [
  `(?<=[.!?…])(?=[${SPACE}])|(?<=[。！？])(?![」』）”])`,
  `(?<=[,;:–—])(?=[${SPACE}])|(?<=[、，；：])`,
  `(?=[${SPACE}])`,
].map(cut => new RegExp(cut, "u"));
const WORD_PIECES = 64; // a "word" of a sentence that is too long is cut after this many
const PIECE_CHARS = 64; // no piece has more: a text that is far too long need not be encoded
const OTHER_ENDS = /\r(?!\n)|[\v\f\x1c-\x1f\x85\u2028\u2029]/gu;

// Returns lists of {text, ids, space}. `encode` turns a normalized text into ids; `joiners` are what
// stands between the sentences, and the parts of a sentence, of the target language.
export function splitText(text, encode, most, rules, segment, joiners) {
  const found = [];
  let space = ""; // before the next sentence
  for (const raw of splitSentences(text, rules, segment)) {
    const sentence = normalizeLine(raw);
    if (!sentence) {
      space += [...raw].filter(isSpace).join("");
      continue;
    }
    space += raw.slice(0, raw.length - stripStart(raw).length);
    const fits = encodeShort(sentence, encode, most);
    const parts = fits ? [sentence] : cut(sentence, encode, most, CUTS);
    space = space.replace(OTHER_ENDS, " ");
    if (!space.includes("\n")) space = joiners[0] && (space || " ");
    found.push(
      parts.map((part, n) => ({
        text: part,
        ids: fits ?? encode(part),
        space: n ? joiners[1] : found.length ? space : "",
      })),
    );
    space = raw.slice(stripEnd(raw).length);
  }
  return found;
}

function encodeShort(text, encode, most) {
  if ([...text].length > PIECE_CHARS * most) return null;
  const ids = encode(text);
  return ids.length <= most ? ids : null;
}

function cut(text, encode, most, cuts) {
  if (!cuts.length) return chop(text, encode, Math.min(most, WORD_PIECES));
  const chunks = text.split(cuts[0]).filter(Boolean);
  if (chunks.length === 1) return cut(text, encode, most, cuts.slice(1));
  const parts = [];
  let room = 0;
  for (const chunk of chunks) {
    const words = stripStart(chunk);
    const last = parts.length - 1;
    const size = encode(words).length;
    if (size > most) {
      parts.push(...cut(words, encode, most, cuts.slice(1)));
      room = 0;
    } else if (size <= room && (words !== chunk || encodeShort(parts[last] + chunk, encode, most))) {
      parts[last] += chunk;
      room -= size;
    } else {
      parts.push(words);
      room = most - size;
    }
  }
  return parts;
}

function chop(text, encode, most) {
  const chars = [...text];
  const parts = [];
  for (let start = 0, size = PIECE_CHARS * most; start < chars.length; size *= 2) {
    const part = () => chars.slice(start, start + size).join("");
    while (size > 1 && !encodeShort(part(), encode, most)) size = (size + 1) >> 1;
    parts.push(part());
    start += size;
  }
  return parts;
}
