// A client of a kernel as VS Code's Jupyter extension is one: node's zeromq. Prints what it saw as JSON.
//
//   NODE_PATH=… node zeromq_client.cjs CONNECTION_FILE CODE
const crypto = require("node:crypto");
const fs = require("node:fs");
const zmq = require("zeromq");

const connection = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const code = process.argv[3];
const session = crypto.randomUUID();
const address = (port) => `${connection.transport}://${connection.ip}:${port}`;

function encode(type, content) {
  const header = { msg_id: crypto.randomUUID(), session, username: "node", date: new Date().toISOString(), msg_type: type, version: "5.3" };
  const parts = [header, {}, {}, content].map((part) => JSON.stringify(part));
  const signature = crypto.createHmac("sha256", connection.key).update(parts.join("")).digest("hex");
  return { id: header.msg_id, frames: ["<IDS|MSG>", signature, ...parts] };
}

function decode(frames) {
  const texts = frames.map((frame) => frame.toString());
  const parts = texts.slice(texts.indexOf("<IDS|MSG>") + 1);
  const signature = crypto.createHmac("sha256", connection.key).update(parts.slice(1, 5).join("")).digest("hex");
  if (signature !== parts[0]) throw new Error("wrong signature");
  return { type: JSON.parse(parts[1]).msg_type, parent: JSON.parse(parts[2]).msg_id, content: JSON.parse(parts[4]) };
}

async function main() {
  const heartbeat = new zmq.Request();
  heartbeat.connect(address(connection.hb_port));
  await heartbeat.send("ping");
  const [echo] = await heartbeat.receive();

  const shell = new zmq.Dealer({ routingId: session });
  const control = new zmq.Dealer({ routingId: session });
  const iopub = new zmq.Subscriber();
  shell.connect(address(connection.shell_port));
  control.connect(address(connection.control_port));
  iopub.connect(address(connection.iopub_port));
  iopub.subscribe("");
  // The greeting says that no output is missed from now on.
  while (decode(await iopub.receive()).type !== "iopub_welcome");

  const info = encode("kernel_info_request", {});
  await control.send(info.frames);
  const about = decode(await control.receive());

  const request = encode("execute_request", { code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false, stop_on_error: true });
  await shell.send(request.frames);
  const shown = [];
  for (;;) {
    const message = decode(await iopub.receive());
    if (message.parent !== request.id) continue;
    if (message.type === "status" && message.content.execution_state === "idle") break;
    shown.push([message.type, message.content]);
  }
  const reply = decode(await shell.receive());
  console.log(JSON.stringify({ echo: echo.toString(), language: about.content.language_info.name, shown, status: reply.content.status }));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
