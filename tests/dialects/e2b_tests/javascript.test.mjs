// The JavaScript SDKs `e2b` and `@e2b/code-interpreter` against a server: what a program does with a sandbox.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

// The packages lie beside the tests of a run, not beside this file.
const require = createRequire(`${process.env.NODE_MODULES}/`);
const { Sandbox, FileType, CommandExitError, NotFoundError } = require("e2b");
const { Sandbox: CodeSandbox } = require("@e2b/code-interpreter");

let sandbox;
let code;

before(async () => {
  sandbox = await Sandbox.create({ metadata: { purpose: "js" } });
  code = await CodeSandbox.create();
});

after(async () => {
  await sandbox.kill();
  await code.kill();
});

test("a cell gives its value and keeps its variables", async () => {
  await code.runCode("x = 6");
  const execution = await code.runCode("x * 7");
  assert.equal(execution.text, "42");
});

test("output comes while the cell runs", async () => {
  const lines = [];
  const execution = await code.runCode("print('one')\nimport sys\nprint('two', file=sys.stderr)", {
    onStdout: (message) => lines.push(message.line),
    onStderr: (message) => lines.push(message.line),
  });
  assert.equal(lines.join(""), "one\ntwo\n");
  assert.equal(execution.logs.stdout.join(""), "one\n");
});

test("an error has its name, value and traceback", async () => {
  const { error } = await code.runCode("1 / 0");
  assert.equal(error.name, "ZeroDivisionError");
  assert.match(error.traceback, /division by zero/);
});

test("a context has variables of its own", async () => {
  const context = await code.createCodeContext();
  await code.runCode("y = 1", { context });
  const other = await code.runCode("y");
  assert.equal(other.error.name, "NameError");
  assert.equal((await code.runCode("y", { context })).text, "1");
});

test("variables of one call end with it", async () => {
  const read = "import os; os.environ.get('ONLY_HERE')";
  assert.equal((await code.runCode(read, { envs: { ONLY_HERE: "yes" } })).text, "yes");
  assert.equal((await code.runCode(`${read} or 'no'`)).text, "no");
});

test("a command has its output and its exit code", async () => {
  const done = await sandbox.commands.run("echo out; echo err >&2");
  assert.deepEqual([done.exitCode, done.stdout, done.stderr], [0, "out\n", "err\n"]);
  await assert.rejects(sandbox.commands.run("exit 3"), (error) => error instanceof CommandExitError && error.exitCode === 3);
});

test("a command in the background takes input and is killed", async () => {
  const handle = await sandbox.commands.run("cat", { background: true, stdin: true });
  await sandbox.commands.sendStdin(handle.pid, "typed\n");
  const listed = await sandbox.commands.list();
  assert.ok(listed.some((process) => process.pid === handle.pid));
  assert.equal(await handle.kill(), true);
  await assert.rejects(handle.wait());
  assert.equal(handle.stdout, "typed\n");
});

test("files are written, read, described, moved and removed", async () => {
  await sandbox.files.write("js/a.txt", "text");
  assert.equal(await sandbox.files.read("js/a.txt"), "text");
  const entry = await sandbox.files.getInfo("js/a.txt");
  assert.deepEqual([entry.name, entry.type, entry.size], ["a.txt", FileType.FILE, 4]);
  await sandbox.files.rename("js/a.txt", "js/b.txt");
  assert.deepEqual((await sandbox.files.list("js")).map((file) => file.name), ["b.txt"]);
  await sandbox.files.remove("js/b.txt");
  assert.equal(await sandbox.files.exists("js/b.txt"), false);
  await assert.rejects(sandbox.files.read("js/b.txt"), NotFoundError);
});

test("bytes and many files at once", async () => {
  const bytes = new Uint8Array([0, 255, 10, 13]);
  await sandbox.files.write([
    { path: "many/one.bin", data: bytes.buffer },
    { path: "many/two.txt", data: "2" },
  ]);
  const read = await sandbox.files.read("many/one.bin", { format: "bytes" });
  assert.deepEqual([...read], [...bytes]);
});

test("a watched directory tells of changes", async () => {
  await sandbox.files.makeDir("watched");
  let told;
  const change = new Promise((resolve) => (told = resolve));
  const watcher = await sandbox.files.watchDir("watched", (event) => event.name === "new.txt" && told(event));
  await sandbox.files.write("watched/new.txt", "1");
  assert.equal((await change).name, "new.txt");
  await watcher.stop();
});

test("a terminal echoes and knows its size", async () => {
  let text = "";
  const decoder = new TextDecoder();
  const terminal = await sandbox.pty.create({ cols: 90, rows: 20, onData: (data) => (text += decoder.decode(data)) });
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode("stty size; exit\n"));
  await terminal.wait();
  assert.match(text, /20 90/);
});

test("a signed address reads a file without the SDK", async () => {
  await sandbox.files.write("signed.txt", "signed");
  const url = await sandbox.downloadUrl("signed.txt");
  const response = await fetch(url);
  assert.equal(await response.text(), "signed");
});

test("sandboxes are listed, described and connected to", async () => {
  const listed = await Sandbox.list({ query: { metadata: { purpose: "js" } } }).nextItems();
  assert.deepEqual(listed.map((found) => found.sandboxId), [sandbox.sandboxId]);
  const again = await Sandbox.connect(sandbox.sandboxId);
  await sandbox.files.write("shared.txt", "1");
  assert.equal(await again.files.read("shared.txt"), "1");
  assert.equal((await sandbox.getInfo()).sandboxId, sandbox.sandboxId);
  assert.equal(await sandbox.isRunning(), true);
});

test("a paused sandbox goes on where it stood", async () => {
  const paused = await CodeSandbox.create();
  await paused.runCode("kept = 'yes'");
  await paused.pause();
  const resumed = await CodeSandbox.connect(paused.sandboxId);
  assert.equal((await resumed.runCode("kept")).text, "yes");
  await resumed.kill();
  assert.equal(await paused.isRunning(), false);
});

test("metrics tell what a sandbox uses", async () => {
  const [metrics] = await sandbox.getMetrics();
  assert.ok(metrics.memTotal > 0 && metrics.diskTotal > 0);
});
