//! `cellblock pipe`, driven line by line.

use crate::environment::Environment;
use serde_json::{Value, json};
use std::env;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A pipe with one session.
pub(crate) struct Pipe {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    last_id: u64,
}

/// What matters of a cell's result.
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) value: Option<String>,
    pub(crate) error: String,
    pub(crate) outcome: String,
    pub(crate) is_armed: bool,
    /// Why the session was not armed.
    pub(crate) reason: String,
}

const SESSION: &str = "library";

impl Answer {
    /// The status with the value or the error, for a table.
    pub(crate) fn told(&self) -> String {
        let value = self.value.as_deref().unwrap_or("no value");
        format!("{} {value} {}", self.status, self.error)
    }
}

/// The program that is tested: the one that was built with the tests, or the copy that an ordinary user can read.
fn program() -> OsString {
    env::var_os("CELLBLOCK_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_cellblock").into())
}

impl Pipe {
    pub(crate) fn start(environment: &Environment) -> Pipe {
        let mut command = Command::new(program());
        environment.apply(&mut command);
        let mut child = command
            .args(["pipe", "--no-journal"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Pipe {
            requests: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            last_id: 0,
        }
    }

    /// Opens the session in an environment, which is made if it is not there yet.
    pub(crate) fn open(&mut self, environment: &str) -> Result<(), String> {
        let limits = json!({"memory": "4GB", "wall": "5min"});
        self.send(json!({"op": "open", "session": SESSION, "env": environment, "limits": limits}))
            .map(drop)
    }

    /// An operation without fields.
    pub(crate) fn ask(&mut self, operation: &str) -> Result<Value, String> {
        self.send(json!({"op": operation, "session": SESSION}))
    }

    /// Ends a fork.
    pub(crate) fn close(&mut self, session: &str) {
        let _ = self.send(json!({"op": "close", "session": session}));
    }

    pub(crate) fn run(&mut self, code: &str) -> Answer {
        self.run_in(SESSION, code)
    }

    /// Runs a cell. A library that hangs is seen by the time limit.
    pub(crate) fn run_in(&mut self, session: &str, code: &str) -> Answer {
        let request = json!({"op": "run", "session": session, "code": code, "timeout": 120});
        let result = match self.send(request) {
            Ok(result) => result,
            Err(problem) => json!({"status": "refused", "error": {"value": problem}}),
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let checkpoint = &result["state"]["checkpoint"];
        Answer {
            status: text(&result["status"]),
            value: result["value"]["repr"].as_str().map(str::to_owned),
            error: text(&result["error"]["value"]),
            outcome: text(&result["state"]["outcome"]),
            is_armed: checkpoint["status"] == "armed",
            reason: text(&checkpoint["reason"]),
        }
    }

    fn send(&mut self, mut request: Value) -> Result<Value, String> {
        self.last_id += 1;
        request["id"] = json!(self.last_id);
        writeln!(self.requests, "{request}").map_err(|error| error.to_string())?;
        loop {
            let mut line = String::new();
            let length = self.answers.read_line(&mut line);
            if length.map_err(|error| error.to_string())? == 0 {
                return Err("the pipe has ended".to_owned());
            }
            let mut event: Value =
                serde_json::from_str(&line).map_err(|error| error.to_string())?;
            if event["id"] != json!(self.last_id) {
                continue;
            }
            match event["event"].as_str() {
                Some("answer") => return Ok(event["answer"].take()),
                Some("result") => return Ok(event["result"].take()),
                Some("error") => return Err(event["message"].as_str().unwrap_or("").to_owned()),
                _ => {}
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
