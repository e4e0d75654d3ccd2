// The tree of suggestions, each at its place in the ontology, for keys and screen readers.

import { button, chip, element, percent } from "./dom.js";
import { explainProbability } from "./meaning.js";
import { t } from "./texts.js";

const ACCEPTED = new Set(["accept", "add"]);

const listNames = (concepts) => concepts.map(({ name }) => name).join(", ");

// More specific concepts are compared by standalone probability. If a row shows another probability
// than that, theirs are not shown: the numbers could not be compared.
const isBoosted = ({ probability, standalone_probability }) =>
  percent(standalone_probability) !== percent(probability);

const describeClose = (row) => `${t(isBoosted(row) ? "close-standalone" : "close-by")}: `;

const listClose = (row) =>
  row.more_specific.map(({ name, standalone_probability }) =>
    isBoosted(row) ? name : `${name} ${percent(standalone_probability)}`,
  );

// Build nodes {label, names, row, children, best} from rows (suggestions with a path from the root).
// A concept that is no suggestion and has a single branch shares a line with the next one.
export function buildTree(rows) {
  const top = { below: new Map() };
  for (const row of rows) {
    const path = row.path.length ? row.path : [{ label: row.label, name: row.name }];
    let node = top;
    for (const { label, name } of path) {
      if (!node.below.has(label)) {
        node.below.set(label, { label, names: [name], row: null, below: new Map() });
      }
      node = node.below.get(label);
    }
    node.row = row;
  }
  return mergeChains(top).children;
}

function mergeChains(node) {
  const children = [...node.below.values()].map(mergeChains);
  if (children.length === 1 && node.names && !node.row && !children[0].row) {
    return { ...children[0], names: [...node.names, ...children[0].names] };
  }
  children.sort((one, other) => other.best - one.best || (one.names[0] < other.names[0] ? -1 : 1));
  const best = Math.max(node.row?.probability ?? 0, ...children.map((child) => child.best));
  return { label: node.label, names: node.names, row: node.row ?? null, children, best };
}

// Build nodes of a flat list, by falling probability; concepts that were added come last.
export function buildList(rows) {
  return [...rows]
    .sort((one, other) => other.probability - one.probability)
    .map((row) => ({ label: row.label, names: [row.name], row, children: [], isFlat: true }));
}

export class Tree {
  #list;
  #nodes = new Map(); // item -> node
  #folded = new Set(); // labels of folded groups
  #handlers;

