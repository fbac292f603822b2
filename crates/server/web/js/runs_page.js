// All runs of the user.

import { h, icon, replace } from "./dom.js";
import { t, moment, hasText } from "./texts.js";
import { get } from "./api.js";

/** @typedef {import("./main.js").App} App */

/** @param {App} app */
export async function page(app) {
  app.title(t("app.runs"));
  app.main.className = "plain-page";
  const { runs } = await get("/v1/runs");
  replace(app.main, h("div", { class: "page-head" }, h("div", null, h("h1", null, t("runs.title")), h("p", { class: "muted" }, t("runs.lead")))),
    runs.length === 0 ? h("div", { class: "empty" }, icon("runs"), h("p", null, t("app.nothing_yet"))) : h("div", { class: "cards" }, runs.map(card)));
  return {};
}

/** @param {any} run */
function card(run) {
  return h("a", { class: "card session-card", href: `/runs/${run.id}` },
    h("div", { class: "row" }, h("strong", { class: "ellipsis grow" }, run.question), h("time", { class: "small muted" }, moment(run.created_at))),
    h("div", { class: "row small muted" }, statusBadge(run.status), h("span", null, run.model), run.cost ? h("span", null, `$${run.cost.toFixed(4)}`) : null, run.answer ? h("span", { class: "ellipsis grow" }, withoutMarks(run.answer)) : null));
}

/** @param {string} status */
export function statusBadge(status) {
  const kind = status === "answered" ? "good" : status === "running" ? "accent" : status === "cancelled" || status === "cut_off" ? "" : "bad";
  return h("span", { class: `badge ${kind}` }, hasText(`runs.status.${status}`) ? t(`runs.status.${status}`) : status.replaceAll("_", " "));
}

/** An answer in one line, without the marks of Markdown for bold text and code. @param {any} answer */
function withoutMarks(answer) {
  return (typeof answer === "string" ? answer : JSON.stringify(answer)).replace(/\*\*|`/g, "");
}
