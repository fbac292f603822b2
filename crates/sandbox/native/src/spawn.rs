//! The birth of a session: from a fork of the zygote to a hardened head.

use crate::config::{Item, Items, Spawn, walls};
use crate::init::{self, Init};
use crate::keep::{Keeper, Place, Sharing};
use crate::message::{At, Failure, Message, Stage, from_init};
use crate::pending::Pending;
use crate::seccomp::{Changes, Forks, Ipc, NamelessFiles, Rules, Signals, Sockets};
use crate::sweep::Reach;
use crate::sys::{
    self, Errno, Fd, Forked, MOST_DESCRIPTORS, Pid, clone_flags, clone_process, close,
    close_all_but, move_to, open, open_flags, packet_pair, receive, send, write_all, write_file,
};
use crate::users::{self, Mapping, SESSION_ID, map_users};
use crate::waiting::Waiting;
use crate::{doors, landlock, limits, mounts, privileges, seccomp};

/// The descriptors that come with a request, in this order. -1 stands for none.
pub struct Descriptors {
    /// Init's socket to the host.
    pub control: Fd,
    /// The head's channel.
    pub channel: Fd,
    /// The head's standard output.
    pub output: Fd,
    /// The head's standard error.
    pub error: Fd,
    /// A detached mount of the workspace.
    pub workspace: Fd,
    /// Init's socket for files that are about to be changed.
    pub keeper: Fd,
    /// Files of cgroups; who writes a 0 into one enters it.
    pub cgroups: [Fd; 3],
}

impl Descriptors {
    /// Reads them from the order on the wire.
    pub fn from_wire(
        descriptors: &[Fd],
        workspace: bool,
        keeper: bool,
    ) -> sys::Result<Descriptors> {
        let mut rest = descriptors.iter().copied();
        let mut next = || rest.next().ok_or(Errno::PROTO);
        let mut taken = Descriptors {
            control: next()?,
            channel: next()?,
            output: next()?,
            error: next()?,
            workspace: if workspace { next()? } else { -1 },
            keeper: if keeper { next()? } else { -1 },
            cgroups: [-1; 3],
        };
        for slot in &mut taken.cgroups {
            *slot = rest.next().unwrap_or(-1);
        }
        Ok(taken)
    }

    /// All of them, for the zygote to close.
    pub fn close(&self) {
        let all = [
            self.control,
            self.channel,
            self.output,
            self.error,
            self.workspace,
            self.keeper,
        ];
        for fd in all.into_iter().chain(self.cgroups).filter(|fd| *fd >= 0) {
            close(fd);
        }
    }
}

/// libc's `fork`: with the handlers that BLAS libraries and allocators registered.
pub type LibcFork = unsafe extern "C" fn() -> Pid;

/// Where the caller finds itself afterwards.
pub enum Born {
    /// Still the zygote; the new init has this id.
    Zygote(Pid),
    /// The head of the new session, behind all its walls.
    Head,
}

/// The head's channel is always this descriptor.
pub const CHANNEL: Fd = 3;

/// Makes a session. In the zygote it returns at once with the id of init; in the head, hardened, as [`Born::Head`]; in init
/// it does not return.
///
/// # Safety
/// The caller must be single-threaded and have prepared Python for a fork.
pub unsafe fn spawn(
    request: &Spawn,
    items: Items<'_>,
    descriptors: &Descriptors,
    fork: LibcFork,
) -> sys::Result<Born> {
    let (near, far) = packet_pair()?;
    // A child of the launcher, which reaps it, and not of the zygote, which waits for nobody.
    // SAFETY: init stays native; the head is made by libc's own fork below.
    match unsafe { clone_process(namespaces(request.walls) | clone_flags::PARENT) } {
        Ok(Forked::Parent(pid)) => {
            close(far);
            if has(request, walls::NAMESPACES) {
                let map = Mapping {
                    inside: SESSION_ID,
                    outside: request.user as u32,
                    count: 1,
                };
                // A failure is seen by init, which finds itself without an id and reports it.
                let _ = map_users(pid, map, map);
            }
            let _ = send(near, &[1], &[]);
            close(near);
            Ok(Born::Zygote(pid))
        }
        Ok(Forked::Child) => {
            close(near);
            sys::set_signal_mask(u64::MAX);
            // SAFETY: as above.
            match unsafe { build(request, items, descriptors, far, fork) } {
                Ok(()) => Ok(Born::Head),
                Err(failure) => {
                    let Failure { stage, errno } = failure;
                    let message = Message {
                        kind: from_init::FAILED,
                        a: stage as u64,
                        b: errno.0 as u64,
                        c: 0,
                    };
                    let _ = send(descriptors.control, &message.to_bytes(), &[]);
                    sys::exit(70)
                }
            }
        }
        Err(error) => {
            close(near);
            close(far);
            Err(error)
        }
    }
}

