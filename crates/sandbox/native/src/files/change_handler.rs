//! Files that are about to be changed: the host keeps a copy of what is the user's, and gives a file that other sessions have as
//! well an inode of its own.
//!
//! Without forks only a copy is at stake, so the call just waits and then goes on. The path lies in the caller's memory, where it can be
//! changed meanwhile: code that changes it only loses the copy. With forks, files of others are at stake; then calls do not go on,
//! and init does what they ask for (`files/own_file.rs`).

use crate::files::deferred_calls::DeferredCalls;
use crate::files::file_argument::FileArgument;
use crate::files::own_directories::OwnDirectories;
use crate::files::waiting_calls::{Unanswered, WaitingCalls};
use crate::init::notify::Notification;
use crate::sys::{self, Errno, Fd, Result, close, nr};
use crate::walls::mounts::MAX_PATH_BYTES;
use crate::walls::seccomp::{
    ATTRIBUTE_READS, CHANGES, METADATA_CHANGES, OPENS, is_unseen_by_landlock,
};
use crate::wire::message::{Message, from_init, to_init};

/// Handles system calls that change files: asks the host to keep a copy, or makes the change in the place of the caller.
pub struct ChangeHandler {
    /// To the host, for this and nothing else; -1 where it keeps nothing.
    pub socket: Fd,
    /// The session's own workspace and temporary directories.
    pub own_directories: &'static OwnDirectories,
    /// `/proc`, for our own descriptors.
    pub proc_directory: Fd,
    /// The host wants copies of files that were last written at this time or before, in nanoseconds. 0 for none.
    pub since: u64,
    /// Whether init changes metadata of files in the place of code, for Landlock does not keep it from those of the host.
    pub guards_metadata: bool,
    /// Whether a file with several names may be one that a fork has too.
    pub sharing: Sharing,
    /// The directory of the file that is being removed, and the call that does it.
    pub removing: (u64, WorkspacePath),
    /// A directory in which everything may be removed, because the host has kept it all. Without it, removing a tree would ask the host for each file.
    pub emptied: Option<WorkspacePath>,
    /// The calls that wait for the host.
    pub waiting: WaitingCalls,
    /// Those of them, and others, that init will do itself.
    pub deferred: DeferredCalls,
}

/// Whether files of the workspace may be the same as in other sessions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// There was no fork yet.
    None,
    /// A fork is being made: the host may be sharing a file this very moment.
    Begins,
    /// With a fork, or with the session that it was forked from.
    WithForks,
}

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// There is nothing to keep.
    Nothing,
    /// The call waits for the host.
    Waits,
}

/// What the host says.
pub enum HostMessage {
    /// About a call.
    Answer {
        /// The number under which the host was asked.
        asked: u64,
        /// The number that the call waits under now.
        current: u64,
        /// The file that is the session's own now, or why it must not be changed.
        outcome: Result<u64>,
    },
    /// Something else.
    Nothing,
    /// That it has gone.
    Gone,
}

/// A path below the workspace.
#[derive(Clone, Copy)]
pub struct WorkspacePath {
    bytes: [u8; MAX_PATH_BYTES],
    length: usize,
}

impl WorkspacePath {
    /// The workspace itself.
    pub const TOP: WorkspacePath = WorkspacePath {
        bytes: [0; MAX_PATH_BYTES],
        length: 0,
    };

