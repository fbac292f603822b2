//! The read-only view of the host that a zygote and its sessions see.

use crate::sys::text::Text;
use crate::sys::{
    self, Errno, Fd, Result, attach_mount, chdir, close, mkdir, mount, mount_attributes,
    mount_flags, open, open_flags, pivot_root, set_mount_attributes, symlink, unmount, write_all,
};
use crate::wire::config::{Item, Items, Launch};
use crate::wire::message::{At, Failure, Stage};
use core::ffi::CStr;

/// Paths in the view and of the host are at most this long.
pub const MAX_PATH_BYTES: usize = 4096;

/// What the host mounts later is seen here, and nothing the other way.
pub fn follow_host() -> Result<()> {
    mount(
        c"none",
        c"/",
        c"",
        mount_flags::REC | mount_flags::SLAVE,
        c"",
    )
}

/// Nothing that happens to mounts here is seen elsewhere.
pub fn make_private() -> Result<()> {
    mount(
        c"none",
        c"/",
        c"",
        mount_flags::REC | mount_flags::PRIVATE,
        c"",
    )
}

/// Detached copies of everything that shall be shown, in the order of the items, and of `/proc` at the end.
pub struct Trees {
    mounts: [Fd; MAX_TREES],
    count: usize,
}

const MAX_TREES: usize = 64;

impl Trees {
    /// Made by the launcher: it may read directories that the zygote's own user may not, such as root's home.
    pub fn collect(items: Items<'_>) -> core::result::Result<Trees, Failure> {
        let mut trees = Trees {
            mounts: [-1; MAX_TREES],
            count: 0,
        };
        for (tag, host, _) in items {
            let attributes = match tag {
                tag if tag == Item::Show as u8 => {
                    mount_attributes::RDONLY | mount_attributes::NODEV
                }
                tag if tag == Item::Device as u8 => 0,
                _ => continue,
            };
            trees
                .add(host, attributes | mount_attributes::NOSUID)
                .at(Stage::Show)?;
        }
        trees
            .add(c"/proc", mount_attributes::NOSUID)
            .at(Stage::Proc)?;
        Ok(trees)
    }

    fn add(&mut self, host: &CStr, attributes: u64) -> Result<()> {
        let slot = self.mounts.get_mut(self.count).ok_or(Errno::OVERFLOW)?;
        *slot = sys::clone_tree(host)?;
        self.count += 1;
        set_mount_attributes(*slot, c"", attributes, None)
    }

    /// Lets go of them, in the process that only collected them.
    pub fn close(&self) {
        self.mounts[..self.count].iter().copied().for_each(close);
    }
}

/// Replaces the root directory by an empty one that holds only what `items` list, read-only.
pub fn enter_view(
    launch: &Launch,
    items: Items<'_>,
    trees: &Trees,
) -> core::result::Result<(), Failure> {
    let own = mount_flags::NOSUID | mount_flags::NODEV;
    mount(c"cellblock", c"/tmp", c"tmpfs", own, c"mode=0755,size=4m").at(Stage::Root)?;
    mkdir(c"/tmp/.host", 0o700).at(Stage::Root)?;
    pivot_root(c"/tmp", c"/tmp/.host").at(Stage::Pivot)?;
    chdir(c"/").at(Stage::Pivot)?;
    unmount(c"/.host", mount_flags::DETACH).at(Stage::Pivot)?;
    let _ = sys::rmdir(c"/.host");
    // Before anything is shown: some of it may lie below.
    mount_temporary(launch.temporary_bytes).at(Stage::Temporary)?;

    let mut mounts = trees.mounts.iter().copied();
    for (tag, first, second) in items {
        let outcome = match tag {
            tag if tag == Item::Show as u8 || tag == Item::Device as u8 => mounts
                .next()
                .ok_or(Errno::PROTO)
                .and_then(|tree| show(tree, second)),
            tag if tag == Item::Link as u8 => {
                make_parents(second).and_then(|()| symlink(first, second))
            }
            tag if tag == Item::Directory as u8 => {
                make_parents(second).and_then(|()| mkdir(second, 0o755))
            }
            tag if tag == Item::File as u8 => make_file(second, first.to_bytes()),
            _ => Ok(()),
        };
        outcome.at(Stage::Show)?;
    }
    // The launcher's /proc: a session may only mount its own where one is visible already.
    mounts
        .next()
        .ok_or(Errno::PROTO)
        .and_then(|tree| show(tree, c"/proc"))
        .at(Stage::Proc)?;
    set_root_read_only().at(Stage::Root)
}

