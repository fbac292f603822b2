//! What a fork still holds of its parent.
//!
//! The guest of the fork opens its files again and makes its sockets anew. It is Python in a process that runs code of the session, so code can
//! keep it from doing that. A file of the parent's that the fork keeps open would be written beyond the limits of both; a socket of the
//! parent's carries descriptors from one to the other. So init looks at the outcome before the fork is handed out: it stops every process
//! of the fork and looks at each open descriptor through `/proc`.
//!
//! This tells nothing of shared mappings of a file, and nothing of what the two did with each other before the check.

use crate::forks::fork::FIRST_INIT;
use crate::init::stopped::is_at_rest;
use crate::init::sweep::each_entry;
use crate::sys::text::{Text, leading_number};
use crate::sys::{
    self, Common, Errno, Fd, Location, Pid, Result, close, each_line_at, each_line_while_at,
    have_in_common, kill, location, network_namespace_of, open_at, open_flags, read_stat, signals,
    status,
};

/// For how many milliseconds init waits until all processes have stopped. It answers no process of the fork meanwhile, and one that waits for
/// an answer does not stop: so this is short, and the host asks again.
const STOP_TIMEOUT_MS: u64 = 20;
/// The most mounts of a session that are told apart.
const MAX_MOUNTS: usize = 1024;
/// The most sockets that all processes of a new fork may have open.
const MAX_SOCKETS: usize = 8192;
/// Unix sockets in the network namespace of a fork before any process of it ran: those between the inits.
const MAX_OWN_SOCKETS: usize = 16;

/// What was found in a new fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Nothing of the parent's.
    Clean,
    /// Not all processes could be stopped now.
    NotNow,
    /// Something of the parent's, or something that could not be looked at.
    Held {
        /// What it is.
        what: Held,
        /// The number of the descriptor; 0 if it has none.
        descriptor: Fd,
    },
}

/// What a fork must not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Held {
    /// A file or a directory that lies on none of the fork's own mounts.
    File = 1,
    /// A socket of another network namespace.
    Socket = 2,
    /// A socket in which descriptors wait to be received.
    Descriptors = 3,
    /// A socket of the fork's that a process beside the fork has open.
    SocketOutside = 4,
    /// The working directory, the root directory or the program of a process.
    Directory = 5,
    /// Something that init could not look at.
    Unknown = 6,
}

/// What init knows of a fork from before its head came.
#[derive(Clone, Copy)]
pub struct Expected {
    /// A socket of init's in the fork's own network namespace; `None` where the fork shares that of its parent.
    own_socket: Option<Fd>,
    /// The inodes of unix sockets that belong to no process of the fork.
    outside: [u64; MAX_OWN_SOCKETS],
}

impl Expected {
    /// Notes what is there before any process of the fork runs. `own_socket` was made in the fork's network namespace.
    pub fn of(proc_directory: Fd, own_socket: Option<Fd>) -> Result<Expected> {
        let mut expected = Expected {
            own_socket,
            outside: [u64::MAX; MAX_OWN_SOCKETS],
        };
        if own_socket.is_some() {
            let (mut count, mut fits) = (0, true);
            each_unix_socket(proc_directory, |inode| {
                match expected.outside.get_mut(count) {
                    Some(slot) => *slot = inode,
                    None => fits = false,
                }
                count += 1;
            })?;
            if !fits {
                return Err(Errno::OVERFLOW);
            }
        }
        Ok(expected)
    }

    /// Stops all processes of the fork, looks at what they hold, and lets them go on. `channel` is the inode of the head's socket to the host.
    pub fn check(&self, proc_directory: Fd, channel: u64) -> Finding {
        let _ = kill(-1, signals::STOP);
        let finding = if wait_until_all_rest(proc_directory) {
            self.look(proc_directory, channel)
        } else {
            Finding::NotNow
        };
        let _ = kill(-1, signals::CONT);
        finding
    }

    fn look(&self, processes: Fd, channel: u64) -> Finding {
        let Ok(mut look) = Look::new(self, processes, channel) else {
            return found(Held::Unknown, 0);
        };
        each_process(processes, |pid| {
            if look.finding == Finding::Clean {
                look.process(pid);
            }
        });
        if look.finding == Finding::Clean && self.own_socket.is_some() {
            look.sockets_outside();
        }
        match look.finding {
            // A process that was let go on by another meanwhile may have opened something.
            Finding::Clean if !all_rest(processes) => Finding::NotNow,
            finding => finding,
        }
    }
}

fn found(what: Held, descriptor: Fd) -> Finding {
    Finding::Held { what, descriptor }
}

/// One look at all processes, which are stopped.
struct Look<'a> {
    expected: &'a Expected,
    processes: Fd,
    channel: u64,
    mounts: [u64; MAX_MOUNTS],
    mount_count: usize,
    /// The number of the fork's own network namespace.
    namespace: Option<u64>,
    sockets: [u64; MAX_SOCKETS],
    socket_count: usize,
    finding: Finding,
}

