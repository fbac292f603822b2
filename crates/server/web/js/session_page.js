// A session as a notebook: cells, an editor, the time ribbon, and panels for variables, files, branches and walls.

import { h, icon, button, replace, toast, announce, ask, stickToEnd } from "./dom.js";
import { t } from "./texts.js";
import { get, post, request, remove, journal, path } from "./api.js";
import { follow } from "./stream.js";
import { SessionModel } from "./session_model.js";
import { CellView } from "./cell_view.js";
import { Editor } from "./editor.js";
import { TimeRibbon } from "./time_ribbon.js";
import { tabs, VariablesPanel, FilesPanel, BranchesPanel, WallsPanel } from "./panels.js";
import { ScratchCell } from "./scratch.js";
import { TerminalPanel } from "./terminal.js";
import { acceptFiles, complain } from "./dropped_files.js";

/** @typedef {import("./main.js").App} App */

const KEYWORDS = "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass print raise range return True try while with yield".split(" ");

/** @param {App} app @param {string} id */
export async function page(app, id) {
  const about = await get(path("v1", "sessions", id));
  const view = new SessionPage(app, id, about);
  await view.load();
  return { leave: () => view.leave() };
}

class SessionPage {
  /** @param {App} app @param {string} id @param {any} about */
  constructor(app, id, about) {
    this.app = app;
    this.id = id;
    this.about = about;
    this.address = path("v1", "sessions", id);
    /** @type {Map<number, CellView>} */
    this.views = new Map();
    /** @type {number | null} the moment that is looked at */
    this.at = null;
    this.checkpoints = new Set();
    this.refreshTimer = 0;
    this.waitingTimer = 0;
    this.isLoading = false;
    this.model = new SessionModel({
      onCell: (cell, isNew) => this.showCell(cell, isNew),
      onPart: (cell, part) => this.addPart(cell, part),
      onState: () => this.stateChanged(),
      onUndone: (cell) => announce(cell ? t("session.undo_done", { cell }) : t("session.undo_start")),
      onForked: () => void this.branches.load(),
      onAnswered: (call) => { for (const view of this.views.values()) view.answered(call); },
      onWaiting: () => this.waiting(),
      onApproval: () => {},
    });
    this.variables = new VariablesPanel(id);
    this.files = new FilesPanel(id);
    this.branches = new BranchesPanel(id);
    this.walls = new WallsPanel(id);
    this.terminal = new TerminalPanel(id);
    this.ribbon = new TimeRibbon({ onLook: (cell) => this.look(cell), onGoBack: (cell, count) => void this.goBack(cell, count), onFork: (cell) => void this.fork(cell) });

    this.heading = h("h1", { class: "ellipsis" }, this.about.title || t("session.untitled"));
    this.stateBadge = h("span", { class: "badge" });
    this.stop = button({ icon: "stop", label: t("session.stop"), kind: "danger", onclick: () => void this.send("interrupt"), attributes: { hidden: true } });
    this.undoButton = button({ icon: "undo", label: t("session.undo"), onclick: () => void this.undo(1) });
    this.forkButton = button({ icon: "fork", label: t("session.fork"), onclick: () => void this.fork(null) });
    this.panelButton = button({ icon: "list", label: t("session.panel"), isIconOnly: true, kind: "quiet", onclick: () => this.togglePanel(), attributes: { class: "button quiet icon-only only-narrow" } });
    const rename = button({ icon: "edit", label: t("app.rename"), isIconOnly: true, kind: "quiet", onclick: () => void this.rename(), attributes: { class: "button quiet icon-only hide-phone" } });
    const head = h("div", { class: "page-head" }, h("div", { class: "row grow" }, this.heading, this.stateBadge, rename),
      h("div", { class: "row" }, this.stop, this.undoButton, this.forkButton, this.endButton(), this.panelButton));
    this.cells = h("div", { class: "cells", role: "feed", "aria-label": t("session.cells") });
    this.empty = h("div", { class: "empty" }, icon("cells"), h("h2", null, t("session.empty")), h("p", null, t("session.empty_lead")));
    this.notice = h("div", { class: "notice", role: "status", hidden: true });
    this.editor = new Editor({
      label: t("session.code"), placeholder: t("session.placeholder"), onRun: () => void this.run(),
      complete: (code, pos) => this.complete(code, pos), inspect: (code, pos) => this.inspect(code, pos), onPrevious: () => this.model.list.at(-1)?.code,
    });
    this.runButton = button({ icon: "play", label: t("session.run"), kind: "primary", onclick: () => void this.run() });
    this.scratchButton = button({ icon: "fork", label: t("session.scratch"), kind: "quiet", onclick: () => void this.scratch(), attributes: { title: t("session.scratch_hint") } });
    this.scratchPlace = h("div");
    this.composer = h("div", { class: "composer card" }, this.editor.element,
      h("div", { class: "row spread composer-foot" }, h("span", { class: "small muted hide-phone" }, t("session.run_hint")), h("div", { class: "row" }, this.scratchButton, this.runButton)));
    this.scroller = h("div", { class: "scroll" }, h("div", { class: "column" }, this.notice, this.empty, this.cells, this.scratchPlace));
    this.end = stickToEnd(this.scroller);
    this.panel = h("aside", { class: "panel-side", "aria-label": t("session.panel") }, tabs([
      { id: "variables", label: t("vars.title"), element: this.variables.element },
      { id: "files", label: t("files.title"), element: this.files.element },
      { id: "branches", label: t("branches.title"), element: this.branches.element },
      { id: "terminal", label: t("terminal.title"), element: this.terminal.element },
      { id: "walls", label: t("walls.title"), element: this.walls.element },
    ], t("session.panel")));
    this.app.main.className = "session-page";
    replace(this.app.main, h("div", { class: "work" }, head, this.ribbon.element, this.scroller, h("div", { class: "composer-place" }, this.composer)), this.panel);
    this.app.title(this.about.title || t("session.untitled"));
    acceptFiles(this.app.main, t("files.drop"), (files) => void this.files.upload(files));
  }

