"""Values from their repr, types, schemas, and what a notebook shows. No session is needed for these."""

import collections
import dataclasses
import datetime
import decimal
import enum
import math
import typing
import uuid
from pathlib import PurePosixPath

import pytest

from cellblock import CellFailed, Result, WrongValue
from cellblock._literals import Instance, read_repr
from cellblock._seeds import literal, seeds_from
from cellblock._types import convert, schema_of


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Pair(typing.NamedTuple):
    left: int
    right: str = "r"


class Options(typing.TypedDict, total=False):
    depth: int


class Colour(enum.Enum):
    RED = "red"


VALUES = [
    None,
    True,
    0,
    -7,
    2**100,
    1.5,
    -0.0,
    1e300,
    3 + 4j,
    -1 - 2j,
    "é\n'\"\\",
    b"\x00\xff",
    [],
    [1, [2, [3]]],
    (),
    (1,),
    {"a": {"b": (1, 2)}},
    {1: "x", (2, 3): None},
    {1, 2},
    set(),
    frozenset({1}),
    range(3),
    bytearray(b"ab"),
    datetime.date(2024, 2, 3),
    datetime.datetime(2024, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    datetime.timedelta(days=1, seconds=2),
    decimal.Decimal("1.10"),
    uuid.UUID(int=5),
    PurePosixPath("/a/b"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_repr_is_read_back(value):
    text = repr(value)
    if isinstance(value, datetime.datetime):
        text = "datetime.datetime(2024, 2, 3, 4, 5)"
        value = value.replace(tzinfo=None)
    assert read_repr(text) == value
    assert type(read_repr(text)) is type(value)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_written_as_source_that_makes_it_again(value):
    made = eval(literal(value))
    assert made == value
    assert type(made) is type(value)


def test_numbers_of_other_libraries_are_plain():
    assert read_repr("[np.int64(3), np.float64(1.5), np.True_, nan, inf, -inf]")[:3] == [3, 1.5, True]
    assert math.isnan(read_repr("nan"))
    assert read_repr("OrderedDict({'a': 1})") == {"a": 1}
    assert read_repr("Counter({'a': 2})") == collections.Counter("aa")
    assert read_repr("Point(x=1, y=Point(2, 3))") == Instance("Point", [], {"x": 1, "y": Instance("Point", [2, 3], {})})


# Numbers with one hash: each key of a set would be compared with all the others.
SAME_HASHES = ", ".join(str(number * (2**61 - 1)) for number in range(20_000))
HOSTILE = [
    "__import__('os').system('true')",
    "open('/etc/passwd').read()",
    "[x for x in range(3)]",
    "lambda: 1",
    "(1).__class__",
    "set(range(1000000000000))",
    "frozenset(range(1000000000000))",
    "bytearray(1000000000000)",
    "dict_keys(range(1000000000000))",
    "deque(range(1000000000000))",
    "Fraction('1e999999999')",
    "Fraction(Decimal('1e999999999'), 1)",
    SAME_HASHES.join("{}"),
    SAME_HASHES.join(("set([", "])")),
    f"OrderedDict([{', '.join(f'({key}, 0)' for key in SAME_HASHES.split(', '))}])",
    f"{{{', '.join(f'{key}: 0' for key in SAME_HASHES.split(', '))}}}",
    "{[]: 1}",
    "{**{}}",
    "f(*x)",
    "'" + "a" * 100,
    "(" * 5000,
    "[" * 100_000,
    "-" * 100_000 + "1",
    "<object at 0x7f>",
    "…",
    "",
    "datetime.date(0, 0, 0)",
    "1 if 2 else 3",
    "1 + 'a'",
    "-'a'",
    "\x00",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:30])
def test_what_is_no_value_is_refused_and_never_run(text):
    try:
        value = read_repr(text)
    except WrongValue:
        return
    # Calls of unknown names are objects that only have a name: they are refused as plain data.
    with pytest.raises(WrongValue):
        convert(value, typing.Any)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (2, float, 2.0),
        (2.0, int, 2),
        (True, bool, True),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([1, "a"], tuple[int, str], (1, "a")),
        ({"a": [1]}, dict[str, list[float]], {"a": [1.0]}),
        (None, int | None, None),
        (2, int | float, 2),
        ("red", Colour, Colour.RED),
        ("RED", Colour, Colour.RED),
        ("a", typing.Literal["a", "b"], "a"),
        ({"x": 1}, Point, Point(1)),
        (Instance("Point", [], {"x": 1, "y": 2}), Point, Point(1, 2.0)),
        ([Instance("Point", [1, 2.5], {})], list[Point], [Point(1, 2.5)]),
        ([1, "b"], Pair, Pair(1, "b")),
        ({"depth": 3}, Options, {"depth": 3}),
        ("2024-02-03", datetime.date, datetime.date(2024, 2, 3)),
        ("1.10", decimal.Decimal, decimal.Decimal("1.10")),
        ([1, 1], set[int], {1}),
        ([1, 2], list, [1, 2]),
        ({"a": 1}, collections.abc.Mapping[str, int], {"a": 1}),
        ([1], collections.abc.Sequence[int], [1]),
        (5, typing.Annotated[int, "words"], 5),
        (5, typing.NewType("Id", int), 5),
    ],
)
def test_a_value_becomes_the_type_that_is_asked_for(value, kind, expected):
    made = convert(value, kind)
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ("3", int, "expected int, got '3'"),
        (True, int, "expected int, got True"),
        (1.5, int, "expected int, got 1.5"),
        ([1, "a"], list[int], r"the value\[1\]: expected int, got 'a'"),
        ({"x": 1, "z": 2}, Point, "no field z"),
        ({}, Point, "a field x"),
        ({"x": "a"}, Point, r"the value\.x: expected int"),
        ("blue", Colour, "one of 'red'"),
        (3, typing.Literal["a"], "one of 'a'"),
        ([1], tuple[int, int], "2 items"),
        ("a", int | None, "int or NoneType"),
        (Instance("Other", [], {"x": 1}), Point, "expected Point"),
        (Instance("Point", [], {}), typing.Any, "ask for a type"),
        ("not a date", datetime.date, "date"),
        (1, Result, "Result"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(value, kind, message):
    with pytest.raises(WrongValue, match=message):
        convert(value, kind)


def test_pydantic_models_are_made_and_described():
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("User", name=(str, ...), age=(int, 3))
    assert convert(Instance("User", [], {"name": "Ada"}), model).age == 3
    assert convert([{"name": "Ada"}], list[model])[0].name == "Ada"
    assert schema_of(list[model])["items"]["properties"]["age"]["type"] == "integer"
    with pytest.raises(WrongValue, match="name: Field required"):
        convert({}, model)


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (int, {"type": "integer"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        ),
        (Colour, {"enum": ["red"]}),
        (
            Point,
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "number"}},
                "required": ["x"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_a_type_is_a_json_schema(kind, schema):
    assert schema_of(kind) == schema


def test_seeds_are_json_where_that_is_exact():
    assert seeds_from({"a": 1, "b": [1, {"c": None}], "d": b"x"}) == (
        {"a": 1, "b": [1, {"c": None}], "d": {"$bytes": "eA=="}},
        "",
    )
    assert seeds_from({"t": (1, 2), "n": float("nan"), "big": 2**64, "m": {"$bytes": "!"}, "s": "\ud800"}) == (
        {},
        "t = (1, 2,)\nn = float('nan')\nbig = 18446744073709551616\nm = {'$bytes': '!'}\ns = '\\ud800'",
    )
    loop: list = []
    loop.append(loop)
    with pytest.raises(WrongValue, match="contains itself"):
        seeds_from({"loop": loop})


def raw(**changes):
    whole = {
        "session": "s", "cell": 3, "status": "success", "exit_code": None, "signal": None, "stdout": "", "stderr": "",
        "output": "", "truncated": None, "value": None, "displays": [], "error": None,
        "variables": {"added": [], "changed": [], "removed": []}, "files": {"created": [], "changed": [], "deleted": []},
        "state": {"outcome": "kept", "checkpoint": {"status": "armed", "behind": 0, "reason": None}},
        "usage": {"wall_ms": 1.0, "cpu_ms": 1.0, "peak_bytes": 1, "stdout_bytes": 0, "stderr_bytes": 0},
        "tool_calls": [], "strategy": "process", "backend": "local", "isolation": "full",
    }  # fmt: skip
    return Result({**whole, **changes})


def test_a_result_shows_itself_without_running_anything_of_the_session():
    evil = '<script>alert(1)</script><img src=x onerror="alert(2)">'
    value = {
        "repr": evil,
        "mime": {"text/plain": evil, "text/html": evil, "application/javascript": "alert(3)", "image/png": '"><script>'},
    }
    shown = raw(value=value, output=evil, displays=[{"text/html": evil}])._repr_mimebundle_()
    assert sorted(shown) == ["text/html", "text/plain"]
    outside = shown["text/html"].replace("<iframe", "").replace("<pre>", "")
    assert "<script" not in outside and "<img" not in outside
    assert 'sandbox=""' in shown["text/html"]


def test_a_table_is_drawn_from_its_data():
    table = {"columns": [{"name": "a<b", "dtype": "int64"}], "index": [0], "rows": [["<x>"]], "total_rows": 9, "total_columns": 1}
    value = {"repr": "t", "mime": {"application/vnd.cellblock.table+json": table, "text/html": "<table>"}}
    html = raw(value=value)._repr_html_()
    assert "<th>a&lt;b</th>" in html and "<td>&lt;x&gt;</td>" in html and "9 rows × 1 columns" in html


def test_a_picture_is_shown():
    result = raw(displays=[{"image/png": "aGk="}])
    assert '<img src="data:image/png;base64,aGk="/>' in result._repr_html_()
    assert result.images == [b"hi"]


def test_a_failed_result_is_data_until_it_is_asked_for_a_value():
    error = {"type": "E", "value": "v", "repr": "E('v')", "traceback": "Traceback\nE: v\n", "frames": [], "hint": "try this"}
    result = raw(status="failure", error=error)
    assert not result.ok
    for ask in (result.check, result.value, lambda: result.value(int)):
        with pytest.raises(CellFailed, match="E: v\nhint: try this") as caught:
            ask()
        assert caught.value.result is result
    assert raw(status="crashed", signal=11).failure_text() == "the cell ended as crashed (signal 11)"


def test_a_failed_result_says_what_a_way_back_could_not_restore():
    state = {
        "outcome": "restored",
        "checkpoint": {"status": "behind", "behind": 3, "reason": "a thread"},
        "replayed": [1, 2],
        "differed": ["cell 2: stdout"],
        "lost": [3],
        "not_restored": ["the effects of cell 3: it used the network"],
    }
    assert raw(status="crashed", exit_code=3, state=state).as_text().splitlines() == [
        "the cell ended as crashed",
        "run again: cells 1, 2",
        "differs: cell 2: stdout",
        "not restored: the effects of cell 3: it used the network",
    ]


def hints_of(kind, value="", hint=None, status="failure", obstacle=None, package=None):
    error = {"type": kind, "value": value, "repr": "", "traceback": f"{kind}: {value}\n", "frames": [], "hint": hint}
    error |= {"obstacle": obstacle, "package": package}
    return [line for line in raw(status=status, error=error).failure_text().splitlines() if line.startswith("hint: ")]


def test_a_hint_names_the_option_of_this_package_that_helps():
    more = 'hint: open the session with limits=Limits(memory="8GB") to allow more'
    assert hints_of("MemoryLimit", status="crashed", obstacle="memory") == [more]
    said = "The session's memory limit was reached: work on smaller parts."
    assert hints_of("MemoryError", hint=said, obstacle="memory") == [f"hint: {said}", more]
    assert hints_of("MemoryError", hint=said) == [f"hint: {said}"]
    opened = 'open the session with network=Network("HOST") to let it reach a host'
    said = "This session may reach only example.org."
    assert hints_of("URLError", hint=said, obstacle="network") == [f"hint: {said}", f"hint: {opened}"]
    for said in "This session has no network: hand the data in as a file.", "In other words.":
        assert hints_of("URLError", hint=said, obstacle="no_network") == [f"hint: this session has no network: {opened}"]
    assert hints_of("URLError", hint="It is refused.", obstacle="of a later version") == ["hint: It is refused."]
    missing = "ModuleNotFoundError", "No module named 'sklearn.svm'", "ask for them with install_packages.", "failure", "package"
    opened = "is not part of this session: open it with env=Env"
    assert hints_of(*missing, "sklearn") == [f'hint: `sklearn` {opened}("sklearn")']
    named = f'hint: `sklearn`, a module of the package scikit-learn, {opened}("scikit-learn")'
    assert hints_of(*missing, "scikit-learn") == [named]
    assert hints_of(*missing, "x; rm -rf ~") == [f'hint: `sklearn` {opened}("sklearn")']
    assert hints_of("ModuleNotFoundError", "No module named 'x; rm -rf ~'", obstacle="package") == []
    wrapped = "ImportError", "Missing optional dependency 'openpyxl'.", "It is not part of this session.", "failure", "package"
    assert hints_of(*wrapped) == ["hint: It is not part of this session."]
    assert hints_of(*wrapped, "x; rm -rf ~") == ["hint: It is not part of this session."]
    assert hints_of(*wrapped, "openpyxl") == [f'hint: `openpyxl` {opened}("openpyxl")']
    [put] = hints_of("FileNotFoundError", obstacle="file", hint="It is not there.")
    assert put.startswith("hint: the session sees only the files of its workspace: put the file there with `files.upload(path)`")
    assert hints_of("ValueError", "v") == []
    assert raw(status="timeout").failure_text().splitlines()[1:] == ["hint: give the cell more time with timeout=600"]


def test_results_compare_and_show_themselves():
    assert raw() == raw() and raw() != raw(cell=4)
    assert repr(raw(value={"repr": "42", "mime": {}}, output="hi\n")) == "<Result cell 3, success, value 42, output 'hi\\n'>"
