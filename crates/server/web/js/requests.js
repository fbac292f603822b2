// The requests of a run to the model: every prompt and observation as it was sent. A request is loaded when it is opened.

import { h, replace } from "./dom.js";
import { t, number, hasText } from "./texts.js";
import { get, path } from "./api.js";

/** @typedef {{ request: number, at: number, step: number, tokens: number, template: string | null, message_count: number, first_new: number }} Summary */
/** @typedef {{ role: string, content: string | Array<any>, reasoning_content?: string, function_call?: any, tool_calls?: any[], tool_call_id?: string, name?: string }} Message */

/** @param {string} run @returns {HTMLElement} */
export function requestsView(run) {
  const list = h("ul", { class: "events requests" });
  void get(`${path("v1", "runs", run)}/requests`).then(({ requests }) => {
    if (requests.length === 0) list.replaceWith(h("p", { class: "muted" }, t("requests.none")));
    replace(list, requests.map((/** @type {Summary} */ request) => row(run, request)));
  }, (error) => list.replaceWith(h("p", { class: "muted" }, error.message)));
  return list;
}

/** @param {string} run @param {Summary} request */
function row(run, request) {
  const body = h("div", { class: "request-body" });
  let isLoaded = false;
  const load = async () => {
    if (isLoaded) return;
    isLoaded = true;
    try {
      replace(body, ...parts(await get(path("v1", "runs", run, "requests", String(request.request)))));
    } catch (error) {
      isLoaded = false;
      replace(body, h("p", { class: "muted" }, /** @type {Error} */ (error).message));
    }
  };
  return h("li", null, h("details", { ontoggle: () => void load() },
    h("summary", null, h("span", null, t("requests.request", { number: request.request })), request.template ? h("span", { class: "mono small" }, request.template) : null,
      h("span", { class: "small muted" }, `${t("requests.messages", { count: request.message_count })} · ${t("chat.tokens", { count: number(request.tokens) })}`)), body));
}

/** @param {{ messages: Array<Message | null>, first_new: number, tools: any[] | null, options: Record<string, any> }} request */
function parts(request) {
  const earlier = request.messages.slice(0, request.first_new).map(messageView);
  const settings = { ...(request.tools ? { tools: request.tools } : {}), ...request.options };
  return [
    earlier.length > 0 ? h("details", null, h("summary", { class: "small muted" }, t("requests.earlier", { count: earlier.length })), earlier) : null,
    ...request.messages.slice(request.first_new).map(messageView),
    Object.keys(settings).length > 0 ? h("details", null, h("summary", { class: "small muted" }, t("requests.tools")), text(JSON.stringify(settings, null, 2), t("requests.tools"))) : null,
  ];
}

/** @param {Message | null} message */
function messageView(message) {
  if (!message) return h("p", { class: "muted small" }, t("requests.not_kept"));
  const role = `requests.role.${message.role}`;
  const name = hasText(role) ? t(role) : message.role;
  return h("div", { class: `request-message ${message.role}` }, h("div", { class: "request-role small" }, name, h("span", { class: "mono muted" }, message.role)), text(textOf(message), name));
}

/** The text of a message. Calls and what is not a text are shown as JSON. @param {Message} message */
function textOf(message) {
  const content = typeof message.content === "string" ? [message.content] : message.content.map((part) => (part.type === "text" ? part.text : JSON.stringify(part)));
  const calls = message.tool_calls ?? (message.function_call ? [message.function_call] : []);
  const shown = [message.reasoning_content ?? "", ...content, ...calls.map((call) => JSON.stringify(call, null, 2))];
  return shown.filter((part) => part !== "").join("\n\n");
}

/** @param {string} shown @param {string} label */
const text = (shown, label) => h("pre", { class: "code", tabindex: "0", role: "group", "aria-label": label }, shown);
