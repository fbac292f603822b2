//! What in a session is the host's own, so that the disk guard does not take it for the code's.

use crate::processes::Processes;
use std::os::fd::RawFd;
use std::sync::Arc;

/// How many sockets of standbys that are not needed any more are remembered.
const MAX_EARLIER: usize = 256;

/// The processes and sockets that the host itself has made for a session: they must not be taken for the code's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    /// The head and its standbys, by their ids inside, the head first.
    pub(crate) processes: Vec<u32>,
    /// The spawner, by its id inside. It is among the processes too.
    pub(crate) spawner: Option<u32>,
    /// Sockets in which the host has put a descriptor, by their inodes.
    pub(crate) laid: Vec<u64>,
    /// The host's ends of sockets that the session may send descriptors to.
    pub(crate) ends: Vec<RawFd>,
    /// The processes that callers have started beside the head: they are told why they end.
    pub(crate) started: Option<Arc<Processes>>,
}

impl Own {
    /// The processes and sockets that are the host's from now on, after the `earlier` ones.
    ///
    /// A socket stays the host's: only the host can have put a descriptor into it. A standby that is not needed any more is killed, and on a busy
    /// machine it has its socket open for seconds after that, with the descriptor that the host has laid into it.
    pub(crate) fn after(mut self, earlier: &Own) -> Own {
        let mut laid = earlier.laid.clone();
        laid.retain(|socket| !self.laid.contains(socket));
        laid.drain(..laid.len().saturating_sub(MAX_EARLIER));
        laid.append(&mut self.laid);
        Own { laid, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_sockets(laid: impl IntoIterator<Item = u64>) -> Own {
        Own {
            laid: laid.into_iter().collect(),
            ..Own::default()
        }
    }

    #[test]
    fn the_socket_of_a_standby_that_was_dropped_is_still_the_hosts() {
        let before_undo = with_sockets([1, 2, 3]);
        let after_undo = with_sockets([1, 9]).after(&before_undo);
        assert_eq!(after_undo.laid, [2, 3, 1, 9]);
        assert_eq!(with_sockets([9]).after(&after_undo).laid, [2, 3, 1, 9]);
    }

    #[test]
    fn the_oldest_sockets_are_forgotten_and_none_that_is_in_use() {
        let many = with_sockets(0..1000);
        let after = with_sockets([0, 1000]).after(&many);
        assert_eq!(after.laid.len(), MAX_EARLIER + 2);
        assert_eq!(after.laid.first(), Some(&(1000 - MAX_EARLIER as u64)));
        assert_eq!(&after.laid[MAX_EARLIER..], [0, 1000]);
    }
}
