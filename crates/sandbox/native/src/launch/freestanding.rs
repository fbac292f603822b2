//! What the compiler expects a C library to bring. What copies and fills memory is in `arch`.

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    crate::sys::exit(101)
}

// The prebuilt `core` names these for unwinding, which never happens here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    crate::sys::exit(101)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    let mut index = 0;
    while index < count {
        // SAFETY: the caller vouches for both regions. Volatile, so that this does not become a call of itself.
        let (a, b) = unsafe {
            (
                one.add(index).read_volatile(),
                other.add(index).read_volatile(),
            )
        };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
        index += 1;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(one, other, count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: the caller vouches for a C string.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}
