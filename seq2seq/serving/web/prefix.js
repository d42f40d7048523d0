// How a translation begins and continues, as in seq2seq/inference/prefix.py: given prefixes, and the
// likeliest next words.
import {normalize, normalizeLine} from "./text.js";
import {stripStart} from "./characters.js";
import {BOS, END, EOS, FREE, maxLength, NO_PREFIX, PAD, UNK} from "./protocol.js";

const range = (start, end) => Array.from({length: Math.max(0, end - start)}, (_, n) => start + n);
// How many pieces both lists begin with.
const common = (one, other) => {
  const end = one.findIndex((piece, n) => piece !== other[n]);
  return end < 0 ? one.length : end;
};

// The pieces of a tokenizer, by what they spell.
export class Spelling {
  constructor(tokenizer) {
    this.tokenizer = tokenizer;
    const {pieces, casePieces, spelled} = tokenizer;
    this.ids = new Map(spelled.map(id => [pieces[id], id]));
    this.longest = [...this.ids.keys()].reduce((most, piece) => Math.max(most, piece.length), 1);
    this.begin = spelled.filter(id => pieces[id].startsWith("▁"));
    this.boundaries = [EOS, ...this.begin];
    const boundaries = new Set(this.boundaries);
    this.within = range(0, pieces.length).filter(id => !boundaries.has(id));
    this.marks = new Set(casePieces);
  }

  // The prefix for a text; white space at its end completes its last word. With `isAll` nothing follows.
  prefix(text, isAll = false) {
    const normal = normalizeLine(text);
    if (!normal) return NO_PREFIX;
    const complete = isAll || normalizeLine(`${text}x`) === `${normal} x`;
    const spelled = this.tokenizer.spellPrefix(normal, complete).slice(0, isAll ? 1 : undefined);
    const forms = spelled.map(form => [form, this.tokenizer.encodeSpelled(form)]);
    const steps = new Map();
    const longest = Math.max(...forms.map(([form, tokens]) => this.addForm(steps, form, tokens, complete)));
    const all = range(0, this.tokenizer.pieces.length);
    const barred = isAll ? all.filter(id => id !== EOS) : complete ? this.within : [];
    return {text: normal, tokens: forms[0][1], forms, steps, start: 0, barred, longest, isAll};
  }

  // Adds all paths that spell a form; returns the length of the longest.
  addForm(steps, form, tokens, complete) {
    const isFirst = !steps.size;
    const states = [0];
    let next = Math.max(0, ...steps.keys()) + 1;
    const at = state => {
      if (!steps.has(state)) steps.set(state, new Map());
      return steps.get(state);
    };
    for (const piece of isFirst ? tokens.slice(0, -1) : tokens) {
      const legal = at(states.at(-1));
      // A number is used up even where the path exists.
      const number = next++;
      if (!legal.has(piece)) legal.set(piece, number);
      states.push(legal.get(piece));
    }
    const following = complete ? this.begin : range(EOS + 1, this.tokenizer.pieces.length);
    steps.set(
      states.at(-1),
      isFirst ? new Map([[tokens.at(-1), END]]) : new Map(following.map(piece => [piece, FREE])),
    );
    if (complete) return states.length;
    const words = form.split(" ");
    const word = `▁${words.pop()}`;
    const usual = this.tokenizer.encodeSpelled(words.join(" "));
    const first = usual.length;
    if (common(usual, tokens) === first)
      // not if pieces cross white space
      this.addOtherCuts(steps, tokens.slice(first), states.slice(first), word);
    return Math.max(states.length, first + word.length);
  }

  // Adds all paths whose last piece extends beyond a word of these pieces; states are before each piece.
  addOtherCuts(steps, tokens, states, word) {
    const size = Math.max(...steps.keys()) + 1;
    const fromPlace = new Map(); // positions from which the end can be passed
    for (let place = word.length - 1; place >= 0; place--) {
      const legal = new Map();
      for (let end = place + 1; end <= Math.min(place + this.longest, word.length - 1); end++) {
        const id = this.ids.get(word.slice(place, end));
        if (fromPlace.has(end) && id !== undefined) legal.set(id, size + end);
      }
      for (const id of this.longer(word.slice(place))) legal.set(id, FREE);
      if (legal.size) fromPlace.set(place, legal);
    }
    // Within or before a character that is spelled in bytes, there is no other continuation.
    let place = word.length;
    for (let n = Math.min(tokens.length, states.length) - 1; n >= 0; n--) {
      const piece = this.tokenizer.pieces[tokens[n]];
      place -= piece.length;
      if (this.ids.get(piece) !== tokens[n] || place < 0 || !word.startsWith(piece, place)) break;
      steps.set(states[n], new Map([...(fromPlace.get(place) ?? []), ...steps.get(states[n])]));
    }
    for (const [place, legal] of fromPlace) if (place) steps.set(size + place, legal);
  }

