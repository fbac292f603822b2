//! Files of the user's that are about to be changed: the host keeps a copy before the call goes on.
//!
//! A path lies in the caller's memory, where it can be changed meanwhile, so this stops nobody. It need not: who lies about what they
//! change only loses the copy of it.

use crate::message::{Message, from_init, to_init};
use crate::mounts::LONGEST_PATH;
use crate::notify::Question;
use crate::sys::{self, AT_FDCWD, Errno, Fd, Result, close, nr, open_at, open_flags};
use crate::text::Text;
use crate::waiting::Waiting;
use core::ffi::CStr;

/// What init needs for it.
pub struct Keeper {
    /// To the host, for this and nothing else.
    pub socket: Fd,
    /// Where the workspace is.
    pub home: Fd,
    /// `/proc`, in which everyone of the session is seen.
    pub proc_directory: Fd,
    /// Nobody changed what is older than this, in nanoseconds. The host says when that is.
    pub since: u64,
    /// The directory of the file that is being removed, and the call that does it.
    pub removing: (u64, Place),
    /// A directory in which everything may be removed, because the host has kept it all. Whoever removes a tree would else ask for each file.
    pub emptied: Option<Place>,
    /// The calls that wait for the host.
    pub waiting: Waiting,
}

/// A path below the workspace.
#[derive(Clone, Copy)]
pub struct Place {
    bytes: [u8; LONGEST_PATH],
    length: usize,
}

impl Place {
    /// The workspace itself.
    pub const TOP: Place = Place {
        bytes: [0; LONGEST_PATH],
        length: 0,
    };

    /// The directory that `path` is in.
    fn above(path: &[u8]) -> Place {
        let mut place = Place::TOP;
        place.length = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        place.bytes[..place.length].copy_from_slice(&path[..place.length]);
        place
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The file that a call is about.
struct Target {
    directory: Fd,
    /// Where the path begins in the caller's memory; 0 means the directory itself.
    path: u64,
    last_link: LastLink,
}

/// What becomes of a link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastLink {
    IsFollowed,
    IsMeant,
}

impl Keeper {
    /// Whether this call may change or remove what is in a file.
    pub fn is_about(number: usize) -> bool {
        crate::seccomp::CHANGES.contains(&number) || crate::seccomp::OPENS.contains(&number)
    }

    /// Tells the host what is about to be changed. False when there is nothing to keep.
    pub fn tell(&mut self, question: &Question) -> bool {
        // What is moved there was not kept with the rest.
        if matches!(question.number(), nr::RENAME | nr::RENAMEAT | nr::RENAMEAT2) {
            self.emptied = None;
        }
        let mut packet = [0; Message::SIZE + LONGEST_PATH];
        let (head, text) = packet.split_at_mut(Message::SIZE);
        let Ok(length) = self.path_of(question, text) else {
            return false;
        };
        if !self.waiting.has_room() {
            return false;
        }
        let removes = removes(question.number());
        if removes {
            let place = Place::above(&text[..length]);
            if self
                .emptied
                .is_some_and(|emptied| emptied.as_bytes() == place.as_bytes())
            {
                return false;
            }
            self.removing = (question.id(), place);
        }
        let message = Message {
            kind: from_init::CHANGING,
            a: question.id(),
            b: u64::from(removes),
            c: 0,
        };
        head.copy_from_slice(&message.to_bytes());
        let is_told = sys::send_now(self.socket, &packet[..Message::SIZE + length]).is_ok();
        if is_told {
            self.waiting
                .add(question.id(), sys::monotonic_milliseconds());
        }
        is_told
    }

    /// Hears what the host says, and lets those go on whom it has answered.
    pub fn hear(&mut self, mut let_go_on: impl FnMut(u64)) {
        let mut bytes = [0; Message::SIZE];
        let received = sys::receive(self.socket, &mut bytes).unwrap_or_default();
        let Ok((message, _)) = Message::from_bytes(&bytes[..received.bytes]) else {
            return self.end(let_go_on);
        };
        match message.kind {
            to_init::KEPT => {
                let (call, place) = self.removing;
                if message.b == 1 && message.a == call {
                    self.emptied = Some(place);
                }
                self.waiting.remove(message.a);
                let_go_on(message.a);
            }
            to_init::KEEP_OLDER => {
                self.since = message.a;
                self.emptied = None;
            }
            _ => {}
        }
    }

    /// The host has gone, or is done with the session: nobody is asked any more, and nobody waits.
    pub fn end(&mut self, let_go_on: impl FnMut(u64)) {
        self.since = 0;
        if self.socket >= 0 {
            close(self.socket);
            self.socket = -1;
        }
        self.waiting.release_all(let_go_on);
    }

