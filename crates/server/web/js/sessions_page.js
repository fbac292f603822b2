// All sessions of the user.

import { h, icon, button, replace, toast } from "./dom.js";
import { t, moment, size } from "./texts.js";
import { get, post } from "./api.js";

/** @typedef {import("./main.js").App} App */

/** @param {App} app */
export async function page(app) {
  app.title(t("app.sessions"));
  app.main.className = "plain-page";
  const list = h("div", { class: "cards" });
  const make = async () => {
    try {
      const made = await post("/v1/sessions", {});
      app.go(`/sessions/${made.id}`);
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error), "error");
    }
  };
  replace(app.main, h("div", { class: "page-head" }, h("h1", null, t("app.sessions")), button({ icon: "plus", label: t("app.new_session"), kind: "primary", onclick: () => void make() })), list);
  const answer = await get("/v1/sessions");
  /** @type {any[]} */
  const sessions = answer.sessions;
  if (sessions.length === 0) {
    replace(list, h("div", { class: "empty" }, icon("cells"), h("h2", null, t("app.nothing_yet")), h("p", null, t("session.empty_lead"))));
    return {};
  }
  const byId = new Map(sessions.map((session) => [session.id, session]));
  replace(list, sessions.map((session) => {
    const parent = session.parent ? byId.get(session.parent) : null;
    return h("a", { class: "card session-card", href: `/sessions/${session.id}` },
      h("div", { class: "row" }, h("span", { class: `dot ${{ live: "good", asleep: "time" }[/** @type {string} */ (session.state)] ?? ""}` }), h("strong", { class: "ellipsis grow" }, session.title || session.id), h("time", { class: "small muted" }, moment(session.created_at))),
      h("div", { class: "row small muted" }, h("span", { class: "mono ellipsis" }, session.id), parent ? h("span", { class: "badge" }, icon("fork"), parent.title || parent.id) : null, session.rebuilt ? h("span", { class: "badge time" }, icon("restored"), t("session.rebuilt")) : null, session.memory ? h("span", null, `≤ ${size(session.memory)}`) : null));
  }));
  return {};
}
