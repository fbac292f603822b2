// Files that a person drops or pastes, and the message when something with them fails.

import { h, icon, toast } from "./dom.js";

/** @param {unknown} error */
export function complain(error) {
  toast(error instanceof Error ? error.message : String(error), "error");
}

/**
 * Takes files that are dropped on an element or pasted into it.
 * @param {HTMLElement} element
 * @param {string} words shown while files are dragged over it
 * @param {(files: File[]) => void} take
 */
export function acceptFiles(element, words, take) {
  const shade = h("div", { class: "drop-shade" }, icon("file"), words);
  element.addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    if (!shade.isConnected) element.append(shade);
  });
  element.addEventListener("dragleave", (event) => {
    if (!(event.relatedTarget instanceof Node && element.contains(event.relatedTarget))) shade.remove();
  });
  element.addEventListener("drop", (event) => {
    shade.remove();
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    take(files);
  });
  element.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    take(files);
  });
}