  endButton() {
    return button({ icon: "trash", label: t("session.end"), isIconOnly: true, kind: "quiet", onclick: async () => {
      const isSure = await ask({ title: t("session.end_ask"), text: t("session.end_text"), confirm: t("session.end"), cancel: t("app.cancel"), isDangerous: true });
      if (!isSure) return;
      await remove(this.address).catch(complain);
      this.app.go("/sessions");
    } });
  }

  async rename() {
    const values = await ask({ title: t("app.rename"), confirm: t("app.save"), cancel: t("app.cancel"), fields: [{ name: "title", label: t("admin.name"), value: this.about.title }] });
    if (!values) return;
    try {
      this.about = await request("PATCH", this.address, { title: values.title });
      this.heading.textContent = this.about.title;
      this.app.title(this.about.title);
    } catch (error) {
      complain(error);
    }
  }

  async load() {
    const after = await this.loadHistory();
    if (!this.model.isEnded) this.stream = follow(`${this.address}/events`, {
      onMessage: (message) => {
        this.model.take(message.event, message.data);
        if (this.model.isEnded) this.stream?.close();
      },
      onState: (state) => this.connection(state),
      onGone: (status) => void this.gone(status),
    }, { after });
    if (this.about.rebuilt) this.tell("restored", t("session.rebuilt"));
    else if (this.about.live?.rebuilt?.differences.length > 0) this.tell("restored", t("session.forked_again"));
    this.refresh();
    void this.branches.load();
    this.editor.focus();
  }

  /** The cells that ran before this page was opened. */
  async loadHistory() {
    const history = await journal(this.address);
    for (const entry of history.cells) {
      const isUnfinished = entry.fate === "unfinished" && !entry.result;
      this.model.remember({ cell: entry.cell, code: entry.code, result: isUnfinished && this.about.state === "live" ? null : (entry.result ?? { status: "interrupted" }), isUndone: entry.fate === "undone" || entry.fate === "lost" });
    }
    this.model.isEnded = this.about.state === "closed";
    this.stateChanged();
    // The events of a cell that runs begin before the journal was read, so they are read from the oldest on.
    return this.model.isRunning || typeof history.seq !== "number" ? undefined : history.seq;
  }

