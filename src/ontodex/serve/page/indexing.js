// The first view: one document, its suggestions, and the curator's decisions about them.

import { call, get, requestId } from "./api.js";
import {
  focusedNeighbour,
  focusNeighbours,
  hideConcept,
  lookUp,
  showConcept,
  shownLabel,
} from "./concept.js";
import { byId, chip, complain, element, percent, say, settled } from "./dom.js";
import { nextDocument, refreshProgress } from "./queue.js";
import { remember, runNow, session } from "./session.js";
import { showText } from "./text.js";
import { Tree } from "./tree.js";

const LIMIT = 50;
const NEAREST = 5; // suggestions shown where the run chose none and none is likely
const NEAR = 3; // more specific concepts named at one

let current = null; // the document shown, with its verdicts
let suggestions = [];
let paths = new Map(); // label -> path, of decided concepts that were not suggested
let explanations = new Map(); // label -> promise of spans
let wanted = null; // what the text was last to be marked for
let opening = new AbortController();
let writing = Promise.resolve(); // decisions reach the service in the order in which they were made

const tree = new Tree(byId("tree"), {
  moved: (node) => browse(node.label, node.names.at(-1)),
  decided: decide,
  peeked: (node) => highlightSoon(node?.label ?? shownLabel()),
});

const concerning = {
  decided: (label, name, verdict) => decide({ label, name }, verdict, { toggle: true }),
  browsed: (label, name) => {
    browse(label, name);
    byId("concept").querySelector("button.accept").focus();
  },
};

export async function openDocument(number) {
  opening.abort();
  opening = new AbortController();
  try {
    current = await get(`/documents/${number}`, {}, opening.signal);
    showDocument();
    await Promise.all([suggest(), refreshProgress()]);
  } catch (error) {
    if (error.name !== "AbortError") complain(error);
  }
}

export function showEntry() {
  byId("entry").hidden = false;
  byId("document").hidden = true;
  byId("cancel-entry").hidden = !current;
  if (!isTyping()) byId("entry-text").focus(); // somebody may have begun with the title
}

export function leaveEntry() {
  if (!current) return;
  byId("entry").hidden = true;
  byId("document").hidden = false;
}

function showDocument() {
  leaveEntry();
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

// Suggestions for the document shown: after opening it, or with another run.
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
  if (number !== current.number || answer.run !== session.run) return; // asked again meanwhile
  ({ suggestions } = answer);
  byId("right").removeAttribute("aria-busy");
  byId("no-keywords").hidden = !runNow().keywords || current.keywords.length > 0;
  await findPaths();
  refresh(null);
  if (!isTyping()) tree.focus({ preventScroll: true }); // on a phone the text comes first
  const likely = suggestions.filter(isLikely).length;
  const none = choseNone() ? " The run chose none." : "";
  say(`${likely} suggestions of at least ${percent(session.threshold)}.${none}`);
}

