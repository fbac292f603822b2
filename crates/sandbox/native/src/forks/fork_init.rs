//! The init of a fork: its start, until the head of the fork has come.
//!
//! It is a copy of the parent session's init, which never ran code of the user's.

use crate::files::change_handler::Sharing;
use crate::forks::arrival::{accept_head, can_look_into};
use crate::forks::build_request::{BuildRequest, MAX_BUILD_REQUEST_BYTES, for_init};
use crate::forks::fork::{ForkFds, KINDS, Prepared};
use crate::forks::inherited::Expected;
use crate::forks::temporary_files::TemporaryFiles;
use crate::forks::user_namespace::{NextUserNamespace, clone_into};
use crate::init::notify::Listener;
use crate::init::sweep::{self, Reach};
use crate::init::{self, Init};
use crate::launch::spawn::{
    Descriptors, change_handler, namespaces, set_up_namespaces, set_up_network, socket_memory,
    watched_memory,
};
use crate::sys::text::{Text, leading_number};
use crate::sys::{
    self, Errno, Fd, Forked, Pid, close, close_all_but, kill, open, open_flags, packet_pair,
    receive, send, signals,
};
use crate::walls::mounts;
use crate::walls::privileges;
use crate::wire::config::{Item, Items, Spawn, walls};
use crate::wire::message::{At, Failure, Message, Stage, from_init};
use core::ffi::CStr;

/// The file with the last process number of the caller's process namespace. What is written there decides the next one.
const LAST_PROCESS: &CStr = c"sys/kernel/ns_last_pid";

/// How long the namespaces and mounts of a fork may take, in milliseconds. A few, but the machine may be busy.
const BUILD_TIMEOUT_MS: i32 = 10_000;

/// What the new init has from the one that makes it.
pub struct Parent {
    /// Notifications of the system call filter.
    pub listener: Fd,
    /// `/proc` of the parent session.
    pub proc_directory: Fd,
    /// The walls of the parent session. The fork has the same.
    pub walls: u64,
}

/// What the first init of the family needs to know of a new one.
pub struct Registration {
    /// The first init's end of the socket to the new one.
    pub socket: Fd,
    /// How many processes the fork may have.
    pub processes: u64,
}

/// The init of a fork that has left its parent's mounts and waits for the request.
pub struct Begun {
    /// Its process.
    pub pid: Pid,
    /// Our end of the socket between us.
    socket: Fd,
    /// The end on which the head of the fork tells its init that it has arrived.
    report: Fd,
}

impl Begun {
    /// Kills the new init and closes its descriptors.
    pub fn give_up(&self) {
        let _ = kill(self.pid, signals::KILL);
        self.close();
    }

    /// Closes the descriptors of a new init that has ended.
    pub fn close(&self) {
        close(self.socket);
        close(self.report);
    }
}

/// Makes the init of a fork, in namespaces of its own. It builds the rest when it has the request.
pub fn begin(parent: &Parent, users: &mut NextUserNamespace) -> Result<Begun, Failure> {
    let users = users.take(parent.proc_directory).at(Stage::Users)?;
    let view = mounts::whole_view().at(Stage::Root)?;
    let (socket, far) = packet_pair().at(Stage::Fork)?;
    let (report_near, report) = packet_pair().at(Stage::Fork)?;
    // SAFETY: the child stays native.
    let outcome = unsafe { clone_into(users, namespaces(parent.walls)) };
    if let Ok(Forked::Child) = outcome {
        run_fork_init(Inherited {
            parent: far,
            report: report_near,
            listener: parent.listener,
            view,
        })
    }
    [users, view, far, report_near].into_iter().for_each(close);
    match outcome {
        Ok(Forked::Parent(pid)) => Ok(Begun {
            pid,
            socket,
            report,
        }),
        Ok(Forked::Child) | Err(_) => {
            close(socket);
            close(report);
            Err(outcome.err().unwrap_or(Errno::INVAL)).at(Stage::Namespaces)
        }
    }
}

/// Lets the init of a fork build its session. It waits for the head then. `processes` is `/proc` of the parent session.
pub fn prepare(
    begun: Begun,
    processes: Fd,
    bytes: &[u8],
    descriptors: &[Fd],
) -> Result<(Prepared, Registration), Failure> {
    let taken = Spawn::from_bytes(bytes).and_then(|(request, _)| {
        Descriptors::from_wire(descriptors, true, request.keeps != 0).map(|taken| (request, taken))
    });
    let (request, taken) = match taken {
        Ok(taken) => taken,
        Err(errno) => {
            begun.give_up();
            return Err(errno).at(Stage::Request);
        }
    };
    let sent = BuildRequest {
        last_process: last_process_number(processes),
        bytes,
    }
    .send(begun.socket, &taken);
    for_init(&taken).filter(|fd| *fd >= 0).for_each(close);
    let mut prepared = Prepared {
        pid: begun.pid,
        socket: begun.socket,
        fds: ForkFds {
            namespaces: [-1; KINDS.len()],
            channel: taken.channel,
            output: taken.output,
            error: taken.error,
            report: begun.report,
            cgroups: taken.cgroups,
        },
    };
    // A new init that could not start has already told why, and does not take the request.
    let received = receive_namespaces(&request, &mut prepared);
    match received.and_then(|registration| sent.at(Stage::Fork).map(|()| registration)) {
        Ok(registration) => Ok((prepared, registration)),
        Err(failure) => {
            prepared.give_up();
            Err(failure)
        }
    }
}

