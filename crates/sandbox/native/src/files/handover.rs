//! Gives a descriptor of init's to a caller that waits in a system call, as what its call returns.
//!
//! The kernel adds a descriptor and answers in one step. But if init is stopped in the middle of it, the caller is told 0 and has no descriptor; and an
//! init that has others above it is stopped for a moment whenever one of these sweeps. That init takes two steps, each of which begins again when
//! it goes on.
//!
//! Between the two, a signal may make the caller ask once more, with a descriptor that it knows nothing of. The one that it is given then
//! takes its place. Only where the signal comes just as the call is answered, init cannot tell, and the descriptor stays open in the caller.

use crate::init::notify::{self, Listener, Notification, OnExecute};
use crate::sys::{Errno, Fd, Result};

/// How an init hands descriptors over.
pub struct Handover {
    can_be_stopped: bool,
    undelivered: Option<UndeliveredDescriptor>,
}

/// A descriptor in the table of a caller that was not told of it.
struct UndeliveredDescriptor {
    notification: Notification,
    number: Fd,
}

impl Handover {
    /// That of an init which can be stopped by one above it, or not.
    pub fn of(can_be_stopped: bool) -> Handover {
        Handover {
            can_be_stopped,
            undelivered: None,
        }
    }

    /// Gives the caller a descriptor of ours, at the lowest free number of its table.
    pub fn give(
        &mut self,
        listener: Listener,
        notification: &Notification,
        descriptor: Fd,
        on_execute: OnExecute,
    ) -> Result<()> {
        if !self.can_be_stopped {
            match notify::add_and_answer(listener, notification, descriptor, on_execute) {
                // Before Linux 5.14 these are two steps.
                Err(Errno::INVAL) => {}
                outcome => return outcome,
            }
        }
        let undelivered = self.undelivered.as_ref();
        let undelivered =
            undelivered.filter(|undelivered| undelivered.notification.is_repeated_by(notification));
        let number = match undelivered {
            Some(UndeliveredDescriptor { number, .. }) => {
                notify::give(listener, notification, descriptor, *number, on_execute)
                    .map(|()| *number)
            }
            None => notify::add(listener, notification, descriptor, on_execute),
        }?;
        let notification = *notification;
        self.undelivered = Some(UndeliveredDescriptor {
            notification,
            number,
        });
        notify::return_value(listener, notification.id(), i64::from(number)).inspect(|()| {
            self.undelivered = None;
        })
    }
}
