"""What a person does with the web app, in a real browser."""

import json
import re
import zipfile

from conftest import AXE, PASSWORD, ask, run, violations
from playwright.sync_api import expect
import pytest


def test_a_wrong_password_is_refused_and_the_right_one_opens_the_page_that_was_asked_for(browser, server, login):
    page = browser.new_context(base_url=server.url).new_page()
    page.goto("/sessions")
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill("wrong password")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    page.context.close()


def test_a_question_shows_thought_code_result_and_answer(open_page):
    page = open_page("/")
    exchange = ask(page, "What do 15000 become at 6 % compounded semi-annually?")
    expect(exchange.locator(".answer")).to_contain_text("21386.41")
    expect(exchange.locator(".answer strong")).to_have_text("21386.41")
    exchange.locator(".work-details").evaluate("element => element.open = true")
    expect(exchange.locator(".thought").first).to_contain_text("The formula is")
    expect(exchange.locator("pre.code").first).to_contain_text("principal = 15000")
    # Only the editor of a session is called so.
    expect(page.get_by_label("Code of a new cell")).to_have_count(0)
    expect(exchange.locator("pre.output").first).to_contain_text("21386.41")
    expect(exchange.locator(".cost")).to_contain_text("tokens")
    # The page has an address, and shows the same after it is loaded again.
    expect(page).to_have_url(re.compile("/chats/"))
    page.reload()
    expect(page.locator(".answer")).to_contain_text("21386.41")
    page.get_by_role("link", name="Open the session").click()
    expect(page.locator(".cells > .cell")).to_have_count(1)
    expect(page.get_by_role("tabpanel")).to_contain_text("principal")


def test_files_are_uploaded_plotted_and_downloaded(open_page):
    page = open_page("/")
    file = {"name": "cities.csv", "mimeType": "text/csv", "buffer": b"city,degrees\nOslo,4.5\nRome,19\nParis,12\n"}
    page.locator("input[type=file]").set_input_files(file)
    expect(page.locator(".chip")).to_contain_text("cities.csv")
    exchange = ask(page, "Plot these cities")
    expect(exchange.locator(".answer")).to_contain_text("Rome")
    expect(exchange.locator(".image img")).to_have_count(1)
    with page.expect_download() as download:
        exchange.locator(".answer a[download]").first.click()
    assert download.value.path().read_text() == "3 cities"
    expect(exchange.locator(".chips.made .chip")).to_have_text([re.compile("cell-1.png"), re.compile("summary.txt")])
    # An answer has the files that its own cells wrote.
    exchange = ask(page, "What do 15000 become compounded?")
    expect(exchange.locator(".cost")).to_contain_text("tokens")
    expect(exchange.locator(".answer")).to_contain_text("21386.41")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    expect(exchange.locator(".chips.made")).to_have_count(0)


def test_a_call_inside_a_running_cell_is_approved_with_an_edited_argument(open_page):
    page = open_page("/")
    exchange = ask(page, "Send the report")
    card = exchange.get_by_label("send_report waits for your approval")
    expect(card).to_be_visible()
    # The session shows what the cell has made until now.
    session = open_page(page.locator("a[href*='/sessions/']").first.get_attribute("href"))
    expect(session.get_by_role("tabpanel").locator("summary")).to_have_text(["subjectstr'Numbers'"])
    card.get_by_label("to", exact=True).fill("ada@example.org")
    card.get_by_role("button", name="Allow as edited").click()
    expect(exchange.locator(".answer")).to_contain_text("was sent")
    exchange.locator(".work-details").evaluate("element => element.open = true")
    expect(exchange.locator("pre.output").first).to_contain_text("sent to ada@example.org")


