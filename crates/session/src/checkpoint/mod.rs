//! The standbys of a session: frozen copies of its head, from the oldest that `undo` can reach to the newest.

pub(crate) mod arming;
pub(crate) mod called_tools;
mod origin;
pub(crate) mod recovery;
pub(crate) mod repeat;
pub(crate) mod replay;
pub(crate) mod standby_channel;
pub(crate) mod steps;
pub(crate) mod undo;

use crate::checkpoint::called_tools::CalledTools;
use crate::checkpoint::repeat::MAX_TO_REPEAT;
use crate::checkpoint::standby_channel::StandbyChannel;
use crate::checkpoint::steps::{StatePoint, Steps};
use crate::processes::ProcessMark;
use cellblock_protocol::guest::{NamedLosses, RepeatableCell};
use cellblock_protocol::{CheckpointEntry, CheckpointList, CheckpointState, Limits};
use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// A new request wins over arming: it starts after this much quiet.
const QUIET_TIME: Duration = Duration::from_millis(2);

/// One standby.
#[derive(Debug)]
pub(crate) struct Standby {
    pub(crate) pid: u32,
    /// The channel that the standby will speak on.
    pub(crate) channel: StandbyChannel,
    /// The last cell whose effects it has; 0 for none.
    pub(crate) cell: u64,
    /// The first cell whose state it can be woken for: the others changed nothing, or are run again.
    pub(crate) since: u64,
    /// How often something other than a cell had changed the state: seeds, tools, a reset.
    pub(crate) revision: u64,
    pub(crate) at: SystemTime,
    /// Bytes that the head held of its own, and pages it had touched, when this was made.
    pub(crate) resident: u64,
    pub(crate) faults: u64,
    /// The child processes that the head had when this was made, by name. They end before the standby is woken.
    pub(crate) children: Vec<String>,
    /// Bytes of shared memory that stay as they are when this is woken.
    pub(crate) left_out: u64,
    /// Which spawned processes are older than this.
    pub(crate) mark: ProcessMark,
    /// Whether no process could change a file of the workspace without being noticed when this was made.
    pub(crate) holds_no_files: bool,
    /// Cells after the copy was made that are run again when it is woken.
    pub(crate) to_repeat: Vec<RepeatableCell>,
    /// Whether a standby that was woken left this behind.
    pub(crate) is_left_behind: bool,
    /// What that standby could not put right, which was told when it was woken.
    pub(crate) named: NamedLosses,
}

/// What a kept cell did to the state.
#[derive(Debug)]
pub(crate) enum CellEffect {
    Nothing,
    /// What it does again from the same state.
    Repeatable(RepeatableCell),
    Anything,
}

impl Standby {
    /// What shared memory stays as it is when this is woken, in words; `None` where there is none.
    pub(crate) fn shared_memory_left_out(&self) -> Option<String> {
        const MEBIBYTE: f64 = 1_048_576.0;
        (self.left_out > 0).then(|| {
            let mebibytes = self.left_out as f64 / MEBIBYTE;
            format!(
                "{mebibytes:.1} MiB of shared memory (`MAP_SHARED`, /dev/shm): more than a checkpoint notes"
            )
        })
    }

    /// Whether the standby has the state after this cell.
    pub(crate) fn is_after(&self, cell: u64) -> bool {
        (self.since..=self.cell).contains(&cell)
    }
}

/// The bounds of a session's checkpoints. They are fixed when the processes of the session are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckpointLimits {
    /// The states before the newest that can be gone back to.
    pub(crate) older_states: usize,
    /// The memory that checkpoints may hold.
    pub(crate) memory_bytes: u64,
    /// What earlier versions of files may take on disk.
    pub(crate) file_bytes: u64,
    /// The memory of the whole session.
    pub(crate) session_memory_bytes: u64,
}

impl CheckpointLimits {
    /// The bounds in a session with these limits.
    pub(crate) fn of(limits: &Limits) -> CheckpointLimits {
        CheckpointLimits {
            older_states: usize::try_from(limits.checkpoints).unwrap_or(usize::MAX),
            memory_bytes: limits.checkpoint_budget(),
            file_bytes: limits.disk,
            session_memory_bytes: limits.memory,
        }
    }
}

/// The checkpoints of a session.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    pub(crate) standbys: VecDeque<Standby>,
    /// Since when the state in which nothing was done yet can be had without a standby: by making the session's processes anew.
    pub(crate) origin: Option<SystemTime>,
    /// Standbys of cells that were taken back. They are of no use, and still to be let go.
    pub(crate) taken_back: Vec<Standby>,
    /// The cells whose effects the head has, oldest first.
    pub(crate) kept: Vec<u64>,
    /// The tools that they called.
    pub(crate) called_tools: CalledTools,
    /// The first cell after which the state was the head's.
    pub(crate) since: u64,
    pub(crate) revision: u64,
    /// Why the newest state has no standby, where one was tried.
    pub(crate) obstacle: Option<String>,
    /// Why the newest state would come back without some of its files, where that is so.
    pub(crate) unrestorable_reason: Option<String>,
    /// The time when the next standby is made, if nothing comes in between.
    pub(crate) due: Option<Instant>,
    /// Why the session makes none, where that is so.
    pub(crate) why_disabled: Option<&'static str>,
    pub(crate) limits: CheckpointLimits,
    /// The head's process id inside, in init's word.
    pub(crate) head: u32,
    /// How many were made since their memory was last weighed.
    pub(crate) estimates_in_a_row: u32,
    /// The steps since the newest standby.
    pub(crate) steps: Steps,
    /// The state of the checkpoint that the readers of the session's log were last told of.
    pub(crate) announced: CheckpointState,
}

