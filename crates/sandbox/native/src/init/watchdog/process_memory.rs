//! Memory of one process, as `/proc` shows it.

use crate::arch::page_bytes;
use crate::init::sweep::each_entry;
use crate::init::watchdog::memory_user::MemoryUser;
use crate::init::watchdog::socket_memory::BUFFER_BYTES;
use crate::sys::text::{Text, leading_number};
use crate::sys::{Fd, Pid, close, each_line_while_at, open_at, open_flags, read_file_at};

/// What the kernel takes for one area of a process's memory.
const AREA_BYTES: u64 = 256;
/// What the kernel takes for an open descriptor. Pipes and sockets are counted by themselves.
const DESCRIPTOR_BYTES: u64 = 1024;
/// If a process can have no more areas than this, it is not worth counting them.
const FEW_AREAS: u64 = 4096;
/// With more than this many, it is not worth counting them to the end.
const MANY_AREAS: u64 = 16_384;

/// What everyone may see of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Pages that are there, of whatever kind.
    pub resident: u64,
    /// Those of no file.
    pub anonymous: u64,
    /// Those of memory that processes share, and of files in memory.
    pub shared: u64,
    /// Pages that were written to disk.
    pub swapped: u64,
    /// Pages of a size that must be set aside for them.
    pub huge: u64,
    /// The tables that say where pages are.
    pub page_tables: u64,
    /// Everything that is mapped, whether it is there or not.
    pub(super) mapped: u64,
    /// How many descriptors its table has room for.
    pub(super) descriptors: u64,
    /// How many threads it has.
    pub(super) threads: u64,
}

impl ProcessMemory {
    /// Of this process. One that has ended holds nothing.
    pub fn of(proc_directory: Fd, pid: Pid) -> ProcessMemory {
        let memory = ProcessMemory::of_thread(proc_directory, pid);
        if memory.is_there() {
            return memory;
        }
        match living_thread(proc_directory, pid) {
            thread if thread == pid => memory,
            thread => ProcessMemory::of_thread(proc_directory, thread),
        }
    }

    /// Of the process of this thread, as the directory of the thread shows it: nothing when the thread has ended.
    pub(super) fn of_thread(proc_directory: Fd, thread: Pid) -> ProcessMemory {
        let mut buffer = [0; 4096];
        let text = Text::<32>::new(format_args!("{thread}/status"))
            .and_then(|path| read_file_at(proc_directory, path.as_c_str(), &mut buffer));
        text.map(ProcessMemory::read).unwrap_or_default()
    }

    fn read(status: &[u8]) -> ProcessMemory {
        let mut found = ProcessMemory::default();
        for line in status.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                continue;
            };
            let value = leading_number(line[colon + 1..].trim_ascii_start()).unwrap_or(0);
            let kilobytes = value << 10;
            match &line[..colon] {
                b"VmSize" => found.mapped = kilobytes,
                b"VmRSS" => found.resident = kilobytes,
                b"RssAnon" => found.anonymous = kilobytes,
                b"RssShmem" => found.shared = kilobytes,
                b"VmSwap" => found.swapped = kilobytes,
                b"HugetlbPages" => found.huge = kilobytes,
                b"VmPTE" => found.page_tables = kilobytes,
                b"FDSize" => found.descriptors = value,
                b"Threads" => found.threads = value,
                _ => {}
            }
        }
        found
    }

    /// Whether there is any: a thread that has ended uses none.
    pub(super) fn is_there(self) -> bool {
        self.mapped > 0
    }

    /// Its heap and the like, with every page counted once: a page of this kind is in one process only once. Reading this takes no lock of the process.
    pub fn own_in_full(self) -> u64 {
        self.anonymous + self.swapped
    }

    /// What the kernel holds for it, without its pages and without what `areas` of memory take.
    pub fn in_kernel(self) -> u64 {
        self.page_tables + self.huge + self.descriptors * DESCRIPTOR_BYTES
    }

    /// The most that its areas of memory can take; `most_areas` is how many the kernel allows.
    fn most_for_areas(self, most_areas: u64) -> u64 {
        (self.mapped / page_bytes() as u64).min(most_areas) * AREA_BYTES
    }

    /// The most that it can hold in sockets, if every descriptor is one.
    pub fn most_for_sockets(self) -> u64 {
        self.descriptors * BUFFER_BYTES
    }

    /// The most that it can hold, all in all.
    pub fn most(self, most_areas: u64) -> u64 {
        self.resident + self.swapped + self.in_kernel() + self.most_for_areas(most_areas)
    }

    /// What its areas of memory take, or the most that they can take where init may not look. A process with very many is taken to have as many as it
    /// can: to count them would take long.
    pub fn areas(self, proc_directory: Fd, pid: Pid, most_areas: u64) -> Result<u64, u64> {
        let most = self.most_for_areas(most_areas);
        if most <= FEW_AREAS * AREA_BYTES {
            return Ok(most);
        }
        let mut count = 0;
        let read = Text::<32>::new(format_args!("{pid}/maps")).and_then(|path| {
            each_line_while_at(proc_directory, path.as_c_str(), |_| {
                count += 1;
                count <= MANY_AREAS
            })
        });
        match read {
            Ok(()) if count > MANY_AREAS => Ok(most),
            Ok(()) => Ok(count * AREA_BYTES),
            Err(_) => Err(most),
        }
    }
}

