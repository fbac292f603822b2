// Two branches side by side: what differs in variables and files, and what each showed last.

import { h, icon, replace } from "./dom.js";
import { t, size } from "./texts.js";
import { fileAddress, get, journal, path } from "./api.js";
import { CellView } from "./cell_view.js";

/** @typedef {import("./main.js").App} App */
/** @typedef {Awaited<ReturnType<typeof load>>} Branch */

/** How many of the newest cells of each branch are shown. */
const CELLS = 3;
/** How many variables, and how many files, that seem to be the same are looked into. */
const MAX_LOOKS = 50;
/** The largest file that is looked into. */
const MAX_FILE_BYTES = 1_000_000;
/** How many letters are shown before the first one that differs. */
const AROUND = 20;

/** @param {App} app @param {string} left @param {string} right */
export async function page(app, left, right) {
  app.title(t("compare.title"));
  app.main.className = "plain-page wide";
  const [first, second] = await Promise.all([load(left), load(right)]);
  await Promise.all([
    lookInside(first.variables, second.variables, byName, describeVariable, (variable, other) => valuesApart(left, right, variable, other)),
    lookInside(first.files, second.files, byPath, describeFile, (file, other) => contentsApart(left, right, file, other)),
  ]);
  const names = [nameOf(first, second), nameOf(second, first)];
  replace(app.main, h("div", { class: "page-head" }, h("h1", null, t("compare.title"))),
    h("div", { class: "pair" }, head(first, names[0]), head(second, names[1])),
    h("h2", { class: "section" }, t("vars.title")), differences(names, first.variables, second.variables, describeVariable, byName),
    h("h2", { class: "section" }, t("files.title")), differences(names, first.files, second.files, describeFile, byPath),
    h("h2", { class: "section" }, t("session.cells")),
    h("div", { class: "pair" }, cells(first, names[0]), cells(second, names[1])));
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

/** @param {any} variable */
const byName = (variable) => variable.name;
/** @param {any} file */
const byPath = (file) => file.path;
/** @param {any} variable */
const describeVariable = (variable) => [`${variable.type} · ${variable.summary}`, variable.inside].filter(Boolean).join("\n");
/** @param {any} file */
const describeFile = (file) => file.inside ?? size(file.bytes);

/**
 * Looks inside of entries that seem to be the same, and notes in `inside` what is different there.
 * @param {any[]} left
 * @param {any[]} right
 * @param {(entry: any) => string} nameOf
 * @param {(entry: any) => string} describe
 * @param {(left: any, right: any) => Promise<[string, string] | null>} look
 */
async function lookInside(left, right, nameOf, describe, look) {
  const others = new Map(right.map((entry) => [nameOf(entry), entry]));
  const alike = left.filter((entry) => others.has(nameOf(entry)) && describe(entry) === describe(others.get(nameOf(entry))));
  await Promise.all(alike.slice(0, MAX_LOOKS).map(async (entry) => {
    const other = others.get(nameOf(entry));
    const apart = await look(entry, other).catch(() => null);
    if (apart) [entry.inside, other.inside] = apart;
  }));
}

/** The first parts that differ in the texts of two values. @param {string} left @param {string} right @param {any} variable @param {any} other @returns {Promise<[string, string] | null>} */
async function valuesApart(left, right, variable, other) {
  if (["module", "function", "type"].includes(variable.type)) return null;
  const texts = await Promise.all([[left, variable], [right, other]].map(async ([session, entry]) => {
    const about = await get(path("v1", "sessions", session, "vars", entry.name));
    // Addresses of objects say nothing.
    return String(about.repr).replace(/0x[0-9a-f]+/g, "0x…");
  }));
  if (texts[0] === texts[1]) return null;
  let at = 0;
  while (texts[0][at] === texts[1][at]) at += 1;
  const begin = Math.max(0, at - AROUND);
  const part = (/** @type {string} */ text) => `… ${text.slice(begin, begin + 2 * AROUND + 20).trim()} …`;
  return [part(texts[0]), part(texts[1])];
}

/** Whether two files of the same size hold other bytes. @param {string} left @param {string} right @param {any} file @param {any} other @returns {Promise<[string, string] | null>} */
async function contentsApart(left, right, file, other) {
  if (file.bytes > MAX_FILE_BYTES || file.modified === other.modified) return null;
  const [first, second] = await Promise.all([left, right].map(async (session) => new Uint8Array(await (await fetch(fileAddress(session, file.path))).arrayBuffer())));
  const isSame = first.length === second.length && first.every((byte, index) => byte === second[index]);
  const told = t("compare.contents", { size: size(file.bytes) });
  return isSame ? null : [told, told];
}

/** The title of a branch. A fork has the title of its original, so it is said which is which. @param {Branch} branch @param {Branch} other */
function nameOf(branch, other) {
  const title = branch.about.title || branch.id;
  if (title !== (other.about.title || other.id)) return title;
  const role = branch.about.parent === other.id ? t("compare.fork") : other.about.parent === branch.id ? t("compare.original") : branch.id;
  return `${title} · ${role}`;
}

/** @param {Branch} branch @param {string} name */
const head = (branch, name) => h("a", { class: "card branch-head", href: `/sessions/${branch.id}` }, icon("fork"), h("strong", { class: "ellipsis" }, name));

/**
 * @param {string[]} titles
 * @param {any[]} left
 * @param {any[]} right
 * @param {(entry: any) => string} describe
 * @param {(entry: any) => string} nameOf
 */
function differences(titles, left, right, describe, nameOf) {
  const names = [...new Set([...left, ...right].map(nameOf))].sort();
  const find = (/** @type {any[]} */ list, /** @type {string} */ name) => list.find((entry) => nameOf(entry) === name);
  const rows = names.map((name) => ({ name, left: find(left, name), right: find(right, name) }));
  const changed = rows.filter((row) => !row.left || !row.right || row.left.inside || describe(row.left) !== describe(row.right));
  if (changed.length === 0) return h("p", { class: "muted" }, t("compare.no_difference"));
  return h("div", null, h("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": t("compare.differs") }, h("table", { class: "compare" },
    h("thead", null, h("tr", null, h("td"), titles.map((title) => h("th", { scope: "col" }, title)))), h("tbody", null, changed.map((row) =>
    h("tr", null, h("th", { scope: "row", class: "mono" }, row.name), side(row.left), side(row.right)))))));

  /** @param {any} entry */
  function side(entry) {
    return h("td", { class: entry ? "mono" : "mono missing" }, entry ? describe(entry) : "–");
  }
}

/** @param {Branch} branch @param {string} name */
function cells(branch, name) {
  const kept = branch.cells.filter((/** @type {any} */ entry) => entry.fate === "kept").slice(-CELLS);
  return h("div", null, h("h3", { class: "branch-name" }, name), kept.map((/** @type {any} */ entry) =>
    new CellView({ number: entry.cell, code: entry.code, by: "", status: entry.result.status, isUndone: false, result: entry.result, restored: false }, { session: branch.id }).element));
}
