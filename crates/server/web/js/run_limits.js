// The limits of an answer, below those of the server: chosen in a dialog, shown as chips above the question.

import { h, icon, button, replace, ask } from "./dom.js";
import { t } from "./texts.js";

const NAMES = ["max_steps", "max_time", "max_tokens", "max_cost"];

export class RunLimits {
  constructor() {
    /** @type {Record<string, string>} */
    this.chosen = {};
    this.element = h("div", { class: "chips" });
    this.button = button({ icon: "clock", label: t("chat.limits"), isIconOnly: true, kind: "quiet", onclick: () => void this.choose() });
  }

  /** The limits as fields of a question. @returns {Record<string, string | number>} */
  get values() {
    return Object.fromEntries(Object.entries(this.chosen).map(([name, value]) => [name, name === "max_time" ? value.replaceAll(" ", "") : Number(value)]));
  }

  async choose() {
    const fields = NAMES.map((name) => ({ name, label: t(`chat.limit.${name}`), value: this.chosen[name] ?? "", type: name === "max_time" ? "text" : "number" }));
    const values = await ask({ title: t("chat.limits"), text: t("chat.limits_lead"), confirm: t("app.save"), cancel: t("app.cancel"), fields });
    if (!values) return;
    this.chosen = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value.trim()]).filter(([, value]) => value !== ""));
    this.show();
  }

  show() {
    replace(this.element, Object.entries(this.chosen).map(([key, value]) => {
      const name = t(`chat.limit.${key}`).split(/[,，]/)[0];
      const drop = button({ icon: "close", label: t("chat.remove_limit", { name }), isIconOnly: true, kind: "quiet", onclick: () => { delete this.chosen[key]; this.show(); this.button.focus(); } });
      return h("span", { class: "chip" }, icon("clock"), t("chat.limit.is", { name, value }), drop);
    }));
  }
}
