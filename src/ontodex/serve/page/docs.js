// The API, as its OpenAPI description has it. A GET without parameters can be tried here.

import { button, byId, element } from "./dom.js";

const METHODS = ["get", "post", "put", "delete"];
let schemas = {};

async function start() {
  const answer = await fetch("/openapi.json");
  if (!answer.ok) {
    byId("api-about").textContent = "This service needs a key: sign in on the page first.";
    return;
  }
  const { info, paths, components } = await answer.json();
  schemas = components.schemas;
  byId("api-about").textContent = `${info.description} Version ${info.version}.`;
  const tags = new Map();
  for (const [path, methods] of Object.entries(paths)) {
    for (const method of METHODS.filter((name) => methods[name])) {
      const route = methods[method];
      const tag = route.tags?.[0] ?? "other";
      tags.set(tag, [...(tags.get(tag) ?? []), showRoute(method, path, route)]);
    }
  }
  byId("api-routes").replaceChildren(
    ...[...tags].flatMap(([tag, routes]) => [element("h3", {}, tag), ...routes]),
  );
  byId("api-filter").addEventListener("input", ({ target }) => filter(target.value.toLowerCase()));
}

function filter(text) {
  for (const route of document.querySelectorAll("#api-routes details"))
    route.hidden = !route.textContent.toLowerCase().includes(text);
}

function showRoute(method, path, { description = "", summary, parameters = [], requestBody, responses }) {
  const body = Object.values(requestBody?.content ?? {})[0]?.schema;
  const [code, success] = Object.entries(responses).find(([status]) => status.startsWith("2")) ?? [];
  const result = Object.values(success?.content ?? {})[0]?.schema;
  const canTry = method === "get" && !path.includes("{") && !parameters.some(({ required }) => required);
  return element(
    "details",
    { class: "route" },
    element(
      "summary",
      {},
      element("code", { class: `method ${method}` }, method.toUpperCase()),
      " ",
      element("code", {}, path),
      element("span", { class: "quiet" }, ` ${description.split("\n\n")[0] || summary}`),
    ),
    description.includes("\n\n") ? element("p", {}, description) : null,
    parameters.length ? listParameters(parameters) : null,
    body ? element("h4", {}, "Body") : null,
    body ? element("pre", { tabindex: "0" }, describe(body)) : null,
    result ? element("h4", {}, `Answer ${code}`) : null,
    result ? element("pre", { tabindex: "0" }, describe(result)) : null,
    canTry ? makeTry(path) : null,
  );
}

function listParameters(parameters) {
  const rows = parameters.map(({ name, in: place, required, schema }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, element("code", {}, name)),
      element("td", {}, place),
      element("td", {}, describe(schema)),
      element("td", { class: "quiet" }, required ? "required" : ""),
    ),
  );
  return element("table", { class: "small" }, element("tbody", {}, ...rows));
}

function makeTry(path) {
  const output = element("pre", { tabindex: "0", hidden: true });
  const send = async () => {
    const answer = await fetch(path);
    const text = await answer.text();
    output.textContent = `${answer.status}\n${indent(text).slice(0, 20_000)}`;
    output.hidden = false;
  };
  return element("div", {}, button({ click: send }, `GET ${path}`), output);
}

function indent(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch (error) {
    if (error instanceof SyntaxError) return text; // not JSON
    throw error;
  }
}

// Write a schema as an example of its JSON, with types in place of values.
function describe(schema, depth = 0) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    return depth > 3 ? name : describe(schemas[name], depth);
  }
  if (schema.anyOf) return schema.anyOf.map((each) => describe(each, depth)).filter(Boolean).join(" | ");
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return `[${describe(schema.items ?? {}, depth)}]`;
  if (schema.type === "object" && schema.properties) {
    const required = new Set(schema.required ?? []);
    const space = "  ".repeat(depth + 1);
    const lines = Object.entries(schema.properties).map(
      ([name, value]) => `${space}${name}${required.has(name) ? "" : "?"}: ${describe(value, depth + 1)}`,
    );
    return `{\n${lines.join("\n")}\n${"  ".repeat(depth)}}`;
  }
  return schema.type ?? (schema.required ? "" : "any");
}

start();
