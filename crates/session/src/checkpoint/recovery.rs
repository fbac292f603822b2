//! Going back: when the head has died, or was ended to take cells back. A standby is woken; or, where nothing was done yet in the state to
//! go back to, the session's processes are made anew (`origin.rs`).

use crate::actor::Actor;
use crate::checkpoint::Standby;
use crate::checkpoint::standby_channel::{StandbyChannel, Successor};
use crate::files::disk_guard::WatchTarget;
use crate::files::tracker::Changes;
use crate::live::LiveSession;
use crate::wire::channel::Channel;
use crate::wire::init_link::Wake;
use cellblock_protocol::guest::{FromHead, NamedLosses, Reply, Settled, ToHead};
use cellblock_protocol::{FileChanges, ProcessStatus};
use cellblock_sandbox::{StandbyOrigin, ToInit};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// A standby has to return from one system call, and to fork. On a machine that is overloaded both take seconds, and a standby that is given up
/// loses the newest state.
const WAKE_LIMIT: Duration = Duration::from_secs(30);
/// The same for the standbys after one that did not come up: code may have made them all hang.
const NEXT_WAKE_LIMIT: Duration = Duration::from_secs(5);

/// A session that went back.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The cell after which the state is.
    pub(crate) cell: u64,
    /// The changes of files by the way back. The host made them, so they count as no cell's.
    pub(crate) files: FileChanges,
    /// Files that could not be put back, and what was open.
    pub(crate) not_restored: Vec<String>,
}

impl Recovered {
    /// Whether no file was put back, or should have been.
    fn is_without_files(&self) -> bool {
        self.files.is_empty() && self.not_restored.is_empty()
    }
}

impl Actor {
    /// Finds the newest head that answers, and puts its files back before it is asked for anything. The last one must be gone.
    ///
    /// The files come second: where no standby wakes, the session is over, and what its cells wrote is the user's.
    pub(crate) async fn recover(&mut self, dirty: Changes) -> Option<Recovered> {
        self.guard_disk(WatchTarget::None);
        if self.live.files.disk.hit().is_some() {
            // Whatever fills the disk would go on with it.
            let processes = &self.live.base.processes;
            processes.end_all(ProcessStatus::SessionEnded).await;
        }
        let recovered = self.recover_head(dirty).await;
        self.live.files.disk.forget_hit();
        recovered
    }

    async fn recover_head(&mut self, dirty: Changes) -> Option<Recovered> {
        let expected = self.live.checkpoints.current();
        // A head that died for want of memory would die again if no memory were freed.
        if self.live.is_short_of_memory() {
            self.live.let_go_of_taken_back().await;
        }
        self.live.drop_standbys_while_short_of_memory().await;
        let mut limit = WAKE_LIMIT;
        while let Some(mut standby) = self.live.checkpoints.standbys.pop_back() {
            let cell = standby.cell.min(expected);
            let left_out = standby.shared_memory_left_out();
            let StandbyChannel {
                channel,
                far,
                successor,
            } = standby.channel;
            let channel = Channel::new(channel, far).ok();
            // Before it makes its servers anew: one of these processes may have their addresses.
            let processes = &self.live.base.processes;
            processes.end_younger_than(standby.mark).await;
            if let Some((channel, copy)) = self.live.wake(standby.pid, channel, limit).await {
                self.live.head.channel = channel;
                self.live.checkpoints.head = standby.pid;
                self.live.checkpoints.revision = standby.revision;
                let standby_since = standby.since;
                self.live.checkpoints.since = standby_since;
                standby.cell = cell;
                standby.to_repeat.retain(|again| again.cell <= cell);
                let to_repeat = standby.to_repeat.clone();
                let ended = std::mem::take(&mut standby.children);
                let holds_no_files = standby.holds_no_files;
                let named = std::mem::take(&mut standby.named);
                let left = self.live.accept(copy, successor).await;
                let left_pid = left.as_ref().map(|(pid, _)| *pid);
                if let Some((pid, line)) = left {
                    self.live.checkpoints.add(Standby {
                        pid,
                        channel: line,
                        is_left_behind: true,
                        ..standby
                    });
                }
                let mut recovered = self.go_on_after(cell, dirty).await;
                if holds_no_files
                    && recovered.is_without_files()
                    && !self.live.base.processes.has_living()
                {
                    // The head is what it was when this was looked at.
                    self.live.files.history.lock().held = Some(BTreeSet::new());
                }
                recovered.not_restored.extend(ended.into_iter().map(|name| {
                    format!(
                        "the process {name}: processes that cells started are ended by a restore"
                    )
                }));
                recovered.not_restored.extend(left_out);
                let Settled { lost, named } = self.live.reopen_files(named).await;
                recovered.not_restored.extend(lost);
                let standbys = &mut self.live.checkpoints.standbys;
                if let Some(left) = standbys.back_mut().filter(|it| Some(it.pid) == left_pid) {
                    left.named = named;
                }
                if !to_repeat.is_empty() {
                    recovered.cell = self.live.repeat(standby_since, to_repeat).await;
                }
                return Some(recovered);
            }
            limit = NEXT_WAKE_LIMIT;
        }
        let is_there = self.live.checkpoints.origin.take().is_some() || self.can_start_anew();
        // Where init is gone, with all standbys, the session is over: to begin again would take the files of its cells away.
        if !is_there || expected > 0 && !self.live.has_init().await {
            return None;
        }
        self.start_anew().await?;
        self.live.checkpoints.revision = 0;
        self.live.checkpoints.since = 0;
        Some(self.go_on_after(0, dirty).await)
    }

