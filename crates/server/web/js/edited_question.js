// A question that is edited and sent again. What ran since it was asked can be taken back first.

import { h, icon, button, replace } from "./dom.js";
import { t } from "./texts.js";
import { post, journal, path } from "./api.js";

/** @typedef {{ view: import("./run_view.js").RunView, element: HTMLElement }} Exchange */

export class EditedQuestion {
  constructor() {
    /** @type {Exchange | null} */
    this.exchange = null;
    this.isTaken = h("input", { type: "checkbox" });
    this.choice = h("label", { class: "row small check" }, this.isTaken, t("chat.take_back"));
    this.element = h("div", { class: "row spread wrap edited", hidden: true },
      h("span", { class: "row small muted" }, icon("edit"), t("chat.editing")), this.choice,
      button({ icon: "close", label: t("chat.stop_editing"), isIconOnly: true, kind: "quiet", onclick: () => this.stop() }));
  }

  /** @param {Exchange} exchange @param {Exchange[]} all */
  begin(exchange, all) {
    this.exchange = exchange;
    this.element.hidden = false;
    this.choice.hidden = firstCell(exchange, all) === null;
    this.isTaken.checked = !this.choice.hidden;
  }

  stop() {
    this.exchange = null;
    this.element.hidden = true;
  }

  /**
   * Takes back the cells that ran since the question was asked, also those that a person ran in the session.
   * @param {string} chat the address of the chat
   * @param {string | undefined} session
   * @param {Exchange[]} all
   */
  async takeBack(chat, session, all) {
    if (!this.exchange || !session || !this.isTaken.checked) return;
    const first = firstCell(this.exchange, all);
    if (first === null) return;
    const { cells } = await journal(path("v1", "sessions", session));
    const kept = cells.filter((/** @type {{ cell: number, fate: string }} */ entry) => entry.fate === "kept" && entry.cell >= first);
    if (kept.length > 0) await post(`${chat}/undo`, { n: kept.length });
    // A second try, after the question was refused, takes nothing back again.
    this.isTaken.checked = false;
  }
}

/** The first cell that ran for a question or a later one. @param {Exchange} exchange @param {Exchange[]} all @returns {number | null} */
function firstCell(exchange, all) {
  const cells = all.slice(all.indexOf(exchange)).flatMap(({ view }) => view.cells);
  return cells.length > 0 ? Math.min(...cells) : null;
}

/** Marks the exchanges whose cells were all taken back. @param {string | undefined} session @param {Exchange[]} all */
export async function markTakenBack(session, all) {
  if (!session || !all.some(({ view }) => view.cells.length > 0)) return;
  const { cells } = await journal(path("v1", "sessions", session)).catch(() => ({ cells: [] }));
  const undone = new Set(cells.filter((/** @type {{ fate: string }} */ entry) => entry.fate === "undone").map((/** @type {{ cell: number }} */ entry) => entry.cell));
  for (const { view, element } of all) {
    const isUndone = view.cells.length > 0 && view.cells.every((cell) => undone.has(cell));
    if (!isUndone || element.classList.contains("taken-back")) continue;
    element.classList.add("taken-back");
    const note = h("div", { class: "row small muted" });
    replace(note, icon("undo"), t("chat.taken_back"));
    view.element.prepend(note);
  }
}
