//! Init moves the helper of a head into the fork that was prepared (`forks/enter_namespaces.rs`), and serves other processes meanwhile.

use super::{Session, drain};
use crate::forks::cpu_affinity::SharedCpu;
use crate::forks::enter_namespaces::{Deadline, MAX_ATTEMPTS, StoppedCaller, Visibility};
use crate::forks::fork::{Hints, KINDS};
use crate::forks::ways_back::WaysBack;
use crate::init::notify::{self, Notification, OnExecute, Protected};
use crate::init::stopped;
use crate::init::sweep;
use crate::sys::trace::{self, Waited};
use crate::sys::{self, Errno, Pid, Poll, Result, clone_flags, kill, nr, poll, signals};

/// The process that is entering a fork.
pub(super) struct Entering {
    pid: Pid,
    deadline: Deadline,
    /// The call that the process waits in, its own or one that init made it begin.
    asked: Option<Notification>,
}

/// What init waits for while a process is entering.
enum Event {
    /// The process waits for an answer to this call.
    Asked(Notification),
    /// The process has stopped.
    Stopped,
}

impl Session {
    /// A process asks to be traced by its parent. Init allows that to a child of its own that shall enter the fork which was
    /// prepared. From its next call on, that process is stopped until it has no capability.
    pub(super) fn handle_ptrace(&mut self, notification: &Notification) {
        let listener = self.init.listener;
        let pid = notification.caller();
        let wish = trace::trace_me_arguments(notification.arguments());
        if self.is_entering(pid) {
            // The process was interrupted after it got the permission, and asks again.
            return notify::answer(listener, notification, wish.is_some());
        }
        if self.entering.is_none() {
            self.receive_fork_request();
        }
        let granted =
            wish.filter(|_| self.may_enter(pid) && notify::is_waiting(listener, notification.id()));
        let Some(hints) = granted else {
            return notify::answer(listener, notification, false);
        };
        self.entering = Some(Entering {
            pid,
            deadline: Deadline::of(self.init.proc_directory, pid),
            asked: None,
        });
        notify::answer(listener, notification, true);
        let entered = self.enter_fork(pid, Hints::from_words(hints));
        self.entering = None;
        // Waiting took signals that may have been about other children.
        self.has_unreaped = true;
        match entered {
            Ok(()) => self.forks.helper_entered(pid),
            Err(_) => {
                // The process is stopped, perhaps with capabilities. It never runs again.
                let _ = kill(pid, signals::KILL);
                self.forks.cancel();
            }
        }
    }

    /// A process asks to enter a namespace, or to have descriptors of its own. Only the process that is entering does, and init makes its calls.
    pub(super) fn handle_step(&mut self, notification: &Notification) {
        match &mut self.entering {
            Some(own) if own.pid == notification.caller() => own.asked = Some(*notification),
            _ => notify::answer(self.init.listener, notification, false),
        }
    }

    fn is_entering(&self, pid: Pid) -> bool {
        self.entering.as_ref().is_some_and(|own| own.pid == pid)
    }

    /// Whether a process may enter the fork that waits for a head: it must be a child of init's that is neither the head nor protected.
    fn may_enter(&self, pid: Pid) -> bool {
        self.entering.is_none()
            && self.forks.is_enterable()
            && Some(pid) != self.init.head
            && !self.preserved().is_protected(pid)
            && sweep::parent_of(self.init.proc_directory, pid) == Some(sys::own_pid())
    }

    /// Moves a process that was just allowed to be traced into the fork, and lets it run there without capabilities.
    fn enter_fork(&mut self, pid: Pid, hints: Hints) -> Result<()> {
        let own = self.wait_for_call(pid)?;
        let deadline = self.deadline()?;
        let stopped = StoppedCaller::in_call(self.init.proc_directory, pid, &own, deadline)?;
        // Until the process is released, it and init take turns many times.
        let together = SharedCpu::with(pid);
        self.make_reported_call(
            &stopped,
            nr::UNSHARE,
            [clone_flags::FILES, 0],
            |_, _| Ok(()),
        )?;
        let mut ways_back = self.ways_back(&stopped)?;
        stopped.hide()?;
        let listener = self.init.listener;
        for (index, (kind, _)) in KINDS.into_iter().enumerate() {
            let Some(namespace) = self.forks.namespace(index) else {
                continue;
            };
            let arguments = [hints.namespace as usize, kind];
            self.make_reported_call(&stopped, nr::SETNS, arguments, |session, asked| {
                if let Some(ways_back) = ways_back.take() {
                    ways_back.cut(|dead, number| {
                        notify::give(listener, asked, dead, number, OnExecute::Closed)
                    })?;
                }
                session.forks.hand_over(listener, asked, namespace, &hints)
            })?;
            self.forks.namespace_entered(index);
        }
        stopped.drop_capabilities(self.init.proc_directory, hints.capabilities)?;
        // Before the process runs: its children inherit on which processors they may run.
        drop(together);
        stopped.release(self.fork_visibility(pid))
    }

