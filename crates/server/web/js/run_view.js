// A run of the agent while it happens: thoughts, code, output, the plan, approvals and the answer. It reads the events of `docs/agent.md`.

import { h, icon, replace, append, announce } from "./dom.js";
import { t, duration, number, size, hasText } from "./texts.js";
import { show } from "./markup.js";
import { CellView, copy } from "./cell_view.js";
import { OutputView } from "./output.js";
import { displayView } from "./display.js";
import { path, fileAddress } from "./api.js";
import { approvalCard, decidedCard } from "./approval.js";
import { PlanView } from "./plan.js";

/** The most characters of a tool's answer in the page. */
const MAX_TOOL_TEXT = 4_000;
/** How often a thought is rendered while it is written. */
const THOUGHT_PERIOD_MS = 120;

export class RunView {
  /** @param {{ session: () => string | undefined, onApprove: (id: string, decision: import("./approval.js").Decision) => Promise<void>, onPlan?: (markdown: string, version: number) => void, onEnd?: (status: string) => void }} context */
  constructor(context) {
    this.context = context;
    this.steps = h("div", { class: "steps" });
    this.activity = h("div", { class: "activity", role: "status" });
    this.answer = h("div", { class: "answer prose", hidden: true });
    this.plan = new PlanView();
    this.foot = h("div", { class: "cost small muted" });
    this.summary = h("summary", null, h("span", null, ""));
    this.details = h("details", { class: "work-details", open: true, hidden: true }, this.summary, this.steps);
    this.element = h("div", { class: "run" }, h("div", { class: "plan-place" }, this.plan.element), this.details, this.activity, this.answer, this.foot);
    /** @type {{ element: HTMLElement, thought: HTMLElement, text: string, code: HTMLElement | null, codeText: string, reasoning: HTMLElement | null, reasoningText: string } | null} */
    this.step = null;
    /** @type {{ body: HTMLElement, output: OutputView | null } | null} */
    this.cell = null;
    /** @type {Map<string, HTMLElement>} */
    this.approvals = new Map();
    /** @type {number[]} the numbers of the cells that ran */
    this.cells = [];
    /** @type {Set<string>} the files that the cells wrote */
    this.made = new Set();
    this.count = 0;
    /** @type {any} */
    this.usage = null;
    this.money = 0;
    this.ms = 0;
    this.isOver = false;
    this.rendered = 0;
    this.timer = 0;
  }

  /** @param {string} name @param {any} event */
  take(name, event) {
    switch (name) {
      case "begun": this.activityIs(t("chat.thinking")); break;
      case "asked": this.newStep(); this.activityIs(t("chat.thinking")); break;
      case "reasoning": this.reasoning(event.text); break;
      case "thought_part": this.thought(event.text, false); break;
      case "thought": this.thought(event.text, true); break;
      case "code_part": this.codePart(event.text); break;
      case "retrying": this.note(t("chat.retrying", { reason: event.reason })); this.dropParts(); break;
      case "malformed": this.note(t("chat.malformed")); break;
      case "repaired": break;
      case "candidates": this.candidates(event); break;
      case "code": this.code(event.code); break;
      case "call": this.call(event); break;
      case "cell": this.cellEvent(event.cell ?? event); break;
      case "waiting_for_approval": this.activityIs(t("session.state.waiting")); break;
      case "approval": this.approval(event); break;
      case "approval_decided": this.decided(event); break;
      case "plan": this.showPlan(event); break;
      case "done": this.done(event); break;
      case "note": this.note(event.text); break;
      case "spent": this.usage = event.usage; this.cost(); break;
      case "answer": this.showAnswer(event.answer); break;
      case "outcome": this.outcome(event); break;
      default: break;
    }
  }

  newStep() {
    this.details.hidden = false;
    this.cell = null;
    const thought = h("div", { class: "thought prose" });
    const element = h("div", { class: "step" }, thought);
    this.steps.append(element);
    this.step = { element, thought, text: "", code: null, codeText: "", reasoning: null, reasoningText: "" };
    this.count += 1;
    this.summarize();
  }

  dropStep() {
    clearTimeout(this.timer);
    this.step?.element.remove();
    this.step = null;
    this.count -= 1;
    this.details.hidden = this.count === 0;
    this.summarize();
  }

  summarize() {
    replace(this.summary, icon("chevron"), h("span", null, this.count === 1 ? t("chat.step") : t("chat.steps", { count: this.count })));
  }

  current() {
    if (!this.step) this.newStep();
    return /** @type {NonNullable<typeof this.step>} */ (this.step);
  }

  /** @param {string} text */
  activityIs(text) {
    replace(this.activity, h("span", { class: "dot running" }), text);
  }

  /** @param {string} text */
  reasoning(text) {
    const step = this.current();
    if (!step.reasoning) {
      step.reasoning = h("div", { class: "reasoning-text" });
      step.element.prepend(h("details", { class: "reasoning" }, h("summary", null, t("chat.reasoning")), step.reasoning));
    }
    step.reasoningText += text;
    step.reasoning.textContent = step.reasoningText;
  }

