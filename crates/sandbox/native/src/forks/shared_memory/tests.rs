use super::*;
use crate::arch::page_bytes;
use crate::sys::Forked;

const READ_WRITE: usize = 3;
const READ: usize = 1;
const SHARED: usize = 1;
const ANONYMOUS: usize = 0x20;

fn map(pages: usize, protection: usize, file: Fd) -> usize {
    let flags = SHARED | if file < 0 { ANONYMOUS } else { 0 };
    let words = [0, pages * page_bytes(), protection, flags, file as usize, 0];
    // SAFETY: a fresh mapping.
    unsafe { syscall(nr::MMAP, words) }.unwrap()
}

fn memory_file(pages: usize) -> Fd {
    // SAFETY: the name is a C string.
    let file = unsafe { syscall(nr::MEMFD_CREATE, [c"test".as_ptr() as usize, 0]) }.unwrap() as Fd;
    sys::truncate(file, (pages * page_bytes()) as u64).unwrap();
    file
}

fn write(address: usize, page: usize, value: u8) {
    // SAFETY: a page of a map of this test.
    unsafe { ((address + page * page_bytes()) as *mut u8).write_volatile(value) };
}

fn first_bytes<const N: usize>(address: usize) -> [u8; N] {
    // SAFETY: pages of a map of this test.
    core::array::from_fn(|page| unsafe {
        ((address + page * page_bytes()) as *const u8).read_volatile()
    })
}

/// Does something in a process of its own, and says whether it came to the end: a process has one record of its shared memory.
fn in_a_process(work: impl FnOnce()) -> bool {
    // SAFETY: the child uses what it inherits, and ends.
    match unsafe { crate::sys::clone_process(0) }.unwrap() {
        Forked::Child => {
            sys::set_signal_mask(u64::MAX);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            sys::exit(i32::from(outcome.is_err()))
        }
        Forked::Parent(pid) => loop {
            if let Ok(Some(ended)) = sys::reap(pid, true) {
                return ended.status == 0;
            }
        },
    }
}

#[test]
fn pages_are_as_they_were_noted_and_what_held_nothing_holds_nothing() {
    assert!(in_a_process(|| {
        let own = map(1, READ_WRITE, -1);
        let memory = map(4, READ_WRITE, -1);
        write(own, 0, 1);
        write(memory, 1, 5);
        write(memory, 2, 6);
        assert_eq!(note(own, &[]), LeftOut::default());
        for page in 0..4 {
            write(memory, page, 9);
        }
        write(own, 0, 2);
        put_back(true);
        assert_eq!(first_bytes(memory), [0, 5, 6, 0]);
        assert_eq!(first_bytes(own), [2]);
        assert_eq!(lost().0, 0);
        // The second time pages of the shadow are there already.
        write(memory, 2, 7);
        note(own, &[]);
        write(memory, 2, 8);
        put_back(true);
        assert_eq!(first_bytes(memory), [0, 5, 7, 0]);
    }));
}

#[test]
fn memory_that_is_too_short_for_its_map_ends_no_process() {
    assert!(in_a_process(|| {
        let own = map(1, READ_WRITE, -1);
        let file = memory_file(3);
        let memory = map(3, READ_WRITE, file);
        write(memory, 2, 5);
        note(own, &[]);
        sys::truncate(file, page_bytes() as u64).unwrap();
        // No descriptor was named, so the size cannot be put back.
        put_back(true);
        assert_eq!(lost().0, page_bytes() as u64);
        note(own, &[]);
        write(memory, 0, 7);
        put_back(true);
        assert_eq!(first_bytes(memory), [0]);
    }));
}

#[test]
fn memory_that_is_mapped_to_be_read_alone_is_put_back() {
    assert!(in_a_process(|| {
        let own = map(1, READ_WRITE, -1);
        let file = memory_file(2);
        let memory = map(2, READ, file);
        sys::write_at(file, &[5], 0).unwrap();
        note(own, &[]);
        sys::write_at(file, &[6], 0).unwrap();
        sys::write_at(file, &[6], page_bytes() as u64).unwrap();
        put_back(true);
        assert_eq!((first_bytes(memory), lost().0), ([5, 0], 0));
    }));
}

#[test]
fn what_does_not_fit_is_left_out_as_a_whole() {
    assert!(in_a_process(|| {
        let own = map(1, READ_WRITE, -1);
        let small = map(1, READ_WRITE, -1);
        write(small, 0, 1);
        let pages = shadow::MAX_BYTES / page_bytes() + 1;
        let large = map(pages, READ_WRITE, -1);
        for page in 0..pages {
            write(large, page, 1);
        }
        assert_eq!(note(own, &[]).bytes, (pages * page_bytes()) as u64);
        write(small, 0, 2);
        write(large, 0, 2);
        put_back(true);
        assert_eq!((first_bytes(small), first_bytes(large)), ([1], [2]));
    }));
}
