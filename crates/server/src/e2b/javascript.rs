//! Interpreters of JavaScript: a `node` beside the Python of a sandbox, with a small program that runs cells in it.

use cellblock_protocol::{ProcessStream, Spawn, parse_json_within};
use cellblock_session::{AttachedProcess, Error, Process, ProcessEvent, ProcessEvents, Session};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Reads cells from its standard input and writes what they give, one JSON object in a line.
const PROGRAM: &str = include_str!("javascript.js");
/// The longest line of the program. What is longer was not written by it.
const MAX_LINE_BYTES: usize = 32 << 20;
/// The most memory that the values of a line may take once they are parsed. A line that takes more counts as none of the program's.
const MAX_LINE_MEMORY: usize = 64 << 20;

/// Whether programs of a session find `node`.
pub(super) async fn is_there(session: &Session) -> bool {
    let spawn = Spawn::new(["/bin/sh", "-c", "command -v node"]);
    match session.spawn(spawn).await {
        Ok(process) => process.wait().await.exit_code == Some(0),
        Err(_) => false,
    }
}

/// A `node` that runs cells, with the variables of the cells before. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Interpreter {
    process: Process,
    events: ProcessEvents,
    unread: Vec<u8>,
    messages: VecDeque<InterpreterMessage>,
}

/// What comes from an interpreter while a cell runs.
#[derive(Debug)]
pub(super) enum InterpreterMessage {
    /// Text that the cell wrote to `stdout` or `stderr`.
    Output { stream: &'static str, text: String },
    /// A line for the client: the value of the cell, or its error.
    Line(Value),
    /// The cell is over.
    End,
    /// The interpreter is over, and with it all variables.
    Gone,
}

impl Interpreter {
    /// Starts an interpreter in a directory, with these variables of the environment.
    pub(super) async fn start(
        session: &Session,
        cwd: &str,
        env: BTreeMap<String, String>,
    ) -> Result<Interpreter, Error> {
        let mut spawn = Spawn::new(["node", "-e", PROGRAM]);
        spawn.cwd = Some(cwd.to_owned());
        spawn.env = env;
        spawn.stdin = true;
        let AttachedProcess { process, events } = session.spawn_attached(spawn).await?;
        Ok(Interpreter {
            process,
            events,
            unread: Vec::new(),
            messages: VecDeque::new(),
        })
    }

    /// Whether the interpreter can run another cell.
    pub(super) fn is_alive(&self) -> bool {
        self.process.end().is_none()
    }

    /// Begins a cell, with variables of the environment for it alone.
    pub(super) async fn begin(
        &mut self,
        code: &str,
        env: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let cell = format!("{}\n", json!({"code": code, "env": env}));
        self.process.write(cell.as_bytes()).await
    }

    /// What comes next. A wait that is dropped loses nothing.
    pub(super) async fn next(&mut self) -> InterpreterMessage {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return message;
            }
            match self.events.next().await {
                Some(ProcessEvent::Output {
                    stream: ProcessStream::Stderr,
                    bytes,
                    ..
                }) => {
                    return InterpreterMessage::Output {
                        stream: "stderr",
                        text: String::from_utf8_lossy(&bytes).into_owned(),
                    };
                }
                Some(ProcessEvent::Output { bytes, .. }) => self.take(&bytes),
                Some(ProcessEvent::Dropped { .. }) => {}
                Some(ProcessEvent::End(_)) | None => return InterpreterMessage::Gone,
            }
        }
    }

    /// Adds bytes of the standard output, and takes whole lines out of them.
    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.unread.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.unread);
                self.messages.push_back(message_of(&line));
            }
        }
        if self.unread.len() > MAX_LINE_BYTES {
            self.messages
                .push_back(message_of(&std::mem::take(&mut self.unread)));
        }
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        let process = self.process.clone();
        if process.end().is_none() {
            tokio::spawn(async move { process.kill().await });
        }
    }
}

/// The message of a line. A line that is not the program's was written by something that the cell started.
fn message_of(line: &[u8]) -> InterpreterMessage {
    let told: Value = parse_json_within(line, MAX_LINE_MEMORY).unwrap_or_default();
    let text = |field: &str| told[field].as_str().unwrap_or_default().to_owned();
    match told["type"].as_str() {
        Some("stdout") => InterpreterMessage::Output {
            stream: "stdout",
            text: text("text"),
        },
        Some("stderr") => InterpreterMessage::Output {
            stream: "stderr",
            text: text("text"),
        },
        Some("result") => {
            let mut result =
                json!({"type": "result", "text": text("text"), "is_main_result": true});
            if let Some(json) = told.get("json") {
                result["json"] = json.clone();
            }
            InterpreterMessage::Line(result)
        }
        Some("error") => InterpreterMessage::Line(json!({
            "type": "error", "name": text("name"), "value": text("value"), "traceback": text("traceback"),
        })),
        Some("end") => InterpreterMessage::End,
        _ => InterpreterMessage::Output {
            stream: "stdout",
            text: String::from_utf8_lossy(line).into_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_program_are_messages_and_all_others_are_output() {
        let read = |line: &[u8]| format!("{:?}", message_of(line));
        assert_eq!(read(b"{\"type\":\"end\"}\n"), "End");
        assert_eq!(
            read(b"{\"type\":\"stdout\",\"text\":\"a\\n\"}\n"),
            "Output { stream: \"stdout\", text: \"a\\n\" }"
        );
        for other in ["{\"type\":\"exit\"}\n", "plain\n", "[1]\n", "{\n"] {
            let expected = format!("Output {{ stream: \"stdout\", text: {other:?} }}");
            assert_eq!(read(other.as_bytes()), expected);
        }
        // What would take gigabytes of memory was not written by it.
        let lists = "[],".repeat(1_000_000);
        let line = format!("{{\"type\":\"end\",\"json\":[{lists}[]]}}\n");
        assert!(read(line.as_bytes()).starts_with("Output"));
    }
}
