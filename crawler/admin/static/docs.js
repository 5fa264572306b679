// The API, described and tried out: a page made from its OpenAPI document. Nothing comes from elsewhere.

import { get, Problem, Refused, send, token } from "./api.js";
import { $, h, setText } from "./dom.js";

// An answer that never ends is not asked for here, and long ones are cut.
const ENDLESS = "/events";
const SHOWN = 200000;

let number = 0;
let schemas = {};

async function start() {
  try {
    const found = await get("/openapi.json");
    schemas = found.components.schemas;
    $("sign-in").hidden = true;
    $("docs").hidden = false;
    setText($("version"), `version ${found.info.version}`);
    show(found.paths);
  } catch (error) {
    if (error instanceof Refused) token.forget();
    $("sign-in").hidden = false;
    if (token.get() !== null || !(error instanceof Refused)) setText($("sign-in-error"), error.message);
    $("token").focus();
  }
}

$("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set($("token").value.trim());
  $("token").value = "";
  setText($("sign-in-error"), "The token is missing or wrong.");
  start();
});

$("document").addEventListener("click", async (event) => {
  event.preventDefault();
  const blob = new Blob([JSON.stringify(await get("/openapi.json"), null, 2)], { type: "application/json" });
  const link = h("a", { href: URL.createObjectURL(blob), download: "openapi.json" });
  link.click();
  URL.revokeObjectURL(link.href);
});

function show(paths) {
  const groups = new Map();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "other";
      groups.set(tag, [...(groups.get(tag) ?? []), details(method.toUpperCase(), path, operation)]);
    }
  }
  $("groups").replaceChildren(...[...groups].map(([tag, calls]) => h("section", { "aria-label": tag }, h("h2", {}, tag), ...calls)));
}

function details(method, path, operation) {
  const element = h("details", {}, h("summary", {}, h("span", { class: "method" }, method), h("code", {}, path), h("span", { class: "muted" }, (operation.description ?? "").split("\n")[0])));
  // Made when it is opened: there are many.
  element.addEventListener("toggle", () => element.children.length === 1 && element.append(form(method, path, operation)), { once: true });
  return element;
}

function form(method, path, operation) {
  const inputs = (operation.parameters ?? []).map((parameter) => [parameter, input(parameter.name, parameter.schema, parameter.required)]);
  const body = operation.requestBody?.content["application/json"];
  const text = body && h("textarea", { rows: 4, spellcheck: "false", id: `p${(number += 1)}` }, JSON.stringify(example(body.schema), null, 2));
  const answer = h("pre", { hidden: true, tabindex: "0", role: "region", "aria-label": "Answer", "aria-live": "polite" });
  const rows = inputs.map(([parameter, field]) =>
    h("div", { class: "parameter" }, h("label", { for: field.id, class: parameter.required ? "required" : "" }, parameter.name), field, h("span", { class: "muted" }, [parameter.description, kind(parameter.schema)].filter(Boolean).join(" · "))),
  );
  const fields = body ? [h("div", {}, h("label", { for: text.id }, "Body (JSON)"), text, h("span", { class: "muted" }, names(body.schema)))] : [];
  const call = async (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    let address = path;
    for (const [{ name, in: where }, field] of inputs) {
      if (where === "path") address = address.replace(`{${name}}`, encodeURIComponent(field.value));
      else if (field.value !== "") query.set(name, field.value);
    }
    setText(answer, "…");
    answer.hidden = false;
    setText(answer, await answerOf(method, query.size ? `${address}?${query}` : address, text?.value));
  };
  const about = operation.description ?? "";
  const end = path === ENDLESS ? h("p", { class: "muted" }, "Its answer never ends: read it with fetch() or curl.") : h("button", { class: "primary", type: "submit" }, "Send");
  return h("form", { class: "call", onsubmit: call }, h("p", {}, about), ...rows, ...fields, end, answer);
}

async function answerOf(method, path, body) {
  try {
    const response = await send(method, path, body);
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json");
    const shown = (isJson ? JSON.stringify(JSON.parse(text), null, 2) : text).slice(0, SHOWN);
    return `${method} ${path}\n${response.status} ${response.statusText}\n\n${shown}`;
  } catch (error) {
    return error instanceof Problem ? error.message : String(error);
  }
}

function input(name, schema, required) {
  const id = `p${(number += 1)}`;
  const choices = resolved(schema).enum ?? schema?.anyOf?.map(resolved).find((one) => one.enum)?.enum;
  const first = schema?.default ?? "";
  if (choices) return h("select", { id }, ...["", ...choices.filter(Boolean)].map((one) => h("option", { value: one, selected: one === first }, one)));
  return h("input", { id, value: first === null ? "" : first, required: Boolean(required), autocomplete: "off", spellcheck: "false" });
}

const resolved = (schema) => (schema?.$ref ? (schemas[schema.$ref.split("/").at(-1)] ?? {}) : (schema ?? {}));

// The type of a parameter in a few words, with its limits.
function kind(schema) {
  const one = resolved(schema);
  if (one.anyOf) return one.anyOf.map(kind).filter((each) => each !== "null").join(" or ");
  const limits = [one.minimum !== undefined && `from ${one.minimum}`, one.maximum !== undefined && `to ${one.maximum}`].filter(Boolean);
  return [one.format ?? one.type ?? "", ...limits].join(" ");
}

// The names of a body's fields, with their types.
function names(schema) {
  const one = resolved(schema);
  const parts = one.anyOf ? one.anyOf.map(resolved) : [one];
  const fields = parts.flatMap((part) => Object.entries(part.properties ?? {}));
  return fields.map(([name, field]) => `${name}: ${kind(field)}${field.description ? ` (${field.description})` : ""}`).join("; ");
}

function example(schema) {
  const one = resolved(schema);
  if (one.anyOf) return example(one.anyOf[0]);
  if (one.type === "array") return one.items?.type === "string" ? ["https://example.com/"] : [];
  return one.type === "string" ? "" : {};
}

start();