  /** @param {"open" | "lost"} state */
  connection(state) {
    if (state === "lost") this.tell("bad", t("app.offline"));
    else if (this.notice.textContent === t("app.offline")) this.notice.hidden = true;
  }

  /** The stream ended for good: the session is over, or the events that this page needs are gone. @param {number} status */
  async gone(status) {
    if (status !== 410) return this.stateChanged();
    const about = await get(this.address).catch(() => null);
    if (!about || about.state === "closed") {
      this.model.isEnded = true;
      return this.stateChanged();
    }
    this.app.go(location.pathname, { replace: true });
  }

  leave() {
    this.stream?.close();
    this.terminal.leave();
    clearTimeout(this.refreshTimer);
    clearTimeout(this.waitingTimer);
  }

  /** @param {import("./session_model.js").Cell} cell @param {boolean} isNew */
  showCell(cell, isNew) {
    const known = this.views.get(cell.number);
    if (known) return known.update(cell);
    const view = new CellView(cell, { session: this.id, onEdit: (code) => this.edit(code), onInput: (call, text) => void this.send("input", { call, text }) });
    this.views.set(cell.number, view);
    const next = [...this.views.keys()].filter((number) => number > cell.number).sort((left, right) => left - right)[0];
    this.cells.insertBefore(view.element, next === undefined ? null : (this.views.get(next)?.element ?? null));
    if (isNew) this.toEnd();
  }

  /** @param {import("./session_model.js").Cell} cell @param {import("./session_model.js").CellPart} part */
  addPart(cell, part) {
    this.views.get(cell.number)?.add(part);
  }

  toEnd() {
    this.end.toEnd();
  }

  stateChanged() {
    const { model } = this;
    const isRunning = model.isRunning;
    this.empty.hidden = model.cells.size > 0;
    this.stop.hidden = !isRunning;
    this.undoButton.disabled = isRunning || model.kept.length === 0 || model.isEnded;
    this.forkButton.disabled = isRunning || model.isEnded;
    this.composer.hidden = model.isEnded;
    const [kind, text] = model.isEnded ? ["", t("session.state.ended")] : isRunning ? ["accent", t("session.state.running")] : ["good", t("session.state.idle")];
    this.stateBadge.className = `badge ${kind}`;
    replace(this.stateBadge, h("span", { class: `dot ${isRunning ? "running" : kind}` }), text);
    if (model.isEnded) this.tell("", `${t("session.ended")}${model.endReason ? `: ${model.endReason}` : ""}`);
    if (!isRunning) this.refresh();
  }

  /** Loads what is beside the cells, once for several events. */
  refresh() {
    clearTimeout(this.refreshTimer);
    this.refreshTimer = setTimeout(async () => {
      const last = this.model.list.filter((cell) => cell.result).at(-1);
      this.walls.fill(this.about, last?.result, this.model.checkpoint, this.model.list);
      if (this.model.isEnded) return this.ribbon.update(this.model.kept, new Set());
      // A cell that runs answers no question; it comes here again at its end, or to `waiting`.
      if (this.model.isRunning) return;
      const answer = await get(`${this.address}/checkpoints`).catch(() => ({ checkpoints: [] }));
      this.checkpoints = new Set(answer.checkpoints.map((/** @type {{ cell: number }} */ entry) => entry.cell));
      this.ribbon.update(this.model.kept, this.checkpoints);
      await this.loadPanels();
    }, 60);
  }

  /** A cell waits for an answer: what it has made so far is shown. Most calls are answered before this looks. */
  waiting() {
    clearTimeout(this.waitingTimer);
    this.waitingTimer = setTimeout(async () => {
      if (this.isLoading || this.at !== null || !this.model.isRunning) return;
      this.isLoading = true;
      await this.loadPanels();
      this.isLoading = false;
    }, 150);
  }

