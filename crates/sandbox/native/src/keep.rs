//! Files that are about to be changed: the host keeps a copy of what is the user's, and gives a file that other sessions have as
//! well an inode of its own, before the call goes on.
//!
//! A path lies in the caller's memory, where it can be changed meanwhile, so this stops nobody. Who lies about what they change loses
//! the copy of it, or changes what a session of the same family reads.

use crate::message::{Message, from_init, to_init};
use crate::mounts::LONGEST_PATH;
use crate::named::Named;
use crate::notify::Question;
use crate::sys::{self, Errno, Fd, Result, close, nr};
use crate::text::Text;
use crate::waiting::{Unanswered, Waiting};

/// What init needs for it.
pub struct Keeper {
    /// To the host, for this and nothing else.
    pub socket: Fd,
    /// Where the workspace is.
    pub home: Fd,
    /// `/proc`, for our own descriptors.
    pub proc_directory: Fd,
    /// Nobody changed what is older than this, in nanoseconds. The host says when that is.
    pub since: u64,
    /// Whether a file with several names may be one that a fork has too.
    pub sharing: Sharing,
    /// The directory of the file that is being removed, and the call that does it.
    pub removing: (u64, Place),
    /// A directory in which everything may be removed, because the host has kept it all. Whoever removes a tree would else ask for each file.
    pub emptied: Option<Place>,
    /// The calls that wait for the host.
    pub waiting: Waiting,
}

/// Whether files of the workspace may be the same as in other sessions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// There was no fork yet.
    None,
    /// With a fork, or with whom it was forked from.
    WithForks,
}

/// What became of a question.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// There is nothing to keep.
    Nothing,
    /// The call waits for the host.
    Waits,
    /// The host cannot be told, and without it the call must not go on.
    Cannot,
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

/// What a call does to a file; the numbers are those of the message.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Change {
    Writes = 0,
    Removes = 1,
    Marks = 2,
    /// Gives it one more name: from then on they do not tell any more whether a fork has it too.
    Names = 3,
}

impl Keeper {
    /// Whether this call may change or remove a file.
    pub fn is_about(number: usize) -> bool {
        use crate::seccomp::{CHANGES, MARKS, OPENS};
        [CHANGES, OPENS, MARKS]
            .iter()
            .any(|numbers| numbers.contains(&number))
    }

    /// Whether there is anything to ask about.
    pub fn has_work(&self) -> bool {
        self.since != 0 || self.sharing == Sharing::WithForks
    }

    /// Tells the host what is about to be changed.
    pub fn tell(&mut self, question: &Question, named: &Named) -> Told {
        // What is moved there was not kept with the rest.
        if matches!(question.number(), nr::RENAME | nr::RENAMEAT | nr::RENAMEAT2) {
            self.emptied = None;
        }
        let change = change(question.number());
        // It could be any file, and one that others have too must not be changed.
        if named.is_unknown() {
            return match (change, self.sharing) {
                (Change::Removes, _) | (_, Sharing::None) => Told::Nothing,
                (_, Sharing::WithForks) => Told::Cannot,
            };
        }
        let mut packet = [0; Message::SIZE + LONGEST_PATH];
        let (head, text) = packet.split_at_mut(Message::SIZE);
        let Ok((length, unanswered)) = self.look_up(named, change, text) else {
            return Told::Nothing;
        };
        let cannot = match unanswered {
            Unanswered::GoesOn => Told::Nothing,
            Unanswered::Fails => Told::Cannot,
        };
        if !self.waiting.has_room() {
            return cannot;
        }
        if change == Change::Removes {
            let place = Place::above(&text[..length]);
            if self
                .emptied
                .is_some_and(|emptied| emptied.as_bytes() == place.as_bytes())
            {
                return Told::Nothing;
            }
            self.removing = (question.id(), place);
        }
        let message = Message {
            kind: from_init::CHANGING,
            a: question.id(),
            b: change as u64,
            c: 0,
        };
        head.copy_from_slice(&message.to_bytes());
        if sys::send_now(self.socket, &packet[..Message::SIZE + length], &[]).is_err() {
            return cannot;
        }
        let now = sys::monotonic_milliseconds();
        self.waiting.add(question.id(), now, unanswered);
        Told::Waits
    }

