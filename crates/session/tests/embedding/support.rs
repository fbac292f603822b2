//! Sessions for tests: one async runtime and one zygote for all of them.

use cellblock_protocol::{Cell, CellResult, Event, SessionOptions, Status, ToolSpec};
use cellblock_session::{Running, Session};
use cellblock_test_support::open_session;
pub(crate) use cellblock_test_support::{interpreter, runtime_builder, wait};
use serde_json::json;
use std::ops::Deref;
use std::time::Duration;

const MAX_WAIT: Duration = Duration::from_secs(60);

/// A session with the defaults.
pub(crate) fn session() -> Python {
    open(SessionOptions::default())
}

pub(crate) fn open(options: SessionOptions) -> Python {
    Python(wait(open_session(options)).unwrap())
}

/// A tool with text arguments that are all required.
pub(crate) fn tool(name: &str, description: &str, arguments: &[&str]) -> ToolSpec {
    let properties: serde_json::Map<_, _> = arguments
        .iter()
        .map(|argument| ((*argument).to_owned(), json!({"type": "string"})))
        .collect();
    let schema = json!({"type": "object", "properties": properties, "required": arguments});
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: schema.as_object().cloned().unwrap(),
    }
}

/// A session whose cells are run one by one and cannot go wrong but in their result.
pub(crate) struct Python(pub(crate) Session);

impl Python {
    pub(crate) fn run(&self, cell: impl Into<Cell>) -> CellResult {
        wait(self.0.run(cell)).unwrap()
    }

    /// Runs a cell that must succeed.
    pub(crate) fn good(&self, cell: impl Into<Cell>) -> CellResult {
        let result = self.run(cell);
        assert_eq!(result.status, Status::Success, "{:?}", result.error);
        result
    }

    /// The repr of a cell's last expression.
    pub(crate) fn value(&self, cell: impl Into<Cell>) -> String {
        self.good(cell).value.unwrap().repr
    }

    pub(crate) fn start(&self, cell: impl Into<Cell>) -> Live {
        Live(self.0.start(cell).unwrap())
    }

    pub(crate) fn offer(&self, tools: impl IntoIterator<Item = ToolSpec>) {
        wait(self.0.set_tools(tools.into_iter().collect())).unwrap();
    }
}

impl Deref for Python {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

/// A cell that runs.
pub(crate) struct Live(pub(crate) Running);

impl Live {
    /// The next event; a cell that says nothing for a minute is a failed test, not a stuck one.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let next = wait(async { tokio::time::timeout(MAX_WAIT, self.0.next()).await });
        next.expect("no event came")
    }

    /// All events that are left.
    pub(crate) fn rest(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next()).collect()
    }

    pub(crate) fn result(self) -> CellResult {
        let result = wait(async { tokio::time::timeout(MAX_WAIT, self.0.result()).await });
        result.expect("the cell did not end").unwrap()
    }
}
