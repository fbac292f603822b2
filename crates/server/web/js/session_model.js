// What is known of a session: its cells in order, kept up to date by its events. No DOM here.

/**
 * @typedef {{ kind: "output", text: string, isError: boolean } | { kind: "display", mime: Record<string, any> } | { kind: "call", call: string, name: string, arguments: any } | { kind: "input", call: string, prompt: string }} CellPart
 * @typedef {{ number: number, code: string, by: string, status: string, isUndone: boolean, result: any, restored: boolean }} Cell
 * @typedef {{ onCell: (cell: Cell, isNew: boolean) => void, onPart: (cell: Cell, part: CellPart) => void, onState: () => void, onUndone: (cell: number) => void, onForked: () => void, onAnswered: (call: string) => void, onWaiting: () => void, onApproval: (event: any) => void }} Listener
 */

export class SessionModel {
  /** @param {Listener} listener */
  constructor(listener) {
    this.listener = listener;
    /** @type {Map<number, Cell>} */
    this.cells = new Map();
    this.isEnded = false;
    this.endReason = "";
    /** @type {any} the newest word about the checkpoint of the next cell */
    this.checkpoint = null;
  }

  /** The cells in order. */
  get list() {
    return [...this.cells.values()].sort((left, right) => left.number - right.number);
  }

  /** The cells whose effects count. */
  get kept() {
    return this.list.filter((cell) => !cell.isUndone && cell.result?.state && cell.result.state.outcome !== "restored");
  }

  /** The names that the cells have bound. */
  get names() {
    const names = new Set();
    for (const cell of this.kept) {
      for (const variable of cell.result.variables?.added ?? []) names.add(variable.name);
      for (const name of cell.result.variables?.removed ?? []) names.delete(name);
    }
    return [...names].sort();
  }

  /** The files after a cell, put together from what the cells before it wrote. @param {number} at */
  filesAfter(at) {
    /** @type {Map<string, { path: string, bytes: number, mime: string }>} */
    const files = new Map();
    for (const cell of this.kept) {
      if (cell.number > at) break;
      const changes = cell.result.files ?? {};
      for (const file of [...(changes.created ?? []), ...(changes.changed ?? [])]) files.set(file.path, file);
      for (const file of changes.deleted ?? []) files.delete(file.path);
    }
    return [...files.values()];
  }

  get isRunning() {
    return this.list.some((cell) => cell.status === "running");
  }

  /** A cell from the journal. @param {{ cell: number, code: string, by?: string, result?: any, isUndone?: boolean }} entry */
  remember(entry) {
    const status = entry.result?.status ?? "running";
    /** @type {Cell} */
    const cell = { number: entry.cell, code: entry.code, by: entry.by ?? "", status, isUndone: Boolean(entry.isUndone), result: entry.result ?? null, restored: entry.result?.state?.outcome === "restored" };
    const isNew = !this.cells.has(cell.number);
    this.cells.set(cell.number, cell);
    this.listener.onCell(cell, isNew);
  }

  /** @param {string} name @param {any} event */
  take(name, event) {
    const number = event.cell;
    switch (name) {
      case "cell_begun": {
        const isNew = !this.cells.has(number);
        /** @type {Cell} */
        const cell = { number, code: event.code ?? "", by: event.by ?? "", status: "running", isUndone: false, result: null, restored: false };
        this.cells.set(number, cell);
        this.listener.onCell(cell, isNew);
        this.listener.onState();
        break;
      }
      case "stdout":
      case "stderr":
        this.part(number, { kind: "output", text: event.text ?? "", isError: name === "stderr" });
        break;
      case "display":
        this.part(number, { kind: "display", mime: event.mime ?? {} });
        break;
      case "tool_call":
        this.part(number, { kind: "call", call: event.call, name: event.name, arguments: event.arguments });
        this.listener.onWaiting();
        break;
      case "input_request":
        this.part(number, { kind: "input", call: event.call, prompt: event.prompt ?? "" });
        this.listener.onWaiting();
        break;
      case "answered":
        this.listener.onAnswered(event.call);
        break;
      case "approval":
        this.listener.onApproval(event);
        break;
      case "checkpoint":
        this.checkpoint = event.checkpoint;
        this.listener.onState();
        break;
      case "restored": {
        const cell = this.cells.get(number);
        if (cell) cell.restored = true;
        break;
      }
      case "result": {
        const cell = this.cells.get(number ?? event.result?.cell);
        if (!cell) break;
        cell.result = event.result;
        cell.status = event.result.status;
        this.listener.onCell(cell, false);
        this.listener.onState();
        break;
      }
      case "error": {
        const cell = this.cells.get(number);
        if (!cell) break;
        cell.status = "failure";
        cell.result = { status: "failure", error: { type: event.code, value: event.message, traceback: event.message } };
        this.listener.onCell(cell, false);
        this.listener.onState();
        break;
      }
      case "undone":
        this.undone(event.to_cell ?? 0);
        break;
      case "forked":
        this.listener.onForked();
        break;
      case "ended":
      case "closed":
        this.isEnded = true;
        this.endReason = event.reason ?? "";
        this.listener.onState();
        break;
      default:
        break;
    }
  }

  /** @param {number} number @param {CellPart} part */
  part(number, part) {
    const cell = this.cells.get(number);
    if (cell) this.listener.onPart(cell, part);
  }

  /** The session stands after this cell now. @param {number} to */
  undone(to) {
    for (const cell of this.list) {
      if (cell.number <= to || cell.isUndone || cell.status === "running") continue;
      cell.isUndone = true;
      this.listener.onCell(cell, false);
    }
    this.listener.onUndone(to);
    this.listener.onState();
  }
}
