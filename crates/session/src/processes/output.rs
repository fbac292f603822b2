//! What a process wrote: the newest bytes, in the order in which they came, for any number of readers.

use cellblock_protocol::{ProcessEnd, ProcessStream};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Most bytes of one process that are held.
pub(crate) const MAX_KEPT_BYTES: u64 = 1 << 20;
/// Most pieces that are held: a process that writes single bytes to two streams by turns makes many.
const MAX_PIECES: usize = 4096;
/// Most bytes of one piece, and so of one event.
const MAX_PIECE_BYTES: usize = 64 << 10;

/// Something that a process wrote, or its end.
#[derive(Clone, Debug, PartialEq)]
pub enum ProcessEvent {
    /// The process wrote something.
    Output {
        /// To which stream.
        stream: ProcessStream,
        /// How many bytes it had written before, to all its streams.
        offset: u64,
        /// What it wrote.
        bytes: Vec<u8>,
    },
    /// So many bytes are not there any more: more than the host holds was written while there was no reader.
    Dropped {
        /// How many.
        bytes: u64,
    },
    /// The process ended. It is the last event.
    End(ProcessEnd),
}

/// The output of one process.
#[derive(Debug, Default)]
pub(crate) struct ProcessOutput {
    kept: Mutex<KeptOutput>,
    /// Wakes readers: there is more, or the process ended.
    news: Notify,
    /// Wakes the writer: a reader has taken something.
    room: Notify,
}

#[derive(Debug, Default)]
struct KeptOutput {
    pieces: VecDeque<Piece>,
    /// The offsets of the first byte that is held, and of the next one that will be written.
    start: u64,
    end: u64,
    /// Up to where each reader has read.
    readers: BTreeMap<u64, u64>,
    next_reader: u64,
    ended: Option<ProcessEnd>,
}

#[derive(Debug)]
struct Piece {
    stream: ProcessStream,
    offset: u64,
    bytes: Vec<u8>,
}

impl ProcessOutput {
    /// How many bytes may be written now. While there is a reader, nothing that it has not read is dropped for what comes.
    pub(crate) fn room(&self) -> u64 {
        let kept = self.lock();
        match kept.readers.values().min() {
            Some(_) if kept.pieces.len() >= MAX_PIECES => {
                // The slowest reader may have read the oldest pieces.
                if kept.unread_pieces() >= MAX_PIECES {
                    0
                } else {
                    MAX_PIECE_BYTES as u64
                }
            }
            Some(slowest) => MAX_KEPT_BYTES.saturating_sub(kept.end - slowest.max(&kept.start)),
            None => MAX_KEPT_BYTES,
        }
    }

    /// Returns when a reader has read something, or is gone.
    pub(crate) async fn wait_for_room(&self) {
        let room = self.room.notified();
        if self.room() == 0 {
            room.await;
        }
    }

    /// Takes what the process wrote.
    pub(crate) fn write(&self, stream: ProcessStream, bytes: &[u8]) {
        let mut kept = self.lock();
        if kept.ended.is_some() {
            return;
        }
        for bytes in bytes.chunks(MAX_PIECE_BYTES) {
            kept.add(stream, bytes);
        }
        kept.drop_oldest();
        drop(kept);
        self.news.notify_waiters();
    }

    /// The process ended: there will be no more.
    pub(crate) fn end(&self, end: ProcessEnd) {
        self.lock().ended.get_or_insert(end);
        self.news.notify_waiters();
        self.room.notify_waiters();
    }

    /// How the process ended, once its end was told.
    pub(crate) fn ended(&self) -> Option<ProcessEnd> {
        self.lock().ended
    }

