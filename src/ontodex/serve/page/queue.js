// The queue: progress, the list of documents, search and order, deletion, and the export.

import { call, get } from "./api.js";
import { byId, showProblem, element, fillSelect, announce, debounce } from "./dom.js";
import { currentProject, go, makeAddress, readAddress, remember, session } from "./session.js";
import { t } from "./texts.js";

const PAGE = 50;
const FORMATS = ["jsonl", "csv", "annif-tsv", "skos", "marc"];
let lastListed = 0;
let deleted = null; // number of the document that was deleted last
let request = new AbortController();

export function startQueue() {
  const options = (keys, prefix) => keys.map((key) => [key, t(`${prefix}-${key || "all"}`)]);
  fillSelect(byId("queue-state"), options(["open", "done", ""], "state"), "open");
  fillSelect(byId("queue-order"), options(["number", "uncertainty"], "order"), session.order);
  fillSelect(byId("export-format"), options(FORMATS, "format"), "jsonl");
  fillSelect(byId("export-state"), options(["all", "done", "open"], "export"), "all");
  const listAnew = () => list(0).catch(showProblem);
  byId("queue-batch").addEventListener("change", ({ target }) => {
    remember("batch", target.value);
    listAnew();
    refreshProgress().catch(showProblem);
  });
  byId("queue-order").addEventListener("change", ({ target }) => {
    remember("order", target.value);
    predictAhead().catch(showProblem);
    listAnew();
  });
  byId("queue-state").addEventListener("change", listAnew);
  byId("queue-search").addEventListener("input", debounce(listAnew, 200));
  byId("queue-more").addEventListener("click", () => list(lastListed).catch(showProblem));
  byId("queue-list").addEventListener(
    "click",
    ({ target }) => target.closest("a") && byId("queue").close(),
  );
  for (const id of ["export-format", "export-state", "export-batch"]) {
    byId(id).addEventListener("change", exportLink);
  }
}

const getScope = () => ({ batch: session.batch, project: currentProject() });

// The order by uncertainty is that of a run.
const getOrder = () =>
  session.order === "uncertainty" ? { order: session.order, run: session.run } : {};

export async function refreshProgress() {
  const found = await get("/documents", { ...getScope(), limit: 1 });
  const { n_open, n_done, batch_counts, n_quarantined } = found;
  if (session.batch && !batch_counts.some(({ batch }) => batch === session.batch)) {
    remember("batch", "");
    return refreshProgress();
  }
  const total = n_open + n_done;
  byId("progress").max = total || 1;
  byId("progress").value = n_done;
  const counts = t("done-of", { n: n_done, all: total });
  const text = session.batch ? `${session.batch}: ${counts}` : counts;
  byId("progress-text").textContent = total ? text : t("queue");
  byId("quarantined").hidden = !n_quarantined;
  byId("quarantined").textContent = t("n-quarantined", { n: n_quarantined });
  const options = [
    ["", t("batch-all")],
    ...batch_counts.map(({ batch, n_open, n_done }) => [
      batch,
      `${batch} (${t("open-and-done", { open: n_open, done: n_done })})`,
    ]),
  ];
  fillSelect(byId("queue-batch"), options, session.batch);
  fillSelect(byId("export-batch"), options, byId("export-batch").value);
}

export async function showQueue() {
  byId("queue").showModal();
  await Promise.all([refreshProgress(), list(0)]);
  if (session.order === "uncertainty") await predictAhead();
}

async function list(after) {
  request.abort();
  request = new AbortController();
  const query = {
    ...getScope(),
    ...getOrder(),
    state: byId("queue-state").value,
    q: byId("queue-search").value.trim(),
    after,
    limit: PAGE,
  };
  const found = await get("/documents", query, request.signal).catch((error) => {
    if (error.name === "AbortError") return null;
    throw error;
  });
  if (!found) return;
  const { documents, n_found, n_open, n_done } = found;
  const items = documents.map(showItem);
  const target = byId("queue-list");
  if (after) target.append(...items);
  else target.replaceChildren(...items);
  if (!target.children.length) target.append(element("li", { class: "quiet" }, t("no-documents")));
  lastListed = documents.at(-1)?.number ?? 0;
  byId("queue-more").hidden = documents.length < PAGE;
  byId("queue-counts").textContent =
    n_found === null
      ? t("open-and-done", { open: n_open, done: n_done })
      : t("n-found", { n: n_found });
}

function showItem(each) {
  const isShown = readAddress().document === String(each.number);
  const address = makeAddress({ document: each.number });
  return element(
    "li",
    {},
    element("a", { href: address, dir: "auto", "aria-current": isShown && "true" }, each.title || t("no-text")),
    element(
      "span",
      { class: "quiet small" },
      each.state === "done" ? `✓ ${t("is-done")} · ` : "",
      element("bdi", {}, each.id || String(each.number)),
      " · ",
      element("bdi", {}, each.batch),
      each.corrections === null ? "" : ` · ${t("corrections", { n: Number(each.corrections.toFixed(1)) })}`,
    ),
  );
}

// Let the run predict the open documents, so that they can be ordered by uncertainty.
async function predictAhead() {
  const order = getOrder();
  for (let left = 1; left > 0 && byId("queue").open && order.run; ) {
    const body = { run: session.run, ...(session.batch && { batch: session.batch }) };
    const { n_predicted, n_left } = await call("POST", "/documents/predict", { body, repeatable: true });
    left = n_left;
    if (n_predicted) {
      announce(t("predicting", { n: n_left }));
      await list(0);
    }
  }
}

// Open the next open document after the one shown; after the last, the first open one.
export async function nextDocument() {
  const after = readAddress().document;
  const { document: next } = await get("/documents/next", { after, ...getScope(), ...getOrder() });
  if (next && String(next.number) !== after) return go({ document: next.number });
  if (next) return announce(t("only-open"));
  announce(session.batch ? t("batch-finished", { batch: session.batch }) : t("none-open"));
}

// Open the document before the one shown, open or done; from a new one, the last of the queue.
export async function previousDocument() {
  const before = readAddress().document;
  const { document: found } = await get("/documents/previous", { before, ...getScope() });
  if (found) return go({ document: found.number });
  announce(t(before ? "first-document" : "queue-empty"));
}

// Delete the document shown, after a question; the status line offers to restore it.
export function deleteDocument() {
  const dialog = byId("confirm");
  dialog.returnValue = "";
  dialog.addEventListener(
    "close",
    () => dialog.returnValue === "delete" && removeDocument().catch(showProblem),
    { once: true },
  );
  dialog.showModal();
}

async function removeDocument() {
  const { document: number } = readAddress();
  await call("DELETE", `/documents/${number}`);
  deleted = number;
  const { document: next } = await get("/documents/next", { after: number, ...getScope(), ...getOrder() });
  await go(next ? { document: next.number } : {});
  await refreshProgress();
  announce(t("deleted", { n: String(number) }));
  byId("restore").hidden = false;
}

export async function restoreDocument() {
  await call("PUT", `/documents/${deleted}/state`, { body: { state: "open" }, repeatable: true });
  byId("restore").hidden = true;
  await go({ document: deleted });
  await refreshProgress();
}

export async function showExport() {
  await refreshProgress();
  exportLink();
  byId("export").showModal();
}

function exportLink() {
  const query = new URLSearchParams({
    format: byId("export-format").value,
    state: byId("export-state").value,
    run: session.run,
  });
  if (byId("export-batch").value) query.set("batch", byId("export-batch").value);
  byId("export-link").href = `/export?${query}`;
}
