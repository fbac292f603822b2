//! The functions that the guest calls through `ctypes`.

use crate::forks::copy_into_fork::{ForkSide, copy_head_into_fork};
use crate::forks::file_offsets::{self, OpenFile};
use crate::forks::own_copies::{self, Replacement, SharedArea};
use crate::forks::process_ids::{self, PythonThreads};
use crate::forks::shared_memory;
use crate::forks::side_fork;
use crate::forks::socket_state::SocketState;
use crate::forks::standby;
use crate::forks::standby::{Announcement, Copying};
use crate::forks::threads;
use crate::forks::threads::Obstacle;
use crate::forks::unconnected_sockets::{self, LetGoSignal, Record};
use crate::launch::prespawn::{Prespawned, SpawnedAhead, deliver, harden_and_start, spawn_ahead};
use crate::launch::restart_calls::RestartCode;
use crate::launch::spawn::LibcFork;
use crate::sys::{Errno, Fd, Forked, Pid, set_signal_mask};
use crate::walls::{data_limit, landlock, limits};

/// Makes the processes of a session that will be behind these walls, ahead of any request. Returns the id of its init in the zygote, 0 in
/// the head, each with its socket in `socket`; or a negative error number.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_spawn_ahead(walls: u64, fork: LibcFork, socket: *mut Fd) -> i32 {
    // SAFETY: the zygote is single-threaded and called Python's hooks before this.
    let (pid, own) = match unsafe { spawn_ahead(walls, fork) } {
        Ok(SpawnedAhead::Zygote(Prespawned { init, socket })) => (init, socket),
        Ok(SpawnedAhead::Head(socket)) => (0, socket),
        Err(Errno(number)) => return -number,
    };
    // SAFETY: the guest passes memory for a number.
    unsafe { socket.write(own) };
    pid
}

/// Passes a request of the host's on to a session that was spawned ahead. Returns 0, or a negative error number when the session is gone.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_deliver(
    init: Pid,
    socket: Fd,
    request: *const u8,
    length: usize,
    descriptors: *const Fd,
    count: usize,
) -> i32 {
    // SAFETY: the guest passes a bytes object and an array with their lengths.
    let (bytes, descriptors) = unsafe {
        (
            core::slice::from_raw_parts(request, length),
            core::slice::from_raw_parts(descriptors, count),
        )
    };
    deliver(Prespawned { init, socket }, bytes, descriptors)
        .err()
        .map_or(0, |Errno(number)| -number)
}

/// In the head: waits for the request and puts up its walls.
#[unsafe(no_mangle)]
extern "C" fn cellblock_harden_and_start(socket: Fd) {
    harden_and_start(socket);
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

/// Makes a standby of a head that speaks on `channel`, and sends `answer` there with its id written at the first of two `places`, and
/// at the second how many bytes of shared memory go on as they are. With `libc_fork` the head has one thread; without, all its threads are
/// carried. The `files` are where they are now when the standby goes on, and so is shared memory, but for that at `own_memory`. Returns the standby's id at once
/// in the caller; in the standby, 0 when init wakes it to speak on `next`, with the id of the copy that it left behind in `copy`; or a negative error number, and then nothing was sent. If a thread
/// is in the way, its id is in `copy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_stand_by(
    libc_fork: Option<LibcFork>,
    channel: Fd,
    next: Fd,
    answer: *const u8,
    length: usize,
    places: *const usize,
    files: *mut OpenFile,
    file_count: usize,
    own_memory: usize,
    copy: *mut Pid,
) -> i32 {
    // SAFETY: the guest passes a bytes object with its length, and two numbers.
    let announcement = unsafe {
        Announcement {
            answer: core::slice::from_raw_parts(answer, length),
            standby_place: places.read(),
            left_out_place: places.add(1).read(),
        }
    };
    // Blocked before there is a standby: a signal that wakes it, or one meant for the head, must find it ready.
    let before = set_signal_mask(u64::MAX);
    // SAFETY: the guest holds the interpreter's lock around this.
    let copying = match unsafe { Copying::prepare(libc_fork) } {
        Ok(copying) => copying,
        Err(Obstacle { errno, thread }) => {
            set_signal_mask(before);
            // SAFETY: the guest passes memory for a number.
            unsafe { copy.write(thread) };
            return -errno.0;
        }
    };
    // SAFETY: the guest keeps the memory as long as this call lasts, in the standby too.
    unsafe { file_offsets::note(files, file_count) };
    // SAFETY: the same memory; nothing writes to it until the copy is made.
    let open = unsafe { core::slice::from_raw_parts(files, file_count) };
    let left_out = shared_memory::note(own_memory, open);
    let let_go = LetGoSignal::prepare();
    // SAFETY: the guest calls Python's hooks around this; nothing of libc is used while threads are stopped.
    let outcome = match unsafe { copying.copy() } {
        Ok(Forked::Parent(pid)) => {
            shared_memory::forget_temporary();
            copying.release_threads();
            let_go.wait();
            pid
        }
        Ok(Forked::Child) => {
            // SAFETY: as above, and the guest passes memory for a number.
            unsafe { copy.write(standby::stand_by(copying, channel, next, let_go)) };
            0
        }
        Err(Errno(number)) => {
            shared_memory::forget_temporary();
            copying.release_threads();
            let_go.close();
            -number
        }
    };
    set_signal_mask(before);
    if outcome > 0 {
        // Last: the host may send the next request at once.
        announcement.send(channel, outcome, left_out);
    }
    outcome
}

