"""HTTP servers that people use, each on a port of its own. Every one answers with what it saw of a request, as JSON.

Prints a line `NAME PORT` for each that runs, then `ready`, and ends when standard input does. Arguments: where packages are.
"""

import asyncio
import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path[:0] = sys.argv[1:]


def seen(method, target, headers, body):
    """What a server saw. `target` is as it came, or decoded where the server keeps nothing else."""
    return json.dumps({"method": method, "target": target, "headers": headers, "body": body.hex()}).encode()


def free_socket():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener


def application(environ, start_response):
    """For servers that speak WSGI: names of headers are upper case with underscores there, and paths are decoded."""
    body = environ["wsgi.input"].read()
    headers = [[name[5:].replace("_", "-"), value] for name, value in environ.items() if name.startswith("HTTP_")]
    query = environ.get("QUERY_STRING")
    target = environ["PATH_INFO"] + ("?" + query if query else "")
    answer = seen(environ["REQUEST_METHOD"], {"decoded": target}, headers, body)
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]


class Standard(BaseHTTPRequestHandler):
    """Python's own. It knows no chunks, so what comes after them is read as the next request, and refused."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        # Of a path with two slashes at its beginning it drops one.
        target = self.requestline.split()[1]
        answer = seen(self.command, target, list(self.headers.items()), body)
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def log_message(self, *_):
        pass


def standard():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Standard)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def waitress():
    from waitress.server import create_server

    server = create_server(application, host="127.0.0.1", port=0, threads=4)
    threading.Thread(target=server.run, daemon=True).start()
    return server.effective_port


def cheroot():
    from cheroot.wsgi import Server

    server = Server(("127.0.0.1", 0), application)
    server.prepare()
    threading.Thread(target=server.serve, daemon=True).start()
    return server.bind_addr[1]


def gunicorn():
    """Gunicorn's parser in a loop of ours: its workers are processes."""
    from gunicorn.config import Config
    from gunicorn.http import RequestParser
    from gunicorn.http.errors import NoMoreData

    listener = free_socket()

    def serve(client):
        with client:
            client.settimeout(10)
            try:
                for request in RequestParser(Config(), client, ("127.0.0.1", 0)):
                    headers = [list(pair) for pair in request.headers]
                    answer = seen(request.method, request.uri, headers, request.body.read())
                    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer))
                    if request.method != "HEAD":
                        client.sendall(answer)
                    if request.should_close():
                        return
            except (StopIteration, NoMoreData, OSError):
                return
            except Exception:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    def accept():
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def in_a_loop(start):
    """Runs a server of asyncio's in a thread; `start` returns its port."""
    port = []
    is_up = threading.Event()

    async def main():
        port.append(await start())
        is_up.set()
        await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
    if not is_up.wait(30):
        raise RuntimeError("it does not start")
    return port[0]


def tornado():
    import tornado.httpserver
    import tornado.httputil

    def answer(request):
        body = seen(request.method, request.uri, list(request.headers.get_all()), request.body)
        start = tornado.httputil.ResponseStartLine("HTTP/1.1", 200, "OK")
        headers = tornado.httputil.HTTPHeaders({"Content-Length": str(len(body))})
        request.connection.write_headers(start, headers, b"" if request.method == "HEAD" else body)
        request.connection.finish()

    async def start():
        listener = free_socket()
        listener.setblocking(False)
        tornado.httpserver.HTTPServer(answer).add_socket(listener)
        return listener.getsockname()[1]

    return in_a_loop(start)


def aiohttp():
    from aiohttp import web

    async def answer(request):
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in request.raw_headers]
        body = seen(request.method, request.raw_path, headers, await request.read())
        return web.Response(body=body, content_type="application/json")

    async def start():
        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        listener = free_socket()
        await web.SockSite(runner, listener).start()
        return listener.getsockname()[1]

    return in_a_loop(start)


def uvicorn():
    """With h11, a parser that others use too."""
    from uvicorn import Config, Server

    async def answer(scope, receive, send):
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        target = scope["raw_path"].decode("latin-1")
        if scope["query_string"]:
            target += "?" + scope["query_string"].decode("latin-1")
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
        content = seen(scope["method"], target, headers, body)
        length = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})

    listener = free_socket()
    config = Config(answer, http="h11", lifespan="off", log_level="critical")
    server = Server(config)
    server.install_signal_handlers = lambda: None
    threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True).start()
    return listener.getsockname()[1]


for start in (standard, waitress, cheroot, gunicorn, tornado, aiohttp, uvicorn):
    try:
        print(start.__name__, start(), flush=True)
    except ImportError as error:
        print(f"{start.__name__} is left out: {error}", file=sys.stderr, flush=True)
print("ready", flush=True)
sys.stdin.read()
