//! Starting the command in surroundings of its own, with the standard library alone.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// The binary.
pub const CELLBLOCK: &str = env!("CARGO_BIN_EXE_cellblock");

/// A thread that no checkpoint can carry.
pub const DEAF: &str = "import ctypes, os, signal, threading, time; ready = threading.Event()
def deaf():
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(ctypes.c_uint64(-1)), None, 8); ctypes.CDLL(None).prctl(15, b'deaf', 0, 0, 0); ready.set(); time.sleep(600)
threading.Thread(target=deaf, daemon=True).start(); ready.wait()
";

/// What a command left behind.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Surroundings: a state directory of its own; the cache is shared, so that Python is looked for once.
pub struct Place {
    pub directory: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// `cellblock` with these arguments, not started yet.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(CELLBLOCK);
        command.args(arguments);
        for (name, value) in self.variables() {
            command.env(name, value);
        }
        for name in [
            "NO_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "CELLBLOCK_CONFIG",
            "CELLBLOCK_MCP_TOKEN",
            "CELLBLOCK_PYTHON",
            "CELLBLOCK_MODEL",
            "CELLBLOCK_BASE_URL",
            "CELLBLOCK_API_KEY",
            "OPENAI_MODEL",
            "OPENAI_BASE_URL",
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "DASHSCOPE_API_KEY",
            "OPENROUTER_API_KEY",
        ] {
            command.env_remove(name);
        }
        command.current_dir(self.path());
        command
    }

    pub fn variables(&self) -> [(&'static str, String); 6] {
        let user = fs::metadata("/proc/self").unwrap().uid();
        let cache = env::temp_dir().join(format!("cellblock-cli-tests-{user}"));
        [
            (
                "XDG_STATE_HOME",
                self.path().join("state").display().to_string(),
            ),
            (
                "XDG_CONFIG_HOME",
                self.path().join("config").display().to_string(),
            ),
            ("XDG_CACHE_HOME", cache.display().to_string()),
            // No model is looked for on the machine of the tests.
            ("CELLBLOCK_LOCAL_SERVERS", String::new()),
            ("COLUMNS", "100".to_owned()),
            ("TERM", "xterm".to_owned()),
        ]
    }

    /// Runs it to its end with nothing on standard input.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Ended {
        self.run_with(arguments, b"")
    }

    /// Runs it to its end with this on standard input.
    pub fn run_with<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Ended {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that does not read its input closes it.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        Ended {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command line of `cellblock` as a shell would read it.
    pub fn shell(&self, line: &str) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{CELLBLOCK} {line}")]);
        command.current_dir(self.path()).envs(self.variables());
        let output = command.output().unwrap();
        Ended {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// `cellblock exec --stdlib -c CODE` with more arguments.
    pub fn exec(&self, code: &str, arguments: &[&str]) -> Ended {
        let first = ["exec", "--stdlib", "-c", code];
        self.run(first.iter().chain(arguments))
    }

    /// A conversation with `cellblock pipe`.
    pub fn pipe(&self) -> Pipe {
        let mut command = self.command(["pipe", "--stdlib"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Pipe {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }
}

/// A program that holds sessions.
pub struct Pipe {
    pub input: Option<ChildStdin>,
    pub output: BufReader<ChildStdout>,
    pub child: Child,
}

impl Pipe {
    /// Sends one request.
    pub fn send(&mut self, request: Value) {
        self.send_line(request.to_string().as_bytes());
    }

    pub fn send_line(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// The next line that comes back, with what differs from run to run set to 0.
    pub fn next(&mut self) -> Value {
        normal(self.next_as_it_is())
    }

    /// The next line that comes back, with nothing set to 0.
    pub fn next_as_it_is(&mut self) -> Value {
        self.wait_for_line();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "not a whole line: {line:?}");
        serde_json::from_str(&line).unwrap()
    }

    /// Waits until a line can be read. A line that never comes is a failure of the test.
    fn wait_for_line(&self) {
        const LIMIT: Timespec = Timespec {
            tv_sec: 300,
            tv_nsec: 0,
        };
        if self.output.buffer().is_empty() {
            let mut wanted = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
            assert_ne!(poll(&mut wanted, Some(&LIMIT)).unwrap(), 0, "no line came");
        }
    }

    /// Waits until a cell has printed this. One `print` may come as several events.
    pub fn wait_for_output(&mut self, expected: &str) {
        let mut printed = String::new();
        while printed != expected {
            let line = self.next();
            printed += line["text"].as_str().unwrap();
            assert!(expected.starts_with(&printed), "{printed:?}");
        }
    }

    /// Sends a request and returns the line that answers it. That a session is not armed any more may be told at any time, and so may the
    /// notifications of an MCP server.
    pub fn ask(&mut self, request: Value) -> Value {
        self.send(request);
        loop {
            let line = self.next();
            let is_notification = line["jsonrpc"] == "2.0" && line["id"].is_null();
            if line["event"] != "checkpoint" && !is_notification {
                return line;
            }
        }
    }

    /// The result of a run, with the events before it passed over.
    pub fn result(&mut self) -> Value {
        loop {
            let line = self.next();
            if line["event"] == "result" || line["event"] == "error" {
                return line;
            }
        }
    }

    /// No more requests. The rest of the lines, and the exit status.
    pub fn end(mut self) -> (Vec<Value>, Option<i32>) {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let lines = rest
            .lines()
            .map(|line| normal(serde_json::from_str(line).unwrap()))
            .collect();
        (lines, self.child.wait().unwrap().code())
    }
}

/// Sends a signal to a process that we started.
pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// The value with times, sizes of memory and the state of the checkpoint set to 0: they differ from run to run.
pub fn normal(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            for (name, inner) in map.iter_mut() {
                *inner = match name.as_str() {
                    "wall_ms" | "cpu_ms" | "peak_bytes" | "ms" | "modified" => 0.into(),
                    // Of a state; the event of that name has a plain number.
                    "checkpoint" if inner.is_object() => 0.into(),
                    _ => normal(inner.take()),
                };
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = normal(item.take())),
        _ => {}
    }
    value
}
