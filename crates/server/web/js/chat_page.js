// The chat: questions to the agent over one session.

import { h, icon, button, replace, stickToEnd } from "./dom.js";
import { t } from "./texts.js";
import { get, post, path } from "./api.js";
import { follow } from "./stream.js";
import { hasRoute } from "./routes.js";
import { RunView } from "./run_view.js";
import { acceptFiles, complain } from "./session_page.js";
import { uploadAll } from "./attachments.js";

/** @typedef {import("./main.js").App} App */

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

    this.heading = h("h1", { class: "ellipsis" }, "");
    this.sessionLink = h("a", { class: "button", hidden: true }, icon("cells"), h("span", { class: "hide-phone" }, t("chat.open_session")));
    this.head = h("div", { class: "page-head", hidden: true }, h("div", { class: "row grow" }, this.heading), h("div", { class: "row" }, this.sessionLink));
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
    this.model = h("select", { class: "model-choice", "aria-label": t("chat.model"), hidden: true });
    this.approve = h("select", { class: "model-choice", "aria-label": t("chat.approve") }, ["never", "effects", "code", "tools", "all"].map((mode) => h("option", { value: mode, selected: mode === "effects" }, `${t("chat.approve")}: ${t(`chat.approve.${mode}`)}`)));
    this.sendButton = button({ icon: "send", label: t("chat.send"), isIconOnly: true, kind: "primary", onclick: () => void this.send(), attributes: { class: "button primary icon-only round" } });
    this.stopButton = button({ icon: "stop", label: t("chat.stop"), isIconOnly: true, kind: "danger", onclick: () => void this.stop(), attributes: { class: "button danger icon-only round", hidden: true } });
    this.composer = h("div", { class: "composer card chat-composer" }, this.chips, this.question,
      h("div", { class: "row spread composer-foot" }, h("div", { class: "row" }, button({ icon: "clip", label: t("chat.attach"), isIconOnly: true, kind: "quiet", onclick: () => this.chooser.click() }), this.chooser, this.model, this.approve), h("div", { class: "row" }, this.stopButton, this.sendButton)));
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
      h("div", { class: "examples" }, ["chat.example_1", "chat.example_2", "chat.example_3"].map(example)));
  }

  async load() {
    void this.loadModels();
    this.question.focus();
    if (!this.id) return;
    this.chat = await get(path("v1", "chats", this.id));
    const chat = this.chat.chat ?? this.chat;
    this.heading.textContent = chat.title || t("app.new_chat");
    this.app.title(chat.title || t("app.new_chat"));
    this.head.hidden = false;
    this.showSession(chat.session);
    for (const run of this.chat.runs ?? []) this.showRun(run);
    this.toEnd();
  }

  async loadModels() {
    if (!hasRoute("GET/v1/models")) return;
    const answer = await get("/v1/models").catch(() => ({ data: [] }));
    const names = (answer.data ?? answer.models ?? []).map((/** @type {any} */ model) => model.id ?? model);
    replace(this.model, names.map((/** @type {string} */ name) => h("option", { value: name }, name)));
    this.model.hidden = names.length < 2;
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
        const made = await post("/v1/chats", { ...(this.model.value ? { model: this.model.value } : {}), approve: this.approve.value });
        const chat = made.chat ?? made;
        this.id = chat.id;
        this.showSession(chat.session);
        this.heading.textContent = question.slice(0, 80);
        this.app.title(question.slice(0, 80));
        this.head.hidden = false;
        history.replaceState(null, "", `/chats/${this.id}`);
      }
      const files = this.files.length > 0 ? await uploadAll(this.id ?? "", this.session, this.files) : [];
      const answer = await post(`${path("v1", "chats", this.id ?? "")}/messages`, { question, ...(files.length ? { files } : {}) });
      const run = answer.run ?? answer;
      this.question.value = "";
      this.files = [];
      this.showChips();
      this.grow();
      this.showRun({ question, ...(typeof run === "string" ? { id: run } : run), status: "running" });
      this.app.refresh();
      this.toEnd();
    } catch (error) {
      complain(error);
    } finally {
      this.sendButton.disabled = false;
    }
  }

  /** @param {any} run */
  showRun(run) {
    this.welcome.hidden = true;
    const view = new RunView({
      session: () => this.session,
      onApprove: async (id, decision) => { await post(`${path("v1", "runs", run.id)}/approvals/${encodeURIComponent(id)}`, decision); },
      onEnd: () => this.ended(run.id),
    });
    const edit = button({ icon: "edit", label: t("chat.edit"), isIconOnly: true, kind: "quiet", onclick: () => { this.question.value = run.question; this.grow(); this.question.focus(); } });
    this.messages.append(h("article", { class: "exchange" }, h("div", { class: "asked" }, edit, h("div", { class: "bubble" }, run.question)), view.element));
    if (run.status === "running") {
      this.running = run.id;
      this.sendButton.hidden = true;
      this.stopButton.hidden = false;
    }
    this.streams.push(follow(`${path("v1", "runs", run.id)}/events`, {
      onMessage: (message) => {
        const event = message.data;
        if (event.session && !this.session) this.showSession(event.session);
        view.take(message.event === "message" ? event.event : message.event, event);
      },
      onGone: () => this.ended(run.id),
    }));
  }

  /** @param {string} run */
  async ended(run) {
    if (this.running !== run) return;
    this.running = null;
    this.sendButton.hidden = false;
    this.stopButton.hidden = true;
    this.app.refresh();
    if (this.id && !this.session) {
      const answer = await get(path("v1", "chats", this.id)).catch(() => null);
      this.showSession((answer?.chat ?? answer)?.session);
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
