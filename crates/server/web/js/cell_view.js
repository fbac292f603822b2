// One cell of the notebook: its code, and what came of it.

import { h, icon, button, replace, toast } from "./dom.js";
import { t, duration, size, hasText } from "./texts.js";
import { show } from "./markup.js";
import { OutputView } from "./output.js";
import { displayView } from "./display.js";
import { path } from "./api.js";

/** @typedef {import("./session_model.js").Cell} Cell */
/** @typedef {import("./session_model.js").CellPart} CellPart */

export class CellView {
  /**
   * @param {Cell} cell
   * @param {{ session: string, onEdit?: (code: string) => void, onInput?: (call: string, text: string) => void }} context
   */
  constructor(cell, context) {
    this.context = context;
    this.label = t("cell.output", { cell: cell.number });
    this.number = h("span", { class: "cell-number", "aria-hidden": "true" }, String(cell.number));
    this.status = h("span", { class: "cell-status small" });
    this.code = h("code");
    this.body = h("div", { class: "cell-body" });
    this.foot = h("div", { class: "cell-foot" });
    /** @type {OutputView | null} the output at the end, where more text goes */
    this.output = null;
    /** @type {Map<string, HTMLElement>} */
    this.questions = new Map();
    const actions = h("div", { class: "cell-actions" },
      button({ icon: "copy", label: t("cell.copy"), isIconOnly: true, kind: "quiet", onclick: () => void copy(cell.code) }),
      context.onEdit ? button({ icon: "edit", label: t("cell.edit"), isIconOnly: true, kind: "quiet", onclick: () => context.onEdit?.(cell.code) }) : null);
    this.element = h("article", { class: "cell", "aria-label": t("cell.label", { cell: cell.number }), dataset: { cell: String(cell.number) } },
      h("div", { class: "cell-side" }, this.number),
      h("div", { class: "cell-main" },
        h("div", { class: "cell-code" }, h("pre", { class: "code", tabindex: "0", role: "group", "aria-label": t("cell.label", { cell: cell.number }) }, this.code), actions),
        this.body, this.foot));
    this.shownCode = "";
    this.update(cell);
  }

  /** @param {Cell} cell */
  update(cell) {
    if (cell.code !== this.shownCode) {
      this.shownCode = cell.code;
      void show(this.code, { kind: "code", text: cell.code, language: "python" });
    }
    this.element.dataset.status = cell.status;
    this.element.classList.toggle("undone", cell.isUndone);
    if (cell.result) this.finish(cell);
    else if (cell.status === "running") {
      replace(this.body);
      this.output = null;
      replace(this.foot, h("span", { class: "dot running" }), h("span", null, t("cell.running")));
    }
  }

  /** @param {CellPart} part */
  add(part) {
    if (part.kind === "output") {
      if (!this.output) {
        this.output = new OutputView(this.label);
        this.body.append(this.output.element);
      }
      this.output.add(part.text);
      return;
    }
    this.output = null;
    if (part.kind === "display") this.show(part.mime);
    else if (part.kind === "input") this.ask(part.call, part.prompt);
  }

  /** @param {Record<string, any>} mime */
  show(mime) {
    const { session } = this.context;
    const view = displayView(mime, { session, label: this.label, resolve: (reference) => displayAddress(session, reference) });
    if (view) this.body.append(h("div", { class: "display" }, view));
  }

  /** @param {string} call @param {string} prompt */
  ask(call, prompt) {
    const line = h("input", { class: "input", "aria-label": prompt || t("cell.input") });
    const form = h("form", { class: "question card", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); this.context.onInput?.(call, line.value); } },
      h("label", { class: "field" }, h("span", null, prompt || t("cell.input")), line),
      h("button", { class: "button primary", type: "submit" }, t("cell.answer")));
    this.questions.set(call, form);
    this.body.append(form);
    line.focus();
  }

  /** The call has its answer. @param {string} call */
  answered(call) {
    this.questions.get(call)?.remove();
    this.questions.delete(call);
  }

  /** @param {Cell} cell */
  finish(cell) {
    const result = cell.result;
    for (const form of this.questions.values()) form.remove();
    this.questions.clear();
    if (this.body.childElementCount === 0) this.replay(result);
    if (!this.body.querySelector(":scope > .outcome")) {
      if (result.value) this.outcome(this.value(result.value));
      if (result.error && cell.status !== "crashed") this.outcome(errorView(result.error));
      if (cell.status === "crashed" || result.state?.outcome === "restored" || result.state?.outcome === "ended") this.outcome(restoredView(result));
    }
    replace(this.foot, ...footer(cell));
  }

  /** @param {HTMLElement | null} element */
  outcome(element) {
    if (!element) return;
    element.classList.add("outcome");
    this.body.append(element);
  }

  /** Shows what a cell wrote before this page was opened. @param {any} result */
  replay(result) {
    const text = result.output || `${result.stdout ?? ""}${result.stderr ?? ""}`;
    if (text) {
      const view = new OutputView(this.label);
      this.body.append(view.element);
      view.set(text);
    }
    for (const mime of result.displays ?? []) this.show(mime);
  }

  /** @param {{ repr: string, mime?: Record<string, any> }} value */
  value(value) {
    const { session } = this.context;
    const mime = { "text/plain": value.repr, ...value.mime };
    const view = displayView(mime, { session, label: this.label, resolve: (reference) => displayAddress(session, reference) });
    return view ? h("div", { class: "display result-value" }, view) : null;
  }
}

