//! The head's standard output and error.

use cellblock_protocol::Stream;
use cellblock_sandbox::async_fd;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;

/// Both pipes, with the host's ends.
#[derive(Debug)]
pub(crate) struct Pipes {
    stdout: AsyncFd<OwnedFd>,
    stderr: AsyncFd<OwnedFd>,
    buffer: Box<[u8]>,
}

impl Pipes {
    /// Makes both; the second pair is for the head.
    pub(crate) fn new() -> io::Result<(Pipes, [OwnedFd; 2])> {
        let (stdout, out) = pipe()?;
        let (stderr, error) = pipe()?;
        let buffer = vec![0; 64 << 10].into_boxed_slice();
        Ok((
            Pipes {
                stdout: async_fd(stdout)?,
                stderr: async_fd(stderr)?,
                buffer,
            },
            [out, error],
        ))
    }

    /// Waits until one of them has something, and reads it.
    pub(crate) async fn read(&mut self) -> io::Result<(Stream, &[u8])> {
        loop {
            let (stream, mut guard) = tokio::select! {
                guard = self.stdout.readable() => (Stream::Stdout, guard?),
                guard = self.stderr.readable() => (Stream::Stderr, guard?),
            };
            match guard.try_io(|pipe| Ok(rustix::io::read(pipe.get_ref(), &mut *self.buffer)?)) {
                Ok(Ok(read)) if read > 0 => return Ok((stream, &self.buffer[..read])),
                // No process holds the other end: there will be nothing more. The process's end is told elsewhere.
                Ok(Ok(_)) => std::future::pending().await,
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }

    /// Reads what is in the pipes now, and no more: a stray child may go on writing for ever.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(Stream, &[u8])) {
        for (pipe, stream) in [
            (&self.stdout, Stream::Stdout),
            (&self.stderr, Stream::Stderr),
        ] {
            let mut left = rustix::io::ioctl_fionread(pipe.get_ref()).unwrap_or(0);
            while left > 0 {
                let wanted = usize::try_from(left)
                    .unwrap_or(usize::MAX)
                    .min(self.buffer.len());
                match rustix::io::read(pipe.get_ref(), &mut self.buffer[..wanted]) {
                    Ok(read) if read > 0 => {
                        take(stream, &self.buffer[..read]);
                        left = left.saturating_sub(read as u64);
                    }
                    _ => break,
                }
            }
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}
