//! The process ids that asyncio has noted for the loops that run, in a copy of their process.
//!
//! Before Python 3.12, asyncio takes a loop for running only in the process that started it, and keeps the id of that process in an object of
//! each thread that only C can change. In a copy of the process the ids must be the copy's before any of its threads runs. So native code finds
//! the objects before the process is copied, while the caller holds the interpreter's lock: no thread can make or free one until then.

use crate::forks::threads::MAX_THREADS;
use crate::sys::{Pid, own_pid};
use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

type Object = *mut c_void;

/// Functions of Python that lead to what each thread keeps, and the name under which asyncio keeps its object there.
#[repr(C)]
pub struct PythonThreads {
    interpreter: unsafe extern "C" fn() -> *mut c_void,
    first_thread: unsafe extern "C" fn(interpreter: *mut c_void) -> *mut c_void,
    next_thread: unsafe extern "C" fn(thread: *mut c_void) -> *mut c_void,
    dictionary: unsafe extern "C" fn(thread: *mut c_void) -> Object,
    item: unsafe extern "C" fn(dictionary: Object, key: Object) -> Object,
    key: Object,
}

static PYTHON: AtomicPtr<PythonThreads> = AtomicPtr::new(null_mut());
/// Where the ids are, of every thread that there can be.
static PLACES: [AtomicUsize; MAX_THREADS + 1] = [const { AtomicUsize::new(0) }; MAX_THREADS + 1];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Tells how to find the objects. Without this, nothing is noted.
///
/// # Safety
/// The functions must be those of the interpreter of this process, and stay where they are.
pub unsafe fn remember_python(python: *mut PythonThreads) {
    PYTHON.store(python, SeqCst);
}

/// Before a copy is made: finds every place where this process is noted.
///
/// # Safety
/// The caller must hold the interpreter's lock, and keep it until the copy is made.
pub unsafe fn note() {
    COUNT.store(0, SeqCst);
    // SAFETY: what `remember_python` was given, or null.
    let Some(python) = (unsafe { PYTHON.load(SeqCst).as_ref() }) else {
        return;
    };
    let own = own_pid();
    let mut count = 0;
    // SAFETY: the caller holds the interpreter's lock, so its threads and what they keep stay as they are.
    unsafe {
        let mut thread = (python.first_thread)((python.interpreter)());
        while !thread.is_null() {
            let dictionary = (python.dictionary)(thread);
            if !dictionary.is_null()
                && let Some(place) = place_of_id((python.item)(dictionary, python.key))
                && *place == own
                && count < PLACES.len()
            {
                PLACES[count].store(place as usize, SeqCst);
                count += 1;
            }
            thread = (python.next_thread)(thread);
        }
    }
    COUNT.store(count, SeqCst);
}

/// In the copy, before it has other threads: it is the process that is noted.
pub fn renew() {
    let own = own_pid();
    for place in &PLACES[..COUNT.load(SeqCst)] {
        // SAFETY: a place that was found before this process was copied. No code of Python has run in the copy yet.
        unsafe { (place.load(SeqCst) as *mut Pid).write(own) };
    }
}

/// Where an object of asyncio has the process id: behind its head and the loop. `None` for any other object.
unsafe fn place_of_id(object: Object) -> Option<*mut Pid> {
    const TYPE: usize = 8;
    const NAME_OF_TYPE: usize = 24;
    const PROCESS_ID: usize = 24;
    if object.is_null() {
        return None;
    }
    // SAFETY: every object has its type there, and every type its name.
    let name = unsafe {
        let kind = *object.byte_add(TYPE).cast::<*const c_void>();
        CStr::from_ptr(*kind.byte_add(NAME_OF_TYPE).cast::<*const c_char>())
    };
    // SAFETY: an object of that type has room for the id.
    (name == c"_RunningLoopHolder").then(|| unsafe { object.byte_add(PROCESS_ID) }.cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Holder {
        references: usize,
        kind: *const PythonType,
        running: usize,
        process: Pid,
    }

    #[repr(C)]
    struct PythonType {
        head: [usize; 3],
        name: *const c_char,
    }

    fn process_in(name: &'static CStr) -> Option<Pid> {
        let kind = PythonType {
            head: [0; 3],
            name: name.as_ptr(),
        };
        let mut holder = Holder {
            references: 1,
            kind: &raw const kind,
            running: 0,
            process: 77,
        };
        // SAFETY: an object as Python lays it out, and its type.
        unsafe { place_of_id((&raw mut holder).cast()).map(|place| *place) }
    }

    #[test]
    fn only_asyncio_s_own_object_has_a_process_id() {
        assert_eq!(process_in(c"_RunningLoopHolder"), Some(77));
        assert_eq!(process_in(c"_UnixSelectorEventLoop"), None);
        // SAFETY: nothing is read.
        assert_eq!(unsafe { place_of_id(null_mut()) }, None);
    }
}
