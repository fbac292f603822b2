//! The limit of processes and threads where the kernel counts those of other programs of the same user as well: init is asked before each start.

use crate::init::watchdog::calls_under_way::CallsUnderWay;
use crate::sys::Pid;

/// The processes and threads that a session was allowed to start.
#[derive(Default)]
pub struct TaskStarts {
    /// Not less than there are.
    tasks: u64,
    calls_under_way: CallsUnderWay,
}

impl TaskStarts {
    /// Whether a thread may start one more, where `most` are allowed at once. `count` counts those that there are; it is called only when more were
    /// started since the last count than there may be at once.
    pub fn allow(
        &mut self,
        caller: Pid,
        most: u64,
        may_be_in_call: impl Fn(Pid) -> bool + Copy,
        count: impl FnOnce() -> u64,
    ) -> bool {
        let calls = &mut self.calls_under_way;
        calls.has_returned(caller);
        // Also at the first start: the session began with some.
        if self.tasks == 0 || self.tasks >= most {
            // First the calls, then the tasks: a call that returns in between is counted twice, and not left out.
            let under_way = calls.count(may_be_in_call);
            self.tasks = count() + under_way;
        }
        let is_allowed = self.tasks < most && calls.begin(caller, may_be_in_call);
        self.tasks += u64::from(is_allowed);
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that has returned from every call, and one that may be in one.
    const IDLE: Pid = 5;
    const BUSY: Pid = 6;

    fn allow(starts: &mut TaskStarts, caller: Pid, there_are: u64) -> bool {
        starts.allow(caller, 10, |thread| thread == BUSY, || there_are)
    }

    #[test]
    fn those_of_the_beginning_count_too() {
        let mut starts = TaskStarts::default();
        let allowed = (0..20).filter(|_| allow(&mut starts, IDLE, 10));
        assert_eq!(allowed.count(), 0);
        let mut starts = TaskStarts::default();
        let allowed = (3..20).filter(|there_are| allow(&mut starts, IDLE, *there_are));
        assert_eq!(allowed.count(), 7);
    }

    #[test]
    fn those_that_ended_make_room() {
        let mut starts = TaskStarts::default();
        assert!((0..100).all(|_| allow(&mut starts, IDLE, 2)));
    }

    #[test]
    fn a_start_under_way_counts_before_it_is_seen() {
        let mut starts = TaskStarts::default();
        assert!(allow(&mut starts, BUSY, 9));
        assert!(!allow(&mut starts, IDLE, 9));
        // A thread that asks is in no other call.
        assert!(allow(&mut starts, BUSY, 9));
    }
}
