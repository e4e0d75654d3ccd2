// The text of the document, with marks on the words that support a concept or contradict it.

import { element } from "./dom.js";

const FOR = 0.25; // least weight of a mark, relative to the strongest word
const AGAINST = 0.4;

// Return the code points of the text: offsets of the service count these, not UTF-16 units.
export function getCharacters(document_) {
  document_.characters ??= Array.from(document_.text);
  return document_.characters;
}

export function showText(target, document_, spans = []) {
  const characters = getCharacters(document_);
  const strongest = Math.max(...spans.map((span) => Math.abs(span.weight)), 0) || 1;
  const marked = spans
    .map(({ start, end, weight }) => ({ start, end, strength: weight / strongest }))
    .filter(({ strength }) => strength >= FOR || strength <= -AGAINST)
    .sort((one, other) => one.start - other.start);
  target.replaceChildren(
    ...splitFields(document_).map(({ name, start, end }) =>
      element(
        name === "title" ? "h2" : "p",
        { dir: "auto" },
        ...splitMarks(characters, marked, start, end),
      ),
    ),
  );
  return marked.length;
}

// Return the fields with their offsets in the text; one part if they do not add up to the text.
function splitFields(document_) {
  const found = [];
  let start = 0;
  for (const [name, value] of Object.entries(document_.fields)) {
    const end = start + Array.from(value).length;
    found.push({ name, start, end });
    start = end + 1;
  }
  const joined = Object.values(document_.fields).join("\n");
  const whole = { name: "text", start: 0, end: getCharacters(document_).length };
  return joined === document_.text ? found : [whole];
}

function splitMarks(characters, marked, start, end) {
  const made = [];
  const slice = (from, to) => characters.slice(from, to).join("");
  let at = start;
  for (const span of marked) {
    const from = Math.max(span.start, at);
    const to = Math.min(span.end, end);
    if (from >= to) continue;
    made.push(slice(at, from), mark(slice(from, to), span.strength));
    at = to;
  }
  made.push(slice(at, end));
  return made;
}

function mark(text, strength) {
  const made = element("mark", { class: strength > 0 ? "for" : "against" }, text);
  made.style.setProperty("--weight", Math.abs(strength).toFixed(2));
  return made;
}
