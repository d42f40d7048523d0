// How a translation begins and continues, as in seq2seq/inference/prefix.py and alternatives.py: given
// prefixes, and the most likely next words.
import {stripStart} from "./characters.js";
import {BOS, EOS, maxLength, NO_PREFIX, UNK} from "./protocol.js";
import {restrict} from "./search.js";
import {normalize, normalizeLine} from "./text.js";

const TRIED = 2; // first pieces for each word that is asked for

// What text is in UTF-8, and back, as a string with a character for each byte.
const toBytes = text => String.fromCharCode(...new TextEncoder().encode(text));
const fromBytes = bytes => new TextDecoder().decode(Uint8Array.from(bytes, byte => byte.charCodeAt(0)));
const trimEnd = bytes => bytes.replace(/ $/, ""); // not the byte of a no-break space
const isBefore = (one, other) => one.every((piece, n) => piece === other[n]);

// The pieces of a tokenizer by what they spell, in bytes; words begin with a space.
export class Spelling {
  constructor(tokenizer) {
    this.tokenizer = tokenizer;
    this.pieces = tokenizer.pieces.map((piece, id) => {
      const byte = /^<0x(..)>$/.exec(piece);
      if (id <= EOS) return "";
      return byte ? String.fromCharCode(parseInt(byte[1], 16)) : toBytes(piece.replaceAll("▁", " "));
    });
    // Of two pieces that spell the same, the later one: single bytes come before characters.
    this.ids = [...new Map(this.pieces.map((piece, id) => [piece, id]).slice(EOS + 1))];
    this.marks = new Set(tokenizer.casePieces);
  }

  // The pieces that a text begins with, and those that begin with it; a space agrees with the end.
  agreeing(text) {
    const found = this.ids.filter(([piece]) => piece.startsWith(text) || text.startsWith(piece));
    return [...(text === " " ? [EOS] : []), ...found.map(([, id]) => id)];
  }

  // The prefix for a text; white space at its end completes its last word. With `isAll` nothing follows.
  prefix(text, isAll = false) {
    const normal = normalizeLine(text);
    if (!normal) return NO_PREFIX;
    const isComplete = isAll || normalizeLine(`${text}x`) === `${normal} x`;
    const forms = this.tokenizer.spellPrefix(normal, isComplete).slice(0, isAll ? 1 : undefined);
    const beginnings = forms.map(form => this.beginning(form, isComplete, isAll ? "" : " "));
    const longest = Math.max(...beginnings.map(({tokens, rest}) => tokens.length + trimEnd(rest).length));
    const prefix = {text: normal, beginnings, longest, isAll};
    return {...prefix, legal: tokens => this.legal(prefix, tokens)};
  }

  // A way to spell a text: what its forced pieces spell, these pieces, and the rest.
  beginning(form, isComplete, space) {
    const {tokenizer} = this;
    const place = ` ${form}`.lastIndexOf(" ");
    const last = ` ${form}`.slice(place);
    if (isComplete || tokenizer.encodeSpelled(last.slice(1)).includes(UNK)) {
      return {before: ` ${form}`, tokens: tokenizer.encodeSpelled(form), rest: isComplete ? space : ""};
    }
    const before = ` ${form}`.slice(0, place);
    return {before, tokens: tokenizer.encodeSpelled(before.slice(1)), rest: toBytes(last)};
  }

  // The pieces that may follow these ones; null: any, as they spell the text.
  legal({beginnings, isAll}, tokens) {
    const found = [];
    for (const {tokens: forced, rest} of beginnings) {
      if (tokens.length < forced.length) {
        if (isBefore(tokens, forced)) found.push(forced[tokens.length]);
      } else if (isBefore(forced, tokens)) {
        const spelled = rest && this.spell(tokens.slice(forced.length));
        if (spelled.startsWith(rest)) return isAll ? [EOS] : null;
        if (rest.startsWith(spelled)) found.push(...this.agreeing(rest.slice(spelled.length)));
      }
    }
    return found.length ? found : null;
  }

  // The text of a hypothesis, which begins with that of the prefix.
  decode({beginnings, text: begun}, tokens) {
    const text = this.tokenizer.decode(tokens);
    if (text.startsWith(begun)) return text;
    const spelled = ({tokens: forced}) => this.spell(tokens.slice(forced.length));
    const way = beginnings.find(
      each => isBefore(each.tokens, tokens) && spelled(each).startsWith(trimEnd(each.rest)),
    );
    const whole = this.tokenizer.restore(way.before + fromBytes(spelled(way)));
    return begun + normalize(`.${whole.slice(begun.length + 1)}`).slice(1);
  }

  spell(tokens) {
    return tokens.map(token => this.pieces[token]).join("");
  }
}

const logSum = values => {
  const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return most + Math.log(values.reduce((sum, value) => sum + Math.exp(value - most), 0));
};

// Resolves to the most likely words after a prefix of whole words, with their log probabilities, best first:
// the most likely first pieces, each completed greedily. The word "" is the end.
export async function nextWords(decoding, prefix, spelling, options, number) {
  const limit = Math.max(maxLength(options, decoding.sourceLength), prefix.longest);
  const starts = spelling.agreeing(" ");
  const found = new Map();
  const add = (tokens, logProb) => {
    const word = stripStart(spelling.decode(prefix, tokens).slice(prefix.text.length));
    const isWord = !word.includes("\ufffd") && (word || tokens.at(-1) === EOS); // not within a character
    if (isWord && logProb > (found.get(word) ?? -Infinity)) found.set(word, logProb);
  };
  let rows = [{tokens: [], logProb: 0}];
  let state = decoding.start();
  let isSpelled = false;
  while (rows.length) {
    const step = await decoding.step(
      rows.map(({tokens}) => tokens.at(-1) ?? BOS),
      state,
    );
    const size = step.logProbs.length / rows.length;
    const next = rows.flatMap((row, r) => {
      const logProbs = step.logProbs.subarray(r * size, (r + 1) * size);
      restrict(logProbs, row, {prefix, options, limit});
      const grow = (piece, logProb) => ({row: r, tokens: [...row.tokens, piece], logProb});
      if (isSpelled) {
        const piece = logProbs.indexOf(logProbs.reduce((a, b) => Math.max(a, b)));
        const isEnd = piece === EOS || (starts.includes(piece) && !spelling.marks.has(row.tokens.at(-1)));
        if (isEnd) add(row.tokens, row.logProb);
        return isEnd ? [] : [grow(piece, row.logProb + logProbs[piece])];
      }
      isSpelled = logProbs[EOS] > -Infinity;
      if (!isSpelled) return [grow(logProbs.indexOf(logProbs.reduce((a, b) => Math.max(a, b))), 0)];
      const mass = logSum(starts.map(piece => logProbs[piece]));
      const top = [...starts].sort((a, b) => logProbs[b] - logProbs[a]).slice(0, TRIED * number);
      if (top.includes(EOS)) add([...row.tokens, EOS], logProbs[EOS] - mass);
      return top.filter(piece => piece !== EOS).map(piece => grow(piece, logProbs[piece] - mass));
    });
    rows = next;
    state = decoding.select(
      step.state,
      rows.map(({row}) => row),
    );
  }
  return [...found].sort(([, a], [, b]) => b - a).slice(0, number);
}
