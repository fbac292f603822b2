//! The walls around one process: the head of a session, before it runs any code of the user's.

use crate::forks::shared_memory;
use crate::launch::spawn::{enter_cgroups, has, has_workspace_mount, take_identity};
use crate::sys::{
    self, Fd, MAX_DESCRIPTORS, close, close_all_but, move_to, open, open_flags, receive, send,
    write_file,
};
use crate::walls::landlock::{self, Tcp};
use crate::walls::limits;
use crate::walls::privileges;
use crate::walls::seccomp;
use crate::walls::seccomp::{
    Blocks, Changes, Forks, Ids, Ipc, KernelMemory, Metadata, Rules, Signals, Sockets, Starts,
    UserObjects,
};
use crate::wire::config::{Item, Items, Spawn, walls};
use crate::wire::message::{At, Failure, Message, Stage, from_init};

/// The head's channel is always this descriptor.
pub const CHANNEL: Fd = 3;

/// From here on numbers are out of the way of those that the head's own descriptors will have.
pub const OUT_OF_THE_WAY: Fd = 100;

/// What the head has from the host.
pub struct HeadFds {
    /// Its channel.
    pub channel: Fd,
    /// Its standard output.
    pub output: Fd,
    /// Its standard error.
    pub error: Fd,
    /// The cgroups that it shall enter; -1 for none.
    pub cgroups: [Fd; 3],
}

/// Puts the walls around the head, outermost first; the filter comes last because it forbids the rest.
pub fn harden(
    request: &Spawn,
    items: Items<'_>,
    head_fds: &HeadFds,
    report: Fd,
) -> Result<Option<Fd>, Failure> {
    sys::new_session();
    enter_cgroups(&head_fds.cgroups).at(Stage::Cgroup)?;
    take_identity(request)?;
    if has_workspace_mount(request) {
        // `/tmp` and `/dev/shm` are mounted with it.
        shared_memory::own_temporary_directories();
    }
    arrange_descriptors(head_fds, report, has(request, walls::ENVIRONMENT)).at(Stage::Home)?;
    let listener = confine(request, items, Visibility::OfItsSession)?;
    sys::set_signal_mask(0);
    Ok(listener)
}

/// Whether processes of the session may look into a process that is behind the session's walls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// As into any process of the session.
    OfItsSession,
    /// The process is our own code, and stays closed.
    Closed,
}

/// Puts the calling process, and so all that it starts, behind the walls of a session. Returns the listener of the filter.
pub fn confine(
    request: &Spawn,
    items: Items<'_>,
    visibility: Visibility,
) -> Result<Option<Fd>, Failure> {
    sys::umask(0o022);
    if let Some(home) = items.one(Item::Home) {
        sys::chdir(home).at(Stage::Home)?;
    }
    limits::apply(request).at(Stage::Limits)?;
    if has(request, walls::PRIVILEGES) {
        privileges::drop_all().at(Stage::Privileges)?;
    } else if !has(request, walls::NAMESPACES)
        && (has(request, walls::LANDLOCK) || has(request, walls::SECCOMP))
    {
        // The kernel wants this promise before it takes rules from a process that is not root's.
        privileges::no_new_privileges().at(Stage::Privileges)?;
    }
    // After a change of ids the kernel hides a process from itself; the head may see its own /proc entries.
    // A closed process may not write there. Under Landlock no process of the session can look into one that is not, for that moment.
    if visibility == Visibility::OfItsSession || has(request, walls::LANDLOCK) {
        privileges::set_dumpable(true);
        // When memory runs out the kernel shall take the head or a spawned process, not init and not a standby.
        let _ = write_file(c"/proc/self/oom_score_adj", b"500");
    }
    privileges::set_dumpable(visibility == Visibility::OfItsSession);
    if has(request, walls::LANDLOCK) {
        let tcp = if has(request, walls::NAMESPACES) || !has(request, walls::NETWORK) {
            Tcp::Free
        } else {
            Tcp::Forbidden
        };
        landlock::confine(items, tcp).at(Stage::Landlock)?;
    }
    if has(request, walls::SECCOMP) {
        seccomp::install(rules(request)).at(Stage::Seccomp)
    } else {
        Ok(None)
    }
}

