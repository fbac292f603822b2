//! The file that a call is about: its arguments are read from the memory of the calling process, and the path is looked up in the mounts of its session.
//!
//! Only the first init of a family sees the processes of all its sessions, and only the init of a session has its mounts as its own.
//! So the one reads the name, and the other opens it.

use crate::files::lookup::LastLink;
use crate::files::own_directories::{OwnDirectories, Purpose};
use crate::init::notify::{NOTIFICATION_BYTES, Notification};
use crate::sys::text::{Text, leading_number};
use crate::sys::{
    self, AT_EMPTY_PATH, AT_FDCWD, Errno, Fd, Pid, Received, Result, close, nr, open_at, open_flags,
};
use crate::walls::mounts::MAX_PATH_BYTES;
use core::ffi::CStr;

/// What a call has in memory beside its first path: another one, or the name of an attribute and what it shall be.
const MAX_OTHER_BYTES: usize = 256 + MAX_PATH_BYTES;
const HEAD: usize = 4;
/// The most bytes of a notification about a file, when an init passes it on to another init.
pub const MAX_PASSED_BYTES: usize = NOTIFICATION_BYTES + HEAD + MAX_PATH_BYTES + MAX_OTHER_BYTES;

/// The name of a file, as a call gives it.
pub struct FileArgument {
    /// Where the path begins; -1 for the root.
    directory: Fd,
    /// A C string. An empty one stands for the directory itself, which may be a file.
    path: [u8; MAX_PATH_BYTES],
    length: usize,
    last_link: LastLink,
    /// Where another path begins.
    other_directory: Fd,
    other: [u8; MAX_OTHER_BYTES],
    other_length: usize,
    /// The memory of the caller, if the call returns something there; else -1.
    memory: Fd,
}

/// What a call is about.
#[allow(clippy::large_enum_variant, reason = "there is no heap to put it on")]
pub enum Target {
    /// This, as a descriptor that only stands for it.
    There(Fd),
    /// Nothing has this name in this directory.
    Missing(Fd, Name),
}

/// The last part of a path.
pub struct Name {
    bytes: [u8; 256],
}

impl Name {
    fn new(bytes: &[u8]) -> Result<Name> {
        let mut name = Name { bytes: [0; 256] };
        match bytes {
            b"" | b"." | b".." => return Err(Errno::ISDIR),
            bytes => name.bytes[..255]
                .get_mut(..bytes.len())
                .ok_or(Errno::NAME_TOO_LONG)?
                .copy_from_slice(bytes),
        }
        Ok(name)
    }

    /// As the kernel wants it.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

impl FileArgument {
    /// Reads what a call names; `processes` is a `/proc` that shows the caller.
    pub fn by(notification: &Notification, processes: Fd) -> Result<FileArgument> {
        let (directory, address, last_link) = argument_of(notification);
        let mut file_argument = FileArgument {
            last_link,
            ..FileArgument::unknown()
        };
        if address != 0 {
            file_argument.length =
                read_text(notification.caller(), address, &mut file_argument.path)? + 1;
            if file_argument.length == 1 && !allows_empty_path(notification) {
                return Err(Errno::NOENT);
            }
        } else if !takes_descriptor(notification.number()) {
            return Err(Errno::FAULT);
        }
        if file_argument.path[0] != b'/' {
            file_argument.directory = directory_of(notification.caller(), directory, processes)?;
        }
        Ok(file_argument)
    }

