// The page: views, the bar above them, and the keys.

import { call, get } from "./api.js";
import { toggleConcept } from "./concept.js";
import { announce, byId, element, fillSelect, hideProblem, showProblem } from "./dom.js";
import { startEntry } from "./entry.js";
import { hideEvaluation, showEvaluation, showReport } from "./evaluation.js";
import * as indexing from "./indexing.js";
import {
  deleteDocument,
  nextDocument,
  previousDocument,
  refreshProgress,
  restoreDocument,
  showExport,
  showQueue,
  startQueue,
} from "./queue.js";
import { startSearch } from "./search.js";
import { currentRun, go, makeAddress, readAddress, remember, session } from "./session.js";
import { fillModels } from "./start.js";
import { INTERFACES, language, loadTexts, nameLanguage, t } from "./texts.js";

// The keys: key, other key, action. Their meaning is the text "key-KEY".
const KEYS = [
  ["j", "↓", () => indexing.step(1)],
  ["k", "↑", () => indexing.step(-1)],
  ["a", "Enter", () => indexing.verdictByKey("accept")],
  ["r", "", () => indexing.verdictByKey("reject")],
  ["u", "", indexing.undoLast],
  ["A", "", indexing.acceptPredicted],
  ["m", "", indexing.acceptMoreSpecific],
  ["g", "", () => indexing.toNeighbours("general")],
  ["s", "", () => indexing.toNeighbours("specific")],
  ["i", "", () => toggleConcept()],
  ["x", "", indexing.leaveOutByKey],
  ["c", "", indexing.copyTerms],
  ["l", "", indexing.changeArrangement],
  ["/", "", () => byId("search").focus()],
  ["[", "", () => indexing.changeThreshold(-0.05)],
  ["]", "", () => indexing.changeThreshold(0.05)],
  ["o", "", newDocument],
  ["n", "", nextDocument],
  ["p", "", previousDocument],
  ["d", "Ctrl+Enter", indexing.toggleDone],
  ["q", "", showQueue],
  ["e", "", showExport],
  ["v", "", changeView],
  ["t", "", changeTheme],
  ["?", "", showKeys],
  ["Escape", "", indexing.backToTree],
];
const ANYWHERE = new Set(["v", "t", "?"]); // the others belong to the indexing view
const BUTTONS = {
  new: newDocument,
  previous: previousDocument,
  next: nextDocument,
  "next-narrow": nextDocument,
  done: indexing.toggleDone,
  "done-narrow": indexing.toggleDone,
  delete: deleteDocument,
  restore: restoreDocument,
  copy: indexing.copyTerms,
  "accept-all": indexing.acceptPredicted,
  undo: indexing.undoLast,
  "as-tree": () => indexing.arrange("tree"),
  "as-list": () => indexing.arrange("list"),
  "tab-text": () => indexing.showTab("text"),
  "tab-suggestions": () => indexing.showTab("suggestions"),
  "show-queue": showQueue,
  "show-export": showExport,
  "show-keys": showKeys,
  theme: changeTheme,
  "cancel-entry": indexing.backToTree,
  "sign-out": signOut,
};

const isEvaluating = () => readAddress().view === "evaluation";
let lastPlace = {}; // last address of the indexing view

async function start() {
  await loadTexts(session.interface);
  startBar();
  startQueue();
  startEntry();
  startKeys();
  indexing.startIndexing();
  startSearch({ choose: indexing.addConcept, leave: indexing.backToTree });
  indexing.refresh();
  session.me = await get("/me");
  byId("who").textContent = session.me.authentication === "loopback" ? "" : session.me.name;
  byId("sign-out").hidden = session.me.authentication !== "key";
  session.runs = (await get("/runs")).runs;
  if (!currentRun()) remember("run", session.runs[0].run);
  showRun();
  document.addEventListener("runchange", showRun);
  addEventListener("hashchange", () => route().catch(showProblem));
  await Promise.all([refreshProgress(), route()]);
}

