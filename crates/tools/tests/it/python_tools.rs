//! Tools written in Python, in a session of their own.

use crate::support::{printed, sessions, wait};
use cellblock_protocol::Locale;
use cellblock_tools::{
    Answer, Approval, ApprovalMode, ApprovalPolicy, Call, Effects, PythonTools, Registry,
    ToolRunner,
};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

const WEATHER: &str = r#"
import dataclasses, enum, os, time
from typing import Annotated, Literal, Optional

import _helper


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


@dataclasses.dataclass
class Place:
    x: float
    y: float = 0.0


def forecast(city: str, days: int = 3, unit: Unit = Unit.C, near: Optional[list[Place]] = None,
             style: Annotated[Literal["short", "long"], "How much to say."] = "short") -> dict:
    """The weather of the next days.

    Args:
        city: Where, such as
            Oslo.
        days (int): How many days.

    Returns:
        Something.
    """
    return {"city": city, "days": days, "unit": unit, "near": near, "style": style, "helped": _helper.twice(days)}


def picture() -> bytes:
    """A picture."""
    return b"\x89PNG"


async def later(text: str) -> str:
    """Says it a little later."""
    import asyncio
    await asyncio.sleep(0.01)
    return text + "!"


calls = 0

def count() -> int:
    """Counts its own calls."""
    global calls
    calls += 1
    print("noise")
    return calls


def fail(how: str) -> None:
    """Fails in a way of your choice."""
    if how == "raise":
        raise ValueError("a bad city")
    if how == "crash":
        os._exit(3)
    if how == "odd":
        return object()
    if how == "sleep":
        time.sleep(60)


fail = tool(time_limit=1)(fail)


def secret() -> str:
    """Tells what only it should know."""
    return os.environ.get("API_KEY", "none")


@tool(name="send-mail", effects="outside")
def send(to: str) -> str:
    """Sends a mail."""
    return f"sent to {to}"


def _not_a_tool(): ...
"#;

pub fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, contents) in files {
        fs::write(folder.path().join(name), contents).unwrap();
    }
    folder
}

fn weather() -> ToolRunner {
    let folder = folder(&[
        ("weather.py", WEATHER),
        ("_helper.py", "def twice(n): return 2 * n"),
    ]);
    let tools = PythonTools::new(folder.path()).secret("API_KEY", "k-123");
    let tools = wait(tools.load(sessions())).unwrap();
    let registry = Registry::builder()
        .built_in()
        .extend(tools)
        .build()
        .unwrap();
    let approval = Approval::new(ApprovalPolicy::mode(ApprovalMode::Effects), None);
    ToolRunner::builder(registry)
        .open_sessions(sessions())
        .approval(approval)
        .build()
}

fn call(runner: &ToolRunner, name: &str, arguments: Value) -> Answer {
    wait(runner.call(Call::by_user(name, arguments)))
}

pub fn text(runner: &ToolRunner, name: &str, arguments: Value) -> String {
    call(runner, name, arguments).for_model(Locale::En, 10_000)
}

fn refusal(files: &[(&str, &str)]) -> String {
    let folder = folder(files);
    let error = wait(PythonTools::new(folder.path()).load(sessions()))
        .err()
        .expect("it was loaded");
    error
        .to_string()
        .replace(folder.path().to_str().unwrap(), "DIR")
}

