// What search, prefixes and models share: the ids of special pieces, and the empty prefix.
export const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3];

// What `Spelling.prefix` returns (prefix.js): `legal` gives the pieces that may follow others.
export const NO_PREFIX = {text: "", beginnings: [], longest: 0, isAll: false, legal: () => null};

export const maxLength = (options, sourceLength) =>
  Math.trunc(options.max_length_factor * sourceLength + 1e-9) + options.max_length_offset;
