"""Branches of a session in a real browser: a fork goes its own way, and two branches are compared."""

from conftest import run
from playwright.sync_api import expect

# Until the next page is there, the one before is still shown, and has cells too.
SHOWN_CELLS = "#content > :not([inert]) .cells > .cell"


def test_a_fork_goes_its_own_way_and_is_compared(new_session):
    page = new_session()
    run(page, "best = 'West'")
    original = page.url
    page.get_by_role("button", name="Fork", exact=True).click()
    expect(page.get_by_text("Forked. This is the copy.")).to_be_visible()
    expect(page).not_to_have_url(original)
    expect(page.locator(SHOWN_CELLS)).to_have_count(1)
    expect(page.get_by_role("tabpanel")).to_contain_text("best")
    run(page, "best = 'East'\nopen('only.txt', 'w').write('x')")
    page.get_by_role("tab", name="Branches").click()
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.get_by_role("heading", name="Two branches, side by side")).to_be_visible()
    # Both have the same title: it is said which one is the fork.
    titles = ["Session · fork", "Session · original"]
    expect(page.locator(".branch-head")).to_have_text(titles)
    expect(page.locator("thead").first.get_by_role("columnheader")).to_have_text(titles)
    row = page.get_by_role("row", name="best")
    expect(row).to_contain_text("'East'")
    expect(row).to_contain_text("'West'")
    expect(page.get_by_role("row", name="only.txt")).to_contain_text("–")


def test_a_fork_begins_at_an_earlier_moment_and_the_session_stays_where_it_is(new_session):
    page = new_session()
    for code in ["x = [1]", "x.append(2)", "x.append(3)"]:
        run(page, code)
    original = page.url
    slider = page.get_by_label("Moment in the session")
    # Its states come after the cells.
    expect(slider).to_have_attribute("max", "3")
    slider.press("ArrowLeft")
    page.get_by_role("button", name="Fork from here").click()
    expect(page.get_by_text("Forked. This is the copy.")).to_be_visible()
    expect(page).not_to_have_url(original)
    expect(page.locator(SHOWN_CELLS)).to_have_count(2)
    assert "[1, 2]" in run(page, "x").inner_text()
    page.goto(original)
    expect(page.get_by_label("Code of a new cell")).to_be_visible()
    assert "[1, 2, 3]" in run(page, "x").inner_text()


def test_while_a_fork_is_loaded_nothing_runs_in_the_original(new_session):
    page = new_session()
    run(page, "x = 1")
    waiting = []
    page.route("**/v1/sessions/*", lambda route: waiting.append(route))
    original = page.url
    page.get_by_role("button", name="Fork", exact=True).click()
    expect(page).not_to_have_url(original)
    expect(page.locator("#content > [inert]")).not_to_have_count(0)
    page.keyboard.type("x = 2")
    page.keyboard.press("Shift+Enter")
    for route in waiting:
        route.continue_()
    page.unroute_all(behavior="ignoreErrors")
    expect(page.locator("#content > [inert]")).to_have_count(0)
    page.goto(original)
    expect(page.get_by_label("Code of a new cell")).to_be_visible()
    expect(page.locator(".cells > .cell")).to_have_count(1)


def test_two_branches_show_what_changed_inside_of_values_and_files(new_session):
    page = new_session()
    run(page, "numbers = list(range(1000))\nsame = list(range(1000))\nopen('note.txt', 'w').write('left')\nopen('same.txt', 'w').write('same')")
    original = page.url
    page.get_by_role("button", name="Fork", exact=True).click()
    expect(page).not_to_have_url(original)
    expect(page.locator(SHOWN_CELLS)).to_have_count(1)
    # Neither the beginning of the list nor the size of the file differs.
    run(page, "numbers[900] = -7\nopen('note.txt', 'w').write('main')\nopen('same.txt', 'w').write('same')")
    page.get_by_role("tab", name="Branches").click()
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.get_by_role("row", name="numbers")).to_contain_text("-7")
    expect(page.get_by_role("row", name="note.txt")).to_contain_text("other contents")
    expect(page.get_by_role("row", name="same")).to_have_count(0)
