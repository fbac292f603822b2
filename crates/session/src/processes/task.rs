//! The task that looks after one process: it reads what the process writes, hears of its end, and holds it to its time.

use super::output::ProcessOutput;
use super::process::ProcessState;
use cellblock_protocol::{ProcessEnd, ProcessStatus, ProcessStream};
use cellblock_sandbox::{Exit, FromSpawner};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

/// How long after the end of a process its output is waited for, where something that it started still holds it open.
const OUTPUT_GRACE: Duration = Duration::from_millis(200);

/// One stream of a process, as the host reads it.
pub(super) struct OutputStream {
    pub(super) stream: ProcessStream,
    pub(super) end: Arc<AsyncFd<OwnedFd>>,
}

/// What the task works on.
pub(super) struct ProcessTask {
    pub(super) state: Arc<ProcessState>,
    pub(super) streams: Vec<OutputStream>,
    pub(super) timeout: Option<Duration>,
}

/// What came next.
enum TaskEvent {
    /// From the supervisor; an error when it is gone.
    Status(io::Result<FromSpawner>),
    /// The stream at this place has something, or its end.
    Readable(usize),
    /// A moment that was waited for.
    Time,
}

impl ProcessTask {
    /// Runs until nothing of the process is left, nor of what it started.
    pub(super) async fn run(mut self) {
        let far_future = Duration::from_secs(365 * 24 * 3600);
        let mut deadline = Instant::now() + self.timeout.unwrap_or(far_future);
        let mut ended: Option<EndedProcess> = None;
        let mut buffer = vec![0; 64 << 10];
        loop {
            if let Some(ended) = &ended
                && (self.streams.is_empty() || ended.is_due())
            {
                self.tell_end(ended.end);
            }
            let wake_up = match &ended {
                Some(ended) if self.state.output.ended().is_none() => ended.until,
                Some(_) => Instant::now() + far_future,
                None => deadline,
            };
            match self.next(wake_up).await {
                TaskEvent::Status(Ok(FromSpawner::Ended {
                    exit,
                    cpu,
                    peak_bytes,
                })) => {
                    ended = Some(EndedProcess {
                        end: self.judge(exit, cpu, peak_bytes),
                        until: Instant::now() + OUTPUT_GRACE,
                        unread: self.unread(),
                    });
                }
                TaskEvent::Status(Ok(_)) => {}
                TaskEvent::Status(Err(_)) => break,
                TaskEvent::Readable(index) => {
                    let output = &self.state.output;
                    let most = match output.ended() {
                        // Nothing more is told, but a process in the background must be able to write on.
                        Some(_) => u64::MAX,
                        None => output.room(),
                    };
                    let read = self.read(index, &mut buffer, most);
                    if let Some(ended) = &mut ended {
                        ended.unread = ended.unread.saturating_sub(read);
                    }
                }
                TaskEvent::Time if ended.is_none() => {
                    // Once: what does not end now, does not end by asking again.
                    deadline = Instant::now() + far_future;
                    self.state.request_end(ProcessStatus::Timeout).await;
                }
                TaskEvent::Time => {}
            }
        }
        // The supervisor is gone, and with it everything below. What is in the pipes is all that there is.
        let end = ended.map_or_else(
            || self.judge(Exit::Signal(9), Duration::ZERO, 0),
            |ended| ended.end,
        );
        self.drain(&mut buffer);
        self.tell_end(end);
        self.state.input.lock().take();
        self.state.is_gone.send_replace(true);
    }