/** The address of a large display that stayed on the server. @param {string} session @param {{ $file: string }} reference */
const displayAddress = (session, reference) => `${path("v1", "sessions", session)}/${reference.$file}`;

/** @param {any} error */
export function errorView(error) {
  const trace = h("pre", { class: "output traceback", tabindex: "0", "aria-label": t("cell.traceback"), role: "group" });
  void show(trace, { kind: "ansi", text: error.traceback ?? "" });
  const lines = (error.traceback ?? "").split("\n").length;
  return h("div", { class: "error-box" },
    h("div", { class: "error-line" }, h("strong", null, error.type), error.value ? `: ${error.value}` : ""),
    lines > 3 ? h("details", null, h("summary", null, t("cell.traceback")), trace) : null,
    error.hint ? h("div", { class: "small muted" }, `${t("cell.hint")}: ${error.hint}`) : null);
}

/** A crash, told as what it is: an event, after which the session is there. @param {any} result */
function restoredView(result) {
  const state = result.state ?? {};
  const isEnded = state.outcome === "ended";
  const lines = [];
  if (result.error) lines.push(`${result.error.type}: ${result.error.value}`);
  if (!isEnded && !(state.lost?.length > 0)) lines.push(t("cell.restored_text"));
  if (state.replayed?.length) lines.push(t("cell.restored_behind", { cells: state.replayed.join(", ") }));
  for (const what of state.not_restored ?? []) lines.push(t("cell.not_restored", { what }));
  const how = result.signal ? t("cell.signal", { signal: signalName(result.signal) }) : result.exit_code !== null && result.exit_code !== undefined ? `exit ${result.exit_code}` : "";
  return h("div", { class: `notice ${isEnded ? "bad" : "restored"}`, role: "note" }, icon(isEnded ? "close" : "restored"),
    h("div", null, h("strong", null, isEnded ? t("cell.ended_title") : t("cell.restored_title")), how ? ` · ${how}` : "", lines.map((line) => h("div", null, line))));
}

/** @param {number} signal */
const signalName = (signal) => ({ 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM" })[signal] ?? String(signal);

/** @param {Cell} cell @returns {Array<Node | string>} */
function footer(cell) {
  const { result } = cell;
  const parts = [];
  const kind = { success: "good", failure: "bad", timeout: "bad", crashed: "time", interrupted: "" }[cell.status] ?? "";
  const name = cell.isUndone ? t("cell.undone") : hasText(`cell.${cell.status}`) ? t(`cell.${cell.status}`) : cell.status;
  parts.push(h("span", { class: `dot ${cell.isUndone ? "" : kind}` }), h("span", null, name));
  if (cell.by === "agent") parts.push(h("span", null, t("cell.by_agent")));
  if (result.usage) parts.push(h("span", null, duration(result.usage.wall_ms)));
  const files = [...(result.files?.created ?? []), ...(result.files?.changed ?? [])];
  if (files.length > 0) parts.push(h("span", { class: "badge" }, icon("file"), files.slice(0, 3).map((file) => file.path).join(", ") + (files.length > 3 ? " …" : "")));
  if (result.truncated) {
    const bytes = Object.values(result.truncated).reduce((sum, value) => sum + (typeof value === "number" ? value : 0), 0);
    if (bytes > 0) parts.push(h("span", null, t("cell.truncated", { bytes: size(bytes) })));
  }
  return parts;
}

/** @param {string} text */
export async function copy(text) {
  await navigator.clipboard.writeText(text).catch(() => {});
  toast(t("app.copied"));
}