  /** @param {string} text @param {boolean} isWhole */
  thought(text, isWhole) {
    const step = this.current();
    step.text = isWhole ? text : step.text + text;
    const draw = () => {
      this.timer = 0;
      this.rendered = performance.now();
      void show(step.thought, { kind: "markdown", text: step.text }, { keepOld: true });
    };
    clearTimeout(this.timer);
    const wait = isWhole ? 0 : THOUGHT_PERIOD_MS - (performance.now() - this.rendered);
    if (wait <= 0) draw();
    else this.timer = setTimeout(draw, wait);
  }

  /** @param {string} text */
  codePart(text) {
    const step = this.current();
    step.codeText += text;
    step.code ??= this.codeBlock(step);
    void show(step.code, { kind: "code", text: step.codeText, language: "python" }, { keepOld: true });
    this.activityIs(t("chat.writing"));
  }

  /** @param {NonNullable<typeof this.step>} step */
  codeBlock(step) {
    const code = h("code");
    const block = h("div", { class: "cell-code" }, h("pre", { class: "code", tabindex: "0", role: "group", "aria-label": t("cell.code") }, code),
      h("div", { class: "cell-actions" }, h("button", { class: "button quiet icon-only", type: "button", "aria-label": t("cell.copy"), title: t("cell.copy"), onclick: () => void copy(code.textContent ?? "") }, icon("copy"))));
    step.element.append(block);
    return code;
  }

  dropParts() {
    const step = this.current();
    Object.assign(step, { text: "", codeText: "", reasoningText: "" });
    step.code?.closest(".cell-code")?.remove();
    step.code = null;
    step.thought.replaceChildren();
  }

  /** @param {string} text */
  code(text) {
    const step = this.current();
    step.code ??= this.codeBlock(step);
    void show(step.code, { kind: "code", text, language: "python" }, { keepOld: step.codeText !== "" });
    // The next code of the same reply is a block of its own.
    step.code = null;
    step.codeText = "";
    const body = h("div", { class: "cell-body" });
    step.element.append(body);
    this.cell = { body, output: null };
    this.activityIs(t("chat.working"));
  }

  /** The replies that were tried in forks, side by side. @param {{ chosen: number, candidates: import("./lanes.js").Candidate[] }} event */
  candidates(event) {
    // What was streamed belongs to the first reply, which need not be the chosen one.
    if (event.chosen !== 0) this.dropParts();
    const place = h("div");
    this.current().element.prepend(place);
    // Few runs need it, so it is not part of the first load.
    void import("./lanes.js").then(({ lanesView }) => place.replaceWith(lanesView(event.candidates, event.chosen)));
  }

  /** @param {{ name: string, arguments: any }} event */
  call(event) {
    const step = this.current();
    const body = h("div", { class: "cell-body" });
    step.element.append(h("div", { class: "tool-call mono small" }, icon("spark"), `${event.name}(${short(event.arguments)})`), body);
    this.cell = { body, output: null };
  }

  place() {
    if (!this.cell) {
      const body = h("div", { class: "cell-body" });
      this.current().element.append(body);
      this.cell = { body, output: null };
    }
    return this.cell;
  }

  /** @param {any} event an event of the running cell */
  cellEvent(event) {
    const cell = this.place();
    switch (event.event) {
      case "stdout":
      case "stderr":
        if (!cell.output) {
          cell.output = new OutputView(t("cell.output", { cell: "" }));
          cell.body.append(cell.output.element);
        }
        cell.output.add(event.text);
        break;
      case "display":
        cell.output = null;
        this.display(event.mime, cell.body);
        break;
      case "result":
        this.result(event.result, cell.body);
        break;
      default:
        break;
    }
  }

  /** @param {Record<string, any>} mime @param {HTMLElement} body */
  display(mime, body) {
    const session = this.context.session();
    const view = displayView(mime, { session, label: t("cell.output", { cell: "" }), resolve: (reference) => `${path("v1", "sessions", session ?? "")}/${reference.$file}` });
    if (view) body.append(h("div", { class: "display" }, view));
  }

  /** @param {any} result @param {HTMLElement} body */
  result(result, body) {
    if (body.dataset.result) return;
    body.dataset.result = "true";
    if (result.cell) this.cells.push(result.cell);
    for (const file of [...(result.files?.created ?? []), ...(result.files?.changed ?? [])]) this.made.add(file.path);
    const hadParts = body.childElementCount > 0;
    const view = new CellView({ number: result.cell, code: "", by: "agent", status: result.status, isUndone: false, result: hadParts ? { ...result, output: "", stdout: "", stderr: "", displays: [] } : result, restored: false }, { session: this.context.session() ?? "" });
    append(body, [...view.body.childNodes]);
    body.append(view.foot);
  }

