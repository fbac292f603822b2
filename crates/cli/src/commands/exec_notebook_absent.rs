//! `cellblock exec notebook.ipynb` in a program that was built without Jupyter.

use super::exec::NotebookFile;
use crate::failure::built_without;
use crate::terminal::Console;

impl NotebookFile<'_> {
    /// Says how to get a program that runs notebooks.
    pub(crate) async fn run(self, _console: &Console) -> anyhow::Result<u8> {
        Err(built_without("Jupyter, which runs notebooks"))
    }
}
