// The screen of a terminal: characters with colours on a grid, changed by the text and the control sequences of a program.

/** @typedef {{ text: string, style: string }} Run */
/** @typedef {{ c: string, s: string }} Place */

/** The longest control sequence that is kept. A program may never end one. */
const MAX_SEQUENCE = 512;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

export class Screen {
  /** @param {number} columns @param {number} rows */
  constructor(columns, rows) {
    this.columns = columns;
    this.rows = rows;
    /** @type {Place[][]} */
    this.cells = blankRows(this.rows, this.columns);
    /** @type {Place[][] | null} the screen behind the one of a full-screen program */
    this.behind = null;
    this.x = 0;
    this.y = 0;
    this.saved = { x: 0, y: 0 };
    this.top = 0;
    this.bottom = this.rows - 1;
    this.pending = "";
    this.replies = "";
    this.isCursorShown = true;
    this.hasApplicationKeys = false;
    this.look = plainLook();
  }

  reset() {
    Object.assign(this, new Screen(this.columns, this.rows));
  }

  /** @param {number} columns @param {number} rows @returns {boolean} whether the size is another one */
  resize(columns, rows) {
    if (columns === this.columns && rows === this.rows) return false;
    const lost = Math.max(0, this.y - (rows - 1));
    /** @param {Place[][]} cells */
    const fit = (cells) => {
      const kept = cells.slice(lost, lost + rows).map((row) => [...row.slice(0, columns), ...blankRow(Math.max(0, columns - row.length))]);
      return [...kept, ...blankRows(Math.max(0, rows - kept.length), columns)];
    };
    this.cells = fit(this.cells);
    if (this.behind) this.behind = fit(this.behind);
    Object.assign(this, { columns, rows, top: 0, bottom: rows - 1, x: Math.min(this.x, columns - 1), y: Math.min(this.y - lost, rows - 1) });
    return true;
  }

  /** @param {string} text */
  write(text) {
    const all = this.pending + text;
    this.pending = "";
    let at = 0;
    while (at < all.length) {
      if (all[at] !== "\x1b") {
        const character = String.fromCodePoint(all.codePointAt(at) ?? 32);
        this.put(character);
        at += character.length;
        continue;
      }
      const length = sequenceLength(all, at);
      if (length === 0) {
        if (all.length - at < MAX_SEQUENCE) this.pending = all.slice(at);
        return;
      }
      this.obey(all.slice(at + 1, at + length));
      at += length;
    }
  }

  /** @param {string} character */
  put(character) {
    switch (character) {
      case "\n": case "\v": case "\f": return this.down();
      case "\r": this.x = 0; return;
      case "\b": this.x = Math.max(0, this.x - 1); return;
      case "\t": this.x = Math.min(this.columns - 1, (Math.floor(this.x / 8) + 1) * 8); return;
      default: if (character < " " || character === "\x7f") return;
    }
    if (this.x >= this.columns) {
      this.x = 0;
      this.down();
    }
    this.cells[this.y][this.x] = { c: character, s: styleOf(this.look) };
    this.x += 1;
  }

  down() {
    if (this.y === this.bottom) this.scroll(this.top, 1);
    else this.y = Math.min(this.rows - 1, this.y + 1);
  }

  /** Moves the lines from `from` to the end of the region up, or down where `count` is negative. @param {number} from @param {number} count */
  scroll(from, count) {
    for (let step = 0; step < Math.min(Math.abs(count), this.rows); step += 1) {
      if (count > 0) {
        this.cells.splice(from, 1);
        this.cells.splice(this.bottom, 0, blankRow(this.columns));
      } else {
        this.cells.splice(this.bottom, 1);
        this.cells.splice(from, 0, blankRow(this.columns));
      }
    }
  }

  /** Obeys a sequence without its escape character. @param {string} sequence */
  obey(sequence) {
    if (sequence[0] === "[") return this.control(sequence);
    switch (sequence[0]) {
      case "7": this.saved = { x: this.x, y: this.y }; return;
      case "8": Object.assign(this, this.saved); return;
      case "D": return this.down();
      case "E": this.x = 0; return this.down();
      case "M":
        if (this.y === this.top) this.scroll(this.top, -1);
        else this.y = Math.max(0, this.y - 1);
        return;
      case "c": return this.reset();
    }
  }

