// Texts of documents, ontologies and files may be hostile. They enter the page only here, as text
// nodes and attributes of elements that this code names; nothing is ever parsed as HTML.

import { t } from "./texts.js";

export const byId = (id) => document.getElementById(id);

// Make an element; children are elements or strings, and strings become text.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      made.setAttribute(name, value);
    }
  }
  made.append(...children.filter((child) => child !== null && child !== ""));
  return made;
}

export const button = (attributes, ...children) =>
  element("button", { type: "button", ...attributes }, ...children);

// Make a button with the name of a concept.
export const chip = (name, attributes) =>
  button({ class: "chip", dir: "auto", ...attributes }, name);

export function fillSelect(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

// Return a function that calls `action` once, `wait` milliseconds after its last call.
export function debounce(action, wait) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), wait);
  };
}

export const percent = (probability) => `${Math.round(probability * 100)} %`;

// Show a text in the status line; screen readers read it aloud.
export function announce(text) {
  byId("status").textContent = text;
}

export function showProblem(problem) {
  const alert = byId("alert");
  alert.replaceChildren(
    problem.hint ? `${problem.message} (${problem.hint})` : problem.message,
    button({ class: "plain", click: hideProblem }, t("dismiss")),
  );
  alert.hidden = false;
}

export function hideProblem() {
  byId("alert").hidden = true;
}

export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = element("textarea", { class: "hidden" }); // a page without HTTPS has no clipboard
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
