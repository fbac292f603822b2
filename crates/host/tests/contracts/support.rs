//! Sessions for tests: one async runtime, one host and one zygote for all of them.

use cellblock_env::{Cancel, Dirs, Search, default_environment};
use cellblock_host::{Error, Host, PythonChoice, SessionBuilder};
use cellblock_protocol::{Cell, CellResult, Event, Status, ToolSpec};
use cellblock_session::{Preload, Running, Session};
use cellblock_test_support::{command_lines, test_directory};
#[allow(unused_imports, reason = "each test binary uses a part of it")]
pub(crate) use cellblock_test_support::{eventually, is_root, wait};
use serde_json::{Value, json};
use std::ops::Deref;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;

static STANDARD_LIBRARY: LazyLock<Host> = LazyLock::new(|| {
    let host = Host::builder().python(PythonChoice::StandardLibrary);
    host.preload(Preload::None).dirs(dirs()).build().unwrap()
});

static PACKAGES: LazyLock<Host> = LazyLock::new(|| {
    let interpreter = Search::from_process().unwrap().find().unwrap();
    let environment = default_environment(&interpreter, &Cancel::new(), &mut |_| {}).unwrap();
    let host = Host::builder().environment(environment);
    host.preload(Preload::Full).dirs(dirs()).build().unwrap()
});

/// The user's cache, and workspaces that do not pile up.
fn dirs() -> Dirs {
    Dirs {
        state: test_directory().join("state"),
        ..Dirs::from_process().unwrap()
    }
}

/// The host of these sessions.
#[allow(dead_code, reason = "the tests of journals use it")]
pub(crate) fn host() -> &'static Host {
    &STANDARD_LIBRARY
}

/// A session of the standard library with the defaults.
pub(crate) fn session() -> Python {
    open(builder())
}

/// The same, to be made otherwise.
pub(crate) fn builder() -> SessionBuilder {
    STANDARD_LIBRARY.session()
}

/// Like [`builder`], with numpy, pandas, matplotlib and the others. The first run makes the default environment.
pub(crate) fn packages() -> SessionBuilder {
    PACKAGES.session()
}

pub(crate) fn open(builder: SessionBuilder) -> Python {
    Python(wait(builder.start()).unwrap())
}

/// Why a session cannot be.
pub(crate) fn refusal(builder: SessionBuilder) -> Error {
    wait(builder.start()).unwrap_err()
}

/// A session whose cells are run one by one and cannot go wrong but in their result.
pub(crate) struct Python(pub(crate) Session);

impl Python {
    pub(crate) fn run(&self, cell: impl Into<Cell>) -> CellResult {
        self.attempt(cell).unwrap()
    }

    /// The same where the session itself may refuse.
    pub(crate) fn attempt(
        &self,
        cell: impl Into<Cell>,
    ) -> Result<CellResult, cellblock_session::Error> {
        wait(self.0.run(cell))
    }

    /// Runs a cell that must succeed.
    pub(crate) fn good(&self, code: &str) -> CellResult {
        let result = self.run(code);
        assert_eq!(result.status, Status::Success, "{code}\n{:?}", result.error);
        result
    }

    /// The repr of a cell's last expression.
    pub(crate) fn value(&self, code: &str) -> String {
        self.good(code).value.unwrap().repr
    }

    /// What a cell prints.
    pub(crate) fn stdout(&self, code: &str) -> String {
        self.good(code).stdout
    }

    /// The exception that a cell fails with, as `repr` writes it.
    pub(crate) fn exception(&self, code: &str) -> String {
        let result = self.run(code);
        assert_eq!(result.status, Status::Failure, "{result:?}");
        result.error.unwrap().repr
    }

    #[allow(dead_code, reason = "the tests of forks use it")]
    pub(crate) fn fork(&self) -> Python {
        Python(wait(self.0.fork()).unwrap())
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

    /// Waits for this text on standard output.
    pub(crate) fn until(&mut self, text: &str) {
        let mut seen = String::new();
        while !seen.contains(text) {
            match self.next() {
                Some(Event::Stdout { text }) => seen.push_str(&text),
                other => panic!("{other:?} came before {text:?}"),
            }
        }
    }

    /// All events that are left.
    pub(crate) fn rest(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// The result; tool calls and questions on the way are answered with `answer`.
    pub(crate) fn answering(
        &mut self,
        answer: impl Fn(&str, &Value) -> Result<Value, String>,
    ) -> CellResult {
        loop {
            match self.next() {
                Some(Event::ToolCall {
                    call,
                    name,
                    arguments,
                }) => {
                    self.0
                        .tool_result(&call, answer(&name, &Value::Object(arguments.to_map())));
                }
                Some(Event::Result { result }) => return *result,
                Some(_) => {}
                None => panic!("the events ended without a result"),
            }
        }
    }

    pub(crate) fn result(self) -> CellResult {
        let result = wait(async { tokio::time::timeout(MAX_WAIT, self.0.result()).await });
        result.expect("the cell did not end").unwrap()
    }
}

pub(crate) const MAX_WAIT: Duration = Duration::from_secs(300);

/// A tool that takes texts.
pub(crate) fn tool(name: &str, description: &str, parameters: &[&str]) -> ToolSpec {
    let properties: serde_json::Map<String, Value> = parameters
        .iter()
        .map(|name| ((*name).to_owned(), json!({"type": "string"})))
        .collect();
    let schema = json!({"type": "object", "properties": properties, "required": parameters});
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: schema.as_object().cloned().unwrap(),
    }
}

/// What a thread wrote after its cell.
pub(crate) fn next_log(logs: &mut Receiver<Event>) -> String {
    loop {
        let event = wait(async { tokio::time::timeout(MAX_WAIT, logs.recv()).await });
        if let Event::Log { text } = event.expect("no log came").unwrap() {
            return text;
        }
    }
}

/// The line that a thread wrote after its cell. A checkpoint that is made in the middle of the line parts it.
pub(crate) fn next_logged_line(logs: &mut Receiver<Event>) -> String {
    let mut line = next_log(logs);
    while !line.ends_with('\n') {
        line += &next_log(logs);
    }
    line
}

/// How many processes of this machine have `mark` in their command line. No wall hides them from the host.
pub(crate) fn processes_with(mark: &str) -> usize {
    command_lines().filter(|line| line.contains(mark)).count()
}
