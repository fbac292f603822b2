//! Which file a call may change when other sessions may have it too: only one that is this session's own.

use crate::files::change_handler::{Change, ChangeHandler, Sharing, change};
use crate::files::deferred_calls::Awaited;
use crate::files::file_argument::{FileArgument, Target};
use crate::files::own_directories::Purpose;
use crate::files::perform::{self, Done, Object};
use crate::files::waiting_calls::Unanswered;
use crate::init::notify::Notification;
use crate::sys::open_flags::{self, EXCL};
use crate::sys::{self, Errno, Fd, Pid, Result, Status, close};
use crate::walls::mounts::MAX_PATH_BYTES;
use crate::walls::privileges::without_capabilities;
use crate::wire::message::Message;
use core::ffi::CStr;

/// What became of a call that init does itself.
#[allow(clippy::large_enum_variant, reason = "there is no heap to put it on")]
pub enum Performed {
    /// It is done, or it failed.
    Done(Result<Done>),
    /// It will be done when the host has answered, or when the fork is made.
    Waits,
}

/// What came of trying to do what a call asks for.
#[allow(clippy::large_enum_variant, reason = "there is no heap to put it on")]
enum Attempt {
    Done(Done),
    /// The host must be asked first, about a path of this length.
    Ask(usize),
    /// The path was changed meanwhile.
    Again,
    /// It is a pipe, and no process reads from it yet.
    NobodyReads,
}

impl ChangeHandler {
    /// Does what a call asks for. `own` is the number of a file of which the host said that it is this session's own; `head` has the limits of
    /// the session.
    pub fn perform(
        &mut self,
        notification: &Notification,
        file_argument: FileArgument,
        own: Option<u64>,
        head: Option<Pid>,
    ) -> Performed {
        const ROUNDS: usize = 16;
        // It could be any file.
        if file_argument.is_unknown() {
            return Performed::Done(Err(Errno::IO));
        }
        let mut packet = [0; Message::SIZE + MAX_PATH_BYTES];
        let (_, path) = packet.split_at_mut(Message::SIZE);
        let attempt = without_capabilities(|| {
            for _ in 0..ROUNDS {
                match self.try_to_perform(notification, &file_argument, own, head, path)? {
                    Attempt::Again => {}
                    attempt => return Ok(attempt),
                }
            }
            Ok(Attempt::Again)
        });
        let length = match attempt {
            Ok(Attempt::Done(done)) => return Performed::Done(Ok(done)),
            Ok(Attempt::NobodyReads | Attempt::Again) => {
                return self.try_later(notification, file_argument);
            }
            Ok(Attempt::Ask(length)) => length,
            Err(errno) => return Performed::Done(Err(errno)),
        };
        if let Some(asked) = self.waiting.waits_again(notification) {
            if self.deferred.has(Awaited::Host(asked)) {
                let call = (*notification, file_argument);
                self.deferred.renew(Awaited::Host(asked), call);
                return Performed::Waits;
            }
            // The host was asked when the call was still to go on by itself. Now init does it, and needs another answer.
            self.waiting.remove(asked);
        }
        if !self.waiting.has_free_slot() {
            return self.try_later(notification, file_argument);
        }
        if !self.deferred.has_free_slot() {
            return Performed::Done(Err(Errno::AGAIN));
        }
        let awaited = match self.sharing {
            Sharing::Begins => Awaited::Fork,
            Sharing::None | Sharing::WithForks => {
                match self.ask_host(notification, &mut packet[..Message::SIZE + length]) {
                    Ok(()) => {}
                    // The host has not yet read what it was asked before.
                    Err(Errno::AGAIN) => return self.try_later(notification, file_argument),
                    Err(errno) => return Performed::Done(Err(errno)),
                }
                let now = sys::monotonic_milliseconds();
                self.waiting.add(notification, now, Unanswered::Fails);
                Awaited::Host(notification.id())
            }
        };
        match self.deferred.add(awaited, *notification, file_argument) {
            Ok(()) => Performed::Waits,
            Err(_) => Performed::Done(Err(Errno::AGAIN)),
        }
    }

    /// Has the call wait until init tries again. Linux has no error for this: where it must wait, it does.
    fn try_later(
        &mut self,
        notification: &Notification,
        file_argument: FileArgument,
    ) -> Performed {
        match self
            .deferred
            .add(Awaited::NextTry, *notification, file_argument)
        {
            Ok(()) => Performed::Waits,
            Err(errno) => Performed::Done(Err(errno)),
        }
    }

