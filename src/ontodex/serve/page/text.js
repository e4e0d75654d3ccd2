// The document as it is read, with the words that speak for or against a concept.

import { element } from "./dom.js";

const FOR = 0.25; // weaker words, as shares of the strongest, are not marked
const AGAINST = 0.4;

// Offsets of the service count code points, those of JavaScript strings do not.
export function charactersOf(document_) {
  document_.characters ??= Array.from(document_.text);
  return document_.characters;
}

export function showText(target, document_, spans = []) {
  const characters = charactersOf(document_);
  const strongest = Math.max(...spans.map((span) => Math.abs(span.weight)), 0) || 1;
  const marked = spans
    .map(({ start, end, weight }) => ({ start, end, share: weight / strongest }))
    .filter(({ share }) => share >= FOR || share <= -AGAINST)
    .sort((one, other) => one.start - other.start);
  target.replaceChildren(
    ...parts(document_).map(({ name, start, end }) =>
      element(
        name === "title" ? "h2" : "p",
        { dir: "auto" },
        ...pieces(characters, marked, start, end),
      ),
    ),
  );
  return marked.length;
}

// The fields with their places in the text; one part where they do not add up to the text.
function parts(document_) {
  const found = [];
  let start = 0;
  for (const [name, value] of Object.entries(document_.fields)) {
    const end = start + Array.from(value).length;
    found.push({ name, start, end });
    start = end + 1;
  }
  const joined = Object.values(document_.fields).join("\n");
  const whole = { name: "text", start: 0, end: charactersOf(document_).length };
  return joined === document_.text ? found : [whole];
}

function pieces(characters, marked, start, end) {
  const made = [];
  const slice = (from, to) => characters.slice(from, to).join("");
  let at = start;
  for (const span of marked) {
    const from = Math.max(span.start, at);
    const to = Math.min(span.end, end);
    if (from >= to) continue;
    made.push(slice(at, from), mark(slice(from, to), span.share));
    at = to;
  }
  made.push(slice(at, end));
  return made;
}

function mark(text, share) {
  const made = element("mark", { class: share > 0 ? "for" : "against" }, text);
  made.style.setProperty("--weight", Math.abs(share).toFixed(2));
  return made;
}
