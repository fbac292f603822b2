//! The launcher: builds the outer walls, starts the zygote behind them, and hands out mounts.
//!
//! It is process 1 of a process namespace that holds everything Cellblock starts, so that nothing outlives it, and it goes
//! when the host goes: the end of its socket is the end of all.

use crate::sys::text::Text;
use crate::sys::{
    self, Errno, Fd, Forked, Pid, Poll, clone_flags, clone_process, close, close_all_but, execute,
    kill, mount_attributes, move_to, open, open_flags, packet_pair, poll, reap, receive, send,
    signal_descriptor, signals,
};
use crate::walls::limits;
use crate::walls::mounts::{self, Trees};
use crate::walls::privileges;
use crate::walls::users::{self, Mapping, map_users};
use crate::wire::config::{Item, Items, Launch, walls};
use crate::wire::message::{At, Failure, Message, Stage, from_launcher, to_launcher};
use core::ffi::{CStr, c_char};

/// The descriptors that the host leaves open for the launcher.
pub mod descriptors {
    use crate::sys::Fd;
    /// Its socket to the host.
    pub const CONTROL: Fd = 3;
    /// The zygote's socket to the host.
    pub const ZYGOTE: Fd = 4;
    /// This very file, for the guest to load.
    pub const LIBRARY: Fd = 5;
}

/// How many ids a zygote of root's has for its sessions.
pub const IDS: u32 = 65_536;

const MAX_REQUEST_BYTES: usize = 128 << 10;
const MAX_ARGUMENTS: usize = 256;

/// Runs the launcher to its end.
pub fn run() -> ! {
    let mut buffer = [0u8; MAX_REQUEST_BYTES];
    let outcome = receive(descriptors::CONTROL, &mut buffer)
        .and_then(|received| Launch::from_bytes(&buffer[..received.bytes]))
        .at(Stage::Request)
        .and_then(|(launch, strings)| start(&launch, Items(strings)));
    let Err(failure) = outcome;
    tell_failure(failure);
    sys::exit(70)
}

/// The value of a function that does not return.
enum Never {}

fn start(launch: &Launch, items: Items<'_>) -> Result<Never, Failure> {
    limits::allow_open_files();
    // Directories of the view are for sessions too, which may be other users, whatever the host's umask is.
    sys::umask(0o022);
    // The host's thread that started us may end before the host does, so its death is no signal; the socket is.
    if launch.walls & walls::ENVIRONMENT != 0 {
        privileges::leave_keys_behind();
    }
    if launch.walls & walls::NAMESPACES != 0 {
        enter_namespaces(launch)?;
    }
    if !has_process_namespace(launch) {
        privileges::adopt_orphans().at(Stage::Namespaces)?;
        return serve(launch, items);
    }
    // SAFETY: both sides stay native.
    match unsafe { clone_process(0) }.at(Stage::Fork)? {
        Forked::Child => {
            privileges::follow_parent(signals::KILL);
            let flags =
                sys::mount_flags::NOSUID | sys::mount_flags::NODEV | sys::mount_flags::NOEXEC;
            sys::mount(c"proc", c"/proc", c"proc", flags, c"").at(Stage::Proc)?;
            serve(launch, items)
        }
        Forked::Parent(inner) => {
            // The host waits for this process; it ends as the inner one does.
            close_all_but(&[]);
            let status = reap(inner, true)
                .ok()
                .flatten()
                .map_or(70, |ended| ended.status);
            sys::exit(if status & 0x7F == 0 {
                status >> 8 & 0xFF
            } else {
                128 + (status & 0x7F)
            })
        }
    }
}

fn has_process_namespace(launch: &Launch) -> bool {
    launch.walls & walls::NAMESPACES != 0 && launch.walls & walls::PROCESSES != 0
}

fn enter_namespaces(launch: &Launch) -> Result<(), Failure> {
    if launch.shared_id != 0 {
        become_user(launch.shared_id)?;
        // The change of user closed the process's own files in `/proc`, and the maps of its namespace are written there.
        privileges::set_dumpable(true);
    }
    let ordinary = launch.first_id == 0;
    let processes = if has_process_namespace(launch) {
        clone_flags::NEWPID
    } else {
        0
    };
    let flags = clone_flags::NEWNS | processes;
    if ordinary {
        let (user, group) = sys::effective_ids();
        sys::unshare(flags | clone_flags::NEWUSER).at(Stage::Namespaces)?;
        let only = |outside| Mapping {
            inside: 0,
            outside,
            count: 1,
        };
        map_users(sys::own_pid(), only(user), only(group)).at(Stage::Users)?;
    } else {
        sys::unshare(flags).at(Stage::Namespaces)?;
    }
    mounts::follow_host().at(Stage::Namespaces)
}

/// Gives up root's user and groups for the user and group with this id.
fn become_user(id: u64) -> Result<(), Failure> {
    sys::clear_groups().at(Stage::Identity)?;
    sys::set_group(id as u32).at(Stage::Identity)?;
    sys::set_user(id as u32).at(Stage::Identity)
}