/// A `/proc` of the session's own processes. Returns a directory in which init sees all of them.
pub fn enter_proc() -> core::result::Result<Fd, Failure> {
    let flags = mount_flags::NOSUID | mount_flags::NODEV | mount_flags::NOEXEC;
    mount(c"proc", c"/proc", c"proc", flags, c"").at(Stage::Proc)?;
    let every_process = open_proc().at(Stage::Proc)?;
    // It covers the first, to which no path leads back. 4: processes that may not be traced are not even listed, so that a
    // standby cannot be found; not even by init, whose capabilities end at this session's user namespace.
    mount(c"proc", c"/proc", c"proc", flags, c"hidepid=4").at(Stage::Proc)?;
    hide_keys().at(Stage::Proc)?;
    Ok(every_process)
}

/// The lists of keys show the keys of the session's user on the whole machine. If the host is not root, that is the host's own user.
fn hide_keys() -> Result<()> {
    for list in [c"/proc/keys", c"/proc/key-users"] {
        // A kernel without keys has no such list.
        if let Ok(found) = open(list, open_flags::PATH, 0) {
            close(found);
            mount(c"/dev/null", list, c"", mount_flags::BIND, c"")?;
        }
    }
    Ok(())
}

/// The `/proc` that is there.
pub fn open_proc() -> Result<Fd> {
    open(c"/proc", open_flags::RDONLY | open_flags::DIRECTORY, 0)
}

/// Everything that a session sees, as a copy that a fork of it can enter.
pub fn whole_view() -> Result<Fd> {
    sys::clone_tree(c"/")
}

/// Leaves the mounts of the parent session, of which this process has copies, for another copy: the first step of a fork.
///
/// The copies cannot be removed one by one, nor may a fork mount its own on top of them: what is mounted on a directory goes when
/// the directory does, and that of the parent goes with the parent. So the fork enters another copy of everything, made by a process that
/// may remove what is the parent's, and removes that ([`remove_parent_mounts`]).
pub fn enter_copy(view: Fd) -> core::result::Result<(), Failure> {
    attach_mount(view, c"/tmp").at(Stage::Root)?;
    chdir(c"/tmp").at(Stage::Pivot)?;
    pivot_root(c".", c".").at(Stage::Pivot)?;
    unmount(c".", mount_flags::DETACH).at(Stage::Pivot)?;
    chdir(c"/").at(Stage::Pivot)
}

/// Removes what the parent session has mounted, from the copy of its view: the second step of a fork. What is left is the view as it was
/// before there was a session.
///
/// `workspace` is where the parent has its workspace: the fork's own is at the same path.
pub fn remove_parent_mounts(workspace: &CStr) -> core::result::Result<(), Failure> {
    // As `enter_session` and `enter_proc` mounted them.
    for target in [
        workspace,
        c"/dev/pts",
        c"/tmp",
        c"/dev/shm",
        c"/proc",
        c"/proc",
    ] {
        unmount(target, mount_flags::DETACH).at(Stage::Root)?;
    }
    Ok(())
}

/// The mounts of one session, inside the view: its own temporary directories and its workspace.
///
/// What `items` list lies below a temporary directory; it is carried over into the new one.
pub fn enter_session(
    temporary_bytes: u64,
    items: Items<'_>,
    workspace: Option<sys::Fd>,
) -> core::result::Result<(), Failure> {
    const MAX_CARRIED_MOUNTS: usize = 8;
    let mut carried = [-1; MAX_CARRIED_MOUNTS];
    for (slot, (path, _)) in carried.iter_mut().zip(items.of(Item::Show)) {
        *slot = sys::clone_tree(path).at(Stage::Show)?;
    }
    mount_temporary(temporary_bytes).at(Stage::Temporary)?;
    mount_terminals().at(Stage::Temporary)?;
    for (tree, (path, _)) in carried.into_iter().zip(items.of(Item::Show)) {
        show(tree, path).at(Stage::Show)?;
    }
    if let Some(workspace) = workspace {
        let place = items.one(Item::Home).ok_or(Errno::NOENT);
        let attached = place.and_then(|place| attach_mount(workspace, place));
        attached.at(Stage::Workspace)?;
    }
    Ok(())
}

