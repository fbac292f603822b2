//! Frames on a stream of bytes: a little-endian `u32` length, then that many bytes.

use bytes::{Buf, Bytes, BytesMut};

/// The largest frame that the host takes from a guest.
pub const MAX_FRAME_FROM_HEAD: usize = 32 << 20;

/// The largest frame that the host sends to a guest. The largest cell fits, unless most of it is control
/// characters, which JSON writes six times as long.
pub const MAX_FRAME_TO_HEAD: usize = 64 << 20;

/// Puts the length in front of a body: little-endian `u32`, then the bytes.
pub fn encode(body: &[u8], max: usize) -> Result<Vec<u8>, CodecError> {
    let length = checked_length(body.len(), max)?;
    let mut frame = Vec::with_capacity(HEADER + body.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(body);
    Ok(frame)
}

/// Cuts a stream of bytes into frames, whatever the pieces it comes in.
///
/// The other end may be hostile, so a length is a claim: it is checked against the maximum as soon as
/// it is there, and memory is taken only for bytes that really came.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: BytesMut,
    max: usize,
    broken: Option<CodecError>,
}

impl FrameDecoder {
    /// A decoder that refuses frames of more than `max` bytes.
    pub fn new(max: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            max,
            broken: None,
        }
    }

    /// Adds bytes as they came. Take the frames out with [`next_frame`](Self::next_frame) before feeding more.
    pub fn feed(&mut self, bytes: &[u8]) {
        // After an error there is no way to find the next frame, so nothing more is collected.
        if self.broken.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The body of the next frame; `None` when more bytes are needed. An error is final.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, CodecError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let Some(header) = self.buffer.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*header) as usize;
        if let Err(error) = checked_length(length, self.max) {
            self.buffer = BytesMut::new();
            self.broken = Some(error.clone());
            return Err(error);
        }
        if self.buffer.len() - HEADER < length {
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// How many bytes wait for the rest of their frame. Not 0 at the end of the stream means that it was cut off.
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }
}

/// Why bytes are no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// No message is empty, so this is noise.
    #[error("a frame of 0 bytes")]
    Empty,
    /// Larger than agreed.
    #[error("a frame of {length} bytes, where at most {max} are allowed")]
    TooLong {
        /// The length that was announced.
        length: usize,
        /// The largest allowed.
        max: usize,
    },
}

const HEADER: usize = 4;

fn checked_length(length: usize, max: usize) -> Result<u32, CodecError> {
    if length == 0 {
        return Err(CodecError::Empty);
    }
    match u32::try_from(length) {
        Ok(fits) if length <= max => Ok(fits),
        _ => Err(CodecError::TooLong { length, max }),
    }
}
