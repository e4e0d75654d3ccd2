// Upload of files: one request a file, a few at a time, with one progress bar.

import { call, Problem } from "./api.js";
import { byId, showProblem, announce } from "./dom.js";
import { go, remember, session } from "./session.js";
import { t } from "./texts.js";

const AT_ONCE = 3;
const NAMED = 5; // rejected files that are named
const COLUMNS = ["text_field", "label_field", "id_field", "label_separator"]; // of tables
const bar = byId("uploading");
let total = 0; // files of all running uploads
let finished = 0;

export async function upload(files) {
  if (!files.length) return;
  const batch = makeBatchName(files);
  const answers = [];
  const waiting = files.entries(); // shared: each sender takes the next file when it is free
  const sendOn = async () => {
    for (const [at, file] of waiting) {
      answers[at] = await send(file, batch);
      advance(0, 1);
    }
  };
  advance(files.length, 0);
  await Promise.all(Array.from({ length: AT_ONCE }, sendOn));
  await report(answers, batch);
}

async function send(file, batch) {
  const body = new FormData();
  body.append("batch", batch);
  body.append("run", session.run);
  for (const id of COLUMNS) if (byId(id).value) body.append(id, byId(id).value);
  body.append("files", file);
  try {
    const answer = await call("POST", "/documents/upload", { body });
    const rejected = answer.rejected_files.map(({ file, reason }) => `${file}: ${reason}`);
    const warnings = answer.warnings.map(({ file, warning }) => `${file}: ${warning}`);
    const imported = (answer.labels?.n_ids ?? 0) + (answer.labels?.n_matched ?? 0);
    warnings.push(...describeUnmatched(file.name, answer.labels));
    return { added: answer.n_added, numbers: answer.numbers, imported, rejected, warnings };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const rejected = error.places.length ? error.places : [`${file.name}: ${error.message}`];
    return { added: 0, numbers: [], imported: 0, rejected, warnings: [] };
  }
}

// Name the labels of a table that are no concepts, or several.
function describeUnmatched(file, { unknown = [], ambiguous = [] } = {}) {
  return [["unknown-labels", unknown], ["ambiguous-labels", ambiguous]]
    .filter(([, labels]) => labels.length)
    .map(([key, labels]) => `${file}: ${t(key)} ${labels.slice(0, NAMED).join(", ")}`);
}

function advance(more, done) {
  total += more;
  finished += done;
  bar.max = total;
  bar.value = finished;
  bar.hidden = finished === total;
  announce(t("reading-files", { done: finished, all: total }));
  if (finished === total) total = finished = 0;
}

async function report(answers, batch) {
  const added = answers.reduce((sum, answer) => sum + answer.added, 0);
  const rejected = answers.flatMap((answer) => answer.rejected);
  const imported = answers.reduce((sum, answer) => sum + answer.imported, 0);
  announce(t("n-added", { n: added }) + (imported ? ` ${t("n-imported", { n: imported })}` : ""));
  const first = answers.find(({ numbers }) => numbers.length);
  if (first) {
    remember("batch", batch); // the next documents are those of the batch
    await go({ document: first.numbers[0] });
  }
  const warnings = answers.flatMap((answer) => answer.warnings);
  const messages = [nameFiles("not-added", rejected), nameFiles("added-with-warning", warnings)];
  if (rejected.length || warnings.length) showProblem({ message: messages.join(" ").trim() });
}

function nameFiles(what, files) {
  if (!files.length) return "";
  const more = files.length > NAMED ? `; ${t("more-files", { n: files.length - NAMED })}` : "";
  return `${t(what)}: ${files.slice(0, NAMED).join("; ")}${more}`;
}

// Name the batch by time and file, so that users recognise it in the queue.
function makeBatchName(files) {
  const when = new Date().toLocaleString("sv", { dateStyle: "short", timeStyle: "medium" });
  const what = files.length === 1 ? files[0].name : t("n-files", { n: files.length });
  return `${when} ${what}`.slice(0, 200);
}
