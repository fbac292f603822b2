//! What is printed when a cell is over.

use crate::commands::live::Followed;
use crate::commands::plots;
use crate::terminal::{Console, Shown, Style, ending, error_text, file_lines};
use cellblock::Session;
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

/// Saves the pictures that a cell showed, which a terminal cannot show, and says where they are. What is no picture is named.
pub(crate) async fn save_pictures(followed: &Followed, session: &Session, console: &Console) {
    let say = |text: &str| console.say(&console.on_err(Style::Dim, &console.safe_on_err(text)));
    let saved = plots::save(session, &followed.result).await;
    for path in &saved {
        say(&format!(
            "plot saved as {}",
            session.workspace().join(path).display()
        ));
    }
    let things = followed.result.displays.iter().map(Shown::of);
    let things = things.filter_map(|shown| match shown {
        Shown::Thing(text) => Some(text),
        Shown::Text(_) => None,
    });
    if saved.is_empty() {
        things.for_each(|text| say(&text));
    }
}

/// Tells of the files that a cell touched, with their paths on the host.
pub(crate) fn print_files(followed: &Followed, workspace: &Path, console: &Console) {
    for line in file_lines(&followed.result, workspace, console) {
        console.say(&console.on_err(Style::Dim, &console.safe_on_err(&line)));
    }
}