/// Waits until the new init has built everything, and takes what it made.
fn receive_namespaces(request: &Spawn, prepared: &mut Prepared) -> Result<Registration, Failure> {
    if !sweep::wait_readable(prepared.socket, BUILD_TIMEOUT_MS) {
        return Err(Errno::AGAIN).at(Stage::Namespaces);
    }
    let mut bytes = [0; Message::SIZE];
    let received = receive(prepared.socket, &mut bytes).at(Stage::Namespaces)?;
    let (message, _) = Message::from_bytes(&bytes[..received.bytes]).at(Stage::Namespaces)?;
    if message.kind != from_init::STARTED {
        return Err(Failure {
            stage: Stage::from_number(message.a).unwrap_or(Stage::Namespaces),
            errno: Errno(message.b as i32),
        });
    }
    let mut descriptors = received.descriptors[..received.count].iter().copied();
    let socket = descriptors.next().ok_or(Errno::PROTO).at(Stage::Request)?;
    let made = namespaces(request.walls);
    for (slot, (flag, _)) in prepared.fds.namespaces.iter_mut().zip(KINDS) {
        if made & flag != 0 {
            *slot = descriptors.next().unwrap_or(-1);
        }
    }
    Ok(Registration {
        socket,
        processes: request.processes,
    })
}

/// The process number that was given last in this session; 0 on a kernel that does not tell it.
fn last_process_number(proc_directory: Fd) -> u64 {
    let mut text = [0; 24];
    sys::read_file_at(proc_directory, LAST_PROCESS, &mut text)
        .ok()
        .and_then(leading_number)
        .unwrap_or(0)
}

/// Lets the numbers of the processes of a fork begin after those of its parent.
///
/// The copied code remembers numbers of child processes of its parent. A pool of processes that finds its workers gone sends signals to them: no
/// process of the fork may have one of their numbers, least of all its head.
fn continue_process_numbers(proc_directory: Fd, last: u64) {
    if let Ok(number) = Text::<24>::new(format_args!("{last}")) {
        // A kernel without this file numbers them from the beginning, which harms only code that signals a process it does not own.
        let _ = sys::write_file_at(proc_directory, LAST_PROCESS, number.as_c_str().to_bytes());
    }
}

/// The descriptors that the new init keeps from its parent.
pub(super) struct Inherited {
    pub(super) parent: Fd,
    pub(super) report: Fd,
    listener: Fd,
    view: Fd,
}

/// The life of the new init.
fn run_fork_init(inherited: Inherited) -> ! {
    close_other_fds(&inherited);
    // As the init that it is a copy of.
    privileges::set_dumpable(false);
    if let Err(failure) = leave_parent(&inherited) {
        fail(inherited.parent, failure);
    }
    let mut bytes = [0; MAX_BUILD_REQUEST_BYTES];
    let (build_request, taken) = match BuildRequest::receive(inherited.parent, &mut bytes) {
        Ok(received) => received,
        // The fork is not wanted any more.
        Err(_) => sys::exit(0),
    };
    let (request, items) = match Spawn::from_bytes(build_request.bytes).at(Stage::Request) {
        Ok((request, strings)) => (request, Items(strings)),
        Err(failure) => fail(inherited.parent, failure),
    };
    let (request, taken) = (&request, &taken);
    let built = build(
        request,
        items,
        taken,
        inherited.parent,
        build_request.last_process,
    );
    let built = match built {
        Ok(built) => built,
        Err(failure) => fail(inherited.parent, failure),
    };
    let Built {
        proc_directory,
        forwarded,
        expected,
        temporary_files,
    } = built;
    let head = match accept_head(request, taken, &inherited, proc_directory, &temporary_files) {
        Ok(head) => head,
        Err(failure) => fail(taken.control, failure),
    };
    let can_look = can_look_into(proc_directory, head);
    // Without access to the head, init cannot read the paths that it names. The host learns this from the handler that is not there.
    let change_handler = if can_look {
        change_handler(
            request,
            items,
            taken.change_socket,
            proc_directory,
            Sharing::WithForks,
        )
    } else {
        None
    };
    if change_handler.is_none() && taken.change_socket >= 0 {
        close(taken.change_socket);
    }
    init::run(Init {
        control: taken.control,
        listener: Listener::of_head(inherited.listener),
        forwarded,
        change_handler,
        proc_directory,
        head: Some(head),
        reach: Reach::Namespace,
        memory: watched_memory(request),
        socket_memory: socket_memory(request),
        processes: request.processes,
        walls: request.walls,
        expected: can_look.then_some(expected),
        // A fork has users of its own.
        follows_other_processes: false,
    })
}

