//! The file that a call is about: named by who waits in the call, and looked up where the mounts are that the name is meant for.
//!
//! Only the first init of a family sees the processes of all its sessions, and only the init of a session has its mounts as its own.
//! So the one reads the name, and the other opens it.

use crate::lookup::{LastLink, Start, look_up};
use crate::mounts::LONGEST_PATH;
use crate::notify::{QUESTION_SIZE, Question};
use crate::sys::{
    self, AT_FDCWD, Errno, Fd, Received, Result, close, nr, open_at, open_flags,
    open_on_one_file_system,
};
use crate::text::Text;
use core::ffi::CStr;

/// A question about a file that one init passes on to another has at most this many bytes.
pub const LONGEST_PASSED: usize = QUESTION_SIZE + LONGEST_PATH;

/// The name of a file, as a call gives it.
pub struct Named {
    /// Where the path begins; -1 for the root.
    directory: Fd,
    /// A C string. An empty one stands for the directory itself, which may be a file.
    path: [u8; LONGEST_PATH],
    length: usize,
    last_link: LastLink,
}

impl Named {
    /// Reads what a call names; `processes` is a `/proc` that shows who asks.
    pub fn by(question: &Question, processes: Fd) -> Result<Named> {
        let (directory, address, last_link) = argument_of(question);
        let mut named = Named {
            directory: -1,
            path: [0; LONGEST_PATH],
            length: 1,
            last_link,
        };
        if address != 0 {
            let read = sys::read_memory(question.asker(), address, &mut named.path)?;
            let path = CStr::from_bytes_until_nul(read).map_err(|_| Errno::INVAL)?;
            named.length = path.count_bytes() + 1;
        }
        if named.path[0] != b'/' {
            let name = match directory {
                AT_FDCWD => Text::<64>::new(format_args!("{}/cwd", question.asker())),
                fd => Text::<64>::new(format_args!("{}/fd/{fd}", question.asker())),
            }?;
            named.directory = open_at(processes, name.as_c_str(), open_flags::PATH, 0)?;
        }
        Ok(named)
    }

    /// What a call names that nobody may look into.
    pub fn unknown() -> Named {
        Named {
            directory: -1,
            path: [0; LONGEST_PATH],
            length: 1,
            last_link: LastLink::IsFollowed,
        }
    }

    /// Whether it is such.
    pub fn is_unknown(&self) -> bool {
        self.directory < 0 && self.path[0] == 0
    }

    /// Passes the question on to another init.
    pub fn pass(&self, question: &Question, socket: Fd) -> Result<()> {
        let mut bytes = [0; LONGEST_PASSED];
        bytes[..QUESTION_SIZE].copy_from_slice(question.as_bytes());
        bytes[QUESTION_SIZE..][..self.length].copy_from_slice(&self.path[..self.length]);
        let directory = [self.directory];
        let along = if self.directory < 0 {
            &[]
        } else {
            &directory[..]
        };
        sys::send_now(socket, &bytes[..QUESTION_SIZE + self.length], along)
    }

    /// What another init passed on: these bytes.
    pub fn passed(bytes: &[u8], received: &Received) -> Option<(Question, Named)> {
        let (question, path) = bytes.split_at_checked(QUESTION_SIZE)?;
        let question = Question::from_bytes(question)?;
        let mut named = Named {
            directory: received.descriptors[..received.count]
                .first()
                .copied()
                .unwrap_or(-1),
            path: [0; LONGEST_PATH],
            length: path.len(),
            last_link: argument_of(&question).2,
        };
        named
            .path
            .get_mut(..path.len())
            .filter(|slot| !slot.is_empty())?
            .copy_from_slice(path);
        Some((question, named))
    }

    /// Whether the call has the file by a descriptor, and will not look for its name.
    pub fn is_open_already(&self) -> bool {
        self.path[0] == 0
    }

    /// Opens the file itself. `home` is the workspace, whose path is `home_path`.
    pub fn open(&self, home: Fd, home_path: &[u8]) -> Result<Fd> {
        let path = CStr::from_bytes_until_nul(&self.path).map_err(|_| Errno::INVAL)?;
        if self.is_open_already() {
            return sys::duplicate_above(self.directory, 0);
        }
        let flags = match self.last_link {
            LastLink::IsFollowed => open_flags::PATH,
            LastLink::IsMeant => open_flags::PATH | open_flags::NOFOLLOW,
        };
        let nearby = match below(home_path, path) {
            Some(rest) => open_on_one_file_system(home, rest, flags),
            None if self.directory < 0 => Err(Errno::XDEV),
            None => open_on_one_file_system(self.directory, path, flags),
        };
        match nearby {
            Err(Errno::XDEV) => {
                let start = Start {
                    directory: self.directory,
                    home,
                    home_path,
                };
                look_up(start, path.to_bytes(), self.last_link)
            }
            outcome => outcome,
        }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if self.directory >= 0 {
            close(self.directory);
        }
    }
}

/// The rest of a path that begins with that of the workspace.
fn below<'a>(home: &[u8], path: &'a CStr) -> Option<&'a CStr> {
    let rest = path.to_bytes_with_nul().strip_prefix(home)?;
    CStr::from_bytes_with_nul(rest.strip_prefix(b"/")?).ok()
}

/// The directory of a path, where the path begins in the caller's memory (0 for none), and what a link at its end means.
fn argument_of(question: &Question) -> (Fd, u64, LastLink) {
    use LastLink::{IsFollowed, IsMeant};
    const NOFOLLOW: u64 = 0x100;
    const FOLLOW: u64 = 0x400;
    let [first, second, third, fourth, fifth, _] = *question.arguments();
    let link = |is_followed: bool| if is_followed { IsFollowed } else { IsMeant };
    match question.number() {
        nr::OPENAT | nr::UTIMENSAT | nr::FUTIMESAT | nr::FCHMODAT => {
            (first as Fd, second, IsFollowed)
        }
        nr::FCHMODAT2 => (first as Fd, second, link(fourth & NOFOLLOW == 0)),
        nr::FCHOWNAT => (first as Fd, second, link(fifth & NOFOLLOW == 0)),
        nr::LINKAT => (first as Fd, second, link(fifth & FOLLOW != 0)),
        nr::UNLINKAT => (first as Fd, second, IsMeant),
        // What the new name stood for is lost; what moves is not.
        nr::RENAME => (AT_FDCWD, second, IsMeant),
        nr::RENAMEAT | nr::RENAMEAT2 => (third as Fd, fourth, IsMeant),
        nr::UNLINK | nr::LINK | nr::LCHOWN | nr::LSETXATTR | nr::LREMOVEXATTR => {
            (AT_FDCWD, first, IsMeant)
        }
        _ => (AT_FDCWD, first, IsFollowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_the_workspace_is_looked_up_from_there() {
        assert_eq!(below(b"/workspace", c"/workspace/a/b"), Some(c"a/b"));
        assert_eq!(below(b"/workspace", c"/workspaces/a"), None);
        assert_eq!(below(b"/workspace", c"/tmp/a"), None);
    }
}