    /// Hears what the host says. `answer` is told of each call that it has answered: an error is the host's.
    pub fn hear(&mut self, mut answer: impl FnMut(u64, Result<()>)) {
        let mut bytes = [0; Message::SIZE];
        let received = sys::receive(self.socket, &mut bytes).unwrap_or_default();
        let Ok((message, _)) = Message::from_bytes(&bytes[..received.bytes]) else {
            return self.end(answer);
        };
        match message.kind {
            to_init::KEPT => {
                let (call, place) = self.removing;
                if message.b == 1 && message.a == call {
                    self.emptied = Some(place);
                }
                self.waiting.remove(message.a);
                let outcome = match message.c {
                    0 => Ok(()),
                    number => Err(Errno(number as i32)),
                };
                answer(message.a, outcome);
            }
            to_init::KEEP_OLDER => {
                self.since = message.a;
                self.emptied = None;
            }
            _ => {}
        }
    }

    /// The host has gone, or is done with the session: nobody is asked any more, and nobody waits.
    pub fn end(&mut self, answer: impl FnMut(u64, Result<()>)) {
        self.since = 0;
        if self.socket >= 0 {
            close(self.socket);
            self.socket = -1;
        }
        self.waiting.release_all(answer);
    }

    /// The path below the workspace of what a call is about, and what becomes of the call without an answer. An error when the host
    /// need not know of it.
    fn look_up(
        &self,
        named: &Named,
        change: Change,
        path: &mut [u8],
    ) -> Result<(usize, Unanswered)> {
        let mut home = [0; LONGEST_PATH];
        let home_length = self.path_of(self.home, &mut home)?;
        let home = &home[..home_length];
        let file = named.open(self.home, home)?;
        let outcome = self.look(file, named, change).and_then(|unanswered| {
            let length = self.path_of(file, path)?;
            let below = path[..length]
                .strip_prefix(home)
                .and_then(|rest| rest.strip_prefix(b"/"))
                .ok_or(Errno::INVAL)?
                .len();
            path.copy_within(length - below..length, 0);
            Ok((below, unanswered))
        });
        close(file);
        outcome
    }

    fn look(&self, file: Fd, named: &Named, change: Change) -> Result<Unanswered> {
        let status = sys::status(file)?;
        if !(status.is_file() || status.is_link()) {
            return Err(Errno::INVAL);
        }
        let is_shared = self.sharing == Sharing::WithForks
            && status.is_file()
            && (status.names > 1 || change == Change::Names)
            && !named.is_open_already();
        let is_older = status.modified <= self.since;
        match change {
            Change::Writes | Change::Marks | Change::Names if is_shared => Ok(Unanswered::Fails),
            Change::Writes | Change::Removes if is_older => Ok(Unanswered::GoesOn),
            _ => Err(Errno::INVAL),
        }
    }

    /// Where a file of ours is.
    fn path_of(&self, file: Fd, path: &mut [u8]) -> Result<usize> {
        let link = Text::<32>::new(format_args!("self/fd/{file}"))?;
        sys::read_link_at(self.proc_directory, link.as_c_str(), path)
    }
}

fn change(number: usize) -> Change {
    match number {
        nr::UNLINK | nr::UNLINKAT | nr::RENAME | nr::RENAMEAT | nr::RENAMEAT2 => Change::Removes,
        nr::LINK | nr::LINKAT => Change::Names,
        number if crate::seccomp::MARKS.contains(&number) => Change::Marks,
        _ => Change::Writes,
    }
}