  /** @param {string} sequence from the bracket to the last letter */
  control(sequence) {
    const kind = sequence.at(-1) ?? "";
    const body = sequence.slice(1, -1);
    const numbers = body.replace(/[^0-9;]/g, "").split(";").map((text) => Math.min(9999, Number(text || 0)));
    const count = Math.max(1, numbers[0]);
    if (body.startsWith("?")) {
      if (kind === "h" || kind === "l") for (const mode of numbers) this.mode(mode, kind === "h");
      return;
    }
    if (body.startsWith(">") || body.startsWith("=")) return;
    switch (kind) {
      case "A": return this.go(this.x, this.y - count);
      case "B": case "e": return this.go(this.x, this.y + count);
      case "C": case "a": return this.go(this.x + count, this.y);
      case "D": return this.go(Math.min(this.x, this.columns - 1) - count, this.y);
      case "E": return this.go(0, this.y + count);
      case "F": return this.go(0, this.y - count);
      case "G": case "`": return this.go(count - 1, this.y);
      case "d": return this.go(this.x, count - 1);
      case "H": case "f": return this.go(Math.max(1, numbers[1] ?? 1) - 1, count - 1);
      case "J": return this.eraseScreen(numbers[0]);
      case "K": return this.eraseLine(numbers[0]);
      case "L": return this.scroll(this.y, -count);
      case "M": return this.scroll(this.y, count);
      case "S": return this.scroll(this.top, count);
      case "T": return this.scroll(this.top, -count);
      case "P": return this.shift(this.x, count, 0);
      case "@": return this.shift(this.x, 0, count);
      case "X": return this.fill(this.y, this.x, this.x + count);
      case "m": return this.colour(body === "" ? [0] : numbers);
      case "r":
        this.top = Math.min(this.rows - 1, count - 1);
        this.bottom = Math.min(this.rows, numbers[1] || this.rows) - 1;
        if (this.top >= this.bottom) Object.assign(this, { top: 0, bottom: this.rows - 1 });
        return this.go(0, 0);
      case "s": this.saved = { x: this.x, y: this.y }; return;
      case "u": Object.assign(this, this.saved); return;
      case "n": if (numbers[0] === 6) this.replies += `\x1b[${this.y + 1};${this.x + 1}R`; return;
      case "c": this.replies += "\x1b[?6c"; return;
    }
  }

  /** @param {number} mode @param {boolean} isOn */
  mode(mode, isOn) {
    if (mode === 25) this.isCursorShown = isOn;
    if (mode === 1) this.hasApplicationKeys = isOn;
    if (mode !== 1049 && mode !== 47 && mode !== 1047) return;
    if (isOn && !this.behind) {
      this.behind = this.cells;
      this.saved = { x: this.x, y: this.y };
      this.cells = blankRows(this.rows, this.columns);
    } else if (!isOn && this.behind) {
      this.cells = this.behind;
      this.behind = null;
      Object.assign(this, this.saved);
    }
  }

  /** @param {number} x @param {number} y */
  go(x, y) {
    this.x = Math.max(0, Math.min(this.columns - 1, x));
    this.y = Math.max(0, Math.min(this.rows - 1, y));
  }

  /** @param {number} part 0: to the end, 1: to the cursor, 2 and 3: all */
  eraseScreen(part) {
    this.eraseLine(Math.min(part, 2));
    const [from, to] = part === 0 ? [this.y + 1, this.rows] : part === 1 ? [0, this.y] : [0, this.rows];
    for (let row = from; row < to; row += 1) this.fill(row, 0, this.columns);
  }

  /** @param {number} part 0: to the end, 1: to the cursor, 2: all */
  eraseLine(part) {
    this.fill(this.y, part === 0 ? this.x : 0, part === 1 ? this.x + 1 : this.columns);
  }

  /** @param {number} row @param {number} from @param {number} to */
  fill(row, from, to) {
    for (let column = from; column < Math.min(to, this.columns); column += 1) this.cells[row][column] = { c: " ", s: "" };
  }

  /** Removes and inserts characters in a line. @param {number} at @param {number} removed @param {number} added */
  shift(at, removed, added) {
    const row = this.cells[this.y];
    row.splice(at, Math.min(removed, this.columns), ...blankRow(Math.min(added, this.columns)));
    this.cells[this.y] = [...row.slice(0, this.columns), ...blankRow(Math.max(0, this.columns - row.length))];
  }

