//! Init as a watchdog: memory where no cgroup counts it, and what the kernel counts for each user.

use super::standbys::Uncounted;
use super::{Init, Reason, Session};
use crate::init::notify::{self, Notification, Protected};
use crate::init::stopped;
use crate::init::sweep::{Reach, each_process, is_descendant};
use crate::init::watchdog::idleness::ProcessorTimes;
use crate::init::watchdog::process_memory::Share;
use crate::init::watchdog::shared_memory::{Areas, SmallInodes, inodes_of, other_inode};
use crate::init::watchdog::socket_memory::{netlink_sockets, unaccepted_bytes, unix_sockets};
use crate::init::watchdog::user_objects::{
    Census, Counted, DescriptorCensus, MAX_LOCKS, WatchCensus, locks,
};
use crate::init::watchdog::{self, Finding, MemorySample, Watched, open_texts};
use crate::sys::{Errno, Pid, monotonic_milliseconds, nr, poll, signals};
use crate::walls::limits;
use crate::wire::message::from_init;

/// When the processes of the user are counted again. To look at all of a machine's takes milliseconds, and shall take little of the time.
fn next_count_after(start: u64, end: u64) -> u64 {
    const MIN_PAUSE_MS: u64 = 100;
    const MAX_PAUSE_MS: u64 = 2_000;
    end + (50 * (end - start)).clamp(MIN_PAUSE_MS, MAX_PAUSE_MS)
}

/// The limit of processes where the kernel counts those of the session together with others of the user.
pub(super) struct ProcessLimit {
    /// The last two limits that were set.
    former: [u64; 2],
    /// When the others are counted next, in milliseconds.
    next_count: u64,
}

impl ProcessLimit {
    /// As the head has set it for itself.
    pub(super) fn of_head(init: &Init) -> ProcessLimit {
        let set = init
            .head
            .and_then(|head| limits::soft_processes(head).ok())
            .unwrap_or(0);
        ProcessLimit {
            former: [set; 2],
            next_count: 0,
        }
    }
}

impl Session {
    /// Whether there is something to look at every now and then.
    pub(super) fn is_watching(&self) -> bool {
        self.init.head.is_some()
            && (self.init.memory > 0 || self.objects.has_epoll() || self.counts_connections())
    }

    /// Whether data can wait in connections that no cgroup counts: those that code has not accepted.
    fn counts_connections(&self) -> bool {
        self.init.socket_memory > 0 && self.objects.has_listener() && self.has_own_network()
    }

    /// Whether connections that code has not accepted hold more than the session may. All other sockets are counted by the cgroup.
    fn is_over_in_sockets(&self) -> bool {
        let limit = self.init.socket_memory;
        self.counts_connections() && unaccepted_bytes(self.init.proc_directory, limit) > limit
    }

    /// Looks once, and ends the head if it has more than it may.
    pub(super) fn watch(&mut self) {
        if self.init.head.is_none() || self.unclaimed {
            return;
        }
        self.read_processor_times();
        let census = self.count_watches();
        let locks = self.count_locks();
        if census.is_over() || locks > MAX_LOCKS {
            self.end_largest(Reason::UserObjects);
        } else if self.init.memory > 0 {
            self.text_bytes = open_texts::most_for_one(census.watches(), locks);
            self.watch_memory();
        } else if self.is_over_in_sockets() {
            self.end_for_sockets();
        }
        self.follow_other_processes();
    }

    /// Of the processes that count. A frozen standby runs only when init wakes it, and a fork has an init of its own.
    fn read_processor_times(&mut self) {
        let mut times = core::mem::replace(&mut self.processor_times, ProcessorTimes::unknown());
        let preserved = Uncounted(self.standbys_and_forks());
        times.read(monotonic_milliseconds(), |visit| {
            each_process(self.init.reach, self.init.proc_directory, |pid| {
                if !preserved.is_protected(pid) {
                    visit(pid);
                }
            });
        });
        self.processor_times = times;
    }

    /// Ends what may hold the data: the spawned processes first, then the head. Nothing tells whose the connections are, and the head has the
    /// variables.
    fn end_for_sockets(&mut self) {
        self.end_all_spawned();
        if self.is_over_in_sockets() {
            self.end_head(Reason::Memory, self.standbys.newest());
        }
    }

    /// Where the kernel counts all processes of the user together: changes the session's limit as those of others come and go.
    fn follow_other_processes(&mut self) {
        let now = monotonic_milliseconds();
        if !self.init.follows_other_processes || now < self.process_limit.next_count {
            return;
        }
        let processes = self.init.proc_directory;
        let most =
            self.init.processes + limits::tasks_of_others(processes) + limits::MAX_OTHERS_BETWEEN;
        let former = self.process_limit.former;
        each_process(self.init.reach, processes, |pid| {
            // A process that has ended needs no limit.
            let _ = limits::change_processes(pid, former, most);
        });
        self.process_limit = ProcessLimit {
            former: [most, former[0]],
            next_count: next_count_after(now, monotonic_milliseconds()),
        };
    }

