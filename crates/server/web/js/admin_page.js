// Administration: users, the caller's API tokens, and what was done.

import { h, icon, button, replace, ask, toast } from "./dom.js";
import { t, moment, number, size, duration } from "./texts.js";
import { get, post, put, request, remove, path } from "./api.js";
import { copy } from "./cell_view.js";
import { askLimits } from "./user_limits.js";

/** @typedef {import("./main.js").App} App */

const SECTIONS = /** @type {const} */ (["tokens", "account", "users", "live", "machine", "nodes", "audit"]);
/** What a token may do, as an ordinary user chooses it. */
const SCOPES = ["read, run", "read"];
/** How often the list of nodes is read again. */
const NODES_PERIOD_MS = 3_000;

/** @param {App} app @param {string} [section] */
export async function page(app, section = "tokens") {
  app.title(t("app.admin"));
  app.main.className = "plain-page";
  const isAdmin = app.user.role === "admin";
  const isCluster = isAdmin && (await get("/v1/server")).is_cluster;
  const sections = SECTIONS.filter((name) => name === "tokens" || name === "account" || (isAdmin && (name !== "nodes" || isCluster)));
  const place = h("div", { class: "admin-place" });
  const links = h("nav", { class: "tabs", "aria-label": t("app.admin") }, sections.map((name) => h("a", { class: "tab", href: `/admin/${name}`, "aria-current": name === section ? "page" : undefined, "aria-selected": undefined }, t(`admin.${name}`))));
  replace(app.main, h("div", { class: "page-head" }, h("h1", null, t("app.admin"))), links, place);
  // On a phone the links are wider than the page.
  links.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  const show = section === "users" && isAdmin ? users : section === "audit" && isAdmin ? audit : section === "live" && isAdmin ? live : section === "machine" && isAdmin ? machine : section === "nodes" && isCluster ? nodes : section === "account" ? account : tokens;
  await show(place, isAdmin);
  return {};
}

/** @param {HTMLElement} place @param {boolean} isAdmin */
async function tokens(place, isAdmin) {
  const { tokens: list } = await get("/v1/tokens");
  const add = async () => {
    const values = await ask({ title: t("admin.new_token"), confirm: t("app.save"), cancel: t("app.cancel"), fields: [
      { name: "name", label: t("admin.name") }, { name: "scopes", label: t("admin.scopes"), options: isAdmin ? [...SCOPES, "admin"] : SCOPES }, { name: "days", label: t("admin.days"), type: "number", value: "90" }] });
    if (!values) return;
    await attempt(async () => {
      const days = Number(values.days);
      const made = await post("/v1/tokens", { name: values.name, scopes: values.scopes.split(", "), ...(days > 0 ? { expires_in: Math.round(days * 86_400) } : {}) });
      await tokens(place, isAdmin);
      secretView(place, t("admin.token_once"), made.token);
    });
  };
  replace(place, h("div", { class: "row spread section-head" }, h("p", { class: "muted" }, t("admin.tokens_lead"), " ", h("a", { href: "/reference" }, t("reference.title"))), button({ icon: "plus", label: t("admin.new_token"), kind: "primary", onclick: () => void add() })),
    table([t("admin.name"), t("admin.scopes"), t("admin.created"), t("admin.expires"), t("admin.last_used"), ""], list.map((/** @type {any} */ token) => [
      token.name, [token.scopes].flat().join(", "), moment(token.created_at), token.expires_at ? new Date(token.expires_at * 1000).toLocaleDateString() : t("admin.never"), token.used_at ? moment(token.used_at) : "–",
      button({ icon: "trash", label: t("admin.delete_token", { name: token.name }), isIconOnly: true, kind: "quiet", onclick: () => void drop(t("admin.delete_token", { name: token.name }), "", path("v1", "tokens", token.id), () => tokens(place, isAdmin)) })])));
}