    /// Returns when the end was told.
    pub(crate) async fn wait(&self) -> ProcessEnd {
        loop {
            let news = self.news.notified();
            if let Some(end) = self.ended() {
                return end;
            }
            news.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, KeptOutput> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptOutput {
    fn add(&mut self, stream: ProcessStream, bytes: &[u8]) {
        let offset = self.end;
        self.end += bytes.len() as u64;
        if let Some(last) = self.pieces.back_mut()
            && last.stream == stream
            && last.bytes.len() + bytes.len() <= MAX_PIECE_BYTES
        {
            return last.bytes.extend_from_slice(bytes);
        }
        self.pieces.push_back(Piece {
            stream,
            offset,
            bytes: bytes.to_vec(),
        });
    }

    /// Drops what is too much, whole pieces at a time. A piece that a reader has not read to its end stays: [`ProcessOutput::room`] bounds how
    /// much comes after it.
    fn drop_oldest(&mut self) {
        let slowest = self.readers.values().min().copied().unwrap_or(u64::MAX);
        while self.end - self.start > MAX_KEPT_BYTES || self.pieces.len() > MAX_PIECES {
            let is_read = |piece: &Piece| piece.offset + piece.bytes.len() as u64 <= slowest;
            if !self.pieces.front().is_some_and(is_read) {
                return;
            }
            let Some(oldest) = self.pieces.pop_front() else {
                return;
            };
            self.start = oldest.offset + oldest.bytes.len() as u64;
        }
    }

    fn unread_pieces(&self) -> usize {
        let slowest = self.readers.values().min().copied().unwrap_or(self.end);
        let is_read = |piece: &Piece| piece.offset + piece.bytes.len() as u64 <= slowest;
        self.pieces.len() - self.pieces.partition_point(is_read)
    }

    /// The next event for a reader that has read up to `at`.
    fn next(&self, at: u64) -> Option<ProcessEvent> {
        if at < self.start {
            let bytes = self.start - at;
            return Some(ProcessEvent::Dropped { bytes });
        }
        let index = self
            .pieces
            .partition_point(|piece| piece.offset + piece.bytes.len() as u64 <= at);
        match self.pieces.get(index) {
            Some(piece) => Some(ProcessEvent::Output {
                stream: piece.stream,
                offset: at,
                bytes: piece.bytes[(at - piece.offset) as usize..].to_vec(),
            }),
            None => self.ended.map(ProcessEvent::End),
        }
    }
}

/// A reader of what a process writes. While it is there, the process waits for it when it has written more than the host holds.
#[derive(Debug)]
pub struct ProcessEvents {
    output: Arc<ProcessOutput>,
    reader: u64,
    is_over: bool,
}

impl ProcessEvents {
    /// A reader from the byte `after` on.
    pub(crate) fn new(output: Arc<ProcessOutput>, after: u64) -> ProcessEvents {
        let reader = {
            let mut kept = output.lock();
            let reader = kept.next_reader;
            kept.next_reader += 1;
            let after = after.min(kept.end);
            kept.readers.insert(reader, after);
            reader
        };
        ProcessEvents {
            output,
            reader,
            is_over: false,
        }
    }

    /// The next event; `None` after the end. A wait that is dropped loses nothing.
    pub async fn next(&mut self) -> Option<ProcessEvent> {
        loop {
            let output = Arc::clone(&self.output);
            let news = output.news.notified();
            if let Some(event) = self.take() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            news.await;
        }
    }

    fn take(&mut self) -> Option<ProcessEvent> {
        if self.is_over {
            return None;
        }
        let event = {
            let mut kept = self.output.lock();
            let at = kept.readers.get(&self.reader).copied().unwrap_or(0);
            let event = kept.next(at)?;
            let read = match &event {
                ProcessEvent::Output { bytes, .. } => bytes.len() as u64,
                ProcessEvent::Dropped { bytes } => *bytes,
                ProcessEvent::End(_) => {
                    self.is_over = true;
                    0
                }
            };
            kept.readers.insert(self.reader, at + read);
            event
        };
        self.output.room.notify_waiters();
        Some(event)
    }
}

impl Drop for ProcessEvents {
    fn drop(&mut self) {
        self.output.lock().readers.remove(&self.reader);
        self.output.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProcessStream::{Stderr, Stdout};

    fn output(stream: ProcessStream, offset: u64, bytes: &[u8]) -> ProcessEvent {
        ProcessEvent::Output {
            stream,
            offset,
            bytes: bytes.to_vec(),
        }
    }

    #[tokio::test]
    async fn readers_get_everything_in_order_and_can_begin_again_in_the_middle() {
        let kept = Arc::new(ProcessOutput::default());
        kept.write(Stdout, b"one ");
        kept.write(Stderr, b"two ");
        kept.write(Stdout, b"three");
        let mut all = ProcessEvents::new(Arc::clone(&kept), 0);
        let mut rest = ProcessEvents::new(Arc::clone(&kept), 6);
        assert_eq!(all.next().await, Some(output(Stdout, 0, b"one ")));
        assert_eq!(all.next().await, Some(output(Stderr, 4, b"two ")));
        assert_eq!(all.next().await, Some(output(Stdout, 8, b"three")));
        assert_eq!(rest.next().await, Some(output(Stderr, 6, b"o ")));
        assert_eq!(rest.next().await, Some(output(Stdout, 8, b"three")));
    }

    #[tokio::test]
    async fn without_a_reader_the_oldest_bytes_go_and_are_counted() {
        let kept = Arc::new(ProcessOutput::default());
        let megabyte = vec![b'x'; MAX_KEPT_BYTES as usize];
        kept.write(Stdout, b"first");
        kept.write(Stdout, &megabyte);
        assert_eq!(kept.room(), MAX_KEPT_BYTES);
        let mut events = ProcessEvents::new(Arc::clone(&kept), 0);
        let Some(ProcessEvent::Dropped { bytes }) = events.next().await else {
            panic!("nothing was dropped")
        };
        let mut read = bytes;
        while read < MAX_KEPT_BYTES + 5 {
            let Some(ProcessEvent::Output { offset, bytes, .. }) = events.next().await else {
                panic!("output is missing")
            };
            assert_eq!(offset, read);
            read += bytes.len() as u64;
        }
        assert!((5..=MAX_PIECE_BYTES as u64 + 5).contains(&bytes));
    }

    #[tokio::test]
    async fn a_reader_that_stops_holds_the_process_up_until_it_reads_or_goes() {
        let kept = Arc::new(ProcessOutput::default());
        let mut events = ProcessEvents::new(Arc::clone(&kept), 0);
        let mut written = 0;
        while kept.room() > 0 {
            let bytes = vec![b'x'; kept.room().min(64 << 10) as usize];
            kept.write(Stdout, &bytes);
            written += bytes.len() as u64;
        }
        assert_eq!(written, MAX_KEPT_BYTES);
        assert!(matches!(
            events.next().await,
            Some(ProcessEvent::Output { offset: 0, .. })
        ));
        assert!(kept.room() > 0);
        drop(events);
        assert_eq!(kept.room(), MAX_KEPT_BYTES);
    }

    #[tokio::test]
    async fn a_reader_in_the_middle_of_a_piece_loses_nothing_of_it() {
        let kept = Arc::new(ProcessOutput::default());
        let mut events = ProcessEvents::new(Arc::clone(&kept), 0);
        let (mut written, mut read) = (0, 0);
        while read < 8 * MAX_KEPT_BYTES {
            // A small piece is read, and then grows.
            for bytes in [1_000, MAX_KEPT_BYTES] {
                let bytes = vec![b'x'; kept.room().min(bytes) as usize];
                kept.write(Stdout, &bytes);
                written += bytes.len() as u64;
            }
            match events.next().await {
                Some(ProcessEvent::Output { offset, bytes, .. }) => {
                    assert_eq!(offset, read);
                    read += bytes.len() as u64;
                }
                other => panic!("{other:?} after {read} of {written} bytes"),
            }
        }
    }

    #[tokio::test]
    async fn single_bytes_by_turns_do_not_fill_the_host_s_memory() {
        let kept = Arc::new(ProcessOutput::default());
        let events = ProcessEvents::new(Arc::clone(&kept), 0);
        let mut turns = 0;
        while kept.room() > 0 && turns < 10 * MAX_PIECES {
            kept.write(if turns % 2 == 0 { Stdout } else { Stderr }, b"x");
            turns += 1;
        }
        assert_eq!(turns, MAX_PIECES);
        drop(events);
        kept.write(Stdout, b"x");
        kept.write(Stderr, b"x");
        assert_eq!(kept.lock().pieces.len(), MAX_PIECES);
    }
}
