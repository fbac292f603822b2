// Elements without a framework: `h` makes them, `replace` exchanges children. Text is always a text node, never markup.

/** @typedef {Node | string | number | null | undefined | false | Array<Node | string | number | null | undefined | false>} Child */

/**
 * Makes an element. Attributes whose name begins with "on" are listeners; `class`, `dataset` and properties such as `value` are set as such.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, any> | null} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) set(element, key, value);
  append(element, children);
  return element;
}

/** @param {HTMLElement} element @param {string} key @param {any} value */
function set(element, key, value) {
  if (value === undefined || value === null || value === false) return;
  if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
  else if (key === "dataset") Object.assign(element.dataset, value);
  else if ((key === "value" && !(element instanceof HTMLMeterElement)) || key === "checked" || key === "disabled" || key === "hidden") /** @type {any} */ (element)[key] = value;
  else element.setAttribute(key, value === true ? "" : String(value));
}

/** @param {Element} parent @param {Child[]} children */
export function append(parent, children) {
  for (const child of children.flat()) {
    // An empty text would be a node too, and its parent not empty.
    if (child === null || child === undefined || child === false || child === "") continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

/** @param {Element} parent @param {...Child} children */
export function replace(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

// Paths of the icons, drawn with a pen of 1.75 on a square of 24.
const ICONS = {
  chat: "M4 5h16v11H9l-5 4z",
  cells: "M4 5h7v6H4zM13 5h7v6h-7zM4 13h7v6H4zM13 13h7v6h-7z",
  runs: "M4 6h9M4 12h16M4 18h6",
  people: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM3 20c0-3.5 2.7-6 6-6s6 2.5 6 6M16 4.5a3.5 3.5 0 0 1 0 6.5M18 14.5c2 .8 3 2.8 3 5.5",
  plus: "M12 5v14M5 12h14",
  play: "M7 5l12 7-12 7z",
  stop: "M6 6h12v12H6z",
  undo: "M9 14L4 9l5-5M4 9h10a6 6 0 0 1 0 12h-3",
  fork: "M7 4v16M7 12c0-4 10-2 10-8M17 4v0M7 20v0",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 7h16M4 12h16M4 17h16",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  file: "M7 3h7l5 5v13H7zM14 3v5h5",
  clip: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7L9.5 17a1.7 1.7 0 0 1-2.4-2.4L14.5 7.5",
  send: "M12 20V5M6 11l6-6 6 6",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  chevron: "M9 6l6 6-6 6",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3 2",
  shield: "M12 3l8 3v6c0 5-3.5 7.5-8 9-4.5-1.5-8-4-8-9V6z",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  check: "M5 12l5 5 9-10",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  spark: "M12 3l2 7 7 2-7 2-2 7-2-7-7-2 7-2z",
  theme: "M20 14a8 8 0 1 1-10-10 6.5 6.5 0 0 0 10 10z",
  globe: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  share: "M12 15V4M8 8l4-4 4 4M6 12H5v8h14v-8h-1",
  exit: "M14 4h5v16h-5M10 8l-4 4 4 4M6 12h9",
  restored: "M4 12a8 8 0 1 1 2.5 5.8M4 12l-2-3M4 12l3-2",
  compare: "M4 5h6v14H4zM14 5h6v14h-6z",
  list: "M8 6h12M8 12h12M8 18h12M4 6h0M4 12h0M4 18h0",
  more: "M5 12h0M12 12h0M19 12h0",
  key: "M14 10a4 4 0 1 0-4 4 4 4 0 0 0 4-4zM13 13l7 7M17 17l2-2",
  pulse: "M3 12h4l3-8 4 16 3-8h4",
};

/**
 * An icon. It is decoration: the button around it has the name.
 * @param {keyof typeof ICONS} name
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/**
 * A button with an icon, a label, or both. Without a visible label the name is read to screen readers and shown as a tooltip.
 * @param {{ icon?: keyof typeof ICONS, label: string, isIconOnly?: boolean, kind?: "primary" | "quiet" | "danger" | "plain", onclick?: (event: MouseEvent) => void, attributes?: Record<string, any> }} options
 */
export function button(options) {
  const { label, isIconOnly, kind = "plain" } = options;
  return h(
    "button",
    {
      type: "button",
      class: `button ${kind}${isIconOnly ? " icon-only" : ""}`,
      title: isIconOnly ? label : undefined,
      "aria-label": isIconOnly ? label : undefined,
      onclick: options.onclick,
      ...options.attributes,
    },
    options.icon ? icon(options.icon) : null,
    isIconOnly ? null : h("span", null, label),
  );
}

/**
 * Keeps a scrolled element at its end while it grows, until the reader scrolls away from the end.
 * @param {HTMLElement} scroller
 * @returns {{ toEnd: () => void }}
 */
export function stickToEnd(scroller) {
  let isSticking = true;
  let top = 0;
  /** @param {boolean} sticks */
  const stick = (sticks) => {
    isSticking = sticks;
    // At the end the browser must not hold on to what is shown: then only the reader scrolls up.
    scroller.style.overflowAnchor = sticks ? "none" : "";
  };
  const toEnd = () => {
    stick(true);
    scroller.scrollTop = scroller.scrollHeight;
    top = scroller.scrollTop;
  };
  scroller.addEventListener("scroll", () => {
    const isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
    // Between a scroll and its event the element may have grown: far from the end is not yet scrolled away.
    if (isAtEnd || scroller.scrollTop < top) stick(isAtEnd);
    top = scroller.scrollTop;
  });
  const observer = new ResizeObserver(() => isSticking && toEnd());
  for (const child of scroller.children) observer.observe(child);
  observer.observe(scroller);
  return { toEnd };
}

/** Tells screen readers what happened. @param {string} text */
export function announce(text) {
  const place = document.getElementById("announcer");
  if (place) place.textContent = text;
}

/**
 * A short message at the edge of the page, for what is not shown elsewhere.
 * @param {string} text
 * @param {"info" | "error"} [kind]
 */
export function toast(text, kind = "info") {
  const message = h("div", { class: `toast ${kind}`, role: kind === "error" ? "alert" : "status" }, text);
  document.body.append(message);
  setTimeout(() => message.remove(), kind === "error" ? 7000 : 3500);
}

/**
 * Asks a question in a dialog of the browser's own kind and gives the entered values, or null when it was closed.
 * @param {{ title: string, text?: string, confirm: string, isDangerous?: boolean, fields?: Array<{ name: string, label: string, value?: string, type?: string, options?: string[] }>, cancel: string }} options
 * @returns {Promise<Record<string, string> | null>}
 */
export function ask(options) {
  return new Promise((resolve) => {
    const fields = (options.fields ?? []).map((field) =>
      h(
        "label",
        { class: "field" },
        h("span", null, field.label),
        field.options
          ? h("select", { name: field.name, class: "input" }, field.options.map((option) => h("option", { value: option }, option)))
          : h("input", { name: field.name, type: field.type ?? "text", value: field.value ?? "", class: "input", ...(field.type === "number" ? { min: 0, step: "any" } : {}) }),
      ),
    );
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", null, options.title),
      options.text ? h("p", { class: "muted" }, options.text) : null,
      fields,
      h(
        "div",
        { class: "dialog-buttons" },
        h("button", { class: "button quiet", value: "cancel", type: "submit", formnovalidate: true }, options.cancel),
        h("button", { class: `button ${options.isDangerous ? "danger" : "primary"}`, value: "confirm", type: "submit" }, options.confirm),
      ),
    );
    const dialog = h("dialog", { class: "dialog", "aria-label": options.title }, form);
    dialog.addEventListener("close", () => {
      const values = /** @type {Record<string, string>} */ ({});
      for (const [name, value] of new FormData(form)) values[name] = String(value);
      resolve(dialog.returnValue === "confirm" ? values : null);
      dialog.remove();
    });
    // Enter confirms: the browser would press the first button, which cancels.
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target instanceof HTMLInputElement) {
        event.preventDefault();
        dialog.close("confirm");
      }
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** The sign of the app. */
export function mark() {
  return h("span", { class: "mark", "aria-hidden": "true" }, h("i"), h("i"), h("i"), h("i"));
}
