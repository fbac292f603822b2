// What can be done with cells that ran: verify them, keep them as a file, look where the time went.

import { h, icon, button, replace } from "./dom.js";
import { t } from "./texts.js";
import { post, path } from "./api.js";

/** @param {any} run a run that is over @param {"chat" | "run"} place the page that shows it */
export function runActions(run, place = "chat") {
  const address = path("v1", "runs", run.id);
  const { control, report } = verifyControl(address, "quiet");
  return h("div", { class: "run-actions" },
    h("div", { class: "row wrap" }, run.session ? control : null, ...exportLinks(address, [["md", "Markdown"], ["ipynb", "Notebook"], ["py", "Python"], ["html", "HTML"]], "quiet"), place === "chat" ? h("a", { class: "button quiet", href: `/runs/${run.id}` }, icon("pulse"), t("runs.timeline")) : null), report);
}

/**
 * Links that save something as a file.
 * @param {string} address
 * @param {Array<[string, string]>} kinds
 * @param {"quiet" | "plain"} look
 */
export const exportLinks = (address, kinds, look) => kinds.map(([kind, name]) => h("a", { class: `button ${look}`, href: `${address}/export?as=${kind}`, download: "" }, icon("download"), name));

/**
 * A button that runs the cells again in a clean session, and the place of its report.
 * @param {string} address of a run or a session
 * @param {"quiet" | "plain"} look
 */
export function verifyControl(address, look) {
  const report = h("div");
  const control = button({ icon: "check", label: t("runs.verify"), kind: look, attributes: { title: t("runs.verify_hint") }, onclick: async () => {
    control.disabled = true;
    replace(report, h("span", { class: "spinner" }));
    try {
      replace(report, verifyReport(await post(`${address}/verify`)));
    } catch (error) {
      replace(report, h("div", { class: "notice bad small" }, error instanceof Error ? error.message : String(error)));
    }
    control.disabled = false;
  } });
  return { control, report };
}

/** @param {{ is_same: boolean, replayed: number[], differences: Array<{ cell: number, what: string, was: string, is: string }> }} found */
function verifyReport(found) {
  return h("div", { class: `notice small ${found.is_same ? "good" : "warn"}`, role: "status" }, icon(found.is_same ? "check" : "shield"),
    h("div", null, h("strong", null, t(found.is_same ? "runs.verified" : "runs.unverified")),
      found.differences.map((line) => h("div", null, `${t("cell.label", { cell: line.cell })}, ${line.what}: ${line.was} → ${line.is}`))));
}
