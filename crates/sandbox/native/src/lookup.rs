//! Paths of a session followed step by step, where the kernel must not do it for us: a file system that does not answer, mounted
//! somewhere in the view, would stop init. So only the session's own mounts are entered: its workspace and its temporary directories.

use crate::mounts::LONGEST_PATH;
use crate::sys::{
    self, Errno, Fd, Result, close, duplicate_above, open, open_flags, open_on_one_file_system,
    read_link_at,
};

/// What becomes of a link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// It stands for what it leads to.
    IsFollowed,
    /// It stands for itself.
    IsMeant,
}

/// More links on one way are a circle.
const MOST_LINKS: usize = 40;

/// Where a path begins.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// Where a relative one does, or -1.
    pub directory: Fd,
    /// The workspace.
    pub home: Fd,
    /// Its path.
    pub home_path: &'a [u8],
}

/// Opens what is at a path of a session's. An error when that is not in its own mounts.
pub fn look_up(start: Start<'_>, path: &[u8], last_link: LastLink) -> Result<Fd> {
    let mut walk = Walk {
        start,
        at: At::Root,
        rest: Rest::empty(),
    };
    walk.rest.put_before(path)?;
    let outcome = walk.follow(last_link);
    walk.leave();
    outcome
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Root,
    /// `/dev`, of which only a part is the session's own.
    Devices,
    /// A directory, or what a path ends with.
    Below(Fd),
}

struct Walk<'a> {
    start: Start<'a>,
    at: At,
    rest: Rest,
}

impl Walk<'_> {
    fn follow(&mut self, last_link: LastLink) -> Result<Fd> {
        if !self.rest.is_absolute() {
            self.move_to(At::Below(duplicate_above(self.start.directory, 0)?));
        }
        let mut links = 0;
        loop {
            let mut name = [0; LONGEST_PATH];
            let Some(length) = self.rest.take(&mut name) else {
                return match core::mem::replace(&mut self.at, At::Root) {
                    At::Below(found) => Ok(found),
                    At::Root | At::Devices => Err(Errno::INVAL),
                };
            };
            let next = self.step(&name[..length])?;
            let At::Below(found) = next else {
                self.move_to(next);
                continue;
            };
            let is_last = self.rest.is_over();
            let is_followed = !is_last || last_link == LastLink::IsFollowed;
            if is_followed && sys::status(found).is_ok_and(|status| status.is_link()) {
                let mut target = [0; LONGEST_PATH];
                let length = read_link_at(found, c"", &mut target);
                close(found);
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::INVAL);
                }
                self.rest.put_before(&target[..length?])?;
                if self.rest.is_absolute() {
                    self.move_to(At::Root);
                }
            } else {
                self.move_to(next);
            }
        }
    }

    /// Where one name leads from here.
    fn step(&self, name: &[u8]) -> Result<At> {
        let directory = open_flags::PATH | open_flags::DIRECTORY;
        match (self.at, name) {
            (at @ (At::Root | At::Below(_)), b".") => Ok(match at {
                At::Below(fd) => At::Below(duplicate_above(fd, 0)?),
                at => at,
            }),
            (At::Root | At::Devices, b"..") => Ok(At::Root),
            (At::Root, b"tmp") => open(c"/tmp", directory, 0).map(At::Below),
            (At::Root, b"dev") => Ok(At::Devices),
            (At::Devices, b"shm") => open(c"/dev/shm", directory, 0).map(At::Below),
            (At::Devices, b"null") => open(c"/dev/null", open_flags::PATH, 0).map(At::Below),
            (At::Devices, b"zero") => open(c"/dev/zero", open_flags::PATH, 0).map(At::Below),
            (At::Devices, b"full") => open(c"/dev/full", open_flags::PATH, 0).map(At::Below),
            (At::Devices, b"random") => open(c"/dev/random", open_flags::PATH, 0).map(At::Below),
            (At::Devices, b"urandom") => open(c"/dev/urandom", open_flags::PATH, 0).map(At::Below),
            (At::Root, name) if self.start.home_path.strip_prefix(b"/") == Some(name) => {
                duplicate_above(self.start.home, 0).map(At::Below)
            }
            (At::Root | At::Devices, _) => Err(Errno::INVAL),
            (At::Below(from), name) => {
                let mut text = [0; LONGEST_PATH];
                text.get_mut(..name.len())
                    .ok_or(Errno::INVAL)?
                    .copy_from_slice(name);
                let name_as_c_str = core::ffi::CStr::from_bytes_until_nul(&text);
                let name_as_c_str = name_as_c_str.map_err(|_| Errno::INVAL)?;
                let flags = open_flags::PATH | open_flags::NOFOLLOW;
                match open_on_one_file_system(from, name_as_c_str, flags) {
                    // Above the top of a mount is the root, or close to it.
                    Err(Errno::XDEV) if name == b".." => Ok(At::Root),
                    outcome => outcome.map(At::Below),
                }
            }
        }
    }

    fn move_to(&mut self, next: At) {
        self.leave();
        self.at = next;
    }

    fn leave(&mut self) {
        if let At::Below(fd) = core::mem::replace(&mut self.at, At::Root) {
            close(fd);
        }
    }
}