  /** Shows variables and files as they were. @param {number | null} at */
  look(at) {
    this.at = at;
    for (const [number, view] of this.views) {
      const isLater = at !== null && number > at;
      view.element.classList.toggle("later", isLater);
      // At that moment the cell had not run: it is dimmed, and left out for keyboard and screen readers.
      view.element.inert = isLater;
      if (isLater) view.element.setAttribute("aria-hidden", "true");
      else view.element.removeAttribute("aria-hidden");
    }
    if (at !== null) this.views.get(at)?.element.scrollIntoView({ block: "nearest", behavior: "smooth" });
    void this.loadPanels();
  }

  async loadPanels() {
    if (this.at === null) return Promise.all([this.variables.load(null), this.files.load()]);
    this.files.showThen(this.at, this.model.filesAfter(this.at));
    return this.variables.load(this.at);
  }

  async run() {
    const code = this.editor.value;
    if (code.trim() === "") return;
    try {
      await post(`${this.address}/cells`, { code });
      this.editor.value = "";
      if (this.at !== null) this.ribbon.toNow();
    } catch (error) {
      complain(error);
    }
  }

  async scratch() {
    const code = this.editor.value;
    if (code.trim() === "") return this.editor.focus();
    const cell = new ScratchCell(this.id, code, { onApply: () => { this.editor.value = code; void this.run(); } });
    replace(this.scratchPlace, cell.element);
    this.toEnd();
    await cell.run();
    this.toEnd();
  }

  /** @param {string} action @param {any} [body] */
  async send(action, body) {
    await post(`${this.address}/${action}`, body).catch(complain);
  }

  /** @param {number} count */
  async undo(count) {
    await post(`${this.address}/undo`, { n: count }).catch(complain);
    this.refresh();
  }

  /** @param {number} cell @param {number} count */
  async goBack(cell, count) {
    const isSure = count < 3 || (await ask({ title: cell ? t("time.after", { cell }) : t("time.start"), text: t("time.go_back_text", { count }), confirm: t("time.go_back"), cancel: t("app.cancel") }));
    if (!isSure) return;
    await post(`${this.address}/undo`, { n: count }).catch(complain);
    this.ribbon.toNow();
    this.refresh();
  }

  /** @param {number | null} at the cell after which the fork begins, or null for now */
  async fork(at) {
    try {
      // An earlier state is made by running the cells until then again.
      if (at !== null) toast(t("time.forking"));
      const { id } = await post(`${this.address}/fork`, at === null ? {} : { at });
      this.app.go(`/sessions/${id}`);
      toast(t("session.fork_done"));
    } catch (error) {
      complain(error);
    }
  }

  /** @param {string} code */
  edit(code) {
    this.editor.value = code;
    this.editor.focus();
  }

  /**
   * What can stand at the cursor. A session that is busy cannot be asked: then the names of its last result are offered.
   * @param {string} code @param {number} pos in code points
   * @returns {Promise<{ start: number, words: string[] }>}
   */
  async complete(code, pos) {
    try {
      const { matches } = await post(`${this.address}/complete`, { code, pos });
      const start = matches[0]?.start ?? pos;
      return { start, words: matches.filter((/** @type {any} */ match) => match.start === start).map((/** @type {any} */ match) => match.text) };
    } catch {
      const before = [...code].slice(0, pos).join("");
      const prefix = /\w*$/.exec(before)?.[0] ?? "";
      return { start: pos - prefix.length, words: [...this.model.names, ...KEYWORDS].filter((word) => word.startsWith(prefix)) };
    }
  }

  /** What stands at the cursor, as text. @param {string} code @param {number} pos in code points @returns {Promise<string>} */
  async inspect(code, pos) {
    try {
      const help = await post(`${this.address}/inspect`, { code, pos });
      return help.found ? String(help.mime["text/plain"] ?? "") : t("editor.unknown");
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  togglePanel() {
    const isOpen = this.panel.classList.toggle("open");
    this.panelButton.setAttribute("aria-expanded", String(isOpen));
  }

  /** @param {string} kind @param {string} text */
  tell(kind, text) {
    this.notice.className = `notice ${kind}`;
    this.notice.hidden = false;
    replace(this.notice, icon(kind === "restored" ? "restored" : "pulse"), h("div", null, text));
  }
}