fn has(request: &Spawn, wall: u64) -> bool {
    request.walls & wall != 0
}

/// The namespaces that a session behind these walls has of its own.
pub fn namespaces(walls: u64) -> usize {
    use clone_flags as flags;
    if walls & walls::NAMESPACES == 0 {
        return 0;
    }
    let when = |wall: u64, flag: usize| if walls & wall != 0 { flag } else { 0 };
    // The user and mount namespaces carry the others and are always there.
    flags::NEWUSER
        | flags::NEWNS
        | flags::NEWCGROUP
        | when(walls::PROCESSES, flags::NEWPID)
        | when(walls::NETWORK, flags::NEWNET)
        | when(walls::IPC, flags::NEWIPC)
        | when(walls::HOSTNAME, flags::NEWUTS)
}

/// Runs in the new process. Returns in the head; init stays inside.
unsafe fn build(
    request: &Spawn,
    items: Items<'_>,
    descriptors: &Descriptors,
    go: Fd,
    fork: LibcFork,
) -> Result<(), Failure> {
    let mut byte = [0];
    receive(go, &mut byte).at(Stage::Users)?;
    close(go);
    let reach = if has(request, walls::NAMESPACES) && has(request, walls::PROCESSES) {
        Reach::Namespace
    } else {
        Reach::Descendants
    };
    let proc_directory = settle_in(request, items, descriptors, reach)?;
    doors::put_up_names(items)?;
    let (near, far) = packet_pair().at(Stage::Fork)?;
    // SAFETY: single-threaded; the handlers of libc run around it.
    match unsafe { fork() } {
        -1 => Err(Failure {
            stage: Stage::Fork,
            errno: Errno::AGAIN,
        }),
        0 => {
            // Out of the way of the numbers that the head's own descriptors will have.
            let far = sys::duplicate_above(far, 100).at(Stage::Fork)?;
            let outcome = harden(request, items, descriptors, far);
            report(far, outcome);
            close(far);
            let _ = limits::limit_open_files(request.open_files);
            Ok(())
        }
        head => {
            close(far);
            let listener = hear(near)?;
            privileges::set_dumpable(false);
            let keeper = keeper(items, descriptors.keeper, proc_directory, Sharing::None);
            let (files, home) = keeper
                .as_ref()
                .map_or((-1, -1), |keeper| (keeper.socket, keeper.home));
            let mut kept = [descriptors.control, proc_directory, listener, files, home];
            kept.sort_unstable();
            close_all_but(&kept);
            for fd in 0..3 {
                close(fd);
            }
            init::run(Init {
                control: descriptors.control,
                listener,
                judge: -1,
                keeper,
                proc_directory,
                head: Some(head),
                reach,
                memory: watched_memory(request),
                processes: request.processes,
            })
        }
    }
}

/// What the watchdog shall hold all processes of a session to; 0 for nothing.
pub fn watched_memory(request: &Spawn) -> u64 {
    if has(request, walls::MEMORY) {
        request.watched_memory
    } else {
        0
    }
}

/// Enters all that are there.
pub fn enter_cgroups(cgroups: &[Fd]) -> sys::Result<()> {
    cgroups
        .iter()
        .filter(|fd| **fd >= 0)
        .try_for_each(|cgroup| write_all(*cgroup, b"0"))
}

/// Makes the fresh namespaces of this process, a session's init, what the session shall find. Returns `/proc` for init.
pub fn settle_in(
    request: &Spawn,
    items: Items<'_>,
    descriptors: &Descriptors,
    reach: Reach,
) -> Result<Fd, Failure> {
    if reach == Reach::Descendants {
        privileges::adopt_orphans().at(Stage::Namespaces)?;
    }
    enter_cgroups(&descriptors.cgroups).at(Stage::Cgroup)?;
    if has(request, walls::NAMESPACES) {
        sys::set_group(SESSION_ID).at(Stage::Identity)?;
        sys::set_user(SESSION_ID).at(Stage::Identity)?;
        mounts::make_private().at(Stage::Namespaces)?;
        users::limit_kernel_objects(users::OF_ONE_SESSION);
        let workspace = (descriptors.workspace >= 0 && has(request, walls::FILES))
            .then_some(descriptors.workspace);
        if has(request, walls::FILES) {
            mounts::enter_session(request.temporary_bytes, items, workspace)?;
        }
        if has(request, walls::HOSTNAME) {
            sys::set_host_name(b"cellblock").at(Stage::HostName)?;
        }
        doors::open(items, descriptors.control)?;
    }
    match reach {
        Reach::Namespace => mounts::enter_proc(),
        Reach::Descendants => mounts::open_proc().at(Stage::Proc),
    }
}

