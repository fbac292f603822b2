//! The door for Python: what the guest calls through `ctypes`.

use crate::config::{Items, Spawn, walls};
use crate::crossing::{Crossed, cross};
use crate::spawn::{Born, Descriptors, LibcFork, spawn};
use crate::sys::{Errno, Fd, Forked, set_signal_mask};
use crate::{landlock, side_fork, standby};

/// Makes a session from a request of the host's. Returns the id of its init in the zygote, 0 in the new head, and a negative
/// error number when nothing was made. The descriptors are closed in every case.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_spawn(
    request: *const u8,
    length: usize,
    descriptors: *const Fd,
    count: usize,
    fork: LibcFork,
) -> i32 {
    // SAFETY: the guest passes a bytes object and an array with their lengths.
    let (bytes, descriptors) = unsafe {
        (
            core::slice::from_raw_parts(request, length),
            core::slice::from_raw_parts(descriptors, count),
        )
    };
    let attempt = || {
        let (spawn_request, strings) = Spawn::from_bytes(bytes)?;
        let mounted =
            spawn_request.walls & walls::NAMESPACES != 0 && spawn_request.walls & walls::FILES != 0;
        let taken = Descriptors::from_wire(descriptors, mounted, spawn_request.keeps != 0)?;
        // SAFETY: the zygote is single-threaded and called Python's hooks before this.
        let born = unsafe { spawn(&spawn_request, Items(strings), &taken, fork) };
        if !matches!(born, Ok(Born::Head)) {
            taken.close();
        }
        born
    };
    match attempt() {
        Ok(Born::Zygote(pid)) => pid,
        Ok(Born::Head) => 0,
        Err(Errno(number)) => -number,
    }
}

/// Forks to the side: the child belongs to init and is never seen by the caller's `wait`. Returns as `fork` does, or a
/// negative error number.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_side_fork(fork: LibcFork) -> i32 {
    // SAFETY: the guest calls Python's hooks around this.
    match unsafe { side_fork::side_fork(fork) } {
        Ok(Forked::Parent(pid)) => pid,
        Ok(Forked::Child) => 0,
        Err(Errno(number)) => -number,
    }
}

/// Makes a standby of a head that speaks on `channel`. Returns its id at once in the caller; in the standby, 0 when init wakes it; or a negative error number.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_stand_by(fork: LibcFork, channel: Fd) -> i32 {
    // Blocked before there is a standby: a signal that wakes it, or one meant for the head, must find it ready.
    let before = set_signal_mask(u64::MAX);
    // SAFETY: the guest calls Python's hooks around this.
    let forked = unsafe { side_fork::side_fork(fork) };
    let outcome = match forked {
        Ok(Forked::Parent(pid)) => pid,
        Ok(Forked::Child) => {
            standby::stand_by(channel);
            0
        }
        Err(Errno(number)) => -number,
    };
    set_signal_mask(before);
    outcome
}

/// Copies a head that speaks on `channel` into the fork that init has prepared. Returns the copy's id in the caller, as the fork
/// counts; in the copy 0, with the number of its own channel in `arrived`; or a negative error number.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_cross(fork: LibcFork, channel: Fd, arrived: *mut Fd) -> i32 {
    // SAFETY: the guest calls Python's hooks around this, and passes room for a number.
    match unsafe { cross(fork, channel) } {
        Ok(Crossed::Stayed(pid)) => pid,
        Ok(Crossed::Arrived(channel)) => {
            // SAFETY: as above.
            unsafe { arrived.write(channel) };
            0
        }
        Err(Errno(number)) => -number,
    }
}

/// Gives up every way to change the file system. Returns 0, or a negative error number.
#[unsafe(no_mangle)]
extern "C" fn cellblock_forbid_changes() -> i32 {
    landlock::forbid_changes()
        .err()
        .map_or(0, |Errno(number)| -number)
}