def test_a_person_answers_in_the_place_of_a_call(open_page):
    page = open_page("/")
    exchange = ask(page, "Send the report")
    card = exchange.get_by_label("send_report waits for your approval")
    expect(card.get_by_role("button", name="Answer instead")).to_be_disabled()
    card.get_by_label("Words to the model").fill("Ada has it already")
    card.get_by_role("button", name="Answer instead").click()
    expect(exchange.locator(".approval.decided")).to_contain_text("Answer instead")
    expect(exchange.locator(".answer")).to_contain_text("was sent")
    exchange.locator(".work-details").evaluate("element => element.open = true")
    expect(exchange).to_contain_text("Ada has it already")
    expect(exchange).not_to_contain_text("sent to")


def test_an_answer_has_limits_of_its_own(open_page):
    page = open_page("/")
    page.get_by_role("button", name="Limits of the answer").click()
    page.get_by_role("dialog").get_by_label("Steps").fill("1")
    page.get_by_role("dialog").get_by_label("Time, such as").fill("5 min")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.locator(".composer .chip")).to_have_text(["Steps ≤ 1", "Time ≤ 5 min"])
    exchange = ask(page, "What do 15000 become compounded?")
    # The first step computes; the one that would answer is not allowed any more.
    expect(exchange.locator(".answer .notice")).to_be_visible()
    page.get_by_role("button", name="Remove the limit Steps").click()
    expect(page.locator(".composer .chip")).to_have_text(["Time ≤ 5 min"])
    exchange = ask(page, "What do 15000 become compounded?")
    expect(exchange.locator(".answer")).to_contain_text("21386.41")


def test_a_question_is_edited_and_its_cells_are_taken_back(open_page):
    page = open_page("/")
    first = ask(page, "What do 15000 become compounded?")
    expect(first.locator(".answer")).to_contain_text("21386.41")
    second = ask(page, "Is it still there?")
    expect(second.locator(".answer")).to_contain_text("It is 15000.")
    page.locator(".exchange").first.hover()
    page.locator(".exchange").first.get_by_role("button", name="Edit and resend").click()
    expect(page.get_by_label("Your question")).to_have_value("What do 15000 become compounded?")
    expect(page.get_by_label("First take back what ran since then")).to_be_checked()
    last = ask(page, "Is it still there, after all?")
    # The variable is gone with the cells of both answers.
    last.locator(".work-details").evaluate("element => element.open = true")
    expect(last).to_contain_text("NameError")
    expect(page.locator(".exchange.taken-back")).to_have_count(2)
    expect(page.get_by_text("You edit an earlier question")).to_be_hidden()
    page.reload()
    expect(page.locator(".exchange.taken-back")).to_have_count(2)


def test_a_host_is_asked_for_inside_a_running_cell(open_page):
    page = open_page("/")
    exchange = ask(page, "Fetch the page")
    card = exchange.locator(".approval")
    expect(card).to_contain_text("The code wants to reach localhost:9")
    expect(card.locator("textarea")).to_have_count(0)
    card.get_by_label("Words to the model").fill("use the file")
    card.get_by_role("button", name="Reject").click()
    expect(exchange.locator(".answer")).to_contain_text("It cannot be reached.")
    exchange.locator(".work-details").evaluate("element => element.open = true")
    expect(exchange).to_contain_text("use the file")


def test_a_run_is_stopped(open_page):
    page = open_page("/")
    exchange = ask(page, "Compute forever")
    expect(exchange.locator("pre.output").first).to_contain_text("begun")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    expect(exchange.locator(".activity")).to_be_empty()


def test_what_a_model_writes_is_never_markup(open_page):
    page = open_page("/")
    exchange = ask(page, "Be hostile")
    expect(exchange.locator(".answer")).to_contain_text("<script>document.title = 'owned'</script>")
    expect(exchange.locator(".answer script, .answer img, .answer a[href^=javascript]")).to_have_count(0)
    assert page.title() != "owned"


