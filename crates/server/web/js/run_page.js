// One run: where its time went, and every event that was kept.

import { h, icon, button, replace, toast } from "./dom.js";
import { t, duration, number } from "./texts.js";
import { get, post, path } from "./api.js";
import { RunView, replay } from "./run_view.js";
import { runActions } from "./run_actions.js";
import { requestsView } from "./requests.js";
import { statusBadge } from "./runs_page.js";

/** @typedef {import("./main.js").App} App */
/** @typedef {{ kind: "model" | "code", name: string, start: number, ms: number }} Span */

/** @param {App} app @param {string} id */
export async function page(app, id) {
  const record = await get(`${path("v1", "runs", id)}/record`);
  const { run, events } = record;
  app.title(run.question);
  app.main.className = "plain-page";
  const view = new RunView({ session: () => run.session ?? undefined, onApprove: async () => {} });
  replay(view, events, run);
  const resume = async () => {
    await post(`${path("v1", "runs", id)}/resume`).catch((error) => toast(error.message, "error"));
    app.go(`/chats/${run.chat}`);
  };
  const spans = spansOf(events);
  replace(app.main, h("div", { class: "page-head" }, h("div", { class: "grow" }, h("h1", null, run.question), h("div", { class: "row small muted" }, statusBadge(run.status), run.model)),
    h("div", { class: "row" }, run.status === "cut_off" ? button({ icon: "play", label: t("runs.resume"), kind: "primary", onclick: () => void resume() }) : null, run.chat ? h("a", { class: "button", href: `/chats/${run.chat}` }, icon("chat"), h("span", null, t("runs.to_chat"))) : null)),
    spans.length > 0 ? h("div", null, h("h2", { class: "section" }, t("runs.timeline")), timeline(spans)) : null,
    h("div", null, h("h2", { class: "section" }, t("runs.story")), view.element, runActions(run, "run")),
    h("div", null, h("h2", { class: "section" }, t("requests.title")), requestsView(id)),
    h("div", null, h("h2", { class: "section" }, t("runs.events")), rawEvents(events)));
  return {};
}

/**
 * The stretches of time that the model and the code took. An event is written when it ends.
 * @param {Array<{ at: number, event: any }>} events
 * @returns {Span[]}
 */
function spansOf(events) {
  const begin = events.length > 0 ? events[0].at : 0;
  /** @type {Span[]} */
  const spans = [];
  for (const { at, event } of events) {
    const end = (at - begin) * 1000;
    if (event.event === "replied") spans.push({ kind: "model", name: t("runs.model_time"), start: Math.max(0, end - event.ms), ms: event.ms });
    if (event.event === "done") spans.push({ kind: "code", name: event.done.name, start: Math.max(0, end - event.done.ms), ms: event.done.ms });
  }
  return spans;
}

/** @param {Span[]} spans */
function timeline(spans) {
  const total = Math.max(1, ...spans.map((span) => span.start + span.ms));
  const sum = (/** @type {string} */ kind) => spans.filter((span) => span.kind === kind).reduce((all, span) => all + span.ms, 0);
  const rows = spans.map((span) => {
    const bar = h("i", { class: span.kind });
    bar.style.marginLeft = `${(span.start / total) * 100}%`;
    bar.style.width = `${Math.max(0.4, (span.ms / total) * 100)}%`;
    return h("li", null, h("span", { class: "timeline-name small ellipsis" }, span.name), h("span", { class: "timeline-rail" }, bar), h("span", { class: "small muted timeline-ms" }, duration(span.ms)));
  });
  return h("div", { class: "card timeline-card" }, h("div", { class: "row small" }, h("span", { class: "legend model" }), `${t("runs.model_time")} ${duration(sum("model"))}`, h("span", { class: "legend code" }), `${t("runs.cell_time")} ${duration(sum("code"))}`), h("ol", { class: "timeline" }, rows));
}

/** Everything that was kept, as it was kept. @param {Array<{ at: number, event: any }>} events */
function rawEvents(events) {
  const begin = events.length > 0 ? events[0].at : 0;
  return h("ul", { class: "events" }, events.map(({ at, event }) => {
    const body = h("pre", { class: "code", tabindex: "0" });
    return h("li", null, h("details", { ontoggle: () => { if (body.textContent === "") body.textContent = JSON.stringify(event, null, 2); } },
      h("summary", null, h("span", { class: "mono" }, event.event), h("span", { class: "small muted" }, `+${duration((at - begin) * 1000)}`), event.usage ? h("span", { class: "small muted" }, number((event.usage.input_tokens ?? 0) + (event.usage.output_tokens ?? 0))) : null), body));
  }));
}
