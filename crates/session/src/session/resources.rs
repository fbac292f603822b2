//! What a session uses of the machine.

use crate::{Error, Refusal, Session};
use std::time::Duration;

/// What the processes of a session use: Python, its checkpoints and what code started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceUse {
    /// Bytes of memory. Pages that several processes share count once.
    pub memory: u64,
    /// How long processors have worked for the processes that live.
    pub processor_time: Duration,
}

impl Session {
    /// What the session uses now. It is asked of the kernel, process by process, and can be asked while a cell runs.
    ///
    /// Refused where the processes cannot be found: those of a container may be on another machine.
    pub async fn resources(&self) -> Result<ResourceUse, Error> {
        let Some(processes) = self.ask_for_processes().await? else {
            return Err(Refusal::ProcessesNotFound.into());
        };
        let look = tokio::task::spawn_blocking(move || ResourceUse {
            memory: processes.memory().unwrap_or(0),
            processor_time: processes.processor_time(),
        });
        look.await
            .map_err(|error| Error::system("looking at the session")(std::io::Error::other(error)))
    }
}
