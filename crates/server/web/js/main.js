// The app: who is logged in, the frame around every page, and which page the address names.

import { h, icon, button, mark, replace, toast } from "./dom.js";
import { t, language, switchLanguage } from "./texts.js";
import { get, post, onLogout, ApiError } from "./api.js";
import { Sidebar } from "./sidebar.js";

/**
 * @typedef {{ name: string, role: string }} User
 * @typedef {{ user: User, models: string[], go: (address: string, options?: { replace?: boolean }) => void, refresh: () => void, main: HTMLElement, title: (text: string) => void }} App
 * @typedef {{ leave?: () => void }} Page
 */

/** @type {Array<[RegExp, (app: App) => Promise<{ page: (app: App, ...parts: string[]) => Page | Promise<Page> }>]>} */
const PAGES = [
  [/^\/$/, (app) => (app.models.length > 0 ? import("./chat_page.js") : import("./sessions_page.js"))],
  [/^\/chats\/([^/]+)$/, () => import("./chat_page.js")],
  [/^\/sessions$/, () => import("./sessions_page.js")],
  [/^\/sessions\/([^/]+)$/, () => import("./session_page.js")],
  [/^\/compare\/([^/]+)\/([^/]+)$/, () => import("./compare_page.js")],
  [/^\/runs$/, () => import("./runs_page.js")],
  [/^\/runs\/([^/]+)$/, () => import("./run_page.js")],
  [/^\/evaluations(?:\/([^/]+))?$/, () => import("./evaluations_page.js")],
  [/^\/reference$/, () => import("./reference_page.js")],
  [/^\/admin(?:\/([^/]+))?$/, () => import("./admin_page.js")],
];

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
/** @type {Page | null} */
let current = null;
let turn = 0;

document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;

void start();

async function start() {
  const login = () => import("./login.js");
  if (location.pathname === "/setup") return (await login()).setupPage(root, () => location.assign("/"));
  if (location.pathname === "/enter") return (await login()).enterPage(root);
  if (location.pathname === "/shared") return (await import("./shared_page.js")).sharedPage(root);
  const [user, models] = await Promise.all([whoAmI(), modelNames()]);
  if (!user) return (await login()).loginPage(root, () => location.assign(returnAddress()));
  onLogout.run = () => location.assign("/login");
  if (location.pathname === "/login") history.replaceState(null, "", "/");
  await shell(user, models);
}

/** Where to go after the login: the page that was asked for. */
const returnAddress = () => (location.pathname === "/login" ? "/" : location.pathname);

/** @returns {Promise<User | null>} */
async function whoAmI() {
  try {
    const me = await get("/v1/me");
    return { name: me.user.name, role: me.user.role };
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null;
    replace(root, h("div", { class: "empty" }, icon("pulse"), h("p", null, String(error instanceof Error ? error.message : error))));
    return new Promise(() => {});
  }
}

/** The models that chats can use. Without any, the app has sessions alone. @returns {Promise<string[]>} */
async function modelNames() {
  const answer = await get("/v1/models").catch(() => ({ data: [] }));
  return answer.data.map((/** @type {{ id: string }} */ model) => model.id);
}

/** @param {User} user @param {string[]} models */
async function shell(user, models) {
  const main = h("main", { id: "content", tabindex: "-1" });
  /** @type {App} */
  const app = { user, models, main, go, refresh: () => sidebar.refresh(), title };
  const sidebar = new Sidebar(app, { onTheme: switchTheme, onLanguage: switchLanguage, onLogout: () => void logOut() });
  const top = h("header", { class: "topbar" },
    button({ icon: "menu", label: t("app.menu"), isIconOnly: true, kind: "quiet", onclick: () => sidebar.open() }),
    h("a", { class: "brand", href: "/" }, mark(), "Cellblock"),
    models.length > 0 ? button({ icon: "plus", label: t("app.new_chat"), isIconOnly: true, kind: "quiet", onclick: () => go("/") }) : h("span"));
  replace(root, h("a", { class: "skip", href: "#content" }, t("app.skip")), h("div", { class: "shell" }, sidebar.element, h("div", { class: "stage" }, top, main)));
  document.addEventListener("click", followLinks);
  window.addEventListener("popstate", () => void route(app, sidebar));
  await route(app, sidebar);
  // The browser test tells how long this took.
  performance.mark("ready");

  /** @param {string} address @param {{ replace?: boolean }} [options] */
  function go(address, options) {
    if (options?.replace) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    void route(app, sidebar);
  }

  /** @param {MouseEvent} event */
  function followLinks(event) {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    if (link.target || link.hasAttribute("download") || link.origin !== location.origin || link.hash) return;
    if (!PAGES.some(([pattern]) => pattern.test(link.pathname))) return;
    event.preventDefault();
    go(link.pathname + link.search);
  }
}

/** @param {App} app @param {Sidebar} sidebar */
async function route(app, sidebar) {
  turn += 1;
  const mine = turn;
  current?.leave?.();
  current = null;
  sidebar.close();
  sidebar.mark(location.pathname);
  for (const [pattern, load] of PAGES) {
    const match = pattern.exec(location.pathname);
    if (!match) continue;
    app.main.className = "";
    // Until the next page is there, the one before is still shown: nothing that is typed may go to its session.
    for (const child of app.main.children) if (child instanceof HTMLElement) child.inert = true;
    try {
      const { page } = await load(app);
      if (mine !== turn) return;
      const shown = await page(app, ...match.slice(1).filter((part) => part !== undefined).map(decodeURIComponent));
      if (mine === turn) current = shown;
      else shown.leave?.();
    } catch (error) {
      if (mine !== turn) return;
      const message = error instanceof ApiError && error.status === 404 ? t("app.not_found") : error instanceof Error ? error.message : String(error);
      replace(app.main, h("div", { class: "empty" }, icon("search"), h("h1", null, message)));
    }
    return;
  }
  replace(app.main, h("div", { class: "empty" }, icon("search"), h("h1", null, t("app.not_found"))));
}

/** @param {string} text */
function title(text) {
  document.title = text ? `${text} · Cellblock` : "Cellblock";
}

function switchTheme() {
  const isDark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
}

async function logOut() {
  try {
    await post("/v1/logout");
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), "error");
  }
  location.assign("/login");
}