/// A thread that shows what its process holds. The first one does until it ends, and it may end before the others: then the directory
/// of the process shows nothing, and that of another thread all. Only the first is listed in `/proc`, but each can be opened there.
pub fn living_thread(proc_directory: Fd, pid: Pid) -> Pid {
    let threads = Text::<32>::new(format_args!("{pid}/task"))
        .and_then(|path| open_at(proc_directory, path.as_c_str(), open_flags::DIRECTORY, 0));
    let Ok(threads) = threads else { return pid };
    let mut living = None;
    each_entry(threads, |thread| {
        let is_living = || ProcessMemory::of_thread(threads, thread).is_there();
        if living.is_none() && is_living() {
            living = Some(thread);
        }
    });
    close(threads);
    living.unwrap_or(pid)
}

/// How many areas of memory a process may have.
pub fn most_areas(proc_directory: Fd) -> u64 {
    const USUAL: u64 = 65_530;
    let mut buffer = [0; 32];
    let text = read_file_at(proc_directory, c"sys/vm/max_map_count", &mut buffer);
    text.ok().and_then(leading_number).unwrap_or(USUAL)
}

/// What a process holds, looked at closely: pages that n processes have count one n-th.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Its heap and the like.
    pub own: u64,
    /// Its heap and the like, with every page counted in full.
    pub own_in_full: u64,
    /// Pages of `own` that are certainly its alone.
    pub alone: u64,
    /// Memory that it shares on purpose.
    pub shared: u64,
    /// Everything that others have as well.
    pub with_others: u64,
}

impl Share {
    /// What is certainly not the head's as well, where this is a process beside the head. The head is counted in full, and what it has in common
    /// with a process that it forked must not be counted twice.
    ///
    /// A page that the head and this process have is the same part of the share of both. So all such pages are no more of this share than
    /// what the head has in common with others is of the head's share. Where it is not known whether the process uses the head's memory itself,
    /// only what is more than all of that is certain.
    pub fn own_beside(&self, head: &Share, user: MemoryUser) -> u64 {
        if user != MemoryUser::Apart {
            return self.own.saturating_sub(head.own_in_full);
        }
        let in_common = head.own.saturating_sub(head.alone);
        self.own.saturating_sub(in_common).max(self.alone)
    }

    /// Of this process, if one may look into it.
    pub fn of(proc_directory: Fd, pid: Pid) -> Option<Share> {
        let path = Text::<48>::new(format_args!("{pid}/smaps_rollup")).ok()?;
        let mut buffer = [0u8; 2048];
        let text = read_file_at(proc_directory, path.as_c_str(), &mut buffer).ok()?;
        let bytes = |name: &[u8]| {
            let line = text
                .split(|byte| *byte == b'\n')
                .find(|line| line.starts_with(name))?;
            leading_number(line[name.len()..].trim_ascii_start()).map(|kilobytes| kilobytes * 1024)
        };
        let swapped = bytes(b"Swap:").unwrap_or(0);
        let anonymous = bytes(b"Pss_Anon:")?;
        let shared = bytes(b"Pss_Shmem:").unwrap_or(0);
        // The kernel does not say which of the pages that only this process has are of files.
        let alone = (bytes(b"Private_Clean:").unwrap_or(0) + bytes(b"Private_Dirty:").unwrap_or(0))
            .saturating_sub(bytes(b"Pss_File:").unwrap_or(0) + shared);
        Some(Share {
            own: anonymous + bytes(b"SwapPss:").unwrap_or(swapped),
            own_in_full: bytes(b"Anonymous:")? + swapped,
            alone: alone.min(anonymous),
            shared,
            with_others: bytes(b"Shared_Clean:").unwrap_or(0)
                + bytes(b"Shared_Dirty:").unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_in_common_with_the_head_is_not_counted_twice() {
        let head = Share {
            own: 60,
            own_in_full: 100,
            alone: 20,
            ..Share::default()
        };
        let beside = |own, alone| {
            let share = Share {
                own,
                alone,
                ..Share::default()
            };
            share.own_beside(&head, MemoryUser::Apart)
        };
        // A copy of the head that wrote to 5 pages, one that wrote to none, and a process with memory of its own.
        assert_eq!([beside(45, 5), beside(40, 0), beside(90, 90)], [5, 0, 90]);
        // Two that share 100 pages which the head does not have.
        assert_eq!(beside(50, 0), 10);
        // A process that may use the memory of the head itself.
        let unknown = |own| {
            let share = Share {
                own,
                alone: own,
                ..Share::default()
            };
            share.own_beside(&head, MemoryUser::Unknown)
        };
        assert_eq!([unknown(100), unknown(130)], [0, 30]);
    }

    #[test]
    fn a_process_holds_what_its_status_says_and_what_the_kernel_has_for_it() {
        let status = b"Name:\tpython\nFDSize:\t128\nVmSize:\t  16384 kB\nVmRSS:\t 10232 kB\nRssAnon:\t 4464 kB\nRssShmem:\t 8 kB\nVmPTE:\t  68 kB\nVmSwap:\t  12 kB\nHugetlbPages:\t 2048 kB\nThreads:\t1\n";
        let found = ProcessMemory::read(status);
        let expected = ProcessMemory {
            resident: 10232 << 10,
            anonymous: 4464 << 10,
            shared: 8 << 10,
            swapped: 12 << 10,
            huge: 2048 << 10,
            page_tables: 68 << 10,
            mapped: 16384 << 10,
            descriptors: 128,
            threads: 1,
        };
        assert_eq!(found, expected);
        assert_eq!(found.in_kernel(), (68 << 10) + (2048 << 10) + (128 << 10));
        assert_eq!(found.most_for_areas(1 << 20), 4096 * 256);
        assert_eq!(found.most_for_areas(10), 2560);
        assert_eq!(
            ProcessMemory::read(b"Name:\tgone\n"),
            ProcessMemory::default()
        );
    }
}
