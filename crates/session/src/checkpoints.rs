//! The standbys of a session: frozen copies of its head, from the oldest that `undo` can reach to the newest.

use crate::Error;
use crate::actor::Actor;
use crate::channel::Channel;
use crate::file_history::FileHistory;
use crate::tracker::Changes;
use cellblock_protocol::guest::{Armed, FromHead, ToHead};
use cellblock_protocol::{Arming, CheckpointEntry, CheckpointState, FileChanges, Strategy};
use cellblock_sandbox::{FromInit, ToInit, stream_pair};
use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, timeout};

/// A new request wins over arming: it starts after this much quiet.
pub(crate) const QUIET: Duration = Duration::from_millis(2);
/// Copying the page tables of gigabytes takes half a second, and more where others compute too.
const ARM_LIMIT: Duration = Duration::from_secs(5);
/// A standby only has to return from one system call.
const WAKE_LIMIT: Duration = Duration::from_secs(5);

/// What our own processes of a session take beyond the user's data: page tables, and pages written since the fork.
pub(crate) const OWN_MEMORY: u64 = 64 << 20;

/// One standby.
#[derive(Debug)]
struct Standby {
    pid: u32,
    /// The host's end of the channel that it will speak on.
    channel: OwnedFd,
    /// The last cell whose effects it has; 0 for none.
    cell: u64,
    /// The state was the same after every cell from this one on: the others changed nothing.
    since: u64,
    /// What changed the state between cells: seeds, tools, a reset.
    revision: u64,
    at: SystemTime,
    /// Bytes that the head held of its own, and pages it had touched, when this was made.
    resident: u64,
    faults: u64,
}

impl Standby {
    /// Whether it has the state after this cell.
    fn is_after(&self, cell: u64) -> bool {
        (self.since..=self.cell).contains(&cell)
    }
}

/// A session that went back.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The cell after which the state is.
    pub(crate) cell: u64,
    /// What that did to the files. It was ours to do, and counts as nobody's change.
    pub(crate) files: FileChanges,
    /// Files that could not be put back.
    pub(crate) not_restored: Vec<String>,
}

/// What there is to go back to.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    standbys: VecDeque<Standby>,
    /// The cells whose effects the head has, oldest first.
    kept: Vec<u64>,
    /// The first cell after which the state was the head's.
    since: u64,
    revision: u64,
    /// Why the newest state has no standby, where one was tried.
    obstacle: Option<String>,
    /// When to make one, if nothing comes in between.
    due: Option<Instant>,
    /// The strategy makes none.
    pub(crate) never: bool,
    /// The head's process id inside, in init's word.
    head: u32,
    /// How many were made since their memory was last weighed.
    unweighed: u32,
}

impl Checkpoints {
    /// None yet, for the head with this process id inside.
    pub(crate) fn new(head: u32) -> Checkpoints {
        Checkpoints {
            head,
            ..Checkpoints::default()
        }
    }

    /// A cell's effects stay.
    pub(crate) fn keep(&mut self, cell: u64, pure: bool) {
        // A copy from before a cell that changed nothing is as good as one from after.
        if pure
            && self.is_armed()
            && let Some(newest) = self.standbys.back_mut()
        {
            newest.cell = cell;
        } else {
            self.since = cell;
        }
        // Setup code is cell 0: it is where taking back ends.
        if cell > 0 {
            self.kept.push(cell);
        }
        self.plan();
    }

    /// The cell after which the head's state is.
    pub(crate) fn current(&self) -> u64 {
        self.kept.last().copied().unwrap_or(0)
    }

    /// The head's state is that of the newest standby.
    pub(crate) fn is_armed(&self) -> bool {
        let is_newest =
            |standby: &Standby| standby.cell == self.current() && standby.revision == self.revision;
        self.standbys.back().is_some_and(is_newest)
    }

    /// Whether the state is that after earlier cells too, which will not be so once something changes it.
    pub(crate) fn is_of_several_cells(&self) -> bool {
        self.since < self.current()
    }

    /// Whether a standby has the state after this cell.
    fn reach(&self, cell: u64) -> bool {
        self.standbys.iter().any(|standby| standby.is_after(cell))
    }

    /// Something other than a cell changed the state.
    pub(crate) fn revise(&mut self) {
        self.revision += 1;
        self.since = self.current();
        self.plan();
    }

    /// When the next standby is to be made.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Makes a standby soon, if the newest state has none.
    pub(crate) fn plan(&mut self) {
        self.obstacle = None;
        self.due = if self.is_armed() || self.never {
            None
        } else {
            Some(Instant::now() + QUIET)
        };
    }

