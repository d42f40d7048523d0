// What search, prefixes and models share: the ids of special pieces, and the empty prefix.
export const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3];

// States of a hypothesis in its prefix (seq2seq/inference/prefix.py): it has all of it and nothing else,
// or is beyond it. From 0, `steps` has the legal pieces of a state, and the state that each leads to.
export const [END, FREE] = [-2, -1];
export const NO_PREFIX = {
  text: "",
  tokens: [],
  forms: [["", []]],
  steps: new Map(),
  start: FREE,
  barred: [],
  longest: 0,
  isAll: false,
};
export const after = (prefix, state, piece) =>
  state < 0 ? FREE : (prefix.steps.get(state).get(piece) ?? FREE);

export const maxLength = (options, sourceLength) =>
  Math.trunc(options.max_length_factor * sourceLength + 1e-9) + options.max_length_offset;
