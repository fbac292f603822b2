"""The page of a cluster in a real browser: its nodes, which of them take sessions, and a node that is lost."""

import pathlib
import subprocess
import tempfile

import pytest
import scripted_model
from conftest import AXE, ROOT, Server, free_address, violations
from playwright.sync_api import expect

WIDTHS = [1360, 820, 390]


@pytest.fixture(scope="module")
def cluster():
    """Two nodes by their names, and the program that connects them."""
    program = subprocess.check_output([ROOT / "tests/bring-nats-server"], text=True).split()[-1]
    with tempfile.TemporaryDirectory(prefix="cellblock-browser-") as directory:
        place = pathlib.Path(directory)
        address = free_address()
        host, port = address.split(":")
        engine = subprocess.Popen([program, "-js", "-sd", place / "engine", "-a", host, "-p", port], stderr=subprocess.PIPE, text=True)
        for line in engine.stderr:
            if "Server is ready" in line:
                break
        # What it says later is not read.
        engine.stderr.close()
        nodes = {}
        for name in ("north", "south"):
            (place / name).mkdir()
            options = ["--no-auth", "--cluster", f"nats://{address}", "--node-name", name]
            nodes[name] = Server(place / name, scripted_model.start(), options)
        yield nodes
        for node in nodes.values():
            node.stop()
        engine.kill()
        engine.wait()


@pytest.fixture
def open_nodes(browser, cluster):
    """Opens the page on the node `north`."""
    contexts = []

    def open_one(width=1360):
        contexts.append(browser.new_context(base_url=cluster["north"].url, viewport={"width": width, "height": 860}))
        page = contexts[-1].new_page()
        page.goto("/admin")
        page.get_by_role("link", name="Cluster").click()
        return page

    yield open_one
    for context in contexts:
        context.close()


def row(page, name):
    return page.get_by_role("row").filter(has_text=name)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_shows_every_node(open_nodes, width):
    page = open_nodes(width)
    expect(row(page, "north")).to_contain_text("this one")
    for name in ("north", "south"):
        expect(row(page, name)).to_contain_text("ready")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if AXE.exists():
        assert violations(page) == []


def test_a_node_gives_its_sessions_away_and_takes_them_again(open_nodes):
    page = open_nodes()
    row(page, "south").get_by_role("button", name="Take no more").click()
    expect(row(page, "south")).to_contain_text("takes no sessions")
    request = page.context.request
    session = request.post("/v1/sessions", headers={"X-Cellblock": "1"}, data={}).json()["id"]

    def run(code):
        return request.post(f"/v1/sessions/{session}/cells?wait=1", headers={"X-Cellblock": "1"}, data={"code": code}).json()

    assert run("x = 6 * 7")["status"] == "success"
    expect(row(page, "north")).to_contain_text("1 / 200")

    row(page, "south").get_by_role("button", name="Take sessions").click()
    expect(row(page, "south")).to_contain_text("ready")
    row(page, "north").get_by_role("button", name="Drain").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(row(page, "north")).to_contain_text("gives its sessions away")
    expect(row(page, "north")).to_contain_text("0 / 200")
    assert "42" in str(run("print(x)"))
    expect(row(page, "south")).to_contain_text("1 / 200")
    row(page, "north").get_by_role("button", name="Take sessions").click()
    expect(row(page, "north")).to_contain_text("ready")


def test_a_node_that_is_lost_is_told(open_nodes, cluster):
    page = open_nodes()
    expect(row(page, "south")).to_contain_text("ready")
    cluster["south"].process.kill()
    expect(row(page, "south")).to_contain_text("not heard for")
