//! The channel of a standby, in which that of its successor lies ready: who is woken finds it there, and leaves it to a copy of himself.

use cellblock_sandbox::{send_bytes, stream_pair};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// The host's ends of both.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) channel: OwnedFd,
    /// Only the newest standby's. There is none either where too many descriptors are open or on their way. Then no copy is made.
    pub(crate) successor: Option<OwnedFd>,
}

impl Line {
    /// A new one, and the standby's end of it.
    pub(crate) fn new() -> io::Result<(Line, OwnedFd)> {
        let (near, far) = stream_pair().map_err(io::Error::other)?;
        Ok((Line::along(near)?, far))
    }

    /// Lays a successor's channel ready in one that a standby has.
    pub(crate) fn along(channel: OwnedFd) -> io::Result<Line> {
        // A standby takes this byte before it reads a frame, whether anything comes with it or not.
        const ENVELOPE: &[u8] = &[0];
        let enclosed = stream_pair().ok().and_then(|(near, far)| {
            let sent = send_bytes(&channel, ENVELOPE, Some(far.as_fd()));
            sent.ok().map(|_| near)
        });
        if enclosed.is_none() {
            send_bytes(&channel, ENVELOPE, None)?;
        }
        Ok(Line {
            channel,
            successor: enclosed,
        })
    }
}