/// Starts the zygote, then answers the host until it goes.
fn serve(launch: &Launch, items: Items<'_>) -> Result<Never, Failure> {
    sys::set_signal_mask(u64::MAX);
    let children = signal_descriptor(1 << (signals::CHLD - 1)).at(Stage::Fork)?;
    let zygote = start_zygote(launch, items)?;
    close(descriptors::ZYGOTE);
    close(descriptors::LIBRARY);
    tell(from_launcher::STARTED, zygote as u64, 0, &[]);
    loop {
        let mut wanted = [
            Poll::readable(descriptors::CONTROL),
            Poll::readable(children),
        ];
        poll(&mut wanted, -1);
        let [control, child] = wanted;
        if child.seen != 0 {
            let mut sink = [0u8; 512];
            while let Ok(1..) = sys::read(children, &mut sink) {}
            while let Ok(Some(ended)) = reap(-1, false) {
                if ended.pid == zygote {
                    tell(from_launcher::ZYGOTE_ENDED, ended.status as u64, 0, &[]);
                }
            }
        }
        if control.seen != 0 && !answer(launch) {
            let _ = kill(zygote, signals::KILL);
            sys::exit(0);
        }
    }
}

/// Answers one request; false when the host has gone.
fn answer(launch: &Launch) -> bool {
    let mut buffer = [0u8; Message::SIZE + mounts::MAX_PATH_BYTES];
    let Ok(received) = receive(descriptors::CONTROL, &mut buffer) else {
        return false;
    };
    if received.bytes == 0 {
        return false;
    }
    let outcome = Message::from_bytes(&buffer[..received.bytes])
        .at(Stage::Request)
        .and_then(|(message, path)| {
            if message.kind != to_launcher::MOUNT {
                return Err(Failure {
                    stage: Stage::Request,
                    errno: Errno::INVAL,
                });
            }
            let path = CStr::from_bytes_until_nul(path).map_err(|_| Failure {
                stage: Stage::Request,
                errno: Errno::INVAL,
            })?;
            detached_mount(launch, &message, path)
        });
    match outcome {
        Ok(mount) => {
            tell(from_launcher::MOUNTED, 0, 0, &[mount]);
            close(mount);
        }
        Err(failure) => tell_failure(failure),
    }
    true
}

/// A mount of a host directory for one session, which attaches it inside its own namespaces.
fn detached_mount(launch: &Launch, request: &Message, path: &CStr) -> Result<Fd, Failure> {
    let mount = sys::clone_tree(path).at(Stage::Workspace)?;
    let plain = mount_attributes::NOSUID | mount_attributes::NODEV;
    let outcome = if launch.first_id == 0 || request.c == 0 {
        sys::set_mount_attributes(mount, c"", plain, None).at(Stage::Workspace)
    } else {
        // The session has a user id of its own; what it writes shall belong to the owner of the directory.
        let session = (launch.first_id + request.c) as u32;
        let map = |disk: u64| Mapping {
            inside: disk as u32,
            outside: session,
            count: 1,
        };
        user_namespace(map(request.a), map(request.b))
            .at(Stage::IdMap)
            .and_then(|namespace| {
                let set = sys::set_mount_attributes(
                    mount,
                    c"",
                    plain | mount_attributes::IDMAP,
                    Some(namespace),
                );
                close(namespace);
                set.at(Stage::IdMap)
            })
    };
    match outcome {
        Ok(()) => Ok(mount),
        Err(failure) => {
            close(mount);
            Err(failure)
        }
    }
}

/// A user namespace that exists only to say which id on disk is which id of a process.
fn user_namespace(users: Mapping, groups: Mapping) -> sys::Result<Fd> {
    // SAFETY: the child does nothing but wait for its end.
    match unsafe { clone_process(clone_flags::NEWUSER) }? {
        Forked::Child => loop {
            poll(&mut [], -1);
        },
        Forked::Parent(pid) => {
            let namespace = map_users(pid, users, groups)
                .and_then(|()| Text::<48>::new(format_args!("/proc/{pid}/ns/user")))
                .and_then(|path| open(path.as_c_str(), open_flags::RDONLY, 0));
            // It is reaped when it has ended, with the others.
            let _ = kill(pid, signals::KILL);
            namespace
        }
    }
}