    /// A standby died by itself.
    pub(crate) fn lose(&mut self, pid: u32) {
        self.standbys.retain(|standby| standby.pid != pid);
        self.plan();
    }

    /// The safety net that a cell would have now.
    pub(crate) fn state(&self) -> CheckpointState {
        if self.is_armed() {
            return CheckpointState::armed();
        }
        let reason = self.obstacle.clone();
        match self.standbys.back() {
            Some(newest) => {
                let behind = self.kept.iter().filter(|cell| **cell > newest.cell).count() as u64;
                CheckpointState::behind(
                    behind,
                    reason.unwrap_or_else(|| "the newest checkpoint is not made yet".to_owned()),
                )
            }
            None => CheckpointState::unavailable(
                reason.unwrap_or_else(|| "no checkpoint is made yet".to_owned()),
            ),
        }
    }

    /// What can be gone back to, newest first.
    pub(crate) fn entries(&self) -> Vec<CheckpointEntry> {
        let seconds = |at: SystemTime| {
            at.duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs_f64()
        };
        self.standbys
            .iter()
            .rev()
            .map(|standby| CheckpointEntry {
                cell: standby.cell,
                at: seconds(standby.at),
                bytes: self.alone(standby),
            })
            .collect()
    }

    /// Bytes that a standby holds and nobody else, as far as that can be told: pages that the head wrote to or gave back until the
    /// next standby was made. The newest shares everything with the head.
    fn alone(&self, standby: &Standby) -> u64 {
        const PAGE: u64 = 4096;
        let next = self.standbys.iter().find(|other| other.at > standby.at);
        next.map_or(0, |next| {
            let written = next.faults.saturating_sub(standby.faults) * PAGE;
            written
                .min(standby.resident)
                .max(standby.resident.saturating_sub(next.resident))
        })
    }

    /// Makes room for a standby of the newest state: one for each cell is enough, for only the newest state after it can be gone
    /// back to. Returns the one that is not needed any more.
    fn replace_newest(&mut self) -> Option<Standby> {
        let (cell, since, before) = (self.current(), self.since, self.before(1));
        let newest = self
            .standbys
            .back_mut()
            .filter(|newest| newest.cell == cell)?;
        if newest.since >= since {
            return self.standbys.pop_back();
        }
        // It is still what was there after the cells before.
        newest.cell = before.unwrap_or(0);
        None
    }

    /// The cell after which the state is once `count` kept cells are taken back.
    fn before(&self, count: usize) -> Option<u64> {
        match self.kept.len().checked_sub(count)? {
            0 => Some(0),
            left => self.kept.get(left - 1).copied(),
        }
    }
}

impl Actor {
    /// Makes sure that the newest state has a standby, or a reason why not.
    pub(crate) async fn arm(&mut self) {
        self.arm_for(false).await;
    }

    async fn arm_for(&mut self, hurry: bool) {
        self.checkpoints.due = None;
        if self.checkpoints.is_armed() || self.checkpoints.obstacle.is_some() {
            return;
        }
        if self.options.strategy == Strategy::Direct {
            self.checkpoints.obstacle = Some("the strategy `direct` makes none".to_owned());
            return;
        }
        self.copy_files().await;
        if let Err(reason) = self.make_standby(hurry).await {
            self.checkpoints.obstacle = Some(reason);
        }
    }

    /// What must be there before a cell may start.
    pub(crate) async fn arm_before_cell(&mut self) {
        if self.options.arming == Arming::Strict {
            // What stood in the way may be over: a thread that has ended.
            self.checkpoints.obstacle = None;
            self.arm_for(true).await;
        }
    }

    /// Copies what the last cells changed, so that the checkpoint has its files.
    pub(crate) async fn copy_files(&mut self) {
        if self.history.lock().is_ok_and(|history| history.is_behind()) {
            self.with_history(FileHistory::catch_up).await;
        }
    }

