//! A result in words for a person at a terminal.

use super::{Console, Style};
use cellblock::{
    CellResult, CheckpointState, CheckpointStatus, FileChange, MimeBundle, Replay, StateAfterCell,
    StateOutcome, Status, signal_name, visible_text,
};
use std::path::Path;
use std::time::Duration;

/// What a terminal can show of a display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DisplayText {
    /// Text: a table, a list, anything with a plain form.
    Text(String),
    /// A picture or the like: `[image/png 12 kB]`, and what is known about it.
    Description(String),
}

impl DisplayText {
    /// A display as a terminal shows it.
    pub(crate) fn of(bundle: &MimeBundle) -> DisplayText {
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
                DisplayText::Description(format!("[{mime} {}]{about}", size(bytes)))
            }
            (None, Some(plain)) => DisplayText::Text(plain.to_owned()),
            (None, None) => {
                let types: Vec<&str> = bundle.types().collect();
                DisplayText::Description(format!("[{}]", types.join(", ")))
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
        Status::Timeout => {
            let place = result.stopped_at.as_ref();
            let place = place.map(|place| format!(" (in {})", visible_text(place)));
            Some(format!(
                "the cell was stopped: it did not end within {} s{}",
                limit.as_secs_f64(),
                place.unwrap_or_default()
            ))
        }
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

/// Whether the session's own hint is shown with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownHint {
    BelowTheError,
    LeftOut,
}

/// The traceback with its last line marked, and the hint below; empty for a result without an error.
pub(crate) fn error_text(result: &CellResult, hint: ShownHint, console: &Console) -> String {
    let Some(error) = result
        .error
        .as_ref()
        .filter(|_| result.status != Status::Crashed)
    else {
        return String::new();
    };
    let hint_is_shown = hint == ShownHint::BelowTheError;
    let traceback = console.safe_on_err(error.traceback.trim_end()).into_owned();
    let mut text = match traceback.rsplit_once('\n') {
        Some((frames, last)) => format!("{frames}\n{}", console.on_err(Style::Error, last)),
        None => console.on_err(Style::Error, &traceback),
    };
    if let Some(hint) = &error.hint
        && hint_is_shown
    {
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

/// What a crash in the next cell would cost.
pub(crate) fn next_crash(checkpoint: &CheckpointState, replay: Replay) -> String {
    let reason = checkpoint.reason.as_deref().unwrap_or_default();
    let cells = plural(checkpoint.behind, "cell");
    match (checkpoint.status, replay) {
        (CheckpointStatus::Armed, _) => {
            "the next cell is safe: a crash in it loses nothing".to_owned()
        }
        (CheckpointStatus::Behind, _) if checkpoint.behind == 0 => {
            format!("a crash in the next cell would not bring everything back: {reason}")
        }
        (CheckpointStatus::Behind, Replay::Off) => {
            format!("a crash in the next cell would lose the last {cells} too: {reason}")
        }
        (CheckpointStatus::Behind, Replay::Within(_)) => format!(
            "there is no checkpoint of the last {cells}, which would have to run again after a crash: {reason}"
        ),
        (CheckpointStatus::Unavailable, _) => {
            format!("a crash in the next cell would end the session: {reason}")
        }
    }
}

/// The notice about checkpoints that was printed last. It is printed once for each reason.
#[derive(Debug, Default)]
pub(crate) struct CheckpointNotice(Option<(CheckpointStatus, Option<String>)>);

impl CheckpointNotice {
    /// Whether a notice must be printed: the session is not armed, and for another reason than the last notice had.
    pub(crate) fn is_needed(&mut self, checkpoint: &CheckpointState) -> bool {
        let now = match checkpoint.status {
            CheckpointStatus::Armed => None,
            status => Some((status, checkpoint.reason.clone())),
        };
        let is_new = now != self.0;
        self.0 = now;
        is_new && self.0.is_some()
    }
}

/// Prints what a restore brought back and what not. Prints nothing if the cell's effects were kept, or the session has ended.
pub(crate) fn print_restored(state: &StateAfterCell, console: &Console) {
    if state.outcome != StateOutcome::Restored {
        return;
    }
    let cells: Vec<String> = state.replayed.iter().map(u64::to_string).collect();
    let time = milliseconds(state.replay_time.unwrap_or_default());
    let again = match &cells[..] {
        [] => None,
        [cell] => Some(format!("cell {cell} was run again ({time})")),
        cells => Some(format!(
            "cells {} were run again ({time})",
            cells.join(", ")
        )),
    };
    let line = match (again, state.has_variables_of_before()) {
        (None, true) => "the variables are as they were before the cell".to_owned(),
        (Some(again), true) => format!("the variables are as they were before the cell: {again}"),
        (None, false) => "the session went back to an older checkpoint".to_owned(),
        (Some(again), false) => {
            format!("the session went back to an older checkpoint, and {again}")
        }
    };
    console.say(&console.on_err(Style::Dim, &line));
    let warn = |label, texts: &[String]| {
        for text in texts {
            console.note(&console.on_err(Style::Warning, label), text);
        }
    };
    warn("differs:", &state.differed);
    warn("not restored:", &state.not_restored);
}

/// `340 bytes`, `12 kB`, `1.4 MB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    match UNITS.into_iter().find(|(_, unit)| bytes >= *unit) {
        // Whole numbers exactly: no float comes near them.
        Some((name, unit)) if bytes / unit >= 10 => format!("{} {name}", bytes / unit),
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => plural(bytes, "byte"),
    }
}

/// `0.42 ms`, `12.3 ms`, `431 ms`, `2.1 s`.
pub(crate) fn milliseconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        _ if ms < 1.0 => format!("{ms:.2} ms"),
        _ if ms < 100.0 => format!("{ms:.1} ms"),
        _ if ms < 1000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.1} s", ms / 1000.0),
    }
}

/// `1 file`, `2 files`.
pub(crate) fn plural(count: u64, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {what}{ending}")
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
            [DisplayText::of(&picture), DisplayText::of(&table)],
            [
                DisplayText::Description("[image/png 12 kB] <Figure 640x480>".to_owned()),
                DisplayText::Text("   a\n0  1".to_owned())
            ]
        );
    }
}

#[cfg(test)]
mod safety_tests {
    use super::*;

    #[test]
    fn a_checkpoint_notice_is_told_once_for_each_reason() {
        let mut told = CheckpointNotice::default();
        let behind = CheckpointState::behind(1, "a thread (tqdm)");
        let further = CheckpointState::behind(2, "a thread (tqdm)");
        let other = CheckpointState::behind(2, "a socket is listening");
        let checkpoints = [
            &CheckpointState::armed(),
            &behind,
            &further,
            &other,
            &CheckpointState::armed(),
            &behind,
        ];
        let news = checkpoints.map(|checkpoint| told.is_needed(checkpoint));
        assert_eq!(news, [false, true, false, true, false, true]);
    }
}

#[cfg(test)]
mod quantity_tests {
    use super::*;

    #[test]
    fn a_size_has_the_unit_that_makes_it_short() {
        let sizes = [0, 1, 999, 1_000, 9_949, 12_345, 1_440_000, 2_000_000_000].map(size);
        let expected = [
            "0 bytes",
            "1 byte",
            "999 bytes",
            "1.0 kB",
            "9.9 kB",
            "12 kB",
            "1.4 MB",
            "2.0 GB",
        ];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn a_time_has_three_digits() {
        let times =
            [421, 12_340, 431_200, 2_100_000].map(|time| milliseconds(Duration::from_micros(time)));
        assert_eq!(times, ["0.42 ms", "12.3 ms", "431 ms", "2.1 s"]);
    }
}