def test_the_slider_shows_variables_as_they_were_and_goes_back(new_session):
    page = new_session()
    for code in ["x = 1", "x = 2", "y = 3"]:
        run(page, code)
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("y")
    slider = page.get_by_label("Moment in the session")
    slider.focus()
    slider.press("ArrowLeft")
    slider.press("ArrowLeft")
    expect(page.get_by_text("You are looking at the state after cell 1")).to_be_visible()
    expect(panel.locator("summary")).to_have_text(["xint1"])
    # Looking changes nothing: the session is where it was.
    page.get_by_role("button", name="Back to now").click()
    expect(panel.locator("summary")).to_have_text(["xint2", "yint3"])
    slider.press("ArrowLeft")
    slider.press("ArrowLeft")
    page.get_by_role("button", name="Go back here").click()
    expect(panel.locator("summary")).to_have_text(["xint1"])
    expect(page.locator(".cell.undone")).to_have_count(2)
    assert "1" in run(page, "x").inner_text()


def test_a_crash_is_shown_as_restored_and_nothing_is_lost(new_session):
    page = new_session()
    run(page, "kept = 42")
    cell = run(page, "import ctypes\nctypes.string_at(0)")
    expect(cell.get_by_role("note")).to_contain_text("the session is back")
    expect(cell.get_by_role("note")).to_contain_text("SIGSEGV")
    assert "42" in run(page, "kept").inner_text()


def test_two_tabs_see_the_same(new_session, open_page):
    first = new_session()
    run(first, "print('hello')")
    second = open_page(first.url)
    expect(second.locator(".cells > .cell")).to_have_count(1)
    expect(second.locator("pre.output")).to_contain_text("hello")
    run(second, "print('from the second tab')")
    expect(first.locator("pre.output").nth(1)).to_contain_text("from the second tab")


def test_code_can_ask_a_question(new_session):
    page = new_session()
    page.get_by_label("Code of a new cell").fill("before = 41\nname = input('Who? ')\nprint('Hello', name)")
    page.get_by_label("Code of a new cell").press("Shift+Enter")
    # What the cell has made until now is shown while it waits, also to a page that is opened meanwhile.
    expect(page.get_by_role("tabpanel").locator("summary")).to_have_text(["beforeint41"])
    page.reload()
    expect(page.get_by_role("tabpanel").locator("summary")).to_have_text(["beforeint41"])
    page.get_by_label("Who?").fill("Ada")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator("pre.output")).to_contain_text("Hello Ada")


def test_a_scratch_cell_leaves_the_session_as_it_is_until_it_is_applied(new_session):
    page = new_session()
    run(page, "x = 1")
    page.get_by_label("Code of a new cell").fill("x = 100\nx")
    page.get_by_role("button", name="Try in a fork").click()
    scratch = page.get_by_label("Tried in a fork")
    expect(scratch).to_contain_text("100")
    expect(page.get_by_role("tabpanel").locator("summary")).to_have_text(["xint1"])
    scratch.get_by_role("button", name="Apply here").click()
    expect(page.get_by_role("tabpanel").locator("summary")).to_have_text(["xint100"])


def test_html_of_a_cell_runs_only_in_its_frame(new_session):
    page = new_session()
    address = page.url
    run(page, '''class Hostile:
    def _repr_html_(self):
        return """<p>shown</p><script>
            const tried = [];
            try { parent.document.title = 'owned'; } catch (error) { tried.push('page:' + error.name); }
            try { top.location = 'https://example.org/'; } catch (error) { tried.push('top:' + error.name); }
            fetch('/v1/me').then(() => tried.push('fetch:ok'), () => tried.push('fetch:refused')).then(() => {
                document.body.append(tried.join(' ') + ' cookie:' + (() => { try { return document.cookie } catch (error) { return error.name } })());
            });
        </script>"""
Hostile()''')
    frame = page.frame_locator("iframe.frame")
    expect(frame.locator("body")).to_contain_text("shown")
    expect(frame.locator("body")).to_contain_text("page:SecurityError")
    expect(frame.locator("body")).to_contain_text("fetch:refused")
    expect(frame.locator("body")).to_contain_text("cookie:SecurityError")
    assert page.url == address
    assert "owned" not in page.title()


