// A light editor: a text area for the caret, the keys and screen readers, with the highlighted code behind it.

import { h } from "./dom.js";
import { show } from "./markup.js";

/** How long typing must pause before the code is highlighted anew. Until then colours follow the neighbouring text. */
const PAUSE_MS = 90;

/**
 * @typedef {{ label: string, placeholder?: string, value?: string, onRun?: () => void, complete?: (code: string, pos: number) => Promise<{ start: number, words: string[] }>, inspect?: (code: string, pos: number) => Promise<string>, onPrevious?: () => string | undefined }} EditorOptions
 */

export class Editor {
  /** @param {EditorOptions} options */
  constructor(options) {
    this.options = options;
    this.area = h("textarea", {
      class: "editor-area code-text", rows: 1, spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off",
      "aria-label": options.label, placeholder: options.placeholder, value: options.value ?? "",
    });
    this.shown = h("code");
    this.pre = h("pre", { class: "editor-shown code-text", "aria-hidden": "true" }, this.shown);
    this.list = h("ul", { class: "menu completions", role: "listbox", hidden: true });
    this.help = h("pre", { class: "explain", role: "status", tabindex: "0", hidden: true });
    this.element = h("div", { class: "editor-box" }, h("div", { class: "editor" }, this.pre, this.area, this.list), this.help);
    this.text = "";
    this.timer = 0;
    this.canLeave = false;
    this.question = 0;
    /** @type {{ words: string[], at: number, start: number } | null} `start`: where the word begins that is completed */
    this.completion = null;
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.area.addEventListener("scroll", () => this.follow());
    this.area.addEventListener("blur", () => setTimeout(() => this.endCompletion(), 150));
    this.changed();
  }

  get value() {
    return this.area.value;
  }

  set value(text) {
    this.area.value = text;
    this.changed();
  }

  focus() {
    this.area.focus();
  }

