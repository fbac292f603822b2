//! Cells that are run again instead of being in a checkpoint.
//!
//! A copy of the head takes milliseconds, and a cell such as `x = 1` takes a twentieth of one. So a cell that only computes with plain values, which does the same
//! whenever it is run from the same state, needs no copy before the next cell may begin: it is noted with the newest standby, and run again when that one
//! is woken. The copy is made when the session has nothing else to do.

use crate::live::LiveSession;
use cellblock_protocol::guest::{RepeatableCell, Reply, ToHead};
use std::time::Duration;
use tokio::time::timeout;

/// The most cells that are run again after one standby.
pub(crate) const MAX_TO_REPEAT: usize = 32;
/// The longest source of one.
pub(crate) const MAX_CODE_TO_REPEAT: usize = 1 << 10;
/// Each took a millisecond or two when it first ran.
const LIMIT: Duration = Duration::from_secs(10);

impl LiveSession {
    /// The head was woken with an older state: runs the cells again that lead from there to the state that is wanted. Returns the cell after which the
    /// state is.
    pub(crate) async fn repeat(&mut self, base: u64, cells: Vec<RepeatableCell>) -> u64 {
        if !self.checkpoints.is_armed() {
            // The states in between can be gone back to only from here.
            self.arm_in_haste(false).await;
            if self.checkpoints.is_armed()
                && let Some(newest) = self.checkpoints.standbys.back_mut()
            {
                newest.to_repeat.clone_from(&cells);
            }
        }
        let seq = self.head.next_question();
        let request = ToHead::Repeat {
            seq,
            cells: cells.clone(),
        };
        let answer = self.head.exchange(&self.base.logs, request, seq);
        let repeated = match timeout(LIMIT, answer).await {
            Ok(Ok(reply)) => Reply::repeated(reply).unwrap_or(0).min(cells.len()),
            // The next request finds out what has become of the head.
            _ => 0,
        };
        if let Some(lost) = cells.get(repeated) {
            self.checkpoints.kept.retain(|kept| *kept < lost.cell);
        }
        let last = repeated.checked_sub(1).and_then(|last| cells.get(last));
        self.checkpoints.since = last.map_or(base, |last| last.cell);
        self.checkpoints.plan();
        self.checkpoints.current()
    }
}
