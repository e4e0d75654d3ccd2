// Search for a concept to add: a combobox as in the ARIA practices.

import { get } from "./api.js";
import { byId, showProblem, element, debounce } from "./dom.js";
import { session } from "./session.js";
import { t } from "./texts.js";

const input = byId("search");
const list = byId("hits");
let hits = [];
let at = -1;
let request = new AbortController();

// Start the search field: it calls `choose(hit)` when a hit is picked, and `leave()` on Escape.
export function startSearch({ choose, leave }) {
  const pick = (hit) => {
    clear();
    input.value = "";
    choose(hit);
  };
  input.addEventListener("input", debounce(find, 120));
  input.addEventListener("blur", clear);
  input.addEventListener("focus", () => input.value && find());
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault(); // keeps the focus in the input, so that the list stays open for the click
    const option = event.target.closest("[role=option]");
    if (option) pick(hits[[...list.children].indexOf(option)]);
  });
  input.addEventListener("keydown", (event) => {
    const moves = {
      ArrowDown: () => mark((at + 1) % hits.length),
      ArrowUp: () => mark((at - 1 + hits.length) % hits.length),
      Enter: () => hits[at] && pick(hits[at]),
      Escape: () => (input.value ? ((input.value = ""), clear()) : leave()),
    };
    if (!moves[event.key] || (event.key.startsWith("Arrow") && !hits.length)) return;
    event.preventDefault();
    moves[event.key]();
  });
}

async function find() {
  request.abort();
  request = new AbortController();
  const q = input.value.trim();
  if (!q) return clear();
  const query = { q, run: session.run, language: session.language, limit: 8 };
  try {
    const found = await get("/ontology/search", query, request.signal);
    if (document.activeElement === input) show(found.hits);
  } catch (error) {
    if (error.name !== "AbortError") showProblem(error);
  }
}

function show(found) {
  hits = found;
  const none = element(
    "li",
    { class: "quiet none", role: "option", "aria-disabled": "true" },
    t("no-hits"),
  );
  list.replaceChildren(...(hits.length ? hits.map(option) : [none]));
  list.hidden = false;
  input.setAttribute("aria-expanded", "true");
  mark(hits.length ? 0 : -1);
}

function option(hit, number) {
  const by =
    hit.text !== hit.name && hit.kind !== "id"
      ? element("span", { class: "quiet" }, " ← ", element("bdi", {}, hit.text))
      : null;
  const above = hit.path
    .slice(0, -1)
    .map(({ name }) => name)
    .join(" › ");
  return element(
    "li",
    { role: "option", id: `hit-${number}` },
    element("div", {}, element("bdi", {}, hit.name), by),
    above ? element("div", { class: "quiet small path", dir: "auto" }, above) : null,
  );
}

function mark(number) {
  at = number;
  [...list.children].forEach((each, index) => each.setAttribute("aria-selected", index === at));
  list.children[at]?.scrollIntoView({ block: "nearest" });
  if (at < 0) input.removeAttribute("aria-activedescendant");
  else input.setAttribute("aria-activedescendant", `hit-${at}`);
}

function clear() {
  request.abort();
  hits = [];
  list.hidden = true;
  list.replaceChildren();
  input.setAttribute("aria-expanded", "false");
  mark(-1);
}
