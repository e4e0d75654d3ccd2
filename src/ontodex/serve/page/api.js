// Calls of the REST API of docs/reference/rest.md: they return JSON or throw a Problem.

import { byId } from "./dom.js";
import { t } from "./texts.js";

const TRIES = 4;

// An error answer of the service; `status` is 0 when it could not be reached.
export class Problem extends Error {
  constructor(status, { title, detail, hint, errors } = {}) {
    const places = (errors ?? []).map(({ location, message }) => `${location}: ${message}`);
    super([detail ?? title ?? t("answered", { status: String(status) }), ...places].join("; "));
    this.status = status;
    this.hint = hint;
    this.places = places;
  }
}

// Send a request. A `repeatable` one may be sent twice, so it is repeated after a broken connection.
export async function call(method, path, { query, body, signal, repeatable } = {}) {
  const again = repeatable ?? method === "GET";
  for (let left = TRIES; ; left -= 1) {
    const answer = await send(method, path + makeQuery(query), body, signal);
    if (answer?.ok) return answer.status === 204 ? null : await answer.json();
    if (answer?.status === 401) {
      await signIn();
    } else if (again && left > 1 && (!answer || answer.status === 429 || answer.status === 503)) {
      await pause(Math.min(Number(answer?.headers.get("retry-after")) || 1, 5));
    } else {
      throw await readProblem(answer);
    }
  }
}

export const get = (path, query, signal) => call("GET", path, { query, signal });

async function send(method, path, body, signal) {
  const headers = body && !(body instanceof FormData) ? { "content-type": "application/json" } : {};
  const sent = body && !(body instanceof FormData) ? JSON.stringify(body) : body;
  try {
    return await fetch(path, { method, headers, body: sent, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return null; // no connection
  }
}

async function readProblem(answer) {
  if (!answer) {
    return new Problem(0, { detail: t("no-answer"), hint: t("no-answer-hint") });
  }
  const isProblem = answer.headers.get("content-type")?.startsWith("application/problem+json");
  return new Problem(answer.status, isProblem ? await answer.json() : {});
}

function makeQuery(query = {}) {
  const entries = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  return entries.length ? `?${new URLSearchParams(entries)}` : "";
}

const pause = (seconds) => new Promise((wake) => setTimeout(wake, seconds * 1000));

let signingIn = null;

// Ask for a key; resolves when one was accepted. Calls with a 401 share one dialog.
function signIn() {
  signingIn ??= new Promise((done) => {
    const dialog = byId("sign-in");
    const form = dialog.querySelector("form");
    const key = byId("sign-in-key");
    const stay = (event) => event.preventDefault(); // Escape must not close it: nothing works without a key
    const submit = async (event) => {
      event.preventDefault();
      const answer = await send("POST", "/login", { key: key.value });
      key.value = "";
      if (!answer?.ok) {
        byId("sign-in-problem").textContent = (await readProblem(answer)).message;
        return;
      }
      byId("sign-in-problem").textContent = "";
      form.removeEventListener("submit", submit);
      dialog.removeEventListener("cancel", stay);
      dialog.close();
      signingIn = null;
      done();
    };
    form.addEventListener("submit", submit);
    dialog.addEventListener("cancel", stay);
    dialog.showModal();
  });
  return signingIn;
}

// Make the id that lets the service recognise a repeated decision. (randomUUID needs HTTPS.)
export function makeRequestId() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(36)).join(
    "",
  );
}