impl Checkpoints {
    /// No checkpoints yet, for the head with this process id inside.
    pub(crate) fn new(
        head: u32,
        limits: CheckpointLimits,
        why_disabled: Option<&'static str>,
    ) -> Checkpoints {
        Checkpoints {
            standbys: VecDeque::new(),
            origin: None,
            taken_back: Vec::new(),
            kept: Vec::new(),
            called_tools: CalledTools::default(),
            since: 0,
            revision: 0,
            obstacle: None,
            unrestorable_reason: None,
            due: None,
            why_disabled,
            limits,
            head,
            estimates_in_a_row: 0,
            steps: Steps::default(),
            announced: CheckpointState::armed(),
        }
    }

    /// Whether the session makes no checkpoints.
    pub(crate) fn is_disabled(&self) -> bool {
        self.why_disabled.is_some()
    }

    /// The point where the head's state is.
    pub(crate) fn state_point(&self) -> StatePoint {
        StatePoint {
            cell: self.current(),
            revision: self.revision,
        }
    }

    /// Begins the list of steps anew: the state is at a checkpoint.
    pub(crate) fn begin_steps(&mut self) {
        self.steps.begin(self.state_point());
    }

    /// There is a standby of the head's state.
    pub(crate) fn add(&mut self, standby: Standby) {
        if let Some(older) = self.standbys.back_mut() {
            // It is woken to take cells back, and leaves no copy then.
            older.channel.successor = None;
        }
        self.standbys.push_back(standby);
    }

    /// Whether a process of the session, by its id there, is a standby.
    pub(crate) fn is_standby(&self, pid: u32) -> bool {
        self.all_standbys().any(|standby| standby.pid == pid)
    }

    /// All standbys, also those that are still to be let go.
    pub(crate) fn all_standbys(&self) -> impl Iterator<Item = &Standby> + Clone {
        self.standbys.iter().chain(&self.taken_back)
    }

    /// A cell's effects stay.
    pub(crate) fn keep(&mut self, cell: u64, effect: CellEffect) {
        let is_armed = self.is_armed();
        match (effect, self.standbys.back_mut().filter(|_| is_armed)) {
            // A copy from before a cell that changed nothing is as good as one from after.
            (CellEffect::Nothing, Some(newest)) => newest.cell = cell,
            (CellEffect::Repeatable(again), Some(newest))
                if newest.to_repeat.len() < MAX_TO_REPEAT && !newest.is_left_behind =>
            {
                newest.cell = cell;
                newest.to_repeat.push(again);
                self.since = cell;
            }
            _ => self.since = cell,
        }
        // Setup code is cell 0: it is where taking back ends.
        if cell > 0 {
            self.kept.push(cell);
        }
        self.plan();
    }

    /// Says what stays of the tools that cells called which are not kept any more.
    pub(crate) fn take_back_tools(&mut self) -> Vec<String> {
        self.called_tools.take_back(&self.kept)
    }

    /// A cell is about to begin. If the newest standby has the state before it, processes that were spawned until now belong to that state.
    pub(crate) fn note_processes(&mut self, mark: ProcessMark) {
        if self.is_armed()
            && let Some(newest) = self.standbys.back_mut()
        {
            newest.mark = mark;
        }
    }

    /// The cell after which the head's state is.
    pub(crate) fn current(&self) -> u64 {
        self.kept.last().copied().unwrap_or(0)
    }

    /// The head's state is that of the newest standby, or nothing was done yet.
    pub(crate) fn is_armed(&self) -> bool {
        let is_newest =
            |standby: &Standby| standby.cell == self.current() && standby.revision == self.revision;
        match self.standbys.back() {
            Some(newest) => is_newest(newest),
            None => self.origin.is_some() && self.is_untouched(),
        }
    }

    /// The same, without a cell that would have to be run again.
    pub(crate) fn has_exact_copy(&self) -> bool {
        self.is_armed()
            && self
                .standbys
                .back()
                .is_none_or(|newest| newest.to_repeat.is_empty())
    }

    /// Nothing was done yet to the state, or all of it was taken back.
    pub(crate) fn is_untouched(&self) -> bool {
        self.kept.is_empty() && self.revision == 0
    }

    /// The state as it is, in which nothing was done yet, needs no standby.
    pub(crate) fn begin_at_origin(&mut self) {
        self.origin = Some(SystemTime::now());
        self.due = None;
    }

