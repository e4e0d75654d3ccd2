// Files into the queue: each is a request of its own, a few go at a time, one progress for all.

import { call, Problem } from "./api.js";
import { byId, complain, say } from "./dom.js";
import { go } from "./session.js";

const AT_ONCE = 3;
const NAMED = 5; // refused files that are named
const bar = byId("uploading");
let wanted = 0; // files, of all uploads that are on their way
let ready = 0;

export async function upload(files) {
  if (!files.length) return;
  const batch = nameOfBatch(files);
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
    const { added, numbers, refused } = await call("POST", "/documents/upload", { body });
    return { added, numbers, refused: refused.map((each) => `${each.file}: ${each.problem}`) };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const refused = error.places.length ? error.places : [`${file.name}: ${error.message}`];
    return { added: 0, numbers: [], refused };
  }
}

function advance(more, done) {
  wanted += more;
  ready += done;
  bar.max = wanted;
  bar.value = ready;
  bar.hidden = ready === wanted;
  say(`Reading files: ${ready} of ${wanted} …`);
  if (ready === wanted) wanted = ready = 0;
}

async function report(answers) {
  const added = answers.reduce((sum, answer) => sum + answer.added, 0);
  const refused = answers.flatMap((answer) => answer.refused);
  say(added === 1 ? "One document taken in." : `${added} documents taken in.`);
  const first = answers.find(({ numbers }) => numbers.length);
  if (first) await go({ document: first.numbers[0] });
  if (!refused.length) return;
  const more = refused.length > NAMED ? `; and ${refused.length - NAMED} more files` : "";
  complain({ message: `Not taken in: ${refused.slice(0, NAMED).join("; ")}${more}` });
}

// When, and what: so that a batch is known by its name in the queue.
function nameOfBatch(files) {
  const when = new Date().toLocaleString("sv", { dateStyle: "short", timeStyle: "medium" });
  const what = files.length === 1 ? files[0].name : `${files.length} files`;
  return `${when} ${what}`.slice(0, 200);
}
