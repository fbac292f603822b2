//! The channel of a standby. The channel of its successor is already in it: a standby that is woken finds it there, and passes it on to its copy.

use cellblock_sandbox::{send_bytes, stream_pair};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// The host's ends of both.
#[derive(Debug)]
pub(crate) struct StandbyChannel {
    pub(crate) channel: OwnedFd,
    /// The inode of the standby's end, in which a descriptor waits.
    pub(crate) far: u64,
    /// Only the newest standby's. There is none either where too many descriptors are open or on their way. Then no copy is made.
    pub(crate) successor: Option<Successor>,
}

/// The channel of a copy that a woken standby leaves.
#[derive(Debug)]
pub(crate) struct Successor {
    channel: OwnedFd,
    far: u64,
}

impl Successor {
    /// The inode of the copy's end.
    pub(crate) fn far(&self) -> u64 {
        self.far
    }
}

impl StandbyChannel {
    /// A new one, and the standby's end of it.
    pub(crate) fn new() -> io::Result<(StandbyChannel, OwnedFd)> {
        let (channel, far) = stream_pair().map_err(io::Error::other)?;
        let inode = inode_of(&far)?;
        Ok((
            StandbyChannel::along(Successor {
                channel,
                far: inode,
            })?,
            far,
        ))
    }

    /// Lays a successor's channel ready in one that a standby has.
    pub(crate) fn along(
        Successor {
            channel,
            far: inode,
        }: Successor,
    ) -> io::Result<StandbyChannel> {
        // A standby takes this byte before it reads a frame, whether anything comes with it or not.
        const ENVELOPE: &[u8] = &[0];
        let enclosed = stream_pair().ok().and_then(|(near, far)| {
            let inode = inode_of(&far).ok()?;
            let sent = send_bytes(&channel, ENVELOPE, Some(far.as_fd()));
            sent.ok().map(|_| Successor {
                channel: near,
                far: inode,
            })
        });
        if enclosed.is_none() {
            send_bytes(&channel, ENVELOPE, None)?;
        }
        Ok(StandbyChannel {
            channel,
            far: inode,
            successor: enclosed,
        })
    }
}

/// The inode of a socket: its number in `/proc/PID/fd`.
pub(crate) fn inode_of(socket: &OwnedFd) -> io::Result<u64> {
    Ok(rustix::fs::fstat(socket)?.st_ino)
}
