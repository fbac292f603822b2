//! What is printed when a cell is over.

use crate::commands::live::Followed;
use crate::terminal::{Console, Shown, Style, ending, error_text, file_lines};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Prints what a person wants to know after the output: the value on standard output, as Python's own prompt does, then what
/// went wrong on standard error.
pub(crate) fn print_outcome(
    followed: &Followed,
    limit: Duration,
    console: &Console,
) -> io::Result<()> {
    let result = &followed.result;
    if followed.is_mid_line && (result.value.is_some() || console.out_is_terminal()) {
        console.print("\n")?;
    }
    if let Some(value) = &result.value {
        console.print_guest(&format!("{}\n", value.repr))?;
    }
    if let Some(ending) = ending(result, limit) {
        console.error(&ending);
    }
    let error = error_text(result, console);
    if !error.is_empty() {
        console.say(&error);
    }
    Ok(())
}

/// Names the pictures that a cell showed: a terminal cannot.
pub(crate) fn print_pictures(followed: &Followed, console: &Console) {
    for bundle in &followed.result.displays {
        if let Shown::Thing(text) = Shown::of(bundle) {
            console.say(&console.on_err(Style::Dim, &console.safe_on_err(&text)));
        }
    }
}

/// Tells of the files that a cell touched, with their paths on the host.
pub(crate) fn print_files(followed: &Followed, workspace: &Path, console: &Console) {
    for line in file_lines(&followed.result, workspace, console) {
        console.say(&console.on_err(Style::Dim, &console.safe_on_err(&line)));
    }
}
