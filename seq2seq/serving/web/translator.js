// Translates text with the exported graphs, as seq2seq/inference/translator.py and the HTTP interface do.
import {splitWords, strip} from "./characters.js";
import {nextWords, Spelling} from "./prefix.js";
import {EOS, NO_PREFIX, PAD} from "./protocol.js";
import {search} from "./search.js";
import {splitSentences} from "./sentences.js";
import {CASE_PIECES, markCase, markPrefix, normalize, normalizeLine, restoreCase, splitText} from "./text.js";
import {doubts, wordAttention} from "./words.js";

const GRAPHS = ["encoder", "embedding", "step"];

// Resolves to a translator. `about` is about.json, and `read` resolves to the bytes of a file of the export.
// `libraries` are {ort, SentencePieceProcessor, segment, models}, where `models` receives the bytes that
// the processors load.
export async function loadTranslator(about, read, libraries) {
  const {ort, models, segment, SentencePieceProcessor} = libraries;
  const {
    graphs: exported,
    inference,
    model,
  } = JSON.parse(new TextDecoder().decode(await read("model/graph/graph.json")));
  const tokenizers = {};
  const graphs = {};
  for (const side of ["source", "target"]) {
    models[side] = await read(`model/${side}.model`);
    const processor = new SentencePieceProcessor();
    await processor.load(side);
    tokenizers[side] = new Tokenizer(processor, about[side].pieces);
  }
  const [ofPrecision] = Object.values(exported);
  for (const kind of GRAPHS)
    graphs[kind] = await ort.InferenceSession.create(await read(`model/graph/${ofPrecision[kind].file}`), {
      executionProviders: ["wasm"],
      enableMemPattern: false,
      logSeverityLevel: 4,
    });
  return new Translator({...about, inference, model}, new Model(ort, graphs), tokenizers, segment);
}

class Tokenizer {
  constructor(processor, pieces) {
    Object.assign(this, {processor, pieces});
    this.casePieces = CASE_PIECES.map(piece => pieces.indexOf(piece)).filter(id => id > 0);
  }

  get marksCase() {
    return this.casePieces.length > 0;
  }
  spell(text) {
    return this.marksCase ? markCase(text) : text;
  }
  spellPrefix(text, complete) {
    return this.marksCase ? markPrefix(text, complete) : [text];
  }
  restore(text) {
    return this.marksCase ? restoreCase(text) : text;
  }
  encodeSpelled(text) {
    return text ? this.processor.encodeIds(text) : [];
  }
  encode(text) {
    return this.encodeSpelled(this.spell(text));
  }
  spelling(ids) {
    const kept = ids.filter(id => id > EOS);
    return kept.length ? this.processor.decodeIds(kept) : "";
  }
  decode(ids) {
    return normalize(this.restore(this.spelling(ids)));
  }
}

// The graphs (docs/export.md). A sentence is padded as in seq2seq/data/ragged.py: rounding depends on it.
class Model {
  constructor(ort, graphs) {
    Object.assign(this, {ort, graphs, inputs: new Map()});
  }

  int64(values) {
    return BigInt64Array.from(values, BigInt);
  }

  async decoding(ids) {
    const {ort} = this;
    const source = [...ids, EOS];
    const sourceLength = source.length;
    const grid = [4, 8, 12, 16];
    while (grid.at(-1) < sourceLength) grid.push(2 * grid.at(-2));
    const width = grid.find(each => each >= sourceLength);
    while (source.length < width) source.push(PAD);
    const encoded = await this.graphs.encoder.run({
      source: new ort.Tensor("int64", this.int64(source), [1, width]),
    });
    const {state, ...memory} = encoded;
    const size = state.dims[1];
    return {
      sourceLength,
      start: () => state.data,
      select: (data, rows) => {
        const found = new Float32Array(rows.length * size);
        rows.forEach((row, r) => found.set(data.subarray(row * size, (row + 1) * size), r * size));
        return found;
      },
      step: async (pieces, data) => {
        const inputs = await this.embed(pieces);
        const found = await this.graphs.step.run({
          ...memory,
          inputs,
          state: new ort.Tensor("float32", data, [1, pieces.length, size]),
        });
        return {
          logProbs: found.log_probs.data,
          state: found.next_state.data,
          weights: found.weights?.data ?? null,
        };
      },
    };
  }

  // What a step reads of the embeddings of pieces; it depends on each piece alone, and is kept.
  async embed(pieces) {
    for (const piece of new Set(pieces)) {
      if (this.inputs.has(piece)) continue;
      const tensor = new this.ort.Tensor("int64", this.int64([piece]), [1]);
      this.inputs.set(piece, (await this.graphs.embedding.run({pieces: tensor})).inputs.data);
    }
    const rows = pieces.map(piece => this.inputs.get(piece));
    const size = rows[0].length;
    const data = new Float32Array(rows.length * size);
    rows.forEach((row, r) => data.set(row, r * size));
    return new this.ort.Tensor("float32", data, [1, rows.length, size]);
  }
}

