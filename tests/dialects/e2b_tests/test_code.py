"""The code interpreter of the official SDK: forms of values, charts, images, contexts, IPython's syntax."""

import json
import shutil
import threading

import pytest
from e2b import InvalidArgumentException, TimeoutException
from e2b_code_interpreter import Sandbox
from e2b_code_interpreter.charts import BarChart, ChartType, LineChart, PieChart, ScatterChart, SuperChart


@pytest.fixture(scope="module")
def shared():
    with Sandbox.create(timeout=900) as made:
        yield made


@pytest.fixture
def sandbox(shared):
    shared.restart_code_context(shared.list_code_contexts()[0])
    return shared


@pytest.fixture
def fresh():
    with Sandbox.create(timeout=300) as made:
        yield made


def plot(sandbox, code):
    return sandbox.run_code("import matplotlib.pyplot as plt\n" + code + "\nplt.show()").results[0]


def test_the_first_line_of_a_sandbox_is_one_message(fresh):
    seen = []
    run = fresh.run_code("print('hello')", on_stdout=seen.append)
    assert (len(seen), run.logs.stdout) == (1, ["hello\n"])


def test_callbacks_hear_results_errors_and_both_streams(sandbox):
    results, errors, lines = [], [], []
    sandbox.run_code("import sys; print(1, file=sys.stderr)\n5", on_result=results.append, on_stderr=lines.append)
    sandbox.run_code("xyz", on_error=errors.append)
    assert ([result.text for result in results], [line.line for line in lines]) == (["5"], ["1\n"])
    assert [error.name for error in errors] == ["NameError"]


def test_a_cell_may_be_indented(sandbox):
    assert sandbox.run_code("\n    x = 1\n    x + 1\n    ").text == "2"


def test_commands_of_the_shell_in_a_cell(sandbox):
    assert "".join(sandbox.run_code("!pwd").logs.stdout).strip() == "/home/user"
    assert "".join(sandbox.run_code("%%bash\necho from bash").logs.stdout) == "from bash\n"
    assert sandbox.run_code("files = !echo a\nfiles[0]").text == "a"


def test_the_directory_is_the_home(sandbox):
    assert sandbox.run_code("from pathlib import Path; print(Path.cwd())").logs.stdout == ["/home/user\n"]
    assert sandbox.run_code("pwd", language="bash").logs.stdout == ["/home/user\n"]


def test_lists_and_dictionaries_are_json_too(sandbox):
    assert sandbox.run_code("{'a': [1, 2]}").results[0].json == {"a": [1, 2]}
    assert sandbox.run_code("[1, 'b']").results[0].json == [1, "b"]


def test_a_table_has_its_columns(sandbox):
    result = sandbox.run_code("import pandas as pd\npd.DataFrame({'a': range(100), 'b': pd.Timestamp('2024-01-02')})").results[0]
    assert result.data["a"] == list(range(100))
    assert result.data["b"][0].startswith("2024-01-02")
    assert result.html and result.text


def test_a_bundle_is_shown_as_it_is(sandbox):
    run = sandbox.run_code("from IPython.display import display\ndisplay({'text/latex': r'\\text{x}'}, raw=True)")
    assert list(run.results[0].formats()) == ["latex"]


def test_a_figure_is_a_picture_and_has_nothing_unknown(sandbox):
    result = plot(sandbox, "plt.plot([1, 2], [3, 4])")
    assert result.png and result.text and not result.extra


def test_results_come_in_their_order(sandbox):
    seen = []
    sandbox.run_code("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\n7", on_result=seen.append)
    assert [bool(result.png) for result in seen] == [True, False]


def test_a_bar_chart_is_data(sandbox):
    chart = plot(sandbox, "plt.bar(['a', 'b'], [1, 2], label='n'); plt.title('T'); plt.xlabel('X'); plt.ylabel('Y')").chart
    assert isinstance(chart, BarChart) and chart.type == ChartType.BAR
    assert (chart.title, chart.x_label, chart.y_label) == ("T", "X", "Y")
    assert [(bar.label, bar.value, bar.group) for bar in chart.elements] == [("a", 1, "n"), ("b", 2, "n")]


def test_a_line_chart_is_data(sandbox):
    chart = plot(sandbox, "plt.plot([1, 2, 3], [4, 5, 6], label='s'); plt.title('T')").chart
    assert isinstance(chart, LineChart) and chart.title == "T"
    assert len(chart.elements[0].points) == 3


def test_a_scatter_chart_is_data_and_becomes_json(sandbox):
    run = sandbox.run_code("import matplotlib.pyplot as plt\nplt.scatter([1, 2], [3, 4], label='d')\nplt.show()")
    assert isinstance(run.results[0].chart, ScatterChart)
    assert json.loads(run.to_json())["results"][0]["chart"]["type"] == "scatter"


def test_a_pie_chart_is_data(sandbox):
    chart = plot(sandbox, "plt.pie([1, 3], labels=['a', 'b'])").chart
    assert isinstance(chart, PieChart) and [part.label for part in chart.elements] == ["a", "b"]


