// The reference of the API: the file that the server describes itself with, as a page.

import { h, button, icon, replace } from "./dom.js";
import { t } from "./texts.js";
import { get } from "./api.js";
import { copy } from "./cell_view.js";

/**
 * @typedef {import("./main.js").App} App
 * @typedef {{ name: string, in: string, required?: boolean, description?: string }} Parameter
 * @typedef {{ summary: string, parameters: Parameter[], requestBody?: any, responses: Record<string, any>, security: any[] }} Operation
 * @typedef {{ method: string, address: string, group: string, operation: Operation }} Entry
 */

/** The colour of a method's badge. @type {Record<string, string>} */
const LOOKS = { get: "good", delete: "bad", post: "accent", put: "accent", patch: "accent" };

/** @param {App} app */
export async function page(app) {
  const description = await get("/v1/openapi.json");
  app.title(t("reference.title"));
  app.main.className = "plain-page";
  const entries = entriesOf(description.paths);
  const search = h("input", { class: "input", type: "search", placeholder: t("reference.search"), "aria-label": t("reference.search"), oninput: () => fill() });
  const count = h("span", { class: "small muted", role: "status" });
  const list = h("div", { class: "reference" });
  const fill = () => {
    const words = search.value.trim().toLowerCase();
    const found = entries.filter(({ method, address, operation }) => `${method} ${address} ${operation.summary}`.toLowerCase().includes(words));
    count.textContent = t("reference.count", { count: found.length });
    replace(list, [...new Set(found.map((entry) => entry.group))].map((group) => h("section", null, h("h2", { class: "section" }, group),
      h("ul", { class: "events" }, found.filter((entry) => entry.group === group).map((entry) => row(entry, description.components.schemas))))));
  };
  fill();
  replace(app.main, h("div", { class: "page-head" }, h("div", { class: "grow" }, h("h1", null, t("reference.title")), h("p", { class: "muted" }, t("reference.lead"))),
    h("a", { class: "button", href: "/v1/openapi.json", download: "openapi.json" }, icon("download"), "openapi.json")), h("div", { class: "row" }, h("div", { class: "grow" }, search), count), list);
  return {};
}

/** @param {Record<string, Record<string, Operation>>} paths @returns {Entry[]} */
function entriesOf(paths) {
  return Object.entries(paths).flatMap(([address, methods]) => Object.entries(methods).map(([method, operation]) => ({ method, address, operation, group: address.split("/").filter((part) => part !== "" && part !== "v1")[0] ?? "/" })))
    .sort((one, other) => one.group.localeCompare(other.group));
}

/** @param {Entry} entry @param {Record<string, any>} schemas */
function row({ method, address, operation }, schemas) {
  const body = h("div", { class: "reference-body" });
  const show = () => { if (!body.hasChildNodes()) replace(body, details(method, address, operation, schemas)); };
  return h("li", null, h("details", { ontoggle: show }, h("summary", null, h("span", { class: `badge ${LOOKS[method] ?? ""} reference-method` }, method.toUpperCase()), h("span", { class: "mono" }, address), h("span", { class: "muted" }, operation.summary)), body));
}

/** What one request takes and answers. @param {string} method @param {string} address @param {Operation} operation @param {Record<string, any>} schemas */
function details(method, address, operation, schemas) {
  const scopes = operation.security.flatMap((way) => way.token ?? []);
  const content = operation.requestBody?.content ?? {};
  const [kind] = Object.keys(content);
  const schema = kind ? resolved(content[kind].schema, schemas) : undefined;
  return [
    h("p", { class: "small muted" }, operation.security.length === 0 ? t("reference.anyone") : t("reference.scope", { scope: scopes.join(", ") })),
    command(method, address, kind),
    operation.parameters.length > 0 ? h("div", null, h("h3", null, t("reference.parameters")), h("ul", { class: "small" }, operation.parameters.map((parameter) => h("li", null, h("code", null, parameter.name), ` (${parameter.in}) `, parameter.description ?? "")))) : null,
    kind ? h("div", null, h("h3", null, `${t("reference.body")}: ${kind}`), operation.requestBody.description ? h("p", { class: "small" }, operation.requestBody.description) : null, schema ? h("pre", { class: "code", tabindex: "0" }, JSON.stringify(schema, null, 2)) : null) : null,
    h("div", null, h("h3", null, t("reference.answers")), h("ul", { class: "small" }, Object.entries(operation.responses).map(([status, answer]) => h("li", null, h("code", null, status), ` ${answer.description}`)))),
  ];
}

/** The request as a command, to be copied. @param {string} method @param {string} address @param {string | undefined} kind */
function command(method, address, kind) {
  const data = kind === "application/json" ? " -H 'Content-Type: application/json' -d '{}'" : "";
  const text = `curl -X ${method.toUpperCase()} -H "Authorization: Bearer $TOKEN"${data} '${location.origin}${address}'`;
  return h("div", { class: "row reference-command" }, h("pre", { class: "code grow", tabindex: "0" }, text), button({ icon: "copy", label: t("app.copy"), isIconOnly: true, kind: "quiet", onclick: () => void copy(text) }));
}

/** A schema with its reference followed. @param {any} schema @param {Record<string, any>} schemas */
const resolved = (schema, schemas) => (schema?.$ref ? schemas[schema.$ref.split("/").pop()] : schema);
