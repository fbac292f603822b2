//! Input and output of a person: the console, colours, progress bars, questions, and results in words.

mod approval;
mod columns;
mod console;
mod dates;
mod highlight;
mod live_text;
mod progress;
mod remedies;
mod result_text;
mod spinner;

use cellblock::env::Dirs;
use rustyline::history::FileHistory;
use rustyline::{Editor, Helper};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

pub(crate) use approval::TerminalApprover;
pub(crate) use columns::aligned;
pub(crate) use console::{ColorChoice, Console, Style};
pub(crate) use dates::{age, date};
pub(crate) use highlight::highlight;
pub(crate) use live_text::LiveText;
pub(crate) use progress::{DownloadBar, EnvironmentBar};
pub(crate) use remedies::{HintPlace, WorkspaceKind, remedy};
pub(crate) use result_text::{
    CheckpointNotice, DisplayText, ShownHint, ending, error_text, file_lines, milliseconds,
    next_crash, plural, print_restored, size,
};
pub(crate) use spinner::Spinner;

/// The lines that a person typed into one command, in this run and in earlier ones. A history that cannot be read or written is ignored.
pub(crate) struct InputHistory(Option<PathBuf>);

impl InputHistory {
    /// Loads the history from the file with this name in the state directory.
    pub(crate) fn load<H: Helper>(name: &str, editor: &mut Editor<H, FileHistory>) -> InputHistory {
        let path = file(name);
        if let Some(path) = &path {
            let _ = editor.load_history(path);
        }
        InputHistory(path)
    }

    /// Appends a line.
    pub(crate) fn add<H: Helper>(&self, line: &str, editor: &mut Editor<H, FileHistory>) {
        let _ = editor.add_history_entry(line);
        if let Some(path) = &self.0 {
            let _ = editor.append_history(path);
        }
    }
}

fn file(name: &str) -> Option<PathBuf> {
    let state = Dirs::from_process().ok()?.state;
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&state).ok()?;
    Some(state.join(name))
}
