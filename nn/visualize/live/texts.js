// Texts to ids and back, as by the tokenizer that `data.text` describes.

const FIRST = 3; // the id after padding, begin and end
const { kind: units, source: sourcePieces, target: targetPieces, characters, language } = data.text;
const known = new Map(
  units === "characters" ? [...characters].map((c, i) => [c, FIRST + i]) : sourcePieces.map((word, i) => [word, i]),
);

/** The ids of a text. Throws an error that names what has none. */
function encode(text) {
  if (units === "bytes") return Array.from(new TextEncoder().encode(text), (byte) => FIRST + byte);
  const parts = units === "words" ? text.match(/[\p{L}\p{N}_'-]+|[^\p{L}\p{N}_\s]/gu) ?? [] : [...text];
  const unknown = [...new Set(parts.filter((part) => !known.has(part)))];
  if (unknown.length) throw new Error(`The model has no id for ${unknown.map((part) => `“${part}”`).join(", ")}`);
  return parts.map((part) => known.get(part));
}

/** The text of ids; begin, end and padding add nothing. */
function decode(ids) {
  const said = ids.filter((id) => id >= FIRST);
  if (units === "bytes") return new TextDecoder().decode(Uint8Array.from(said, (id) => id - FIRST));
  if (units === "characters") return said.map((id) => [...characters][id - FIRST]).join("");
  return written(said.map((id) => targetPieces[id]));
}

/** Words as a text, without spaces before particles and punctuation and after elided words. */
function written(words) {
  return words.reduce((text, word) => {
    const attached = /^(-.*|[.,])$/.test(word) || (word === "?" && language !== "fr") || !text || text.endsWith("'");
    return `${text}${attached ? "" : " "}${word.replace(/^-/, "")}`;
  }, "");
}
