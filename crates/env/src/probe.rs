//! Asking one Python what it is.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use crate::{
    Cancel, Interpreter, OLDEST, Reason, Variables, Version, access,
    child::{self, Stopped, Stream},
};

/// More than any answer is long; what a wrong program prints beyond it is dropped.
const LONGEST_ANSWER: usize = 64 * 1024;

/// What stands behind a path, or why it cannot be used.
pub(crate) fn ask(
    candidate: &Path,
    variables: &Variables,
    patience: Duration,
) -> Result<Interpreter, Reason> {
    let interpreter = start(candidate, variables, patience)?;
    let real = &interpreter.executable;
    if fs::canonicalize(candidate).is_ok_and(|path| path == *real) {
        return Ok(interpreter);
    }
    // A shim or wrapper: sessions start what stands behind it, so that must work without it.
    start(real, variables, patience).map_err(|reason| Reason::Behind {
        executable: real.clone(),
        reason: Box::new(reason),
    })
}

fn start(path: &Path, variables: &Variables, patience: Duration) -> Result<Interpreter, Reason> {
    can_be_started(path)?;
    let mut command = variables.command(path);
    command.args(["-I", "-S", "-c", include_str!("python/probe.py")]);
    let mut answer = String::new();
    let ended = child::run(
        command,
        Some(patience),
        &Cancel::new(),
        &mut |stream, line| {
            if stream == Stream::Stdout && line.starts_with('{') && line.len() < LONGEST_ANSWER {
                answer = line.to_owned();
            }
        },
    );
    let ended = match ended {
        Ok(ended) => ended,
        Err(Stopped::TimedOut | Stopped::Cancelled) => {
            return Err(Reason::TimedOut {
                seconds: patience.as_secs_f64(),
            });
        }
        Err(Stopped::DidNotStart(error)) => {
            return Err(Reason::DidNotStart {
                status: error.to_string(),
                last_line: None,
            });
        }
    };
    if !ended.status.success() {
        // Python 2 has no -I, and cannot be asked further.
        if ended.stderr.iter().any(|line| line == "Unknown option: -I") {
            return Err(Reason::PythonTwo);
        }
        return Err(Reason::DidNotStart {
            status: child::describe(ended.status),
            last_line: telling_line(&ended.stderr).or_else(|| telling_line(&ended.tail)),
        });
    }
    judge(&answer)
}

/// The checks whose failure the program itself could not explain.
fn can_be_started(path: &Path) -> Result<(), Reason> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(Reason::Unreachable {
                user: access::user(),
                directory: barrier(path),
            });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Reason::Missing),
        Err(error) => {
            return Err(Reason::DidNotStart {
                status: error.to_string(),
                last_line: None,
            });
        }
    };
    if metadata.is_dir() {
        Err(Reason::Directory)
    } else if access::not_executable(path) {
        Err(Reason::NotExecutable {
            user: access::user(),
        })
    } else if access::unreadable(path) {
        Err(Reason::Unreadable {
            user: access::user(),
        })
    } else {
        Ok(())
    }
}

/// The directory that stops this user on the way to the path, also where the path is a link.
fn barrier(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..16 {
        if let Some(directory) = access::blocked_at(&path) {
            return directory;
        }
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        path = match path.parent() {
            Some(parent) => parent.join(target),
            None => target,
        };
    }
    path
}

/// The line that says what is wrong: Python's last. pyenv puts it first and goes on with advice.
fn telling_line(lines: &[String]) -> Option<String> {
    let pyenv = lines.iter().find(|line| line.starts_with("pyenv: "));
    pyenv.or(lines.last()).map(|line| line.trim().to_owned())
}

fn judge(line: &str) -> Result<Interpreter, Reason> {
    #[derive(Deserialize)]
    struct Answer {
        version: (u32, u32, u32),
        implementation: String,
        interpreter: Option<Interpreter>,
    }
    let unclear = || Reason::UnclearAnswer;
    let answer: Answer = serde_json::from_str(line).map_err(|_| unclear())?;
    let (major, minor, micro) = answer.version;
    if answer.implementation != "cpython" {
        return Err(Reason::NotCPython {
            implementation: answer.implementation,
        });
    }
    if (major, minor) < OLDEST {
        return Err(Reason::TooOld {
            version: Version {
                major,
                minor,
                micro,
            },
        });
    }
    answer.interpreter.ok_or_else(unclear)
}
