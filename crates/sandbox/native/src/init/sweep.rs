//! Ending everything in a session but its standbys.

use crate::init::notify::Protected;
use crate::init::stopped::is_at_rest;
use crate::sys::text::{Text, leading_number};
use crate::sys::{
    self, Ended, Fd, Pid, Poll, STAT_BYTES, close, each_part_at, kill, open_at, open_flags, poll,
    read_directory, read_stat, reap, seek, signals,
};

/// How the processes of a session are found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Init is process 1 of a namespace: everything in `/proc` is the session's.
    Namespace,
    /// Init adopts orphans: what is its child, or a child of one, is the session's.
    Descendants,
}

/// How often init looks, a fraction of a millisecond apart, whether processes that were sent a stop signal have stopped.
const MAX_QUICK_LOOKS: usize = 40;
const QUICK_LOOK_MICROSECONDS: u64 = 50;
const SLOW_LOOK_MICROSECONDS: u64 = 1_000;
/// If more processes than this are to be ended, they are killed at once, without looking which of them still run.
const MAX_STOPPED_FIRST: usize = 8;

/// Stops, kills and reaps until only protected processes are left. `seen` is told of every child that was reaped.
///
/// `at_rest` is called once, as soon as no unprotected process runs: if they can be stopped, before they are killed. To kill a process
/// can keep this processor busy for milliseconds. Its argument says whether no process is left at all, and so the sweep is over.
///
/// Dead children still count against the process limit, so nothing may be forked before they are reaped.
pub fn sweep(
    reach: Reach,
    proc_directory: Fd,
    protected: &impl Protected,
    mut seen: impl FnMut(Ended),
    mut at_rest: Option<impl FnOnce(bool)>,
) {
    let stops_all = reach == Reach::Namespace && !protected.has_spared_processes();
    if stops_all {
        // In one call, so that a fork bomb cannot outrun us. The protected are stopped too, and go on at once, but for standbys:
        // forked sessions are among them.
        let _ = kill(-1, signals::STOP);
    }
    let (mut quiet, mut are_few) = (0, true);
    for round in 0.. {
        let is_early = at_rest.is_some() && are_few && round < MAX_QUICK_LOOKS;
        let spares = is_early && reach == Reach::Namespace;
        let (mut left, mut running) = (0, 0);
        each_process(reach, proc_directory, |pid| {
            if !protected.is_protected(pid) {
                left += 1;
                if !spares {
                    let _ = kill(pid, signals::KILL);
                } else if !stops_all {
                    let _ = kill(pid, signals::STOP);
                }
                if left > MAX_STOPPED_FIRST || at_rest.is_some() && !is_at_rest(proc_directory, pid)
                {
                    running += 1;
                }
            } else if round == 0 && stops_all && !protected.is_frozen(pid) {
                let _ = kill(pid, signals::CONT);
            }
        });
        are_few &= left <= MAX_STOPPED_FIRST;
        let mut reaped = false;
        while let Ok(Some(ended)) = reap(-1, false) {
            reaped = true;
            seen(ended);
        }
        // A process that was spared in this round is killed in the next one.
        let mut looks_again_at_once = reaped || spares && !are_few;
        if at_rest.is_some() {
            // Listed twice: a process that was started before its parent noticed is in the second list.
            quiet = if running == 0 { quiet + 1 } else { 0 };
            if (left == 0 || quiet == 2)
                && let Some(at_rest) = at_rest.take()
            {
                at_rest(left == 0);
            }
            looks_again_at_once |= quiet > 0;
        }
        if left == 0 {
            break;
        }
        if !looks_again_at_once {
            // Not for long: the dying are not all our children yet.
            sys::wait_for_child(if is_early {
                QUICK_LOOK_MICROSECONDS
            } else {
                SLOW_LOOK_MICROSECONDS
            });
        }
    }
    if stops_all {
        each_process(reach, proc_directory, |pid| {
            if !protected.is_frozen(pid) {
                let _ = kill(pid, signals::CONT);
            }
        });
    }
}

/// Calls `visit` with every process of the session but init itself.
pub fn each_process(reach: Reach, proc_directory: Fd, mut visit: impl FnMut(Pid)) {
    match reach {
        Reach::Namespace => each_entry(proc_directory, |pid| {
            if pid != 1 {
                visit(pid);
            }
        }),
        Reach::Descendants => each_descendant(proc_directory, sys::own_pid(), visit),
    }
}

