"""Pictures of every page of the web app, for people who look at them."""

import io
import os
import pathlib
import sys
import tempfile

import openid_provider
import scripted_model
from conftest import ROOT, Server, ask, first_login, read_web_files_from_the_tree, run
from PIL import Image
from playwright.sync_api import expect, sync_playwright
from test_organisation import organisation_options

PLACE = ROOT / "target/browser/pictures"
WIDTHS = [1360, 820, 390]
# The pictures of the documentation, each with its page and its width.
IN_DOCS = {"session": ("session", 1360), "chat": ("chat", 1360), "time": ("time", 1360), "phone": ("session", 390), "requests": ("requests", 1360)}
CRASH = "import ctypes\nctypes.string_at(0)  # a null pointer"
TABLE = "import pandas as pd\nsales = pd.DataFrame({'region': ['North', 'East', 'South', 'West'], 'revenue': [182, 240, 128, 311]})\nsales"
REPORT = "best = sales.sort_values('revenue').iloc[-1]\nprint(f'{best.region} leads with {best.revenue}')"


class Album:
    """Takes the same pages at every width."""

    def __init__(self, browser, server, arguments):
        self.browser, self.server, self.docs = browser, server, "--docs" in arguments
        self.only = [argument for argument in arguments if argument != "--docs"]
        self.login = first_login(browser, server)

    def is_wanted(self, *names):
        """Whether one of these pages was named on the command line, or none was."""
        return not self.only or any(name in self.only for name in names)

    def open(self, path, width=1360, login=True, **options):
        """A page of its own."""
        state = self.login if login else None
        context = self.browser.new_context(base_url=self.server.url, storage_state=state, viewport={"width": width, "height": 860}, **options)
        page = context.new_page()
        page.goto(path)
        return page

    def take(self, page, name, width):
        """Keeps what the page shows."""
        page.wait_for_timeout(500)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} is wider than {width}"
        picture = Image.open(io.BytesIO(page.screenshot()))
        picture.save(PLACE / f"{name}-{width}.png")
        for file, (shown, of_width) in IN_DOCS.items():
            if self.docs and (shown, of_width) == (name, width):
                picture.save(ROOT / f"docs/web/{file}.webp", quality=82, method=6)

    def pages(self, name, address, prepare=None, login=True, **options):
        """Takes one address at every width, unless only other pages are wanted."""
        if not self.is_wanted(name):
            return
        for width in WIDTHS:
            page = self.open(address, width, login, **options)
            page.locator("h1, .cells, .exchange, form").filter(visible=True).first.wait_for()
            if prepare:
                prepare(page)
            self.take(page, name, width)
            page.context.close()


def session(album):
    """A session with a table, a crash and a fork."""
    page = album.open("/sessions")
    page.get_by_role("button", name="New session").click()
    expect(page.get_by_label("Code of a new cell")).to_be_visible()
    for code in [TABLE, REPORT, CRASH, "len(sales)"]:
        run(page, code)
    address = page.url
    page.get_by_role("button", name="Fork", exact=True).click()
    expect(page).not_to_have_url(address)
    expect(page.locator("#content > :not([inert]) .cells > .cell")).to_have_count(4)
    run(page, "sales.loc[1, 'revenue'] = 400\nbest = sales.sort_values('revenue').iloc[-1]")
    ends = [url.rstrip("/").rsplit("/", 1)[-1] for url in (address, page.url)]
    page.context.close()
    return ends


def back(page):
    """Moves the slider two states back."""
    slider = page.get_by_label("Moment in the session")
    # Its states come after the cells.
    page.wait_for_function("slider => Number(slider.max) > 1", arg=slider.element_handle())
    for _ in range(2):
        slider.press("ArrowLeft")
    expect(page.get_by_text("You are looking at the state")).to_be_visible()


def chat(album, question):
    """Asks, and returns the addresses of the chat and of its run."""
    page = album.open("/")
    exchange = ask(page, question)
    expect(exchange.locator(".answer")).to_be_visible()
    chat, run_link = page.url, exchange.get_by_role("link", name="Where the time went").get_attribute("href")
    page.context.close()
    return chat, run_link


def unfold(page):
    """Shows the steps of the last answer."""
    page.locator(".work-details").last.evaluate("element => element.open = true")


def requests(page):
    """Opens the last request of a run."""
    last = page.locator(".requests > li").last
    last.locator("summary").first.click()
    expect(last.locator(".request-body > .request-message").first).to_be_visible()
    last.scroll_into_view_if_needed()
    page.get_by_role("heading", name="What was sent to the model").scroll_into_view_if_needed()


def main():
    """Takes all pictures."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cellblock-pictures-") as directory, sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=arguments)
        if os.environ.get("CELLBLOCK_WEB_FILES"):
            read_web_files_from_the_tree(browser)
        server = Server(pathlib.Path(directory), scripted_model.start(), **organisation_options(openid_provider.start()))
        try:
            album = Album(browser, server, sys.argv[1:])
            if album.is_wanted("session", "time", "compare"):
                first, second = session(album)
                album.pages("session", f"/sessions/{first}")
                album.pages("time", f"/sessions/{first}", back)
                album.pages("compare", f"/compare/{first}/{second}")
            address, of_run = chat(album, "What do 15000 become at 6 % compounded semi-annually?")
            album.pages("chat", address, unfold)
            album.pages("chat-dark", address, unfold, color_scheme="dark")
            album.pages("run", of_run)
            album.pages("requests", of_run, requests)
            album.pages("login", "/login", login=False)
            for path in ["/", "/sessions", "/runs", "/evaluations", "/admin/tokens", "/admin/users", "/admin/live", "/admin/machine", "/admin/audit", "/reference"]:
                album.pages(path.strip("/").replace("/", "-") or "welcome", path)
        finally:
            server.stop()
            browser.close()


if __name__ == "__main__":
    main()
