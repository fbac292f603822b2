//! Arrays and tables between tools written in Python and code. They need the default environment, and each name says so.

use crate::support::{packages, wait};
use cellblock_protocol::{Cell, Locale, Status};
use cellblock_tools::{Call, PythonTools, Registry, SessionFuture, ToolRunner};
use serde_json::json;

const TOOLS: &str = r#"
import numpy, pandas

def table():
    """Says a table."""
    return pandas.DataFrame(
        {"n": [1, 2], "x": [0.5, float("nan")], "when": pandas.to_datetime(["2024-01-02", None]), "kind": pandas.Categorical(["a", "b"])},
        index=pandas.Index(["p", "q"], name="key"),
    )

def large(rows: int):
    """Says a large table."""
    return pandas.DataFrame({"n": range(rows), "text": ["a text"] * rows})

def echo(value):
    """Says what it was given."""
    return value

def kind(value):
    """Names the class of a value."""
    return type(value).__name__
"#;

fn sessions() -> impl Fn() -> SessionFuture + Send + Sync + 'static {
    || Box::pin(async { Ok(packages().start().await?) })
}

fn runner() -> ToolRunner {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("values.py"), TOOLS).unwrap();
    let tools = wait(PythonTools::new(folder.path()).load(sessions())).unwrap();
    let registry = Registry::builder().built_in().extend(tools).build();
    ToolRunner::builder(registry.unwrap())
        .open_sessions(sessions())
        .build()
}

fn printed(runner: &ToolRunner, code: &str) -> String {
    let ran = wait(runner.run_cell(Cell::new(code), None)).unwrap();
    assert_eq!(ran.result.status, Status::Success, "{:?}", ran.result.error);
    ran.result.stdout
}

#[test]
fn with_packages_arrays_and_tables_come_through_unchanged() {
    let code = "\
import numpy, pandas
from pandas.testing import assert_frame_equal, assert_series_equal
made = table()
assert_frame_equal(echo(made), made)
assert_frame_equal(echo(made.set_index(['n', 'kind'])), made.set_index(['n', 'kind']))
assert_series_equal(echo(made['when']), made['when'])
for array in (numpy.arange(6).reshape(2, 3), numpy.array(['a', 'bc']), numpy.array([1, None], dtype=object), numpy.array(['2024-01-01'], dtype='datetime64[D]')):
    back = echo(array)
    assert back.dtype == array.dtype and (back == array).all(), back
print(made.index.name, made['when'].dtype.kind, made['kind'].dtype, kind(made), kind(made['n']), kind(made['n'].to_numpy()))";
    let runner = runner();
    let expected = "key M category DataFrame Series ndarray\n";
    assert_eq!(printed(&runner, code), expected);
    let read = wait(runner.call(Call::by_user("table", json!({}))));
    let read = read.for_model(Locale::En, 10_000);
    let first = r#"[{"key": "p", "n": 1, "x": 0.5, "when": "2024-01-02T00:00:00", "kind": "a"}"#;
    assert!(read.starts_with(first), "{read}");
}

#[test]
fn with_packages_a_large_table_is_a_handle_with_its_value() {
    let code = "\
handle = large(500_000)
print(type(handle).__name__, handle.value().shape, handle.value()['n'].sum())
print(large(1000).shape)";
    let expected = "ToolResponse (500000, 2) 124999750000\n(1000, 2)\n";
    assert_eq!(printed(&runner(), code), expected);
}
