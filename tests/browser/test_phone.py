"""The web app at the width of a phone."""

from conftest import ask, run
from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def test_on_a_phone_nothing_is_wider_than_the_screen(new_session):
    page = new_session(viewport={"width": 390, "height": 844}, has_touch=True)
    run(page, "print('x' * 500)\n{i: 'word' * 9 for i in range(9)}")
    width = "document.documentElement.scrollWidth"
    assert page.evaluate(width) == 390
    page.get_by_role("button", name="About this session").click()
    expect(page.get_by_role("tab", name="Variables")).to_be_visible()
    page.get_by_role("button", name="About this session").click()
    page.get_by_role("button", name="Open menu").click()
    page.get_by_role("link", name="Sessions").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    assert page.evaluate(width) == 390


def test_on_a_phone_long_titles_end_where_the_list_ends(open_page):
    page = open_page("/", **PHONE)
    exchange = ask(page, "What do 15000 become at 6 % compounded semi-annually, and after how many years is it twice as much?")
    expect(exchange.locator(".answer")).to_be_visible()
    for path in ("/sessions", "/runs"):
        page.goto(path)
        card = page.locator(".session-card").filter(has_text="compounded").first
        expect(card).to_be_visible()
        box = card.bounding_box()
        assert box["x"] + box["width"] <= 390, path
        expect(card.locator("time")).to_be_in_viewport(ratio=1)


def test_on_a_phone_the_link_of_the_section_that_is_shown_can_be_seen(open_page):
    page = open_page("/admin/audit", **PHONE)
    expect(page.get_by_role("link", name="Audit")).to_be_in_viewport(ratio=0.9)


def test_on_a_phone_the_buttons_of_a_row_can_be_seen(open_page):
    page = open_page("/admin/users", **PHONE)
    row = page.get_by_role("row", name="admin")
    for name in ("Limits of admin", "Delete admin"):
        expect(row.get_by_role("button", name=name)).to_be_in_viewport(ratio=0.9)
