//! Errors as a person reads them, and the exit status of each.

use crate::terminal::{Console, Style};
use anyhow::Error;
use cellblock::journal::JournalError;
use std::process::ExitCode;
use std::{fmt, io};

/// The command line, or what it names, cannot be used.
pub(crate) const USAGE: u8 = 2;
/// What was asked for could not be started.
pub(crate) const COULD_NOT_START: u8 = 3;
/// The reader of the output has gone: the status that a shell reports for a program that SIGPIPE ended.
const NO_READER: u8 = 128 + 13;

/// An error in what the user gave, with a hint what to do about it.
#[derive(Debug)]
pub(crate) struct Usage {
    message: String,
    hint: Option<String>,
}

impl Usage {
    /// An error that needs no hint.
    pub(crate) fn plain(message: impl Into<String>) -> Error {
        Error::new(Usage {
            message: message.into(),
            hint: None,
        })
    }

    /// An error with a hint.
    pub(crate) fn hinted(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::new(Usage {
            message: message.into(),
            hint: Some(hint.into()),
        })
    }

    /// `--json` stands before a subcommand, where it is for the list that the command prints without one.
    pub(crate) fn misplaced_json(right: &str) -> Error {
        Usage::hinted(
            "--json stands before the subcommand",
            format!("write it after the subcommand, as in `cellblock {right}`"),
        )
    }
}

/// Says how to get a program with a part that this one was built without.
#[cfg(not(feature = "cluster"))]
pub(crate) fn built_without(part: &str) -> Error {
    Usage::hinted(
        format!("this program was built without {part}"),
        "build it with all its parts: `cargo install --path crates/cli`",
    )
}

/// A limit of this process that keeps every command from starting, with a hint what to do about it.
#[derive(Debug)]
pub(crate) struct CannotStart {
    message: String,
    hint: String,
}

impl CannotStart {
    /// An error with a hint.
    pub(crate) fn hinted(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::new(CannotStart {
            message: message.into(),
            hint: hint.into(),
        })
    }
}

impl fmt::Display for CannotStart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for CannotStart {}

impl fmt::Display for Usage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Usage {}

/// The output could not be written. That its reader has gone is reported as a status alone.
pub(crate) fn output(error: io::Error) -> Error {
    Error::new(error).context("the output could not be written")
}

/// Prints an error with its chain and a hint, and returns the status to end with.
pub(crate) fn report(error: &Error, console: &Console) -> ExitCode {
    if is_lost_reader(error) {
        return ExitCode::from(NO_READER);
    }
    console.error(&error.to_string());
    let mut said = error.to_string();
    for cause in error.chain().skip(1) {
        let text = cause.to_string();
        // Many messages end with their cause already.
        if !said.contains(&text) {
            console.note(&console.on_err(Style::Error, "cause:"), &text);
            said.push_str(&text);
        }
    }
    if let Some(hint) = hint(error) {
        console.hint(&hint);
    }
    ExitCode::from(status(error))
}

/// What to do about an error, where that is known.
pub(crate) fn hint(error: &Error) -> Option<String> {
    if let Some(usage) = error.downcast_ref::<Usage>() {
        return usage.hint.clone();
    }
    if let Some(error) = error.downcast_ref::<CannotStart>() {
        return Some(error.hint.clone());
    }
    if let Some(error) = error.downcast_ref::<cellblock::env::Error>() {
        return error.hint();
    }
    if let Some(error) = error.downcast_ref::<JournalError>() {
        let is_unknown = matches!(
            error,
            JournalError::NotFound { .. } | JournalError::Ambiguous { .. }
        );
        return is_unknown.then(|| "`cellblock sessions list` lists what there is".to_owned());
    }
    let error = error.downcast_ref::<cellblock::Error>()?;
    error.hint().or_else(|| match error.code() {
        // Some of these messages say so themselves.
        "isolation" if !error.to_string().contains("cellblock doctor") => Some(
            "`cellblock doctor` says what this machine can enforce and how to get more".to_owned(),
        ),
        _ => None,
    })
}

fn status(error: &Error) -> u8 {
    let is_usage = error.is::<Usage>()
        || error.is::<cellblock::Invalid>()
        || error.is::<JournalError>()
        || error
            .downcast_ref::<cellblock::Error>()
            .is_some_and(|error| error.code() == "invalid");
    if is_usage { USAGE } else { COULD_NOT_START }
}

fn is_lost_reader(error: &Error) -> bool {
    let is_broken_pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error
        .downcast_ref::<io::Error>()
        .is_some_and(is_broken_pipe)
}