/// Calls `visit` with every process that a `/proc` shows.
pub fn each_entry(proc_directory: Fd, mut visit: impl FnMut(Pid)) {
    const NAME: usize = 19;
    let mut buffer = [0u8; 4096];
    if seek(proc_directory, 0).is_err() {
        return;
    }
    while let Ok(length @ 1..) = read_directory(proc_directory, &mut buffer) {
        let mut entries = &buffer[..length];
        while entries.len() > NAME {
            let size = usize::from(u16::from_le_bytes([entries[16], entries[17]]));
            if let Some(pid) = leading_number(&entries[NAME..]) {
                visit(pid as Pid);
            }
            entries = entries.get(size.max(NAME)..).unwrap_or(&[]);
        }
    }
}

/// The most processes of a session that are looked for without a namespace: more than a user may have on most machines.
const MAX_DESCENDANTS: usize = 8192;

/// Calls `visit` with every process below this one, children before their parents, however long the line of descent is.
fn each_descendant(proc_directory: Fd, ancestor: Pid, mut visit: impl FnMut(Pid)) {
    let mut found = [0; MAX_DESCENDANTS];
    let (mut count, mut next, mut parent) = (0, 0, ancestor);
    loop {
        each_child(proc_directory, parent, |child| {
            if let Some(slot) = found.get_mut(count) {
                *slot = child;
                count += 1;
            }
        });
        if next == count {
            break;
        }
        parent = found[next];
        next += 1;
    }
    found[..count].iter().rev().for_each(|pid| visit(*pid));
}

/// Calls `visit` with every child of a process. Each of its threads has those that it started itself.
fn each_child(proc_directory: Fd, pid: Pid, mut visit: impl FnMut(Pid)) {
    let threads = Text::<32>::new(format_args!("{pid}/task"))
        .and_then(|path| open_at(proc_directory, path.as_c_str(), open_flags::DIRECTORY, 0));
    let Ok(threads) = threads else { return };
    each_entry(threads, |thread| {
        if let Ok(path) = Text::<32>::new(format_args!("{thread}/children")) {
            // The kernel tells as many at a time as go into one page, whole numbers each.
            let _ = each_part_at(threads, path.as_c_str(), |children| {
                whole_numbers(children).for_each(|child| visit(child as Pid));
            });
        }
    });
    close(threads);
}

/// The numbers of a list in which each is followed by a space. A number that was cut off at the end would be that of another process.
fn whole_numbers(list: &[u8]) -> impl Iterator<Item = u64> {
    let end = list.iter().rposition(|byte| *byte == b' ').unwrap_or(0);
    list[..end]
        .split(|byte| *byte == b' ')
        .filter_map(leading_number)
}

/// The first of a process or thread, its parent, the parent of that, and so on, of which `is_it` says so; process 1 is not asked.
pub fn find_upwards(proc_directory: Fd, pid: Pid, is_it: impl Fn(Pid) -> bool) -> Option<Pid> {
    const MAX_DEPTH: usize = 4096;
    const ATTEMPTS: usize = 16;
    'again: for _ in 0..ATTEMPTS {
        let mut at = pid;
        for _ in 0..MAX_DEPTH {
            if is_it(at) {
                return Some(at);
            }
            match parent_of(proc_directory, at) {
                Some(parent) if parent > 1 => at = parent,
                Some(_) => return None,
                None if at == pid => return None,
                // One on the way ended, and its children have another parent now.
                None => continue 'again,
            }
        }
        return None;
    }
    None
}

/// Whether a process or thread is init's child, or a child of one.
pub fn is_descendant(proc_directory: Fd, pid: Pid) -> bool {
    const MAX_DEPTH: usize = 4096;
    let own = sys::own_pid();
    let mut at = pid;
    for _ in 0..MAX_DEPTH {
        match parent_of(proc_directory, at) {
            Some(parent) if parent == own => return true,
            Some(parent) if parent > 1 => at = parent,
            _ => return false,
        }
    }
    false
}

/// Whether there is a process or thread with this id.
pub fn is_there(proc_directory: Fd, pid: Pid) -> bool {
    parent_of(proc_directory, pid).is_some()
}

/// The parent of a process or thread.
pub fn parent_of(proc_directory: Fd, pid: Pid) -> Option<Pid> {
    let mut buffer = [0; STAT_BYTES];
    read_stat(proc_directory, pid, &mut buffer).ok()?.parent()
}

/// When a process was started, in ticks since the machine was started.
pub fn start_of(proc_directory: Fd, pid: Pid) -> Option<u64> {
    let mut buffer = [0; STAT_BYTES];
    read_stat(proc_directory, pid, &mut buffer).ok()?.started()
}

/// Waits until `fd` is readable or the time is over.
pub fn wait_readable(fd: Fd, milliseconds: i32) -> bool {
    poll(&mut [Poll::readable(fd)], milliseconds) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_id_that_was_cut_off_is_nobody_s() {
        assert!(whole_numbers(b"12 345 67").eq([12, 345]));
        assert!(whole_numbers(b"12 345 ").eq([12, 345]));
        assert!(whole_numbers(b"").eq([]));
    }
}