    /// The path below the workspace of what a call is about. An error when that is nothing of the user's.
    fn path_of(&self, question: &Question, path: &mut [u8]) -> Result<usize> {
        if self.since == 0 || !self.is_of_this_session(question.asker())? {
            return Err(Errno::SRCH);
        }
        let file = self.open(question, Target::of(question))?;
        let outcome = self.look(file, path);
        close(file);
        outcome
    }

    fn look(&self, file: Fd, path: &mut [u8]) -> Result<usize> {
        let status = sys::status(file)?;
        if !(status.is_file() || status.is_link()) || status.modified > self.since {
            return Err(Errno::INVAL);
        }
        let link = Text::<32>::new(format_args!("self/fd/{file}"))?;
        let length = sys::read_link_at(self.proc_directory, link.as_c_str(), path)?;
        let mut home = [0; LONGEST_PATH];
        let link = Text::<32>::new(format_args!("self/fd/{}", self.home))?;
        let home_length = sys::read_link_at(self.proc_directory, link.as_c_str(), &mut home)?;
        let below = path[..length]
            .strip_prefix(&home[..home_length])
            .and_then(|rest| rest.strip_prefix(b"/"))
            .ok_or(Errno::INVAL)?
            .len();
        path.copy_within(length - below..length, 0);
        Ok(below)
    }

    /// The file itself, and only within one file system: one that does not answer must not stop us too.
    fn open(&self, question: &Question, target: Target) -> Result<Fd> {
        let of = |name: core::fmt::Arguments<'_>| {
            let path = Text::<64>::new(format_args!("{}/{name}", question.asker()))?;
            open_at(self.proc_directory, path.as_c_str(), open_flags::PATH, 0)
        };
        let directory = || match target.directory {
            AT_FDCWD => of(format_args!("cwd")),
            fd => of(format_args!("fd/{fd}")),
        };
        if target.path == 0 {
            return directory();
        }
        let mut buffer = [0; LONGEST_PATH];
        let path = sys::read_memory(question.asker(), target.path, &mut buffer)?;
        let path = CStr::from_bytes_until_nul(path).map_err(|_| Errno::INVAL)?;
        let flags = open_flags::PATH
            | match target.last_link {
                LastLink::IsFollowed => 0,
                LastLink::IsMeant => open_flags::NOFOLLOW,
            };
        if path.to_bytes().first() == Some(&b'/') {
            return sys::open_on_one_file_system(self.home, self.below_home(path)?, flags);
        }
        let directory = directory()?;
        let found = sys::open_on_one_file_system(directory, path, flags);
        close(directory);
        found
    }

    /// The rest of a path that begins with the workspace's own.
    fn below_home<'a>(&self, path: &'a CStr) -> Result<&'a CStr> {
        let mut home = [0; LONGEST_PATH];
        let link = Text::<32>::new(format_args!("self/fd/{}", self.home))?;
        let length = sys::read_link_at(self.proc_directory, link.as_c_str(), &mut home)?;
        let bytes = path.to_bytes_with_nul();
        let rest = bytes
            .strip_prefix(&home[..length])
            .and_then(|rest| rest.strip_prefix(b"/"))
            .ok_or(Errno::INVAL)?;
        CStr::from_bytes_with_nul(rest).map_err(|_| Errno::INVAL)
    }

    /// A fork of the session has a workspace of its own at the same path.
    fn is_of_this_session(&self, pid: sys::Pid) -> Result<bool> {
        let mut theirs = [0; 64];
        let mut ours = [0; 64];
        let link = Text::<64>::new(format_args!("{pid}/ns/mnt"))?;
        let length = sys::read_link_at(self.proc_directory, link.as_c_str(), &mut theirs)?;
        let own = sys::read_link_at(self.proc_directory, c"self/ns/mnt", &mut ours)?;
        Ok(theirs[..length] == ours[..own])
    }
}

/// Whether the contents are lost, but not written to.
fn removes(number: usize) -> bool {
    matches!(
        number,
        nr::UNLINK | nr::UNLINKAT | nr::RENAME | nr::RENAMEAT | nr::RENAMEAT2
    )
}

impl Target {
    fn of(question: &Question) -> Target {
        use LastLink::{IsFollowed, IsMeant};
        let [first, second, _, fourth, ..] = *question.arguments();
        let (directory, path, last_link) = match question.number() {
            nr::OPENAT | nr::UTIMENSAT | nr::FUTIMESAT => (first as Fd, second, IsFollowed),
            nr::UNLINKAT => (first as Fd, second, IsMeant),
            // What the new name stood for is lost; what moves is not.
            nr::RENAME => (AT_FDCWD, second, IsMeant),
            nr::RENAMEAT | nr::RENAMEAT2 => (question.arguments()[2] as Fd, fourth, IsMeant),
            nr::UNLINK => (AT_FDCWD, first, IsMeant),
            _ => (AT_FDCWD, first, IsFollowed),
        };
        Target {
            directory,
            path,
            last_link,
        }
    }
}