    /// Copying gigabytes must not hold up other sessions.
    async fn with_history<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut FileHistory) -> T + Send + 'static,
    ) -> Option<T> {
        let history = Arc::clone(&self.history);
        let task = tokio::task::spawn_blocking(move || {
            history.lock().ok().map(|mut history| work(&mut history))
        });
        task.await.ok().flatten()
    }

    async fn make_standby(&mut self, hurry: bool) -> Result<(), String> {
        self.questions += 1;
        let seq = self.questions;
        let (channel, far) = stream_pair().map_err(|error| error.to_string())?;
        let exchange = async {
            let request = ToHead::Arm { seq, hurry };
            self.channel.send_with(&request, Some(far.as_fd())).await?;
            self.answer_to(seq).await
        };
        let reply = match timeout(ARM_LIMIT, exchange).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => return Err("the head is gone".to_owned()),
            Err(_) => return Err("the head did not make a copy of itself in time".to_owned()),
        };
        let Armed {
            pid,
            resident,
            faults,
        } = reply.armed().map_err(|error| error.to_string())??;
        self.protect(pid).await?;
        if let Some(old) = self.checkpoints.replace_newest() {
            let _ = self.init.send(&ToInit::Drop(old.pid).to_bytes(), &[]).await;
        }
        self.checkpoints.standbys.push_back(Standby {
            pid,
            channel,
            cell: self.checkpoints.current(),
            since: self.checkpoints.since,
            revision: self.checkpoints.revision,
            at: SystemTime::now(),
            resident,
            faults,
        });
        self.trim(hurry).await;
        Ok(())
    }

    async fn protect(&mut self, pid: u32) -> Result<(), String> {
        let lost = "init is gone";
        self.init
            .send(&ToInit::Protect(pid).to_bytes(), &[])
            .await
            .map_err(|_| lost)?;
        loop {
            let packet = self.init.receive().await.map_err(|_| lost)?;
            match FromInit::from_bytes(&packet.bytes) {
                Ok(FromInit::Protected { pid: which, done }) if which == pid => {
                    return if done {
                        Ok(())
                    } else {
                        Err("the copy is not init's child".to_owned())
                    };
                }
                Ok(FromInit::Lost { pid }) => self.checkpoints.lose(pid),
                Ok(FromInit::Ended(death)) => {
                    self.ended = Some(death);
                    return Err("the head is gone".to_owned());
                }
                _ => {}
            }
        }
    }

    /// The newest, and as many older ones as the limits allow.
    async fn trim(&mut self, hurry: bool) {
        let most = usize::try_from(self.options.limits.checkpoints)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        while self.checkpoints.standbys.len() > most {
            self.drop_oldest().await;
        }
        while self.checkpoints.standbys.len() > 1 && self.history_is_too_large(hurry).await {
            self.drop_oldest().await;
            // Its memory is free when it has gone.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.forget_old_files();
        // Copies of files are new data on disk as well.
        while self.checkpoints.standbys.len() > 1
            && self.earlier_file_bytes() > self.options.limits.disk
        {
            self.drop_oldest().await;
            self.forget_old_files();
        }
    }

    /// Whether a cell that does next to nothing might be the one too many.
    fn is_short_of_memory(&self) -> bool {
        let cgroup = self.cgroup.as_ref();
        cgroup.is_some_and(|cgroup| cgroup.is_short_of(OWN_MEMORY / 2))
    }

    /// Whether older standbys hold more than their budget: in the kernel's word, or by an estimate while someone waits.
    async fn history_is_too_large(&mut self, hurry: bool) -> bool {
        /// The estimate rests on what the head says. So it is not trusted for long.
        const MOST_UNWEIGHED: u32 = 4;
        let budget = self.options.limits.checkpoint_budget();
        let standbys = &self.checkpoints.standbys;
        if let Some(used) = self.cgroup.as_ref().and_then(|cgroup| cgroup.memory_used()) {
            let head = standbys.back().map_or(0, |newest| newest.resident);
            return used.saturating_sub(head) > budget + OWN_MEMORY || self.is_short_of_memory();
        }
        let estimate: u64 = standbys
            .iter()
            .map(|standby| self.checkpoints.alone(standby))
            .sum();
        self.checkpoints.unweighed += 1;
        if estimate > budget || (hurry && self.checkpoints.unweighed < MOST_UNWEIGHED) {
            return estimate > budget;
        }
        self.checkpoints.unweighed = 0;
        let held = self.disk.memory_beyond(self.checkpoints.head).await;
        held.is_some_and(|bytes| bytes > budget + OWN_MEMORY)
    }

    fn forget_old_files(&self) {
        if let (Some(oldest), Ok(mut history)) =
            (self.checkpoints.standbys.front(), self.history.lock())
        {
            history.forget_before(oldest.since);
        }
    }

    fn earlier_file_bytes(&self) -> u64 {
        self.history
            .lock()
            .map_or(0, |history| history.earlier_bytes())
    }

    async fn drop_oldest(&mut self) {
        if let Some(standby) = self.checkpoints.standbys.pop_front() {
            let _ = self
                .init
                .send(&ToInit::Drop(standby.pid).to_bytes(), &[])
                .await;
        }
    }

    /// Wakes the newest standby that answers, and puts its files back before it is asked for anything. The head must be gone.
    ///
    /// The files come second: where nobody wakes, the session is over, and what its cells wrote is the user's.
    pub(crate) async fn recover(&mut self, dirty: Changes) -> Option<Recovered> {
        let expected = self.checkpoints.current();
        // A head that died for want of memory would die again if nobody made room.
        while self.checkpoints.standbys.len() > 1 && self.is_short_of_memory() {
            self.drop_oldest().await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        while let Some(standby) = self.checkpoints.standbys.pop_back() {
            let Standby {
                pid,
                since,
                revision,
                ..
            } = standby;
            let cell = standby.cell.min(expected);
            if let Some(channel) = self.wake(standby).await {
                let put_back = self.with_history(move |history| history.go_back(cell, dirty));
                let mut not_restored = put_back.await.unwrap_or_default();
                let files = self.disk.changes().await.files;
                self.channel = channel;
                self.spent_ms = 0.0;
                self.checkpoints.head = pid;
                self.checkpoints.kept.retain(|kept| *kept <= cell);
                self.checkpoints.revision = revision;
                self.checkpoints.since = since;
                if cell < expected {
                    not_restored.push(format!("the effects of the cells after {cell}: no later checkpoint was there to be woken"));
                }
                self.checkpoints.plan();
                return Some(Recovered {
                    cell,
                    files,
                    not_restored,
                });
            }
        }
        None
    }

    /// Goes back `count` kept cells.
    pub(crate) async fn go_back(&mut self, count: usize) -> Result<Recovered, Error> {
        self.arm().await;
        let reachable = || {
            self.checkpoints
                .standbys
                .front()
                .map(|standby| standby.since)
        };
        let session = self.shared.id.clone();
        let nobody = || Error::Ended {
            session: session.clone(),
            reason: "no checkpoint could be woken".to_owned(),
        };
        let lost = |cell: u64| {
            format!("the checkpoint after cell {cell} is not there any more: its process has ended")
        };
        let target = self.checkpoints.before(count);
        let there = target.is_some_and(|target| self.checkpoints.reach(target));
        let Some(target) = target.filter(|_| there) else {
            let message = match (target, reachable()) {
                (None, _) => format!(
                    "there are only {} cells to take back{}",
                    self.checkpoints.kept.len(),
                    if self.lineage.is_forked() {
                        " since the session was forked from another"
                    } else {
                        ""
                    }
                ),
                (Some(target), Some(oldest)) if oldest <= target => lost(target),
                (_, Some(oldest)) => format!(
                    "the history does not reach that far: the oldest checkpoint is the one after cell {oldest}"
                ),
                (_, None) => {
                    let why = self.checkpoints.obstacle.clone().unwrap_or_default();
                    format!("there is no checkpoint to go back to: {why}")
                }
            };
            return Err(Error::NotFound(message));
        };
        self.end_head().await;
        // News of a standby that died may have come only now. Then the newest goes on, and nothing was taken back.
        if !self.checkpoints.reach(target) {
            self.recover(Changes::default()).await.ok_or_else(nobody)?;
            // The newest may be gone as well.
            self.announce_restored();
            return Err(Error::NotFound(lost(target)));
        }
        while let Some(newest) = self
            .checkpoints
            .standbys
            .back()
            .filter(|standby| !standby.is_after(target))
        {
            let _ = self
                .init
                .send(&ToInit::Drop(newest.pid).to_bytes(), &[])
                .await;
            self.checkpoints.standbys.pop_back();
        }
        self.checkpoints.kept.retain(|kept| *kept <= target);
        let recovered = self.recover(Changes::default()).await;
        recovered.ok_or_else(nobody)
    }

    async fn wake(&mut self, standby: Standby) -> Option<Channel> {
        let Standby { pid, channel, .. } = standby;
        let mut channel = Channel::new(channel).ok()?;
        self.init
            .send(&ToInit::Wake(pid).to_bytes(), &[])
            .await
            .ok()?;
        let woken = async {
            loop {
                let packet = self.init.receive().await.ok()?;
                match FromInit::from_bytes(&packet.bytes) {
                    Ok(FromInit::Woken { pid: which, done }) if which == pid => {
                        return done.then_some(());
                    }
                    Ok(FromInit::Lost { pid }) => self.checkpoints.lose(pid),
                    _ => {}
                }
            }
        };
        timeout(WAKE_LIMIT, woken).await.ok()??;
        let up = async {
            loop {
                if let FromHead::Ready { .. } = channel.receive().await.ok()? {
                    return Some(());
                }
            }
        };
        match timeout(WAKE_LIMIT, up).await {
            Ok(Some(())) => Some(channel),
            _ => {
                // Alive but silent, or dead again: either way it is no head.
                self.end_head().await;
                None
            }
        }
    }
}
