// The output of a cell: bounded in the page, however much a program writes.

import { h, replace } from "./dom.js";
import { t, number } from "./texts.js";
import { show } from "./markup.js";

/** The most lines that the page lays out. */
const MAX_LINES = 2_000;
/** The most characters that are rendered as a terminal would show them. */
const MAX_TERMINAL_CHARACTERS = 200_000;
/** How often a text with terminal codes is rendered again while it grows. */
const TERMINAL_PERIOD_MS = 150;

/** What a terminal shows differently from plain text: escape sequences, and lines that are written again. */
const TERMINAL_CODE = /[\x1b\b]|\r(?!\n)/;

export class OutputView {
  /** @param {string} label read to screen readers */
  constructor(label) {
    this.pre = h("pre", { class: "output", tabindex: "0", role: "log", "aria-label": label, "aria-live": "off" });
    this.hidden = h("div", { class: "lines-hidden", hidden: true });
    this.element = h("div", { class: "output-box", hidden: true }, this.hidden, this.pre);
    this.text = "";
    this.pending = "";
    this.isTerminal = false;
    this.isScheduled = false;
    this.hiddenLines = 0;
    this.lines = 0;
    this.rendered = 0;
  }

  /** Adds text. The page is changed once per frame at most. @param {string} text */
  add(text) {
    if (text === "") return;
    this.pending += text;
    this.element.hidden = false;
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => this.flush());
  }

  flush() {
    this.isScheduled = false;
    const added = this.pending;
    this.pending = "";
    this.isTerminal ||= TERMINAL_CODE.test(added);
    this.text = (this.text + added).slice(-2 * MAX_TERMINAL_CHARACTERS);
    const wasAtEnd = this.pre.scrollHeight - this.pre.scrollTop - this.pre.clientHeight < 40;
    if (this.isTerminal) this.renderTerminal();
    else this.append(added);
    if (wasAtEnd) this.pre.scrollTop = this.pre.scrollHeight;
  }

  /** @param {string} added */
  append(added) {
    let count = added.split("\n").length - 1;
    let shown = added;
    if (count > MAX_LINES) {
      // More than a page holds came at once: only its end is laid out.
      const kept = added.split("\n").slice(-MAX_LINES);
      this.hiddenLines += this.lines + count - (kept.length - 1);
      shown = kept.join("\n");
      count = kept.length - 1;
      this.lines = 0;
      this.pre.replaceChildren();
    }
    const node = document.createTextNode(shown);
    this.pre.append(node);
    this.lines += count;
    while (this.lines > MAX_LINES && this.pre.firstChild && this.pre.firstChild !== node) {
      const dropped = (this.pre.firstChild.textContent ?? "").split("\n").length - 1;
      this.pre.firstChild.remove();
      this.lines -= dropped;
      this.hiddenLines += dropped;
    }
    this.tellHidden();
  }

  renderTerminal() {
    const wait = TERMINAL_PERIOD_MS - (performance.now() - this.rendered);
    if (wait > 0) {
      this.isScheduled = true;
      setTimeout(() => this.flush(), wait);
      return;
    }
    this.rendered = performance.now();
    const tail = this.text.split("\n").slice(-MAX_LINES).join("\n").slice(-MAX_TERMINAL_CHARACTERS);
    void show(this.pre, { kind: "ansi", text: tail }, { keepOld: true });
  }

  tellHidden() {
    if (this.hiddenLines === 0) return;
    this.hidden.hidden = false;
    replace(this.hidden, t("cell.lines_hidden", { count: number(this.hiddenLines) }));
  }

  /** Shows a whole text in place of what came so far. @param {string} text */
  set(text) {
    this.pre.replaceChildren();
    Object.assign(this, { text: "", pending: "", lines: 0, hiddenLines: 0, isTerminal: false, rendered: 0 });
    this.hidden.hidden = true;
    this.element.hidden = text === "";
    if (text !== "") {
      this.pending = text;
      this.flush();
    }
  }

  get isEmpty() {
    return this.text === "" && this.pending === "";
  }
}
