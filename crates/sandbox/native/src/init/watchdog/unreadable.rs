//! Processes beside the head that init may not look into: it is not known which of their pages the head has as well.

use crate::init::watchdog::doubt::Doubt;
use crate::init::watchdog::process_memory::ProcessMemory;
use crate::sys::Pid;

/// How many copies of the head there are for a moment that init cannot look into: standbys that are being made, and copies that answer a question.
/// Any code can close its process, so what others have counts in full.
pub const MAX_COPIES: usize = 2;

/// What these processes hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// The largest ones with their sizes, which may be copies of the head.
    copies: [(u64, Pid); MAX_COPIES],
    /// All others.
    others: u64,
    /// Memory that they share, perhaps with each other.
    shared: u64,
}

impl Unreadable {
    /// Adds a process.
    pub fn add(&mut self, pid: Pid, memory: ProcessMemory) {
        let added = (memory.own_in_full(), pid);
        self.shared += memory.shared;
        let Some(smallest) = self.copies.iter_mut().min() else {
            return;
        };
        self.others += added.0.min(smallest.0);
        *smallest = added.max(*smallest);
    }

    /// What they hold in any case. A copy has no more in common with the head than the head has in common with others.
    pub fn certain(&self, shared_by_head: u64) -> u64 {
        let alone = self
            .copies
            .map(|(bytes, _)| bytes.saturating_sub(shared_by_head));
        self.others + alone.iter().sum::<u64>()
    }

    /// Adds what they may hold beside that.
    pub fn add_to(&self, doubt: &mut Doubt, shared_by_head: u64) {
        doubt.add(None, self.shared);
        for (bytes, pid) in self.copies {
            doubt.add(Some(pid), bytes.min(shared_by_head));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_processes_can_be_copies_of_the_head() {
        let of = |anonymous| ProcessMemory {
            anonymous,
            shared: 1,
            ..ProcessMemory::default()
        };
        let mut unreadable = Unreadable::default();
        for (pid, bytes) in [(1, 100), (2, 30), (3, 250), (4, 90)] {
            unreadable.add(pid, of(bytes));
        }
        // 250 and 100 may share 200 and 100 with the head.
        assert_eq!(unreadable.certain(200), 30 + 90 + 50);
        let mut doubt = Doubt::default();
        unreadable.add_to(&mut doubt, 200);
        assert_eq!(doubt.bytes(), 4 + 200 + 100);
        assert_eq!(doubt.without(|pid| pid == 3), 4 + 100);
        // Where the head has nothing in common with others, nothing is in doubt.
        assert_eq!(unreadable.certain(0), 470);
    }
}
