//! The output of cells that are over, to be read by pages.

use crate::actor::capture::whole_characters;
use crate::{Error, NotFound};
use cellblock_protocol::Stream;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// How much of the past is kept: what matters is the last few cells.
const MAX_CELLS: usize = 1000;
const MAX_MEMORY_BYTES: u64 = 8 << 20;
const MAX_DISK_BYTES: u64 = 512 << 20;

/// Up to `end` (an offset in the combined text) the bytes are of this stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) stream: Stream,
    pub(crate) end: u64,
}

/// All that one cell wrote, as far as it was kept.
#[derive(Debug)]
pub(crate) struct Written {
    location: OutputLocation,
    length: u64,
    segments: Vec<Segment>,
}

#[derive(Debug)]
enum OutputLocation {
    Memory(Vec<u8>),
    File(PathBuf),
}

impl Written {
    pub(crate) fn in_memory(bytes: Vec<u8>, segments: Vec<Segment>) -> Written {
        Written {
            length: bytes.len() as u64,
            location: OutputLocation::Memory(bytes),
            segments,
        }
    }

    pub(crate) fn in_file(path: PathBuf, length: u64, segments: Vec<Segment>) -> Written {
        Written {
            location: OutputLocation::File(path),
            length,
            segments,
        }
    }

    /// At most `length` bytes of one stream from `offset` on, cut to whole characters.
    pub(crate) fn read(&self, stream: Stream, offset: u64, length: u64) -> io::Result<String> {
        let mut bytes = Vec::new();
        let (mut skip, mut left) = (offset, length);
        let mut start = 0;
        for segment in self.pieces(stream) {
            let end = segment.end.min(self.length);
            let size = end.saturating_sub(start);
            if segment.stream == stream && size > skip && left > 0 {
                let wanted = (size - skip).min(left);
                self.read_at(start + skip, wanted, &mut bytes)?;
                left -= wanted;
                skip = 0;
            } else if segment.stream == stream {
                skip = skip.saturating_sub(size);
            }
            start = segment.end;
        }
        // A page that ends in the middle of a character gives it to the next page, unless nothing would be left.
        let whole = match whole_characters(&bytes) {
            0 => bytes.len(),
            whole => whole,
        };
        Ok(String::from_utf8_lossy(&bytes[..whole]).into_owned())
    }

    fn pieces(&self, stream: Stream) -> Vec<Segment> {
        match stream {
            Stream::Output => vec![Segment {
                stream,
                end: self.length,
            }],
            _ => self.segments.clone(),
        }
    }

    fn read_at(&self, offset: u64, length: u64, into: &mut Vec<u8>) -> io::Result<()> {
        let old = into.len();
        match &self.location {
            OutputLocation::Memory(bytes) => {
                let from = usize::try_from(offset)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                let to = from
                    .saturating_add(usize::try_from(length).unwrap_or(usize::MAX))
                    .min(bytes.len());
                into.extend_from_slice(&bytes[from..to]);
                Ok(())
            }
            OutputLocation::File(path) => {
                into.resize(old + usize::try_from(length).unwrap_or(0), 0);
                File::open(path)?.read_exact_at(&mut into[old..], offset)
            }
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if let OutputLocation::File(path) = &self.location {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The outputs of a session's last cells, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    cells: VecDeque<(u64, Written)>,
    /// The bytes of those in memory.
    memory_bytes: u64,
    /// The bytes of those in files.
    disk_bytes: u64,
}

/// The longest page of `read_output`.
pub(crate) const MAX_PAGE_BYTES: u64 = 8 << 20;

impl Outputs {
    pub(crate) fn keep(&mut self, cell: u64, written: Written) {
        *self.used(&written) += written.length;
        self.cells.push_back((cell, written));
        while self.cells.len() > MAX_CELLS
            || self.memory_bytes > MAX_MEMORY_BYTES
            || self.disk_bytes > MAX_DISK_BYTES
        {
            // The newest stays, however large: it is the one that was just cut.
            if self.cells.len() == 1 {
                break;
            }
            if let Some((_, oldest)) = self.cells.pop_front() {
                *self.used(&oldest) -= oldest.length;
            }
        }
    }

    pub(crate) fn read(
        &self,
        cell: u64,
        stream: Stream,
        offset: u64,
        length: u64,
    ) -> Result<String, Error> {
        let found = self.cells.iter().find(|(number, _)| *number == cell);
        let (_, written) = found.ok_or(NotFound::Output { cell })?;
        written
            .read(stream, offset, length.min(MAX_PAGE_BYTES))
            .map_err(Error::system("reading the output of a cell"))
    }

    /// The count that this output belongs to.
    fn used(&mut self, written: &Written) -> &mut u64 {
        match written.location {
            OutputLocation::Memory(_) => &mut self.memory_bytes,
            OutputLocation::File(_) => &mut self.disk_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_of_the_last_outputs_are_kept_as_fit_however_many_came_before() {
        const BYTES: usize = 1 << 20;
        let mut outputs = Outputs::default();
        for cell in 1..=40 {
            let segments = vec![Segment {
                stream: Stream::Stdout,
                end: BYTES as u64,
            }];
            outputs.keep(cell, Written::in_memory(vec![b'x'; BYTES], segments));
        }
        let is_kept = |cell| outputs.read(cell, Stream::Stdout, 0, 10).is_ok();
        let kept: Vec<u64> = (1..=40).filter(|cell| is_kept(*cell)).collect();
        assert_eq!(kept, (33..=40).collect::<Vec<u64>>());
    }
}