  /** @param {any} event */
  done(event) {
    const { done } = event;
    const { body } = this.place();
    if (done.result) this.result(done.result, body);
    else if (done.error) body.append(h("div", { class: "error-box" }, h("div", { class: "error-line" }, done.error)));
    else if (done.text && body.childElementCount === 0) body.append(h("pre", { class: "output", tabindex: "0", role: "group", "aria-label": done.name }, done.text.slice(0, MAX_TOOL_TEXT)));
    this.cell = null;
    this.activityIs(t("chat.thinking"));
  }

  /** @param {any} event */
  approval(event) {
    const id = event.approval;
    const card = approvalCard({ tool: event.tool, arguments: event.arguments ?? {}, purpose: event.purpose }, (decision) => this.context.onApprove(id, decision));
    card.dataset.approval = id;
    this.approvals.set(id, card);
    this.place().body.append(card);
    this.activityIs(t("session.state.waiting"));
    announce(t("approval.title", { tool: event.tool }));
  }

  /** @param {any} event */
  decided(event) {
    const card = this.approvals.get(event.approval);
    if (card) decidedCard(card, event.decision);
    this.activityIs(t("chat.working"));
  }

  /** @param {{ markdown: string, version: number }} event */
  showPlan(event) {
    this.plan.add(event.markdown, event.version);
  }

  /** @param {string} text */
  note(text) {
    this.current().element.append(h("div", { class: "small muted note" }, text));
  }

  /** @param {any} answer */
  showAnswer(answer) {
    const text = typeof answer === "string" ? answer : `\`\`\`json\n${JSON.stringify(answer, null, 2)}\n\`\`\``;
    this.answer.hidden = false;
    // The reply that is the answer was streamed as a thought: it is not shown twice.
    if (this.step && !this.step.element.querySelector(".cell-code, .cell-body") && this.step.text.trim() === text.trim()) this.dropStep();
    void show(this.answer, { kind: "markdown", text }, { session: this.context.session() });
    announce(`${t("chat.answer")}: ${text.slice(0, 300)}`);
  }

  /** The last event of a run. @param {any} event */
  outcome(event) {
    this.isOver = true;
    this.usage = event.usage ?? this.usage;
    this.money = event.cost ?? 0;
    this.ms = event.ms ?? 0;
    if (event.answer !== null && event.answer !== undefined && this.answer.hidden) this.showAnswer(event.answer);
    replace(this.activity);
    // A step in which nothing was done but to answer.
    if (this.step && this.step.text === "" && this.step.element.childElementCount === 1) this.dropStep();
    if (event.status !== "answered") {
      this.answer.hidden = false;
      append(this.answer, [h("div", { class: "notice" }, icon("pulse"), h("div", null, h("strong", null, hasText(`chat.status.${event.status}`) ? t(`chat.status.${event.status}`) : t("chat.no_answer")), event.message ? ` ${event.message}` : ""))]);
    } else {
      this.details.open = this.details.dataset.touched === "true" || this.count <= 1;
    }
    this.warnings(event);
    this.cost();
    this.context.onEnd?.(event.status);
  }

  /** @param {{ warnings?: string[], verification?: any, files?: Array<{ path: string, bytes: number }> }} event */
  warnings(event) {
    for (const warning of event.warnings ?? []) this.element.insertBefore(h("div", { class: "notice warn small" }, icon("shield"), h("div", null, warning)), this.foot);
    const session = this.context.session();
    // The workspace also has the files of earlier answers.
    const files = (event.files ?? []).filter((file) => this.made.has(file.path));
    if (!session || files.length === 0) return;
    const chips = files.map((file) => h("a", { class: "chip", href: fileAddress(session, file.path), download: file.path.split("/").at(-1) }, icon("download"), h("span", { class: "ellipsis" }, file.path), h("span", { class: "muted" }, size(file.bytes))));
    this.element.insertBefore(h("div", { class: "chips made" }, chips), this.foot);
  }

  cost() {
    const parts = [];
    if (this.usage) {
      const tokens = this.usage.input_tokens + this.usage.output_tokens;
      if (tokens) parts.push(t("chat.tokens", { count: number(tokens) }));
    }
    if (this.money) parts.push(`$${this.money.toFixed(4)}`);
    if (this.ms) parts.push(duration(this.ms));
    this.foot.textContent = parts.join(" · ");
  }
}

/** @param {any} value */
function short(value) {
  const text = JSON.stringify(value ?? {});
  return text.length > 120 ? `${text.slice(0, 117)}…` : text;
}

/**
 * Shows a run from its record.
 * @param {RunView} view
 * @param {Array<{ at: number, event: any }>} events
 * @param {any} run
 */
export function replay(view, events, run) {
  for (const { event } of events) view.take(event.event, event);
  view.take("outcome", { status: run.status, answer: run.answer, cost: run.cost });
}
