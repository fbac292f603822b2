//! What a tool knows of the call that it answers.

use crate::{Caller, Workbench};
use std::sync::{Arc, Mutex};

/// Who calls, why, and where.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) call: Arc<str>,
    pub(crate) caller: Caller,
    pub(crate) purpose: Option<Arc<str>>,
    pub(crate) workbench: Workbench,
}

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
}
