//! The making of the default environment beside other work.

use crate::terminal::EnvironmentBar;
use cellblock::Packages;
use cellblock::env::{
    self, Cancel, CancelOnDrop, Environment, EnvironmentStatus, Interpreter, Requirements, Search,
};
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// An environment that is being made. Dropping this stops it and leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Making {
    task: JoinHandle<Result<Environment, env::Error>>,
    cancel: CancelOnDrop,
}

impl Making {
    /// Begins on a thread of its own.
    pub(crate) fn start(
        interpreter: Interpreter,
        bar: Arc<EnvironmentBar>,
    ) -> Result<Making, cellblock::Error> {
        let environments = Packages::from_process()?.environments().clone();
        let cancel = Cancel::new();
        let guard = cancel.on_drop();
        let task = tokio::task::spawn_blocking(move || {
            let wanted = Requirements::default_set();
            environments.make(&interpreter, &wanted, &cancel, &mut |progress| {
                bar.report(&progress);
            })
        });
        Ok(Making {
            task,
            cancel: guard,
        })
    }

    /// Waits for it.
    pub(crate) async fn finish(&mut self) -> anyhow::Result<Environment> {
        Ok((&mut self.task).await??)
    }

    /// Stops it, and waits until nothing half-made is left.
    pub(crate) async fn stop(self) {
        drop(self.cancel);
        let _ = self.task.await;
    }
}

/// The interpreter that was asked for, or the first good one.
pub(crate) fn find_interpreter(wanted: Option<&Path>) -> Result<Interpreter, env::Error> {
    let search = Search::from_process()?;
    match wanted {
        Some(path) => search.explicit(path).find(),
        None => search.find(),
    }
}

/// The default environment, when it is ready.
pub(crate) fn ready_environment(
    interpreter: &Interpreter,
) -> Result<Option<Environment>, env::Error> {
    Ok(match env::default_environment_status(interpreter)? {
        EnvironmentStatus::Ready(environment) => Some(*environment),
        EnvironmentStatus::Missing | EnvironmentStatus::Building => None,
    })
}