// No key may mean a concept of the document, or of the run, that was here before.
function clear() {
  suggestions = [];
  explanations = new Map();
  wanted = null;
  highlightSoon(null); // in place of one that is about to happen
  tree.show([]);
  hideConcept();
  byId("right").setAttribute("aria-busy", "true");
  byId("no-suggestions").textContent = "Reading …";
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

const choseNone = () => suggestions.length > 0 && !suggestions.some(({ chosen }) => chosen);

// What the tree shows: suggestions above the threshold, and everything that was decided. Where the
// run chose none and none is above it, the best ones.
function rows() {
  const verdicts = new Map(current.verdicts.map((verdict) => [verdict.label, verdict]));
  const nearest = choseNone() && !suggestions.some(isLikely) ? NEAREST : 0;
  const suggested = suggestions
    .map((each) => ({
      ...each,
      verdict: verdicts.get(each.label)?.verdict ?? null,
      suggested: true,
      more_specific: each.more_specific.filter(({ label }) => !verdicts.has(label)).slice(0, NEAR),
    }))
    .filter((each, rank) => each.verdict || isLikely(each) || rank < nearest);
  for (const { label } of suggestions) verdicts.delete(label);
  const others = [...verdicts.values()].map(({ label, name, verdict }) => ({
    label,
    name,
    verdict,
    probability: 0,
    chosen: false,
    suggested: false,
    path: paths.get(label) ?? [],
    other_parents: [],
    more_specific: [],
  }));
  return [...suggested, ...others];
}

// Paint what is known again, with the cursor on `label`.
export function refresh(label = tree.current?.label) {
  byId("threshold-text").textContent = percent(session.threshold);
  if (!current) return;
  const shown = rows();
  byId("tree").hidden = !shown.length;
  const words = [
    choseNone() ? "The run chose no concept." : "",
    suggestions.some(isLikely) ? "" : `No suggestion of at least ${percent(session.threshold)}.`,
    choseNone() && shown.length ? "What stands here was not chosen." : "",
  ].filter(Boolean);
  byId("no-suggestions").hidden = !choseNone() && shown.length > 0;
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
  showConcept({ label, name, row: rows().find((row) => row.label === label) }, concerning);
  highlightSoon(label);
}

const highlightSoon = settled(highlight, 80);

async function highlight(label) {
  if (label === null || !current) return;
  const asked = (wanted = { label });
  const spans = await spansOf(label);
  if (asked !== wanted) return;
  const marked = showText(byId("text"), current, spans ?? []);
  const name = rows().find((row) => row.label === label)?.name ?? shownName(label);
  const legend = byId("legend");
  if (!runNow().explains)
    legend.textContent = "This run cannot show which words speak for a concept.";
  else if (!marked) legend.replaceChildren("No word speaks for ", element("bdi", {}, name), ".");
  else {
    legend.replaceChildren(
      element("mark", { class: "for" }, "marked"),
      " for, ",
      element("mark", { class: "against" }, "underlined"),
      " against ",
      element("bdi", {}, name),
    );
  }
}

const shownName = (label) =>
  shownLabel() === label ? byId("concept").querySelector("h3 bdi").textContent : label;

// The words for a label, asked for once; null where the run cannot say.
function spansOf(label) {
  if (!explanations.has(label)) explanations.set(label, explain(label));
  return explanations.get(label);
}

async function explain(label) {
  if (!runNow().explains) return null;
  const { number } = current;
  try {
    const suggested = suggestions.some((each) => each.label === label);
    if (!suggested && !(await lookUp(label)).concept.suggestible) return null;
    const body = { label, run: session.run };
    return (await call("POST", `/documents/${number}/explain`, { body, repeatable: true })).spans;
  } catch (error) {
    if (error.status !== 404) complain(error); // a concept of another run's ontology
    return null;
  }
}

// Accept or reject; with `toggle` the same verdict again takes it back.
async function decide({ label, name }, verdict, { toggle = false } = {}) {
  const standing = current.verdicts.find((each) => each.label === label);
  const same = standing && (verdict === "reject") === (standing.verdict === "reject");
  if (same) return toggle ? undo(standing) : undefined;
  if (standing?.verdict === "add") return undo(standing); // to reject what one added is to take it back
  const suggested = suggestions.some((each) => each.label === label);
  await write([{ label, verdict: verdict === "accept" && !suggested ? "add" : verdict }]);
  say(
    `${verdict === "reject" ? "Rejected" : suggested ? "Accepted" : "Added"}: ${name}. Press u to undo.`,
  );
}

function write(made) {
  const { number } = current;
  const decisions = made.map((each) => ({
    ...each,
    document: number,
    run: session.run,
    request: requestId(),
  }));
  return inTurn(async () => {
    const answer = await call("POST", "/decisions", { body: { decisions }, repeatable: true });
    if (current.number !== number) return;
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
      if (error.status !== 409) throw error; // another window was faster
    });
    const { verdicts } = await get(`/documents/${number}`);
    if (current.number !== number) return;
    current.verdicts = verdicts;
    await findPaths();
    refresh(label);
    say(`Undone: ${name}.`);
  });
}

function inTurn(action) {
  writing = writing.then(action).catch(complain);
  return writing;
}

// What the keys and buttons of the page do.

// The concept that a decision is about: a neighbour in focus, one looked at, or the tree's.
function target() {
  return (
    focusedNeighbour() ??
    (shownLabel() === null ? null : { label: shownLabel(), name: shownName(shownLabel()) })
  );
}

export function verdictByKey(verdict) {
  const about = current && target();
  if (!about) return;
  const onTree =
    tree.current?.label === about.label && !byId("concept").contains(document.activeElement);
  decide(about, verdict);
  if (onTree) tree.step(1);
}

export function acceptMoreSpecific() {
  const near = tree.current?.row?.more_specific[0];
  if (!near) return say("No more specific concept is close to this one.");
  decide(near, "accept");
}

export function acceptChosen() {
  const chosen = current ? rows().filter((row) => row.chosen && !row.verdict) : [];
  if (!chosen.length) return say("The run chose nothing here that is undecided.");
  write(chosen.map(({ label }) => ({ label, verdict: "accept" })));
  say(`Accepted ${chosen.length} concepts that the run chose.`);
}

// The last decision about this document that is ours; those of others are theirs to undo.
export function undoLast() {
  inTurn(() => {
    const own = (current?.verdicts ?? []).filter(({ who }) => who === session.me.name);
    const last = own.reduce((one, each) => (one && one.id > each.id ? one : each), null);
    if (last) undo(last);
    else say("Nothing to undo in this document.");
  });
}

export async function toNeighbours(kind) {
  if (!(await focusNeighbours(kind)))
    say(kind === "general" ? "Nothing is more general." : "Nothing is more specific.");
}

export async function addConcept({ label, name }) {
  const standing = current?.verdicts.find((each) => each.label === label);
  if (!current) return say("Open a document first.");
  if (!standing || standing.verdict === "reject") await decide({ label, name }, "accept");
  tree.goTo(label);
}

export async function toggleDone() {
  if (!current) return;
  const state = current.state === "done" ? "open" : "done";
  await writing;
  const changed = await call("PUT", `/documents/${current.number}/state`, {
    body: { state },
    repeatable: true,
  });
  Object.assign(current, { state: changed.state });
  showDocument();
  await refreshProgress();
  if (state === "done") await nextDocument();
}

export function setThreshold(value) {
  remember("threshold", Math.min(0.95, Math.max(0, Math.round(value * 20) / 20)));
  byId("threshold").value = session.threshold;
  refresh();
}

export const changeThreshold = (by) => setThreshold(session.threshold + by);

export function backToTree() {
  leaveEntry();
  const node = tree.current;
  if (node) browse(node.label, node.names.at(-1));
  tree.focus();
}

export const step = (by) => tree.step(by);
