// A terminal: a shell of the session by WebSocket, shown on a grid of characters.

import { h, button, replace } from "./dom.js";
import { t } from "./texts.js";
import { post, path, ApiError } from "./api.js";
import { Screen } from "./terminal_screen.js";

/** What keys send that have no character. */
const KEYS = /** @type {Record<string, string>} */ ({
  Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", ArrowUp: "\x1b[A", ArrowDown: "\x1b[B", ArrowRight: "\x1b[C", ArrowLeft: "\x1b[D",
  Home: "\x1b[H", End: "\x1b[F", PageUp: "\x1b[5~", PageDown: "\x1b[6~", Delete: "\x1b[3~", Insert: "\x1b[2~",
});

/** The shells that are tried, the best first. */
const SHELLS = [["bash", "-i"], ["sh", "-i"]];

export class TerminalPanel {
  /** @param {string} session */
  constructor(session) {
    this.session = session;
    this.grid = h("div", { class: "terminal-grid", role: "img", "aria-label": t("terminal.screen") });
    this.input = h("textarea", { class: "terminal-input", rows: 1, spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": t("terminal.input") });
    this.startButton = button({ icon: "play", label: t("terminal.start"), kind: "primary", onclick: () => void this.start() });
    this.state = h("p", { class: "small muted", role: "status" }, t("terminal.lead"));
    this.box = h("div", { class: "terminal", hidden: true, onclick: () => this.input.focus() }, this.grid, this.input);
    this.element = h("div", { class: "panel terminal-panel" }, this.state, this.startButton, this.box);
    this.screen = new Screen(80, 24);
    /** @type {WebSocket | null} */
    this.socket = null;
    this.isDrawing = false;
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("input", () => this.typed());
    this.input.addEventListener("paste", (event) => {
      event.preventDefault();
      this.send(event.clipboardData?.getData("text/plain").replaceAll("\n", "\r") ?? "");
    });
    this.sizes = new ResizeObserver(() => this.resize());
  }

  async start() {
    this.startButton.disabled = true;
    this.box.hidden = false;
    this.measure();
    try {
      const started = await this.spawn();
      this.attach(started.proc);
    } catch (error) {
      this.box.hidden = true;
      this.tell(error instanceof Error ? error.message : String(error));
    } finally {
      this.startButton.disabled = false;
    }
  }

  async spawn() {
    const { columns: cols, rows } = this.screen;
    for (const [index, argv] of SHELLS.entries()) {
      try {
        return await post(path("v1", "sessions", this.session, "processes"), { argv, pty: { cols, rows }, env: { TERM: "xterm-256color" }, tag: "terminal" });
      } catch (error) {
        if (!(error instanceof ApiError) || index === SHELLS.length - 1) throw error;
      }
    }
  }

  /** @param {string} name of the process */
  attach(name) {
    this.screen.reset();
    const address = `${location.origin.replace(/^http/, "ws")}${path("v1", "sessions", this.session, "processes", name)}/attach`;
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    const decoder = new TextDecoder();
    this.socket.addEventListener("open", () => {
      this.startButton.hidden = true;
      this.tell(t("terminal.leave"));
      this.sizes.observe(this.box);
      this.input.focus();
    });
    this.socket.addEventListener("message", ({ data }) => {
      if (typeof data === "string") return this.told(JSON.parse(data));
      // The first byte names the stream.
      this.screen.write(decoder.decode(new Uint8Array(data, 1), { stream: true }));
      this.draw();
    });
    this.socket.addEventListener("close", () => this.ended());
  }

  /** @param {{ event: string, exit_code?: number | null, message?: string, bytes?: number }} message */
  told(message) {
    if (message.event === "end") this.tell(t("terminal.ended", { code: message.exit_code ?? "–" }));
    if (message.event === "error") this.tell(message.message ?? "");
    if (message.event === "dropped") this.screen.write(`\r\n[… ${message.bytes} bytes …]\r\n`);
  }

  ended() {
    this.socket = null;
    this.sizes.disconnect();
    this.startButton.hidden = false;
    if (this.state.textContent === t("terminal.leave")) this.tell(t("terminal.closed"));
  }

  /** @param {string} text */
  tell(text) {
    this.state.textContent = text;
  }

  /** The page is left: the shell ends with its session, or is attached to again. */
  leave() {
    this.sizes.disconnect();
    this.socket?.close();
  }

  /** @param {string} text */
  send(text) {
    if (text !== "" && this.socket?.readyState === WebSocket.OPEN) this.socket.send(new TextEncoder().encode(text));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.isComposing || event.metaKey) return;
    // Shift and Tab leave the terminal: the keyboard must not be caught in it.
    if (event.key === "Tab" && event.shiftKey) return;
    const text = event.ctrlKey && !event.altKey ? control(event.key) : (KEYS[event.key] ?? "");
    if (text === "") return;
    event.preventDefault();
    const arrows = this.screen.hasApplicationKeys && text.startsWith("\x1b[") && /[A-D]$/.test(text);
    this.send(arrows ? text.replace("[", "O") : text);
  }

  typed() {
    this.send(this.input.value.replaceAll("\n", "\r"));
    this.input.value = "";
  }

  /** Fits the grid to the box. */
  measure() {
    const probe = h("span", { class: "terminal-probe" }, "0".repeat(50));
    this.grid.append(probe);
    const { width, height } = probe.getBoundingClientRect();
    probe.remove();
    const columns = Math.floor((this.box.clientWidth - 20) / (width / 50));
    const rows = Math.floor((this.box.clientHeight - 16) / height);
    return this.screen.resize(Math.max(20, Math.min(400, columns || 80)), Math.max(6, Math.min(200, rows || 24)));
  }

  resize() {
    if (!this.measure()) return;
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ op: "resize", cols: this.screen.columns, rows: this.screen.rows }));
    this.draw();
  }

  /** Draws once per frame, however much arrives. */
  draw() {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      replace(this.grid, ...this.screen.lines().map((runs) => h("div", { class: "terminal-line" }, runs.map((run) => h("span", { class: run.style }, run.text)))));
      this.send(this.screen.takeReplies());
    });
  }
}

/** The character that a key sends together with Ctrl. @param {string} key */
function control(key) {
  if (/^[a-z]$/i.test(key)) return String.fromCharCode(key.toUpperCase().charCodeAt(0) - 64);
  return { "[": "\x1b", "\\": "\x1c", "]": "\x1d", " ": "\0", _: "\x1f" }[key] ?? "";
}
