"""What a browser loads before the app can be used, and how long that takes."""

import os
import statistics

import conftest
import pytest
from playwright.sync_api import expect

MAX_BYTES = 60_000
LOADS = 5


@pytest.mark.skipif(bool(os.environ.get("CELLBLOCK_WEB_FILES")), reason="files of the tree are not compressed")
def test_the_first_load_is_small(open_page):
    ready = []
    for _ in range(LOADS):
        # A context of its own: nothing is in its cache.
        page = open_page("/")
        expect(page.get_by_label("Your question")).to_be_visible()
        page.wait_for_function("performance.getEntriesByName('ready').length > 0")
        ready.append(page.evaluate("performance.getEntriesByName('ready')[0].startTime"))
    loaded = page.evaluate("""[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .map((entry) => [new URL(entry.name).pathname, entry.encodedBodySize])""")
    total = sum(size for _, size in loaded)
    conftest.MEASURED.append(f"page ready after {statistics.median(ready):.0f} ms (promise: 1000), first load {total / 1000:.1f} kB compressed (promise: 60)")
    assert total <= MAX_BYTES, sorted(loaded, key=lambda entry: entry[1])
    assert len([name for name, size in loaded if size > 0 and name.startswith("/assets/")]) > 10, loaded
