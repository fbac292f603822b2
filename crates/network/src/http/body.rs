//! The body of a request, and not one byte more: what comes after it would be another request, which no rule was asked about.

use super::headers::Framing;
use std::io;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
};

/// The most digits of a chunk's size: what fits into 60 bits.
const MAX_SIZE_DIGITS: usize = 15;

/// Why a body was not passed on whole. The server must then see a broken connection, never a complete request.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// What the client sent is not a body as its head has it.
    Client(&'static str),
    /// The server does not read any more. It may have answered.
    Server,
}

/// Passes a body on. Returns how many bytes of it there were, frames not counted.
pub(crate) async fn pass(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    framing: Framing,
) -> Result<u64, BodyError> {
    let passed = match framing {
        Framing::NoBody => 0,
        Framing::Length(bytes) => {
            pass_exactly(from, to, bytes, Frames::None).await?;
            bytes
        }
        Framing::Chunked => pass_chunks(from, to).await?,
    };
    to.flush().await.map_err(|_| BodyError::Server)?;
    Ok(passed)
}

/// How the pieces of a body are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frames {
    None,
    Chunks,
}

async fn pass_exactly(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    bytes: u64,
    frames: Frames,
) -> Result<(), BodyError> {
    let mut left = bytes;
    while left > 0 {
        let piece = from.fill_buf().await.map_err(|_| ended())?;
        if piece.is_empty() {
            return Err(ended());
        }
        let size = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
        let writing = async {
            if frames == Frames::Chunks {
                to.write_all(format!("{size:x}\r\n").as_bytes()).await?;
            }
            to.write_all(&piece[..size]).await?;
            if frames == Frames::Chunks {
                to.write_all(b"\r\n").await?;
            }
            io::Result::Ok(())
        };
        writing.await.map_err(|_| BodyError::Server)?;
        from.consume(size);
        left -= size as u64;
    }
    Ok(())
}

/// Each chunk is written as chunks of our own, without what an extension or a trailer could carry.
async fn pass_chunks(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<u64, BodyError> {
    let mut passed = 0;
    loop {
        let size = read_size(from).await?;
        if size == 0 {
            // Headers after the body are not supported, so the empty line comes at once.
            read_line_end(from).await?;
            let writing = to.write_all(b"0\r\n\r\n");
            writing.await.map_err(|_| BodyError::Server)?;
            return Ok(passed);
        }
        pass_exactly(from, to, size, Frames::Chunks).await?;
        read_line_end(from).await?;
        passed += size;
    }
}

/// Hexadecimal digits and CR LF, and nothing else.
async fn read_size(from: &mut (impl AsyncBufRead + Unpin)) -> Result<u64, BodyError> {
    let mut line = Vec::new();
    let mut from = from.take(MAX_SIZE_DIGITS as u64 + 2);
    let reading = from.read_until(b'\n', &mut line).await;
    reading.map_err(|_| ended())?;
    let digits = line.strip_suffix(b"\r\n").unwrap_or_default();
    let is_hexadecimal = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_hexadecimal);
    digits
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or(BodyError::Client(
            "a chunk of its body does not begin with its size",
        ))
}

async fn read_line_end(from: &mut (impl AsyncBufRead + Unpin)) -> Result<(), BodyError> {
    let mut end = [0; 2];
    from.read_exact(&mut end).await.map_err(|_| ended())?;
    if end == *b"\r\n" {
        Ok(())
    } else {
        Err(BodyError::Client(
            "a chunk of its body does not end where it says",
        ))
    }
}

fn ended() -> BodyError {
    BodyError::Client("it ended in the middle of its body")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passed(text: &str, framing: Framing) -> (Result<u64, BodyError>, String, String) {
        let (mut from, mut to) = (text.as_bytes(), Vec::new());
        let outcome = pass(&mut from, &mut to, framing).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (outcome, text(&to), text(from))
    }

    #[tokio::test]
    async fn nothing_beyond_a_body_is_passed_on() {
        let (outcome, to, left) = passed("abcGET / HTTP/1.1", Framing::Length(3)).await;
        assert_eq!(
            (outcome.unwrap(), to.as_str(), left.as_str()),
            (3, "abc", "GET / HTTP/1.1")
        );
        let (outcome, to, left) = passed("GET / HTTP/1.1", Framing::NoBody).await;
        assert_eq!(
            (outcome.unwrap(), to.as_str(), left.as_str()),
            (0, "", "GET / HTTP/1.1")
        );
        let body = "003\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nGET";
        let (outcome, to, left) = passed(body, Framing::Chunked).await;
        assert_eq!(
            (outcome.unwrap(), to.as_str(), left.as_str()),
            (13, "3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n", "GET")
        );
    }

    #[tokio::test]
    async fn a_body_that_lies_about_its_length_never_gets_its_end() {
        for text in [
            "3\r\nab",
            "3\r\nabcd\r\n0\r\n\r\n",
            "-1\r\n",
            "x\r\n",
            "\r\n",
            "fffffffffffffffff\r\n",
            "3\nabc\n",
            "3;x=y\r\nabc\r\n0\r\n\r\n",
            "3\r\nabc\r\n0\r\nX: y\r\n\r\n",
            "3\r\nabc\r\n0\r\n",
        ] {
            let (outcome, to, _) = passed(text, Framing::Chunked).await;
            assert!(matches!(outcome, Err(BodyError::Client(_))), "{text:?}");
            assert!(!to.ends_with("0\r\n\r\n"), "{text:?}: {to:?}");
        }
        let (outcome, ..) = passed("ab", Framing::Length(3)).await;
        assert!(matches!(outcome, Err(BodyError::Client(_))));
    }
}
