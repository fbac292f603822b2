//! Connections at the port of a server. A connection that was accepted keeps the port in use, also when the server is closed. The kernel gives the
//! port to a new server only if all sockets at it have `SO_REUSEADDR`.

use super::options::{REUSE_ADDRESS, number, set_number};
use crate::sys::Fd;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

static DESCRIPTORS: AtomicPtr<Fd> = AtomicPtr::new(null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes the sockets that can be such connections. The memory stays as it is, as for [`super::remember`].
pub(super) fn remember(descriptors: &mut [Fd]) {
    DESCRIPTORS.store(descriptors.as_mut_ptr(), SeqCst);
    COUNT.store(descriptors.len(), SeqCst);
}

/// The connections of this process, while servers get their ports again.
pub(super) struct Connections(&'static mut [Fd]);

impl Connections {
    /// The descriptor of a socket that has the option anyway, or is none any more.
    const UNCHANGED: Fd = -1;

    /// Sets `SO_REUSEADDR` where it is not set.
    pub(super) fn with_shared_ports() -> Connections {
        let descriptors: &'static mut [Fd] = match COUNT.load(SeqCst) {
            0 => &mut [],
            // SAFETY: what `remember` was given; the process has one thread that is here.
            count => unsafe { core::slice::from_raw_parts_mut(DESCRIPTORS.load(SeqCst), count) },
        };
        for descriptor in descriptors.iter_mut() {
            let is_unset = number(*descriptor, REUSE_ADDRESS) == Ok(0);
            if !is_unset || set_number(*descriptor, REUSE_ADDRESS, 1).is_err() {
                *descriptor = Connections::UNCHANGED;
            }
        }
        Connections(descriptors)
    }

    /// The option is again what it was.
    pub(super) fn restore(self) {
        for descriptor in self
            .0
            .iter()
            .filter(|each| **each != Connections::UNCHANGED)
        {
            let _ = set_number(*descriptor, REUSE_ADDRESS, 0);
        }
    }
}