    /// Where init counts memory: how many locks on parts of files the session holds.
    fn count_locks(&self) -> u64 {
        if self.init.memory == 0 {
            return 0;
        }
        let processes = self.init.proc_directory;
        let preserved = self.standbys_and_forks();
        locks(processes, |pid| match self.init.reach {
            Reach::Namespace => !preserved.is_protected(pid),
            // The list is that of the whole machine.
            Reach::Descendants => is_descendant(processes, pid),
        })
    }

    /// How often init must run while there is something to look at, in milliseconds.
    pub(super) fn watch_period(&self) -> i32 {
        match self.init.memory {
            0 => watchdog::PERIOD_MS,
            limit => self.glanced.pause_ms(limit),
        }
    }

    /// Whether the processes must be looked at before the time for it has come.
    pub(super) fn must_look_early(&mut self, now: u64) -> bool {
        let limit = self.init.memory;
        if limit == 0 || self.unclaimed || now < self.next_glance {
            return false;
        }
        let Some(glance) = self.glance() else {
            return false;
        };
        self.glanced = glance;
        self.next_glance = now + glance.pause_ms(limit) as u64;
        glance.calls_for_look(self.looked_at, limit)
    }

    fn glance(&self) -> Option<MemorySample> {
        let head = self.init.head?;
        Some(self.watched(head, &[]).glance())
    }