  changed() {
    const next = this.area.value;
    patch(this.shown, this.text, next);
    this.text = next;
    this.area.rows = Math.max(1, Math.min(24, next.split("\n").length));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      // The last line needs a character, or the browser would not give it a height.
      void show(this.shown, { kind: "code", text: `${next}\n`, language: "python" }, { keepOld: true }).then(() => this.follow());
    }, PAUSE_MS);
    this.follow();
    if (this.completion) void this.offer();
  }

  follow() {
    this.pre.scrollLeft = this.area.scrollLeft;
    this.pre.scrollTop = this.area.scrollTop;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (this.completion && this.keyOfCompletion(event)) return event.preventDefault();
    if (event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.options.onRun?.();
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      this.insert(`\n${indentAfter(this.before())}`);
    } else if (event.key === "F1" || (event.key === "i" && event.ctrlKey)) {
      event.preventDefault();
      void this.explain();
    } else if (event.key === "Escape") {
      this.help.hidden = true;
      // After Escape, Tab leaves the editor: the keyboard must not be caught in it.
      this.canLeave = true;
    } else if (event.key === "Tab" && !this.canLeave && !event.altKey) {
      event.preventDefault();
      this.tab(event.shiftKey);
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      void this.offer();
    } else if (event.key === "ArrowUp" && this.area.value === "") {
      const previous = this.options.onPrevious?.();
      if (previous) {
        event.preventDefault();
        this.value = previous;
      }
    }
    if (event.key !== "Escape" && event.key !== "Tab" && event.key !== "Shift") this.canLeave = false;
  }

  /** @param {boolean} isBackwards */
  tab(isBackwards) {
    const { selectionStart, selectionEnd, value } = this.area;
    const start = value.lastIndexOf("\n", selectionStart - 1) + 1;
    const isBlock = value.slice(selectionStart, selectionEnd).includes("\n");
    if (!isBackwards && !isBlock) {
      if (/[\w.]$/.test(this.before())) void this.offer();
      else this.insert("    ");
      return;
    }
    const lines = value.slice(start, selectionEnd).split("\n");
    const moved = lines.map((line) => (isBackwards ? line.replace(/^ {1,4}/, "") : `    ${line}`)).join("\n");
    this.area.setSelectionRange(start, selectionEnd);
    this.insert(moved);
    if (isBlock) this.area.setSelectionRange(start, start + moved.length);
  }

  before() {
    return this.area.value.slice(0, this.area.selectionStart);
  }

  /** Inserts as if it were typed, so that the browser's undo knows it. @param {string} text */
  insert(text) {
    this.area.focus();
    if (!document.execCommand("insertText", false, text)) {
      this.area.setRangeText(text, this.area.selectionStart, this.area.selectionEnd, "end");
      this.changed();
    }
  }

  async offer() {
    this.question += 1;
    const mine = this.question;
    const before = this.before();
    if (!this.options.complete || !/[\w.'"/[(]$/.test(before)) return this.endCompletion();
    const found = await this.options.complete(this.value, [...before].length);
    // Something was typed meanwhile: the answer is to an old question.
    if (mine !== this.question || before !== this.before()) return;
    const start = [...before].slice(0, found.start).join("").length;
    const words = found.words.filter((word) => word !== before.slice(start)).slice(0, 12);
    if (words.length === 0) return this.endCompletion();
    this.completion = { words, at: 0, start };
    this.showCompletion();
  }

  /** Shows what stands at the cursor, until Escape. */
  async explain() {
    if (!this.options.inspect) return;
    this.help.textContent = await this.options.inspect(this.value, [...this.before()].length);
    this.help.hidden = this.help.textContent === "";
  }

  showCompletion() {
    if (!this.completion) return;
    const { words, at } = this.completion;
    this.list.replaceChildren(
      ...words.map((word, index) =>
        h("li", { role: "option", id: `completion-${index}`, class: "mono", "aria-selected": String(index === at), onpointerdown: (/** @type {Event} */ event) => { event.preventDefault(); this.accept(word); } }, word)),
    );
    this.list.hidden = false;
    this.area.setAttribute("aria-activedescendant", `completion-${at}`);
    const lines = this.before().split("\n");
    const height = parseFloat(getComputedStyle(this.area).lineHeight);
    this.list.style.top = `${Math.min(lines.length, 24) * height + 16}px`;
    this.list.style.left = `${Math.min((lines.at(-1)?.length ?? 0) * 8, this.element.clientWidth - 200)}px`;
  }

  endCompletion() {
    this.question += 1;
    this.completion = null;
    this.list.hidden = true;
    this.area.removeAttribute("aria-activedescendant");
  }

  /** @param {string} word */
  accept(word) {
    const start = this.completion?.start ?? this.area.selectionStart;
    this.endCompletion();
    this.area.setSelectionRange(start, this.area.selectionStart);
    this.insert(word);
    this.endCompletion();
  }

  /** @param {KeyboardEvent} event @returns {boolean} whether the key was meant for the list */
  keyOfCompletion(event) {
    const completion = this.completion;
    if (!completion) return false;
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) {
      completion.at = (completion.at + move + completion.words.length) % completion.words.length;
      this.showCompletion();
      return true;
    }
    if ((event.key === "Enter" && !event.shiftKey && !event.ctrlKey) || event.key === "Tab") {
      this.accept(completion.words[completion.at]);
      return true;
    }
    if (event.key === "Escape") {
      this.endCompletion();
      return true;
    }
    return false;
  }
}

/** The indentation of the line after this text. @param {string} before */
function indentAfter(before) {
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const indent = /^\s*/.exec(line)?.[0] ?? "";
  if (/:\s*(#.*)?$/.test(line)) return `${indent}    `;
  return /^\s*(return|pass|break|continue|raise)\b/.test(line) ? indent.slice(4) : indent;
}

/**
 * Changes highlighted code to a new text without losing its colours: only the characters that differ are exchanged.
 * @param {HTMLElement} shown
 * @param {string} old
 * @param {string} next
 */
function patch(shown, old, next) {
  let start = 0;
  while (start < old.length && start < next.length && old[start] === next[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < next.length - start && old[old.length - 1 - end] === next[next.length - 1 - end]) end += 1;
  const added = next.slice(start, next.length - end);
  const range = document.createRange();
  range.setStart(...place(shown, start));
  range.setEnd(...place(shown, old.length - end));
  range.deleteContents();
  if (added === "") return;
  const [node, offset] = place(shown, start);
  if (node instanceof Text) node.insertData(offset, added);
  else node.append(added);
}

/** The text node and the offset in it of a character. @param {HTMLElement} root @param {number} at @returns {[Text | HTMLElement, number]} */
function place(root, at) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  let rest = at;
  /** @type {Text | null} */
  let last = null;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    last = /** @type {Text} */ (node);
    if (rest <= last.length) return [last, rest];
    rest -= last.length;
  }
  return last ? [last, last.length] : [root, root.childNodes.length];
}