    /// What leads from a process that has descriptors of its own to this session. `None` where the head is closed to init: the processes
    /// that it is closed to would see into it while init looks.
    fn ways_back(&self, stopped: &StoppedCaller) -> Result<Option<WaysBack>> {
        let is_fork = self.init.forwarded >= 0;
        if is_fork && self.init.expected.is_none() {
            return Ok(None);
        }
        stopped.show()?;
        WaysBack::of(self.init.proc_directory, stopped.pid()).map(Some)
    }

    /// What others may see of the fork that `entering` enters. Threads of the head part from the fork, and so does all that they start later.
    /// A process that was started before cannot be parted. Meanwhile the head's threads are stopped and start none.
    fn fork_visibility(&self, entering: Pid) -> Visibility {
        let processes = self.init.proc_directory;
        let preserved = self.preserved();
        let mut others = false;
        sweep::each_process(self.init.reach, processes, |pid| {
            let is_known = Some(pid) == self.init.head
                || pid == entering
                || pid == sys::own_pid()
                || preserved.is_protected(pid);
            others |= !is_known && stopped::is_living(processes, pid);
        });
        if others {
            Visibility::Closed
        } else {
            Visibility::LikeParent
        }
    }

    /// Waits until the process, which runs, makes the call that it will be stopped in.
    fn wait_for_call(&mut self, pid: Pid) -> Result<Notification> {
        for _ in 0..MAX_ATTEMPTS {
            match self.next_event(pid)? {
                Event::Asked(notification) => return Ok(notification),
                Event::Stopped => trace::go_on(pid)?,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Has a stopped process make a call that the filter reports, and does `before` when it is reported. The call counts only if it was: one more
    /// filter of the process's own could have faked its result.
    fn make_reported_call(
        &mut self,
        stopped: &StoppedCaller,
        number: usize,
        arguments: [usize; 2],
        mut before: impl FnMut(&mut Session, &Notification) -> Result<()>,
    ) -> Result<()> {
        let listener = self.init.listener;
        for _ in 0..MAX_ATTEMPTS {
            let begun = stopped.begin(number, arguments)?;
            let mut was_reported = false;
            if let Event::Asked(notification) = self.next_event(stopped.pid())? {
                let asked = (
                    notification.number(),
                    &notification.arguments()[..arguments.len()],
                );
                if asked != (number, &arguments.map(|argument| argument as u64)[..]) {
                    return Err(Errno::PROTO);
                }
                before(self, &notification)?;
                notify::answer(listener, &notification, true);
                was_reported = true;
                begun.wait()?;
            }
            match begun.returned()? {
                Some(Ok(_)) if was_reported => return Ok(()),
                Some(Ok(_)) => return Err(Errno::PROTO),
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
        Err(Errno::AGAIN)
    }

    /// Waits for the process that is entering, and answers the notifications of all others meanwhile: they come through the same listener.
    fn next_event(&mut self, pid: Pid) -> Result<Event> {
        let step = self.deadline()?.step();
        loop {
            let asked = self.entering.as_mut().and_then(|own| own.asked.take());
            // A call that was interrupted since then does not wait for an answer any more.
            if let Some(notification) = asked
                .filter(|notification| notify::is_waiting(self.init.listener, notification.id()))
            {
                return Ok(Event::Asked(notification));
            }
            match trace::look_for_stop(pid)? {
                Some(Waited::Stopped) => return Ok(Event::Stopped),
                Some(Waited::Ended) => return Err(Errno::SRCH),
                None => {}
            }
            let mut wanted = [
                Poll::readable(self.children),
                Poll::readable(self.notifications()),
            ];
            poll(&mut wanted, step.left()? as i32);
            let [child, notification] = wanted;
            if child.seen != 0 {
                drain(self.children);
            }
            if notification.seen & 1 != 0 {
                self.receive_notification();
            } else if notification.seen != 0 {
                return Err(Errno::PIPE);
            }
        }
    }

    fn deadline(&self) -> Result<Deadline> {
        self.entering
            .as_ref()
            .map(|own| own.deadline)
            .ok_or(Errno::SRCH)
    }
}
