//! What a request for a session says, and what init makes of it.

use crate::files::change_handler::{ChangeHandler, Sharing, WorkspacePath};
use crate::files::deferred_calls::DeferredCalls;
use crate::files::own_directories::{Bounds, OwnDirectories};
use crate::files::waiting_calls::WaitingCalls;
use crate::init::sweep::Reach;
use crate::sys::{self, Errno, Fd, Pid, clone_flags, open, open_flags, write_all};
use crate::walls::loopback;
use crate::walls::mounts;
use crate::walls::privileges;
use crate::walls::users::{self, SESSION_ID};
use crate::wire::config::{Item, Items, Spawn, walls};
use crate::wire::message::{At, Failure, Stage};
use core::ffi::CStr;

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
    pub change_socket: Fd,
    /// Files of cgroups: a process that writes a 0 into one enters that cgroup.
    pub cgroups: [Fd; 3],
}

impl Descriptors {
    /// Reads them from the order on the wire.
    pub fn from_wire(
        descriptors: &[Fd],
        workspace: bool,
        has_change_socket: bool,
    ) -> sys::Result<Descriptors> {
        let mut rest = descriptors.iter().copied();
        let mut next = || rest.next().ok_or(Errno::PROTO);
        let mut taken = Descriptors {
            control: next()?,
            channel: next()?,
            output: next()?,
            error: next()?,
            workspace: if workspace { next()? } else { -1 },
            change_socket: if has_change_socket { next()? } else { -1 },
            cgroups: [-1; 3],
        };
        for slot in &mut taken.cgroups {
            *slot = rest.next().unwrap_or(-1);
        }
        Ok(taken)
    }
}

/// libc's `fork`: with the handlers that BLAS libraries and allocators registered.
pub type LibcFork = unsafe extern "C" fn() -> Pid;

/// Whether a session shall have this wall.
pub fn has(request: &Spawn, wall: u64) -> bool {
    request.walls & wall != 0
}

/// Whether a mount of the workspace comes along.
pub fn has_workspace_mount(request: &Spawn) -> bool {
    has(request, walls::NAMESPACES) && has(request, walls::FILES)
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

/// What the watchdog shall hold all processes of a session to; 0 for nothing.
pub fn watched_memory(request: &Spawn) -> u64 {
    if has(request, walls::MEMORY) {
        request.watched_memory
    } else {
        0
    }
}

/// The limit for data in the session's sockets, in bytes, where a cgroup limits all other memory; 0 for none.
pub fn socket_memory(request: &Spawn) -> u64 {
    if has(request, walls::MEMORY) && request.watched_memory == 0 {
        request.memory
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

/// Becomes the user that the session sees as its own, once its ids are mapped.
pub fn take_identity(request: &Spawn) -> Result<(), Failure> {
    if !has(request, walls::NAMESPACES) {
        return Ok(());
    }
    sys::set_group(SESSION_ID).at(Stage::Identity)?;
    sys::set_user(SESSION_ID).at(Stage::Identity)
}

/// Makes the fresh namespaces of this process, a session's init, what the session shall find, but for the network. Returns `/proc` for init.
pub fn set_up_namespaces(
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
        take_identity(request)?;
        mounts::make_private().at(Stage::Namespaces)?;
        users::limit_kernel_objects(users::OF_ONE_SESSION);
        if has(request, walls::NETWORK) {
            loopback::forget_ended_connections();
        }
        let workspace = (descriptors.workspace >= 0 && has(request, walls::FILES))
            .then_some(descriptors.workspace);
        if has(request, walls::FILES) {
            mounts::enter_session(request.temporary_bytes, items, workspace)?;
        }
        if has(request, walls::HOSTNAME) {
            sys::set_host_name(b"cellblock").at(Stage::HostName)?;
        }
    }
    match reach {
        Reach::Namespace => mounts::enter_proc(),
        Reach::Descendants => mounts::open_proc().at(Stage::Proc),
    }
}

/// Makes the network namespace what the session shall find. Nothing needs it before code of the session runs.
pub fn set_up_network(
    request: &Spawn,
    items: Items<'_>,
    descriptors: &Descriptors,
) -> Result<(), Failure> {
    if has(request, walls::NAMESPACES) && has(request, walls::NETWORK) {
        loopback::open(items, descriptors.control)?;
    }
    Ok(())
}

/// What is needed to keep files, if the host wants them kept, and to change them in the place of code.
pub fn change_handler(
    request: &Spawn,
    items: Items<'_>,
    socket: Fd,
    proc_directory: Fd,
    sharing: Sharing,
) -> Option<ChangeHandler> {
    let guards_metadata = request.guards_metadata();
    if socket < 0 && !guards_metadata {
        return None;
    }
    Some(ChangeHandler {
        socket,
        own_directories: own_directories(request, items, proc_directory).ok()?,
        proc_directory,
        // Everything, until the host knows what there is.
        since: if socket < 0 { 0 } else { u64::MAX },
        guards_metadata,
        sharing,
        waiting: WaitingCalls::EMPTY,
        deferred: DeferredCalls::NONE,
        removing: (0, WorkspacePath::TOP),
        emptied: None,
    })
}

/// Where the session's own files are, the workspace first.
fn own_directories(
    request: &Spawn,
    items: Items<'_>,
    proc_directory: Fd,
) -> sys::Result<&'static OwnDirectories> {
    let home = items.one(Item::Home).ok_or(Errno::NOENT)?;
    if has_workspace_mount(request) {
        let own = [home, c"/tmp", c"/dev/shm", c"/dev/pts"];
        return OwnDirectories::new(own.into_iter(), Bounds::Mounts, proc_directory);
    }
    let writable = items.of(Item::Writable).map(|(path, _)| path);
    let others = writable.filter(|path| *path != home && is_directory(path));
    let own = core::iter::once(home).chain(others);
    OwnDirectories::new(own, Bounds::Directories, proc_directory)
}

fn is_directory(path: &CStr) -> bool {
    let opened = open(path, open_flags::PATH | open_flags::DIRECTORY, 0);
    opened.map(sys::close).is_ok()
}
