//! Where a journal begins: with a session that is being opened.

use super::record::{Opened, PythonUsed, VERSION};
use super::recorder::Recorder;
use crate::actor::Actor;
use crate::events::SessionEvents;
use crate::runtime::RuntimeState;
use cellblock_protocol::{Journaling, SessionOptions};
use std::path::Path;

impl RuntimeState {
    /// The journal that the options ask for. A session that then fails to open leaves none.
    pub(crate) fn begin_journal(
        &self,
        actor: &Actor,
        options: &SessionOptions,
        logs: &SessionEvents,
    ) -> Recorder {
        let python = self.python();
        let used = PythonUsed {
            executable: python.executable.clone(),
            version: actor.placement.process_host.python(),
            packages: python.packages,
        };
        begin(&self.state, used, actor, options, logs)
    }
}

/// The same for any session: `state` is where journals are kept, unless the options say otherwise.
pub(crate) fn begin(
    state: &Path,
    python: PythonUsed,
    actor: &Actor,
    options: &SessionOptions,
    logs: &SessionEvents,
) -> Recorder {
    let directory = match &options.journal {
        Journaling::HostsChoice | Journaling::Off => return Recorder::default(),
        Journaling::On => state.join("journals"),
        Journaling::In(directory) => directory.clone(),
    };
    let opened = Opened {
        version: VERSION,
        cellblock: env!("CARGO_PKG_VERSION").to_owned(),
        session: options.session.clone().unwrap_or_default(),
        options: SessionOptions {
            journal: Journaling::HostsChoice,
            ..options.clone()
        },
        workspace: actor.shared.workspace.path().to_owned(),
        workspace_was_empty: actor.files.disk.began_empty(),
        python,
        isolation: actor.placement.isolation.clone(),
        pid: std::process::id(),
    };
    Recorder::open(&directory, opened, logs)
}