    /// Reads the rest of what init must know to act in the place of the caller.
    pub fn read_on(&mut self, notification: &mut Notification, processes: Fd) -> Result<()> {
        let caller = notification.caller();
        if self.last_link == LastLink::IsFollowed
            && let Some(number) = descriptor_meant(&self.path[..self.length - 1])
        {
            self.directory = directory_of(caller, number, processes)?;
            (self.path, self.length) = ([0; MAX_PATH_BYTES], 1);
        }
        let [_, second, third, fourth, ..] = *notification.arguments();
        match notification.number() {
            nr::LINK => self.read_other_path(caller, AT_FDCWD, second, processes)?,
            nr::LINKAT => self.read_other_path(caller, third as Fd, fourth, processes)?,
            nr::SETXATTR | nr::LSETXATTR | nr::FSETXATTR => {
                let length = read_text(caller, second, &mut self.other)? + 1;
                let buffer = self.other[length..].get_mut(..fourth as usize);
                let value = buffer.ok_or(Errno::TOO_BIG)?;
                read_whole(caller, third, value)?;
                self.other_length = length + fourth as usize;
            }
            nr::REMOVEXATTR | nr::LREMOVEXATTR | nr::FREMOVEXATTR => {
                self.other_length = read_text(caller, second, &mut self.other)? + 1;
            }
            nr::GETXATTR | nr::LGETXATTR | nr::FGETXATTR => {
                self.other_length = read_text(caller, second, &mut self.other)? + 1;
                self.memory = memory_of(caller, processes)?;
            }
            nr::LISTXATTR | nr::LLISTXATTR | nr::FLISTXATTR => {
                self.memory = memory_of(caller, processes)?;
            }
            nr::UTIME => self.read_times(caller, second, 16)?,
            nr::UTIMES => self.read_times(caller, second, 32)?,
            nr::UTIMENSAT | nr::FUTIMESAT => self.read_times(caller, third, 32)?,
            _ => {}
        }
        if notification.makes_a_file() {
            notification.apply_mask(mask_of(caller, processes)?);
        }
        Ok(())
    }

    fn read_other_path(
        &mut self,
        caller: Pid,
        directory: Fd,
        address: u64,
        processes: Fd,
    ) -> Result<()> {
        self.other_length = read_text(caller, address, &mut self.other[..MAX_PATH_BYTES])? + 1;
        if self.other[0] != b'/' {
            self.other_directory = directory_of(caller, directory, processes)?;
        }
        Ok(())
    }

    fn read_times(&mut self, caller: Pid, address: u64, size: usize) -> Result<()> {
        if address == 0 {
            return Ok(());
        }
        read_whole(caller, address, &mut self.other[..size])?;
        self.other_length = size;
        Ok(())
    }

    /// The argument of a call whose memory cannot be read.
    pub fn unknown() -> FileArgument {
        FileArgument {
            directory: -1,
            path: [0; MAX_PATH_BYTES],
            length: 1,
            last_link: LastLink::IsFollowed,
            other_directory: -1,
            other: [0; MAX_OTHER_BYTES],
            other_length: 0,
            memory: -1,
        }
    }

    /// The argument of a call whose path begins at this directory.
    #[cfg(test)]
    pub(crate) fn beginning_at(directory: Fd) -> FileArgument {
        FileArgument {
            directory,
            ..FileArgument::unknown()
        }
    }

    /// Whether the memory of the call could not be read.
    pub fn is_unknown(&self) -> bool {
        self.directory < 0 && self.path[0] == 0
    }

    /// Passes the notification on to another init.
    pub fn pass(&self, notification: &Notification, socket: Fd) -> Result<()> {
        let mut bytes = [0; MAX_PASSED_BYTES];
        let (head, rest) = bytes.split_at_mut(NOTIFICATION_BYTES + HEAD);
        head[..NOTIFICATION_BYTES].copy_from_slice(notification.as_bytes());
        let [low, high] = (self.length as u16).to_le_bytes();
        let has = |fd: Fd| u8::from(fd >= 0);
        let described = [has(self.directory), has(self.other_directory), low, high];
        head[NOTIFICATION_BYTES..].copy_from_slice(&described);
        let (path, other) = rest.split_at_mut(self.length);
        path.copy_from_slice(&self.path[..self.length]);
        other[..self.other_length].copy_from_slice(&self.other[..self.other_length]);
        let both = [self.directory, self.other_directory];
        let along = match described {
            [1, 1, ..] => &both[..],
            [1, 0, ..] => &both[..1],
            [0, 1, ..] => &both[1..],
            _ => &[],
        };
        let length = NOTIFICATION_BYTES + HEAD + self.length + self.other_length;
        sys::send_now(socket, &bytes[..length], along)
    }

