//! Process 1 of a session: it reaps processes, answers notifications of the filter, ends the head, and wakes standbys. It never runs Python and never returns to it.
//!
//! Only init says how a head ended: it holds a socket to the host that no head ever had.

mod file_changes;
mod fork_entry;
mod forks;
mod head;
mod limits;
pub mod memory;
pub mod notify;
pub mod postponed;
mod spawned;
mod standbys;
pub mod stopped;
pub mod sweep;
pub mod watchdog;

use crate::files::change_handler::ChangeHandler;
use crate::files::handover::Handover;
use crate::files::waiting_calls;
use crate::forks::family::{ForkFamily, MAX_FORKS};
use crate::forks::fork::{self, Forks};
use crate::forks::inherited::Expected;
use crate::forks::user_namespace::NextUserNamespace;
use crate::init::notify::{Listener, Protected};
use crate::init::postponed::PostponedCalls;
use crate::init::sweep::Reach;
use crate::init::watchdog::MemorySample;
use crate::init::watchdog::doubt::Doubt;
use crate::init::watchdog::idleness::ProcessorTimes;
use crate::init::watchdog::shared_memory::SharedMemory;
use crate::init::watchdog::socket_memory::unix_sockets;
use crate::init::watchdog::task_starts::TaskStarts;
use crate::init::watchdog::user_objects::UserObjects;
use crate::sys::{
    self, Errno, Fd, Pid, Poll, kill, poll, reap, receive, send, signal_descriptor, signals,
};
use crate::wire::message::{Message, from_init, to_init};
use limits::ProcessLimit;
use spawned::Spawner;
use standbys::{OutOfBounds, Preserved, Standbys};

/// How often calls are tried again that could not be done, such as opening a pipe without a reader, in milliseconds.
const TRY_PERIOD_MS: i32 = 10;

/// How often the standbys of a fork are stopped again, in milliseconds: the init of its parent lets everyone go on when it has swept.
const KEEP_FROZEN_PERIOD_MS: i32 = 1_000;

/// How often it is looked whether a new standby waits, and can be stopped, in milliseconds.
const FREEZE_PERIOD_MS: i32 = 2;

/// How long nothing must have happened before the next fork is prepared for, in milliseconds.
const IDLE_BEFORE_PREPARING_MS: i32 = 10;

/// What init holds.
pub struct Init {
    /// To the host.
    pub control: Fd,
    /// Notifications of the system call filters.
    pub listener: Listener,
    /// In a fork: the socket on which the first init of the family passes notifications on. Only the first init receives them from the kernel. Else -1.
    pub forwarded: Fd,
    /// Handles calls that change files, if the session needs that.
    pub change_handler: Option<ChangeHandler>,
    /// `/proc`, opened before any code of the user's ran.
    pub proc_directory: Fd,
    /// The live interpreter.
    pub head: Option<Pid>,
    /// How processes of this session are found.
    pub reach: Reach,
    /// The memory limit that the watchdog holds, or 0 for none.
    pub memory: u64,
    /// The limit for data in the session's sockets, in bytes, where a cgroup limits all other memory; 0 for none.
    pub socket_memory: u64,
    /// How many processes it may have.
    pub processes: u64,
    /// Its walls, as bits of [`walls`](crate::wire::config::walls).
    pub walls: u64,
    /// In a fork into whose head init can look: what it may hold when it is handed out.
    pub expected: Option<Expected>,
    /// Whether the limit of processes changes with those of others, see [`Spawn`](crate::wire::config::Spawn).
    pub follows_other_processes: bool,
}

/// Why the head is about to end, when we are the reason.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Itself = 0,
    Memory = 1,
    UserObjects = 2,
}

