// What Python takes for white space, and for a word, in regular expressions with the flag u.
export const SPACE = "\\t-\\r\\x1c- \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
export const WORD = "\\p{L}\\p{N}_";
const ALL = new RegExp(`^[${SPACE}]+$`, "u");
const [START, END] = [new RegExp(`^[${SPACE}]+`, "u"), new RegExp(`[${SPACE}]+$`, "u")];
const SPACES = new RegExp(`[${SPACE}]+`, "u");

export const isSpace = text => ALL.test(text);
export const stripStart = text => text.replace(START, "");
export const stripEnd = text => text.replace(END, "");
export const strip = text => stripStart(stripEnd(text));
export const splitWords = text => text.split(SPACES).filter(Boolean);
