// A scratch cell: code that runs in a fork of the session, so that the session itself stays as it is.

import { h, button, replace } from "./dom.js";
import { t } from "./texts.js";
import { post, remove, path } from "./api.js";
import { CellView } from "./cell_view.js";

export class ScratchCell {
  /** @param {string} session @param {string} code @param {{ onApply: () => void }} actions */
  constructor(session, code, actions) {
    this.session = session;
    this.code = code;
    this.actions = actions;
    this.body = h("div", null, h("span", { class: "spinner" }));
    this.element = h("section", { class: "scratch card", "aria-label": t("session.scratch_title") },
      h("div", { class: "row spread" }, h("strong", null, t("session.scratch_title")), h("div", { class: "row" },
        button({ icon: "check", label: t("session.scratch_apply"), kind: "primary", onclick: () => { this.element.remove(); actions.onApply(); } }),
        button({ label: t("session.scratch_drop"), kind: "quiet", onclick: () => this.element.remove() }))), this.body);
  }

  /** Forks the session, runs the code there, shows what came of it, and ends the fork. */
  async run() {
    let fork = "";
    try {
      const made = await post(`${path("v1", "sessions", this.session)}/fork`, {});
      fork = made.id;
      const result = await post(`${path("v1", "sessions", fork)}/cells?wait=1`, { code: this.code });
      const view = new CellView({ number: result.cell, code: this.code, by: "", status: result.status, isUndone: false, result, restored: false }, { session: fork });
      replace(this.body, view.element);
    } catch (error) {
      replace(this.body, h("p", { class: "notice bad" }, error instanceof Error ? error.message : String(error)));
    } finally {
      if (fork) await remove(path("v1", "sessions", fork)).catch(() => {});
    }
  }
}