    fn try_to_perform(
        &self,
        notification: &Notification,
        file_argument: &FileArgument,
        own: Option<u64>,
        head: Option<Pid>,
        path: &mut [u8],
    ) -> Result<Attempt> {
        let mut home = [0; MAX_PATH_BYTES];
        let home = self.home_path(&mut home)?;
        let file = match file_argument.find(self.own_directories) {
            Ok(Target::There(file)) => file,
            Ok(Target::Missing(directory, name)) if notification.makes_a_file() => {
                return match perform::make(notification, directory, name) {
                    Err(Errno::EXIST) if notification.open_flags() & EXCL == 0 => {
                        Ok(Attempt::Again)
                    }
                    outcome => outcome.map(Attempt::Done),
                };
            }
            Ok(Target::Missing(directory, _)) => {
                close(directory);
                return Err(Errno::NOENT);
            }
            Err(errno) => return Err(errno),
        };
        let outcome = self.perform_on(file, home, notification, file_argument, own, head, path);
        close(file);
        outcome
    }

    /// Does to a file that was found what a call asks for, if it is one of the session's own.
    #[allow(clippy::too_many_arguments, reason = "a part of `try_to_perform`")]
    fn perform_on(
        &self,
        file: Fd,
        home: &[u8],
        notification: &Notification,
        file_argument: &FileArgument,
        own: Option<u64>,
        head: Option<Pid>,
        path: &mut [u8],
    ) -> Result<Attempt> {
        let purpose = match notification.opens() {
            true => Purpose::Opening,
            false => Purpose::Changing,
        };
        self.own_directories.check(file, purpose)?;
        let object = Object {
            file,
            proc_directory: self.proc_directory,
        };
        let largest = || sys::largest_file_of(head.ok_or(Errno::IO)?);
        let place = || file_argument.other_place(self.own_directories);
        if self.sharing == Sharing::None {
            // Only a copy is at stake, and only of what is in the workspace.
            if own.is_none()
                && self.since != 0
                && self.look(file, change(notification.number())).is_ok()
                && let Ok(length) = self.path_below(home, file, path)
            {
                return Ok(Attempt::Ask(length));
            }
            let done = object.change(notification, file_argument, largest, place);
            return done.map(Attempt::Done);
        }
        match self.must_be_told(file, home, file_argument, notification, own) {
            Err(errno) => Err(errno),
            Ok(true) => self
                .path_below(home, file, path)
                .map(Attempt::Ask)
                .map_err(|_| Errno::IO),
            Ok(false) if notification.opens() => self.open(object, notification, own),
            Ok(false) => object
                .change(notification, file_argument, largest, place)
                .map(Attempt::Done),
        }
    }

    fn open(
        &self,
        object: Object,
        notification: &Notification,
        own: Option<u64>,
    ) -> Result<Attempt> {
        let opened = match object.open(notification) {
            Err(Errno::NXIO) if notification.open_flags() & open_flags::NONBLOCK == 0 => {
                let is_pipe = sys::status(object.file)?.is_pipe();
                return is_pipe.then_some(Attempt::NobodyReads).ok_or(Errno::NXIO);
            }
            outcome => outcome?,
        };
        let outcome = sys::status(opened).and_then(|status| {
            // The host looks who has a file open after it has shared it. So from here on it sees that this one is.
            if status.names > 1 && self.is_here(&status) && own != Some(status.inode) {
                return Ok(Attempt::Again);
            }
            object.empty(opened, notification)?;
            Ok(Attempt::Done(Done::Opened(opened)))
        });
        if !matches!(outcome, Ok(Attempt::Done(_))) {
            close(opened);
        }
        outcome
    }

    /// Whether the host must be told of a change before it is made.
    fn must_be_told(
        &self,
        file: Fd,
        home: &[u8],
        file_argument: &FileArgument,
        notification: &Notification,
        own: Option<u64>,
    ) -> Result<bool> {
        let status = sys::status(file)?;
        let change = change(notification.number());
        if !self.is_here(&status) {
            return Ok(false);
        }
        if own == Some(status.inode) {
            return Ok(false);
        }
        if file_argument.is_open_already() {
            // What the host gave us is another file, and the descriptor leads to the one that is shared.
            if own.is_some() {
                return Err(Errno::IO);
            }
            // Its one name may be in another session.
            if status.names > 0 && !self.has_name_here(file, home, &status) {
                return Err(Errno::IO);
            }
        }
        let may_be_shared = status.names > 1 || change == Change::Names;
        let is_to_be_kept = change == Change::Writes && status.modified <= self.since;
        Ok(may_be_shared || is_to_be_kept && status.names > 0)
    }

    /// A file that the workspace and others may share.
    fn is_here(&self, status: &Status) -> bool {
        status.is_file()
            && sys::status(self.own_directories.workspace())
                .is_ok_and(|home| home.device == status.device)
    }

    fn has_name_here(&self, file: Fd, home: &[u8], status: &Status) -> bool {
        let mut path = [0; MAX_PATH_BYTES];
        let found = self.path_below(home, file, &mut path).and_then(|length| {
            path[length] = 0;
            let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::INVAL)?;
            let flags = open_flags::PATH | open_flags::NOFOLLOW;
            sys::open_on_one_file_system(self.own_directories.workspace(), path, flags)
        });
        found.is_ok_and(|found| {
            let is_same = sys::status(found).is_ok_and(|found| found.inode == status.inode);
            close(found);
            is_same
        })
    }
}
