//! Process 1 of a session: reaps, judges, sweeps, wakes. It never runs Python and never returns to it.
//!
//! It is the only judge of how a head ended: it holds a socket to the host that no head ever had.

use crate::fork::{self, Forks};
use crate::keep::Keeper;
use crate::kin::{Kin, MOST_KIN};
use crate::limits;
use crate::message::{At, Failure, Message, Stage, from_init, kin, to_init};
use crate::notify::{self, Protected, QUESTION_SIZE, Question};
use crate::sweep::{self, Reach};
use crate::sys::{
    self, Ended, Errno, Fd, Pid, Poll, Received, kill, nr, poll, reap, receive, send, send_now,
    signal_descriptor, signals,
};
use crate::waiting;
use crate::watchdog::{self, Finding, Watched};

/// Most standbys of one session: the history and the newest.
const MOST_STANDBYS: usize = 64;

/// What init holds.
pub struct Init {
    /// To the host.
    pub control: Fd,
    /// Questions of the system call filter, or -1.
    pub listener: Fd,
    /// In a fork: the socket on which the first init of the family, who alone receives the questions, passes ours on. Else -1.
    pub judge: Fd,
    /// Who keeps what is about to be changed, if anyone.
    pub keeper: Option<Keeper>,
    /// `/proc`, opened before any code of the user's ran.
    pub proc_directory: Fd,
    /// The live interpreter.
    pub head: Option<Pid>,
    /// How processes of this session are found.
    pub reach: Reach,
    /// The memory limit that the watchdog holds, or 0 for none.
    pub memory: u64,
    /// How many processes it may have.
    pub processes: u64,
}

/// The standbys, in no order. Zero marks a free slot.
struct Standbys {
    pids: [Pid; MOST_STANDBYS],
    /// How many forks there had been when each was made.
    forks: [u32; MOST_STANDBYS],
    init: Pid,
}

impl Protected for Standbys {
    fn is_protected(&self, pid: Pid) -> bool {
        pid != 0 && (pid == self.init || self.pids.contains(&pid))
    }
}

/// Whom a session's code may not signal: init, the standbys, the forks of the session, and without a process namespace everyone
/// who is not of the session. Landlock would refuse these too, but only from version 6 on.
struct OutOfBounds<'a> {
    kept: Kept<'a>,
    reach: Reach,
}

impl Protected for OutOfBounds<'_> {
    fn is_protected(&self, pid: Pid) -> bool {
        let foreign = || {
            self.reach == Reach::Descendants && !sweep::is_descendant(self.kept.proc_directory, pid)
        };
        self.kept.is_protected(pid) || pid != 0 && foreign()
    }
}

/// Whom ending the head leaves alone, and whose memory is not the head's: init, the standbys, and sessions forked from this one.
struct Kept<'a> {
    standbys: &'a Standbys,
    forks: &'a Forks,
    proc_directory: Fd,
}

impl Protected for Kept<'_> {
    fn is_protected(&self, pid: Pid) -> bool {
        self.standbys.is_protected(pid) || self.forks.has(self.proc_directory, pid)
    }
}

impl Standbys {
    fn none() -> Standbys {
        Standbys {
            pids: [0; MOST_STANDBYS],
            forks: [0; MOST_STANDBYS],
            init: sys::own_pid(),
        }
    }

    fn replace(&mut self, old: Pid, new: Pid) -> bool {
        match self.pids.iter_mut().find(|pid| **pid == old) {
            Some(slot) => {
                *slot = new;
                true
            }
            None => false,
        }
    }

    fn add(&mut self, pid: Pid, forks: u32) -> bool {
        let free = self.pids.iter().position(|pid| *pid == 0);
        if let Some(index) = free {
            (self.pids[index], self.forks[index]) = (pid, forks);
        }
        free.is_some()
    }

    fn forks_before(&self, pid: Pid) -> u32 {
        let index = self.pids.iter().position(|standby| *standby == pid);
        index.map_or(0, |index| self.forks[index])
    }
}

/// Why the head is about to end, when we are the reason.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Itself = 0,
    Memory = 1,
}

