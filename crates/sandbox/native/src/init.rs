//! Process 1 of a session: reaps, judges, sweeps, wakes. It never runs Python and never returns to it.
//!
//! It is the only judge of how a head ended: it holds a socket to the host that no head ever had.

use crate::message::{Message, from_init, to_init};
use crate::notify::{self, Protected};
use crate::sweep::{self, Reach};
use crate::sys::{
    self, Ended, Errno, Fd, Pid, Poll, kill, poll, reap, receive, send, signal_descriptor, signals,
};
use crate::watchdog::{self, Finding, Watched};

/// Most standbys of one session: the history and the newest.
const MOST_STANDBYS: usize = 64;

/// What init holds.
pub struct Init {
    /// To the host.
    pub control: Fd,
    /// Questions of the system call filter, or -1.
    pub listener: Fd,
    /// `/proc`, opened before any code of the user's ran.
    pub proc_directory: Fd,
    /// The live interpreter.
    pub head: Option<Pid>,
    /// How processes of this session are found.
    pub reach: Reach,
    /// The memory limit that the watchdog holds, or 0 for none.
    pub memory: u64,
}

/// The standbys, in no order. Zero marks a free slot.
struct Standbys {
    pids: [Pid; MOST_STANDBYS],
    init: Pid,
}

impl Protected for Standbys {
    fn is_protected(&self, pid: Pid) -> bool {
        pid != 0 && (pid == self.init || self.pids.contains(&pid))
    }
}

/// Whom a session's code may not signal: init, the standbys, and without a process namespace everyone who is not of the
/// session. Landlock would refuse these too, but only from version 6 on.
struct OutOfBounds<'a> {
    standbys: &'a Standbys,
    reach: Reach,
    proc_directory: Fd,
}

impl Protected for OutOfBounds<'_> {
    fn is_protected(&self, pid: Pid) -> bool {
        let foreign =
            || self.reach == Reach::Descendants && !sweep::is_descendant(self.proc_directory, pid);
        self.standbys.is_protected(pid) || pid != 0 && foreign()
    }
}

impl Standbys {
    fn none() -> Standbys {
        Standbys {
            pids: [0; MOST_STANDBYS],
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
    };
    sys::set_signal_mask(u64::MAX);
    let Ok(children) = signal_descriptor(1 << (signals::CHLD - 1)) else {
        sys::exit(70)
    };
    session.tell(from_init::BORN, session.init.head.unwrap_or(0) as u64, 0, 0);
    let mut looked = sys::monotonic_milliseconds();
    loop {
        let watching = session.init.memory > 0 && session.init.head.is_some();
        let period = if watching { watchdog::PERIOD } else { -1 };
        let mut wanted = [
            Poll::readable(session.init.control),
            Poll::readable(children),
            Poll::readable(session.init.listener),
        ];
        poll(&mut wanted, period);
        let [control, child, question] = wanted;
        if question.seen & 1 != 0 {
            let _ = notify::answer(session.init.listener, &session.out_of_bounds());
        } else if question.seen != 0 {
            // Nobody is left under the filter. A closed listener would keep the loop spinning.
            session.init.listener = -1;
        }
        if child.seen != 0 {
            drain(children);
            session.reap_all();
        }
        if control.seen != 0 {
            session.obey();
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
}

impl Session {
    fn out_of_bounds(&self) -> OutOfBounds<'_> {
        OutOfBounds {
            standbys: &self.standbys,
            reach: self.init.reach,
            proc_directory: self.init.proc_directory,
        }
    }

    fn tell(&self, kind: u64, a: u64, b: u64, c: u64) {
        let _ = send(
            self.init.control,
            &Message { kind, a, b, c }.to_bytes(),
            &[],
        );
    }

    fn obey(&mut self) {
        let mut bytes = [0; Message::SIZE];
        let Ok(received) = receive(self.init.control, &mut bytes) else {
            self.end()
        };
        if received.bytes == 0 {
            self.end();
        }
        let Ok((message, _)) = Message::from_bytes(&bytes[..received.bytes]) else {
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
        if self.standbys.replace(0, pid) {
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
        if pid <= 1 || self.init.head.is_some() || !self.standbys.replace(pid, 0) {
            return Err(Errno::SRCH);
        }
        kill(pid, signals::WAKE)?;
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

    /// Ends all but the standbys, and returns how `head` ended if it was among them.
    fn sweep(&mut self, head: Pid) -> Option<Ended> {
        let standbys = &self.standbys;
        let mut verdict = None;
        let mut lost = [None; MOST_STANDBYS];
        sweep::sweep(
            self.init.reach,
            self.init.proc_directory,
            standbys,
            |ended| {
                if ended.pid == head {
                    verdict = Some(ended);
                } else if standbys.is_protected(ended.pid)
                    && let Some(slot) = lost.iter_mut().find(|slot| slot.is_none())
                {
                    *slot = Some(ended);
                }
            },
        );
        for ended in lost.into_iter().flatten() {
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
            standbys: &self.standbys,
        };
        self.doubts = match watched.look(memory) {
            Finding::Fine => 0,
            Finding::Doubtful => self.doubts + 1,
            Finding::Over => watchdog::PATIENCE,
        };
        if self.doubts >= watchdog::PATIENCE {
            self.doubts = 0;
            self.end_head(Reason::Memory);
        }
    }

    /// The host has gone: nothing of this session may stay.
    fn end(&mut self) -> ! {
        // Before we go, so that whoever waits for our end finds that nothing is left.
        let nobody = Standbys::none();
        sweep::sweep(self.init.reach, self.init.proc_directory, &nobody, |_| {});
        sys::exit(0)
    }
}

fn drain(descriptor: Fd) {
    let mut buffer = [0u8; 128 * 4];
    while let Ok(1..) = sys::read(descriptor, &mut buffer) {}
}
