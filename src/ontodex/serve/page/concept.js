// The concept under the cursor: its place, its other names, its neighbours, and what to do with it.

import { get } from "./api.js";
import { button, byId, chip, showProblem, element, percent } from "./dom.js";
import { session } from "./session.js";

const box = byId("concept");
const NEIGHBOURS = 40;
const SYNONYMS = 6; // shown at first

const known = new Map(); // "run language label" -> promise of {concept, children, total}
let shown = null; // {label, name, ...}

export const shownLabel = () => shown?.label ?? null;

export function hideConcept() {
  shown = null;
  box.hidden = true;
  box.replaceChildren();
}

// Return name, place, synonyms and neighbours of a concept; each concept is requested once.
export function lookUp(label) {
  const key = JSON.stringify([session.run, session.language, label]);
  if (!known.has(key)) {
    const query = { label, run: session.run, language: session.language };
    const asked = Promise.all([
      get("/ontology/concept", query),
      get("/ontology/children", { ...query, limit: NEIGHBOURS }),
    ]).then(([concept, { children, total }]) => ({ concept, children, total }));
    asked.catch(() => known.delete(key));
    known.set(key, asked);
  }
  return known.get(key);
}

// Show a concept. `row` is its suggestion or decision, if any; `handlers` has decide(label, name,
// verdict) and browse(label, name).
export async function showConcept({ label, name, row }, handlers) {
  shown = { label, name };
  box.hidden = false;
  paint({ row, concept: { label, name, path: row?.path ?? [], synonyms: [] } }, handlers); // replaced when the details arrive
  try {
    const found = await lookUp(label);
    if (shown?.label === label) paint({ row, ...found }, handlers);
  } catch (error) {
    if (error.status !== 404) showProblem(error); // the ontology does not have this label
  }
}

function paint({ row, concept, children, total }, handlers) {
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const facts = element("dl", { class: "facts" });
  const add = (term, key, value) =>
    facts.append(
      element("dt", {}, term, key ? element("kbd", {}, key) : ""),
      element("dd", { dir: "auto" }, value),
    );
  if (concept.definition) add("Meaning", "", concept.definition);
  const names = otherNames(concept);
  if (names.length) add("Also", "", foldNames(names));
  add("More general", "g", neighbours("general", concept.parents, concept.parents?.length, handlers));
  add("More specific", "s", neighbours("specific", children, total, handlers));
  if (concept.frequency !== undefined)
    add("Used in training", "", `${concept.frequency.toLocaleString("en")} documents`);
  const title = element(
    "div",
    { class: "title" },
    heading(concept, row),
    decisions(concept, row, handlers),
  );
  box.replaceChildren(breadcrumb(concept, handlers), title, facts);
  if (focused) box.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function breadcrumb({ path }, handlers) {
  const steps = path
    .slice(0, -1)
    .map(({ label, name }) =>
      element("li", {}, chip(name, { class: "link", click: () => handlers.browse(label, name) })),
    );
  return element(
    "nav",
    { class: "breadcrumb small", "aria-label": "Place in the ontology" },
    element("ol", {}, ...steps),
  );
}

function heading({ label, name, notation, deprecated }, row) {
  return element(
    "h3",
    {},
    element("bdi", {}, name),
    element("span", { class: "quiet id" }, notation || label),
    row?.suggested ? element("span", { class: "quiet" }, percent(row.probability)) : null,
    deprecated ? element("span", { class: "problem" }, "deprecated") : null,
  );
}

function decisions({ label, name }, row, handlers) {
  const accepted = row?.verdict === "accept" || row?.verdict === "add";
  const rejected = row?.verdict === "reject";
  const decision = (verdict, text, key, pressed) =>
    button(
      {
        class: verdict,
        "data-key": verdict,
        "aria-pressed": String(pressed),
        click: () => handlers.decide(label, name, verdict),
      },
      text,
      " ",
      element("kbd", {}, key),
    );
  return element(
    "div",
    { class: "buttons" },
    decision("accept", accepted ? "✓ Accepted" : row?.suggested ? "Accept" : "Add", "a", accepted),
    decision("reject", rejected ? "✕ Rejected" : "Reject", "r", rejected),
  );
}

function neighbours(kind, concepts, total, handlers) {
  if (!concepts) return element("ul", {}, element("li", { class: "quiet" }, "…"));
  const items = concepts.map(({ label, name }) =>
    element(
      "li",
      {},
      chip(name, {
        "data-label": label,
        "data-name": name,
        "data-key": `${kind} ${label}`,
        click: () => handlers.browse(label, name),
      }),
    ),
  );
  if (total > concepts.length)
    items.push(element("li", { class: "quiet" }, `and ${total - concepts.length} more`));
  if (!items.length) items.push(element("li", { class: "quiet" }, "none"));
  return element("ul", { id: kind, keydown: walk }, ...items);
}

// Return the synonyms without those that only reorder the words of an earlier name ("Rhythm, Circadian").
function otherNames({ name, synonyms }) {
  const words = (text) =>
    text
      .toLowerCase()
      .split(/[\s,]+/)
      .sort()
      .join(" ");
  const seen = new Set([words(name)]);
  return synonyms.filter((each) => !seen.has(words(each)) && seen.add(words(each)));
}

function foldNames(names) {
  const rest = names.slice(SYNONYMS);
  const more = element("summary", {}, `and ${rest.length} more`);
  return element(
    "div",
    {},
    names.slice(0, SYNONYMS).join(" · "),
    rest.length ? element("details", {}, more, rest.join(" · ")) : null,
  );
}

// Move with the arrow keys inside one list of neighbours.
function walk(event) {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  buttons[
    (buttons.indexOf(document.activeElement) + by + buttons.length) % buttons.length
  ]?.focus();
}

// Return the neighbour that has the focus: the keys for deciding apply to it.
export function focusedNeighbour() {
  const { label, name } = document.activeElement?.dataset ?? {};
  return label !== undefined && box.contains(document.activeElement) ? { label, name } : null;
}

// Move the focus to the first concept above (`general`) or below (`specific`) the one shown.
export async function focusNeighbours(kind) {
  const { label } = shown ?? {};
  if (label === undefined) return false;
  await lookUp(label).catch(() => null);
  const first = box.querySelector(`#${kind} button`);
  first?.focus();
  return Boolean(first);
}
