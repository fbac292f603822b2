//! Spawning a session, in two steps.
//!
//! A session that is **spawned ahead** has its processes, init and a head that is a copy of the zygote, in namespaces of their own; but no
//! name, no user, no files and no walls. That takes milliseconds and is the same for every session, so the zygote does it ahead of time.
//! The second step is the rest: init makes the namespaces what the request wants, and the head puts its walls up. Until then neither
//! runs anything but our own code.

use crate::files::change_handler::Sharing;
use crate::files::own_directories::MAX_OWN_DIRECTORIES;
use crate::init::notify::Listener;
use crate::init::sweep::{self, Reach};
use crate::init::{self, Init};
use crate::launch::launcher;
use crate::launch::spawn::{
    Descriptors, LibcFork, change_handler, has, has_workspace_mount, namespaces, set_up_namespaces,
    set_up_network, socket_memory, watched_memory,
};
use crate::sys::{
    self, Errno, Fd, Forked, Pid, Poll, clone_flags, clone_process, close, close_all_but,
    packet_pair, poll, receive, send,
};
use crate::walls::harden::{HeadFds, OUT_OF_THE_WAY, harden, receive_report, report};
use crate::walls::limits;
use crate::walls::loopback;
use crate::walls::privileges;
use crate::walls::users::{Mapping, SESSION_ID, map_users};
use crate::wire::config::{Items, Spawn, walls};
use crate::wire::message::{At, Failure, Stage, from_init};

/// The longest request.
const MAX_REQUEST_BYTES: usize = 64 << 10;
/// How long init may take to say that it has a request, in milliseconds. It only has to be scheduled.
const ACCEPTANCE_TIMEOUT_MS: i32 = 10_000;

/// A session that was spawned ahead, as the zygote knows it.
#[derive(Clone, Copy)]
pub struct Prespawned {
    /// Its init.
    pub init: Pid,
    /// On which init waits for the request. It ends when the zygote does.
    pub socket: Fd,
}

/// Where the caller of [`spawn_ahead`] finds itself afterwards.
pub enum SpawnedAhead {
    /// Still the zygote.
    Zygote(Prespawned),
    /// The head, which waits for its request on this socket.
    Head(Fd),
}

/// Makes the processes of a session that will be behind these walls. It returns in the zygote and in the head; init stays inside.
///
/// # Safety
/// The caller must be single-threaded and have prepared Python for a fork.
pub unsafe fn spawn_ahead(walls: u64, fork: LibcFork) -> sys::Result<SpawnedAhead> {
    let (near, far) = packet_pair()?;
    // A child of the launcher, which reaps it, and not of the zygote, which waits for no child.
    // SAFETY: init stays native; the head is made by libc's own fork below.
    match unsafe { clone_process(namespaces(walls) | clone_flags::PARENT) } {
        Ok(Forked::Parent(init)) => {
            close(far);
            Ok(SpawnedAhead::Zygote(Prespawned { init, socket: near }))
        }
        Ok(Forked::Child) => {
            sys::set_signal_mask(u64::MAX);
            close(near);
            // The host must see it when the zygote's socket closes.
            close(launcher::descriptors::ZYGOTE);
            // SAFETY: the caller's promise.
            match unsafe { fork_head(far, fork) } {
                Ok((head, socket)) if head > 0 => wait_for_request(walls, far, head, socket),
                Ok((_, socket)) => Ok(SpawnedAhead::Head(socket)),
                Err(_) => sys::exit(70),
            }
        }
        Err(errno) => {
            close(near);
            close(far);
            Err(errno)
        }
    }
}

/// Runs in init. Returns in init with the head's id, in the head with 0; each has its end of their socket.
unsafe fn fork_head(zygote: Fd, fork: LibcFork) -> sys::Result<(Pid, Fd)> {
    let (near, far) = packet_pair()?;
    // SAFETY: single-threaded; the handlers of libc run around it.
    match unsafe { fork() } {
        -1 => Err(Errno::AGAIN),
        0 => {
            close(zygote);
            close(near);
            let socket = sys::duplicate_above(far, OUT_OF_THE_WAY)?;
            close(far);
            Ok((0, socket))
        }
        head => {
            close(far);
            Ok((head, near))
        }
    }
}

/// Runs in the zygote: passes the request on. Fails when the session has died before, or has other namespaces than the request asks for.
pub fn deliver(prespawned: Prespawned, bytes: &[u8], descriptors: &[Fd]) -> sys::Result<()> {
    let (request, _) = Spawn::from_bytes(bytes)?;
    let mut ended = [Poll::readable(prespawned.socket)];
    // Only this code sends on this socket. Checked first: the id of a process that is gone may be another's.
    if poll(&mut ended, 0) > 0 {
        return Err(Errno::PIPE);
    }
    if has(&request, walls::NAMESPACES) {
        let map = Mapping {
            inside: SESSION_ID,
            outside: request.user as u32,
            count: 1,
        };
        // A failure is seen by init, which cannot take its id and reports it.
        let _ = map_users(prespawned.init, map, map);
    }
    send(prespawned.socket, bytes, descriptors)?;
    if !sweep::wait_readable(prespawned.socket, ACCEPTANCE_TIMEOUT_MS) {
        return Err(Errno::AGAIN);
    }
    match receive(prespawned.socket, &mut [0])? {
        accepted if accepted.bytes > 0 => Ok(()),
        _ => Err(Errno::PIPE),
    }
}

