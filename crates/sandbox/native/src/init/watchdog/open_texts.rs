//! Texts of `/proc` that a session has open. The kernel makes a text when its descriptor is first read, and keeps all of it until the descriptor
//! is closed. What it tells of an instance of epoll, or of a file with locks, is as long as there are watches and locks: megabytes, for each
//! descriptor again.

use crate::init::watchdog::user_objects::{descriptors_in, each_descriptor};
use crate::sys::{Fd, Pid};

/// The most that the kernel keeps for one text, where a session has so many watches of epoll and locks on parts of files.
pub fn most_for_one(watches: u64, locks: u64) -> u64 {
    /// No line about a watch or a lock is longer.
    const LINE_BYTES: u64 = 128;
    /// Texts about the whole machine that the kernel makes in one piece.
    const USUAL_BYTES: u64 = 16 << 10;
    // The kernel tries again with twice the memory until the text fits.
    let lines = (watches + locks) * LINE_BYTES;
    lines.next_power_of_two().max(USUAL_BYTES)
}

/// How many texts a process has open. Descriptors that wait in its sockets may all be such. `None` where init may not look.
pub fn count(proc_directory: Fd, thread: Pid) -> Option<u64> {
    let mut texts = 0;
    let is_seen = each_descriptor(proc_directory, thread, |number, target| {
        if target.starts_with(b"/proc/") {
            texts += 1;
        } else if target.starts_with(b"socket:[") {
            texts += descriptors_in(proc_directory, thread, number);
        }
    });
    is_seen.then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_text_is_as_long_as_there_are_watches_and_locks() {
        let most = [(0, 0), (100, 0), (8192, 0), (8192, 1), (0, 16_384)];
        assert_eq!(
            most.map(|(watches, locks)| most_for_one(watches, locks) >> 10),
            [16, 16, 1024, 2048, 2048]
        );
    }

    #[test]
    fn texts_are_counted_also_while_they_wait_in_a_socket() {
        let processes = crate::walls::mounts::open_proc().unwrap();
        let own = crate::sys::own_pid();
        let count = || count(processes, own).unwrap();
        // Other tests have some open as well.
        let before = count();
        let texts: std::vec::Vec<_> = (0..300)
            .map(|_| std::fs::File::open("/proc/self/status").unwrap())
            .collect();
        assert!((before + 200..before + 400).contains(&count()));
        let (near, far) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let sent: std::vec::Vec<_> = texts.iter().map(|text| text.as_raw_fd()).collect();
        crate::sys::send(near.as_raw_fd(), &[1], &sent[..2]).unwrap();
        drop(texts);
        assert!(count() < before + 150);
        drop((near, far));
        crate::sys::close(processes);
    }
}
