// What a cell shows: a bundle of forms of one thing. The page takes the best form that is safe for it.

import { h, button } from "./dom.js";
import { t, size } from "./texts.js";
import { show } from "./markup.js";
import { tableView } from "./table.js";

/** @typedef {Record<string, any>} MimeBundle */

const TABLE = "application/vnd.cellblock.table+json";
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** The most characters of a text form in the page. */
const MAX_TEXT = 200_000;

/**
 * @param {MimeBundle} bundle
 * @param {{ session?: string, label: string, resolve?: (reference: any) => string }} context `resolve` gives the address of a large part that stayed on the server
 * @returns {HTMLElement | null}
 */
export function displayView(bundle, context) {
  if (bundle[TABLE] && !bundle[TABLE].$file) return tableView(bundle[TABLE], context.label);
  for (const kind of IMAGES) {
    const address = imageAddress(bundle[kind], kind, context);
    if (address) return imageView(address, plain(bundle) ?? context.label);
  }
  if (typeof bundle["text/markdown"] === "string") {
    const element = h("div", { class: "prose" });
    void show(element, { kind: "markdown", text: bundle["text/markdown"] }, { session: context.session });
    return element;
  }
  const html = bundle["text/html"] ?? bundle["image/svg+xml"];
  if (typeof html === "string") return frameView(html, context.label);
  const reference = html?.$file ? html : Object.values(bundle).find((part) => part?.$file);
  if (reference && context.resolve) {
    const address = context.resolve(reference);
    if (html?.$file) return remoteFrameView(address, reference, context.label);
    return h("a", { href: address, class: "button", download: "" }, `${t("app.download")} (${size(reference.bytes ?? 0)})`);
  }
  if (bundle["application/json"] !== undefined) return textView(JSON.stringify(bundle["application/json"], null, 2), context.label);
  const text = plain(bundle) ?? Object.values(bundle).find((part) => typeof part === "string");
  return typeof text === "string" ? textView(text, context.label) : null;
}

/** @param {MimeBundle} bundle @returns {string | undefined} */
const plain = (bundle) => (typeof bundle["text/plain"] === "string" ? bundle["text/plain"] : undefined);

/** @param {string} text @param {string} label */
function textView(text, label) {
  const element = h("pre", { class: "output value", tabindex: "0", "aria-label": label, role: "group" });
  void show(element, { kind: "ansi", text: text.slice(0, MAX_TEXT) });
  return element;
}

/** @param {any} content @param {string} kind @param {{ resolve?: (reference: any) => string }} context */
function imageAddress(content, kind, context) {
  if (typeof content === "string") return `data:${kind};base64,${content.replace(/\s/g, "")}`;
  return content?.$file && context.resolve ? context.resolve(content) : null;
}

/** An image that opens large. @param {string} address @param {string} description */
export function imageView(address, description) {
  const image = h("img", { src: address, alt: description, loading: "lazy" });
  const open = () => {
    const dialog = h("dialog", { class: "dialog wide lightbox", "aria-label": description }, h("img", { src: address, alt: description }),
      h("div", { class: "dialog-buttons" }, h("a", { class: "button", href: address, download: "image.png" }, t("app.download")), button({ label: t("app.close"), kind: "primary", onclick: () => dialog.close() })));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  };
  return h("button", { class: "image", type: "button", onclick: open }, image);
}

/** The tallest frame. A longer one scrolls inside. */
const MAX_FRAME_HEIGHT = 640;

/**
 * HTML of a cell, in a frame with an origin of its own: its scripts run, and reach neither this page nor the network.
 * @param {string} html
 * @param {string} label
 */
export function frameView(html, label) {
  const frame = h("iframe", { class: "frame", src: "/frame", sandbox: "allow-scripts", title: label, loading: "lazy" });
  /** @param {MessageEvent} event */
  const onMessage = (event) => {
    if (!frame.isConnected && frame.dataset.loaded) return window.removeEventListener("message", onMessage);
    if (event.source !== frame.contentWindow || typeof event.data !== "object" || event.data === null) return;
    if (event.data.ready === true && !frame.dataset.loaded) {
      frame.dataset.loaded = "true";
      const theme = getComputedStyle(document.documentElement).getPropertyValue("color-scheme").trim();
      frame.contentWindow?.postMessage({ html, theme }, "*");
    }
    const height = event.data.height;
    if (typeof height === "number" && Number.isFinite(height)) frame.style.height = `${Math.max(24, Math.min(MAX_FRAME_HEIGHT, height))}px`;
  };
  window.addEventListener("message", onMessage);
  return frame;
}

/** @param {string} address @param {{ bytes?: number }} reference @param {string} label */
function remoteFrameView(address, reference, label) {
  const place = h("div");
  const load = async () => place.replaceWith(frameView(await (await fetch(address)).text(), label));
  place.append(button({ label: `${t("cell.show_all")} (${size(reference.bytes ?? 0)})`, onclick: load }));
  return place;
}
