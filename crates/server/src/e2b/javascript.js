// Runs cells of JavaScript, one after the other, with variables that stay.
//
// Each line of the standard input is a cell: `{"code", "env"}`. Each line of the standard output is an object: `stdout` and `stderr` with
// `text`, `result` with `text` and perhaps `json`, `error` with `name`, `value` and `traceback`, and `end` after each cell.
'use strict';
const inspector = require('node:inspector');
const { inspect } = require('node:util');

const write = process.stdout.write.bind(process.stdout);
const send = (message) => write(`${JSON.stringify(message)}\n`);

for (const name of ['stdout', 'stderr']) {
  process[name].write = (chunk, encoding, done) => {
    send({ type: name, text: typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString() });
    const then = typeof encoding === 'function' ? encoding : done;
    if (then) process.nextTick(then);
    return true;
  };
}
// A promise or a timer of an earlier cell that fails ends nothing.
process.on('uncaughtException', (error) => process.stderr.write(`${inspect(error)}\n`));
process.on('unhandledRejection', (error) => process.stderr.write(`${inspect(error)}\n`));

// The console of developers: it lets names be declared again, and awaits at the top level.
const session = new inspector.Session();
session.connect();
const post = (method, parameters) =>
  new Promise((resolve, reject) => {
    session.post(method, parameters, (problem, answer) => (problem ? reject(new Error(problem.message)) : resolve(answer)));
  });

// What the console has none of: modules. A statement `import` becomes a call, which may be awaited.
const load = (name) => import(name);
Object.defineProperties(globalThis, {
  require: { value: require('node:module').createRequire(`${process.cwd()}/`), writable: true, configurable: true },
  __cellblock_import: { value: load },
  __cellblock_value: { value: null, writable: true },
});

const IMPORT = /(^[ \t]*|;[ \t]*)import\s+(?:([\w$]+)\s*,?\s*)?(?:\*\s*as\s+([\w$]+)\s*|\{([^}]*)\}\s*)?from\s*(['"])([^'"\n]+)\5/gm;
const BARE_IMPORT = /(^[ \t]*|;[ \t]*)import\s*(['"])([^'"\n]+)\2/gm;

function withoutImports(code) {
  const replaced = code.replace(IMPORT, (_, indent, whole, all, names, _quote, module) => {
    const call = `await __cellblock_import(${JSON.stringify(module)})`;
    const parts = [];
    if (whole) parts.push(`const { default: ${whole} } = ${call};`);
    if (all) parts.push(`const ${all} = ${call};`);
    if (names) parts.push(`const { ${names.replace(/([\w$]+)\s+as\s+([\w$]+)/g, '$1: $2')} } = ${call};`);
    return indent + parts.join(' ');
  });
  const called = replaced.replace(BARE_IMPORT, (_, indent, _quote, module) => `${indent}await __cellblock_import(${JSON.stringify(module)});`);
  return called.replace(/(?<![\w$.'"`])import\s*\(/g, '__cellblock_import(');
}

async function valueOf(remote) {
  if (remote.type === 'undefined') return undefined;
  if (!remote.objectId) return remote.value;
  await post('Runtime.callFunctionOn', {
    objectId: remote.objectId,
    functionDeclaration: 'function () { globalThis.__cellblock_value = this; }',
  });
  const value = globalThis.__cellblock_value;
  globalThis.__cellblock_value = null;
  return value;
}

function result(remote, value) {
  const text = typeof value === 'string' ? value : remote.unserializableValue ?? inspect(value);
  const message = { type: 'result', text, is_main_result: true };
  if (typeof value === 'object' && value !== null && (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype)) {
    try {
      message.json = JSON.parse(JSON.stringify(value));
    } catch {
      // A cycle or a number that JSON has none of: the text is enough.
    }
  }
  return message;
}

function failure(details, value) {
  const isError = value instanceof Error;
  const text = isError ? value.message : details.exception?.description ?? details.text;
  // Below the cell there are only the frames of this program.
  const traceback = isError ? String(value.stack).split(/\n +at Session\.post /)[0] : text;
  return { type: 'error', name: isError ? value.name : 'Error', value: String(text), traceback: String(traceback) };
}

async function run({ code, env }) {
  const before = new Map();
  for (const [name, value] of Object.entries(env ?? {})) {
    before.set(name, process.env[name]);
    process.env[name] = value;
  }
  try {
    const parameters = { expression: withoutImports(code), replMode: true, awaitPromise: true, objectGroup: 'cell' };
    const { result: remote, exceptionDetails } = await post('Runtime.evaluate', parameters);
    const value = await valueOf(remote);
    if (exceptionDetails) send(failure(exceptionDetails, value));
    else if (remote.type !== 'undefined') send(result(remote, value));
  } catch (problem) {
    send({ type: 'error', name: problem.name, value: problem.message, traceback: String(problem.stack) });
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    await post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
  }
}

let waiting = Promise.resolve();
require('node:readline')
  .createInterface({ input: process.stdin, terminal: false })
  .on('line', (line) => {
    waiting = waiting.then(() => run(JSON.parse(line))).then(() => send({ type: 'end' }));
  });