  // The pieces that begin with a text and are longer.
  longer(text) {
    return [...this.ids].filter(([piece]) => piece !== text && piece.startsWith(text)).map(([, id]) => id);
  }

  // The text of a hypothesis, which begins with that of the prefix.
  decode(prefix, tokens) {
    const {tokenizer} = this;
    const text = tokenizer.decode(tokens);
    if (text.startsWith(prefix.text)) return text;
    const shared = prefix.forms.map(([, usual]) => common(usual, tokens));
    const best = shared.indexOf(Math.max(...shared));
    const same = shared[best];
    const [form, usual] = prefix.forms[best];
    const rest = this.spell(usual.slice(same));
    const head = rest && ` ${form}`.endsWith(rest) ? ` ${form}`.slice(0, -rest.length) : ` ${form}`;
    const whole = tokenizer.restore(head + this.spell(tokens.slice(same)));
    return prefix.text + normalize(`.${whole.slice(prefix.text.length + 1)}`).slice(1);
  }

  // What pieces spell, with a space before it if the first one begins a word.
  spell(tokens) {
    const begins = tokens.length && this.tokenizer.pieces[tokens[0]].startsWith("▁");
    return (begins ? " " : "") + this.tokenizer.spelling(tokens);
  }
}

const logSum = values => {
  const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return most + Math.log(values.reduce((sum, value) => sum + Math.exp(value - most), 0));
};

// Resolves to the likeliest words after a prefix with their log probabilities, best first: a best-first
// search, whose first finds are the likeliest, since probabilities only fall. The word "" is the end.
export async function nextWords(decoding, prefix, spelling, options, number) {
  const {begin, boundaries, marks, tokenizer} = spelling;
  const within = spelling.within.filter(id => ![PAD, BOS, UNK].includes(id));
  const longest = prefix.tokens.length + maxLength(options, decoding.sourceLength);
  const read = tokenizer.decode(prefix.tokens).length;
  const word = tokens => stripStart(tokenizer.decode(tokens).slice(read));
  const step = async (state, piece) => {
    const found = await decoding.step([piece], state);
    return [found.logProbs, found.state];
  };
  const heap = [];
  const found = new Map();
  let order = 0;
  const push = (following, place) => {
    if (place < following.next.length && following.next[place][0] < Infinity)
      heap.push({cost: following.next[place][0], order: order++, place, following});
  };
  const add = (before, pieces, costOf, state) => {
    const next = pieces.map(piece => [costOf(piece), piece]).sort(([a], [b]) => a - b);
    push({before, next, state}, 0);
  };
  const starts = [];
  for (const [, tokens] of prefix.forms) {
    let logProb = 0;
    let [logProbs, state] = await step(decoding.start(), BOS);
    for (const piece of tokens) {
      logProb += logProbs[piece];
      [logProbs, state] = await step(state, piece);
    }
    starts.push({tokens, logProb, logProbs, state});
  }
  const usual = starts[0].logProb;
  const every = logSum(
    starts.flatMap(({logProb, logProbs}) => boundaries.map(piece => logProb - usual + logProbs[piece])),
  );
  for (const {tokens, logProb, logProbs, state} of starts)
    add(tokens, boundaries, piece => every + usual - logProb - logProbs[piece], state);
  while (heap.length && found.size < number) {
    const least = heap.reduce((a, b) =>
      b.cost < a.cost || (b.cost === a.cost && b.order < a.order) ? b : a,
    );
    heap.splice(heap.indexOf(least), 1);
    const {cost, place, following} = least;
    push(following, place + 1);
    const [, piece] = following.next[place];
    if (piece === EOS) {
      if (!found.has(word(following.before))) found.set(word(following.before), -cost);
      continue;
    }
    const tokens = [...following.before, piece];
    const [logProbs, state] = await step(following.state, piece);
    // The end of the word, whatever follows it; EOS stands for that. None is within a character (U+FFFD).
    const ended = cost - logSum(boundaries.map(id => logProbs[id]));
    if (/^[^\ufffd]+$/.test(word(tokens))) add(tokens, [EOS], () => ended, state);
    if (tokens.length < longest)
      add(tokens, marks.has(piece) ? begin : within, id => cost - logProbs[id], state);
  }
  return [...found];
}
