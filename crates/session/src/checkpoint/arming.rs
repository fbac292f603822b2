//! The making of standbys, and the letting go of old ones.

use crate::actor::Actor;
use crate::checkpoint::Standby;
use crate::checkpoint::standby_channel::StandbyChannel;
use crate::files::history::FileHistory;
use crate::live::LiveSession;
use crate::wire::init_link::Protect;
use cellblock_protocol::Arming;
use cellblock_protocol::guest::{Armed, NamedLosses, ToHead};
use cellblock_sandbox::{BootTime, StandbyOrigin, ToInit};
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

/// Copying the page tables of gigabytes takes half a second, and more where others compute too.
const ARM_LIMIT: Duration = Duration::from_secs(5);
/// The bytes that our own processes of a session take beyond the user's data: page tables, and pages written since the fork.
pub(crate) const OWN_MEMORY: u64 = 64 << 20;
/// The bytes that a copy of the head takes at once, beside its page tables: kernel objects, and pages that both write to first.
const COPY_MEMORY: u64 = 8 << 20;
/// The bytes of shared memory in which the guest holds incomplete lines of output.
const HELD_OUTPUT: u64 = 8 << 10;
/// What the guest says where one more copy of the head would be more than the limit allows (`checkpoints.py`).
const TOO_MANY_PROCESSES: &str =
    "there are too many processes and threads for one more copy (raise the limit `processes`)";
/// One entry of a page table for each page.
const PAGE_TABLE_SHARE: u64 = 512;

impl LiveSession {
    /// Makes sure that the newest state has a standby of its own, or a reason why not.
    pub(crate) async fn arm(&mut self) {
        self.prepare_to_arm().await;
        if !self.checkpoints.has_exact_copy() {
            self.arm_for(false).await;
        }
    }

    /// Makes sure that the session can go back to the newest state, or has a reason why not.
    pub(crate) async fn arm_in_haste(&mut self, cell_waits: bool) {
        self.prepare_to_arm().await;
        if !self.checkpoints.is_armed() {
            self.arm_for(cell_waits).await;
        }
    }

    async fn prepare_to_arm(&mut self) {
        self.checkpoints.due = None;
        self.note_memory_from_outside();
        self.let_go_of_taken_back().await;
    }

    /// Makes a standby; `cell_waits` says whether a cell cannot start before.
    async fn arm_for(&mut self, cell_waits: bool) {
        if self.checkpoints.obstacle.is_some() {
            return;
        }
        if let Some(reason) = self.checkpoints.why_disabled {
            self.checkpoints.obstacle = Some(reason.to_owned());
            return;
        }
        self.copy_files().await;
        // While the head copies itself: both take about as long.
        let look = self.files.disk.look_for_held_files();
        let mut made = self.make_standby(cell_waits).await;
        // An older state counts as a process: it is worth less than the newest.
        while made.as_ref().is_err_and(|why| why == TOO_MANY_PROCESSES)
            && self.checkpoints.standbys.len() > 1
        {
            self.drop_oldest_standby().await;
            tokio::time::sleep(Duration::from_millis(2)).await;
            made = self.make_standby(cell_waits).await;
        }
        self.note_held_files(look).await;
        match made {
            Ok(()) => {
                self.count_shared_memory().await;
                self.note_what_newest_holds();
            }
            Err(reason) => self.checkpoints.obstacle = Some(reason),
        }
    }

    /// Whether every file is known that can be changed without being noticed: nothing ran since it was looked.
    pub(crate) fn knows_held_files(&self) -> bool {
        self.checkpoints.is_armed()
            && self.files.history.lock().held.is_some()
            && !self.files.is_left_running
            && !self.base.processes.has_living()
    }

    fn note_what_newest_holds(&mut self) {
        let holds_no_files = self.knows_held_files() && self.files.history.lock().holds_none();
        if let Some(newest) = self.checkpoints.standbys.back_mut() {
            newest.holds_no_files = holds_no_files;
        }
    }

