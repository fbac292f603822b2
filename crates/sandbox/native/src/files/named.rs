//! The file that a call is about: named by who waits in the call, and looked up where the mounts are that the name is meant for.
//!
//! Only the first init of a family sees the processes of all its sessions, and only the init of a session has its mounts as its own.
//! So the one reads the name, and the other opens it.

use crate::files::lookup::LastLink;
use crate::files::places::{Places, Purpose};
use crate::init::notify::{QUESTION_SIZE, Question};
use crate::sys::text::{Text, leading_number};
use crate::sys::{
    self, AT_EMPTY_PATH, AT_FDCWD, Errno, Fd, Pid, Received, Result, close, nr, open_at, open_flags,
};
use crate::walls::mounts::MAX_PATH_BYTES;
use core::ffi::CStr;

/// What a call has in memory beside its first path: another one, or the name of an attribute and what it shall be.
const MAX_OTHER_BYTES: usize = 256 + MAX_PATH_BYTES;
const HEAD: usize = 4;
/// A question about a file that one init passes on to another has at most this many bytes.
pub const MAX_PASSED_BYTES: usize = QUESTION_SIZE + HEAD + MAX_PATH_BYTES + MAX_OTHER_BYTES;

/// The name of a file, as a call gives it.
pub struct Named {
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
    /// The memory of whoever asked, where the call returns something there; else -1.
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

impl Named {
    /// Reads what a call names; `processes` is a `/proc` that shows who asks.
    pub fn by(question: &Question, processes: Fd) -> Result<Named> {
        let (directory, address, last_link) = argument_of(question);
        let mut named = Named {
            last_link,
            ..Named::unknown()
        };
        if address != 0 {
            named.length = read_text(question.asker(), address, &mut named.path)? + 1;
            if named.length == 1 && !allows_empty_path(question) {
                return Err(Errno::NOENT);
            }
        } else if !takes_descriptor(question.number()) {
            return Err(Errno::FAULT);
        }
        if named.path[0] != b'/' {
            named.directory = directory_of(question.asker(), directory, processes)?;
        }
        Ok(named)
    }

    /// Reads the rest of what init must know to act in the place of who asks.
    pub fn read_on(&mut self, question: &mut Question, processes: Fd) -> Result<()> {
        let asker = question.asker();
        if self.last_link == LastLink::IsFollowed
            && let Some(number) = descriptor_meant(&self.path[..self.length - 1])
        {
            self.directory = directory_of(asker, number, processes)?;
            (self.path, self.length) = ([0; MAX_PATH_BYTES], 1);
        }
        let [_, second, third, fourth, ..] = *question.arguments();
        match question.number() {
            nr::LINK => self.read_other_path(asker, AT_FDCWD, second, processes)?,
            nr::LINKAT => self.read_other_path(asker, third as Fd, fourth, processes)?,
            nr::SETXATTR | nr::LSETXATTR | nr::FSETXATTR => {
                let length = read_text(asker, second, &mut self.other)? + 1;
                let room = self.other[length..].get_mut(..fourth as usize);
                let value = room.ok_or(Errno::TOO_BIG)?;
                read_whole(asker, third, value)?;
                self.other_length = length + fourth as usize;
            }
            nr::REMOVEXATTR | nr::LREMOVEXATTR | nr::FREMOVEXATTR => {
                self.other_length = read_text(asker, second, &mut self.other)? + 1;
            }
            nr::GETXATTR | nr::LGETXATTR | nr::FGETXATTR => {
                self.other_length = read_text(asker, second, &mut self.other)? + 1;
                self.memory = memory_of(asker, processes)?;
            }
            nr::LISTXATTR | nr::LLISTXATTR | nr::FLISTXATTR => {
                self.memory = memory_of(asker, processes)?;
            }
            nr::UTIME => self.read_times(asker, second, 16)?,
            nr::UTIMES => self.read_times(asker, second, 32)?,
            nr::UTIMENSAT | nr::FUTIMESAT => self.read_times(asker, third, 32)?,
            _ => {}
        }
        if question.makes_a_file() {
            question.apply_mask(mask_of(asker, processes)?);
        }
        Ok(())
    }

