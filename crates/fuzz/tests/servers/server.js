// Node's HTTP server. It answers with what it saw of a request, as JSON.
const http = require("http");

function answer(request, response) {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const headers = [];
    for (let at = 0; at < request.rawHeaders.length; at += 2) headers.push(request.rawHeaders.slice(at, at + 2));
    const body = Buffer.concat(parts).toString("hex");
    const content = JSON.stringify({ method: request.method, target: request.url, headers, body });
    response.writeHead(200, { "Content-Length": Buffer.byteLength(content) });
    response.end(request.method === "HEAD" ? undefined : content);
  });
}

const server = http.createServer(answer);
server.listen(0, "127.0.0.1", () => {
  console.log("node", server.address().port);
  console.log("ready");
});
process.stdin.on("end", () => process.exit(0)).resume();
