// The page: views, the bar above them, and the keys.

import { call, get } from "./api.js";
import { byId, hideProblem, showProblem, element, fillSelect, announce } from "./dom.js";
import { hideEvaluation, showEvaluation, showReport } from "./evaluation.js";
import * as indexing from "./indexing.js";
import {
  nextDocument,
  previousDocument,
  refreshProgress,
  showExport,
  showQueue,
  startQueue,
} from "./queue.js";
import { startSearch } from "./search.js";
import { makeAddress, go, readAddress, remember, currentRun, session } from "./session.js";

// The keys, also for the list that "?" shows: key, other key, meaning, action.
const KEYS = [
  ["j", "↓", "next suggestion (↓ also stops at groups)", () => indexing.step(1)],
  ["k", "↑", "previous suggestion", () => indexing.step(-1)],
  ["a", "Enter", "accept, or add, the concept", () => indexing.verdictByKey("accept")],
  ["r", "", "reject the concept", () => indexing.verdictByKey("reject")],
  ["u", "", "undo my last decision about this document", indexing.undoLast],
  ["A", "", "accept all concepts that the run predicts", indexing.acceptPredicted],
  ["m", "", "accept the close, more specific concept", indexing.acceptMoreSpecific],
  ["g", "", "more general concepts: arrows, a or Enter", () => indexing.toNeighbours("general")],
  ["s", "", "more specific concepts", () => indexing.toNeighbours("specific")],
  ["/", "", "search for a concept to add", () => byId("search").focus()],
  ["[", "", "show less likely suggestions", () => indexing.changeThreshold(-0.05)],
  ["]", "", "show only more likely suggestions", () => indexing.changeThreshold(0.05)],
  ["o", "", "new document: paste, or upload", newDocument],
  ["n", "", "next open document", nextDocument],
  ["p", "", "previous document, open or done", previousDocument],
  ["d", "", "done, and on to the next (or reopen)", indexing.toggleDone],
  ["q", "", "queue", showQueue],
  ["e", "", "export", showExport],
  ["v", "", "indexing or evaluation", changeView],
  ["t", "", "light or dark", changeTheme],
  ["?", "", "this list", showKeys],
  ["Escape", "", "back to the suggestions", indexing.backToTree],
];
const ANYWHERE = new Set(["v", "t", "?"]); // the others belong to the indexing view

const isEvaluating = () => readAddress().view === "evaluation";
let lastPlace = {}; // last address of the indexing view

async function start() {
  startBar();
  startQueue();
  startKeys();
  startSearch({ choose: indexing.addConcept, leave: indexing.backToTree });
  indexing.refresh();
  session.me = await get("/me");
  byId("who").textContent = session.me.authentication === "loopback" ? "" : session.me.name;
  byId("sign-out").hidden = session.me.authentication !== "key";
  session.runs = (await get("/runs")).runs;
  if (!currentRun()) remember("run", session.runs[0].run);
  fillSelect(
    byId("run"),
    session.runs.map(({ run }) => [run, run]),
    session.run,
  );
  showLanguages();
  addEventListener("hashchange", () => route().catch(showProblem));
  await Promise.all([refreshProgress(), route()]);
}

function startBar() {
  const actions = {
    new: newDocument,
    previous: previousDocument,
    next: nextDocument,
    done: indexing.toggleDone,
    "show-queue": showQueue,
    "show-export": showExport,
    "show-keys": showKeys,
    theme: changeTheme,
    "cancel-entry": indexing.backToTree,
    "sign-out": signOut,
  };
  for (const [id, action] of Object.entries(actions)) {
    byId(id).addEventListener("click", () => attempt(action));
  }
  byId("run").addEventListener("change", ({ target }) => changeRun("run", target.value));
  byId("language").addEventListener("change", ({ target }) => changeRun("language", target.value));
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address names the document
    indexing.backToTree();
  });
  byId("threshold").value = session.threshold;
  byId("threshold").addEventListener("input", ({ target }) =>
    indexing.setThreshold(Number(target.value)),
  );
  nameTheme();
}

// Run an action and show its problem, if any.
async function attempt(action) {
  try {
    hideProblem();
    await action();
  } catch (error) {
    showProblem(error);
  }
}

async function route() {
  const { document: number } = readAddress();
  hideProblem();
  byId("indexing").hidden = isEvaluating();
  byId("to-indexing").setAttribute("aria-current", isEvaluating() ? "false" : "page");
  byId("to-evaluation").setAttribute("aria-current", isEvaluating() ? "page" : "false");
  if (isEvaluating()) {
    announce(""); // the last announcement was about a document
    return showEvaluation();
  }
  hideEvaluation();
  const isOther = lastPlace.document !== number;
  lastPlace = /^\d+$/.test(number ?? "") ? { document: number } : {};
  byId("to-indexing").href = makeAddress(lastPlace);
  if (!lastPlace.document) indexing.showEntry();
  else if (isOther) await indexing.openDocument(number);
}

// The entry form has an address of its own, so that Back returns to the document.
function newDocument() {
  return go({}) ?? indexing.showEntry();
}

function changeView() {
  go(isEvaluating() ? lastPlace : { view: "evaluation" });
}

async function changeRun(name, value) {
  remember(name, value);
  showLanguages();
  await attempt(() => Promise.all([indexing.suggest(), isEvaluating() && showEvaluation()]));
}

function showLanguages() {
  const { languages } = currentRun();
  if (!languages.includes(session.language)) remember("language", "");
  byId("language-field").hidden = languages.length < 2;
  fillSelect(
    byId("language"),
    [["", "as the run"], ...languages.map((tag) => [tag, tag])],
    session.language,
  );
}

async function signOut() {
  await call("POST", "/logout");
  location.reload();
}

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

function changeTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
  nameTheme();
  showReport();
}

function nameTheme() {
  byId("theme").textContent = isDark() ? "☀ Light" : "☾ Dark";
}

function startKeys() {
  byId("keys")
    .querySelector("tbody")
    .append(
      ...KEYS.map(([key, other, meaning]) =>
        element(
          "tr",
          {},
          element(
            "th",
            { scope: "row" },
            element("kbd", {}, key === "Escape" ? "Esc" : key),
            other ? " " : "",
            other ? element("kbd", {}, other) : "",
          ),
          element("td", {}, meaning),
        ),
      ),
    );
  byId("keys-on").checked = session.keysOn;
  byId("keys-on").addEventListener("change", ({ target }) => remember("keysOn", target.checked));
  document.addEventListener("keydown", handleKey);
}

function showKeys() {
  byId("keys").showModal();
}

function handleKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
    return;
  if (indexing.isTyping() && event.key !== "Escape") return;
  if (!session.keysOn && event.key.length === 1) return;
  const found = KEYS.find(([key]) => key === event.key);
  if (!found || event.defaultPrevented || (isEvaluating() && !ANYWHERE.has(event.key))) return;
  event.preventDefault();
  attempt(found[3]);
}

document.addEventListener("paste", async (event) => {
  if (indexing.isTyping() || isEvaluating() || document.querySelector("dialog[open]")) return;
  const text = event.clipboardData.getData("text/plain");
  if (!text.trim()) return;
  await newDocument();
  byId("entry-text").value = text;
  byId("entry-text").dispatchEvent(new Event("input"));
  announce("Pasted; press the button to get suggestions.");
});

attempt(start);