def test_ten_thousand_lines_leave_the_page_usable(new_session):
    page = new_session()
    cell = run(page, "for i in range(10_000):\n    print('line', i)")
    expect(cell.locator("pre.output")).to_contain_text("line 9999")
    assert cell.locator("pre.output").evaluate("element => element.textContent.split('\\n').length") <= 3_000
    expect(cell.locator(".lines-hidden")).to_contain_text("earlier lines")
    assert "7" in run(page, "3 + 4").inner_text()


def test_terminal_colours_and_progress_bars_are_shown(new_session):
    page = new_session()
    cell = run(page, "print('\\x1b[31mred\\x1b[0m <b>')\nprint('10%\\r100%')")
    expect(cell.locator("pre.output .ansi-red")).to_have_text("red")
    expect(cell.locator("pre.output")).to_have_text("red <b>\n100%\n")


def test_a_table_sorts_by_its_columns(new_session):
    page = new_session()
    cell = run(page, "import pandas as pd\npd.DataFrame({'n': [2, 10, 1], 'c': ['b', 'a', None]})")
    column = cell.locator("tbody td:nth-child(2)")
    expect(column).to_have_text(["2", "10", "1"])
    cell.get_by_role("button", name="n", exact=True).click()
    expect(column).to_have_text(["1", "2", "10"])
    cell.get_by_role("button", name="n", exact=True).click()
    expect(column).to_have_text(["10", "2", "1"])


def test_a_variable_is_inspected(new_session):
    page = new_session()
    run(page, "numbers = list(range(40))")
    page.get_by_role("tabpanel").locator("summary").click()
    expect(page.locator(".inspected")).to_contain_text("38, 39]")


def test_files_are_previewed(new_session):
    page = new_session()
    run(page, "open('a.csv', 'w').write('city,note\\nOslo,\"cold, dark\"\\n')\nopen('b.md', 'w').write('# Title')\n"
        "open('c.svg', 'w').write('<svg xmlns=\"http://www.w3.org/2000/svg\"><text y=\"20\">drawn</text><script>parent.document.title = 1</script></svg>')")
    page.get_by_role("tab", name="Files").click()
    page.get_by_role("button", name="Preview a.csv").click()
    expect(page.get_by_role("dialog").locator("tbody td")).to_have_text(["Oslo", "cold, dark"])
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Preview b.md").click()
    expect(page.get_by_role("dialog").locator("h3")).to_have_text("Title")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Preview c.svg").click()
    expect(page.frame_locator("dialog iframe.frame").locator("svg text")).to_have_text("drawn")
    assert page.title() != "1"


def test_the_editor_completes_names_and_indents(new_session):
    page = new_session()
    run(page, "revenue_total = 5")
    editor = page.get_by_label("Code of a new cell")
    editor.press_sequentially("reven")
    editor.press("Control+Space")
    expect(page.get_by_role("option")).to_have_text(["revenue_total"])
    editor.press("Enter")
    expect(editor).to_have_value("revenue_total")
    editor.fill("")
    editor.press_sequentially("if True:\npass")
    expect(editor).to_have_value("if True:\n    pass")
    expect(page.locator(".editor-shown .hl-keyword").first).to_have_text("if")


def test_the_editor_completes_attributes_and_explains_them(new_session):
    page = new_session()
    run(page, "import math")
    editor = page.get_by_label("Code of a new cell")
    editor.press_sequentially("math.sqr")
    editor.press("Control+Space")
    expect(page.get_by_role("option")).to_have_text(["sqrt"])
    editor.press("Enter")
    expect(editor).to_have_value("math.sqrt")
    editor.press("F1")
    expect(page.locator(".explain")).to_contain_text("square root")
    editor.press("Escape")
    expect(page.locator(".explain")).to_be_hidden()


