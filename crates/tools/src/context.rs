//! What a tool knows of the call that it answers.

use crate::{Caller, Happening, RanCell, ToolError, Watcher, Workbench};
use cellblock_protocol::{Cell, CellResult};
use std::fmt;
use std::sync::{Arc, Mutex};

/// Who calls, why, and where.
#[derive(Clone)]
pub struct Context {
    pub(crate) call: Arc<str>,
    pub(crate) caller: Caller,
    pub(crate) purpose: Option<Arc<str>>,
    pub(crate) workbench: Workbench,
    pub(crate) watcher: Option<Watcher>,
    /// Where the result of a cell goes, for a caller that takes it typed.
    pub(crate) results: Option<ResultSlot>,
}

/// Takes the result of a cell from the tool that runs code to its caller.
pub(crate) type ResultSlot = Arc<Mutex<Option<CellResult>>>;

impl Context {
    /// The id of the call.
    pub fn call(&self) -> &str {
        &self.call
    }

    /// Who calls.
    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// Why, where the caller said so.
    pub fn purpose(&self) -> Option<&str> {
        self.purpose.as_deref()
    }

    /// Where the call is made: it has the session, and other tools.
    pub fn workbench(&self) -> &Workbench {
        &self.workbench
    }

    /// What tools keep from call to call of the same run: one value of each type, its default at first.
    pub fn state<T: Default + Send + 'static>(&self) -> Arc<Mutex<T>> {
        self.workbench.state()
    }

    /// Runs a cell in the session of this run; whoever watches this call sees its output as it comes.
    pub async fn run_cell(&self, cell: Cell) -> Result<RanCell, ToolError> {
        self.workbench.run_cell(cell, self.watcher.as_ref()).await
    }

    /// Tells whoever watches this call.
    pub fn tell(&self, happening: Happening) {
        if let Some(watcher) = &self.watcher {
            watcher(happening);
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Context")
            .field("call", &self.call)
            .field("caller", &self.caller)
            .field("purpose", &self.purpose)
            .finish_non_exhaustive()
    }
}
