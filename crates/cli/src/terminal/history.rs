//! What was typed before, in a file of the state directory.

use cellblock::env::Dirs;
use rustyline::history::FileHistory;
use rustyline::{Editor, Helper};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

/// The lines that a person typed in one command, also in earlier runs of it. A history that cannot be read or written is not worth a word.
pub(crate) struct TypedBefore(Option<PathBuf>);

impl TypedBefore {
    /// Gives the editor what is in the file with this name; the first time there is none.
    pub(crate) fn load<H: Helper>(name: &str, editor: &mut Editor<H, FileHistory>) -> TypedBefore {
        let path = file(name);
        if let Some(path) = &path {
            let _ = editor.load_history(path);
        }
        TypedBefore(path)
    }

    /// One more line.
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