    /// How many states can be gone back to.
    pub(crate) fn count(&self) -> usize {
        self.standbys.len() + usize::from(self.origin.is_some())
    }

    /// The first cell of the oldest state that can be gone back to.
    pub(crate) fn oldest(&self) -> Option<u64> {
        match self.origin {
            Some(_) => Some(0),
            None => self.standbys.front().map(|standby| standby.since),
        }
    }

    /// Whether the state is that after earlier cells too, which will not be so once something changes it.
    pub(crate) fn is_of_several_cells(&self) -> bool {
        self.since < self.current()
    }

    /// Whether the state after this cell can be gone back to.
    pub(crate) fn can_reach(&self, cell: u64) -> bool {
        cell == 0 && self.origin.is_some()
            || self.standbys.iter().any(|standby| standby.is_after(cell))
    }

    /// Something other than a cell changed the state.
    pub(crate) fn revise(&mut self) {
        if self.is_untouched() {
            // What is taken back to from now on is the state after this.
            self.origin = None;
        }
        self.revision += 1;
        self.since = self.current();
        self.plan();
    }

    /// The time when the next standby is to be made.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Makes a standby soon, if the newest state has none.
    pub(crate) fn plan(&mut self) {
        self.obstacle = None;
        self.due = if self.has_exact_copy() || self.is_disabled() {
            None
        } else {
            Some(Instant::now() + QUIET_TIME)
        };
    }

    /// A standby died by itself.
    pub(crate) fn lose(&mut self, pid: u32) {
        self.standbys.retain(|standby| standby.pid != pid);
        self.plan();
    }

    /// The checkpoint that a cell would have now.
    pub(crate) fn state(&self) -> CheckpointState {
        if self.is_armed() {
            let newest = self.standbys.back();
            let unrestorable_reason = self
                .unrestorable_reason
                .clone()
                .or_else(|| newest.and_then(Standby::shared_memory_left_out));
            return unrestorable_reason.map_or_else(CheckpointState::armed, |reason| {
                CheckpointState::behind(0, reason)
            });
        }
        let reason = self.obstacle.clone();
        let newest = self.standbys.back().map(|newest| newest.cell);
        match newest.or(self.origin.map(|_| 0)) {
            Some(newest) => {
                let behind = self.kept.iter().filter(|cell| **cell > newest).count() as u64;
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

    /// The state and what can be gone back to.
    pub(crate) fn list(&self) -> CheckpointList {
        CheckpointList {
            state: self.state(),
            entries: self.entries(),
        }
    }

    /// The states that the session can go back to, newest first.
    pub(crate) fn entries(&self) -> Vec<CheckpointEntry> {
        let seconds = |at: SystemTime| {
            at.duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs_f64()
        };
        let of_standby = |standby: &Standby| {
            let cells = self.cells_of(standby);
            let base = cells.len() - 1;
            let (at, bytes) = (seconds(standby.at), self.alone(standby));
            let entry = move |(index, cell)| CheckpointEntry {
                cell,
                at,
                bytes: if index == base { bytes } else { 0 },
            };
            cells.into_iter().enumerate().map(entry)
        };
        let of_origin = |since| CheckpointEntry {
            cell: 0,
            at: seconds(since),
            bytes: 0,
        };
        let standbys = self.standbys.iter().rev().flat_map(of_standby);
        standbys.chain(self.origin.map(of_origin)).collect()
    }

    /// The cells whose states a standby can be woken for, newest first: the state that was copied, and one for each cell that is run again.
    fn cells_of(&self, standby: &Standby) -> Vec<u64> {
        let before = |cell: u64| self.kept.iter().rfind(|kept| **kept < cell).copied();
        let again = standby.to_repeat.iter().map(|again| again.cell);
        let earlier = again.filter(|cell| *cell <= standby.cell).rev();
        let mut cells = vec![standby.cell];
        cells.extend(earlier.map(|cell| before(cell).unwrap_or(0)));
        cells
    }

    /// Bytes that a standby holds alone, as far as that can be told: pages that the head wrote to or gave back until the
    /// next standby was made. The newest shares everything with the head.
    pub(crate) fn alone(&self, standby: &Standby) -> u64 {
        let page = cellblock_sandbox::page_bytes() as u64;
        let next = self.standbys.iter().find(|other| other.at > standby.at);
        next.map_or(0, |next| {
            let written = next.faults.saturating_sub(standby.faults) * page;
            written
                .min(standby.resident)
                .max(standby.resident.saturating_sub(next.resident))
        })
    }

    /// Makes room for a standby of the newest state: one for each cell is enough, for only the newest state after it can be gone
    /// back to. Returns the one that is not needed any more.
    pub(crate) fn replace_newest(&mut self) -> Option<Standby> {
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
    pub(crate) fn before(&self, count: usize) -> Option<u64> {
        match self.kept.len().checked_sub(count)? {
            0 => Some(0),
            left => self.kept.get(left - 1).copied(),
        }
    }
}