  // `handlers` has move(node), decide(row, verdict, {toggle}) and peek(node or null, under the mouse).
  // decide() may also get a more specific concept of a row.
  constructor(list, handlers) {
    this.#list = list;
    this.#handlers = handlers;
    list.addEventListener("click", (event) => this.#handleClick(event));
    list.addEventListener("keydown", (event) => this.#handleKey(event));
    list.addEventListener("focusin", ({ target }) => {
      if (this.#nodes.has(target)) this.#mark(target);
    });
    list.addEventListener("pointerover", ({ target, pointerType }) => {
      if (pointerType === "mouse") handlers.peek(this.#nodes.get(target.closest(".row")?.parentNode));
    });
    list.addEventListener("pointerleave", () => handlers.peek(null));
  }

  // Show the rows with the cursor on `label`, else on the best undecided suggestion.
  show(rows, label, arrangement) {
    const hadFocus = this.#list.contains(document.activeElement);
    this.#nodes.clear();
    const nodes = arrangement === "list" ? buildList(rows) : buildTree(rows);
    const items = nodes.map((node) => this.#item(node, 1));
    this.#list.replaceChildren(...items);
    const suggestions = this.#suggestions();
    const undecided = suggestions.filter((item) => !this.#nodes.get(item).row.verdict);
    const best = (undecided.length ? undecided : suggestions).reduce(
      (one, item) =>
        one && this.#nodes.get(one).row.probability >= this.#nodes.get(item).row.probability
          ? one
          : item,
      null,
    );
    const item = this.#find(label) ?? best;
    if (item) this.#mark(item);
    if (item && hadFocus) item.focus({ preventScroll: true });
  }

  get current() {
    return this.#nodes.get(this.#marked()) ?? null;
  }

  focus(options) {
    this.#marked()?.focus(options);
  }

  goTo(label) {
    const item = this.#find(label);
    const folded = '[aria-expanded="false"]';
    for (let up = item?.parentNode.closest(folded); up; up = up.closest(folded))
      this.#fold(up, false);
    item?.focus();
  }

  // Go to the next (or, with -1, previous) suggestion; groups are skipped.
  step(by) {
    const items = this.#visible();
    for (let at = items.indexOf(this.#marked()) + by; at >= 0 && at < items.length; at += by) {
      if (this.#nodes.get(items[at]).row) return items[at].focus();
    }
  }

  #item(node, level) {
    const shown =
      node.names.length > 3 ? [node.names[0], "…", ...node.names.slice(-1)] : node.names;
    const steps = shown.flatMap((text, at) => [at ? " › " : "", element("bdi", {}, text)]);
    const name = element(
      "span",
      { class: "name", title: node.row ? null : node.names.join(" › ") },
      ...steps.filter(Boolean),
    );
    const line = element(
      "div",
      { class: "row" },
      element("span", { class: "fold", "aria-hidden": "true" }),
      name,
    );
    const item = element("li", { role: "treeitem", tabindex: "-1", "aria-level": level }, line);
    item.className = node.row ? "suggestion" : "group";
    this.#nodes.set(item, node); // before its children: the map keeps the order of the page
    if (node.row) {
      line.append(...this.#controls(node.row));
      item.append(...this.#notes(node));
    }
    if (node.children.length) {
      const below = node.children.map((child) => this.#item(child, level + 1));
      item.append(element("ul", { role: "group" }, ...below));
      item.setAttribute("aria-expanded", !this.#folded.has(node.label));
    }
    this.#paint(item, node);
    return item;
  }

  #controls(row) {
    const bar = element("span", { class: "bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", row.probability);
    const decision = (verdict, sign, word) =>
      button(
        {
          tabindex: "-1",
          class: verdict,
          "data-verdict": verdict,
          "aria-label": `${word} ${row.name}`,
          title: word,
        },
        sign,
      );
    return [
      element(
        "span",
        {
          class: "percent",
          "aria-hidden": "true",
          title: row.suggested ? explainProbability(row.probability) : null,
        },
        row.suggested ? percent(row.probability) : t("added"),
      ),
      bar,
      element(
        "span",
        { class: "verdicts" },
        decision("accept", "✓", t("accept")),
        decision("reject", "✕", t("reject")),
      ),
    ];
  }

  // Make the lines below a concept: its other parents, and close concepts that are more specific.
  #notes({ row, isFlat }) {
    const note = (...words) => element("p", { class: "note quiet small" }, ...words);
    const parents = row.other_parents.flatMap(({ name }, at) => [
      at ? ", " : "",
      element("bdi", {}, name),
    ]);
    const names = listClose(row);
    const near = row.more_specific.map((each, at) =>
      chip(`✓ ${names[at]}`, {
        tabindex: "-1",
        "data-label": each.label,
        "aria-label": t("accept-more-specific", { name: each.name }),
        title: t("accept"),
      }),
    );
    const key = element("kbd", { "aria-hidden": "true" }, "m"); // the key accepts the first of them
    const above = isFlat ? row.path.slice(0, -1).map(({ name }) => name).join(" › ") : "";
    return [
      above ? element("p", { class: "note quiet small path", dir: "auto" }, above) : null,
      parents.length ? note(`${t("also-below")} `, ...parents) : null,
      near.length ? note(describeClose(row), ...near, key) : null,
    ].filter(Boolean);
  }

  #paint(item, { row, names }) {
    if (!row) return item.setAttribute("aria-label", names.join(", "));
    const words = [row.name];
    if (row.suggested) words.push(percent(row.probability));
    if (row.in_label_set) words.push(t("predicted"));
    if (row.verdict) words.push(t(`is-${row.verdict}`));
    if (row.other_parents.length) words.push(`${t("also-below")} ${listNames(row.other_parents)}`);
    if (row.more_specific.length)
      words.push(describeClose(row) + listClose(row).join(", "));
    item.setAttribute("aria-label", words.join(", "));
    item.classList.toggle("added", !row.suggested);
    item.classList.toggle("predicted", Boolean(row.in_label_set));
    item.classList.toggle("accepted", ACCEPTED.has(row.verdict));
    item.classList.toggle("rejected", row.verdict === "reject");
    for (const button of item.querySelectorAll(":scope > .row button")) {
      const pressed =
        button.dataset.verdict === "reject" ? row.verdict === "reject" : ACCEPTED.has(row.verdict);
      button.setAttribute("aria-pressed", pressed);
    }
  }

  #mark(item) {
    if (item.tabIndex === 0) return;
    for (const other of this.#nodes.keys()) {
      other.tabIndex = other === item ? 0 : -1;
      other.setAttribute("aria-selected", other === item);
    }
    if (item === document.activeElement) item.firstChild.scrollIntoView({ block: "nearest" });
    this.#handlers.move(this.#nodes.get(item));
  }

  #marked() {
    return this.#list.querySelector('[role="treeitem"][tabindex="0"]');
  }

  #visible() {
    return [...this.#nodes.keys()].filter(
      (item) => !item.parentNode.closest('[aria-expanded="false"]'),
    );
  }

  #suggestions() {
    return [...this.#nodes.keys()].filter((item) => this.#nodes.get(item).row);
  }

  #find(label) {
    return this.#suggestions().find((item) => this.#nodes.get(item).label === label);
  }

  #fold(item, folded) {
    const { label } = this.#nodes.get(item);
    item.setAttribute("aria-expanded", !folded);
    if (folded) this.#folded.add(label);
    else this.#folded.delete(label);
  }

  #handleClick({ target }) {
    const item = target.closest('[role="treeitem"]');
    if (!item) return;
    const { row } = this.#nodes.get(item);
    const { verdict, label } = target.closest("button")?.dataset ?? {};
    item.focus();
    if (verdict) this.#handlers.decide(row, verdict, { toggle: true });
    else if (label !== undefined)
      this.#handlers.decide(
        row.more_specific.find((each) => each.label === label),
        "accept",
      );
    else if (target.closest(".fold") || !row)
      this.#fold(item, item.getAttribute("aria-expanded") === "true");
  }

  // Keys of the tree pattern of the ARIA practices: arrows move and fold, Enter acts.
  #handleKey(event) {
    const item = event.target;
    if (!this.#nodes.has(item) || event.ctrlKey || event.metaKey || event.altKey) return;
    const items = this.#visible();
    const at = items.indexOf(item);
    const open = item.getAttribute("aria-expanded");
    const moves = {
      ArrowDown: () => items[at + 1]?.focus(),
      ArrowUp: () => items[at - 1]?.focus(),
      Home: () => items[0].focus(),
      End: () => items.at(-1).focus(),
      ArrowRight: () =>
        open === "false" ? this.#fold(item, false) : open && items[at + 1].focus(),
      ArrowLeft: () =>
        open === "true"
          ? this.#fold(item, true)
          : item.parentNode.closest('[role="treeitem"]')?.focus(),
      Enter: () => {
        const { row } = this.#nodes.get(item);
        if (row) this.#handlers.decide(row, "accept", { toggle: false });
        else this.#fold(item, open === "true");
      },
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  }
}
