// The plan of a run as a tree, with the versions that it has had.

import { h, icon } from "./dom.js";
import { t } from "./texts.js";
import { show } from "./markup.js";

export class PlanView {
  constructor() {
    /** @type {Map<number, string>} the plan by version */
    this.versions = new Map();
    this.body = h("div", { class: "prose small" });
    this.choice = h("select", { class: "input plan-version", "aria-label": t("chat.plan_versions"), hidden: true, onchange: () => this.show(Number(this.choice.value)) });
    this.element = h("details", { class: "plan card", open: true, hidden: true }, h("summary", { class: "row" }, icon("list"), h("strong", null, t("chat.plan"))), this.choice, this.body);
  }

  /** @param {string} markdown @param {number} version */
  add(markdown, version) {
    this.versions.set(version, markdown);
    this.element.hidden = false;
    this.choice.hidden = this.versions.size < 2;
    this.choice.replaceChildren(...[...this.versions.keys()].map((number) => h("option", { value: String(number) }, t("chat.plan_version", { version: number }))));
    this.choice.value = String(version);
    this.show(version);
  }

  /** @param {number} version */
  show(version) {
    void show(this.body, { kind: "markdown", text: forPeople(this.versions.get(version) ?? "") }, { keepOld: true });
  }
}

/** The plan without the ids by which the model names its tasks. @param {string} markdown */
const forPeople = (markdown) => markdown.replace(/ \(ID: TASK-[0-9a-f-]+\)/g, "");