fn rules(request: &Spawn) -> Rules {
    let sockets = if has(request, walls::NAMESPACES) || !has(request, walls::NETWORK) {
        Sockets::InEmptyNamespace
    } else {
        Sockets::PairsOnly
    };
    let signals = if has(request, walls::SIGNALS) {
        Signals::NotifyInit
    } else {
        Signals::Free
    };
    let watched = has(request, walls::MEMORY) && request.watched_memory > 0;
    let memory = if watched {
        KernelMemory::CountedByInit
    } else {
        KernelMemory::CountedByCgroup
    };
    let objects = if request.bounds_user_objects() {
        UserObjects::NotifyInit
    } else {
        UserObjects::Free
    };
    let forks = if request.can_fork() {
        Forks::NotifyInit
    } else {
        Forks::Forbidden
    };
    let ipc = if has(request, walls::NAMESPACES) || !has(request, walls::IPC) {
        Ipc::OfItsNamespace
    } else {
        Ipc::Forbidden
    };
    Rules {
        sockets,
        signals,
        memory,
        objects,
        ipc,
        starts: if request.follows_other_processes() {
            Starts::NotifyInit
        } else {
            Starts::Free
        },
        forks,
        changes: if request.keeps != 0 {
            Changes::NotifyInit
        } else {
            Changes::Free
        },
        blocks: if has(request, walls::DISK) {
            Blocks::ByWriting
        } else {
            Blocks::ByReserving
        },
        metadata: if request.guards_metadata() {
            Metadata::ByInit
        } else {
            Metadata::Free
        },
        ids: if has(request, walls::NAMESPACES) && has(request, walls::PRIVILEGES) {
            Ids::OnlyOwn
        } else {
            Ids::Free
        },
    }
}

/// Leaves 0, 1, 2, the channel and the socket for the report.
fn arrange_descriptors(head_fds: &HeadFds, report: Fd, close_others: bool) -> sys::Result<()> {
    // First out of the way of the numbers that they will have.
    let channel = sys::duplicate_above(head_fds.channel, OUT_OF_THE_WAY)?;
    let output = sys::duplicate_above(head_fds.output, OUT_OF_THE_WAY)?;
    let error = sys::duplicate_above(head_fds.error, OUT_OF_THE_WAY)?;
    let input = open(c"/dev/null", open_flags::RDONLY, 0)?;
    move_to(input, 0)?;
    move_to(output, 1)?;
    move_to(error, 2)?;
    move_to(channel, CHANNEL)?;
    if close_others {
        close_all_but(&[CHANNEL, report]);
    }
    Ok(())
}

/// Tells init how it went, with the filter's listener. Where a wall is missing, the head ends here.
pub fn report(socket: Fd, outcome: Result<Option<Fd>, Failure>) {
    match outcome {
        Ok(listener) => {
            let message = Message {
                kind: from_init::STARTED,
                ..Message::default()
            };
            let fds = [listener.unwrap_or(-1)];
            let _ = send(
                socket,
                &message.to_bytes(),
                if listener.is_some() { &fds } else { &[] },
            );
            if let Some(listener) = listener {
                close(listener);
            }
        }
        Err(failure) => {
            let message = failure.to_message(from_init::FAILED);
            let _ = send(socket, &message.to_bytes(), &[]);
            sys::exit(70);
        }
    }
}

/// What the head said about its own walls, with the filter's listener.
pub fn receive_report(socket: Fd) -> Result<Fd, Failure> {
    let mut bytes = [0; Message::SIZE];
    let received = receive(socket, &mut bytes).at(Stage::Fork)?;
    let (message, _) = Message::from_bytes(&bytes[..received.bytes]).at(Stage::Fork)?;
    if message.kind == from_init::STARTED {
        let listener = received.descriptors[..received.count.min(MAX_DESCRIPTORS)].first();
        return Ok(listener.copied().unwrap_or(-1));
    }
    // The stage came from our own code in the head, before any code of the user's.
    Err(Failure {
        stage: Stage::from_number(message.a).unwrap_or(Stage::Fork),
        errno: sys::Errno(message.b as i32),
    })
}
