"""The page of a run, in a real browser."""

import re

from conftest import AXE, ask, violations
from playwright.sync_api import expect


def test_a_run_shows_where_its_time_went(open_page):
    page = open_page("/")
    exchange = ask(page, "What do 15000 become at 6 % compounded monthly?")
    expect(exchange.locator(".answer")).to_be_visible()
    exchange.get_by_role("link", name="Where the time went").click()
    expect(page.locator(".timeline li")).to_have_count(3)
    expect(page.get_by_text("Events")).to_be_visible()


def test_every_prompt_and_observation_is_shown_as_it_was_sent(open_page):
    page = open_page("/")
    exchange = ask(page, "What do 15000 become at 5 % compounded daily?")
    expect(exchange.locator(".answer")).to_be_visible()
    asked = []
    page.on("request", lambda request: asked.append(request.url.rsplit("/v1/", 1)[-1]))
    exchange.get_by_role("link", name="Where the time went").click()
    requests = page.locator(".requests > li")
    expect(requests).to_have_count(2)
    expect(requests.nth(1)).to_contain_text("4 messages")
    # A request is loaded when it is opened, and not before.
    assert not [path for path in asked if re.search("requests/[0-9]", path)]
    requests.nth(0).locator("summary").first.click()
    expect(requests.nth(0).locator(".request-message.system pre")).to_contain_text("Python")
    expect(requests.nth(0).locator(".request-message.user pre")).to_have_text("What do 15000 become at 5 % compounded daily?")
    requests.nth(1).locator("summary").first.click()
    shown = requests.nth(1).locator(".request-body > .request-message")
    expect(shown).to_have_count(2)
    expect(shown.nth(0)).to_contain_text("The formula is")
    expect(shown.nth(1)).to_contain_text("21386.41")
    requests.nth(1).get_by_text("2 messages that an earlier request has too").click()
    expect(requests.nth(1).locator(".request-message")).to_have_count(4)
    if AXE.exists():
        assert violations(page) == []
