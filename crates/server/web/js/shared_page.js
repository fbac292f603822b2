// A chat that its owner shared: anyone with the link reads it, and nothing else.

import { h, icon, mark, replace } from "./dom.js";
import { t, moment } from "./texts.js";
import { post, ApiError } from "./api.js";
import { RunView, replay } from "./run_view.js";

/** The secret stands behind the `#`, which browsers do not send. @param {HTMLElement} root */
export async function sharedPage(root) {
  try {
    const chat = await post("/v1/shared", { secret: location.hash.slice(1) });
    document.title = `${chat.title} · Cellblock`;
    const runs = chat.runs.map((/** @type {any} */ run) => {
      const view = new RunView({ session: () => undefined, onApprove: async () => {} });
      replay(view, run.events, run);
      return h("article", { class: "exchange" }, h("div", { class: "asked" }, h("div", { class: "bubble" }, run.question)), view.element);
    });
    replace(root, h("main", { class: "shared-page" }, h("div", { class: "page-head" }, h("div", { class: "grow" }, h("h1", null, chat.title), h("div", { class: "small muted" }, t("share.note", { date: moment(chat.created_at) }))), h("span", { class: "brand" }, mark(), "Cellblock")),
      h("div", { class: "column messages" }, runs)));
  } catch (error) {
    const isGone = error instanceof ApiError && error.status === 404;
    replace(root, h("main", { class: "empty" }, icon("search"), h("h1", null, isGone ? t("share.gone") : error instanceof Error ? error.message : String(error))));
  }
}
