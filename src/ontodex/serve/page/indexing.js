// The indexing view: one document, its suggestions, and the curator's decisions.

import { call, get } from "./api.js";
import {
  focusedNeighbour,
  focusNeighbours,
  hideConcept,
  lookUp,
  showConcept,
  shownLabel,
} from "./concept.js";
import { decide, remove, startDecisions, undoLast, waitForWriting, write } from "./decisions.js";
import { announce, byId, button, chip, copyText, debounce, element, percent, showProblem } from "./dom.js";
import { leaveOutBranch, makeExclusions, showLeftOut, startLeftOut } from "./left_out.js";
import { loadMeaning } from "./meaning.js";
import { loadPeople, showPeople, startPeople } from "./people.js";
import { nextDocument, refreshProgress } from "./queue.js";
import { currentRun, go, remember, session } from "./session.js";
import { showStart } from "./start.js";
import { fill, nameLanguage, t } from "./texts.js";
import { showText } from "./text.js";
import { Tree } from "./tree.js";
import { getVerdicts, nameConcept, work } from "./work.js";

const LIMIT = 50;
const BEST = 5; // suggestions shown if the run predicts none and none is likely
const MAX_CLOSE = 3; // more specific concepts shown for one

let lastNumber = null; // the document that the entry form leads back to
let explanations = new Map(); // label -> promise of spans
let highlighted = null; // the last concept for which marks were requested
let opening = new AbortController();

const tree = new Tree(byId("tree"), {
  move: (node) => browse(node.label, node.names.at(-1)),
  decide,
  peek: (node) => highlightSoon(node?.label ?? shownLabel()),
});

const conceptHandlers = {
  decide: (label, name, verdict) => decide({ label, name }, verdict, { toggle: true }),
  leaveOut: leaveOutBranch,
  browse: (label, name) => {
    browse(label, name);
    byId("concept").querySelector("button.accept").focus();
  },
};

export function startIndexing() {
  startDecisions(async (label) => {
    await Promise.all([findConcepts(), loadPeople()]);
    refresh(label);
  });
  startLeftOut(() => suggest().catch(showProblem));
  startPeople(() => refresh());
}

export async function openDocument(number) {
  opening.abort();
  opening = new AbortController();
  try {
    const found = await get(`/documents/${number}`, {}, opening.signal);
    useRunOf(found);
    work.document = found;
    lastNumber = number;
    showDocument();
    await Promise.all([suggest(), refreshProgress()]);
  } catch (error) {
    if (error.name !== "AbortError") showProblem(error);
  }
}

// Choose a run with the vocabulary of the document.
function useRunOf({ project }) {
  if (currentRun().project === project) return;
  const run = session.runs.find((each) => each.project === project);
  if (!run) throw new Error(t("no-model"));
  remember("run", run.run);
  document.dispatchEvent(new Event("runchange"));
}

// Show the entry form. Nothing of the document before may stay: what is not in sight must not be decided.
export function showEntry() {
  opening.abort();
  work.document = null;
  clear();
  showTab("text");
  byId("work").hidden = true;
  byId("start").hidden = false;
  byId("done").disabled = true;
  byId("entry").hidden = false;
  byId("document").hidden = true;
  byId("cancel-entry").hidden = !lastNumber;
  document.title = "ontodex";
  showStart().catch(showProblem);
  if (!isTyping() && !matchMedia("(pointer: coarse)").matches) byId("entry-text").focus();
}

function showDocument() {
  const { id, number, batch, keywords, state, fields } = work.document;
  byId("work").hidden = false;
  byId("start").hidden = true;
  byId("entry").hidden = true;
  byId("document").hidden = false;
  const listed = (words, between) =>
    words.flatMap((word, at) => [at ? between : "", element("bdi", {}, word)]);
  byId("about").replaceChildren(
    state === "done" ? `✓ ${t("is-done")} · ` : "",
    ...listed([id || t("document-n", { n: String(number) }), t("batch-named", { batch })], " · "),
    ...(keywords.length ? [` · ${t("keywords-are")} `, ...listed(keywords, ", ")] : []),
  );
  for (const name of ["done", "done-narrow"]) {
    byId(name).disabled = false;
    byId(name).setAttribute("aria-pressed", state === "done");
    (byId(name).firstElementChild ?? byId(name)).textContent = t(state === "done" ? "reopen" : "done");
  }
  document.title = `${fields.title || id || number} - ontodex`;
  showText(byId("text"), work.document);
}

// Load suggestions for the document shown: after opening it, or for another run.
export async function suggest() {
  showLeftOut().catch(showProblem);
  if (!work.document) return;
  const { number } = work.document;
  clear();
  const body = {
    run: session.run,
    limit: LIMIT,
    ...(session.language && { language: session.language }),
    ...makeExclusions(),
  };
  const options = { body, signal: opening.signal, repeatable: true };
  const [answer] = await Promise.all([
    call("POST", `/documents/${number}/suggest`, options),
    loadMeaning(),
    loadPeople(),
  ]);
  if (number !== work.document?.number || answer.run !== session.run) return; // a newer request is running
  work.suggestions = answer.suggestions;
  byId("right").removeAttribute("aria-busy");
  const language = answer.foreign_language && nameLanguage(answer.foreign_language);
  byId("warnings").textContent = language ? t("foreign-text", { language }) : "";
  byId("no-keywords").hidden = !currentRun().reads_keywords || work.document.keywords.length > 0;
  await findConcepts();
  refresh(null);
  if (!isTyping()) tree.focus({ preventScroll: true }); // on a phone the text stays in view
  const likely = work.suggestions.filter(isLikely).length;
  const none = predictsNone() ? ` ${t("predicts-none")}` : "";
  announce(t("n-suggestions", { n: likely, share: percent(session.threshold) }) + none);
}

