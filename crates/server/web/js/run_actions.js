// What can be done with a run that is over: verify it, keep it as a file, look where its time went.

import { h, icon, button, replace } from "./dom.js";
import { t } from "./texts.js";
import { post, path } from "./api.js";

/** @param {any} run @param {{ isOver: boolean }} view */
export function runActions(run, view) {
  const address = path("v1", "runs", run.id);
  const report = h("div");
  const verify = button({ icon: "check", label: t("runs.verify"), kind: "quiet", attributes: { title: t("runs.verify_hint") }, onclick: async () => {
    if (!view.isOver) return;
    verify.disabled = true;
    replace(report, h("span", { class: "spinner" }));
    try {
      replace(report, verifyReport(await post(`${address}/verify`)));
    } catch (error) {
      replace(report, h("div", { class: "notice bad small" }, error instanceof Error ? error.message : String(error)));
    }
    verify.disabled = false;
  } });
  const save = (/** @type {string} */ kind, /** @type {string} */ name) => h("a", { class: "button quiet", href: `${address}/export?as=${kind}`, download: "" }, icon("download"), name);
  return h("div", { class: "run-actions" }, h("div", { class: "row wrap" }, verify, save("ipynb", "Notebook"), save("py", "Python"), save("md", "Markdown"), h("a", { class: "button quiet", href: `/runs/${run.id}` }, icon("pulse"), t("runs.timeline"))), report);
}

/** @param {any} found */
function verifyReport(found) {
  const differences = found.differed ?? found.differences ?? [];
  const isSame = found.verified ?? found.same ?? differences.length === 0;
  return h("div", { class: `notice small ${isSame ? "good" : "warn"}`, role: "status" }, icon(isSame ? "check" : "shield"),
    h("div", null, h("strong", null, t(isSame ? "runs.verified" : "runs.unverified")), differences.map((/** @type {any} */ line) => h("div", null, typeof line === "string" ? line : JSON.stringify(line)))));
}
