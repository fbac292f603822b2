//! The files of a session: the watch on them, and their earlier versions.

use crate::Error;
use crate::files::history::{ChangeNotice, FileHistory};
use crate::files::preserve;
use crate::files::shared_history::SharedHistory;
use crate::files::tracker::Tracker;
use crate::files::watch::Watcher;
use crate::files::workspace::Workspace;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::task::JoinHandle;

/// The files of a session, and how they are looked after.
pub(crate) struct WatchedFiles {
    pub(crate) tracker: Tracker,
    /// Of the session's temporary directory, where that is one of the host's.
    pub(crate) temporary: Option<Tracker>,
    pub(crate) history: SharedHistory,
    /// The time when the files were first looked at, if there were any.
    since: Option<SystemTime>,
    pub(crate) preserve_task: Option<JoinHandle<()>>,
}

impl WatchedFiles {
    /// Looks at what is in a workspace, and watches it from now on. One with programs that code must not rewrite is refused.
    pub(crate) async fn watch(
        workspace: &Arc<Workspace>,
        watcher: &Arc<Watcher>,
        directory: &Path,
        limit: u64,
        change_notice: ChangeNotice,
    ) -> Result<WatchedFiles, Error> {
        let (workspace, watcher, store) = (
            Arc::clone(workspace),
            Arc::clone(watcher),
            directory.join("files"),
        );
        let files = tokio::task::spawn_blocking(move || {
            let tracker = Tracker::new(Arc::clone(&workspace), &watcher);
            workspace.refuse_set_id_programs(tracker.known())?;
            let history = FileHistory::new(workspace, store, limit, tracker.known(), change_notice);
            Ok(WatchedFiles {
                since: (!tracker.known().is_empty()).then(SystemTime::now),
                tracker,
                temporary: None,
                history: SharedHistory::new(history),
                preserve_task: None,
            })
        });
        files.await.unwrap_or_else(|error| {
            Err(Error::System {
                what: "watching the workspace",
                source: std::io::Error::other(error),
            })
        })
    }

    /// Watches the session's temporary directory as well, which counts as its files do.
    pub(crate) fn watch_temporary(
        &mut self,
        path: &Path,
        watcher: &Arc<Watcher>,
    ) -> Result<(), Error> {
        let workspace = Arc::new(Workspace::temporary(path)?);
        self.temporary = Some(Tracker::new(workspace, watcher));
        Ok(())
    }

    /// Init asks on this socket before it lets code change what was there.
    pub(crate) fn serve_preserve_requests(&mut self, socket: OwnedFd) -> Result<(), Error> {
        let history = self.history.clone();
        self.preserve_task = Some(preserve::serve(socket, history, self.since)?);
        Ok(())
    }

    /// Ends once no task has them any more: their store is where that of others will be.
    pub(crate) async fn give_up(mut self) {
        if let Some(preserve_task) = self.preserve_task.take() {
            preserve_task.abort();
            let _ = preserve_task.await;
        }
    }
}
