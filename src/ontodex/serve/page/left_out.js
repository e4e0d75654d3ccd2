// Groups of concepts that are not suggested: branches, concept schemes and types.

import { get } from "./api.js";
import { button, byId, element } from "./dom.js";
import { currentProject, remember, session } from "./session.js";
import { t } from "./texts.js";

const box = byId("left-out");
const NONE = { subtrees: [], schemes: [], types: [] };
const vocabularies = new Map(); // "run language" -> promise of {roots, schemes, types}
let changed = () => {};

export function startLeftOut(onChange) {
  changed = onChange;
}

const getLeftOut = () => ({ ...NONE, ...session.leftOut[currentProject()] });

// Return the fields of a request for suggestions.
export function makeExclusions() {
  const { subtrees, schemes, types } = getLeftOut();
  const made = {
    exclude_subtrees: subtrees.map(({ label }) => label),
    exclude_schemes: schemes,
    exclude_types: types,
  };
  return Object.fromEntries(Object.entries(made).filter(([, value]) => value.length));
}

function change(values) {
  const project = { ...getLeftOut(), ...values };
  remember("leftOut", { ...session.leftOut, [currentProject()]: project });
  changed();
}

export function leaveOutBranch({ label, name }) {
  const { subtrees } = getLeftOut();
  if (!subtrees.some((each) => each.label === label))
    change({ subtrees: [...subtrees, { label, name }] });
}

// Return the top concepts, schemes and types of the vocabulary; requested once.
export function loadVocabulary() {
  const { run, language } = session;
  const key = JSON.stringify([run, language]);
  if (!vocabularies.has(key)) {
    const asked = get("/ontology", { run, language, limit: 20 });
    asked.catch(() => vocabularies.delete(key));
    vocabularies.set(key, asked);
  }
  return vocabularies.get(key);
}

// Show what is left out, and the schemes and types of the vocabulary to choose from.
export async function showLeftOut() {
  const run = session.run;
  const { schemes, types } = await loadVocabulary();
  if (run !== session.run) return;
  const left = getLeftOut();
  const branches = left.subtrees.map(({ label, name }) =>
    button(
      {
        class: "chip",
        "aria-label": t("suggest-again", { name }),
        click: () => change({ subtrees: left.subtrees.filter((each) => each.label !== label) }),
      },
      element("bdi", {}, name),
      " ×",
    ),
  );
  const boxes = [
    ...schemes.map((each) => makeBox("schemes", each, left)),
    ...types.map((each) => makeBox("types", each, left)),
  ];
  const chooser = element(
    "details",
    {},
    element("summary", {}, t("leave-out-groups")),
    element("div", { class: "groups" }, ...boxes),
  );
  chooser.open = box.querySelector("details")?.open ?? false;
  box.replaceChildren(
    ...(branches.length ? [element("span", { class: "quiet" }, t("left-out")), ...branches] : []),
    ...(boxes.length ? [chooser] : []),
  );
  box.hidden = !branches.length && !boxes.length;
}

function makeBox(kind, { uri, name, n_concepts }, left) {
  const toggle = ({ target }) =>
    change({ [kind]: target.checked ? left[kind].filter((one) => one !== uri) : [...left[kind], uri] });
  const input = element("input", { type: "checkbox", change: toggle });
  input.checked = !left[kind].includes(uri);
  return element(
    "label",
    { class: "check" },
    input,
    element("bdi", { title: uri }, name),
    element("span", { class: "quiet" }, ` ${n_concepts}`),
  );
}
