//! What the host tells the native code: one fixed record of numbers, then strings.
//!
//! Both sides are compiled from this file, so there is one layout and no version of it on the wire.

use crate::sys::{Errno, Result};
use core::ffi::CStr;

/// The walls that native code builds, as bits of [`Launch::walls`] and [`Spawn::walls`].
pub mod walls {
    #![allow(missing_docs)]
    pub const FILES: u64 = 1;
    pub const PROCESSES: u64 = 1 << 1;
    pub const NETWORK: u64 = 1 << 2;
    pub const IPC: u64 = 1 << 3;
    pub const HOSTNAME: u64 = 1 << 4;
    pub const LANDLOCK: u64 = 1 << 5;
    pub const SECCOMP: u64 = 1 << 6;
    pub const PRIVILEGES: u64 = 1 << 7;
    pub const SIGNALS: u64 = 1 << 8;
    pub const ENVIRONMENT: u64 = 1 << 9;
    pub const MEMORY: u64 = 1 << 10;
    pub const PROCESS_COUNT: u64 = 1 << 11;
    pub const DISK: u64 = 1 << 12;
    /// Not a wall but the ground under some: this rung has namespaces at all.
    pub const NAMESPACES: u64 = 1 << 32;
}

/// Declares a record of `u64` fields with its wire form: the fields in order, little-endian.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: u64,)* }

        impl $name {
            const FIELDS: usize = [$(stringify!($field)),*].len();
            /// Size of the wire form.
            pub const SIZE: usize = Self::FIELDS * 8;

            /// The wire form.
            pub fn to_bytes(self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                let fields = [$(self.$field),*];
                for (slot, field) in bytes.chunks_exact_mut(8).zip(fields) {
                    slot.copy_from_slice(&field.to_le_bytes());
                }
                bytes
            }

            /// Reads the wire form at the start of `bytes`; the rest is what follows.
            pub fn from_bytes(bytes: &[u8]) -> Result<(Self, &[u8])> {
                let (head, rest) = bytes.split_at_checked(Self::SIZE).ok_or(Errno::PROTO)?;
                let mut fields = head.chunks_exact(8).map(|chunk| {
                    let mut word = [0; 8];
                    word.copy_from_slice(chunk);
                    u64::from_le_bytes(word)
                });
                let record = $name { $($field: fields.next().ok_or(Errno::PROTO)?,)* };
                Ok((record, rest))
            }
        }
    };
}
pub(crate) use record;

record! {
    /// The launcher's first message. Strings follow, see [`Item`].
    Launch {
        /// Bits of [`walls`].
        walls,
        /// First of 65 536 user and group ids that sessions may have; 0 for an ordinary user, which has only its own.
        first_id,
        /// The user and group id that the launcher takes before it makes namespaces; 0 where it keeps its own. Root without the right to
        /// make namespaces makes them as this user.
        shared_id,
        /// Most bytes in the zygote's own temporary directory.
        temporary_bytes,
    }
}

record! {
    /// The request for one session. Strings follow, see [`Item`].
    Spawn {
        /// Bits of [`walls`].
        walls,
        /// The session's user id in the zygote's user namespace.
        user,
        /// Most bytes of memory.
        memory,
        /// Most processes and threads, our own included.
        processes,
        /// Most open files.
        open_files,
        /// Most bytes in one file.
        file_bytes,
        /// Most bytes in the temporary directories.
        temporary_bytes,
        /// What the watchdog allows all processes of the session together; 0 where a cgroup holds the limit.
        watched_memory,
        /// 1 where a socket comes along on which init tells what is about to be changed in the workspace.
        keeps,
        /// 1 where the kernel counts the session's objects as those of the host's own user.
        shares_user,
    }
}

impl Spawn {
    /// The walls that a session must have to be forked: a fork lives in namespaces of its own, which a process without
    /// privileges enters when init allows it.
    pub const FORKABLE: u64 = walls::NAMESPACES
        | walls::FILES
        | walls::PROCESSES
        | walls::LANDLOCK
        | walls::SECCOMP
        | walls::SIGNALS
        | walls::PRIVILEGES;

    /// Whether init bounds what the kernel counts for each user: the host's own user must be left enough, and where no cgroup counts memory,
    /// these objects are memory too.
    pub fn bounds_user_objects(&self) -> bool {
        self.shares_user != 0 || self.walls & walls::MEMORY != 0 && self.watched_memory > 0
    }

    /// Whether init changes the limit of processes whenever other processes of the same user come and go. The kernel counts them together, and no
    /// cgroup counts those of the session.
    pub fn follows_other_processes(&self) -> bool {
        // Without these, no filter keeps the session from raising a soft limit, or init does not look at regular intervals.
        const NEEDED: u64 = walls::PROCESS_COUNT | walls::SECCOMP | walls::SIGNALS | walls::MEMORY;
        self.walls & (NEEDED | walls::NAMESPACES) == NEEDED && self.watched_memory > 0
    }

