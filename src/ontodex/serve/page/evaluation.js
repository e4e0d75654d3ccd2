// The second view: what the runs were measured to be worth, and how the service is doing.

import { get } from "./api.js";
import { byId, complain, element } from "./dom.js";
import { session } from "./session.js";

const MEASURES = ["P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "MiF", "MaF", "ECE"];
const EVERY = 2000; // milliseconds between two looks at the live figures
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
    element("h2", {}, "The service now"),
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
      number(run.labels.toLocaleString("en")),
      number(run.documents.toLocaleString("en")),
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
  if (!run.report) {
    return element(
      "p",
      { class: "quiet" },
      "Not measured yet: ",
      element("code", {}, "ontodex evaluate RUN CORPUS"),
      " writes figures and plots.",
    );
  }
  const alone = element(
    "a",
    { href: addressOfReport(run.run), target: "_blank", rel: "noopener" },
    "Open on a page of its own",
  );
  // The sandbox: whatever the report quotes can neither run nor reach this page.
  const frame = { src: addressOfReport(run.run), sandbox: "", title: "Report with plots" };
  return element(
    "div",
    {},
    element("p", { class: "small" }, alone),
    element("iframe", frame),
  );
}

// Light or dark as chosen here; without a choice the report follows the system, as the page does.
function addressOfReport(run) {
  const { theme } = document.documentElement.dataset;
  return `/runs/${encodeURIComponent(run)}/report${theme ? `?theme=${theme}` : ""}`;
}

// The report again, in the theme that was chosen now.
export function showReport() {
  const frame = view.querySelector("iframe");
  if (!frame) return;
  frame.src = view.querySelector("a[target]").href = addressOfReport(session.run);
}

async function watch(figures) {
  try {
    const now = await get("/status");
    figures.replaceChildren(...cards(now));
  } catch (error) {
    complain(error);
  }
  if (!view.hidden && figures.isConnected) timer = setTimeout(() => watch(figures), EVERY);
}

function cards({
  version,
  uptime_seconds,
  queue,
  requests,
  latency_ms,
  documents_ranked,
  mean_batch,
  documents,
  decisions,
}) {
  const milliseconds = (value) => (value == null ? "–" : `${value.toFixed(value < 10 ? 1 : 0)} ms`);
  const count = (value) => value.toLocaleString("en");
  return [
    [
      "Suggestions, median",
      milliseconds(latency_ms.p50),
      `99 of 100 within ${milliseconds(latency_ms.p99)}`,
    ],
    [
      "Requests answered",
      count(requests.answered),
      `${count(requests.rejected)} sent away, ${count(requests.failed)} failed`,
    ],
    ["Waiting", count(queue.waiting), `room for ${count(queue.capacity)}`],
    [
      "Documents ranked",
      count(documents_ranked),
      mean_batch === null ? "none yet" : `${mean_batch.toFixed(1)} at a time`,
    ],
    ["Documents open", count(documents.open), `${count(documents.done)} done`],
    ["Decisions", count(decisions), "kept"],
    ["Up for", seconds(uptime_seconds), `version ${version}`],
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