/// The life of init.
fn wait_for_request(walls: u64, zygote: Fd, head: Pid, socket: Fd) -> ! {
    let mut wanted = [Poll::readable(zygote), Poll::readable(socket)];
    poll(&mut wanted, -1);
    if wanted[1].seen != 0 {
        // The head was killed. The zygote finds us gone and makes another one.
        sys::exit(0);
    }
    let mut bytes = [0; MAX_REQUEST_BYTES];
    let received = match receive(zygote, &mut bytes) {
        Ok(received) if received.bytes > 0 => received,
        // The zygote is gone.
        _ => sys::exit(0),
    };
    let bytes = &bytes[..received.bytes];
    let read = Spawn::from_bytes(bytes).and_then(|(request, strings)| {
        if namespaces(request.walls) != namespaces(walls) {
            return Err(Errno::INVAL);
        }
        let came = &received.descriptors[..received.count];
        let taken =
            Descriptors::from_wire(came, has_workspace_mount(&request), request.keeps != 0)?;
        send(zygote, &[1], &[])?;
        Ok((request, Items(strings), taken))
    });
    close(zygote);
    // The host was not told that there is a session.
    let Ok((request, items, taken)) = read else {
        sys::exit(70)
    };
    match build_session(&request, items, bytes, &taken, socket) {
        Ok(built) => init::run(Init {
            head: Some(head),
            ..built
        }),
        Err(failure) => {
            let message = failure.to_message(from_init::FAILED);
            let _ = send(taken.control, &message.to_bytes(), &[]);
            sys::exit(70)
        }
    }
}

/// Builds the session around init, and has the head build its own walls.
fn build_session(
    request: &Spawn,
    items: Items<'_>,
    bytes: &[u8],
    taken: &Descriptors,
    socket: Fd,
) -> Result<Init, Failure> {
    let reach = if has(request, walls::NAMESPACES) && has(request, walls::PROCESSES) {
        Reach::Namespace
    } else {
        Reach::Descendants
    };
    let proc_directory = set_up_namespaces(request, items, taken, reach)?;
    loopback::replace_files(items)?;
    // Before there is anyone who could look. What becomes another user is closed by the kernel; who says so need not think about when.
    privileges::set_dumpable(false);
    let mut head_fds = [taken.channel, taken.output, taken.error, -1, -1, -1];
    head_fds[3..].copy_from_slice(&taken.cgroups);
    let count = head_fds
        .iter()
        .position(|fd| *fd < 0)
        .unwrap_or(head_fds.len());
    send(socket, bytes, &head_fds[..count]).at(Stage::Fork)?;
    // While the head builds its walls.
    set_up_network(request, items, taken)?;
    let change_handler = change_handler(
        request,
        items,
        taken.change_socket,
        proc_directory,
        Sharing::None,
    );
    if change_handler.is_none() && request.guards_metadata() {
        return Err(Errno::NOENT).at(Stage::Home);
    }
    let listener = receive_report(socket)?;
    let mut open_fds = [-1; 4 + MAX_OWN_DIRECTORIES];
    open_fds[..3].copy_from_slice(&[taken.control, proc_directory, listener]);
    if let Some(change_handler) = &change_handler {
        let own = core::iter::once(change_handler.socket)
            .chain(change_handler.own_directories.descriptors());
        open_fds[3..]
            .iter_mut()
            .zip(own)
            .for_each(|(slot, fd)| *slot = fd);
    }
    open_fds.sort_unstable();
    close_all_but(&open_fds);
    for fd in 0..3 {
        close(fd);
    }
    Ok(Init {
        control: taken.control,
        listener: Listener::of_head(listener),
        forwarded: -1,
        change_handler,
        proc_directory,
        head: None,
        reach,
        memory: watched_memory(request),
        socket_memory: socket_memory(request),
        processes: request.processes,
        walls: request.walls,
        expected: None,
        follows_other_processes: request.follows_other_processes(),
    })
}

/// Runs in the head: waits for the request, and puts the walls up. Without a request it ends here.
pub fn harden_and_start(socket: Fd) {
    let mut bytes = [0; MAX_REQUEST_BYTES];
    let received = match receive(socket, &mut bytes) {
        Ok(received) if received.bytes > 0 => received,
        _ => sys::exit(0),
    };
    let Ok((request, strings)) = Spawn::from_bytes(&bytes[..received.bytes]) else {
        sys::exit(70)
    };
    let at = |index: usize| received.descriptors[..received.count].get(index).copied();
    let head_fds = HeadFds {
        channel: at(0).unwrap_or(-1),
        output: at(1).unwrap_or(-1),
        error: at(2).unwrap_or(-1),
        cgroups: [3, 4, 5].map(|index| at(index).unwrap_or(-1)),
    };
    let outcome = harden(&request, Items(strings), &head_fds, socket);
    report(socket, outcome);
    close(socket);
    let _ = limits::limit_open_files(request.open_files);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a request when init does this with its end of the socket.
    fn delivered(init: fn(Fd)) -> sys::Result<()> {
        let (socket, far) = packet_pair().unwrap();
        let playing = std::thread::spawn(move || init(far));
        let prespawned = Prespawned { init: 0, socket };
        let outcome = deliver(prespawned, &Spawn::default().to_bytes(), &[]);
        playing.join().unwrap();
        close(socket);
        outcome
    }

    fn receive_request(socket: Fd) {
        let mut bytes = [0; Spawn::SIZE];
        assert_eq!(receive(socket, &mut bytes).unwrap().bytes, Spawn::SIZE);
    }

    #[test]
    fn a_request_is_delivered_when_init_says_that_it_has_it() {
        let accepts = |socket| {
            receive_request(socket);
            send(socket, &[1], &[]).unwrap();
            close(socket);
        };
        assert_eq!(delivered(accepts), Ok(()));
        let dies_with_it = |socket| {
            receive_request(socket);
            close(socket);
        };
        assert!(delivered(dies_with_it).is_err());
        assert!(delivered(close).is_err());
    }
}
