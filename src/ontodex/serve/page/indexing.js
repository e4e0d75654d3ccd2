// The indexing view: one document, its suggestions, and the curator's decisions.

import { call, get, makeRequestId } from "./api.js";
import {
  focusedNeighbour,
  focusNeighbours,
  hideConcept,
  lookUp,
  showConcept,
  shownLabel,
} from "./concept.js";
import { byId, chip, showProblem, element, percent, announce, debounce } from "./dom.js";
import { nextDocument, refreshProgress } from "./queue.js";
import { currentRun, go, remember, session } from "./session.js";
import { showText } from "./text.js";
import { Tree } from "./tree.js";

const LIMIT = 50;
const BEST = 5; // suggestions shown if the run predicts none and none is likely
const MAX_CLOSE = 3; // more specific concepts shown for one

let current = null; // the document shown, with its verdicts; null while the entry form is open
let lastNumber = null; // the document that the entry form leads back to
let suggestions = [];
let paths = new Map(); // label -> path, of decided concepts that were not suggested
let explanations = new Map(); // label -> promise of spans
let highlighted = null; // the last concept for which marks were requested
let opening = new AbortController();
let writing = Promise.resolve(); // decisions reach the service in the order in which they were made

const tree = new Tree(byId("tree"), {
  move: (node) => browse(node.label, node.names.at(-1)),
  decide,
  peek: (node) => highlightSoon(node?.label ?? shownLabel()),
});

const conceptHandlers = {
  decide: (label, name, verdict) => decide({ label, name }, verdict, { toggle: true }),
  browse: (label, name) => {
    browse(label, name);
    byId("concept").querySelector("button.accept").focus();
  },
};

export async function openDocument(number) {
  opening.abort();
  opening = new AbortController();
  try {
    current = await get(`/documents/${number}`, {}, opening.signal);
    lastNumber = number;
    showDocument();
    await Promise.all([suggest(), refreshProgress()]);
  } catch (error) {
    if (error.name !== "AbortError") showProblem(error);
  }
}

// Show the entry form. Nothing of the document before may stay: what is not in sight must not be decided.
export function showEntry() {
  opening.abort();
  current = null;
  clear();
  byId("right").removeAttribute("aria-busy");
  byId("right").inert = true;
  byId("no-suggestions").textContent = "Suggestions for the document appear here, each at its place in the ontology.";
  byId("done").disabled = true;
  byId("entry").hidden = false;
  byId("document").hidden = true;
  byId("cancel-entry").hidden = !lastNumber;
  document.title = "ontodex";
  if (!isTyping()) byId("entry-text").focus(); // the user may already be typing in the title
}

function showDocument() {
  byId("right").inert = false;
  byId("entry").hidden = true;
  byId("document").hidden = false;
  const listed = (words, between) =>
    words.flatMap((word, at) => [at ? between : "", element("bdi", {}, word)]);
  const { keywords } = current;
  byId("about").replaceChildren(
    ...listed([current.id || `document ${current.number}`, `batch ${current.batch}`], " · "),
    ...(keywords.length ? [" · keywords: ", ...listed(keywords, ", ")] : []),
  );
  byId("about").prepend(current.state === "done" ? "✓ done · " : "");
  byId("done").disabled = false;
  byId("done").setAttribute("aria-pressed", current.state === "done");
  byId("done").firstElementChild.textContent = current.state === "done" ? "Reopen" : "Done";
  document.title = `${current.fields.title || current.id || current.number} - ontodex`;
  showText(byId("text"), current);
}

// Load suggestions for the document shown: after opening it, or for another run.
export async function suggest() {
  if (!current) return;
  const { number } = current;
  clear();
  const body = {
    run: session.run,
    limit: LIMIT,
    ...(session.language && { language: session.language }),
  };
  const options = { body, signal: opening.signal, repeatable: true };
  const answer = await call("POST", `/documents/${number}/suggest`, options);
  if (number !== current?.number || answer.run !== session.run) return; // a newer request is running
  ({ suggestions } = answer);
  byId("right").removeAttribute("aria-busy");
  byId("no-keywords").hidden = !currentRun().reads_keywords || current.keywords.length > 0;
  await findPaths();
  refresh(null);
  if (!isTyping()) tree.focus({ preventScroll: true }); // on a phone the text stays in view
  const likely = suggestions.filter(isLikely).length;
  const none = predictsNone() ? " The run predicts none." : "";
  announce(`${likely} suggestions of at least ${percent(session.threshold)}.${none}`);
}

// Remove everything of the last document or run, so that no key applies to it.
function clear() {
  suggestions = [];
  explanations = new Map();
  highlighted = null;
  highlightSoon(null); // replaces a pending call
  tree.show([]);
  hideConcept();
  byId("right").setAttribute("aria-busy", "true");
  byId("no-suggestions").textContent = "Loading …";
  byId("no-suggestions").hidden = false;
  byId("no-keywords").hidden = true;
  byId("count").textContent = byId("legend").textContent = "";
}