    async fn next(&self, wake_up: Instant) -> TaskEvent {
        let output = &self.state.output;
        let readable = async {
            if output.ended().is_none() && output.room() == 0 {
                output.wait_for_room().await;
            }
            match &self.streams[..] {
                [one] => ready(one, 0).await,
                [one, other] => tokio::select! {
                    index = ready(one, 0) => index,
                    index = ready(other, 1) => index,
                },
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            packet = self.state.status.receive() => TaskEvent::Status(packet.and_then(|packet| {
                FromSpawner::from_bytes(&packet.bytes).map_err(io::Error::other)
            })),
            index = readable => TaskEvent::Readable(index),
            () = sleep_until(wake_up) => TaskEvent::Time,
        }
    }

    /// Reads once from a stream, at most so many bytes. A stream that is at its end goes.
    fn read(&mut self, index: usize, buffer: &mut [u8], most: u64) -> u64 {
        let most = most.min(buffer.len() as u64) as usize;
        if most == 0 {
            return 0;
        }
        let output = &self.state.output;
        let OutputStream { stream, end } = &self.streams[index];
        match read_now(end, &mut buffer[..most]) {
            Ok(0) => {
                self.streams.remove(index);
                0
            }
            Ok(read) => {
                output.write(*stream, &buffer[..read]);
                read as u64
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            // A terminal that no process has open any more.
            Err(_) => {
                self.streams.remove(index);
                0
            }
        }
    }

    /// Reads what is left in the pipes, also beyond what is held otherwise: no more can come, and a reader that has stopped reading must
    /// not keep those waiting who wait for the end.
    fn drain(&mut self, buffer: &mut [u8]) {
        let mut left = self.unread();
        while left > 0 && !self.streams.is_empty() && self.state.output.ended().is_none() {
            let before = self.streams.len();
            let read = self.read(0, buffer, left);
            left = left.saturating_sub(read);
            if read == 0 && self.streams.len() == before {
                // Nothing is in this one.
                self.streams.remove(0);
            }
        }
    }

    /// How many bytes wait to be read.
    fn unread(&self) -> u64 {
        let waiting = |stream: &OutputStream| rustix::io::ioctl_fionread(stream.end.get_ref());
        self.streams
            .iter()
            .map(|stream| waiting(stream).unwrap_or(0))
            .sum()
    }

    fn judge(&self, exit: Exit, cpu: Duration, peak_bytes: u64) -> ProcessEnd {
        let reason = self.state.reason.lock();
        let reason = *reason.unwrap_or_else(PoisonError::into_inner);
        let (exit_code, signal) = match exit {
            Exit::Code(code) => (Some(code), None),
            Exit::Signal(signal) => (None, Some(signal)),
        };
        let by_itself = if exit_code.is_some() {
            ProcessStatus::Exited
        } else {
            ProcessStatus::Signaled
        };
        ProcessEnd {
            exit_code,
            signal,
            // A process that ended by itself just before is not the work of the host.
            status: reason.filter(|_| signal == Some(9)).unwrap_or(by_itself),
            cpu,
            peak_bytes,
        }
    }

    fn tell_end(&self, end: ProcessEnd) {
        let output: &ProcessOutput = &self.state.output;
        if output.ended().is_none() {
            output.end(end);
        }
    }
}

/// A process that has ended, and whose output may not.
struct EndedProcess {
    end: ProcessEnd,
    /// Until when its output is waited for.
    until: Instant,
    /// Bytes that it had written and that were not read when it ended.
    unread: u64,
}

impl EndedProcess {
    fn is_due(&self) -> bool {
        self.unread == 0 && Instant::now() >= self.until
    }
}

async fn ready(stream: &OutputStream, index: usize) -> usize {
    // An error is seen when the stream is read.
    let _ = stream
        .end
        .readable()
        .await
        .map(|mut guard| guard.retain_ready());
    index
}

/// Reads without waiting. Where nothing is there, readiness is asked for anew.
fn read_now(end: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<usize> {
    let read = end.try_io(Interest::READABLE, |end| {
        Ok(rustix::io::read(end, &mut *buffer)?)
    });
    match read {
        // It may be that the runtime has not heard of the bytes yet. Those of a process that is gone would be lost.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Ok(rustix::io::read(end.get_ref(), buffer)?)
        }
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};

    // One thread, and nothing is awaited: the runtime has no chance to hear of the bytes.
    #[tokio::test(flavor = "current_thread")]
    async fn bytes_are_read_that_the_runtime_has_not_heard_of() {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (reader, writer) = pipe_with(flags).expect("a pipe");
        let end = cellblock_sandbox::async_fd(reader).expect("a runtime");
        let mut buffer = [0; 16];
        let empty = read_now(&end, &mut buffer).expect_err("nothing is there");
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        rustix::io::write(&writer, b"out").expect("room");
        assert_eq!(read_now(&end, &mut buffer).expect("three bytes"), 3);
    }
}
