//! The soft limit of a process's data (`RLIMIT_DATA`) follows what the process uses.
//!
//! The kernel counts what is mapped, touched or not, and a library may reserve gigabytes that it never touches. So when a mapping is
//! refused, the process looks at what it really uses: if that and the new mapping together are within the memory limit, it raises its soft
//! limit by what is missing, and makes the call again (`launch/restart_calls.rs`). Code in the process can do the same; the wall is the cgroup,
//! or init.

use crate::arch::page_bytes;
use crate::sys::text::leading_number;
use crate::sys::{AT_FDCWD, nr, read_file_at, syscall};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

const DATA: usize = 2;
/// How much more than is missing the limit is raised by, where that fits too: small mappings come in great numbers.
const SLACK: u64 = 16 << 20;

/// The memory limit of the session; 0 where there is none.
static LIMIT: AtomicU64 = AtomicU64::new(0);
/// The bytes that this process may use: the limit, and a reserve where it was taken.
static MAX_USED: AtomicU64 = AtomicU64::new(0);
/// The soft limit that was set last. Where it is another, code has set one of its own, which stays.
static SOFT_LIMIT: AtomicU64 = AtomicU64::new(0);

/// From now on the soft limit of this process, which is `limit` now, follows what is used.
pub fn follow_use(limit: u64) {
    LIMIT.store(limit, SeqCst);
    MAX_USED.store(limit, SeqCst);
    SOFT_LIMIT.store(limit, SeqCst);
}

/// The memory limit of the session; 0 where there is none.
pub fn limit() -> u64 {
    LIMIT.load(SeqCst)
}

/// Lets this process use so many bytes more than the limit, or than it uses now where that is more. What was taken before is not added to: after
/// many refusals, memory that is far beyond the limit must still be refused.
pub fn take_reserve(bytes: u64) {
    let limit = LIMIT.load(SeqCst);
    let Some([soft, hard]) = own_limits() else {
        return;
    };
    if limit == 0 || soft != SOFT_LIMIT.load(SeqCst) {
        return;
    }
    let Some(sizes) = own_sizes() else {
        return;
    };
    MAX_USED.store(limit.max(sizes.used).saturating_add(bytes), SeqCst);
    set_soft(limit.max(sizes.data).saturating_add(bytes), hard);
}

/// Called when a call was refused for lack of memory. Returns 1 when the limit was raised, so that the call can be made again. The arguments are
/// those of `mmap`, `mprotect` or `mremap` from the second on.
pub extern "C" fn make_room(call: usize, length: u64, second: u64, flags: u64) -> i32 {
    let Some(wanted) = RefusedMapping::of(call, length, second, flags) else {
        return 0;
    };
    i32::from(raise_for(wanted).unwrap_or(false))
}

fn raise_for(wanted: RefusedMapping) -> Option<bool> {
    let most = MAX_USED.load(SeqCst);
    let [soft, hard] = own_limits()?;
    if most == 0 || soft != SOFT_LIMIT.load(SeqCst) {
        return None;
    }
    let needed = needed_limit(wanted, own_sizes()?, most)?;
    (needed > soft && needed <= hard).then(|| set_soft(needed, hard))
}

/// A mapping that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RefusedMapping {
    bytes: u64,
    /// The caller said that it only reserves the memory.
    is_reserved: bool,
}

impl RefusedMapping {
    /// What a call asks for. `None` where it asks for nothing that the limit counts.
    fn of(call: usize, length: u64, second: u64, flags: u64) -> Option<RefusedMapping> {
        const WRITE: u64 = 2;
        const KIND: u64 = 0xF;
        const PRIVATE: u64 = 2;
        const NO_RESERVE: u64 = 0x4000;
        let (bytes, is_reserved) = match call {
            nr::MMAP if second & WRITE != 0 && flags & KIND == PRIVATE => {
                (length, flags & NO_RESERVE != 0)
            }
            nr::MPROTECT if second & WRITE != 0 => (length, false),
            nr::MREMAP => (second.checked_sub(length)?, false),
            _ => return None,
        };
        Some(RefusedMapping {
            bytes: bytes.checked_next_multiple_of(page_bytes() as u64)?,
            is_reserved,
        })
    }
}

/// What is mapped and could be written, and what of it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    data: u64,
    used: u64,
}

impl Sizes {
    /// From `/proc/self/statm`: all, resident, resident and shared, code, 0, data and stack, 0, in pages.
    fn read(text: &[u8]) -> Option<Sizes> {
        let mut numbers = text.split(|byte| *byte == b' ').map(leading_number);
        let _all = numbers.next()?;
        let resident = numbers.next()??;
        let shared = numbers.next()??;
        let data = numbers.nth(2)??;
        let page = page_bytes() as u64;
        Some(Sizes {
            data: data * page,
            used: resident.saturating_sub(shared) * page,
        })
    }
}

