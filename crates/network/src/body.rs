//! The body of a request, and not one byte more: what comes after it would be another request, which nobody has looked at.

use crate::head::Length;
use std::io;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_buf,
};

/// The longest line between chunks.
const LONGEST_LINE: u64 = 8 << 10;

/// Hands on a body of this length. Returns how many bytes it was.
pub(crate) async fn pass(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    length: Length,
) -> io::Result<u64> {
    match length {
        Length::Bytes(bytes) => exactly(from, to, bytes).await,
        Length::Chunks => chunks(from, to).await,
    }
}

async fn exactly(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    bytes: u64,
) -> io::Result<u64> {
    let passed = copy_buf(&mut from.take(bytes), to).await?;
    if passed < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(passed)
}

async fn chunks(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<u64> {
    let mut passed = 0;
    loop {
        let line = line(from).await?;
        to.write_all(line.as_bytes()).await?;
        let size = line.trim_end().split(';').next().unwrap_or_default().trim();
        if size.is_empty() || size.len() > 16 || !size.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
        if size == 0 {
            break;
        }
        passed += exactly(from, to, size).await?;
        if exact_line_end(from).await? {
            to.write_all(b"\r\n").await?;
        }
    }
    // What may follow the last chunk ends with an empty line.
    loop {
        let line = line(from).await?;
        to.write_all(line.as_bytes()).await?;
        if line == "\r\n" {
            return Ok(passed);
        }
    }
}

async fn line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut line = String::new();
    from.take(LONGEST_LINE).read_line(&mut line).await?;
    if line.ends_with("\r\n") {
        Ok(line)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

async fn exact_line_end(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<bool> {
    let mut end = [0; 2];
    from.read_exact(&mut end).await?;
    if end == *b"\r\n" {
        Ok(true)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passed(text: &str, length: Length) -> (io::Result<u64>, String, String) {
        let (mut from, mut to) = (text.as_bytes(), Vec::new());
        let outcome = pass(&mut from, &mut to, length).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (outcome, text(&to), text(from))
    }

    #[tokio::test]
    async fn nothing_beyond_a_body_is_passed_on() {
        let (outcome, to, left) = passed("abcGET / HTTP/1.1", Length::Bytes(3)).await;
        assert_eq!(
            (outcome.unwrap(), to.as_str(), left.as_str()),
            (3, "abc", "GET / HTTP/1.1")
        );
        let body = "3;x=y\r\nabc\r\n0\r\nTrailer: 1\r\n\r\n";
        let (outcome, to, left) = passed(&format!("{body}GET"), Length::Chunks).await;
        assert_eq!(
            (outcome.unwrap(), to.as_str(), left.as_str()),
            (3, body, "GET")
        );
    }

    #[tokio::test]
    async fn a_body_that_lies_about_its_length_is_not_passed_on() {
        for text in [
            "3\r\nab",
            "3\r\nabcd\r\n0\r\n\r\n",
            "-1\r\n",
            "x\r\n",
            "\r\n",
            "fffffffffffffffff\r\n",
            "3\nabc\n",
        ] {
            assert!(passed(text, Length::Chunks).await.0.is_err(), "{text:?}");
        }
        assert!(passed("ab", Length::Bytes(3)).await.0.is_err());
    }
}