/// How many bytes the record of a socket has.
#[unsafe(no_mangle)]
extern "C" fn cellblock_socket_record_bytes() -> usize {
    size_of::<Record>()
}

/// Looks at a socket of the head's. Returns 0 if copies share it, 1 if the record tells how a copy makes it anew, and 2 if it listens and
/// cannot be made anew.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_record_socket(socket: Fd, record: *mut Record) -> i32 {
    // SAFETY: the guest passes memory for a record, with zeros in it: all parts of it are numbers.
    unsafe { &mut *record }.fill(socket) as i32
}

/// How many bytes the state of a socket has.
#[unsafe(no_mangle)]
extern "C" fn cellblock_socket_state_bytes() -> usize {
    size_of::<SocketState>()
}

/// Notes options and connection of a socket.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_note_socket_state(socket: Fd, state: *mut SocketState) {
    // SAFETY: the guest passes memory for a state; its alignment is not known.
    unsafe { state.write_unaligned(SocketState::of(socket)) };
}

/// Sets the options of a socket as they were noted. Returns 0 if the socket is as it was, 1 if an option cannot be set again, and 2 if its
/// connection is another one or has ended.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_put_socket_back(socket: Fd, state: *const SocketState) -> i32 {
    // SAFETY: the guest passes what `cellblock_note_socket_state` wrote.
    unsafe { state.read_unaligned() }.put_back(socket) as i32
}

/// Has the next standby let go of these sockets, and make them anew when it is woken. `connections` are the head's other sockets. The guest
/// keeps the memory as long as the standby lives.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_remember_sockets(
    records: *mut Record,
    count: usize,
    connections: *mut Fd,
    connection_count: usize,
) {
    // SAFETY: the guest passes two arrays with their lengths; the rest is the caller's promise.
    unsafe {
        unconnected_sockets::remember(
            core::slice::from_raw_parts_mut(records, count),
            core::slice::from_raw_parts_mut(connections, connection_count),
        );
    }
}

/// In a standby that was woken: how many bytes of shared memory could not be put back, and with `names` how many names in `/dev/shm`.
#[unsafe(no_mangle)]
extern "C" fn cellblock_lost_memory(names: i32) -> u64 {
    let (bytes, lost_names) = shared_memory::lost();
    if names != 0 { lost_names } else { bytes }
}

/// In a standby that was woken: whether all that an open file holds was put back with shared memory: 1 or 0.
#[unsafe(no_mangle)]
extern "C" fn cellblock_has_put_back(file: Fd) -> i32 {
    i32::from(shared_memory::has_put_back(file))
}

/// Tells where libc keeps a thread's area for restartable sequences, seen from its thread pointer.
#[unsafe(no_mangle)]
extern "C" fn cellblock_restartable_sequences(offset: isize, bytes: usize) {
    threads::remember_restartable_sequences(offset, bytes);
}

/// Tells how to find what asyncio has noted of this process, which is renewed in copies. Called once, in the zygote, before Python 3.12.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_python_threads(python: *mut PythonThreads) {
    // SAFETY: the guest passes functions of the interpreter that it runs in, in memory that stays.
    unsafe { process_ids::remember_python(python) };
}

