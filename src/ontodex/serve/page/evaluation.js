// The evaluation view: metrics of the runs, and current figures of the service.

import { get } from "./api.js";
import { byId, showProblem, element } from "./dom.js";
import { session } from "./session.js";

const MEASURES = ["P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "MiF", "MaF", "ECE"];
const EVERY = 2000; // milliseconds between two updates of the figures
const view = byId("evaluation");
let timer = 0;

export function hideEvaluation() {
  clearTimeout(timer);
  view.hidden = true;
}

export async function showEvaluation() {
  clearTimeout(timer);
  view.hidden = false;
  const runs = await Promise.all(
    session.runs.map(({ run }) => get(`/runs/${encodeURIComponent(run)}`)),
  );
  const run = runs.find((each) => each.run === session.run);
  const figures = element("dl", { class: "figures" });
  view.replaceChildren(
    element("h2", {}, "Runs"),
    comparison(runs),
    element("h2", {}, "Service"),
    figures,
    element(
      "p",
      { class: "quiet small" },
      "For monitoring: ",
      element("a", { href: "/metrics" }, "/metrics"),
      ".",
    ),
    element("h2", {}, "Report of ", element("bdi", {}, run.run)),
    report(run),
  );
  await watch(figures);
}

function comparison(runs) {
  const number = (value) => element("td", { class: "number" }, value);
  const head = ["Run", "System", "Concepts", "Documents", "Training", ...MEASURES].map(
    (title, at) => element("th", { scope: "col", class: at > 1 && "number" }, title),
  );
  const rows = runs.map((run) =>
    element(
      "tr",
      { "aria-current": run.run === session.run && "true" },
      element("th", { scope: "row", dir: "auto" }, run.run),
      element("td", {}, run.model),
      number(run.n_labels.toLocaleString("en")),
      number(run.n_documents.toLocaleString("en")),
      number(seconds(run.train_seconds)),
      ...MEASURES.map((name) => number(run.metrics?.[name]?.toFixed(3) ?? "–")),
    ),
  );
  const table = element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows),
  );
  return element(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": "Runs compared" },
    table,
  );
}

function report(run) {
  if (!run.has_report) {
    return element(
      "p",
      { class: "quiet" },
      "No evaluation yet: ",
      element("code", {}, "ontodex evaluate RUN CORPUS"),
      " writes metrics and plots.",
    );
  }
  const alone = element(
    "a",
    { href: makeReportAddress(run.run), target: "_blank", rel: "noopener" },
    "Open in a new tab",
  );
  // Inside the sandbox, text that the report quotes can neither run nor reach this page.
  const frame = { src: makeReportAddress(run.run), sandbox: "", title: "Report with plots" };
  return element(
    "div",
    {},
    element("p", { class: "small" }, alone),
    element("iframe", frame),
  );
}

// Return the address in the theme chosen here; without a choice the report follows the system.
function makeReportAddress(run) {
  const { theme } = document.documentElement.dataset;
  return `/runs/${encodeURIComponent(run)}/report${theme ? `?theme=${theme}` : ""}`;
}

// Load the report again in the present theme.
export function showReport() {
  const frame = view.querySelector("iframe");
  if (!frame) return;
  frame.src = view.querySelector("a[target]").href = makeReportAddress(session.run);
}

async function watch(figures) {
  try {
    const now = await get("/status");
    figures.replaceChildren(...cards(now));
  } catch (error) {
    showProblem(error);
  }
  if (!view.hidden && figures.isConnected) timer = setTimeout(() => watch(figures), EVERY);
}

function cards({
  version,
  uptime_seconds,
  queue,
  requests,
  latency_ms,
  n_ranked,
  mean_batch_size,
  documents,
  n_decisions,
}) {
  const milliseconds = (value) => (value == null ? "–" : `${value.toFixed(value < 10 ? 1 : 0)} ms`);
  const count = (value) => value.toLocaleString("en");
  return [
    [
      "Suggestions, median",
      milliseconds(latency_ms.p50),
      `99 % within ${milliseconds(latency_ms.p99)}`,
    ],
    [
      "Requests answered",
      count(requests.answered),
      `${count(requests.rejected)} refused, ${count(requests.failed)} failed`,
    ],
    ["Waiting", count(queue.waiting), `room for ${count(queue.capacity)}`],
    [
      "Documents ranked",
      count(n_ranked),
      mean_batch_size === null ? "none yet" : `${mean_batch_size.toFixed(1)} per batch`,
    ],
    ["Documents open", count(documents.n_open), `${count(documents.n_done)} done`],
    ["Decisions", count(n_decisions), "stored"],
    ["Uptime", seconds(uptime_seconds), `version ${version}`],
  ].map(([title, value, more]) =>
    element(
      "div",
      { class: "card" },
      element("dt", {}, title),
      element(
        "dd",
        {},
        element("strong", {}, value),
        element("span", { class: "quiet small" }, more),
      ),
    ),
  );
}

function seconds(value) {
  if (value == null) return "–";
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return `${Math.round(value / 3600)} h`;
}
