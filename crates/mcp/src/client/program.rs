//! A server that is a program of ours to start and to end.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep};

/// What a program sees of our environment. The rest may hold secrets that are not its business.
const PASSED_ON: [&str; 9] = [
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ",
];
/// How long it may take to end by itself, and then after being asked to.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// What is kept of its standard error.
const MAX_STDERR_BYTES: usize = 2_000;

/// A running program, in a process group of its own.
pub(super) struct Program {
    child: Child,
    group: Option<Pid>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
}

impl Program {
    /// Starts it. The streams are its standard output and input.
    pub(super) fn start(
        command: &str,
        arguments: &[String],
        environment: &BTreeMap<String, String>,
        directory: Option<&Path>,
    ) -> Result<(Program, ChildStdout, ChildStdin), String> {
        let mut starting = Command::new(command);
        starting
            .args(arguments)
            .env_clear()
            .envs(
                PASSED_ON
                    .iter()
                    .filter_map(|name| Some((name, std::env::var_os(name)?))),
            )
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(directory) = directory {
            starting.current_dir(directory);
        }
        cellblock_sandbox::end_with_parent(starting.as_std_mut());
        let mut child = starting
            .spawn()
            .map_err(|error| format!("`{command}` cannot be started: {error}"))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (Some(output), Some(input), Some(errors)) =
            (child.stdout.take(), child.stdin.take(), child.stderr.take())
        else {
            return Err(format!("`{command}` has no standard streams"));
        };
        let stderr = Arc::default();
        tokio::spawn(keep_tail(errors, Arc::clone(&stderr)));
        let program = Program {
            child,
            group,
            stderr,
        };
        Ok((program, output, input))
    }

    /// Ends it with everything that it started, once its input is closed; says how it ended.
    pub(super) async fn end(mut self) -> String {
        if !self.has_ended_within(EXIT_TIMEOUT).await {
            self.signal(Signal::TERM);
            self.has_ended_within(EXIT_TIMEOUT).await;
        }
        // As long as nobody has reaped it, the group is certainly its own.
        self.signal(Signal::KILL);
        self.group = None;
        let status = self.child.wait().await;
        let mut text = status.map_or_else(|error| error.to_string(), described);
        if let Some(last) = self.last_words() {
            text.push_str(&format!("; the last it wrote: {last}"));
        }
        text
    }

    async fn has_ended_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            if self.has_ended() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn has_ended(&self) -> bool {
        let Some(id) = self.group else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(id), options), Ok(None))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It may be gone already.
            let _ = kill_process_group(group, signal);
        }
    }

    fn last_words(&self) -> Option<String> {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        let clean = line.chars().filter(|c| !c.is_control());
        Some(clean.take(300).collect())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Reads everything, and keeps the end.
async fn keep_tail(mut stream: impl AsyncRead + Unpin, tail: Arc<Mutex<VecDeque<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(&buffer[..count]);
        let surplus = tail.len().saturating_sub(MAX_STDERR_BYTES);
        tail.drain(..surplus);
    }
}

fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}
