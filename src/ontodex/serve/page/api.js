// The service as docs/reference/rest.md describes it: JSON in, JSON or a Problem out.

import { byId } from "./dom.js";

const TRIES = 4;

// What the service (or the lack of one) said: `status` is 0 when it could not be reached.
export class Problem extends Error {
  constructor(status, { title, detail, hint, errors } = {}) {
    const places = (errors ?? []).map(({ where, message }) => `${where}: ${message}`);
    super([detail ?? title ?? `the service answered ${status}`, ...places].join("; "));
    this.status = status;
    this.hint = hint;
    this.places = places;
  }
}

// `repeatable` says that sending twice does no harm: such a call survives a broken connection.
export async function call(method, path, { query, body, signal, repeatable } = {}) {
  const again = repeatable ?? method === "GET";
  for (let left = TRIES; ; left -= 1) {
    const answer = await send(method, path + queryString(query), body, signal);
    if (answer?.ok) return answer.status === 204 ? null : await answer.json();
    if (answer?.status === 401) {
      await signIn();
    } else if (again && left > 1 && (!answer || answer.status === 429 || answer.status === 503)) {
      await pause(Math.min(Number(answer?.headers.get("retry-after")) || 1, 5));
    } else {
      throw await problemOf(answer);
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

async function problemOf(answer) {
  if (!answer) {
    return new Problem(0, { detail: "the service does not answer", hint: "is it still running?" });
  }
  const isProblem = answer.headers.get("content-type")?.startsWith("application/problem+json");
  return new Problem(answer.status, isProblem ? await answer.json() : {});
}

function queryString(query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

const pause = (seconds) => new Promise((wake) => setTimeout(wake, seconds * 1000));

let signingIn = null;

// Ends when a key was accepted; calls that meet a 401 meanwhile wait for the same dialog.
function signIn() {
  signingIn ??= new Promise((done) => {
    const dialog = byId("sign-in");
    const form = dialog.querySelector("form");
    const key = byId("sign-in-key");
    const stay = (event) => event.preventDefault(); // Escape: nothing works without a key
    const submit = async (event) => {
      event.preventDefault();
      const answer = await send("POST", "/login", { key: key.value });
      key.value = "";
      if (!answer?.ok) {
        byId("sign-in-problem").textContent = (await problemOf(answer)).message;
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

// Sent with a decision; the same one twice is written once. (randomUUID wants HTTPS.)
export function requestId() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(36)).join(
    "",
  );
}
