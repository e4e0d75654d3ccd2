// What a probability means, from the evaluation of the run: of suggestions like this, how many were right.

import { get } from "./api.js";
import { byId, element, percent } from "./dom.js";
import { session } from "./session.js";
import { t } from "./texts.js";

const FEW = 20; // suggestions; the share of fewer is too uncertain to be shown

let bins = []; // {from, to, count, right}
let documents = 0;
const details = new Map(); // run -> promise of its details

export function getRun(run = session.run) {
  if (!details.has(run)) {
    const asked = get(`/runs/${encodeURIComponent(run)}`);
    asked.catch(() => details.delete(run));
    details.set(run, asked);
  }
  return details.get(run);
}

// Read the reliability of the current run, and explain it below the suggestions.
export async function loadMeaning() {
  const { run, metrics } = await getRun();
  if (run !== session.run) return;
  const { edges = [], count = [], true: right = [] } = metrics?.reliability ?? {};
  documents = metrics?.documents ?? 0;
  bins = count
    .map((each, at) => ({ from: edges[at], to: edges[at + 1], count: each, right: right[at] }))
    .filter((each) => each.count >= FEW);
  byId("meaning").lastElementChild.replaceChildren(...(bins.length ? describeBins() : [describeNone()]));
}

const findBin = (probability) =>
  bins.find(({ from, to }) => probability >= from && (probability < to || to === 1));

// Return the tooltip of a probability.
export function explainProbability(probability) {
  const found = findBin(probability);
  if (!found) return t("estimate", { share: percent(probability) });
  const { from, to, count, right } = found;
  return t("share-right", { n: count, from: percent(from), to: percent(to), share: percent(right) });
}

const describeNone = () => element("p", { class: "quiet small" }, t("not-evaluated"));

function describeBins() {
  const rows = bins.map(({ from, to, count, right }) => {
    const bar = element("span", { class: "bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", right);
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, t("from-to", { from: percent(from), to: percent(to) })),
      element("td", { class: "number" }, percent(right)),
      element("td", {}, bar),
      element("td", { class: "number quiet" }, count),
    );
  });
  const head = ["shown", "right", "", "suggestions-counted"].map((key) =>
    key ? element("th", { scope: "col" }, t(key)) : element("td"),
  );
  return [
    element("p", { class: "quiet small" }, t("meaning-hint", { n: documents })),
    element(
      "table",
      { class: "small" },
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...rows.reverse()),
    ),
    element("p", { class: "quiet small" }, t("bold-hint")),
  ];
}