impl<'a> Look<'a> {
    fn new(expected: &'a Expected, processes: Fd, channel: u64) -> Result<Look<'a>> {
        let mut look = Look {
            expected,
            processes,
            channel,
            mounts: [0; MAX_MOUNTS],
            mount_count: 0,
            namespace: expected.own_socket.map(network_namespace_of).transpose()?,
            sockets: [0; MAX_SOCKETS],
            socket_count: 0,
            finding: Finding::Clean,
        };
        // A file on a mount beyond these counts as the parent's.
        each_line_at(processes, c"1/mountinfo", |line| {
            if let (Some(number), Some(slot)) =
                (leading_number(line), look.mounts.get_mut(look.mount_count))
            {
                *slot = number;
                look.mount_count += 1;
            }
        })?;
        look.mounts[..look.mount_count].sort_unstable();
        Ok(look)
    }

    fn process(&mut self, pid: Pid) {
        if let Err(finding) = self.look_at_process(pid) {
            self.finding = finding;
        }
    }

    fn look_at_process(&mut self, pid: Pid) -> core::result::Result<(), Finding> {
        let unknown = |_| found(Held::Unknown, 0);
        let threads = open_in(self.processes, format_args!("{pid}/task")).map_err(unknown)?;
        let mut outcome = Ok(());
        each_entry(threads, |thread| {
            if outcome.is_ok() && !has_ended(threads, thread) {
                outcome = self.look_at_thread(threads, pid, thread);
            }
        });
        close(threads);
        outcome
    }

    /// Threads may have tables of descriptors and working directories of their own.
    fn look_at_thread(
        &mut self,
        threads: Fd,
        pid: Pid,
        thread: Pid,
    ) -> core::result::Result<(), Finding> {
        let is_first = thread == pid;
        if is_first || !have_in_common(pid, thread, Common::Directories) {
            for name in ["cwd", "root", "exe"] {
                let path = Text::<32>::new(format_args!("{thread}/{name}"));
                let file = path.and_then(|path| open_at(threads, path.as_c_str(), PATH, 0));
                let is_allowed = file.is_ok_and(|file| {
                    let is_allowed = self.is_file_allowed(file).unwrap_or(false)
                        || name == "exe" && self.is_own_program(file);
                    close(file);
                    is_allowed
                });
                if !is_allowed {
                    return Err(found(Held::Directory, 0));
                }
            }
        }
        if is_first || !have_in_common(pid, thread, Common::Descriptors) {
            return self.look_at_descriptors(threads, thread);
        }
        Ok(())
    }

    /// Whether a file is the program that init itself is a copy of.
    fn is_own_program(&self, file: Fd) -> bool {
        let Ok(own) = open_at(self.processes, c"1/exe", PATH, 0) else {
            return false;
        };
        let place = |fd| status(fd).map(|status| (status.device, status.inode));
        let is_same = place(own).is_ok_and(|own| Ok(own) == place(file));
        close(own);
        is_same
    }

    fn look_at_descriptors(
        &mut self,
        threads: Fd,
        thread: Pid,
    ) -> core::result::Result<(), Finding> {
        let unknown = |_| found(Held::Unknown, 0);
        let descriptors = open_in(threads, format_args!("{thread}/fd")).map_err(unknown)?;
        let mut outcome = Ok(());
        each_entry(descriptors, |number| {
            if outcome.is_ok() {
                outcome = match self.held_through(threads, descriptors, thread, number) {
                    Ok(None) => Ok(()),
                    Ok(Some(what)) => Err(found(what, number)),
                    Err(_) => Err(found(Held::Unknown, number)),
                };
            }
        });
        close(descriptors);
        outcome
    }

    /// What a descriptor leads to, if the fork must not have that.
    fn held_through(
        &mut self,
        threads: Fd,
        descriptors: Fd,
        thread: Pid,
        number: Fd,
    ) -> Result<Option<Held>> {
        let path = Text::<16>::new(format_args!("{number}"))?;
        let file = open_at(descriptors, path.as_c_str(), PATH, 0)?;
        let looked = self.is_file_allowed(file).and_then(|is_allowed| {
            let is_socket = location(file)?.is_socket();
            Ok((is_allowed, is_socket, status(file)?.inode))
        });
        close(file);
        match looked? {
            (true, _, _) => Ok(None),
            (false, false, _) => Ok(Some(Held::File)),
            (false, true, inode) if inode == self.channel => Ok(None),
            (false, true, inode) => self.held_through_socket(threads, thread, number, inode),
        }
    }

    fn held_through_socket(
        &mut self,
        threads: Fd,
        thread: Pid,
        number: Fd,
        inode: u64,
    ) -> Result<Option<Held>> {
        if let Some(own) = self.namespace {
            let socket = sys::descriptor_of(thread, number)?;
            let namespace = network_namespace_of(socket);
            close(socket);
            // What only stands for the path of a socket is none itself, and is an error here.
            if namespace? != own {
                return Ok(Some(Held::Socket));
            }
            *self
                .sockets
                .get_mut(self.socket_count)
                .ok_or(Errno::OVERFLOW)? = inode;
            self.socket_count += 1;
        }
        let path = Text::<48>::new(format_args!("{thread}/fdinfo/{number}"))?;
        let mut waiting = 0;
        each_line_at(threads, path.as_c_str(), |line| {
            if let Some(count) = line.strip_prefix(b"scm_fds:") {
                waiting = leading_number(count.trim_ascii_start()).unwrap_or(1);
            }
        })?;
        Ok((waiting > 0).then_some(Held::Descriptors))
    }

    /// Whether the fork may have this open: it lies on a mount of its own or on one that cannot be written to, or it stores nothing.
    fn is_file_allowed(&self, file: Fd) -> Result<bool> {
        let place: Location = location(file)?;
        if place.character_device().is_some()
            || self.mounts[..self.mount_count]
                .binary_search(&place.mount)
                .is_ok()
        {
            return Ok(true);
        }
        if place.is_socket() {
            return Ok(false);
        }
        let system = sys::file_system(file)?;
        Ok(system.is_read_only || STORES_NOTHING.contains(&system.kind))
    }

    /// Every unix socket of the fork's network namespace must be open in the fork. One that is not was given away, is the other end of
    /// a connection to a process outside, or waits in another socket.
    fn sockets_outside(&mut self) {
        self.sockets[..self.socket_count].sort_unstable();
        let (sockets, outside) = (&self.sockets[..self.socket_count], &self.expected.outside);
        let mut is_any = false;
        let listed = each_unix_socket(self.processes, |inode| {
            is_any |= sockets.binary_search(&inode).is_err() && !outside.contains(&inode);
        });
        if is_any || listed.is_err() {
            self.finding = found(Held::SocketOutside, 0);
        }
    }
}

const PATH: usize = open_flags::PATH;

/// File systems of the kernel's that hold no data of a session: pipes without a name, anonymous inodes, `/proc`, namespaces, processes.
const STORES_NOTHING: [u64; 5] = [
    sys::PIPE_FILE_SYSTEM,
    0x0904_1934,
    0x9FA0,
    0x6E73_6673,
    0x5049_4446,
];

fn open_in(directory: Fd, path: core::fmt::Arguments<'_>) -> Result<Fd> {
    let path = Text::<32>::new(path)?;
    open_at(directory, path.as_c_str(), open_flags::DIRECTORY, 0)
}

fn has_ended(threads: Fd, thread: Pid) -> bool {
    let mut buffer = [0; sys::STAT_BYTES];
    match read_stat(threads, thread, &mut buffer) {
        Ok(stat) => matches!(stat.state(), b'Z' | b'X'),
        Err(error) => error == Errno::NOENT || error == Errno::SRCH,
    }
}

fn each_process(processes: Fd, mut visit: impl FnMut(Pid)) {
    each_entry(processes, |pid| {
        if pid != FIRST_INIT {
            visit(pid);
        }
    });
}

fn all_rest(processes: Fd) -> bool {
    let mut all = true;
    each_process(processes, |pid| {
        all &= is_at_rest(processes, pid);
    });
    all
}

fn wait_until_all_rest(processes: Fd) -> bool {
    let start = sys::monotonic_milliseconds();
    while !all_rest(processes) {
        if sys::monotonic_milliseconds() - start > STOP_TIMEOUT_MS {
            return false;
        }
        sys::wait_for_child(50);
    }
    true
}

/// Calls `visit` with the inode of every unix socket of init's network namespace; 0 for one that no process has open yet.
fn each_unix_socket(processes: Fd, mut visit: impl FnMut(u64)) -> Result<()> {
    let mut is_title = true;
    each_line_while_at(processes, c"self/net/unix", |line| {
        if !core::mem::take(&mut is_title) {
            visit(inode_in(line).unwrap_or(0));
        }
        true
    })
}

/// `ffff8881: 00000002 00000000 00010000 0001 01 24567 /path`
fn inode_in(line: &[u8]) -> Option<u64> {
    const INODE: usize = 6;
    let mut words = line
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    leading_number(words.nth(INODE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inode_of_a_unix_socket_is_read() {
        let line = b"ffff8881042c4400: 00000002 00000000 00010000 0001 01 24567 /run/a b";
        assert_eq!(inode_in(line), Some(24_567));
        let waiting = b"ffff8881042c4400: 00000002 00000000 00000000 0001 02     0";
        assert_eq!(inode_in(waiting), Some(0));
        assert_eq!(inode_in(b"Num RefCount"), None);
    }
}