/// Puts the walls around the head, outermost first; the filter comes last because it forbids the rest.
fn harden(
    request: &Spawn,
    items: Items<'_>,
    descriptors: &Descriptors,
    report: Fd,
) -> Result<Option<Fd>, Failure> {
    sys::new_session();
    arrange_descriptors(descriptors, report, has(request, walls::ENVIRONMENT)).at(Stage::Home)?;
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
        // The kernel wants this promise before it takes rules from someone who is not root.
        privileges::no_new_privileges().at(Stage::Privileges)?;
    }
    // After a change of ids the kernel hides a process from itself; the head may see its own /proc entries.
    privileges::set_dumpable(true);
    // When memory runs out the kernel shall take the head, not init and not a standby.
    let _ = write_file(c"/proc/self/oom_score_adj", b"500");
    if has(request, walls::LANDLOCK) {
        landlock::confine(items, !has(request, walls::NETWORK)).at(Stage::Landlock)?;
    }
    let listener = if has(request, walls::SECCOMP) {
        seccomp::install(rules(request)).at(Stage::Seccomp)?
    } else {
        None
    };
    sys::set_signal_mask(0);
    Ok(listener)
}

/// What is needed to keep files, if the host wants them kept.
pub fn keeper(
    items: Items<'_>,
    socket: Fd,
    proc_directory: Fd,
    sharing: Sharing,
) -> Option<Keeper> {
    if socket < 0 {
        return None;
    }
    let home = open(
        items.one(Item::Home)?,
        open_flags::PATH | open_flags::DIRECTORY,
        0,
    )
    .ok()?;
    Some(Keeper {
        socket,
        home,
        proc_directory,
        // Everything, until the host knows what there is.
        since: u64::MAX,
        sharing,
        waiting: Waiting::NOBODY,
        pending: Pending::NONE,
        removing: (0, Place::TOP),
        emptied: None,
    })
}

fn rules(request: &Spawn) -> Rules {
    let sockets = if has(request, walls::NAMESPACES) || !has(request, walls::NETWORK) {
        Sockets::InEmptyNamespace
    } else {
        Sockets::PairsOnly
    };
    let signals = if has(request, walls::SIGNALS) {
        Signals::AskInit
    } else {
        Signals::Free
    };
    let watched = has(request, walls::MEMORY) && request.watched_memory > 0;
    let nameless = if watched {
        NamelessFiles::Forbidden
    } else {
        NamelessFiles::Counted
    };
    let forks = if request.can_fork() {
        Forks::AskInit
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
        nameless,
        ipc,
        forks,
        changes: if request.keeps != 0 {
            Changes::AskInit
        } else {
            Changes::Free
        },
    }
}

/// Leaves 0, 1, 2, the channel and the socket for the report.
fn arrange_descriptors(
    descriptors: &Descriptors,
    report: Fd,
    close_others: bool,
) -> sys::Result<()> {
    // First out of the way of the numbers that they will have.
    let channel = sys::duplicate_above(descriptors.channel, 100)?;
    let output = sys::duplicate_above(descriptors.output, 100)?;
    let error = sys::duplicate_above(descriptors.error, 100)?;
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

fn report(socket: Fd, outcome: Result<Option<Fd>, Failure>) {
    match outcome {
        Ok(listener) => {
            let message = Message {
                kind: from_init::BORN,
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
        Err(Failure { stage, errno }) => {
            let message = Message {
                kind: from_init::FAILED,
                a: stage as u64,
                b: errno.0 as u64,
                c: 0,
            };
            let _ = send(socket, &message.to_bytes(), &[]);
            sys::exit(70);
        }
    }
}

/// What the head said about its own walls, with the filter's listener.
fn hear(socket: Fd) -> Result<Fd, Failure> {
    let mut bytes = [0; Message::SIZE];
    let received = receive(socket, &mut bytes).at(Stage::Fork)?;
    let (message, _) = Message::from_bytes(&bytes[..received.bytes]).at(Stage::Fork)?;
    if message.kind == from_init::BORN {
        let listener = received.descriptors[..received.count.min(MOST_DESCRIPTORS)].first();
        return Ok(listener.copied().unwrap_or(-1));
    }
    // The stage came from our own code in the head, before any code of the user's.
    Err(Failure {
        stage: Stage::from_number(message.a).unwrap_or(Stage::Fork),
        errno: Errno(message.b as i32),
    })
}
