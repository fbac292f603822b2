//! The first checkpoint of a session, which needs no standby: as long as nothing was done in it, a new one is as good.

use crate::actor::Actor;
use crate::files::preserve;
use crate::spawn::Spawned;
use crate::spawn::fork::Lineage;
use crate::spawn::process_host::ProcessHost;
use cellblock_protocol::Strategy;
use std::sync::Arc;
use std::time::SystemTime;

impl Actor {
    /// Whether nothing was done yet that new processes would not have. Seeds, tools and setup code count as something.
    pub(crate) fn can_start_anew(&self) -> bool {
        let has_view = |runtime: &Arc<crate::runtime::RuntimeState>| runtime.has_view();
        self.checkpoints.is_untouched()
            && self.checkpoints.standbys.is_empty()
            && self.options.strategy != Strategy::Direct
            && self.options.setup.is_none()
            && self.options.network.is_empty()
            && !self.placement.lineage.is_forked()
            && !self.shared.workspace.is_user_directory()
            && matches!(self.placement.process_host, ProcessHost::Zygote(_))
            && self
                .placement
                .lineage
                .runtime
                .as_ref()
                .is_some_and(has_view)
    }

    /// Ends all processes of the session, and goes on with new ones. Forks of it stay.
    pub(crate) async fn start_anew(&mut self) -> Option<()> {
        let runtime = self.placement.lineage.runtime.clone()?;
        self.end_processes().await;
        self.end_preserve_task().await;
        self.checkpoints.taken_back.clear();
        if self.placement.lineage.has_relatives() {
            // The new init knows nothing of what is shared with them.
            runtime.share_nothing(&self.shared.workspace).await.ok()?;
        }
        // Its last cgroup may still be there, for forks of the session are.
        let id = format!("{}-again-{}", self.shared.id, self.cells.last_number);
        let shared = &self.shared;
        let spawned =
            runtime.spawn_processes(&id, &self.options, &shared.workspace, self.directory.path());
        let Spawned {
            session,
            zygote,
            user,
        } = spawned.await.ok()?;
        if let Some(socket) = session.preserve_socket {
            // For the new processes, all that is there was there before them.
            let begun = Some(SystemTime::now());
            self.files.preserve_task =
                Some(preserve::serve(socket, self.files.history.clone(), begun).ok()?);
        }
        self.head.channel = session.channel;
        self.init = session.init;
        self.head.pipes = session.pipes;
        self.placement.cgroup = session.cgroup;
        self.files.disk.move_to(session.processes);
        self.checkpoints.head = session.head;
        self.placement.process_host = ProcessHost::Zygote(zygote);
        self.placement.lineage = Lineage::first(user);
        self.placement.lineage.runtime = Some(runtime);
        Some(())
    }
}