    /// Finds out how much shared memory stays as it is when the newest standby is woken, if the head could not tell.
    async fn count_shared_memory(&mut self) {
        let Some(newest) = self.checkpoints.standbys.back_mut() else {
            return;
        };
        if newest.left_out == Armed::LEFT_OUT_UNKNOWN {
            let mapped = self.files.disk.nameless_memory().await;
            // The head shares so much with its copies for itself.
            newest.left_out = mapped.saturating_sub(HELD_OUTPUT);
        }
    }

    /// What the host wrote to `/dev/shm` is not a cell's: the next checkpoint has it.
    fn note_memory_from_outside(&mut self) {
        let written = &self.base.has_written_to_memory;
        if written.swap(false, Ordering::SeqCst) {
            self.checkpoints.revise();
            self.checkpoints.due = None;
        }
    }

    /// Copies what the last cells changed, so that the checkpoint has its files.
    pub(crate) async fn copy_files(&mut self) {
        if self.files.history.lock().is_behind() {
            // If the host fails at it, that is such a reason as well.
            let _ = self.files.history.with(FileHistory::catch_up).await;
        }
        self.checkpoints.unrestorable_reason = self.files.history.lock().unrestorable_reason();
    }

    async fn make_standby(&mut self, cell_waits: bool) -> Result<(), String> {
        self.make_room_for_copy().await?;
        let seq = self.head.next_question();
        let (line, far) = StandbyChannel::new().map_err(|error| error.to_string())?;
        self.files.disk.expect_descriptors_in(line.far);
        let mark = self.base.processes.mark();
        let asked = BootTime::now();
        let exchange = async {
            let request = ToHead::Arm { seq, cell_waits };
            self.head
                .channel
                .send_with(&request, Some(far.as_fd()))
                .await?;
            self.head.answer_to(&self.base.logs, seq).await
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
            children,
            left_out,
        } = reply.armed().map_err(|error| error.to_string())??;
        self.protect(pid, StandbyOrigin::Since(asked)).await?;
        if let Some(old) = self.checkpoints.replace_newest() {
            self.let_go(&old).await;
        }
        self.checkpoints.add(Standby {
            pid,
            channel: line,
            cell: self.checkpoints.current(),
            since: self.checkpoints.since,
            revision: self.checkpoints.revision,
            at: SystemTime::now(),
            resident,
            faults,
            children,
            left_out,
            mark,
            holds_no_files: false,
            to_repeat: Vec::new(),
            is_left_behind: false,
            named: NamedLosses::new(),
        });
        self.checkpoints.begin_steps();
        self.trim(cell_waits).await;
        Ok(())
    }

    /// Has init take a process for a standby: one that was made when we asked for it, and no other.
    pub(crate) async fn protect(&mut self, pid: u32, origin: StandbyOrigin) -> Result<(), String> {
        let outcome = self.init.request(Protect { pid, origin }).await;
        self.note_init_events();
        if self.head.ended.is_some() {
            return Err("the head is gone".to_owned());
        }
        match outcome {
            Ok(true) => Ok(()),
            Ok(false) => Err(
                "the head named a process that is not the copy which it was asked for".to_owned(),
            ),
            Err(_) => Err("init is gone".to_owned()),
        }
    }