    fn watched<'a>(&'a self, head: Pid, standbys: &'a [Pid]) -> Watched<'a, Uncounted<'a>> {
        Watched {
            reach: self.init.reach,
            proc_directory: self.init.proc_directory,
            walls: self.init.walls,
            head,
            preserved: Uncounted(self.standbys_and_forks()),
            standbys,
            pipe_bytes: self.objects.pipe_bytes(),
            text_bytes: self.text_bytes,
        }
    }

    fn watch_memory(&mut self) {
        let Some(head) = self.init.head else {
            return;
        };
        let (standbys, count) = self.standbys.frozen_by_age();
        let watched = self.watched(head, &standbys[..count]);
        let seen = watched.glance();
        let finding = watched.look(self.init.memory);
        self.looked_at = seen;
        let over = match finding {
            Finding::Fine => {
                self.doubts = 0;
                false
            }
            Finding::Doubtful(doubt) => {
                let limit = self.init.memory;
                let is_standby = |pid| self.standbys.is_frozen(pid);
                if self.last_doubt.is_settled(limit, is_standby) {
                    self.doubts = 0;
                }
                self.doubts += 1;
                self.last_doubt = doubt;
                self.doubts >= watchdog::max_uncertain_checks(doubt.bytes())
            }
            Finding::OverWith(standby) => {
                self.lose_standby(standby);
                false
            }
            Finding::Over => true,
        };
        if over {
            self.doubts = 0;
            self.end_largest(Reason::Memory);
        }
    }

    /// Ends a standby that cannot be kept, and tells the host.
    pub(super) fn lose_standby(&mut self, standby: Pid) {
        self.drop_standby(standby);
        self.tell(from_init::LOST, standby as u64, signals::KILL as u64, 0);
    }

    fn count_watches(&self) -> WatchCensus {
        let mut census = WatchCensus::new();
        if !self.objects.has_epoll() {
            return census;
        }
        let preserved = self.standbys_and_forks();
        let processes = self.init.proc_directory;
        each_process(self.init.reach, processes, |pid| {
            if !preserved.is_protected(pid) {
                census.add(processes, pid);
            }
        });
        census
    }

    /// A call starts a process or a thread, and the kernel would count others of the user as well.
    pub(super) fn answer_about_start(&mut self, notification: &Notification) {
        let (processes, reach) = (self.init.proc_directory, self.init.reach);
        let is_allowed = self.starts.allow(
            notification.caller(),
            self.init.processes,
            |thread| stopped::may_be_in_call(processes, thread),
            || limits::tasks_of_session(reach, processes),
        );
        let outcome = if is_allowed {
            Ok(())
        } else {
            Err(Errno::AGAIN)
        };
        notify::respond(self.init.listener, notification.id(), outcome);
    }

    /// A call maps shared memory without a name.
    fn answer_about_shared_memory(&mut self, notification: &Notification) {
        let mut shared = core::mem::take(&mut self.shared_memory);
        let [_, length, ..] = *notification.arguments();
        let outcome = if shared.allow(length, self.init.memory, &*self) {
            Ok(())
        } else {
            Err(Errno::NOMEM)
        };
        self.shared_memory = shared;
        notify::respond(self.init.listener, notification.id(), outcome);
    }

    /// A standby was made of the head. It can have what the head has given up since.
    pub(super) fn shared_memory_is_copied(&mut self, standby: Pid) {
        let mut shared = core::mem::take(&mut self.shared_memory);
        let newest = self.standbys.number_of_newest();
        shared.is_copied(newest, &*self, |small| {
            match other_inode(self.init.proc_directory, standby, small) {
                Ok(other) => other.is_none(),
                // Without namespaces init may not look into it. There a head that makes one has no other thread, so it has what the head has.
                Err(_) => self.init.reach == Reach::Descendants,
            }
        });
        self.shared_memory = shared;
    }

    /// Whether a process has only these areas of shared memory.
    fn has_no_others(&self, pid: Pid, small: &SmallInodes) -> bool {
        other_inode(self.init.proc_directory, pid, small) == Ok(None)
    }

    /// Whether the head is the session's only process beside standbys and forks.
    fn is_alone(&self, head: Pid) -> bool {
        let processes = self.init.proc_directory;
        let mut is_alone = true;
        each_process(self.init.reach, processes, |pid| {
            let is_known =
                pid == head || self.standbys.is_protected(pid) || self.forks.has(processes, pid);
            is_alone &= is_known;
        });
        is_alone
    }

    /// A call asks for something that the kernel counts for each user, or for memory that it does not show, or begins to listen.
    pub(super) fn answer_about_object(&mut self, notification: &Notification) {
        if notification.number() == nr::MMAP {
            return self.answer_about_shared_memory(notification);
        }
        let mut objects = core::mem::take(&mut self.objects);
        let is_allowed = objects.allow(notification.number(), notification.caller(), &*self);
        let outcome = if is_allowed {
            Ok(())
        } else {
            Err(Errno::MFILE)
        };
        self.objects = objects;
        notify::respond(self.init.listener, notification.id(), outcome);
    }

    /// What the session has at once, if all of it can be seen. Standbys have what the head had.
    fn count_objects(&self) -> Counted {
        let mut census = DescriptorCensus::new();
        let preserved = self.standbys_and_forks();
        let processes = self.init.proc_directory;
        each_process(self.init.reach, processes, |pid| {
            if !preserved.is_protected(pid) {
                census.add(processes, pid);
            }
        });
        if !self.has_own_network() {
            return census.counted(None);
        }
        Counted {
            netlink_sockets: Some(netlink_sockets(processes)),
            ..census.counted(Some(self.unix_sockets_of_code()))
        }
    }

    /// Unix sockets of the session's network, without those that init made: at its start, and for each fork.
    fn unix_sockets_of_code(&self) -> u64 {
        const FOR_A_FORK: u64 = 4;
        let own = self.own_sockets + FOR_A_FORK * self.forks.living();
        unix_sockets(self.init.proc_directory).saturating_sub(own)
    }

    fn has_own_network(&self) -> bool {
        use crate::wire::config::walls::{NAMESPACES, NETWORK};
        self.init.walls & (NAMESPACES | NETWORK) == NAMESPACES | NETWORK
    }
}

impl Census for Session {
    /// A process that is just beginning or ending cannot be looked at for a moment.
    fn counted(&self) -> Counted {
        const LOOKS: usize = 5;
        for _ in 1..LOOKS {
            let counted = self.count_objects();
            if counted.pipes.is_some() {
                return counted;
            }
            poll(&mut [], 1);
        }
        self.count_objects()
    }

    fn may_be_in_call(&self, thread: Pid) -> bool {
        stopped::may_be_in_call(self.init.proc_directory, thread)
    }
}

impl Areas for Session {
    fn of_head(&self) -> SmallInodes {
        self.init.head.map_or(SmallInodes::default(), |head| {
            inodes_of(self.init.proc_directory, head)
        })
    }

    fn shown_by_head(&self) -> u64 {
        let share = |head| Share::of(self.init.proc_directory, head);
        let share = self.init.head.and_then(share);
        share.map_or(0, |share| share.shared)
    }

    /// The head is looked at between two looks for other processes: one that it starts meanwhile could have what it gave up.
    fn are_all_small(&self, small: &SmallInodes, holder: u64) -> bool {
        self.init.head.is_some_and(|head| {
            !self.standbys.has_one_up_to(holder)
                && self.is_alone(head)
                && self.has_no_others(head, small)
                && self.is_alone(head)
        })
    }
}
