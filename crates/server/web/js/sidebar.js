// The side of the app: where one can go, and what was used last.

import { h, icon, button, mark, replace } from "./dom.js";
import { t, moment } from "./texts.js";
import { get } from "./api.js";

/** @typedef {import("./main.js").App} App */

/** How many entries of the history are shown without a search. */
const RECENT = 40;

export class Sidebar {
  /** @param {App} app @param {{ onTheme: () => void, onLanguage: () => void, onLogout: () => void }} actions */
  constructor(app, actions) {
    this.app = app;
    this.hasChats = app.models.length > 0;
    this.links = [
      this.hasChats ? this.link("/", "chat", t("app.new_chat")) : null,
      this.link("/sessions", "cells", t("app.sessions")),
      this.hasChats ? this.link("/runs", "runs", t("app.runs")) : null,
      this.hasChats ? this.link("/evaluations", "list", t("evals.title")) : null,
      this.link("/admin", app.user.role === "admin" ? "people" : "key", t(app.user.role === "admin" ? "app.admin" : "admin.tokens")),
    ];
    this.search = h("input", { class: "input", type: "search", placeholder: t("app.search"), "aria-label": t("app.search"), oninput: () => this.searchSoon() });
    this.history = h("div", { class: "history" });
    this.timer = 0;
    /** @type {Array<{ id: string, title: string, used_at: number }>} */
    this.chats = [];
    this.panel = h("aside", { class: "sidebar", "aria-label": t("app.navigation") },
      h("div", { class: "row spread" }, h("a", { class: "brand", href: "/" }, mark(), "Cellblock"),
        button({ icon: "close", label: t("app.close_menu"), isIconOnly: true, kind: "quiet", attributes: { class: "button quiet icon-only only-phone" }, onclick: () => this.close() })),
      h("nav", { "aria-label": t("app.navigation") }, this.links),
      h("div", { class: "history-box" }, this.search, this.history),
      h("div", { class: "side-foot" },
        h("span", { class: "row grow" }, h("span", { class: "avatar", "aria-hidden": "true" }, (app.user.name || "?").slice(0, 1).toUpperCase()), h("span", { class: "small ellipsis" }, app.user.name)),
        button({ icon: "theme", label: t("app.theme"), isIconOnly: true, kind: "quiet", onclick: actions.onTheme }),
        button({ icon: "globe", label: t("app.language"), isIconOnly: true, kind: "quiet", onclick: actions.onLanguage }),
        button({ icon: "exit", label: t("app.log_out"), isIconOnly: true, kind: "quiet", onclick: actions.onLogout })));
    this.shade = h("div", { class: "shade", onclick: () => this.close() });
    this.element = h("div", { class: "side" }, this.shade, this.panel);
    this.panel.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    void this.refresh();
  }

  /** @param {string} address @param {Parameters<typeof icon>[0]} name @param {string} label */
  link(address, name, label) {
    return h("a", { class: "side-link", href: address }, icon(name), h("span", null, label));
  }

  open() {
    this.element.classList.add("open");
    this.search.focus();
  }

  close() {
    this.element.classList.remove("open");
  }

  /** Marks where one is. @param {string} address */
  mark(address) {
    for (const link of this.panel.querySelectorAll("a.side-link")) {
      const target = link.getAttribute("href") ?? "";
      const isHere = address === target || (target !== "/" && address.startsWith(`${target}/`));
      if (isHere) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  async refresh() {
    const words = this.search.value.trim();
    const address = words ? `/v1/chats?search=${encodeURIComponent(words)}` : "/v1/chats";
    if (this.hasChats) this.chats = (await get(address).catch(() => ({ chats: [] }))).chats;
    this.fill();
  }

  /** Searches when typing pauses: the server looks into questions and answers too. */
  searchSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.refresh(), 200);
  }

  fill() {
    const words = this.search.value.trim();
    const found = this.chats;
    /** @type {Map<string, HTMLElement[]>} */
    const groups = new Map();
    for (const chat of found.slice(0, words ? 200 : RECENT)) {
      const link = h("a", { class: "side-link chat-link", href: `/chats/${chat.id}`, title: chat.title }, h("span", { class: "ellipsis" }, chat.title || t("app.new_chat")), h("time", { class: "small" }, moment(chat.used_at)));
      const group = dayOf(chat.used_at);
      groups.set(group, [...(groups.get(group) ?? []), link]);
    }
    this.search.hidden = this.chats.length < 4 && words === "";
    replace(this.history, found.length === 0 && words ? h("p", { class: "small muted" }, t("app.nothing_found")) : null,
      [...groups].map(([name, links]) => h("section", { "aria-label": name }, h("h2", { class: "group" }, name), links)));
    this.mark(location.pathname);
  }
}

/** @param {number} seconds */
function dayOf(seconds) {
  const days = Math.floor((new Date().setHours(24, 0, 0, 0) - seconds * 1000) / 86_400_000);
  return days <= 0 ? t("app.today") : days === 1 ? t("app.yesterday") : t("app.earlier");
}
