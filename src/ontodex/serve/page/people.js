// Decisions of several people about one document, side by side, with their agreement.

import { get } from "./api.js";
import { byId, element, percent } from "./dom.js";
import { remember, session } from "./session.js";
import { t } from "./texts.js";
import { isMine, nameConcept, work } from "./work.js";

const box = byId("people");
const SIGNS = { accept: "✓", add: "+", reject: "✕" };

export function startPeople(onChange) {
  byId("own-only").checked = session.ownOnly;
  byId("own-only").addEventListener("change", ({ target }) => {
    remember("ownOnly", target.checked);
    onChange();
  });
}

// Read who decided what. A service without keys has one user only.
export async function loadPeople() {
  work.people = [];
  work.pairs = [];
  if (session.me.authentication === "loopback") return;
  const { number } = work.document;
  const { people, pairs } = await get(`/documents/${number}/people`);
  if (work.document?.number === number) Object.assign(work, { people, pairs });
}

export function showPeople() {
  const others = work.people.filter((each) => !isMine(each));
  box.hidden = !others.length;
  if (!others.length) return;
  const mine = work.pairs.filter(({ users }) => users.includes(session.me.name));
  byId("agreement").textContent = session.ownOnly
    ? ""
    : mine
        .map(({ users, agreement }) => {
          const name = users.find((user) => user !== session.me.name);
          return t("agreement-with", { name, share: percent(agreement) });
        })
        .join(" · ");
  box.querySelector(".wide").hidden = session.ownOnly;
  box.querySelector(".wide").replaceChildren(...(session.ownOnly ? [] : [makeTable()]));
}

function makeTable() {
  const labels = new Map();
  for (const { verdicts } of work.people)
    for (const { label, name } of verdicts) labels.set(label, nameConcept(label, name));
  const sorted = [...labels].sort(([, one], [, other]) => (one < other ? -1 : 1));
  const head = work.people.map(({ user }) => element("th", { scope: "col", dir: "auto" }, user));
  const rows = sorted.map(([label, name]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row", dir: "auto" }, name),
      ...work.people.map(({ verdicts }) => showVerdict(verdicts.find((each) => each.label === label))),
    ),
  );
  return element(
    "table",
    { class: "small" },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, t("concept")), ...head)),
    element("tbody", {}, ...rows),
  );
}

function showVerdict(found) {
  if (!found) return element("td", { class: "quiet" }, element("span", { "aria-label": t("undecided"), role: "img" }, "–"));
  const { verdict } = found;
  return element(
    "td",
    { class: verdict === "reject" ? "verdict-reject" : "verdict-accept" },
    element("span", { role: "img", "aria-label": t(`is-${verdict}`), title: t(`is-${verdict}`) }, SIGNS[verdict]),
  );
}