export const isTyping = () =>
  document.activeElement?.matches(
    "input:not([type=range]):not([type=checkbox]), textarea, select",
  ) ?? false;

async function findPaths() {
  const suggested = new Set(suggestions.map(({ label }) => label));
  const others = current.verdicts.filter(({ label }) => !suggested.has(label));
  const found = await Promise.all(
    others.map(({ label }) =>
      lookUp(label).then(
        ({ concept }) => [label, concept.path],
        () => [label, []],
      ),
    ),
  );
  paths = new Map(found);
}

const isLikely = ({ probability }) => probability >= session.threshold;

const predictsNone = () =>
  suggestions.length > 0 && !suggestions.some(({ in_label_set }) => in_label_set);

// Return the rows of the tree: suggestions above the threshold, and all decided concepts. If the run
// predicts none and none is above the threshold, the best suggestions.
function makeRows() {
  const verdicts = new Map(current.verdicts.map((verdict) => [verdict.label, verdict]));
  const best = predictsNone() && !suggestions.some(isLikely) ? BEST : 0;
  const suggested = suggestions
    .map((each) => ({
      ...each,
      verdict: verdicts.get(each.label)?.verdict ?? null,
      suggested: true,
      more_specific: each.more_specific.filter(({ label }) => !verdicts.has(label)).slice(0, MAX_CLOSE),
    }))
    .filter((each, rank) => each.verdict || isLikely(each) || rank < best);
  for (const { label } of suggestions) verdicts.delete(label);
  const others = [...verdicts.values()].map(({ label, name, verdict }) => ({
    label,
    name,
    verdict,
    probability: 0,
    in_label_set: false,
    suggested: false,
    path: paths.get(label) ?? [],
    other_parents: [],
    more_specific: [],
  }));
  return [...suggested, ...others];
}

// Show the present state again, with the cursor on `label`.
export function refresh(label = tree.current?.label) {
  byId("threshold-text").textContent = percent(session.threshold);
  if (!current) return;
  const shown = makeRows();
  byId("tree").hidden = !shown.length;
  const words = [
    predictsNone() ? "The run predicts no concept." : "",
    suggestions.some(isLikely) ? "" : `No suggestion of at least ${percent(session.threshold)}.`,
    predictsNone() && shown.length ? "These are its best candidates." : "",
  ].filter(Boolean);
  byId("no-suggestions").hidden = !predictsNone() && shown.length > 0;
  byId("no-suggestions").textContent = words.join(" ");
  const listed = new Set(shown.map((row) => row.label));
  const below = suggestions.filter((each) => !listed.has(each.label)).length;
  byId("count").textContent = below
    ? `${shown.length} shown, ${below} less likely`
    : `${shown.length} shown`;
  tree.show(shown, label);
  if (!shown.length) hideConcept();
  showTerms();
}

function showTerms() {
  const terms = current.verdicts.filter(({ verdict }) => verdict !== "reject");
  terms.sort((one, other) => (one.name < other.name ? -1 : 1));
  const items = terms.map(({ label, name }) =>
    element("li", {}, chip(name, { click: () => tree.goTo(label) })),
  );
  byId("terms")
    .querySelector("ul")
    .replaceChildren(...items);
  byId("terms").querySelector("p").hidden = terms.length > 0;
}

function browse(label, name) {
  showConcept({ label, name, row: makeRows().find((row) => row.label === label) }, conceptHandlers);
  highlightSoon(label);
}

const highlightSoon = debounce(highlight, 80);

async function highlight(label) {
  if (label === null || !current) return;
  const request = (highlighted = { label });
  const spans = await getSpans(label);
  if (request !== highlighted) return;
  const marked = showText(byId("text"), current, spans ?? []);
  const name = makeRows().find((row) => row.label === label)?.name ?? shownName(label);
  const legend = byId("legend");
  if (!currentRun().can_explain)
    legend.textContent = "This run cannot show the words that support a concept.";
  else if (!marked) legend.replaceChildren("No word supports ", element("bdi", {}, name), ".");
  else {
    legend.replaceChildren(
      element("mark", { class: "for" }, "Marked"),
      " words support, ",
      element("mark", { class: "against" }, "underlined"),
      " words contradict ",
      element("bdi", {}, name),
    );
  }
}

const shownName = (label) =>
  shownLabel() === label ? byId("concept").querySelector("h3 bdi").textContent : label;

// Return the supporting words of a label, requested once; null if the run cannot explain.
function getSpans(label) {
  if (!explanations.has(label)) explanations.set(label, explain(label));
  return explanations.get(label);
}

