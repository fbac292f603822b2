// Tables as data, which sort by a click on a column.

import { h, replace } from "./dom.js";
import { t, number } from "./texts.js";

/**
 * @typedef {{ columns: Array<string | { name: string, dtype?: string }>, rows: any[][], index?: any[], total_rows?: number, is_cut?: boolean }} TableData
 */

const collator = new Intl.Collator(undefined, { numeric: true });

/** @param {TableData} data @param {string} label */
export function tableView(data, label) {
  const columns = data.columns.map((column) => (typeof column === "string" ? column : column.name));
  const hasIndex = Array.isArray(data.index);
  const rows = data.rows.map((row, at) => (hasIndex ? [data.index?.[at], ...row] : row));
  const names = hasIndex ? ["", ...columns] : columns;
  const isNumber = names.map((_, column) => rows.length > 0 && rows.every((row) => row[column] === null || row[column] === "" || isNumeric(row[column])));
  let sorted = { column: -1, direction: 1 };
  const body = h("tbody");

  const heads = names.map((name, column) =>
    h("th", { scope: "col", class: isNumber[column] ? "number" : undefined }, h("button", { class: "sort", type: "button", onclick: () => sort(column) }, name === "" ? "#" : String(name))),
  );

  /** @param {number} column */
  function sort(column) {
    sorted = { column, direction: sorted.column === column ? -sorted.direction : 1 };
    heads.forEach((head, at) => {
      if (at === column) head.setAttribute("aria-sort", sorted.direction === 1 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    fill([...rows].sort((left, right) => sorted.direction * compare(left[column], right[column], isNumber[column])));
  }

  /** @param {any[][]} list */
  function fill(list) {
    replace(body, list.map((row) => h("tr", null, row.map((value, column) => h("td", { class: isNumber[column] ? "number" : undefined, title: long(value) }, display(value))))));
  }

  fill(rows);
  const total = data.total_rows ?? rows.length;
  const isCut = total > rows.length || data.is_cut;
  return h(
    "div",
    { class: "table-view" },
    h("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": label }, h("table", null, h("thead", null, h("tr", null, heads)), body)),
    isCut ? h("div", { class: "small muted" }, total > rows.length ? `${number(rows.length)} / ${number(total)}` : t("files.cut")) : null,
  );
}

/** @param {any} value */
const isNumeric = (value) => typeof value === "number" || (typeof value === "string" && value.trim() !== "" && Number.isFinite(Number(value)));

/** @param {any} left @param {any} right @param {boolean} asNumbers */
function compare(left, right, asNumbers) {
  const [noLeft, noRight] = [left === null || left === "", right === null || right === ""];
  if (noLeft || noRight) return Number(noLeft) - Number(noRight);
  return asNumbers ? Number(left) - Number(right) : collator.compare(String(left), String(right));
}

/** @param {any} value */
function display(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

/** @param {any} value */
const long = (value) => (typeof value === "string" && value.length > 40 ? value : undefined);
