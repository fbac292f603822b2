//! A file of a workspace on its way out of the pipe: read piece by piece, so that the host's memory does not grow with it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};

/// The most bytes of a file that one answer holds.
const MAX_BYTES: u64 = 1 << 30;
/// How much is read at a time. A multiple of three, so that each piece is whole in base64.
const PIECE: usize = 48 << 10;

/// A part of a file.
#[derive(Debug)]
pub(crate) struct FilePart {
    file: File,
    length: u64,
}

impl FilePart {
    /// The part from `offset` on; without a length, up to the end.
    pub(crate) fn new(mut file: File, offset: u64, length: Option<u64>) -> io::Result<FilePart> {
        let left = file.metadata()?.len().saturating_sub(offset);
        if length.is_none() && left > MAX_BYTES {
            return Err(io::Error::other(format!(
                "it has {left} bytes, and at most {MAX_BYTES} are read at once; read it in parts, with `offset` and `length`"
            )));
        }
        file.seek(SeekFrom::Start(offset))?;
        let length = length.unwrap_or(MAX_BYTES).min(MAX_BYTES);
        Ok(FilePart { file, length })
    }

    /// Writes it as base64. Returns how many bytes it was, and what was wrong if it could not be read to its end.
    pub(crate) fn write_to(self, out: &mut impl Write) -> io::Result<(u64, Option<io::Error>)> {
        let mut rest = self.file.take(self.length);
        let mut piece = vec![0; PIECE];
        let mut text = String::new();
        let mut size = 0;
        loop {
            let (filled, problem) = fill(&mut rest, &mut piece);
            text.clear();
            STANDARD.encode_string(&piece[..filled], &mut text);
            out.write_all(text.as_bytes())?;
            size += filled as u64;
            if filled < PIECE {
                return Ok((size, problem));
            }
        }
    }
}

/// Reads until the piece is full or there is no more.
fn fill(file: &mut impl Read, piece: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut filled = 0;
    while filled < piece.len() {
        match file.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(error)),
        }
    }
    (filled, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_in_pieces() {
        let contents: Vec<u8> = (0..=255).cycle().take(3 * PIECE + 100).collect();
        for (offset, length) in [(0, None), (7, None), (0, Some(PIECE)), (5, Some(PIECE + 1))] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&contents).unwrap();
            let part = FilePart::new(file, offset as u64, length.map(|length| length as u64));
            let mut out = Vec::new();
            let (size, problem) = part.unwrap().write_to(&mut out).unwrap();
            let end = length.map_or(contents.len(), |length| offset + length);
            assert_eq!(out, STANDARD.encode(&contents[offset..end]).as_bytes());
            assert_eq!((size as usize, problem.is_none()), (end - offset, true));
        }
    }

    #[test]
    fn what_is_too_large_for_one_answer_is_refused_as_a_whole() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MAX_BYTES + 1).unwrap();
        let whole = FilePart::new(file.try_clone().unwrap(), 0, None);
        let message = whole.unwrap_err().to_string();
        assert!(message.ends_with("with `offset` and `length`"), "{message}");
        let part = FilePart::new(file, MAX_BYTES, None).unwrap();
        assert_eq!(part.write_to(&mut Vec::new()).unwrap().0, 1);
    }
}
