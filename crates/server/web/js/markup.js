// The only module that inserts markup. Its HTML comes from `POST /web/render`, which parses Markdown, code and terminal output on the
// server and escapes everything else. The page's policy (trusted types) refuses markup from any other place.

import { post, fileAddress } from "./api.js";

/** @typedef {{ kind: "markdown" | "ansi" | "csv" | "notebook", text: string } | { kind: "code", text: string, language: string }} Part */

const trusted = /** @type {any} */ (window).trustedTypes?.createPolicy("cellblock", { createHTML: (/** @type {string} */ html) => html });

/** @param {Element} element @param {string} html from the server's renderer */
function insert(element, html) {
  element.innerHTML = trusted ? trusted.createHTML(html) : html;
}

/** @type {Array<{ part: Part, resolve: (rendered: any) => void }>} */
let waiting = [];

/**
 * Renders a text. Texts that are asked for in the same moment go in one request.
 * @param {Part} part
 * @returns {Promise<{ html?: string, table?: any }>} empty where the server could not be asked
 */
export function render(part) {
  return new Promise((resolve) => {
    waiting.push({ part, resolve });
    if (waiting.length === 1) queueMicrotask(send);
  });
}

async function send() {
  const batch = waiting;
  waiting = [];
  try {
    const rendered = await post("/web/render", batch.map((entry) => entry.part));
    batch.forEach((entry, index) => entry.resolve(rendered[index]));
  } catch {
    // The plain text that is shown already stays.
    for (const entry of batch) entry.resolve({});
  }
}

/**
 * Shows a text in an element: as it is at once, and rendered as soon as the server has answered.
 * @param {HTMLElement} element
 * @param {Part} part
 * @param {{ session?: string, keepOld?: boolean }} [options] `session` resolves files that Markdown names; `keepOld` shows what was there meanwhile
 */
export async function show(element, part, options = {}) {
  const turn = String(Number(element.dataset.turn ?? 0) + 1);
  element.dataset.turn = turn;
  if (!options.keepOld) element.textContent = part.text;
  const { html } = await render(part);
  // A newer text overtook this one.
  if (html === undefined || element.dataset.turn !== turn) return;
  insert(element, html);
  for (const image of element.querySelectorAll("img[data-path]")) {
    if (options.session) image.setAttribute("src", fileAddress(options.session, image.getAttribute("data-path") ?? ""));
  }
  for (const link of element.querySelectorAll("a[data-path]")) {
    if (!options.session) continue;
    link.setAttribute("href", fileAddress(options.session, link.getAttribute("data-path") ?? ""));
    link.setAttribute("download", "");
  }
}
