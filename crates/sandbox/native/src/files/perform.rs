//! What init does in the place of code that asks for it.
//!
//! The path of a call lies in memory that other threads can change, and links and names on its way can be changed by other processes. So where
//! it matters which file is meant, the call does not go on: init looks the path up once, and does to what it found what the call would do.

use crate::files::file_argument::{FileArgument, Name};
use crate::files::handover::Handover;
use crate::init::notify::{self, Listener, Notification, OnExecute};
use crate::sys::text::Text;
use crate::sys::{
    self, Errno, Fd, Result, change_mode_at, change_owner, change_times, close, get_attribute,
    link_at, list_attributes, nr, open_at, open_flags as flags, remove_attribute, set_attribute,
    set_file_flags, truncate, unlink_at,
};
use core::ffi::CStr;

/// What was done, and is to be told.
pub enum Done {
    /// This is open now, for the caller.
    Opened(Fd),
    /// The file is open now, for the caller, and was made for this.
    Made(Fd, Fd, Name),
    /// A file has one more name.
    Linked(Fd, Name),
    /// Something else.
    Changed,
    /// This is what the call returns: what it asks for is in the caller's memory.
    Told(usize),
}

impl Done {
    /// Answers the caller. If a signal has interrupted its call, the caller will make the call again: then a file that was made must not be in
    /// the way.
    pub fn report(self, listener: Listener, notification: &Notification, handover: &mut Handover) {
        let id = notification.id();
        let on_execute = if notification.open_flags() & flags::CLOEXEC == 0 {
            OnExecute::Kept
        } else {
            OnExecute::Closed
        };
        match self {
            Done::Changed => {
                let _ = notify::return_success(listener, id);
            }
            Done::Told(length) => {
                let _ = notify::return_value(listener, id, length as i64);
            }
            Done::Linked(directory, name) => {
                if notify::return_success(listener, id).is_err() {
                    let _ = unlink_at(directory, name.as_c_str());
                }
                close(directory);
            }
            Done::Opened(file) => {
                if let Err(errno) = handover.give(listener, notification, file, on_execute) {
                    notify::respond(listener, id, Err(errno));
                }
                close(file);
            }
            Done::Made(file, directory, name) => {
                if let Err(errno) = handover.give(listener, notification, file, on_execute) {
                    let _ = unlink_at(directory, name.as_c_str());
                    notify::respond(listener, id, Err(errno));
                }
                close(file);
                close(directory);
            }
        }
    }
}

/// A file that was looked up, and `/proc`, in which it has a name that code cannot change.
#[derive(Clone, Copy)]
pub struct Object {
    /// It may only stand for the file.
    pub file: Fd,
    /// For our own descriptors.
    pub proc_directory: Fd,
}

impl Object {
    fn itself(self) -> Result<Text<32>> {
        Text::new(format_args!("self/fd/{}", self.file))
    }

    fn reopen(self, how: usize) -> Result<Fd> {
        // Never waiting: for who reads from a pipe, or for who holds a lease.
        let how = how | flags::NONBLOCK | flags::NOCTTY;
        open_at(self.proc_directory, self.itself()?.as_c_str(), how, 0)
    }

    /// Opens it as a call wants it, but does not empty it yet.
    pub fn open(self, notification: &Notification) -> Result<Fd> {
        let wanted = notification.open_flags();
        if wanted & (flags::CREAT | flags::EXCL) == flags::CREAT | flags::EXCL {
            return Err(Errno::EXIST);
        }
        if sys::status(self.file)?.is_link() {
            return Err(Errno::LOOP);
        }
        if wanted & flags::TMPFILE != 0 {
            return open_at(self.file, c".", wanted, notification.mode());
        }
        const NOT_AGAIN: usize = flags::CREAT | flags::EXCL | flags::NOFOLLOW | flags::TRUNC;
        let file = self.reopen(wanted & !NOT_AGAIN)?;
        if wanted & flags::PATH == 0 {
            only_these_flags(file, wanted)?;
        }
        Ok(file)
    }

    /// Empties it, as a call wants it that has opened it.
    pub fn empty(self, opened: Fd, notification: &Notification) -> Result<()> {
        let wanted = notification.open_flags();
        if wanted & flags::TRUNC == 0 || !sys::status(opened)?.is_file() {
            return Ok(());
        }
        if wanted & (flags::WRONLY | flags::RDWR) != 0 {
            return truncate(opened, 0);
        }
        self.cut(0)
    }

    fn cut(self, length: u64) -> Result<()> {
        let file = self.reopen(flags::WRONLY)?;
        let outcome = truncate(file, length);
        close(file);
        outcome
    }

