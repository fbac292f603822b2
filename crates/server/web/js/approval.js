// A call that waits for a person, inside the cell or step that made it. The arguments can be changed before it is allowed.

import { h, icon, button, replace } from "./dom.js";
import { t } from "./texts.js";

/**
 * @typedef {{ decision: "accept" | "always" } | { decision: "edit", arguments: any } | { decision: "reject" | "respond", text?: string }} Decision
 */

/**
 * @param {{ tool: string, arguments: any, purpose?: string }} request
 * @param {(decision: Decision) => Promise<void>} decide
 */
export function approvalCard(request, decide) {
  // A host is allowed or not: there is nothing to edit, and a host that was allowed is not asked about again in the run.
  const isHost = request.tool === "reach_host";
  const title = isHost ? t("approval.host", { host: `${request.arguments?.host}:${request.arguments?.port}` }) : t("approval.title", { tool: request.tool });
  const original = JSON.stringify(request.arguments ?? {}, null, 2);
  const entries = Object.entries(request.arguments ?? {});
  const problem = h("div", { class: "small bad-text", role: "alert", hidden: true });
  const reason = h("input", { class: "input", placeholder: t("approval.reason"), "aria-label": t("approval.reason"), oninput: () => { answer.disabled = reason.value.trim() === ""; } });
  const answer = button({ icon: "chat", label: t("approval.respond"), attributes: { disabled: true, title: t("approval.respond_hint") }, onclick: () => void finish({ decision: "respond", text: reason.value.trim() }) });
  /** @type {Array<() => [string, any]>} */
  const readers = [];
  const fields = isHost ? [] : entries.map(([name, value]) => {
    const isText = typeof value === "string";
    const text = isText ? value : JSON.stringify(value);
    const input = h("textarea", { class: "input mono", rows: Math.min(10, text.split("\n").length), value: text, oninput: () => changed() });
    readers.push(() => [name, isText ? input.value : JSON.parse(input.value)]);
    return h("label", { class: "field" }, h("span", { class: "mono" }, name), input);
  });
  const accept = button({ icon: "check", label: t("approval.accept"), kind: "primary", onclick: () => void accepted() });
  const buttons = h("div", { class: "row wrap" }, accept,
    isHost ? null : button({ label: t("approval.always"), onclick: () => void finish({ decision: "always" }) }), answer,
    button({ icon: "close", label: t("approval.reject"), kind: "danger", onclick: () => void finish({ decision: "reject", ...(reason.value ? { text: reason.value } : {}) }) }));
  const card = h("section", { class: "approval card", "aria-label": title },
    h("div", { class: "row" }, icon("shield"), h("strong", null, title)),
    h("p", { class: "small muted" }, request.purpose || t(isHost ? "approval.host_lead" : "approval.lead")), fields, problem, reason, buttons);

  /** @returns {any} */
  const read = () => Object.fromEntries(readers.map((reader) => reader()));

  function changed() {
    let isChanged = true;
    try {
      isChanged = JSON.stringify(read(), null, 2) !== original;
      problem.hidden = true;
    } catch {
      problem.hidden = false;
      problem.textContent = t("approval.invalid");
    }
    replace(accept, icon("check"), h("span", null, t(isChanged ? "approval.accept_edited" : "approval.accept")));
    accept.disabled = !problem.hidden;
  }

  async function accepted() {
    const edited = isHost ? request.arguments : read();
    await finish(JSON.stringify(edited, null, 2) === original ? { decision: "accept" } : { decision: "edit", arguments: edited });
  }

  /** @param {Decision} decision */
  async function finish(decision) {
    for (const control of buttons.querySelectorAll("button")) control.disabled = true;
    problem.hidden = true;
    try {
      await decide(decision);
      decidedCard(card, decision.decision);
    } catch (error) {
      problem.hidden = false;
      problem.textContent = error instanceof Error ? error.message : String(error);
      for (const control of buttons.querySelectorAll("button")) control.disabled = false;
      answer.disabled = reason.value.trim() === "";
    }
  }
  return card;
}

/** Shows what was decided in place of the question, also where another person decided. @param {HTMLElement} card @param {string} decision */
export function decidedCard(card, decision) {
  const isRefused = decision === "reject" || decision === "dropped";
  const words = /** @type {Record<string, string>} */ ({ edit: "accept_edited", respond: "respond", always: "always" });
  const word = t(`approval.${isRefused ? "reject" : (words[decision] ?? "accept")}`);
  card.classList.add("decided");
  replace(card, h("div", { class: "row small muted" }, icon(isRefused ? "close" : "check"), t("approval.done", { decision: word })));
}
