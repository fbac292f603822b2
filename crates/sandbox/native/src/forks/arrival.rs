//! The head of a fork comes to its init, which looks at it closely before it runs any code of the session.

use crate::forks::fork::{FIRST_INIT, credentials_of};
use crate::forks::fork_init::Inherited;
use crate::forks::temporary_files::TemporaryFiles;
use crate::init::sweep;
use crate::launch::spawn::Descriptors;
use crate::sys::text::Text;
use crate::sys::{
    self, Errno, Fd, Pid, Poll, close, kill, open_at, open_flags, poll, reap, receive, send,
    signals,
};
use crate::walls::limits;
use crate::wire::config::{Spawn, walls};
use crate::wire::message::{At, Failure, Message, Stage};

/// How long the helper that copied the head may take to go.
const ARRIVAL_TIMEOUT_MS: i32 = 20_000;

/// Waits for the head, and looks at it closely: it came from a process that hostile code may have prepared.
pub(super) fn accept_head(
    request: &Spawn,
    taken: &Descriptors,
    inherited: &Inherited,
    proc_directory: Fd,
    temporary_files: &TemporaryFiles,
) -> Result<Pid, Failure> {
    let mut wanted = [
        Poll::readable(inherited.report),
        Poll::readable(taken.control),
        Poll::readable(inherited.parent),
    ];
    poll(&mut wanted, -1);
    let [report, control, parent] = wanted;
    let mut bytes = [0; Message::SIZE];
    let came = report.seen & 1 != 0
        && control.seen == 0
        && parent.seen == 0
        && receive(inherited.report, &mut bytes).is_ok_and(|told| told.bytes > 0);
    if !came {
        return Err(Errno::SRCH).at(Stage::Copy);
    }
    let head = only_process(proc_directory).at(Stage::Copy)?;
    if !credentials_of(proc_directory, head)
        .at(Stage::Copy)?
        .is_confined()
    {
        return Err(Errno::PERM).at(Stage::Copy);
    }
    if !shares_cgroups(proc_directory, head).at(Stage::Cgroup)? {
        return Err(Errno::PERM).at(Stage::Cgroup);
    }
    if request.walls & walls::PROCESS_COUNT != 0 {
        limits::allow_processes(head, request.processes).at(Stage::Limits)?;
    }
    // The parent ends the helpers now, should one still be there.
    send(inherited.parent, &[1], &[]).at(Stage::Copy)?;
    close(inherited.parent);
    temporary_files.copy().at(Stage::TemporaryFiles)?;
    kill(head, signals::CONT).at(Stage::Copy)?;
    send(inherited.report, &[1], &[]).at(Stage::Copy)?;
    close(inherited.report);
    Ok(head)
}

/// Whether init may read the memory of a process. A head that could not be separated from its parent is closed to all other processes.
pub(super) fn can_look_into(proc_directory: Fd, head: Pid) -> bool {
    let opened = Text::<32>::new(format_args!("{head}/cwd"))
        .and_then(|path| open_at(proc_directory, path.as_c_str(), open_flags::PATH, 0));
    opened.map(close).is_ok()
}

/// Whether a process is in the cgroups that we are in.
fn shares_cgroups(proc_directory: Fd, head: Pid) -> sys::Result<bool> {
    let path = Text::<32>::new(format_args!("{head}/cgroup"))?;
    let (mut own, mut head_cgroups) = ([0; 4096], [0; 4096]);
    let own = sys::read_file_at(proc_directory, c"1/cgroup", &mut own)?;
    Ok(own == sys::read_file_at(proc_directory, path.as_c_str(), &mut head_cgroups)?)
}

/// The one process beside us, stopped, once its helper has gone. It must be our child: else we would not see its end.
fn only_process(proc_directory: Fd) -> sys::Result<Pid> {
    // All at once, so that no process can run away from the count.
    let _ = kill(-1, signals::STOP);
    let start = sys::monotonic_milliseconds();
    loop {
        let (mut found, mut count) = (0, 0);
        sweep::each_entry(proc_directory, |pid| {
            if pid != FIRST_INIT {
                (found, count) = (pid, count + 1);
            }
        });
        match (count, reap(found, false)) {
            (1, Ok(None)) => return Ok(found),
            (1.., _) if sys::monotonic_milliseconds() - start < ARRIVAL_TIMEOUT_MS as u64 => {}
            _ => return Err(Errno::CHILD),
        }
        let _ = kill(-1, signals::CONT);
        poll(&mut [], 0);
        // SAFETY: no pointers.
        let _ = unsafe { sys::syscall(sys::nr::SCHED_YIELD, []) };
        let _ = kill(-1, signals::STOP);
    }
}
