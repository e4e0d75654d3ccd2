// The queue: progress, the list of documents, new documents, and the export.

import { call, get } from "./api.js";
import { byId, showProblem, element, fillSelect, announce } from "./dom.js";
import { makeAddress, go, readAddress, remember, session } from "./session.js";
import { upload } from "./upload.js";

const PASTED = "pasted";
let lastListed = 0;

export function startQueue() {
  byId("queue-batch").addEventListener("change", ({ target }) => {
    remember("batch", target.value);
    list(0);
    refreshProgress().catch(showProblem);
  });
  byId("queue-state").addEventListener("change", () => list(0));
  byId("queue-more").addEventListener("click", () => list(lastListed));
  byId("queue-list").addEventListener(
    "click",
    ({ target }) => target.closest("a") && byId("queue").close(),
  );
  for (const id of ["export-format", "export-state", "export-batch"]) {
    byId(id).addEventListener("change", exportLink);
  }
  startEntry();
}

export async function refreshProgress() {
  const found = await get("/documents", { batch: session.batch, limit: 1 });
  const { n_open, n_done, batches, n_quarantined } = found;
  if (session.batch && !batches.includes(session.batch)) {
    remember("batch", "");
    return refreshProgress();
  }
  const total = n_open + n_done;
  byId("progress").max = total || 1;
  byId("progress").value = n_done;
  byId("progress-text").textContent = total ? `${n_done} of ${total} done` : "Queue";
  byId("quarantined").hidden = !n_quarantined;
  byId("quarantined").textContent =
    `${n_quarantined} stored documents are damaged and cannot be shown; GET /quarantine lists them.`;
  const options = [["", "all"], ...batches.map((batch) => [batch, batch])];
  fillSelect(byId("queue-batch"), options, session.batch);
  fillSelect(byId("export-batch"), options, byId("export-batch").value);
}

export async function showQueue() {
  byId("queue").showModal();
  await Promise.all([refreshProgress(), list(0)]);
}

async function list(after) {
  const state = byId("queue-state").value;
  const { documents } = await get("/documents", {
    batch: session.batch,
    state,
    after,
    limit: 50,
  }).catch((error) => {
    showProblem(error);
    return { documents: [] };
  });
  const items = documents.map((each) =>
    element(
      "li",
      {},
      element(
        "a",
        {
          href: makeAddress({ document: each.number }),
          dir: "auto",
          "aria-current": readAddress().document === String(each.number) && "true",
        },
        each.title || "(no text)",
      ),
      element(
        "span",
        { class: "quiet small" },
        `${each.state === "done" ? "✓ done · " : ""}`,
        element("bdi", {}, each.id || String(each.number)),
        " · ",
        element("bdi", {}, each.batch),
      ),
    ),
  );
  const target = byId("queue-list");
  if (after) target.append(...items);
  else target.replaceChildren(...items);
  if (!target.children.length) target.append(element("li", { class: "quiet" }, "No documents."));
  lastListed = documents.at(-1)?.number ?? 0;
  byId("queue-more").hidden = documents.length < 50;
}

// Open the next open document after the one shown; after the last, the first open one.
export async function nextDocument() {
  const { document: next } = await get("/documents/next", {
    after: readAddress().document,
    batch: session.batch,
  });
  if (!next) announce("No open document is left in the queue.");
  else if (String(next.number) === readAddress().document) announce("This is the only open document.");
  else go({ document: next.number });
}

// Open the document before the one shown, open or done; from a new one, the last of the queue.
export async function previousDocument() {
  const { document: found } = await get("/documents/previous", {
    before: readAddress().document,
    batch: session.batch,
  });
  if (found) go({ document: found.number });
  else announce(readAddress().document ? "This is the first document." : "The queue is empty.");
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

function startEntry() {
  const [form, files] = ["entry", "files"].map(byId);
  const drafts = ["entry-title", "entry-text", "entry-keywords"].map(byId);
  // A draft survives a reload.
  for (const field of drafts) {
    field.value = sessionStorage.getItem(field.id) ?? "";
    field.addEventListener("input", () => sessionStorage.setItem(field.id, field.value));
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    paste(...drafts).catch(showProblem);
  });
  byId("choose-files").addEventListener("click", () => files.click());
  files.addEventListener("change", async () => {
    await upload([...files.files]).catch(showProblem);
    files.value = "";
  });
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dropping");
  });
  document.addEventListener("drop", (event) => {
    document.body.classList.remove("dropping");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    upload([...event.dataTransfer.files]).catch(showProblem);
  });
}

async function paste(title, text, keywords) {
  // `required` accepts blanks.
  if (!text.value.trim()) throw new Error("The text is empty.");
  const pasted = {
    ...(title.value.trim() && { title: title.value.trim() }),
    text: text.value,
    keywords: splitKeywords(keywords.value),
  };
  const body = { documents: [pasted], batch: PASTED };
  const { numbers } = await call("POST", "/documents", { body });
  for (const field of [title, text, keywords]) {
    field.value = "";
    sessionStorage.removeItem(field.id);
  }
  go({ document: numbers[0] });
}

// Split keywords. They may contain commas ("fish, frozen"), so semicolons separate if there are any.
function splitKeywords(keywords) {
  const parts = keywords.split(keywords.includes(";") ? ";" : ",");
  return parts.map((keyword) => keyword.trim()).filter(Boolean);
}
