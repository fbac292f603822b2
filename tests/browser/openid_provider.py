"""A provider of OpenID Connect with one page, on which a person logs in or declines."""

import base64
import json
import threading
import urllib.parse
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CLIENT, SECRET = "cellblock", "s3cret"
PAGE = """<!doctype html><meta charset="utf-8"><title>Example Organisation</title><h1>Example Organisation</h1>
<form action="/decide"><input type="hidden" name="asked" value="{asked}"><label>Who are you?<input name="user"></label>
<button name="decision" value="yes">Continue</button><button name="decision" value="no">Decline</button></form>"""


class Handler(BaseHTTPRequestHandler):
    """Answers the three requests of the protocol, and shows the page between them."""

    # The person and the request behind each code.
    codes = {}

    def log_message(self, *_):
        """Says nothing: the output of the tests is read by people."""

    @property
    def issuer(self):
        """The address of the provider."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def do_GET(self):
        address = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(address.query))
        if address.path == "/.well-known/openid-configuration":
            self.answer({"issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize", "token_endpoint": f"{self.issuer}/token"})
        elif address.path == "/authorize":
            asked = base64.urlsafe_b64encode(json.dumps(query).encode()).decode()
            self.send(200, PAGE.format(asked=asked).encode(), {"content-type": "text/html"})
        else:
            self.decide(query)

    def decide(self, query):
        """Sends the browser back, with a code or with a refusal."""
        asked = json.loads(base64.urlsafe_b64decode(query["asked"]))
        back = {"state": asked["state"], "error": "access_denied"}
        if query["decision"] == "yes":
            code = f"code-{len(self.codes)}"
            self.codes[code] = (query["user"], asked)
            back = {"state": asked["state"], "code": code}
        self.send(302, b"", {"location": f"{asked['redirect_uri']}?{urllib.parse.urlencode(back)}"})

    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
        user, asked = self.codes.pop(form["code"])
        challenge = base64.urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        credentials = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if challenge != asked["code_challenge"] or self.headers["authorization"] != f"Basic {credentials}":
            self.send(400, b"", {})
            return
        claims = {"iss": self.issuer, "aud": CLIENT, "nonce": asked["nonce"], "exp": 4_000_000_000, "sub": f"id-of-{user}", "preferred_username": user}
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
        self.answer({"id_token": f"e30.{payload}.c2ln"})

    def answer(self, value):
        """Answers with JSON."""
        self.send(200, json.dumps(value).encode(), {"content-type": "application/json"})

    def send(self, status, body, headers):
        """Sends an answer."""
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def start():
    """Starts the provider and returns its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