    fn read_other_path(
        &mut self,
        asker: Pid,
        directory: Fd,
        address: u64,
        processes: Fd,
    ) -> Result<()> {
        self.other_length = read_text(asker, address, &mut self.other[..MAX_PATH_BYTES])? + 1;
        if self.other[0] != b'/' {
            self.other_directory = directory_of(asker, directory, processes)?;
        }
        Ok(())
    }

    fn read_times(&mut self, asker: Pid, address: u64, size: usize) -> Result<()> {
        if address == 0 {
            return Ok(());
        }
        read_whole(asker, address, &mut self.other[..size])?;
        self.other_length = size;
        Ok(())
    }

    /// What a call names that nobody may look into.
    pub fn unknown() -> Named {
        Named {
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

    /// Whether it is such.
    pub fn is_unknown(&self) -> bool {
        self.directory < 0 && self.path[0] == 0
    }

    /// Passes the question on to another init.
    pub fn pass(&self, question: &Question, socket: Fd) -> Result<()> {
        let mut bytes = [0; MAX_PASSED_BYTES];
        let (head, rest) = bytes.split_at_mut(QUESTION_SIZE + HEAD);
        head[..QUESTION_SIZE].copy_from_slice(question.as_bytes());
        let [low, high] = (self.length as u16).to_le_bytes();
        let has = |fd: Fd| u8::from(fd >= 0);
        let described = [has(self.directory), has(self.other_directory), low, high];
        head[QUESTION_SIZE..].copy_from_slice(&described);
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
        let length = QUESTION_SIZE + HEAD + self.length + self.other_length;
        sys::send_now(socket, &bytes[..length], along)
    }

    /// What another init passed on: these bytes.
    pub fn passed(bytes: &[u8], received: &Received) -> Option<(Question, Named)> {
        let mut descriptors = received.descriptors[..received.count].iter().copied();
        let mut next = |has: u8| {
            let descriptor = if has == 1 { descriptors.next() } else { None };
            descriptor.unwrap_or(-1)
        };
        let (question, rest) = bytes.split_at_checked(QUESTION_SIZE)?;
        let question = Question::from_bytes(question)?;
        let (head, rest) = rest.split_first_chunk::<HEAD>()?;
        let [has_directory, has_other, low, high] = *head;
        let mut named = Named {
            directory: next(has_directory),
            other_directory: next(has_other),
            last_link: argument_of(&question).2,
            ..Named::unknown()
        };
        let (path, other) = rest.split_at_checked(usize::from(u16::from_le_bytes([low, high])))?;
        named.length = path.len();
        named.other_length = other.len();
        let slot = named.path.get_mut(..path.len());
        slot.filter(|slot| !slot.is_empty())?.copy_from_slice(path);
        named.other.get_mut(..other.len())?.copy_from_slice(other);
        Some((question, named))
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

    /// Writes to the memory of whoever asked.
    pub fn write_back(&self, address: u64, bytes: &[u8]) -> Result<()> {
        sys::write_at(self.memory, bytes, address)
    }

    /// Opens the file itself, as a descriptor that only stands for it. Whether it is one of the session's own is for the caller to check.
    pub fn open(&self, places: &Places) -> Result<Fd> {
        if self.is_open_already() {
            return sys::duplicate_above(self.directory, 0);
        }
        let path = CStr::from_bytes_until_nul(&self.path).map_err(|_| Errno::INVAL)?;
        places.open(self.directory, path, self.last_link)
    }

    /// The same; or where it would be, if it is not there.
    pub fn find(&self, places: &Places) -> Result<Target> {
        match self.open(places) {
            Err(Errno::NOENT) => self.find_place(places),
            outcome => outcome.map(Target::There),
        }
    }

    /// A link at the end that leads to nothing stands for where it leads.
    fn find_place(&self, places: &Places) -> Result<Target> {
        const MAX_LINKS: usize = 8;
        let mut target = [0; MAX_PATH_BYTES];
        let (mut parent, mut name) = place(places, self.directory, &self.path)?;
        for _ in 0..MAX_LINKS {
            let read = match self.last_link {
                LastLink::IsFollowed => sys::read_link_at(parent, name.as_c_str(), &mut target),
                LastLink::IsMeant => Err(Errno::INVAL),
            };
            let Ok(length) = read else {
                return Ok(Target::Missing(parent, name));
            };
            target[length] = 0;
            let next = place(places, parent, &target);
            close(parent);
            (parent, name) = next?;
        }
        close(parent);
        Err(Errno::LOOP)
    }

    /// Where the other path leads: a directory of the session's own, and a name in it.
    pub fn other_place(&self, places: &Places) -> Result<(Fd, Name)> {
        place(places, self.other_directory, &self.other)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        for fd in [self.directory, self.other_directory, self.memory] {
            if fd >= 0 {
                close(fd);
            }
        }
    }
}

/// The directory that a path leads to without its last part, and that part. The directory is one of the session's own.
fn place(places: &Places, start: Fd, path: &[u8]) -> Result<(Fd, Name)> {
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
    let parent = places.open(start, parent, LastLink::IsFollowed)?;
    match places.check(parent, Purpose::Changing) {
        Ok(()) => Ok((parent, name)),
        Err(errno) => {
            close(parent);
            Err(errno)
        }
    }
}

/// Reads a C string of another process; its length without the zero byte.
fn read_text(asker: Pid, address: u64, text: &mut [u8]) -> Result<usize> {
    let read = sys::read_memory(asker, address, text)?;
    let text = CStr::from_bytes_until_nul(read).map_err(|_| Errno::INVAL)?;
    Ok(text.count_bytes())
}

fn read_whole(asker: Pid, address: u64, bytes: &mut [u8]) -> Result<()> {
    let length = bytes.len();
    if length > 0 && sys::read_memory(asker, address, bytes)?.len() < length {
        return Err(Errno::FAULT);
    }
    Ok(())
}

/// The memory of another process, to write to. It stays that one's, whoever has its number later.
fn memory_of(asker: Pid, processes: Fd) -> Result<Fd> {
    let name = Text::<32>::new(format_args!("{asker}/mem"))?;
    open_at(processes, name.as_c_str(), open_flags::RDWR, 0)
}

/// What a number of a descriptor stands for in another process.
fn directory_of(asker: Pid, directory: Fd, processes: Fd) -> Result<Fd> {
    let name = match directory {
        AT_FDCWD => Text::<64>::new(format_args!("{asker}/cwd")),
        fd => Text::<64>::new(format_args!("{asker}/fd/{fd}")),
    }?;
    open_at(processes, name.as_c_str(), open_flags::PATH, 0).map_err(|errno| match errno {
        Errno::NOENT => Errno::BAD_DESCRIPTOR,
        errno => errno,
    })
}

/// The descriptor that a path of this form stands for, whoever uses it.
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
fn mask_of(asker: Pid, processes: Fd) -> Result<u64> {
    let path = Text::<32>::new(format_args!("{asker}/status"))?;
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
fn argument_of(question: &Question) -> (Fd, u64, LastLink) {
    use LastLink::{IsFollowed, IsMeant};
    const NOFOLLOW: u64 = 0x100;
    const FOLLOW: u64 = 0x400;
    let [first, second, third, fourth, fifth, _] = *question.arguments();
    let link = |is_followed: bool| if is_followed { IsFollowed } else { IsMeant };
    match question.number() {
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
fn allows_empty_path(question: &Question) -> bool {
    let [_, _, _, fourth, fifth, _] = *question.arguments();
    let flags = match question.number() {
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
