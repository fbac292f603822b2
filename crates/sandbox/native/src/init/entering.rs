//! Init leads a helper of the head into the fork that was prepared (`entering.rs`), and answers what others ask meanwhile.

use super::{Session, drain};
use crate::entering::{MOST_ATTEMPTS, Stopped};
use crate::fork::{Hints, KINDS};
use crate::notify::{self, Protected, Question};
use crate::processor::OneProcessor;
use crate::sweep;
use crate::sys::trace::{self, Waited};
use crate::sys::{self, Errno, Fd, Pid, Poll, Result, kill, nr, poll, signals};

/// How long a helper may take from one call to the next, in milliseconds. A few microseconds, but the machine may be busy.
const PATIENCE: u64 = 2_000;

/// The process that is being led into a fork.
pub(super) struct Entering {
    pid: Pid,
    /// What it asks, or what init asks in its place, while it waits for an answer.
    asked: Option<Question>,
}

/// What a process did that init waits for.
enum Event {
    /// It waits for an answer to this.
    Asked(Question),
    /// It has stopped.
    Stopped,
}

impl Session {
    /// A process asks to be traced by us. Only who shall enter a fork is, and it is stopped from its next call on until it has no capability.
    pub(super) fn hear_of_entering(&mut self, question: &Question) {
        let listener = self.init.listener;
        let pid = question.asker();
        let wish = trace::wish_to_be_traced(question.arguments());
        if self.is_entering(pid) {
            // It was interrupted when it had our leave already, and asks again.
            return notify::answer(listener, question, wish.is_some());
        }
        if self.entering.is_none() {
            self.hear_of_a_fork();
        }
        let granted =
            wish.filter(|_| self.may_enter(pid) && notify::is_waiting(listener, question.id()));
        let Some(hints) = granted else {
            return notify::answer(listener, question, false);
        };
        self.entering = Some(Entering { pid, asked: None });
        notify::answer(listener, question, true);
        let led = self.lead(pid, Hints::from_words(hints));
        self.entering = None;
        if led.is_err() {
            // It is stopped, perhaps with capabilities, and never runs again.
            let _ = kill(pid, signals::KILL);
            self.forks.cancel();
        } else {
            self.forks.helper_entered(pid);
        }
    }

    /// A process asks to enter a namespace. It does so only by our own hand.
    pub(super) fn hear_of_namespace(&mut self, question: &Question) {
        match &mut self.entering {
            Some(own) if own.pid == question.asker() => own.asked = Some(*question),
            _ => notify::answer(self.init.listener, question, false),
        }
    }

    fn is_entering(&self, pid: Pid) -> bool {
        self.entering.as_ref().is_some_and(|own| own.pid == pid)
    }

    /// Whether a process may be led into the fork that waits for a head: one of the session, which we are the parent of.
    fn may_enter(&self, pid: Pid) -> bool {
        self.entering.is_none()
            && self.forks.is_enterable()
            && Some(pid) != self.init.head
            && !self.kept().is_protected(pid)
            && sweep::parent_of(self.init.proc_directory, pid) == Some(sys::own_pid())
    }

    /// Leads a process in that was just allowed to be traced.
    fn lead(&mut self, pid: Pid, hints: Hints) -> Result<()> {
        let own = self.wait_for_call(pid)?;
        let stopped = Stopped::in_call(self.init.proc_directory, pid, &own)?;
        // Until it is released, it and we take turns many times.
        let together = OneProcessor::with(pid);
        stopped.hide()?;
        for (index, (kind, _)) in KINDS.into_iter().enumerate() {
            if let Some(namespace) = self.forks.namespace(index) {
                let arguments = [hints.namespace as usize, kind];
                self.enter(&stopped, arguments, namespace, &hints)?;
                self.forks.namespace_entered(index);
            }
        }
        stopped.drop_capabilities(self.init.proc_directory, hints.capabilities)?;
        // Before it runs: what it forks may run where it may.
        drop(together);
        stopped.release()
    }

    /// Waits until the process, which runs, calls what it shall be stopped in.
    fn wait_for_call(&mut self, pid: Pid) -> Result<Question> {
        for _ in 0..MOST_ATTEMPTS {
            match self.next_event(pid)? {
                Event::Asked(question) => return Ok(question),
                Event::Stopped => trace::go_on(pid)?,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Makes a stopped process enter one namespace. The filter asks us about that too, and must: a process that has one more filter of
    /// its own could have been told by that one that it has entered.
    fn enter(
        &mut self,
        stopped: &Stopped,
        arguments: [usize; 2],
        namespace: Fd,
        hints: &Hints,
    ) -> Result<()> {
        let listener = self.init.listener;
        for _ in 0..MOST_ATTEMPTS {
            let begun = stopped.begin(nr::SETNS, arguments)?;
            let mut was_asked = false;
            if let Event::Asked(question) = self.next_event(stopped.pid())? {
                if question.arguments()[..2] != arguments.map(|argument| argument as u64) {
                    return Err(Errno::PROTO);
                }
                self.forks
                    .hand_over(listener, &question, namespace, hints)?;
                notify::answer(listener, &question, true);
                was_asked = true;
                begun.wait()?;
            }
            match begun.returned()? {
                Some(Ok(_)) if was_asked => return Ok(()),
                Some(Ok(_)) => return Err(Errno::PROTO),
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
        Err(Errno::AGAIN)
    }

    /// Waits for the process, and serves all others meanwhile: their questions come through the same listener.
    fn next_event(&mut self, pid: Pid) -> Result<Event> {
        let start = sys::monotonic_milliseconds();
        loop {
            let asked = self.entering.as_mut().and_then(|own| own.asked.take());
            // One that was interrupted since waits no more.
            if let Some(question) =
                asked.filter(|question| notify::is_waiting(self.init.listener, question.id()))
            {
                return Ok(Event::Asked(question));
            }
            match trace::look_for_stop(pid)? {
                Some(Waited::Stopped) => return Ok(Event::Stopped),
                Some(Waited::Ended) => return Err(Errno::SRCH),
                None => {}
            }
            let passed = sys::monotonic_milliseconds().saturating_sub(start);
            let left = PATIENCE.checked_sub(passed).ok_or(Errno::AGAIN)?;
            let mut wanted = [
                Poll::readable(self.children),
                Poll::readable(self.questions()),
            ];
            poll(&mut wanted, left as i32);
            let [child, question] = wanted;
            if child.seen != 0 {
                drain(self.children);
                self.has_unreaped = true;
            }
            if question.seen & 1 != 0 {
                self.hear_question();
            } else if question.seen != 0 {
                return Err(Errno::PIPE);
            }
        }
    }
}
