// State that the views share: the runs, the user, and the preferences stored in this browser.

const DEFAULTS = {
  run: "",
  language: "", // of the concepts' names
  interface: "", // language of the page
  batch: "",
  order: "number",
  threshold: 0.1,
  keysOn: true,
  arrangement: "tree",
  conceptOpen: false,
  ownOnly: false,
  leftOut: {}, // project -> groups of concepts that are not suggested
};

export const session = { runs: [], me: null, ...DEFAULTS, ...readStored() };

function readStored() {
  try {
    const stored = JSON.parse(localStorage.getItem("ontodex") ?? "{}");
    const known = Object.entries(stored).filter(
      ([name, value]) => value !== null && typeof value === typeof DEFAULTS[name],
    );
    return Object.fromEntries(known);
  } catch (error) {
    if (error instanceof SyntaxError) return {}; // damaged, or not written by this page
    throw error;
  }
}

export function remember(name, value) {
  session[name] = value;
  const entries = Object.keys(DEFAULTS).map((key) => [key, session[key]]);
  localStorage.setItem("ontodex", JSON.stringify(Object.fromEntries(entries)));
}

export const currentRun = () => session.runs.find(({ run }) => run === session.run);

export const currentProject = () => currentRun().project;

// The address names the view and the document: #/document=17, or #/view=evaluation.
export const readAddress = () =>
  Object.fromEntries(new URLSearchParams(location.hash.replace(/^#\/?/, "")));

export const makeAddress = (where) => `#/${new URLSearchParams(where)}`;

// Change the address; resolves when the page has received the event.
export function go(where) {
  const changed = new Promise((done) => addEventListener("hashchange", done, { once: true }));
  const before = location.hash;
  location.hash = makeAddress(where);
  return location.hash === before ? null : changed;
}