/** The caller's limits, what was used of them, and the password. @param {HTMLElement} place */
async function account(place) {
  const { quotas, used } = await get("/v1/me");
  const change = async () => {
    const values = await ask({ title: t("admin.password"), confirm: t("app.save"), cancel: t("app.cancel"), fields: [
      { name: "old", label: t("login.password"), type: "password" }, { name: "new", label: t("login.new_password"), type: "password" }] });
    if (values) await attempt(async () => { await put("/v1/me/password", { old: values.old, new: values.new }); toast(t("admin.password_changed")); });
  };
  const limits = [
    { name: t("admin.sessions"), used: used.sessions, most: quotas.sessions, show: number },
    { name: t("admin.memory"), used: used.memory, most: quotas.memory, show: size },
    { name: t("admin.time_today"), used: used.today.wall_ms, most: quotas.seconds_per_day * 1000, show: duration },
    { name: t("admin.cost_today"), used: used.today.cost, most: quotas.cost_per_day, show: (/** @type {number} */ value) => `$${value.toFixed(2)}` },
  ];
  replace(place, h("div", { class: "row spread section-head" }, h("p", { class: "muted" }, t("admin.account_lead")), button({ icon: "key", label: t("admin.password"), onclick: () => void change() })),
    h("ul", { class: "card meters" }, limits.map((limit) => h("li", null, h("div", { class: "row spread" }, h("span", null, limit.name), h("span", { class: "muted" }, limit.most ? `${limit.show(limit.used)} / ${limit.show(limit.most)}` : limit.show(limit.used))),
      limit.most ? h("meter", { min: 0, max: limit.most, value: Math.min(limit.used, limit.most), high: limit.most * 0.8, "aria-label": limit.name }) : null))),
    h("p", { class: "small muted section-head" }, t("admin.today", { cells: number(used.today.cells), tokens: number(used.today.tokens) })));
}

/** @param {HTMLElement} place */
async function users(place) {
  const { users: list } = await get("/v1/users");
  const add = async () => {
    const values = await ask({ title: t("admin.new_user"), confirm: t("app.save"), cancel: t("app.cancel"), fields: [{ name: "name", label: t("admin.name") }, { name: "role", label: t("admin.role"), options: ["user", "admin"] }] });
    if (!values) return;
    await attempt(async () => {
      const made = await post("/v1/users", { name: values.name, role: values.role });
      await users(place);
      secretView(place, t("admin.link_once"), location.origin + made.path);
    });
  };
  const link = (/** @type {any} */ user) => attempt(async () => {
    const made = await post(`${path("v1", "users", user.id)}/link`);
    secretView(place, t("admin.link_once"), location.origin + made.path);
  });
  const limits = (/** @type {any} */ user, /** @type {any} */ quotas) => attempt(async () => {
    const chosen = await askLimits(user.name, quotas);
    if (!chosen) return;
    await request("PATCH", path("v1", "users", user.id), { quotas: chosen });
    await users(place);
    toast(t("admin.limits_saved", { name: user.name }));
  });
  const lock = (/** @type {any} */ user) => attempt(async () => {
    await request("PATCH", path("v1", "users", user.id), { disabled: !user.disabled });
    await users(place);
  });
  replace(place, h("div", { class: "row spread section-head" }, h("p", { class: "muted" }, t("admin.users_lead")), button({ icon: "plus", label: t("admin.new_user"), kind: "primary", onclick: () => void add() })),
    table([t("admin.name"), t("admin.role"), t("admin.sessions"), t("admin.created"), ""], list.map((/** @type {{ user: any, quotas: any, live_sessions: number }} */ { user, quotas, live_sessions: live }) => [
      h("span", { class: user.disabled ? "muted" : undefined }, user.name, user.disabled ? ` (${t("admin.locked")})` : ""), h("span", { class: `badge ${user.role === "admin" ? "accent" : ""}` }, user.role), String(live), moment(user.created_at),
      h("div", { class: "row" },
        button({ icon: "clock", label: t("admin.limits", { name: user.name }), isIconOnly: true, kind: "quiet", onclick: () => void limits(user, quotas) }),
        button({ icon: "key", label: t("admin.new_link", { name: user.name }), isIconOnly: true, kind: "quiet", onclick: () => void link(user) }),
        button({ icon: "shield", label: t(user.disabled ? "admin.unlock" : "admin.lock", { name: user.name }), isIconOnly: true, kind: "quiet", onclick: () => void lock(user) }),
        button({ icon: "trash", label: t("admin.delete_user", { name: user.name }), isIconOnly: true, kind: "quiet", onclick: () => void drop(t("admin.delete_user", { name: user.name }), t("admin.delete_user_text"), path("v1", "users", user.id), () => users(place)) }))])));
}

