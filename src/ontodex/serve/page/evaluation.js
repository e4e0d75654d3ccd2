// The evaluation view: metrics of the runs, and current figures of the service.

import { get } from "./api.js";
import { byId, showProblem, element, percent } from "./dom.js";
import { currentProject, session } from "./session.js";
import { formatNumber, t } from "./texts.js";

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
  const [{ pairs }, ...runs] = await Promise.all([
    get("/agreement", { project: currentProject() }),
    ...session.runs.map(({ run }) => get(`/runs/${encodeURIComponent(run)}`)),
  ]);
  const run = runs.find((each) => each.run === session.run);
  const figures = element("dl", { class: "figures" });
  view.replaceChildren(
    element("h2", {}, t("runs")),
    comparison(runs),
    ...(pairs.length ? [element("h2", {}, t("agreement")), agreement(pairs)] : []),
    element("h2", {}, t("service")),
    figures,
    element(
      "p",
      { class: "quiet small" },
      `${t("monitoring")}: `,
      element("a", { href: "/metrics" }, "/metrics"),
      ".",
    ),
    element("h2", {}, `${t("report-of")} `, element("bdi", {}, run.run)),
    report(run),
  );
  await watch(figures);
}

// All figures of a run are in percent: here, in its report and in the terminal.
function toPercent(value) {
  return value === undefined ? "–" : (100 * value).toFixed(1);
}

function comparison(runs) {
  const number = (value) => element("td", { class: "number" }, value);
  const titles = ["model", "system", "concepts", "documents", "training"].map((key) => t(key));
  const head = [...titles, ...MEASURES].map(
    (title, at) => element("th", { scope: "col", class: at > 1 && "number" }, title),
  );
  const rows = runs.map((run) =>
    element(
      "tr",
      { "aria-current": run.run === session.run && "true" },
      element("th", { scope: "row", dir: "auto" }, run.run),
      element("td", {}, run.model),
      number(formatNumber(run.n_labels)),
      number(formatNumber(run.n_documents)),
      number(seconds(run.train_seconds)),
      ...MEASURES.map((name) => number(toPercent(run.metrics?.[name]))),
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
    { class: "wide", tabindex: "0", role: "region", "aria-label": t("runs") },
    table,
  );
}

function agreement(pairs) {
  const rows = pairs.map(({ users, n_documents, agreement }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row", dir: "auto" }, users.join(" · ")),
      element("td", { class: "number" }, percent(agreement)),
      element("td", { class: "number quiet" }, t("n-documents", { n: n_documents })),
    ),
  );
  return element("div", { class: "wide" }, element("table", {}, element("tbody", {}, ...rows)));
}

function report(run) {
  if (!run.has_report) {
    return element(
      "p",
      { class: "quiet" },
      `${t("no-evaluation")}: `,
      element("code", {}, "ontodex evaluate RUN CORPUS"),
    );
  }
  const link = element(
    "a",
    { href: makeReportAddress(run.run), target: "_blank", rel: "noopener" },
    t("new-tab"),
  );
  // Inside the sandbox, text that the report quotes can neither run nor reach this page.
  const frame = { src: makeReportAddress(run.run), sandbox: "", title: t("report-of") };
  return element(
    "div",
    {},
    element("p", { class: "small" }, link),
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
  database,
}) {
  const milliseconds = (value) => (value == null ? "–" : `${value.toFixed(value < 10 ? 1 : 0)} ms`);
  const count = formatNumber;
  return [
    [
      t("median"),
      milliseconds(latency_ms.p50),
      t("within", { time: milliseconds(latency_ms.p99) }),
    ],
    [
      t("answered-requests"),
      count(requests.answered),
      t("refused-failed", { refused: requests.rejected, failed: requests.failed }),
    ],
    [t("waiting"), count(queue.waiting), t("room-for", { n: queue.capacity })],
    [
      t("ranked"),
      count(n_ranked),
      mean_batch_size === null ? t("none-yet") : t("per-batch", { n: Number(mean_batch_size.toFixed(1)) }),
    ],
    [t("documents-open"), count(documents.n_open), t("n-done", { n: documents.n_done })],
    [t("decisions"), count(n_decisions), database],
    [t("uptime"), seconds(uptime_seconds), t("version", { version })],
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