fn start_zygote(launch: &Launch, items: Items<'_>) -> Result<Pid, Failure> {
    let has_view = launch.walls & walls::NAMESPACES != 0 && launch.walls & walls::FILES != 0;
    let trees = if has_view {
        Some(Trees::collect(items)?)
    } else {
        None
    };
    let (near, far) = packet_pair().at(Stage::Fork)?;
    // SAFETY: the child stays native until it executes Python.
    match unsafe { clone_process(zygote_namespaces(launch.walls)) }.at(Stage::Namespaces)? {
        Forked::Child => {
            close(near);
            let failure = become_zygote(launch, items, trees.as_ref(), far);
            let message = failure.to_message(from_launcher::FAILED);
            let _ = send(far, &message.to_bytes(), &[]);
            sys::exit(70)
        }
        Forked::Parent(pid) => {
            close(far);
            if let Some(trees) = &trees {
                trees.close();
            }
            if launch.walls & walls::NAMESPACES != 0 {
                let map = if launch.first_id == 0 {
                    Mapping {
                        inside: 0,
                        outside: 0,
                        count: 1,
                    }
                } else {
                    Mapping {
                        inside: 0,
                        outside: launch.first_id as u32,
                        count: IDS,
                    }
                };
                map_users(pid, map, map).at(Stage::Users)?;
            }
            send(near, &[1], &[]).at(Stage::Fork)?;
            // Silence means that Python was executed: the socket closes by itself.
            let mut bytes = [0; Message::SIZE];
            let received = receive(near, &mut bytes).at(Stage::Fork)?;
            close(near);
            match Message::from_bytes(&bytes[..received.bytes]) {
                Ok((message, _)) => {
                    let _ = send(descriptors::CONTROL, &message.to_bytes(), &[]);
                    sys::exit(70)
                }
                Err(_) => Ok(pid),
            }
        }
    }
}

fn zygote_namespaces(walls: u64) -> usize {
    use clone_flags as flags;
    if walls & walls::NAMESPACES == 0 {
        return 0;
    }
    let network = if walls & walls::NETWORK != 0 {
        flags::NEWNET
    } else {
        0
    };
    let ipc = if walls & walls::IPC != 0 {
        flags::NEWIPC
    } else {
        0
    };
    let names = if walls & walls::HOSTNAME != 0 {
        flags::NEWUTS
    } else {
        0
    };
    flags::NEWUSER | flags::NEWNS | flags::NEWCGROUP | network | ipc | names
}

/// Returns only when something failed.
fn become_zygote(launch: &Launch, items: Items<'_>, trees: Option<&Trees>, go: Fd) -> Failure {
    match prepare_zygote(launch, items, trees, go) {
        Ok(()) => Failure {
            stage: Stage::Execute,
            errno: execute_python(items),
        },
        Err(failure) => failure,
    }
}

fn prepare_zygote(
    launch: &Launch,
    items: Items<'_>,
    trees: Option<&Trees>,
    go: Fd,
) -> Result<(), Failure> {
    let mut byte = [0];
    receive(go, &mut byte).at(Stage::Users)?;
    sys::new_session();
    if launch.walls & walls::NAMESPACES != 0 {
        sys::set_group(0).at(Stage::Identity)?;
        sys::set_user(0).at(Stage::Identity)?;
        mounts::make_private().at(Stage::Namespaces)?;
        users::limit_kernel_objects(users::OF_ALL_SESSIONS);
        if let Some(trees) = trees {
            mounts::enter_view(launch, items, trees)?;
        }
    } else if launch.first_id != 0 && launch.walls & walls::PRIVILEGES != 0 {
        // No namespace to give each session an id of its own: they share one, but it is not root's.
        become_user(launch.first_id)?;
    }
    if launch.walls & walls::PRIVILEGES != 0 {
        privileges::no_new_privileges().at(Stage::Privileges)?;
    }
    move_to(descriptors::ZYGOTE, descriptors::ZYGOTE).at(Stage::Execute)?;
    move_to(descriptors::LIBRARY, descriptors::LIBRARY).at(Stage::Execute)?;
    close(descriptors::CONTROL);
    if launch.walls & walls::ENVIRONMENT != 0 {
        let mut kept = [descriptors::ZYGOTE, descriptors::LIBRARY, go];
        kept.sort_unstable();
        close_all_but(&kept);
    }
    sys::default_signals();
    sys::set_signal_mask(0);
    sys::chdir(c"/").at(Stage::Home)
}

fn execute_python(items: Items<'_>) -> Errno {
    let Some(program) = items.one(Item::Program) else {
        return Errno::INVAL;
    };
    let mut arguments: [*const c_char; MAX_ARGUMENTS] = [core::ptr::null(); MAX_ARGUMENTS];
    let mut environment: [*const c_char; MAX_ARGUMENTS] = [core::ptr::null(); MAX_ARGUMENTS];
    for (slot, (word, _)) in arguments[..MAX_ARGUMENTS - 1]
        .iter_mut()
        .zip(items.of(Item::Argument))
    {
        *slot = word.as_ptr();
    }
    for (slot, (word, _)) in environment[..MAX_ARGUMENTS - 1]
        .iter_mut()
        .zip(items.of(Item::Variable))
    {
        *slot = word.as_ptr();
    }
    execute(program, &arguments, &environment)
}

fn tell(kind: u64, a: u64, b: u64, descriptors: &[Fd]) {
    let _ = send(
        descriptors::CONTROL,
        &Message { kind, a, b, c: 0 }.to_bytes(),
        descriptors,
    );
}

fn tell_failure(failure: Failure) {
    let message = failure.to_message(from_launcher::FAILED);
    let _ = send(descriptors::CONTROL, &message.to_bytes(), &[]);
}
