// Beam search for one sentence, with the results of seq2seq/inference/search.py.
//
// A decoding is a model bound to a sentence: `sourceLength`, `start()`, which returns a state, and
// `step(pieces, state)`, which resolves to {logProbs: [rows * vocabulary], weights: [rows * source] or
// null, state}. `select(state, rows)` reorders a state. All numbers of a model are float32.
import {BOS, EOS, maxLength, NO_PREFIX, PAD, UNK} from "./protocol.js";

const FORBIDDEN = [PAD, UNK, BOS];
const TINY = 2 ** -126; // the smallest normal float32

const lengthNorm = (options, length) => ((5 + length) / 6) ** options.length_penalty;

// Resolves to the best hypothesis; with `keepTree` it has the tree of all that were ranked. `watch` is
// called before each step with the pieces of the most likely unfinished hypothesis, and may be slow.
export async function search(decoding, options, {prefix = NO_PREFIX, keepTree = false, watch} = {}) {
  const limit = Math.max(maxLength(options, decoding.sourceLength), prefix.longest);
  const longestNorm = lengthNorm(options, limit + 1);
  let rows = [{tokens: [], logProb: 0, logProbs: [], weights: [], coverage: null, node: 0}];
  let state = decoding.start();
  let best = null;
  let finished = 0;
  const tree = [{parent: null, token: BOS, log_prob: 0, score: 0, status: "unfinished"}];
  for (let length = 0; rows.length; length++) {
    await watch?.(rows[0].tokens);
    const step = await decoding.step(
      rows.map(row => row.tokens.at(-1) ?? BOS),
      state,
    );
    const penalties = rows.map((row, r) => attend(row, r, step, rows.length, decoding, options));
    const candidates = topExtensions(step.logProbs, rows, {prefix, options, limit});
    const norm = lengthNorm(options, length + 1);
    const next = [];
    const grown = candidates.map((candidate, rank) => {
      const row = rows[candidate.row];
      const score = candidate.logProb / norm + penalties[candidate.row];
      const isTaken = rank < options.beam_size - finished;
      const isEnd = isTaken && candidate.token === EOS;
      const status = isEnd ? "finished" : isTaken ? "unfinished" : "pruned";
      return {...candidate, score, status, node: tree.length + rank, parent: row};
    });
    if (keepTree) {
      const extended = new Set(grown.filter(({status}) => status !== "pruned").map(({parent}) => parent));
      rows.forEach(row => {
        tree[row.node].status = extended.has(row) ? "extended" : "pruned";
      });
      tree.push(
        ...grown.map(({parent, token, logProb, score, status}) => ({
          parent: parent.node,
          token,
          log_prob: logProb,
          score,
          status,
        })),
      );
    }
    for (const {parent, token, logProb, score, status, node, row} of grown) {
      const logProbs = [...parent.logProbs, logProb - parent.logProb];
      if (status === "unfinished") {
        next.push({...parent, tokens: [...parent.tokens, token], logProb, logProbs, node, row});
      } else if (status === "finished") {
        finished++;
        if (!best || score > best.score) {
          const {tokens, weights, isCut} = parent;
          best = {tokens, score, logProb, logProbs, weights, finished: !isCut};
        }
      }
    }
    // No continuation can score more: log probabilities only fall, and the norm only grows.
    const isOpen = next.length && next[0].logProb / longestNorm > (best?.score ?? -Infinity);
    rows = isOpen ? next : [];
    state = decoding.select(
      step.state,
      rows.map(({row}) => row),
    );
  }
  if (!best) throw new Error("the model's logits are not finite; no hypothesis has a score");
  return keepTree ? {...best, tree} : best;
}

// Adds the weights of a step to those of a row; returns the coverage penalty if it ended here.
function attend(row, r, {weights}, number, {sourceLength}, options) {
  const width = weights && weights.length / number;
  row.weights = [...row.weights, weights && weights.slice(r * width, r * width + sourceLength)];
  if (!options.coverage_penalty) return 0;
  if (!weights) throw new Error("coverage_penalty: this model has no attention weights");
  row.coverage = row.weights.at(-1).map((weight, s) => weight + (row.coverage?.[s] ?? 0));
  const logs = row.coverage.map(covered => Math.log(Math.min(Math.max(covered, TINY), 1)));
  return Math.fround(logs.reduce((sum, log) => Math.fround(sum + log), 0)) * options.coverage_penalty;
}

// The most likely legal extensions of all rows, {row, token, logProb}, at most as many as the beam has
// places; equally likely ones by row, then by piece.
function topExtensions(logProbs, rows, {prefix, options, limit}) {
  const size = logProbs.length / rows.length;
  const found = [];
  rows.forEach((row, r) => {
    const ofRow = logProbs.subarray(r * size, (r + 1) * size);
    restrict(ofRow, row, {prefix, options, limit});
    for (let token = 0; token < size; token++) {
      const logProb = Math.fround(ofRow[token] + row.logProb);
      const isFull = found.length === options.beam_size;
      if (!(logProb > (isFull ? found.at(-1).logProb : -Infinity))) continue;
      if (isFull) found.pop();
      let place = found.length;
      while (place && found[place - 1].logProb < logProb) place--;
      found.splice(place, 0, {row: r, token, logProb});
    }
  });
  return found;
}

// Writes -Infinity for illegal pieces; at the length limit only EOS is legal. Pieces that spell a prefix
// are legal, whatever the options say.
export function restrict(logProbs, row, {prefix, options, limit}) {
  const keep = pieces => {
    const kept = pieces.map(piece => [piece, logProbs[piece]]);
    logProbs.fill(-Infinity);
    for (const [piece, logProb] of kept) logProbs[piece] = logProb;
  };
  const legal = prefix.legal(row.tokens);
  if (legal) keep(legal);
  if (legal && !legal.includes(EOS)) return;
  for (const piece of [...FORBIDDEN, ...repeats(row.tokens, options.no_repeat_ngram)])
    logProbs[piece] = -Infinity;
  if (row.tokens.length < limit) return;
  row.isCut = logProbs.some(logProb => logProb > logProbs[EOS]);
  keep([EOS]);
}

// The pieces that would repeat an n-gram of this size.
function repeats(tokens, size) {
  if (!size || tokens.length < size) return [];
  const last = tokens.slice(tokens.length - size + 1);
  return tokens.slice(size - 1).filter((_, start) => last.every((piece, n) => piece === tokens[start + n]));
}
