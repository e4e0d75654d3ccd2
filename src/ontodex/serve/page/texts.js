// Texts of the page, from one table (texts.tsv) with a column for each language.
// "{n} open" has a place for a value; "one document|{n} documents" is chosen by the value n.

export const INTERFACES = { en: "English", de: "Deutsch", fi: "Suomi", fr: "Français" };

export let language = "en";
let texts = new Map();

export async function loadTexts(wanted) {
  const preferred = [wanted, ...navigator.languages.map((tag) => tag.slice(0, 2)), "en"];
  language = preferred.find((tag) => tag in INTERFACES);
  const table = await (await fetch("/page/texts.tsv")).text();
  const [head, ...rows] = table.trim().split("\n").map((line) => line.split("\t"));
  const column = head.indexOf(language);
  texts = new Map(rows.map((row) => [row[0], row[column]]));
  document.documentElement.lang = language;
  for (const each of document.querySelectorAll("[data-text]")) each.textContent = t(each.dataset.text);
  for (const [attribute, name] of [["label", "aria-label"], ["placeholder", "placeholder"]]) {
    for (const each of document.querySelectorAll(`[data-${attribute}]`))
      each.setAttribute(name, t(each.dataset[attribute]));
  }
}

// Return a text with its values; numbers are written as the language writes them.
export const t = (key, values = {}) => fill(key, values).join("");

// Return a text in parts: values may be elements.
export function fill(key, values = {}) {
  const forms = (texts.get(key) ?? key).split("|");
  const isOne = forms.length > 1 && new Intl.PluralRules(language).select(values.n) === "one";
  return (isOne ? forms[0] : forms.at(-1)).split(/\{(\w+)\}/).map((part, at) => {
    if (at % 2 === 0) return part;
    const value = values[part] ?? "";
    return typeof value === "number" ? formatNumber(value) : value;
  });
}

export const formatNumber = (value) => value.toLocaleString(language);

// Return the name of a language: "Finnish", not "fi".
export function nameLanguage(tag) {
  if (tag === "und") return t("no-language");
  try {
    return new Intl.DisplayNames([language], { type: "language" }).of(tag);
  } catch (error) {
    if (error instanceof RangeError) return tag; // not a language tag
    throw error;
  }
}
