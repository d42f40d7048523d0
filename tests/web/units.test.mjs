// The JavaScript of `seq2seq export --web` against results of the Python code: tests/test_web_units.py runs
// this with FOLDER, which has the modules, and CASES, a JSON file of [arguments, result].
import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {join} from "node:path";
import test from "node:test";
import {pathToFileURL} from "node:url";

const cases = JSON.parse(readFileSync(process.env.CASES));
const load = name => import(pathToFileURL(join(process.env.FOLDER, name)));
const text = await load("text.js");
const {splitSentences} = await load("sentences.js");
const {search} = await load("search.js");
const {doubts, wordAttention} = await load("words.js");

for (const name of ["normalizeLine", "markCase", "restoreCase", "markPrefix"])
  test(name, () => {
    assert.ok(cases[name].length);
    for (const [args, result] of cases[name]) assert.deepEqual(text[name](...args), result);
  });

// sentencex, as it was called in Python.
const segment = (language, line) => {
  const found = cases.segments[language][line];
  assert.ok(found, `not what Python gives to sentencex: ${line}`);
  return found;
};

test("sentences", () => {
  for (const [[line, rules], result] of cases.sentences)
    assert.deepEqual(splitSentences(line, rules, segment), result);
});

test("long sentences are cut", () => {
  const encode = part => [...part];
  for (const [[line, rules, most, joiners], result] of cases.splitText) {
    const found = text.splitText(line, encode, most, rules, segment, joiners);
    assert.deepEqual(
      found.map(parts => parts.map(part => [part.text, part.space])),
      result,
    );
  }
});

test("words and their attention", () => {
  for (const [part, about, result] of cases.words) {
    const {unlikely, uncertain} = result;
    assert.deepEqual(doubts(part, about), {unlikely, uncertain});
    const found = wordAttention(part);
    assert.deepEqual([found.source_words, found.target_words], [result.source_words, result.target_words]);
    assert.deepEqual([found.words.source, found.words.target], [result.source, result.target]);
    found.words.weights.forEach((row, t) =>
      row.forEach((weight, s) => assert.ok(Math.abs(weight - result.weights[t][s]) < 1e-6)),
    );
  }
});

// A model whose log probabilities depend on the number of pieces and on the last one.
function decoding({log_probs: logProbs, weights, source_length: sourceLength}) {
  return {
    sourceLength,
    start: () => 0,
    select: state => state,
    step: async (pieces, length) => ({
      logProbs: Float32Array.from(pieces.flatMap(piece => logProbs[length][piece].map(each => each ?? NaN))),
      weights: weights && Float32Array.from(pieces.flatMap(piece => weights[length][piece])),
      state: length + 1,
    }),
  };
}

test("search", async () => {
  for (const [[model, options], result] of cases.search) {
    const found = await search(decoding(model), options, {keepTree: true});
    const near = (one, other) => assert.ok(Math.abs(one - other) <= 1e-5 * Math.max(1, Math.abs(other)));
    assert.deepEqual(found.tokens, result.tokens);
    assert.equal(found.finished, result.finished);
    near(found.score, result.score);
    found.logProbs.forEach((logProb, n) => near(logProb, result.log_probs[n]));
    const shape = tree => tree.map(({parent, token, status}) => [parent, token, status]);
    assert.deepEqual(shape(found.tree), shape(result.tree));
    found.tree.forEach((node, n) => near(node.score, result.tree[n].score));
  }
});

test("a search without a finite probability fails", async () => {
  const nothing = {log_probs: [Array(7).fill(Array(7).fill(null))], weights: null, source_length: 1};
  await assert.rejects(search(decoding(nothing), cases.search[0][0][1]), /not finite/);
});