#[test]
fn functions_become_tools_with_schemas_from_their_types_and_docstrings() {
    let runner = weather();
    let definition = runner.registry().get("forecast").unwrap();
    assert_eq!(definition.description, "The weather of the next days.");
    assert_eq!(
        json!(definition.parameters),
        json!({
            "type": "object",
            "properties": {
                "city": {"description": "Where, such as Oslo.", "type": "string"},
                "days": {"description": "How many days.", "type": "integer", "default": 3},
                "unit": {"enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "near": {"anyOf": [
                    {"type": "array", "items": {
                        "type": "object",
                        "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                        "required": ["x"],
                        "additionalProperties": false,
                    }},
                    {"type": "null"},
                ], "default": null},
                "style": {"description": "How much to say.", "enum": ["short", "long"], "default": "short"},
            },
            "required": ["city"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        runner.registry().get("send-mail").unwrap().effects,
        Effects::Outside
    );
    assert!(runner.registry().get("_not_a_tool").is_none());
}

#[test]
fn they_are_called_like_any_other_by_the_model_and_by_code() {
    let runner = weather();
    assert_eq!(
        text(
            &runner,
            "forecast",
            json!({"city": "Oslo", "days": "2", "unit": "fahrenheit"})
        ),
        r#"{"city":"Oslo","days":2,"unit":"fahrenheit","near":null,"style":"short","helped":4}"#
    );
    assert_eq!(
        text(
            &runner,
            "forecast",
            json!({"city": "Oslo", "style": "tall"})
        ),
        "Tool call failed: the arguments of `forecast` do not fit: `style`: expected one of \"short\", \"long\", got \"tall\""
    );
    assert_eq!(
        text(&runner, "later", json!({"text": "é\n\"世\u{1F600}"})),
        "é\n\"世\u{1F600}!"
    );
    assert_eq!(
        text(&runner, "picture", json!({})),
        "[application/octet-stream, 4 bytes]"
    );
    let code = "print(forecast('Rome', near=[{'x': 1}])['near'], later('x'), picture())";
    assert_eq!(
        printed(&runner, code),
        "[{'x': 1.0, 'y': 0.0}] x! b'\\x89PNG'\n"
    );
    assert_eq!(
        (
            text(&runner, "count", json!({})),
            text(&runner, "count", json!({}))
        ),
        ("1".into(), "2".into())
    );
}

const VALUES: &str = r#"
def give(kind: str):
    values = {
        "tuple": (1, (2, "x")),
        "set": {3, 1},
        "keys": {1: "a", (2, 3): "b", None: "c"},
        "nan": [float("nan"), float("-inf"), -0.0],
        "bytes": [b"\x00\xff", bytearray(b"a")],
        "big": [10**40, -(10**40), 2**53 + 1],
        "complex": 1 + 2j,
        "tag": {"__python__": "int", "value": "x"},
    }
    return values[kind]

def echo(value):
    return value

def total(first: int, *rest: int, factor: int = 1, **named: int) -> dict:
    print("adding")
    return {"sum": (first + sum(rest)) * factor, "named": named}

def measure(points: dict[int, float], raw: bytes, pair: tuple[int, int]):
    return [type(key).__name__ for key in points], raw, pair
"#;

fn values() -> ToolRunner {
    let folder = folder(&[("values.py", VALUES)]);
    let tools = wait(PythonTools::new(folder.path()).load(sessions())).unwrap();
    let registry = Registry::builder().built_in().extend(tools).build();
    ToolRunner::builder(registry.unwrap())
        .open_sessions(sessions())
        .build()
}

#[test]
fn values_come_out_of_a_tool_as_it_returned_them() {
    let code = "\
for kind in ['tuple', 'set', 'keys', 'nan', 'bytes', 'big', 'complex', 'tag']:
    print(give(kind))";
    let expected = "\
(1, (2, 'x'))
{1, 3}
{1: 'a', (2, 3): 'b', None: 'c'}
[nan, -inf, -0.0]
[b'\\x00\\xff', bytearray(b'a')]
[10000000000000000000000000000000000000000, -10000000000000000000000000000000000000000, 9007199254740993]
(1+2j)
{'__python__': 'int', 'value': 'x'}
";
    let runner = values();
    assert_eq!(printed(&runner, code), expected);
    // A model that calls the tool itself reads JSON.
    assert_eq!(
        text(&runner, "give", json!({"kind": "keys"})),
        r#"{"1": "a", "[2, 3]": "b", "None": "c"}"#
    );
}

#[test]
fn values_go_into_a_tool_as_the_code_has_them() {
    let code = "\
x = ({1, 2}, b'a', {1: (2,)}, float('inf'), 10**30)
print(echo(x) == x, echo(value=x) == x)
print(measure({1: 0.5, 2: 1}, b'\\xff', (1, 2)))";
    assert_eq!(
        printed(&values(), code),
        "True True\n(['int', 'int'], b'\\xff', (1, 2))\n"
    );
}

#[test]
fn a_function_without_docstring_and_with_any_parameters_is_a_tool() {
    let runner = values();
    let code = "print(total(1), total(1, 2, 3), total(1, 2, factor=10, a=5))";
    let expected =
        "{'sum': 1, 'named': {}} {'sum': 6, 'named': {}} {'sum': 30, 'named': {'a': 5}}\n";
    assert_eq!(printed(&runner, code), expected);
    assert_eq!(
        text(&runner, "total", json!({"first": 1, "rest": [2], "b": 3})),
        r#"{"sum":3,"named":{"b":3}}"#
    );
    let definition = runner.registry().get("echo").unwrap().clone();
    assert_eq!(definition.description, "Echo.");
}

#[test]
fn their_session_is_not_that_of_the_code_and_their_secrets_stay_there() {
    let runner = weather();
    assert_eq!(text(&runner, "secret", json!({})), "k-123");
    let code = "import os, sys\nprint(os.environ.get('API_KEY'), 'weather' in sys.modules, os.listdir('.'))";
    assert_eq!(printed(&runner, code), "None False []\n");
}

#[test]
fn what_goes_wrong_in_them_is_an_answer_and_they_live_on() {
    let runner = weather();
    for (how, message) in [
        ("raise", "Tool call failed: ValueError: a bad city"),
        (
            "odd",
            "Tool call failed: TypeError: a tool returned object, which has no form in JSON",
        ),
        (
            "sleep",
            "Tool call failed: `fail` did not answer within 1 s and was given up",
        ),
        ("crash", "Tool call failed: the tool crashed"),
    ] {
        assert_eq!(text(&runner, "fail", json!({"how": how})), message);
        assert_eq!(
            text(&runner, "later", json!({"text": how})),
            format!("{how}!")
        );
    }
}

#[test]
fn a_call_that_is_given_up_does_not_block_the_next() {
    let runner = weather();
    let call = runner.call(Call::by_user("fail", json!({"how": "sleep"})));
    let given_up =
        wait(async { tokio::time::timeout(std::time::Duration::from_millis(200), call).await });
    assert!(given_up.is_err());
    assert_eq!(text(&runner, "later", json!({"text": "x"})), "x!");
}

#[test]
fn what_has_effects_outside_needs_a_person() {
    assert_eq!(
        text(&weather(), "send-mail", json!({"to": "ann"})),
        "Tool call failed: `send-mail` was not run: it needs a person's approval, and no person can be asked here"
    );
}

#[test]
fn what_cannot_be_a_tool_is_named_when_it_is_loaded() {
    for (files, message) in [
        (
            &[("a.py", "import re\ndef f(x: re.Pattern):\n    'Does.'")][..],
            "a.py: f(): the parameter 'x' has the type <class 're.Pattern'>, which has no form in JSON",
        ),
        (
            &[("a.py", "x = 1\ndef f(:")],
            "a.py, line 2: SyntaxError: invalid syntax (a.py, line 2)",
        ),
        (
            &[("a.py", "\n\n1/0")],
            "a.py, line 3: ZeroDivisionError: division by zero",
        ),
        (
            &[
                ("a.py", "def f():\n    'Does.'"),
                ("b.py", "def f():\n    'Does.'"),
            ],
            "b.py: a tool called 'f' is already defined in another file",
        ),
        (
            &[("a.py", "@tool(effects='big')\ndef f():\n    'Does.'")],
            "a.py: effects must be 'none' or 'outside', not 'big'",
        ),
    ] {
        assert_eq!(
            refusal(files),
            format!("the tools in DIR cannot be used: {message}")
        );
    }
    assert_eq!(
        refusal(&[("notes.txt", "")]),
        "the tools in DIR cannot be read: there is no .py file in it"
    );
    let error = wait(PythonTools::new("/nowhere").load(sessions()))
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .starts_with("the tools in /nowhere cannot be read: ")
    );
}