/// Runs until the host goes away.
pub fn run(init: Init) -> ! {
    sys::set_signal_mask(u64::MAX);
    let Ok(children) = signal_descriptor(1 << (signals::CHLD - 1)) else {
        sys::exit(70)
    };
    let mut session = Session {
        handover: Handover::of(init.forwarded >= 0),
        process_limit: ProcessLimit::of_head(&init),
        init,
        standbys: Standbys::none(),
        unclaimed: false,
        doubts: 0,
        last_doubt: Doubt::default(),
        looked_at: MemorySample::default(),
        glanced: MemorySample::default(),
        next_glance: 0,
        processor_times: ProcessorTimes::unknown(),
        forks: Forks::none(),
        family: ForkFamily::none(),
        fork_processes: 0,
        next_user_namespace: NextUserNamespace::NONE,
        entering: None,
        children,
        has_unreaped: false,
        objects: UserObjects::default(),
        shared_memory: SharedMemory::default(),
        text_bytes: 0,
        starts: TaskStarts::default(),
        copy_since: None,
        own_sockets: 0,
        spawner: Spawner::NONE,
        postponed: PostponedCalls::none(),
    };
    session.own_sockets = unix_sockets(session.init.proc_directory);
    // Files that it makes in the place of others have the permissions that those want.
    sys::umask(0);
    notify::set_synchronous_wake_up(session.init.listener.head);
    session.tell(
        from_init::STARTED,
        session.init.head.unwrap_or(0) as u64,
        u64::from(session.asks_host()),
        0,
    );
    let mut next_look = 0;
    loop {
        let watching = session.is_watching();
        let period = if session.standbys.has_one_to_freeze() {
            FREEZE_PERIOD_MS
        } else if !session.postponed.is_empty() {
            postponed::PERIOD_MS
        } else if session.has_calls_to_try() {
            TRY_PERIOD_MS
        } else if watching {
            session.watch_period()
        } else if session.keeps_someone_waiting() {
            waiting_calls::CHECK_PERIOD_MS
        } else if session.may_be_swept_from_above() {
            KEEP_FROZEN_PERIOD_MS
        } else if session.may_be_forked_again() {
            IDLE_BEFORE_PREPARING_MS
        } else {
            -1
        };
        let mut wanted = [Poll::readable(-1); 7 + MAX_FORKS];
        for (slot, fd) in wanted.iter_mut().zip(
            [
                session.init.control,
                children,
                session.notifications(),
                session.forks.news(),
                session
                    .init
                    .change_handler
                    .as_ref()
                    .map_or(-1, |change_handler| change_handler.socket),
                session.init.listener.spawned,
                session.spawner.control,
            ]
            .into_iter()
            .chain(session.family.sockets()),
        ) {
            *slot = Poll::readable(fd);
        }
        let is_quiet = poll(&mut wanted, period) == 0;
        if !is_quiet {
            session.processor_times.forget();
        }
        if is_quiet && session.may_be_forked_again() {
            session
                .next_user_namespace
                .make(session.init.proc_directory);
        }
        let [
            control,
            child,
            notification,
            news,
            host_answer,
            spawned,
            spawned_command,
            members @ ..,
        ] = wanted;
        // A new member makes itself known before there is anyone who could ask on its behalf.
        for (index, member) in members.into_iter().enumerate() {
            if member.seen != 0 {
                session.receive_from_member(index);
            }
        }
        if host_answer.seen != 0 {
            session.receive_host_answer();
        }
        session.release_overdue();
        // The host asks for a fork before the head does.
        if control.seen != 0 {
            session.receive_command();
        }
        if notification.seen & 1 != 0 {
            session.receive_notification();
        } else if notification.seen != 0 {
            // No process is left under the filter. A closed listener would keep the loop spinning.
            session.init.listener.head = -1;
        }
        if spawned.seen & 1 != 0 {
            session.receive_spawned_notification();
        } else if spawned.seen != 0 {
            session.forget_spawned_listener();
        }
        if spawned_command.seen != 0 {
            session.receive_spawned_command();
        }
        if news.seen != 0 {
            session.settle_prepared_fork();
        }
        if child.seen != 0 {
            drain(children);
            session.has_unreaped = true;
        }
        if core::mem::take(&mut session.has_unreaped) {
            session.reap_all();
        }
        session.end_sharing();
        session.try_calls_again();
        session.pass_postponed();
        if session.init.control < 0 && session.forks.is_empty() {
            sys::exit(0);
        }
        session.freeze_standbys(is_quiet);
        // By the clock: a process that keeps us busy with notifications must not keep us from looking.
        let now = sys::monotonic_milliseconds();
        if watching
            && !session.processor_times.are_unchanged(now)
            && (now >= next_look || session.must_look_early(now))
        {
            session.watch();
            let after = sys::monotonic_milliseconds();
            next_look = after + watchdog::pause_after(after - now);
        }
    }
}

struct Session {
    init: Init,
    standbys: Standbys,
    /// The head was woken by us, and the host has not asked for it yet.
    unclaimed: bool,
    /// How often in a row the watchdog was not sure, doubts that were settled since not counted.
    doubts: u32,
    /// What it was not sure about when it last was not.
    last_doubt: Doubt,
    /// What the processes had when they were last looked at closely.
    looked_at: MemorySample,
    /// What they had at the last glance.
    glanced: MemorySample,
    /// When to glance again, in milliseconds.
    next_glance: u64,
    /// How long the processes had run when they were last looked at.
    processor_times: ProcessorTimes,
    /// Sessions that were made from this one.
    forks: Forks,
    /// In the first init of a family: all the others.
    family: ForkFamily,
    process_limit: ProcessLimit,
    /// What was added to the limit of processes, for those of the forks count as ours too.
    fork_processes: u64,
    /// Where the users of the next fork will be.
    next_user_namespace: NextUserNamespace,
    handover: Handover,
    /// The process that is entering a fork.
    entering: Option<fork_entry::Entering>,
    /// Readable when a child has ended or stopped.
    children: Fd,
    /// Whether a SIGCHLD was taken and children were not reaped since.
    has_unreaped: bool,
    /// What the session was allowed of what the kernel counts for each user.
    objects: UserObjects,
    /// What the session was allowed of shared memory without a name.
    shared_memory: SharedMemory,
    /// The most that the kernel keeps for one text of `/proc` that the session has open.
    text_bytes: u64,
    /// Where the limit of processes is held by init.
    starts: TaskStarts,
    /// When the head was woken, in ticks, if it was told to leave a copy of itself and the host has not yet named that copy.
    copy_since: Option<u64>,
    /// Unix sockets that were there before any code of the session ran.
    own_sockets: u64,
    /// The parent of the processes that were spawned beside the head.
    spawner: Spawner,
    /// In the first init of a family: notifications that wait until the init of a fork has read others.
    postponed: PostponedCalls,
}