export class Translator {
  constructor(about, model, {source, target}, segment) {
    Object.assign(this, {about, model, source, target, segment, spelling: new Spelling(target)});
  }

  // What the page asks a server for when it starts.
  get settings() {
    const {charLimit, inference, model, name, source, target} = this.about;
    return {
      charLimit,
      keyRequired: false,
      models: [
        {
          name,
          source: source.code,
          target: target.code,
          source_name: source.name,
          target_name: target.name,
          style: model.style,
          score: model.attention.score,
          beam: inference.beam_size,
        },
      ],
    };
  }

  options(beam) {
    const {inference} = this.about;
    return {...inference, beam_size: beam ?? inference.beam_size};
  }

  split(text) {
    const {inference, source, target} = this.about;
    return splitText(
      text,
      part => this.source.encode(part),
      inference.max_source_length,
      source.rules,
      this.segment,
      target.joiners,
    );
  }

  // The parts of a text, each with what its translation must begin with: [part, prefix].
  begin(split, text) {
    if (!normalizeLine(text)) return split.flat().map(part => [part, NO_PREFIX]);
    const sentences = split.length ? split : [[{text: "", ids: [], space: ""}]];
    let begins = [text];
    if (sentences.length > 1) {
      // White space after a sentence completes it, so that a letter begins the next one.
      const isLower = /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
      const letter = isLower ? "x" : "X";
      begins = splitSentences(text + letter, this.about.target.rules, this.segment);
      const last = begins.pop().slice(0, -1);
      begins = [...begins.filter(normalizeLine), last];
    }
    return sentences.flatMap((parts, place) => {
      const isAll = begins.length > 1 && parts.length === 1 && place < sentences.length - 1;
      const begin = isAll ? begins.shift() : begins.join("");
      if (!isAll) begins = [];
      const prefix = this.spelling.prefix(begin, isAll);
      return parts.map((part, n) => [part, n ? NO_PREFIX : prefix]);
    });
  }

  // Resolves to the translation of a text, as POST /api/translate answers. `show` gets the text so far at
  // each step, may be slow, and ends the search by what it throws.
  async translate({q, prefix = "", beam, tree = false}, show) {
    const begun = this.begin(this.split(q), prefix);
    const parts = [];
    for (const [sentence, begin] of begun) {
      const before = textOf(parts);
      const watch = show && (tokens => show(strip(before + sentence.space + this.target.decode(tokens))));
      parts.push(await this.part(sentence, begin, {options: this.options(beam), keepTree: tree, watch}));
    }
    return this.whole(parts);
  }

  // Resolves to what can come after a prefix of complete words, as POST /api/alternatives answers.
  async alternatives({q, prefix = "", number = 5}) {
    const options = this.options();
    const split = this.split(q);
    const begun = this.begin(split, `${prefix} `);
    if (!split.length) throw new Error("The text is empty; type one to find alternatives in.");
    const place = begun.findIndex(([, begin]) => !begin.isAll);
    if (split.flatMap(parts => parts.map(() => parts.length))[place] > 1)
      throw new Error("The sentence is too long to find alternatives in; type a shorter one.");
    const [sentence, given] = begun[place];
    const others = [];
    for (const [other, begin] of begun.filter((_, n) => n !== place))
      others.push(await this.part(other, begin, {options}));
    const around = part => this.whole([...others.slice(0, place), part, ...others.slice(place)]).text;
    const decoding = await this.model.decoding(sentence.ids);
    const found = [];
    for (const [word, logProb] of await nextWords(decoding, given, this.spelling, options, number)) {
      const begin = word && this.spelling.prefix(`${given.text} ${word} `);
      const part = word
        ? await this.part(sentence, begin, {options})
        : {text: given.text, space: sentence.space};
      found.push({word, log_prob: logProb, text: around(part)});
    }
    return found;
  }

  async part(sentence, prefix, {options, keepTree, watch}) {
    const decoding = await this.model.decoding(sentence.ids);
    const found = await search(decoding, options, {prefix, keepTree, watch});
    const {pieces} = this.target;
    const tokens = [...found.tokens, EOS].map(id => pieces[id]);
    const hasWeights = found.weights.every(Boolean);
    const part = {
      space: sentence.space,
      source: sentence.text,
      text: this.spelling.decode(prefix, found.tokens),
      source_tokens: [...sentence.ids.map(id => this.source.pieces[id]), pieces[EOS]],
      tokens,
      log_probs: found.logProbs,
      score: found.score,
      log_prob: found.logProb,
      finished: found.finished,
      attention: hasWeights ? found.weights.map(row => [...row]) : null,
      tree: found.tree?.map(node => ({...node, piece: pieces[node.token]})) ?? null,
    };
    return {...part, ...doubts(part, this.about), ...wordAttention(part)};
  }

  whole(parts) {
    return {text: strip(textOf(parts)), parts};
  }
}

// White space within a sentence becomes one space, also if a model produces a line break.
const textOf = parts => parts.map(({space, text}) => space + splitWords(text).join(" ")).join("");
