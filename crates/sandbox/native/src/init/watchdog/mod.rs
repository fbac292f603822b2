//! The memory limit where there is no cgroup: `RLIMIT_DATA` bounds one process, this bounds all of them together, with what the kernel holds for
//! them.

pub mod calls_under_way;
pub mod doubt;
pub mod idleness;
pub mod kernel_memory;
pub mod memory_user;
pub mod open_texts;
pub mod process_memory;
pub mod shared_memory;
pub mod socket_memory;
pub mod task_starts;
pub mod unreadable;
pub mod user_objects;

use crate::init::notify::Protected;
use crate::init::sweep::{Reach, each_process};
use crate::init::watchdog::doubt::Doubt;
use crate::init::watchdog::memory_user::MemoryUser;
use crate::init::watchdog::process_memory::{ProcessMemory, Share, living_thread, most_areas};
use crate::init::watchdog::unreadable::Unreadable;
use crate::init::watchdog::user_objects::DescriptorCensus;
use crate::sys::{Fd, Pid};
use crate::wire::config::walls;

/// How often it looks, in milliseconds.
pub const PERIOD_MS: i32 = 100;

/// How often it glances while a session uses more than half of its memory, in milliseconds.
pub const DENSE_PERIOD_MS: i32 = 20;

/// How many processes beside the head are compared with it. More count in full.
const MAX_COMPARED: usize = 128;

/// When to look again, in milliseconds, after a look that took so long: not all of the time.
pub fn pause_after(cost: u64) -> u64 {
    const MAX_PAUSE_MS: u64 = 1_000;
    (5 * cost).clamp(PERIOD_MS as u64, MAX_PAUSE_MS)
}

/// How often in a row it may be in doubt over so many bytes. Making a copy of a head of gigabytes takes a second where others compute too,
/// and no session shall be lost because the machine is busy.
pub fn max_uncertain_checks(bytes: u64) -> u32 {
    const MIN_DOUBTS: u32 = 3;
    const MAX_EXTRA_DOUBTS: u32 = 50;
    (bytes >> 28).min(u64::from(MAX_EXTRA_DOUBTS)) as u32 + MIN_DOUBTS
}

/// What can be seen of the memory of all processes without a lock of any of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySample {
    /// The pages of all processes; those that two have count twice.
    pub sum: u64,
    /// The pages of the process that has most, without those that it shares on purpose.
    pub largest: u64,
}

impl MemorySample {
    /// Whether a close look must follow at once. `before` is what was seen at the last close look.
    ///
    /// A close look can be made to take long, and the next comes after five times as long. Meanwhile a session must not grow by much.
    pub fn calls_for_look(&self, before: MemorySample, limit: u64) -> bool {
        let has_grown = self.sum > limit && self.sum - before.sum.min(self.sum) > limit / 8;
        self.largest > limit || has_grown
    }

    /// When to glance again, in milliseconds.
    pub fn pause_ms(&self, limit: u64) -> i32 {
        if self.sum > limit / 2 {
            DENSE_PERIOD_MS
        } else {
            PERIOD_MS
        }
    }
}

/// What a look at the memory showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The session is within its limit.
    Fine,
    /// The session may be over its limit: of a process that cannot be looked into it is not known what it shares. A standby is one for a
    /// moment: after it was made, until the host says that it is a standby.
    Doubtful(Doubt),
    /// The session is within its limit without this standby, which is not the newest.
    OverWith(Pid),
    /// The session is over its limit.
    Over,
}

/// Whose memory is looked at.
pub struct Watched<'a, P> {
    /// How the processes of the session are found.
    pub reach: Reach,
    /// `/proc`.
    pub proc_directory: Fd,
    /// The session's walls: which namespaces are its own.
    pub walls: u64,
    /// The live interpreter.
    pub head: Pid,
    /// Processes that do not count like others: init, the standbys, and those of forks.
    pub preserved: P,
    /// The standbys, the oldest first.
    pub standbys: &'a [Pid],
    /// Bytes that the session's pipes can hold.
    pub pipe_bytes: u64,
    /// The most that the kernel keeps for one text of `/proc` that the session has open.
    pub text_bytes: u64,
}

/// What a session holds, but for its standbys.
struct HeldMemory {
    /// What is certain, and what is in doubt.
    doubt: Doubt,
    /// What the head has in common with others: standbys, and whatever it forked.
    shared_by_head: u64,
}

/// A process beside the head.
#[derive(Clone, Copy)]
struct Beside {
    pid: Pid,
    /// A thread of the process that lives.
    thread: Pid,
    /// Whether the process uses the memory of the head.
    of_head: MemoryUser,
    share: Share,
}

impl Default for Beside {
    fn default() -> Beside {
        Beside {
            pid: 0,
            thread: 0,
            of_head: MemoryUser::Apart,
            share: Share::default(),
        }
    }
}