fn fail(socket: Fd, failure: Failure) -> ! {
    let message = failure.to_message(from_init::FAILED);
    let _ = send(socket, &message.to_bytes(), &[]);
    sys::exit(70)
}

/// The sockets of the parent session must be seen to close when it lets go of them.
fn close_other_fds(inherited: &Inherited) {
    let mut own = [
        inherited.parent,
        inherited.report,
        inherited.listener,
        inherited.view,
    ];
    own.sort_unstable();
    close_all_but(&own);
    // An init has no standard streams: these are as good as any other number, and a fork that forks has its own sockets there.
    for fd in (0..3).filter(|fd| !own.contains(fd)) {
        close(fd);
    }
}

/// Leaves the mounts of the parent session for a copy of them.
fn leave_parent(inherited: &Inherited) -> Result<(), Failure> {
    mounts::make_private().at(Stage::Namespaces)?;
    mounts::enter_copy(inherited.view)?;
    close(inherited.view);
    Ok(())
}

/// What init has when everything around it stands.
struct Built {
    proc_directory: Fd,
    forwarded: Fd,
    expected: Expected,
    temporary_files: TemporaryFiles,
}

/// Builds the session around this process, and hands its namespaces out.
fn build(
    request: &Spawn,
    items: Items<'_>,
    taken: &Descriptors,
    parent: Fd,
    last_process: u64,
) -> Result<Built, Failure> {
    let workspace = items.one(Item::Home).ok_or(Errno::NOENT).at(Stage::Root)?;
    let temporary_files = TemporaryFiles::of_parent().at(Stage::Temporary)?;
    mounts::remove_parent_mounts(workspace)?;
    let proc_directory = set_up_namespaces(request, items, taken, Reach::Namespace)?;
    set_up_network(request, items, taken)?;
    continue_process_numbers(proc_directory, last_process);
    for fd in taken.cgroups.into_iter().chain([taken.workspace]) {
        if fd >= 0 {
            close(fd);
        }
    }
    let (forwarded, first) = packet_pair().at(Stage::Fork)?;
    let own_socket = if request.walls & walls::NETWORK == 0 {
        None
    } else {
        Some(forwarded)
    };
    let expected = Expected::of(proc_directory, own_socket).at(Stage::Fork)?;
    let mut handed = [-1; 1 + KINDS.len()];
    handed[0] = first;
    let mut count = 1;
    let made = namespaces(request.walls);
    for (_, path) in KINDS.iter().filter(|(flag, _)| made & flag != 0) {
        handed[count] = open(path, open_flags::RDONLY, 0).at(Stage::Namespaces)?;
        count += 1;
    }
    let message = Message {
        kind: from_init::STARTED,
        ..Message::default()
    };
    let sent = send(parent, &message.to_bytes(), &handed[..count]).at(Stage::Fork);
    handed[..count].iter().copied().for_each(close);
    sent.map(|()| Built {
        proc_directory,
        forwarded,
        expected,
        temporary_files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks::fork::Forks;

    /// A fork with a process in the place of its init, which waits for its request.
    fn begun(pid: Pid) -> (Forks, Fd) {
        let (socket, far) = packet_pair().unwrap();
        let (report, report_far) = packet_pair().unwrap();
        close(report_far);
        let mut forks = Forks::none();
        let begun = forks.note(Begun {
            pid,
            socket,
            report,
        });
        forks.begin(begun.unwrap());
        (forks, far)
    }

    #[test]
    fn the_init_of_a_fork_that_is_not_wanted_is_ended() {
        let mut init = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let (mut forks, far) = begun(init.id() as Pid);
        assert!(forks.made(init.id() as Pid) && forks.has_begun() && !forks.is_preparing());
        forks.cancel();
        assert!(!forks.has_begun());
        assert!(!init.wait().unwrap().success());
        let told = receive(far, &mut [0]).unwrap();
        assert_eq!(told.bytes, 0, "its socket is closed");
        close(far);
    }

    #[test]
    fn an_init_that_ended_before_its_request_is_not_taken_for_the_next_fork() {
        // No process has such a high number.
        const ENDED: Pid = Pid::MAX;
        let (mut forks, far) = begun(ENDED);
        forks.forget(ENDED);
        assert!(!forks.has_begun() && forks.is_empty());
        assert!(forks.take_begun().is_none());
        close(far);
    }

    #[test]
    fn there_can_be_only_so_many_forks() {
        let mut init = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let mut forks = Forks::none();
        let begun = |pid| {
            let ((socket, _), (report, _)) = (packet_pair().unwrap(), packet_pair().unwrap());
            Begun {
                pid,
                socket,
                report,
            }
        };
        for pid in 1..=crate::forks::fork::MAX_FORKS {
            assert!(forks.note(begun(pid as Pid)).is_ok());
        }
        assert!(matches!(
            forks.note(begun(init.id() as Pid)),
            Err(Errno::AGAIN)
        ));
        assert!(!init.wait().unwrap().success());
    }
}
