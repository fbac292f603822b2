// The best of several replies: each was tried in a fork of the session, and stands in a lane of its own.

import { h, icon } from "./dom.js";
import { t } from "./texts.js";
import { show } from "./markup.js";

/** @typedef {{ thought: string, code: string, trial: "unreadable" | "failed" | "not_tried" | "succeeded", text: string }} Candidate */

/** @param {Candidate[]} candidates @param {number} chosen @returns {HTMLElement} */
export function lanesView(candidates, chosen) {
  const lanes = candidates.map((candidate, index) => lane(candidate, index, index === chosen));
  const title = t("lanes.title", { number: chosen + 1, count: candidates.length });
  return h("details", { class: "lanes-details" }, h("summary", null, icon("chevron"), h("span", null, title)),
    h("div", { class: "lanes", role: "list", tabindex: "0", "aria-label": title }, lanes));
}

/** @param {Candidate} candidate @param {number} index @param {boolean} isChosen */
function lane(candidate, index, isChosen) {
  const head = h("div", { class: "lane-head" }, h("strong", null, t("lanes.reply", { number: index + 1 })), h("span", { class: `chip lane-${candidate.trial}` }, t(`lanes.${candidate.trial}`)),
    isChosen ? h("span", { class: "chip lane-chosen" }, t("lanes.chosen")) : null);
  const code = h("code");
  if (candidate.code) void show(code, { kind: "code", text: candidate.code, language: "python" });
  return h("div", { class: isChosen ? "lane chosen" : "lane", role: "listitem" }, head,
    candidate.thought ? h("p", { class: "small" }, candidate.thought) : null,
    candidate.code ? h("pre", { class: "code", tabindex: "0", role: "group", "aria-label": t("cell.code") }, code) : null,
    candidate.text ? h("pre", { class: "output", tabindex: "0", role: "group", "aria-label": t("cell.output", { cell: "" }) }, candidate.text) : null);
}