/// The soft limit with which the mapping fits; `None` where it may not.
fn needed_limit(wanted: RefusedMapping, sizes: Sizes, most: u64) -> Option<u64> {
    let needed = sizes.data.checked_add(wanted.bytes)?;
    let uses = if wanted.is_reserved {
        sizes.used
    } else {
        sizes.used.checked_add(wanted.bytes)?
    };
    if uses > most {
        return None;
    }
    let slack = SLACK.min(most - uses);
    needed.checked_add(slack)
}

fn own_sizes() -> Option<Sizes> {
    let mut buffer = [0; 256];
    let text = read_file_at(AT_FDCWD, c"/proc/self/statm", &mut buffer).ok()?;
    Sizes::read(text)
}

fn own_limits() -> Option<[u64; 2]> {
    let mut pair = [0u64; 2];
    // SAFETY: `struct rlimit64` is two words; process 0 is the caller.
    unsafe { syscall(nr::PRLIMIT64, [0, DATA, 0, pair.as_mut_ptr() as usize]) }.ok()?;
    Some(pair)
}

fn set_soft(soft: u64, hard: u64) -> bool {
    let pair = [soft.min(hard), hard];
    // SAFETY: `struct rlimit64` is two words; process 0 is the caller.
    let outcome = unsafe { syscall(nr::PRLIMIT64, [0, DATA, pair.as_ptr() as usize, 0]) };
    if outcome.is_ok() {
        SOFT_LIMIT.store(pair[0], SeqCst);
    }
    outcome.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn wanted(mebibytes: u64) -> RefusedMapping {
        RefusedMapping {
            bytes: mebibytes * MIB,
            is_reserved: false,
        }
    }

    #[test]
    fn what_is_reserved_but_not_used_does_not_count() {
        let sizes = Sizes {
            data: 5000 * MIB,
            used: 100 * MIB,
        };
        assert_eq!(
            needed_limit(wanted(800), sizes, 1000 * MIB),
            Some(5816 * MIB)
        );
        assert_eq!(
            needed_limit(wanted(900), sizes, 1000 * MIB),
            Some(5900 * MIB)
        );
        assert_eq!(needed_limit(wanted(901), sizes, 1000 * MIB), None);
    }

    #[test]
    fn what_the_caller_only_reserves_may_be_larger_than_the_limit() {
        let sizes = Sizes {
            data: 100 * MIB,
            used: 100 * MIB,
        };
        let reserved = RefusedMapping {
            is_reserved: true,
            ..wanted(4096)
        };
        assert_eq!(needed_limit(reserved, sizes, 1000 * MIB), Some(4212 * MIB));
        assert_eq!(needed_limit(reserved, sizes, 99 * MIB), None);
        let endless = RefusedMapping {
            bytes: u64::MAX,
            ..reserved
        };
        assert_eq!(needed_limit(endless, sizes, 1000 * MIB), None);
    }

    #[test]
    fn only_private_memory_that_can_be_written_counts() {
        let of = |call, second, flags| RefusedMapping::of(call, 5000, second, flags);
        let counted = Some(RefusedMapping {
            bytes: 8192,
            is_reserved: false,
        });
        assert_eq!(of(nr::MMAP, 3, 0x22), counted);
        assert_eq!(of(nr::MPROTECT, 3, 0), counted);
        assert_eq!(of(nr::MREMAP, 13_000, 1), counted);
        for (call, second, flags) in [
            (nr::MMAP, 1, 0x22),
            (nr::MMAP, 3, 0x21),
            (nr::MPROTECT, 1, 0),
            (nr::MREMAP, 4000, 1),
            (nr::MUNMAP, 3, 0x22),
        ] {
            assert_eq!(of(call, second, flags), None, "{call} {second} {flags}");
        }
        assert!(of(nr::MMAP, 3, 0x4022).unwrap().is_reserved);
        assert_eq!(RefusedMapping::of(nr::MMAP, u64::MAX, 3, 0x22), None);
    }

    #[test]
    fn the_sizes_are_read_from_the_kernels_line() {
        let page = page_bytes() as u64;
        let sizes = Sizes::read(b"9000 300 100 2 0 4000 0\n");
        assert_eq!(
            sizes,
            Some(Sizes {
                data: 4000 * page,
                used: 200 * page
            })
        );
        assert_eq!(Sizes::read(b"9000 300"), None);
    }
}
