//! The entry point when this shared object is executed.
//!
//! No loader relocates it then, so it does that itself before anything else. The first instructions are in `arch`.

use crate::arch::RELATIVE_RELOCATION;
use crate::launch::launcher;
use crate::walls::probe;

/// `stack` is what the kernel left: the count of arguments, then pointers to them.
pub(crate) unsafe extern "C" fn start(
    stack: *const usize,
    dynamic: *const [usize; 2],
    base: usize,
) -> ! {
    // SAFETY: the linker's own table at the address where the kernel loaded us.
    unsafe { relocate(dynamic, base) };
    // SAFETY: the count comes first.
    let arguments = unsafe { *stack };
    if arguments > 1 {
        probe::run()
    } else {
        launcher::run()
    }
}

/// Adds the base to every address in the image. The linker makes no other kind of relocation for this object.
#[inline(always)]
unsafe fn relocate(mut dynamic: *const [usize; 2], base: usize) {
    const RELA: usize = 7;
    const RELA_SIZE: usize = 8;
    let (mut table, mut size) = (0, 0);
    // SAFETY: the table ends with a zero tag; its entries are `offset, info, addend` within the image.
    unsafe {
        loop {
            let [tag, value] = *dynamic;
            if tag == 0 {
                break;
            } else if tag == RELA {
                table = base + value;
            } else if tag == RELA_SIZE {
                size = value;
            }
            dynamic = dynamic.add(1);
        }
        let mut entry = table as *const [usize; 3];
        let end = (table + size) as *const [usize; 3];
        while entry < end {
            let [offset, info, addend] = *entry;
            if info & 0xFFFF_FFFF == RELATIVE_RELOCATION {
                ((base + offset) as *mut usize).write_volatile(base.wrapping_add(addend));
            }
            entry = entry.add(1);
        }
    }
}