/** @param {HTMLElement} place */
async function audit(place) {
  const { entries } = await get("/v1/audit?limit=200");
  const { users: list } = await get("/v1/users");
  const names = new Map(list.map((/** @type {any} */ entry) => [entry.user.id, entry.user.name]));
  replace(place, table([t("runs.when"), t("admin.owner"), t("admin.action"), t("admin.target")], entries.map((/** @type {any} */ entry) => [
    new Date(entry.at * 1000).toLocaleString(), names.get(entry.user) ?? entry.user ?? "–", h("span", { class: "mono" }, entry.action), h("span", { class: "mono" }, [entry.target, entry.detail].filter(Boolean).join(" · "))])));
}

/** A secret that is shown once. @param {HTMLElement} place @param {string} words @param {string} secret */
function secretView(place, words, secret) {
  place.querySelector(".secret")?.remove();
  place.prepend(h("div", { class: "notice secret", role: "status" }, icon("key"), h("div", { class: "grow" }, h("strong", null, words), h("div", { class: "mono secret-text" }, secret)),
    button({ icon: "copy", label: t("app.copy"), onclick: () => void copy(secret) })));
}

/** @param {string[]} heads @param {Array<Array<string | Node>>} rows */
function table(heads, rows) {
  if (rows.length === 0) return h("div", { class: "empty" }, h("p", null, t("app.nothing_yet")));
  return h("div", { class: "table-scroll tall", tabindex: "0", role: "region", "aria-label": t("app.admin") }, h("table", null,
    h("thead", null, h("tr", null, heads.map((head) => (head ? h("th", { scope: "col" }, head) : h("td", null))))),
    h("tbody", null, rows.map((row) => h("tr", null, row.map((cell, at) => h("td", { class: heads[at] === "" ? "actions" : undefined }, cell)))))));
}

/** @param {string} title @param {string} text @param {string} address @param {() => Promise<void>} after */
async function drop(title, text, address, after) {
  const isSure = await ask({ title, text, confirm: t("app.delete"), cancel: t("app.cancel"), isDangerous: true });
  if (isSure) await attempt(async () => { await remove(address); await after(); });
}

/** @param {() => Promise<void>} action */
async function attempt(action) {
  try {
    await action();
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), "error");
  }
}

/** The users with live sessions. What is in them is theirs. @param {HTMLElement} place */
async function live(place) {
  const { users: list } = await get("/v1/live");
  const end = (/** @type {any} */ entry) => attempt(async () => {
    const isSure = await ask({ title: t("admin.end_live"), text: t("admin.end_live_text", { name: entry.name }), confirm: t("admin.end_live"), cancel: t("app.cancel"), isDangerous: true });
    if (!isSure) return;
    await remove(`${path("v1", "users", entry.user)}/live`);
    await live(place);
  });
  replace(place, h("p", { class: "muted section-head" }, t("admin.live_lead")),
    table([t("admin.name"), t("admin.sessions"), t("admin.memory"), t("admin.running"), ""], list.map((/** @type {any} */ entry) => [
      entry.name, number(entry.sessions), size(entry.memory), number(entry.runs), button({ icon: "stop", label: t("admin.end_live"), kind: "quiet", onclick: () => void end(entry) })])));
}

