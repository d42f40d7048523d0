// The words of a translation and the attention between them, as in seq2seq/inference/words.py.
import {CAPS, normalize, SHIFT} from "./text.js";
import {splitWords} from "./characters.js";

const END_PIECE = "</s>";
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", {fatal: true, ignoreBOM: true});
const graphemes = new Intl.Segmenter(); // characters as readers see them
const isMark = chars => /^[\p{P}\p{S}]/u.test(chars);
// A character of a script without spaces, with the marks upon it.
const CHARACTER = ["Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"]
  .map(script => `\\p{Script=${script}}`)
  .join("");
const character = new RegExp(`([${CHARACTER}ー]\\p{M}*)`, "u");
const isCharacter = word => word.search(character) === 0;

// The words of a text as views show them, the marks around each as words of their own.
function displayWords(text) {
  const words = splitWords(text).flatMap(word => word.split(character).filter(Boolean));
  return words.flatMap(word => {
    const chars = Array.from(graphemes.segment(word), ({segment}) => segment);
    const start = chars.findIndex(char => !isMark(char));
    if (start < 0) return chars;
    const end = chars.findLastIndex(char => !isMark(char)) + 1;
    return [...chars.slice(0, start), chars.slice(start, end).join(""), ...chars.slice(end)];
  });
}

// The numbers of the words that each piece has characters of.
function wordsOfPieces(pieces, split) {
  const raw = pieces.map(bytesOf);
  if (pieces.at(-1) === END_PIECE) raw[raw.length - 1] = [];
  const ofByte = wordsOfBytes(Uint8Array.from(raw.flat()), split);
  let end = 0;
  const found = raw.map(piece => {
    const start = end;
    end += piece.length;
    return [...new Set(ofByte.slice(start, end).filter(word => word >= 0))].sort((a, b) => a - b);
  });
  let after = [];
  for (let index = raw.length - 1; index >= 0; index--) {
    if (!found[index].length && raw[index].length) found[index] = after;
    after = found[index].slice(0, 1);
  }
  return found;
}

function bytesOf(piece) {
  const byte = piece.match(/^<0x([0-9A-F]{2})>$/);
  if (byte) return [parseInt(byte[1], 16)];
  if (piece === "<unk>") return [...encoder.encode("\ufffd")];
  return piece === "<s>" || piece === "<pad>" ? [] : [...encoder.encode(piece.replaceAll("▁", " "))];
}

// The word of each byte of a text before normalization, -1 between words.
function wordsOfBytes(raw, split) {
  const chars = charsOf(raw);
  let text = "";
  const places = chars.map(({char}) => {
    const start = text.length;
    text += shown(char);
    return [start, text.length];
  });
  const ofChar = Array(text.length).fill(-1);
  let end = 0;
  split(text).forEach((word, number) => {
    const start = text.indexOf(word, end);
    end = start + word.length;
    ofChar.fill(number, start, end);
  });
  return chars.flatMap(({size}, n) => {
    const [start, end] = places[n];
    return Array(size).fill(start < end ? ofChar[start] : -1);
  });
}

// The characters of UTF-8 with their sizes; a byte that is not UTF-8 is one visible character.
function charsOf(raw) {
  const found = [];
  for (let place = 0; place < raw.length;) {
    const first = raw[place];
    const size = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    try {
      found.push({char: decoder.decode(raw.subarray(place, place + size)), size});
      place += size;
    } catch {
      found.push({char: "\ufffd", size: 1});
      place++;
    }
  }
  return found;
}

// What normalization makes of a character: itself, a space or nothing.
function shown(char) {
  if (char === SHIFT || char === CAPS) return "";
  const around = normalize(`a${char}a`);
  return around === "aa" ? "" : around === "a a" ? " " : char;
}

function displayed(text, pieces) {
  let [words, ofPieces] = [displayWords(text), wordsOfPieces(pieces, displayWords)];
  // Where the tokenizer does not know a mark, its pieces do not tell the mark from the word.
  if (Math.max(-1, ...ofPieces.flat()) + 1 !== words.length)
    [words, ofPieces] = [splitWords(text), wordsOfPieces(pieces, splitWords)];
  // Characters of a script without spaces that one piece spells are shown as one word.
  const follows = (word, n, of) => n > 0 && isCharacter(words[of[n - 1]]) && isCharacter(words[word]);
  const joined = new Set(ofPieces.flatMap(of => of.filter(follows)));
  const merged = [];
  const numbers = words.map((word, n) => {
    if (joined.has(n)) merged[merged.length - 1] += word;
    else merged.push(word);
    return merged.length - 1;
  });
  return {words: merged, ofPieces: ofPieces.map(of => [...new Set(of.map(n => numbers[n]))])};
}

// The length of a text in words, as Language.count_words in seq2seq/languages.py.
export function countWords(text, [betweenSentences, betweenParts]) {
  if (betweenParts) return splitWords(text).length;
  return Array.from(text).filter(char => char !== " ").length / (betweenSentences ? 4 : 2);
}

// Whether the model finds a translation unlikely, and the numbers of the words that it is unsure of.
// `about` has the log probabilities for a word below which they are, and the joiners of the language.
export function doubts({text, tokens, log_probs, log_prob}, {unlikely, uncertain, target: {joiners}}) {
  const spelled = new TextDecoder().decode(Uint8Array.from(tokens.slice(0, -1).flatMap(bytesOf)));
  const names = splitWords(text);
  const sums = names.map(() => 0);
  wordsOfPieces(tokens, splitWords).forEach((of, piece) => {
    for (const word of of) sums[word] += log_probs[piece];
  });
  const least = names.map(name => uncertain * Math.max(1, countWords(name, joiners)));
  return {
    unlikely: log_prob < unlikely * (countWords(spelled, joiners) + 1),
    uncertain: [...names.keys()].filter(word => sums[word] < least[word]),
  };
}

// Returns what the page shows of a sentence: for each piece of both sides its words, and the words with
// the weights between them, null without attention. The last source word is the end of the sentence.
export function wordAttention({source, text, source_tokens, tokens, attention}) {
  const [ofSource, ofTarget] = [displayed(source, source_tokens), displayed(text, tokens)];
  const end = [ofSource.words.length];
  const sourceWords = ofSource.ofPieces.map(words => (words.length ? words : end));
  const found = {source_words: sourceWords, target_words: ofTarget.ofPieces, words: null};
  if (!attention) return found;
  const weights = ofTarget.words.map((_, t) => {
    const rows = attention.filter((_, piece) => ofTarget.ofPieces[piece].includes(t));
    const row = Array(end[0] + 1).fill(0);
    for (const of of rows)
      of.forEach((weight, piece) =>
        sourceWords[piece].forEach(s => {
          row[s] += weight / sourceWords[piece].length / rows.length;
        }),
      );
    return row;
  });
  return {...found, words: {source: [...ofSource.words, END_PIECE], target: ofTarget.words, weights}};
}
