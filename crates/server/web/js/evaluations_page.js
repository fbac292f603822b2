// Evaluations: the scores of suites, and what changed from one to another.

import { h, icon, button, replace, toast } from "./dom.js";
import { t, moment, duration } from "./texts.js";
import { get, post, path } from "./api.js";

/** @typedef {import("./main.js").App} App */
/** @typedef {{ id: string, suite: string, model: string, format: string | null, score: number, passed: number, tasks: number, created_at: number }} Evaluation */

const percent = (/** @type {number} */ score) => `${(score * 100).toFixed(0)} %`;

/** @param {App} app @param {string} [id] */
export async function page(app, id) {
  app.main.className = "plain-page";
  await (id ? one(app, id) : all(app));
  return {};
}

/** @param {App} app */
async function all(app) {
  app.title(t("evals.title"));
  /** @type {{ evaluations: Evaluation[] }} */
  const { evaluations } = await get("/v1/evaluations");
  const chooser = h("input", { type: "file", accept: "application/json,.json", class: "visually-hidden", tabindex: "-1", "aria-hidden": "true", onchange: () => void add() });
  async function add() {
    try {
      for (const file of chooser.files ?? []) await post("/v1/evaluations", JSON.parse(await file.text()));
      await all(app);
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error), "error");
    }
  }
  const rows = evaluations.map((entry) => {
    const bar = h("i", { class: "code" });
    bar.style.width = percent(entry.score).replace(" ", "");
    return h("tr", null, h("td", null, h("a", { href: `/evaluations/${entry.id}` }, entry.suite)), h("td", null, entry.model, entry.format ? h("span", { class: "small muted" }, ` ${entry.format}`) : null),
      h("td", null, h("span", { class: "timeline-rail score-rail" }, bar)), h("td", { class: "number" }, percent(entry.score)), h("td", { class: "number" }, `${entry.passed} / ${entry.tasks}`), h("td", null, moment(entry.created_at)));
  });
  replace(app.main, h("div", { class: "page-head" }, h("h1", null, t("evals.title")), h("div", { class: "row" }, button({ icon: "plus", label: t("evals.add"), kind: "primary", onclick: () => chooser.click() }), chooser)),
    h("p", { class: "muted" }, t("evals.lead"), " ", h("code", null, "cellblock eval SUITE --out report.json")),
    rows.length === 0 ? h("div", { class: "empty" }, icon("list"), h("p", null, t("app.nothing_yet")))
      : h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": t("evals.title") }, h("table", { class: "table" }, h("thead", null, h("tr", null, ["suite", "model", "score", "share", "passed", "when"].map((key) => h("th", { scope: "col" }, t(`evals.${key}`))))), h("tbody", null, rows))));
}

/** @param {App} app @param {string} id */
async function one(app, id) {
  const address = path("v1", "evaluations", id);
  const [report, { evaluations }] = await Promise.all([get(address), get("/v1/evaluations")]);
  app.title(report.suite);
  const changes = h("div");
  const others = evaluations.filter((/** @type {Evaluation} */ entry) => entry.id !== id && entry.suite === report.suite);
  const choice = h("select", { class: "input", "aria-label": t("evals.compare"), onchange: () => void compare() }, h("option", { value: "" }, t("evals.compare")),
    others.map((/** @type {Evaluation} */ entry) => h("option", { value: entry.id }, `${entry.model} · ${percent(entry.score)} · ${moment(entry.created_at)}`)));
  async function compare() {
    if (!choice.value) return replace(changes);
    const found = await get(`${address}/compare?with=${encodeURIComponent(choice.value)}`);
    const list = (/** @type {string} */ key, /** @type {Array<{ task: string, problems: string[] }>} */ tasks, /** @type {string} */ kind) => tasks.length === 0 ? null : h("div", { class: `notice ${kind} small` }, h("div", null, h("strong", null, t(key, { count: tasks.length })), tasks.map((task) => h("div", null, task.task, task.problems.length > 0 ? `: ${task.problems.join("; ")}` : ""))));
    replace(changes, h("p", null, `${percent(found.score_before)} → ${percent(found.score_now)}`), list("evals.worse", found.regressions, "bad"), list("evals.better", found.improvements, "good"));
  }
  const tasks = report.tasks.map((/** @type {any} */ task) => h("tr", null, h("td", null, task.name), h("td", null, h("span", { class: `badge ${task.passed ? "good" : "bad"}` }, t(task.passed ? "evals.pass" : "evals.fail"))), h("td", { class: "number" }, String(task.steps)), h("td", { class: "number" }, duration(task.ms)),
    h("td", { class: "small muted" }, [...(task.problems ?? []), task.message ?? ""].filter(Boolean).join("; "))));
  replace(app.main, h("div", { class: "page-head" }, h("div", { class: "grow" }, h("h1", null, report.suite), h("div", { class: "small muted" }, `${report.model} · ${report.date}`)), h("div", { class: "row" }, h("strong", { class: "score" }, percent(report.totals.score)))),
    others.length > 0 ? choice : null, changes,
    h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": report.suite }, h("table", { class: "table" }, h("thead", null, h("tr", null, ["task", "result", "steps", "time", "problems"].map((key) => h("th", { scope: "col" }, t(`evals.${key}`))))), h("tbody", null, tasks))));
}