async function explain(label) {
  if (!currentRun().can_explain) return null;
  const { number } = current;
  try {
    const suggested = suggestions.some((each) => each.label === label);
    if (!suggested && !(await lookUp(label)).concept.suggestible) return null;
    const body = { label, run: session.run };
    return (await call("POST", `/documents/${number}/explain`, { body, repeatable: true })).spans;
  } catch (error) {
    if (error.status !== 404) showProblem(error); // a concept of another run's ontology
    return null;
  }
}

// Accept or reject; with `toggle`, the same verdict again undoes it.
async function decide({ label, name }, verdict, { toggle = false } = {}) {
  if (!current) return;
  const standing = current.verdicts.find((each) => each.label === label);
  const same = standing && (verdict === "reject") === (standing.verdict === "reject");
  if (same) return toggle ? undo(standing) : undefined;
  if (standing?.verdict === "add") return undo(standing); // rejecting an added concept undoes it
  const suggested = suggestions.some((each) => each.label === label);
  await write([{ label, verdict: verdict === "accept" && !suggested ? "add" : verdict }]);
  announce(
    `${verdict === "reject" ? "Rejected" : suggested ? "Accepted" : "Added"}: ${name}. Press u to undo.`,
  );
}

function write(made) {
  const { number } = current;
  const decisions = made.map((each) => ({
    ...each,
    document: number,
    run: session.run,
    request_id: makeRequestId(),
  }));
  return inTurn(async () => {
    const answer = await call("POST", "/decisions", { body: { decisions }, repeatable: true });
    if (current?.number !== number) return;
    const labels = new Set(answer.decisions.map(({ label }) => label));
    current.verdicts = [
      ...current.verdicts.filter(({ label }) => !labels.has(label)),
      ...answer.decisions,
    ];
    await findPaths();
    refresh();
  });
}

function undo({ id, label, name }) {
  const { number } = current;
  return inTurn(async () => {
    await call("POST", `/decisions/${id}/undo`).catch((error) => {
      if (error.status !== 409) throw error; // undone in another window
    });
    const { verdicts } = await get(`/documents/${number}`);
    if (current?.number !== number) return;
    current.verdicts = verdicts;
    await findPaths();
    refresh(label);
    announce(`Undone: ${name}.`);
  });
}

function inTurn(action) {
  writing = writing.then(action).catch(showProblem);
  return writing;
}

// Return the concept that a decision applies to: a neighbour in focus, or the concept shown.
function getTarget() {
  return (
    focusedNeighbour() ??
    (shownLabel() === null ? null : { label: shownLabel(), name: shownName(shownLabel()) })
  );
}

export function verdictByKey(verdict) {
  const about = current && getTarget();
  if (!about) return;
  const onTree =
    tree.current?.label === about.label && !byId("concept").contains(document.activeElement);
  decide(about, verdict);
  if (onTree) tree.step(1);
}

export function acceptMoreSpecific() {
  const near = tree.current?.row?.more_specific[0];
  if (!near) return announce("No more specific concept is close to this one.");
  decide(near, "accept");
}

export function acceptPredicted() {
  const predicted = current
    ? makeRows().filter((row) => row.in_label_set && !row.verdict)
    : [];
  if (!predicted.length) return announce("No predicted concept is undecided.");
  write(predicted.map(({ label }) => ({ label, verdict: "accept" })));
  announce(`Accepted ${predicted.length} predicted concepts.`);
}

// Undo the user's own last decision about this document.
export function undoLast() {
  inTurn(() => {
    const own = (current?.verdicts ?? []).filter(({ user }) => user === session.me.name);
    const last = own.reduce((one, each) => (one && one.id > each.id ? one : each), null);
    if (last) undo(last);
    else announce("Nothing to undo in this document.");
  });
}

export async function toNeighbours(kind) {
  if (!(await focusNeighbours(kind)))
    announce(kind === "general" ? "There is no more general concept." : "There is no more specific concept.");
}

export async function addConcept({ label, name }) {
  const standing = current?.verdicts.find((each) => each.label === label);
  if (!current) return announce("Open a document first.");
  if (!standing || standing.verdict === "reject") await decide({ label, name }, "accept");
  tree.goTo(label);
}

export async function toggleDone() {
  const shown = current;
  if (!shown) return;
  await writing;
  const body = { state: shown.state === "done" ? "open" : "done" };
  const path = `/documents/${shown.number}/state`;
  shown.state = (await call("PUT", path, { body, repeatable: true })).state;
  if (shown !== current) return refreshProgress();
  showDocument();
  await refreshProgress();
  if (shown.state === "done") await nextDocument();
}

export function setThreshold(value) {
  remember("threshold", Math.min(0.95, Math.max(0, Math.round(value * 20) / 20)));
  byId("threshold").value = session.threshold;
  refresh();
}

export const changeThreshold = (by) => setThreshold(session.threshold + by);

export function backToTree() {
  if (!current) return lastNumber && go({ document: lastNumber });
  const node = tree.current;
  if (node) browse(node.label, node.names.at(-1));
  tree.focus();
}

export const step = (by) => tree.step(by);
