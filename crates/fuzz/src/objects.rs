//! Objects of the kernel that init counts: threads that ask for sockets, make them late, and close them.

use crate::choices::Choices;
use cellblock_native::init::watchdog::user_objects::{
    Census, Counted, MAX_NETLINK_SOCKETS, UserObjects,
};
use cellblock_native::sys::{Pid, nr};

/// More threads than calls may be under way.
const THREADS: usize = 100;

/// A session as the kernel knows it.
struct Kernel {
    /// Threads that were allowed a socket and have not made it.
    under_way: [bool; THREADS],
    /// Threads that are in no such call, but run.
    busy: [bool; THREADS],
    sockets: u64,
}

impl Census for Kernel {
    fn counted(&self) -> Counted {
        Counted {
            netlink_sockets: Some(self.sockets),
            ..Counted::default()
        }
    }

    fn may_be_in_call(&self, thread: Pid) -> bool {
        let thread = thread as usize;
        self.under_way[thread] || self.busy[thread]
    }
}

/// Whatever threads do and in which order, there are never more sockets than one session may have, those included that are about to be made.
pub(crate) fn objects(choices: &mut Choices<'_>) {
    let mut objects = UserObjects::default();
    let mut kernel = Kernel {
        under_way: [false; THREADS],
        busy: [false; THREADS],
        sockets: 0,
    };
    for _ in 0..400 {
        let thread = choices.below(THREADS);
        match choices.below(4) {
            0 | 1 if !kernel.under_way[thread] => {
                kernel.under_way[thread] = objects.allow(nr::SOCKET, thread as Pid, &kernel);
                kernel.busy[thread] = choices.one_in(3);
            }
            2 => kernel.sockets = kernel.sockets.saturating_sub(choices.below(20) as u64),
            _ => {
                kernel.sockets += u64::from(kernel.under_way[thread]);
                kernel.under_way[thread] = false;
            }
        }
        let under_way = kernel.under_way.iter().filter(|is| **is).count() as u64;
        assert!(
            kernel.sockets + under_way <= MAX_NETLINK_SOCKETS,
            "{} sockets, and {under_way} to come",
            kernel.sockets
        );
    }
}
