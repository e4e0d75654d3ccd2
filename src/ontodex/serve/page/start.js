// The first screen: vocabulary, languages, quality of the model, open documents, a sample text.

import { get } from "./api.js";
import { loadVocabulary } from "./left_out.js";
import { button, byId, element, percent } from "./dom.js";
import { getRun } from "./meaning.js";
import { nextDocument } from "./queue.js";
import { currentRun, session } from "./session.js";
import { formatNumber, nameLanguage, t } from "./texts.js";

const box = byId("start");
const TOP = 8; // concepts of the first level that are named

export async function showStart() {
  const asked = session.run;
  const [run, { projects }, vocabulary] = await Promise.all([
    getRun(),
    get("/projects"),
    loadVocabulary(),
  ]);
  if (asked !== session.run) return;
  const project = projects.find(({ id }) => id === run.project);
  box.replaceChildren(
    element("p", { class: "quiet small" }, t("vocabulary")),
    element("h2", { dir: "auto" }, project.name),
    describeVocabulary(run),
    listTop(run, vocabulary),
    showOpen(project),
    element("h3", {}, t("model")),
    describeModel(run),
    element("h3", {}, t("try")),
    element(
      "div",
      { class: "buttons" },
      button({ id: "sample", click: () => enterSample(run.sample) }, t("sample")),
      element("span", { class: "quiet small" }, t("sample-hint")),
    ),
  );
}

function describeVocabulary({ n_concepts, languages, has_ontology }) {
  const named = languages.filter((tag) => tag !== "und").map(nameLanguage);
  return element(
    "p",
    { class: "quiet" },
    t(has_ontology ? "n-concepts" : "n-labels", { n: n_concepts }),
    named.length ? ` · ${t("languages")}: ${named.join(", ")}` : "",
  );
}

// Name the concepts at the top of the hierarchy.
function listTop({ has_ontology }, { roots, total }) {
  if (!has_ontology) return "";
  const names = roots.slice(0, TOP).map(({ name }) => name);
  const more = total > names.length ? ` · ${t("and-more", { n: total - names.length })}` : "";
  return element("p", { class: "small", dir: "auto" }, names.join(" · "), more);
}

function showOpen({ n_open, n_done, people }) {
  const names = people.map(({ user }) => user).filter((user) => user !== "local");
  const known = names.length ? ` · ${t("people")}: ${names.join(", ")}` : "";
  return element(
    "div",
    { class: "card open" },
    element(
      "div",
      {},
      element("strong", {}, t("n-open", { n: n_open })),
      element("span", { class: "quiet small", dir: "auto" }, t("n-done", { n: n_done }), known),
    ),
    n_open
      ? button({ id: "continue", class: "strong", click: nextDocument }, t("continue"), " ", element("kbd", {}, "n"))
      : null,
  );
}

function describeModel({ run, model, n_labels, n_documents, metrics }) {
  const facts = element("dl", { class: "facts" });
  const add = (term, ...value) =>
    facts.append(element("dt", {}, term), element("dd", { dir: "auto" }, ...value));
  add(t("model"), element("bdi", {}, run), " ", element("span", { class: "quiet" }, `(${model})`));
  add(t("learned"), t("learned-from", { n: n_documents, concepts: formatNumber(n_labels) }));
  if (!metrics) {
    add(t("quality"), element("span", { class: "quiet" }, t("not-evaluated")));
    return facts;
  }
  const lines = [
    ["quality-first", "P@1"],
    ["quality-right", "MiP"],
    ["quality-found", "MiR"],
  ].filter(([, name]) => typeof metrics[name] === "number");
  add(
    t("quality"),
    element(
      "ul",
      { class: "quality" },
      ...lines.map(([key, name]) =>
        element("li", {}, element("strong", {}, percent(metrics[name])), " ", t(key)),
      ),
    ),
    element("span", { class: "quiet small" }, t("measured-on", { n: metrics.documents })),
  );
  return facts;
}

function enterSample({ title, text }) {
  for (const [id, value] of [["entry-title", title], ["entry-text", text]]) {
    byId(id).value = value;
    byId(id).dispatchEvent(new Event("input"));
  }
  byId("entry").requestSubmit();
}

// Name the model in the list; with several vocabularies, below its vocabulary.
export function fillModels(select) {
  const option = ({ run }) => element("option", { value: run }, run);
  const projects = [...new Set(session.runs.map(({ project }) => project))];
  const groups = projects.map((id) => {
    const runs = session.runs.filter(({ project }) => project === id);
    return element("optgroup", { label: runs[0].vocabulary }, ...runs.map(option));
  });
  select.replaceChildren(...(groups.length === 1 ? groups[0].children : groups));
  select.value = currentRun().run;
}
