//! Paths of a session followed step by step, where the kernel must not do it for us: a directory of `/proc` or a file system that does not
//! answer could be on the way. A path is a text until it enters one of the session's own directories (`own_directories.rs`); from there on it is followed
//! from descriptor to descriptor.

use crate::files::own_directories::OwnDirectories;
use crate::sys::{self, Errno, Fd, Result, close, duplicate_above, open_flags, read_link_at};
use crate::walls::mounts::MAX_PATH_BYTES;

/// What becomes of a link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// It stands for what it leads to.
    IsFollowed,
    /// It stands for itself.
    IsMeant,
}

/// More links on one way are a circle.
const MAX_LINKS: usize = 40;

/// Opens what is at a path, as a descriptor that only stands for it. `start` is where a relative path begins. An error when the path leads
/// to none of the own directories.
pub fn look_up(
    own_directories: &OwnDirectories,
    start: Fd,
    path: &[u8],
    last_link: LastLink,
) -> Result<Fd> {
    let mut walk = Walk {
        own_directories,
        at: At::Outside(Pathname::ROOT),
        rest: Rest::empty(),
    };
    walk.rest.put_before(path)?;
    let outcome = walk.follow(start, last_link);
    walk.leave();
    outcome
}

#[derive(Clone, Copy)]
#[allow(clippy::large_enum_variant, reason = "there is no heap to put it on")]
enum At {
    /// In none of the own directories: this is only a text.
    Outside(Pathname),
    /// A directory of a place, or what a path ends with.
    Inside(Fd),
}

struct Walk<'a> {
    own_directories: &'a OwnDirectories,
    at: At,
    rest: Rest,
}

impl Walk<'_> {
    fn follow(&mut self, start: Fd, last_link: LastLink) -> Result<Fd> {
        if !self.rest.is_absolute() {
            self.begin_at(start)?;
        }
        let mut links = 0;
        loop {
            let mut name = [0; MAX_PATH_BYTES];
            let Some(length) = self.rest.take(&mut name) else {
                return match core::mem::replace(&mut self.at, At::Outside(Pathname::ROOT)) {
                    At::Inside(found) => Ok(found),
                    At::Outside(_) => Err(Errno::ACCES),
                };
            };
            if &name[..length] == b"." {
                continue;
            }
            let next = self.step(&name[..length])?;
            let At::Inside(found) = next else {
                self.move_to(next);
                continue;
            };
            let is_last = self.rest.is_over();
            let is_followed = !is_last || last_link == LastLink::IsFollowed;
            if is_followed && sys::status(found).is_ok_and(|status| status.is_link()) {
                let mut target = [0; MAX_PATH_BYTES];
                let length = read_link_at(found, c"", &mut target);
                close(found);
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                self.rest.put_before(&target[..length?])?;
                if self.rest.is_absolute() {
                    self.move_to(At::Outside(Pathname::ROOT));
                }
            } else {
                self.move_to(next);
            }
        }
    }

    /// A directory that is in none of the own directories is not looked into: only its path counts.
    fn begin_at(&mut self, start: Fd) -> Result<()> {
        if self.own_directories.is_start(start) {
            self.move_to(At::Inside(duplicate_above(start, 0)?));
            return Ok(());
        }
        let mut path = [0; MAX_PATH_BYTES];
        let length = self.own_directories.path_of(start, &mut path)?;
        self.rest.put_before(&path[..length])?;
        match self.rest.is_absolute() {
            true => Ok(()),
            // A pipe or the like, or a directory of another view.
            false => Err(Errno::ACCES),
        }
    }

    /// Where one name leads from here.
    fn step(&self, name: &[u8]) -> Result<At> {
        match (self.at, name) {
            (At::Outside(mut path), name) => {
                match name {
                    b".." => path.leave(),
                    name => path.enter(name)?,
                }
                let entered = self.own_directories.enter(&path)?;
                Ok(entered.map_or(At::Outside(path), At::Inside))
            }
            (At::Inside(from), b"..") => match self.own_directories.with_top(from) {
                Some(root) => Ok(At::Outside(root.above())),
                // Not the top, so what is above it is in the same place.
                None => sys::open_on_one_file_system(from, c"..", open_flags::PATH)
                    .map(At::Inside)
                    .map_err(outside),
            },
            (At::Inside(from), name) => {
                let mut text = [0; MAX_PATH_BYTES];
                text.get_mut(..name.len())
                    .ok_or(Errno::NAME_TOO_LONG)?
                    .copy_from_slice(name);
                let name = core::ffi::CStr::from_bytes_until_nul(&text);
                let name = name.map_err(|_| Errno::NAME_TOO_LONG)?;
                let flags = open_flags::PATH | open_flags::NOFOLLOW;
                let found = self.own_directories.open_within(from, name, flags);
                found.map(At::Inside).map_err(outside)
            }
        }
    }

    fn move_to(&mut self, next: At) {
        self.leave();
        self.at = next;
    }

    fn leave(&mut self) {
        if let At::Inside(fd) = core::mem::replace(&mut self.at, At::Outside(Pathname::ROOT)) {
            close(fd);
        }
    }
}

