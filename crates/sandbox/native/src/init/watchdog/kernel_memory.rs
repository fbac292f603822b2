//! Memory that the kernel holds for a session beside the pages of its processes: objects of System V, files in memory.
//! Sockets are in `socket_memory.rs`, page tables in `process_memory.rs`.

use crate::init::sweep::Reach;
use crate::sys::text::leading_number;
use crate::sys::{Fd, each_line_at, used_on};
use crate::wire::config::walls;

/// What one semaphore takes: a line of the processor's cache, or two.
const SEMAPHORE_BYTES: u64 = 128;
/// What a note about a set takes, and what each semaphore of the set takes in it.
const NOTE_BYTES: u64 = 64;
const NOTE_BYTES_EACH: u64 = 2;
/// What a message, a queue or a set of semaphores takes beside its contents.
const MESSAGE_BYTES: u64 = 64;
const OBJECT_BYTES: u64 = 512;
/// What a file in memory takes beside its contents: its name, its inode, and attributes of the size that the filter allows.
const INODE_BYTES: u64 = 2048;

/// Bytes of files in the session's own `/tmp` and `/dev/shm`, and of its shared segments. A process may have them mapped as well.
/// `walls` says whether these directories are its own: without that wall they are the machine's.
pub fn named(walls: u64, reach: Reach, proc_directory: Fd) -> u64 {
    if reach == Reach::Descendants {
        return 0;
    }
    let files = if is_own(walls, walls::FILES) {
        temporary_files()
    } else {
        0
    };
    files + shared_segments(proc_directory)
}

fn is_own(walls: u64, wall: u64) -> bool {
    walls & wall != 0 && walls & walls::NAMESPACES != 0
}

/// Bytes of objects that no process has mapped. `walls` says which namespaces are the session's own: in another one, objects are not its own.
/// `threads` is how many threads the session has.
pub fn unmapped(walls: u64, reach: Reach, proc_directory: Fd, threads: u64) -> u64 {
    let mut sum = 0;
    if is_own(walls, walls::FILES) {
        sum += temporary_inodes() * INODE_BYTES;
    }
    if is_own(walls, walls::IPC) && reach == Reach::Namespace {
        sum += semaphores(proc_directory, threads) + messages(proc_directory);
    }
    sum
}

fn temporary_files() -> u64 {
    used_by_temporary_files().map(|(bytes, _)| bytes).sum()
}

fn temporary_inodes() -> u64 {
    used_by_temporary_files().map(|(_, inodes)| inodes).sum()
}

fn used_by_temporary_files() -> impl Iterator<Item = (u64, u64)> {
    [c"/tmp", c"/dev/shm"]
        .into_iter()
        .filter_map(|path| used_on(path).ok())
}

/// System V segments stay when no process has them mapped, so no process shows them.
fn shared_segments(proc_directory: Fd) -> u64 {
    let mut sum = 0;
    let _ = each_line_at(proc_directory, c"sysvipc/shm", |line| {
        sum += segment_bytes(line).unwrap_or(0)
    });
    sum
}

/// The resident bytes in a line of `sysvipc/shm`. Segments that were made outside of the session, where it has no IPC
/// namespace of its own, show process 0 as their maker.
fn segment_bytes(line: &[u8]) -> Option<u64> {
    const MAKER: usize = 4;
    const RESIDENT: usize = 14;
    let maker = field(line, MAKER)?;
    let bytes = field(line, RESIDENT)?;
    (maker != 0).then_some(bytes)
}

fn semaphores(proc_directory: Fd, threads: u64) -> u64 {
    let mut sum = 0;
    let _ = each_line_at(proc_directory, c"sysvipc/sem", |line| {
        sum += semaphore_bytes(line, threads).unwrap_or(0)
    });
    sum
}

/// What the set in a line of `sysvipc/sem` takes, if each thread has a note about it that says how it is to be put back (`SEM_UNDO`). Nothing shows
/// how many of these notes there are. The kernel rounds them up.
fn semaphore_bytes(line: &[u8], threads: u64) -> Option<u64> {
    const COUNT: usize = 3;
    let count = field(line, COUNT)?;
    let note = (NOTE_BYTES + count * NOTE_BYTES_EACH).next_power_of_two();
    Some(OBJECT_BYTES + count * SEMAPHORE_BYTES + threads * note)
}

fn messages(proc_directory: Fd) -> u64 {
    let mut sum = 0;
    let _ = each_line_at(proc_directory, c"sysvipc/msg", |line| {
        sum += queue_bytes(line).unwrap_or(0)
    });
    sum
}

/// What the queue in a line of `sysvipc/msg` takes. The kernel rounds each message up.
fn queue_bytes(line: &[u8]) -> Option<u64> {
    const BYTES: usize = 3;
    const MESSAGES: usize = 4;
    let bytes = field(line, BYTES)?;
    Some(OBJECT_BYTES + bytes + bytes / 4 + field(line, MESSAGES)? * MESSAGE_BYTES)
}

fn field(line: &[u8], index: usize) -> Option<u64> {
    leading_number(words(line).nth(index)?)
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_counts_with_what_is_resident_of_it_if_the_session_made_it() {
        let of = |maker: &str| {
            let line = std::format!(
                "         0          3   600             104857600 {maker:>5}     0      0  1000  1000  1000  1000 1 2 3  4096     0"
            );
            segment_bytes(line.as_bytes())
        };
        assert_eq!([of("2"), of("0")], [Some(4096), None]);
        assert_eq!(
            segment_bytes(b"       key      shmid perms                  size  cpid"),
            None
        );
    }

    #[test]
    fn semaphores_and_messages_count_with_what_they_take() {
        let semaphores =
            b"         0          1   600      32000  1000  1000  1000  1000          0 1700000000";
        let bytes = |threads| semaphore_bytes(semaphores, threads);
        assert_eq!(bytes(0), Some(512 + 32000 * 128));
        assert_eq!(bytes(3), Some(512 + 32000 * 128 + 3 * 65536));
        let queue = b"         0          0   600       16000          2    7     0  1000  1000  1000  1000 1 0 1";
        assert_eq!(queue_bytes(queue), Some(512 + 20000 + 128));
        let title = b"       key      msqid perms      cbytes       qnum lspid lrpid";
        assert_eq!(
            [semaphore_bytes(title, 1), queue_bytes(title)],
            [None, None]
        );
    }
}
