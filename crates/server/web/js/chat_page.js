// The chat: questions to the agent over one session.

import { h, icon, button, append, replace, ask, toast, stickToEnd } from "./dom.js";
import { t } from "./texts.js";
import { get, post, put, remove, path, fileAddress } from "./api.js";
import { follow } from "./stream.js";
import { RunView, replay } from "./run_view.js";
import { runActions } from "./run_actions.js";
import { acceptFiles, complain } from "./dropped_files.js";
import { EditedQuestion, markTakenBack } from "./edited_question.js";
import { RunLimits } from "./run_limits.js";

/** @typedef {import("./main.js").App} App */

/** How long the events of earlier answers may take before it is looked which of their cells were taken back. */
const MARK_DELAY_MS = 600;

/** @param {App} app @param {string} [id] */
export async function page(app, id) {
  const view = new ChatPage(app, id ?? null);
  await view.load();
  return { leave: () => view.leave() };
}

class ChatPage {
  /** @param {App} app @param {string | null} id */
  constructor(app, id) {
    this.app = app;
    this.id = id;
    /** @type {any} */
    this.chat = null;
    /** @type {File[]} */
    this.files = [];
    /** @type {string | null} the run that goes on */
    this.running = null;
    /** @type {Array<{ close: () => void }>} */
    this.streams = [];
    /** @type {import("./edited_question.js").Exchange[]} */
    this.exchanges = [];
    this.edited = new EditedQuestion();
    this.limits = new RunLimits();

    this.heading = h("h1", { class: "ellipsis" }, "");
    this.sessionLink = h("a", { class: "button", hidden: true }, icon("cells"), h("span", { class: "hide-phone" }, t("chat.open_session")));
    this.forkButton = button({ icon: "fork", label: t("chat.fork"), onclick: () => void this.fork() });
    this.shareButton = button({ icon: "share", label: t("share.share"), isIconOnly: true, kind: "quiet", onclick: () => void this.share() });
    this.head = h("div", { class: "page-head", hidden: true }, h("div", { class: "row grow" }, this.heading), h("div", { class: "row" }, this.shareButton, this.forkButton, this.sessionLink));
    this.messages = h("div", { class: "messages", "aria-live": "off" });
    this.welcome = this.welcomeView();
    this.chips = h("div", { class: "chips" });
    this.question = h("textarea", { class: "question-area", rows: 1, placeholder: t("chat.ask"), "aria-label": t("chat.question"), oninput: () => this.grow() });
    this.question.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        void this.send();
      }
    });
    this.chooser = h("input", { type: "file", multiple: true, class: "visually-hidden", tabindex: "-1", "aria-hidden": "true", onchange: () => { this.attach([...(this.chooser.files ?? [])]); this.chooser.value = ""; } });
    this.model = h("select", { class: "model-choice", "aria-label": t("chat.model"), hidden: app.models.length < 2 }, app.models.map((name) => h("option", { value: name }, name)));
    this.verify = h("input", { type: "checkbox" });
    this.sendButton = button({ icon: "send", label: t("chat.send"), isIconOnly: true, kind: "primary", onclick: () => void this.send(), attributes: { class: "button primary icon-only round" } });
    this.stopButton = button({ icon: "stop", label: t("chat.stop"), isIconOnly: true, kind: "danger", onclick: () => void this.stop(), attributes: { class: "button danger icon-only round", hidden: true } });
    this.composer = h("div", { class: "composer card chat-composer" }, this.edited.element, this.chips, this.limits.element, this.question,
      h("div", { class: "row spread composer-foot" }, h("div", { class: "row" }, button({ icon: "clip", label: t("chat.attach"), isIconOnly: true, kind: "quiet", onclick: () => this.chooser.click() }), this.chooser, this.limits.button, this.model, h("label", { class: "row small muted check", title: t("runs.verify_hint") }, this.verify, t("runs.verify"))), h("div", { class: "row" }, this.stopButton, this.sendButton)));
    this.scroller = h("div", { class: "scroll" }, h("div", { class: "column" }, this.welcome, this.messages));
    this.end = stickToEnd(this.scroller);
    this.app.main.className = "chat-page";
    replace(this.app.main, h("div", { class: "work" }, this.head, this.scroller, h("div", { class: "composer-place" }, this.composer)));
    this.app.title(t("app.new_chat"));
    acceptFiles(this.app.main, t("chat.drop"), (files) => this.attach(files));
  }

  welcomeView() {
    const example = (/** @type {string} */ key) => h("button", { class: "example card", type: "button", onclick: () => { this.question.value = t(key); this.grow(); this.question.focus(); } }, t(key));
    return h("div", { class: "welcome" }, h("h1", null, t("chat.hello")), h("p", { class: "muted" }, t("chat.lead")),
      h("div", { class: "examples" }, (this.app.models[0] === "recorded" ? ["chat.example_demo"] : ["chat.example_1", "chat.example_2", "chat.example_3"]).map(example)));
  }

  async load() {
    this.question.focus();
    if (!this.id) return;
    this.chat = await get(path("v1", "chats", this.id));
    const { chat } = this;
    this.heading.textContent = chat.title || t("app.new_chat");
    this.app.title(chat.title || t("app.new_chat"));
    this.head.hidden = false;
    this.showSession(chat.session);
    for (const run of chat.runs) this.showRun(run);
    this.toEnd();
    this.markSoon();
  }

  /** @param {string | null | undefined} session */
  showSession(session) {
    this.session = session ?? undefined;
    this.sessionLink.hidden = !session;
    if (session) this.sessionLink.setAttribute("href", `/sessions/${session}`);
  }

  grow() {
    this.question.rows = Math.min(10, Math.max(1, this.question.value.split("\n").length));
  }

  /** @param {File[]} files */
  attach(files) {
    this.files.push(...files);
    this.showChips();
  }

  showChips() {
    replace(this.chips, this.files.map((file, at) => h("span", { class: "chip" }, icon("file"), h("span", { class: "ellipsis" }, file.name),
      button({ icon: "close", label: t("chat.remove_file", { name: file.name }), isIconOnly: true, kind: "quiet", onclick: () => { this.files.splice(at, 1); this.showChips(); } }))));
  }

  async send() {
    const question = this.question.value.trim();
    if (question === "" || this.running) return;
    this.sendButton.disabled = true;
    try {
      if (!this.id) {
        const chat = await post("/v1/chats", {});
        this.id = /** @type {string} */ (chat.id);
        this.showSession(chat.session);
        this.heading.textContent = question.slice(0, 80);
        this.app.title(question.slice(0, 80));
        this.head.hidden = false;
        history.replaceState(null, "", `/chats/${this.id}`);
      }
      const address = path("v1", "chats", this.id);
      await this.edited.takeBack(address, this.session, this.exchanges);
      const names = await this.upload(address);
      const text = names.length > 0 ? `${question}\n\n${t("chat.files_note", { names: names.join(", ") })}` : question;
      const run = await post(`${address}/messages`, { text, ...(this.model.value ? { model: this.model.value } : {}), ...(this.verify.checked ? { verify: true } : {}), ...this.limits.values });
      this.question.value = "";
      this.files = [];
      this.showChips();
      this.edited.stop();
      this.markSoon();
      this.grow();
      this.showRun({ ...run, status: "running" });
      this.app.refresh();
      this.toEnd();
    } catch (error) {
      complain(error);
    } finally {
      this.sendButton.disabled = false;
    }
  }

  /** Puts the chosen files into the workspace of the chat's session. @param {string} address @returns {Promise<string[]>} their names there */
  async upload(address) {
    if (this.files.length === 0) return [];
    if (!this.session) this.showSession((await post(`${address}/session`)).id);
    for (const file of this.files) await put(fileAddress(this.session ?? "", file.name), file);
    return this.files.map((file) => file.name);
  }

  /** @param {any} run */
  showRun(run) {
    this.welcome.hidden = true;
    const view = new RunView({
      session: () => this.session,
      onApprove: async (id, decision) => { await post(`${path("v1", "runs", run.id)}/approvals/${encodeURIComponent(id)}`, decision); },
      onEnd: () => {
        view.element.append(runActions(run));
        void this.ended(run.id);
      },
    });
    const exchange = { view, element: h("article", { class: "exchange" }) };
    const edit = button({ icon: "edit", label: t("chat.edit"), isIconOnly: true, kind: "quiet", onclick: () => this.edit(run.question, exchange) });
    append(exchange.element, [h("div", { class: "asked" }, edit, h("div", { class: "bubble" }, run.question)), view.element]);
    this.exchanges.push(exchange);
    this.messages.append(exchange.element);
    if (run.status === "running") {
      this.running = run.id;
      this.sendButton.hidden = true;
      this.stopButton.hidden = false;
    }
    const stream = follow(`${path("v1", "runs", run.id)}/events`, {
      onMessage: (message) => {
        const event = message.data;
        if (message.event === "session") this.showSession(event.session);
        view.take(message.event, event);
        // Nothing follows it, and a stream that ended would be opened again.
        if (message.event === "outcome") stream.close();
      },
      onGone: () => void this.showRecord(view, run),
    });
    this.streams.push(stream);
  }

  /** @param {string} question @param {import("./edited_question.js").Exchange} exchange */
  edit(question, exchange) {
    this.question.value = question;
    this.grow();
    this.question.focus();
    this.edited.begin(exchange, this.exchanges);
  }

  /** Marks the answers whose cells were taken back, here or in the session, once their events are there. */
  markSoon() {
    setTimeout(() => void markTakenBack(this.session, this.exchanges), MARK_DELAY_MS);
  }

  /** A run whose events are not in the server's memory any more, from its record. @param {RunView} view @param {any} run */
  async showRecord(view, run) {
    const record = await get(`${path("v1", "runs", run.id)}/record`).catch(() => ({ events: [] }));
    replay(view, record.events, run);
  }

  /** @param {string} run */
  async ended(run) {
    if (this.running !== run) return;
    this.running = null;
    this.sendButton.hidden = false;
    this.stopButton.hidden = true;
    this.app.refresh();
    if (this.id && !this.session) {
      const chat = await get(path("v1", "chats", this.id)).catch(() => null);
      this.showSession(chat?.session);
    }
  }

  /** A second chat that goes on from here. */
  async fork() {
    try {
      const copy = await post(`${path("v1", "chats", this.id ?? "")}/fork`);
      this.app.refresh();
      this.app.go(`/chats/${copy.id}`);
    } catch (error) {
      complain(error);
    }
  }

  /** Makes a link with which anyone reads this chat, or ends it. */
  async share() {
    const address = `${path("v1", "chats", this.id ?? "")}/share`;
    try {
      const { shared } = await get(path("v1", "chats", this.id ?? ""));
      if (shared && (await ask({ title: t("share.end"), text: t("share.end_text"), confirm: t("share.end"), cancel: t("share.renew"), isDangerous: true }))) {
        await remove(address);
        return toast(t("share.ended"));
      }
      const { path: link } = await post(address);
      await ask({ title: t("share.title"), text: t("share.text"), confirm: t("app.close"), cancel: t("app.cancel"), fields: [{ name: "link", label: t("share.link"), value: `${location.origin}${link}` }] });
    } catch (error) {
      complain(error);
    }
  }

  async stop() {
    if (this.running) await post(`${path("v1", "runs", this.running)}/cancel`).catch(complain);
  }

  toEnd() {
    this.end.toEnd();
  }

  leave() {
    for (const stream of this.streams) stream.close();
  }
}
