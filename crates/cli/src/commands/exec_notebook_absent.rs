//! `cellblock exec notebook.ipynb` in a program that was built without Jupyter.

use super::absent::built_without;
use crate::args::{EnvironmentArgs, PythonArgs};
use crate::terminal::Console;
use cellblock::SessionOptions;
use std::path::{Path, PathBuf};

/// A notebook that would be run.
#[expect(dead_code, reason = "notebooks are not run in this program")]
pub(crate) struct NotebookFile<'a> {
    pub(crate) path: &'a Path,
    pub(crate) options: SessionOptions,
    pub(crate) python: &'a PythonArgs,
    pub(crate) environment: &'a EnvironmentArgs,
}

/// Whether a file is a notebook, by its name.
pub(crate) fn is_notebook(path: Option<&PathBuf>) -> bool {
    path.is_some_and(|path| path.extension().is_some_and(|ending| ending == "ipynb"))
}

impl NotebookFile<'_> {
    /// Says how to get a program that runs notebooks.
    pub(crate) async fn run(self, _console: &Console) -> anyhow::Result<u8> {
        Err(built_without("Jupyter, which runs notebooks"))
    }
}
