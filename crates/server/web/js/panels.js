// The parts of a session beside its cells: variables, files, branches, limits and walls.

import { h, icon, button, replace, toast, ask } from "./dom.js";
import { t, size, duration, moment, number } from "./texts.js";
import { get, post, put, remove, path, fileAddress } from "./api.js";
import { render, show } from "./markup.js";
import { tableView } from "./table.js";
import { displayView, frameView, imageView } from "./display.js";
import { exportLinks, verifyControl } from "./run_actions.js";

/** @typedef {{ name: string, type: string, summary: string, bytes?: number }} Variable */
/** @typedef {{ path: string, bytes: number, mime: string, modified?: number }} FileEntry */

/**
 * Tabs with one panel for each. The tabs are one stop for the keyboard; arrows go through them.
 * @param {Array<{ id: string, label: string, element: HTMLElement }>} entries
 * @param {string} label
 */
export function tabs(entries, label) {
  const bar = h("div", { class: "tabs", role: "tablist", "aria-label": label });
  const panels = entries.map((entry) => h("div", { class: "tab-panel", role: "tabpanel", id: `panel-${entry.id}`, "aria-labelledby": `tab-${entry.id}`, tabindex: "0" }, entry.element));
  const heads = entries.map((entry, index) =>
    h("button", { class: "tab", role: "tab", type: "button", id: `tab-${entry.id}`, "aria-controls": `panel-${entry.id}`, onclick: () => choose(index) }, entry.label));
  /** @param {number} chosen */
  function choose(chosen) {
    heads.forEach((head, index) => {
      head.setAttribute("aria-selected", String(index === chosen));
      head.tabIndex = index === chosen ? 0 : -1;
      panels[index].hidden = index !== chosen;
    });
  }
  bar.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const next = (heads.findIndex((head) => head === document.activeElement) + move + heads.length) % heads.length;
    choose(next);
    heads[next].focus();
  });
  bar.append(...heads);
  choose(0);
  return h("div", { class: "tab-box" }, bar, panels);
}

/** The variables of a session, now or as they were. */
export class VariablesPanel {
  /** @param {string} session */
  constructor(session) {
    this.session = session;
    this.list = h("div");
    this.caption = h("div", { class: "badge time", hidden: true });
    this.element = h("div", { class: "panel" }, this.caption, this.list);
    /** @type {Variable[]} */
    this.variables = [];
  }

  /** @param {number | null} at the cell after which, or null for now */
  async load(at) {
    this.caption.hidden = at === null;
    if (at !== null) this.caption.textContent = t("vars.then", { cell: at });
    const address = path("v1", "sessions", this.session, "vars");
    try {
      const answer = await get(at === null ? address : `${address}?at=${at}`);
      this.variables = answer.vars;
    } catch (error) {
      replace(this.list, h("p", { class: "small muted" }, error instanceof Error ? error.message : String(error)));
      return;
    }
    this.fill(at);
  }

  /** @param {number | null} at */
  fill(at) {
    if (this.variables.length === 0) return replace(this.list, h("p", { class: "small muted" }, t("vars.none")));
    replace(this.list, h("ul", { class: "variables" }, this.variables.map((variable) =>
      h("li", null, h("details", { ontoggle: (/** @type {Event} */ event) => at === null && this.inspect(variable, /** @type {HTMLDetailsElement} */ (event.target)) },
        h("summary", { title: t("vars.inspect", { name: variable.name }) },
          h("span", { class: "mono variable-name" }, variable.name), h("span", { class: "badge" }, variable.type), h("span", { class: "mono ellipsis muted grow" }, variable.summary)),
        h("div", { class: "inspected" }, at === null ? "" : variable.summary))))));
  }

