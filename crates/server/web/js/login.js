// The pages for those who are not logged in: log in, and choose a name and a password with a one-time link.

import { h, icon, mark, replace } from "./dom.js";
import { t, language, switchLanguage } from "./texts.js";
import { post, get, ApiError } from "./api.js";

/** @param {HTMLElement} root @param {() => void} onDone */
export function loginPage(root, onDone) {
  const name = h("input", { class: "input", name: "name", autocomplete: "username", required: true });
  const password = h("input", { class: "input", name: "password", type: "password", autocomplete: "current-password", required: true });
  const form = accountForm({ title: t("login.title"), lead: t("login.lead"), submit: t("login.submit"), fields: [[t("login.name"), name], [t("login.password"), password]] }, async () => {
    await post("/v1/login", { name: name.value, password: password.value });
    onDone();
  });
  const problem = openIdProblem();
  if (problem) form.prepend(h("div", { class: "notice bad", role: "alert" }, problem));
  show(root, form);
  name.focus();
  void offerOpenId(form);
}

/** Why the provider's login did not succeed: the server puts a word behind the `#`. */
function openIdProblem() {
  const word = location.hash.slice(1);
  if (!["denied", "expired", "failed", "bad_name", "name_taken", "disabled"].includes(word)) return "";
  history.replaceState(null, "", "/login");
  return t(`login.openid_${word}`);
}

/** Adds the way to log in with another server, where this one has such a way. @param {HTMLElement} form */
async function offerOpenId(form) {
  const { openid } = await get("/v1/server").catch(() => ({ openid: false }));
  if (!openid) return;
  const page = location.pathname === "/login" ? "/" : location.pathname;
  // Above the choice of the language.
  form.lastElementChild?.before(h("a", { class: "button large", href: `/v1/openid/begin?return_to=${encodeURIComponent(page)}` }, icon("shield"), t("login.openid")));
}

/** The page of a one-time link: its secret stands behind the `#`, which browsers do not send. @param {HTMLElement} root @param {() => void} onDone */
export async function setupPage(root, onDone) {
  const secret = location.hash.slice(1);
  history.replaceState(null, "", "/setup");
  const { needs_setup: isFirst } = await get("/v1/server").catch(() => ({}));
  const name = h("input", { class: "input", name: "name", autocomplete: "username", required: true, value: "admin" });
  const password = h("input", { class: "input", name: "password", type: "password", autocomplete: "new-password", required: true, minlength: 10 });
  /** @type {Array<[string, HTMLInputElement]>} */
  const fields = isFirst ? [[t("login.name"), name], [t("login.new_password"), password]] : [[t("login.new_password"), password]];
  const form = accountForm({ title: t(isFirst ? "login.first_title" : "login.link_title"), lead: t(isFirst ? "login.first_lead" : "login.link_lead"), submit: t(isFirst ? "login.first_submit" : "login.link_submit"), fields }, async () => {
    await post("/v1/setup", { secret, password: password.value, ...(isFirst ? { name: name.value } : {}) });
    onDone();
  });
  show(root, form);
  (isFirst ? name : password).focus();
}

/** The page of the link to a demonstration: it logs in by itself. @param {HTMLElement} root */
export async function enterPage(root) {
  const secret = location.hash.slice(1);
  history.replaceState(null, "", "/enter");
  try {
    const { page } = await post("/v1/enter", { secret });
    location.replace(page);
  } catch (error) {
    const message = error instanceof ApiError ? `${error.message}. ${error.hint}` : String(error);
    replace(root, h("main", { class: "empty" }, icon("search"), h("h1", null, message)));
  }
}

/**
 * @param {{ title: string, lead: string, submit: string, fields: Array<[string, HTMLInputElement]> }} words
 * @param {() => Promise<void>} send
 */
function accountForm(words, send) {
  const problem = h("div", { class: "notice bad", role: "alert", hidden: true });
  const submit = h("button", { class: "button primary large", type: "submit" }, words.submit);
  /** @param {Event} event */
  const onsubmit = async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.hidden = true;
    try {
      await send();
    } catch (error) {
      problem.hidden = false;
      replace(problem, error instanceof ApiError && error.hint ? `${error.message}. ${error.hint}` : String(error instanceof Error ? error.message : error));
      words.fields.at(-1)?.[1].select();
    } finally {
      submit.disabled = false;
    }
  };
  return h("form", { class: "login-form", onsubmit }, h("h1", null, words.title), h("p", { class: "muted" }, words.lead), problem,
    words.fields.map(([label, input]) => h("label", { class: "field" }, h("span", null, label), input)), submit,
    h("button", { class: "button quiet", type: "button", onclick: switchLanguage, lang: language === "en" ? "zh-Hans" : "en" }, icon("globe"), t("app.language")));
}

/** @param {HTMLElement} root @param {HTMLElement} form */
function show(root, form) {
  document.title = "Cellblock";
  replace(root, h("main", { class: "login" },
    h("section", { class: "login-side", "aria-label": "Cellblock" }, h("div", { class: "brand large" }, mark(), "Cellblock"), h("p", { class: "tagline" }, t("login.tagline")),
      h("ul", null, point("clock", "login.point_1"), point("restored", "login.point_2"), point("shield", "login.point_3"))),
    form));
}

/** @param {Parameters<typeof icon>[0]} sign @param {string} key */
function point(sign, key) {
  return h("li", null, icon(sign), h("div", null, h("strong", null, t(key)), h("div", null, t(`${key}b`))));
}
