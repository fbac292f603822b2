//! Running a program to its end: its lines as they come, a deadline, and a way to stop it.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::{Cancel, Interpreter};

/// How often a silent program is looked at.
const BEAT: Duration = Duration::from_millis(25);
/// How long descendants may hold the pipes open after the program itself ended.
const GRACE: Duration = Duration::from_millis(500);
/// A longer line is cut in two. An installer has no business with longer ones.
const LONGEST_LINE: u64 = 8 * 1024;
const TAIL_LINES: usize = 20;
const TAIL_LINE_CHARS: usize = 400;

/// Which stream a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// A program that ended by itself.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The last lines of both streams, for an error message. Between the two the order is not certain.
    pub(crate) tail: Vec<String>,
    /// The last lines of stderr alone.
    pub(crate) stderr: Vec<String>,
}

/// A program that did not.
#[derive(Debug)]
pub(crate) enum Stopped {
    DidNotStart(io::Error),
    TimedOut,
    Cancelled,
}

/// Runs the program and hands each line of output to `line`. The program has a process group of its own,
/// so that whatever it started ends with it.
pub(crate) fn run(
    mut command: Command,
    limit: Option<Duration>,
    cancel: &Cancel,
    line: &mut dyn FnMut(Stream, &str),
) -> Result<Ended, Stopped> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = spawn(&mut command).map_err(Stopped::DidNotStart)?;

    let (sender, lines) = mpsc::channel();
    let streams = (child.stdout.take(), child.stderr.take());
    let reading = match streams {
        (Some(stdout), Some(stderr)) => read_lines(stdout, Stream::Stdout, sender.clone())
            .and_then(|()| read_lines(stderr, Stream::Stderr, sender)),
        _ => Ok(()),
    };
    if let Err(error) = reading {
        let _ = end(&mut child);
        return Err(Stopped::DidNotStart(error));
    }

    let mut tail = Tail::default();
    let mut stderr = Tail::default();
    let mut ended_at: Option<Instant> = None;
    let mut streams_open = true;
    loop {
        if cancel.is_cancelled() {
            let _ = end(&mut child);
            return Err(Stopped::Cancelled);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let _ = end(&mut child);
            return Err(Stopped::TimedOut);
        }
        match lines.recv_timeout(BEAT) {
            Ok((stream, text)) => {
                line(stream, &text);
                if stream == Stream::Stderr {
                    stderr.push(&text);
                }
                tail.push(&text);
            }
            Err(RecvTimeoutError::Timeout) => {}
            // A program that ends closes its streams a moment before.
            Err(RecvTimeoutError::Disconnected) if streams_open => streams_open = false,
            Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(2)),
        }
        if ended_at.is_none() && has_ended(&child) {
            ended_at = Some(Instant::now());
        }
        if ended_at.is_some_and(|at| !streams_open || at.elapsed() > GRACE) {
            let status = end(&mut child).map_err(Stopped::DidNotStart)?;
            return Ok(Ended {
                status,
                tail: tail.lines.into(),
                stderr: stderr.lines.into(),
            });
        }
    }
}

/// The same command, tied to this process's life: when the calling thread ends, even by SIGKILL of the
/// whole process, the kernel kills the program.
///
/// Only the program can ask the kernel for that (`PR_SET_PDEATHSIG`), and `pre_exec` is `unsafe`, so
/// Python asks before it becomes the program. Without `ctypes` the program runs untied.
pub(crate) fn tied(interpreter: &Interpreter, command: Command) -> Command {
    if !interpreter.modules.ctypes {
        return command;
    }
    let mut leash = Command::new(&interpreter.executable);
    leash
        .args(["-I", "-S", "-c", include_str!("python/leash.py")])
        .arg(std::process::id().to_string())
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            leash.env(name, value);
        }
    }
    if let Some(directory) = command.get_current_dir() {
        leash.current_dir(directory);
    }
    leash
}

/// An exit status in a few words.
pub(crate) fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Starts it. A program that was written a moment ago may still be open in another thread's child, which has
/// not yet begun its own program; the kernel then refuses with "text file busy" for a moment.
fn spawn(command: &mut Command) -> io::Result<Child> {
    for _ in 0..20 {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(5));
            }
            outcome => return outcome,
        }
    }
    command.spawn()
}

