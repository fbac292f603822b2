//! The default environment, in this process's surroundings.

use crate::{
    Cancel, Environment, Environments, Error, Interpreter, Progress, Requirements, Status,
};

/// The default environment, made if it is not there: [`Environments::make`] with
/// [`Requirements::default_set`].
pub fn default_environment(
    interpreter: &Interpreter,
    cancel: &Cancel,
    report: &mut dyn FnMut(Progress),
) -> Result<Environment, Error> {
    Environments::from_process()?.make(interpreter, &Requirements::default_set(), cancel, report)
}

/// Whether the default environment is there. Never waits, never starts a Python.
pub fn default_environment_status(interpreter: &Interpreter) -> Result<Status, Error> {
    Ok(Environments::from_process()?.status(interpreter, &Requirements::default_set()))
}