/// Whether this process has other threads than the caller: 1 or 0.
#[unsafe(no_mangle)]
extern "C" fn cellblock_has_other_threads() -> i32 {
    i32::from(threads::has_other_threads())
}

/// In a standby that was woken: the id that a thread has now which had another before; 0 for one that is not known.
#[unsafe(no_mangle)]
extern "C" fn cellblock_thread_id(old: Pid) -> Pid {
    threads::new_id_of(old).unwrap_or(0)
}

/// Has the copy that [`cellblock_copy_into_fork`] makes next replace what it has in common with its parent, before a thread of it runs. The guest
/// keeps the three arrays until then; each end of a group is -1.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_remember_own_copies(
    replacements: *mut Replacement,
    replacement_count: usize,
    groups: *mut [Fd; 2],
    group_count: usize,
    areas: *mut SharedArea,
    area_count: usize,
) {
    // SAFETY: the guest passes three arrays with their lengths; the rest is the caller's promise.
    unsafe {
        own_copies::remember(
            (replacements, replacement_count),
            (groups, group_count),
            (areas, area_count),
        );
    }
}

/// Copies a head that speaks on `channel` into the fork that init has prepared. With `libc_fork` the head has one thread; without, all its
/// threads are carried. Returns the copy's id in the caller, as the fork counts; in the copy 0, with the number of its own channel in `answer`;
/// or a negative error number, with the id of the thread that is in the way in `answer`, or 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_copy_into_fork(
    libc_fork: Option<LibcFork>,
    channel: Fd,
    answer: *mut i32,
) -> i32 {
    let before = set_signal_mask(u64::MAX);
    // SAFETY: the guest holds the interpreter's lock around this.
    let side = unsafe { Copying::prepare(libc_fork) }.and_then(|copying| {
        // SAFETY: the guest calls Python's hooks around this; nothing of libc is used while threads are stopped.
        unsafe { copy_head_into_fork(copying, channel) }.map_err(Obstacle::from)
    });
    set_signal_mask(before);
    let (outcome, told) = match side {
        Ok(ForkSide::Original(pid)) => (pid, 0),
        Ok(ForkSide::Fork(channel)) => (0, channel),
        Err(Obstacle { errno, thread }) => (-errno.0, thread),
    };
    // SAFETY: the guest passes memory for a number.
    unsafe { answer.write(told) };
    outcome
}

/// Gives up every way to change the file system. Returns 0, or a negative error number.
#[unsafe(no_mangle)]
extern "C" fn cellblock_forbid_changes() -> i32 {
    landlock::forbid_changes()
        .err()
        .map_or(0, |Errno(number)| -number)
}

/// Changes functions of libc, given by their addresses, so that their system calls are made again after an interruption. Called once, in the
/// zygote, which has one thread. Returns how many functions were changed, or a negative error number.
#[unsafe(no_mangle)]
unsafe extern "C" fn cellblock_restart_calls(functions: *const usize, count: usize) -> i32 {
    // SAFETY: the guest passes an array with its length.
    let functions = unsafe { core::slice::from_raw_parts(functions, count) };
    let Some(first) = functions.first() else {
        return 0;
    };
    let changed = RestartCode::near(*first).and_then(|mut code| {
        let mut changed = 0;
        for function in functions {
            // SAFETY: functions of libc; the zygote has one thread, which is here.
            changed += i32::from(unsafe { code.apply_to(*function) }?);
        }
        Ok(changed)
    });
    changed.unwrap_or_else(|Errno(number)| -number)
}

/// Lets this process use what is set aside for the interpreter beyond the memory limit.
#[unsafe(no_mangle)]
extern "C" fn cellblock_take_memory_reserve() {
    data_limit::take_reserve(limits::RESERVE);
}

/// Interrupts the system calls that other threads wait in: a thread that waits at a descriptor then waits at what has this number now.
#[unsafe(no_mangle)]
extern "C" fn cellblock_interrupt_threads() {
    let before = set_signal_mask(u64::MAX);
    // A thread that cannot be stopped waits on; it is named when the next checkpoint is made.
    if let Ok(stopped) = threads::StoppedThreads::stop_others() {
        stopped.release();
    }
    set_signal_mask(before);
}
