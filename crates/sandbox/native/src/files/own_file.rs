//! Which file a call may change when other sessions may have it too: only one that is this session's own.

use crate::files::acting::{self, Done, Object};
use crate::files::keep::{Change, Keeper, Sharing, change};
use crate::files::named::{Named, Target};
use crate::files::pending::Awaited;
use crate::files::places::Purpose;
use crate::files::waiting::Unanswered;
use crate::init::notify::Question;
use crate::sys::open_flags::{self, EXCL};
use crate::sys::{self, Errno, Fd, Pid, Result, Status, close};
use crate::walls::mounts::MAX_PATH_BYTES;
use crate::walls::privileges::without_capabilities;
use crate::wire::message::Message;
use core::ffi::CStr;

/// What became of a call that init does itself.
#[allow(clippy::large_enum_variant, reason = "there is no heap to put it on")]
pub enum Acted {
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
    /// Someone changed the path meanwhile.
    Again,
    /// It is a pipe, and nobody reads from it yet.
    NobodyReads,
}

impl Keeper {
    /// Does what a call asks for. `own` is the number of a file of which the host said that it is this session's own; `head` has the limits of
    /// the session.
    pub fn act(
        &mut self,
        question: &Question,
        named: Named,
        own: Option<u64>,
        head: Option<Pid>,
    ) -> Acted {
        const ROUNDS: usize = 16;
        // It could be any file.
        if named.is_unknown() {
            return Acted::Done(Err(Errno::IO));
        }
        let mut packet = [0; Message::SIZE + MAX_PATH_BYTES];
        let (_, path) = packet.split_at_mut(Message::SIZE);
        let attempt = without_capabilities(|| {
            for _ in 0..ROUNDS {
                match self.try_to_act(question, &named, own, head, path)? {
                    Attempt::Again => {}
                    attempt => return Ok(attempt),
                }
            }
            Err(Errno::AGAIN)
        });
        let length = match attempt {
            Ok(Attempt::Done(done)) => return Acted::Done(Ok(done)),
            Ok(Attempt::NobodyReads) => {
                return match self.pending.add(Awaited::Reader, *question, named) {
                    Ok(()) => Acted::Waits,
                    Err(_) => Acted::Done(Err(Errno::NXIO)),
                };
            }
            Ok(Attempt::Ask(length)) => length,
            Ok(Attempt::Again) => return Acted::Done(Err(Errno::AGAIN)),
            Err(errno) => return Acted::Done(Err(errno)),
        };
        if !(self.pending.has_room() && self.waiting.has_room()) {
            return Acted::Done(Err(Errno::AGAIN));
        }
        let awaited = match self.sharing {
            Sharing::Begins => Awaited::Fork,
            Sharing::None | Sharing::WithForks => {
                if let Err(errno) = self.ask_host(question, &mut packet[..Message::SIZE + length]) {
                    return Acted::Done(Err(errno));
                }
                let now = sys::monotonic_milliseconds();
                self.waiting.add(question.id(), now, Unanswered::Fails);
                Awaited::Host(question.id())
            }
        };
        match self.pending.add(awaited, *question, named) {
            Ok(()) => Acted::Waits,
            Err(_) => Acted::Done(Err(Errno::AGAIN)),
        }
    }

    fn try_to_act(
        &self,
        question: &Question,
        named: &Named,
        own: Option<u64>,
        head: Option<Pid>,
        path: &mut [u8],
    ) -> Result<Attempt> {
        let mut home = [0; MAX_PATH_BYTES];
        let home = self.home_path(&mut home)?;
        let file = match named.find(self.places) {
            Ok(Target::There(file)) => file,
            Ok(Target::Missing(directory, name)) if question.makes_a_file() => {
                return match acting::make(question, directory, name) {
                    Err(Errno::EXIST) if question.open_flags() & EXCL == 0 => Ok(Attempt::Again),
                    outcome => outcome.map(Attempt::Done),
                };
            }
            Ok(Target::Missing(directory, _)) => {
                close(directory);
                return Err(Errno::NOENT);
            }
            Err(errno) => return Err(errno),
        };
        let outcome = self.act_on(file, home, question, named, own, head, path);
        close(file);
        outcome
    }

    /// Does to a file that was found what a call asks for, if it is one of the session's own.
    #[allow(clippy::too_many_arguments, reason = "a part of `try_to_act`")]
    fn act_on(
        &self,
        file: Fd,
        home: &[u8],
        question: &Question,
        named: &Named,
        own: Option<u64>,
        head: Option<Pid>,
        path: &mut [u8],
    ) -> Result<Attempt> {
        let purpose = match question.opens() {
            true => Purpose::Opening,
            false => Purpose::Changing,
        };
        self.places.check(file, purpose)?;
        let object = Object {
            file,
            proc_directory: self.proc_directory,
        };
        let largest = || sys::largest_file_of(head.ok_or(Errno::IO)?);
        let place = || named.other_place(self.places);
        if self.sharing == Sharing::None {
            // Only a copy is at stake, and only of what is in the workspace.
            if own.is_none()
                && self.since != 0
                && self.look(file, change(question.number())).is_ok()
                && let Ok(length) = self.path_below(home, file, path)
            {
                return Ok(Attempt::Ask(length));
            }
            let done = object.change(question, named, largest, place);
            return done.map(Attempt::Done);
        }
        match self.must_be_told(file, home, named, question, own) {
            Err(errno) => Err(errno),
            Ok(true) => self
                .path_below(home, file, path)
                .map(Attempt::Ask)
                .map_err(|_| Errno::IO),
            Ok(false) if question.opens() => self.open(object, question, own),
            Ok(false) => object
                .change(question, named, largest, place)
                .map(Attempt::Done),
        }
    }

    fn open(&self, object: Object, question: &Question, own: Option<u64>) -> Result<Attempt> {
        let opened = match object.open(question) {
            Err(Errno::NXIO) if question.open_flags() & open_flags::NONBLOCK == 0 => {
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
            object.empty(opened, question)?;
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
        named: &Named,
        question: &Question,
        own: Option<u64>,
    ) -> Result<bool> {
        let status = sys::status(file)?;
        let change = change(question.number());
        if !self.is_here(&status) {
            return Ok(false);
        }
        if own == Some(status.inode) {
            return Ok(false);
        }
        if named.is_open_already() {
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
            && sys::status(self.places.workspace()).is_ok_and(|home| home.device == status.device)
    }

    fn has_name_here(&self, file: Fd, home: &[u8], status: &Status) -> bool {
        let mut path = [0; MAX_PATH_BYTES];
        let found = self.path_below(home, file, &mut path).and_then(|length| {
            path[length] = 0;
            let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::INVAL)?;
            let flags = open_flags::PATH | open_flags::NOFOLLOW;
            sys::open_on_one_file_system(self.places.workspace(), path, flags)
        });
        found.is_ok_and(|found| {
            let is_same = sys::status(found).is_ok_and(|found| found.inode == status.inode);
            close(found);
            is_same
        })
    }
}
