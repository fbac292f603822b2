//! The place of a session's processes: below a launcher of this host's, or in a container.

use crate::container::RunningContainer;
use crate::container::running::ConsoleLog;
use crate::spawn::zygote::Zygote;
use crate::{Error, ForkRefusal};
use cellblock_protocol::Backend;
use std::sync::Arc;

/// The zygote or the container of a session's processes, for as long as the session lives.
#[derive(Debug)]
pub(crate) enum ProcessHost {
    /// Behind the walls of this machine's kernel. The launcher lives as long as a session of it lives.
    Zygote(Arc<Zygote>),
    /// In a container.
    Container(RunningContainer),
}

impl ProcessHost {
    pub(crate) fn backend(&self) -> Backend {
        match self {
            ProcessHost::Zygote(_) => Backend::Local,
            ProcessHost::Container(_) => Backend::Docker,
        }
    }

    /// The zygote, which forks and mounts need.
    pub(crate) fn zygote(&self) -> Result<&Arc<Zygote>, Error> {
        match self {
            ProcessHost::Zygote(zygote) => Ok(zygote),
            ProcessHost::Container(_) => Err(ForkRefusal::InContainer.into()),
        }
    }

    /// The process host of a fork of the session.
    pub(crate) fn for_fork(&self) -> Result<ProcessHost, Error> {
        Ok(ProcessHost::Zygote(Arc::clone(self.zygote()?)))
    }

    /// The version of Python, where it is known.
    pub(crate) fn python(&self) -> String {
        match self {
            ProcessHost::Zygote(zygote) => zygote.ready.python.clone(),
            ProcessHost::Container(_) => String::new(),
        }
    }

    /// Why there can be no checkpoints, where that is so.
    pub(crate) fn why_no_checkpoints(&self) -> Option<&'static str> {
        match self {
            ProcessHost::Zygote(_) => None,
            ProcessHost::Container(_) => Some(
                "the session lives in a container, where no copy of its process can be kept safe from its code",
            ),
        }
    }

    /// The log of what cells print.
    pub(crate) fn console_log(&self) -> ConsoleLog {
        match self {
            ProcessHost::Zygote(_) => ConsoleLog::default(),
            ProcessHost::Container(container) => container.console_log.clone(),
        }
    }

    /// Why init is gone.
    pub(crate) async fn why_lost(&self) -> String {
        match self {
            ProcessHost::Zygote(_) => "its init process died".to_owned(),
            ProcessHost::Container(container) => container.why_lost().await,
        }
    }

    /// Waits until nothing of it is left.
    pub(crate) async fn end(&mut self) {
        if let ProcessHost::Container(container) = self {
            container.end().await;
        }
    }
}
