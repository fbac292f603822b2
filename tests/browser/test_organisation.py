"""A server of an organisation in a real browser: people log in with its provider, and the agent takes the best of several replies."""

import pathlib
import tempfile

import openid_provider
import pytest
import scripted_model
from conftest import AXE, Server, ask, free_address, violations
from playwright.sync_api import expect

WIDTHS = [1360, 820, 390]


def organisation_options(issuer):
    """How the server of the organisation is started. The provider must know its address before."""
    address = free_address()
    options = ["--openid-issuer", issuer, "--openid-client", openid_provider.CLIENT, "--public-url", f"http://{address}", "--best-of", "3"]
    return {"options": options, "listen": address, "variables": {"CELLBLOCK_OPENID_SECRET": openid_provider.SECRET}}


@pytest.fixture(scope="module")
def organisation():
    with tempfile.TemporaryDirectory(prefix="cellblock-browser-") as directory:
        server = Server(pathlib.Path(directory), scripted_model.start(), **organisation_options(openid_provider.start()))
        yield server
        server.stop()


@pytest.fixture
def stranger(browser, organisation):
    """Opens pages of a person who has no login yet."""
    contexts = []

    def open_one(path="/", width=1360):
        contexts.append(browser.new_context(base_url=organisation.url, viewport={"width": width, "height": 860}))
        page = contexts[-1].new_page()
        page.goto(path)
        return page

    yield open_one
    for context in contexts:
        context.close()


def log_in(page, user):
    """Logs in with the provider."""
    page.get_by_role("link", name="Log in with your organisation").click()
    expect(page.get_by_role("heading", name="Example Organisation")).to_be_visible()
    page.get_by_label("Who are you?").fill(user)
    page.get_by_role("button", name="Continue").click()


def test_a_person_logs_in_with_the_organisation_and_comes_to_the_page_that_was_asked_for(stranger):
    page = stranger("/sessions")
    log_in(page, "grace")
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    assert page.context.request.get("/v1/me").json()["user"]["name"] == "grace"
    # The login stays, and ends when the person ends it.
    page.reload()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("link", name="Log in with your organisation")).to_be_visible()


def test_a_person_who_declines_is_told_so(stranger):
    page = stranger("/sessions")
    page.get_by_role("link", name="Log in with your organisation").click()
    page.get_by_role("button", name="Decline").click()
    expect(page.get_by_text("Your organisation did not let you in.")).to_be_visible()
    assert page.context.request.get("/v1/me").status == 401


@pytest.mark.parametrize("width", WIDTHS)
def test_the_replies_of_a_step_stand_side_by_side(stranger, width):
    page = stranger("/", width=width)
    log_in(page, f"grace{width}")
    exchange = ask(page, "Which lane is the best?")
    expect(exchange.locator(".answer")).to_contain_text("The second lane")
    exchange.locator(".work-details").evaluate("element => element.open = true")
    summary = exchange.locator(".lanes-details summary").first
    expect(summary).to_contain_text("of 3")
    summary.click()
    lanes = exchange.locator(".lanes-details").first.get_by_role("listitem")
    expect(lanes).to_have_count(3)
    expect(lanes.filter(has_text="ZeroDivisionError").first).to_be_visible()
    expect(exchange.locator(".lane.chosen").first).to_contain_text("print(6 * 7)")
    # What runs in the session is the code of the chosen lane.
    expect(exchange.locator("pre.output").last).to_contain_text("42")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if AXE.exists():
        assert violations(page) == []
