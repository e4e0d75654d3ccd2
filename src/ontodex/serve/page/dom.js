// Every text of documents, ontologies and files may be hostile. It enters the page here alone, as
// text nodes and attributes of elements that this code names; nothing is ever parsed as HTML.

export const byId = (id) => document.getElementById(id);

// An element; children are elements or strings, and strings become text.
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

// The name of a concept that one can press.
export const chip = (name, attributes) =>
  button({ class: "chip", dir: "auto", ...attributes }, name);

export function fillSelect(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

// Many calls in a row become one, `wait` milliseconds after the last.
export function settled(action, wait) {
  let timer = 0;
  return (...words) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...words), wait);
  };
}

export const percent = (probability) => `${Math.round(probability * 100)} %`;

// What is said in the status line is also read out; problems interrupt.
export function say(text) {
  byId("status").textContent = text;
}

export function complain(problem) {
  const alert = byId("alert");
  alert.replaceChildren(
    problem.hint ? `${problem.message} (${problem.hint})` : problem.message,
    button({ class: "plain", click: calm }, "Dismiss"),
  );
  alert.hidden = false;
}

export function calm() {
  byId("alert").hidden = true;
}
