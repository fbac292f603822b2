//! A result in words for a person at a terminal.

use super::{Console, Style, size};
use cellblock::{CellResult, FileChange, MimeBundle, Status, signal_name};
use std::path::Path;
use std::time::Duration;

/// What a terminal can show of a display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Text: a table, a list, anything with a plain form.
    Text(String),
    /// A picture or the like: `[image/png 12 kB]`, and what is known about it.
    Thing(String),
}

impl Shown {
    /// A display as a terminal shows it.
    pub(crate) fn of(bundle: &MimeBundle) -> Shown {
        let plain = bundle.text("text/plain");
        let binary = bundle.iter().find(|(mime, _)| is_binary(mime));
        match (binary, plain) {
            (Some((mime, content)), _) => {
                let length = content.as_str().map_or(0, str::len) as u64;
                // Base64 is four characters for three bytes; an SVG is text as it stands.
                let bytes = if mime.ends_with("+xml") {
                    length
                } else {
                    length / 4 * 3
                };
                let about = plain.map(|text| format!(" {text}")).unwrap_or_default();
                Shown::Thing(format!("[{mime} {}]{about}", size(bytes)))
            }
            (None, Some(plain)) => Shown::Text(plain.to_owned()),
            (None, None) => {
                let types: Vec<&str> = bundle.types().collect();
                Shown::Thing(format!("[{}]", types.join(", ")))
            }
        }
    }
}

fn is_binary(mime: &str) -> bool {
    ["image/", "audio/", "video/", "application/pdf"]
        .iter()
        .any(|kind| mime.starts_with(kind))
}

/// How a cell ended that did not succeed, in one line without its label; `None` where a traceback says it.
pub(crate) fn ending(result: &CellResult, limit: Duration) -> Option<String> {
    let cause = result.error.as_ref();
    match result.status {
        Status::Success | Status::Failure => None,
        Status::Timeout => Some(format!(
            "the cell was stopped: it did not end within {} s",
            limit.as_secs_f64()
        )),
        Status::Interrupted if cause.is_some() => None,
        Status::Interrupted => Some("the cell was interrupted".to_owned()),
        Status::Crashed => Some(match (cause, result.signal, result.exit_code) {
            (Some(error), ..) => error.value.clone(),
            (None, Some(signal), _) => {
                let name = signal_name(signal);
                format!("Python crashed: it was ended by {name}")
            }
            (None, None, Some(code)) => format!("Python ended itself with exit code {code}"),
            (None, None, None) => "Python ended".to_owned(),
        }),
    }
}

/// The traceback with its last line marked, and the hint below; empty for a result without an error.
pub(crate) fn error_text(result: &CellResult, console: &Console) -> String {
    let Some(error) = result
        .error
        .as_ref()
        .filter(|_| result.status != Status::Crashed)
    else {
        return String::new();
    };
    let traceback = console.safe_on_err(error.traceback.trim_end()).into_owned();
    let mut text = match traceback.rsplit_once('\n') {
        Some((frames, last)) => format!("{frames}\n{}", console.on_err(Style::Error, last)),
        None => console.on_err(Style::Error, &traceback),
    };
    if let Some(hint) = &error.hint {
        let label = console.on_err(Style::Hint, "hint:");
        text.push_str(&format!("\n{label} {}", console.safe_on_err(hint)));
    }
    text
}

/// One line per file that a cell created, changed or deleted.
pub(crate) fn file_lines(result: &CellResult, workspace: &Path, console: &Console) -> Vec<String> {
    let line = |what: &str, file: &FileChange| {
        let path = workspace.join(&file.path).display().to_string();
        let path = console.name_on_err(&path);
        format!("{what} {path} ({})", size(file.bytes))
    };
    let files = &result.files;
    let created = files.created.iter().map(|file| line("created", file));
    let changed = files.changed.iter().map(|file| line("changed", file));
    let deleted = files.deleted.iter().map(|file| line("deleted", file));
    created.chain(changed).chain(deleted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_named_with_its_size_and_a_table_is_shown() {
        let picture = MimeBundle::new()
            .with("image/png", "A".repeat(16_000))
            .with("text/plain", "<Figure 640x480>");
        let table = MimeBundle::new()
            .with("text/html", "<table>")
            .with("text/plain", "   a\n0  1");
        assert_eq!(
            [Shown::of(&picture), Shown::of(&table)],
            [
                Shown::Thing("[image/png 12 kB] <Figure 640x480>".to_owned()),
                Shown::Text("   a\n0  1".to_owned())
            ]
        );
    }
}
