// Decisions about the document at hand: accept, reject, add, undo. They reach the service in order.

import { call, get, makeRequestId } from "./api.js";
import { announce, showProblem } from "./dom.js";
import { session } from "./session.js";
import { t } from "./texts.js";
import { isMine, work } from "./work.js";

let writing = Promise.resolve();
let changed = async () => {}; // called after the decisions changed, with a label for the cursor

export function startDecisions(onChange) {
  changed = onChange;
}

export const waitForWriting = () => writing;

function inTurn(action) {
  writing = writing.then(action).catch(showProblem);
  return writing;
}

// Accept or reject; with `toggle`, the same verdict of the same user again undoes it.
export async function decide({ label, name }, verdict, { toggle = false } = {}) {
  if (!work.document) return;
  const standing = work.document.verdicts.find((each) => each.label === label);
  const own = standing && isMine(standing);
  const same = own && (verdict === "reject") === (standing.verdict === "reject");
  if (same) return toggle ? undo(standing) : undefined;
  if (own && standing.verdict === "add") return undo(standing); // rejecting an added concept undoes it
  const suggested = work.suggestions.some((each) => each.label === label);
  const key = verdict === "reject" ? "announce-rejected" : suggested ? "announce-accepted" : "announce-added";
  await write([{ label, verdict: verdict === "accept" && !suggested ? "add" : verdict }]);
  announce(t(key, { name }));
}

// Take an index term back: undo the user's own decision, or reject that of another person.
export function remove({ label, name }) {
  const standing = work.document?.verdicts.find((each) => each.label === label);
  if (!standing) return;
  return isMine(standing) ? undo(standing) : decide({ label, name }, "reject");
}

export function write(made) {
  const { number } = work.document;
  const decisions = made.map((each) => ({
    ...each,
    document: number,
    run: session.run,
    request_id: makeRequestId(),
  }));
  return inTurn(async () => {
    const answer = await call("POST", "/decisions", { body: { decisions }, repeatable: true });
    if (work.document?.number !== number) return;
    const labels = new Set(answer.decisions.map(({ label }) => label));
    work.document.verdicts = [
      ...work.document.verdicts.filter(({ label }) => !labels.has(label)),
      ...answer.decisions,
    ];
    await changed();
  });
}

export function undo({ id, label, name }) {
  const { number } = work.document;
  return inTurn(async () => {
    await call("POST", `/decisions/${id}/undo`).catch((error) => {
      if (error.status !== 409) throw error; // undone in another window
    });
    const { verdicts } = await get(`/documents/${number}`);
    if (work.document?.number !== number) return;
    work.document.verdicts = verdicts;
    await changed(label);
    announce(t("announce-undone", { name }));
  });
}

// Undo the user's own last decision about this document.
export function undoLast() {
  return inTurn(() => {
    const own = (work.document?.verdicts ?? []).filter(isMine);
    const last = own.reduce((one, each) => (one && one.id > each.id ? one : each), null);
    if (last) undo(last);
    else announce(t("nothing-to-undo"));
  });
}