def test_a_shell_runs_in_the_terminal(new_session):
    page = new_session()
    run(page, "open('from_cell.txt', 'w').write('x')")
    page.get_by_role("tab", name="Terminal").click()
    page.get_by_role("button", name="Open a shell").click()
    terminal = page.get_by_label("Input of the terminal")
    expect(terminal).to_be_focused()
    terminal.press_sequentially("ls; echo $((40 + 2))z")
    terminal.press("Enter")
    screen = page.locator(".terminal-grid")
    expect(screen).to_contain_text("from_cell.txt")
    expect(screen).to_contain_text("42z")
    terminal.press_sequentially("cat")
    terminal.press("Enter")
    terminal.press("Control+c")
    terminal.press_sequentially("exit 3")
    terminal.press("Enter")
    expect(page.get_by_text("The shell has ended with 3.")).to_be_visible()
    expect(page.get_by_role("button", name="Open a shell")).to_be_visible()


def test_files_are_renamed_and_removed_and_all_are_downloaded(new_session):
    page = new_session()
    run(page, "open('one.txt', 'w').write('1'), open('two.txt', 'w').write('2')")
    page.get_by_role("tab", name="Files").click()
    page.get_by_role("button", name="Rename one.txt").click()
    page.get_by_label("Path").fill("folder/three.txt")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Preview folder/three.txt")).to_be_visible()
    page.get_by_role("button", name="Delete two.txt").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name="Preview two.txt")).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("link", name="All as zip").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert archive.namelist() == ["folder/three.txt"]


def test_a_shared_chat_is_read_without_a_login_until_the_link_ends(open_page, browser, server):
    page = open_page("/")
    exchange = ask(page, "What do 15000 become at 6 % compounded semi-annually?")
    expect(exchange.locator(".answer")).to_contain_text("21386.41")
    page.get_by_role("button", name="Share").click()
    link = page.get_by_role("textbox", name="Link").input_value()
    page.get_by_role("button", name="Close").click()
    reader = browser.new_context().new_page()
    reader.goto(link)
    expect(reader.locator(".answer")).to_contain_text("21386.41")
    expect(reader.get_by_label("Your question")).to_have_count(0)
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="End the link").click()
    expect(page.get_by_text("The link leads nowhere now")).to_be_visible()
    reader.goto("about:blank")
    reader.goto(link)
    expect(reader.get_by_role("heading", name="This link leads nowhere any more")).to_be_visible()


def evaluation(score):
    """A report of `cellblock eval` with one task."""
    usage = {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1, "reasoning_tokens": 0, "estimated": False}
    counts = {"steps": 1, "code_actions": 1, "parsed_at_first_try": 1, "failed_cells": 0, "usage": usage, "ms": 5}
    task = {"name": "sum", "passed": score == 1, "status": "answered", "answer": "3", "asked_again": 0, **counts}
    totals = {"score": score, "passed": int(score), "tasks": 1, **counts}
    report = {"cellblock_eval": 1, "suite": "smoke", "model": "m", "format": "markdown", "date": "today", "complete": True, "totals": totals, "tasks": [task]}
    return {"name": "report.json", "mimeType": "application/json", "buffer": json.dumps(report).encode()}


def test_evaluations_are_added_and_compared(open_page):
    page = open_page("/evaluations")
    for count, score in enumerate([1, 0], start=1):
        page.locator("input[type=file]").set_input_files(evaluation(score))
        expect(page.get_by_role("link", name="smoke")).to_have_count(count)
    page.get_by_role("link", name="smoke").first.click()
    page.get_by_label("Compare with").select_option(index=1)
    expect(page.get_by_text("1 got worse")).to_be_visible()


def test_an_administrator_sees_machine_and_live_sessions(new_session):
    page = new_session()
    page.goto("/admin/machine")
    expect(page.get_by_role("heading", name="Walls")).to_be_visible()
    expect(page.locator(".plain-list li").first).to_be_visible()
    page.goto("/admin/live")
    expect(page.get_by_role("cell", name="admin")).to_be_visible()


def test_history_is_searched(open_page):
    page = open_page("/")
    exchange = ask(page, "What do 15000 become at 7 % compounded yearly?")
    expect(exchange.locator(".answer")).to_contain_text("21386.41")
    expect(page.locator(".chat-link").first).to_contain_text("at 7 %")
    page.reload()
    if page.get_by_role("searchbox").is_visible():
        page.get_by_role("searchbox").fill("at 7 %")
        expect(page.locator(".chat-link")).to_have_count(1)