fn read_lines(
    stream: impl Read + Send + 'static,
    which: Stream,
    sender: Sender<(Stream, String)>,
) -> io::Result<()> {
    // The thread ends with the pipe, or with the receiver.
    let thread = thread::Builder::new().name("lines".to_owned());
    let started = thread.spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match (&mut reader)
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut bytes)
            {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                    if sender.send((which, text)).is_err() {
                        break;
                    }
                }
            }
        }
    });
    started.map(drop)
}

/// Whether the program ended. It is not reaped yet, so that its group's number cannot be anyone else's
/// when the group is killed.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that there is nothing to wait for: `end` then reports it.
    group(child).is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
}

/// Kills what is left of the group, and reaps the program.
fn end(child: &mut Child) -> io::Result<ExitStatus> {
    if let Some(group) = group(child) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()
}

fn group(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// The last lines of something, fit for an error message.
#[derive(Default)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }

    pub(crate) fn push(&mut self, line: &str) {
        let line = clean(line);
        if line.is_empty() {
            return;
        }
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// A line fit for an error message: bounded, without terminal escapes, and without the password that an
/// index's address may hold.
fn clean(line: &str) -> String {
    let plain: String = line
        .chars()
        .filter(|character| !character.is_control())
        .take(TAIL_LINE_CHARS)
        .collect();
    let mut out = String::with_capacity(plain.len());
    let mut rest = plain.as_str();
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let host_ends = after
            .find(|c: char| c == '/' || c == '`' || c == '\'' || c == '"' || c.is_whitespace())
            .unwrap_or(after.len());
        let (authority, tail) = after.split_at(host_ends);
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                out.push_str("****@");
                out.push_str(host);
            }
            None => out.push_str(authority),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    fn lines_of(script: &str) -> (Result<Ended, Stopped>, Vec<(Stream, String)>) {
        let mut lines = Vec::new();
        let result = run(
            shell(script),
            Some(Duration::from_secs(20)),
            &Cancel::new(),
            &mut |stream, line| lines.push((stream, line.to_owned())),
        );
        (result, lines)
    }

    #[test]
    fn lines_come_with_their_stream_and_the_last_ones_are_kept() {
        let (ended, lines) = lines_of("echo one; sleep 0.1; echo two >&2; exit 3");
        let ended = ended.unwrap();
        assert_eq!(
            lines,
            [
                (Stream::Stdout, "one".to_owned()),
                (Stream::Stderr, "two".to_owned())
            ]
        );
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(ended.tail, ["one", "two"]);
    }

    #[test]
    fn a_flood_leaves_a_bounded_tail() {
        let (ended, lines) = lines_of("seq 1 5000; head -c 100000 /dev/zero | tr '\\0' x");
        assert!(lines.len() > 5000);
        let tail = ended.unwrap().tail;
        assert_eq!(tail.len(), TAIL_LINES);
        assert!(tail.iter().all(|line| line.len() <= TAIL_LINE_CHARS));
    }

    #[test]
    fn a_descendant_that_keeps_the_pipes_open_does_not_keep_us_and_is_killed() {
        let started = Instant::now();
        let (ended, lines) = lines_of("sleep 1000 & echo $!");
        assert!(ended.unwrap().status.success());
        assert!(started.elapsed() < Duration::from_secs(10));
        let sleeper = Path::new("/proc").join(&lines[0].1).join("cmdline");
        // A zombie that nobody has reaped yet has an empty command line.
        while !std::fs::read(&sleeper).unwrap_or_default().is_empty() {
            assert!(started.elapsed() < Duration::from_secs(10), "it lives on");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_deadline_and_a_cancellation_end_it() {
        let late = run(
            shell("sleep 1000"),
            Some(Duration::from_millis(100)),
            &Cancel::new(),
            &mut |_, _| {},
        );
        assert!(matches!(late, Err(Stopped::TimedOut)));

        let cancel = Cancel::new();
        let guard = cancel.on_drop();
        let waiter = thread::spawn(move || {
            run(
                shell("trap '' TERM; sleep 1000"),
                None,
                &cancel,
                &mut |_, _| {},
            )
        });
        drop(guard);
        assert!(matches!(waiter.join().unwrap(), Err(Stopped::Cancelled)));
    }

    #[test]
    fn a_password_in_an_address_is_not_repeated() {
        assert_eq!(
            clean("\u{1b}[31merror: https://me:secret@index.example/simple/ and http://a.b/c@d"),
            "[31merror: https://****@index.example/simple/ and http://a.b/c@d"
        );
    }
}