  /** @param {number[]} numbers */
  colour(numbers) {
    const { look } = this;
    for (let index = 0; index < numbers.length; index += 1) {
      const number = numbers[index];
      if (number === 0) Object.assign(look, plainLook());
      else if (number === 1) look.isBold = true;
      else if (number === 2) look.isFaint = true;
      else if (number === 4) look.isUnderlined = true;
      else if (number === 7) look.isInverse = true;
      else if (number === 22) look.isBold = look.isFaint = false;
      else if (number === 24) look.isUnderlined = false;
      else if (number === 27) look.isInverse = false;
      else if (number >= 30 && number <= 37) look.front = COLOURS[number - 30];
      else if (number >= 90 && number <= 97) look.front = COLOURS[number - 90];
      else if (number >= 40 && number <= 47) look.back = COLOURS[number - 40];
      else if (number >= 100 && number <= 107) look.back = COLOURS[number - 100];
      else if (number === 39) look.front = "";
      else if (number === 49) look.back = "";
      else if (number === 38 || number === 48) {
        const name = numbers[index + 1] === 5 ? nearest256(numbers[index + 2] ?? 0) : nearest(numbers.slice(index + 2, index + 5));
        if (number === 38) look.front = name;
        else look.back = name;
        index += numbers[index + 1] === 5 ? 2 : 4;
      }
    }
  }

  /** What the program asked the terminal, to be sent to it. */
  takeReplies() {
    const { replies } = this;
    this.replies = "";
    return replies;
  }

  /** The lines as runs of the same colours, with the cursor. @returns {Run[][]} */
  lines() {
    return this.cells.map((row, y) => {
      /** @type {Run[]} */
      const runs = [];
      row.forEach((place, x) => {
        const isCursor = this.isCursorShown && y === this.y && x === Math.min(this.x, this.columns - 1);
        const style = isCursor ? `${place.s} t-cursor`.trim() : place.s;
        const last = runs.at(-1);
        if (last && last.style === style) last.text += place.c;
        else runs.push({ text: place.c, style });
      });
      return runs;
    });
  }

  /** The text of the screen. */
  get text() {
    return this.cells.map((row) => row.map((place) => place.c).join("").trimEnd()).join("\n").trimEnd();
  }
}

const plainLook = () => ({ front: "", back: "", isBold: false, isFaint: false, isUnderlined: false, isInverse: false });
/** @param {number} columns @returns {Place[]} */
const blankRow = (columns) => Array.from({ length: columns }, () => ({ c: " ", s: "" }));
/** @param {number} rows @param {number} columns */
const blankRows = (rows, columns) => Array.from({ length: rows }, () => blankRow(columns));

/** The class names of a look. @param {ReturnType<typeof plainLook>} look */
function styleOf(look) {
  const names = [];
  if (look.front) names.push(`t-${look.front}`);
  if (look.back) names.push(`t-on-${look.back}`);
  if (look.isBold) names.push("t-bold");
  if (look.isFaint) names.push("t-faint");
  if (look.isUnderlined) names.push("t-line");
  if (look.isInverse) names.push("t-inverse");
  return names.join(" ");
}

/** One of the eight colours for one of 256. @param {number} index */
function nearest256(index) {
  if (index < 16) return COLOURS[index % 8];
  if (index >= 232) return index > 243 ? "white" : "black";
  const cube = index - 16;
  return nearest([Math.floor(cube / 36) * 51, (Math.floor(cube / 6) % 6) * 51, (cube % 6) * 51]);
}

/** One of the eight colours for red, green and blue. @param {number[]} parts */
function nearest(parts) {
  const bits = parts.map((part) => (part > 110 ? 1 : 0));
  return COLOURS[(bits[0] ?? 0) + 2 * (bits[1] ?? 0) + 4 * (bits[2] ?? 0)];
}

/** The length of the sequence that begins here; 0 where its end has not arrived. @param {string} text @param {number} at */
function sequenceLength(text, at) {
  const rest = text.slice(at, at + MAX_SEQUENCE);
  if (rest.length < 2) return 0;
  if (rest[1] === "[") {
    const found = /^\x1b\[[\x20-\x3f]*[\x40-\x7e]/.exec(rest);
    return found ? found[0].length : /^\x1b\[[\x20-\x3f]*$/.test(rest) && rest.length < MAX_SEQUENCE ? 0 : 2;
  }
  if (rest[1] === "]" || rest[1] === "P" || rest[1] === "_" || rest[1] === "^") {
    const found = /\x07|\x1b\\/.exec(rest.slice(2));
    return found ? 2 + found.index + found[0].length : rest.length < MAX_SEQUENCE ? 0 : 2;
  }
  if ("()*+#%".includes(rest[1])) return rest.length < 3 ? 0 : 3;
  return 2;
}