def test_tokens_are_made_and_users_invited(open_page):
    page = open_page("/admin/tokens")
    page.get_by_role("button", name="New token").click()
    page.get_by_role("dialog").get_by_label("Name").fill("notebook")
    page.get_by_role("dialog").get_by_label("Scopes").select_option("read")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.locator(".secret-text")).to_contain_text("cb_")
    expect(page.get_by_role("row", name="notebook").get_by_role("cell").nth(1)).to_have_text("read")
    page.get_by_role("link", name="Users").click()
    page.get_by_role("button", name="New user").click()
    page.get_by_role("dialog").get_by_label("Name").fill("mei")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.locator(".secret-text")).to_contain_text("/setup#")
    expect(page.get_by_role("row", name="mei")).to_be_visible()
    page.get_by_role("button", name="Limits of mei").click()
    page.get_by_role("dialog").get_by_label("Live sessions", exact=True).fill("3")
    page.get_by_role("dialog").get_by_label("Cost of models a day").fill("1.5")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    quotas = next(entry["quotas"] for entry in page.request.get("/v1/users").json()["users"] if entry["user"]["name"] == "mei")
    # What was not changed is what it was.
    assert (quotas["sessions"], quotas["cost_per_day"], quotas["runs"], quotas["memory"]) == (3, 1.5, 50, 800 << 30)


def test_the_api_is_shown_and_searched(open_page):
    page = open_page("/admin/tokens")
    page.get_by_role("link", name="API reference").click()
    expect(page.get_by_role("heading", name="API reference")).to_be_visible()
    described = page.context.request.get("/v1/openapi.json").json()["paths"]
    expect(page.locator(".reference summary")).to_have_count(sum(len(methods) for methods in described.values()))
    page.get_by_label("Search requests").fill("lock a user out")
    expect(page.locator(".reference summary")).to_have_count(1)
    page.locator(".reference summary").click()
    expect(page.locator(".reference-body")).to_contain_text("scope admin")
    expect(page.locator(".reference-body pre").last).to_contain_text('"disabled"')
    expect(page.locator(".reference-command")).to_contain_text("curl -X PATCH")


def test_the_app_speaks_chinese(open_page):
    page = open_page("/sessions", locale="zh-CN")
    expect(page.get_by_role("heading", name="会话")).to_be_visible()
    assert page.locator("html").get_attribute("lang") == "zh-Hans"


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not there")
@pytest.mark.parametrize(("theme", "width"), [("light", 1360), ("dark", 1360), ("light", 390)])
def test_axe_finds_no_violation(open_page, new_session, browser, server, theme, width):
    found = {}
    look = {"color_scheme": theme, "viewport": {"width": width, "height": 860}}
    page = new_session(**look)
    run(page, "import pandas as pd\nprint('text')\npd.DataFrame({'n': [1]})")
    run(page, "1 / 0")
    run(page, "import ctypes\nctypes.string_at(0)")
    found["session"] = violations(page)
    slider = page.get_by_label("Moment in the session")
    slider.press("ArrowLeft")
    found["time"] = violations(page)
    page = open_page("/", **look)
    found["welcome"] = violations(page)
    exchange = ask(page, "What do 15000 become at 6 % compounded semi-annually?")
    expect(exchange.locator(".answer")).to_contain_text("21386.41")
    found["chat"] = violations(page)
    for path in ["/sessions", "/runs", "/evaluations", "/admin/tokens", "/admin/users", "/admin/live", "/admin/machine", "/admin/audit", "/reference"]:
        page.goto(path)
        page.wait_for_selector("h1")
        found[path] = violations(page)
    page = browser.new_context(base_url=server.url, **look).new_page()
    page.goto("/login")
    page.wait_for_selector("h1")
    found["login"] = violations(page)
    page.context.close()
    assert {name: list_ for name, list_ in found.items() if list_} == {}