def test_several_charts_in_a_figure_are_data(sandbox):
    chart = plot(sandbox, "f, a = plt.subplots(1, 2); f.suptitle('S'); a[0].plot([1, 2]); a[1].scatter([1], [2])").chart
    assert isinstance(chart, SuperChart) and chart.title == "S"
    assert [type(part) for part in chart.elements] == [LineChart, ScatterChart]


def test_an_unknown_chart_keeps_its_title(sandbox):
    chart = plot(sandbox, "f, a = plt.subplots(); a.add_artist(plt.Circle((0, 0), 1)); plt.title('C')").chart
    assert (chart.type, chart.title, len(chart.elements)) == (ChartType.UNKNOWN, "C", 0)


@pytest.mark.parametrize("last", ["image.show()", "image", "image.save('saved.png')"])
def test_images_are_shown(sandbox, last):
    run = sandbox.run_code(f"from PIL import Image\nimage = Image.new('RGB', (8, 8))\n{last}")
    assert run.error is None and [bool(result.png) for result in run.results] == [True]


def test_a_saved_figure_is_shown_once(sandbox):
    run = sandbox.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('plot.png')\nplt.show()")
    assert len(run.results) == 1


@pytest.mark.parametrize("language, read", [("python", "import os; print(os.getenv('N', 'none'))"), ("bash", "echo ${N:-none}")])
def test_variables_of_one_call_end_with_it(fresh, language, read):
    def told(**options):
        return "".join(fresh.run_code(read, language=language, **options).logs.stdout)

    assert told(envs={"N": "one"}) == "one\n"
    assert told() == "none\n"
    with Sandbox.create(envs={"N": "all"}) as other:
        run = other.run_code(read, language=language, envs={"N": "one"})
        again = other.run_code(read, language=language)
        assert ["".join(each.logs.stdout) for each in (run, again)] == ["one\n", "all\n"]


def test_bash_keeps_what_a_cell_changed(fresh):
    fresh.run_code("f() { echo called; }\nexport N=$N-more; cd /tmp", language="bash", envs={"N": "one"})
    assert "".join(fresh.run_code("f; echo $N; pwd", language="bash").logs.stdout) == "called\none-more\n/tmp\n"


def test_contexts_are_made_restarted_and_removed(fresh):
    context = fresh.create_code_context(cwd="/tmp")
    assert (context.language, context.cwd) == ("python", "/tmp")
    assert fresh.run_code("import os; os.getcwd()", context=context).text == "/tmp"
    fresh.run_code("x = 1", context=context)
    assert fresh.run_code("x").error.value == "name 'x' is not defined"
    assert "".join(fresh.run_code("!echo there too", context=context).logs.stdout) == "there too\n"
    fresh.restart_code_context(context.id)
    assert fresh.run_code("x", context=context).error.name == "NameError"
    with pytest.raises(InvalidArgumentException):
        fresh.run_code("1", language="js", context=context)
    fresh.remove_code_context(context.id)
    assert context.id not in [known.id for known in fresh.list_code_contexts()]


def test_a_sandbox_without_public_traffic_runs_cells():
    with Sandbox.create(secure=True, network={"allow_public_traffic": False}) as made:
        assert made.run_code("x = 1; x").text == "1"
        assert made.create_code_context().id in [known.id for known in made.list_code_contexts()]


def test_a_sandbox_that_is_killed_ends_its_cell(fresh):
    timer = threading.Timer(2, fresh.kill)
    timer.start()
    with pytest.raises(TimeoutException, match="killed"):
        fresh.run_code("import time; time.sleep(300)", timeout=300)


def test_a_connection_finds_the_variables(fresh):
    fresh.run_code("x = 1")
    assert Sandbox.connect(fresh.sandbox_id).run_code("x + 1").text == "2"


@pytest.mark.skipif(shutil.which("node", path="/usr/local/bin:/usr/bin:/bin") is None, reason="cells of JavaScript need node on the server's machine")
def test_cells_of_javascript_keep_their_variables():
    with Sandbox.create(envs={"ALL": "sandbox"}) as sandbox:
        assert [context.language for context in sandbox.list_code_contexts()] == ["python", "javascript"]
        told = sandbox.run_code("const x = 1; console.log('out'); x + 1", language="javascript")
        assert (told.logs.stdout, told.text) == (["out\n"], "2")
        again = sandbox.run_code("import { readFileSync } from 'fs'\nconst x = await Promise.resolve(typeof readFileSync); x", language="js")
        assert again.text == "function"
        environment = "`${process.env.ALL} ${process.env.ONE ?? 'none'} ${process.cwd()}`"
        assert sandbox.run_code(environment, language="js", envs={"ONE": "1"}).text == "sandbox 1 /home/user"
        assert sandbox.run_code(environment, language="js").text == "sandbox none /home/user"
        failed = sandbox.run_code("throw new TypeError('no')", language="js").error
        assert (failed.name, failed.value) == ("TypeError", "no")
        ended = sandbox.run_code("process.exit(3)", language="js").error
        assert ended.name == "ExecutionError"
        assert sandbox.run_code("typeof x", language="js").text == "undefined"