/// Runs until the host goes away.
pub fn run(init: Init) -> ! {
    let mut session = Session {
        init,
        standbys: Standbys::none(),
        doubts: 0,
        forks: Forks::none(),
        kin: Kin::none(),
        room: 0,
    };
    sys::set_signal_mask(u64::MAX);
    let Ok(children) = signal_descriptor(1 << (signals::CHLD - 1)) else {
        sys::exit(70)
    };
    session.tell(from_init::BORN, session.init.head.unwrap_or(0) as u64, 0, 0);
    let mut looked = sys::monotonic_milliseconds();
    loop {
        let watching = session.init.memory > 0 && session.init.head.is_some();
        let period = if watching {
            watchdog::PERIOD
        } else if session.keeps_someone_waiting() {
            waiting::PERIOD
        } else {
            -1
        };
        let questions = if session.init.judge < 0 {
            session.init.listener
        } else {
            session.init.judge
        };
        let mut wanted = [Poll::readable(-1); 5 + MOST_KIN];
        for (slot, fd) in wanted.iter_mut().zip(
            [
                session.init.control,
                children,
                questions,
                session.forks.news(),
                session
                    .init
                    .keeper
                    .as_ref()
                    .map_or(-1, |keeper| keeper.socket),
            ]
            .into_iter()
            .chain(session.kin.sockets()),
        ) {
            *slot = Poll::readable(fd);
        }
        poll(&mut wanted, period);
        let [control, child, question, news, kept, relatives @ ..] = wanted;
        // A new relative makes itself known before there is anyone who could ask on its behalf.
        for (index, relative) in relatives.into_iter().enumerate() {
            if relative.seen != 0 {
                session.hear_relative(index);
            }
        }
        if kept.seen != 0 {
            session.hear_keeper();
        }
        session.release_overdue();
        // The host asks for a fork before the head does.
        if control.seen != 0 {
            session.obey();
        }
        if question.seen & 1 != 0 {
            session.hear_question();
        } else if question.seen != 0 {
            // Nobody is left under the filter. A closed listener would keep the loop spinning.
            session.init.listener = -1;
        }
        if news.seen != 0 {
            session.hear_fork();
        }
        if child.seen != 0 {
            drain(children);
            session.reap_all();
        }
        if session.init.control < 0 && session.forks.is_empty() {
            sys::exit(0);
        }
        // By the clock: a process that keeps us busy with questions must not keep us from looking.
        if watching
            && sys::monotonic_milliseconds().saturating_sub(looked) >= watchdog::PERIOD as u64
        {
            session.watch_memory();
            looked = sys::monotonic_milliseconds();
        }
    }
}

struct Session {
    init: Init,
    standbys: Standbys,
    /// How often in a row the watchdog was not sure.
    doubts: u32,
    /// Sessions that were made from this one.
    forks: Forks,
    /// In the first init of a family: all the others.
    kin: Kin,
    /// What was added to the limit of processes, for those of the forks count as ours too.
    room: u64,
}