/// The part of a path that is still to be walked.
struct Rest {
    /// At the end of the buffer.
    bytes: [u8; LONGEST_PATH],
    begin: usize,
}

impl Rest {
    fn empty() -> Rest {
        Rest {
            bytes: [0; LONGEST_PATH],
            begin: LONGEST_PATH,
        }
    }

    fn put_before(&mut self, path: &[u8]) -> Result<()> {
        let begin = self.begin.checked_sub(path.len() + 1).ok_or(Errno::INVAL)?;
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
    fn take(&mut self, name: &mut [u8; LONGEST_PATH]) -> Option<usize> {
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
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt as _;
    use std::{fs, string::String};

    fn names(path: &[&[u8]]) -> std::vec::Vec<String> {
        let mut rest = Rest::empty();
        for part in path {
            rest.put_before(part).unwrap();
        }
        let mut name = [0; LONGEST_PATH];
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
    fn links_lead_through_the_session_s_own_mounts_and_nowhere_else() {
        let place = std::env::temp_dir().join(std::format!("lookup-{}", std::process::id()));
        fs::create_dir_all(place.join("d")).unwrap();
        fs::write(place.join("d/file"), "text").unwrap();
        std::os::unix::fs::symlink("/desk/d/file", place.join("absolute")).unwrap();
        std::os::unix::fs::symlink("d/../d", place.join("relative")).unwrap();
        std::os::unix::fs::symlink("circle", place.join("circle")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", place.join("outside")).unwrap();
        let path = CString::new(place.as_os_str().as_bytes()).unwrap();
        let home = open(&path, open_flags::PATH, 0).unwrap();
        let start = Start {
            directory: home,
            home,
            home_path: b"/desk",
        };
        let is_file = |path: &[u8], last_link| {
            look_up(start, path, last_link).map(|found| {
                let is_file = sys::status(found).unwrap().is_file();
                close(found);
                is_file
            })
        };
        use LastLink::{IsFollowed, IsMeant};
        for path in [
            "absolute",
            "/desk/absolute",
            "relative/file",
            "/desk/./relative/./file",
        ] {
            assert_eq!(is_file(path.as_bytes(), IsFollowed), Ok(true), "{path}");
        }
        assert_eq!(is_file(b"absolute", IsMeant), Ok(false));
        for path in ["circle", "outside", "/etc/passwd", "d/none"] {
            assert!(is_file(path.as_bytes(), IsFollowed).is_err(), "{path}");
        }
        close(home);
        fs::remove_dir_all(place).unwrap();
    }
}