// Remove everything of the last document or run, so that no key applies to it.
function clear() {
  work.suggestions = [];
  work.people = [];
  work.concepts = new Map();
  explanations = new Map();
  highlighted = null;
  highlightSoon(null); // replaces a pending call
  tree.show([]);
  hideConcept();
  if (work.document) byId("right").setAttribute("aria-busy", "true");
  else byId("right").removeAttribute("aria-busy");
  byId("no-suggestions").textContent = t("loading");
  byId("no-suggestions").hidden = false;
  byId("no-keywords").hidden = true;
  for (const id of ["count", "legend", "tab-count", "warnings"]) byId(id).textContent = "";
  byId("accept-all").disabled = byId("undo").disabled = true;
}

export const isTyping = () =>
  document.activeElement?.matches(
    "input:not([type=range]):not([type=checkbox]), textarea, select",
  ) ?? false;

// Find name and place of decided concepts that are not suggested.
async function findConcepts() {
  const suggested = new Set(work.suggestions.map(({ label }) => label));
  const decided = [...(work.document?.verdicts ?? []), ...work.people.flatMap(({ verdicts }) => verdicts)];
  const others = [...new Set(decided.map(({ label }) => label))].filter((each) => !suggested.has(each));
  const found = await Promise.all(
    others.map((label) =>
      lookUp(label).then(
        ({ concept }) => [[label, concept]],
        () => [],
      ),
    ),
  );
  work.concepts = new Map(found.flat());
}

const isLikely = ({ probability }) => probability >= session.threshold;

const predictsNone = () =>
  work.suggestions.length > 0 && !work.suggestions.some(({ in_label_set }) => in_label_set);

// Return the rows of the tree: suggestions above the threshold, and all decided concepts. If the run
// predicts none and none is above the threshold, the best suggestions.
function makeRows() {
  const verdicts = new Map(getVerdicts().map((verdict) => [verdict.label, verdict]));
  const best = predictsNone() && !work.suggestions.some(isLikely) ? BEST : 0;
  const suggested = work.suggestions
    .map((each) => ({
      ...each,
      verdict: verdicts.get(each.label)?.verdict ?? null,
      suggested: true,
      more_specific: each.more_specific.filter(({ label }) => !verdicts.has(label)).slice(0, MAX_CLOSE),
    }))
    .filter((each, rank) => each.verdict || isLikely(each) || rank < best);
  for (const { label } of work.suggestions) verdicts.delete(label);
  const others = [...verdicts.values()].map(({ label, name, verdict }) => ({
    label,
    name: nameConcept(label, name),
    verdict,
    probability: 0,
    in_label_set: false,
    suggested: false,
    path: work.concepts.get(label)?.path ?? [],
    other_parents: [],
    more_specific: [],
  }));
  return [...suggested, ...others];
}

const listUndecided = () => makeRows().filter((row) => row.in_label_set && !row.verdict);

// Show the present state again, with the cursor on `label`.
export function refresh(label = tree.current?.label) {
  byId("threshold-text").textContent = percent(session.threshold);
  for (const name of ["tree", "list"])
    byId(`as-${name}`).setAttribute("aria-pressed", session.arrangement === name);
  if (!work.document) return;
  const shown = makeRows();
  byId("tree").hidden = !shown.length;
  const words = [
    predictsNone() ? t("predicts-none") : "",
    work.suggestions.some(isLikely) ? "" : t("none-likely", { share: percent(session.threshold) }),
    predictsNone() && shown.length ? t("best-candidates") : "",
  ].filter(Boolean);
  byId("no-suggestions").hidden = !predictsNone() && shown.length > 0;
  byId("no-suggestions").textContent = words.join(" ");
  const listed = new Set(shown.map((row) => row.label));
  const below = work.suggestions.filter((each) => !listed.has(each.label)).length;
  byId("count").textContent =
    t("n-shown", { n: shown.length }) + (below ? t("n-less-likely", { n: below }) : "");
  byId("tab-count").textContent = shown.length;
  const undecided = listUndecided().length;
  byId("accept-all").firstElementChild.textContent = undecided ? t("accept-all", { n: undecided }) : t("accept-none");
  byId("accept-all").disabled = !undecided;
  byId("undo").disabled = !work.document.verdicts.some(({ user }) => user === session.me.name);
  tree.show(shown, label, session.arrangement);
  if (!shown.length) hideConcept();
  showTerms();
  showPeople();
}

