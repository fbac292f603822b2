"""The demonstration in a real browser, and pages that grow while they are read."""

import os
import re
import subprocess

from conftest import ROOT
from playwright.sync_api import expect


def test_the_demonstration_opens_by_its_link(browser, tmp_path):
    command = [os.environ.get("CELLBLOCK", str(ROOT / "target/debug/cellblock")), "serve", "--demo", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=tmp_path)
    try:
        link = next(found[0] for line in process.stderr if (found := re.search(r"http\S+/enter#\S+", line)))
        page = browser.new_context().new_page()
        page.goto(link)
        expect(page.get_by_text("July was the warmest month").first).to_be_visible()
        # What waits for the visitor is in view, in the cell that makes the call.
        expect(page.get_by_role("button", name="Allow", exact=True)).to_be_in_viewport()
        expect(page.locator(".exchange").last.locator(".step").last.locator(".cell-code + .cell-body .approval")).to_be_visible()
        expect(page.get_by_role("link", name="Two degrees warmer")).to_be_visible()
        page.get_by_role("button", name="Allow", exact=True).click()
        expect(page.locator(".answer").last).to_contain_text("the report was written down and not sent")
        # The question that the start page suggests has a recorded reply.
        page.get_by_role("link", name="New chat").first.click()
        page.locator(".example").click()
        page.get_by_role("button", name="Send", exact=True).click()
        expect(page.locator(".answer").last).to_contain_text("July was the warmest month")
    finally:
        process.terminate()
        process.wait(30)


def test_a_page_that_grows_stays_at_its_end_until_the_reader_scrolls_up(open_page):
    page = open_page("/")
    page.get_by_label("Your question").wait_for()
    far_from_end = page.evaluate("""async () => {
        const address = performance.getEntriesByType('resource').map((entry) => entry.name).find((name) => name.endsWith('/js/dom.js'));
        const { h, stickToEnd } = await import(address);
        const inner = h('div');
        const scroller = h('div', null, inner);
        scroller.style.cssText = 'position: fixed; inset: 0; height: 300px; overflow-y: auto';
        document.body.append(scroller);
        const grow = (height) => { const part = h('div'); part.style.height = `${height}px`; inner.append(part); };
        const frames = async (count) => { for (let i = 0; i < count; i += 1) await new Promise(requestAnimationFrame); };
        const distance = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
        const end = stickToEnd(scroller);
        grow(900);
        end.toEnd();
        // Before the event of that scroll, more comes.
        grow(500);
        await frames(5);
        const grown = distance();
        scroller.scrollTop -= 400;
        await frames(3);
        grow(500);
        await frames(5);
        const read = distance();
        end.toEnd();
        await frames(3);
        return [grown, read, distance()];
    }""")
    assert far_from_end == [0, 900, 0]