  /** @param {Variable} variable @param {HTMLDetailsElement} details */
  async inspect(variable, details) {
    const place = details.querySelector(".inspected");
    if (!details.open || !(place instanceof HTMLElement) || place.childNodes.length > 0) return;
    try {
      const found = await get(path("v1", "sessions", this.session, "vars", variable.name));
      const view = displayView({ "text/plain": found.repr, ...found.mime }, { session: this.session, label: variable.name });
      replace(place, view, variable.bytes ? h("div", { class: "small muted" }, size(variable.bytes)) : null, found.doc ? h("p", { class: "small muted doc" }, found.doc.slice(0, 600)) : null);
    } catch (error) {
      replace(place, h("p", { class: "small muted" }, error instanceof Error ? error.message : String(error)));
    }
  }
}

/** The most bytes of a file that the page shows. */
const MAX_PREVIEW = 400_000;

/** The files of a session. */
export class FilesPanel {
  /** @param {string} session */
  constructor(session) {
    this.session = session;
    this.list = h("div");
    this.caption = h("div", { class: "badge time", hidden: true });
    this.chooser = h("input", { type: "file", multiple: true, class: "visually-hidden", tabindex: "-1", "aria-hidden": "true", onchange: () => void this.upload([...(this.chooser.files ?? [])]) });
    this.upButton = button({ icon: "plus", label: t("files.upload"), onclick: () => this.chooser.click() });
    this.allLink = h("a", { class: "button quiet", href: `${path("v1", "sessions", session, "archive")}?as=zip`, download: "", hidden: true }, icon("download"), t("files.all"));
    this.element = h("div", { class: "panel" }, h("div", { class: "row spread wrap" }, this.caption, this.upButton, this.allLink, this.chooser), this.list);
  }

  /** Shows the files as they were. @param {number} at @param {FileEntry[]} files */
  showThen(at, files) {
    this.caption.hidden = false;
    this.upButton.hidden = true;
    this.caption.textContent = t("files.then", { cell: at });
    this.fill(files, at);
  }

  async load() {
    this.caption.hidden = true;
    this.upButton.hidden = false;
    try {
      const answer = await get(path("v1", "sessions", this.session, "files"));
      this.fill(answer.files, null);
    } catch (error) {
      replace(this.list, h("p", { class: "small muted" }, error instanceof Error ? error.message : String(error)));
    }
  }

  /** @param {FileEntry[]} files @param {number | null} at */
  fill(files, at) {
    this.allLink.hidden = at !== null || files.length === 0;
    if (files.length === 0) return replace(this.list, h("p", { class: "small muted" }, t("files.none")));
    replace(this.list, h("ul", { class: "files" }, files.map((file) => h("li", null, icon("file"),
      at === null ? h("button", { class: "file-name", type: "button", "aria-label": t("files.preview", { name: file.path }), onclick: () => void preview(this.session, file) }, file.path) : h("span", { class: "file-name" }, file.path),
      h("span", { class: "small muted" }, size(file.bytes)),
      at === null ? h("a", { class: "button quiet icon-only", href: fileAddress(this.session, file.path), download: file.path.split("/").at(-1), "aria-label": `${t("app.download")} ${file.path}`, title: t("app.download") }, icon("download")) : null,
      at === null ? button({ icon: "edit", label: t("files.rename", { name: file.path }), isIconOnly: true, kind: "quiet", onclick: () => void this.rename(file) }) : null,
      at === null ? button({ icon: "trash", label: t("files.remove", { name: file.path }), isIconOnly: true, kind: "quiet", onclick: () => void this.remove(file) }) : null))));
  }

  /** @param {FileEntry} file */
  async rename(file) {
    const values = await ask({ title: t("app.rename"), confirm: t("app.save"), cancel: t("app.cancel"), fields: [{ name: "to", label: t("files.path"), value: file.path }] });
    if (values && values.to !== file.path) await this.change(post(path("v1", "sessions", this.session, "move"), { from: file.path, to: values.to }));
  }

