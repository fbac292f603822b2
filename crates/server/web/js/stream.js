// Server-sent events with a fetch of our own: unlike `EventSource` it shows the status of a refusal, reads events of any name, and notices
// a connection that died while the computer slept.

/**
 * @typedef {{ id: string, event: string, data: any }} Message
 * @typedef {{ onMessage: (message: Message) => void, onState?: (state: "open" | "lost") => void, onGone?: (status: number) => void }} Reader
 */

/** A connection without a byte for so long is dead: the server sends a comment every 15 seconds. */
const SILENCE_MS = 40_000;
const LONGEST_WAIT_MS = 10_000;

/**
 * Follows a stream until `close` is called. A connection that breaks is opened again where it stopped.
 * @param {string} address
 * @param {Reader} reader
 * @param {{ after?: string | number }} [options]
 */
export function follow(address, reader, options = {}) {
  let last = options.after === undefined ? "" : String(options.after);
  let isClosed = false;
  let failures = 0;
  let heard = 0;
  /** @type {AbortController} */
  let connection = new AbortController();

  async function connect() {
    connection = new AbortController();
    heard = Date.now();
    const separator = address.includes("?") ? "&" : "?";
    const response = await fetch(last === "" ? address : `${address}${separator}after=${encodeURIComponent(last)}`, {
      headers: { Accept: "text/event-stream", ...(last === "" ? {} : { "Last-Event-ID": last }) },
      signal: connection.signal,
      cache: "no-store",
    });
    if (!response.ok || !response.body) {
      // The server has an answer, and the same question would get the same one.
      if (response.status >= 400 && response.status < 500 && response.status !== 429) {
        isClosed = true;
        reader.onGone?.(response.status);
        return;
      }
      throw new Error(`status ${response.status}`);
    }
    failures = 0;
    reader.onState?.("open");
    const lines = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await lines.read();
      if (done) return;
      heard = Date.now();
      rest += value;
      const blocks = rest.split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      for (const block of blocks) deliver(block);
    }
  }

  /** @param {string} block */
  function deliver(block) {
    let [id, event, data] = ["", "message", ""];
    for (const line of block.split(/\r?\n/)) {
      const colon = line.indexOf(":");
      if (colon <= 0) continue;
      const value = line.slice(colon + 1).replace(/^ /, "");
      const field = line.slice(0, colon);
      if (field === "id") id = value;
      else if (field === "event") event = value;
      else if (field === "data") data += (data === "" ? "" : "\n") + value;
    }
    if (data === "" || isClosed) return;
    if (id !== "") last = id;
    let parsed;
    try {
      parsed = JSON.parse(data);
    } catch {
      parsed = data;
    }
    reader.onMessage({ id, event, data: parsed });
  }

  async function run() {
    while (!isClosed) {
      try {
        await connect();
      } catch {
        // Told below.
      }
      if (isClosed) return;
      failures += 1;
      if (failures > 1) reader.onState?.("lost");
      await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST_WAIT_MS, 250 * 2 ** failures)));
    }
  }

  const reconnectIfSilent = () => {
    if (!isClosed && Date.now() - heard > SILENCE_MS) connection.abort();
  };
  const timer = setInterval(reconnectIfSilent, 5_000);
  document.addEventListener("visibilitychange", reconnectIfSilent);
  void run();

  return {
    close() {
      isClosed = true;
      clearInterval(timer);
      document.removeEventListener("visibilitychange", reconnectIfSilent);
      connection.abort();
    },
  };
}