impl HeldMemory {
    /// Whether there is more in doubt than an honest session has for a moment: copies of the head, and as much again as it may use.
    fn is_beyond_doubt(&self, limit: u64) -> bool {
        self.doubt.bytes() > limit + unreadable::MAX_COPIES as u64 * self.shared_by_head
    }
}

impl<P: Protected> Watched<'_, P> {
    /// Looks at what everyone may see. Takes no lock that code could hold.
    pub fn glance(&self) -> MemorySample {
        let mut seen = MemorySample::default();
        self.each_counted(|pid| {
            let memory = self.of(pid);
            seen.sum += memory.own_in_full() + memory.shared;
            seen.largest = seen.largest.max(memory.own_in_full());
        });
        seen
    }

    /// Whether the session holds more than `limit` bytes.
    ///
    /// Resident sizes are quick to read but count shared pages once per process; only when their sum is over the limit are the
    /// exact, slower shares read.
    pub fn look(&self, limit: u64) -> Finding {
        // One process alone is over. There is nothing to compare, and it cannot keep us waiting for its lock.
        if self.glance().largest > limit {
            return Finding::Over;
        }
        let named = kernel_memory::named(self.walls, self.reach, self.proc_directory);
        let in_kernel = self.in_kernel(limit);
        let most_areas = most_areas(self.proc_directory);
        let has_own_network = self.has_own_network();
        let mut most = named + in_kernel;
        self.each_counted(|pid| {
            let memory = self.of(pid);
            most += memory.most(most_areas) + memory.descriptors * self.text_bytes;
            if !has_own_network {
                most += memory.most_for_sockets();
            }
        });
        most += self.page_tables_of_standbys();
        for standby in self.standbys {
            most += self.of(*standby).descriptors * self.text_bytes;
        }
        most += self
            .standbys
            .iter()
            .map(|pid| self.of(*pid).anonymous)
            .max()
            .unwrap_or(0);
        if most <= limit {
            return Finding::Fine;
        }
        self.decide(self.measure(named, in_kernel, limit), limit)
    }

    fn measure(&self, named: u64, mut in_kernel: u64, limit: u64) -> HeldMemory {
        let most_areas = most_areas(self.proc_directory);
        let (mut own, mut shared) = (0, 0);
        let mut doubt = Doubt::default();
        let mut unreadable = Unreadable::default();
        if !self.has_own_network() {
            in_kernel += self.open_sockets() * socket_memory::BUFFER_BYTES;
        }
        let mut shared_by_head = self.of(self.head).resident;
        self.each_counted(|pid| {
            let memory = self.of(pid);
            own += memory.in_kernel();
            // To look at all of a hundred processes takes long; what is over is over.
            if own > limit {
                return;
            }
            let thread = living_thread(self.proc_directory, pid);
            match memory.areas(self.proc_directory, thread, most_areas) {
                Ok(areas) => own += areas,
                Err(areas) => doubt.add(None, areas),
            }
            match open_texts::count(self.proc_directory, thread) {
                Some(texts) => own += texts * self.text_bytes,
                None => doubt.add(None, memory.descriptors * self.text_bytes),
            }
        });
        in_kernel += self.texts_of_standbys();
        let head_thread = living_thread(self.proc_directory, self.head);
        let user = |first, second| MemoryUser::of(self.proc_directory, first, second);
        let mut beside_head = [Beside::default(); MAX_COMPARED];
        let mut compared = 0;
        self.each_counted(|pid| {
            if own > limit || pid == self.head {
                return;
            }
            let thread = living_thread(self.proc_directory, pid);
            let of_head = user(head_thread, thread);
            let is_counted = |other: &Beside| user(other.thread, thread) == MemoryUser::Same;
            if of_head == MemoryUser::Same || beside_head[..compared].iter().any(is_counted) {
                return;
            }
            let share = Share::of(self.proc_directory, thread);
            match (share, beside_head.get_mut(compared)) {
                (Some(share), Some(slot)) => {
                    *slot = Beside {
                        pid,
                        thread,
                        of_head,
                        share,
                    };
                    compared += 1;
                }
                (Some(share), None) => own += share.own,
                (None, _) => unreadable.add(pid, self.of(pid)),
            }
        });
        // After the others: one that was just forked from the head has pages in common with it, and the head must show them too.
        let head = Share::of(self.proc_directory, head_thread);
        match head {
            // The head counts in full: what it shares with its standbys is still its own.
            Some(head) => {
                own += head.own_in_full;
                shared += head.shared;
                shared_by_head = head.with_others;
            }
            // The head counts in full, so what everyone may see is exact.
            None => {
                let memory = self.of(self.head);
                own += memory.own_in_full();
                shared += memory.shared;
            }
        }
        own += unreadable.certain(shared_by_head);
        unreadable.add_to(&mut doubt, shared_by_head);
        for Beside {
            pid,
            of_head,
            share,
            ..
        } in &beside_head[..compared]
        {
            // The rest may be the head's pages, which are counted already: a standby that is not hidden yet has nothing else.
            let certain = share.own_beside(&head.unwrap_or_default(), *of_head);
            own += certain;
            doubt.add(Some(*pid), share.own.saturating_sub(certain));
            shared += share.shared;
        }
        // What is mapped and has a name stands in both; to add them would end a session at half its limit.
        doubt.certain = own + shared.max(named) + in_kernel + self.page_tables_of_standbys();
        HeldMemory {
            doubt,
            shared_by_head,
        }
    }

    fn decide(&self, held: HeldMemory, limit: u64) -> Finding {
        let HeldMemory {
            doubt,
            shared_by_head,
        } = held;
        let certain = doubt.certain;
        if certain > limit || held.is_beyond_doubt(limit) {
            return Finding::Over;
        }
        // No process of the session may look into a standby. But what it has in common with the head is not more than what the head has in
        // common with anybody: the rest is the standby's alone.
        let alone = |pid: Pid| {
            let memory = self.of(pid);
            (memory.anonymous + memory.swapped).saturating_sub(shared_by_head)
        };
        if let Some((newest, older)) = self.standbys.split_last() {
            let is_too_large = |pid: &&Pid| certain + alone(**pid) > limit;
            if let Some(oldest) = older.iter().find(is_too_large) {
                return Finding::OverWith(*oldest);
            }
            if is_too_large(&newest) {
                return match older.first() {
                    Some(oldest) => Finding::OverWith(*oldest),
                    None => Finding::Over,
                };
            }
        }
        if certain + doubt.bytes() > limit {
            Finding::Doubtful(doubt)
        } else {
            Finding::Fine
        }
    }

    /// Bytes that the kernel holds for the session and that no process shows.
    fn in_kernel(&self, limit: u64) -> u64 {
        let mut sum = self.pipe_bytes;
        let mut threads = 0;
        self.each_counted(|pid| threads += self.of(pid).threads);
        sum += kernel_memory::unmapped(self.walls, self.reach, self.proc_directory, threads);
        if self.has_own_network() {
            sum += socket_memory::bytes(self.proc_directory, limit);
        }
        sum
    }

    /// Whether the sockets of its network are the session's own, and no others.
    fn has_own_network(&self) -> bool {
        const OWN_NETWORK: u64 = walls::NAMESPACES | walls::NETWORK;
        self.walls & OWN_NETWORK == OWN_NETWORK
    }

    /// How many sockets its processes have open. How full they are, the kernel does not tell to one of many users of a network.
    fn open_sockets(&self) -> u64 {
        let mut census = DescriptorCensus::new();
        self.each_counted(|pid| census.add(self.proc_directory, pid));
        census.sockets()
    }

    /// Bytes of texts of `/proc` that standbys have open, as far as init may look: the head may have closed them.
    fn texts_of_standbys(&self) -> u64 {
        let texts = self
            .standbys
            .iter()
            .filter_map(|pid| open_texts::count(self.proc_directory, *pid));
        texts.sum::<u64>() * self.text_bytes
    }

    fn page_tables_of_standbys(&self) -> u64 {
        let tables = self.standbys.iter().map(|pid| self.of(*pid).page_tables);
        tables.sum()
    }

    fn of(&self, pid: Pid) -> ProcessMemory {
        ProcessMemory::of(self.proc_directory, pid)
    }

    fn each_counted(&self, mut visit: impl FnMut(Pid)) {
        each_process(self.reach, self.proc_directory, |pid| {
            if !self.preserved.is_protected(pid) {
                visit(pid);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 800;

    #[test]
    fn a_session_that_grows_beyond_its_limit_is_looked_at_before_its_time() {
        let seen = |sum, largest| MemorySample { sum, largest };
        let before = seen(850, 300);
        let calls = |glance: MemorySample| glance.calls_for_look(before, LIMIT);
        assert_eq!(
            [
                calls(seen(850, 300)),
                calls(seen(940, 300)),
                calls(seen(960, 300)),
                calls(seen(850, 801)),
                calls(seen(700, 300))
            ],
            [false, false, true, true, false]
        );
        // A session that had little before and has not come to its limit.
        assert!(!seen(800, 800).calls_for_look(MemorySample::default(), LIMIT));
    }

    #[test]
    fn more_than_copies_of_the_head_and_the_limit_again_is_not_in_doubt() {
        let held = |bytes| {
            let mut doubt = Doubt::default();
            doubt.add(None, bytes);
            HeldMemory {
                doubt,
                shared_by_head: 100,
            }
        };
        let verdicts = [1000, 1001].map(|doubtful| held(doubtful).is_beyond_doubt(LIMIT));
        assert_eq!(verdicts, [false, true]);
    }
}