  /** @param {FileEntry} file */
  async remove(file) {
    const isSure = await ask({ title: t("files.remove", { name: file.path }), confirm: t("app.delete"), cancel: t("app.cancel"), isDangerous: true });
    if (isSure) await this.change(remove(fileAddress(this.session, file.path)));
  }

  /** @param {Promise<any>} request */
  async change(request) {
    await request.catch((error) => toast(error instanceof Error ? error.message : String(error), "error"));
    await this.load();
  }

  /** @param {File[]} files */
  async upload(files) {
    for (const file of files) {
      try {
        await put(fileAddress(this.session, file.name), file);
        toast(t("files.uploaded", { name: file.name }));
      } catch (error) {
        toast(`${file.name}: ${error instanceof Error ? error.message : error}`, "error");
      }
    }
    this.chooser.value = "";
    await this.load();
  }
}

/** Shows a file: a table, a picture, text or a notebook. @param {string} session @param {FileEntry} file */
export async function preview(session, file) {
  const address = fileAddress(session, file.path);
  const place = h("div", { class: "preview" }, h("span", { class: "spinner" }));
  const dialog = h("dialog", { class: "dialog wide", "aria-label": file.path },
    h("div", { class: "row spread preview-head" }, h("h2", { class: "ellipsis" }, file.path), h("div", { class: "row" },
      h("a", { class: "button", href: address, download: file.path.split("/").at(-1) }, icon("download"), t("app.download")),
      button({ icon: "close", label: t("app.close"), isIconOnly: true, kind: "quiet", onclick: () => dialog.close() }))), place);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  try {
    replace(place, await content(address, file));
  } catch (error) {
    replace(place, h("p", { class: "muted" }, error instanceof Error ? error.message : String(error)));
  }
}