    /// The newest, and as many older ones as the limits allow.
    async fn trim(&mut self, cell_waits: bool) {
        let limits = self.checkpoints.limits;
        let most = limits.older_states.saturating_add(1);
        while self.checkpoints.count() > most {
            self.drop_oldest().await;
        }
        while self.checkpoints.standbys.len() > 1 && self.history_is_too_large(cell_waits).await {
            self.drop_oldest_standby().await;
            // Its memory is free when it has gone.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.forget_old_files();
        // Copies of files are new data on disk as well.
        while self.checkpoints.count() > 1 && self.earlier_file_bytes() > limits.file_bytes {
            self.drop_oldest().await;
            self.forget_old_files();
        }
    }

    /// Frees memory before the head copies itself, or says that there is too little. Without it the kernel would kill the head in the
    /// middle of the copy. The cells that run again after that would fill the memory to the same byte, and so without end.
    async fn make_room_for_copy(&mut self) -> Result<(), String> {
        self.drop_standbys_while_short_of_memory().await;
        let needed = COPY_MEMORY + self.checkpoints.limits.session_memory_bytes / PAGE_TABLE_SHARE;
        let cgroup = self.placement.cgroup.as_ref();
        match cgroup.is_some_and(|cgroup| cgroup.is_short_of(needed)) {
            true => Err("there is too little memory left for a copy of the process".to_owned()),
            false => Ok(()),
        }
    }

    /// Lets old standbys go, but never the newest, until memory is not short any more.
    pub(crate) async fn drop_standbys_while_short_of_memory(&mut self) {
        while self.checkpoints.standbys.len() > 1 && self.is_short_of_memory() {
            self.drop_oldest_standby().await;
            // Its memory is free when it has gone.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Whether a cell that does next to nothing might be the one too many.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        let cgroup = self.placement.cgroup.as_ref();
        cgroup.is_some_and(|cgroup| cgroup.is_short_of(OWN_MEMORY / 2))
    }

    /// Whether older standbys hold more than their budget: by the kernel's count, or by an estimate while a cell waits.
    async fn history_is_too_large(&mut self, cell_waits: bool) -> bool {
        /// The estimate rests on what the head says. So it is not trusted for long.
        const MAX_ESTIMATES_IN_A_ROW: u32 = 4;
        let budget = self.checkpoints.limits.memory_bytes;
        let standbys = &self.checkpoints.standbys;
        if let Some(used) = self
            .placement
            .cgroup
            .as_ref()
            .and_then(|cgroup| cgroup.memory_used())
        {
            let head = standbys.back().map_or(0, |newest| newest.resident);
            return used.saturating_sub(head) > budget + OWN_MEMORY || self.is_short_of_memory();
        }
        let estimate: u64 = standbys
            .iter()
            .map(|standby| self.checkpoints.alone(standby))
            .sum();
        self.checkpoints.estimates_in_a_row += 1;
        if estimate > budget
            || (cell_waits && self.checkpoints.estimates_in_a_row < MAX_ESTIMATES_IN_A_ROW)
        {
            return estimate > budget;
        }
        self.checkpoints.estimates_in_a_row = 0;
        let held = self.files.disk.memory_beyond(self.checkpoints.head).await;
        held.is_some_and(|bytes| bytes > budget + OWN_MEMORY)
    }

    fn forget_old_files(&self) {
        if let Some(oldest) = self.checkpoints.oldest() {
            self.files.history.lock().forget_before(oldest);
        }
    }

    fn earlier_file_bytes(&self) -> u64 {
        self.files.history.lock().earlier_bytes()
    }

    async fn drop_oldest(&mut self) {
        if self.checkpoints.origin.take().is_none() {
            self.drop_oldest_standby().await;
        }
    }

    /// The oldest state that takes memory.
    pub(crate) async fn drop_oldest_standby(&mut self) {
        if let Some(standby) = self.checkpoints.standbys.pop_front() {
            self.let_go(&standby).await;
        }
    }

    pub(crate) async fn let_go_of_taken_back(&mut self) {
        for standby in std::mem::take(&mut self.checkpoints.taken_back) {
            self.let_go(&standby).await;
        }
    }

    async fn let_go(&self, standby: &Standby) {
        let _ = self.init.tell(ToInit::Drop(standby.pid)).await;
    }
}

impl Actor {
    /// Makes the checkpoint that must be there before a cell may start.
    pub(crate) async fn arm_before_cell(&mut self) {
        self.live.note_memory_from_outside();
        if self.can_start_anew() {
            return self.live.begin_at_origin();
        }
        let is_replaying = self.shared.is_replaying.load(Ordering::SeqCst);
        if self.options.arming == Arming::Strict && !is_replaying {
            self.arm_again().await;
        }
    }

    /// Makes sure that the state has a checkpoint, also where that was tried before and failed.
    pub(crate) async fn arm_again(&mut self) {
        if self.can_start_anew() {
            return self.live.begin_at_origin();
        }
        // What stood in the way may be over: a thread that has ended.
        self.live.checkpoints.obstacle = None;
        self.live.arm_in_haste(true).await;
    }
}
