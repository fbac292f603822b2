// Two branches side by side: what differs in variables and files, and what each showed last.

import { h, icon, replace } from "./dom.js";
import { t, size } from "./texts.js";
import { get, journal, path } from "./api.js";
import { CellView } from "./cell_view.js";

/** @typedef {import("./main.js").App} App */

/** How many of the newest cells of each branch are shown. */
const CELLS = 3;

/** @param {App} app @param {string} left @param {string} right */
export async function page(app, left, right) {
  app.title(t("compare.title"));
  app.main.className = "plain-page wide";
  const [first, second] = await Promise.all([load(left), load(right)]);
  replace(app.main, h("div", { class: "page-head" }, h("h1", null, t("compare.title"))),
    h("div", { class: "pair" }, head(first), head(second)),
    h("h2", { class: "section" }, t("vars.title")), differences(first.variables, second.variables, (variable) => `${variable.type} · ${variable.summary}`, (variable) => variable.name),
    h("h2", { class: "section" }, t("files.title")), differences(first.files, second.files, (file) => size(file.bytes), (file) => file.path),
    h("h2", { class: "section" }, t("session.cells")),
    h("div", { class: "pair" }, cells(first), cells(second)));
  return {};
}

/** @param {string} id */
async function load(id) {
  const address = path("v1", "sessions", id);
  const [about, variables, files, history] = await Promise.all([
    get(address), get(`${address}/vars`), get(`${address}/files`), journal(address),
  ]);
  return { id, about, variables: variables.vars, files: files.files, cells: history.cells };
}

/** @param {Awaited<ReturnType<typeof load>>} branch */
const head = (branch) => h("a", { class: "card branch-head", href: `/sessions/${branch.id}` }, icon("fork"), h("strong", { class: "ellipsis" }, branch.about.title || branch.id));

/**
 * @param {any[]} left
 * @param {any[]} right
 * @param {(entry: any) => string} describe
 * @param {(entry: any) => string} nameOf
 */
function differences(left, right, describe, nameOf) {
  const names = [...new Set([...left, ...right].map(nameOf))].sort();
  const find = (/** @type {any[]} */ list, /** @type {string} */ name) => list.find((entry) => nameOf(entry) === name);
  const rows = names.map((name) => ({ name, left: find(left, name), right: find(right, name) }));
  const changed = rows.filter((row) => !row.left || !row.right || describe(row.left) !== describe(row.right));
  if (changed.length === 0) return h("p", { class: "muted" }, t("compare.no_difference"));
  return h("div", null, h("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": t("compare.differs") }, h("table", { class: "compare" }, h("tbody", null, changed.map((row) =>
    h("tr", null, h("th", { scope: "row", class: "mono" }, row.name), side(row.left), side(row.right)))))));

  /** @param {any} entry */
  function side(entry) {
    return h("td", { class: entry ? "mono" : "mono missing" }, entry ? describe(entry) : "–");
  }
}

/** @param {Awaited<ReturnType<typeof load>>} branch */
function cells(branch) {
  const kept = branch.cells.filter((/** @type {any} */ entry) => entry.fate === "kept").slice(-CELLS);
  return h("div", null, kept.map((/** @type {any} */ entry) =>
    new CellView({ number: entry.cell, code: entry.code, by: "", status: entry.result.status, isUndone: false, result: entry.result, restored: false }, { session: branch.id }).element));
}