    /// Whether the session sees the host's files, and only Landlock keeps it from them: then init changes their metadata, or does not.
    pub fn guards_metadata(&self) -> bool {
        const VIEW: u64 = walls::NAMESPACES | walls::FILES;
        const GUARDS: u64 = walls::LANDLOCK | walls::SECCOMP;
        self.walls & VIEW != VIEW && self.walls & GUARDS == GUARDS
    }

    /// Whether the session can be forked.
    pub fn can_fork(&self) -> bool {
        self.walls & Self::FORKABLE == Self::FORKABLE
    }
}

record! {
    /// The request for a process beside the head, which the spawner receives. Strings follow: [`Item::Argument`], [`Item::Variable`],
    /// [`Item::Program`] for each path to try, and [`Item::Home`].
    ///
    /// The first descriptor is the supervisor's socket to the host. Standard input, output and error follow, or one terminal.
    SpawnProcess {
        /// 1 where a terminal comes along, and no pipes.
        has_terminal,
    }
}

impl SpawnProcess {
    /// The longest request, with its strings.
    pub const MAX_BYTES: usize = 128 << 10;
    /// Most arguments, and most variables.
    pub const MAX_STRINGS: usize = 2048;
}

/// What a string in a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Item {
    /// Show `first` of the host read-only at `second`.
    Show = 1,
    /// Show the device `first` at `second`.
    Device = 2,
    /// Make `second` a symbolic link to `first`.
    Link = 3,
    /// Make the directory `second`.
    Directory = 4,
    /// Make the file `second` with the text `first`.
    File = 5,
    /// One argument of Python, in order.
    Argument = 6,
    /// One variable of Python's environment.
    Variable = 7,
    /// What to execute.
    Program = 8,
    /// May be read (Landlock).
    Readable = 9,
    /// May be written (Landlock).
    Writable = 10,
    /// The working directory of the head.
    Home = 11,
    /// May be changed where the mounts below it allow that, and devices made nowhere (Landlock).
    Mounted = 12,
    /// The host listens on port `first` of the session's loopback, at the address that `second` numbers.
    LoopbackPort = 13,
}

/// The strings of a message: a tag byte, then two C strings (the second may be empty).
#[derive(Clone, Copy)]
pub struct Items<'a>(pub &'a [u8]);

impl<'a> Items<'a> {
    /// Only the entries with this tag.
    pub fn of(self, item: Item) -> impl Iterator<Item = (&'a CStr, &'a CStr)> {
        self.filter(move |(tag, ..)| *tag == item as u8)
            .map(|(_, first, second)| (first, second))
    }

    /// The first entry with this tag.
    pub fn one(self, item: Item) -> Option<&'a CStr> {
        self.of(item).next().map(|(first, _)| first)
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = (u8, &'a CStr, &'a CStr);

    fn next(&mut self) -> Option<Self::Item> {
        let (tag, rest) = self.0.split_first()?;
        let first = CStr::from_bytes_until_nul(rest).ok()?;
        let rest = rest.get(first.count_bytes() + 1..)?;
        let second = CStr::from_bytes_until_nul(rest).ok()?;
        self.0 = rest.get(second.count_bytes() + 1..)?;
        Some((*tag, first, second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_went_with_what_follows_it() {
        let launch = Launch {
            walls: walls::FILES | walls::NAMESPACES,
            first_id: 7,
            shared_id: 0,
            temporary_bytes: u64::MAX,
        };
        let mut bytes = launch.to_bytes().to_vec();
        bytes.extend_from_slice(b"rest");
        assert_eq!(Launch::from_bytes(&bytes), Ok((launch, &b"rest"[..])));
        assert_eq!(
            Launch::from_bytes(&bytes[..Launch::SIZE - 1]),
            Err(Errno::PROTO)
        );
    }

    #[test]
    fn items_are_found_by_their_tag_in_order() {
        let items = Items(b"\x06python\0\0\x01/usr\0/usr\0\x06-I\0\0");
        assert!(
            items
                .of(Item::Argument)
                .eq([(c"python", c""), (c"-I", c"")])
        );
        assert_eq!(items.of(Item::Show).next(), Some((c"/usr", c"/usr")));
        assert_eq!(items.one(Item::Home), None);
    }

    #[test]
    fn items_that_are_cut_off_end_the_list() {
        assert_eq!(Items(b"\x06python\0\0\x06half").count(), 1);
        assert_eq!(Items(b"\x06python\0").count(), 0);
        assert_eq!(Items(b"").count(), 0);
    }
}
