//! The state in which nothing was done yet. It needs no standby: to go back to it, the session's processes are made anew.

use crate::actor::Actor;
use crate::files::preserve;
use crate::live::LiveSession;
use crate::spawn::Spawned;
use crate::spawn::fork::Lineage;
use crate::spawn::process_host::ProcessHost;
use cellblock_protocol::ProcessStatus;
use std::time::SystemTime;

impl Actor {
    /// Whether nothing was done yet that new processes would not have. Seeds, tools and setup code count as something.
    pub(super) fn can_start_anew(&self) -> bool {
        self.live.checkpoints.is_untouched()
            && self.live.checkpoints.standbys.is_empty()
            && !self.live.base.processes.has_living()
            && !self.live.checkpoints.is_disabled()
            && self.options.setup.is_none()
            && !self.options.has_network()
            && !self.live.placement.lineage.is_forked()
            && !self.live.base.workspace.is_user_directory()
            && self
                .runtime
                .as_ref()
                .is_some_and(|runtime| runtime.has_view())
    }

    /// Ends all processes of the session, and goes on with new ones. Forks of it stay.
    pub(super) async fn start_anew(&mut self) -> Option<()> {
        let (runtime, live) = (self.runtime.as_ref()?, &mut self.live);
        live.base.processes.expect_end(ProcessStatus::TakenBack);
        live.end_processes().await;
        live.files.end_preserve_task().await;
        live.checkpoints.taken_back.clear();
        let workspace = &live.base.workspace;
        if live.placement.lineage.has_family() {
            // The new init knows nothing of what is shared with them.
            runtime.share_nothing(workspace).await.ok()?;
        }
        // Its last cgroup may still be there, for forks of the session are.
        let id = format!("{}-again-{}", self.shared.id, self.cells.last_number);
        let directory = live.directory.path();
        let spawned = runtime.spawn_processes(&id, &self.options, workspace, directory);
        let spawned = spawned.await.ok()?;
        live.go_on_with(spawned)
    }
}

impl LiveSession {
    /// The state needs no standby, and steps lead on from it.
    pub(super) fn begin_at_origin(&mut self) {
        self.checkpoints.begin_at_origin();
        self.checkpoints.begin_steps();
    }

    /// Takes new processes in the place of those that ended.
    fn go_on_with(&mut self, spawned: Spawned) -> Option<()> {
        let Spawned {
            session,
            zygote,
            user,
        } = spawned;
        if let Some(socket) = session.preserve_socket {
            // For the new processes, all that is there was there before them.
            let begun = Some(SystemTime::now());
            let history = self.files.history.clone();
            self.files.preserve_task = Some(preserve::serve(socket, history, begun).ok()?);
        }
        self.head.channel = session.channel;
        self.init = session.init;
        self.head.pipes = session.pipes;
        self.placement.cgroup = session.cgroup;
        self.placement.spawn_request = session.spawn_request;
        self.files.disk.move_to(session.processes);
        self.checkpoints.head = session.head;
        self.placement.process_host = ProcessHost::Zygote(zygote);
        self.placement.lineage = Lineage::first(user);
        Some(())
    }
}