function startBar() {
  for (const [id, action] of Object.entries(BUTTONS)) {
    byId(id).addEventListener("click", () => attempt(action));
  }
  byId("run").addEventListener("change", ({ target }) => attempt(() => changeRun(target.value)));
  byId("language").addEventListener("change", ({ target }) => {
    remember("language", target.value);
    attempt(indexing.suggest);
  });
  fillSelect(byId("interface"), Object.entries(INTERFACES), language);
  byId("interface").addEventListener("change", ({ target }) => {
    remember("interface", target.value);
    location.reload(); // the address and drafts stay
  });
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address names the document
    indexing.backToTree();
  });
  byId("threshold").value = session.threshold;
  byId("threshold").addEventListener("input", ({ target }) =>
    indexing.setThreshold(Number(target.value)),
  );
  document.querySelector(".tabs").addEventListener("keydown", ({ key }) => {
    if (!["ArrowLeft", "ArrowRight"].includes(key)) return;
    const other = byId("indexing").dataset.tab === "text" ? "suggestions" : "text";
    indexing.showTab(other);
    byId(`tab-${other}`).focus();
  });
  nameTheme();
}

// Run an action and show its problem, if any.
async function attempt(action) {
  try {
    hideProblem();
    byId("restore").hidden = true;
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

// Use another run. One with another vocabulary has another queue, so the document is left.
async function changeRun(run) {
  const { project } = currentRun();
  remember("run", run);
  showRun();
  if (currentRun().project !== project) {
    remember("batch", "");
    await Promise.all([refreshProgress(), isEvaluating() ? null : newDocument()]);
  } else if (!lastPlace.document && !isEvaluating()) indexing.showEntry();
  else await indexing.suggest();
  if (isEvaluating()) await showEvaluation();
}

function showRun() {
  const { languages, language: own } = currentRun();
  fillModels(byId("run"));
  if (!languages.includes(session.language)) remember("language", "");
  byId("language-field").hidden = languages.length < 2;
  const others = languages.filter((tag) => tag !== own);
  fillSelect(
    byId("language"),
    [["", nameLanguage(own)], ...others.map((tag) => [tag, nameLanguage(tag)])],
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
  const [sign, name] = isDark() ? ["☀", t("light")] : ["☾", t("dark")];
  byId("theme").replaceChildren(sign, element("span", { class: "long" }, ` ${name}`));
  byId("theme").setAttribute("aria-label", name);
}

function startKeys() {
  const rows = KEYS.map(([key, other]) =>
    element(
      "tr",
      {},
      element(
        "th",
        { scope: "row" },
        element("kbd", {}, key === "Escape" ? "Esc" : key),
        other ? " " : "",
        other ? element("kbd", {}, other === "Ctrl+Enter" ? t("ctrl-enter") : other) : "",
      ),
      element("td", {}, t(`key-${key}`)),
    ),
  );
  byId("keys").querySelector("tbody").append(...rows);
  byId("keys-on").checked = session.keysOn;
  byId("keys-on").addEventListener("change", ({ target }) => remember("keysOn", target.checked));
  document.addEventListener("keydown", handleKey);
}

function showKeys() {
  byId("keys").showModal();
}

function handleKey(event) {
  if (document.querySelector("dialog[open]") || event.altKey) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return submit(event);
  if (event.ctrlKey || event.metaKey) return;
  if (indexing.isTyping() && event.key !== "Escape") return;
  if (!session.keysOn && event.key.length === 1) return;
  const found = KEYS.find(([key]) => key === event.key);
  if (!found || event.defaultPrevented || (isEvaluating() && !ANYWHERE.has(event.key))) return;
  event.preventDefault();
  attempt(found[2]);
}

// Ctrl+Enter: send the form or, in a document, go on to the next.
function submit(event) {
  if (isEvaluating()) return;
  event.preventDefault();
  if (byId("entry").hidden) attempt(indexing.toggleDone);
  else byId("entry").requestSubmit();
}

document.addEventListener("paste", async (event) => {
  if (indexing.isTyping() || isEvaluating() || document.querySelector("dialog[open]")) return;
  const text = event.clipboardData.getData("text/plain");
  if (!text.trim()) return;
  await newDocument();
  byId("entry-text").value = text;
  byId("entry-text").dispatchEvent(new Event("input"));
  announce(t("pasted"));
});

attempt(start);