/// Another mount inside a place is none of the session's own.
fn outside(errno: Errno) -> Errno {
    match errno {
        Errno::XDEV => Errno::ACCES,
        errno => errno,
    }
}

/// An absolute path without dots and double slashes. It is a text: nothing was opened.
#[derive(Clone, Copy)]
pub struct Pathname {
    bytes: [u8; MAX_PATH_BYTES],
    length: usize,
}

impl Pathname {
    /// The root directory: no names at all.
    pub const ROOT: Pathname = Pathname {
        bytes: [0; MAX_PATH_BYTES],
        length: 0,
    };

    /// A path as the kernel writes it.
    pub fn new(path: &[u8]) -> Result<Pathname> {
        let mut pathname = Pathname::ROOT;
        for name in path.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => pathname.leave(),
                name => pathname.enter(name)?,
            }
        }
        Ok(pathname)
    }

    /// Without a slash at the end: nothing for the root directory.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Goes one name further.
    pub fn enter(&mut self, name: &[u8]) -> Result<()> {
        let end = self.length + 1 + name.len();
        let slot = self.bytes.get_mut(self.length..end);
        let (slash, slot) = slot
            .and_then(<[u8]>::split_first_mut)
            .ok_or(Errno::NAME_TOO_LONG)?;
        *slash = b'/';
        slot.copy_from_slice(name);
        self.length = end;
        Ok(())
    }

    /// Goes back one name. The root directory is above itself.
    pub fn leave(&mut self) {
        let last = self.as_bytes().iter().rposition(|byte| *byte == b'/');
        self.length = last.unwrap_or(0);
    }
}

impl PartialEq for Pathname {
    fn eq(&self, other: &Pathname) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

/// The part of a path that is still to be walked.
struct Rest {
    /// At the end of the buffer.
    bytes: [u8; MAX_PATH_BYTES],
    begin: usize,
}

impl Rest {
    fn empty() -> Rest {
        Rest {
            bytes: [0; MAX_PATH_BYTES],
            begin: MAX_PATH_BYTES,
        }
    }

    fn put_before(&mut self, path: &[u8]) -> Result<()> {
        let begin = self.begin.checked_sub(path.len() + 1);
        let begin = begin.ok_or(Errno::NAME_TOO_LONG)?;
        self.bytes[begin..begin + path.len()].copy_from_slice(path);
        self.bytes[begin + path.len()] = b'/';
        self.begin = begin;
        Ok(())
    }

    fn is_absolute(&self) -> bool {
        self.bytes.get(self.begin) == Some(&b'/')
    }

    fn is_over(&self) -> bool {
        self.bytes[self.begin..].iter().all(|byte| *byte == b'/')
    }

    /// The next name; how long it is.
    fn take(&mut self, name: &mut [u8; MAX_PATH_BYTES]) -> Option<usize> {
        let rest = &self.bytes[self.begin..];
        let first = rest.iter().position(|byte| *byte != b'/')?;
        let length = rest[first..].iter().position(|byte| *byte == b'/')?;
        name[..length].copy_from_slice(&rest[first..first + length]);
        self.begin += first + length;
        Some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn names(path: &[&[u8]]) -> std::vec::Vec<String> {
        let mut rest = Rest::empty();
        for part in path {
            rest.put_before(part).unwrap();
        }
        let mut name = [0; MAX_PATH_BYTES];
        std::iter::from_fn(|| {
            let length = rest.take(&mut name)?;
            Some(String::from_utf8_lossy(&name[..length]).into_owned())
        })
        .collect()
    }

    #[test]
    fn a_path_is_walked_name_by_name_and_a_link_comes_before_the_rest() {
        assert_eq!(names(&[b"/a//b/./c"]), ["a", "b", ".", "c"]);
        assert_eq!(names(&[b"c/d", b"/a/b/"]), ["a", "b", "c", "d"]);
        assert!(names(&[b"/"]).is_empty());
    }

    #[test]
    fn a_pathname_goes_forth_and_back_by_names() {
        let path = Pathname::new(b"//a/./b/../c/").unwrap();
        assert_eq!(path.as_bytes(), b"/a/c");
        let mut above = path;
        above.leave();
        assert_eq!(above.as_bytes(), b"/a");
        above.leave();
        above.leave();
        assert_eq!(above.as_bytes(), b"");
        assert_eq!(
            Pathname::new(&[b'x'; MAX_PATH_BYTES]).err(),
            Some(Errno::NAME_TOO_LONG)
        );
    }
}