/** @param {string} address @param {FileEntry} file */
async function content(address, file) {
  const name = file.path.toLowerCase();
  if (/\.(png|jpe?g|gif|webp)$/.test(name)) {
    const blob = await (await fetch(address)).blob();
    return imageView(URL.createObjectURL(blob), file.path);
  }
  const response = await fetch(address, { headers: { Range: `bytes=0-${MAX_PREVIEW - 1}` } });
  if (!response.ok) throw new Error(`${response.status}`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (bytes.subarray(0, 4000).includes(0)) return h("p", { class: "muted" }, t("files.no_preview"));
  const text = new TextDecoder().decode(bytes);
  const isCut = file.bytes > bytes.length ? h("p", { class: "small muted" }, t("files.cut")) : null;
  if (/\.(csv|tsv)$/.test(name)) {
    const { table } = await render({ kind: "csv", text });
    return table ? h("div", null, tableView(table, file.path), isCut) : h("pre", { class: "code" }, text);
  }
  if (name.endsWith(".svg") && !isCut) return frameView(text, file.path);
  if (name.endsWith(".ipynb") && !isCut) return rendered({ kind: "notebook", text });
  if (/\.(md|markdown)$/.test(name)) return rendered({ kind: "markdown", text });
  const language = { py: "python", json: "json", sql: "sql", sh: "bash", js: "js", rs: "rust" }[name.split(".").at(-1) ?? ""] ?? "";
  const code = h("code");
  void show(code, { kind: "code", text, language });
  return h("div", null, h("pre", { class: "code", tabindex: "0" }, code), isCut);
}

/** @param {import("./markup.js").Part} part */
function rendered(part) {
  const element = h("div", { class: "prose" });
  void show(element, part);
  return element;
}

/** The sessions that were forked from one another, as a tree. */
export class BranchesPanel {
  /** @param {string} session */
  constructor(session) {
    this.session = session;
    this.list = h("div");
    this.element = h("div", { class: "panel" }, this.list);
  }

  async load() {
    try {
      const answer = await get("/v1/sessions");
      /** @type {any[]} */
      const all = answer.sessions.filter((/** @type {any} */ entry) => entry.state !== "closed" || entry.id === this.session);
      const tree = familyOf(all, this.session);
      replace(this.list, tree.length < 2 ? h("p", { class: "small muted" }, t("branches.none")) : h("ul", { class: "branches" }, tree.map((entry) => this.entry(entry))));
    } catch (error) {
      replace(this.list, h("p", { class: "small muted" }, error instanceof Error ? error.message : String(error)));
    }
  }

  /** @param {{ session: any, depth: number }} entry */
  entry({ session, depth }) {
    const isThis = session.id === this.session;
    const item = h("li", { class: isThis ? "this" : undefined }, h("span", { class: "branch-line", "aria-hidden": "true" }), icon("fork"),
      isThis ? h("span", { class: "grow ellipsis" }, session.title || session.id) : h("a", { class: "grow ellipsis", href: `/sessions/${session.id}` }, session.title || session.id),
      isThis ? h("span", { class: "badge accent" }, t("branches.this")) : h("a", { class: "button quiet", href: `/compare/${this.session}/${session.id}` }, icon("compare"), t("branches.compare")));
    item.style.setProperty("--depth", String(Math.min(depth, 8)));
    return item;
  }
}

/**
 * The sessions that share a root with this one, in the order of the tree.
 * @param {any[]} all
 * @param {string} id
 * @returns {Array<{ session: any, depth: number }>}
 */
export function familyOf(all, id) {
  const byId = new Map(all.map((session) => [session.id, session]));
  let root = byId.get(id);
  for (let steps = 0; root?.parent && byId.has(root.parent) && steps < 1000; steps += 1) root = byId.get(root.parent);
  /** @type {Array<{ session: any, depth: number }>} */
  const found = [];
  /** @param {any} session @param {number} depth */
  const visit = (session, depth) => {
    if (!session || depth > 100) return;
    found.push({ session, depth });
    for (const child of all) if (child.parent === session.id) visit(child, depth + 1);
  };
  visit(root, 0);
  return found;
}

/** Limits and walls: what holds the code in, and what the session used. */
export class WallsPanel {
  /** @param {string} session */
  constructor(session) {
    const address = path("v1", "sessions", session);
    const { control, report } = verifyControl(address, "plain");
    this.facts = h("div");
    this.element = h("div", { class: "panel" }, this.facts, h("h2", { class: "group" }, t("session.export")), h("div", { class: "row wrap" }, ...exportLinks(address, [["ipynb", "Notebook"], ["py", "Python"], ["html", "HTML"]], "plain"), control), report);
  }

  /** @param {any} session @param {any} result the newest result @param {any} checkpoint @param {any[]} cells */
  fill(session, result, checkpoint, cells) {
    const net = checkpoint ?? result?.state?.checkpoint;
    const netText = !net ? null : net.status === "armed" ? t("walls.armed") : net.status === "behind" ? t("walls.behind", { count: net.behind }) : t("walls.unavailable");
    const rows = [
      [t("walls.isolation"), result?.isolation ?? session.live?.isolation],
      [t("walls.backend"), result?.backend],
      [t("walls.strategy"), result?.strategy],
      [t("walls.wall"), session.live?.time_limit ? duration(session.live.time_limit * 1000) : null],
      [t("walls.checkpoint"), netText],
      [t("walls.memory"), result?.usage ? `${size(result.usage.peak_bytes)}${session.memory ? ` / ${size(session.memory)}` : ""}` : session.memory ? `≤ ${size(session.memory)}` : null],
      [t("walls.cells"), number(cells.length)],
      [t("walls.time"), duration(cells.reduce((sum, cell) => sum + (cell.result?.usage?.wall_ms ?? 0), 0))],
      [t("admin.created"), session.created_at ? moment(session.created_at) : null],
    ].filter(([, value]) => value);
    replace(this.facts, h("dl", { class: "facts" }, rows.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, String(value))))), result?.isolation_note ? h("p", { class: "small muted" }, result.isolation_note) : null);
  }
}
