"""A server with a scripted model, and a browser that is logged in as its administrator."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile

import pytest
import scripted_model
from playwright.sync_api import expect, sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
AXE = ROOT / "target/browser/node_modules/axe-core/axe.min.js"
PASSWORD = "correct horse battery"
TOOL = '''@tool(effects="outside")
def send_report(to: str, subject: str) -> str:
    """Sends the report.

    Args:
        to: The receiver.
        subject: What it is about.
    """
    return f"sent to {to}"
'''

# A session starts in milliseconds, but the machine of a test may have other work.
expect.set_options(timeout=60_000)


# What was measured, for the report at the end. Speed is told there; no test fails for it.
MEASURED = []


def pytest_terminal_summary(terminalreporter):
    for line in MEASURED:
        terminalreporter.write_line(line)


class Server:
    """A `cellblock serve` on a directory of its own."""

    def __init__(self, directory, model, options=(), listen="127.0.0.1:0", variables=None):
        (directory / "tools").mkdir(exist_ok=True)
        (directory / "tools/report.py").write_text(TOOL)
        self.command = [
            os.environ.get("CELLBLOCK", str(ROOT / "target/debug/cellblock")),
            *("serve", "--listen", listen, "--data", str(directory / "data"), "--tools-dir", str(directory / "tools")),
            *("--model", "scripted", "--base-url", model, "--format", "markdown"),
            *("--quota", "sessions=200", "--quota", "memory=800GiB", "--quota", "cells_per_minute=6000", "--quota", "runs=50"),
            *options,
        ]
        self.variables = variables or {}
        self.url = self.secret = None
        self.start()

    def start(self):
        """Starts the process, and reads its address and, where there is a login, the secret of the one-time link."""
        environment = {**os.environ, "CELLBLOCK_API_KEY": "none", "OPENAI_API_KEY": "none", **self.variables}
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"serving at (\S+)", line):
                self.url = found[1]
            if found := re.search(r"/setup#(\S+)", line):
                self.secret = found[1]
            if self.url and (self.secret or "--no-auth" in self.command):
                return
        raise RuntimeError("the server did not start: " + "".join(said))

    def stop(self):
        """Ends the process."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_address():
    """An address that a program can listen on. Other programs must know it before."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        # Root cannot use Chromium's own sandbox.
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=arguments)
        if os.environ.get("CELLBLOCK_WEB_FILES"):
            read_web_files_from_the_tree(browser)
        yield browser
        browser.close()


def read_web_files_from_the_tree(browser):
    """Gives pages the scripts and styles of the tree instead of those in the program, so that a change needs no build."""
    make = browser.new_context

    def new_context(**options):
        context = make(**options)
        web = ROOT / "crates/server/web"
        context.route("**/assets/**", lambda route: route.fulfill(path=web / re.sub(r".*/assets/[^/]+/", "", route.request.url)))
        return context

    browser.new_context = new_context


@pytest.fixture(scope="session")
def server():
    with tempfile.TemporaryDirectory(prefix="cellblock-browser-") as directory:
        server = Server(pathlib.Path(directory), scripted_model.start())
        yield server
        server.stop()


@pytest.fixture(scope="session")
def login(browser, server):
    """The cookies of the administrator."""
    return first_login(browser, server)


def first_login(browser, server):
    """Makes the administrator through the pages, and returns the cookies."""
    context = browser.new_context(base_url=server.url)
    page = context.new_page()
    page.goto(f"/setup#{server.secret}")
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_role("button", name="Create and log in").click()
    expect(page.get_by_role("navigation", name="Main navigation")).to_be_visible()
    state = context.storage_state()
    context.close()
    return state


def is_problem(message):
    """Whether a message of the console is a fault of the page. Output of cells, in its frame, may try what it likes."""
    # Chromium tells the address of the page, and not that of the frame, for a request that the frame's policy refused.
    is_of_output = message.location["url"].endswith("/frame") or any(word in message.text for word in ["sandboxed", "Connecting to", "Fetch API"])
    return message.type == "error" and not is_of_output and "Failed to load resource" not in message.text


@pytest.fixture
def open_page(browser, server, login):
    """Opens pages that are logged in. A script error or a refused resource fails the test."""
    contexts, problems = [], []

    def open_one(path="/", **options):
        context = browser.new_context(base_url=server.url, storage_state=login, **{"viewport": {"width": 1360, "height": 860}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if is_problem(message) else None)
        page.goto(path)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def new_session(open_page):
    """A new session in a page of its own."""

    def make(**options):
        page = open_page("/sessions", **options)
        page.get_by_role("button", name="New session").click()
        expect(page.get_by_label("Code of a new cell")).to_be_visible()
        return page

    return make


def run(page, code):
    """Runs a cell and waits until it is over."""
    # The page before is shown, and takes nothing, until the next one is there.
    expect(page.locator("#content > [inert]")).to_have_count(0)
    cells = page.locator(".cells > .cell")
    before = cells.count()
    page.get_by_label("Code of a new cell").fill(code)
    page.get_by_label("Code of a new cell").press("Shift+Enter")
    expect(cells).to_have_count(before + 1)
    expect(cells.nth(before)).not_to_have_attribute("data-status", "running", timeout=60_000)
    return cells.nth(before)


def ask(page, question):
    """Asks in a chat and waits for the end of the run."""
    page.get_by_label("Your question").fill(question)
    page.get_by_role("button", name="Send", exact=True).click()
    return page.locator(".exchange").last


def violations(page):
    """What axe finds on a page, in short."""
    page.wait_for_timeout(400)
    # The page's policy refuses inline scripts; this way it is the browser's debugger that runs it.
    page.evaluate(AXE.read_text())
    result = page.evaluate("axe.run(document, {iframes: false})")
    return [(entry["id"], entry["nodes"][0]["html"][:160]) for entry in result["violations"]]
