// Splits text into sentences, as seq2seq/inference/sentences.py does.
import {isSpace, SPACE, stripEnd, WORD} from "./characters.js";

const WINDOW = 20_000; // characters that are split at once
const LINES = new RegExp(`[^\\n]*\\n(?:(?:(?!\\n)[${SPACE}])*\\n)*|[^\\n]+`, "gu");
const BOUNDARY = new RegExp(
  `[.!?…;][^${WORD}${SPACE}]{0,9}[${SPACE}]+[^${SPACE}]|` + "[^\\0-\\u0588\\u2000-\\u206f\\u20a0-\\u2bff]",
  "u",
);
const VISIBLE = /[\p{L}\p{N}]/u;
const WESTERN = /[.!?…"'»”’)\]]$/u;
// Initials, numbers of items, and lone surrogates, which UTF-8 cannot encode.
const HIDES =
  '(?<![^ ("«“])[\\p{L}\\p{Nl}\\p{No}]\\.(?= )|' +
  "(?:^ *|(?<=[.!?:]) +)\\p{Nd}{1,3}\\.(?= )|[\\ud800-\\udfff]";

// `rules` are {language, abbreviations, words}, the latter as alternatives of a regular expression, or
// null; `segment` is that of sentencex.
export function splitSentences(text, rules, segment) {
  return (text.match(LINES) ?? []).flatMap(line =>
    rules && BOUNDARY.test(line) ? splitLine(line, rules, segment) : [line],
  );
}

function splitLine(line, rules, segment) {
  const spaced = stripEnd(line).replace(new RegExp(`[${SPACE}]`, "gu"), " ");
  const masked = [...spaced.replace(mask(rules), match => `${match.slice(0, -1)}_`)];
  const isCased = /\p{Uppercase}/u.test(line);
  const found = [""];
  let [start, isComplete] = [0, false];
  for (let window = 0; window < masked.length; window += WINDOW) {
    const chars = masked.slice(window, window + WINDOW);
    for (const piece of segment(rules.language, chars.join(""))) {
      const end = start + piece.length;
      const last = found.length - 1;
      const first = line.slice(start, end).match(VISIBLE);
      // Western marks end a sentence only before white space.
      const isApart = isSpace(found[last].slice(-1)) || isSpace(line[start]);
      const isEnd = isComplete && (isApart || !WESTERN.test(found[last]));
      // In text with capitals, no sentence begins with a small letter; after a Japanese quotation, a
      // particle continues its sentence.
      const isQuoted = /[」』]$/u.test(found[last]) && /[とっを]/u.test(line[start]);
      const isSmall = isCased && first && /\p{Lowercase}/u.test(first[0]);
      if (isEnd && first && !isQuoted && !isSmall) found.push(line.slice(start, end));
      else found[last] += line.slice(start, end);
      isComplete ||= Boolean(first);
      start = end;
    }
    isComplete = false; // a sentence may cross the end of a window
  }
  found[found.length - 1] += line.slice(start);
  return found;
}

// Matches end with what hides boundaries, or abbreviations, from sentencex.
function mask({abbreviations, words}) {
  const parts = [HIDES];
  if (abbreviations) parts.push(`(?<![${WORD}])(?:${abbreviations})\\.(?= )`);
  if (words) {
    const letter = "[\\p{L}\\p{Nl}\\p{No}_]";
    parts.push(`(?<![${WORD}])(?:${words})(?=\\. +[^${WORD} ]*${letter})`);
  }
  return new RegExp(parts.join("|"), "giu");
}
