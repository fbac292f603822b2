// The plan of a run as a tree.

import { h, icon } from "./dom.js";
import { t } from "./texts.js";
import { show } from "./markup.js";

/** @param {string} markdown @param {number} version */
export function planView(markdown, version) {
  const body = h("div", { class: "prose small" });
  void show(body, { kind: "markdown", text: markdown });
  return h("details", { class: "plan card", open: true }, h("summary", { class: "row" }, icon("list"), h("strong", null, t("chat.plan")), h("span", { class: "badge" }, t("chat.plan_version", { version }))), body);
}