impl Session {
    fn out_of_bounds(&self) -> OutOfBounds<'_> {
        OutOfBounds {
            kept: self.kept(),
            reach: self.init.reach,
        }
    }

    fn kept(&self) -> Kept<'_> {
        Kept {
            standbys: &self.standbys,
            forks: &self.forks,
            proc_directory: self.init.proc_directory,
        }
    }

    /// The kernel, or the first init of the family, asks about a call.
    fn hear_question(&mut self) {
        if self.init.judge < 0 {
            let Ok(question) = notify::receive(self.init.listener) else {
                return;
            };
            // Forks work on files of their own, which nobody keeps: their inits need not hear of it.
            if Keeper::is_about(question.number()) {
                return self.keep(&question);
            }
            match self
                .kin
                .responsible_for(self.init.proc_directory, question.asker())
            {
                None => self.judge(&question),
                Some(socket) => {
                    // Who cannot keep up must not hold up the whole family.
                    if send_now(socket, question.as_bytes()).is_err() {
                        notify::answer(self.init.listener, &question, false);
                    }
                }
            }
            return;
        }
        let mut bytes = [0; QUESTION_SIZE];
        let length = receive(self.init.judge, &mut bytes).map_or(0, |received| received.bytes);
        if length == 0 {
            // The first init is gone, and we with it.
            self.init.judge = -1;
            self.init.listener = -1;
        } else if let Some(question) = Question::from_bytes(&bytes[..length]) {
            self.judge(&question);
        } else if let Ok((message, _)) = Message::from_bytes(&bytes[..length])
            && message.kind == kin::ROOM
        {
            self.make_room(message.a);
        }
    }

    /// A file is about to be changed. Nobody is refused that; the call waits if there is something to keep.
    fn keep(&mut self, question: &Question) {
        let waits = match &mut self.init.keeper {
            Some(keeper) => keeper.tell(question),
            None => false,
        };
        if !waits {
            notify::answer(self.init.listener, question, true);
        }
    }

    fn hear_keeper(&mut self) {
        let listener = self.init.listener;
        if let Some(keeper) = &mut self.init.keeper {
            keeper.hear(|id| notify::let_go_on(listener, id));
        }
    }

    fn keeps_someone_waiting(&self) -> bool {
        let keeper = self.init.keeper.as_ref();
        keeper.is_some_and(|keeper| !keeper.waiting.is_empty())
    }

    /// A host that is slow must not hold up the session for ever.
    fn release_overdue(&mut self) {
        if !self.keeps_someone_waiting() {
            return;
        }
        let (listener, now) = (self.init.listener, sys::monotonic_milliseconds());
        if let Some(keeper) = &mut self.init.keeper {
            let release = |id| notify::let_go_on(listener, id);
            keeper.waiting.release_overdue(now, release);
        }
    }

    fn judge(&mut self, question: &Question) {
        let listener = self.init.listener;
        let (number, arguments) = (question.number(), question.arguments());
        let allowed = match number {
            nr::SETNS => {
                self.hear_of_a_fork();
                self.forks.let_enter(listener, question).is_ok()
            }
            _ => {
                notify::is_harmless(number, arguments, &self.out_of_bounds())
                    && !self.may_hit_a_group_of_forks(number, arguments)
            }
        };
        notify::answer(listener, question, allowed);
    }

    /// The host asks us for a fork before it asks the head to enter it. On a busy machine both may have done so before we look.
    fn hear_of_a_fork(&mut self) {
        while !self.forks.is_preparing() && sweep::wait_readable(self.init.control, 0) {
            self.obey();
        }
    }

    /// A process group can outlive the process that it is named after; then nobody can tell whose it is.
    fn may_hit_a_group_of_forks(&self, number: usize, arguments: &[u64; 6]) -> bool {
        let group = (arguments[0] as Pid).wrapping_neg();
        number == nr::KILL
            && group > 1
            && !self.forks.is_empty()
            && !sweep::is_there(self.init.proc_directory, group)
    }

    /// An init of the family, of which we are the first, tells of another one, or is gone.
    fn hear_relative(&mut self, index: usize) {
        let Some((socket, pid)) = self.kin.at(index) else {
            return;
        };
        let mut bytes = [0; Message::SIZE];
        match receive(socket, &mut bytes) {
            Ok(received) if received.bytes > 0 => {
                if let Ok((message, _)) = Message::from_bytes(&bytes[..received.bytes])
                    && message.kind == kin::REGISTER
                    && let Some(socket) = received.descriptors[..received.count].first()
                {
                    let _ = self.kin.add(*socket, pid, message.a);
                }
            }
            _ => self.kin.remove(index),
        }
        self.share_room();
    }

    /// All sessions of a family have one user, and the kernel counts the processes of forks as their parents' too.
    fn share_room(&mut self) {
        if self.init.judge < 0 {
            self.make_room(self.kin.below(fork::FIRST));
            self.kin.tell_room();
        }
    }

    fn make_room(&mut self, room: u64) {
        if room == self.room {
            return;
        }
        self.room = room;
        let most = self.init.processes.saturating_add(room);
        let forks = &self.forks;
        let processes = self.init.proc_directory;
        sweep::each_process(self.init.reach, processes, |pid| {
            if !forks.has(processes, pid) {
                let _ = limits::allow_processes(pid, most);
            }
        });
    }

    /// Makes the init and the namespaces of a fork.
    fn prepare_fork(&mut self, bytes: &[u8], received: &Received) {
        // The last one told that it lives before it told the host.
        self.hear_fork();
        let outcome = if self.forks.is_preparing() {
            Err(Errno::AGAIN).at(Stage::Request)
        } else {
            let parent = fork::Parent {
                listener: self.init.listener,
                proc_directory: self.init.proc_directory,
            };
            fork::prepare(&parent, bytes, &received.descriptors[..received.count])
        };
        let outcome = outcome.and_then(|(prepared, introduction)| {
            let registered = if self.init.judge < 0 {
                self.kin
                    .add(introduction.socket, fork::FIRST, introduction.processes)
            } else {
                let message = Message {
                    kind: kin::REGISTER,
                    a: introduction.processes,
                    ..Message::default()
                };
                let sent = send(self.init.judge, &message.to_bytes(), &[introduction.socket]);
                sys::close(introduction.socket);
                sent
            };
            match registered {
                Ok(()) => self.forks.expect(prepared),
                Err(errno) => {
                    prepared.give_up();
                    Err(errno)
                }
            }
            .at(Stage::Namespaces)
        });
        match outcome {
            Ok(()) => {
                self.share_room();
                self.tell(from_init::PREPARED, 0, 0, 0);
            }
            Err(Failure { stage, errno }) => {
                self.tell(from_init::PREPARED, stage as u64, errno.0 as u64, 0);
            }
        }
    }

    /// Whether the fork that was prepared lives, if it has told.
    fn hear_fork(&mut self) {
        if self.forks.is_preparing() && sweep::wait_readable(self.forks.news(), 0) {
            self.forks.settle();
            self.end_the_privileged();
        }
    }

    /// Whoever helped a fork into its namespaces had capabilities there. Nobody of the session may keep any: who does not go by
    /// himself is ended.
    fn end_the_privileged(&self) {
        const PATIENCE: u64 = 1000;
        let start = sys::monotonic_milliseconds();
        loop {
            let late = sys::monotonic_milliseconds() - start >= PATIENCE;
            let mut left = 0;
            self.each_privileged(|pid| {
                left += 1;
                if late {
                    let _ = kill(pid, signals::KILL);
                }
            });
            if late || left == 0 {
                return;
            }
            poll(&mut [], 1);
        }
    }

    fn each_privileged(&self, mut visit: impl FnMut(Pid)) {
        let processes = self.init.proc_directory;
        sweep::each_process(self.init.reach, processes, |pid| {
            if !self.forks.has(processes, pid)
                && fork::credentials_of(processes, pid)
                    .is_ok_and(|credentials| !credentials.is_powerless())
            {
                visit(pid);
            }
        });
    }

    fn tell(&self, kind: u64, a: u64, b: u64, c: u64) {
        let _ = send(
            self.init.control,
            &Message { kind, a, b, c }.to_bytes(),
            &[],
        );
    }

    fn obey(&mut self) {
        let mut bytes = [0; Message::SIZE + fork::LONGEST_REQUEST];
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
                if let Some(head) = self.init.head {
                    let _ = kill(head, message.a as i32);
                }
            }
            to_init::SWEEP => self.end_head(Reason::Itself),
            to_init::PROTECT => {
                let errno = self.protect(pid).err().map_or(0, |error| error.0);
                self.tell(from_init::PROTECTED, message.a, errno as u64, 0);
            }
            to_init::WAKE => {
                let errno = self.wake(pid).err().map_or(0, |error| error.0);
                self.tell(from_init::WOKEN, message.a, errno as u64, 0);
            }
            to_init::DROP => self.drop_standby(pid),
            to_init::MEMORY => self.init.memory = message.a,
            to_init::FORK => self.prepare_fork(rest, &received),
            to_init::CANCEL => {
                self.forks.cancel();
                self.end_the_privileged();
            }
            _ => {}
        }
    }

    /// A head may only name a child of ours; its word alone proves nothing.
    fn protect(&mut self, pid: Pid) -> sys::Result<()> {
        if pid <= 1 || Some(pid) == self.init.head || self.standbys.is_protected(pid) {
            return Err(Errno::INVAL);
        }
        if reap(pid, false)?.is_some() {
            return Err(Errno::SRCH);
        }
        if self.standbys.add(pid, self.forks.made_so_far()) {
            Ok(())
        } else {
            Err(Errno::AGAIN)
        }
    }

    fn drop_standby(&mut self, pid: Pid) {
        if pid > 1 && self.standbys.replace(pid, 0) {
            let _ = kill(pid, signals::KILL);
        }
    }

    fn wake(&mut self, pid: Pid) -> sys::Result<()> {
        let forks_before = self.standbys.forks_before(pid);
        if pid <= 1 || self.init.head.is_some() || !self.standbys.replace(pid, 0) {
            return Err(Errno::SRCH);
        }
        let is_older_than_a_fork = forks_before < self.forks.made_so_far();
        kill(
            pid,
            if is_older_than_a_fork {
                signals::WAKE_APART
            } else {
                signals::WAKE
            },
        )?;
        self.init.head = Some(pid);
        Ok(())
    }

    fn reap_all(&mut self) {
        while let Ok(Some(ended)) = reap(-1, false) {
            if Some(ended.pid) == self.init.head {
                self.init.head = None;
                self.sweep(ended.pid);
                self.report(ended, Reason::Itself);
            } else {
                self.forks.forget(ended.pid);
                self.forget_standby(ended);
            }
        }
    }

    fn end_head(&mut self, reason: Reason) {
        let Some(head) = self.init.head.take() else {
            return;
        };
        let verdict = self.sweep(head).unwrap_or(Ended {
            pid: head,
            status: signals::KILL,
            cpu: 0,
            peak: 0,
        });
        self.report(verdict, reason);
    }

    /// Ends all but the standbys and forks, and returns how `head` ended if it was among them.
    fn sweep(&mut self, head: Pid) -> Option<Ended> {
        // A fork that is not finished needs the head.
        self.forks.cancel();
        let kept = self.kept();
        let mut verdict = None;
        let mut lost = [None; MOST_STANDBYS + MOST_KIN];
        sweep::sweep(self.init.reach, self.init.proc_directory, &kept, |ended| {
            if ended.pid == head {
                verdict = Some(ended);
            } else if (kept.standbys.is_protected(ended.pid) || kept.forks.made(ended.pid))
                && let Some(slot) = lost.iter_mut().find(|slot| slot.is_none())
            {
                *slot = Some(ended);
            }
        });
        for ended in lost.into_iter().flatten() {
            self.forks.forget(ended.pid);
            self.forget_standby(ended);
        }
        verdict
    }

    fn forget_standby(&mut self, ended: Ended) {
        if ended.pid > 1 && self.standbys.replace(ended.pid, 0) {
            self.tell(from_init::LOST, ended.pid as u64, ended.status as u64, 0);
        }
    }

    fn report(&self, ended: Ended, reason: Reason) {
        self.tell(
            from_init::ENDED,
            ended.status as u64,
            reason as u64 | ended.cpu << 8,
            ended.peak,
        );
    }

    fn watch_memory(&mut self) {
        let Init {
            reach,
            proc_directory,
            memory,
            ..
        } = self.init;
        let Some(head) = self.init.head else { return };
        let watched = Watched {
            reach,
            proc_directory,
            head,
            standbys: &self.kept(),
        };
        let over = match watched.look(memory) {
            Finding::Fine => {
                self.doubts = 0;
                false
            }
            Finding::Doubtful(bytes) => {
                self.doubts += 1;
                self.doubts >= watchdog::patience(bytes)
            }
            Finding::Over => true,
        };
        if over {
            self.doubts = 0;
            self.end_head(Reason::Memory);
        }
    }

    /// The host is done with this session: nothing of it may stay. Init itself must as long as there are forks, for they live in
    /// its process namespace.
    fn end(&mut self) {
        // Before we go, so that whoever waits for our end finds that nothing is left.
        self.standbys = Standbys::none();
        self.init.head = None;
        self.sweep(0);
        sys::close(self.init.control);
        self.init.control = -1;
        let listener = self.init.listener;
        if let Some(mut keeper) = self.init.keeper.take() {
            keeper.end(|id| notify::let_go_on(listener, id));
            sys::close(keeper.home);
        }
    }
}

fn drain(descriptor: Fd) {
    let mut buffer = [0u8; 128 * 4];
    while let Ok(1..) = sys::read(descriptor, &mut buffer) {}
}
