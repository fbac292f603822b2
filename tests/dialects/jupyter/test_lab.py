"""JupyterLab in Chromium with this kernel: a person runs, plots, interrupts, answers, moves a slider, and asks for help."""

import os
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from served import started

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
# A page that a busy machine draws takes its time.
PATIENCE = 90_000
PRESSES = 9


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab, and the directory of its notebooks."""
    if "JUPYTERLAB" not in os.environ:
        pytest.skip("jupyterlab and playwright could not be installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium")
    directory = tmp_path_factory.mktemp("lab")
    options = ["--ServerApp.token=", "--ServerApp.password=", "--ServerApp.port=0", "--no-browser", "--allow-root", "--LabApp.news_url="]
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={directory}", *options]
    for address in started(command, r"(http://(?:127\.0\.0\.1|localhost):\d+)/lab"):
        yield address, directory


@pytest.fixture(scope="module")
def browser(lab):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Root cannot use Chromium's own sandbox.
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def notebook(lab, browser, request):
    """Opens a notebook with these cells. Returns the page."""
    address, directory = lab
    pages = []

    def open_with(*sources):
        name = f"{request.node.name}.ipynb"
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        kernel = {"kernelspec": {"name": "cellblock", "display_name": "Cellblock (Python 3)", "language": "python"}}
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), Path(directory) / name)
        page = browser.new_page()
        pages.append(page)
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/lab/tree/{name}?reset")
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        page.get_by_title("Cellblock (Python 3)").or_(page.get_by_text("Cellblock (Python 3) | Idle")).first.wait_for()
        return page

    yield open_with
    for page in pages:
        page.close()


def run(page, index=0):
    """Runs a cell. While the page still connects to the kernel, JupyterLab drops the key, so it is pressed until the cell has begun."""
    from playwright.sync_api import TimeoutError

    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(index)
    begun = cell.locator(".jp-InputPrompt").filter(has_not_text="[ ]:")
    for _ in range(PRESSES):
        cell.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        try:
            return begun.wait_for(timeout=PATIENCE / PRESSES)
        except TimeoutError:
            continue
    pytest.fail("the cell does not run")


def output(page, text):
    return page.locator(".jp-OutputArea-output").filter(has_text=text).first


def test_a_cell_runs_and_a_plot_is_drawn(notebook):
    page = notebook("print('ran', 6 * 7)", "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]);")
    run(page)
    output(page, "ran 42").wait_for()
    run(page, 1)
    page.locator(".jp-OutputArea-output img").first.wait_for()


def test_a_cell_is_interrupted_and_its_variables_stay(notebook):
    page = notebook("x = 5\nprint('begun', flush=True)\nwhile True: pass", "print('still', x)")
    run(page)
    output(page, "begun").wait_for()
    page.locator('[data-jp-item-name="interrupt"]').first.click()
    output(page, "KeyboardInterrupt").wait_for()
    run(page, 1)
    output(page, "still").wait_for()


def test_input_is_answered(notebook):
    page = notebook("name = input('who? ')\nprint('hello', name)")
    run(page)
    field = page.locator(".jp-Stdin-input")
    field.fill("Ada")
    field.press("Enter")
    output(page, "hello Ada").wait_for()


def test_a_slider_of_a_widget_moves_a_variable(notebook):
    page = notebook("import ipywidgets\nslider = ipywidgets.IntSlider(value=3)\nslider", "print('value', slider.value)")
    run(page)
    handle = page.locator(".jupyter-widgets .noUi-handle").first
    handle.focus()
    page.keyboard.press("ArrowRight")
    page.locator(".widget-readout").filter(has_text="4").wait_for()
    run(page, 1)
    output(page, "value 4").wait_for()


def test_tab_completes_and_shift_tab_explains(notebook):
    page = notebook("ready = 1\nprint('is', ready)", "")
    run(page)
    output(page, "is 1").wait_for()
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").nth(1).click()
    page.keyboard.type("read")
    page.keyboard.press("Tab")
    # The only match is taken at once; several are listed.
    taken = page.locator(".jp-Notebook .jp-CodeCell .cm-content").nth(1).filter(has_text="ready")
    taken.or_(page.locator(".jp-Completer-item").filter(has_text="ready")).first.wait_for()
    page.keyboard.press("Escape")
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").nth(1).click()
    page.keyboard.press("Control+a")
    page.keyboard.type("zip")
    page.keyboard.press("Shift+Tab")
    page.locator(".jp-Tooltip").filter(has_text="zip").wait_for()