/** The nodes of the cluster, its sessions in numbers, and the runs of its queue. @param {HTMLElement} place */
async function nodes(place) {
  const found = await get("/v1/nodes");
  const set = (/** @type {any} */ node, /** @type {string} */ state) => attempt(async () => {
    const isSure = state !== "draining" || await ask({ title: t("nodes.drain", { name: node.node }), text: t("nodes.drain_text"), confirm: t("nodes.drain_now"), cancel: t("app.cancel"), isDangerous: true });
    if (!isSure) return;
    await request("PATCH", path("v1", "nodes", node.node), { state });
    await nodes(place);
  });
  const stateBadge = (/** @type {any} */ node) => (node.is_silent
    ? h("span", { class: "badge bad" }, t("nodes.silent", { seconds: Math.ceil(node.silent_seconds) }))
    : h("span", { class: `badge ${node.state === "ready" ? "good" : ""}` }, t(`nodes.${node.state}`)));
  const rows = found.nodes.map((/** @type {any} */ node) => [
    h("span", null, node.node, node.node === found.this_node ? h("span", { class: "muted" }, ` (${t("nodes.this")})`) : null, h("div", { class: "small muted" }, `${node.address} · ${node.version} · ${node.walls}`)),
    stateBadge(node), h("span", null, `${number(node.sessions)} / ${number(node.capacity)}`, h("div", { class: "small muted" }, t("nodes.moved", { came: number(node.moves.adopted), left: number(node.moves.left) }))),
    node.load.toFixed(2), size(node.free_memory),
    h("div", { class: "row" }, node.state === "ready"
      ? button({ label: t("nodes.cordon"), kind: "quiet", onclick: () => void set(node, "cordoned") })
      : button({ label: t("nodes.uncordon"), kind: "quiet", onclick: () => void set(node, "ready") }),
    node.state === "draining" ? null : button({ label: t("nodes.drain_now"), kind: "quiet", onclick: () => void set(node, "draining") }))]);
  const runs = found.runs.map((/** @type {any} */ run) => [
    h("span", { class: "mono" }, run.id), run.user, run.node ?? t("nodes.waits"), moment(run.asked_at), number(run.deliveries)]);
  const { live: running, asleep, lost } = found.sessions;
  replace(place, h("p", { class: "muted section-head" }, t("nodes.lead", { live: number(running), asleep: number(asleep), lost: number(lost) })),
    table([t("nodes.node"), t("nodes.state"), t("admin.live"), t("nodes.load"), t("nodes.free"), ""], rows),
    h("h2", { class: "section" }, t("nodes.queue", { count: runs.length })),
    table([t("admin.running"), t("admin.owner"), t("nodes.node"), t("runs.when"), t("nodes.taken")], runs));
  // While the page is shown; a dialog over it is left alone.
  setTimeout(() => { if (place.isConnected && !document.querySelector("dialog[open]")) nodes(place).catch(() => undefined); }, NODES_PERIOD_MS);
}

/** What the machine offers: walls, Python, packages. @param {HTMLElement} place */
async function machine(place) {
  const found = await get("/v1/machine");
  const walls = found.walls.map((/** @type {any} */ wall) => h("li", { class: "row" }, h("span", { class: `badge ${wall.works ? "good" : "bad"}` }, t(wall.works ? "admin.works" : "admin.fails")), h("span", { class: "grow" }, wall.name, wall.version ? ` ${wall.version}` : "", wall.works ? null : h("div", { class: "small muted" }, `${wall.why}. ${wall.remedy ?? ""}`))));
  replace(place, h("p", { class: "muted" }, `Cellblock ${found.version} · Python ${found.python}`), h("h2", { class: "section" }, t("admin.walls")), h("ul", { class: "plain-list" }, walls),
    h("h2", { class: "section" }, t("admin.packages", { count: found.packages.length })), h("p", { class: "small" }, found.packages.length === 0 ? t("admin.no_packages") : found.packages.map((/** @type {any} */ entry) => `${entry.name} ${entry.version}`).join(", ")),
    h("h2", { class: "section" }, t("admin.environments")), environments(found.environments));
}

/** The sets of packages on disk. @param {any[]} all */
function environments(all) {
  if (all.length === 0) return h("p", { class: "small muted" }, t("admin.no_environments"));
  const name = (/** @type {any} */ entry) => entry.names.join(", ") || entry.requirements.join(" ") || entry.id.slice(0, 8);
  return table([t("admin.name"), "Python", t("admin.package_count"), t("admin.size"), t("admin.used")], all.map((entry) => [
    h("span", { class: "mono small" }, name(entry)), entry.python, String(entry.packages), size(entry.bytes), entry.in_use ? h("span", { class: "badge good" }, t("admin.in_use")) : moment(entry.used_at),
  ]));
}