    /// What another init passed on: these bytes.
    pub fn passed(bytes: &[u8], received: &Received) -> Option<(Notification, FileArgument)> {
        let mut descriptors = received.descriptors[..received.count].iter().copied();
        let mut next = |has: u8| {
            let descriptor = if has == 1 { descriptors.next() } else { None };
            descriptor.unwrap_or(-1)
        };
        let (notification, rest) = bytes.split_at_checked(NOTIFICATION_BYTES)?;
        let notification = Notification::from_bytes(notification)?;
        let (head, rest) = rest.split_first_chunk::<HEAD>()?;
        let [has_directory, has_other, low, high] = *head;
        let mut file_argument = FileArgument {
            directory: next(has_directory),
            other_directory: next(has_other),
            last_link: argument_of(&notification).2,
            ..FileArgument::unknown()
        };
        let (path, other) = rest.split_at_checked(usize::from(u16::from_le_bytes([low, high])))?;
        file_argument.length = path.len();
        file_argument.other_length = other.len();
        let slot = file_argument.path.get_mut(..path.len());
        slot.filter(|slot| !slot.is_empty())?.copy_from_slice(path);
        file_argument
            .other
            .get_mut(..other.len())?
            .copy_from_slice(other);
        Some((notification, file_argument))
    }

    /// Whether the call has the file by a descriptor, and will not look for its name.
    pub fn is_open_already(&self) -> bool {
        self.path[0] == 0
    }

    /// The name and the value of an attribute.
    pub fn attribute(&self) -> Result<(&CStr, &[u8])> {
        let all = &self.other[..self.other_length];
        let name = CStr::from_bytes_until_nul(all).map_err(|_| Errno::INVAL)?;
        Ok((name, &all[name.count_bytes() + 1..]))
    }

    /// What else was read of memory.
    pub fn other(&self) -> &[u8] {
        &self.other[..self.other_length]
    }

    /// Writes to the memory of the caller.
    pub fn write_back(&self, address: u64, bytes: &[u8]) -> Result<()> {
        sys::write_at(self.memory, bytes, address)
    }

    /// Opens the file itself, as a descriptor that only stands for it. Whether it is one of the session's own is for the caller to check.
    pub fn open(&self, own_directories: &OwnDirectories) -> Result<Fd> {
        if self.is_open_already() {
            return sys::duplicate_above(self.directory, 0);
        }
        let path = CStr::from_bytes_until_nul(&self.path).map_err(|_| Errno::INVAL)?;
        own_directories.open(self.directory, path, self.last_link)
    }

    /// Opens the file itself, or finds the place where it would be if it is not there.
    pub fn find(&self, own_directories: &OwnDirectories) -> Result<Target> {
        match self.open(own_directories) {
            Err(Errno::NOENT) => self.find_place(own_directories),
            outcome => outcome.map(Target::There),
        }
    }

    /// A link at the end that leads to nothing stands for where it leads.
    fn find_place(&self, own_directories: &OwnDirectories) -> Result<Target> {
        const MAX_LINKS: usize = 8;
        let mut target = [0; MAX_PATH_BYTES];
        let (mut parent, mut name) = place(own_directories, self.directory, &self.path)?;
        for _ in 0..MAX_LINKS {
            let read = match self.last_link {
                LastLink::IsFollowed => sys::read_link_at(parent, name.as_c_str(), &mut target),
                LastLink::IsMeant => Err(Errno::INVAL),
            };
            let Ok(length) = read else {
                return Ok(Target::Missing(parent, name));
            };
            target[length] = 0;
            let next = place(own_directories, parent, &target);
            close(parent);
            (parent, name) = next?;
        }
        close(parent);
        Err(Errno::LOOP)
    }

