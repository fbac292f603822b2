//! The request of the host for a fork, on its way from init to the init of that fork.

use crate::launch::spawn::Descriptors;
use crate::sys::{Errno, Fd, Result, receive, send};
use crate::wire::message::{Message, between_inits};

/// The longest request for a fork.
pub const MAX_FORK_REQUEST_BYTES: usize = 16 << 10;

/// What init tells the init of a fork: build the session of this request.
pub struct BuildRequest<'a> {
    /// The process number that the parent session gave last.
    pub last_process: u64,
    /// The request, as the host sent it.
    pub bytes: &'a [u8],
}

/// The longest one.
pub const MAX_BUILD_REQUEST_BYTES: usize = Message::SIZE + MAX_FORK_REQUEST_BYTES;

impl BuildRequest<'_> {
    /// Sends it, with the descriptors that are for the new init.
    pub fn send(&self, socket: Fd, taken: &Descriptors) -> Result<()> {
        let (mut sent, mut count, mut present) = ([-1; INIT_DESCRIPTORS], 0, 0);
        for (index, fd) in for_init(taken).chain(taken.cgroups).enumerate() {
            if fd >= 0 {
                sent[count] = fd;
                count += 1;
                present |= 1 << index;
            }
        }
        let message = Message {
            kind: between_inits::BUILD,
            a: self.last_process,
            b: present,
            ..Message::default()
        };
        let mut bytes = [0; MAX_BUILD_REQUEST_BYTES];
        let all = bytes
            .get_mut(..Message::SIZE + self.bytes.len())
            .ok_or(Errno::INVAL)?;
        all[..Message::SIZE].copy_from_slice(&message.to_bytes());
        all[Message::SIZE..].copy_from_slice(self.bytes);
        send(socket, all, &sent[..count])
    }

    /// Receives it in the new init.
    pub fn receive(
        socket: Fd,
        bytes: &mut [u8; MAX_BUILD_REQUEST_BYTES],
    ) -> Result<(BuildRequest<'_>, Descriptors)> {
        let received = receive(socket, bytes)?;
        let (message, request) = Message::from_bytes(&bytes[..received.bytes])?;
        if message.kind != between_inits::BUILD {
            return Err(Errno::PROTO);
        }
        let mut came = received.descriptors[..received.count].iter().copied();
        let mut all = [-1; INIT_DESCRIPTORS];
        for (index, slot) in all.iter_mut().enumerate() {
            if message.b & 1 << index != 0 {
                *slot = came.next().ok_or(Errno::PROTO)?;
            }
        }
        let [control, workspace, change_socket, cgroups @ ..] = all;
        let taken = Descriptors {
            control,
            channel: -1,
            output: -1,
            error: -1,
            workspace,
            change_socket,
            cgroups,
        };
        let request = BuildRequest {
            last_process: message.a,
            bytes: request,
        };
        Ok((request, taken))
    }
}

/// How many descriptors of a request the init of a fork has: [`for_init`], and the cgroups.
const INIT_DESCRIPTORS: usize = 6;

/// The descriptors of a request that only the init of the fork needs; -1 stands for none.
pub fn for_init(taken: &Descriptors) -> impl Iterator<Item = Fd> {
    [taken.control, taken.workspace, taken.change_socket].into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{close, packet_pair};

    #[test]
    fn a_request_arrives_with_the_descriptors_that_are_for_the_new_init() {
        let (near, far) = packet_pair().unwrap();
        let (control, workspace) = packet_pair().unwrap();
        let (cgroup, other) = packet_pair().unwrap();
        let taken = Descriptors {
            control,
            channel: other,
            output: other,
            error: other,
            workspace,
            change_socket: -1,
            cgroups: [-1, cgroup, -1],
        };
        let request = BuildRequest {
            last_process: 4711,
            bytes: b"a request",
        };
        request.send(near, &taken).unwrap();
        let mut bytes = [0; MAX_BUILD_REQUEST_BYTES];
        let (received, came) = BuildRequest::receive(far, &mut bytes).unwrap();
        assert_eq!(
            (received.last_process, received.bytes),
            (4711, &b"a request"[..])
        );
        let object = |fd: Fd| std::fs::read_link(std::format!("/proc/self/fd/{fd}")).unwrap();
        let is_same = |one, other| object(one) == object(other);
        assert!(is_same(came.control, control) && is_same(came.workspace, workspace));
        assert!(is_same(came.cgroups[1], cgroup));
        assert_eq!(
            [
                came.channel,
                came.change_socket,
                came.cgroups[0],
                came.cgroups[2]
            ],
            [-1; 4]
        );
        for fd in [near, far, control, workspace, cgroup, other] {
            close(fd);
        }
        for fd in [came.control, came.workspace, came.cgroups[1]] {
            close(fd);
        }
    }

    #[test]
    fn a_request_that_is_too_long_is_refused() {
        let (near, far) = packet_pair().unwrap();
        let taken = Descriptors {
            control: -1,
            channel: -1,
            output: -1,
            error: -1,
            workspace: -1,
            change_socket: -1,
            cgroups: [-1; 3],
        };
        let request = BuildRequest {
            last_process: 0,
            bytes: &[0; MAX_FORK_REQUEST_BYTES + 1],
        };
        assert_eq!(request.send(near, &taken), Err(Errno::INVAL));
        close(near);
        close(far);
    }
}