/// Puts a text over a file of the view, read-only. The temporary directories must be there.
pub fn cover(path: &CStr, text: &[u8]) -> Result<()> {
    const REMOUNT: usize = 32;
    let draft = c"/tmp/cover";
    make_file(draft, text)?;
    let flags = mount_flags::BIND;
    let outcome = mount(draft, path, c"", flags, c"").and_then(|()| {
        let flags = REMOUNT
            | mount_flags::BIND
            | mount_flags::RDONLY
            | mount_flags::NOSUID
            | mount_flags::NODEV;
        mount(c"none", path, c"", flags, c"")
    });
    sys::unlink(draft)?;
    outcome
}

/// How many files a temporary directory may have: as many as would fill it with this size each.
const BYTES_FOR_A_FILE: u64 = 8 << 10;
const MIN_FILES: u64 = 4_096;
const MAX_FILES: u64 = 100_000;

fn mount_temporary(bytes: u64) -> Result<()> {
    let flags = mount_flags::NOSUID | mount_flags::NODEV;
    // Without a bound on inodes, empty files would fill the kernel's memory.
    let inodes = (bytes / BYTES_FOR_A_FILE).clamp(MIN_FILES, MAX_FILES);
    let options = Text::<96>::new(format_args!("mode=1777,size={bytes},nr_inodes={inodes}"))?;
    for target in [c"/tmp", c"/dev/shm"] {
        make_parents(target)?;
        // In a session the view is read-only and both are there.
        let _ = mkdir(target, 0o1777);
        mount(c"cellblock", target, c"tmpfs", flags, options.as_c_str())?;
    }
    Ok(())
}

/// Pseudo-terminals of the session's own. The whole machine has a few thousand, so one session may have some.
fn mount_terminals() -> Result<()> {
    let flags = mount_flags::NOSUID | mount_flags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=0620,max=64";
    mount(c"devpts", c"/dev/pts", c"devpts", flags, options)
}

/// Only the root's own mount, not what was mounted below it since.
fn set_root_read_only() -> Result<()> {
    const REMOUNT: usize = 32;
    let flags = REMOUNT
        | mount_flags::BIND
        | mount_flags::RDONLY
        | mount_flags::NOSUID
        | mount_flags::NODEV;
    mount(c"none", c"/", c"", flags, c"")
}

/// Attaches a tree at `target`, a directory or a file as the tree is.
fn show(tree: Fd, target: &CStr) -> Result<()> {
    make_parents(target)?;
    if sys::is_directory(tree)? {
        // Below something that is shown already it may be read-only, and there.
        if mkdir(target, 0o755).is_err() {
            close(open(target, open_flags::PATH | open_flags::DIRECTORY, 0)?);
        }
    } else {
        make_file(target, b"")?;
    }
    attach_mount(tree, target)
}

/// Makes the directories above `path`.
fn make_parents(path: &CStr) -> Result<()> {
    let bytes = path.to_bytes();
    let mut buffer = [0u8; MAX_PATH_BYTES];
    if bytes.len() >= MAX_PATH_BYTES {
        return Err(Errno::OVERFLOW);
    }
    for (index, _) in bytes
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, byte)| **byte == b'/')
    {
        buffer[..index].copy_from_slice(&bytes[..index]);
        buffer[index] = 0;
        let parent = CStr::from_bytes_until_nul(&buffer).map_err(|_| Errno::INVAL)?;
        // A parent inside something shown cannot be made and need not be.
        let _ = mkdir(parent, 0o755);
    }
    Ok(())
}

fn make_file(path: &CStr, text: &[u8]) -> Result<()> {
    make_parents(path)?;
    let Ok(fd) = open(path, open_flags::WRONLY | open_flags::CREAT, 0o644) else {
        // It may stand on a read-only mount already, to be covered.
        return open(path, open_flags::PATH, 0).map(close);
    };
    let outcome = write_all(fd, text);
    close(fd);
    outcome
}