    /// Where the other path leads: a directory of the session's own, and a name in it.
    pub fn other_place(&self, own_directories: &OwnDirectories) -> Result<(Fd, Name)> {
        place(own_directories, self.other_directory, &self.other)
    }
}

impl Drop for FileArgument {
    fn drop(&mut self) {
        for fd in [self.directory, self.other_directory, self.memory] {
            if fd >= 0 {
                close(fd);
            }
        }
    }
}

/// The directory that a path leads to without its last part, and that part. The directory is one of the session's own.
fn place(own_directories: &OwnDirectories, start: Fd, path: &[u8]) -> Result<(Fd, Name)> {
    let path = CStr::from_bytes_until_nul(path).map_err(|_| Errno::INVAL)?;
    let bytes = path.to_bytes();
    let cut = bytes.iter().rposition(|byte| *byte == b'/');
    let name = Name::new(&bytes[cut.map_or(0, |cut| cut + 1)..])?;
    let mut parent = [0; MAX_PATH_BYTES];
    match cut {
        None => parent[0] = b'.',
        Some(cut) => parent[..=cut].copy_from_slice(&bytes[..=cut]),
    }
    let parent = CStr::from_bytes_until_nul(&parent).map_err(|_| Errno::INVAL)?;
    let parent = own_directories.open(start, parent, LastLink::IsFollowed)?;
    match own_directories.check(parent, Purpose::Changing) {
        Ok(()) => Ok((parent, name)),
        Err(errno) => {
            close(parent);
            Err(errno)
        }
    }
}

/// Reads a C string of another process; its length without the zero byte.
fn read_text(caller: Pid, address: u64, text: &mut [u8]) -> Result<usize> {
    let read = sys::read_memory(caller, address, text)?;
    let text = CStr::from_bytes_until_nul(read).map_err(|_| Errno::INVAL)?;
    Ok(text.count_bytes())
}

fn read_whole(caller: Pid, address: u64, bytes: &mut [u8]) -> Result<()> {
    let length = bytes.len();
    if length > 0 && sys::read_memory(caller, address, bytes)?.len() < length {
        return Err(Errno::FAULT);
    }
    Ok(())
}

/// The memory of another process, to write to. The descriptor stands for this process also if its id is used again later.
fn memory_of(caller: Pid, processes: Fd) -> Result<Fd> {
    let name = Text::<32>::new(format_args!("{caller}/mem"))?;
    open_at(processes, name.as_c_str(), open_flags::RDWR, 0)
}

/// What a number of a descriptor stands for in another process.
fn directory_of(caller: Pid, directory: Fd, processes: Fd) -> Result<Fd> {
    let name = match directory {
        AT_FDCWD => Text::<64>::new(format_args!("{caller}/cwd")),
        fd => Text::<64>::new(format_args!("{caller}/fd/{fd}")),
    }?;
    open_at(processes, name.as_c_str(), open_flags::PATH, 0).map_err(|errno| match errno {
        Errno::NOENT => Errno::BAD_DESCRIPTOR,
        errno => errno,
    })
}

/// The descriptor that a path of this form stands for, in every process.
fn descriptor_meant(path: &[u8]) -> Option<Fd> {
    let number = match path {
        b"/dev/stdin" => return Some(0),
        b"/dev/stdout" => return Some(1),
        b"/dev/stderr" => return Some(2),
        path => [
            &b"/proc/self/fd/"[..],
            b"/proc/thread-self/fd/",
            b"/dev/fd/",
        ]
        .iter()
        .find_map(|before| path.strip_prefix(*before))?,
    };
    let is_number = number.iter().all(u8::is_ascii_digit);
    let number = leading_number(number).filter(|_| is_number)?;
    Fd::try_from(number).ok()
}

/// The permissions that files of a process do not get when it makes them.
fn mask_of(caller: Pid, processes: Fd) -> Result<u64> {
    let path = Text::<32>::new(format_args!("{caller}/status"))?;
    let mut mask = Err(Errno::IO);
    sys::each_line_at(processes, path.as_c_str(), |line| {
        if let Some(digits) = line.strip_prefix(b"Umask:\t") {
            mask = Ok(digits.iter().fold(0, |mask, digit| {
                mask << 3 | u64::from(digit.wrapping_sub(b'0') & 7)
            }));
        }
    })?;
    mask
}

/// The directory of a path, where the path begins in the caller's memory (0 for none), and what a link at its end means.
fn argument_of(notification: &Notification) -> (Fd, u64, LastLink) {
    use LastLink::{IsFollowed, IsMeant};
    const NOFOLLOW: u64 = 0x100;
    const FOLLOW: u64 = 0x400;
    let [first, second, third, fourth, fifth, _] = *notification.arguments();
    let link = |is_followed: bool| if is_followed { IsFollowed } else { IsMeant };
    match notification.number() {
        nr::OPENAT => (first as Fd, second, link(is_opened_through(third))),
        nr::OPEN => (AT_FDCWD, first, link(is_opened_through(second))),
        nr::FCHMOD
        | nr::FCHOWN
        | nr::FSETXATTR
        | nr::FREMOVEXATTR
        | nr::FGETXATTR
        | nr::FLISTXATTR => (first as Fd, 0, IsFollowed),
        nr::FUTIMESAT | nr::FCHMODAT => (first as Fd, second, IsFollowed),
        nr::UTIMENSAT => (first as Fd, second, link(fourth & NOFOLLOW == 0)),
        nr::FCHMODAT2 => (first as Fd, second, link(fourth & NOFOLLOW == 0)),
        nr::FCHOWNAT => (first as Fd, second, link(fifth & NOFOLLOW == 0)),
        nr::LINKAT => (first as Fd, second, link(fifth & FOLLOW != 0)),
        nr::UNLINKAT => (first as Fd, second, IsMeant),
        // What the new name stood for is lost; what moves is not.
        nr::RENAME => (AT_FDCWD, second, IsMeant),
        nr::RENAMEAT | nr::RENAMEAT2 => (third as Fd, fourth, IsMeant),
        nr::UNLINK
        | nr::LINK
        | nr::LCHOWN
        | nr::LSETXATTR
        | nr::LREMOVEXATTR
        | nr::LGETXATTR
        | nr::LLISTXATTR => (AT_FDCWD, first, IsMeant),
        _ => (AT_FDCWD, first, IsFollowed),
    }
}

/// Whether a call can be about a descriptor alone.
fn takes_descriptor(number: usize) -> bool {
    matches!(
        number,
        nr::FCHMOD
            | nr::FCHOWN
            | nr::FSETXATTR
            | nr::FREMOVEXATTR
            | nr::FGETXATTR
            | nr::FLISTXATTR
            | nr::UTIMENSAT
            | nr::FUTIMESAT
    )
}

/// Whether an empty path stands for the descriptor beside it.
fn allows_empty_path(notification: &Notification) -> bool {
    let [_, _, _, fourth, fifth, _] = *notification.arguments();
    let flags = match notification.number() {
        nr::UTIMENSAT | nr::FCHMODAT2 => fourth,
        nr::FCHOWNAT | nr::LINKAT => fifth,
        _ => 0,
    };
    flags & AT_EMPTY_PATH as u64 != 0
}

/// Whether a call that opens with these flags goes through a link at the end of its path.
fn is_opened_through(flags: u64) -> bool {
    use open_flags::{CREAT, EXCL, NOFOLLOW};
    let flags = flags as usize;
    flags & NOFOLLOW == 0 && flags & (CREAT | EXCL) != CREAT | EXCL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_stands_for_a_descriptor_is_known_by_its_form() {
        let meant = [
            "/proc/self/fd/12",
            "/dev/fd/0",
            "/dev/stdout",
            "/proc/self/fd/1/x",
            "/proc/self/fd/",
            "/proc/2/fd/1",
        ]
        .map(|path| descriptor_meant(path.as_bytes()));
        assert_eq!(meant, [Some(12), Some(0), Some(1), None, None, None]);
    }
}