    /// Does anything but opening it. `largest` is how large it may become, `place` the name that a call gives it.
    pub fn change(
        self,
        notification: &Notification,
        file_argument: &FileArgument,
        largest: impl FnOnce() -> Result<u64>,
        place: impl FnOnce() -> Result<(Fd, Name)>,
    ) -> Result<Done> {
        let [_, second, third, fourth, fifth, _] = *notification.arguments();
        match notification.number() {
            nr::TRUNCATE if second > largest()? => Err(Errno::FBIG),
            nr::TRUNCATE => self.cut(second),
            nr::CHMOD | nr::FCHMOD => self.set_mode(second),
            nr::FCHMODAT | nr::FCHMODAT2 => self.set_mode(third),
            nr::CHOWN | nr::LCHOWN | nr::FCHOWN => change_owner(self.file, second, third),
            nr::FCHOWNAT => change_owner(self.file, third, fourth),
            nr::SETXATTR | nr::LSETXATTR | nr::FSETXATTR => {
                let (name, value) = file_argument.attribute()?;
                self.by_path(|path| set_attribute(path, name, value, fifth))
            }
            nr::REMOVEXATTR | nr::LREMOVEXATTR | nr::FREMOVEXATTR => {
                let (name, _) = file_argument.attribute()?;
                self.by_path(|path| remove_attribute(path, name))
            }
            nr::UTIME | nr::UTIMES | nr::FUTIMESAT | nr::UTIMENSAT => change_times(
                self.file,
                times(notification.number(), file_argument.other())?.as_ref(),
            ),
            nr::LINK | nr::LINKAT => return self.give_name(place()?),
            nr::GETXATTR | nr::LGETXATTR | nr::FGETXATTR => {
                let (name, _) = file_argument.attribute()?;
                if self.is_link()? {
                    return Err(Errno::NO_DATA);
                }
                return self.tell(file_argument, (third, fourth), |path, buffer| {
                    get_attribute(path, name, buffer)
                });
            }
            nr::LISTXATTR | nr::LLISTXATTR | nr::FLISTXATTR => {
                if self.is_link()? {
                    return Ok(Done::Told(0));
                }
                return self.tell(file_argument, (second, third), list_attributes);
            }
            _ => Err(Errno::NOSYS),
        }
        .map(|()| Done::Changed)
    }

    fn set_mode(self, mode: u64) -> Result<()> {
        change_mode_at(
            self.proc_directory,
            self.itself()?.as_c_str(),
            mode & 0o1777,
        )
    }

    fn is_link(self) -> Result<bool> {
        sys::status(self.file).map(|status| status.is_link())
    }

    /// Writes what `read` finds of attributes into the memory of the caller: at the address that the call gives, and as much as its buffer holds.
    #[inline(never)]
    fn tell(
        self,
        file_argument: &FileArgument,
        (address, size): (u64, u64),
        read: impl FnOnce(&CStr, &mut [u8]) -> Result<usize>,
    ) -> Result<Done> {
        const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;
        let mut buffer = [0; MAX_ATTRIBUTE_BYTES];
        let buffer = &mut buffer[..(size as usize).min(MAX_ATTRIBUTE_BYTES)];
        let mut length = 0;
        self.by_path(|path| {
            length = read(path, buffer)?;
            Ok(())
        })?;
        if !buffer.is_empty() && length > 0 {
            file_argument.write_back(address, &buffer[..length.min(buffer.len())])?;
        }
        Ok(Done::Told(length))
    }

    fn by_path(self, work: impl FnOnce(&CStr) -> Result<()>) -> Result<()> {
        // These calls follow a link, and a link has no attributes that code could set.
        if self.is_link()? {
            return Err(Errno::PERM);
        }
        let path = Text::<48>::new(format_args!("/proc/self/fd/{}", self.file))?;
        work(path.as_c_str())
    }

    fn give_name(self, (directory, name): (Fd, Name)) -> Result<Done> {
        let itself = self.itself()?;
        let linked = link_at(
            self.proc_directory,
            itself.as_c_str(),
            directory,
            name.as_c_str(),
        );
        if linked.is_err() {
            close(directory);
        }
        linked.map(|()| Done::Linked(directory, name))
    }
}

/// Makes a file that is not there. The directory is closed if that fails.
pub fn make(notification: &Notification, directory: Fd, name: Name) -> Result<Done> {
    let wanted = notification.open_flags();
    let how = wanted | flags::EXCL | flags::NOFOLLOW | flags::NONBLOCK;
    let made = open_at(directory, name.as_c_str(), how, notification.mode()).and_then(|file| {
        match only_these_flags(file, wanted) {
            Ok(()) => Ok(file),
            Err(errno) => {
                close(file);
                Err(errno)
            }
        }
    });
    match made {
        Ok(file) => Ok(Done::Made(file, directory, name)),
        Err(errno) => {
            close(directory);
            Err(errno)
        }
    }
}

fn only_these_flags(file: Fd, wanted: usize) -> Result<()> {
    const CAN_CHANGE: usize =
        flags::APPEND | flags::NONBLOCK | flags::ASYNC | flags::DIRECT | flags::NOATIME;
    set_file_flags(file, wanted & CAN_CHANGE)
}

/// Both times in seconds and nanoseconds, from the form in which a call has them; `None` stands for now.
fn times(number: usize, bytes: &[u8]) -> Result<Option<[u64; 4]>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let word = |index: usize| -> Result<u64> {
        let word = bytes.get(index * 8..).and_then(|rest| rest.first_chunk());
        word.map(|word| u64::from_le_bytes(*word))
            .ok_or(Errno::INVAL)
    };
    Ok(Some(match number {
        nr::UTIME => [word(0)?, 0, word(1)?, 0],
        nr::UTIMENSAT => [word(0)?, word(1)?, word(2)?, word(3)?],
        _ => {
            let nanoseconds = |microseconds: u64| match microseconds {
                0..1_000_000 => Ok(microseconds * 1000),
                _ => Err(Errno::INVAL),
            };
            [
                word(0)?,
                nanoseconds(word(1)?)?,
                word(2)?,
                nanoseconds(word(3)?)?,
            ]
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_in_three_forms() {
        let bytes: std::vec::Vec<u8> = [1u64, 2, 3, 4]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect();
        assert_eq!(times(nr::UTIME, &bytes[..16]), Ok(Some([1, 0, 2, 0])));
        assert_eq!(times(nr::UTIMES, &bytes), Ok(Some([1, 2000, 3, 4000])));
        assert_eq!(times(nr::UTIMENSAT, &bytes), Ok(Some([1, 2, 3, 4])));
        assert_eq!(times(nr::UTIMENSAT, &[]), Ok(None));
        assert_eq!(times(nr::UTIMES, &bytes[..24]), Err(Errno::INVAL));
    }
}
