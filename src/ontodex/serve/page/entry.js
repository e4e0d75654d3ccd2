// The form for a new document: paste, keywords, files.

import { call } from "./api.js";
import { byId, showProblem } from "./dom.js";
import { currentProject, go } from "./session.js";
import { t } from "./texts.js";
import { upload } from "./upload.js";

const PASTED = "pasted";

export function startEntry() {
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
  if (!text.value.trim()) throw new Error(t("empty-text"));
  const pasted = {
    ...(title.value.trim() && { title: title.value.trim() }),
    text: text.value,
    keywords: splitKeywords(keywords.value),
  };
  const body = { documents: [pasted], batch: PASTED, project: currentProject() };
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