impl Session {
    fn out_of_bounds(&self) -> OutOfBounds<'_> {
        OutOfBounds {
            preserved: self.standbys_and_forks(),
            spawner: self.spawner,
            reach: self.init.reach,
        }
    }

    fn preserved(&self) -> Preserved<'_> {
        Preserved {
            standbys: &self.standbys,
            forks: &self.forks,
            spawner: self.spawner,
            proc_directory: self.init.proc_directory,
        }
    }

    /// The descriptor on which notifications of the system call filter come.
    fn notifications(&self) -> Fd {
        if self.init.forwarded < 0 {
            self.init.listener.head
        } else {
            self.init.forwarded
        }
    }

    fn tell(&self, kind: u64, a: u64, b: u64, c: u64) {
        let _ = send(
            self.init.control,
            &Message { kind, a, b, c }.to_bytes(),
            &[],
        );
    }

    fn receive_command(&mut self) {
        let mut bytes = [0; Message::SIZE + fork::MAX_FORK_REQUEST_BYTES];
        let received = match receive(self.init.control, &mut bytes) {
            Ok(received) if received.bytes > 0 => received,
            _ => return self.end(),
        };
        let Ok((message, rest)) = Message::from_bytes(&bytes[..received.bytes]) else {
            return;
        };
        let pid = message.a as Pid;
        match message.kind {
            to_init::SIGNAL => {
                if let Some(head) = self.init.head.filter(|_| !self.unclaimed) {
                    let _ = kill(head, message.a as i32);
                }
            }
            to_init::SWEEP => self.end_head(Reason::Itself, Some(pid)),
            to_init::PROTECT => {
                let errno = self
                    .protect(pid, message.b)
                    .err()
                    .map_or(0, |error| error.0);
                self.tell(from_init::PROTECTED, message.a, errno as u64, 0);
            }
            to_init::WAKE => {
                let errno = self.wake(pid).err().map_or(0, |error| error.0);
                self.tell(from_init::WOKEN, message.a, errno as u64, 0);
            }
            to_init::DROP => self.drop_standby(pid),
            to_init::BEGIN_FORK => self.begin_fork(),
            to_init::FORK => self.prepare_fork(rest, &received),
            to_init::CANCEL => self.forks.cancel(),
            to_init::CHECK_FORK => self.check_fork(message.a),
            to_init::START_SPAWNER => self.start_spawner(rest, &received),
            _ => {}
        }
    }

    /// Makes a process a standby that was made at the host's request: not before `since`, in ticks; or, where that is 0, when the head was woken.
    ///
    /// A head may only name a child of ours, and for each request only one that is younger than the request. Whatever code runs in that
    /// process, it stops here ([`Session::freeze_standbys`]).
    fn protect(&mut self, pid: Pid, since: u64) -> sys::Result<()> {
        if pid <= 1 || Some(pid) == self.init.head || self.standbys.is_protected(pid) {
            return Err(Errno::INVAL);
        }
        let since = match since {
            0 => self.copy_since.take().ok_or(Errno::PERM)?,
            since => since,
        };
        if reap(pid, false)?.is_some() {
            return Err(Errno::SRCH);
        }
        let started = sweep::start_of(self.init.proc_directory, pid).ok_or(Errno::SRCH)?;
        if started < since {
            return Err(Errno::PERM);
        }
        if self.standbys.add(pid, self.forks.made_so_far()) {
            self.shared_memory_is_copied(pid);
            Ok(())
        } else {
            Err(Errno::AGAIN)
        }
    }

    /// Whether it was forked before, and the next fork would find nothing ready for it.
    fn may_be_forked_again(&self) -> bool {
        self.init.control >= 0
            && !self.forks.has_begun()
            && !self.forks.is_preparing()
            && self.next_user_namespace.is_due()
    }

    fn drop_standby(&mut self, pid: Pid) {
        if pid > 1 && self.standbys.replace(pid, 0) {
            let _ = kill(pid, signals::KILL);
        }
    }

    /// The host is done with this session: nothing of it may stay. Init itself must as long as there are forks, for they live in
    /// its process namespace.
    fn end(&mut self) {
        // Before init exits: a process that waits for that finds that nothing is left.
        self.standbys = Standbys::none();
        self.spawner.pid = 0;
        self.init.head = None;
        self.forks.cancel_begun();
        self.sweep(0, None);
        sys::close(self.init.control);
        self.init.control = -1;
        let listener = self.init.listener;
        if let Some(mut change_handler) = self.init.change_handler.take() {
            change_handler.end(|id, outcome| notify::respond(listener, id, outcome));
            change_handler.own_directories.close();
        }
    }
}

fn drain(descriptor: Fd) {
    let mut buffer = [0u8; 128 * 4];
    while let Ok(1..) = sys::read(descriptor, &mut buffer) {}
}
