// The concept under the cursor, as a strip that opens: its place, names, meaning and neighbours.

import { get } from "./api.js";
import { button, byId, chip, showProblem, element, percent } from "./dom.js";
import { explainProbability } from "./meaning.js";
import { remember, session } from "./session.js";
import { t } from "./texts.js";

const box = byId("concept");
const NEIGHBOURS = 40;
const SYNONYMS = 6; // shown at first

const known = new Map(); // "run language label" -> promise of {concept, children, total}
let shown = null; // {label, name, again}: `again` shows it again

export const shownLabel = () => shown?.label ?? null;

export function hideConcept() {
  shown = null;
  box.hidden = true;
  box.replaceChildren();
}

// Open or close the strip.
export function toggleConcept(open = !session.conceptOpen) {
  remember("conceptOpen", open);
  shown?.again();
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
// verdict), browse(label, name) and leaveOut({label, name}).
export async function showConcept({ label, name, row }, handlers) {
  shown = { label, name, again: () => showConcept({ label, name, row }, handlers) };
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
  const title = element(
    "div",
    { class: "title" },
    makeToggle(concept),
    heading(concept, row),
    decisions(concept, row, handlers),
  );
  const below = session.conceptOpen
    ? [breadcrumb(concept, handlers), listFacts({ row, concept, children, total }, handlers)]
    : [summarise(concept)];
  box.classList.toggle("opened", session.conceptOpen);
  box.replaceChildren(title, ...below);
  if (focused) box.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function makeToggle() {
  const open = session.conceptOpen;
  const name = t(open ? "concept-close" : "concept-open");
  return button(
    {
      class: "plain toggle",
      "data-key": "toggle",
      "aria-expanded": String(open),
      "aria-label": name,
      title: name,
      click: () => toggleConcept(),
    },
    open ? "▾" : "▸",
    element("kbd", {}, "i"),
  );
}

// One line for the closed strip: the meaning, else the place.
function summarise({ definition, path }) {
  const place = path.slice(0, -1).map(({ name }) => name).join(" › ");
  return element("p", { class: "quiet small line", dir: "auto" }, definition || place || " ");
}

function listFacts({ row, concept, children, total }, handlers) {
  const facts = element("dl", { class: "facts" });
  const add = (term, key, value) =>
    facts.append(
      element("dt", {}, term, key ? element("kbd", {}, key) : ""),
      element("dd", { dir: "auto" }, value),
    );
  if (row?.suggested) add(t("probability"), "", explainProbability(row.probability));
  if (concept.definition) add(t("definition"), "", concept.definition);
  const names = otherNames(concept);
  if (names.length) add(t("also"), "", foldNames(names));
  add(t("general"), "g", neighbours("general", concept.parents, concept.parents?.length, handlers));
  add(t("specific"), "s", neighbours("specific", children, total, handlers));
  if (concept.frequency !== undefined)
    add(t("used"), "", t("n-documents", { n: concept.frequency }));
  if (concept.n_children || concept.parents?.length) {
    const leave = button(
      { class: "link small", "data-key": "leave", click: () => handlers.leaveOut(concept) },
      t("leave-out-branch"),
    );
    add("", "", element("span", {}, leave, element("kbd", {}, "x")));
  }
  return facts;
}

function breadcrumb({ path }, handlers) {
  const steps = path
    .slice(0, -1)
    .map(({ label, name }) =>
      element("li", {}, chip(name, { class: "link", click: () => handlers.browse(label, name) })),
    );
  return element(
    "nav",
    { class: "breadcrumb small", "aria-label": t("place") },
    element("ol", {}, ...steps),
  );
}

function heading({ label, name, notation, deprecated }, row) {
  return element(
    "h3",
    {},
    element("bdi", {}, name),
    notation ? element("span", { class: "quiet id" }, notation) : null,
    makeLink(label, notation),
    row?.suggested ? element("span", { class: "quiet" }, percent(row.probability)) : null,
    deprecated ? element("span", { class: "problem" }, t("deprecated")) : null,
  );
}

// Return the id of a concept; one that is a web address leads there.
function makeLink(label, notation) {
  if (!/^https?:\/\/[^\s/]/i.test(label))
    return notation ? null : element("span", { class: "quiet id" }, label);
  return element(
    "a",
    { class: "id", href: label, target: "_blank", rel: "noopener noreferrer", title: t("open-uri") },
    label.replace(/[/#]+$/, "").split(/[/#]/).at(-1) || label,
    " ↗",
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
  const first = accepted ? `✓ ${t("accepted")}` : t(row?.suggested ? "accept" : "add");
  return element(
    "div",
    { class: "buttons" },
    decision("accept", first, "a", accepted),
    decision("reject", rejected ? `✕ ${t("rejected")}` : t("reject"), "r", rejected),
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
    items.push(element("li", { class: "quiet" }, t("and-more", { n: total - concepts.length })));
  if (!items.length) items.push(element("li", { class: "quiet" }, t("none")));
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
  const more = element("summary", {}, t("and-more", { n: rest.length }));
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
  const { label, name } = document.activeElement?.closest("#general, #specific")
    ? document.activeElement.dataset
    : {};
  return label === undefined ? null : { label, name };
}

// Move the focus to the first concept above (`general`) or below (`specific`) the one shown.
export async function focusNeighbours(kind) {
  const { label } = shown ?? {};
  if (label === undefined) return false;
  if (!session.conceptOpen) toggleConcept(true);
  await lookUp(label).catch(() => null);
  await Promise.resolve(); // the strip is painted by then
  const first = box.querySelector(`#${kind} button`);
  first?.focus();
  return Boolean(first);
}
