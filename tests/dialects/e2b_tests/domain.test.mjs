// The SDKs in domain mode: sandboxes are found by host name, over TLS.
import assert from "node:assert/strict";
import dns from "node:dns";
import { createRequire } from "node:module";
import { test } from "node:test";

// Every name of the domain is this machine, as a wildcard in the name service would have it.
const ask = dns.lookup;
dns.lookup = (name, options, done) => ask(name.endsWith(".box.test") ? "127.0.0.1" : name, options, done);

const require = createRequire(`${process.env.NODE_MODULES}/`);
const { Sandbox } = require("@e2b/code-interpreter");

test("cells, commands, files and signed addresses by host name", async () => {
  const sandbox = await Sandbox.create();
  try {
    assert.match(sandbox.getHost(49983), /^49983-.*\.box\.test$/);
    assert.equal((await sandbox.runCode("6 * 7")).text, "42");
    assert.equal((await sandbox.commands.run("echo out")).stdout, "out\n");
    await sandbox.files.write("a.txt", "text");
    assert.equal(await sandbox.files.read("a.txt"), "text");
    assert.match(await sandbox.downloadUrl("a.txt"), /^https:\/\/.*\.box\.test\/files/);
  } finally {
    await sandbox.kill();
  }
});