    /// The directory that `path` is in.
    fn parent_of(path: &[u8]) -> WorkspacePath {
        let mut place = WorkspacePath::TOP;
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
pub(crate) enum Change {
    Writes = 0,
    Removes = 1,
    Metadata = 2,
    /// Gives it one more name: from then on the names do not tell any more whether a fork has it too.
    Names = 3,
}

impl ChangeHandler {
    /// Whether this call may change or remove a file.
    pub fn is_about(number: usize) -> bool {
        [CHANGES, OPENS, METADATA_CHANGES, ATTRIBUTE_READS]
            .iter()
            .any(|numbers| numbers.contains(&number))
    }

    /// Whether there is anything to ask about.
    pub fn has_work(&self) -> bool {
        self.since != 0 || self.sharing != Sharing::None || self.guards_metadata
    }

    /// Whether init does what this call asks for, instead of letting it go on.
    pub fn performs(&self, number: usize) -> bool {
        let is_guarded = self.guards_metadata && is_unseen_by_landlock(number);
        is_guarded || self.sharing != Sharing::None && change(number) != Change::Removes
    }

    /// Tells the host what is about to be changed.
    pub fn query_host(
        &mut self,
        notification: &Notification,
        file_argument: &FileArgument,
    ) -> Query {
        // What is moved there was not kept with the rest.
        if matches!(
            notification.number(),
            nr::RENAME | nr::RENAMEAT | nr::RENAMEAT2
        ) {
            self.emptied = None;
        }
        let change = change(notification.number());
        if self.waiting.waits_again(notification).is_some() {
            return Query::Waits;
        }
        if file_argument.is_unknown() || !self.waiting.has_free_slot() {
            return Query::Nothing;
        }
        let mut packet = [0; Message::SIZE + MAX_PATH_BYTES];
        let (_, text) = packet.split_at_mut(Message::SIZE);
        let Ok(length) = self.look_up(file_argument, change, text) else {
            return Query::Nothing;
        };
        if change == Change::Removes {
            let place = WorkspacePath::parent_of(&text[..length]);
            if self
                .emptied
                .is_some_and(|emptied| emptied.as_bytes() == place.as_bytes())
            {
                return Query::Nothing;
            }
            self.removing = (notification.id(), place);
        }
        match self.ask_host(notification, &mut packet[..Message::SIZE + length]) {
            Ok(()) => {
                let now = sys::monotonic_milliseconds();
                self.waiting.add(notification, now, Unanswered::GoesOn);
                Query::Waits
            }
            Err(_) => Query::Nothing,
        }
    }

    pub(crate) fn ask_host(&self, notification: &Notification, packet: &mut [u8]) -> Result<()> {
        let message = Message {
            kind: from_init::CHANGING,
            a: notification.id(),
            b: change(notification.number()) as u64,
            c: 0,
        };
        packet[..Message::SIZE].copy_from_slice(&message.to_bytes());
        sys::send_now(self.socket, packet, &[])
    }

    /// Hears what the host says.
    pub fn receive_from_host(&mut self) -> HostMessage {
        let mut bytes = [0; Message::SIZE];
        let received = sys::receive(self.socket, &mut bytes).unwrap_or_default();
        let Ok((message, _)) = Message::from_bytes(&bytes[..received.bytes]) else {
            return HostMessage::Gone;
        };
        match message.kind {
            to_init::KEPT => {
                // Only a call that removes something has a place.
                let (call, place) = self.removing;
                if message.b == 1 && message.a == call {
                    self.emptied = Some(place);
                }
                let current = self.waiting.remove(message.a);
                let outcome = match message.c {
                    0 => Ok(message.b),
                    number => Err(Errno(number as i32)),
                };
                return HostMessage::Answer {
                    asked: message.a,
                    current: current.unwrap_or(message.a),
                    outcome,
                };
            }
            to_init::KEEP_OLDER => {
                self.since = message.a;
                self.emptied = None;
            }
            _ => {}
        }
        HostMessage::Nothing
    }

    /// The host has gone, or is done with the session: no call asks it any more, and none waits.
    pub fn end(&mut self, answer: impl FnMut(u64, Result<()>)) {
        self.since = 0;
        if self.socket >= 0 {
            close(self.socket);
            self.socket = -1;
        }
        self.waiting.release_all(answer);
    }

    /// The path below the workspace of what a call is about. An error when the host need not know of it.
    fn look_up(
        &self,
        file_argument: &FileArgument,
        change: Change,
        path: &mut [u8],
    ) -> Result<usize> {
        let mut home = [0; MAX_PATH_BYTES];
        let home = self.home_path(&mut home)?;
        let file = file_argument.open(self.own_directories)?;
        let outcome = self
            .look(file, change)
            .and_then(|()| self.path_below(home, file, path));
        close(file);
        outcome
    }

    pub(crate) fn look(&self, file: Fd, change: Change) -> Result<()> {
        let status = sys::status(file)?;
        let is_kept = status.is_file() || status.is_link();
        match change {
            Change::Writes | Change::Removes if is_kept && status.modified <= self.since => Ok(()),
            _ => Err(Errno::INVAL),
        }
    }

    pub(crate) fn path_below(&self, home: &[u8], file: Fd, path: &mut [u8]) -> Result<usize> {
        let length = self.own_directories.path_of(file, path)?;
        let below = path[..length]
            .strip_prefix(home)
            .and_then(|rest| rest.strip_prefix(b"/"))
            .ok_or(Errno::INVAL)?
            .len();
        path.copy_within(length - below..length, 0);
        Ok(below)
    }

    /// Where the workspace is now.
    pub(crate) fn home_path<'a>(&self, path: &'a mut [u8]) -> Result<&'a [u8]> {
        let length = self
            .own_directories
            .path_of(self.own_directories.workspace(), path)?;
        Ok(&path[..length])
    }
}

/// What a call does to a file.
pub(crate) fn change(number: usize) -> Change {
    match number {
        nr::UNLINK | nr::UNLINKAT | nr::RENAME | nr::RENAMEAT | nr::RENAMEAT2 => Change::Removes,
        nr::LINK | nr::LINKAT => Change::Names,
        number if METADATA_CHANGES.contains(&number) || ATTRIBUTE_READS.contains(&number) => {
            Change::Metadata
        }
        _ => Change::Writes,
    }
}
