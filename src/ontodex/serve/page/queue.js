// The queue: progress, the list of documents, taking in new ones, and the export.

import { call, get } from "./api.js";
import { byId, complain, element, fillSelect, say } from "./dom.js";
import { addressOf, go, place, remember, session } from "./session.js";
import { upload } from "./upload.js";

const PASTED = "pasted";
let lastListed = 0;

export function startQueue() {
  byId("queue-batch").addEventListener("change", ({ target }) => {
    remember("batch", target.value);
    list(0);
    refreshProgress().catch(complain);
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
  const { open, done, batches } = await get("/documents", { batch: session.batch, limit: 1 });
  if (session.batch && !batches.includes(session.batch)) {
    remember("batch", "");
    return refreshProgress();
  }
  byId("progress").max = open + done || 1;
  byId("progress").value = done;
  byId("progress-text").textContent = open + done ? `${done} of ${open + done} done` : "Queue";
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
    complain(error);
    return { documents: [] };
  });
  const items = documents.map((each) =>
    element(
      "li",
      {},
      element(
        "a",
        {
          href: addressOf({ document: each.number }),
          dir: "auto",
          "aria-current": place().document === String(each.number) && "true",
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

// The next open document after the one shown, from the start again after the last.
export async function nextDocument() {
  const { document: next } = await get("/documents/next", {
    after: place().document,
    batch: session.batch,
  });
  if (!next) say("No open document is left in the queue.");
  else if (String(next.number) === place().document) say("This is the only open document.");
  else go({ document: next.number });
}

// The document before the one shown, open or done; from a new one to the last of the queue.
export async function previousDocument() {
  const { document: found } = await get("/documents/previous", {
    before: place().document,
    batch: session.batch,
  });
  if (found) go({ document: found.number });
  else say(place().document ? "This is the first document." : "The queue is empty.");
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
  // A draft outlives a reload.
  for (const field of drafts) {
    field.value = sessionStorage.getItem(field.id) ?? "";
    field.addEventListener("input", () => sessionStorage.setItem(field.id, field.value));
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    paste(...drafts).catch(complain);
  });
  byId("choose-files").addEventListener("click", () => files.click());
  files.addEventListener("change", async () => {
    await upload([...files.files]).catch(complain);
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
    upload([...event.dataTransfer.files]).catch(complain);
  });
}

async function paste(title, text, keywords) {
  // `required` lets blanks pass.
  if (!text.value.trim()) throw new Error("There is no text yet, only blanks.");
  const given = {
    ...(title.value.trim() && { title: title.value.trim() }),
    text: text.value,
    keywords: separated(keywords.value),
  };
  const body = { documents: [given], batch: PASTED };
  const { numbers } = await call("POST", "/documents", { body });
  for (const field of [title, text, keywords]) {
    field.value = "";
    sessionStorage.removeItem(field.id);
  }
  go({ document: numbers[0] });
}

// Keywords may hold commas ("fish, frozen"): where there are semicolons, these separate alone.
function separated(keywords) {
  const parts = keywords.split(keywords.includes(";") ? ";" : ",");
  return parts.map((keyword) => keyword.trim()).filter(Boolean);
}