    /// There is a head with the state after `cell`.
    async fn go_on_after(&mut self, cell: u64, dirty: Changes) -> Recovered {
        let living = self.live.base.processes.describe_living();
        let busy = if living.is_empty() {
            Vec::new()
        } else {
            self.live.files.disk.held_by_spawned().await
        };
        let mut not_restored = self.live.files.history.restore_to(cell, dirty, busy).await;
        not_restored.extend(
            living
                .into_iter()
                .map(|process| format!("{process}: it is older than the checkpoint, and goes on")),
        );
        self.guard_disk(WatchTarget::None);
        self.live.look_for_left_running().await;

        let files = self.live.files.disk.changes().await.files;
        self.live.head.spent_cpu = Duration::ZERO;
        self.live.checkpoints.kept.retain(|kept| *kept <= cell);
        self.live.checkpoints.plan();
        Recovered {
            cell,
            files,
            not_restored,
        }
    }
}

impl LiveSession {
    /// Lets a head that was woken put right what leads to its files, and returns what it could not, without what was `named` before. A head that
    /// does not answer is found out by the next request.
    async fn reopen_files(&mut self, named: NamedLosses) -> Settled {
        const LIMIT: Duration = Duration::from_secs(10);
        let question = self.head.next_question();
        // The pipes are not read meanwhile: the head passes on what was printed of an incomplete line, which belongs to the cell that failed.
        let reopened = async {
            self.head
                .channel
                .send(&ToHead::Settle {
                    seq: question,
                    named,
                })
                .await?;
            loop {
                match self.head.channel.receive().await? {
                    FromHead::Reply(reply) if reply.seq == question => return Ok(reply),
                    stray => self.head.refuse_stray(&self.base.logs, stray).await,
                }
            }
        };
        match timeout(LIMIT, reopened).await {
            Ok(Ok(reply)) => reply
                .settled()
                .unwrap_or_else(|error| not_reopened(&error.to_string())),
            Ok::<std::io::Result<Reply>, _>(Err(_)) => Settled::default(),
            Err(_) => not_reopened("the interpreter did not answer in time"),
        }
    }

    async fn has_init(&self) -> bool {
        const NOBODY: u32 = 0;
        self.init.tell(ToInit::Drop(NOBODY)).await.is_ok()
    }

    /// The copy that a woken standby left, if it did, as a standby of the same state.
    async fn accept(
        &mut self,
        copy: Option<u32>,
        successor: Option<Successor>,
    ) -> Option<(u32, StandbyChannel)> {
        let (pid, successor) = copy.zip(successor)?;
        self.files.disk.expect_descriptors_in(successor.far());
        let line = StandbyChannel::along(successor).ok()?;
        self.protect(pid, StandbyOrigin::WhenWoken).await.ok()?;
        Some((pid, line))
    }

    /// Returns its channel, and the copy of itself that it says to have left.
    async fn wake(
        &mut self,
        pid: u32,
        channel: Option<Channel>,
        limit: Duration,
    ) -> Option<(Channel, Option<u32>)> {
        let mut channel = channel?;
        let woken = timeout(limit, self.init.request(Wake { pid })).await;
        self.note_init_events();
        // An end that was told until now is that of the head before.
        self.head.ended = None;
        if !matches!(woken, Ok(Ok(true))) {
            return None;
        }
        let up = async {
            loop {
                if let FromHead::Ready { standby, .. } = channel.receive().await.ok()? {
                    return Some(standby);
                }
            }
        };
        match timeout(limit, up).await {
            Ok(Some(copy)) => Some((channel, copy)),
            _ => {
                // Alive but silent, or dead again: either way it is no head.
                self.end_head().await;
                None
            }
        }
    }
}

/// What a result says about the open files of a head that was woken, where it did not put them right.
fn not_reopened(problem: &str) -> Settled {
    let line = format!("open files: whether they are as they were is not known ({problem})");
    Settled {
        lost: vec![line],
        ..Settled::default()
    }
}
