// The slider over the moments of a session. Moving it shows variables and files as they were; nothing changes until a button is pressed.

import { h, button, replace } from "./dom.js";
import { t } from "./texts.js";

/** @typedef {import("./session_model.js").Cell} Cell */

export class TimeRibbon {
  /** @param {{ onLook: (cell: number | null) => void, onGoBack: (cell: number, count: number) => void, onFork: (cell: number) => void }} actions */
  constructor(actions) {
    this.actions = actions;
    /** @type {Cell[]} the cells whose effects count, in order */
    this.cells = [];
    /** @type {Set<number>} the cells after which there is a checkpoint */
    this.checkpoints = new Set();
    this.range = h("input", { type: "range", class: "time-range", min: "0", max: "0", value: "0", "aria-label": t("time.slider") });
    this.dots = h("div", { class: "time-dots", "aria-hidden": "true" });
    this.label = h("span", { class: "time-label small" });
    this.bar = h("div", { class: "time-bar", hidden: true, role: "group", "aria-label": t("time.title") });
    this.element = h("section", { class: "time-ribbon", "aria-label": t("time.title"), hidden: true },
      h("div", { class: "time-track" }, h("span", { class: "small muted" }, t("time.start")), h("div", { class: "time-rail" }, this.dots, this.range), this.label), this.bar);
    this.range.addEventListener("input", () => this.moved());
  }

  /** @param {Cell[]} cells @param {Set<number>} checkpoints */
  update(cells, checkpoints) {
    const wasNow = this.isNow;
    this.cells = cells;
    this.checkpoints = checkpoints;
    this.element.hidden = cells.length === 0;
    this.range.max = String(cells.length);
    if (wasNow || Number(this.range.value) > cells.length) this.range.value = String(cells.length);
    // With very many cells the dots would be a line.
    const isDense = cells.length > 60;
    replace(this.dots, isDense ? null : [h("i", { class: this.hasCheckpoint(0) ? "kept" : "" }), ...cells.map((cell) => h("i", { class: `${cell.status} ${this.hasCheckpoint(cell.number) ? "kept" : ""}` }))]);
    this.show();
  }

  get isNow() {
    return Number(this.range.value) === Number(this.range.max);
  }

  /** The number of the cell after which the slider stands; 0 is the beginning. */
  get cell() {
    return this.cells[Number(this.range.value) - 1]?.number ?? 0;
  }

  toNow() {
    this.range.value = this.range.max;
    this.moved();
  }

  /** @param {number} cell */
  hasCheckpoint(cell) {
    return this.checkpoints.has(cell);
  }

  moved() {
    this.show();
    this.actions.onLook(this.isNow ? null : this.cell);
  }

  show() {
    const { cell } = this;
    const at = this.isNow ? t("time.now") : cell === 0 ? t("time.start") : t("time.after", { cell });
    this.label.textContent = at;
    this.range.setAttribute("aria-valuetext", at);
    this.element.classList.toggle("past", !this.isNow);
    this.bar.hidden = this.isNow;
    if (this.isNow) return;
    const count = this.cells.length - Number(this.range.value);
    const canGo = this.hasCheckpoint(cell);
    const hint = canGo ? undefined : t("time.no_checkpoint");
    replace(this.bar, h("span", { class: "grow" }, cell === 0 ? t("time.looking_start") : t("time.looking", { cell })),
      button({ icon: "undo", label: t("time.go_back"), kind: "primary", onclick: () => this.actions.onGoBack(cell, count), attributes: { disabled: !canGo, title: hint } }),
      button({ icon: "fork", label: t("time.fork_here"), onclick: () => this.actions.onFork(cell), attributes: { disabled: !canGo, title: hint } }),
      button({ label: t("time.to_now"), kind: "quiet", onclick: () => this.toNow() }));
  }
}