const listTerms = () =>
  getVerdicts()
    .filter(({ verdict }) => verdict !== "reject")
    .map(({ label, name }) => ({ label, name: nameConcept(label, name) }))
    .sort((one, other) => (one.name < other.name ? -1 : 1));

function showTerms() {
  const terms = listTerms();
  const items = terms.map(({ label, name }) =>
    element(
      "li",
      {},
      chip(name, { click: () => goTo(label) }),
      button(
        { class: "remove", "aria-label": t("remove", { name }), title: t("remove", { name }), click: () => remove({ label, name }) },
        "×",
      ),
    ),
  );
  byId("terms")
    .querySelector("ul")
    .replaceChildren(...items);
  byId("terms").lastElementChild.hidden = terms.length > 0;
  byId("copy").disabled = !terms.length;
}

function goTo(label) {
  showTab("suggestions");
  tree.goTo(label);
}

// Copy the names of the index terms, one on a line.
export async function copyTerms() {
  const terms = listTerms();
  if (!terms.length) return announce(t("no-terms"));
  const text = terms.map(({ name }) => name).join("\n");
  await copyText(text);
  announce(t("copied", { n: terms.length }));
}

function browse(label, name) {
  if (!work.document) return;
  showConcept({ label, name, row: makeRows().find((row) => row.label === label) }, conceptHandlers);
  highlightSoon(label);
}

const highlightSoon = debounce(highlight, 80);

async function highlight(label) {
  if (label === null || !work.document) return;
  const request = (highlighted = { label });
  const spans = await getSpans(label);
  if (request !== highlighted) return;
  const marked = showText(byId("text"), work.document, spans ?? []);
  const name = element("bdi", {}, nameConcept(label, shownName(label)));
  const legend = byId("legend");
  if (!currentRun().can_explain) legend.textContent = t("cannot-explain");
  else if (!marked) legend.replaceChildren(...fill("no-word", { name }));
  else {
    const parts = {
      marked: element("mark", { class: "for" }, t("marked")),
      underlined: element("mark", { class: "against" }, t("underlined")),
      name,
    };
    legend.replaceChildren(...fill("marks", parts));
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
  const { number } = work.document;
  try {
    const suggested = work.suggestions.some((each) => each.label === label);
    if (!suggested && !(await lookUp(label)).concept.suggestible) return null;
    const body = { label, run: session.run };
    return (await call("POST", `/documents/${number}/explain`, { body, repeatable: true })).spans;
  } catch (error) {
    if (error.status !== 404) showProblem(error); // a label that the vocabulary no longer has
    return null;
  }
}

// Return the concept that a key applies to: a neighbour in focus, or the concept shown.
function getTarget() {
  if (!work.document) return null;
  return (
    focusedNeighbour() ??
    (shownLabel() === null ? null : { label: shownLabel(), name: shownName(shownLabel()) })
  );
}

export function verdictByKey(verdict) {
  const about = getTarget();
  if (!about) return;
  const onTree =
    tree.current?.label === about.label && !byId("concept").contains(document.activeElement);
  decide(about, verdict);
  if (onTree) tree.step(1);
}

export function leaveOutByKey() {
  const about = getTarget();
  if (about) leaveOutBranch(about);
}

export function acceptMoreSpecific() {
  const near = tree.current?.row?.more_specific[0];
  if (!near) return announce(t("nothing-close"));
  decide(near, "accept");
}

export function acceptPredicted() {
  const predicted = listUndecided();
  if (!work.document || !predicted.length) return announce(t("nothing-predicted"));
  write(predicted.map(({ label }) => ({ label, verdict: "accept" })));
  announce(t("accepted-all", { n: predicted.length }));
}

export { undoLast };

export async function toNeighbours(kind) {
  if (!(await focusNeighbours(kind))) announce(t(`no-${kind}`));
}

export async function addConcept({ label, name }) {
  if (!work.document) return announce(t("open-first"));
  const standing = work.document.verdicts.find((each) => each.label === label);
  if (!standing || standing.verdict === "reject") await decide({ label, name }, "accept");
  tree.goTo(label);
}

export async function toggleDone() {
  const shown = work.document;
  if (!shown) return;
  await waitForWriting();
  const body = { state: shown.state === "done" ? "open" : "done" };
  const path = `/documents/${shown.number}/state`;
  shown.state = (await call("PUT", path, { body, repeatable: true })).state;
  if (shown !== work.document) return refreshProgress();
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

export function arrange(arrangement) {
  remember("arrangement", arrangement);
  refresh();
}

export const changeArrangement = () => arrange(session.arrangement === "tree" ? "list" : "tree");

// On narrow screens one part of the document is shown at a time.
export function showTab(name) {
  byId("indexing").dataset.tab = name;
  for (const each of ["text", "suggestions"]) {
    byId(`tab-${each}`).setAttribute("aria-selected", each === name);
    byId(`tab-${each}`).tabIndex = each === name ? 0 : -1;
  }
}

export function backToTree() {
  if (!work.document) return lastNumber && go({ document: lastNumber });
  const node = tree.current;
  if (node) browse(node.label, node.names.at(-1));
  tree.focus();
}

export const step = (by) => tree.step(by);
