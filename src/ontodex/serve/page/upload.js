// Upload of files: one request a file, a few at a time, with one progress bar.

import { call, Problem } from "./api.js";
import { byId, showProblem, announce } from "./dom.js";
import { go } from "./session.js";

const AT_ONCE = 3;
const NAMED = 5; // rejected files that are named
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
  await report(answers);
}

async function send(file, batch) {
  const body = new FormData();
  body.append("batch", batch);
  body.append("files", file);
  try {
    const answer = await call("POST", "/documents/upload", { body });
    const rejected = answer.rejected_files.map(({ file, reason }) => `${file}: ${reason}`);
    const guessed = answer.warnings.map(({ file, warning }) => `${file}: ${warning}`);
    return { added: answer.n_added, numbers: answer.numbers, rejected, guessed };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const rejected = error.places.length ? error.places : [`${file.name}: ${error.message}`];
    return { added: 0, numbers: [], rejected, guessed: [] };
  }
}

function advance(more, done) {
  total += more;
  finished += done;
  bar.max = total;
  bar.value = finished;
  bar.hidden = finished === total;
  announce(`Reading files: ${finished} of ${total} …`);
  if (finished === total) total = finished = 0;
}

async function report(answers) {
  const added = answers.reduce((sum, answer) => sum + answer.added, 0);
  const rejected = answers.flatMap((answer) => answer.rejected);
  announce(added === 1 ? "One document added." : `${added} documents added.`);
  const first = answers.find(({ numbers }) => numbers.length);
  if (first) await go({ document: first.numbers[0] });
  const guessed = answers.flatMap((answer) => answer.guessed);
  const messages = [nameFiles("Not added", rejected), nameFiles("Added with a guess", guessed)];
  if (rejected.length || guessed.length) showProblem({ message: messages.join(" ").trim() });
}

function nameFiles(what, files) {
  if (!files.length) return "";
  const more = files.length > NAMED ? `; and ${files.length - NAMED} more files` : "";
  return `${what}: ${files.slice(0, NAMED).join("; ")}${more}`;
}

// Name the batch by time and file, so that users recognise it in the queue.
function makeBatchName(files) {
  const when = new Date().toLocaleString("sv", { dateStyle: "short", timeStyle: "medium" });
  const what = files.length === 1 ? files[0].name : `${files.length} files`;
  return `${when} ${what}`.slice(0, 200);
}
