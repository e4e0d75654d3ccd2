// What the views share: the runs, who is here, and the preferences that this browser keeps.

const KEPT = { run: "", language: "", batch: "", threshold: 0.1, keysOn: true };

export const session = { runs: [], me: null, ...KEPT, ...stored() };

function stored() {
  try {
    const kept = JSON.parse(localStorage.getItem("ontodex") ?? "{}");
    const known = Object.entries(kept).filter(
      ([name, value]) => typeof value === typeof KEPT[name],
    );
    return Object.fromEntries(known);
  } catch (error) {
    if (error instanceof SyntaxError) return {}; // written by somebody else
    throw error;
  }
}

export function remember(name, value) {
  session[name] = value;
  const kept = Object.keys(KEPT).map((key) => [key, session[key]]);
  localStorage.setItem("ontodex", JSON.stringify(Object.fromEntries(kept)));
}

export const runNow = () => session.runs.find(({ run }) => run === session.run);

// Where we are is in the address: #/document=17, or #/view=evaluation.
export const place = () =>
  Object.fromEntries(new URLSearchParams(location.hash.replace(/^#\/?/, "")));

export const addressOf = (where) => `#/${new URLSearchParams(where)}`;

// Ends when the page has heard of it.
export function go(where) {
  const heard = new Promise((done) => addEventListener("hashchange", done, { once: true }));
  const before = location.hash;
  location.hash = addressOf(where);
  return location.hash === before ? null : heard;
}
